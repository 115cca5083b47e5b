//! Compares one arm with another, measure by measure.

use super::max_t::{adjusted_p, band_half_widths};
use super::measure::{Measure, percentile_of};
use super::power::{minimal_detectable, t_quantile};
use super::sign_flip::{SubsetMeans, hodges_lehmann, mean, standard_deviation};
use crate::experiment::document::{
    ExceedanceRow, MeasureRow, RowKind, Run, SessionDocument, ShiftPoint,
};

/// Samples a run must hold beyond a percentile before it is judged.
pub const SAMPLES_BEYOND_MIN: u64 = 10;

/// Stall episodes that must lie beyond a percentile or threshold in all.
pub const EPISODES_MIN: u64 = 3;

/// From here on a latency is a stall, and its samples come in episodes.
const STALL_NS: f64 = 100e6;

/// A pair is called an outlier when leaving it out moves the estimate by this share of the interval.
const OUTLIER_SHARE: f64 = 0.5;

/// Two intervals that differ by more than this share of their width are both told.
const DISAGREEMENT_SHARE: f64 = 0.25;

/// How sure a session has to be.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Level of each look's two-sided test.
    pub alpha: f64,
    /// Seeds random sign flips.
    pub seed: u64,
    /// The least change that matters.
    pub margin_ratio: f64,
}

/// A complete pair: the run of the arm compared with, and that of the arm compared.
pub type Pair<'a> = (&'a Run, &'a Run);

/// The complete pairs of two arms, in the order of blocks.
#[must_use]
pub fn pairs(document: &SessionDocument, against: u32, arm: u32) -> Vec<Pair<'_>> {
    let blocks = document.runs.iter().map(|run| run.block).max().map_or(0, |last| last + 1);
    let run_of = |block: u32, arm: u32| {
        document
            .runs
            .iter()
            .find(|run| run.block == block && run.arm == arm && run.incomplete.is_none())
    };
    (0..blocks).filter_map(|block| Some((run_of(block, against)?, run_of(block, arm)?))).collect()
}

/// One measure over all pairs, before adjustment.
pub struct Compared {
    /// The row, its `p_adjusted` still that of the row alone.
    pub row: MeasureRow,
    /// Per pair; on the logarithmic scale, or differences of square roots where a value is zero.
    pub differences: Vec<f64>,
    /// The interval for equivalence, 90%, in log units.
    pub equivalence: Option<(f64, f64)>,
}

/// A change in log units as a ratio minus one.
#[must_use]
pub fn ratio(log: f64) -> f64 {
    log.exp_m1()
}

/// Compares `measure` over `pairs`.
#[must_use]
pub fn compare(measure: &Measure, pairs: &[Pair<'_>], level: Level, is_primary: bool) -> Compared {
    let nature = measure.nature();
    let values: Vec<Option<(f64, f64)>> = pairs
        .iter()
        .map(|(against, run)| Some((measure.value(against)?, measure.value(run)?)))
        .collect();
    let known: Vec<(f64, f64)> = values.iter().copied().flatten().collect();
    let has_zero = known.iter().any(|(a, b)| *a <= 0.0 || *b <= 0.0);
    let log = |(a, b): (f64, f64)| (a > 0.0 && b > 0.0).then(|| (b / a).ln());
    let mut row = MeasureRow {
        measure: measure.name().to_owned(),
        unit: nature.unit.to_owned(),
        against_value: average(known.iter().map(|(a, _)| *a), has_zero),
        value: average(known.iter().map(|(_, b)| *b), has_zero),
        change_ratio: None,
        low_ratio: None,
        high_ratio: None,
        p: None,
        p_adjusted: None,
        detectable_ratio: None,
        kind: RowKind::Unclear,
        larger_is_better: nature.larger_is_better,
        is_primary,
        notes: Vec::new(),
        pair_log_ratios: values.iter().map(|pair| pair.and_then(log)).collect(),
    };
    let nothing = |row: MeasureRow| Compared { row, differences: Vec::new(), equivalence: None };
    if known.is_empty() {
        row.kind = RowKind::TooFew;
        return nothing(row);
    }
    if nature.is_extreme {
        row.kind = RowKind::NotTested;
        row.change_ratio =
            row.against_value.zip(row.value).and_then(|(a, b)| (a > 0.0).then(|| b / a - 1.0));
        return nothing(row);
    }
    if has_zero {
        return compare_with_zeros(row, &known, level);
    }
    let differences: Vec<f64> = known.iter().copied().filter_map(log).collect();
    let centre = mean(&differences).unwrap_or(0.0);
    row.change_ratio = Some(ratio(centre));
    if differences.len() < 2 {
        return nothing(row);
    }
    let means = SubsetMeans::new(&differences, level.seed);
    row.p = Some(means.p(0.0));
    row.p_adjusted = row.p;
    let deviation = standard_deviation(&differences).unwrap_or(0.0);
    row.detectable_ratio = minimal_detectable(deviation, differences.len(), level.alpha).map(ratio);
    let mut interval = means.interval(level.alpha);
    if is_throughput_like(measure)
        && let Some((low, high)) = interval
        && let Some(half) = within_run_half_width(pairs, level.alpha)
        && half > (high - low) / 2.0
    {
        // Seconds within the runs vary more than the runs do among themselves: the pairs agree by luck.
        interval = Some((centre - half, centre + half));
        row.notes.push("interval widened: seconds within runs vary more than runs do".to_owned());
    }
    row.low_ratio = interval.map(|(low, _)| ratio(low));
    row.high_ratio = interval.map(|(_, high)| ratio(high));
    note_outlier(&mut row, &differences, interval);
    note_disagreement(&mut row, &differences, interval, level.alpha);
    if too_few(measure, pairs) {
        row.kind = RowKind::TooFew;
    }
    let equivalence = means.interval(0.10);
    Compared { row, differences, equivalence }
}

/// Geometric mean, or the arithmetic one where a value is zero.
fn average(values: impl Iterator<Item = f64>, has_zero: bool) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    if has_zero {
        return mean(&values);
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).map(f64::exp)
}

