//! `summary.md`: short enough for a mail to a list, plain enough to be read there unrendered.
//!
//! Rules:
//!
//! 1. At most [`COLUMNS`] columns, so that a quoted reply does not wrap; only addresses and the
//!    command line may be longer.
//! 2. Tables are laid out with spaces inside fences: they are read as text on a list and shown as
//!    they are where Markdown is rendered.
//! 3. Text from outside cannot become markup: it is escaped in prose, and cannot close a fence.

use std::io::{self, Write};

use super::model::{self, Tone};
use super::table::Table;
use super::{number, text};
use crate::experiment::document::{Comparison, SessionDocument, VerdictKind};

/// Widest line of prose and tables.
pub const COLUMNS: usize = 72;

/// Renders.
///
/// # Errors
/// What the writer refuses.
pub fn render(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    let title = if document.title.trim().is_empty() { "Comparison" } else { &document.title };
    let title = escaped(&text::visible(title, 60));
    writeln!(out, "{title}")?;
    writeln!(out, "{}\n", "=".repeat(title.chars().count().clamp(3, COLUMNS)))?;
    let verdict = model::verdict(document);
    prose(out, "", &format!("{}: {}", verdict.word, verdict.sentence))?;
    writeln!(out)?;
    let caveats = model::caveats(document);
    for caveat in &caveats {
        prose(out, "- ", &format!("{}: {}", caveat.word, caveat.sentence))?;
    }
    if !caveats.is_empty() {
        writeln!(out)?;
    }
    if let Some(analysis) = &document.analysis {
        percentile_table(document, &analysis.comparison, out)?;
        exceedance_table(document, &analysis.comparison, out)?;
        let (validity, speaking) = model::validity(analysis);
        prose(out, "", &format!("Validity: {}.", validity.sentence))?;
        for gate in speaking {
            prose(out, "- ", &format!("{}: {}", gate.name, gate.text))?;
        }
        writeln!(out)?;
    }
    prose(out, "", "What differs:")?;
    writeln!(out)?;
    let changed = model::changed(document);
    if changed.is_empty() {
        prose(out, "- ", "nothing that is recorded")?;
    }
    for change in changed.iter().take(20) {
        prose(out, "- ", &format!("{} ({})", change.sentence, change.word))?;
    }
    if changed.len() > 20 {
        prose(out, "- ", &format!("and {} more, in session.json", changed.len() - 20))?;
    }
    writeln!(out)?;
    prose(out, "", &format!("Protocol: {}", model::protocol_sentence(document)))?;
    writeln!(out)?;
    let server = document.arms.first().and_then(|arm| arm.server_version.as_deref());
    let machine = &document.machine;
    let facts: Vec<String> = [
        server.map(str::to_owned),
        machine.kernel.clone(),
        machine.cpu.clone(),
        machine.cpu_count.map(|count| format!("{count} processors")),
        machine.memory_bytes.map(|bytes| number::bytes(number::to_f64(bytes))),
        machine.file_system.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !facts.is_empty() {
        prose(out, "", &format!("Machine: {}.", facts.join("; ")))?;
        writeln!(out)?;
    }
    let rerun = model::rerun(document);
    if !rerun.is_empty() {
        // An indented block: no fence that the text could close.
        writeln!(out, "    {}\n", text::visible(&rerun, 2000))?;
    }
    prose(out, "", &format!("evenkeel {}, {}", document.evenkeel_version, document.started_at))
}

/// Study 4's table: percentile, patched, unpatched, difference; the interval beside the estimate.
fn percentile_table(
    document: &SessionDocument,
    comparison: &Comparison,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut points: Vec<_> = comparison
        .shift
        .iter()
        .filter(|point| point.value_ns.is_some() || point.against_ns.is_some())
        .collect();
    if points.is_empty() {
        return Ok(());
    }
    // A list reads twenty rows, not a hundred.
    const WANTED: [f64; 12] =
        [0.5, 0.75, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0];
    if points.len() > 20 {
        points.retain(|point| WANTED.iter().any(|q| (q - point.q).abs() < 1e-9));
    }
    let largest = points.iter().filter_map(|point| point.against_ns).fold(0.0_f64, f64::max);
    let (unit, size) = number::time_unit(largest);
    let is_invalid = comparison.verdict.kind == VerdictKind::Invalid;
    let ([arm, against], is_names) = headings(document, comparison);
    if !is_names {
        for (role, of) in [(&arm, comparison.arm), (&against, comparison.against)] {
            prose(out, "- ", &format!("{role}: {}", model::arm_name(document, of)))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "```")?;
    writeln!(out, "response time, {unit}{}", if is_invalid { " (INVALID session)" } else { "" })?;
    let mut table = Table::new("percentile")
        .numbers(&arm)
        .numbers(&against)
        .numbers("change")
        .numbers("95% interval")
        .words("");
    for point in points {
        table.row(
            vec![
                number::percentile(point.q),
                number::maybe(point.value_ns.map(|ns| ns / size)),
                number::maybe(point.against_ns.map(|ns| ns / size)),
                point.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change),
                number::interval(point.low_ratio, point.high_ratio),
                if point.is_too_few { "(too few)".to_owned() } else { String::new() },
            ],
            Tone::Neutral,
        );
    }
    fenced(table, out)
}

/// Study 2's table: how many took at least so long.
fn exceedance_table(
    document: &SessionDocument,
    comparison: &Comparison,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows: Vec<_> =
        comparison.exceedance.iter().filter(|row| row.count > 0 || row.against_count > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let ([arm, against], _) = headings(document, comparison);
    writeln!(out, "```")?;
    writeln!(out, "transactions at least so long, per million (stalls)")?;
    let mut table =
        Table::new("at least").numbers(&arm).numbers(&against).numbers("ratio").words("");
    let from = rows.len().saturating_sub(16);
    for row in rows.into_iter().skip(from) {
        let side =
            |rate: Option<f64>, episodes: u64| format!("{} ({episodes})", number::maybe(rate));
        table.row(
            vec![
                number::time_short(row.threshold_ns),
                side(row.per_million, row.episodes),
                side(row.against_per_million, row.against_episodes),
                row.rate_ratio.map_or_else(|| "-".to_owned(), number::significant),
                model::row_mark(row.kind, document.protocol.margin_ratio),
            ],
            Tone::Neutral,
        );
    }
    fenced(table, out)
}

/// Names as columns' headings, where both fit and differ; else the arms' roles. No name can close the
/// fence.
fn headings(document: &SessionDocument, comparison: &Comparison) -> ([String; 2], bool) {
    let [arm, against] = [comparison.arm, comparison.against]
        .map(|arm| text::visible(&model::arm_name(document, arm), 200).replace('`', "'"));
    let fits = |name: &String| text::columns(name) <= 12;
    if fits(&arm) && fits(&against) && arm != against {
        return ([arm, against], true);
    }
    let role = |arm: u32| {
        document.arms.get(arm as usize).map_or_else(
            || format!("arm {}", model::letter(arm)),
            |found| model::role_word(found.role).to_owned(),
        )
    };
    ([role(comparison.arm), role(comparison.against)], false)
}

/// The table's lines and the end of its fence.
fn fenced(table: Table, out: &mut dyn Write) -> io::Result<()> {
    for (line, _, last) in table.lines(COLUMNS) {
        writeln!(out, "{}", format!("{line}{last}").trim_end())?;
    }
    writeln!(out, "```\n")
}

/// Wraps at spaces, continuation lines indented under the bullet.
fn prose(out: &mut dyn Write, bullet: &str, sentence: &str) -> io::Result<()> {
    let sentence = text::visible(sentence, 1500);
    let width = COLUMNS - bullet.len();
    let mut line = String::new();
    let mut columns = 0;
    let mut start = bullet.to_owned();
    for word in sentence.split(' ') {
        let word = escaped(word);
        let mut rest = word.as_str();
        loop {
            let length = text::columns(rest);
            if columns > 0 && columns + 1 + length > width {
                writeln!(out, "{start}{line}")?;
                start = " ".repeat(bullet.len());
                line.clear();
                columns = 0;
            }
            if length <= width {
                break;
            }
            // Half as many characters always fit, even wide ones.
            let at = rest.char_indices().nth(width / 2).map_or(rest.len(), |(at, _)| at);
            let (head, tail) = rest.split_at(at);
            writeln!(out, "{start}{head}")?;
            start = " ".repeat(bullet.len());
            rest = tail;
        }
        if columns > 0 {
            line.push(' ');
            columns += 1;
        }
        // At a line's start these would open a heading, a list or a quotation.
        if columns == 0 && opens_a_block(rest) {
            line.push('\\');
            columns += 1;
        }
        line.push_str(rest);
        columns += text::columns(rest);
    }
    writeln!(out, "{start}{line}")
}

/// Whether a word at a line's start would make a heading, a list, a rule or a fence of it.
fn opens_a_block(word: &str) -> bool {
    let is_all = |sign: char| !word.is_empty() && word.chars().all(|c| c == sign);
    is_all('#') || is_all('-') || is_all('=') || word == "+" || word.starts_with("~~~")
}

/// Rule 3: what Markdown or HTML inside Markdown would act on. Signs that only act in pairs around
/// words (`_` within a name) are left alone where a reader would stumble over the escape.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' if text.len() == 1 || text == "->" => shown.push(character),
            '<' => shown.push_str("&lt;"),
            '>' if text.starts_with(">=") => shown.push('>'),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '`' | '[' | ']' | '|' | '\\' | '*' | '!' => {
                shown.push('\\');
                shown.push(character);
            }
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn rendered(document: &SessionDocument) -> String {
        let mut out = Vec::new();
        render(document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_mailing_list_can_quote_it_without_wrapping() {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        sessions.push(("three", fixture::session(fixture::Plan { arms: 3, ..fixture::TINY })));
        for (name, document) in sessions {
            for line in rendered(&document).lines() {
                let is_command = line.starts_with("    ");
                assert!(is_command || text::columns(line) <= COLUMNS, "{name}: {line}");
                assert!(!line.chars().any(char::is_control), "{name}: {line:?}");
            }
        }
    }

    #[test]
    fn text_from_outside_becomes_no_markup() {
        let text = rendered(&fixture::hostile());
        let mut is_fenced = false;
        for line in text.lines() {
            if line == "```" {
                is_fenced = !is_fenced;
                continue;
            }
            if is_fenced || line.starts_with("    ") {
                assert!(!line.contains("```"), "{line}");
                continue;
            }
            for markup in ["<script", "<img", "<svg", "<iframe", "]("] {
                assert!(!line.replace("\\]", "").contains(markup), "{line}");
            }
        }
        assert!(!is_fenced, "an open fence swallows the rest");
    }

    #[test]
    fn study_fours_table_is_there_with_its_interval() {
        let text = rendered(&fixture::session(fixture::TINY));
        assert!(text.contains("percentile"), "{text}");
        assert!(text.contains("95% interval"), "{text}");
        assert!(text.contains("p99.9"), "{text}");
    }
}
