//! The verdict on a terminal, in the order in which a person decides: verdict, validity, what
//! changed, the distribution, the far tail, causes, costs, noise, how to repeat.
//!
//! Rules:
//!
//! 1. As wide as the terminal, between 80 and 100 columns; longer sentences are wrapped under their
//!    own beginning, tables shrink as [`table`](super::table) says.
//! 2. Colour repeats what a word says already.
//! 3. Everything passes [`text::visible`] on its way out, so no name can move the cursor.

use std::io::{self, Write};

use super::model::{self, Group, Statement, Tone};
use super::table::{self, Table};
use super::{number, text};
use crate::experiment::document::{
    Analysis, Comparison, GateStatus, MeasureRow, SessionDocument, VerdictKind,
};

/// How the terminal wants its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns that the terminal has; taken as [`COLUMNS_MIN`] to [`COLUMNS`].
    pub columns: usize,
    /// Whether colours are wanted; nothing is said by colour alone.
    pub has_colour: bool,
    /// Whether only ASCII may be used.
    pub is_ascii: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { columns: COLUMNS, has_colour: false, is_ascii: false }
    }
}

/// Widest line, and the width where there is no terminal.
pub const COLUMNS: usize = 100;
/// Narrowest width that is respected: below it tables would lose their numbers.
pub const COLUMNS_MIN: usize = 80;

/// Where sentences begin, after the section's label.
const INDENT: usize = 9;
/// Rows of costs shown; the rest is in the files.
const COST_ROWS_MAX: usize = 12;
/// Caveats shown under the verdict; the rest is in the files.
const CAVEATS_MAX: usize = 6;
/// Runs listed where nothing can be compared.
const RUNS_MAX: usize = 32;
/// Longest name that fits above its column.
const NAME_MAX: usize = 10;

/// Renders. `report` is where the page for a browser lies, if one was written.
///
/// # Errors
/// What the writer refuses.
pub fn render(
    document: &SessionDocument,
    style: Style,
    report: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let columns = style.columns.clamp(COLUMNS_MIN, COLUMNS);
    let mut page = Page { out, style: Style { columns, ..style } };
    page.verdict(document)?;
    if let Some(analysis) = &document.analysis {
        page.validity(analysis)?;
    }
    page.changed(document)?;
    if let Some(analysis) = &document.analysis {
        if analysis.comparison.verdict.kind == VerdictKind::Invalid {
            page.sentence(
                "FIGURES",
                "of an invalid session follow for finding the fault, not for judging",
                Tone::Warning,
            )?;
        }
        page.arms(document, &analysis.comparison)?;
        page.measures(document, &analysis.comparison)?;
        page.exceedance(document, &analysis.comparison)?;
        page.stalls(document, &analysis.comparison)?;
        page.costs(document, &analysis.comparison)?;
        page.line(&[(Tone::Neutral, "")])?;
        page.sentence("marks", model::LEGEND, Tone::Neutral)?;
        page.sentence("", model::LEGEND_INTERVAL, Tone::Neutral)?;
        page.noise(analysis)?;
    } else if !document.runs.is_empty() {
        page.runs(document)?;
    }
    let rerun = model::rerun(document);
    if !rerun.is_empty() {
        // Not wrapped: it is there to be copied whole.
        let rerun = text::visible(&rerun, 4096);
        page.unwrapped("rerun", &rerun)?;
    }
    if let Some(report) = report {
        page.unwrapped("report", report)?;
    }
    Ok(())
}

struct Page<'a> {
    out: &'a mut dyn Write,
    style: Style,
}

