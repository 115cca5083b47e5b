//! `report.html`: one file that needs no network and runs nothing.
//!
//! Rules:
//!
//! 1. No script, no address to fetch, no event handler; the policy in the head forbids them too.
//! 2. Text enters only through [`escape`].
//! 3. What a drawing shows is also there as words or a table; colour alone says nothing.
//! 4. Every list is bounded, so that the page stays under 3 MB; what is left out is named.

mod chart;
mod escape;
mod exceedance;
mod histogram;
pub mod index;
pub mod miss_ratio;
mod numbers;
mod pairs;
mod scale;
mod shift;
mod tables;
mod timeline;

use std::io::{self, Write};

use self::escape::{Lines, Sink, Text, put};
use super::model::{self, Group, Statement, Tone};
use super::number;
use crate::experiment::document::{Analysis, SessionDocument, VerdictKind};

/// Renders the page.
///
/// # Errors
/// What the writer refuses.
pub fn render(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    let mut sink = Sink::new(out);
    let sink = &mut sink;
    let verdict = model::verdict(document);
    open_page(&format!("{}: {}", verdict.word, title(document)), sink)?;
    header(document, &verdict, sink)?;
    contents(document, sink)?;
    if let Some(analysis) = &document.analysis {
        comparison_sections(document, analysis, sink)?;
    }
    section(sink, "timelines", "Every run, second by second")?;
    put!(
        sink,
        "<p>All runs share their axes. Latencies stand at the second in which a transaction was planned, \
         completions at the second in which they happened, so that a stall looks like one.</p>",
    );
    timeline::section(document, sink)?;
    tables::runs(document, sink)?;
    sink.put("</section>")?;
    section(sink, "histogram", "How response times are distributed")?;
    histogram::section(document, sink)?;
    sink.put("</section>")?;
    section(sink, "stalls", "Stalls")?;
    if let Some(analysis) = &document.analysis {
        tables::stall_causes(document, &analysis.comparison, sink)?;
        sink.put(
            "<p class=\"aside\">Lift is the share of stalled time inside such events over the share that \
             chance would put there: near 1 is coincidence.</p>",
        )?;
    }
    tables::stall_list(document, sink)?;
    sink.put("</section>")?;
    if let Some(analysis) = &document.analysis {
        section(sink, "costs", "Counters and sizes")?;
        tables::measures(document, &analysis.comparison, Group::Cost, sink)?;
        tables::counters(document, sink)?;
        sink.put("</section>")?;
        noise(document, analysis, sink)?;
    }
    section(sink, "keys", "Keys drawn against their distribution")?;
    tables::audits(document, sink)?;
    sink.put("</section>")?;
    section(sink, "settings", "What differs, and all settings")?;
    tables::settings(document, sink)?;
    sink.put("</section>")?;
    place(document, sink)?;
    method(document, sink)?;
    section(sink, "numbers", "The numbers")?;
    numbers::section(document, sink)?;
    sink.put("</section></main></body></html>\n")
}

/// Everything before a page's content.
fn open_page(title: &str, sink: &mut Sink<'_>) -> io::Result<()> {
    put!(
        sink,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"referrer\" content=\"no-referrer\">\
         <title>",
        Text(title),
        "</title><style>",
        include_str!("style.css"),
        "</style></head>\n<body><main>",
    );
    Ok(())
}

/// Arrows and ranges as print has them.
fn typographic(sentence: &str) -> String {
    sentence.replace(" -> ", " \u{2192} ").replace(" .. ", " \u{2026} ")
}

fn title(document: &SessionDocument) -> &str {
    if document.title.trim().is_empty() { "Comparison" } else { &document.title }
}

