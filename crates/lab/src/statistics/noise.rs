//! What the noise is made of, in words.

use super::compare::{Pair, ratio};
use super::measure::Measure;
use super::series;
use super::sign_flip::{mean, median, standard_deviation};
use crate::experiment::document::{NoiseNote, Run, SessionDocument};

/// A gap between two modes of runs, in spreads within a mode.
const MODE_GAP_SPREADS: f64 = 3.0;

/// Least share of the samples a mode within a run must hold.
const MODE_SHARE_MIN: f64 = 0.001;

/// Two modes within a run lie at least this factor apart.
const GAP_FACTOR_MIN: f64 = 3.0;

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
            "two copies of one arm differ by up to {:.1}% ({})",
            floor * 100.0,
            primary.name()
        );
        notes.push(note("floor", text));
    }
    notes.extend(drift(primary, pairs));
    notes.extend(two_modes(document, primary));
    notes.extend(periodic(pairs, seed));
    notes.extend(gap(document));
    notes.extend(super::steady::warm_up_note(document));
    notes.extend(host(pairs));
    notes
}

fn between_and_within(primary: &Measure, pairs: &[Pair<'_>]) -> Option<NoiseNote> {
    let differences: Vec<f64> = pairs
        .iter()
        .filter_map(|(against, run)| Some((primary.value(run)? / primary.value(against)?).ln()))
        .filter(|difference| difference.is_finite())
        .collect();
    let between = standard_deviation(&differences)?;
    let seconds: Vec<f64> = pairs
        .iter()
        .flat_map(|(against, run)| [*against, *run])
        .filter_map(|run| {
            let finished: Vec<f64> = run.timeline.iter().map(|s| s.finished as f64).collect();
            let effective = finished.len() as f64 * series::effective_ratio(&finished)?;
            let spread = standard_deviation(&finished)? / mean(&finished)?;
            // Of the mean of the whole run.
            let error = spread / effective.sqrt();
            error.is_finite().then_some(error)
        })
        .collect();
    let within = median(&seconds).map(|error| error * std::f64::consts::SQRT_2);
    let text = match within {
        Some(within) if between > 2.0 * within => format!(
            "pairs differ by {:.1}% (standard deviation), of which seconds within runs explain {:.1}%: \
             the noise lies between runs, look at placement and restarts",
            between * 100.0,
            within * 100.0
        ),
        Some(within) => format!(
            "pairs differ by {:.1}% (standard deviation), seconds within runs explain {:.1}%: \
             longer runs would help",
            between * 100.0,
            within * 100.0
        ),
        None => format!("pairs differ by {:.1}% (standard deviation)", between * 100.0),
    };
    Some(note("between_runs", text))
}

fn drift(primary: &Measure, pairs: &[Pair<'_>]) -> Option<NoiseNote> {
    let mut by_arm: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for (against, run) in pairs {
        for (points, run) in by_arm.iter_mut().zip([against, run]) {
            let value = primary.value(run)?;
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
            "the machine drifts: {} changes by {:+.2}% a run",
            primary.name(),
            ratio(slope) * 100.0
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
                    "{}: two modes, {} runs of {} lie {:.0}% above the others",
                    arm.name,
                    high.len(),
                    values.len(),
                    ratio(gap) * 100.0
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
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    for run in runs {
        for bucket in &run.histogram {
            *counts.entry(bucket.upper_ns).or_insert(0) += bucket.count;
        }
    }
    let buckets: Vec<(u64, u64)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let least = (total as f64 * MODE_SHARE_MIN).max(10.0);
    let mut best: Option<(u64, u64)> = None;
    for (i, (from_ns, _)) in buckets.iter().enumerate() {
        let below: u64 = buckets.iter().take(i + 1).map(|(_, count)| count).sum();
        let mut inside = 0;
        for (j, (to_ns, count)) in buckets.iter().enumerate().skip(i + 1) {
            let above = total - below - inside;
            let smaller = below.min(above) as f64;
            if smaller < least || inside as f64 * 10.0 > smaller {
                break;
            }
            let factor = *to_ns as f64 / (*from_ns).max(1) as f64;
            let widest = best.map_or(GAP_FACTOR_MIN, |(from, to)| to as f64 / from.max(1) as f64);
            if factor > widest {
                best = Some((*from_ns, *to_ns));
            }
            inside += count;
            let _ = j;
        }
    }
    best
}

fn host(pairs: &[Pair<'_>]) -> Option<NoiseNote> {
    let runs: Vec<&Run> = pairs.iter().flat_map(|(against, run)| [*against, *run]).collect();
    let most = |of: fn(&Run) -> Option<f64>| {
        runs.iter()
            .filter_map(|run| of(run))
            .fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))))
    };
    let foreign = most(|run| run.host.foreign_cpus)?;
    let steal = most(|run| run.host.steal_ratio).unwrap_or(0.0);
    let swapped = runs.iter().filter_map(|run| run.host.swap_bytes).max().unwrap_or(0);
    let mut text =
        format!("other processes used up to {foreign:.2} CPUs, steal up to {:.1}%", steal * 100.0);
    if swapped > 0 {
        text.push_str(", and the machine swapped");
    }
    Some(note("host", text))
}
