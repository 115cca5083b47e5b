//! The zipfian distribution: the k-th most likely key has a probability proportional to k^-s.
//!
//! Any exponent above zero, below, at and above 1, at constant cost: rejection-inversion (W. Hörmann,
//! G. Derflinger, ACM TOMACS 6, 1996). No table, no harmonic number is needed to draw.

use super::{EXACT_KEYS, RandomStream, fill_gap};

/// Draws ranks 0 to `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipfian {
    exponent: f64,
    /// 1 - exponent.
    power: f64,
    last: u64,
    keys: f64,
    /// The hat's integral up to the first key's upper end, less the first key's own weight.
    low: f64,
    /// The hat's integral up to the last key's upper end.
    high: f64,
    /// Draws at most so far left of their key's middle are always accepted.
    sure: f64,
}

/// (e^x - 1) / x, 1 at zero.
#[inline]
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 + x * x / 6.0 }
}

/// ln(1 + x) / x, 1 at zero.
#[inline]
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 + x * x / 3.0 }
}

impl Zipfian {
    /// `exponent` must be above zero and finite.
    #[must_use]
    pub fn new(exponent: f64, last: u64) -> Self {
        let keys = last as f64 + 1.0;
        let mut zipfian =
            Self { exponent, power: 1.0 - exponent, last, keys, low: 0.0, high: 0.0, sure: 0.0 };
        zipfian.low = zipfian.integral(1.5) - 1.0;
        zipfian.high = zipfian.integral(keys + 0.5);
        zipfian.sure = 2.0 - zipfian.inverse(zipfian.integral(2.5) - zipfian.weight(2.0));
        zipfian
    }

    /// k^-s.
    #[inline]
    fn weight(&self, k: f64) -> f64 {
        (-self.exponent * k.ln()).exp()
    }

    /// The integral of x^-s from 1 to x: (x^(1 - s) - 1) / (1 - s), or ln x for s = 1, in a form that
    /// keeps its bits in between.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_m1_over(self.power * log) * log
    }

    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may bring the argument of the logarithm below its domain at the very end.
        let scaled = (area * self.power).max(-1.0);
        (ln_1p_over(scaled) * area).exp()
    }

    /// Draws a rank from 0.
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream) -> u64 {
        let span = self.low - self.high;
        loop {
            let area = self.high + stream.unit() * span;
            let x = self.inverse(area);
            let k = x.round().clamp(1.0, self.keys);
            if k - x <= self.sure || area >= self.integral(k + 0.5) - self.weight(k) {
                if self.last < EXACT_KEYS || k < EXACT_KEYS as f64 {
                    let gap = self.gap(x, span);
                    if gap < 2.0 {
                        return k as u64 - 1;
                    }
                    return fill_gap(k as u64 - 1, gap, self.last, stream);
                }
                return fill_gap(k as u64 - 1, self.gap(x, span), self.last, stream);
            }
        }
    }

    /// How far apart neighbouring draws lie at `x`, in keys.
    #[inline]
    fn gap(&self, x: f64, span: f64) -> f64 {
        if self.last < EXACT_KEYS {
            return 0.0;
        }
        let step = span.abs() * (1.0 / (1_u64 << 53) as f64);
        (step / self.weight(x)).max(x * f64::EPSILON)
    }

    /// The share of draws on the ranks below `end`.
    #[must_use]
    pub fn share_below(&self, end: u64) -> f64 {
        (self.harmonic(end as f64) / self.harmonic(self.keys)).clamp(0.0, 1.0)
    }

    /// The sum of k^-s for k = 1 to n: the first terms added, the rest by Euler-Maclaurin, whose error
    /// from the twentieth term on is below 1e-15 of the sum.
    fn harmonic(&self, n: f64) -> f64 {
        const DIRECT: f64 = 32.0;
        let mut sum = 0.0;
        let mut k = 1.0;
        while k <= n && k <= DIRECT {
            sum += self.weight(k);
            k += 1.0;
        }
        if n <= DIRECT {
            return sum;
        }
        let s = self.exponent;
        let (a, fa, fn_) = (DIRECT, self.weight(DIRECT), self.weight(n));
        let integral = self.integral(n) - self.integral(a);
        // Bernoulli terms B2/2! f', B4/4! f''', B6/6! f^(5) of x^-s.
        let d1 = |x: f64, f: f64| -s * f / x;
        let d3 = |x: f64, f: f64| -s * (s + 1.0) * (s + 2.0) * f / (x * x * x);
        let d5 = |x: f64, f: f64| d3(x, f) * (s + 3.0) * (s + 4.0) / (x * x);
        let corrections = (d1(n, fn_) - d1(a, fa)) / 12.0 - (d3(n, fn_) - d3(a, fa)) / 720.0
            + (d5(n, fn_) - d5(a, fa)) / 30_240.0;
        sum + integral + (fn_ - fa) / 2.0 + corrections
    }
}
