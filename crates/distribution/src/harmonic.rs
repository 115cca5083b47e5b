//! Generalised harmonic numbers: sums of k^-s, in constant time.
//!
//! The first terms are added one by one, the rest comes from the Euler-Maclaurin formula
//! (Graham, Knuth & Patashnik, "Concrete Mathematics", 9.5). Relative error below 10^-13.

/// Terms before this index are added one by one; before twice the exponent, where that is more. From
/// there on each of the formula's corrections is a tenth of the one before or less, and eight of
/// them are good to the last bit.
const DIRECT: f64 = 100.0;

/// B(2j) / (2j)! for j = 1 to 8, with the Bernoulli numbers B.
const CORRECTIONS: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
    -3617.0 / 10_670_622_842_880_000.0,
];

/// The sum of (position + 1)^-exponent over positions from `start` up to but not including `end`:
/// k from `start` + 1 to `end`. Zero when there is none. `end` may be 2^64.
#[must_use]
pub fn harmonic_sum(start: u128, end: u128, exponent: f64) -> f64 {
    if start >= end {
        return 0.0;
    }
    // At most 2000 terms, for the largest exponent.
    let direct_end = end.min(start.max(DIRECT.max(2.0 * exponent) as u128));
    // The smallest terms first, so that they are not lost.
    let direct: f64 = (start + 1..=direct_end).rev().map(|key| (key as f64).powf(-exponent)).sum();
    if direct_end == end {
        return direct;
    }
    direct + smooth_sum(direct_end, end, exponent)
}

/// The same by the formula, for `start` of at least [`DIRECT`] and twice the exponent.
fn smooth_sum(start: u128, end: u128, exponent: f64) -> f64 {
    // Near neighbours: their number is exact, the difference of logarithms is not.
    let count = (end - start) as f64;
    let (low, high) = (start as f64, end as f64);
    let slope = 1.0 - exponent;
    let stretch = (count / low).ln_1p();
    let growth = slope * stretch;
    let integral = if growth.abs() < 1e-9 {
        low.powf(slope) * stretch * (1.0 + growth / 2.0)
    } else {
        low.powf(slope) * growth.exp_m1() / slope
    };
    let ends = (high.powf(-exponent) - low.powf(-exponent)) / 2.0;
    integral + ends + corrections(high, exponent) - corrections(low, exponent)
}

/// The correction terms at one end: odd derivatives of x^-s.
fn corrections(x: f64, exponent: f64) -> f64 {
    let mut derivative = -exponent * x.powf(-exponent - 1.0);
    let mut sum = 0.0;
    let mut order = exponent + 1.0;
    for correction in CORRECTIONS {
        sum += correction * derivative;
        derivative *= order * (order + 1.0) / (x * x);
        order += 2.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hurwitz zeta differences in 40 digits (mpmath).
    const GOLDEN: [(f64, u128, f64); 16] = [
        (0.01, 1_000_000_000_000, 766_239_974_776.823_2),
        (0.01, 1 << 63, 6.020_126_747_399_981e18),
        (0.5, 1_000_000_000_000, 1_999_998.539_645_991_3),
        (0.5, 1 << 63, 6_074_000_998.491_745),
        (0.99, 1_000_000_000_000, 32.402_160_877_913_18),
        (0.99, 1 << 63, 55.332_986_376_510_8),
        (0.999_999_9, 1_000_000_000_000, 28.208_274_947_250_55),
        (0.999_999_9, 1 << 63, 44.245_583_378_935_9),
        (1.0, 1_000_000_000_000, 28.208_236_780_830_58),
        (1.0, 1 << 63, 44.245_488_040_178_09),
        (1.000_000_1, 1_000_000_000_000, 28.208_198_614_480_93),
        (1.07, 1_000_000_000_000, 12.803_089_245_105_78),
        (1.07, 1 << 63, 14.196_018_048_219_95),
        (2.0, 1_000_000_000_000, 1.644_934_066_847_226_3),
        (2.0, 1 << 63, 1.644_934_066_848_226_4),
        (29.5, 1 << 63, 1.000_000_001_317_097_3),
    ];

    #[test]
    fn sums_over_more_keys_than_anyone_can_add_are_right() {
        for (exponent, end, expected) in GOLDEN {
            let sum = harmonic_sum(0, end, exponent);
            assert!((sum / expected - 1.0).abs() < 1e-13, "{exponent} {end}: {sum} {expected}");
        }
    }

    #[test]
    fn any_range_is_the_sum_of_its_terms() {
        for exponent in [0.01, 0.99, 1.0, 1.07, 3.0, 29.0, 31.0, 80.0, 1000.0] {
            for (start, end) in [
                (0, 1),
                (0, 99),
                (0, 101),
                (50, 3_000),
                (99, 100),
                (100, 101),
                (5_000, 5_001),
                (5_000, 9_000),
                (7, 7),
                (9, 3),
            ] {
                let expected: f64 =
                    (start + 1..=end).rev().map(|key: u32| f64::from(key).powf(-exponent)).sum();
                let sum = harmonic_sum(start.into(), end.into(), exponent);
                assert!(
                    (sum - expected).abs() <= 1e-12 * expected,
                    "{exponent} {start}..{end}: {sum} {expected}"
                );
            }
        }
    }

    #[test]
    fn one_key_far_out_keeps_all_its_digits() {
        for exponent in [0.01_f64, 1.0, 1.07, 20.0] {
            let key = 1_u128 << 40;
            let expected = ((key + 1) as f64).powf(-exponent);
            let sum = harmonic_sum(key, key + 1, exponent);
            assert!((sum / expected - 1.0).abs() < 1e-12, "{exponent}: {sum} {expected}");
        }
    }
}
