//! The shift function: the change at each percentile.

use super::compare::{Level, Pair, average, is_percentile_too_thin, known_ratio, log_ratio};
use super::max_t::band_half_widths;
use super::measure::percentile_of;
use super::sign_flip::{SubsetMeans, mean};
use crate::experiment::document::{LatencySummary, Run, ShiftPoint};

/// The change at each percentile that all runs hold: 1 to 99, 99.5, 99.9 and 99.99.
#[must_use]
pub fn shift_function(pairs: &[Pair<'_>], level: Level, is_service: bool) -> Vec<ShiftPoint> {
    let summary: for<'a> fn(&'a Run) -> &'a LatencySummary =
        if is_service { |run| &run.service } else { |run| &run.response };
    let value = |run: &Run, q: f64| {
        percentile_of(summary(run), q).map(|percentile| percentile.value_ns.max(1) as f64)
    };
    let percentiles = (1..100).map(|p| f64::from(p) / 100.0).chain([0.995, 0.999, 0.9999]);
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for q in percentiles {
        let values: Option<Vec<(f64, f64)>> =
            pairs.iter().map(|(against, run)| Some((value(against, q)?, value(run, q)?))).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
        let differences: Vec<f64> = values.iter().copied().filter_map(log_ratio).collect();
        let interval = (differences.len() >= 2)
            .then(|| SubsetMeans::new(&differences, level.seed).interval(level.alpha))
            .flatten();
        points.push(ShiftPoint {
            q,
            against_ns: average(values.iter().map(|(a, _)| *a), false),
            value_ns: average(values.iter().map(|(_, b)| *b), false),
            change_ratio: mean(&differences).and_then(known_ratio),
            low_ratio: interval.and_then(|(low, _)| known_ratio(low)),
            high_ratio: interval.and_then(|(_, high)| known_ratio(high)),
            band_low_ratio: None,
            band_high_ratio: None,
            is_too_few: is_percentile_too_thin(pairs, q, summary),
        });
        rows.push(differences);
    }
    // Percentiles of which too little is known do not make the band of the others wider.
    let judged: Vec<usize> =
        points.iter().enumerate().filter(|(_, p)| !p.is_too_few).map(|(at, _)| at).collect();
    let table: Vec<&[f64]> =
        judged.iter().filter_map(|at| rows.get(*at).map(Vec::as_slice)).collect();
    let halves = band_half_widths(&table, level.alpha, level.seed);
    for ((at, row), half) in judged.iter().zip(&table).zip(halves) {
        if let (Some(centre), Some(half), Some(point)) = (mean(row), half, points.get_mut(*at)) {
            // What holds for all percentiles at once is never narrower than what holds for one.
            let further = |band: Option<f64>, own: Option<f64>, pick: fn(f64, f64) -> f64| {
                band.map(|band| own.map_or(band, |own| pick(band, own)))
            };
            point.band_low_ratio = further(known_ratio(centre - half), point.low_ratio, f64::min);
            point.band_high_ratio = further(known_ratio(centre + half), point.high_ratio, f64::max);
        }
    }
    points
}
