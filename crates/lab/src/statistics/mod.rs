//! From runs to a verdict. The method is told in `docs/methodology.md`; this is its implementation.
//!
//! # Rules
//!
//! 1. The unit of evidence is the pair: one number per pair and measure.
//! 2. The primary measure alone decides; all other rows are adjusted together.
//! 3. A verdict needs every gate; a gate that cannot be computed says so and is not counted as passed.
//! 4. No NaN and no infinity leaves this module; what is not known is `None`.
//! 5. The same document gives the same analysis: chance comes from a recorded seed.

pub mod compare;
pub mod gates;
pub mod max_t;
pub mod measure;
pub mod noise;
pub mod power;
pub mod series;
pub mod sign_flip;
pub mod stalls;
pub mod synthetic;

use compare::{Compared, Level, conclude, exceedance, pairs, ratio, shift_function};
use measure::Measure;
use sign_flip::{hodges_lehmann_shift, mean, p_floor, standard_deviation, unpaired_p};

use crate::experiment::document::{
    Analysis, ArmRole, Comparison, Gate, GateStatus, RowKind, Run, SessionDocument, Verdict,
    VerdictKind,
};

/// Level of a session with a single look.
const ALPHA: f64 = 0.05;

/// Nominal level of each look that keeps the whole at 5% (S. Pocock, Biometrika 64, 1977), for one to
/// five looks.
const LOOK_ALPHAS: [f64; 5] = [0.05, 0.0294, 0.0221, 0.0182, 0.0158];

/// Unpaired comparisons with fewer runs a side carry nothing beyond "inconclusive".
const UNPAIRED_RUNS_MIN: usize = 4;

/// The nominal level of each of `looks` planned looks.
#[must_use]
pub fn look_alpha(looks: usize) -> f64 {
    LOOK_ALPHAS.get(looks.saturating_sub(1)).copied().unwrap_or_else(|| {
        // More looks than the table holds: share the level out evenly, which is on the safe side.
        ALPHA / looks.max(1) as f64
    })
}

/// Analyses a session. Arms with no complete pair give an inconclusive comparison, never a panic.
#[must_use]
pub fn analyse(document: &SessionDocument) -> Analysis {
    let seed = document.protocol.seed;
    let level = Level {
        alpha: look_alpha(document.protocol.looks.len()),
        seed,
        margin_ratio: document.protocol.margin_ratio,
    };
    let primary = Measure::new(&document.protocol.primary);
    let gates = gates::all(document);
    let index_of = |role: ArmRole| {
        document.arms.iter().position(|arm| arm.role == role).and_then(|i| u32::try_from(i).ok())
    };
    let baseline = index_of(ArmRole::Baseline).unwrap_or(0);
    let contender = index_of(ArmRole::Contender).unwrap_or(1);
    let floor = floor(document, &primary);
    let main = comparison(document, baseline, contender, &primary, level, &gates, floor);
    let mut further = Vec::new();
    if let Some(control) = index_of(ArmRole::Control) {
        further.push(comparison(document, control, contender, &primary, level, &gates, floor));
        further.push(comparison(document, baseline, control, &primary, level, &gates, floor));
    }
    let complete = pairs(document, baseline, contender);
    Analysis {
        pairs: u32::try_from(complete.len()).unwrap_or(u32::MAX),
        is_paired: true,
        noise: noise::diagnose(document, &primary, &complete, floor, seed),
        comparison: main,
        further,
        gates,
        floor_ratio: floor,
        flip_seed: seed,
    }
}

/// The verdict on the primary measure alone, contender against baseline: the same as
/// [`analyse`]'s, at a fraction of its cost, for looks and simulations.
#[must_use]
pub fn primary_verdict(document: &SessionDocument) -> Verdict {
    let level = Level {
        alpha: look_alpha(document.protocol.looks.len()),
        seed: document.protocol.seed,
        margin_ratio: document.protocol.margin_ratio,
    };
    let primary = Measure::new(&document.protocol.primary);
    let pairs = pairs(document, 0, 1);
    let mut rows = [compare::compare(&primary, &pairs, level, true)];
    conclude(&mut rows, level, pairs.len());
    let [row] = rows;
    verdict(&row, pairs.len(), level, &gates::all(document), floor(document, &primary))
}

