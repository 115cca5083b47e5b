//! Nothing leaves that is not a number, and no sum wraps around: rule 4.

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
