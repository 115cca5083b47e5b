//! What is said about a session, independent of the medium.
//!
//! Rules:
//!
//! 1. A verdict names its measure, both values, the change, its interval, the pairs and p in one
//!    sentence. INVALID carries no percentages: an unfit session has none to offer.
//! 2. Whatever became worse is said directly under the verdict, whatever the verdict is.
//! 3. Values of both arms are shown in one unit, so that they can be compared by eye.
//! 4. Every index is looked up with a fallback: a document that was edited by hand still renders.
//!
//! Sentences contain text from outside as it is; each medium neutralises it when writing.

use std::fmt::Write as _;

use super::conclusion::statement;
pub use super::conclusion::{caveats, validity, verdict};
use super::number;
use crate::experiment::difference;
use crate::experiment::document::{
    ArmRole, Arrival, CacheState, Comparison, Difference, GateStatus, KeyAudit, LatencySummary,
    MeasureRow, RowKind, Run, SessionDocument, StallRow, VerdictKind,
};
use crate::target::QueryMode;

/// A word that classifies, and the sentence that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// For example `BETTER`, `but WORSE`.
    pub word: &'static str,
    /// For example `p99 response time 24.8 -> 18.3 ms (...)`.
    pub sentence: String,
    /// How it should be felt.
    pub tone: Tone,
}

/// How a statement should be felt; shown as a colour where there are colours, never by it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// An improvement.
    Good,
    /// A deterioration, or a failure.
    Bad,
    /// Worth attention.
    Warning,
    /// Neither.
    Neutral,
}

/// What kind of measure a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Throughput, response, service, lag.
    Latency,
    /// Counters per transaction, sizes and other outcomes.
    Cost,
}

/// A measure's name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureName {
    /// For example `response`; for costs the whole name in words.
    pub family: String,
    /// For example `p99`; empty for costs and throughput.
    pub part: String,
    /// In a sentence, for example `p99 response time`.
    pub title: String,
    /// Which table it belongs to.
    pub group: Group,
}

/// Values of a row in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowValues {
    /// Their unit; may be empty.
    pub unit: &'static str,
    /// Of the arm compared with.
    pub against: String,
    /// Of the arm compared.
    pub value: String,
}

/// The arm's name; `arm 3` where the document has no such arm.
#[must_use]
pub fn arm_name(document: &SessionDocument, arm: u32) -> String {
    match document.arms.get(arm as usize) {
        Some(found) if !found.name.trim().is_empty() => found.name.clone(),
        _ => format!("arm {arm}"),
    }
}

/// The verdict's word.
#[must_use]
pub const fn verdict_word(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Better => "BETTER",
        VerdictKind::Worse => "WORSE",
        VerdictKind::NoMaterialDifference => "NO MATERIAL DIFFERENCE",
        VerdictKind::Inconclusive => "INCONCLUSIVE",
        VerdictKind::Invalid => "INVALID",
    }
}

/// How a verdict should be felt.
#[must_use]
pub const fn verdict_tone(kind: VerdictKind) -> Tone {
    match kind {
        VerdictKind::Better => Tone::Good,
        VerdictKind::Worse | VerdictKind::Invalid => Tone::Bad,
        VerdictKind::Inconclusive => Tone::Warning,
        VerdictKind::NoMaterialDifference => Tone::Neutral,
    }
}

/// How a row's conclusion should be felt.
#[must_use]
pub const fn row_tone(kind: RowKind) -> Tone {
    match kind {
        RowKind::Better => Tone::Good,
        RowKind::Worse => Tone::Bad,
        RowKind::Unclear | RowKind::TooFew => Tone::Warning,
        RowKind::Same | RowKind::NoDifferenceSeen | RowKind::NotTested => Tone::Neutral,
    }
}

/// The mark at a row's end: `better`, `~`, `same(5%)`, `?`.
#[must_use]
pub fn row_mark(kind: RowKind, margin_ratio: f64) -> String {
    match kind {
        RowKind::Better => "better".to_owned(),
        RowKind::Worse => "worse".to_owned(),
        RowKind::Same => {
            let margin = number::percent(margin_ratio);
            format!("same({})", margin.replace(".0%", "%"))
        }
        RowKind::NoDifferenceSeen => "~".to_owned(),
        RowKind::Unclear => "?".to_owned(),
        RowKind::TooFew => "too few".to_owned(),
        RowKind::NotTested => "not tested".to_owned(),
    }
}