fn header(document: &SessionDocument, verdict: &Statement, sink: &mut Sink<'_>) -> io::Result<()> {
    put!(sink, "<header><h1>", Text(title(document)), "</h1><div class=\"verdict ");
    put!(sink, tables::tone_class(verdict.tone), "\"><p class=\"word\">", verdict.word, "</p>");
    put!(sink, "<p class=\"sentence\">", Text(typographic(&verdict.sentence)), "</p>");
    let caveats = model::caveats(document);
    if !caveats.is_empty() {
        sink.put("<ul>")?;
        for caveat in caveats.iter().take(40) {
            put!(
                sink,
                "<li><strong class=\"",
                tables::tone_class(caveat.tone),
                "\">",
                caveat.word,
                "</strong> ",
                Text(typographic(&caveat.sentence)),
                "</li>",
            );
        }
        sink.put("</ul>")?;
    }
    sink.put("</div>")?;
    let mut facts: Vec<(String, String)> = Vec::new();
    for (index, arm) in (0_u32..).zip(&document.arms) {
        let version = arm.server_version.as_deref().unwrap_or("version not known");
        facts.push((
            format!("{} {}", model::letter(index), model::role_word(arm.role)),
            format!("{}: {version}", arm.name),
        ));
    }
    let changed = model::changed(document);
    let differs = if changed.is_empty() {
        "nothing that is recorded".to_owned()
    } else {
        let mut words: Vec<String> = changed
            .iter()
            .take(6)
            .map(|said| match said.tone {
                Tone::Neutral => said.sentence.clone(),
                _ => format!("{} (not declared)", said.sentence),
            })
            .collect();
        if changed.len() > 6 {
            words.push(format!("and {} more", changed.len() - 6));
        }
        words.join("; ")
    };
    facts.push(("What differs".to_owned(), typographic(&differs)));
    let unchanged = model::unchanged(document);
    if !unchanged.is_empty() {
        facts.push(("What is equal".to_owned(), unchanged));
    }
    let when = match &document.ended_at {
        Some(end) => format!("{} to {end}", document.started_at),
        None => format!("begun {}, not finished", document.started_at),
    };
    facts.push(("When".to_owned(), when));
    facts.push(("Where".to_owned(), machine_words(document)));
    facts.push(("Protocol".to_owned(), model::protocol_sentence(document)));
    tables::facts(&facts, sink)?;
    sink.put("</header>")
}

