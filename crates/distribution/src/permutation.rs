//! `permute()` of scripts, bit for bit as pgbench 15 and later
//! (PostgreSQL, `src/bin/pgbench/pgbench.c`, `src/common/pg_prng.c`), with its constants computed
//! once, for sizes up to 2^64, and with its inverse.

use super::stream::mix;

/// The permutation of `0..=last` that belongs to a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    last: u64,
    seed: i64,
    /// One less than the largest power of two that is at most the size.
    mask: u64,
    /// The bits of `mask`.
    bits: u32,
    rounds: [Round; 6],
}

/// The constants of a round: an affine-like bijection of the lower half, one of the upper half
/// (both halves have `mask + 1` places and overlap), and a rotation of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    lower: Half,
    upper: Half,
    offset: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Half {
    factor: u64,
    factor_inverse: u64,
    toggle: u64,
}

/// `permute(value, size, seed)`: where `value` (taken modulo `size`) goes under the permutation of
/// `0..size` that belongs to `seed`. `None` when `size` is not positive.
#[must_use]
pub fn permute(value: i64, size: i64, seed: i64) -> Option<i64> {
    let last = u64::try_from(size).ok()?.checked_sub(1)?;
    // pgbench takes the value as unsigned, so that negative ones have a place too.
    Some(Permutation::new(last, seed).apply(value as u64 % (last + 1)) as i64)
}

impl Permutation {
    /// The permutation of `0..=last` for `seed`: pgbench's for the size `last + 1`.
    #[must_use]
    pub fn new(last: u64, seed: i64) -> Self {
        let size = u128::from(last) + 1;
        let bits = 127 - size.leading_zeros();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut rounds = [Round::default(); 6];
        let mut generator = Generator::new(seed as u64);
        for round in &mut rounds {
            round.lower = generator.half(mask);
            round.upper = generator.half(mask);
            round.offset = generator.up_to(last);
        }
        Self { last, seed, mask, bits, rounds }
    }

    /// The largest number it permutes.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The seed it was made from.
    #[must_use]
    pub const fn seed(&self) -> i64 {
        self.seed
    }

    /// Where `value`, at most [`last`](Self::last), goes.
    #[must_use]
    #[inline]
    pub fn apply(&self, mut value: u64) -> u64 {
        if self.last == 0 {
            return 0;
        }
        for round in &self.rounds {
            if value <= self.mask {
                value = self.scramble(value, round.lower);
            }
            let mirrored = self.last.wrapping_sub(value);
            if mirrored <= self.mask {
                value = self.last.wrapping_sub(self.scramble(mirrored, round.upper));
            }
            value = self.rotate(value, round.offset);
        }
        value
    }

    /// What goes to `value`.
    #[must_use]
    pub fn invert(&self, mut value: u64) -> u64 {
        if self.last == 0 {
            return 0;
        }
        for round in self.rounds.iter().rev() {
            value = if value >= round.offset {
                value - round.offset
            } else {
                // size - offset + value, where the size may be 2^64.
                value.wrapping_sub(round.offset).wrapping_add(self.last).wrapping_add(1)
            };
            let mirrored = self.last.wrapping_sub(value);
            if mirrored <= self.mask {
                value = self.last.wrapping_sub(self.unscramble(mirrored, round.upper));
            }
            if value <= self.mask {
                value = self.unscramble(value, round.lower);
            }
        }
        value
    }

    #[inline]
    const fn scramble(&self, value: u64, half: Half) -> u64 {
        let value = (value.wrapping_mul(half.factor) ^ half.toggle) & self.mask;
        ((value << 1) & self.mask) | (value >> (self.bits - 1))
    }

    const fn unscramble(&self, value: u64, half: Half) -> u64 {
        let value = (value >> 1) | ((value & 1) << (self.bits - 1));
        (value ^ half.toggle).wrapping_mul(half.factor_inverse) & self.mask
    }

    #[inline]
    const fn rotate(&self, value: u64, offset: u64) -> u64 {
        let (sum, is_over) = value.overflowing_add(offset);
        if is_over || sum > self.last { sum.wrapping_sub(self.last).wrapping_sub(1) } else { sum }
    }
}

