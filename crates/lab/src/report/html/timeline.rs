//! Every run second by second, as small multiples on common axes: what transactions waited, what
//! was completed, what piled up, and what the machine did meanwhile.

use std::io;

use super::chart::{self, Anchor, Chart};
use super::escape::{Sink, Text, Whole, put};
use super::scale::{Quantity, Scale, Spread};
use crate::experiment::document::{Event, Run, SessionDocument, TimelineSecond};
use crate::report::{model, number};

const LEFT: f64 = 52.0;
const TOP: f64 = 22.0;
const GAP: f64 = 20.0;
/// Points along a line in sum over all runs: what keeps the page of a large session under 3 MB.
const POINTS_MAX: usize = 12_000;
/// Events and stalls drawn in one run; there are rarely more than ten.
const MARKS_MAX: usize = 60;
/// Blocks shown openly; the others are there to be opened.
const BLOCKS_OPEN: usize = 4;

/// Runs drawn; no session that one would wait for has more.
const RUNS_MAX: usize = 240;

/// Whether a run, by its place in the document, has a drawing that a link may lead to.
pub(super) fn is_drawn(document: &SessionDocument, place: usize) -> bool {
    place < RUNS_MAX && document.runs.iter().any(|run| !run.timeline.is_empty())
}

/// What is drawn in one strip of a run.
struct Strip {
    words: &'static str,
    height: f64,
    spread: Spread,
    quantity: Quantity,
    series: &'static [Series],
}

struct Series {
    class: &'static str,
    is_filled: bool,
    /// Of several seconds: the largest (true) or the mean.
    is_largest: bool,
    value: fn(&TimelineSecond) -> Option<f64>,
}

fn sample(second: &TimelineSecond, name: &str) -> Option<f64> {
    second.samples.get(name).copied().flatten().filter(|value| value.is_finite())
}

const STRIPS: [Strip; 7] = [
    Strip {
        words: "response by planned start: max (strong), p99 (thin)",
        height: 92.0,
        spread: Spread::Logarithmic,
        quantity: Quantity::TimeNs,
        series: &[
            Series {
                class: "thin",
                is_filled: false,
                is_largest: true,
                value: |second| second.p99_ns.map(number::to_f64),
            },
            Series {
                class: "medium",
                is_filled: false,
                is_largest: true,
                value: |second| second.max_ns.map(number::to_f64),
            },
        ],
    },
    Strip {
        words: "completed per second",
        height: 34.0,
        spread: Spread::Linear,
        quantity: Quantity::Plain,
        series: &[Series {
            class: "medium",
            is_filled: false,
            is_largest: false,
            value: |second| Some(number::to_f64(second.finished)),
        }],
    },
    Strip {
        words: "backlog",
        height: 28.0,
        spread: Spread::Linear,
        quantity: Quantity::Plain,
        series: &[Series {
            class: "medium",
            is_filled: true,
            is_largest: true,
            value: |second| Some(number::to_f64(second.backlog)),
        }],
    },
    Strip {
        words: "Dirty (filled), Writeback (line)",
        height: 34.0,
        spread: Spread::Linear,
        quantity: Quantity::Bytes,
        series: &[
            Series {
                class: "grey",
                is_filled: true,
                is_largest: false,
                value: |second| sample(second, "dirty_bytes"),
            },
            Series {
                class: "medium",
                is_filled: false,
                is_largest: true,
                value: |second| sample(second, "writeback_bytes"),
            },
        ],
    },
    Strip {
        words: "WAL per second",
        height: 28.0,
        spread: Spread::Linear,
        quantity: Quantity::Bytes,
        series: &[Series {
            class: "medium",
            is_filled: false,
            is_largest: false,
            value: |second| sample(second, "wal_bytes_per_s"),
        }],
    },
    Strip {
        words: "written to disk per second",
        height: 28.0,
        spread: Spread::Linear,
        quantity: Quantity::Bytes,
        series: &[Series {
            class: "medium",
            is_filled: false,
            is_largest: false,
            value: |second| sample(second, "disk_write_bytes_per_s"),
        }],
    },
    Strip {
        words: "some task waits for I/O (PSI)",
        height: 28.0,
        spread: Spread::Linear,
        quantity: Quantity::Share,
        series: &[Series {
            class: "medium",
            is_filled: true,
            is_largest: true,
            value: |second| sample(second, "psi_io_some_ratio"),
        }],
    },
];

