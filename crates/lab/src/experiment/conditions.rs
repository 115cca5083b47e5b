//! Under what conditions stored runs were measured, and which of these are not the same in two records.
//!
//! Runs of one session share them by construction. Stored runs of two sessions need not: the difference
//! between a closed loop and a rate, between 4 and 32 clients or between two scripts is larger than what
//! any patch does, and a comparison across it says nothing about the arms.

use super::document::{Arrival, CacheState, Difference, Protocol, Run, SessionDocument};

/// Begins [`Difference::what`] of a condition.
pub const PREFIX: &str = "condition ";

/// Lengths of imported runs follow from their first and last transaction, so they are never quite equal.
const IMPORTED_DURATION_RATIO_MAX: f64 = 0.05;

/// All conditions in which `right` differs from `left`, declared where `allowed` names them. What an imported
/// log does not tell is not known to differ.
#[must_use]
pub fn between(
    left: &SessionDocument,
    right: &SessionDocument,
    allowed: &[String],
) -> Vec<Difference> {
    let (a, b) = (&left.protocol, &right.protocol);
    let is_imported = is_imported(left) || is_imported(right);
    let mut found = Vec::new();
    let mut say = |what: &str, differs: bool, of: &dyn Fn(&Protocol) -> Option<String>| {
        if differs {
            found.push(difference(what, of(a), of(b), allowed));
        }
    };
    say("arrival", !same_arrival(left, right), &|it| Some(arrival(it.arrival)));
    say("duration", !same_duration(left, right, is_imported), &|it| Some(seconds(it.duration_ns)));
    let knows_clients = has_single_transactions(left) && has_single_transactions(right);
    say("clients", knows_clients && a.clients != b.clients, &|it| Some(it.clients.to_string()));
    say("scripts", !same_scripts(a, b), &|it| Some(scripts(it)));
    let differs = |left: Option<u64>, right: Option<u64>| {
        left != right && !(is_imported && (left.is_none() || right.is_none()))
    };
    say("scale", differs(a.scale, b.scale), &|it| it.scale.map(|scale| scale.to_string()));
    if is_imported {
        return found;
    }
    let (here, there) = (machine(left), machine(right));
    if here != there {
        found.push(difference("machine", Some(here), Some(there), allowed));
    }
    let mut say = |what: &str, differs: bool, of: &dyn Fn(&Protocol) -> Option<String>| {
        if differs {
            found.push(difference(what, of(a), of(b), allowed));
        }
    };
    let percent = |it: &Protocol| it.fillfactor.map(u64::from);
    say("fillfactor", percent(a) != percent(b), &|it| it.fillfactor.map(|it| it.to_string()));
    say("threads", a.threads != b.threads, &|it| Some(it.threads.to_string()));
    say("query_mode", a.query_mode != b.query_mode, &|it| {
        Some(format!("{:?}", it.query_mode).to_lowercase())
    });
    say("cache", a.cache_state != b.cache_state, &|it| Some(cache(it.cache_state)));
    say("latency_limit", a.latency_limit_ns != b.latency_limit_ns, &|it| {
        it.latency_limit_ns.map(seconds)
    });
    say("max_tries", a.max_tries != b.max_tries, &|it| Some(it.max_tries.to_string()));
    found
}

fn difference(
    what: &str,
    baseline: Option<String>,
    other: Option<String>,
    allowed: &[String],
) -> Difference {
    let is_declared = allowed.iter().any(|name| name == what);
    Difference { arm: 1, what: format!("{PREFIX}{what}"), baseline, other, is_declared }
}

/// What makes one machine another: kernels are updated, and memory is reported to the page.
fn machine(document: &SessionDocument) -> String {
    let machine = &document.machine;
    let cpus = machine.cpu_count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let memory = machine.memory_bytes.map_or_else(
        || "?".to_owned(),
        |bytes| format!("{:.0}", bytes as f64 / f64::from(1 << 30)),
    );
    format!("{cpus} x {}, {memory} GiB", machine.cpu.as_deref().unwrap_or("unknown processor"))
}

