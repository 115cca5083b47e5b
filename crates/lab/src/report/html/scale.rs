//! From values to places on a drawing, and the marks along its axes.

use crate::report::number;

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Evenly.
    Linear,
    /// By order of magnitude.
    Logarithmic,
    /// Percentiles as a normal distribution's, so that both the middle and the far tail have room.
    Normal,
    /// Changes (ratio minus one) by the logarithm of the ratio: halving and doubling lie equally far
    /// from none.
    Change,
}

/// What the values are, for the marks' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    TimeNs,
    Seconds,
    Change,
    Percentile,
    Bytes,
    Plain,
    Share,
}

/// An axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    spread: Spread,
    quantity: Quantity,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Covers `values` (those that can be shown), drawn from `from` to `to`.
    pub(super) fn covering(
        spread: Spread,
        quantity: Quantity,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
    ) -> Self {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for value in values {
            if let Some(value) = transform(spread, value) {
                low = low.min(value);
                high = high.max(value);
            }
        }
        if low > high {
            (low, high) = match spread {
                Spread::Logarithmic => (6.0, 9.0),
                _ => (0.0, 1.0),
            };
        }
        match spread {
            Spread::Linear => {
                let margin = (high - low) * 0.06;
                // An axis that begins at none begins there.
                if low.abs() > 0.0 {
                    low -= margin;
                }
                high = (low + 1e-12).max(high) + margin;
            }
            // Never less than a third of a decade: a flat line must not look like a storm.
            Spread::Logarithmic => {
                let missing = (0.5 - (high - low)).max(0.0) / 2.0;
                low -= missing + 0.04;
                high += missing + 0.06;
            }
            Spread::Normal => {
                low -= 0.08;
                high += 0.08;
            }
            Spread::Change => {
                let margin = ((high - low) * 0.08).max(0.004);
                low = low.min(0.0) - margin;
                high = high.max(0.0) + margin;
            }
        }
        Self { spread, quantity, low, high, from, to }
    }

    /// From `low` to `high` without a margin.
    pub(super) const fn exact(
        quantity: Quantity,
        (low, high): (f64, f64),
        (from, to): (f64, f64),
    ) -> Self {
        Self { spread: Spread::Linear, quantity, low, high, from, to }
    }

    /// The same axis over another stretch of the drawing.
    pub(super) const fn drawn(mut self, from: f64, to: f64) -> Self {
        self.from = from;
        self.to = to;
        self
    }

    /// Where a value lies; values beyond the ends lie at the ends; `None` for what has no place.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let value = transform(self.spread, value)?.clamp(self.low, self.high);
        let share = (value - self.low) / (self.high - self.low).max(1e-300);
        Some(self.from + share * (self.to - self.from))
    }

    pub(super) const fn ends(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// About `wanted` marks: value and words.
    pub(super) fn marks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = match self.spread {
            Spread::Linear => self.even_marks(wanted),
            Spread::Logarithmic => self.decade_marks(wanted),
            Spread::Normal => PERCENTILE_MARKS.to_vec(),
            Spread::Change => self.change_marks(wanted),
        };
        values
            .into_iter()
            .filter(|value| {
                transform(self.spread, *value)
                    .is_some_and(|v| v >= self.low - 1e-9 && v <= self.high + 1e-9)
            })
            .map(|value| (value, self.words(value)))
            .collect()
    }

    fn words(&self, value: f64) -> String {
        match self.quantity {
            Quantity::TimeNs => short_time(value),
            Quantity::Seconds => format!("{value} s"),
            Quantity::Change => {
                let words = number::change(value);
                words.replace(".0%", "%")
            }
            Quantity::Percentile => number::percentile(value),
            Quantity::Bytes => short_bytes(value),
            Quantity::Plain => short_number(value),
            Quantity::Share => format!("{}%", short_number(value * 100.0)),
        }
    }

    fn even_marks(&self, wanted: usize) -> Vec<f64> {
        let wanted = u32::try_from(wanted.max(1)).unwrap_or(1);
        let size = match self.quantity {
            Quantity::Bytes => number::bytes_unit(self.high.abs()).1,
            _ => 1.0,
        };
        let step = nice((self.high - self.low) / size / f64::from(wanted)) * size;
        let first = (self.low / step).ceil();
        (0..=wanted * 2)
            .map(|place| {
                let value = (first + f64::from(place)) * step;
                // 0.1 + 0.2 must not be written out.
                (value / step * 1e6).round() / 1e6 * step
            })
            .map(|value| (value * 1e9).round() / 1e9)
            .collect()
    }

    fn decade_marks(&self, wanted: usize) -> Vec<f64> {
        let decades = self.high - self.low;
        let mut values = Vec::new();
        let wanted = u32::try_from(wanted.max(1)).map_or(1.0, f64::from);
        let stride = (decades / wanted).ceil().max(1.0);
        let parts: &[f64] = if decades * 3.0 <= wanted * 1.2 {
            &[1.0, 2.0, 5.0]
        } else if decades * 2.0 <= wanted * 1.2 {
            &[1.0, 3.0]
        } else {
            &[1.0]
        };
        let mut decade = (self.low.floor() / stride).floor() * stride;
        while decade <= self.high {
            values.extend(parts.iter().map(|part| part * 10_f64.powf(decade)));
            decade += stride;
        }
        values
    }

    fn change_marks(&self, wanted: usize) -> Vec<f64> {
        let span = self.high - self.low;
        if span < 0.8 {
            let low = self.low.exp_m1();
            let wanted = u32::try_from(wanted.max(1)).map_or(1.0, f64::from);
            let step = nice((self.high.exp_m1() - low) / wanted);
            let first = (low / step).ceil();
            return (0..20)
                .map(|place| (first + f64::from(place)) * step)
                .map(|value| (value * 1e6).round() / 1e6)
                .collect();
        }
        if span < 2.5 {
            // Halves and doubles alone would leave such an axis with its zero only.
            return vec![-0.8, -0.6, -0.4, -0.2, 0.0, 0.25, 0.5, 1.0, 2.0, 4.0];
        }
        let parts: &[f64] = if span < 9.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        (-6..=6)
            .flat_map(|decade| parts.iter().map(move |part| part * 10_f64.powi(decade)))
            .map(|ratio| ratio - 1.0)
            .collect()
    }
}

