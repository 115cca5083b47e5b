//! pgbench's gaussian: a normal density cut off at a number of standard deviations on both sides.

use std::f64::consts::TAU;

use super::settle;
use super::stream::RandomStream;

/// Draws positions in `0..=last`, the middle ones most often.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gaussian {
    parameter: f64,
    last: u64,
    /// Standard deviation in keys.
    deviation: f64,
}

impl Gaussian {
    pub(super) fn new(parameter: f64, last: u64) -> Self {
        let count = last as f64 + 1.0;
        Self { parameter, last, deviation: count / parameter / 2.0 }
    }

    /// Box and Muller's transform ("A note on the generation of random normal deviates", 1958),
    /// redrawn until within the cut: at most one draw in 20 is thrown away.
    #[inline]
    pub(super) fn draw(&self, stream: &mut RandomStream) -> u64 {
        let normal = loop {
            let radius = (-2.0 * stream.positive_unit().ln()).sqrt();
            let normal = radius * (TAU * stream.unit()).sin();
            if normal.abs() < self.parameter {
                break normal;
            }
        };
        // Counted from the middle, so that positions near it are fine whatever the parameter. With
        // an odd number of keys the middle one reaches half a key to both sides.
        let distance = normal.abs() * self.deviation;
        let middle = self.last / 2;
        if self.last.is_multiple_of(2) {
            let steps = settle(distance + 0.5, stream).min(middle);
            if normal < 0.0 { middle - steps } else { middle + steps }
        } else {
            let steps = settle(distance, stream).min(middle);
            if normal < 0.0 { middle - steps } else { middle + 1 + steps }
        }
    }

    /// The place of `index` in the order of likelihood: from the middle outwards, of two equals the
    /// lower first.
    #[inline]
    pub(super) fn rank(&self, index: u64) -> u64 {
        let mirrored = self.last - index;
        // Between an index and its mirror image: 0 or 1 in the middle, `last` at the ends.
        let apart = index.abs_diff(mirrored);
        if index < mirrored { apart - 1 } else { apart }
    }
}