/// What the marks mean.
pub const LEGEND: &str = "better, worse: shown; same(x%): shown equal within x%; \
     ~ no difference seen; ? inconclusive; too few: samples or stalls; * primary; ! remark";

/// What an interval and a mark are adjusted for.
pub const LEGEND_INTERVAL: &str =
    "an interval is that of its row alone; the mark and p(adj) allow for all rows together";

/// Said in place of a table of measures.
pub const NO_MEASURES: &str =
    "no transaction was measured in both arms of any pair: there is nothing to compare";

/// Said in place of tables and lists of stalls.
pub const NO_STALLS: &str = "no time was lost in stalls";

/// Said in place of a table of thresholds that no transaction reached.
#[must_use]
pub fn none_that_long(least_ns: u64) -> String {
    format!("no transaction took {} or longer", number::time_short(least_ns))
}

/// Takes a measure's name apart.
#[must_use]
pub fn measure_name(measure: &str) -> MeasureName {
    let split = measure.split_once('_');
    match (measure, split) {
        ("throughput", _) => MeasureName {
            family: "throughput".to_owned(),
            part: String::new(),
            title: "throughput".to_owned(),
            group: Group::Latency,
        },
        (_, Some((family @ ("response" | "service" | "lag"), part))) => {
            // Both `p99.9` and `p99_9` name the same percentile.
            let part = part.replace('_', ".");
            let noun =
                if family == "lag" { "schedule lag".to_owned() } else { format!("{family} time") };
            MeasureName {
                title: format!("{part} {noun}"),
                family: family.to_owned(),
                part,
                group: Group::Latency,
            }
        }
        _ => {
            // Counters and outcomes carry their kind in front, as the statistics name them.
            let name = measure.strip_suffix("_per_transaction").unwrap_or(measure);
            let name =
                name.strip_prefix("counter.").or(name.strip_prefix("outcome.")).unwrap_or(name);
            let words = match name.split_once('.') {
                _ if name == "growth_of_database_size_bytes" => "growth of the database".to_owned(),
                _ if name == "database_size_bytes" => "size of the database".to_owned(),
                Some(("growth_of_relation_size_bytes", relation)) => {
                    format!("growth of {relation}")
                }
                Some(("relation_size_bytes", relation)) => format!("size of {relation}"),
                // A server's counter keeps the name under which one looks it up.
                Some(_) => name.to_owned(),
                None => name.replace('_', " ").replace("wal", "WAL"),
            };
            MeasureName {
                title: words.clone(),
                family: words,
                part: String::new(),
                group: Group::Cost,
            }
        }
    }
}

/// A cost's name for a table, with what it is relative to.
#[must_use]
pub fn cost_label(measure: &str) -> String {
    let words = measure_name(measure).title;
    if is_per_transaction(measure) { format!("{words} / transaction") } else { words }
}

/// Whether a cost is divided by the number of transactions.
#[must_use]
pub fn is_per_transaction(measure: &str) -> bool {
    measure.ends_with("_per_transaction") || measure.starts_with("counter.")
}

/// The costs that are known, with those first that a reader looks for: shown changes, changes whose
/// interval leaves zero, then what was measured apart from the server's counters (write-ahead log,
/// sizes), then the rest; the largest change first.
#[must_use]
pub fn costs_by_weight(comparison: &Comparison) -> Vec<&MeasureRow> {
    let mut rows: Vec<&MeasureRow> = comparison
        .rows
        .iter()
        .filter(|row| measure_name(&row.measure).group == Group::Cost)
        .filter(|row| row.value.is_some() || row.against_value.is_some())
        .collect();
    let rank = |row: &MeasureRow| {
        let is_away = match (row.low_ratio, row.high_ratio) {
            // Less than a tenth of a percent is no finding, however sure.
            (Some(low), Some(high)) => low > 1e-3 || high < -1e-3,
            _ => false,
        };
        match row.kind {
            RowKind::Better | RowKind::Worse => 0,
            _ if is_away => 1,
            _ if !row.measure.starts_with("counter.") => 2,
            _ => 3,
        }
    };
    let size = |row: &MeasureRow| {
        row.change_ratio.map_or(0.0, |change| change.ln_1p().abs()).clamp(0.0, f64::MAX)
    };
    rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    rows
}

