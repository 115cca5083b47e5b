//! The verdict on a terminal, in the order in which a person decides: verdict, validity, what
//! changed, the distribution, the far tail, causes, costs, noise, how to repeat.
//!
//! Rules:
//!
//! 1. At most 100 columns; longer sentences are wrapped under their own beginning.
//! 2. Colour repeats what a word says already.
//! 3. Everything passes [`text::visible`] on its way out, so no name can move the cursor.

use std::io::{self, Write};

use super::model::{self, Group, Statement, Tone};
use super::{number, text};
use crate::experiment::document::{
    Analysis, Comparison, GateStatus, MeasureRow, SessionDocument, VerdictKind,
};

/// How the terminal wants its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether colours are wanted; nothing is said by colour alone.
    pub has_colour: bool,
    /// Whether only ASCII may be used.
    pub is_ascii: bool,
}

/// Widest line.
pub const COLUMNS: usize = 100;

/// Where sentences begin, after the section's label.
const INDENT: usize = 9;
/// Rows of costs shown; the rest is in the files.
const COST_ROWS_MAX: usize = 12;
/// Caveats shown under the verdict; the rest is in the files.
const CAVEATS_MAX: usize = 6;
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
    let mut page = Page { out, style };
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
        page.measures(document, &analysis.comparison)?;
        page.exceedance(document, &analysis.comparison)?;
        page.stalls(document, &analysis.comparison)?;
        page.costs(document, &analysis.comparison)?;
        page.line(&[(Tone::Neutral, "")])?;
        page.sentence("marks", model::LEGEND, Tone::Neutral)?;
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
        let mut room = 2 * (COLUMNS - INDENT) - 40;
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

    fn measures(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        let rows: Vec<&MeasureRow> = comparison
            .rows
            .iter()
            .filter(|row| model::measure_name(&row.measure).group == Group::Latency)
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let (against, arm) = column_names(document, comparison);
        self.line(&[])?;
        self.line(&[(
            Tone::Neutral,
            &format!(
                "{:<10}{:<7}{:<4}{against:>11}{arm:>11}{:>9}{:>17}{:>8}{:>8}  mark",
                "", "", "", "change", "95% interval", "p(adj)", "detects"
            ),
        )])?;
        let mut family = String::new();
        for row in ordered(&rows) {
            let name = model::measure_name(&row.measure);
            let values = model::row_values(document, comparison, row);
            let shown_family = if name.family == family { "" } else { name.family.as_str() };
            let text = format!(
                "{shown_family:<10}{:<7}{:<4}{:>11}{:>11}{:>9}{:>17}{:>8}{:>8}  ",
                name.part,
                values.unit,
                values.against,
                values.value,
                row.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change),
                number::interval(row.low_ratio, row.high_ratio),
                number::probability(row.p_adjusted.or(row.p)),
                row.detectable_ratio.map_or_else(|| "-".to_owned(), number::percent),
            );
            let mark = model::row_mark(row.kind, document.protocol.margin_ratio);
            let primary = if row.is_primary { " *" } else { "" };
            self.line(&[
                (Tone::Neutral, &text),
                (model::row_tone(row.kind), &mark),
                (Tone::Neutral, primary),
            ])?;
            for note in &row.notes {
                self.sentence("", note, Tone::Warning)?;
            }
            family = name.family;
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
            return Ok(());
        }
        let left_out = rows.len().saturating_sub(16);
        rows.drain(..left_out);
        let (against, arm) = column_names(document, comparison);
        self.line(&[])?;
        self.line(&[(
            Tone::Neutral,
            &format!(
                "{:<11}{:>14}{:>14}{:>9}{:>20}{:>15}  mark",
                "at least",
                format!("{against}/M"),
                format!("{arm}/M"),
                "ratio",
                "95% interval",
                "stalls"
            ),
        )])?;
        for row in rows {
            let interval = match (row.low_ratio, row.high_ratio) {
                (Some(low), Some(high)) => {
                    format!("{} .. {}", number::significant(low), number::significant(high))
                }
                _ => "-".to_owned(),
            };
            let text = format!(
                "{:<11}{:>14}{:>14}{:>9}{interval:>20}{:>15}  ",
                number::time_short(row.threshold_ns),
                number::maybe(row.against_per_million),
                number::maybe(row.per_million),
                row.rate_ratio.map_or_else(|| "-".to_owned(), number::significant),
                format!("{} / {}", row.against_episodes, row.episodes),
            );
            let mark = model::row_mark(row.kind, document.protocol.margin_ratio);
            self.line(&[(Tone::Neutral, &text), (model::row_tone(row.kind), &mark)])?;
        }
        Ok(())
    }

    fn stalls(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        if comparison.stalls.is_empty() {
            return Ok(());
        }
        let (against, arm) = column_names(document, comparison);
        self.line(&[])?;
        self.line(&[(
            Tone::Neutral,
            &format!(
                "{:<26}{against:>14}{arm:>14}{:>14}   lift over chance",
                "stalled time by cause", "difference"
            ),
        )])?;
        for row in &comparison.stalls {
            let lift = model::lift_words(row);
            let difference = number::to_f64(row.delay_ns) - number::to_f64(row.against_delay_ns);
            let sign = if difference > 0.0 { "+" } else { "" };
            self.line(&[(
                Tone::Neutral,
                &format!(
                    "  {:<24}{:>14}{:>14}{:>14}   {lift}",
                    text::visible(&model::event_words(&row.kind), 24),
                    number::time(number::to_f64(row.against_delay_ns)),
                    number::time(number::to_f64(row.delay_ns)),
                    format!("{sign}{}", number::time(difference)),
                ),
            )])?;
        }
        Ok(())
    }

    fn costs(&mut self, document: &SessionDocument, comparison: &Comparison) -> io::Result<()> {
        let rows: Vec<&MeasureRow> = comparison
            .rows
            .iter()
            .filter(|row| model::measure_name(&row.measure).group == Group::Cost)
            .filter(|row| row.value.is_some() || row.against_value.is_some())
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let (against, arm) = column_names(document, comparison);
        self.line(&[])?;
        self.line(&[(
            Tone::Neutral,
            &format!(
                "{:<38}{:<4}{against:>11}{arm:>11}{:>9}{:>15}  mark",
                "costs", "", "change", "95% interval"
            ),
        )])?;
        for row in rows.iter().take(COST_ROWS_MAX) {
            let name = model::cost_label(&row.measure);
            let values = model::row_values(document, comparison, row);
            let text = format!(
                "  {:<36}{:<4}{:>11}{:>11}{:>9}{:>15}  ",
                text::visible(&name, 35),
                values.unit,
                values.against,
                values.value,
                row.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change),
                number::interval(row.low_ratio, row.high_ratio),
            );
            let mark = model::row_mark(row.kind, document.protocol.margin_ratio);
            self.line(&[(Tone::Neutral, &text), (model::row_tone(row.kind), &mark)])?;
        }
        if rows.len() > COST_ROWS_MAX {
            let rest = format!("  and {} more in the report", rows.len() - COST_ROWS_MAX);
            self.line(&[(Tone::Neutral, &rest)])?;
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
        self.line(&[])?;
        self.line(&[(
            Tone::Neutral,
            &format!("{:<30}{:>12}{:>14}{:>14}{:>14}", "run", "per second", "mean", "p99", "max"),
        )])?;
        for run in document.runs.iter().take(32) {
            let p99 = run.response.percentiles.iter().find(|p| (p.q - 0.99).abs() < 1e-9);
            let time = |ns: Option<f64>| ns.map_or_else(|| number::ABSENT.to_owned(), number::time);
            self.line(&[(
                Tone::Neutral,
                &format!(
                    "{:<30}{:>12}{:>14}{:>14}{:>14}",
                    model::run_name(run),
                    number::maybe(run.throughput_per_s),
                    time(run.response.mean_ns),
                    time(p99.map(|p| number::to_f64(p.value_ns))),
                    time(run.response.max_ns.map(number::to_f64)),
                ),
            )])?;
            if let Some(reason) = &run.incomplete {
                self.sentence("", &format!("incomplete: {reason}"), Tone::Warning)?;
            }
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
        for part in wrap(&text, COLUMNS - INDENT) {
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

    /// Writes one line of at most [`COLUMNS`] characters.
    fn line(&mut self, spans: &[(Tone, &str)]) -> io::Result<()> {
        let mut left = COLUMNS;
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

/// The arms' names where both fit above their columns, else their roles.
fn column_names(document: &SessionDocument, comparison: &Comparison) -> (String, String) {
    let names = [comparison.against, comparison.arm]
        .map(|arm| text::visible(&model::arm_name(document, arm), 200));
    let fits = |name: &String| {
        text::columns(name) <= NAME_MAX && name.chars().count() == text::columns(name)
    };
    let [against, arm] = names;
    if fits(&against) && fits(&arm) {
        (against, arm)
    } else {
        let role = |arm: u32, other: &str| {
            document
                .arms
                .get(arm as usize)
                .map_or_else(|| other.to_owned(), |found| model::role_word(found.role).to_owned())
        };
        (role(comparison.against, "A"), role(comparison.arm, "B"))
    }
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

/// Breaks at spaces; a word longer than the width is broken where the width ends.
fn wrap(sentence: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut columns = 0;
    for word in sentence.split_inclusive(' ') {
        let length = text::columns(word.trim_end());
        if columns > 0 && columns + length > width {
            lines.push(std::mem::take(&mut line));
            columns = 0;
        }
        for character in word.chars() {
            let own = text::columns(character.encode_utf8(&mut [0; 4]));
            if columns + own > width && character != ' ' {
                lines.push(std::mem::take(&mut line));
                columns = 0;
            }
            line.push(character);
            columns += own;
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
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
    fn no_line_is_wider_than_a_hundred_columns_and_no_name_reaches_the_terminal_raw() {
        for (name, document) in sessions() {
            for style in [Style::default(), Style { is_ascii: true, ..Style::default() }] {
                let whole = rendered(&document, style);
                for line in whole.lines() {
                    let is_free = line.starts_with("rerun") || line.starts_with("report");
                    assert!(is_free || text::columns(line) <= COLUMNS, "{name}: {line}");
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
