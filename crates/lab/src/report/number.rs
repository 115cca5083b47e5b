//! Numbers as people read them.
//!
//! Rules:
//!
//! 1. Estimates have three significant digits: more would claim what no session can know.
//! 2. What is absent or not finite is `n/a`; never 0, -1 or NaN.
//! 3. No locale: a point for decimals, no grouping, so that a pasted table can be parsed.

/// What stands where there is no number.
pub const ABSENT: &str = "n/a";

/// Three significant digits in plain decimals; powers of ten beyond 10^9 and below 10^-4.
#[must_use]
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let magnitude = value.abs();
    if magnitude < 1e-300 {
        return "0".to_owned();
    }
    if !(1e-4..1e9).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    // Rounded first: 9.996 has one decimal fewer than its logarithm says.
    let exponent = order(magnitude);
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    if exponent <= 2 {
        format!("{value:.decimals$}")
    } else {
        let step = 10_f64.powi(exponent - 2);
        format!("{:.0}", (value / step).round() * step)
    }
}

/// [`significant`], or `n/a`.
#[must_use]
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), significant)
}

/// A change: `-26.2%`, `+0.3%`, `0.0%`.
#[must_use]
pub fn change(ratio: f64) -> String {
    let digits = percent_digits(ratio);
    match digits.as_str() {
        ABSENT | "0.0" => digits.replace("0.0", "0.0%"),
        _ if ratio > 0.0 => format!("+{digits}%"),
        _ => format!("{digits}%"),
    }
}

/// A share or a size of change without sign: `9.9%`.
#[must_use]
pub fn percent(ratio: f64) -> String {
    let digits = percent_digits(ratio);
    if digits == ABSENT { digits } else { format!("{digits}%") }
}

/// An interval of a change in percent, without the sign of percent: `-33.0 .. -18.4`.
#[must_use]
pub fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (low.filter(|v| v.is_finite()), high.filter(|v| v.is_finite())) {
        (None, None) => "-".to_owned(),
        (low, high) => {
            let side = |value: Option<f64>| {
                value.map_or_else(|| "?".to_owned(), |v| change(v).trim_end_matches('%').to_owned())
            };
            format!("{} .. {}", side(low), side(high))
        }
    }
}

/// The same with the signs of percent: `-33.0% .. -18.4%`.
#[must_use]
pub fn interval_percent(low: f64, high: f64) -> String {
    format!("{} .. {}", change(low), change(high))
}

/// A probability: `0.008`, `<0.001`, `1.00`.
#[must_use]
pub fn probability(p: Option<f64>) -> String {
    match p {
        Some(p) if p.is_finite() && p < 0.001 => "<0.001".to_owned(),
        Some(p) if p.is_finite() && p < 0.0995 => format!("{p:.3}"),
        Some(p) if p.is_finite() => format!("{p:.2}"),
        _ => ABSENT.to_owned(),
    }
}

/// A unit of time fit for the larger of some values: name and nanoseconds in it.
#[must_use]
pub fn time_unit(largest_ns: f64) -> (&'static str, f64) {
    if largest_ns < 1e3 {
        ("ns", 1.0)
    } else if largest_ns < 1e6 {
        ("us", 1e3)
    } else if largest_ns < 1e10 {
        ("ms", 1e6)
    } else {
        ("s", 1e9)
    }
}

/// A time with its unit: `18.3 ms`, `1.20 s`.
#[must_use]
pub fn time(ns: f64) -> String {
    if !ns.is_finite() {
        return ABSENT.to_owned();
    }
    if ns.abs() < 1e-300 {
        return "0 s".to_owned();
    }
    let (unit, size) =
        if (1e9..1e10).contains(&ns.abs()) { ("s", 1e9) } else { time_unit(ns.abs()) };
    format!("{} {unit}", significant(ns / size))
}

