//! The page's tables.

use std::collections::BTreeSet;
use std::io;

use super::escape::{At, Sink, Text, Whole, put};
use super::scale::{Quantity, Scale, Spread};
use super::{chart, timeline};
use crate::experiment::difference;
use crate::experiment::document::{
    Analysis, Comparison, Episode, GateStatus, KeyAudit, MeasureRow, RowKind, Run, SessionDocument,
};
use crate::report::model::{self, Group, Tone};
use crate::report::number;

/// Runs, stalls and settings shown; more are in the files.
const STALLS_MAX: usize = 50;
const RUNS_MAX: usize = 240;
const ROWS_MAX: usize = 150;
const SETTINGS_MAX: usize = 1000;

/// A conclusion's cell.
pub(super) fn conclusion(kind: RowKind, margin_ratio: f64, sink: &mut Sink<'_>) -> io::Result<()> {
    let sign = if matches!(kind, RowKind::Better | RowKind::Worse) { "● " } else { "" };
    put!(
        sink,
        "<td class=\"",
        tone_class(model::row_tone(kind)),
        "\">",
        sign,
        Text(model::row_mark(kind, margin_ratio)),
        "</td>",
    );
    Ok(())
}

/// The class of a tone.
pub(super) const fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Warning => "warning",
        Tone::Neutral => "neutral",
    }
}

/// Measures of one group, with the interval also drawn.
pub(super) fn measures(
    document: &SessionDocument,
    comparison: &Comparison,
    group: Group,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let mut rows: Vec<&MeasureRow> = comparison
        .rows
        .iter()
        .filter(|row| model::measure_name(&row.measure).group == group)
        .filter(|row| group == Group::Latency || row.value.is_some() || row.against_value.is_some())
        .collect();
    if group == Group::Latency {
        rows.sort_by_key(|row| {
            let name = model::measure_name(&row.measure);
            let family =
                ["throughput", "response", "service", "lag"].iter().position(|f| *f == name.family);
            (family, model::part_order(&name.part))
        });
    }
    if rows.is_empty() {
        return sink.put("<p class=\"none\">Nothing was compared.</p>");
    }
    let scale = Scale::covering(
        Spread::Change,
        Quantity::Change,
        rows.iter()
            .filter(|row| row.kind != RowKind::TooFew)
            .flat_map(|row| [row.low_ratio, row.high_ratio, row.change_ratio])
            .flatten(),
        (4.0, 176.0),
    );
    put!(
        sink,
        "<div class=\"scroll\"><table class=\"measures\"><thead><tr><th>measure</th><th class=\"n\">",
        Text(model::arm_name(document, comparison.against)),
        "</th><th class=\"n\">",
        Text(model::arm_name(document, comparison.arm)),
        "</th><th></th><th class=\"n\">change</th><th class=\"n\">95% interval, %</th>\
         <th class=\"drawn\">interval</th><th class=\"n\">p (adjusted)</th>\
         <th class=\"n\">would detect</th><th>conclusion</th></tr></thead><tbody>",
    );
    for row in rows.into_iter().take(ROWS_MAX) {
        let values = model::row_values(document, comparison, row);
        let name = if group == Group::Cost {
            model::cost_label(&row.measure)
        } else {
            model::measure_name(&row.measure).title
        };
        put!(
            sink,
            if row.is_primary {
                "<tr class=\"primary\"><th scope=\"row\">"
            } else {
                "<tr><th scope=\"row\">"
            },
            Text(name),
            if row.is_primary { " <small>primary</small>" } else { "" },
            "</th><td class=\"n\">",
            Text(values.against),
            "</td><td class=\"n\">",
            Text(values.value),
            "</td><td class=\"u\">",
            values.unit,
            "</td><td class=\"n\">",
            Text(row.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change)),
            "</td><td class=\"n\">",
            Text(number::interval(row.low_ratio, row.high_ratio)),
            "</td><td class=\"drawn\">",
        );
        interval_bar(row, &scale, document.protocol.margin_ratio, sink)?;
        put!(
            sink,
            "</td><td class=\"n\">",
            Text(number::probability(row.p_adjusted.or(row.p))),
            "</td><td class=\"n\">",
            Text(row.detectable_ratio.map_or_else(|| "-".to_owned(), number::percent)),
            "</td>",
        );
        conclusion(row.kind, document.protocol.margin_ratio, sink)?;
        sink.put("</tr>")?;
        for note in row.notes.iter().take(4) {
            put!(sink, "<tr class=\"note\"><td></td><td colspan=\"9\">", Text(note), "</td></tr>");
        }
    }
    sink.put("</tbody></table></div>")
}

