//! How many transactions took at least so long: where a few long stalls show that percentiles hide.

use std::collections::BTreeMap;
use std::io;

use super::chart::{self, Chart, WIDE};
use super::escape::{Sink, Text, put};
use super::scale::{Quantity, Scale, Spread};
use crate::experiment::document::{Comparison, Run, SessionDocument};
use crate::report::{model, number};

const HEIGHT: f64 = 380.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDE - 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 46.0;

/// The curve.
pub(super) fn curve(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let arms: Vec<(u32, Vec<(f64, f64)>)> = (0_u32..)
        .zip(&document.arms)
        .map(|(arm, _)| (arm, pooled(document.runs.iter().filter(|run| run.arm == arm))))
        .filter(|(_, curve)| curve.len() > 1)
        .collect();
    if arms.is_empty() {
        return sink.put("<p class=\"none\">No run holds a histogram.</p>");
    }
    let all = || arms.iter().flat_map(|(_, curve)| curve.iter());
    let x = Scale::covering(
        Spread::Logarithmic,
        Quantity::TimeNs,
        all().map(|(ns, _)| *ns),
        (LEFT, RIGHT),
    );
    let y = Scale::covering(
        Spread::Logarithmic,
        Quantity::Plain,
        all().map(|(_, rate)| *rate),
        (BOTTOM, TOP),
    );
    let mut entries: Vec<_> = arms
        .iter()
        .map(|(arm, _)| (None, "swatch", chart::arm_class(*arm), model::arm_name(document, *arm)))
        .collect();
    entries.push((None, "spread", "ink", "from the least to the most affected run".to_owned()));
    chart::legend(sink, &entries)?;
    chart::open(sink, WIDE, HEIGHT, "Transactions that took at least so long, per million")?;
    let mut drawing = Chart { sink, x, y };
    drawing.axes(9, "response time of at least", 7, "transactions per million")?;
    for (arm, _) in &arms {
        let spread = spread(document.runs.iter().filter(|run| run.arm == *arm));
        drawing.band(&spread, "spread", chart::arm_class(*arm))?;
    }
    // The control first and the contender last: where curves coincide, the pair of the verdict is seen.
    let mut layers: Vec<&(u32, Vec<(f64, f64)>)> = arms.iter().collect();
    layers.sort_by_key(|(arm, _)| match arm {
        0 => 1,
        1 => 2,
        _ => 0,
    });
    for (arm, curve) in layers {
        let points = curve.iter().map(|(ns, rate)| (*ns, Some(*rate)));
        let class = match arm {
            0 => "strong",
            1 => "strong dashed",
            _ => "strong dotted",
        };
        drawing.line(points, class, chart::arm_class(*arm))?;
    }
    // Direct dots with numbers where the table has rows.
    for (arm, curve) in &arms {
        for threshold in [1e6, 1e7, 1e8, 1e9, 1e10] {
            let Some((_, rate)) = curve.iter().rev().find(|(ns, _)| *ns <= threshold * 1.026)
            else {
                continue;
            };
            if curve.last().is_some_and(|(ns, _)| *ns < threshold) || x.at(threshold).is_none() {
                continue;
            }
            let hover = format!(
                "{}: about {} per million took at least {}",
                model::arm_name(document, *arm),
                number::significant(*rate),
                number::time(threshold)
            );
            drawing.dot(
                (threshold, *rate),
                chart::arm_form(*arm),
                "dot",
                chart::arm_class(*arm),
                &hover,
            )?;
        }
    }
    chart::close(sink)
}

/// The table, counted in transactions and in stalls.
pub(super) fn table(
    document: &SessionDocument,
    comparison: &Comparison,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let rows: Vec<_> =
        comparison.exceedance.iter().filter(|row| row.count > 0 || row.against_count > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let against = model::arm_name(document, comparison.against);
    let arm = model::arm_name(document, comparison.arm);
    put!(
        sink,
        "<div class=\"scroll\"><table><thead><tr><th rowspan=\"2\" class=\"n\">at least</th>\
         <th colspan=\"2\" class=\"c\">per million transactions</th><th rowspan=\"2\" class=\"n\">ratio</th>\
         <th rowspan=\"2\" class=\"n\">95% interval</th><th colspan=\"2\" class=\"c\">transactions</th>\
         <th colspan=\"2\" class=\"c\">stalls</th><th rowspan=\"2\">conclusion</th></tr><tr>",
    );
    for _ in 0..3 {
        put!(
            sink,
            "<th class=\"n\">",
            Text(super::shift::short(&against)),
            "</th><th class=\"n\">",
            Text(super::shift::short(&arm)),
            "</th>",
        );
    }
    sink.put("</tr></thead><tbody>")?;
    for row in rows.into_iter().take(100) {
        let interval = match (row.low_ratio, row.high_ratio) {
            (Some(low), Some(high)) => {
                format!("{} .. {}", number::significant(low), number::significant(high))
            }
            _ => "-".to_owned(),
        };
        put!(sink, "<tr><th class=\"n\">", Text(number::time_short(row.threshold_ns)), "</th>");
        for cell in [
            number::maybe(row.against_per_million),
            number::maybe(row.per_million),
            row.rate_ratio.map_or_else(|| "-".to_owned(), number::significant),
            interval,
            number::count(row.against_count),
            number::count(row.count),
            number::count(row.against_episodes),
            number::count(row.episodes),
        ] {
            put!(sink, "<td class=\"n\">", Text(cell), "</td>");
        }
        super::tables::conclusion(row.kind, document.protocol.margin_ratio, sink)?;
        sink.put("</tr>")?;
    }
    sink.put("</tbody></table></div>")
}

/// Shares per million of an arm's transactions at or above each bucket's bound, ascending.
fn pooled<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<(f64, f64)> {
    let mut buckets: BTreeMap<u64, u128> = BTreeMap::new();
    for bucket in runs.flat_map(|run| &run.histogram) {
        *buckets.entry(bucket.upper_ns).or_default() += u128::from(bucket.count);
    }
    let total: u128 = buckets.values().sum();
    if total == 0 {
        return Vec::new();
    }
    let total = wide(total);
    let mut beyond = 0_u128;
    let mut curve: Vec<(f64, f64)> = Vec::with_capacity(buckets.len());
    for (upper_ns, count) in buckets.into_iter().rev() {
        beyond += count;
        if beyond > 0 && upper_ns > 0 {
            curve.push((number::to_f64(upper_ns), wide(beyond) / total * 1e6));
        }
    }
    curve.reverse();
    curve
}

/// Least and greatest rate among the runs at each threshold of their tables.
fn spread<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<(f64, Option<f64>, Option<f64>)> {
    let mut ends: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for run in runs.filter(|run| run.response.count > 0) {
        for threshold in &run.exceedance {
            let rate = number::to_f64(threshold.count) / number::to_f64(run.response.count) * 1e6;
            let end = ends.entry(threshold.threshold_ns).or_insert((rate, rate));
            *end = (end.0.min(rate), end.1.max(rate));
        }
    }
    ends.into_iter()
        .filter(|(_, (_, most))| *most > 0.0)
        // On this axis none lies infinitely deep; a thousandth of a transaction per million is below
        // any range shown.
        .map(|(ns, (least, most))| (number::to_f64(ns), Some(least.max(1e-3)), Some(most)))
        .collect()
}

#[allow(clippy::cast_precision_loss, reason = "drawn, at a pixel's precision")]
const fn wide(value: u128) -> f64 {
    value as f64
}