fn is_imported(document: &SessionDocument) -> bool {
    document.arms.first().is_some_and(|arm| arm.kind == "imported")
}

/// Whether the record was made from single transactions: aggregate logs do not name their clients.
fn has_single_transactions(document: &SessionDocument) -> bool {
    complete(document).any(|run| !run.response.percentiles.is_empty())
}

fn complete(document: &SessionDocument) -> impl Iterator<Item = &Run> {
    document.runs.iter().filter(|run| run.arm == 0 && run.incomplete.is_none())
}

fn same_arrival(left: &SessionDocument, right: &SessionDocument) -> bool {
    use Arrival::{Closed, Constant, Poisson};
    let (a, b) = match (left.protocol.arrival, right.protocol.arrival) {
        (Closed, Closed) => return true,
        (Poisson { rate_per_s: a }, Poisson { rate_per_s: b })
        | (Constant { rate_per_s: a }, Constant { rate_per_s: b }) => (a, b),
        _ => return false,
    };
    // The rate of a log is what it counted: random arrivals, so within three deviations of that count.
    let by_chance = [left, right]
        .into_iter()
        .filter(|document| is_imported(document))
        .map(|document| {
            let planned: u64 =
                complete(document).map(|run| run.counts.planned).fold(0, u64::saturating_add);
            3.0 / (planned.max(1) as f64).sqrt()
        })
        .fold(1e-9, f64::max);
    let apart = b.ln() - a.ln();
    a > 0.0 && b > 0.0 && apart.abs() <= by_chance.min(0.1)
}

fn same_duration(left: &SessionDocument, right: &SessionDocument, is_imported: bool) -> bool {
    let (a, b) = (left.protocol.duration_ns, right.protocol.duration_ns);
    if !is_imported {
        return a == b;
    }
    // Runs of a given number of transactions take as long as they take.
    let mut planned = complete(left).chain(complete(right)).map(|run| run.counts.planned);
    let first = planned.next();
    if planned.all(|count| Some(count) == first) {
        return true;
    }
    let (a, b) = (a as f64, b as f64);
    (a - b).abs() <= IMPORTED_DURATION_RATIO_MAX * a.max(b)
}

/// Whether the same texts run with the same weights. Imported logs have no texts, and then only their
/// number is known.
fn same_scripts(a: &Protocol, b: &Protocol) -> bool {
    let has_texts = [a, b].iter().all(|it| it.scripts.iter().all(|use_| !use_.sha256.is_empty()));
    if !has_texts {
        return a.scripts.len() == b.scripts.len();
    }
    let total = |it: &Protocol| it.scripts.iter().map(|use_| u64::from(use_.weight)).sum::<u64>();
    let (total_a, total_b) = (u128::from(total(a)), u128::from(total(b)));
    a.scripts.len() == b.scripts.len()
        && a.scripts.iter().zip(&b.scripts).all(|(a, b)| {
            a.sha256 == b.sha256 && u128::from(a.weight) * total_b == u128::from(b.weight) * total_a
        })
}

fn arrival(arrival: Arrival) -> String {
    match arrival {
        Arrival::Closed => "closed loop".to_owned(),
        Arrival::Poisson { rate_per_s } => format!("poisson at {rate_per_s:.6} per second"),
        Arrival::Constant { rate_per_s } => format!("constant at {rate_per_s:.6} per second"),
    }
}

fn cache(state: CacheState) -> String {
    match state {
        CacheState::Cold => "cold".to_owned(),
        CacheState::CarriedOver => "carried over".to_owned(),
        CacheState::Warmed { duration_ns } => format!("warmed for {}", seconds(duration_ns)),
    }
}