pub(super) fn interval_bar(
    row: &MeasureRow,
    scale: &Scale,
    margin: f64,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    sink.put("<svg class=\"bar\" viewBox=\"0 0 180 18\" aria-hidden=\"true\">")?;
    if let (Some(low), Some(high)) = (scale.at(1.0 / (1.0 + margin) - 1.0), scale.at(margin)) {
        chart::area(sink, (low, high), (1.0, 17.0), "margin", "")?;
    }
    if let Some(zero) = scale.at(0.0) {
        chart::rule(sink, (zero, 0.0), (zero, 18.0), "zero")?;
    }
    let tone = tone_class(model::row_tone(row.kind));
    if let (Some(low), Some(high)) =
        (row.low_ratio.and_then(|v| scale.at(v)), row.high_ratio.and_then(|v| scale.at(v)))
    {
        put!(
            sink,
            "<path class=\"whisker ",
            tone,
            "\" d=\"M",
            At(low),
            " 9H",
            At(high.max(low + 1.0)),
            "\"/>",
        );
    }
    if let Some(at) = row.change_ratio.and_then(|change| scale.at(change)) {
        put!(sink, "<circle class=\"point ", tone, "\" cx=\"", At(at), "\" cy=\"9\" r=\"4\"/>");
    }
    sink.put("</svg>")
}

/// Every counter and outcome of the runs, pooled by arm: sums of counters per transaction, means of
/// sizes. For looking things up; what carries an interval stands in the table of measures.
pub(super) fn counters(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut names: BTreeSet<(bool, &String)> = BTreeSet::new();
    for run in document.runs.iter().take(RUNS_MAX) {
        names.extend(run.counters.keys().map(|name| (false, name)));
        names.extend(run.outcomes.keys().map(|name| (true, name)));
    }
    if names.is_empty() {
        return Ok(());
    }
    put!(
        sink,
        "<details><summary>All counters and outcomes by arm</summary><div class=\"scroll\"><table><thead><tr>\
         <th>name</th><th></th>",
    );
    for arm in &document.arms {
        put!(sink, "<th class=\"n\">", Text(&arm.name), "</th>");
    }
    sink.put("</tr></thead><tbody>")?;
    for (is_outcome, name) in names.into_iter().take(SETTINGS_MAX) {
        put!(
            sink,
            "<tr><th scope=\"row\">",
            Text(name),
            if is_outcome {
                "</th><td class=\"u\">mean of runs</td>"
            } else {
                "</th><td class=\"u\">per transaction</td>"
            },
        );
        for (arm, _) in (0_u32..).zip(&document.arms) {
            let mut sum = 0.0;
            let mut weight = 0.0;
            for run in document.runs.iter().filter(|run| run.arm == arm) {
                let values = if is_outcome { &run.outcomes } else { &run.counters };
                if let Some(value) = values.get(name).copied().flatten() {
                    sum += value;
                    weight += if is_outcome { 1.0 } else { number::to_f64(run.counts.committed) };
                }
            }
            let value = if weight > 0.0 {
                number::significant(sum / weight)
            } else {
                number::ABSENT.to_owned()
            };
            put!(sink, "<td class=\"n\">", Text(value), "</td>");
        }
        sink.put("</tr>")?;
    }
    sink.put("</tbody></table></div></details>")
}