impl Page<'_> {
    fn verdict(&mut self, document: &SessionDocument) -> io::Result<()> {
        self.statement("VERDICT", &model::verdict(document))?;
        let caveats = model::caveats(document);
        for caveat in caveats.iter().take(CAVEATS_MAX) {
            self.statement("", caveat)?;
        }
        if caveats.len() > CAVEATS_MAX {
            let rest = format!("and {} more remarks in the report", caveats.len() - CAVEATS_MAX);
            self.sentence("", &rest, Tone::Neutral)?;
        }
        Ok(())
    }

    fn validity(&mut self, analysis: &Analysis) -> io::Result<()> {
        let (said, speaking) = model::validity(analysis);
        let label: String = said.word.chars().take(INDENT - 1).collect();
        // The gates that people ask for first, as many as two lines hold; all are in the report.
        const FIRST: [&str; 8] = [
            "rate",
            "driver_lag",
            "backlog",
            "errors",
            "steady",
            "checkpoint_cycles",
            "clock",
            "data",
        ];
        let mut passed: Vec<String> = Vec::new();
        let mut room = 2 * (self.style.columns - INDENT) - 40;
        for name in FIRST {
            let found = analysis
                .gates
                .iter()
                .find(|gate| gate.name == name && gate.status == GateStatus::Passed);
            let Some(gate) = found else { continue };
            let words = format!("{} {}", gate.name.replace('_', " "), gate.text);
            let Some(left) = room.checked_sub(words.chars().count() + 2) else { continue };
            room = left;
            passed.push(words);
        }
        let mut sentence = said.sentence;
        if !passed.is_empty() && said.tone != Tone::Bad {
            sentence.push_str(": ");
            sentence.push_str(&passed.join("; "));
        }
        self.sentence(if label == "UNCHECKE" { "GATES" } else { &label }, &sentence, said.tone)?;
        for gate in speaking {
            let (mark, tone) = if gate.status == GateStatus::Failed {
                ("FAILED", Tone::Bad)
            } else {
                ("remark", Tone::Warning)
            };
            let sentence = format!("{mark} {}: {}", gate.name.replace('_', " "), gate.text);
            self.sentence("", &sentence, tone)?;
        }
        Ok(())
    }

    fn changed(&mut self, document: &SessionDocument) -> io::Result<()> {
        let changed = model::changed(document);
        let mut label = "CHANGED";
        if changed.is_empty() {
            self.sentence(
                label,
                "nothing that is recorded differs between the arms",
                Tone::Neutral,
            )?;
            label = "";
        }
        for said in changed.iter().take(8) {
            let sentence = if said.word == "declared" {
                said.sentence.clone()
            } else {
                format!("{} {}", said.word, said.sentence)
            };
            self.sentence(label, &sentence, said.tone)?;
            label = "";
        }
        if changed.len() > 8 {
            self.sentence("", &format!("and {} more", changed.len() - 8), Tone::Neutral)?;
        }
        let unchanged = model::unchanged(document);
        if !unchanged.is_empty() {
            self.sentence(label, &unchanged, Tone::Neutral)?;
        }
        Ok(())
    }

    /// Who the columns are, where names are too long to stand above them.
    fn arms(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        if column_names(document, comparison).is_names {
            return Ok(());
        }
        let mut label = "ARMS";
        for arm in [comparison.against, comparison.arm] {
            let sentence = format!("{}: {}", role(document, arm), model::arm_name(document, arm));
            self.sentence(label, &sentence, Tone::Neutral)?;
            label = "";
        }
        Ok(())
    }

    fn measures(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        let rows: Vec<&MeasureRow> = comparison
            .rows
            .iter()
            .filter(|row| model::measure_name(&row.measure).group == Group::Latency)
            .collect();
        let (known, unknown): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.value.is_some() || row.against_value.is_some());
        if known.is_empty() {
            self.line(&[])?;
            return self.sentence("measures", model::NO_MEASURES, Tone::Warning);
        }
        let names = column_names(document, comparison);
        let mut table = Table::new("")
            .words("")
            .numbers("")
            .numbers(&names.against)
            .numbers(&names.arm)
            .numbers("change")
            .numbers("95% interval")
            .numbers("p(adj)")
            .spare("detects")
            .words("mark");
        let mut family = String::new();
        let mut remarks: Vec<(String, &MeasureRow)> = Vec::new();
        let mut has_bound = false;
        for row in ordered(&known) {
            let name = model::measure_name(&row.measure);
            let values = model::row_values(document, comparison, row);
            has_bound |= values.against.starts_with('>') || values.value.starts_with('>');
            let shown_family =
                if name.family == family { String::new() } else { name.family.clone() };
            let mut mark = model::row_mark(row.kind, document.protocol.margin_ratio);
            if !row.notes.is_empty() {
                remarks.push((name.title.clone(), row));
                mark.push_str(" !");
            }
            if row.is_primary {
                mark.push_str(" *");
            }
            table.row(
                vec![
                    shown_family,
                    name.part,
                    values.unit.to_owned(),
                    values.against,
                    values.value,
                    row.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change),
                    number::interval(row.low_ratio, row.high_ratio),
                    number::probability(row.p_adjusted.or(row.p)),
                    row.detectable_ratio.map_or_else(|| "-".to_owned(), number::percent),
                    mark,
                ],
                model::row_tone(row.kind),
            );
            family = name.family;
        }
        self.line(&[])?;
        self.table(table)?;
        if !unknown.is_empty() {
            let missing: Vec<String> =
                unknown.iter().map(|row| model::measure_name(&row.measure).title).collect();
            let sentence = format!("not measured: {}", listed(&missing, 6));
            self.sentence("", &sentence, Tone::Neutral)?;
        }
        self.remarks(&remarks)?;
        if has_bound {
            self.sentence(">=", &model::lower_bound_reason(document), Tone::Warning)?;
        }
        Ok(())
    }

    /// The primary measure's remarks in full, the others by name: they often say the same.
    fn remarks(&mut self, remarks: &[(String, &MeasureRow)]) -> io::Result<()> {
        let mut label = "!";
        for (title, row) in remarks.iter().filter(|(_, row)| row.is_primary) {
            for note in &row.notes {
                self.sentence(label, &format!("{title}: {note}"), Tone::Neutral)?;
                label = "";
            }
        }
        let others: Vec<String> = remarks
            .iter()
            .filter(|(_, row)| !row.is_primary)
            .map(|(title, _)| title.clone())
            .collect();
        if !others.is_empty() {
            let sentence = format!("the report has remarks on {}", listed(&others, 6));
            self.sentence(label, &sentence, Tone::Neutral)?;
        }
        Ok(())
    }

    fn exceedance(
        &mut self,
        document: &SessionDocument,
        comparison: &Comparison,
    ) -> io::Result<()> {
        // Rows at which nothing happened in either arm say nothing.
        let mut rows: Vec<_> = comparison
            .exceedance
            .iter()
            .filter(|row| row.count > 0 || row.against_count > 0)
            .collect();
        if rows.is_empty() {
            if let Some(least) = comparison.exceedance.first() {
                let sentence = model::none_that_long(least.threshold_ns);
                self.sentence("tail", &sentence, Tone::Neutral)?;
            }
            return Ok(());
        }
        let left_out = rows.len().saturating_sub(16);
        rows.drain(..left_out);
        let names = column_names(document, comparison);
        let mut table = Table::new("at least")
            .numbers(&format!("{}/M", names.against))
            .numbers(&format!("{}/M", names.arm))
            .numbers("ratio")
            .numbers("95% interval")
            .numbers("stalls")
            .words("mark");
        for row in rows {
            let interval = match (row.low_ratio, row.high_ratio) {
                (Some(low), Some(high)) => {
                    format!("{} .. {}", number::significant(low), number::significant(high))
                }
                _ => "-".to_owned(),
            };
            table.row(
                vec![
                    number::time_short(row.threshold_ns),
                    number::maybe(row.against_per_million),
                    number::maybe(row.per_million),
                    row.rate_ratio.map_or_else(|| "-".to_owned(), number::significant),
                    interval,
                    format!("{} / {}", row.against_episodes, row.episodes),
                    model::row_mark(row.kind, document.protocol.margin_ratio),
                ],
                model::row_tone(row.kind),
            );
        }
        self.line(&[])?;
        self.table(table)
    }

    fn stalls(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        if comparison.stalls.iter().all(|row| row.delay_ns == 0 && row.against_delay_ns == 0) {
            return self.sentence("stalls", model::NO_STALLS, Tone::Neutral);
        }
        let names = column_names(document, comparison);
        let mut table = Table::new("stalled time by cause")
            .numbers(&names.against)
            .numbers(&names.arm)
            .numbers("difference")
            .words("lift over chance");
        for row in &comparison.stalls {
            let difference = number::to_f64(row.delay_ns) - number::to_f64(row.against_delay_ns);
            let sign = if difference > 0.0 { "+" } else { "" };
            table.row(
                vec![
                    format!("  {}", table::cut(&model::event_words(&row.kind), 24)),
                    number::time(number::to_f64(row.against_delay_ns)),
                    number::time(number::to_f64(row.delay_ns)),
                    format!("{sign}{}", number::time(difference)),
                    model::lift_words(row),
                ],
                Tone::Neutral,
            );
        }
        self.line(&[])?;
        self.table(table)
    }

    fn costs(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        let rows = model::costs_by_weight(comparison);
        if rows.is_empty() {
            return Ok(());
        }
        let names = column_names(document, comparison);
        let mut table = Table::new("costs")
            .numbers("")
            .numbers(&names.against)
            .numbers(&names.arm)
            .numbers("change")
            .numbers("95% interval")
            .words("mark");
        for row in rows.iter().take(COST_ROWS_MAX) {
            let values = model::row_values(document, comparison, row);
            let label = model::measure_name(&row.measure).title;
            let each = if model::is_per_transaction(&row.measure) { " /tx" } else { "" };
            table.row(
                vec![
                    // All views of statistics begin so; without it names fit more often.
                    format!("  {}{each}", label.strip_prefix("pg_stat_").unwrap_or(&label)),
                    values.unit.to_owned(),
                    values.against,
                    values.value,
                    row.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change),
                    number::interval(row.low_ratio, row.high_ratio),
                    model::row_mark(row.kind, document.protocol.margin_ratio),
                ],
                model::row_tone(row.kind),
            );
        }
        self.line(&[])?;
        self.table(table)?;
        if rows.len() > COST_ROWS_MAX {
            let rest =
                format!("and {} that changed less, in the report", rows.len() - COST_ROWS_MAX);
            self.line(&[(Tone::Neutral, "  "), (Tone::Neutral, &rest)])?;
        }
        Ok(())
    }

    fn noise(&mut self, analysis: &Analysis) -> io::Result<()> {
        let mut label = "noise";
        let is_told = analysis.noise.iter().any(|note| note.kind == "floor");
        if let Some(floor) = analysis.floor_ratio.filter(|_| !is_told) {
            let sentence =
                format!("A/A floor: two copies of one arm differed by {}", number::percent(floor));
            self.sentence(label, &sentence, Tone::Neutral)?;
            label = "";
        }
        for note in &analysis.noise {
            self.sentence(label, &note.text, Tone::Neutral)?;
            label = "";
        }
        Ok(())
    }

    /// What was measured, where nothing can be compared yet.
    fn runs(&mut self, document: &SessionDocument) -> io::Result<()> {
        let mut table = Table::new("run")
            .numbers("per second")
            .numbers("mean")
            .numbers("p50")
            .numbers("p99")
            .numbers("max");
        let time = |ns: Option<f64>| ns.map_or_else(|| number::ABSENT.to_owned(), number::time);
        for run in document.runs.iter().take(RUNS_MAX) {
            table.row(
                vec![
                    model::run_name(run),
                    number::maybe(run.throughput_per_s),
                    time(run.response.mean_ns),
                    time(model::run_quantile(&run.response, 0.5)),
                    time(model::run_quantile(&run.response, 0.99)),
                    time(run.response.max_ns.map(number::to_f64)),
                ],
                Tone::Neutral,
            );
        }
        self.line(&[])?;
        self.table(table)?;
        if document.runs.len() > RUNS_MAX {
            let rest = format!("and {} more runs", document.runs.len() - RUNS_MAX);
            self.line(&[(Tone::Neutral, &rest)])?;
        }
        for run in document.runs.iter().take(RUNS_MAX) {
            for fault in model::run_faults(run) {
                let sentence = format!("{}: {fault}", model::run_name(run));
                self.sentence("", &sentence, Tone::Warning)?;
            }
        }
        Ok(())
    }

    fn table(&mut self, table: Table) -> io::Result<()> {
        for (line, tone, last) in table.lines(self.style.columns) {
            self.line(&[(Tone::Neutral, &line), (tone, &last)])?;
        }
        Ok(())
    }

    fn statement(&mut self, label: &str, said: &Statement) -> io::Result<()> {
        let text = format!("{}  {}", said.word, said.sentence);
        self.wrapped(label, &text, said.word.chars().count(), said.tone)
    }

    fn sentence(&mut self, label: &str, text: &str, tone: Tone) -> io::Result<()> {
        let coloured = if tone == Tone::Neutral { 0 } else { text.find([' ', ':']).unwrap_or(0) };
        self.wrapped(label, text, coloured, tone)
    }

    fn wrapped(&mut self, label: &str, text: &str, coloured: usize, tone: Tone) -> io::Result<()> {
        let text = text::visible(text, 2000);
        let mut is_first = true;
        for part in text::wrap(&text, self.style.columns - INDENT) {
            let label = if is_first { label } else { "" };
            let label = format!("{label:<INDENT$}");
            let split = if is_first { coloured.min(part.chars().count()) } else { 0 };
            let at = part.char_indices().nth(split).map_or(part.len(), |(at, _)| at);
            let (head, tail) = part.split_at(at);
            self.line(&[(Tone::Neutral, &label), (tone, head), (Tone::Neutral, tail)])?;
            is_first = false;
        }
        Ok(())
    }

    fn unwrapped(&mut self, label: &str, text: &str) -> io::Result<()> {
        let text = self.neutral(text);
        writeln!(self.out, "{label:<INDENT$}{text}")
    }

    /// Writes one line of at most so many characters as the terminal has columns.
    fn line(&mut self, spans: &[(Tone, &str)]) -> io::Result<()> {
        let mut left = self.style.columns;
        let mut shown = String::new();
        for (tone, span) in spans {
            if left == 0 {
                break;
            }
            let span = self.neutral(span);
            let span = text::visible(&span, left.max(3));
            left = left.saturating_sub(text::columns(&span));
            let code = match tone {
                _ if !self.style.has_colour || span.trim().is_empty() => None,
                Tone::Good => Some("1;32"),
                Tone::Bad => Some("1;31"),
                Tone::Warning => Some("33"),
                Tone::Neutral => None,
            };
            match code {
                Some(code) => {
                    shown.push_str("\x1b[");
                    shown.push_str(code);
                    shown.push('m');
                    shown.push_str(&span);
                    shown.push_str("\x1b[0m");
                }
                None => shown.push_str(&span),
            }
        }
        writeln!(self.out, "{}", shown.trim_end())
    }

    fn neutral(&self, span: &str) -> String {
        if self.style.is_ascii {
            text::visible_ascii(span, 8192)
        } else {
            text::visible(span, 8192)
        }
    }
}

