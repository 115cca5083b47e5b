//! Runs that do not belong together in time: stored runs of different sessions.
//!
//! Nothing is known about what else changed between them, so the words are weak by design. The estimate
//! is the Hodges-Lehmann shift, the test the exact permutation test on the difference of means, the
//! interval the Hodges-Lehmann interval (order statistics of all differences, after the exact
//! distribution of the rank sum).

use super::analyse;
use super::compare::known_ratio;
use super::measure::Measure;
use super::sign_flip::{hodges_lehmann_shift, mean, unpaired_p};
use super::verdict::inconclusive;
use crate::experiment::document::{
    Analysis, Comparison, ExceedanceRow, MeasureRow, RowKind, Run, SessionDocument, VerdictKind,
};

/// Two-sided level.
const ALPHA: f64 = 0.05;

/// Rank sums are counted exactly up to so many runs in all; sessions do not hold more.
const RANKED_RUNS_MAX: usize = 400;

/// Compares stored runs. No row is called better or worse; the verdict is at most what the permutation
/// test on the primary measure alone gives, and nothing where the runs are too few for any.
#[must_use]
pub fn analyse_unpaired(document: &SessionDocument) -> Analysis {
    let mut analysis = analyse(document);
    analysis.is_paired = false;
    let primary = Measure::new(&document.protocol.primary);
    let seed = document.protocol.seed;
    weaken(document, &mut analysis.comparison, &primary, seed);
    for comparison in &mut analysis.further {
        weaken(document, comparison, &primary, seed);
    }
    // What pairs and the course of a session show is not to be had from runs of several sessions.
    analysis.noise.retain(|note| matches!(note.kind.as_str(), "two_modes" | "gap" | "host"));
    analysis.floor_ratio = None;
    super::finite::clean(&mut analysis);
    analysis
}

fn weaken(document: &SessionDocument, comparison: &mut Comparison, primary: &Measure, seed: u64) {
    let runs_of = |arm: u32| -> Vec<&Run> {
        document.runs.iter().filter(|run| run.arm == arm && run.incomplete.is_none()).collect()
    };
    let (against, arm) = (runs_of(comparison.against), runs_of(comparison.arm));
    for row in &mut comparison.rows {
        weaken_row(row, &against, &arm, seed);
    }
    for row in &mut comparison.exceedance {
        weaken_exceedance(row, &against, &arm);
    }
    (comparison.shift, comparison.shift_service) = (Vec::new(), Vec::new());
    let mut reasons = vec![
        "unpaired, weak: the runs do not belong together in time, and what else changed between them \
         is not known"
            .to_owned(),
    ];
    let least = p_floor(against.len(), arm.len());
    let row = comparison.rows.iter().find(|row| row.measure == primary.name());
    let mut verdict = inconclusive(Vec::new(), None);
    if least > ALPHA {
        reasons.push(format!(
            "{} against {} runs cannot be significant: the least p is {least:.2}",
            against.len(),
            arm.len()
        ));
    } else if let Some(row) = row
        && let (Some(p), Some(change)) = (row.p, row.change_ratio)
    {
        reasons.push(format!("exact permutation test: p = {p:.3}"));
        if p <= ALPHA
            && row.kind == RowKind::Unclear
            && let Some(larger_is_better) = row.larger_is_better
        {
            let is_good = (change > 0.0) == larger_is_better;
            verdict.kind = if is_good { VerdictKind::Better } else { VerdictKind::Worse };
        }
    }
    if comparison.verdict.kind == VerdictKind::Invalid {
        comparison.verdict.reasons.extend(reasons);
    } else {
        verdict.reasons = reasons;
        comparison.verdict = verdict;
    }
}

fn weaken_row(row: &mut MeasureRow, against: &[&Run], arm: &[&Run], seed: u64) {
    let measure = Measure::new(&row.measure);
    let logs = |runs: &[&Run]| -> Vec<f64> {
        runs.iter()
            .filter_map(|run| measure.value(run).filter(|value| *value > 0.0))
            .map(f64::ln)
            .collect()
    };
    let (a, b) = (logs(against), logs(arm));
    row.against_value = mean(&a).map(f64::exp);
    row.value = mean(&b).map(f64::exp);
    row.change_ratio = hodges_lehmann_shift(&a, &b).and_then(known_ratio);
    let is_tested = a.len() >= 2 && b.len() >= 2 && row.kind != RowKind::NotTested;
    row.p = is_tested.then(|| unpaired_p(&a, &b, seed)).flatten();
    row.p_adjusted = row.p.filter(|_| row.is_primary);
    let interval = is_tested.then(|| interval(&a, &b, ALPHA)).flatten();
    row.low_ratio = interval.and_then(|(low, _)| known_ratio(low));
    row.high_ratio = interval.and_then(|(_, high)| known_ratio(high));
    row.detectable_ratio = None;
    row.pair_log_ratios = Vec::new();
    row.notes = Vec::new();
    if !matches!(row.kind, RowKind::NotTested | RowKind::TooFew) {
        row.kind = RowKind::Unclear;
    }
}

