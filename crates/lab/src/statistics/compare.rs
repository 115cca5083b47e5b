//! Compares one arm with another, measure by measure.

use super::finite::Percent;
use super::max_t::adjusted_p;
use super::measure::{Measure, percentile_of, summary_of};
use super::outlier::{self, Outlier};
use super::power::{detectable, detectable_beyond, t_quantile};
use super::sign_flip::{SubsetMeans, hodges_lehmann, mean, standard_deviation};
use super::within_run::{self, WithinRuns};
use crate::experiment::document::{LatencySummary, MeasureRow, RowKind, Run, SessionDocument};

/// Samples a run must hold beyond a percentile before it is judged.
pub const SAMPLES_BEYOND_MIN: u64 = 10;

/// Stall episodes that must lie beyond a percentile or threshold in all.
pub const EPISODES_MIN: u64 = 3;

/// From here on a latency is a stall, and its samples come in episodes.
pub const STALL_NS: u64 = crate::measure::episodes::LIMIT_MIN_NS;

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

impl Level {
    /// The margin on the logarithmic scale, downwards and upwards.
    #[must_use]
    pub fn margin(&self) -> (f64, f64) {
        let margin = if self.margin_ratio.is_finite() { self.margin_ratio } else { 0.0 };
        ((-margin.clamp(0.0, 0.999)).ln_1p(), margin.max(0.0).ln_1p())
    }

    /// The level of the interval that shows equivalence. Each of two one-sided tests is held at the
    /// level of the look, so that looking several times does not make arms more easily equal.
    #[must_use]
    pub fn equivalence_alpha(&self) -> f64 {
        2.0 * self.alpha
    }
}

/// A complete pair: the run of the arm compared with, and that of the arm compared.
pub type Pair<'a> = (&'a Run, &'a Run);

/// The complete pairs of two arms, in the order of blocks.
#[must_use]
pub fn pairs(document: &SessionDocument, against: u32, arm: u32) -> Vec<Pair<'_>> {
    let mut blocks = std::collections::BTreeMap::<u32, (Option<&Run>, Option<&Run>)>::new();
    for run in document.runs.iter().filter(|run| run.incomplete.is_none()) {
        let block = blocks.entry(run.block).or_default();
        if run.arm == against {
            block.0.get_or_insert(run);
        } else if run.arm == arm {
            block.1.get_or_insert(run);
        }
    }
    blocks.into_values().filter_map(|(against, arm)| Some((against?, arm?))).collect()
}

/// One measure over all pairs, before adjustment.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The row, its `p_adjusted` still that of the row alone.
    pub row: MeasureRow,
    /// Per pair; on the logarithmic scale, or differences of square roots where a value is zero.
    pub differences: Vec<f64>,
    /// The interval for equivalence, 90% at a single look, in log units.
    pub equivalence: Option<(f64, f64)>,
    /// Least p that the seconds within the runs leave, where they are known.
    p_within: Option<f64>,
    /// A value of the arm compared with, or of the arm compared, is only known to be at least so large.
    bounds: (bool, bool),
}

impl Compared {
    /// Whether a change in this direction is carried by the values: where the larger side is only known
    /// to be "at least" that, the change still holds; where the smaller side is, it does not.
    #[must_use]
    pub fn carries(&self, is_increase: bool) -> bool {
        let (against, arm) = self.bounds;
        if is_increase { !against } else { !arm }
    }

    /// Whether equality within the margin is shown.
    #[must_use]
    pub fn is_equivalent(&self, level: Level) -> bool {
        let (low, high) = level.margin();
        let is_exact = self.bounds == (false, false);
        is_exact && self.equivalence.is_some_and(|(from, to)| from > low && to < high)
    }
}

/// A change in log units as a ratio minus one.
#[must_use]
pub fn ratio(log: f64) -> f64 {
    log.exp_m1()
}

/// [`ratio`], where it is a number.
pub(super) fn known_ratio(log: f64) -> Option<f64> {
    Some(ratio(log)).filter(|ratio| ratio.is_finite())
}

/// ln(b / a) of two values above zero, finite for all such values.
pub(super) fn log_ratio((a, b): (f64, f64)) -> Option<f64> {
    (a > 0.0 && b > 0.0).then(|| b.ln() - a.ln())
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
    let row = MeasureRow {
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
        pair_log_ratios: values.iter().map(|pair| pair.and_then(log_ratio)).collect(),
    };
    let mut compared = Compared {
        row,
        differences: Vec::new(),
        equivalence: None,
        p_within: None,
        bounds: lower_bounds(measure, pairs),
    };
    if known.is_empty() {
        compared.row.kind = RowKind::TooFew;
        return compared;
    }
    if known.len() < pairs.len() {
        let note = format!("only {} of {} pairs hold it", known.len(), pairs.len());
        compared.row.notes.push(note);
    }
    if nature.is_extreme {
        let row = &mut compared.row;
        row.kind = RowKind::NotTested;
        row.change_ratio =
            row.against_value.zip(row.value).and_then(log_ratio).and_then(known_ratio);
        return compared;
    }
    if has_zero {
        compare_with_zeros(&mut compared, &known, level);
    } else {
        compared.differences = known.iter().copied().filter_map(log_ratio).collect();
        compare_logs(&mut compared, within_run::of(measure, pairs), level);
    }
    if compared.bounds != (false, false) {
        let note = "at least: transactions that were cut off reach below it".to_owned();
        compared.row.notes.push(note);
    }
    if too_few(measure, pairs) {
        compared.row.kind = RowKind::TooFew;
    }
    compared
}

