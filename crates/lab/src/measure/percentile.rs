//! Percentiles by the nearest-rank rule, and what may be said where transactions were cut off.

use crate::experiment::document::{LatencySummary, Percentile};

/// The percentiles of every summary, in parts of 10,000.
pub const PERCENTILE_PARTS: [u32; 104] = percentile_parts();

const PARTS: u64 = 10_000;

const fn percentile_parts() -> [u32; 104] {
    let mut parts = [0; 104];
    let mut index = 0;
    while index < 100 {
        parts[index] = index as u32 * 100;
        index += 1;
    }
    parts[100] = 9_950;
    parts[101] = 9_990;
    parts[102] = 9_999;
    parts[103] = 10_000;
    parts
}

/// A set of times, some of which are only known to be at least so long.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    values: Vec<u64>,
    /// The least time of a transaction that was cut off.
    least_censored: Option<u64>,
}

/// The rank, from 1, of a percentile among `count` values: ceil(`parts` x count / 10000), at least
/// 1. `None` where there are no values.
#[must_use]
pub fn rank(parts: u32, count: u64) -> Option<u64> {
    if count == 0 {
        return None;
    }
    let product = u128::from(parts) * u128::from(count);
    let rank = u64::try_from(product.div_ceil(u128::from(PARTS))).unwrap_or(count);
    Some(rank.clamp(1, count))
}

impl Samples {
    /// Adds a time; where `is_censored` it is a lower bound.
    #[inline]
    pub fn push(&mut self, value_ns: u64, is_censored: bool) {
        self.values.push(value_ns);
        if is_censored {
            self.least_censored =
                Some(self.least_censored.map_or(value_ns, |least| least.min(value_ns)));
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Sorts the values, once, for the questions below.
    #[must_use]
    pub fn sorted(mut self) -> SortedSamples {
        self.values.sort_unstable();
        SortedSamples { values: self.values, least_censored: self.least_censored }
    }
}

/// [`Samples`] in ascending order.
#[derive(Clone, Debug, Default)]
pub struct SortedSamples {
    values: Vec<u64>,
    least_censored: Option<u64>,
}

impl SortedSamples {
    /// The values, ascending.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The value at a percentile in parts of 10,000.
    #[must_use]
    pub fn at(&self, parts: u32) -> Option<u64> {
        let rank = rank(parts, self.values.len() as u64)?;
        self.values.get(usize::try_from(rank - 1).ok()?).copied()
    }

    /// How many are at least `threshold_ns`.
    #[must_use]
    pub fn count_at_least(&self, threshold_ns: u64) -> u64 {
        (self.values.len() - self.values.partition_point(|value| *value < threshold_ns)) as u64
    }

    /// All figures.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let count = self.values.len() as u64;
        if count == 0 {
            return LatencySummary::default();
        }
        let sum: u128 = self.values.iter().map(|value| u128::from(*value)).sum();
        let mean = sum as f64 / count as f64;
        let squares: f64 = self.values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
        let percentiles = PERCENTILE_PARTS
            .iter()
            .filter_map(|parts| {
                let value_ns = self.at(*parts)?;
                Some(Percentile {
                    q: f64::from(*parts) / PARTS as f64,
                    value_ns,
                    count_beyond: (self.values.len()
                        - self.values.partition_point(|value| *value <= value_ns))
                        as u64,
                    is_lower_bound: self.least_censored.is_some_and(|least| least <= value_ns),
                })
            })
            .collect();
        LatencySummary {
            count,
            mean_ns: Some(mean),
            standard_deviation_ns: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            min_ns: self.values.first().copied(),
            max_ns: self.values.last().copied(),
            percentiles,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary_of(values: &[u64]) -> LatencySummary {
        let mut samples = Samples::default();
        for value in values {
            samples.push(*value, false);
        }
        samples.sorted().summary()
    }

    fn value_at(summary: &LatencySummary, q: f64) -> u64 {
        summary
            .percentiles
            .iter()
            .find(|percentile| (percentile.q - q).abs() < 1e-9)
            .unwrap()
            .value_ns
    }

    #[test]
    fn nothing_measured_is_null_and_never_a_number() {
        let json = serde_json::to_value(summary_of(&[])).unwrap();
        assert_eq!(json["count"], 0);
        for key in ["mean_ns", "standard_deviation_ns", "min_ns", "max_ns"] {
            assert!(json[key].is_null(), "{key}");
        }
        assert_eq!(json["percentiles"].as_array().unwrap().len(), 0);
    }

    #[test]
    fn ranks_are_exact_where_a_double_would_round_up() {
        // 0.07 x 100 is 7.000000000000001 in doubles.
        let values: Vec<u64> = (1..=100).collect();
        let summary = summary_of(&values);
        for percent in 1..=99_u64 {
            assert_eq!(value_at(&summary, percent as f64 / 100.0), percent);
        }
        assert_eq!(value_at(&summary, 0.999), 100);
    }

    #[test]
    fn a_transaction_of_300_seconds_is_reported_as_such() {
        let summary = summary_of(&[1, 300_000_000_000]);
        assert_eq!(summary.max_ns, Some(300_000_000_000));
        assert_eq!(value_at(&summary, 1.0), 300_000_000_000);
    }

    #[test]
    fn percentiles_are_lower_bounds_from_the_least_censored_value_on() {
        let mut samples = Samples::default();
        for value in 1..=100 {
            samples.push(value, value == 60);
        }
        for percentile in samples.sorted().summary().percentiles {
            assert_eq!(percentile.is_lower_bound, percentile.value_ns >= 60);
        }
    }

    proptest! {
        #[test]
        fn percentiles_ascend_from_the_exact_minimum_to_the_exact_maximum(
            values in proptest::collection::vec(any::<u64>(), 1..300),
        ) {
            let summary = summary_of(&values);
            let least = *values.iter().min().unwrap();
            let most = *values.iter().max().unwrap();
            prop_assert_eq!(summary.min_ns, Some(least));
            prop_assert_eq!(summary.max_ns, Some(most));
            prop_assert_eq!(value_at(&summary, 0.0), least);
            prop_assert_eq!(value_at(&summary, 1.0), most);
            prop_assert!(summary.percentiles.windows(2).all(|w| w[0].value_ns <= w[1].value_ns));
            let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
            let mean = summary.mean_ns.unwrap();
            prop_assert!((mean * values.len() as f64 - sum as f64).abs() <= sum as f64 * 1e-9 + 1.0);
        }
    }
}