/// Counts of all runs, not only of those that happened to share a number.
fn weaken_exceedance(row: &mut ExceedanceRow, against: &[&Run], arm: &[&Run]) {
    let total = |runs: &[&Run]| -> (u64, u64, u64) {
        runs.iter().fold((0, 0, 0), |(count, episodes, all), run| {
            let found = run.exceedance.iter().find(|e| e.threshold_ns == row.threshold_ns);
            (
                found.map_or(0, |found| found.count).saturating_add(count),
                found.map_or(0, |found| found.episodes).saturating_add(episodes),
                run.response.count.saturating_add(all),
            )
        })
    };
    let rate = |count: u64, all: u64| (all > 0).then(|| count as f64 * 1e6 / all as f64);
    let ((a, a_episodes, a_all), (b, b_episodes, b_all)) = (total(against), total(arm));
    (row.against_count, row.against_episodes) = (a, a_episodes);
    (row.count, row.episodes) = (b, b_episodes);
    (row.against_per_million, row.per_million) = (rate(a, a_all), rate(b, b_all));
    row.rate_ratio =
        row.against_per_million.filter(|a| *a > 0.0).zip(row.per_million).map(|(a, b)| b / a);
    (row.low_ratio, row.high_ratio, row.p_adjusted) = (None, None, None);
    if row.kind != RowKind::TooFew {
        row.kind = RowKind::NotTested;
    }
}

/// The least two-sided p of the permutation test on `a` against `b` runs: 0.10 for 3 against 3.
#[must_use]
pub fn p_floor(a: usize, b: usize) -> f64 {
    let splits: f64 = (0..a.min(b)).map(|i| (a + b - i) as f64 / (i + 1) as f64).product();
    if a == 0 || b == 0 {
        return 1.0;
    }
    // Of unequal sizes the mirrored split is another split, which need not be as extreme.
    (if a == b { 2.0 } else { 1.0 } / splits).min(1.0)
}

/// The Hodges-Lehmann interval of the shift from `a` to `b`; `None` where the runs are too few for the
/// level, or more than [`RANKED_RUNS_MAX`].
#[must_use]
pub fn interval(a: &[f64], b: &[f64], alpha: f64) -> Option<(f64, f64)> {
    if a.is_empty() || b.is_empty() || a.len() + b.len() > RANKED_RUNS_MAX {
        return None;
    }
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    // As many of the extreme differences lie outside as the rank sum leaves to each tail.
    let mut tail = 0.0;
    let mut outside = 0;
    for share in rank_sum_distribution(a.len(), b.len()) {
        tail += share;
        if tail > alpha / 2.0 {
            break;
        }
        outside += 1;
    }
    if outside == 0 {
        return None;
    }
    let low = *differences.get(outside - 1)?;
    let high = *differences.get(differences.len().checked_sub(outside)?)?;
    (low <= high).then_some((low, high))
}

/// The chance of each value of Mann and Whitney's U, from 0, when `a` and `b` values are shuffled: by
/// the recurrence on which sample holds the largest value.
fn rank_sum_distribution(a: usize, b: usize) -> Vec<f64> {
    // table[j]: distribution for the current number of the first sample and j of the second.
    let mut table: Vec<Vec<f64>> = vec![vec![1.0]; b + 1];
    for i in 1..=a {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=b {
            let mut shares = vec![0.0; i * j + 1];
            let (from_a, from_b) = (i as f64 / (i + j) as f64, j as f64 / (i + j) as f64);
            // The largest is one of the first sample: it exceeds all j of the second.
            for (at, share) in table.get(j).into_iter().flatten().enumerate() {
                if let Some(slot) = shares.get_mut(at + j) {
                    *slot += from_a * share;
                }
            }
            for (slot, share) in shares.iter_mut().zip(next.get(j - 1).into_iter().flatten()) {
                *slot += from_b * share;
            }
            next.push(shares);
        }
        table = next;
    }
    table.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_against_three_is_at_best_a_tenth() {
        assert!((p_floor(3, 3) - 0.1).abs() < 1e-12);
        assert!((p_floor(4, 4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p_floor(3, 4) - 1.0 / 35.0).abs() < 1e-12);
        assert!((p_floor(0, 4) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rank_sums_follow_their_published_distribution() {
        // 3 against 3: 1 1 2 3 3 3 3 2 1 1 of 20.
        let shares = rank_sum_distribution(3, 3);
        let counts: Vec<f64> = shares.iter().map(|share| (share * 20.0).round()).collect();
        assert_eq!(counts, [1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 2.0, 1.0, 1.0]);
        assert!((rank_sum_distribution(9, 5).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn intervals_take_the_order_statistic_of_the_tables() {
        // Critical U for 8 against 8 at two-sided 5% is 13, so the 14th difference from either end.
        let a: Vec<f64> = (0..8).map(f64::from).collect();
        let b: Vec<f64> = (0..8).map(|i| 100.0 + f64::from(i) * 10.0).collect();
        let mut all: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
        all.sort_by(f64::total_cmp);
        let (low, high) = interval(&a, &b, 0.05).unwrap();
        assert!((low - all[13]).abs() < 1e-12 && (high - all[64 - 14]).abs() < 1e-12);
        assert_eq!(
            interval(&a[..3], &b[..3], 0.05),
            None,
            "three against three have no 95% interval"
        );
    }
}
