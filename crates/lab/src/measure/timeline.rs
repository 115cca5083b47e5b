//! A run second by second.
//!
//! Latencies are of transactions *planned* in a second, so that a stall looks like a stall when it
//! happened; starts, commits and failures are counted in the second in which they happened.

use std::collections::BTreeMap;

use super::percentile::Samples;
use super::record::{Outcome, TransactionRecord};
use crate::experiment::document::TimelineSecond;

const SECOND_NS: u64 = 1_000_000_000;

/// Seconds are kept up to this many (24 hours), so that a wrong clock cannot ask for all memory.
const SECONDS_MAX: u64 = 86_400;

/// Collects the seconds of a measured part.
#[derive(Debug)]
pub struct Timeline {
    start_ns: u64,
    end_ns: u64,
    seconds: Vec<Second>,
}

#[derive(Debug, Default)]
struct Second {
    planned: u64,
    started: u64,
    finished: u64,
    failed: u64,
    /// Transactions that ended in this second, whatever became of them.
    ended: u64,
    response: Samples,
}

impl Timeline {
    /// For a measured part from `start_ns` to `end_ns`; the last second may be a part of one.
    #[must_use]
    pub fn new(start_ns: u64, end_ns: u64) -> Self {
        let count = end_ns.saturating_sub(start_ns).div_ceil(SECOND_NS).min(SECONDS_MAX);
        Self { start_ns, end_ns, seconds: (0..count).map(|_| Second::default()).collect() }
    }

    /// Adds a transaction; one that was planned before the measured part counts where it starts
    /// and ends.
    pub fn add(&mut self, record: &TransactionRecord, was_started: bool) {
        let planned_inside = record.planned_ns >= self.start_ns && record.planned_ns < self.end_ns;
        if planned_inside && let Some(second) = self.second(record.planned_ns) {
            second.planned += 1;
            if matches!(record.outcome, Outcome::Committed | Outcome::Censored) {
                second.response.push(record.response_ns(), record.outcome == Outcome::Censored);
            }
        }
        if was_started && let Some(second) = self.second(record.start_ns) {
            second.started += 1;
        }
        if let Some(second) = self.second(record.end_ns) {
            match record.outcome {
                Outcome::Committed => second.finished += 1,
                Outcome::SerializationFailure
                | Outcome::Deadlock
                | Outcome::OtherError
                | Outcome::Aborted => second.failed += 1,
                Outcome::Skipped | Outcome::Censored => {}
            }
            if planned_inside && record.outcome != Outcome::Censored {
                second.ended += 1;
            }
        }
    }

    /// The seconds in order.
    #[must_use]
    pub fn finish(self) -> Vec<TimelineSecond> {
        let mut backlog = 0_u64;
        self.seconds
            .into_iter()
            .enumerate()
            .map(|(index, second)| {
                backlog = (backlog + second.planned).saturating_sub(second.ended);
                let response = second.response.sorted();
                TimelineSecond {
                    second: u32::try_from(index).unwrap_or(u32::MAX),
                    planned: second.planned,
                    started: second.started,
                    finished: second.finished,
                    failed: second.failed,
                    backlog,
                    p50_ns: response.at(5_000),
                    p99_ns: response.at(9_900),
                    max_ns: response.at(10_000),
                    samples: BTreeMap::new(),
                }
            })
            .collect()
    }

    fn second(&mut self, at_ns: u64) -> Option<&mut Second> {
        let index = at_ns.checked_sub(self.start_ns)? / SECOND_NS;
        self.seconds.get_mut(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(planned_ns: u64, start_ns: u64, end_ns: u64) -> TransactionRecord {
        TransactionRecord {
            planned_ns,
            start_ns,
            end_ns,
            think_ns: 0,
            client: 0,
            retries: 0,
            script: 0,
            outcome: Outcome::Committed,
        }
    }

    #[test]
    fn a_stall_shows_when_it_happened_and_the_commits_when_they_came() {
        let mut timeline = Timeline::new(SECOND_NS, 4 * SECOND_NS);
        // Planned in the first measured second, ended in the third.
        timeline.add(&record(SECOND_NS + 5, SECOND_NS + 6, 3 * SECOND_NS + 7), true);
        // Planned before measuring began.
        timeline.add(&record(SECOND_NS - 5, SECOND_NS - 5, SECOND_NS + 7), true);
        let seconds = timeline.finish();
        assert_eq!(seconds.len(), 3);
        assert_eq!((seconds[0].planned, seconds[0].started, seconds[0].finished), (1, 1, 1));
        assert_eq!(seconds[0].max_ns, Some(2 * SECOND_NS + 2));
        assert_eq!([1, 1, 0], [seconds[0].backlog, seconds[1].backlog, seconds[2].backlog]);
        assert_eq!((seconds[2].planned, seconds[2].finished, seconds[2].max_ns), (0, 1, None));
    }

    #[test]
    fn no_time_has_no_seconds() {
        assert!(Timeline::new(5, 5).finish().is_empty());
    }
}
