//! `hash_fnv1a()` and `hash_murmur2()` of scripts, bit for bit as pgbench
//! (PostgreSQL, `src/bin/pgbench/pgbench.c`).

/// FNV-1a over the eight bytes of `value`, lowest first; `seed` is mixed into the offset basis.
#[must_use]
pub const fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64 ^ seed as u64;
    let bytes = value.to_le_bytes();
    let mut index = 0;
    while index < 8 {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01B3);
        index += 1;
    }
    hash as i64
}

/// MurmurHash2 (Appleby, the 64-bit variant) of one word.
#[must_use]
pub const fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xC6A4_A793_5BD1_E995;
    // The length in bytes times the multiplier.
    let mut hash = seed as u64 ^ MULTIPLIER.wrapping_mul(8);
    let mut word = (value as u64).wrapping_mul(MULTIPLIER);
    word ^= word >> 47;
    word = word.wrapping_mul(MULTIPLIER);
    hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    hash = (hash ^ (hash >> 47)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> 47)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `\set x debug(...)` of pgbench 15.18 printed them.
    #[test]
    fn hashes_are_those_of_pgbench() {
        for (value, seed, fnv1a, murmur2) in PGBENCH {
            assert_eq!(hash_fnv1a(value, seed), fnv1a, "{value} {seed}");
            assert_eq!(hash_murmur2(value, seed), murmur2, "{value} {seed}");
        }
    }

    const PGBENCH: [(i64, i64, i64, i64); 1] =
        [(10, 5432, -7_793_829_335_365_542_153, -5_817_877_081_768_721_676)];
}
