//! What may be concluded, in sentences: the verdict, what qualifies it, whether the session can carry
//! one. Rules 1 and 2 of [`super::model`] are applied here.

use std::fmt::Write as _;

use super::model::{
    Statement, Tone, arm_name, measure_name, primary_row, row_values, verdict_tone, verdict_word,
};
use super::number;
use crate::experiment::document::{
    Analysis, Comparison, Gate, GateStatus, MeasureRow, RowKind, SessionDocument, VerdictKind,
};

/// The verdict in one sentence.
#[must_use]
pub fn verdict(document: &SessionDocument) -> Statement {
    let Some(analysis) = &document.analysis else {
        if let ([arm], None) = (&document.arms[..], &document.incomplete) {
            let count = document.runs.len();
            let plural = if count == 1 { "" } else { "s" };
            let sentence = format!("{count} run{plural} of '{}', compared with nothing", arm.name);
            return Statement { word: "ONE ARM", sentence, tone: Tone::Neutral };
        }
        let sentence = document.incomplete.as_ref().map_or_else(
            || "no block is complete yet: nothing can be compared".to_owned(),
            |reason| format!("no block is complete, nothing can be compared: {reason}"),
        );
        return Statement { word: "NO VERDICT", sentence, tone: Tone::Warning };
    };
    let comparison = &analysis.comparison;
    let kind = comparison.verdict.kind;
    let sentence = if kind == VerdictKind::Invalid {
        invalid_sentence(analysis)
    } else {
        let sentence = comparison_sentence(document, analysis, comparison);
        match disturbance(analysis) {
            Some(disturbance) => format!("{sentence}; DISTURBED: {disturbance}"),
            None => sentence,
        }
    };
    Statement { word: verdict_word(kind), sentence, tone: verdict_tone(kind) }
}

/// What the machine did besides, where that is more than the intervals show: whoever reads the verdict
/// alone must read it too.
fn disturbance(analysis: &Analysis) -> Option<&str> {
    let gate = analysis
        .gates
        .iter()
        .find(|gate| gate.name == "host" && gate.status == GateStatus::Warned)?;
    Some(&gate.text)
}

/// What qualifies the verdict: the control arm, what became worse, what the session cannot carry.
#[must_use]
pub fn caveats(document: &SessionDocument) -> Vec<Statement> {
    let mut said = Vec::new();
    let Some(analysis) = &document.analysis else { return said };
    let verdict = &analysis.comparison.verdict;
    if matches!(verdict.kind, VerdictKind::Invalid | VerdictKind::Inconclusive) {
        // Gates that failed are told in full under validity.
        let is_told = |reason: &&String| {
            analysis.gates.iter().any(|gate| {
                reason.strip_prefix(gate.name.as_str()).is_some_and(|r| r.starts_with(':'))
            })
        };
        for reason in verdict.reasons.iter().filter(|reason| !is_told(reason)) {
            said.push(statement("because", reason.clone(), Tone::Neutral));
        }
    }
    if verdict.kind == VerdictKind::Invalid {
        said.extend(incompleteness(document));
        return said;
    }
    for comparison in &analysis.further {
        said.push(further_statement(document, analysis, comparison));
    }
    let is_good = matches!(verdict.kind, VerdictKind::Better | VerdictKind::NoMaterialDifference);
    for row in &analysis.comparison.rows {
        if row.kind == RowKind::Worse && !row.is_primary {
            let values = row_values(document, &analysis.comparison, row);
            said.push(statement(
                if is_good { "but WORSE" } else { "also WORSE" },
                format!(
                    "{} {} -> {} {}{}",
                    measure_name(&row.measure).title,
                    values.against,
                    values.value,
                    values.unit,
                    change_in_brackets(row),
                ),
                Tone::Bad,
            ));
        }
    }
    said.extend(worse_thresholds(document, analysis, is_good));
    if verdict.is_below_floor {
        let floor = analysis.floor_ratio.map(number::percent).unwrap_or_default();
        said.push(statement(
            "note",
            format!("the change does not exceed this session's own A/A floor ({floor})"),
            Tone::Warning,
        ));
    }
    if !analysis.is_paired {
        said.push(statement(
            "unpaired",
            "the runs come from different sessions: weak evidence, whatever the numbers".to_owned(),
            Tone::Warning,
        ));
    }
    if document.protocol.is_quick {
        let detectable = primary_row(&analysis.comparison)
            .and_then(|row| row.detectable_ratio)
            .map_or_else(String::new, |ratio| {
                format!("; changes below about {} would go unseen", number::percent(ratio))
            });
        said.push(statement("quick", format!("few and short pairs{detectable}"), Tone::Warning));
    }
    said.extend(incompleteness(document));
    said
}

