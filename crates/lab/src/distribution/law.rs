//! What a distribution promises: the probability of a key, of a range of keys, and the shares of
//! the most likely ones. Computed from the definition, by other means than the samplers.

use statrs::function::erf::{erf, erfc};

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
            DistributionSpec::Gaussian { parameter } => normal_between(-parameter, parameter),
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

/// The mass of the normal density from `low` to `high`, `width` apart. Narrow ranges by quadrature,
/// since the difference of two nearly equal values of erf would have few bits left.
fn normal_range(low: f64, high: f64, width: f64) -> f64 {
    let reach = low.abs().max(high.abs());
    if width * (reach + width) > 2.0 {
        return normal_between(low, high);
    }
    let middle = f64::midpoint(low, high);
    let half = width / 2.0;
    let sum: f64 = GAUSS_LEGENDRE
        .iter()
        .map(|(node, weight)| {
            let (below, above) = (middle - node * half, middle + node * half);
            weight * ((-below * below / 2.0).exp() + (-above * above / 2.0).exp())
        })
        .sum();
    sum * half / std::f64::consts::TAU.sqrt()
}

/// The mass of the normal density from `low` to `high`, which lie apart.
fn normal_between(low: f64, high: f64) -> f64 {
    use std::f64::consts::FRAC_1_SQRT_2 as SCALE;
    if low >= 0.0 {
        (erfc(low * SCALE) - erfc(high * SCALE)) / 2.0
    } else if high <= 0.0 {
        (erfc(-high * SCALE) - erfc(-low * SCALE)) / 2.0
    } else {
        f64::midpoint(erf(high * SCALE), erf(-low * SCALE))
    }
}

/// Nodes and weights of the 10-point Gauss-Legendre rule on [-1, 1] (Abramowitz & Stegun, table
/// 25.4); each stands for itself and its mirror image.
const GAUSS_LEGENDRE: [(f64, f64); 5] = [
    (0.148_874_338_981_631_21, 0.295_524_224_714_752_87),
    (0.433_395_394_129_247_19, 0.269_266_719_309_996_36),
    (0.679_409_568_299_024_41, 0.219_086_362_515_982_04),
    (0.865_063_366_688_984_51, 0.149_451_349_150_580_59),
    (0.973_906_528_517_171_72, 0.066_671_344_308_688_14),
];