/// What stands above the two arms' columns.
struct ColumnNames {
    against: String,
    arm: String,
    /// Whether these are the arms' names, not their roles.
    is_names: bool,
}

/// The arms' names where both fit above their columns, else their roles.
fn column_names(document: &SessionDocument, comparison: &Comparison) -> ColumnNames {
    let names = [comparison.against, comparison.arm]
        .map(|arm| text::visible(&model::arm_name(document, arm), 200));
    let fits = |name: &String| {
        text::columns(name) <= NAME_MAX && name.chars().count() == text::columns(name)
    };
    let [against, arm] = names;
    if fits(&against) && fits(&arm) && against != arm {
        ColumnNames { against, arm, is_names: true }
    } else {
        ColumnNames {
            against: role(document, comparison.against),
            arm: role(document, comparison.arm),
            is_names: false,
        }
    }
}

fn role(document: &SessionDocument, arm: u32) -> String {
    document.arms.get(arm as usize).map_or_else(
        || format!("arm {}", model::letter(arm)),
        |found| model::role_word(found.role).to_owned(),
    )
}

/// The first `most` names, and how many more there are.
fn listed(names: &[String], most: usize) -> String {
    let mut text = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > most {
        text.push_str(&format!(" and {} more", names.len() - most));
    }
    text
}

