//! Results as text for people, as CSV and as JSON.

use std::fmt::Write as _;

use evenkeel_lab::report::number;
use evenkeel_lab::report::text::visible;
use evenkeel_replacement::registry::Registry;

use super::results::{Cell, Count, Facts, Results, Row};

/// Widest line of text.
const WIDTH: usize = 100;
/// Width of a policy's name in a row; a longer one has a line of its own.
const NAME: usize = 24;
/// Width of a figure's column, and of an estimate's with its margin.
const FIGURE: usize = 10;
const ESTIMATE: usize = 14;
/// Width of a full bar.
const BAR: usize = 30;
/// Classes shown, those with the most misses.
const CLASSES: usize = 12;

/// The tables of one trace.
pub(super) fn text(results: &Results, has_classes: bool, has_steps: bool) -> String {
    let mut text = heading(&results.facts);
    let counted = results.rows.first().and_then(|row| row.cells.first());
    if let Some(counted) = counted.map(|cell| cell.requests)
        && counted < results.facts.references
    {
        let _ = writeln!(text, "counted: the last {} references", number::count(counted));
    }
    table(&mut text, results, "misses per 100 references", &|cell| percent(cell, cell.misses));
    if results.facts.has_writes {
        let title = "write-backs (dirty pages evicted) per 100 references";
        table(&mut text, results, title, &|cell| percent(cell, cell.write_backs));
    }
    if has_steps {
        let steps = |cell: &Cell| {
            let statistics = cell.run.as_ref()?.statistics;
            let (victims, steps) = (statistics.victims, statistics.sweep_steps);
            (victims > 0).then(|| steps as f64 / victims as f64)
        };
        let title = "frames looked at per victim";
        table(&mut text, results, title, &|cell| number::maybe(steps(cell)));
    }
    if has_classes {
        classes(&mut text, results);
    }
    doubled(&mut text, results);
    text
}

/// One policy's curve, a line a size.
pub(super) fn curve(results: &Results) -> String {
    let mut text = heading(&results.facts);
    let has_writes = results.facts.has_writes;
    let _ = write!(text, "\n{:>12}{:>12}{:>22}", "pages", "size", "misses per 100");
    let _ = writeln!(text, "{:>22}", if has_writes { "write-backs per 100" } else { "" });
    let cells = results.rows.iter().flat_map(|row| &row.cells);
    for (frames, cell) in results.sizes.iter().zip(cells) {
        let size = number::bytes(f64::from(*frames) * f64::from(results.facts.page_bytes));
        let _ = write!(text, "{frames:>12}{size:>12}{:>22}", percent(cell, cell.misses));
        let dirty = if has_writes { percent(cell, cell.write_backs) } else { String::new() };
        let filled = (cell.ratio(cell.misses.count).unwrap_or_default() * BAR as f64).round();
        let _ = writeln!(text, "{dirty:>22}  {}", "#".repeat(filled as usize));
    }
    text
}

/// What a trace consists of, in a sentence or two.
pub(super) fn facts(facts: &Facts) -> String {
    let bytes = facts.pages as f64 * f64::from(facts.page_bytes);
    let mut text = format!(
        "{} references to {}{} pages of {} bytes ({})",
        number::count(facts.references),
        if facts.sample.is_some() { "about " } else { "" },
        number::count(facts.pages),
        facts.page_bytes,
        number::bytes(bytes),
    );
    if let Some(writes) = facts.writes {
        let share = writes as f64 / facts.references.max(1) as f64;
        let _ = write!(text, ", {} of them write references", number::percent(share));
    }
    text
}

/// What was looked at and how sure it is; nothing where that is all.
pub(super) fn sample(facts: &Facts) -> Option<String> {
    facts.sample.map(|sample| {
        format!(
            "estimated with 95% margins from a sample: {} references to {} pages, {}% of all",
            number::count(sample.references),
            number::count(sample.pages),
            number::significant(sample.rate * 100.0),
        )
    })
}

fn heading(of: &Facts) -> String {
    let mut text = format!("{}\n{}\n", visible(&of.name, WIDTH), facts(of));
    if let Some(sample) = sample(of) {
        let _ = writeln!(text, "{sample}");
    }
    text
}