/// Lets the detectable change account for a threshold (in log units) that the estimate must exceed besides
/// its own test.
fn raise_detectable(row: &mut MeasureRow, differences: &[f64], threshold: f64, alpha: f64) {
    let raised = standard_deviation(differences)
        .and_then(|deviation| detectable_beyond(threshold, deviation, differences.len(), alpha))
        .and_then(known_ratio);
    if let (Some(least), Some(raised)) = (row.detectable_ratio, raised) {
        row.detectable_ratio = Some(least.max(raised));
    }
}

/// Lets what the primary row calls detectable account for the A/A floor, which a change must exceed to be
/// called one.
pub fn account_for_floor(primary: &mut Compared, floor_ratio: Option<f64>, level: Level) {
    if let Some(floor) = floor_ratio {
        raise_detectable(&mut primary.row, &primary.differences, floor.ln_1p(), level.alpha);
    }
}

fn compare_logs(compared: &mut Compared, within: Option<WithinRuns>, level: Level) {
    let (row, differences) = (&mut compared.row, &compared.differences);
    let centre = mean(differences).unwrap_or(0.0);
    row.change_ratio = known_ratio(centre);
    if differences.len() < 2 {
        return;
    }
    let means = SubsetMeans::new(differences, level.seed);
    let deviation = standard_deviation(differences).unwrap_or(0.0);
    row.detectable_ratio =
        detectable(deviation, differences.len(), level.alpha).and_then(known_ratio);
    let mut interval = means.interval(level.alpha);
    compared.equivalence = means.interval(level.equivalence_alpha());
    if let Some(within) = within {
        // The pairs agree better than the seconds within the runs allow: by luck. Each end is taken
        // from whichever interval reaches further.
        let wider = |interval: Option<(f64, f64)>, alpha: f64| {
            let (low, high) = interval?;
            let half = within.half_width(alpha)?;
            Some((low.min(centre - half), high.max(centre + half)))
        };
        let widened = wider(interval, level.alpha).or(interval);
        if widened != interval {
            let note = "interval widened: seconds within runs vary more than pairs do".to_owned();
            row.notes.push(note);
        }
        interval = widened;
        compared.equivalence =
            wider(compared.equivalence, level.equivalence_alpha()).or(compared.equivalence);
        compared.p_within = within.p(centre);
        if let Some(half) = within.half_width(level.alpha) {
            raise_detectable(row, differences, half, level.alpha);
        }
    }
    let p = means.p(0.0);
    row.p = Some(compared.p_within.map_or(p, |within| within.max(p)));
    row.p_adjusted = row.p;
    row.low_ratio = interval.and_then(|(low, _)| known_ratio(low));
    row.high_ratio = interval.and_then(|(_, high)| known_ratio(high));
    note_disagreement(row, differences, interval, level.alpha);
    if let Some(Outlier { pair, without }) = outlier::find(differences, interval)
        && let Some(robust) = hodges_lehmann(differences)
    {
        row.notes.push(format!(
            "pair {} alone moves the estimate: mean {:+.1}, without it {:+.1}; shown is \
             Hodges-Lehmann",
            pair + 1,
            Percent(ratio(centre)),
            Percent(ratio(without))
        ));
        row.change_ratio = known_ratio(robust);
    }
}

/// Geometric mean, or the arithmetic one where a value is zero.
pub(super) fn average(values: impl Iterator<Item = f64>, has_zero: bool) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    if has_zero {
        return mean(&values).filter(|mean| mean.is_finite());
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).map(f64::exp).filter(|mean| mean.is_finite())
}

/// Square roots bear zeros and steady the spread of counts.
fn compare_with_zeros(compared: &mut Compared, known: &[(f64, f64)], level: Level) {
    let root = |value: f64| value.max(0.0).sqrt();
    compared.differences = known.iter().map(|(a, b)| root(*b) - root(*a)).collect();
    let row = &mut compared.row;
    let base = row.against_value.filter(|base| *base > 0.0);
    if let (Some(against), Some(value)) = (base, row.value) {
        row.change_ratio = Some(value / against - 1.0).filter(|change| change.is_finite());
    }
    if compared.differences.len() >= 2 {
        let means = SubsetMeans::new(&compared.differences, level.seed);
        row.p = Some(means.p(0.0));
        row.p_adjusted = row.p;
        if let (Some(base), Some((low, high))) = (base, means.interval(level.alpha)) {
            row.low_ratio = Some(root_ratio(base, low) - 1.0);
            row.high_ratio = Some(root_ratio(base, high) - 1.0);
        }
    }
}

