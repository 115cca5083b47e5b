//! The exact sign-flip test on paired differences, and its inversion into an interval.
//!
//! Under the null hypothesis each pair's difference is as likely positive as negative, so all 2^n sign
//! patterns are equally likely (R. A. Fisher, *The Design of Experiments*, 1935). With the mean as the
//! statistic the studentised mean orders patterns in the same way, since the sum of squares does not
//! change under flips.
//!
//! The interval is the set of shifts that the test does not reject. A one-sided test of the shift
//! `theta` counts the sign patterns whose flipped pairs have a mean of at most `theta`; so the ends of
//! the interval are order statistics of the means of all subsets of pairs. That makes it exact without
//! any search.

use crate::distribution::{Purpose, RandomStream};

/// Up to so many pairs all patterns are enumerated.
pub const EXACT_PAIRS_MAX: usize = 16;

/// Beyond that, so many are drawn.
pub const DRAWN_PATTERNS: usize = 65_536;

/// Differences closer than this share of the larger count as ties: the same sum in another order of
/// adding must not become another pattern.
const TIE_RATIO: f64 = 1e-9;

/// Sorted means of subsets of pairs: all there are, or a sample.
#[derive(Clone, Debug)]
pub struct SubsetMeans {
    sorted: Vec<f64>,
    /// Sign patterns they stand for, the pattern without any flip included.
    patterns: f64,
}

impl SubsetMeans {
    /// Of `differences`, at least one, all finite. `seed` is used beyond [`EXACT_PAIRS_MAX`] pairs.
    #[must_use]
    pub fn new(differences: &[f64], seed: u64) -> Self {
        let n = differences.len();
        let mut sorted = Vec::new();
        if n <= EXACT_PAIRS_MAX {
            // Each pair doubles the sums: those without it, then those with it.
            let mut sums = Vec::with_capacity(1 << n);
            sums.push(0.0);
            for difference in differences {
                for at in 0..sums.len() {
                    sums.push(sums.get(at).copied().unwrap_or(0.0) + difference);
                }
            }
            sorted = (0_u32..)
                .zip(sums)
                .skip(1)
                .map(|(pattern, sum)| sum / f64::from(pattern.count_ones()))
                .collect();
        } else {
            let mut stream = RandomStream::new(seed, 0, Purpose::Audit);
            sorted.reserve(DRAWN_PATTERNS);
            while sorted.len() < DRAWN_PATTERNS {
                let (mut sum, mut count) = (0.0, 0.0);
                let mut bits = stream.bits();
                for (i, difference) in differences.iter().enumerate() {
                    if i % 64 == 63 {
                        bits = stream.bits();
                    }
                    if bits & 1 == 1 {
                        sum += difference;
                        count += 1.0;
                    }
                    bits >>= 1;
                }
                if count > 0.0 {
                    sorted.push(sum / count);
                }
            }
        }
        sorted.sort_by(f64::total_cmp);
        let patterns = sorted.len() as f64 + 1.0;
        Self { sorted, patterns }
    }

    /// The share of patterns at least as far below (`is_low`) or above the shift as none flipped.
    fn one_sided(&self, shift: f64, is_low: bool) -> f64 {
        let scale = self
            .sorted
            .last()
            .map_or(0.0, |m| m.abs())
            .max(self.sorted.first().map_or(0.0, |m| m.abs()));
        let tie = scale * TIE_RATIO;
        let count = if is_low {
            self.sorted.partition_point(|mean| *mean <= shift + tie)
        } else {
            self.sorted.len() - self.sorted.partition_point(|mean| *mean < shift - tie)
        };
        (count as f64 + 1.0) / self.patterns
    }

    /// Two-sided p of the hypothesis that the differences lie around `shift`.
    #[must_use]
    pub fn p(&self, shift: f64) -> f64 {
        (2.0 * self.one_sided(shift, true).min(self.one_sided(shift, false))).min(1.0)
    }