/// Delay by what it coincided with.
pub(super) fn stall_causes(
    document: &SessionDocument,
    comparison: &Comparison,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    if comparison.stalls.is_empty() {
        return sink.put("<p class=\"none\">No stall was attributed.</p>");
    }
    let longest = comparison
        .stalls
        .iter()
        .flat_map(|row| [row.delay_ns, row.against_delay_ns])
        .max()
        .map_or(1.0, |ns| number::to_f64(ns).max(1.0));
    put!(
        sink,
        "<div class=\"scroll\"><table><thead><tr><th>delay inside</th><th class=\"n\">",
        Text(model::arm_name(document, comparison.against)),
        "</th><th class=\"n\">",
        Text(model::arm_name(document, comparison.arm)),
        "</th><th></th><th class=\"n\">difference</th><th class=\"n\">lift over chance</th>\
         </tr></thead><tbody>",
    );
    for row in &comparison.stalls {
        let (against, own) = (number::to_f64(row.against_delay_ns), number::to_f64(row.delay_ns));
        let sign = if own > against { "+" } else { "" };
        put!(
            sink,
            "<tr><th scope=\"row\">",
            Text(model::event_words(&row.kind)),
            "</th><td class=\"n\">",
            Text(number::time(against)),
            "</td><td class=\"n\">",
            Text(number::time(own)),
            "</td><td><svg class=\"bar\" viewBox=\"0 0 180 18\" aria-hidden=\"true\">",
        );
        let length = |ns: f64| (ns / longest * 178.0).max(if ns > 0.0 { 1.0 } else { 0.0 });
        chart::area(
            sink,
            (0.0, length(against)),
            (2.0, 8.0),
            chart::arm_class(comparison.against),
            "",
        )?;
        chart::area(sink, (0.0, length(own)), (10.0, 16.0), chart::arm_class(comparison.arm), "")?;
        put!(
            sink,
            "</svg></td><td class=\"n\">",
            sign,
            Text(number::time(own - against)),
            "</td><td class=\"n\">",
            Text(
                Some(model::lift_words(row))
                    .filter(|words| !words.is_empty())
                    .unwrap_or("-".into())
            ),
            "</td></tr>",
        );
    }
    sink.put("</tbody></table></div>")
}

/// The longest stalls of all runs.
pub(super) fn stall_list(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut all: Vec<(usize, &Run, &Episode)> = document
        .runs
        .iter()
        .enumerate()
        .flat_map(|(place, run)| run.episodes.iter().map(move |episode| (place, run, episode)))
        .collect();
    if all.is_empty() {
        return sink.put("<p class=\"none\">No stall was seen in any run.</p>");
    }
    all.sort_by_key(|(place, _, episode)| (std::cmp::Reverse(episode.worst_ns), *place));
    put!(
        sink,
        "<p>",
        Text(number::count(all.len() as u64)),
        if all.len() > STALLS_MAX {
            " stalls in all runs, of which the longest 50 are listed."
        } else {
            " stalls in all runs."
        },
        "</p><details",
        if all.len() <= 12 { " open" } else { "" },
        "><summary>List</summary><div class=\"scroll\"><table><thead><tr>\
         <th>arm</th><th class=\"n\">run</th><th class=\"n\">begins at</th><th class=\"n\">lasts</th>\
         <th class=\"n\">longest wait</th><th class=\"n\">clients</th><th class=\"n\">transactions</th>\
         <th class=\"n\">delay in sum</th><th>coincides with</th></tr></thead><tbody>",
    );
    for (place, run, episode) in all.into_iter().take(STALLS_MAX) {
        put!(
            sink,
            "<tr><th scope=\"row\"><span class=\"name ",
            chart::arm_class(run.arm),
            "\">",
            Text(model::arm_name(document, run.arm)),
            "</span></th><td class=\"n\">",
        );
        run_link(document, place, run, sink)?;
        sink.put("</td>")?;
        for cell in [
            number::time(number::to_f64(episode.start_ns)),
            number::time(number::to_f64(episode.end_ns.saturating_sub(episode.start_ns))),
            number::time(number::to_f64(episode.worst_ns)),
            number::count(u64::from(episode.clients)),
            number::count(episode.transactions),
            number::time(number::to_f64(episode.total_delay_ns)),
        ] {
            put!(sink, "<td class=\"n\">", Text(cell), "</td>");
        }
        let causes: Vec<String> =
            episode.coincides_with.iter().take(6).map(|kind| model::event_words(kind)).collect();
        put!(sink, "<td>", Text(causes.join(", ")), "</td></tr>");
    }
    sink.put("</tbody></table></div></details>")
}