/// Square roots bear zeros and steady the spread of counts.
fn compare_with_zeros(mut row: MeasureRow, known: &[(f64, f64)], level: Level) -> Compared {
    let root = |value: f64| value.max(0.0).sqrt();
    let differences: Vec<f64> = known.iter().map(|(a, b)| root(*b) - root(*a)).collect();
    if let (Some(against), Some(value)) = (row.against_value, row.value)
        && against > 0.0
    {
        row.change_ratio = Some(value / against - 1.0);
    }
    if differences.len() >= 2 {
        let means = SubsetMeans::new(&differences, level.seed);
        row.p = Some(means.p(0.0));
        row.p_adjusted = row.p;
    }
    Compared { row, differences, equivalence: None }
}

fn is_throughput_like(measure: &Measure) -> bool {
    measure.name() == "throughput"
}

/// Seconds of a block of the within-run bootstrap: long enough to hold a short stall whole.
const BLOCK_SECONDS: usize = 10;

/// Half the width of an interval for the throughput's change that takes only the runs' own seconds
/// into account: blocks of ten seconds are the samples.
fn within_run_half_width(pairs: &[Pair<'_>], alpha: f64) -> Option<f64> {
    let mut variance = 0.0;
    for (against, run) in pairs {
        for run in [against, run] {
            let blocks: Vec<f64> = run
                .timeline
                .chunks_exact(BLOCK_SECONDS)
                .map(|chunk| chunk.iter().map(|second| second.finished as f64).sum())
                .collect();
            let (centre, deviation) = (mean(&blocks)?, standard_deviation(&blocks)?);
            if centre <= 0.0 {
                return None;
            }
            variance += (deviation / centre).powi(2) / blocks.len() as f64;
        }
    }
    let n = pairs.len() as f64;
    let error = (variance / n).sqrt() / n.sqrt();
    // Many blocks stand behind it, so the normal quantile would do; t with the blocks' count is near.
    Some(t_quantile(1.0 - alpha / 2.0, 30.0)? * error)
}

fn note_outlier(row: &mut MeasureRow, differences: &[f64], interval: Option<(f64, f64)>) {
    let (Some((low, high)), Some(centre)) = (interval, mean(differences)) else { return };
    let n = differences.len() as f64;
    if n < 4.0 {
        return;
    }
    let moved = differences
        .iter()
        .enumerate()
        .map(|(index, value)| (index, ((centre * n - value) / (n - 1.0) - centre).abs()))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((index, distance)) = moved
        && distance > OUTLIER_SHARE * (high - low) / 2.0
        && let Some(robust) = hodges_lehmann(differences)
    {
        row.notes.push(format!(
            "pair {} alone moves the estimate; without favour to it: {:+.1}% (Hodges-Lehmann)",
            index + 1,
            ratio(robust) * 100.0
        ));
    }
}

fn note_disagreement(
    row: &mut MeasureRow,
    differences: &[f64],
    interval: Option<(f64, f64)>,
    alpha: f64,
) {
    let n = differences.len() as f64;
    let (Some((low, high)), Some(centre), Some(deviation)) =
        (interval, mean(differences), standard_deviation(differences))
    else {
        return;
    };
    let Some(quantile) = t_quantile(1.0 - alpha / 2.0, n - 1.0) else { return };
    let half = quantile * deviation / n.sqrt();
    let apart = ((centre - half) - low).abs().max(((centre + half) - high).abs());
    if apart > DISAGREEMENT_SHARE * (high - low) {
        row.notes.push(format!(
            "Student's t gives {:+.1}% .. {:+.1}%: the pairs are not alike",
            ratio(centre - half) * 100.0,
            ratio(centre + half) * 100.0
        ));
    }
}

/// Whether too little lies beyond a percentile for a judgement.
fn too_few(measure: &Measure, pairs: &[Pair<'_>]) -> bool {
    let Some(q) = measure.percentile() else { return false };
    if !measure.name().starts_with("response") {
        return false;
    }
    is_percentile_too_thin(pairs, q)
}

fn is_percentile_too_thin(pairs: &[Pair<'_>], q: f64) -> bool {
    let runs = pairs.iter().flat_map(|(against, run)| [*against, *run]);
    let mut episodes = 0;
    let mut is_stall = false;
    for run in runs {
        let Some(percentile) = percentile_of(&run.response, q) else { return true };
        if percentile.count_beyond < SAMPLES_BEYOND_MIN {
            return true;
        }
        is_stall |= percentile.value_ns as f64 >= STALL_NS;
        let beyond = |worst_ns: u64| worst_ns > percentile.value_ns;
        episodes += run.episodes.iter().filter(|episode| beyond(episode.worst_ns)).count() as u64;
    }
    is_stall && episodes < EPISODES_MIN
}

/// Sets the adjusted p and the conclusion of all rows but the primary together.
pub fn conclude(rows: &mut [Compared], level: Level, pairs: usize) {
    let testable = |compared: &Compared| {
        !compared.row.is_primary
            && compared.differences.len() == pairs
            && compared.row.p.is_some()
            && compared.row.kind != RowKind::TooFew
    };
    let table: Vec<Vec<f64>> =
        rows.iter().filter(|row| testable(row)).map(|row| row.differences.clone()).collect();
    let mut adjusted = adjusted_p(&table, level.seed).into_iter();
    for compared in rows.iter_mut() {
        if testable(compared) {
            compared.row.p_adjusted = adjusted.next();
        }
        if matches!(compared.row.kind, RowKind::TooFew | RowKind::NotTested) {
            continue;
        }
        compared.row.kind = kind_of(compared, level);
    }
}

fn kind_of(compared: &Compared, level: Level) -> RowKind {
    let row = &compared.row;
    let significant = row.p_adjusted.is_some_and(|p| p <= level.alpha);
    if let (true, Some(change), Some(larger_is_better)) =
        (significant, row.change_ratio, row.larger_is_better)
    {
        return if (change > 0.0) == larger_is_better { RowKind::Better } else { RowKind::Worse };
    }
    let (low, high) = ((-level.margin_ratio).ln_1p(), level.margin_ratio.ln_1p());
    if let Some((from, to)) = compared.equivalence
        && from > low
        && to < high
    {
        return RowKind::Same;
    }
    let sharp = row.detectable_ratio.is_some_and(|least| least <= level.margin_ratio);
    if !significant && sharp { RowKind::NoDifferenceSeen } else { RowKind::Unclear }
}

/// The change at each percentile that all runs hold.
#[must_use]
pub fn shift_function(pairs: &[Pair<'_>], level: Level, is_service: bool) -> Vec<ShiftPoint> {
    let of = |run: &Run, q: f64| {
        let summary = if is_service { &run.service } else { &run.response };
        percentile_of(summary, q).map(|percentile| percentile.value_ns.max(1) as f64)
    };
    let percentiles = (1..100).map(|p| f64::from(p) / 100.0).chain([0.999, 0.9999]);
    let mut points = Vec::new();
    let mut rows = Vec::new();
    for q in percentiles {
        let values: Option<Vec<(f64, f64)>> =
            pairs.iter().map(|(against, run)| Some((of(against, q)?, of(run, q)?))).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
        let differences: Vec<f64> = values.iter().map(|(a, b)| (b / a).ln()).collect();
        let interval = (differences.len() >= 2)
            .then(|| SubsetMeans::new(&differences, level.seed).interval(level.alpha))
            .flatten();
        points.push(ShiftPoint {
            q,
            against_ns: average(values.iter().map(|(a, _)| *a), false),
            value_ns: average(values.iter().map(|(_, b)| *b), false),
            change_ratio: mean(&differences).map(ratio),
            low_ratio: interval.map(|(low, _)| ratio(low)),
            high_ratio: interval.map(|(_, high)| ratio(high)),
            band_low_ratio: None,
            band_high_ratio: None,
            is_too_few: is_percentile_too_thin(pairs, q),
        });
        rows.push(differences);
    }
    let halves = band_half_widths(&rows, level.alpha, level.seed);
    for ((point, row), half) in points.iter_mut().zip(&rows).zip(halves) {
        if let (Some(centre), Some(half)) = (mean(row), half) {
            point.band_low_ratio = Some(ratio(centre - half));
            point.band_high_ratio = Some(ratio(centre + half));
        }
    }
    points
}

/// The change at each threshold, counted in stall episodes.
#[must_use]
pub fn exceedance(pairs: &[Pair<'_>], level: Level) -> Vec<ExceedanceRow> {
    let mut thresholds: Vec<u64> = pairs
        .iter()
        .flat_map(|(against, run)| against.exceedance.iter().chain(&run.exceedance))
        .map(|row| row.threshold_ns)
        .collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    let at = |run: &Run, threshold_ns: u64| {
        run.exceedance
            .iter()
            .find(|row| row.threshold_ns == threshold_ns)
            .map_or((0, 0), |row| (row.count, row.episodes))
    };
    let totals = |side: fn(&Pair<'_>) -> u64| pairs.iter().map(side).sum::<u64>();
    let (against_total, total) =
        (totals(|pair| pair.0.response.count), totals(|pair| pair.1.response.count));
    let per_million =
        |count: u64, total: u64| (total > 0).then(|| count as f64 * 1e6 / total as f64);
    let mut rows = Vec::new();
    let mut table = Vec::new();
    for threshold_ns in thresholds {
        let mut row = ExceedanceRow {
            threshold_ns,
            against_count: 0,
            count: 0,
            against_per_million: None,
            per_million: None,
            rate_ratio: None,
            low_ratio: None,
            high_ratio: None,
            against_episodes: 0,
            episodes: 0,
            p_adjusted: None,
            kind: RowKind::TooFew,
        };
        let mut differences = Vec::new();
        for (against, run) in pairs {
            let ((a, a_episodes), (b, b_episodes)) =
                (at(against, threshold_ns), at(run, threshold_ns));
            row.against_count += a;
            row.count += b;
            row.against_episodes += a_episodes;
            row.episodes += b_episodes;
            let root =
                |count, run: &Run| per_million(count, run.response.count).map_or(0.0, f64::sqrt);
            differences.push(root(b, run) - root(a, against));
        }
        if row.against_count + row.count == 0 {
            continue;
        }
        row.against_per_million = per_million(row.against_count, against_total);
        row.per_million = per_million(row.count, total);
        if let (Some(a), Some(b)) = (row.against_per_million, row.per_million)
            && a > 0.0
        {
            row.rate_ratio = Some(b / a);
            let base = a.sqrt();
            if let Some((low, high)) = (differences.len() >= 2)
                .then(|| SubsetMeans::new(&differences, level.seed).interval(level.alpha))
                .flatten()
            {
                row.low_ratio = Some(((base + low).max(0.0) / base).powi(2));
                row.high_ratio = Some(((base + high).max(0.0) / base).powi(2));
            }
        }
        // Below the stall limit a transaction needs no company to be late.
        let enough =
            (threshold_ns as f64) < STALL_NS || row.against_episodes + row.episodes >= EPISODES_MIN;
        if enough && differences.len() >= 2 {
            row.kind = RowKind::Unclear;
        }
        table.push(differences);
        rows.push(row);
    }
    let judged: Vec<Vec<f64>> = rows
        .iter()
        .zip(&table)
        .filter(|(row, _)| row.kind != RowKind::TooFew)
        .map(|(_, differences)| differences.clone())
        .collect();
    let mut adjusted = adjusted_p(&judged, level.seed).into_iter();
    for row in rows.iter_mut().filter(|row| row.kind != RowKind::TooFew) {
        row.p_adjusted = adjusted.next();
        let significant = row.p_adjusted.is_some_and(|p| p <= level.alpha);
        let is_less = row.per_million < row.against_per_million;
        row.kind = match (significant, is_less) {
            (true, true) => RowKind::Better,
            (true, false) => RowKind::Worse,
            (false, _) => RowKind::NoDifferenceSeen,
        };
    }
    rows
}