/// Header and one line a policy and size. Where there is an estimate, with the ends of its interval.
pub(super) fn csv(all: &[Results]) -> String {
    let is_sampled = all.iter().any(|results| results.facts.sample.is_some());
    let mut text = String::from("trace,policy,cache_pages,requests,misses,write_backs");
    text.push_str(if is_sampled {
        ",misses_low,misses_high,write_backs_low,write_backs_high\n"
    } else {
        "\n"
    });
    for results in all {
        let trace = quoted(&results.facts.name);
        for Row { policy, cells, .. } in &results.rows {
            let policy = quoted(policy);
            for (frames, cell) in results.sizes.iter().zip(cells) {
                let Cell { requests, misses, write_backs, .. } = cell;
                let _ = write!(text, "{trace},{policy},{frames},{requests},");
                let _ = write!(text, "{},{}", misses.count, write_backs.count);
                for (low, high) in [misses.interval, write_backs.interval].into_iter().flatten() {
                    let _ = write!(text, ",{low},{high}");
                }
                text.push('\n');
            }
        }
    }
    text
}

/// Everything that is known, an array of traces.
pub(super) fn json(all: &[Results]) -> anyhow::Result<String> {
    let trace = |results: &Results| {
        let facts = &results.facts;
        let runs: Vec<serde_json::Value> =
            results
                .rows
                .iter()
                .flat_map(|row| {
                    results.sizes.iter().zip(&row.cells).map(move |(frames, cell)| {
                        run(&row.policy, *frames, cell, &results.classes)
                    })
                })
                .collect();
        let doubled: Vec<serde_json::Value> = results
            .doubled
            .iter()
            .zip(&results.sizes)
            .map(|((row, cell), frames)| {
                let policy = &results.rows[*row].policy;
                run(policy, frames.saturating_mul(2), cell, &results.classes)
            })
            .collect();
        let sample = facts.sample.map(|sample| {
            serde_json::json!({
                "pages_ratio": sample.rate,
                "pages": sample.pages,
                "references": sample.references,
            })
        });
        serde_json::json!({
            "trace": facts.name,
            "references": facts.references,
            "pages": facts.pages,
            "page_bytes": facts.page_bytes,
            "writes": facts.writes,
            "sample": sample,
            "runs": runs,
            "fewest_misses_at_twice_the_size": doubled,
        })
    };
    let traces: Vec<serde_json::Value> = all.iter().map(trace).collect();
    Ok(serde_json::to_string_pretty(&traces)? + "\n")
}

/// The policies with their parameters.
pub(super) fn policies(registry: &Registry) -> String {
    let mut text = String::new();
    for policy in registry.descriptions() {
        let _ = writeln!(text, "{:<14}{}", policy.name, policy.idea);
        if !policy.caution.is_empty() {
            let _ = writeln!(text, "{:<14}{}", "", policy.caution);
        }
        for parameter in policy.parameters {
            let _ = writeln!(
                text,
                "  {:<16}{} (default {})",
                parameter.name, parameter.kind, parameter.default
            );
        }
    }
    let _ = writeln!(
        text,
        "{:<14}the fewest misses possible, by knowing the trace's future",
        "optimum"
    );
    text
}

fn table(text: &mut String, results: &Results, title: &str, figure: &dyn Fn(&Cell) -> String) {
    let width = if results.facts.sample.is_some() { ESTIMATE } else { FIGURE };
    let columns = (WIDTH - NAME) / width;
    let mut from = 0;
    for sizes in results.sizes.chunks(columns) {
        let _ = write!(text, "\n{:<NAME$}", "pages");
        for frames in sizes {
            let _ = write!(text, "{frames:>width$}");
        }
        let _ = writeln!(text, "\n{title}");
        for row in &results.rows {
            row_name(text, &row.policy);
            for cell in &row.cells[from..from + sizes.len()] {
                let _ = write!(text, "{:>width$}", figure(cell));
            }
            text.push('\n');
        }
        from += sizes.len();
    }
}