fn comparison(
    document: &SessionDocument,
    against: u32,
    arm: u32,
    primary: &Measure,
    level: Level,
    gates: &[Gate],
    floor: Option<f64>,
) -> Comparison {
    let pairs = pairs(document, against, arm);
    let mut measures = Measure::all_of(document);
    measures.retain(|measure| measure != primary);
    measures.insert(0, primary.clone());
    let mut rows: Vec<Compared> = measures
        .iter()
        .map(|measure| compare::compare(measure, &pairs, level, measure == primary))
        // Counters that no run moved say nothing.
        .filter(|row| {
            row.row.is_primary
                || row.row.value.is_some_and(|value| value.abs() > 0.0)
                || row.row.against_value.is_some_and(|value| value.abs() > 0.0)
        })
        .collect();
    conclude(&mut rows, level, pairs.len());
    let verdict = rows.first().map_or_else(
        || inconclusive(vec!["there is no measure".to_owned()], None),
        |primary| verdict(primary, pairs.len(), level, gates, floor),
    );
    Comparison {
        arm,
        against,
        verdict,
        rows: rows.into_iter().map(|compared| compared.row).collect(),
        shift: shift_function(&pairs, level, false),
        shift_service: shift_function(&pairs, level, true),
        exceedance: exceedance(&pairs, level),
        stalls: stalls::by_event(&pairs),
    }
}

fn inconclusive(reasons: Vec<String>, pairs_needed: Option<u32>) -> Verdict {
    Verdict {
        kind: VerdictKind::Inconclusive,
        is_beyond_margin: false,
        reasons,
        pairs_needed,
        is_below_floor: false,
    }
}

/// The conclusion on the primary measure; see the table of `docs/methodology.md`.
fn verdict(
    primary: &Compared,
    pairs: usize,
    level: Level,
    gates: &[Gate],
    floor: Option<f64>,
) -> Verdict {
    let failed: Vec<String> = gates
        .iter()
        .filter(|gate| gate.status == GateStatus::Failed)
        .map(|gate| format!("{}: {}", gate.name, gate.text))
        .collect();
    let deviation = standard_deviation(&primary.differences).unwrap_or(0.0);
    let margin = level.margin_ratio.ln_1p();
    let needed = power::pairs_needed(deviation, margin, level.alpha);
    if !failed.is_empty() {
        return Verdict { kind: VerdictKind::Invalid, ..inconclusive(failed, None) };
    }
    let row = &primary.row;
    if primary.differences.is_empty() {
        let reason = format!("no complete pair holds {}", row.measure);
        return inconclusive(vec![reason], None);
    }
    if row.kind == RowKind::TooFew {
        let reason = format!(
            "too little lies beyond {}: each run needs at least {} samples beyond it, and stalls at \
             least {} episodes in all",
            row.measure,
            compare::SAMPLES_BEYOND_MIN,
            compare::EPISODES_MIN
        );
        return inconclusive(vec![reason], None);
    }
    let (Some(change), Some(low), Some(high)) = (row.change_ratio, row.low_ratio, row.high_ratio)
    else {
        let reason = format!(
            "{pairs} pairs cannot be significant: the least p is {:.3}, and {:.3} is asked; at least \
             {} pairs are needed",
            p_floor(pairs),
            level.alpha,
            pairs_for_level(level.alpha)
        );
        return inconclusive(vec![reason], Some(pairs_for_level(level.alpha)));
    };
    let larger_is_better = row.larger_is_better.unwrap_or(false);
    let is_good = |value: f64| (value > 0.0) == larger_is_better;
    if low > 0.0 || high < 0.0 {
        let nearest = if low > 0.0 { low } else { high };
        let kind = if is_good(change) { VerdictKind::Better } else { VerdictKind::Worse };
        if let Some(floor) = floor
            && change.ln_1p().abs() < floor.ln_1p()
        {
            let reason = format!(
                "the change of {:+.1}% is not above this session's noise floor: two copies of one arm \
                 differ by {:.1}%",
                change * 100.0,
                floor * 100.0
            );
            return Verdict { is_below_floor: true, ..inconclusive(vec![reason], needed) };
        }
        return Verdict {
            kind,
            is_beyond_margin: nearest.abs() >= level.margin_ratio,
            ..inconclusive(Vec::new(), None)
        };
    }
    if let Some((from, to)) = primary.equivalence
        && from > (-level.margin_ratio).ln_1p()
        && to < margin
    {
        let reason = format!(
            "the change lies within {:+.1}% .. {:+.1}% (90% interval), inside the margin of {:.1}%",
            ratio(from) * 100.0,
            ratio(to) * 100.0,
            level.margin_ratio * 100.0
        );
        let kind = VerdictKind::NoMaterialDifference;
        return Verdict { kind, ..inconclusive(vec![reason], None) };
    }
    let mut reasons = Vec::new();
    if let Some(least) = row.detectable_ratio {
        reasons.push(format!(
            "{pairs} pairs of this spread see changes of {:.1}% or more",
            least * 100.0
        ));
    }
    if let Some(needed) = needed {
        reasons.push(format!(
            "about {needed} pairs would settle the margin of {:.1}%",
            level.margin_ratio * 100.0
        ));
    }
    inconclusive(reasons, needed)
}