    /// The shifts that the two-sided test at level `alpha` does not reject; `None` when there are too
    /// few pairs to reject anything at that level.
    #[must_use]
    pub fn interval(&self, alpha: f64) -> Option<(f64, f64)> {
        // As many of the extreme subsets may lie outside as keep each side's p at or below alpha/2.
        let rank = (alpha / 2.0 * self.patterns + TIE_RATIO).floor();
        if rank < 1.0 {
            return None;
        }
        let index = rank as usize - 1;
        let low = *self.sorted.get(index)?;
        let high = *self.sorted.get(self.sorted.len() - 1 - index)?;
        Some((low, high))
    }
}

/// The smallest two-sided p that `pairs` pairs can reach.
#[must_use]
pub fn p_floor(pairs: usize) -> f64 {
    if pairs > EXACT_PAIRS_MAX {
        return 2.0 / (DRAWN_PATTERNS as f64 + 1.0);
    }
    (2.0 / f64::from(1_u32 << pairs)).min(1.0)
}

/// Arithmetic mean; `None` of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation with n - 1; `None` below two values.
#[must_use]
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    if values.len() < 2 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() as f64 - 1.0)).sqrt())
}

/// Median; of an even number the mean of the two in the middle. `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        None
    } else if sorted.len() % 2 == 1 {
        sorted.get(middle).copied()
    } else {
        Some((sorted.get(middle - 1)? + sorted.get(middle)?) / 2.0)
    }
}

/// The Hodges-Lehmann estimate of a centre: the median of the means of all pairs of values, each value
/// paired with itself as well. One wild value moves it little. `None` of nothing.
#[must_use]
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, a) in values.iter().enumerate() {
        means.extend(values.iter().skip(i).map(|b| (a + b) / 2.0));
    }
    median(&means)
}

/// The Hodges-Lehmann shift between two unpaired samples: the median of all differences b - a.
#[must_use]
pub fn hodges_lehmann_shift(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    median(&differences)
}

/// Two-sided p of the exact permutation test on the difference of means of two unpaired samples; all
/// splits where there are at most [`DRAWN_PATTERNS`], else a sample. `None` when a sample is empty.
#[must_use]
pub fn unpaired_p(a: &[f64], b: &[f64], seed: u64) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let pool: Vec<f64> = a.iter().chain(b).copied().collect();
    let total: f64 = pool.iter().sum();
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let distance = |sum_a: f64| ((total - sum_a) / nb - sum_a / na).abs();
    let observed = distance(a.iter().sum());
    let tie = observed * TIE_RATIO;
    let (mut extreme, mut count) = (0_u64, 0_u64);
    let mut look = |sum_a: f64| {
        count += 1;
        extreme += u64::from(distance(sum_a) >= observed - tie);
    };
    if splits(pool.len(), a.len()) <= DRAWN_PATTERNS as f64 {
        for_each_subset_sum(&pool, a.len(), &mut look);
    } else {
        look(a.iter().sum());
        let mut stream = RandomStream::new(seed, 1, Purpose::Audit);
        let mut shuffled = pool;
        for _ in 0..DRAWN_PATTERNS {
            for i in 0..a.len() {
                let other = i + stream.up_to((shuffled.len() - 1 - i) as u64) as usize;
                shuffled.swap(i, other);
            }
            look(shuffled.iter().take(a.len()).sum());
        }
    }
    Some(extreme as f64 / count as f64)
}

