//! Counts in logarithmic buckets.

use crate::experiment::document::HistogramBucket;

/// Buckets per power of two: widths from 1/32 to 1/16 of the value, about 5%.
const STEPS_PER_OCTAVE: u64 = 16;
const STEP_BITS: u32 = STEPS_PER_OCTAVE.trailing_zeros();
const BUCKET_COUNT: usize = ((64 - STEP_BITS as usize) + 1) * STEPS_PER_OCTAVE as usize;

/// Counts of 64-bit values in buckets about 5% wide; values below 16 are exact. No value is clamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKET_COUNT], total: 0 }
    }
}

impl LogHistogram {
    /// Counts a value.
    #[inline]
    pub fn count(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.total += 1;
    }

    /// How many values were counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// The upper bound of the bucket that holds the value of rank ceil(`parts` x total / 10000);
    /// null where nothing was counted.
    #[must_use]
    pub fn upper_at(&self, parts: u32) -> Option<u64> {
        let rank = super::percentile::rank(parts, self.total)?;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(upper_of(index));
            }
        }
        None
    }

    /// The buckets that are not empty, ascending.
    #[must_use]
    pub fn buckets(&self) -> Vec<HistogramBucket> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| HistogramBucket { upper_ns: upper_of(index), count: *count })
            .collect()
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < STEPS_PER_OCTAVE {
        return value as usize;
    }
    let octave = value.ilog2() - STEP_BITS;
    let step = (value >> octave) - STEPS_PER_OCTAVE;
    ((u64::from(octave) + 1) * STEPS_PER_OCTAVE + step) as usize
}

/// The largest value of a bucket.
fn upper_of(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS_PER_OCTAVE {
        return index;
    }
    let octave = index / STEPS_PER_OCTAVE - 1;
    let step = index % STEPS_PER_OCTAVE + STEPS_PER_OCTAVE;
    let end = (u128::from(step) + 1) << octave;
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_the_range_have_buckets() {
        let mut histogram = LogHistogram::default();
        histogram.count(0);
        histogram.count(u64::MAX);
        let buckets = histogram.buckets();
        assert_eq!(buckets[0].upper_ns, 0);
        assert_eq!(buckets[1].upper_ns, u64::MAX);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_and_is_at_most_a_sixteenth_wide(value in any::<u64>()) {
            let index = bucket_of(value);
            let upper = upper_of(index);
            prop_assert!(value <= upper);
            if index > 0 {
                prop_assert!(value > upper_of(index - 1));
            }
            prop_assert!(upper - value <= value / 16 + 1);
        }
    }
}
