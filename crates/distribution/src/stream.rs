//! Reproducible chance: one independent stream per (seed, client, purpose).
//!
//! The generator is xoshiro256++ (Blackman & Vigna, "Scrambled linear pseudorandom number
//! generators", 2021). The starting states of different (seed, client, purpose) always differ: each
//! of the three fills a word of the state through a bijection of its own.

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
    /// Generated page traces.
    Trace = 6,
}

/// A stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomStream {
    generator: Xoshiro256PlusPlus,
}

impl RandomStream {
    /// The stream of `client` for `purpose` in a run with `seed`.
    #[must_use]
    pub fn new(seed: u64, client: u64, purpose: Purpose) -> Self {
        // Each word is a bijection of one of the three (given the ones before it), so no two
        // streams start in the same state; word 3 makes all words depend on all three.
        let first = mix(seed.wrapping_add(GOLDEN));
        let second = mix(client.wrapping_add(first).wrapping_add(GOLDEN));
        let third = mix((purpose as u64).wrapping_add(second).wrapping_add(GOLDEN));
        let fourth = mix(first.rotate_left(32) ^ second.rotate_left(16) ^ third);
        let mut bytes = [0_u8; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip([first, second, third, fourth]) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let mut generator = Xoshiro256PlusPlus::from_seed(bytes);
        // Neighbouring clients share a word of the state: let it spread before the first draw.
        for _ in 0..16 {
            generator.next_u64();
        }
        Self { generator }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number in `0..=last`, each equally likely (Lemire, "Fast random integer generation in an
    /// interval", 2019); `last` may be `u64::MAX`.
    #[inline]
    pub fn up_to(&mut self, last: u64) -> u64 {
        let Some(count) = last.checked_add(1) else { return self.bits() };
        let mut product = u128::from(self.bits()) * u128::from(count);
        if (product as u64) < count {
            // 2^64 modulo count: so many of the products' low words are surplus.
            let surplus = count.wrapping_neg() % count;
            while (product as u64) < surplus {
                product = u128::from(self.bits()) * u128::from(count);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `low..=high`, each equally likely, over any part of the i64 range. The caller
    /// has checked that `low <= high`; else the two are exchanged.
    #[inline]
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        let offset = self.up_to(high.wrapping_sub(low) as u64);
        low.wrapping_add(offset as i64)
    }

    /// A double in [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * EPSILON
    }

    /// A double in (0, 1] with all its 53 bits random however small it is, down to 2^-75; so that
    /// a logarithm or a power of it has no coarse grid and no early end at the small side.
    #[inline]
    pub fn positive_unit(&mut self) -> f64 {
        let bits = self.bits();
        self.positive_unit_from(bits)
    }

    /// [`positive_unit`](Self::positive_unit) from bits that were drawn already.
    #[inline]
    pub(super) fn positive_unit_from(&mut self, bits: u64) -> f64 {
        if bits < 1 << 53 {
            // Fewer than 53 significant bits: continue with 64 more. One draw in 2048 comes here.
            let more = self.bits() | 1;
            return (bits as f64 * TWO_POW_64 + more as f64) / (TWO_POW_64 * TWO_POW_64);
        }
        bits as f64 / TWO_POW_64
    }

    /// Exponentially distributed with mean 1: at most about 89.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -self.positive_unit().ln()
    }

    /// An exponentially distributed gap with the given mean, in nanoseconds, rounded to the nearest.
    /// Rounding loses arrivals at very high rates: [`PoissonGaps`](super::PoissonGaps) does not.
    #[inline]
    pub fn exponential_gap_ns(&mut self, mean_ns: f64) -> u64 {
        (self.exponential() * mean_ns + 0.5) as u64
    }
}

/// 2^-53.
const EPSILON: f64 = 1.0 / 9_007_199_254_740_992.0;
/// 2^64.
pub(super) const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;
/// The increment of SplitMix64: 2^64 over the golden ratio, odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64 (Steele, Lea & Flood 2014; variant 13 of Stafford): a
/// bijection of 64 bits.
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
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
    fn small_values_keep_all_their_bits() {
        // Three leading bits from the first word are continued by a second one, which differs.
        let mut stream = RandomStream::new(5, 0, Purpose::Audit);
        for bits in [0, 1, 5, (1 << 53) - 1, 1 << 53, u64::MAX] {
            let value = stream.positive_unit_from(bits);
            assert!(value > 0.0 && value <= 1.0);
            assert!((value - bits as f64 / TWO_POW_64).abs() <= 2.0 / TWO_POW_64);
        }
        let (one, other) = (stream.positive_unit_from(3), stream.positive_unit_from(3));
        assert_ne!(one.to_bits(), other.to_bits());
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