fn machine_words(document: &SessionDocument) -> String {
    let machine = &document.machine;
    let words: Vec<String> = [
        machine.cpu.clone(),
        machine.cpu_count.map(|count| format!("{count} processors")),
        machine.memory_bytes.map(|bytes| number::bytes(number::to_f64(bytes))),
        machine.kernel.clone(),
        machine.file_system.clone(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if words.is_empty() { "not recorded".to_owned() } else { words.join(", ") }
}

fn contents(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    sink.put("<nav aria-label=\"Contents\">")?;
    if document.analysis.is_some() {
        sink.put(
            "<a href=\"#measures\">Measures</a> <a href=\"#shift\">Percentiles</a> \
             <a href=\"#pairs\">Pairs</a> <a href=\"#tail\">Tail</a> ",
        )?;
    }
    sink.put(
        "<a href=\"#timelines\">Timelines</a> <a href=\"#histogram\">Distribution</a> \
         <a href=\"#stalls\">Stalls</a> ",
    )?;
    if document.analysis.is_some() {
        sink.put("<a href=\"#costs\">Costs</a> <a href=\"#noise\">Noise and validity</a> ")?;
    }
    sink.put(
        "<a href=\"#keys\">Keys</a> <a href=\"#settings\">Settings</a> <a href=\"#machine\">Machine</a> \
         <a href=\"#method\">Method</a> <a href=\"#repeat\">Repeat</a> <a href=\"#numbers\">Numbers</a></nav>",
    )
}

fn comparison_sections(
    document: &SessionDocument,
    analysis: &Analysis,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let comparison = &analysis.comparison;
    if comparison.verdict.kind == VerdictKind::Invalid {
        sink.put(
            "<p class=\"notice\">The figures below are those of an invalid session. They are shown for \
             finding the fault, not for judging.</p>",
        )?;
    }
    section(sink, "measures", "Measures")?;
    tables::measures(document, comparison, Group::Latency, sink)?;
    put!(
        sink,
        "<p class=\"aside\">",
        model::LEGEND,
        ". The shaded strip is the margin that matters.</p>"
    );
    for further in &analysis.further {
        put!(
            sink,
            "<details><summary>",
            Text(format!(
                "{} against {}",
                model::arm_name(document, further.arm),
                model::arm_name(document, further.against)
            )),
            "</summary>",
        );
        tables::measures(document, further, Group::Latency, sink)?;
        shift::single(document, further, sink)?;
        sink.put("</details>")?;
    }
    sink.put("</section>")?;
    section(sink, "shift", "Where in the distribution")?;
    put!(
        sink,
        "<p>By how much each percentile changed, first by percentile, then by how long such a transaction \
         takes in the baseline. Below the line ",
        Text(model::arm_name(document, comparison.arm)),
        " is faster.</p>",
    );
    shift::section(document, comparison, sink)?;
    shift::table(document, comparison, sink)?;
    sink.put("</section>")?;
    section(sink, "pairs", "Pair by pair")?;
    sink.put(
        "<p>One dot a run, in the order of time; a line joins the runs of a pair. What counts as evidence \
         is the lines, not the dots.</p>",
    )?;
    pairs::section(document, comparison, sink)?;
    sink.put("</section>")?;
    section(sink, "tail", "How many took at least so long")?;
    exceedance::curve(document, sink)?;
    exceedance::table(document, comparison, sink)?;
    sink.put("</section>")
}

fn noise(document: &SessionDocument, analysis: &Analysis, sink: &mut Sink<'_>) -> io::Result<()> {
    section(sink, "noise", "Noise and validity")?;
    sink.put("<ul>")?;
    let is_told = analysis.noise.iter().any(|note| note.kind == "floor");
    if let Some(floor) = analysis.floor_ratio.filter(|_| !is_told) {
        put!(
            sink,
            "<li>A/A floor: two physical instances of one arm differed by up to <b>",
            Text(number::percent(floor)),
            "</b> in the primary measure.</li>",
        );
    }
    for note in analysis.noise.iter().take(60) {
        put!(sink, "<li>", Text(&note.text), "</li>");
    }
    for warning in document.machine.warnings.iter().take(40) {
        put!(sink, "<li>Machine: ", Text(warning), "</li>");
    }
    sink.put("</ul>")?;
    tables::gates(analysis, sink)?;
    sink.put("</section>")
}

fn place(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    section(sink, "machine", "Machine and arms")?;
    let machine = &document.machine;
    let mut facts: Vec<(String, String)> = [
        ("Processor", machine.cpu.clone()),
        ("Logical processors", machine.cpu_count.map(|count| count.to_string())),
        ("Memory", machine.memory_bytes.map(|bytes| number::bytes(number::to_f64(bytes)))),
        ("Kernel", machine.kernel.clone()),
        ("File system", machine.file_system.clone()),
        ("Clock source", machine.clock_source.clone()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.unwrap_or_else(|| "not recorded".to_owned())))
    .collect();
    facts.extend(machine.facts.iter().take(80).map(|(name, value)| (name.clone(), value.clone())));
    tables::facts(&facts, sink)?;
    for arm in document.arms.iter().take(8) {
        let mut facts = vec![
            ("Role".to_owned(), model::role_word(arm.role).to_owned()),
            ("Kind".to_owned(), arm.kind.clone()),
            ("Address".to_owned(), arm.address.clone()),
        ];
        for (name, value) in [
            ("Server", &arm.server_version),
            ("Build options", &arm.build_options),
            ("Data", &arm.data_hash),
        ] {
            facts.push((
                name.to_owned(),
                value.clone().unwrap_or_else(|| "not recorded".to_owned()),
            ));
        }
        let declared: Vec<String> =
            arm.declared_settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if !declared.is_empty() {
            facts.push(("Declared settings".to_owned(), declared.join("; ")));
        }
        if !arm.environment_names.is_empty() {
            facts.push(("Environment".to_owned(), arm.environment_names.join(" ")));
        }
        put!(sink, "<h3>", Text(&arm.name), "</h3>");
        tables::facts(&facts, sink)?;
    }
    sink.put("</section>")
}

fn method(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    section(sink, "method", "Method")?;
    put!(sink, "<p>", model::METHODS, "</p><p>", Text(model::protocol_sentence(document)));
    put!(
        sink,
        " The margin that matters is ",
        Text(number::percent(document.protocol.margin_ratio)),
        " of ",
        Text(model::measure_name(&document.protocol.primary).title),
        ".",
    );
    if let Some(analysis) = &document.analysis {
        put!(sink, " Sign flips were drawn with seed ", Text(analysis.flip_seed.to_string()), ".");
    }
    sink.put("</p><ol class=\"references\">")?;
    for reference in model::REFERENCES {
        put!(sink, "<li>", reference, "</li>");
    }
    sink.put("</ol></section>")?;
    section(sink, "repeat", "Repeat it")?;
    let rerun = model::rerun(document);
    if rerun.is_empty() {
        sink.put("<p class=\"none\">The command was not recorded.</p>")?;
    } else {
        put!(sink, "<pre class=\"command\">", Lines(rerun), "</pre>");
    }
    put!(
        sink,
        "<p class=\"aside\">evenkeel ",
        Text(&document.evenkeel_version),
        ", schema ",
        Text(&document.schema),
        ", seed ",
        Text(document.protocol.seed.to_string()),
        ".</p></section>",
    );
    Ok(())
}

fn section(sink: &mut Sink<'_>, id: &'static str, heading: &'static str) -> io::Result<()> {
    put!(sink, "<section id=\"", id, "\"><h2>", heading, "</h2>");
    Ok(())
}

#[cfg(test)]
mod tests;
