//! What the noise is made of, in words.

use super::compare::{Pair, log_ratio, ratio};
use super::finite::Percent;
use super::measure::Measure;
use super::sign_flip::{median, standard_deviation};
use super::{outlier, series, within_run};
use crate::experiment::document::{NoiseNote, Run, SessionDocument};

/// A gap between two modes of runs, in spreads within a mode.
const MODE_GAP_SPREADS: f64 = 3.0;

/// Least share of the samples a mode within a run must hold.
const MODE_SHARE_MIN: f64 = 0.001;

/// Two modes within a run lie at least this factor apart.
const GAP_FACTOR_MIN: f64 = 3.0;

/// CPUs of foreign load, share of stolen time, and share of the driver's time from which on they are
/// worth words of their own: far below what breaks a gate.
const FOREIGN_CPUS_WORDS: f64 = 0.1;
const STEAL_WORDS: f64 = 0.01;
const CLIENT_BUSY_WORDS: f64 = 0.8;
/// Slewing by the time service moves the wall clock less than this during a run.
const CLOCK_STEP_WORDS_NS: f64 = 1e6;

fn note(kind: &str, text: String) -> NoiseNote {
    NoiseNote { kind: kind.to_owned(), text }
}

/// All findings about the primary measure's noise.
#[must_use]
pub fn diagnose(
    document: &SessionDocument,
    primary: &Measure,
    pairs: &[Pair<'_>],
    floor_ratio: Option<f64>,
    seed: u64,
) -> Vec<NoiseNote> {
    let mut notes = Vec::new();
    notes.extend(between_and_within(primary, pairs));
    if let Some(floor) = floor_ratio {
        let text = format!(
            "two copies of one arm differ by up to {:.1} ({})",
            Percent(floor),
            primary.name()
        );
        notes.push(note("floor", text));
    }
    notes.extend(drift(primary, pairs));
    notes.extend(two_modes(document, primary));
    notes.extend(periodic(pairs, seed));
    notes.extend(gap(document));
    notes.extend(super::steady::warm_up_note(document));
    notes.extend(outlier_pair(primary, pairs));
    notes.extend(host(pairs));
    notes.extend(client(pairs));
    notes
}

fn between_and_within(primary: &Measure, pairs: &[Pair<'_>]) -> Option<NoiseNote> {
    let logs: Vec<f64> = log_ratios(primary, pairs).into_iter().map(|(_, log)| log).collect();
    let between = standard_deviation(&logs)?;
    let spread = format!("pairs differ by {:.1} (standard deviation)", Percent(between));
    // The seconds of a run make its throughput. Of a percentile they say little: one second in a stall
    // outweighs all others.
    let within = within_run::of(primary, pairs)
        .map(|within| within.standard_error * (pairs.len() as f64).sqrt());
    let text = match within {
        Some(within) if between > 2.0 * within => format!(
            "{spread}, of which seconds within runs explain {:.1}: the noise lies between runs, look at \
             placement and restarts",
            Percent(within)
        ),
        Some(within) => format!(
            "{spread}, seconds within runs explain {:.1}: longer runs would help",
            Percent(within)
        ),
        None => spread,
    };
    Some(note("between_runs", text))
}

/// The log ratio of each pair that has one, with the pair's place.
fn log_ratios(primary: &Measure, pairs: &[Pair<'_>]) -> Vec<(usize, f64)> {
    pairs
        .iter()
        .enumerate()
        .filter_map(|(at, (against, run))| {
            Some((at, log_ratio((primary.value(against)?, primary.value(run)?))?))
        })
        .collect()
}

/// A pair unlike the others, which is one run that went differently: named, and not removed.
fn outlier_pair(primary: &Measure, pairs: &[Pair<'_>]) -> Option<NoiseNote> {
    let logs = log_ratios(primary, pairs);
    let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
    let found = outlier::find(&values, None)?;
    let (pair, log) = *logs.get(found.pair)?;
    let (against, run) = pairs.get(pair)?;
    Some(note(
        "outlier_pair",
        format!(
            "pair {} (runs {} and {}) stands alone: {:+.1} where the others average {:+.1}",
            pair + 1,
            against.index + 1,
            run.index + 1,
            Percent(ratio(log)),
            Percent(ratio(found.without))
        ),
    ))
}

fn drift(primary: &Measure, pairs: &[Pair<'_>]) -> Option<NoiseNote> {
    let mut by_arm: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for (against, run) in pairs {
        for (points, run) in by_arm.iter_mut().zip([against, run]) {
            let value = primary.value(run).filter(|value| *value > 0.0)?;
            points.push((f64::from(run.index), value.ln()));
        }
    }
    // Each arm around its own level, so that a difference between arms is no drift.
    let pooled: Vec<(f64, f64)> = by_arm
        .iter()
        .flat_map(|points| {
            let level = median(&points.iter().map(|(_, y)| *y).collect::<Vec<_>>()).unwrap_or(0.0);
            points.iter().map(move |(x, y)| (*x, y - level))
        })
        .collect();
    let slope = series::theil_sen(&pooled)?;
    let p = series::trend_p(&pooled)?;
    let text = if p < 0.05 {
        format!(
            "the machine drifts: {} changes by {:+.2} a run",
            primary.name(),
            Percent(ratio(slope))
        )
    } else {
        "no drift over the session".to_owned()
    };
    Some(note("drift", text))
}

fn two_modes(document: &SessionDocument, primary: &Measure) -> Vec<NoiseNote> {
    let mut notes = Vec::new();
    for (number, arm) in document.arms.iter().enumerate() {
        let mut values: Vec<f64> = document
            .runs
            .iter()
            .filter(|run| run.arm as usize == number && run.incomplete.is_none())
            .filter_map(|run| primary.value(run))
            .filter(|value| *value > 0.0)
            .map(f64::ln)
            .collect();
        values.sort_by(f64::total_cmp);
        // Two runs on each side at least, or it is an outlier and not a mode.
        let split = (2..values.len().saturating_sub(1))
            .filter_map(|at| Some((at, values.get(at)? - values.get(at - 1)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, gap)) = split else { continue };
        let (low, high) = values.split_at(at);
        let spread = standard_deviation(low)
            .unwrap_or(0.0)
            .max(standard_deviation(high).unwrap_or(0.0))
            .max(1e-4);
        if gap > MODE_GAP_SPREADS * spread {
            notes.push(note(
                "two_modes",
                format!(
                    "{}: two modes, {} runs of {} lie {:.0} above the others",
                    arm.name,
                    high.len(),
                    values.len(),
                    Percent(ratio(gap))
                ),
            ));
        }
    }
    notes
}

fn periodic(pairs: &[Pair<'_>], seed: u64) -> Option<NoiseNote> {
    let mut found: Vec<f64> = Vec::new();
    let mut looked = 0;
    for run in pairs.iter().flat_map(|(against, run)| [*against, *run]) {
        let finished: Vec<f64> = run.timeline.iter().map(|s| s.finished as f64).collect();
        looked += 1;
        if let Some((lag, _)) = series::period(&finished, seed) {
            found.push(lag as f64);
        }
    }
    // In a third of the runs, or it is chance.
    if found.len() * 3 < looked || found.is_empty() {
        return None;
    }
    let seconds = median(&found)?;
    let text = format!(
        "something returns every {seconds:.0} s in {} of {looked} runs: a checkpoint, a timer?",
        found.len()
    );
    Some(note("periodic", text))
}

/// Two humps of response times with next to nothing between them (study 0's "no man's land").
fn gap(document: &SessionDocument) -> Vec<NoiseNote> {
    let mut notes = Vec::new();
    for (number, arm) in document.arms.iter().enumerate() {
        let runs = document.runs.iter().filter(|run| run.arm as usize == number);
        if let Some((from_ns, to_ns)) = widest_gap(runs) {
            notes.push(note(
                "gap",
                format!(
                    "{}: between {} and {} there is nearly nothing",
                    arm.name,
                    in_ms(from_ns),
                    in_ms(to_ns)
                ),
            ));
        }
    }
    notes
}

fn in_ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms >= 10.0 { format!("{ms:.0} ms") } else { format!("{ms:.2} ms") }
}

/// The widest stretch of buckets holding together less than a tenth of the smaller hump beside it.
fn widest_gap<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<(u64, u64)> {
    let mut counts = std::collections::BTreeMap::<u64, u128>::new();
    for run in runs {
        for bucket in run.histogram.iter().filter(|bucket| bucket.count > 0) {
            *counts.entry(bucket.upper_ns).or_insert(0) += u128::from(bucket.count);
        }
    }
    let buckets: Vec<(u64, u128)> = counts.into_iter().collect();
    let all: u128 = buckets.iter().map(|(_, count)| count).sum();
    let least = (all as f64 * MODE_SHARE_MIN).max(10.0);
    let mut widest: Option<(u64, u64)> = None;
    let mut below = 0;
    for (number, (from_ns, count)) in buckets.iter().enumerate() {
        below += count;
        let mut inside = 0;
        for (to_ns, count) in buckets.iter().skip(number + 1) {
            let smaller = below.min(all - below - inside) as f64;
            if smaller < least || inside as f64 * 10.0 > smaller {
                break;
            }
            let factor = |(from, to): (u64, u64)| to as f64 / from.max(1) as f64;
            if factor((*from_ns, *to_ns)) > widest.map_or(GAP_FACTOR_MIN, factor) {
                widest = Some((*from_ns, *to_ns));
            }
            inside += count;
        }
    }
    widest
}

/// The run in which something was most, and how much.
fn most<'a>(runs: &[&'a Run], of: fn(&Run) -> Option<f64>) -> Option<(f64, &'a Run)> {
    runs.iter()
        .filter_map(|run| Some((of(run).filter(|value| value.is_finite())?, *run)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// What disturbed the machine, each in words of its own where it is worth words.
fn host(pairs: &[Pair<'_>]) -> Vec<NoiseNote> {
    let runs: Vec<&Run> = pairs.iter().flat_map(|(against, run)| [*against, *run]).collect();
    let mut notes = Vec::new();
    let foreign = most(&runs, |run| run.host.foreign_cpus);
    let steal = most(&runs, |run| run.host.steal_ratio);
    if let Some((cpus, run)) = foreign.filter(|(cpus, _)| *cpus >= FOREIGN_CPUS_WORDS) {
        notes.push(note(
            "foreign_cpu",
            format!(
                "other processes used {cpus:.2} CPUs in run {}: find them, or expect wide intervals",
                run.index + 1
            ),
        ));
    }
    if let Some((ratio, run)) = steal.filter(|(ratio, _)| *ratio >= STEAL_WORDS) {
        notes.push(note(
            "steal",
            format!(
                "the hypervisor took {:.1} of the CPU time in run {}: other guests share this machine",
                Percent(ratio),
                run.index + 1
            ),
        ));
    }
    let swapped = runs.iter().filter_map(|run| run.host.swap_bytes).max().unwrap_or(0);
    if swapped > 0 {
        let text = format!("the machine swapped {:.1} MB in one run", swapped as f64 / 1e6);
        notes.push(note("swap", text));
    }
    let throttled: Vec<u64> = runs.iter().filter_map(|run| run.host.thermal_throttles).collect();
    if let Some(most) = throttled.iter().max().filter(|most| **most > 0) {
        let text = format!(
            "the processor was slowed down for heat up to {most} times in a run: cool it, or lower its \
             frequency for all runs"
        );
        notes.push(note("thermal", text));
    }
    if notes.is_empty()
        && let (Some((cpus, _)), Some((ratio, _))) = (foreign, steal)
    {
        let text = format!(
            "quiet: other processes used up to {cpus:.2} CPUs, steal up to {:.1}",
            Percent(ratio)
        );
        notes.push(note("host", text));
    }
    notes
}

/// What disturbed the measuring itself.
fn client(pairs: &[Pair<'_>]) -> Vec<NoiseNote> {
    let runs: Vec<&Run> = pairs.iter().flat_map(|(against, run)| [*against, *run]).collect();
    let mut notes = Vec::new();
    let busiest = most(&runs, |run| run.driver_busy_ratio);
    if let Some((busy, run)) = busiest.filter(|(busy, _)| *busy > CLIENT_BUSY_WORDS) {
        notes.push(note(
            "client",
            format!(
                "the load generator's threads were {:.0} busy in run {}: part of what is measured may be \
                 its own; give it more threads (-j) or CPUs",
                Percent(busy),
                run.index + 1
            ),
        ));
    }
    let step = most(&runs, |run| run.clock_jump_ns.map(|jump| jump as f64));
    if let Some((jump, run)) = step.filter(|(jump, _)| *jump > CLOCK_STEP_WORDS_NS) {
        notes.push(note(
            "clock",
            format!(
                "the wall clock moved by {:.1} ms against the monotonic one in run {}: latencies are not \
                 touched, times of server events are",
                jump / 1e6,
                run.index + 1
            ),
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::{session, with_throughput};
    use super::*;
    use crate::experiment::document::{HistogramBucket, VerdictKind};
    use crate::statistics::analyse;

    fn notes(document: &SessionDocument) -> Vec<NoiseNote> {
        let primary = Measure::new(&document.protocol.primary);
        diagnose(document, &primary, &compare::pairs(document, 0, 1), None, 1)
    }

    fn text_of(document: &SessionDocument, kind: &str) -> Option<String> {
        notes(document).into_iter().find(|note| note.kind == kind).map(|note| note.text)
    }

    /// Six identical runs of three hours spread from 284k to 474k transactions a minute, in two modes.
    #[test]
    fn equal_arms_whose_runs_fall_into_two_modes_are_told_so_and_get_no_verdict() {
        let modes: [[u8; 6]; 2] = [[1, 0, 0, 1, 0, 1], [0, 1, 0, 1, 1, 0]];
        for turn in 0..6 {
            let level = |arm: usize, block: usize| {
                let is_fast = modes[arm][(block + turn) % 6] == 1;
                let spread = 1.0 + 0.002 * ((block * 2 + arm) % 5) as f64;
                if is_fast { 474_000.0 * spread } else { 284_000.0 * spread }
            };
            let pairs: Vec<(f64, f64)> =
                (0..6).map(|block| (level(0, block), level(1, block))).collect();
            let document = with_throughput(&pairs);
            let said: Vec<NoiseNote> =
                notes(&document).into_iter().filter(|note| note.kind == "two_modes").collect();
            assert_eq!(said.len(), 2, "one for each arm: {said:?}");
            assert!(said.iter().all(|note| note.text.contains("two modes, 3 runs of 6 lie 6")));
            let kind = analyse(&document).comparison.verdict.kind;
            assert_eq!(kind, VerdictKind::Inconclusive);
        }
    }

    #[test]
    fn a_quiet_session_has_no_complaint() {
        let mut document = session(8);
        for run in &mut document.runs {
            (run.host.foreign_cpus, run.host.steal_ratio) = (Some(0.02), Some(0.0));
            run.driver_busy_ratio = Some(0.2);
        }
        let kinds: Vec<String> = notes(&document).into_iter().map(|note| note.kind).collect();
        assert_eq!(kinds, ["between_runs", "drift", "host"]);
        assert_eq!(text_of(&document, "drift").unwrap(), "no drift over the session");
        assert!(text_of(&document, "host").unwrap().starts_with("quiet"));
    }

    #[test]
    fn what_disturbs_is_named_with_the_run_and_the_remedy() {
        let mut document = session(8);
        let run = &mut document.runs[4];
        (run.host.foreign_cpus, run.host.steal_ratio) = (Some(1.25), Some(0.08));
        (run.host.swap_bytes, run.host.thermal_throttles) = (Some(5_000_000), Some(3));
        (run.driver_busy_ratio, run.clock_jump_ns) = (Some(0.93), Some(7_500_000));
        for (kind, words) in [
            ("foreign_cpu", "other processes used 1.25 CPUs in run 5"),
            ("steal", "the hypervisor took 8.0% of the CPU time in run 5"),
            ("swap", "the machine swapped 5.0 MB"),
            ("thermal", "slowed down for heat up to 3 times"),
            ("client", "93% busy in run 5"),
            ("clock", "moved by 7.5 ms against the monotonic one in run 5"),
        ] {
            let text = text_of(&document, kind).unwrap();
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(text_of(&document, "host"), None);
    }

    #[test]
    fn the_run_that_always_disagrees_is_named() {
        let pairs: Vec<(f64, f64)> = [0.01, 0.012, 0.008, 0.3, 0.011, 0.009, 0.01, 0.013]
            .iter()
            .map(|d: &f64| (1000.0, 1000.0 * d.exp()))
            .collect();
        let text = text_of(&with_throughput(&pairs), "outlier_pair").unwrap();
        assert!(text.starts_with("pair 4 (runs 7 and 8) stands alone: +35.0%"), "{text}");
    }

    #[test]
    fn a_gap_between_two_humps_is_told_and_one_hump_is_not() {
        let mut document = session(2);
        let bucket = |upper_ns, count| HistogramBucket { upper_ns, count };
        for run in &mut document.runs {
            run.histogram = vec![
                bucket(2_000_000, 5000),
                bucket(12_000_000, 4000),
                bucket(60_000_000, 3),
                bucket(180_000_000, 400),
            ];
        }
        let text = text_of(&document, "gap").unwrap();
        assert_eq!(text, "master: between 12 ms and 180 ms there is nearly nothing");
        for run in &mut document.runs {
            run.histogram = (1..40).map(|step| bucket(step * 1_000_000, 1000 / step)).collect();
        }
        assert_eq!(text_of(&document, "gap"), None);
    }
}
