//! pgbench's exponential: a density that falls by exp(-parameter) from the first key to the last.

use super::settle;
use super::stream::RandomStream;

/// Draws positions in `0..=last`, the first ones most often.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exponential {
    parameter: f64,
    last: u64,
    /// The number of keys over the parameter: the mean of the density before the cut.
    length: f64,
    /// exp(-parameter).
    cut: f64,
    /// 1 - exp(-parameter), without loss for small parameters.
    kept: f64,
}

impl Exponential {
    pub(super) fn new(parameter: f64, last: u64) -> Self {
        let count = last as f64 + 1.0;
        Self {
            parameter,
            last,
            length: count / parameter,
            cut: (-parameter).exp(),
            kept: -(-parameter).exp_m1(),
        }
    }

    #[inline]
    pub(super) fn draw(&self, stream: &mut RandomStream) -> u64 {
        if self.parameter < TINY {
            return stream.up_to(self.last);
        }
        let bits = stream.bits();
        let depth = if self.parameter < 1.0 {
            -(-self.kept * stream.positive_unit_from(bits)).ln_1p()
        } else {
            // The lower and the upper half of the probability each from their own end, where
            // doubles are fine: keys near the start are told apart, and the tail does not end early.
            let half = stream.positive_unit_from(bits << 1) / 2.0;
            if bits >> 63 == 0 {
                -(-self.kept * half).ln_1p()
            } else {
                -(self.cut + self.kept * half).ln()
            }
        };
        settle(depth * self.length, stream).min(self.last)
    }
}

/// Below, the first and the last key differ by less than a double can say.
const TINY: f64 = 1e-17;