/// PostgreSQL's `pg_prng`: xoroshiro128** (Blackman & Vigna), seeded by SplitMix64.
struct Generator {
    state: [u64; 2],
}

impl Generator {
    fn new(seed: u64) -> Self {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let first = mix(seed.wrapping_add(GOLDEN));
        let second = mix(seed.wrapping_add(GOLDEN.wrapping_mul(2)));
        // Both words are zero for no seed: each is a bijection, at different places.
        Self { state: [first, second] }
    }

    fn next(&mut self) -> u64 {
        let [first, second] = self.state;
        let crossed = first ^ second;
        self.state = [first.rotate_left(24) ^ crossed ^ (crossed << 16), crossed.rotate_left(37)];
        first.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// Uniform in `0..=last`, by throwing away what is larger.
    fn up_to(&mut self, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        loop {
            let value = self.next() >> last.leading_zeros();
            if value <= last {
                return value;
            }
        }
    }

    fn half(&mut self, mask: u64) -> Half {
        let factor = (self.next() & mask) | 1;
        let toggle = self.next() & mask;
        Half { factor, factor_inverse: inverse_of_odd(factor), toggle }
    }
}

/// The inverse modulo 2^64, by Newton's iteration: each step doubles the number of right bits, of
/// which the start has three.
const fn inverse_of_odd(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_every_value_once_and_can_be_undone() {
        for size in [1, 2, 3, 4, 5, 8, 13, 64, 100, 1_000] {
            for seed in [0, 1, -7] {
                let permutation = Permutation::new(size - 1, seed);
                let mut seen = vec![false; usize::try_from(size).unwrap()];
                for value in 0..size {
                    let place = permutation.apply(value);
                    seen[usize::try_from(place).unwrap()] = true;
                    assert_eq!(permutation.invert(place), value, "size {size}, seed {seed}");
                }
                assert!(seen.iter().all(|reached| *reached), "size {size}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_permutation_of_any_number_of_values_can_be_undone() {
        for last in [1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX] {
            let permutation = Permutation::new(last, 5);
            for value in [0, 1, 2, last / 3, last / 2, last / 2 + 1, last - 1, last] {
                let place = permutation.apply(value);
                assert!(place <= last);
                assert_eq!(permutation.invert(place), value, "last {last}");
            }
        }
    }

    /// As `\set x debug(...)` of pgbench 15.18 printed them.
    #[test]
    fn permuted_values_are_those_of_pgbench() {
        for ((value, size, seed), expected) in PGBENCH {
            assert_eq!(permute(value, size, seed), Some(expected), "{value} {size} {seed}");
        }
    }

    #[test]
    fn a_size_of_nothing_has_no_permutation() {
        assert_eq!(permute(1, 0, 1), None);
        assert_eq!(permute(1, -5, 1), None);
        assert_eq!(permute(1, i64::MIN, 1), None);
    }

    const PGBENCH: [((i64, i64, i64), i64); 18] = [
        ((0, 10, 42), 1),
        ((9, 10, 42), 2),
        ((5, 1_000, 0), 333),
        ((123_456_789, 1_000_000_007, -3), 329_734_810),
        ((-5, 100, 7), 26),
        ((3, i64::MAX, 99), 5_958_582_178_497_338_288),
        ((1, 2, 1), 0),
        ((7, 8, 12_345), 7),
        ((0, 1, 5), 0),
        ((2, 3, 9), 2),
        ((-1, 3, 9), 0),
        ((i64::MAX, 4_611_686_018_427_387_904, 0), 4_354_497_726_219_835_271),
        ((4_611_686_018_427_387_903, 4_611_686_018_427_387_904, -8), 3_566_145_402_956_003_964),
        ((4_611_686_018_427_387_904, 4_611_686_018_427_387_905, 17), 3_786_435_294_779_088_468),
        ((99_999, 100_000, 0), 76_891),
        ((0, 100_000, 0), 86_025),
        ((12_345_678_901, 50_000_000_000, i64::MAX), 36_121_851_658),
        ((-i64::MAX, 1_000, -i64::MAX), 581),
    ];
}
