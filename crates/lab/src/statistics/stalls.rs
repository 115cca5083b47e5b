//! What stalls coincided with, beside what chance would give.
//!
//! The delay of an episode is spread evenly over its length; the part that lies inside events of a kind
//! is attributed to that kind. How much of it would lie there by chance is seen by turning the events of
//! each run around the run: they keep their lengths and distances, and lose their relation to the stalls.

use std::collections::BTreeSet;

use super::compare::Pair;
use crate::distribution::{Purpose, RandomStream};
use crate::experiment::document::{Run, StallRow};

/// Random turns of all runs; 2.5% of them lie beyond each end of the interval of chance.
const TURNS: usize = 399;

/// An event without length is taken to work for so long.
const POINT_EVENT_NS: i64 = 1_000_000_000;

/// Delay inside events of each kind, of both arms; `all` first, `none` last. Delay that lies inside two
/// kinds counts for both, so the rows do not sum to `all`. Empty where nothing stalled.
#[must_use]
pub fn by_event(pairs: &[Pair<'_>], seed: u64) -> Vec<StallRow> {
    let against: Vec<&Run> = pairs.iter().map(|(against, _)| *against).collect();
    let arm: Vec<&Run> = pairs.iter().map(|(_, run)| *run).collect();
    let both: Vec<&Run> = against.iter().chain(&arm).copied().collect();
    let all = |runs: &[&Run]| {
        runs.iter()
            .flat_map(|run| &run.episodes)
            .map(|episode| episode.total_delay_ns)
            .fold(0, u64::saturating_add)
    };
    let (against_all, arm_all) = (all(&against), all(&arm));
    if against_all == 0 && arm_all == 0 {
        return Vec::new();
    }
    let row = |kind: &str, against_delay_ns, delay_ns| StallRow {
        kind: kind.to_owned(),
        against_delay_ns,
        delay_ns,
        lift: None,
        lift_chance_low: None,
        lift_chance_high: None,
    };
    let mut rows = vec![row("all", against_all, arm_all)];
    let kinds: BTreeSet<&str> =
        both.iter().flat_map(|run| &run.events).map(|event| event.kind.as_str()).collect();
    for kind in kinds {
        let inside = |runs: &[&Run]| -> f64 {
            runs.iter().filter_map(|run| Course::new(run, Some(kind))).map(|c| c.inside(0)).sum()
        };
        let (a, b) = (inside(&against), inside(&arm));
        if a + b > 0.0 {
            let mut row = row(kind, a as u64, b as u64);
            if let Some((lift, low, high)) = lift(&both, kind, seed) {
                row.lift = Some(lift);
                (row.lift_chance_low, row.lift_chance_high) = (Some(low), Some(high));
            }
            rows.push(row);
        }
    }
    let outside = |runs: &[&Run], all: u64| -> u64 {
        let inside: f64 =
            runs.iter().filter_map(|run| Course::new(run, None)).map(|c| c.inside(0)).sum();
        all.saturating_sub(inside as u64)
    };
    rows.push(row("none", outside(&against, against_all), outside(&arm, arm_all)));
    rows
}

/// Delay inside events of `kind` over its average under turning, and the 95% interval of that ratio
/// under turning.
fn lift(runs: &[&Run], kind: &str, seed: u64) -> Option<(f64, f64, f64)> {
    let courses: Vec<Course> = runs.iter().filter_map(|run| Course::new(run, Some(kind))).collect();
    // The average over all turns needs no turning: each moment of the run is as likely as any other.
    let expected: f64 = courses.iter().map(Course::expected).sum();
    if expected <= 0.0 {
        return None;
    }
    let inside = |turn: &mut dyn FnMut(i64) -> i64| -> f64 {
        courses.iter().map(|course| course.inside(turn(course.length))).sum()
    };
    let observed = inside(&mut |_| 0);
    let mut stream = RandomStream::new(seed, 5, Purpose::Audit);
    let mut turned: Vec<f64> = (0..TURNS)
        .map(|_| {
            inside(&mut |length| {
                i64::try_from(stream.up_to(length.unsigned_abs().saturating_sub(1))).unwrap_or(0)
            })
        })
        .collect();
    turned.sort_by(f64::total_cmp);
    let outside = (TURNS + 1) / 40;
    let low = turned.get(outside - 1)?;
    let high = turned.get(TURNS - outside)?;
    Some((observed / expected, low / expected, high / expected))
}

/// The stalls and the events of one run, on its axis.
struct Course {
    length: i64,
    /// Start, end, and delay per nanosecond.
    stalls: Vec<(i64, i64, f64)>,
    /// Ascending and apart from each other.
    events: Vec<(i64, i64)>,
}

impl Course {
    /// With the events of `kind`, or of all kinds. `None` for a run without length.
    fn new(run: &Run, kind: Option<&str>) -> Option<Self> {
        let length = i64::try_from(run.duration_ns).ok().filter(|length| *length > 0)?;
        let within = |at: u64| i64::try_from(at).unwrap_or(length).min(length);
        let stalls = run
            .episodes
            .iter()
            .map(|episode| {
                let (start, end) = (within(episode.start_ns), within(episode.end_ns));
                let whole = episode.end_ns.saturating_sub(episode.start_ns).max(1) as f64;
                (start, end, episode.total_delay_ns as f64 / whole)
            })
            .filter(|(start, end, _)| end > start)
            .collect();
        let mut spans: Vec<(i64, i64)> = run
            .events
            .iter()
            .filter(|event| kind.is_none_or(|kind| event.kind == kind))
            .map(|event| {
                let is_point = event.end_ns <= event.start_ns;
                let end = if is_point {
                    event.start_ns.saturating_add(POINT_EVENT_NS)
                } else {
                    event.end_ns
                };
                (event.start_ns.clamp(0, length), end.clamp(0, length))
            })
            .filter(|(start, end)| end > start)
            .collect();
        spans.sort_unstable();
        let mut events: Vec<(i64, i64)> = Vec::new();
        for span in spans {
            match events.last_mut() {
                Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
                _ => events.push(span),
            }
        }
        Some(Self { length, stalls, events })
    }

    /// Delay inside the events when these are turned by `turn`; what is turned over the end comes in
    /// again at the start.
    fn inside(&self, turn: i64) -> f64 {
        let common = |a: (i64, i64), b: (i64, i64)| (a.1.min(b.1) - a.0.max(b.0)).max(0) as f64;
        let mut inside = 0.0;
        for (start, end, density) in &self.stalls {
            for event in &self.events {
                let moved = (event.0 + turn, event.1 + turn);
                let again = (moved.0 - self.length, moved.1 - self.length);
                inside += density * (common((*start, *end), moved) + common((*start, *end), again));
            }
        }
        inside
    }

    /// The average of [`inside`](Self::inside) over all turns.
    fn expected(&self) -> f64 {
        let covered: f64 = self.events.iter().map(|(start, end)| (end - start) as f64).sum();
        let delay: f64 =
            self.stalls.iter().map(|(start, end, density)| (end - start) as f64 * density).sum();
        delay * covered / self.length as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use crate::experiment::document::{Episode, Event};

    const SECOND: u64 = 1_000_000_000;

    fn episode(start_s: u64, end_s: u64, delay_s: u64) -> Episode {
        Episode {
            start_ns: start_s * SECOND,
            end_ns: end_s * SECOND,
            clients: 4,
            transactions: 10,
            total_delay_ns: delay_s * SECOND,
            worst_ns: (end_s - start_s) * SECOND,
            coincides_with: Vec::new(),
        }
    }

    fn event(kind: &str, start_s: i64, end_s: i64) -> Event {
        Event {
            kind: kind.to_owned(),
            start_ns: start_s * SECOND as i64,
            end_ns: end_s * SECOND as i64,
            figures: std::collections::BTreeMap::new(),
            text: String::new(),
        }
    }

    fn stalled(episodes: Vec<Episode>, events: Vec<Event>) -> Run {
        Run { episodes, events, duration_ns: 100 * SECOND, ..run(0, 0) }
    }

    #[test]
    fn delay_is_attributed_to_the_part_of_the_event_that_it_lies_in() {
        // Half of the second stall lies inside the sync; the vacuum covers neither.
        let a = stalled(vec![episode(10, 14, 40)], vec![event("checkpoint_sync", 10, 20)]);
        let b = stalled(
            vec![episode(18, 22, 8)],
            vec![event("checkpoint_sync", 10, 20), event("autovacuum", 50, 90)],
        );
        let rows = by_event(&[(&a, &b)], 1);
        let of = |kind: &str| rows.iter().find(|row| row.kind == kind).cloned();
        let delays =
            |kind: &str| of(kind).map(|row| (row.against_delay_ns / SECOND, row.delay_ns / SECOND));
        assert_eq!(delays("all"), Some((40, 8)));
        assert_eq!(delays("checkpoint_sync"), Some((40, 4)));
        assert_eq!(delays("none"), Some((0, 4)));
        assert_eq!(of("autovacuum"), None);
        assert_eq!(rows.last().map(|row| row.kind.as_str()), Some("none"));
        // A tenth of each run is sync: by chance (40 + 8) / 10 of delay would lie inside it.
        assert!((of("checkpoint_sync").unwrap().lift.unwrap() - 44.0 / 4.8).abs() < 1e-9);
    }

    #[test]
    fn overlap_that_chance_explains_lies_within_the_interval_of_chance() {
        let seconds = [7, 31, 58, 83];
        let runs: Vec<Run> = (0..8)
            .map(|number| {
                let stalls = seconds.map(|s| episode(s, s + 1, 10)).to_vec();
                let causes = seconds.map(|s| event("checkpoint_sync", s as i64, s as i64 + 2));
                // Every ten seconds, whatever the stalls do.
                let others = (0..10)
                    .map(|i| event("autovacuum", i * 10 + number % 10, i * 10 + number % 10 + 5));
                stalled(stalls, causes.into_iter().chain(others).collect())
            })
            .collect();
        let pairs: Vec<Pair<'_>> = runs.chunks(2).map(|two| (&two[0], &two[1])).collect();
        let rows = by_event(&pairs, 1);
        let row = |kind: &str| rows.iter().find(|row| row.kind == kind).unwrap();
        let (cause, other) = (row("checkpoint_sync"), row("autovacuum"));
        assert!(cause.lift > cause.lift_chance_high, "{cause:?}");
        assert!(other.lift < other.lift_chance_high, "{other:?}");
        assert!(other.lift > other.lift_chance_low, "{other:?}");
    }

    #[test]
    fn runs_without_stalls_give_no_rows_and_points_in_time_have_a_length() {
        let calm = stalled(Vec::new(), vec![event("checkpoint", 1, 5)]);
        assert!(by_event(&[(&calm, &calm)], 0).is_empty());
        let hit = stalled(vec![episode(10, 12, 2)], vec![event("restart", 10, 10)]);
        let rows = by_event(&[(&hit, &hit)], 0);
        assert_eq!(rows[1].kind, "restart");
        assert_eq!(rows[1].delay_ns, SECOND);
    }
}
