//! Validity gates: conditions without which a session carries no verdict. Each says what it saw.

use super::compare::pairs;
use super::finite::{Percent, total};
use super::verdict::inconclusive;
use super::{host, overload, steady};
use crate::experiment::conditions;
use crate::experiment::document::{
    Arrival, Counts, Gate, GateStatus, Run, SessionDocument, Verdict, VerdictKind,
};

/// The driver's own lateness, as a share of the median response, from which it is at fault.
const DRIVER_LAG_SHARE_MAX: f64 = 0.1;
/// Lateness that no clock or scheduler of an ordinary machine avoids.
const DRIVER_LAG_FLOOR_NS: f64 = 200_000.0;
/// Share of failed transactions above which a run says nothing about the others.
const FAILED_RATIO_MAX: f64 = 0.05;
/// Difference of that share between arms that is not alike any more.
const FAILED_RATIO_DIFFERENCE_MAX: f64 = 0.01;
/// Largest step of the wall clock against the monotonic clock.
const CLOCK_JUMP_MAX_NS: u64 = 1_000_000;
/// Free space below which a file system behaves otherwise.
const DISK_FREE_MIN_BYTES: u64 = 256 << 20;
/// Transactions below which there is nothing to judge.
const TRANSACTIONS_MIN: u64 = 100;
/// Difference between clients and throughput x service time that a closed loop may show.
const LITTLE_RATIO_MAX: f64 = 0.02;
/// Driver threads busier than this may be late themselves.
const DRIVER_BUSY_MAX: f64 = 0.8;

/// All gates over the complete runs of the session.
#[must_use]
pub fn all(document: &SessionDocument) -> Vec<Gate> {
    let runs: Vec<&Run> = document.runs.iter().filter(|run| run.incomplete.is_none()).collect();
    let [rate, backlog, overload] = overload::gates(document, &runs);
    vec![
        enough(document, &runs),
        rate,
        backlog,
        overload,
        driver_lag(document, &runs),
        driver_busy(&runs),
        errors(document, &runs),
        clients(&runs),
        clock(&runs),
        conditions(document),
        settings(document),
        data(&runs),
        steady::gate(document, &runs),
        checkpoint_cycles(document, &runs),
        keys(&runs),
        identity(document, &runs),
        restart(&runs),
        disk(&runs),
        host::gate(document, &runs),
        thermal(document, &runs),
        little(document, &runs),
    ]
}

pub(super) fn gate(name: &str, status: GateStatus, text: impl Into<String>) -> Gate {
    Gate { name: name.to_owned(), status, text: text.into() }
}

/// Passed or failed by `holds`.
fn decided(name: &str, holds: bool, text: impl Into<String>) -> Gate {
    gate(name, if holds { GateStatus::Passed } else { GateStatus::Failed }, text)
}

pub(super) fn not_applicable(name: &str, why: &str) -> Gate {
    gate(name, GateStatus::NotApplicable, why)
}

pub(super) fn run_name(document: &SessionDocument, run: &Run) -> String {
    let arm = document.arms.get(run.arm as usize).map_or("?", |arm| arm.name.as_str());
    format!("run {} ({arm})", run.index + 1)
}

fn enough(document: &SessionDocument, runs: &[&Run]) -> Gate {
    if document.arms.len() > 1 && pairs(document, 0, 1).is_empty() {
        let text = match runs.len() {
            0 => "no run is complete".to_owned(),
            count => format!("no pair is complete ({count} runs without a partner)"),
        };
        return gate("enough", GateStatus::Failed, text);
    }
    let Some(least) = runs.iter().map(|run| run.counts.committed).min() else {
        return gate("enough", GateStatus::Failed, "no run is complete");
    };
    let text = format!("at least {least} transactions in each run");
    if least >= TRANSACTIONS_MIN {
        gate("enough", GateStatus::Passed, text)
    } else {
        let text =
            format!("a run holds {least} transactions: too short (at least {TRANSACTIONS_MIN})");
        gate("enough", GateStatus::Failed, text)
    }
}

