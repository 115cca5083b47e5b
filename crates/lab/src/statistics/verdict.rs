//! From the primary measure's row to one of five verdicts.

use super::compare::{Compared, EPISODES_MIN, Level, SAMPLES_BEYOND_MIN, known_ratio, ratio};
use super::finite::Percent;
use super::measure::Measure;
use super::power::{
    PAIRS_MAX, Spread, floor_by_chance, pairs_for_level, pairs_needed, pairs_needed_range,
};
use super::sign_flip::{mean, p_floor, standard_deviation};
use crate::experiment::document::{
    Gate, GateStatus, RowKind, SessionDocument, Verdict, VerdictKind,
};

/// Runs that each copy of an arm must have before the copies are compared.
const RUNS_PER_COPY_MIN: usize = 2;

/// The verdict that says nothing, for `reasons`.
#[must_use]
pub fn inconclusive(reasons: Vec<String>, pairs_needed: Option<u32>) -> Verdict {
    Verdict {
        kind: VerdictKind::Inconclusive,
        is_beyond_margin: false,
        reasons,
        pairs_needed,
        is_below_floor: false,
    }
}

/// The reasons of the gates that failed.
#[must_use]
pub fn failures(gates: &[Gate]) -> Vec<String> {
    gates
        .iter()
        .filter(|gate| gate.status == GateStatus::Failed)
        .map(|gate| format!("{}: {}", gate.name, gate.text))
        .collect()
}

/// The conclusion on the primary measure's row; the table is in `docs/methodology.md`. Its row must have
/// been concluded.
#[must_use]
pub fn verdict(
    primary: &Compared,
    pairs: usize,
    level: Level,
    gates: &[Gate],
    floor: Option<f64>,
) -> Verdict {
    let failed = failures(gates);
    if !failed.is_empty() {
        return Verdict { kind: VerdictKind::Invalid, ..inconclusive(failed, None) };
    }
    let row = &primary.row;
    // A floor beyond the margin that is not chance is the copies' placement, which more pairs do not move.
    let is_placement = is_placement(primary, floor, level);
    let needed = if is_placement { None } else { Needed::of(primary, pairs, floor, level) };
    let number = needed.as_ref().and_then(|needed| needed.number);
    if row.kind == RowKind::NotTested {
        let reason = format!("{} is a single value of each run and cannot be tested", row.measure);
        return inconclusive(vec![reason], None);
    }
    // One pair has a change, but nothing that could be tested.
    let is_one_pair = pairs == 1 && row.change_ratio.is_some();
    if primary.differences.is_empty() && !is_one_pair {
        let reason = format!("no complete pair holds {}", row.measure);
        return inconclusive(vec![reason], None);
    }
    if row.kind == RowKind::TooFew {
        let reason = format!(
            "too little lies beyond {}: each run needs at least {SAMPLES_BEYOND_MIN} samples beyond it, \
             and stalls at least {EPISODES_MIN} episodes in all",
            row.measure,
        );
        return inconclusive(vec![reason], None);
    }
    let kind = match row.kind {
        RowKind::Better => VerdictKind::Better,
        RowKind::Worse => VerdictKind::Worse,
        RowKind::Same => {
            let (low, high) = primary.equivalence.unwrap_or_default();
            let reason = format!(
                "the change lies within {:+.1} .. {:+.1} ({:.0} interval), inside the margin of \
                 {:.1}",
                Percent(ratio(low)),
                Percent(ratio(high)),
                Percent(1.0 - level.equivalence_alpha()),
                Percent(level.margin_ratio)
            );
            let kind = VerdictKind::NoMaterialDifference;
            return Verdict { kind, ..inconclusive(vec![reason], None) };
        }
        _ => return undecided(primary, pairs, level, needed.as_ref()),
    };
    let change = row.change_ratio.unwrap_or(0.0);
    if let Some(floor) = floor
        && change.ln_1p().abs() < floor.ln_1p()
    {
        let remedy = if is_placement {
            "; that is not chance but placement, so more pairs will not settle the margin"
        } else {
            ""
        };
        let reason = format!(
            "the change of {:+.1} is not above this session's noise floor: two copies of one arm \
             differ by {:.1}{remedy}",
            Percent(change),
            Percent(floor)
        );
        return Verdict { is_below_floor: true, ..inconclusive(vec![reason], number) };
    }
    let is_beyond_margin = match (row.low_ratio, row.high_ratio) {
        (Some(low), _) if low > 0.0 => low >= level.margin_ratio,
        (_, Some(high)) => high <= -level.margin_ratio,
        _ => false,
    };
    Verdict { kind, is_beyond_margin, ..inconclusive(Vec::new(), None) }
}

/// How many pairs would settle the margin.
struct Needed {
    number: Option<u32>,
    words: String,
}