/// Misses by class at the middle size.
fn classes(text: &mut String, results: &Results) {
    let names = &results.classes;
    let middle = results.sizes.len() / 2;
    let Some(frames) = results.sizes.get(middle) else { return };
    if names.is_empty() {
        text.push_str("\nthe trace does not say what its pages belong to\n");
        return;
    }
    let by_class = |row: &Row, class: usize| {
        let run = row.cells[middle].run.as_ref();
        run.and_then(|run| run.by_class.get(class).copied()).unwrap_or_default()
    };
    let first = &results.rows[0];
    let requests = first.cells[middle].requests.max(1) as f64;
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|class| {
        let misses: u64 = results.rows.iter().map(|row| by_class(row, *class).misses).sum();
        std::cmp::Reverse(misses)
    });
    order.truncate(CLASSES);
    let columns = (WIDTH - 2 * NAME) / FIGURE;
    for rows in results.rows.chunks(columns) {
        let _ = write!(text, "\n{:<40}", format!("misses per 100, {frames} pages"));
        for row in rows {
            let _ = write!(text, " {:>9}", visible(&row.policy, 9));
        }
        text.push('\n');
        for class in &order {
            let share = by_class(first, *class).requests as f64 / requests;
            let name = visible(&names[*class], 30);
            let _ = write!(text, "{name:<31}{:>8} ", format!("({})", number::percent(share)));
            for row in rows {
                let ratio = by_class(row, *class).miss_ratio();
                let ratio = ratio.map_or_else(|| number::ABSENT.to_owned(), in_hundred);
                let _ = write!(text, "{ratio:>FIGURE$}");
            }
            text.push('\n');
        }
    }
}

/// What twice the memory would buy.
fn doubled(text: &mut String, results: &Results) {
    if results.doubled.is_empty() {
        return;
    }
    text.push_str("\nwhat twice the memory buys, with the policy that misses least\n");
    for ((row, twice), (size, frames)) in
        results.doubled.iter().zip(results.sizes.iter().enumerate())
    {
        let row = &results.rows[*row];
        let once = &row.cells[size];
        let ratio = |cell: &Cell| {
            let ratio = cell.ratio(cell.misses.count);
            ratio.map_or_else(|| number::ABSENT.to_owned(), in_hundred)
        };
        let fewer = once.misses.count.saturating_sub(twice.misses.count);
        let share = fewer as f64 / once.misses.count.max(1) as f64;
        let _ = writeln!(
            text,
            "{frames:>10} to {:>10} pages: {:>6} to {:>6} misses per 100, {:>6} fewer  {}",
            frames.saturating_mul(2),
            ratio(once),
            ratio(twice),
            number::percent(share),
            visible(&row.policy, 26),
        );
    }
}

fn row_name(text: &mut String, name: &str) {
    if name.len() < NAME {
        let _ = write!(text, "{name:<NAME$}");
    } else {
        let _ = write!(text, "{}\n{:<NAME$}", visible(name, WIDTH), "");
    }
}

/// A count of a cell in a hundred references; an estimate with the larger side of its margin.
fn percent(cell: &Cell, of: Count) -> String {
    let Some(ratio) = cell.ratio(of.count) else { return number::ABSENT.to_owned() };
    let Some((low, high)) = of.interval else { return in_hundred(ratio) };
    let margin = (of.count - low.min(of.count)).max(high.max(of.count) - of.count);
    let margin = cell.ratio(margin).unwrap_or_default();
    format!("{:.2}\u{b1}{:.2}", ratio * 100.0, margin * 100.0)
}

fn in_hundred(ratio: f64) -> String {
    format!("{:.3}", ratio * 100.0)
}

fn run(policy: &str, frames: u32, cell: &Cell, classes: &[String]) -> serde_json::Value {
    let mut value = serde_json::json!({
        "policy": policy,
        "cache_pages": frames,
        "requests": cell.requests,
        "misses": cell.misses.count,
        "write_backs": cell.write_backs.count,
    });
    let mut put = |name: &str, what: serde_json::Value| value[name] = what;
    for (name, count) in [("misses", cell.misses), ("write_backs", cell.write_backs)] {
        if let Some((low, high)) = count.interval {
            put(&format!("{name}_low"), low.into());
            put(&format!("{name}_high"), high.into());
        }
    }
    // A miniature's own figures are not the cache's.
    let Some(run) = cell.run.as_ref().filter(|_| cell.misses.interval.is_none()) else {
        return value;
    };
    let by_class: Vec<serde_json::Value> = classes
        .iter()
        .zip(&run.by_class)
        .map(|(class, counts)| {
            serde_json::json!({
                "class": class,
                "requests": counts.requests,
                "misses": counts.misses,
                "write_backs": counts.write_backs,
            })
        })
        .collect();
    put("dirty_at_end", run.dirty_at_end.into());
    put("victims", run.statistics.victims.into());
    put("sweep_steps", run.statistics.sweep_steps.into());
    put("ghost_hits", run.statistics.ghost_hits.into());
    put("frames_by_usage", run.usage.clone().into());
    put("by_class", by_class.into());
    value
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
