//! pgbench's `hash_fnv1a`, `hash_murmur2` and `permute`, bit for bit.
//!
//! Published definitions: FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo) and MurmurHash64A (A. Appleby) over
//! the eight bytes of an integer; `permute` is described in PostgreSQL's `src/bin/pgbench/pgbench.c` and
//! draws from xoroshiro128** as of PostgreSQL 15. Versions before 15 permute in another order.

/// FNV-1a over the value's bytes, lowest first, from an offset basis mixed with `seed`.
#[must_use]
pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    value
        .to_le_bytes()
        .iter()
        .fold(OFFSET_BASIS ^ seed.cast_unsigned(), |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        })
        .cast_signed()
}

/// MurmurHash64A of one 8-byte word.
#[must_use]
pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xC6A4_A793_5BD1_E995;
    const SHIFT: u32 = 47;
    let mut word = value.cast_unsigned().wrapping_mul(MULTIPLIER);
    word = (word ^ (word >> SHIFT)).wrapping_mul(MULTIPLIER);
    // The length, 8, enters through the seed.
    let mut hash = (seed.cast_unsigned() ^ MULTIPLIER.wrapping_mul(8)) ^ word;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> SHIFT)).cast_signed()
}

/// xoroshiro128** seeded by SplitMix64, as PostgreSQL's `pg_prng` is.
struct PgRandom {
    s0: u64,
    s1: u64,
}

impl PgRandom {
    fn new(mut seed: u64) -> Self {
        let mut next = || {
            seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self { s0: next(), s1: next() }
    }

    fn bits(&mut self) -> u64 {
        let mixed = self.s1 ^ self.s0;
        let value = self.s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.s0 = self.s0.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.s1 = mixed.rotate_left(37);
        value
    }

    /// 0..=`last`, by drawing as many bits as `last` has until they are in range.
    fn up_to(&mut self, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        loop {
            let value = self.bits() >> last.leading_zeros();
            if value <= last {
                return value;
            }
        }
    }
}

/// Rounds of mixing.
const PERMUTE_ROUNDS: usize = 6;

/// A pseudorandom permutation of 0..size, chosen by a seed. Holds the rounds' constants, so that a use
/// costs a dozen multiplications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    size: u64,
    mask_bits: u32,
    rounds: [Round; PERMUTE_ROUNDS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    low: (u64, u64),
    high: (u64, u64),
    offset: u64,
}

impl Permutation {
    /// The permutation of 0..`size` that `seed` chooses. Sizes below 2 permute nothing.
    #[must_use]
    pub fn new(size: u64, seed: i64) -> Self {
        let mut rounds = [Round::default(); PERMUTE_ROUNDS];
        if size < 2 {
            return Self { size, mask_bits: 0, rounds };
        }
        let mut random = PgRandom::new(seed.cast_unsigned());
        let mask_bits = 63 - size.leading_zeros();
        let mask = (1_u64 << mask_bits) - 1;
        for round in &mut rounds {
            // The order of draws is part of the definition.
            let low_factor = (random.bits() & mask) | 1;
            let low_flip = random.bits() & mask;
            let high_factor = (random.bits() & mask) | 1;
            let high_flip = random.bits() & mask;
            let offset = random.up_to(size - 1);
            *round = Round { low: (low_factor, low_flip), high: (high_factor, high_flip), offset };
        }
        Self { size, mask_bits, rounds }
    }

    /// Where `value` (taken modulo the size) goes.
    #[must_use]
    pub fn apply(&self, value: u64) -> u64 {
        if self.size < 2 {
            return 0;
        }
        let mask = (1_u64 << self.mask_bits) - 1;
        // A bijection of 0..=mask: multiply by an odd number, flip bits, rotate by one.
        let mix = |value: u64, (factor, flip): (u64, u64)| {
            let mixed = (value.wrapping_mul(factor) ^ flip) & mask;
            ((mixed << 1) & mask) | (mixed >> (self.mask_bits - 1))
        };
        let mut value = value % self.size;
        for round in &self.rounds {
            if value <= mask {
                value = mix(value, round.low);
            }
            let mirrored = self.size - 1 - value;
            if mirrored <= mask {
                value = self.size - 1 - mix(mirrored, round.high);
            }
            let sum = u128::from(value) + u128::from(round.offset);
            value = (sum % u128::from(self.size)) as u64;
        }
        value
    }
}

/// pgbench's `permute(value, size, seed)`; `None` when the size is not positive.
#[must_use]
pub fn permute(value: i64, size: i64, seed: i64) -> Option<i64> {
    if size <= 0 {
        return None;
    }
    // pgbench takes the value as an unsigned number before the modulus.
    let place = Permutation::new(size.cast_unsigned(), seed).apply(value.cast_unsigned());
    i64::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_every_value_once() {
        for size in [1, 2, 3, 5, 8, 13, 64, 100, 1_000] {
            for seed in [0, 1, -7] {
                let permutation = Permutation::new(size, seed);
                let mut seen = vec![false; usize::try_from(size).unwrap()];
                for value in 0..size {
                    seen[usize::try_from(permutation.apply(value)).unwrap()] = true;
                }
                assert!(seen.iter().all(|reached| *reached), "size {size}, seed {seed}");
            }
        }
    }

    /// As `\set x debug(...)` of pgbench 15.18 printed them.
    #[test]
    fn values_are_those_of_pgbench() {
        assert_eq!(hash_fnv1a(10, 5432), PGBENCH_FNV1A);
        assert_eq!(hash_murmur2(10, 5432), PGBENCH_MURMUR2);
        for ((value, size, seed), expected) in PGBENCH_PERMUTE {
            assert_eq!(permute(value, size, seed), Some(expected), "{value} {size} {seed}");
        }
    }

    const PGBENCH_FNV1A: i64 = -7_793_829_335_365_542_153;
    const PGBENCH_MURMUR2: i64 = -5_817_877_081_768_721_676;
    const PGBENCH_PERMUTE: [((i64, i64, i64), i64); 8] = [
        ((0, 10, 42), 1),
        ((9, 10, 42), 2),
        ((5, 1000, 0), 333),
        ((123_456_789, 1_000_000_007, -3), 329_734_810),
        ((-5, 100, 7), 26),
        ((3, i64::MAX, 99), 5_958_582_178_497_338_288),
        ((1, 2, 1), 0),
        ((7, 8, 12_345), 7),
    ];
}
