//! pgbench's exponential distribution: a truncated exponential cut into n equal pieces.

use super::{EXACT_KEYS, RandomStream, fill_gap};

/// Density falls by e^-parameter from the first key to the last.
///
/// With c = e^-p and u uniform in (0, 1]: r = -ln(c + (1 - c) u) / p lies in [0, 1), and the index is
/// floor(n r). The share of indices below k is (1 - e^(-p k / n)) / (1 - e^-p).
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    parameter: f64,
    /// e^-parameter and 1 - e^-parameter; the latter by `exp_m1`, exact for small parameters too.
    cut: f64,
    rest: f64,
    keys: f64,
    last: u64,
}

impl Exponential {
    /// `parameter` must be above zero and finite.
    #[must_use]
    pub fn new(parameter: f64, last: u64) -> Self {
        Self {
            parameter,
            cut: (-parameter).exp(),
            rest: -(-parameter).exp_m1(),
            keys: last as f64 + 1.0,
            last,
        }
    }

    /// Draws an index.
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream) -> u64 {
        let u = stream.positive_unit();
        // 1 - rest (1 - u) = cut + rest u; in this form small parameters lose no bits.
        let position = -(-self.rest * (1.0 - u)).ln_1p() / self.parameter;
        let index = (position * self.keys) as u64;
        if self.last < EXACT_KEYS {
            return index.min(self.last);
        }
        // The step of u, 2^-53, stretched by the slope of the inverse at this place.
        let slope = self.rest / (self.parameter * (self.cut + self.rest * u));
        let gap = self.keys * slope * (1.0 / (1_u64 << 53) as f64);
        fill_gap(index, gap, self.last, stream)
    }

    /// The share of draws below `end`.
    #[must_use]
    pub fn share_below(&self, end: u64) -> f64 {
        (-(-self.parameter * (end as f64 / self.keys)).exp_m1() / self.rest).clamp(0.0, 1.0)
    }
}