/// Sorts the parts of a family: mean first, then percentiles ascending, then the maximum.
#[must_use]
pub fn part_order(part: &str) -> u64 {
    match part {
        "" => 0,
        "mean" => 1,
        "max" => u64::MAX,
        other => other
            .strip_prefix('p')
            .and_then(|digits| digits.parse::<f64>().ok())
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map_or(u64::MAX - 1, |percent| 2 + (percent * 1e6) as u64),
    }
}

/// The role's word.
#[must_use]
pub const fn role_word(role: ArmRole) -> &'static str {
    match role {
        ArmRole::Baseline => "baseline",
        ArmRole::Contender => "contender",
        ArmRole::Control => "control",
    }
}

/// The row of the primary measure.
#[must_use]
pub fn primary_row(comparison: &Comparison) -> Option<&MeasureRow> {
    comparison.rows.iter().find(|row| row.is_primary).or_else(|| comparison.rows.first())
}

/// A row's two values in one unit. `is_at_least` marks values that censored transactions make a
/// lower bound.
#[must_use]
pub fn row_values(
    document: &SessionDocument,
    comparison: &Comparison,
    row: &MeasureRow,
) -> RowValues {
    let largest = [row.against_value, row.value]
        .into_iter()
        .flatten()
        .filter(|value| value.is_finite())
        .fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let (unit, size) = match row.unit.as_str() {
        "ns" => number::time_unit(largest),
        "bytes" => number::bytes_unit(largest),
        "per_s" => ("/s", 1.0),
        "ms" => ("ms", 1.0),
        _ => ("", 1.0),
    };
    let show = |value: Option<f64>, arm: u32| match value {
        Some(value) if is_lower_bound(document, &row.measure, arm) => {
            format!(">={}", number::significant(value / size))
        }
        value => number::maybe(value.map(|value| value / size)),
    };
    RowValues {
        unit,
        against: show(row.against_value, comparison.against),
        value: show(row.value, comparison.arm),
    }
}

/// What differs between the arms, one line each; undeclared differences are marked by the tone.
#[must_use]
pub fn changed(document: &SessionDocument) -> Vec<Statement> {
    // What was meant to differ first, then what nobody meant, then what follows from the binaries.
    let rank = |difference: &Difference| {
        let is_of_binaries = difference::is_of_binaries(difference, &document.arms);
        (is_of_binaries && !difference::is_physical(difference), is_of_binaries)
    };
    let mut differences: Vec<&Difference> = document.differences.iter().collect();
    differences.sort_by_key(|difference| rank(difference));
    differences
        .into_iter()
        .map(|difference| {
            let is_of_binaries = difference::is_of_binaries(difference, &document.arms);
            let is_physical = is_of_binaries && difference::is_physical(difference);
            let side =
                |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
            let of = if document.arms.len() > 2 {
                format!(" ({})", arm_name(document, difference.arm))
            } else {
                String::new()
            };
            statement(
                match (is_physical, is_of_binaries, difference.is_declared) {
                    (true, ..) => "LAYOUT of the data:",
                    (_, true, _) => "default of the binaries:",
                    (_, _, true) => "declared",
                    (_, _, false) => "UNDECLARED",
                },
                format!(
                    "{}: {} -> {}{of}",
                    difference.what,
                    side(&difference.baseline),
                    side(&difference.other)
                ),
                if difference.is_declared && !is_physical { Tone::Neutral } else { Tone::Warning },
            )
        })
        .collect()
}