/// How many ways there are to choose `k` of `n`.
fn splits(n: usize, k: usize) -> f64 {
    (0..k.min(n - k)).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

fn for_each_subset_sum(values: &[f64], size: usize, look: &mut impl FnMut(f64)) {
    fn go(values: &[f64], left: usize, sum: f64, look: &mut impl FnMut(f64)) {
        if left == 0 {
            look(sum);
            return;
        }
        for i in 0..=values.len().saturating_sub(left) {
            if let (Some(value), Some(rest)) = (values.get(i), values.get(i + 1..)) {
                go(rest, left - 1, sum + value, look);
            }
        }
    }
    go(values, size, 0.0, look);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_p_is_that_of_the_number_of_pairs() {
        for (pairs, floor) in [(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125), (8, 0.0078125)] {
            let same_sign: Vec<f64> = (1..=pairs).map(|i| i as f64).collect();
            let p = SubsetMeans::new(&same_sign, 0).p(0.0);
            assert!((p - floor).abs() < 1e-12, "{pairs}: {p}");
            assert!((p_floor(pairs) - floor).abs() < 1e-12);
        }
    }

    #[test]
    fn p_is_the_share_of_patterns_at_least_as_extreme() {
        let differences = [0.5, -0.2, 1.0, 0.3, 0.1];
        let observed: f64 = differences.iter().sum();
        let mut extreme = 0;
        for pattern in 0_u32..32 {
            let sum: f64 = differences
                .iter()
                .enumerate()
                .map(|(i, d)| if pattern & (1 << i) == 0 { *d } else { -*d })
                .sum();
            extreme += u32::from(sum.abs() >= observed.abs() - 1e-12);
        }
        let p = SubsetMeans::new(&differences, 0).p(0.0);
        assert!((p - f64::from(extreme) / 32.0).abs() < 1e-12, "{p} {extreme}");
    }

    #[test]
    fn the_interval_holds_exactly_the_shifts_that_are_not_rejected() {
        let differences = [0.021, -0.004, 0.013, 0.03, 0.011, 0.008, 0.002, 0.017];
        let means = SubsetMeans::new(&differences, 0);
        let (low, high) = means.interval(0.05).unwrap();
        let inside = 1e-6;
        assert!(means.p(low + inside) > 0.05 && means.p(high - inside) > 0.05);
        assert!(means.p(low - inside) <= 0.05 && means.p(high + inside) <= 0.05);
    }

    #[test]
    fn six_pairs_have_an_interval_and_five_have_none() {
        assert_eq!(SubsetMeans::new(&[1.0, 2.0, 3.0, 4.0, 5.0], 0).interval(0.05), None);
        let six = [3.0, 1.0, 2.0, 6.0, 5.0, 4.0];
        assert_eq!(SubsetMeans::new(&six, 0).interval(0.05), Some((1.0, 6.0)));
    }

    #[test]
    fn drawn_patterns_agree_with_enumerated_ones() {
        let sixteen: Vec<f64> = (0..16).map(|i| f64::from(i * 37 % 16) / 10.0 - 0.4).collect();
        let exact = SubsetMeans::new(&sixteen, 0);
        let mut seventeen = sixteen.clone();
        seventeen.push(0.35);
        let drawn = SubsetMeans::new(&seventeen, 9);
        assert!((exact.p(0.0) - drawn.p(0.0)).abs() < 0.01);
        assert_eq!(drawn.sorted.len(), DRAWN_PATTERNS);
    }

    #[test]
    fn three_against_three_cannot_go_below_a_tenth() {
        let p = unpaired_p(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0], 0).unwrap();
        assert!((p - 0.1).abs() < 1e-12);
    }

    /// Study 4's three runs an arm at p99 and the maximum: p = 4/20 and 12/20.
    #[test]
    fn estimates_of_centre_are_the_textbook_ones() {
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 9.0]), Some(3.5));
        assert_eq!(hodges_lehmann_shift(&[1.0, 2.0, 3.0], &[4.0, 5.0, 9.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
        assert_eq!(standard_deviation(&[1.0]), None);
    }

    #[test]
    fn swapping_the_arms_mirrors_the_interval() {
        use proptest::prelude::*;
        proptest!(|(differences in proptest::collection::vec(-1.0_f64..1.0, 6..10))| {
            let mirrored: Vec<f64> = differences.iter().map(|d| -d).collect();
            let (a, b) = (SubsetMeans::new(&differences, 0), SubsetMeans::new(&mirrored, 0));
            let ((low, high), (mlow, mhigh)) = (a.interval(0.05).unwrap(), b.interval(0.05).unwrap());
            prop_assert!((low + mhigh).abs() < 1e-12 && (high + mlow).abs() < 1e-12);
            prop_assert!((a.p(0.0) - b.p(0.0)).abs() < 1e-12);
        });
    }
}