impl Needed {
    /// By the spread of the pairs and what the copies differ by beyond chance. The spread of a few pairs is
    /// known to half or twice itself, so a range goes with the number, and none is named that no session
    /// could run.
    fn of(primary: &Compared, pairs: usize, floor: Option<f64>, level: Level) -> Option<Self> {
        let known = primary.differences.len();
        let deviation = standard_deviation(&primary.differences).filter(|it| *it > 0.0)?;
        let floor =
            floor.map(f64::ln_1p).filter(|floor| *floor > floor_by_chance(deviation, known));
        let spread = Spread::of(deviation, known, floor);
        let margin = Percent(level.margin_ratio);
        let effect = level.margin().1;
        let (low, high) = pairs_needed_range(spread, known, effect, level.alpha);
        let more = u32::try_from(pairs).unwrap_or(PAIRS_MAX).saturating_add(1);
        let number = pairs_needed(spread, effect, level.alpha).map(|needed| needed.max(more));
        let words = match (low, number, high) {
            (None, ..) => format!(
                "no {PAIRS_MAX} pairs of this spread would settle the margin of {margin:.1}: longer runs \
                 or a quieter machine are the remedy"
            ),
            (Some(low), None, _) => format!(
                "how many pairs would settle the margin of {margin:.1} cannot be told from {known}: \
                 {low} to more than {PAIRS_MAX}"
            ),
            (Some(low), Some(number), Some(high)) if low < high => format!(
                "about {number} pairs would settle the margin of {margin:.1} ({low} to {high}, as the \
                 spread of {known} pairs tells)"
            ),
            (Some(low), Some(number), None) => format!(
                "about {number} pairs would settle the margin of {margin:.1} ({low} to more than \
                 {PAIRS_MAX}, as the spread of {known} pairs tells)"
            ),
            (_, Some(number), _) => {
                format!("about {number} pairs would settle the margin of {margin:.1}")
            }
        };
        Some(Self { number, words })
    }
}

/// Whether the copies of an arm differ by more than the margin, and by more than chance.
fn is_placement(primary: &Compared, floor: Option<f64>, level: Level) -> bool {
    let Some(floor) = floor.map(f64::ln_1p) else { return false };
    let by_chance = standard_deviation(&primary.differences)
        .map(|deviation| floor_by_chance(deviation, primary.differences.len()));
    floor > level.margin().1 && by_chance.is_some_and(|chance| floor > chance)
}

/// Why nothing can be said, and what would settle it.
fn undecided(primary: &Compared, pairs: usize, level: Level, needed: Option<&Needed>) -> Verdict {
    let row = &primary.row;
    let number = needed.and_then(|needed| needed.number);
    // One pair's change is shown, though it is no difference to test.
    let known = primary.differences.len().max(pairs.min(1));
    let noun = if known == 1 { "pair" } else { "pairs" };
    if p_floor(known) > level.alpha {
        let least = pairs_for_level(level.alpha);
        let reason = format!(
            "{known} {noun} cannot be significant: the least p is {:.3}, and {:.3} is asked; at least \
             {least} pairs are needed",
            p_floor(known),
            level.alpha,
        );
        return inconclusive(vec![reason], Some(number.map_or(least, |number| number.max(least))));
    }
    let mut reasons = Vec::new();
    let is_significant = row.p_adjusted.is_some_and(|p| p <= level.alpha);
    if is_significant && row.larger_is_better.is_none() {
        reasons.push(format!(
            "{} changed by {:+.1}, and neither direction of it is better",
            row.measure,
            Percent(row.change_ratio.unwrap_or(0.0))
        ));
    } else if is_significant {
        reasons.push(format!(
            "transactions that were cut off reach below {}: the smaller side is only known to be \"at \
             least\" what is shown",
            row.measure
        ));
    }
    if let Some(least) = row.detectable_ratio {
        reasons.push(format!(
            "{pairs} pairs of this spread see changes of {:.1} or more",
            Percent(least)
        ));
    }
    if let Some(needed) = needed {
        reasons.push(needed.words.clone());
    }
    if reasons.is_empty() {
        reasons.push(format!("the pairs do not agree on {}", row.measure));
    }
    inconclusive(reasons, number)
}

/// The largest difference of the primary measure between the two copies of one arm, as a ratio minus
/// one; `None` when no arm has at least two runs on each copy.
#[must_use]
pub fn floor(document: &SessionDocument, primary: &Measure) -> Option<f64> {
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
        if first.len().min(second.len()) >= RUNS_PER_COPY_MIN
            && let (Some(a), Some(b)) = (mean(&first), mean(&second))
            && let Some(apart) = known_ratio((a - b).abs())
        {
            most = Some(most.map_or(apart, |most| most.max(apart)));
        }
    }
    most
}
