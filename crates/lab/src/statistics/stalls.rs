//! What stalls coincided with, beside what chance would give.

use std::collections::BTreeSet;

use super::compare::Pair;
use crate::experiment::document::{Run, StallRow};

/// Turns of the event stream against the stalls, evenly spaced over the run.
const ROTATIONS: u64 = 40;

/// Delay by kind of event, of both arms; `all` first, `none` last. A stall that coincides with two
/// kinds counts for both, so the rows do not sum to `all`.
#[must_use]
pub fn by_event(pairs: &[Pair<'_>]) -> Vec<StallRow> {
    let against: Vec<&Run> = pairs.iter().map(|(against, _)| *against).collect();
    let arm: Vec<&Run> = pairs.iter().map(|(_, run)| *run).collect();
    let kinds: BTreeSet<&str> = against
        .iter()
        .chain(&arm)
        .flat_map(|run| &run.episodes)
        .flat_map(|episode| episode.coincides_with.iter().map(String::as_str))
        .collect();
    let sum = |runs: &[&Run], kind: Option<&str>| -> u64 {
        runs.iter()
            .flat_map(|run| &run.episodes)
            .filter(|episode| match kind {
                None => true,
                Some("none") => episode.coincides_with.is_empty(),
                Some(kind) => episode.coincides_with.iter().any(|other| other == kind),
            })
            .map(|episode| episode.total_delay_ns)
            .fold(0, u64::saturating_add)
    };
    let row = |kind: &str, filter: Option<&str>, lift: Option<f64>| StallRow {
        kind: kind.to_owned(),
        against_delay_ns: sum(&against, filter),
        delay_ns: sum(&arm, filter),
        lift,
    };
    let all = row("all", None, None);
    if all.against_delay_ns == 0 && all.delay_ns == 0 {
        return Vec::new();
    }
    let mut rows = vec![all];
    for kind in kinds {
        let both: Vec<&Run> = against.iter().chain(&arm).copied().collect();
        rows.push(row(kind, Some(kind), lift(&both, kind)));
    }
    rows.push(row("none", Some("none"), None));
    rows
}

/// Stalled time inside events of `kind` over its average when the events are turned around the run.
fn lift(runs: &[&Run], kind: &str) -> Option<f64> {
    let (mut inside, mut expected) = (0.0, 0.0);
    for run in runs {
        let length = i64::try_from(run.duration_ns).ok().filter(|length| *length > 0)?;
        let events: Vec<(i64, i64)> = run
            .events
            .iter()
            .filter(|event| event.kind == kind)
            .map(|event| (event.start_ns.max(0), event.end_ns.min(length)))
            .filter(|(start, end)| end > start)
            .collect();
        for episode in &run.episodes {
            let stall = (
                i64::try_from(episode.start_ns).unwrap_or(length),
                i64::try_from(episode.end_ns).unwrap_or(length).min(length),
            );
            inside += overlap(stall, &events, 0, length);
            let turned: f64 = (0..ROTATIONS)
                .map(|turn| {
                    let shift = i128::from(length) * i128::from(turn) / i128::from(ROTATIONS);
                    overlap(stall, &events, i64::try_from(shift).unwrap_or(0), length)
                })
                .sum();
            expected += turned / ROTATIONS as f64;
        }
    }
    (expected > 0.0).then(|| inside / expected)
}

/// Time of `stall` inside `events` when these are turned by `shift` around a run of `length`.
fn overlap(stall: (i64, i64), events: &[(i64, i64)], shift: i64, length: i64) -> f64 {
    let common = |a: (i64, i64), b: (i64, i64)| (a.1.min(b.1) - a.0.max(b.0)).max(0) as f64;
    events
        .iter()
        .map(|(start, end)| {
            let moved = (start + shift, end + shift);
            // What is turned over the end comes in again at the start.
            common(stall, moved) + common(stall, (moved.0 - length, moved.1 - length))
        })
        .sum()
}
