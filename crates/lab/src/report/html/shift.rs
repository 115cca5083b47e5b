//! The shift function: by how much each percentile moved, with its band.
//!
//! K. Doksum 1974; here for paired runs, so that the band holds what differs from run to run.

use std::io;

use super::chart::{self, Anchor, Chart, Form, WIDE};
use super::escape::{Sink, Text, put};
use super::scale::{Quantity, Scale, Spread};
use crate::experiment::document::{Comparison, SessionDocument, ShiftPoint};
use crate::report::{model, number};

/// Percentiles drawn; a comparison has about a hundred.
const POINTS_MAX: usize = 400;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDE - 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 46.0;

/// Both axes for response and service time, switched without a script.
pub(super) fn section(
    document: &SessionDocument,
    comparison: &Comparison,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let has_points =
        |points: &[ShiftPoint]| points.iter().any(|point| point.change_ratio.is_some());
    if !has_points(&comparison.shift) && !has_points(&comparison.shift_service) {
        return sink.put("<p class=\"none\">No percentile could be compared.</p>");
    }
    put!(
        sink,
        "<div class=\"switched\">\
         <input type=\"radio\" name=\"time\" id=\"time-response\" checked>\
         <label for=\"time-response\">response time</label>\
         <input type=\"radio\" name=\"time\" id=\"time-service\">\
         <label for=\"time-service\">service time</label>",
    );
    for (class, noun, points) in [
        ("<div class=\"response\">", "response time", &comparison.shift),
        ("<div class=\"service\">", "service time", &comparison.shift_service),
    ] {
        sink.put(class)?;
        if has_points(points) {
            legend(sink)?;
            plot(document, comparison, points, noun, true, sink)?;
            plot(document, comparison, points, noun, false, sink)?;
        } else {
            put!(sink, "<p class=\"none\">No percentile of ", noun, " could be compared.</p>");
        }
        sink.put("</div>")?;
    }
    sink.put("</div>")
}

/// One comparison's response time on the percentile axis alone.
pub(super) fn single(
    document: &SessionDocument,
    comparison: &Comparison,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    if comparison.shift.iter().any(|point| point.change_ratio.is_some()) {
        plot(document, comparison, &comparison.shift, "response time", true, sink)?;
    }
    Ok(())
}

fn legend(sink: &mut Sink<'_>) -> io::Result<()> {
    chart::legend(
        sink,
        &[
            (Some(Form::Circle), "dot", "ink", "change at this percentile".to_owned()),
            (Some(Form::Circle), "hollow", "ink", "rests on too few samples or stalls".to_owned()),
            (None, "inner", "ink", "95% interval".to_owned()),
            (None, "outer", "ink", "band for all percentiles at once".to_owned()),
            (None, "margin", "", "smaller than the margin that matters".to_owned()),
        ],
    )
}