/// A run's number, leading to its drawing where there is one. Drawings are named by the run's place in
/// the document, which is unique even where somebody edited the indices.
fn run_link(
    document: &SessionDocument,
    place: usize,
    run: &Run,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    if timeline::is_drawn(document, place) {
        put!(
            sink,
            "<a href=\"#run-",
            Whole(place as u64),
            "\">",
            Whole(model::ordinal(run.index)),
            "</a>"
        );
    } else {
        put!(sink, Whole(model::ordinal(run.index)));
    }
    Ok(())
}

/// One line a run.
pub(super) fn runs(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    if document.runs.is_empty() {
        return sink.put("<p class=\"none\">No run was measured.</p>");
    }
    put!(
        sink,
        "<details><summary>All runs</summary><div class=\"scroll\"><table><thead><tr>\
         <th class=\"n\">run</th><th class=\"n\">block</th><th>arm</th><th class=\"n\">instance</th>\
         <th>began</th><th class=\"n\">committed</th><th class=\"n\">failed</th><th class=\"n\">skipped</th>\
         <th class=\"n\">censored</th><th class=\"n\">per second</th><th class=\"n\">response p50</th>\
         <th class=\"n\">p99</th><th class=\"n\">max</th><th class=\"n\">lag p99</th>\
         <th class=\"n\">stalls</th><th>remark</th></tr></thead><tbody>",
    );
    for (place, run) in document.runs.iter().enumerate().take(RUNS_MAX) {
        sink.put("<tr><th class=\"n\">")?;
        run_link(document, place, run, sink)?;
        put!(
            sink,
            "</th><td class=\"n\">",
            Whole(model::ordinal(run.block)),
            "</td><td><span class=\"name ",
            chart::arm_class(run.arm),
            "\">",
            Text(model::arm_name(document, run.arm)),
            "</span></td><td class=\"n\">",
            Whole(u64::from(run.instance)),
            "</td><td>",
            Text(&run.started_at),
            "</td>",
        );
        let counts = &run.counts;
        let failed = u128::from(counts.serialization_failures)
            + u128::from(counts.deadlocks)
            + u128::from(counts.other_errors)
            + u128::from(counts.aborted);
        let at = |q: f64| {
            let percentile = run.response.percentiles.iter().find(|p| (p.q - q).abs() < 1e-9);
            percentile.map_or_else(
                || number::ABSENT.to_owned(),
                |p| {
                    let bound = if p.is_lower_bound { "at least " } else { "" };
                    format!("{bound}{}", number::time(number::to_f64(p.value_ns)))
                },
            )
        };
        let lag = model::run_quantile(&run.lag, 0.99);
        for cell in [
            number::count(counts.committed),
            failed.to_string(),
            number::count(counts.skipped),
            number::count(counts.censored),
            number::maybe(run.throughput_per_s),
            at(0.5),
            at(0.99),
            run.response
                .max_ns
                .map_or_else(|| number::ABSENT.to_owned(), |ns| number::time(number::to_f64(ns))),
            lag.map_or_else(|| number::ABSENT.to_owned(), number::time),
            number::count(run.episodes.len() as u64),
        ] {
            put!(sink, "<td class=\"n\">", Text(cell), "</td>");
        }
        put!(sink, "<td>", Text(run.incomplete.as_deref().unwrap_or("")), "</td></tr>");
    }
    sink.put("</tbody></table></div></details>")
}