fn scripts(protocol: &Protocol) -> String {
    let listed: Vec<String> = protocol
        .scripts
        .iter()
        .map(|it| {
            let digest: String = it.sha256.chars().take(8).collect();
            let shown = if digest.is_empty() { String::new() } else { format!(" ({digest})") };
            format!("{}@{}{shown}", it.name, it.weight)
        })
        .collect();
    listed.join(", ")
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::document::ScriptUse;
    use crate::statistics::tests::session;
    use crate::target::QueryMode;

    type Change = fn(&mut SessionDocument);

    #[test]
    fn every_condition_that_differs_is_named() {
        let changes: [(&str, Change); 13] = [
            ("machine", |it| it.machine.cpu_count = Some(64)),
            ("arrival", |it| it.protocol.arrival = Arrival::Poisson { rate_per_s: 100.0 }),
            ("duration", |it| it.protocol.duration_ns *= 2),
            ("clients", |it| it.protocol.clients += 1),
            ("scripts", |it| it.protocol.scripts.push(ScriptUse::of("x", 1, "select 1"))),
            ("scripts", |it| it.protocol.scripts = vec![ScriptUse::of("y", 1, "select 2")]),
            ("scale", |it| it.protocol.scale = Some(77)),
            ("fillfactor", |it| it.protocol.fillfactor = Some(50)),
            ("threads", |it| it.protocol.threads += 1),
            ("query_mode", |it| it.protocol.query_mode = QueryMode::Extended),
            ("cache", |it| it.protocol.cache_state = CacheState::Cold),
            ("latency_limit", |it| it.protocol.latency_limit_ns = Some(1)),
            ("max_tries", |it| it.protocol.max_tries += 1),
        ];
        let mut plain = session(2);
        plain.protocol.arrival = Arrival::Closed;
        plain.protocol.cache_state = CacheState::CarriedOver;
        plain.protocol.query_mode = QueryMode::Simple;
        plain.protocol.scripts = vec![ScriptUse::of("x", 1, "select 1")];
        assert!(between(&plain, &plain, &[]).is_empty());
        for (what, change) in changes {
            let mut other = plain.clone();
            change(&mut other);
            for (left, right) in [(&plain, &other), (&other, &plain)] {
                let found = between(left, right, &[]);
                assert_eq!(found.len(), 1, "{what}: {found:?}");
                assert_eq!(found[0].what, format!("{PREFIX}{what}"));
                assert!(!found[0].is_declared && found[0].baseline != found[0].other);
                let found = between(left, right, &[what.to_owned()]);
                assert!(found.iter().all(|it| it.is_declared), "{found:?}");
            }
        }
    }

    #[test]
    fn equal_mixes_written_with_other_weights_are_the_same_work() {
        let mut left = session(2);
        left.protocol.scripts =
            vec![ScriptUse::of("x", 1, "select 1"), ScriptUse::of("y", 3, "select 2")];
        let mut right = left.clone();
        right.protocol.scripts[0].weight = 10;
        right.protocol.scripts[1].weight = 30;
        assert!(between(&left, &right, &[]).is_empty());
        right.protocol.scripts[1].weight = 31;
        assert_eq!(between(&left, &right, &[])[0].what, "condition scripts");
    }

    #[test]
    fn an_estimated_rate_may_differ_by_chance_and_a_stated_one_may_not() {
        let at = |rate_per_s: f64, kind: &str| {
            let mut document = session(2);
            document.protocol.arrival = Arrival::Poisson { rate_per_s };
            document.arms[0].kind = kind.to_owned();
            for run in &mut document.runs {
                run.counts.planned = 45_000;
            }
            document
        };
        assert!(between(&at(100.0, "imported"), &at(100.9, "imported"), &[]).is_empty());
        assert!(!between(&at(100.0, "imported"), &at(103.0, "imported"), &[]).is_empty());
        assert!(!between(&at(100.0, "managed"), &at(100.9, "managed"), &[]).is_empty());
        assert!(!between(&at(f64::NAN, "managed"), &at(100.0, "managed"), &[]).is_empty());
    }
}
