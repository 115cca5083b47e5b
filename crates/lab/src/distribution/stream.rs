//! Reproducible random streams, one per client and purpose.
//!
//! What a client draws must not depend on the timing of threads, so each client owns its streams, and
//! they follow from the run's seed alone.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a stream is for. Streams of different purposes are independent, so that drawing more of one
/// thing does not shift the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Random functions in scripts.
    Script = 1,
    /// Which script a transaction runs.
    ScriptChoice = 2,
    /// Arrivals of the schedule.
    Arrival = 3,
    /// Which transactions are logged.
    Sampling = 4,
    /// Drawing outside of a run, as by `evenkeel distribution`.
    Audit = 5,
}

/// A stream of random numbers (xoshiro256++, D. Blackman and S. Vigna, 2019).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomStream(Xoshiro256PlusPlus);

/// One step of SplitMix64 (S. Vigna): spreads related seeds over the whole space.
fn spread(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl RandomStream {
    /// The stream of `client` for `purpose` under the run's seed.
    #[must_use]
    pub fn new(seed: u64, client: u64, purpose: Purpose) -> Self {
        let mixed = spread(spread(spread(seed) ^ client) ^ purpose as u64);
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in (0, 1], in steps of 2^-53.
    #[inline]
    pub fn positive_unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..=`last`, without bias (D. Lemire, ACM TOMACS 29, 2019).
    #[inline]
    pub fn up_to(&mut self, last: u64) -> u64 {
        let Some(count) = last.checked_add(1) else {
            return self.bits();
        };
        let mut product = u128::from(self.bits()) * u128::from(count);
        if (product as u64) < count {
            let threshold = count.wrapping_neg() % count;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(count);
            }
        }
        (product >> 64) as u64
    }

    /// An exponentially distributed gap with the given mean, in nanoseconds, rounded to the nearest;
    /// the gaps of a Poisson process. At most about 44 means.
    #[inline]
    pub fn exponential_gap_ns(&mut self, mean_ns: f64) -> u64 {
        // Adding the rounding error of each gap to the next is the caller's concern: see
        // `driver::schedule`, which keeps the sum in floating point.
        (-self.positive_unit().ln() * mean_ns + 0.5) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_client_and_purpose() {
        let draw = |seed, client, purpose| RandomStream::new(seed, client, purpose).bits();
        assert_eq!(draw(1, 2, Purpose::Script), draw(1, 2, Purpose::Script));
        assert_ne!(draw(1, 2, Purpose::Script), draw(1, 3, Purpose::Script));
        assert_ne!(draw(1, 2, Purpose::Script), draw(1, 2, Purpose::Arrival));
        assert_ne!(draw(1, 2, Purpose::Script), draw(2, 2, Purpose::Script));
    }

    #[test]
    fn every_value_of_a_small_range_is_as_likely() {
        let mut stream = RandomStream::new(5, 0, Purpose::Audit);
        let mut counts = [0_i64; 7];
        for _ in 0..70_000 {
            counts[usize::try_from(stream.up_to(6)).unwrap()] += 1;
        }
        // Six degrees of freedom; 99.9% of samples lie below 22.5.
        let chi: f64 = counts.iter().map(|c| ((c - 10_000) as f64).powi(2) / 10_000.0).sum();
        assert!(chi < 22.5, "{counts:?}");
    }

    #[test]
    fn the_whole_range_and_a_single_value_are_ranges_too() {
        let mut stream = RandomStream::new(5, 0, Purpose::Audit);
        assert_eq!(stream.up_to(0), 0);
        let high = (0..64).filter(|_| stream.up_to(u64::MAX) > u64::MAX / 2).count();
        assert!((10..55).contains(&high));
    }

    #[test]
    fn gaps_have_the_mean_asked_for() {
        let mut stream = RandomStream::new(9, 0, Purpose::Arrival);
        let sum: u128 = (0..100_000).map(|_| u128::from(stream.exponential_gap_ns(1e6))).sum();
        let mean = sum as f64 / 100_000.0;
        // The standard error is 0.32%.
        assert!((mean / 1e6 - 1.0).abs() < 0.013, "{mean}");
    }
}