fn plot(
    document: &SessionDocument,
    comparison: &Comparison,
    points: &[ShiftPoint],
    noun: &'static str,
    is_by_percentile: bool,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let abscissa =
        |point: &ShiftPoint| if is_by_percentile { Some(point.q) } else { point.against_ns };
    let (spread, quantity) = if is_by_percentile {
        (Spread::Normal, Quantity::Percentile)
    } else {
        (Spread::Logarithmic, Quantity::TimeNs)
    };
    let mut shown: Vec<&ShiftPoint> = points
        .iter()
        .take(POINTS_MAX)
        .filter(|point| abscissa(point).is_some_and(f64::is_finite))
        .collect();
    shown.sort_by(|a, b| abscissa(a).unwrap_or(0.0).total_cmp(&abscissa(b).unwrap_or(0.0)));
    let x =
        Scale::covering(spread, quantity, shown.iter().filter_map(|p| abscissa(p)), (LEFT, RIGHT));
    // A band without end must not flatten the rest: the estimates and intervals set the range, and
    // the band may add half as much again.
    let y = Scale::covering(
        Spread::Change,
        Quantity::Change,
        shown
            .iter()
            .filter(|point| !point.is_too_few)
            .flat_map(|p| {
                [p.change_ratio, p.low_ratio, p.high_ratio, p.band_low_ratio, p.band_high_ratio]
            })
            .chain(shown.iter().map(|p| p.change_ratio))
            .flatten(),
        (BOTTOM, TOP),
    );
    let against = model::arm_name(document, comparison.against);
    let arm = model::arm_name(document, comparison.arm);
    chart::open(
        sink,
        WIDE,
        HEIGHT,
        &format!("Change of {noun} of {arm} against {against} at each percentile"),
    )?;
    let mut chart = Chart { sink, x, y };
    let margin = document.protocol.margin_ratio;
    if let (Some(low), Some(high)) = (y.at(1.0 / (1.0 + margin) - 1.0), y.at(margin)) {
        chart::area(chart.sink, (LEFT, RIGHT), (low, high), "margin", "")?;
    }
    let x_label = if is_by_percentile {
        format!("percentile of {noun}")
    } else {
        format!("{noun} of {}", short(&against))
    };
    chart.axes(10, &x_label, 7, &format!("change of {noun}"))?;
    if let Some(zero) = y.at(0.0) {
        chart::rule(chart.sink, (LEFT, zero), (RIGHT, zero), "zero")?;
        let words = |name: &str, word: &str| format!("{} {word}", short(name));
        if zero - TOP > 36.0 {
            let place = (RIGHT - 4.0, TOP + 12.0);
            chart::label(chart.sink, place, Anchor::End, "side", &words(&arm, "slower ↑"))?;
        }
        if BOTTOM - zero > 36.0 {
            let place = (LEFT + 6.0, BOTTOM - 8.0);
            chart::label(chart.sink, place, Anchor::Start, "side", &words(&arm, "faster ↓"))?;
        }
    }
    let band = |pick: fn(&ShiftPoint) -> (Option<f64>, Option<f64>)| {
        shown
            .iter()
            .filter_map(|point| {
                let (low, high) = pick(point);
                Some((abscissa(point)?, low, high))
            })
            .collect::<Vec<_>>()
    };
    chart.band(&band(|p| (p.band_low_ratio, p.band_high_ratio)), "outer", "ink")?;
    chart.band(&band(|p| (p.low_ratio, p.high_ratio)), "inner", "ink")?;
    chart.line(
        shown.iter().filter_map(|point| Some((abscissa(point)?, point.change_ratio))),
        "strong",
        "ink",
    )?;
    for point in &shown {
        let (Some(at), Some(change)) = (abscissa(point), point.change_ratio) else { continue };
        let few = if point.is_too_few { "; rests on too few samples or stalls" } else { "" };
        let hover = format!(
            "{}: {} -> {} ({}, 95% interval {}){few}",
            number::percentile(point.q),
            point.against_ns.map_or_else(|| number::ABSENT.to_owned(), number::time),
            point.value_ns.map_or_else(|| number::ABSENT.to_owned(), number::time),
            number::change(change),
            number::interval(point.low_ratio, point.high_ratio),
        );
        let class = if point.is_too_few { "hollow" } else { "dot" };
        chart.dot((at, change), Form::Circle, class, "ink", &hover)?;
    }
    chart::close(sink)
}

/// A name cut to what fits beside a drawing.
pub(super) fn short(name: &str) -> String {
    crate::report::text::visible(name, 24)
}

/// The percentile table beside the drawing, for those who read numbers.
pub(super) fn table(
    document: &SessionDocument,
    comparison: &Comparison,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    if comparison.shift.is_empty() {
        return Ok(());
    }
    put!(
        sink,
        "<details><summary>The same as a table</summary><div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">response time</th><th scope=\"col\" class=\"n\">",
        Text(model::arm_name(document, comparison.against)),
        "</th><th scope=\"col\" class=\"n\">",
        Text(model::arm_name(document, comparison.arm)),
        "</th><th scope=\"col\" class=\"n\">change</th><th scope=\"col\" class=\"n\">95% interval, %</th>\
         <th scope=\"col\" class=\"n\">band, %</th><th scope=\"col\">remark</th></tr></thead><tbody>",
    );
    let time = |ns: Option<f64>| ns.map_or_else(|| number::ABSENT.to_owned(), number::time);
    for point in comparison.shift.iter().take(POINTS_MAX) {
        put!(
            sink,
            "<tr><th scope=\"row\">",
            Text(number::percentile(point.q)),
            "</th><td class=\"n\">",
            Text(time(point.against_ns)),
            "</td><td class=\"n\">",
            Text(time(point.value_ns)),
            "</td><td class=\"n\">",
            Text(point.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change)),
            "</td><td class=\"n\">",
            Text(number::interval(point.low_ratio, point.high_ratio)),
            "</td><td class=\"n\">",
            Text(number::interval(point.band_low_ratio, point.band_high_ratio)),
            "</td><td>",
            if point.is_too_few { "too few" } else { "" },
            "</td></tr>",
        );
    }
    sink.put("</tbody></table></div></details>")
}