/// What is equal, to go with what differs.
#[must_use]
pub fn unchanged(document: &SessionDocument) -> String {
    let settings = document.arms.iter().map(|arm| arm.captured_settings.len()).max().unwrap_or(0);
    let mut parts = Vec::new();
    if settings > 0 {
        let differing = document
            .differences
            .iter()
            .filter(|difference| difference.what.starts_with("setting "))
            .count();
        parts.push(format!(
            "{} of {settings} recorded settings are equal",
            settings.saturating_sub(differing)
        ));
    }
    let hashes: Vec<_> = document.runs.iter().filter_map(|run| run.data_hash.as_deref()).collect();
    if let Some(first) = hashes.first()
        && hashes.len() == document.runs.len()
        && hashes.iter().all(|hash| hash == first)
    {
        let short: String = first.chars().take(8).collect();
        parts.push(format!("data restored to {short} before every run"));
    } else if let Some(gate) = document
        .analysis
        .iter()
        .flat_map(|analysis| &analysis.gates)
        .find(|gate| gate.name == "data" && gate.status == GateStatus::Passed)
    {
        // Of several: each arm's own files, or loaded anew when the session was gone on with.
        parts.push(format!("data restored: {}", gate.text));
    }
    parts.join("; ")
}

/// How the session was run, in one sentence.
#[must_use]
pub fn protocol_sentence(document: &SessionDocument) -> String {
    let protocol = &document.protocol;
    let blocks = protocol.block_order.len();
    let mut text = format!(
        "{blocks} block{} of {} runs{}, each run {}",
        if blocks == 1 { "" } else { "s" },
        document.arms.len(),
        order_text(document),
        number::length(protocol.duration_ns),
    );
    text.push_str(&match protocol.arrival {
        Arrival::Closed => ", closed loop".to_owned(),
        Arrival::Poisson { rate_per_s } => {
            format!(", random arrivals at {} per second", number::significant(rate_per_s))
        }
        Arrival::Constant { rate_per_s } => {
            format!(", one arrival every {}", number::time(1e9 / rate_per_s))
        }
    });
    let plural = |count: u32| if count == 1 { "" } else { "s" };
    let (clients, threads) = (protocol.clients, protocol.threads);
    let _ = write!(
        text,
        ", {clients} client{} in {threads} thread{}",
        plural(clients),
        plural(threads)
    );
    text.push_str(match protocol.query_mode {
        QueryMode::Simple => ", simple protocol",
        QueryMode::Extended => ", extended protocol",
        QueryMode::Prepared => ", prepared statements",
    });
    text.push_str(&match protocol.cache_state {
        CacheState::Cold => ", cold cache".to_owned(),
        CacheState::Warmed { duration_ns } => {
            format!(", warmed for {}", number::length(duration_ns))
        }
        CacheState::CarriedOver => ", cache and data carried over from the run before".to_owned(),
    });
    if let Some(scale) = protocol.scale {
        let _ = write!(text, ", scale {scale}");
    }
    if let Some(fillfactor) = protocol.fillfactor {
        let _ = write!(text, ", fillfactor {fillfactor}");
    }
    let _ = write!(text, "; workload {}; seed {}.", scripts_text(document), protocol.seed);
    text
}

/// The order of runs, such as ` in order AB BA BA AB`; empty where it is not known.
fn order_text(document: &SessionDocument) -> String {
    let order = &document.protocol.block_order;
    if order.is_empty() {
        return String::new();
    }
    let shown: Vec<String> =
        order.iter().take(16).map(|block| block.iter().map(|arm| letter(*arm)).collect()).collect();
    let more = if order.len() > 16 { " ..." } else { "" };
    format!(" in order {}{more}", shown.join(" "))
}

/// A letter for an arm: A is the baseline.
#[must_use]
pub fn letter(arm: u32) -> char {
    u8::try_from(arm).ok().filter(|arm| *arm < 26).map_or('?', |arm| char::from(b'A' + arm))
}

