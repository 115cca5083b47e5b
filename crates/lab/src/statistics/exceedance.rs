//! How many transactions took at least so long: the change at each threshold.

use super::compare::{EPISODES_MIN, Level, Pair, STALL_NS, root_ratio};
use super::max_t::adjusted_p;
use super::sign_flip::{SubsetMeans, mean};
use crate::experiment::document::{ExceedanceRow, RowKind, Run};

/// The rows of all thresholds that a transaction reached, ascending. Ratios are of rates, not of counts;
/// where the arm compared with has none the ratio is undefined and `None`. Intervals come from sign flips
/// on the pairs' differences of square roots of rates, which bear zeros.
#[must_use]
pub fn exceedance(pairs: &[Pair<'_>], level: Level) -> Vec<ExceedanceRow> {
    let mut thresholds: Vec<u64> = pairs
        .iter()
        .flat_map(|(against, run)| against.exceedance.iter().chain(&run.exceedance))
        .map(|row| row.threshold_ns)
        .collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    let (mut rows, mut table) = (Vec::new(), Vec::new());
    for threshold_ns in thresholds {
        let (row, differences) = row(pairs, threshold_ns, level);
        if row.against_count > 0 || row.count > 0 {
            rows.push(row);
            table.push(differences);
        }
    }
    conclude(&mut rows, &table, level);
    rows
}

fn row(pairs: &[Pair<'_>], threshold_ns: u64, level: Level) -> (ExceedanceRow, Vec<f64>) {
    let at = |run: &Run| {
        run.exceedance
            .iter()
            .find(|row| row.threshold_ns == threshold_ns)
            .map_or((0, 0), |row| (row.count, row.episodes))
    };
    let sum = |side: &dyn Fn(&Pair<'_>) -> u64| pairs.iter().map(side).fold(0, u64::saturating_add);
    let against_count = sum(&|pair| at(pair.0).0);
    let count = sum(&|pair| at(pair.1).0);
    let against_per_million = per_million(against_count, sum(&|pair| pair.0.response.count));
    let arm_per_million = per_million(count, sum(&|pair| pair.1.response.count));
    let root = |run: &Run| per_million(at(run).0, run.response.count).map_or(0.0, f64::sqrt);
    let differences: Vec<f64> =
        pairs.iter().map(|(against, run)| root(run) - root(against)).collect();
    let base = against_per_million.filter(|base| *base > 0.0);
    let interval = (differences.len() >= 2)
        .then(|| SubsetMeans::new(&differences, level.seed).interval(level.alpha))
        .flatten();
    let against_episodes = sum(&|pair| at(pair.0).1);
    let episodes = sum(&|pair| at(pair.1).1);
    // Below the stall limit a transaction needs no company to be late.
    let enough =
        threshold_ns < STALL_NS || against_episodes.saturating_add(episodes) >= EPISODES_MIN;
    let row = ExceedanceRow {
        threshold_ns,
        against_count,
        count,
        against_per_million,
        per_million: arm_per_million,
        rate_ratio: base.zip(arm_per_million).map(|(a, b)| b / a),
        low_ratio: base.zip(interval).map(|(base, (low, _))| root_ratio(base, low)),
        high_ratio: base.zip(interval).map(|(base, (_, high))| root_ratio(base, high)),
        against_episodes,
        episodes,
        p_adjusted: None,
        kind: if enough { RowKind::Unclear } else { RowKind::TooFew },
    };
    (row, differences)
}

fn per_million(count: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| count as f64 * 1e6 / total as f64)
}

fn conclude(rows: &mut [ExceedanceRow], table: &[Vec<f64>], level: Level) {
    let is_judged = |row: &ExceedanceRow, differences: &[f64]| {
        row.kind != RowKind::TooFew && differences.len() >= 2
    };
    let judged: Vec<&[f64]> = rows
        .iter()
        .zip(table)
        .filter(|(row, differences)| is_judged(row, differences))
        .map(|(_, differences)| differences.as_slice())
        .collect();
    let mut adjusted = adjusted_p(&judged, level.seed).into_iter();
    for (row, differences) in rows.iter_mut().zip(table) {
        if !is_judged(row, differences) {
            continue;
        }
        row.p_adjusted = adjusted.next();
        let is_less = mean(differences).is_some_and(|mean| mean < 0.0);
        row.kind = match row.p_adjusted.is_some_and(|p| p <= level.alpha) {
            true if is_less => RowKind::Better,
            true => RowKind::Worse,
            false => RowKind::NoDifferenceSeen,
        };
    }
}
