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

    const PGBENCH: [(i64, i64, i64, i64); 11] = [
        (10, 5432, -7_793_829_335_365_542_153, -5_817_877_081_768_721_676),
        (0, 5_432, 5_600_063_106_439_994_301, 6_045_885_599_107_954_120),
        (1, 0, -8_517_097_267_634_966_620, -8_089_716_718_896_805_586),
        (-1, -1, 9_116_541_788_052_886_162, 1_317_380_444_104_773_032),
        (10, i64::MAX, -9_047_315_579_121_330_480, -2_358_342_350_578_480_109),
        (2_147_483_648, 7, -835_965_457_862_809_118, 4_510_041_047_084_839_961),
        (-2_147_483_648, -i64::MAX, 2_960_102_834_906_116_736, 2_056_187_743_281_070_619),
        (i64::MAX, 1, -280_712_867_721_224_292, -422_191_570_849_047_500),
        (-i64::MAX, 2, -4_052_607_191_188_198_810, 5_609_991_442_004_367_725),
        (123_456_789, -12_345, -669_172_888_381_047_350, 5_647_691_269_660_616_380),
        (-987_654_321, 42, -3_594_383_838_602_881_081, 4_105_212_584_525_379_378),
    ];
}
