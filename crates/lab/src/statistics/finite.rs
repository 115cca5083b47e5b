//! Nothing leaves that is not a number, and no sum wraps around: rule 4.

use std::fmt;

use crate::experiment::document::{Analysis, Comparison};

/// Sets to `None` what is NaN or infinite. Values of extreme records may overflow on the way back from
/// logarithms; nothing else should.
pub(super) fn clean(analysis: &mut Analysis) {
    keep_finite(&mut analysis.floor_ratio);
    clean_comparison(&mut analysis.comparison);
    analysis.further.iter_mut().for_each(clean_comparison);
}

/// The sum of counts, at most the largest there is: a record may hold any.
pub(super) fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// A ratio in percent, for sentences; with the sign and the places that are asked for. From a thousand million
/// on it is a multiple, since a percentage of the largest numbers is none any more.
#[derive(Clone, Copy)]
pub(super) struct Percent(pub(super) f64);

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ratio) = *self;
        if !ratio.is_finite() {
            return out.write_str("an unknown part");
        }
        let sign = if out.sign_plus() && ratio >= 0.0 { "+" } else { "" };
        if ratio.abs() >= 1e9 {
            return write!(out, "{sign}{ratio:.1e} times");
        }
        write!(out, "{sign}{:.*}%", out.precision().unwrap_or(1), ratio * 100.0)
    }
}

fn keep_finite(value: &mut Option<f64>) {
    *value = value.filter(|value| value.is_finite());
}

fn clean_comparison(comparison: &mut Comparison) {
    for row in &mut comparison.rows {
        [
            &mut row.against_value,
            &mut row.value,
            &mut row.change_ratio,
            &mut row.low_ratio,
            &mut row.high_ratio,
            &mut row.p,
            &mut row.p_adjusted,
            &mut row.detectable_ratio,
        ]
        .into_iter()
        .chain(&mut row.pair_log_ratios)
        .for_each(keep_finite);
    }
    for point in comparison.shift.iter_mut().chain(&mut comparison.shift_service) {
        [
            &mut point.against_ns,
            &mut point.value_ns,
            &mut point.change_ratio,
            &mut point.low_ratio,
            &mut point.high_ratio,
            &mut point.band_low_ratio,
            &mut point.band_high_ratio,
        ]
        .into_iter()
        .for_each(keep_finite);
    }
    for row in &mut comparison.exceedance {
        [
            &mut row.against_per_million,
            &mut row.per_million,
            &mut row.rate_ratio,
            &mut row.low_ratio,
            &mut row.high_ratio,
            &mut row.p_adjusted,
        ]
        .into_iter()
        .for_each(keep_finite);
    }
    for row in &mut comparison.stalls {
        [&mut row.lift, &mut row.lift_chance_low, &mut row.lift_chance_high]
            .into_iter()
            .for_each(keep_finite);
    }
}

#[cfg(test)]
mod tests {
    use super::Percent;

    #[test]
    fn no_percentage_in_a_sentence_is_infinite() {
        for (ratio, plain, signed) in [
            (0.1234, "12.3%", "+12%"),
            (-0.5, "-50.0%", "-50%"),
            (0.0, "0.0%", "+0%"),
            (f64::MAX, "1.8e308 times", "+1.8e308 times"),
            (f64::MIN, "-1.8e308 times", "-1.8e308 times"),
            (f64::NAN, "an unknown part", "an unknown part"),
            (f64::INFINITY, "an unknown part", "an unknown part"),
        ] {
            assert_eq!(format!("{:.1}", Percent(ratio)), plain);
            assert_eq!(format!("{:+.0}", Percent(ratio)), signed);
        }
    }
}