/// The ratio to `base` of a value whose square root lies `difference` above that of `base`.
pub(super) fn root_ratio(base: f64, difference: f64) -> f64 {
    ((base.sqrt() + difference).max(0.0) / base.sqrt()).powi(2)
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
    // Rounding alone makes a difference where all pairs are equal.
    if apart > DISAGREEMENT_SHARE * (high - low) && apart > centre.abs() * 1e-9 {
        row.notes.push(format!(
            "Student's t gives {:+.1} .. {:+.1}: the pairs are not alike",
            Percent(ratio(centre - half)),
            Percent(ratio(centre + half))
        ));
    }
}

/// Whether a value of either side is a lower bound only.
fn lower_bounds(measure: &Measure, pairs: &[Pair<'_>]) -> (bool, bool) {
    let Some(q) = measure.percentile() else { return (false, false) };
    let is_bound = |run: &Run| {
        summary_of(measure, run)
            .and_then(|summary| percentile_of(summary, q))
            .is_some_and(|percentile| percentile.is_lower_bound)
    };
    (pairs.iter().any(|(run, _)| is_bound(run)), pairs.iter().any(|(_, run)| is_bound(run)))
}

/// Whether too little lies beyond a percentile for a judgement.
fn too_few(measure: &Measure, pairs: &[Pair<'_>]) -> bool {
    measure.percentile().is_some_and(|q| {
        is_percentile_too_thin(pairs, q, |run| summary_of(measure, run).unwrap_or(&run.response))
    })
}

/// Whether a run holds fewer than [`SAMPLES_BEYOND_MIN`] samples beyond percentile `q`, or, where these
/// are stalls, all runs fewer than [`EPISODES_MIN`] episodes. Below [`STALL_NS`] a transaction needs no
/// company to be late, so its samples count by themselves.
pub(super) fn is_percentile_too_thin<'a>(
    pairs: &[Pair<'a>],
    q: f64,
    summary: impl Fn(&'a Run) -> &'a LatencySummary,
) -> bool {
    let mut episodes = 0;
    let mut is_stall = false;
    for run in pairs.iter().flat_map(|(against, run)| [*against, *run]) {
        let Some(percentile) = percentile_of(summary(run), q) else { return true };
        if percentile.count_beyond < SAMPLES_BEYOND_MIN {
            return true;
        }
        is_stall |= percentile.value_ns >= STALL_NS;
        let beyond = |worst_ns: u64| worst_ns > percentile.value_ns;
        episodes += run.episodes.iter().filter(|episode| beyond(episode.worst_ns)).count() as u64;
    }
    is_stall && episodes < EPISODES_MIN
}

/// Sets the adjusted p and the conclusion of all rows. Rows that not every pair holds cannot join the
/// common flips: they get no adjusted p, and no conclusion.
pub fn conclude(rows: &mut [Compared], level: Level, pairs: usize) {
    let testable = |compared: &Compared| {
        !compared.row.is_primary
            && compared.differences.len() == pairs
            && compared.row.p.is_some()
            && compared.row.kind != RowKind::TooFew
    };
    let table: Vec<&[f64]> =
        rows.iter().filter(|row| testable(row)).map(|row| row.differences.as_slice()).collect();
    let mut adjusted = adjusted_p(&table, level.seed).into_iter();
    for compared in rows.iter_mut() {
        if testable(compared) {
            let within = compared.p_within.unwrap_or(0.0);
            compared.row.p_adjusted = adjusted.next().map(|p| p.max(within));
        } else if !compared.row.is_primary {
            compared.row.p_adjusted = None;
        }
        if !matches!(compared.row.kind, RowKind::TooFew | RowKind::NotTested) {
            compared.row.kind = kind_of(compared, level);
        }
    }
}

fn kind_of(compared: &Compared, level: Level) -> RowKind {
    let row = &compared.row;
    let significant = row.p_adjusted.is_some_and(|p| p <= level.alpha);
    if let (true, Some(centre), Some(larger_is_better)) =
        (significant, mean(&compared.differences), row.larger_is_better)
        && compared.carries(centre > 0.0)
    {
        return if (centre > 0.0) == larger_is_better { RowKind::Better } else { RowKind::Worse };
    }
    if compared.is_equivalent(level) {
        return RowKind::Same;
    }
    let sharp = row.detectable_ratio.is_some_and(|least| least <= level.margin_ratio);
    let is_tested = row.p_adjusted.is_some();
    if is_tested && !significant && sharp { RowKind::NoDifferenceSeen } else { RowKind::Unclear }
}

#[cfg(test)]
mod tests;