/// Whether the session can carry a verdict, in one sentence, with all gates that say more.
#[must_use]
pub fn validity(analysis: &Analysis) -> (Statement, Vec<&Gate>) {
    let count = |status| analysis.gates.iter().filter(|gate| gate.status == status).count();
    let failed = count(GateStatus::Failed);
    let warned = count(GateStatus::Warned);
    let held = count(GateStatus::Passed) + warned;
    let skipped = count(GateStatus::NotApplicable);
    let mut sentence = if failed > 0 {
        format!("{failed} of {} conditions do not hold", failed + held)
    } else if held == 0 {
        "no condition could be checked".to_owned()
    } else {
        format!("all {held} conditions hold")
    };
    if warned > 0 {
        let _ = write!(sentence, ", {warned} with a remark");
    }
    if skipped > 0 {
        let _ = write!(sentence, " ({skipped} have no meaning here)");
    }
    let speaking = analysis
        .gates
        .iter()
        .filter(|gate| matches!(gate.status, GateStatus::Failed | GateStatus::Warned))
        .collect();
    let (word, tone) = if failed > 0 {
        ("INVALID", Tone::Bad)
    } else if held == 0 {
        ("UNCHECKED", Tone::Warning)
    } else {
        ("VALID", Tone::Neutral)
    };
    (Statement { word, sentence, tone }, speaking)
}

pub(super) fn statement(word: &'static str, sentence: String, tone: Tone) -> Statement {
    Statement { word, sentence, tone }
}

fn invalid_sentence(analysis: &Analysis) -> String {
    let failed: Vec<&str> = analysis
        .gates
        .iter()
        .filter(|gate| gate.status == GateStatus::Failed)
        .map(|gate| gate.name.as_str())
        .collect();
    if failed.is_empty() {
        "this session cannot carry a verdict".to_owned()
    } else {
        format!("this session cannot carry a verdict; what failed: {}", failed.join(", "))
    }
}

fn comparison_sentence(
    document: &SessionDocument,
    analysis: &Analysis,
    comparison: &Comparison,
) -> String {
    let Some(row) = primary_row(comparison) else {
        return "no measure was compared".to_owned();
    };
    let values = row_values(document, comparison, row);
    let mut text =
        format!("{} {} -> {}", measure_name(&row.measure).title, values.against, values.value);
    if !values.unit.is_empty() {
        let _ = write!(text, " {}", values.unit);
    }
    let mut inside = Vec::new();
    if let Some(change) = row.change_ratio {
        inside.push(number::change(change));
    }
    if let (Some(low), Some(high)) = (row.low_ratio, row.high_ratio) {
        inside.push(format!("95% CI {}", number::interval_percent(low, high)));
    }
    inside.push(format!("{} pair{}", analysis.pairs, if analysis.pairs == 1 { "" } else { "s" }));
    if row.p.is_some() {
        inside.push(format!("p={}", number::probability(row.p)).replace("=<", "<"));
    }
    let _ = write!(text, " ({})", inside.join(", "));
    let verdict = &comparison.verdict;
    let margin = number::percent(document.protocol.margin_ratio).replace(".0%", "%");
    match verdict.kind {
        VerdictKind::Better | VerdictKind::Worse if verdict.is_beyond_margin => {
            let _ = write!(text, ", by at least {margin}");
        }
        VerdictKind::NoMaterialDifference => {
            let _ = write!(text, ", shown smaller than {margin}");
        }
        VerdictKind::Inconclusive => {
            if let Some(pairs) = verdict.pairs_needed {
                let _ = write!(text, "; about {pairs} pairs would settle {margin}");
            }
        }
        _ => {}
    }
    text
}

