//! Results as text for people, as CSV and as JSON.

use std::fmt::Write as _;

use evenkeel_cachesim::simulate::Simulated;
use evenkeel_lab::report::number;
use evenkeel_lab::report::text::visible;
use evenkeel_replacement::registry::Registry;

use super::Results;

/// Widest line of text.
const WIDTH: usize = 100;
/// Width of a policy's name in a row; a longer one has a line of its own.
const NAME: usize = 24;
/// Width of a figure's column.
const FIGURE: usize = 10;
/// Classes shown, those with the most misses.
const CLASSES: usize = 12;

/// The tables of one trace.
pub(super) fn text(results: &Results, has_classes: bool, has_steps: bool) -> String {
    let trace = &results.trace;
    let (references, pages) = (trace.references().len() as u64, trace.pages());
    let writes = trace.writes();
    let bytes = f64::from(pages) * f64::from(trace.page_bytes());
    let mut text = format!(
        "{}\n{} references to {} pages of {} bytes ({}), {} of them writes\n",
        visible(trace.name(), WIDTH),
        number::count(references),
        number::count(u64::from(pages)),
        trace.page_bytes(),
        number::bytes(bytes),
        number::percent(writes as f64 / references.max(1) as f64),
    );
    let counted = results.cells.first().and_then(|row| row.first());
    if let Some(counted) = counted.map(|cell| cell.counts.requests)
        && counted < references
    {
        let _ = writeln!(text, "counted: the last {} references", number::count(counted));
    }
    let miss = |cell: &Simulated| cell.counts.miss_ratio();
    table(&mut text, results, "misses per 100 references", &|cell| percent(miss(cell)));
    if writes > 0 {
        let ratio = |cell: &Simulated| {
            let requests = cell.counts.requests;
            (requests > 0).then(|| cell.counts.write_backs as f64 / requests as f64)
        };
        let title = "dirty pages evicted per 100 references";
        table(&mut text, results, title, &|cell| percent(ratio(cell)));
    }
    if has_steps {
        let steps = |cell: &Simulated| {
            let (victims, steps) = (cell.statistics.victims, cell.statistics.sweep_steps);
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

/// Header and one line a policy and size.
pub(super) fn csv(all: &[Results]) -> String {
    let mut text = String::from("trace,policy,cache_pages,requests,misses,write_backs\n");
    for results in all {
        let trace = quoted(results.trace.name());
        for (choice, cells) in results.choices.iter().zip(&results.cells) {
            let policy = quoted(&choice.to_string());
            for ((_, frames), cell) in results.sizes.iter().zip(cells) {
                let counts = cell.counts;
                let _ = writeln!(
                    text,
                    "{trace},{policy},{frames},{},{},{}",
                    counts.requests, counts.misses, counts.write_backs
                );
            }
        }
    }
    text
}

/// Everything that is known, an array of traces.
pub(super) fn json(all: &[Results]) -> anyhow::Result<String> {
    let traces: Vec<serde_json::Value> = all
        .iter()
        .map(|results| {
            let trace = &results.trace;
            let runs: Vec<serde_json::Value> = results
                .choices
                .iter()
                .zip(&results.cells)
                .flat_map(|(choice, cells)| {
                    results.sizes.iter().zip(cells).map(move |((_, frames), cell)| {
                        run(&choice.to_string(), *frames, cell, trace.class_names())
                    })
                })
                .collect();
            let doubled: Vec<serde_json::Value> = results
                .doubled
                .iter()
                .zip(&results.sizes)
                .map(|((choice, cell), (_, frames))| {
                    let policy = results.choices[*choice].to_string();
                    run(&policy, frames.saturating_mul(2), cell, trace.class_names())
                })
                .collect();
            serde_json::json!({
                "trace": trace.name(),
                "references": trace.references().len(),
                "pages": trace.pages(),
                "page_bytes": trace.page_bytes(),
                "writes": trace.writes(),
                "runs": runs,
                "fewest_misses_at_twice_the_size": doubled,
            })
        })
        .collect();
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

fn table(text: &mut String, results: &Results, title: &str, figure: &dyn Fn(&Simulated) -> String) {
    let columns = (WIDTH - NAME) / FIGURE;
    let mut from = 0;
    for sizes in results.sizes.chunks(columns) {
        let _ = write!(text, "\n{:<NAME$}", "pages");
        for (_, frames) in sizes {
            let _ = write!(text, "{frames:>FIGURE$}");
        }
        let _ = writeln!(text, "\n{title}");
        for (choice, cells) in results.choices.iter().zip(&results.cells) {
            row_name(text, &choice.to_string());
            for cell in &cells[from..from + sizes.len()] {
                let _ = write!(text, "{:>FIGURE$}", figure(cell));
            }
            text.push('\n');
        }
        from += sizes.len();
    }
}

/// Misses by class at the middle size.
fn classes(text: &mut String, results: &Results) {
    let names = results.trace.class_names();
    let middle = results.sizes.len() / 2;
    let Some((_, frames)) = results.sizes.get(middle) else { return };
    if names.is_empty() {
        text.push_str("\nthe trace does not say what its pages belong to\n");
        return;
    }
    let requests = |class: usize| results.cells[0][middle].by_class[class].requests;
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|class| {
        let misses: u64 = results.cells.iter().map(|row| row[middle].by_class[*class].misses).sum();
        std::cmp::Reverse(misses)
    });
    order.truncate(CLASSES);
    let columns = (WIDTH - 2 * NAME) / FIGURE;
    let mut from = 0;
    for choices in results.choices.chunks(columns) {
        let _ = write!(text, "\n{:<40}", format!("misses per 100, {frames} pages"));
        for choice in choices {
            let _ = write!(text, " {:>9}", visible(&choice.to_string(), 9));
        }
        text.push('\n');
        for class in &order {
            let share = requests(*class) as f64 / requests_of(results, middle).max(1) as f64;
            let name = visible(&names[*class], 30);
            let _ = write!(text, "{name:<31}{:>8} ", format!("({})", number::percent(share)));
            for cells in &results.cells[from..from + choices.len()] {
                let counts = cells[middle].by_class[*class];
                let _ = write!(text, "{:>FIGURE$}", percent(counts.miss_ratio()));
            }
            text.push('\n');
        }
        from += choices.len();
    }
}

fn requests_of(results: &Results, size: usize) -> u64 {
    results.cells[0][size].counts.requests
}

/// What twice the memory would buy.
fn doubled(text: &mut String, results: &Results) {
    if results.doubled.is_empty() {
        return;
    }
    text.push_str("\nwhat twice the memory buys, with the policy that misses least\n");
    for ((choice, twice), (size, (_, frames))) in
        results.doubled.iter().zip(results.sizes.iter().enumerate())
    {
        let once = &results.cells[*choice][size];
        let fewer = once.counts.misses.saturating_sub(twice.counts.misses);
        let share = fewer as f64 / once.counts.misses.max(1) as f64;
        let _ = writeln!(
            text,
            "{frames:>10} to {:>10} pages: {:>6} to {:>6} misses per 100, {:>6} fewer  {}",
            frames.saturating_mul(2),
            percent(once.counts.miss_ratio()),
            percent(twice.counts.miss_ratio()),
            number::percent(share),
            visible(&results.choices[*choice].to_string(), 26),
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

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| number::ABSENT.to_owned(), |ratio| format!("{:.3}", ratio * 100.0))
}

fn run(policy: &str, frames: u32, cell: &Simulated, classes: &[String]) -> serde_json::Value {
    let by_class: Vec<serde_json::Value> = classes
        .iter()
        .zip(&cell.by_class)
        .map(|(class, counts)| {
            serde_json::json!({
                "class": class,
                "requests": counts.requests,
                "misses": counts.misses,
                "write_backs": counts.write_backs,
            })
        })
        .collect();
    serde_json::json!({
        "policy": policy,
        "cache_pages": frames,
        "requests": cell.counts.requests,
        "misses": cell.counts.misses,
        "write_backs": cell.counts.write_backs,
        "dirty_at_end": cell.dirty_at_end,
        "victims": cell.statistics.victims,
        "sweep_steps": cell.statistics.sweep_steps,
        "ghost_hits": cell.statistics.ghost_hits,
        "frames_by_usage": cell.usage,
        "by_class": by_class,
    })
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
