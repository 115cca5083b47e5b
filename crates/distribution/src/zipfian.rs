//! Zipf's law for any exponent above zero, by rejection-inversion (Hörmann & Derflinger,
//! "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
//!
//! With h(x) = x^-s and H an integral of h, a point u is drawn uniformly between H(1.5) - h(1) and
//! H(n + 0.5), and k is H^-1(u) rounded. It is taken when u lies in the last h(k) before
//! H(k + 0.5), which is nearly always so and mostly known from k - x alone. Differences to the
//! paper: powers are used in place of H (one logarithm and one exponential a draw) unless s is
//! close to 1; key 1 needs neither; and large keys are taken at once and smeared
//! (`settle`), since the tests below would compare rounding errors there.

use super::stream::RandomStream;
use super::{SETTLE_MIN, settle};

/// Draws positions in `0..=last`, the first ones most often.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Zipfian {
    exponent: f64,
    last: u64,
    scale: Scale,
    /// The end of the scale at which its values are smallest, and every bit of a draw counts:
    /// that of the last key, n + 0.5, where the scale falls; else that of the first.
    origin: f64,
    /// How far the other end lies from it.
    extent: f64,
    /// The part of the extent, from the origin, at which the first key ends or begins.
    first_ratio: f64,
    /// Whether the scale falls with x: powers with an exponent above 1.
    is_falling: bool,
    /// k - x up to here is taken without looking further.
    taken_at_once: f64,
}

/// The quantity that is drawn uniformly, a monotone function of x.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// x^(1-s), for s not close to 1.
    Power { inverse: f64 },
    /// H(x) = (x^(1-s) - 1) / (1-s), which is ln x for s = 1.
    Integral,
}

/// Closer to 1 than this, powers x^(1-s) lose too many bits.
const NEAR_ONE: f64 = 1e-3;

impl Zipfian {
    pub(super) fn new(exponent: f64, last: u64) -> Self {
        let slope = 1.0 - exponent;
        let scale = if slope.abs() < NEAR_ONE {
            Scale::Integral
        } else {
            Scale::Power { inverse: 1.0 / slope }
        };
        let is_falling = matches!(scale, Scale::Power { inverse } if inverse < 0.0);
        let mut zipfian = Self {
            exponent,
            last,
            scale,
            origin: 0.0,
            extent: 0.0,
            first_ratio: 0.0,
            is_falling,
            taken_at_once: 0.0,
        };
        let far = zipfian.at(last as f64 + 1.5);
        let near = zipfian.start_of(1.0);
        let (origin, end) = if is_falling { (far, near) } else { (near, far) };
        zipfian.origin = origin;
        zipfian.extent = end - origin;
        zipfian.first_ratio = (zipfian.at(1.5) - origin) / zipfian.extent;
        zipfian.taken_at_once = 2.0 - zipfian.inverse(zipfian.start_of(2.0));
        zipfian
    }

    #[inline]
    pub(super) fn draw(&self, stream: &mut RandomStream) -> u64 {
        if self.last == 0 {
            return 0;
        }
        loop {
            let ratio = stream.positive_unit();
            if (ratio >= self.first_ratio) == self.is_falling {
                return 0;
            }
            let place = self.origin + ratio * self.extent;
            let x = self.inverse(place);
            if x >= SETTLE_MIN {
                // The share that would be rejected here is s(s+1)/(24 k^2): below 10^-13 wherever
                // such a key is to be expected at all.
                let key = settle(x + 0.5, stream).max(1);
                let position = key - 1;
                // Smeared beyond the end: mirrored back.
                return if position > self.last {
                    self.last - (position - self.last - 1).min(self.last)
                } else {
                    position
                };
            }
            let key = (x + 0.5).floor().max(2.0);
            let position = key as u64 - 1;
            if position > self.last {
                return self.last;
            }
            if key - x <= self.taken_at_once || self.is_taken(place, key) {
                return position;
            }
        }
    }

    /// Whether `place` lies in the last h(key) before H(key + 0.5).
    #[cold]
    fn is_taken(&self, place: f64, key: f64) -> bool {
        let start = self.start_of(key);
        if self.is_falling { place <= start } else { place >= start }
    }

    /// The scale's value at `x`.
    fn at(&self, x: f64) -> f64 {
        let slope = 1.0 - self.exponent;
        match self.scale {
            Scale::Power { .. } => (slope * x.ln()).exp(),
            Scale::Integral => x.ln() * exp_m1_over(slope * x.ln()),
        }
    }

    /// The scale's value where H is H(key + 0.5) - h(key).
    fn start_of(&self, key: f64) -> f64 {
        let height = (-self.exponent * key.ln()).exp();
        match self.scale {
            Scale::Power { .. } => self.at(key + 0.5) - (1.0 - self.exponent) * height,
            Scale::Integral => self.at(key + 0.5) - height,
        }
    }

    /// The x at which the scale has this value.
    #[inline]
    fn inverse(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Power { inverse } => (value.ln() * inverse).exp(),
            Scale::Integral => (value * ln_1p_over((1.0 - self.exponent) * value)).exp(),
        }
    }
}

/// (e^t - 1) / t.
fn exp_m1_over(t: f64) -> f64 {
    if t.abs() < 1e-5 { 1.0 + t / 2.0 * (1.0 + t / 3.0) } else { t.exp_m1() / t }
}

/// ln(1 + t) / t.
#[inline]
fn ln_1p_over(t: f64) -> f64 {
    if t.abs() < 1e-5 { 1.0 - t * (0.5 - t / 3.0) } else { t.ln_1p() / t }
}