const PERCENTILE_MARKS: [f64; 12] =
    [0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];

fn transform(spread: Spread, value: f64) -> Option<f64> {
    let result = match spread {
        Spread::Linear => value,
        Spread::Logarithmic if value <= 0.0 => return None,
        Spread::Logarithmic => value.log10(),
        Spread::Normal => normal_quantile(value),
        // Beyond a thousandfold all is the same to the eye.
        Spread::Change if value <= -1.0 => -7.0,
        Spread::Change => value.ln_1p().clamp(-7.0, 7.0),
    };
    // A limit that keeps differences of two values representable.
    (value.is_finite() && result.is_finite()).then(|| result.clamp(-1e18, 1e18))
}

/// The standard normal distribution's quantile; ends are pulled in to where 10^-6 lies.
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.2.23: error below 4.5e-4,
/// which is less than a pixel.
fn normal_quantile(q: f64) -> f64 {
    let q = q.clamp(1e-6, 1.0 - 1e-6);
    let tail = q.min(1.0 - q);
    let t = (-2.0 * tail.ln()).sqrt();
    let numerator = 0.010_328f64.mul_add(t, 0.802_853).mul_add(t, 2.515_517);
    let denominator = 0.001_308f64.mul_add(t, 0.189_269).mul_add(t, 1.432_788).mul_add(t, 1.0);
    let size = t - numerator / denominator;
    if q < 0.5 { -size } else { size }
}