/// The fewest pairs whose least p reaches `alpha`.
fn pairs_for_level(alpha: f64) -> u32 {
    (1..=16).find(|pairs| p_floor(*pairs as usize) <= alpha).unwrap_or(16)
}

/// The largest difference of the primary measure between the two copies of one arm, as a ratio minus
/// one; `None` when no arm has at least two runs on each copy.
fn floor(document: &SessionDocument, primary: &Measure) -> Option<f64> {
    let mut most: Option<f64> = None;
    for arm in 0..u32::try_from(document.arms.len()).unwrap_or(0) {
        let of = |instance: u32| -> Vec<f64> {
            document
                .runs
                .iter()
                .filter(|run| run.arm == arm && run.instance == instance)
                .filter(|run| run.incomplete.is_none())
                .filter_map(|run| primary.value(run).filter(|value| *value > 0.0))
                .map(f64::ln)
                .collect()
        };
        let (first, second) = (of(0), of(1));
        if first.len() >= 2
            && second.len() >= 2
            && let (Some(a), Some(b)) = (mean(&first), mean(&second))
        {
            let apart = ratio((a - b).abs());
            most = Some(most.map_or(apart, |most| most.max(apart)));
        }
    }
    most
}

/// Compares runs that do not belong together in time: stored runs of different sessions. Nothing is
/// known about what else changed between them, so the words are weak by design.
#[must_use]
pub fn analyse_unpaired(document: &SessionDocument) -> Analysis {
    let mut analysis = analyse(document);
    analysis.is_paired = false;
    let primary = Measure::new(&document.protocol.primary);
    let alpha = ALPHA;
    let comparison = &mut analysis.comparison;
    let runs_of = |arm: u32| -> Vec<&Run> {
        document.runs.iter().filter(|run| run.arm == arm && run.incomplete.is_none()).collect()
    };
    let (against, arm) = (runs_of(comparison.against), runs_of(comparison.arm));
    for row in &mut comparison.rows {
        let measure = Measure::new(&row.measure);
        let logs = |runs: &[&Run]| -> Vec<f64> {
            runs.iter()
                .filter_map(|run| measure.value(run).filter(|value| *value > 0.0))
                .map(f64::ln)
                .collect()
        };
        let (a, b) = (logs(&against), logs(&arm));
        row.against_value = mean(&a).map(f64::exp);
        row.value = mean(&b).map(f64::exp);
        row.change_ratio = hodges_lehmann_shift(&a, &b).map(ratio);
        row.p = if a.len() >= 2 && b.len() >= 2 {
            unpaired_p(&a, &b, document.protocol.seed)
        } else {
            None
        };
        (row.p_adjusted, row.low_ratio, row.high_ratio) = (row.p, None, None);
        row.detectable_ratio = None;
        row.pair_log_ratios = Vec::new();
        row.notes = Vec::new();
        if !matches!(row.kind, RowKind::NotTested | RowKind::TooFew) {
            row.kind = RowKind::Unclear;
        }
    }
    let is_valid = comparison.verdict.kind != VerdictKind::Invalid;
    let mut reasons = vec![
        "unpaired, weak: the runs do not belong together in time, and what else changed between them \
         is not known"
            .to_owned(),
    ];
    let enough = against.len() >= UNPAIRED_RUNS_MIN && arm.len() >= UNPAIRED_RUNS_MIN;
    let row = comparison.rows.iter().find(|row| row.measure == primary.name());
    let mut verdict = inconclusive(Vec::new(), None);
    if !enough {
        reasons.push(format!(
            "{} against {} runs cannot be significant: the least p of 3 against 3 is 0.10",
            against.len(),
            arm.len()
        ));
    } else if let Some(row) = row
        && let (Some(p), Some(change)) = (row.p, row.change_ratio)
    {
        reasons.push(format!("exact permutation test: p = {p:.3}"));
        if p <= alpha {
            let good = (change > 0.0) == row.larger_is_better.unwrap_or(false);
            verdict.kind = if good { VerdictKind::Better } else { VerdictKind::Worse };
        }
    }
    if is_valid {
        verdict.reasons = reasons;
        comparison.verdict = verdict;
    } else {
        comparison.verdict.reasons.extend(reasons);
    }
    (comparison.shift, comparison.shift_service) = (Vec::new(), Vec::new());
    analysis
}
