//! Generalised harmonic numbers: sums of k^-s, in constant time.
//!
//! The first terms are added one by one, the rest comes from the Euler-Maclaurin formula
//! (Graham, Knuth & Patashnik, "Concrete Mathematics", 9.5). Relative error below 10^-13.

/// Terms before this index are added one by one: from here on the formula's eight corrections are
/// good to the last bit for exponents up to [`EXPONENT_MAX`], and sums of larger exponents have
/// ended (100^-30 is far below 2^-53).
const DIRECT: u64 = 100;
/// Larger exponents do without the formula.
const EXPONENT_MAX: f64 = 30.0;

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
    let direct_end = end.min(u128::from(DIRECT).max(start));
    // The smallest terms first, so that they are not lost.
    let direct: f64 = (start + 1..=direct_end).rev().map(|key| (key as f64).powf(-exponent)).sum();
    if direct_end == end {
        return direct;
    }
    if exponent > EXPONENT_MAX && start < u128::from(DIRECT) {
        return direct;
    }
    if exponent > EXPONENT_MAX {
        // A range far out, asked for by itself: its first terms are all there is of it.
        let near_end = end.min(start + 100_000);
        return (start + 1..=near_end).rev().map(|key| (key as f64).powf(-exponent)).sum();
    }
    direct + smooth_sum(direct_end, end, exponent)
}

/// The same by the formula, for `start` of at least [`DIRECT`].
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