fn change_in_brackets(row: &MeasureRow) -> String {
    let Some(change) = row.change_ratio else { return String::new() };
    match (row.low_ratio, row.high_ratio) {
        (Some(low), Some(high)) => {
            format!(" ({}, CI {})", number::change(change), number::interval_percent(low, high))
        }
        _ => format!(" ({})", number::change(change)),
    }
}

fn further_statement(
    document: &SessionDocument,
    analysis: &Analysis,
    comparison: &Comparison,
) -> Statement {
    let arm = arm_name(document, comparison.arm);
    let against = arm_name(document, comparison.against);
    let kind = comparison.verdict.kind;
    let relation = match kind {
        VerdictKind::Better => "is BETTER than",
        VerdictKind::Worse => "is WORSE than",
        VerdictKind::NoMaterialDifference => "does not differ materially from",
        VerdictKind::Inconclusive => "cannot be told from",
        VerdictKind::Invalid => {
            return statement(
                "control",
                format!("'{arm}' cannot be judged against '{against}'"),
                Tone::Bad,
            );
        }
    };
    let figures = comparison_sentence(document, analysis, comparison);
    statement("control", format!("'{arm}' {relation} '{against}': {figures}"), verdict_tone(kind))
}

fn worse_thresholds(
    document: &SessionDocument,
    analysis: &Analysis,
    is_good: bool,
) -> Vec<Statement> {
    let mut said = Vec::new();
    let rows = &analysis.comparison.exceedance;
    // The strictest shown, and the most suspicious of those too rare to test (study 2's far tail).
    let shown = rows.iter().rev().find(|row| row.kind == RowKind::Worse);
    let rare = rows.iter().find(|row| {
        row.kind == RowKind::TooFew
            && match (row.against_per_million, row.per_million) {
                (Some(against), Some(own)) => own > 1.5 * against && row.count >= 10,
                _ => false,
            }
    });
    for row in shown.into_iter().chain(rare) {
        let rate = |value: Option<f64>| number::maybe(value);
        let word = match (row.kind, is_good) {
            (RowKind::Worse, true) => "but WORSE",
            (RowKind::Worse, false) => "also WORSE",
            _ => "look at",
        };
        let remark = if row.kind == RowKind::TooFew {
            format!(" ({} and {} stalls: too few to be sure)", row.against_episodes, row.episodes)
        } else {
            String::new()
        };
        said.push(statement(
            word,
            format!(
                "at least {}: {} -> {} per million{remark}",
                number::time_short(row.threshold_ns),
                rate(row.against_per_million),
                rate(row.per_million)
            ),
            if row.kind == RowKind::Worse { Tone::Bad } else { Tone::Warning },
        ));
    }
    let _ = document;
    said
}

fn incompleteness(document: &SessionDocument) -> Option<Statement> {
    let reason = document.incomplete.as_ref()?;
    Some(statement("incomplete", format!("the session was not finished: {reason}"), Tone::Warning))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn who_reads_the_verdict_alone_reads_that_the_machine_was_disturbed() {
        let mut document = fixture::session(fixture::TINY);
        let said = verdict(&document).sentence;
        assert!(said.ends_with("; DISTURBED: 0.1% of CPU time stolen by the hypervisor"), "{said}");
        let analysis = document.analysis.as_mut().unwrap();
        for gate in analysis.gates.iter_mut().filter(|gate| gate.name == "host") {
            gate.status = GateStatus::Passed;
        }
        let said = verdict(&document).sentence;
        assert!(!said.contains("DISTURBED"), "{said}");
    }
}