/// The scripts with their weights.
#[must_use]
pub fn scripts_text(document: &SessionDocument) -> String {
    let scripts = &document.protocol.scripts;
    match scripts.as_slice() {
        [] => "not recorded".to_owned(),
        [only] => only.name.clone(),
        several => several
            .iter()
            .map(|script| format!("{}@{}", script.name, script.weight))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// The command line that repeats the session, quoted for a POSIX shell.
#[must_use]
pub fn rerun(document: &SessionDocument) -> String {
    command_line(&document.command)
}

/// A place in an order as people count, from 1; files count from 0.
#[must_use]
pub fn ordinal(index: u32) -> u64 {
    u64::from(index) + 1
}

/// A measured run's name: `run 3 (block 2, arm B)`.
#[must_use]
pub fn run_name(run: &Run) -> String {
    format!("run {} (block {}, arm {})", ordinal(run.index), ordinal(run.block), letter(run.arm))
}

/// A run's own value of a measure of time or throughput; null for others.
#[must_use]
pub fn run_value(run: &Run, measure: &str) -> Option<f64> {
    let name = measure_name(measure);
    let summary = match name.family.as_str() {
        "throughput" => return run.throughput_per_s,
        "response" => &run.response,
        "service" => &run.service,
        "lag" => &run.lag,
        _ => return None,
    };
    match name.part.as_str() {
        "mean" => summary.mean_ns,
        "min" => summary.min_ns.map(number::to_f64),
        "max" => summary.max_ns.map(number::to_f64),
        part => {
            let percent = part.strip_prefix('p')?.parse::<f64>().ok()?;
            run_quantile(summary, percent / 100.0)
        }
    }
}

/// One of a summary's percentiles; null where it was not recorded.
#[must_use]
pub fn run_quantile(summary: &LatencySummary, q: f64) -> Option<f64> {
    summary
        .percentiles
        .iter()
        .find(|found| (found.q - q).abs() < 1e-9)
        .map(|found| number::to_f64(found.value_ns))
}

/// Words for a kind of event.
#[must_use]
pub fn event_words(kind: &str) -> String {
    match kind {
        "none" => "none of these".to_owned(),
        "all" => "all stalled time".to_owned(),
        other => other.replace('_', " "),
    }
}

/// The lift of a kind of event with what chance would give: `9.1x (chance 0.2 .. 1.8)`; empty where
/// there is none.
#[must_use]
pub fn lift_words(row: &StallRow) -> String {
    let Some(lift) = row.lift.filter(|lift| lift.is_finite()) else { return String::new() };
    let chance = match (row.lift_chance_low, row.lift_chance_high) {
        (Some(low), Some(high)) => {
            format!(" (chance {} .. {})", number::significant(low), number::significant(high))
        }
        _ => String::new(),
    };
    format!("{}x{chance}", number::significant(lift))
}

/// The method in a paragraph.
pub const METHODS: &str = "Each block holds one run of every arm with the same seed, data and arrival schedule; \
the order within blocks is random and balanced. Latency is taken from the planned start of a transaction \
(response), from its actual start (service), and their difference is the schedule lag, so that a stalled \
server cannot hide its stall by stopping the client. The unit of evidence is the pair, never the \
transaction: for each measure the log ratios of the pairs enter an exact sign-flip test, and the interval \
is that test inverted. Percentiles follow the nearest-rank rule and are compared run by run; where fewer \
than ten samples of a run, or three stalls in all, lie beyond one, it is marked as resting on too few. \
Secondary rows are adjusted together by the max-T method; one primary measure, named before the first \
run, decides. The noise floor is the largest difference between two physical instances of the same arm.";

/// Sources of the method.
pub const REFERENCES: [&str; 7] = [
    "B. Schroeder, A. Wierman, M. Harchol-Balter: Open Versus Closed: A Cautionary Tale. NSDI 2006.",
    "T. Kalibera, R. Jones: Rigorous Benchmarking in Reasonable Time. ISMM 2013.",
    "A. Georges, D. Buytaert, L. Eeckhout: Statistically Rigorous Java Performance Evaluation. OOPSLA 2007.",
    "A. Abedi, T. Brecht: Conducting Repeatable Experiments in Highly Variable Cloud Computing Environments. ICPE 2017.",
    "K. Doksum: Empirical Probability Plots and Statistical Inference for Nonlinear Models in the Two-Sample Case. Annals of Statistics 2(2), 1974.",
    "P. H. Westfall, S. S. Young: Resampling-Based Multiple Testing. Wiley 1993.",
    "R. A. Fisher: The Design of Experiments. Oliver and Boyd 1935.",
];

/// Whether some run of the arm had censored transactions below this measure's percentile.
fn is_lower_bound(document: &SessionDocument, measure: &str, arm: u32) -> bool {
    let Some((family, part)) = measure.split_once('_') else { return false };
    let part = part.replace('_', ".");
    let q = match part.as_str() {
        "max" => 1.0,
        other => match other.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok()) {
            Some(percent) => percent / 100.0,
            None => return false,
        },
    };
    document.runs.iter().filter(|run| run.arm == arm).any(|run| {
        let summary = match family {
            "response" => &run.response,
            "service" => &run.service,
            "lag" => &run.lag,
            _ => return false,
        };
        summary.percentiles.iter().any(|found| (found.q - q).abs() < 1e-9 && found.is_lower_bound)
    })
}

/// Why some percentiles are only lower bounds.
#[must_use]
pub fn lower_bound_reason(document: &SessionDocument) -> String {
    let mut reasons = Vec::new();
    let mut bounded = document.runs.iter().filter(|run| {
        [&run.response, &run.service, &run.lag]
            .iter()
            .any(|summary| summary.percentiles.iter().any(|found| found.is_lower_bound))
    });
    for run in bounded.by_ref().take(2) {
        reasons.push(match &run.incomplete {
            Some(why) => format!("{} was cut off ({why})", run_name(run)),
            None => format!(
                "in {} {} transactions had not ended after the grace time",
                run_name(run),
                number::count(run.counts.censored)
            ),
        });
    }
    let more = bounded.count();
    if more > 0 {
        reasons.push(format!("and {more} more runs likewise"));
    }
    format!("at least so much: {}", reasons.join("; "))
}

/// What a run's figures suffer from, a sentence each.
#[must_use]
pub fn run_faults(run: &Run) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(reason) = &run.incomplete {
        faults.push(format!("incomplete: {reason}"));
    }
    let counts = &run.counts;
    if counts.committed == 0 && counts.started > 0 {
        let errors: Vec<String> = run
            .errors
            .iter()
            .take(3)
            .map(|(state, count)| format!("{} with SQLSTATE {state}", number::count(*count)))
            .collect();
        let errors =
            if errors.is_empty() { String::new() } else { format!(": {}", errors.join(", ")) };
        faults.push(format!(
            "none of {} transactions committed{errors}",
            number::count(counts.started)
        ));
    }
    faults
}

