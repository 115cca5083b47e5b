//! What a distribution promises: the probability of a key, of a range of keys, and the shares of
//! the most likely ones. Computed from the definition, by other means than the samplers.

use super::harmonic::harmonic_sum;
use super::{DistributionSpec, Permutation, SCATTER_SEED};

/// A distribution over the indices from 0 to `last`.
#[derive(Clone, Debug)]
pub struct KeyLaw {
    spec: DistributionSpec,
    last: u64,
    /// What all keys together weigh before they are scaled to 1.
    total: f64,
}

impl KeyLaw {
    /// The law of `spec`, whose parameters have been checked, over the indices from 0 to `last`.
    #[must_use]
    pub fn new(spec: DistributionSpec, last: u64) -> Self {
        let keys = u128::from(last) + 1;
        let total = match spec {
            DistributionSpec::Uniform => keys as f64,
            DistributionSpec::Gaussian { parameter } => {
                normal_range(-parameter, parameter, 2.0 * parameter)
            }
            DistributionSpec::Exponential { parameter } => -(-parameter).exp_m1(),
            DistributionSpec::Zipfian { exponent, .. } => harmonic_sum(0, keys, exponent),
        };
        Self { spec, last, total }
    }

    /// The number of keys, up to 2^64.
    #[must_use]
    pub const fn keys(&self) -> u128 {
        self.last as u128 + 1
    }

    /// The probability of one index; zero beyond the last.
    #[must_use]
    pub fn probability(&self, index: u64) -> f64 {
        let place = match self.spec {
            DistributionSpec::Zipfian { scattered: true, .. } if index <= self.last => {
                Permutation::new(self.last, SCATTER_SEED).invert(index)
            }
            _ => index,
        };
        self.share(u128::from(place), u128::from(place) + 1)
    }

    /// The share of draws that should fall on indices below `end`: the cumulative distribution, in
    /// the order of the keys; for a scattered distribution in the order of likelihood.
    #[must_use]
    pub fn share_below(&self, end: u128) -> f64 {
        self.share(0, end)
    }

    /// How many keys the most likely `ratio` (from 0 to 1) of all keys are: the nearest number.
    #[must_use]
    pub fn count_of(&self, ratio: f64) -> u128 {
        // Of 2^64 keys this is exact to 2^-53 of them, and no share is told apart more finely.
        ((self.keys() as f64 * ratio).round() as u128).min(self.keys())
    }

    /// The share of draws that should fall on the `count` most likely keys.
    #[must_use]
    pub fn share_of_top(&self, count: u128) -> f64 {
        let (start, end) = self.top(count);
        self.share(start, end)
    }

    /// The share of draws that should fall on ranks from `start` up to but not including `end`.
    #[must_use]
    pub fn share_of_ranks(&self, start: u128, end: u128) -> f64 {
        // Of a gaussian, what the larger middle run has more than the smaller one on either side.
        let (inner_start, inner_end) = self.top(start);
        let (outer_start, outer_end) = self.top(end);
        self.share(outer_start.min(inner_start), inner_start)
            + self.share(inner_end, outer_end.max(inner_end))
    }

    /// The indices of the `count` most likely keys (the ranks of scattered ones), as the first and
    /// the one after the last. Of equals, the lower.
    fn top(&self, count: u128) -> (u128, u128) {
        let count = count.min(self.keys());
        match self.spec {
            DistributionSpec::Gaussian { .. } => {
                let start = (self.keys() - count) / 2;
                (start, start + count)
            }
            _ => (0, count),
        }
    }

    /// The share of draws on indices (of scattered ones: ranks) from `start` up to but not
    /// including `end`. Small shares keep their bits.
    #[must_use]
    pub fn share(&self, start: u128, end: u128) -> f64 {
        let end = end.min(self.keys());
        if start >= end {
            return 0.0;
        }
        if start == 0 && end == self.keys() {
            return 1.0;
        }
        let keys = self.keys() as f64;
        let count = (end - start) as f64;
        let weight = match self.spec {
            DistributionSpec::Uniform => count,
            DistributionSpec::Gaussian { parameter } => {
                // Twice the distance from the middle is a whole number: nothing is lost near it.
                let edge = |place: u128| {
                    let doubled = place as i128 * 2 - self.keys() as i128;
                    parameter * (doubled as f64 / keys)
                };
                normal_range(edge(start), edge(end), 2.0 * parameter * (count / keys))
            }
            DistributionSpec::Exponential { parameter } => {
                (-parameter * (start as f64 / keys)).exp() * -(-parameter * (count / keys)).exp_m1()
            }
            DistributionSpec::Zipfian { exponent, .. } => harmonic_sum(start, end, exponent),
        };
        (weight / self.total).min(1.0)
    }
}

/// The mass of the normal density from `low` to `high`, which lie `width` apart, to 14 digits however
/// small it is. By quadrature: differences of erf lose the digits of narrow ranges and far tails.
fn normal_range(low: f64, high: f64, width: f64) -> f64 {
    if width * (low.abs().max(high.abs()) + width) <= 1.0 {
        return panel(f64::midpoint(low, high), width / 2.0);
    }
    if low >= 0.0 {
        normal_tail(low, high)
    } else if high <= 0.0 {
        normal_tail(-high, -low)
    } else {
        normal_tail(0.0, -low) + normal_tail(0.0, high)
    }
}

