//! Gaps between the arrivals of a Poisson process, in whole nanoseconds.

use super::stream::RandomStream;

/// Draws exponential gaps whose mean is exact at any rate: the part of a nanosecond that a gap
/// leaves over is carried into the next one, so a rate of 10^12 a second yields mostly gaps of
/// zero, and the right number of arrivals a second.
#[derive(Clone, Debug)]
pub struct PoissonGaps {
    mean_ns: f64,
    carried_ns: f64,
}

impl PoissonGaps {
    /// Gaps for `rate_per_s` arrivals a second. `None` unless the rate is positive and finite.
    #[must_use]
    pub fn new(rate_per_s: f64) -> Option<Self> {
        (rate_per_s.is_finite() && rate_per_s > 0.0)
            .then(|| Self { mean_ns: 1e9 / rate_per_s, carried_ns: 0.0 })
    }

    /// The mean gap in nanoseconds.
    #[must_use]
    pub const fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// The time from the last arrival to the next, in nanoseconds; at most `u64::MAX`, which at
    /// rates below 10^-9 a second stands for "never".
    #[inline]
    pub fn next_gap_ns(&mut self, stream: &mut RandomStream) -> u64 {
        let gap_ns = self.carried_ns + stream.exponential() * self.mean_ns;
        if gap_ns >= super::stream::TWO_POW_64 {
            self.carried_ns = 0.0;
            return u64::MAX;
        }
        let whole = gap_ns as u64;
        self.carried_ns = gap_ns - whole as f64;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;

    #[test]
    fn arrivals_come_at_the_rate_asked_for_even_beyond_one_a_nanosecond() {
        for rate_per_s in [0.001, 1.0, 1e3, 1e9, 3e9, 1e12] {
            let mut gaps = PoissonGaps::new(rate_per_s).unwrap();
            let mut stream = RandomStream::new(3, 0, Purpose::Arrival);
            let sum: u128 = (0..200_000).map(|_| u128::from(gaps.next_gap_ns(&mut stream))).sum();
            let ratio = sum as f64 / 200_000.0 / gaps.mean_ns();
            // The standard error is 0.22%; five of them.
            assert!((ratio - 1.0).abs() < 0.0112, "{rate_per_s}: {ratio}");
        }
    }

    #[test]
    fn a_rate_below_anything_is_never_not_an_overflow() {
        let mut gaps = PoissonGaps::new(1e-300).unwrap();
        let mut stream = RandomStream::new(3, 0, Purpose::Arrival);
        assert_eq!(gaps.next_gap_ns(&mut stream), u64::MAX);
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(PoissonGaps::new(rate).is_none(), "{rate}");
        }
    }
}
