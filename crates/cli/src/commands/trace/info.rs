//! `evenkeel trace info`.

use std::fmt::Write as _;

use evenkeel_cachesim::trace::{Summary, SummaryBuilder, TraceReader};
use evenkeel_lab::report::text::visible;
use evenkeel_lab::text::terminal;

use super::{TraceInput, TraceProgress, grouped, print};
use crate::exit::Outcome;

/// Say what a trace is: format, references, pages, write references, reuse, classes
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many classes to list, those with most references first
    #[arg(long, value_name = "N", default_value_t = 20)]
    classes: usize,
    #[command(flatten)]
    input: TraceInput,
}

/// Width of a class's name.
const NAME_WIDTH: usize = 44;

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut reader = arguments.input.open()?;
    let mut progress = TraceProgress::new(&format!("reading {}", reader.name()));
    let mut builder = SummaryBuilder::new();
    let mut batch = Vec::new();
    while reader.read(&mut batch)? {
        for event in batch.drain(..) {
            builder.add(&event);
        }
        progress.tell(reader.position());
    }
    drop(progress);
    let summary = builder.finish(reader.classes());
    print(&text(&reader, &summary, arguments.classes))
}

fn text(reader: &TraceReader, summary: &Summary, classes: usize) -> String {
    let mut lines = vec![("trace", terminal(reader.name()).into_owned())];
    let mut format = reader.format().to_string();
    for layer in reader.compressions().iter().rev() {
        let _ = write!(format, ", {layer}");
    }
    if reader.is_recognised() {
        format.push_str(" (recognised)");
    }
    lines.push(("format", format));
    let about = if summary.is_estimate { "about " } else { "" };
    lines.push(("references", grouped(summary.references)));
    let of_bytes = |pages: u64| size(u128::from(pages) * u128::from(reader.page_bytes()));
    lines.push((
        "pages",
        format!(
            "{about}{} of {} bytes: {}",
            grouped(summary.pages),
            grouped(reader.page_bytes().into()),
            of_bytes(summary.pages)
        ),
    ));
    // What is reported dirty apart is counted by page, and pages may be estimated.
    let about_writes = if summary.dirtied > 0 { about } else { "" };
    lines.push((
        "write references",
        format!(
            "{about_writes}{} ({}): they leave their page dirty",
            grouped(summary.write_references),
            percent(summary.write_references as f64 / summary.references.max(1) as f64)
        ),
    ));
    if summary.dirtied > 0 {
        let text =
            format!("{} times a page was marked dirty while pinned", grouped(summary.dirtied));
        lines.push(("marked dirty", text));
    }
    lines.push((
        "time",
        summary.time_us.map_or_else(
            || "not known".to_owned(),
            |(first, last)| format!("{:.3} s from first to last", (last - first) as f64 / 1e6),
        ),
    ));
    let mut out = String::new();
    for (name, value) in lines {
        let _ = writeln!(out, "{name:<18}{value}");
    }
    if summary.references == 0 {
        return out;
    }
    let _ = writeln!(out, "\npages by how often they are referenced");
    let _ = writeln!(out, "  {:>16}  {:>8}  {:>13}", "times", "of pages", "of references");
    for share in &summary.reuse {
        let times = match (share.from, share.to) {
            (from, to) if from == to => grouped(from),
            (from, u64::MAX) => format!("{} and more", grouped(from)),
            (from, to) => format!("{} to {}", grouped(from), grouped(to)),
        };
        let _ = writeln!(
            out,
            "  {times:>16}  {:>8}  {:>13}",
            percent(share.pages_ratio),
            percent(share.references_ratio)
        );
    }
    for (top, share) in &summary.tops {
        let pages = (summary.pages as f64 * top).round() as u64;
        let _ = writeln!(
            out,
            "  the {:>5} most referenced ({}, {}) take {}",
            percent(*top),
            grouped(pages),
            of_bytes(pages),
            percent(*share)
        );
    }
    table_of_classes(&mut out, summary, classes);
    out
}

fn table_of_classes(out: &mut String, summary: &Summary, most: usize) {
    let mut classes: Vec<_> = summary.classes.iter().filter(|class| class.references > 0).collect();
    if classes.is_empty() || most == 0 {
        return;
    }
    classes.sort_by(|a, b| b.references.cmp(&a.references).then_with(|| a.name.cmp(&b.name)));
    let _ = writeln!(
        out,
        "\n{:<NAME_WIDTH$} {:>14} {:>7} {:>14} {:>14}",
        "class", "references", "share", "pages", "write refs"
    );
    for class in classes.iter().take(most) {
        let _ = writeln!(
            out,
            "{:<NAME_WIDTH$} {:>14} {:>7} {:>14} {:>14}",
            visible(&class.name, NAME_WIDTH),
            grouped(class.references),
            percent(class.references as f64 / summary.references as f64),
            grouped(class.pages),
            grouped(class.write_references)
        );
    }
    if let Some(rest) = classes.len().checked_sub(most).filter(|rest| *rest > 0) {
        let _ =
            writeln!(out, "and {} more classes: --classes {}", grouped(rest as u64), classes.len());
    }
}

fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.095 {
        format!("{percent:.2}%")
    } else {
        format!("{percent:.1}%")
    }
}

/// Bytes for people, in binary units.
fn size(bytes: u128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_trace_fit_a_terminal() {
        for spec in ["generate:tpcc(references=200k,rate=10)", "generate:uniform(write=0.5)"] {
            let options = evenkeel_cachesim::trace::Options::default();
            let mut reader = TraceReader::open(std::path::Path::new(spec), &options).unwrap();
            let mut builder = SummaryBuilder::new();
            let mut batch = Vec::new();
            while reader.read(&mut batch).unwrap() {
                batch.drain(..).for_each(|event| builder.add(&event));
            }
            let summary = builder.finish(reader.classes());
            let text = text(&reader, &summary, 5);
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            assert!(text.contains("\nreferences  ") && text.contains("most referenced"), "{text}");
            assert_eq!(text.contains("more classes: --classes"), spec.contains("tpcc"), "{text}");
        }
    }

    #[test]
    fn sizes_and_shares_are_for_people() {
        assert_eq!([size(512), size(1536), size(1 << 40)], ["512 B", "1.5 KiB", "1.0 TiB"]);
        assert_eq!([percent(0.0), percent(0.0004), percent(1.0)], ["0.0%", "0.04%", "100.0%"]);
    }
}