/// The mass from `low`, at least 0, to `high`: panels over which the density falls by a factor of e at
/// most, until what remains is below 2^-64 of it.
fn normal_tail(low: f64, high: f64) -> f64 {
    // Here the density is below the smallest double.
    const NOTHING: f64 = 39.0;
    if low >= NOTHING {
        return 0.0;
    }
    // low t + t^2 / 2 = 45.
    let end = high.min(low + 90.0 / (low + (low * low + 90.0).sqrt()));
    let (mut start, mut sum) = (low, 0.0);
    while start < end {
        let next = (start + 1.0 / (start + 1.0)).min(end);
        sum += panel(f64::midpoint(start, next), (next - start) / 2.0);
        start = next;
    }
    sum
}

/// The mass within `half` of `middle`, by one application of the rule.
fn panel(middle: f64, half: f64) -> f64 {
    let sum: f64 = GAUSS_LEGENDRE
        .iter()
        .map(|(node, weight)| {
            let (below, above) = (middle - node * half, middle + node * half);
            weight * ((-below * below / 2.0).exp() + (-above * above / 2.0).exp())
        })
        .sum();
    sum * half / std::f64::consts::TAU.sqrt()
}

/// Nodes and weights of the 10-point Gauss-Legendre rule on [-1, 1] (Abramowitz & Stegun, table
/// 25.4); each stands for itself and its mirror image.
const GAUSS_LEGENDRE: [(f64, f64); 5] = [
    (0.148_874_338_981_631_22, 0.295_524_224_714_752_87),
    (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
    (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
    (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
    (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn law(spec: &str, keys: u128) -> KeyLaw {
        KeyLaw::new(spec.parse().unwrap(), u64::try_from(keys - 1).unwrap())
    }

    /// From the definitions, in 60 digits (mpmath).
    const GOLDEN: [(&str, u128, u64, f64); 12] = [
        ("gaussian:5", 1_000_000_000_000, 0, 1.486_720_367_112_926e-17),
        ("gaussian:5", 1_000_000_000_000, 500_000_000_000, 3.989_425_091_164_273e-12),
        ("gaussian:5", 1_000_000_000_000, 123_456_789_012, 3.327_305_858_513_039e-15),
        ("gaussian:2", 1 << 63, (1 << 62) + 12_345, 1.812_610_609_503_989e-19),
        ("gaussian:30", 1_000, 480, 0.012_073_480_341_089_989),
        ("gaussian:5", 10, 0, 3.138_460_825_413_531e-5),
        ("gaussian:5", 10, 4, 0.341_344_941_762_677),
        ("gaussian:3", 1_000_000, 999_999, 2.666_331_530_641_639_2e-8),
        ("exponential:0.000000000001", 1_000_000_000_000, 100_000_000_000, 1.000_000_000_000_4e-12),
        ("exponential:5", 1_000_000_000_000, 999_999_999_999, 3.391_827_453_160_595e-14),
        ("exponential:700", 1_000, 999, 9.995_273_791_019_619e-305),
        ("exponential:50", 10, 9, 2.843_231_082_069_754_6e-20),
    ];

    #[test]
    fn the_probability_of_one_key_among_many_keeps_its_digits() {
        for (spec, keys, index, expected) in GOLDEN {
            let probability = law(spec, keys).probability(index);
            assert!(
                (probability / expected - 1.0).abs() < 1e-12,
                "{spec} {keys} {index}: {probability:e} {expected:e}"
            );
        }
    }

    #[test]
    fn probabilities_add_up_to_one_and_to_the_cumulative() {
        for spec in [
            "uniform",
            "gaussian:2",
            "gaussian:40",
            "exponential:0.1",
            "exponential:90",
            "zipfian:0.01",
            "zipfian:1",
            "zipfian:1000",
        ] {
            for keys in [1_u32, 2, 3, 10, 501] {
                let law = law(spec, keys.into());
                let mut sum = 0.0;
                for index in 0..keys {
                    sum += law.probability(index.into());
                    let below = law.share_below(u128::from(index) + 1);
                    assert!((sum - below).abs() < 1e-13, "{spec} {keys} {index}: {sum} {below}");
                }
                assert!((sum - 1.0).abs() < 1e-13, "{spec} {keys}: {sum}");
                let by_rank: f64 =
                    (0..keys).map(|r| law.share_of_ranks(r.into(), u128::from(r) + 1)).sum();
                assert!((by_rank - 1.0).abs() < 1e-13, "{spec} {keys}: {by_rank}");
            }
        }
    }

    #[test]
    fn shares_of_ranks_never_grow_with_rank() {
        for spec in ["gaussian:2", "gaussian:5", "exponential:3", "zipfian:0.3"] {
            for keys in [2_u32, 3, 10, 101] {
                let law = law(spec, keys.into());
                let mut before = f64::INFINITY;
                for rank in 0..keys {
                    let share = law.share_of_ranks(rank.into(), u128::from(rank) + 1);
                    assert!(share <= before * (1.0 + 1e-12), "{spec} {keys} {rank}");
                    before = share;
                }
            }
        }
    }

    #[test]
    fn beyond_the_last_key_there_is_nothing() {
        for spec in ["uniform", "gaussian:5", "zipfian:1", "zipfian:1,scattered"] {
            assert!(law(spec, 10).probability(10) <= 0.0, "{spec}");
            assert!((law(spec, 10).share_below(99) - 1.0).abs() < 1e-15, "{spec}");
        }
    }

    #[test]
    fn a_whole_i64_range_has_a_law_too() {
        for spec in ["uniform", "gaussian:5", "exponential:5", "zipfian:0.99"] {
            let law = KeyLaw::new(spec.parse().unwrap(), u64::MAX);
            assert_eq!(law.keys(), 1 << 64);
            let halves = law.share(0, 1 << 63) + law.share(1 << 63, 1 << 64);
            assert!((halves - 1.0).abs() < 1e-12, "{spec}: {halves}");
        }
    }
}