/// Every gate.
pub(super) fn gates(analysis: &Analysis, sink: &mut Sink<'_>) -> io::Result<()> {
    let (said, _) = model::validity(analysis);
    put!(
        sink,
        "<p><strong class=\"",
        tone_class(said.tone),
        "\">",
        said.word,
        "</strong> ",
        Text(&said.sentence),
        ".</p><div class=\"scroll\"><table><thead><tr><th>condition</th><th>holds</th><th>seen</th></tr>\
         </thead><tbody>",
    );
    for gate in analysis.gates.iter().take(ROWS_MAX) {
        let (class, word) = match gate.status {
            GateStatus::Passed => ("neutral", "yes"),
            GateStatus::Warned => ("warning", "yes, but"),
            GateStatus::Failed => ("bad", "NO"),
            GateStatus::NotApplicable => ("neutral", "not applicable"),
        };
        put!(
            sink,
            "<tr><th scope=\"row\">",
            Text(gate.name.replace('_', " ")),
            "</th><td class=\"",
            class,
            "\">",
            word,
            "</td><td>",
            Text(&gate.text),
            "</td></tr>",
        );
    }
    sink.put("</tbody></table></div>")
}

/// Shares of draws, expected and drawn, once for each distinct source.
pub(super) fn audits(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    let audits: Vec<(&Run, &KeyAudit)> = document
        .runs
        .iter()
        .flat_map(|run| run.key_audits.iter().map(move |audit| (run, audit)))
        .collect();
    if audits.is_empty() {
        return sink.put("<p class=\"none\">No key was drawn by a function of a script.</p>");
    }
    let failed = audits.iter().filter(|(_, audit)| !audit.is_passed).count();
    put!(
        sink,
        "<p>",
        Text(number::count(audits.len() as u64)),
        " audits, one for each run and key function; ",
        Text(if failed == 0 {
            let few = audits.iter().filter(|(_, audit)| model::is_audit_too_small(audit)).count();
            if few == 0 {
                "all agree with their distribution".to_owned()
            } else if few == audits.len() {
                "all have too few draws to judge".to_owned()
            } else {
                format!("none disagrees; {few} have too few draws to judge")
            }
        } else {
            format!("{failed} do not agree")
        }),
        ". Shown: any that failed, and the first run's.</p><div class=\"scroll\"><table><thead><tr>\
         <th>drawn by</th><th>distribution</th><th class=\"n\">run</th><th class=\"n\">keys</th><th class=\"n\">draws</th>\
         <th class=\"n\">top keys</th><th class=\"n\">expected</th><th class=\"n\">drawn</th><th>agrees</th>\
         </tr></thead><tbody>",
    );
    for (run, audit) in audits.into_iter().take(4096) {
        if !seen.insert(&audit.source) && audit.is_passed {
            continue;
        }
        if seen.len() > 40 {
            break;
        }
        for (place, share) in audit.shares.iter().take(12).enumerate() {
            sink.put("<tr>")?;
            if place == 0 {
                put!(
                    sink,
                    "<th scope=\"row\">",
                    Text(&audit.source),
                    "</th><td>",
                    Text(&audit.distribution)
                );
                put!(
                    sink,
                    "</td><td class=\"n\">",
                    Whole(model::ordinal(run.index)),
                    "</td><td class=\"n\">"
                );
                put!(sink, Text(number::count(audit.keys)), "</td><td class=\"n\">");
                put!(sink, Text(number::count(audit.draws)), "</td>");
            } else {
                sink.put("<td colspan=\"5\"></td>")?;
            }
            put!(
                sink,
                "<td class=\"n\">",
                Text(number::percent(share.top_ratio)),
                "</td><td class=\"n\">",
                Text(share_text(Some(share.expected_ratio))),
                "</td><td class=\"n\">",
                Text(share_text(share.drawn_ratio)),
                "</td>",
            );
            if place == 0 {
                let (word, tone) = model::audit_word(audit);
                put!(sink, "<td class=\"", tone_class(tone), "\">", word, "</td></tr>");
            } else {
                sink.put("<td></td></tr>")?;
            }
        }
    }
    sink.put("</tbody></table></div>")
}

