//! From runs to a verdict. The method is told in `docs/methodology.md`, the rules that code here cites by
//! number in this folder's `README.md`.

pub mod compare;
pub mod exceedance;
mod finite;
pub mod gates;
mod host;
pub mod max_t;
pub mod measure;
pub mod noise;
pub mod outlier;
pub mod overload;
pub mod power;
pub mod series;
pub mod shift;
pub mod sign_flip;
pub mod simulations;
pub mod stalls;
mod steady;
pub mod synthetic;
pub mod unpaired;
pub mod verdict;
pub mod within_run;

use compare::{Compared, Level, conclude, pairs};
use exceedance::exceedance;
use measure::Measure;
use shift::shift_function;
use verdict::{floor, inconclusive, verdict};

pub use unpaired::analyse_unpaired;

use crate::experiment::document::{
    Analysis, ArmRole, Comparison, Gate, RowKind, SessionDocument, Verdict, VerdictKind,
};

/// Level of a session with a single look.
const ALPHA: f64 = 0.05;

/// Nominal level of each look that keeps the whole at 5% (S. Pocock, Biometrika 64, 1977), for one to
/// five looks.
const LOOK_ALPHAS: [f64; 5] = [0.05, 0.0294, 0.0221, 0.0182, 0.0158];

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
    let mut analysis = Analysis {
        pairs: u32::try_from(complete.len()).unwrap_or(u32::MAX),
        is_paired: true,
        noise: noise::diagnose(document, &primary, &complete, floor, seed),
        comparison: main,
        further,
        gates,
        floor_ratio: floor,
        flip_seed: seed,
    };
    if document.incomplete.is_some() {
        withhold_between_looks(document, &mut analysis);
    }
    finite::clean(&mut analysis);
    analysis
}

/// A session that was cut off between its planned looks has no verdict: it can be gone on with, and a verdict
/// now would be a look that nobody planned.
fn withhold_between_looks(document: &SessionDocument, analysis: &mut Analysis) {
    let looks = &document.protocol.looks;
    let next = looks.iter().find(|look| **look > analysis.pairs);
    let (Some(next), false) = (next, looks.contains(&analysis.pairs)) else { return };
    let reason = format!(
        "cut off after {} pairs, and looked at only as planned: next after {next}; --extend goes on",
        analysis.pairs
    );
    for comparison in std::iter::once(&mut analysis.comparison).chain(&mut analysis.further) {
        let verdict = &mut comparison.verdict;
        let is_settled = matches!(
            verdict.kind,
            VerdictKind::Better | VerdictKind::Worse | VerdictKind::NoMaterialDifference
        );
        if is_settled {
            *verdict = inconclusive(vec![reason.clone()], None);
        }
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
    let floor = floor(document, &primary);
    for row in &mut rows {
        compare::account_for_floor(row, floor, level);
    }
    conclude(&mut rows, level, pairs.len());
    let [row] = rows;
    verdict(&row, pairs.len(), level, &gates::all(document), floor)
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
    if let Some(primary) = rows.first_mut() {
        compare::account_for_floor(primary, floor, level);
    }
    conclude(&mut rows, level, pairs.len());
    let verdict = rows.first().map_or_else(
        || inconclusive(vec!["there is no measure".to_owned()], None),
        |primary| verdict(primary, pairs.len(), level, gates, floor),
    );
    if let (true, Some(primary)) = (verdict.is_below_floor, rows.first_mut()) {
        // The row says no more than the verdict does.
        primary.row.kind = RowKind::Unclear;
    }
    Comparison {
        arm,
        against,
        verdict,
        rows: rows.into_iter().map(|compared| compared.row).collect(),
        shift: shift_function(&pairs, level, false),
        shift_service: shift_function(&pairs, level, true),
        exceedance: exceedance(&pairs, level),
        stalls: stalls::by_event(&pairs, level.seed),
    }
}

#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
mod hostile;
