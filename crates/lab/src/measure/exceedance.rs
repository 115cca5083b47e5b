//! How many transactions took at least so long.

use super::percentile::SortedSamples;
use crate::experiment::document::{Episode, ExceedanceCount};

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Below a second.
const THRESHOLDS_MS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/// Each second gets a row up to this; then each minute, so that a table stays finite.
const SECONDS_MAX: u64 = 600;

/// Counts at 1, 2, 5, 10 ... 500 ms and at each second from 1 s on, up to the longest response.
/// The rows below a second and at 1 s are always there.
#[must_use]
pub fn exceedance(response: &SortedSamples, episodes: &[Episode]) -> Vec<ExceedanceCount> {
    let longest = response.values().last().copied().unwrap_or(0);
    thresholds(longest)
        .map(|threshold_ns| ExceedanceCount {
            threshold_ns,
            count: response.count_at_least(threshold_ns),
            episodes: episodes.iter().filter(|one| one.worst_ns >= threshold_ns).count() as u64,
        })
        .collect()
}

fn thresholds(longest_ns: u64) -> impl Iterator<Item = u64> {
    let last_second = longest_ns / SECOND_NS;
    let seconds = (1..=last_second.clamp(1, SECONDS_MAX)).map(|second| second * SECOND_NS);
    let minutes = (SECONDS_MAX / 60 + 1..=last_second / 60)
        .map(|minute| minute * 60 * SECOND_NS)
        .take(24 * 60);
    THRESHOLDS_MS.into_iter().map(|ms| ms * MILLISECOND_NS).chain(seconds).chain(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::percentile::Samples;

    #[test]
    fn a_transaction_at_the_threshold_counts_and_rows_go_on_to_the_longest() {
        let mut samples = Samples::default();
        for value in [MILLISECOND_NS - 1, MILLISECOND_NS, 3 * SECOND_NS + 5] {
            samples.push(value, false);
        }
        let rows = exceedance(&samples.sorted(), &[]);
        assert_eq!(rows.len(), THRESHOLDS_MS.len() + 3);
        assert_eq!((rows[0].threshold_ns, rows[0].count), (MILLISECOND_NS, 2));
        assert_eq!((rows[11].threshold_ns, rows[11].count), (3 * SECOND_NS, 1));
    }

    #[test]
    fn a_stall_of_days_makes_a_table_of_bounded_length() {
        let mut samples = Samples::default();
        samples.push(u64::MAX, false);
        assert!(exceedance(&samples.sorted(), &[]).len() < 2_100);
    }
}