fn driver_lag(document: &SessionDocument, runs: &[&Run]) -> Gate {
    if document.protocol.arrival == Arrival::Closed {
        return not_applicable("driver_lag", "closed loop: nothing is scheduled");
    }
    let worst = runs
        .iter()
        .filter_map(|run| {
            let lag = run.driver_lag_p99_ns? as f64;
            let p50 = super::measure::percentile_of(&run.response, 0.5)?.value_ns as f64;
            Some((lag, lag / (p50 * DRIVER_LAG_SHARE_MAX).max(DRIVER_LAG_FLOOR_NS), *run))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((lag, share, run)) = worst else {
        return not_applicable("driver_lag", "no client was free when its time came");
    };
    let text = format!("p99 {:.3} ms in {}", lag / 1e6, run_name(document, run));
    if share <= 1.0 {
        gate("driver_lag", GateStatus::Passed, text)
    } else if share <= 5.0 {
        gate("driver_lag", GateStatus::Warned, format!("{text}: the load generator itself is late"))
    } else {
        gate("driver_lag", GateStatus::Failed, format!("{text}: the load generator itself is late"))
    }
}

fn driver_busy(runs: &[&Run]) -> Gate {
    let busiest = runs.iter().filter_map(|run| share_of(run.driver_busy_ratio)).fold(None, max_of);
    match busiest {
        None => not_applicable("driver_busy", "the driver's use of its threads is not known"),
        Some(ratio) if ratio <= DRIVER_BUSY_MAX => gate(
            "driver_busy",
            GateStatus::Passed,
            format!("driver threads {:.0} busy", Percent(ratio)),
        ),
        Some(ratio) => gate(
            "driver_busy",
            GateStatus::Warned,
            format!("driver threads {:.0} busy: use more threads (-j)", Percent(ratio)),
        ),
    }
}

/// What a record holds for a share or a number of CPUs, where it can be one.
pub(super) fn share_of(value: Option<f64>) -> Option<f64> {
    value.filter(|value| (0.0..1e6).contains(value))
}

fn max_of(most: Option<f64>, value: f64) -> Option<f64> {
    Some(most.map_or(value, |most| most.max(value)))
}

pub(super) fn failed(counts: &Counts) -> u64 {
    total([counts.serialization_failures, counts.deadlocks, counts.other_errors])
}

fn failed_ratio(runs: &[&Run]) -> f64 {
    let failures = total(runs.iter().map(|run| failed(&run.counts)));
    let all = total(runs.iter().map(|run| run.counts.committed)).saturating_add(failures);
    if all == 0 { 0.0 } else { failures as f64 / all as f64 }
}

fn errors(document: &SessionDocument, runs: &[&Run]) -> Gate {
    let shares: Vec<f64> = (0..document.arms.len())
        .map(|arm| {
            let own: Vec<&Run> =
                runs.iter().copied().filter(|run| run.arm as usize == arm).collect();
            failed_ratio(&own)
        })
        .collect();
    let most = shares.iter().copied().fold(0.0, f64::max);
    let least = shares.iter().copied().fold(1.0, f64::min);
    let listed: Vec<String> =
        shares.iter().map(|share| format!("{:.2}", Percent(*share))).collect();
    let text = format!("failed transactions by arm: {}", listed.join(", "));
    if most > FAILED_RATIO_MAX {
        return gate("errors", GateStatus::Failed, format!("{text}: too many to judge the others"));
    }
    decided("errors", most - least <= FAILED_RATIO_DIFFERENCE_MAX, text)
}

fn clients(runs: &[&Run]) -> Gate {
    let lost = total(runs.iter().map(|run| run.counts.aborted_clients));
    let text = if lost == 0 {
        "no client was lost".to_owned()
    } else {
        format!("{lost} clients were lost")
    };
    decided("clients", lost == 0, text)
}

fn clock(runs: &[&Run]) -> Gate {
    let known: Vec<u64> = runs.iter().filter_map(|run| run.clock_jump_ns).collect();
    match known.iter().max() {
        None => not_applicable("clock", "the clock was not watched"),
        Some(jump) => {
            let text = format!("largest step {:.3} ms", *jump as f64 / 1e6);
            // Slewing moves the wall clock by up to 0.5 ms a second, within the monotonic clock's right.
            decided("clock", *jump <= CLOCK_JUMP_MAX_NS, text)
        }
    }
}

/// Voids what was concluded, for a reason that lies in the record as a whole. Where nothing was concluded,
/// the record is marked incomplete for it.
pub fn void(document: &mut SessionDocument, name: &str, reason: &str) {
    let Some(analysis) = &mut document.analysis else {
        document.incomplete = Some(reason.to_owned());
        return;
    };
    analysis.gates.insert(0, gate(name, GateStatus::Failed, reason));
    for comparison in std::iter::once(&mut analysis.comparison).chain(&mut analysis.further) {
        comparison.verdict = Verdict {
            kind: VerdictKind::Invalid,
            ..inconclusive(vec![format!("{name}: {reason}")], None)
        };
    }
}

/// Stored runs of other conditions are not compared: those differ by more than any patch.
fn conditions(document: &SessionDocument) -> Gate {
    let differing: Vec<String> = document
        .differences
        .iter()
        .filter(|difference| !difference.is_declared)
        .filter_map(|difference| {
            let what = difference.what.strip_prefix(conditions::PREFIX)?;
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
            let (left, right) = (shown(&difference.baseline), shown(&difference.other));
            Some(format!("{what} ({left} against {right})"))
        })
        .collect();
    if differing.is_empty() {
        return gate("conditions", GateStatus::Passed, "all runs were measured alike, as declared");
    }
    let text = format!("not measured alike: {}", differing.join(", "));
    gate("conditions", GateStatus::Failed, text)
}

fn settings(document: &SessionDocument) -> Gate {
    let undeclared: Vec<&str> = document
        .differences
        .iter()
        .filter(|difference| !difference.is_declared)
        .map(|difference| difference.what.as_str())
        .filter(|what| !what.starts_with(conditions::PREFIX))
        .collect();
    if document.arms.iter().all(|arm| arm.captured_settings.is_empty()) {
        return not_applicable("settings", "the arms have no settings that were captured");
    }
    if undeclared.is_empty() {
        gate("settings", GateStatus::Passed, "nothing differs but what was declared")
    } else {
        let text = format!("differs and was not declared: {}", undeclared.join(", "));
        gate("settings", GateStatus::Failed, text)
    }
}

fn data(runs: &[&Run]) -> Gate {
    let hashes: Vec<&str> = runs.iter().filter_map(|run| run.data_hash.as_deref()).collect();
    let Some(first) = hashes.first() else {
        return not_applicable("data", "the data are not ours to restore");
    };
    // Arms of different major versions have files of their own; then each arm is alike in itself.
    let mut by_arm: Vec<(u32, &str)> =
        runs.iter().filter_map(|run| Some((run.arm, run.data_hash.as_deref()?))).collect();
    by_arm.sort_unstable();
    by_arm.dedup();
    let arms = runs.iter().map(|run| run.arm).collect::<std::collections::BTreeSet<_>>().len();
    if hashes.len() == runs.len() && hashes.iter().all(|hash| hash == first) {
        let short: String = first.chars().take(12).collect();
        return gate(
            "data",
            GateStatus::Passed,
            format!("the same data before each run ({short})"),
        );
    }
    if by_arm.len() <= arms && hashes.len() == runs.len() {
        return gate("data", GateStatus::Passed, "the same data before each run of an arm");
    }
    if hashes.len() == runs.len() && is_loaded_anew_between_blocks(runs) {
        return gate(
            "data",
            GateStatus::Passed,
            "the same data before each run of a block; loaded anew for an extension",
        );
    }
    gate("data", GateStatus::Failed, "data before the runs were not the same")
}

/// Whether the data of all arms were replaced between two blocks, as an extension does, and never
/// those of one arm alone, nor within a block.
fn is_loaded_anew_between_blocks(runs: &[&Run]) -> bool {
    type Hashes<'a> = std::collections::BTreeMap<u32, &'a str>;
    let mut blocks = std::collections::BTreeMap::<u32, Hashes<'_>>::new();
    for run in runs {
        let Some(hash) = run.data_hash.as_deref() else { return false };
        let of_block = blocks.entry(run.block).or_default();
        if of_block.insert(run.arm, hash).is_some_and(|earlier| earlier != hash) {
            return false;
        }
    }
    let distinct =
        |hashes: &Hashes<'_>| hashes.values().collect::<std::collections::BTreeSet<_>>().len();
    let in_order: Vec<&Hashes<'_>> = blocks.values().collect();
    in_order.windows(2).all(|two| {
        let [before, after] = two else { return true };
        let common = || after.iter().filter_map(|(arm, hash)| Some((before.get(arm)?, hash)));
        // Arms that shared their data share them still.
        (common().all(|(then, now)| then == now) || common().all(|(then, now)| then != now))
            && (before.len() != after.len() || distinct(before) == distinct(after))
    })
}

fn cycles(run: &Run) -> usize {
    let end_ns = i64::try_from(run.duration_ns).unwrap_or(i64::MAX);
    run.events
        .iter()
        .filter(|e| e.kind == "checkpoint" && e.start_ns >= 0 && e.start_ns < end_ns)
        .count()
}

fn checkpoint_cycles(document: &SessionDocument, runs: &[&Run]) -> Gate {
    if document.arms.iter().all(|arm| arm.kind != "managed") {
        return not_applicable("checkpoint_cycles", "the servers' logs are not ours to read");
    }
    let counts: Vec<usize> = runs.iter().map(|run| cycles(run)).collect();
    let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
        return not_applicable("checkpoint_cycles", "no run is complete");
    };
    if *most == 0 {
        return gate(
            "checkpoint_cycles",
            GateStatus::Warned,
            "no checkpoint began within the runs: nothing is said about checkpoints",
        );
    }
    let text = format!("{least} to {most} checkpoints began within a run");
    if most - least <= 1 {
        gate("checkpoint_cycles", GateStatus::Passed, text)
    } else {
        let text =
            format!("{text}: runs are not alike; make the duration a whole number of cycles");
        gate("checkpoint_cycles", GateStatus::Warned, text)
    }
}

fn keys(runs: &[&Run]) -> Gate {
    let audits: Vec<_> = runs.iter().flat_map(|run| &run.key_audits).collect();
    if audits.is_empty() {
        return not_applicable("keys", "the scripts draw no keys");
    }
    match audits.iter().find(|audit| !audit.is_passed) {
        None => gate("keys", GateStatus::Passed, "keys were drawn as their distributions promise"),
        Some(audit) => gate(
            "keys",
            GateStatus::Failed,
            format!("{}: draws do not follow {}", audit.source, audit.distribution),
        ),
    }
}

fn identity(document: &SessionDocument, runs: &[&Run]) -> Gate {
    for run in runs {
        let arm = document.arms.get(run.arm as usize);
        if let (Some(expected), Some(seen)) =
            (arm.and_then(|arm| arm.server_version.as_ref()), run.server_version.as_ref())
            && expected != seen
        {
            let text =
                format!("{}: the server is '{seen}', not '{expected}'", run_name(document, run));
            return gate("identity", GateStatus::Failed, text);
        }
    }
    if runs.iter().all(|run| run.server_version.is_none()) {
        return not_applicable("identity", "the servers did not say who they are");
    }
    gate("identity", GateStatus::Passed, "each run met the server its arm names")
}

fn restart(runs: &[&Run]) -> Gate {
    let restarted = runs.iter().filter(|run| run.server_restarted).count();
    let text = match restarted {
        0 => "no server restarted within a run".to_owned(),
        count => format!("the server restarted within {count} runs"),
    };
    decided("restart", restarted == 0, text)
}

fn disk(runs: &[&Run]) -> Gate {
    match runs.iter().filter_map(|run| run.host.disk_free_bytes_min).min() {
        None => not_applicable("disk", "the data's disk is not ours to look at"),
        Some(free) => {
            let text = format!("at least {:.1} GB free", free as f64 / 1e9);
            decided("disk", free >= DISK_FREE_MIN_BYTES, text)
        }
    }
}

/// Heat slows one run and not another, at the worst one arm's; a count is the only sign of it.
fn thermal(document: &SessionDocument, runs: &[&Run]) -> Gate {
    let counted: Vec<(u64, &Run)> =
        runs.iter().filter_map(|run| Some((run.host.thermal_throttles?, *run))).collect();
    let Some((most, run)) = counted.iter().max_by_key(|(count, _)| *count) else {
        return not_applicable("thermal", "the processors do not count when heat slows them down");
    };
    if *most == 0 {
        return gate("thermal", GateStatus::Passed, "no processor was slowed down for heat");
    }
    let hot = counted.iter().filter(|(count, _)| *count > 0).count();
    let text = format!(
        "heat slowed processors down in {hot} of {} runs, {most} times in {}",
        counted.len(),
        run_name(document, run)
    );
    // Once in a while it is noise like other noise; in half of the runs it is what is measured.
    let is_rare = hot * 2 < counted.len();
    gate("thermal", if is_rare { GateStatus::Warned } else { GateStatus::Failed }, text)
}

fn little(document: &SessionDocument, runs: &[&Run]) -> Gate {
    if document.protocol.arrival != Arrival::Closed {
        return not_applicable("little", "open loop: clients are not always busy");
    }
    let mut worst: Option<(f64, &Run)> = None;
    for run in runs {
        let (Some(throughput), Some(service)) = (run.throughput_per_s, run.service.mean_ns) else {
            continue;
        };
        // Failures keep clients busy as well and are in neither figure; think time is in none.
        if failed(&run.counts) > 0 || run.response.mean_ns != run.service.mean_ns {
            continue;
        }
        let clients = f64::from(document.protocol.clients);
        let apart = (throughput * service / 1e9 / clients - 1.0).abs();
        if apart.is_finite() && worst.is_none_or(|(most, _)| apart > most) {
            worst = Some((apart, run));
        }
    }
    let Some((apart, run)) = worst else {
        return not_applicable("little", "clients pause or fail, so they are not always busy");
    };
    let text = format!(
        "clients and throughput x service time agree to {:.1} ({})",
        Percent(apart),
        run_name(document, run)
    );
    // A driver short of CPU leaves clients idle between transactions.
    gate(
        "little",
        if apart <= LITTLE_RATIO_MAX { GateStatus::Passed } else { GateStatus::Warned },
        text,
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::session;
    use super::*;

    fn enough_of(document: &SessionDocument) -> Gate {
        all(document).into_iter().find(|gate| gate.name == "enough").unwrap()
    }

    #[test]
    fn an_extension_that_loads_the_data_anew_for_all_arms_is_no_fault() {
        let with = |hashes: [[&str; 2]; 3]| {
            let mut document = session(3);
            for run in &mut document.runs {
                run.data_hash = Some(hashes[run.block as usize][run.arm as usize].to_owned());
            }
            all(&document).into_iter().find(|gate| gate.name == "data").unwrap().status
        };
        assert_eq!(with([["x", "x"], ["x", "x"], ["y", "y"]]), GateStatus::Passed);
        // Other binaries, other files.
        assert_eq!(with([["x", "p"], ["y", "q"], ["y", "q"]]), GateStatus::Passed);
        assert_eq!(with([["x", "x"], ["x", "x"], ["x", "y"]]), GateStatus::Failed);
        assert_eq!(with([["x", "x"], ["y", "z"], ["y", "z"]]), GateStatus::Failed);
    }

    #[test]
    fn runs_without_a_partner_are_not_enough_however_long_they_were() {
        let mut document = session(2);
        assert_eq!(enough_of(&document).status, GateStatus::Passed);
        for run in document.runs.iter_mut().filter(|run| run.arm == 1) {
            run.incomplete = Some("the server was killed".to_owned());
        }
        let gate = enough_of(&document);
        assert_eq!(gate.status, GateStatus::Failed);
        assert_eq!(gate.text, "no pair is complete (2 runs without a partner)");
        document.runs.clear();
        assert_eq!(enough_of(&document).text, "no run is complete");
    }

    #[test]
    fn heat_in_most_runs_voids_the_verdict_and_in_one_is_remarked_on() {
        let of = |hot: usize| {
            let mut document = session(8);
            for (at, run) in document.runs.iter_mut().enumerate() {
                run.host.thermal_throttles = Some(if at < hot { 5 } else { 0 });
            }
            all(&document).into_iter().find(|gate| gate.name == "thermal").unwrap()
        };
        assert_eq!(of(0).status, GateStatus::Passed);
        assert_eq!(of(1).status, GateStatus::Warned);
        let failed = of(9);
        assert_eq!(failed.status, GateStatus::Failed);
        assert!(failed.text.starts_with("heat slowed processors down in 9 of 16 runs, 5 times in"));
        let unknown = all(&session(8)).into_iter().find(|gate| gate.name == "thermal").unwrap();
        assert_eq!(unknown.status, GateStatus::NotApplicable);
    }
}
