//! The pairs: one dot a run, a line to its partner, in the order of time.

use std::io;

use super::chart::{self, Anchor, Chart};
use super::escape::{Sink, Text, put};
use super::scale::{Quantity, Scale, Spread};
use super::shift::short;
use crate::experiment::document::{Comparison, MeasureRow, Run, SessionDocument};
use crate::report::{model, number};

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 232.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = HEIGHT - 42.0;
/// Runs drawn; more could not be told apart.
const RUNS_MAX: usize = 240;
/// Panels shown; the rest is in the files.
const PANELS_MAX: usize = 6;

/// One panel for each main measure, the primary first.
pub(super) fn section(
    document: &SessionDocument,
    comparison: &Comparison,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    const WANTED: [&str; 7] = [
        "response_p99",
        "throughput",
        "response_mean",
        "response_p50",
        "response_p99.9",
        "response_p99_9",
        "response_max",
    ];
    let mut rows: Vec<&MeasureRow> = comparison.rows.iter().filter(|row| row.is_primary).collect();
    for wanted in WANTED {
        rows.extend(comparison.rows.iter().filter(|row| row.measure == wanted && !row.is_primary));
    }
    rows.retain(|row| {
        document
            .runs
            .iter()
            .any(|run| model::run_value(run, &row.measure).is_some_and(f64::is_finite))
    });
    if rows.is_empty() {
        return sink.put("<p class=\"none\">No run holds a measure that could be drawn.</p>");
    }
    let entries: Vec<_> = (0_u32..)
        .zip(&document.arms)
        .map(|(arm, found)| {
            (Some(chart::arm_form(arm)), "dot", chart::arm_class(arm), found.name.clone())
        })
        .collect();
    chart::legend(sink, &entries)?;
    sink.put("<div class=\"panels\">")?;
    for row in rows.into_iter().take(PANELS_MAX) {
        sink.put("<figure>")?;
        panel(document, comparison, row, sink)?;
        put!(sink, "<figcaption>", Text(caption(row)), "</figcaption></figure>");
    }
    sink.put("</div>")
}

fn panel(
    document: &SessionDocument,
    comparison: &Comparison,
    row: &MeasureRow,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let drawn = || document.runs.iter().take(RUNS_MAX);
    let value = |run: &Run| model::run_value(run, &row.measure).filter(|value| value.is_finite());
    let is_time = row.unit == "ns";
    let (spread, quantity) = if is_time {
        (Spread::Logarithmic, Quantity::TimeNs)
    } else {
        (Spread::Linear, Quantity::Plain)
    };
    let y =
        Scale::covering(spread, quantity, document.runs.iter().filter_map(value), (BOTTOM, TOP));
    let blocks = document.runs.iter().map(|run| run.block).max().unwrap_or(0);
    let x = Scale::covering(
        Spread::Linear,
        Quantity::Plain,
        [-0.5, f64::from(blocks) + 0.5].into_iter(),
        (LEFT, RIGHT),
    );
    let title = model::measure_name(&row.measure).title;
    chart::open(sink, WIDTH, HEIGHT, &format!("{title} of each run, by block"))?;
    let unit = if is_time { "" } else { " per second" };
    let star = if row.is_primary { " (primary)" } else { "" };
    let mut drawing = Chart { sink, x, y };
    drawing.axes(0, "block, in order of time", 5, &format!("{title}{unit}{star}"))?;
    let every = blocks / 16 + 1;
    for block in (0..=blocks.min(4096)).filter(|block| block.is_multiple_of(every)) {
        if let Some(at) = x.at(f64::from(block)) {
            let words = model::ordinal(block).to_string();
            chart::label(drawing.sink, (at, BOTTOM + 15.0), Anchor::Middle, "mark", &words)?;
        }
    }
    // Within a block the runs stand side by side in the order in which they were run.
    let width = f64::from(u32::try_from(document.arms.len().clamp(1, 6)).unwrap_or(1));
    let place = |run: &Run| {
        let step = 0.56 / width;
        f64::from(run.block) + step * (f64::from(run.position.min(6)) - (width - 1.0) / 2.0)
    };
    for run in drawn().filter(|run| run.arm == comparison.arm) {
        let partner =
            drawn().find(|other| other.arm == comparison.against && other.block == run.block);
        let Some(partner) = partner else { continue };
        let (Some(own), Some(other)) = (value(run), value(partner)) else { continue };
        let is_better = row.larger_is_better.map(|larger| (own > other) == larger);
        let class = match is_better {
            Some(true) => "good",
            Some(false) => "bad",
            None => "",
        };
        drawing.line(
            [(place(partner), Some(other)), (place(run), Some(own))].into_iter(),
            "pair",
            class,
        )?;
    }
    for run in drawn() {
        let Some(own) = value(run) else { continue };
        let shown = if is_time { number::time(own) } else { number::significant(own) };
        let hover = format!("{}: {shown}", model::run_name(run));
        drawing.dot(
            (place(run), own),
            chart::arm_form(run.arm),
            if run.incomplete.is_some() { "hollow" } else { "dot" },
            chart::arm_class(run.arm),
            &hover,
        )?;
    }
    chart::close(sink)
}

/// The change, and how far it moves when any one pair is left out.
fn caption(row: &MeasureRow) -> String {
    // With the pair's place: pairs that lack the measure are left out, and must not shift the others.
    let logs: Vec<(u32, f64)> = (0_u32..)
        .zip(&row.pair_log_ratios)
        .filter_map(|(place, log)| Some((place, (*log)?)))
        .filter(|(_, log)| log.is_finite())
        .collect();
    let Some(change) = row.change_ratio else {
        return "no change could be computed".to_owned();
    };
    if logs.len() < 3 {
        let pairs = if logs.len() == 1 { "pair" } else { "pairs" };
        return format!("change {} over {} {pairs}", number::change(change), logs.len());
    }
    let sum: f64 = logs.iter().map(|(_, log)| log).sum();
    let others = f64::from(u32::try_from(logs.len() - 1).unwrap_or(u32::MAX));
    let without: Vec<(u64, f64)> = logs
        .iter()
        .map(|(place, log)| (model::ordinal(*place), ((sum - log) / others).exp_m1()))
        .collect();
    let least = without.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let most = without.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match (least, most) {
        (Some((least_at, least)), Some((most_at, most))) => format!(
            "change {}; leaving out one pair: from {} (without pair {least_at}) to {} (without pair {most_at})",
            number::change(change),
            number::change(*least),
            number::change(*most),
        ),
        _ => short(&number::change(change)),
    }
}