/// Throughput, response, service, lag; within a family as given.
fn ordered<'a>(rows: &[&'a MeasureRow]) -> Vec<&'a MeasureRow> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| {
        let name = model::measure_name(&row.measure);
        let family = ["throughput", "response", "service", "lag"]
            .iter()
            .position(|family| *family == name.family);
        (family, model::part_order(&name.part))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn rendered(document: &SessionDocument, style: Style) -> String {
        let mut out = Vec::new();
        render(document, style, Some("out/report.html"), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn sessions() -> Vec<(&'static str, SessionDocument)> {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        sessions.push(("three arms", fixture::session(fixture::Plan { arms: 3, ..fixture::TINY })));
        sessions
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_name_reaches_the_terminal_raw() {
        for (name, document) in sessions() {
            for style in [
                Style::default(),
                Style { is_ascii: true, ..Style::default() },
                Style { columns: 80, ..Style::default() },
                Style { columns: 91, ..Style::default() },
            ] {
                let whole = rendered(&document, style);
                for line in whole.lines() {
                    let is_free = line.starts_with("rerun") || line.starts_with("report");
                    assert!(is_free || text::columns(line) <= style.columns, "{name}: {line}");
                    assert!(!line.chars().any(char::is_control), "{name}: {line:?}");
                    assert!(!line.contains('\u{202e}'), "{name}: {line:?}");
                    assert!(!style.is_ascii || line.is_ascii(), "{name}: {line}");
                }
                assert!(!whole.contains("NaN") && !whole.contains("inf "), "{name}:\n{whole}");
            }
        }
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let document = fixture::session(fixture::TINY);
        let plain = rendered(&document, Style::default());
        let coloured = rendered(&document, Style { has_colour: true, ..Style::default() });
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            stripped.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        stripped.push_str(rest);
        assert_eq!(stripped, plain);
        assert_ne!(coloured, plain);
    }

    #[test]
    fn the_sections_stand_in_the_order_of_the_decision() {
        let text = rendered(&fixture::session(fixture::TINY), Style::default());
        let mut at = 0;
        for section in [
            "VERDICT",
            "VALID",
            "CHANGED",
            "throughput",
            "at least",
            "stalled time",
            "costs",
            "noise",
            "rerun",
        ] {
            let found = text[at..].find(section);
            assert!(found.is_some(), "{section} is missing or too early:\n{text}");
            at += found.unwrap();
        }
    }

    #[test]
    fn an_invalid_verdict_line_has_no_percentages() {
        let (_, document) =
            fixture::odd_sessions().into_iter().find(|(n, _)| *n == "invalid").unwrap();
        let text = rendered(&document, Style::default());
        let line = text.lines().next().unwrap();
        assert!(line.starts_with("VERDICT  INVALID") && !line.contains('%'), "{line}");
    }
}
