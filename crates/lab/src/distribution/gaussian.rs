//! pgbench's Gaussian distribution: a normal deviate cut at the parameter, stretched over n keys.

use statrs::function::erf::erf;

use super::{EXACT_KEYS, RandomStream, fill_gap};

/// The middle key is the most likely; the standard deviation is n / (2 parameter).
///
/// z is normal, redrawn unless -p <= z < p; the index is floor(n (z + p) / (2 p)). The share of
/// indices below k is (Phi(2 p k / n - p) - Phi(-p)) / (2 Phi(p) - 1); the middle fraction q of the
/// keys holds erf(q p / sqrt 2) / erf(p / sqrt 2).
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    parameter: f64,
    keys: f64,
    last: u64,
    whole: f64,
}

impl Gaussian {
    /// `parameter` must be at least 2 and finite.
    #[must_use]
    pub fn new(parameter: f64, last: u64) -> Self {
        Self {
            parameter,
            keys: last as f64 + 1.0,
            last,
            whole: erf(parameter * std::f64::consts::FRAC_1_SQRT_2),
        }
    }

    /// Draws an index.
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream) -> u64 {
        loop {
            // Marsaglia's polar method, the two deviates of a pair tried in turn.
            let x = 2.0 * stream.unit() - 1.0;
            let y = 2.0 * stream.unit() - 1.0;
            let square = x * x + y * y;
            if square >= 1.0 || square <= 0.0 {
                continue;
            }
            let scale = (-2.0 * square.ln() / square).sqrt();
            for deviate in [x * scale, y * scale] {
                if (-self.parameter..self.parameter).contains(&deviate) {
                    return self.index_of(deviate, stream);
                }
            }
        }
    }

    #[inline]
    fn index_of(&self, deviate: f64, stream: &mut RandomStream) -> u64 {
        let position = (deviate + self.parameter) / (2.0 * self.parameter);
        let index = (position * self.keys) as u64;
        if self.last < EXACT_KEYS {
            return index.min(self.last);
        }
        // A deviate is a function of two draws of 53 bits; its neighbours lie closer than one step of
        // either, and this gap covers a step in the tails.
        let gap = self.keys * (1.0 / (1_u64 << 50) as f64);
        fill_gap(index, gap, self.last, stream)
    }

    /// The place of `index` in the order of likelihood: from the middle outwards, a pair of equals in
    /// any order.
    #[inline]
    #[must_use]
    pub fn rank(&self, index: u64) -> u64 {
        let mirrored = self.last - index;
        // Distance between an index and its mirror image: 0 or 1 in the middle, `last` at the ends.
        let apart = index.abs_diff(mirrored);
        if index < mirrored { apart - 1 } else { apart }
    }

    /// The share of draws below `end`.
    #[must_use]
    pub fn share_below(&self, end: u64) -> f64 {
        let place = self.parameter * (2.0 * (end as f64 / self.keys) - 1.0);
        let below = erf(place * std::f64::consts::FRAC_1_SQRT_2);
        ((below / self.whole + 1.0) / 2.0).clamp(0.0, 1.0)
    }

    /// The share of draws on the `count` most likely indices.
    #[must_use]
    pub fn share_of_top(&self, count: u64) -> f64 {
        // Ranks below `count` are a run of `count` indices around the middle.
        let outside = self.last + 1 - count;
        let first = outside / 2;
        self.share_below(first + count) - self.share_below(first)
    }
}