/// The next of 1, 2, 5 times a power of ten.
fn nice(step: f64) -> f64 {
    if !(step.is_finite() && step > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(step.log10().floor());
    let part = step / power;
    let part = if part <= 1.0 {
        1.0
    } else if part <= 2.0 {
        2.0
    } else if part <= 5.0 {
        5.0
    } else {
        10.0
    };
    part * power
}

fn short_time(ns: f64) -> String {
    let (unit, size) = if ns < 0.999e3 {
        ("ns", 1.0)
    } else if ns < 0.999e6 {
        ("µs", 1e3)
    } else if ns < 0.999e9 {
        ("ms", 1e6)
    } else {
        ("s", 1e9)
    };
    format!("{} {unit}", short_number(ns / size))
}

fn short_bytes(bytes: f64) -> String {
    if bytes.abs() < 1.0 {
        return "0".to_owned();
    }
    let (unit, size) = number::bytes_unit(bytes.abs());
    format!("{} {unit}", short_number(bytes / size))
}

/// Marks are round already: no digits that only rounding brought.
fn short_number(value: f64) -> String {
    if value.abs() < 1e-12 {
        return "0".to_owned();
    }
    if (1e6..1e9).contains(&value.abs()) {
        return format!("{}M", short_number(value / 1e6));
    }
    if value.abs() >= 1e9 || value.abs() < 0.99e-6 {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa = mantissa.parse::<f64>().map_or(1.0, |m| (m * 10.0).round() / 10.0);
        return format!("{mantissa}e{exponent}");
    }
    let text = if value.abs() < 0.01 { format!("{value:.7}") } else { format!("{value:.4}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_place_within_the_drawing_or_none() {
        for spread in [Spread::Linear, Spread::Logarithmic, Spread::Normal, Spread::Change] {
            for values in [
                vec![],
                vec![0.0],
                vec![f64::NAN, f64::INFINITY],
                vec![1e-300, 1e300],
                vec![5.0, 5.0],
                vec![-3.0, 0.0, 12.0],
            ] {
                let scale =
                    Scale::covering(spread, Quantity::Plain, values.iter().copied(), (10.0, 90.0));
                for value in [f64::NAN, f64::MIN, -1.0, 0.0, 0.5, 1.0, 1e9, f64::MAX] {
                    if let Some(at) = scale.at(value) {
                        assert!((10.0..=90.0).contains(&at), "{spread:?} {values:?} {value} {at}");
                    }
                }
                assert!(scale.marks(6).len() < 40);
            }
        }
    }

    #[test]
    fn marks_are_round_and_read_naturally() {
        let words = |spread, quantity, low, high| -> Vec<String> {
            Scale::covering(spread, quantity, [low, high].into_iter(), (0.0, 100.0))
                .marks(6)
                .into_iter()
                .map(|(_, words)| words)
                .collect()
        };
        assert_eq!(
            words(Spread::Logarithmic, Quantity::TimeNs, 1e6, 1e9),
            ["1 ms", "3 ms", "10 ms", "30 ms", "100 ms", "300 ms", "1 s"]
        );
        assert_eq!(
            words(Spread::Linear, Quantity::Seconds, 0.0, 300.0),
            ["0 s", "100 s", "200 s", "300 s"]
        );
        assert_eq!(
            words(Spread::Change, Quantity::Change, -0.1, 0.05),
            ["-10%", "-5%", "0%", "+5%"]
        );
        assert_eq!(
            words(Spread::Change, Quantity::Change, -0.45, 0.5),
            ["-40%", "-20%", "0%", "+25%", "+50%"]
        );
        assert_eq!(
            words(Spread::Change, Quantity::Change, -0.9, 1.0),
            ["-90%", "-80%", "-50%", "0%", "+100%"]
        );
        assert_eq!(
            words(Spread::Normal, Quantity::Percentile, 0.1, 0.99),
            ["p10", "p25", "p50", "p75", "p90", "p95", "p99"]
        );
    }

    #[test]
    fn the_normal_axis_is_symmetric_and_rises() {
        assert!((normal_quantile(0.975) - 1.959_96).abs() < 1e-3);
        assert!((normal_quantile(0.5)).abs() < 1e-3);
        assert!((normal_quantile(0.01) + normal_quantile(0.99)).abs() < 1e-9);
    }
}