/// All runs, a row for each block, a column for each arm.
pub(super) fn section(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    if document.runs.iter().all(|run| run.timeline.is_empty()) {
        return sink.put("<p class=\"none\">No run holds a timeline.</p>");
    }
    let strips: Vec<(&Strip, Scale)> = STRIPS
        .iter()
        .filter(|strip| has_values(document, strip))
        .map(|strip| (strip, common_scale(document, strip)))
        .collect();
    let seconds = document
        .runs
        .iter()
        .map(|run| number::to_f64(run.duration_ns) / 1e9)
        .filter(|seconds| *seconds < 1e7)
        .fold(1.0_f64, f64::max);
    // Three columns are narrower on the page; a narrower drawing keeps their words as large.
    let width = if document.arms.len() > 2 { 390.0 } else { 520.0 };
    let x = Scale::exact(Quantity::Seconds, (0.0, seconds), (LEFT, width - 8.0));
    put!(
        sink,
        "<p class=\"legend\"><span><i class=\"key write\"></i>checkpoint write</span> \
         <span><i class=\"key sync\"></i>checkpoint sync</span> \
         <span><i class=\"key vacuum\"></i>autovacuum</span> \
         <span><i class=\"key other\"></i>other event</span> \
         <span><i class=\"key stall\"></i>stall (longest wait beside it)</span></p>",
    );
    let drawn: Vec<(usize, &Run)> = document.runs.iter().enumerate().take(RUNS_MAX).collect();
    if document.runs.len() > drawn.len() {
        put!(
            sink,
            "<p>Drawn are the first ",
            Whole(drawn.len() as u64),
            " of ",
            Whole(document.runs.len() as u64),
            " runs.</p>",
        );
    }
    let mut blocks: Vec<u32> = drawn.iter().map(|(_, run)| run.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let shown = blocks.len().min(BLOCKS_OPEN);
    for (place, block) in blocks.iter().enumerate() {
        if place == shown {
            put!(
                sink,
                "<details class=\"rest\"><summary>",
                Whole((blocks.len() - shown) as u64),
                " further blocks</summary>",
            );
        }
        put!(sink, "<h3>Block ", Whole(model::ordinal(*block)), "</h3><div class=\"panels runs\">");
        let mut runs: Vec<_> = drawn.iter().filter(|(_, run)| run.block == *block).collect();
        runs.sort_by_key(|(place, run)| (run.arm, *place));
        for (place, run) in runs {
            panel(document, (*place, run), &strips, x, sink)?;
        }
        sink.put("</div>")?;
    }
    if blocks.len() > shown {
        sink.put("</details>")?;
    }
    Ok(())
}

fn panel(
    document: &SessionDocument,
    (place, run): (usize, &Run),
    strips: &[(&Strip, Scale)],
    x: Scale,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    put!(
        sink,
        "<figure id=\"run-",
        Whole(place as u64),
        "\"><figcaption><b class=\"name ",
        chart::arm_class(run.arm),
        "\">",
        Text(model::arm_name(document, run.arm)),
        "</b> run ",
        Whole(model::ordinal(run.index)),
    );
    if let Some(reason) = &run.incomplete {
        put!(sink, " <strong class=\"warning\">incomplete: ", Text(reason), "</strong>");
    }
    sink.put("</figcaption>")?;
    let height = strips.iter().map(|(strip, _)| strip.height + GAP).sum::<f64>() + TOP + 14.0;
    chart::open(
        sink,
        x.ends().1 + 8.0,
        height,
        &format!("{} second by second", model::run_name(run)),
    )?;
    let bottom = height - 14.0 - GAP;
    bands(run, x, (TOP, bottom), sink)?;
    let mut top = TOP;
    for (place, (strip, scale)) in strips.iter().enumerate() {
        let floor = top + strip.height;
        let y = scale.drawn(floor, top);
        let is_last = place + 1 == strips.len();
        let mut drawing = Chart { sink, x, y };
        strip_frame(&mut drawing, strip, is_last)?;
        for series in strip.series {
            let points = thinned(run, series, document.runs.len());
            let arm = chart::arm_class(run.arm);
            if series.is_filled {
                let area: Vec<_> =
                    points.iter().map(|(at, value)| (*at, value.map(|_| 0.0), *value)).collect();
                drawing.band(&area, "fill", arm)?;
            }
            if series.class != "grey" {
                drawing.line(points.into_iter(), series.class, arm)?;
            }
        }
        top = floor + GAP;
    }
    stalls(run, x, strips.first().map_or(bottom, |(strip, _)| TOP + strip.height), sink)?;
    chart::close(sink)?;
    sink.put("</figure>")
}

fn strip_frame(drawing: &mut Chart<'_, '_>, strip: &Strip, is_last: bool) -> io::Result<()> {
    let (left, right) = drawing.x.ends();
    let (floor, top) = drawing.y.ends();
    let wanted = if strip.height > 50.0 { 5 } else { 2 };
    let mut free = f64::INFINITY;
    for (value, words) in drawing.y.marks(wanted) {
        let Some(at) = drawing.y.at(value) else { continue };
        chart::rule(drawing.sink, (left, at), (right, at), "grid")?;
        if free - at > 10.5 || free.is_infinite() {
            chart::label(drawing.sink, (left - 5.0, at + 4.0), Anchor::End, "mark", &words)?;
            free = at;
        }
    }
    chart::rule(drawing.sink, (left, floor), (right, floor), "axis")?;
    chart::label(drawing.sink, (left, top - 4.0), Anchor::Start, "strip", strip.words)?;
    let mut free = f64::NEG_INFINITY;
    for (value, words) in drawing.x.marks(6) {
        let Some(at) = drawing.x.at(value) else { continue };
        chart::rule(drawing.sink, (at, floor), (at, floor + 3.0), "axis")?;
        if is_last && at > free && at < right - 8.0 {
            chart::label(drawing.sink, (at, floor + 15.0), Anchor::Middle, "mark", &words)?;
            free = at + 40.0;
        }
    }
    Ok(())
}

fn bands(run: &Run, x: Scale, (top, bottom): (f64, f64), sink: &mut Sink<'_>) -> io::Result<()> {
    // `checkpoint` spans write and sync, which are drawn themselves.
    let has_parts = run.events.iter().any(|event| event.kind.starts_with("checkpoint_"));
    let drawn =
        |event: &&Event| event.kind != "clock_jump" && !(has_parts && event.kind == "checkpoint");
    for event in run.events.iter().filter(drawn).take(MARKS_MAX) {
        let (Some(from), Some(to)) = (x.at(seconds(event.start_ns)), x.at(seconds(event.end_ns)))
        else {
            continue;
        };
        if event.end_ns < 0 || from >= x.ends().1 - 0.01 {
            continue;
        }
        let class = match event.kind.as_str() {
            "checkpoint_write" | "checkpoint" => "write",
            "checkpoint_sync" => "sync",
            "autovacuum" => "vacuum",
            _ => "other",
        };
        let hover = format!(
            "{} from {} s for {}: {}",
            model::event_words(&event.kind),
            number::significant(seconds(event.start_ns)),
            number::time((seconds(event.end_ns) - seconds(event.start_ns)) * 1e9),
            event.text
        );
        chart::area(sink, (from, to.max(from + 1.0)), (top, bottom), class, &hover)?;
    }
    Ok(())
}

fn stalls(run: &Run, x: Scale, floor: f64, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut worst: Vec<_> = run.episodes.iter().collect();
    worst.sort_by_key(|episode| std::cmp::Reverse(episode.worst_ns));
    let mut labelled: Vec<f64> = Vec::new();
    for (place, episode) in worst.into_iter().take(MARKS_MAX).enumerate() {
        let start = number::to_f64(episode.start_ns) / 1e9;
        let end = number::to_f64(episode.end_ns) / 1e9;
        let (Some(from), Some(to)) = (x.at(start), x.at(end.max(start))) else { continue };
        let causes = if episode.coincides_with.is_empty() {
            "nothing known".to_owned()
        } else {
            episode
                .coincides_with
                .iter()
                .map(|kind| model::event_words(kind))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let hover = format!(
            "stall from {} s to {} s: {} transactions of {} clients, longest wait {}; coincides with {causes}",
            number::significant(start),
            number::significant(end),
            number::count(episode.transactions),
            episode.clients,
            number::time(number::to_f64(episode.worst_ns)),
        );
        chart::area(sink, (from, to.max(from + 1.5)), (floor - 4.0, floor), "stall", &hover)?;
        if place < 4 && labelled.iter().all(|other| (other - from).abs() > 46.0) {
            let at = from.clamp(LEFT + 22.0, x.ends().1 - 24.0);
            let words = number::time(number::to_f64(episode.worst_ns));
            chart::label(sink, (at, floor - 8.0), Anchor::Middle, "stallword", &words)?;
            labelled.push(from);
        }
    }
    Ok(())
}

fn has_values(document: &SessionDocument, strip: &Strip) -> bool {
    strip.series.iter().any(|series| {
        document
            .runs
            .iter()
            .flat_map(|run| &run.timeline)
            .any(|second| (series.value)(second).is_some_and(|value| value > 0.0))
    })
}

fn common_scale(document: &SessionDocument, strip: &Strip) -> Scale {
    let values = document.runs.iter().flat_map(|run| &run.timeline).flat_map(|second| {
        strip.series.iter().filter_map(|series| (series.value)(second)).filter(|v| *v < 1e300)
    });
    let zero = (strip.spread == Spread::Linear).then_some(0.0);
    Scale::covering(strip.spread, strip.quantity, values.chain(zero), (1.0, 0.0))
}

/// A run's points, several seconds made one where there would be too many.
fn thinned(run: &Run, series: &Series, runs: usize) -> Vec<(f64, Option<f64>)> {
    let points_max = (POINTS_MAX / runs.max(1)).clamp(60, 600);
    let width = run.timeline.len().div_ceil(points_max).max(1);
    run.timeline
        .chunks(width)
        .filter_map(|chunk| {
            let first = chunk.first()?;
            let middle = f64::from(first.second) + small(chunk.len()) / 2.0;
            let values = chunk.iter().filter_map(series.value);
            let value = if series.is_largest {
                values.reduce(f64::max)
            } else {
                let (sum, count) =
                    values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
                (count > 0.0).then(|| sum / count)
            };
            Some((middle, value))
        })
        .collect()
}

fn small(value: usize) -> f64 {
    u32::try_from(value).map_or(f64::MAX, f64::from)
}

#[allow(clippy::cast_precision_loss, reason = "drawn, at a pixel's precision")]
fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