/// Five digits: here agreement is the point.
fn share_text(share: Option<f64>) -> String {
    share.filter(|s| s.is_finite()).map_or_else(|| number::ABSENT.to_owned(), |s| format!("{s:.5}"))
}

/// What differs, then every recorded setting of every arm.
pub(super) fn settings(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let changed = model::changed(document);
    if changed.is_empty() {
        sink.put("<p class=\"none\">Nothing that is recorded differs between the arms.</p>")?;
    } else {
        sink.put(
            "<div class=\"scroll\"><table><thead><tr><th>what</th><th>arm</th><th>baseline</th><th>there</th>\
             <th>declared</th></tr></thead><tbody>",
        )?;
        for difference in document.differences.iter().take(SETTINGS_MAX) {
            put!(
                sink,
                "<tr><th scope=\"row\">",
                Text(&difference.what),
                "</th><td>",
                Text(model::arm_name(document, difference.arm)),
                "</td><td><code>",
                Text(difference.baseline.as_deref().unwrap_or("(absent)")),
                "</code></td><td><code>",
                Text(difference.other.as_deref().unwrap_or("(absent)")),
                if difference::is_of_binaries(difference, &document.arms) {
                    "</code></td><td class=\"neutral\">default of the binaries</td></tr>"
                } else if difference.is_declared {
                    "</code></td><td class=\"neutral\">yes</td></tr>"
                } else {
                    "</code></td><td class=\"warning\">NO</td></tr>"
                },
            );
        }
        sink.put("</tbody></table></div>")?;
    }
    let names: BTreeSet<&String> =
        document.arms.iter().flat_map(|arm| arm.captured_settings.keys()).collect();
    if names.is_empty() {
        return Ok(());
    }
    put!(
        sink,
        "<details><summary>All ",
        Whole(names.len() as u64),
        " recorded settings</summary><div class=\"scroll\"><table><thead><tr><th>setting</th>",
    );
    for arm in &document.arms {
        put!(sink, "<th>", Text(&arm.name), "</th>");
    }
    sink.put("</tr></thead><tbody>")?;
    for name in names.into_iter().take(SETTINGS_MAX) {
        let values: Vec<Option<&String>> =
            document.arms.iter().map(|arm| arm.captured_settings.get(name)).collect();
        let is_equal = values.windows(2).all(|pair| pair.first() == pair.last());
        put!(
            sink,
            if is_equal {
                "<tr><th scope=\"row\">"
            } else {
                "<tr class=\"differs\"><th scope=\"row\">"
            },
            Text(name),
            "</th>",
        );
        for value in values {
            put!(
                sink,
                "<td><code>",
                Text(value.map_or("(absent)", String::as_str)),
                "</code></td>"
            );
        }
        sink.put("</tr>")?;
    }
    sink.put("</tbody></table></div></details>")
}

/// Arms and machine as name and value.
pub(super) fn facts(facts: &[(String, String)], sink: &mut Sink<'_>) -> io::Result<()> {
    sink.put("<dl class=\"facts\">")?;
    for (name, value) in facts {
        put!(sink, "<div><dt>", Text(name), "</dt><dd>", Text(value), "</dd></div>");
    }
    sink.put("</dl>")
}