/// Fewer draws than this cannot be judged: at the level at which an audit fails, once in 10^9 by
/// chance, shares of keys would have to be wrong several times over to be seen.
const AUDIT_DRAWS_MIN: u64 = 100;

/// Whether an audit of keys rests on too few draws to find anything.
#[must_use]
pub const fn is_audit_too_small(audit: &KeyAudit) -> bool {
    audit.draws < AUDIT_DRAWS_MIN
}

/// What an audit of keys found.
#[must_use]
pub const fn audit_word(audit: &KeyAudit) -> (&'static str, Tone) {
    if !audit.is_passed {
        ("NOT AS EXPECTED", Tone::Bad)
    } else if is_audit_too_small(audit) {
        ("too few draws to judge", Tone::Neutral)
    } else {
        ("as expected", Tone::Neutral)
    }
}

/// A command's words as a shell reads them.
#[must_use]
pub fn command_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
    words.join(" ")
}

fn shell_quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn measures_are_named_as_people_say_them() {
        for (measure, title) in [
            ("response_p99", "p99 response time"),
            ("response_p99_9", "p99.9 response time"),
            ("service_p99.9", "p99.9 service time"),
            ("lag_max", "max schedule lag"),
            ("throughput", "throughput"),
            ("wal_bytes_per_transaction", "WAL bytes"),
            ("relation_size_bytes.stock_pkey", "size of stock_pkey"),
            ("outcome.relation_size_bytes.stock_pkey", "size of stock_pkey"),
            ("outcome.growth_of_relation_size_bytes.stock", "growth of stock"),
            ("outcome.growth_of_database_size_bytes", "growth of the database"),
            ("outcome.database_size_bytes", "size of the database"),
            ("outcome.wal_bytes", "WAL bytes"),
            ("counter.pg_stat_io.evictions", "pg_stat_io.evictions"),
            ("pg_stat_io.evictions_per_transaction", "pg_stat_io.evictions"),
        ] {
            assert_eq!(measure_name(measure).title, title);
        }
    }

    #[test]
    fn an_invalid_session_offers_no_percentages() {
        for (name, document) in fixture::odd_sessions() {
            if name == "invalid" {
                let said = verdict(&document);
                assert_eq!(said.word, "INVALID");
                assert!(!said.sentence.contains('%'), "{}", said.sentence);
                assert!(said.sentence.contains("rate"), "{}", said.sentence);
            }
        }
    }

    #[test]
    fn a_good_verdict_does_not_hide_what_became_worse() {
        let mut document = fixture::session(fixture::TINY);
        let comparison = &mut document.analysis.as_mut().unwrap().comparison;
        comparison.verdict.kind = VerdictKind::Better;
        for row in &mut comparison.rows {
            row.kind = if row.measure == "throughput" { RowKind::Worse } else { RowKind::Better };
        }
        comparison.exceedance[9].kind = RowKind::Worse;
        let said = caveats(&document);
        let worse: Vec<&Statement> = said.iter().filter(|s| s.word == "but WORSE").collect();
        assert_eq!(worse.len(), 2, "{said:?}");
        assert!(worse[0].sentence.starts_with("throughput"));
        assert!(worse[1].sentence.starts_with("at least 1 s"));
    }

    #[test]
    fn a_censored_tail_is_a_lower_bound_and_says_so() {
        let mut document = fixture::session(fixture::TINY);
        for percentile in &mut document.runs[0].response.percentiles {
            percentile.is_lower_bound = percentile.q > 0.98;
        }
        let comparison = document.analysis.as_ref().unwrap().comparison.clone();
        let row = &comparison.rows[0];
        assert_eq!(row.measure, "response_p99");
        assert!(row_values(&document, &comparison, row).against.starts_with(">="));
        assert!(!row_values(&document, &comparison, row).value.starts_with(">="));
    }

    #[test]
    fn a_bound_from_a_run_that_was_cut_off_says_so() {
        let mut document = fixture::session(fixture::TINY);
        for percentile in &mut document.runs[0].response.percentiles {
            percentile.is_lower_bound = percentile.q > 0.98;
        }
        document.runs[0].counts.censored = 12;
        assert!(lower_bound_reason(&document).contains("12 transactions had not ended"));
        document.runs[0].incomplete = Some("the server went away".into());
        let said = lower_bound_reason(&document);
        assert!(said.contains("cut off (the server went away)"), "{said}");
    }

    #[test]
    fn two_draws_of_keys_are_not_called_as_expected() {
        let mut audit = KeyAudit {
            source: "a.sql:1".into(),
            distribution: "uniform".into(),
            keys: 1000,
            draws: 2,
            shares: Vec::new(),
            is_passed: true,
        };
        assert_eq!(audit_word(&audit).0, "too few draws to judge");
        audit.draws = 100_000;
        assert_eq!(audit_word(&audit).0, "as expected");
        audit.is_passed = false;
        assert_eq!(audit_word(&audit), ("NOT AS EXPECTED", Tone::Bad));
    }

    #[test]
    fn what_changed_is_listed_before_what_did_not() {
        let mut comparison =
            fixture::session(fixture::TINY).analysis.map(|it| it.comparison).unwrap();
        let mut row = comparison.rows[0].clone();
        row.kind = RowKind::Unclear;
        row.is_primary = false;
        comparison.rows.clear();
        for (measure, low, high) in [
            ("counter.a.quiet", -0.2, 0.3),
            ("outcome.wal_bytes", -0.1, 0.1),
            ("counter.z.moved", 0.2, 0.4),
        ] {
            row.measure = measure.into();
            (row.low_ratio, row.high_ratio) = (Some(low), Some(high));
            row.change_ratio = Some(f64::midpoint(low, high));
            comparison.rows.push(row.clone());
        }
        let order: Vec<&str> =
            costs_by_weight(&comparison).iter().map(|row| row.measure.as_str()).collect();
        assert_eq!(order, ["counter.z.moved", "outcome.wal_bytes", "counter.a.quiet"]);
    }

    #[test]
    fn the_command_to_repeat_survives_a_shell() {
        let mut document = fixture::session(fixture::TINY);
        document.command =
            ["evenkeel", "two words", "it's", "", "a=b", "$(x)"].map(String::from).to_vec();
        assert_eq!(rerun(&document), "evenkeel 'two words' 'it'\\''s' '' a=b '$(x)'");
    }
}