/// A length of time as one says it: `300 s`, `2 min`, `1 h 52 min`.
#[must_use]
pub fn length(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..=120 => time_short(ns),
        121..=3599 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        121..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A threshold without needless digits: `50 ms`, `1 s`, `1.5 s`.
#[must_use]
pub fn time_short(ns: u64) -> String {
    let (unit, size) = match ns {
        0..1_000 => ("ns", 1),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    if ns.is_multiple_of(size) {
        format!("{} {unit}", ns / size)
    } else {
        format!("{} {unit}", significant(to_f64(ns) / to_f64(size)))
    }
}

/// A size: `1.25 GiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    let (unit, size) = bytes_unit(value.abs());
    let digits = significant(value / size);
    if digits == ABSENT { digits } else { format!("{digits} {unit}") }
}

/// A unit of size fit for the larger of some values: name and bytes in it.
#[must_use]
pub fn bytes_unit(largest: f64) -> (&'static str, f64) {
    const UNITS: [(&str, f64); 4] = [
        ("TiB", 1_099_511_627_776.0),
        ("GiB", 1_073_741_824.0),
        ("MiB", 1_048_576.0),
        ("KiB", 1024.0),
    ];
    UNITS
        .iter()
        .find(|(_, size)| largest >= 10.0 * size || (largest >= *size && *size > 2e3))
        .copied()
        .unwrap_or(("B", 1.0))
}

/// A whole number with grouping by narrow gaps replaced by commas: `26,184,746`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A percentile's name: `p99`, `p99.9`, `min`, `max`.
#[must_use]
pub fn percentile(q: f64) -> String {
    if q <= 0.0 {
        "min".to_owned()
    } else if q >= 1.0 {
        "max".to_owned()
    } else {
        let text = format!("{:.6}", q * 100.0);
        format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Nearest double; counts beyond 2^53 lose their last digits, which no reader sees.
#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
#[must_use]
pub const fn to_f64(value: u64) -> f64 {
    value as f64
}

/// Power of ten of a positive value once it is rounded to three digits.
fn order(magnitude: f64) -> i32 {
    let mut exponent = -5;
    while exponent < 12 && magnitude >= 9.995 * 10_f64.powi(exponent) {
        exponent += 1;
    }
    exponent
}

fn percent_digits(ratio: f64) -> String {
    let value = ratio * 100.0;
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    if value.abs() < 0.05 {
        "0.0".to_owned()
    } else if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        significant(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_never_claims_more_than_three_digits() {
        for (value, shown) in [
            (0.0, "0"),
            (125.0, "125"),
            (124.96, "125"),
            (9.996, "10.0"),
            (99.96, "100"),
            (0.405_4, "0.405"),
            (12_432.0, "12400"),
            (999_600.0, "1000000"),
            (0.000_123_4, "0.000123"),
            (0.000_001_234, "1.23e-6"),
            (1.234e12, "1.23e12"),
            (-24.84, "-24.8"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "n/a"),
        ] {
            assert_eq!(significant(value), shown, "{value}");
        }
    }

    #[test]
    fn changes_carry_their_sign_and_zero_has_none() {
        for (ratio, shown) in [
            (-0.262, "-26.2%"),
            (0.003, "+0.3%"),
            (0.000_4, "0.0%"),
            (-0.000_4, "0.0%"),
            (1.234, "+123%"),
            (12.34, "+1230%"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(change(ratio), shown);
        }
        assert_eq!(interval(Some(-0.33), Some(-0.184)), "-33.0 .. -18.4");
        assert_eq!(interval(None, None), "-");
        assert_eq!(interval(Some(0.1), Some(f64::INFINITY)), "+10.0 .. ?");
    }

    #[test]
    fn times_sizes_and_probabilities_read_naturally() {
        assert_eq!(time(18_300_000.0), "18.3 ms");
        assert_eq!(time(1_200_000_000.0), "1.20 s");
        assert_eq!(time(12_400_000_000.0), "12.4 s");
        assert_eq!(time_short(50_000_000), "50 ms");
        assert_eq!(time_short(1_500_000_000), "1.50 s");
        assert_eq!(length(6_720_000_000_000), "1 h 52 min");
        assert_eq!(length(300_000_000_000), "5 min");
        assert_eq!(bytes(1_342_177_280.0), "1.25 GiB");
        assert_eq!(bytes(2113.0), "2110 B");
        assert_eq!(count(26_184_746), "26,184,746");
        assert_eq!(probability(Some(0.007_812_5)), "0.008");
        assert_eq!(probability(Some(0.000_03)), "<0.001");
        assert_eq!(probability(Some(1.0)), "1.00");
        assert_eq!(percentile(0.999), "p99.9");
        assert_eq!(percentile(0.5), "p50");
        assert_eq!(percentile(1.0), "max");
    }
}
