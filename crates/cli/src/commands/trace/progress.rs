//! How far the reading of a trace has come, on stderr: a line that changes on a terminal, else a line
//! now and then. Nothing is told of what takes less than two seconds.

use std::io::IsTerminal;

use evenkeel::runtime::{Clock, Instant, OsRuntime};
use evenkeel_cachesim::trace::Position;
use evenkeel_lab::text::terminal;
use indicatif::{ProgressBar, ProgressStyle};

use super::grouped;
use crate::progress::length;

/// What is quicker needs no progress.
const QUIET_NS: u64 = 2_000_000_000;
/// Time from one line to the next: where lines stay, and where they are overwritten.
const LINE_NS: u64 = 10_000_000_000;
const BAR_NS: u64 = 250_000_000;

/// Tells how far a trace has been read.
pub(crate) struct TraceProgress {
    runtime: OsRuntime,
    what: String,
    begun: Instant,
    next_ns: u64,
    bar: Option<ProgressBar>,
    is_terminal: bool,
}

impl TraceProgress {
    /// Of doing `what`, such as `reading x.csv`.
    pub(crate) fn new(what: &str) -> Self {
        let runtime = OsRuntime::new();
        let begun = runtime.now();
        Self {
            runtime,
            what: terminal(what).into_owned(),
            begun,
            next_ns: QUIET_NS,
            bar: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// The position has moved.
    pub(crate) fn tell(&mut self, position: Position) {
        let ns = self.runtime.now().nanos_since(self.begun);
        if ns < self.next_ns {
            return;
        }
        self.next_ns = ns + if self.is_terminal { BAR_NS } else { LINE_NS };
        let text = text(&self.what, position, ns);
        if self.is_terminal {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::new_spinner();
                if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                    bar.set_style(style);
                }
                bar
            });
            bar.set_message(text);
            bar.tick();
        } else {
            print(&text);
        }
    }
}

impl Drop for TraceProgress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn text(what: &str, position: Position, ns: u64) -> String {
    let references = grouped(position.references);
    match position.done_ratio().filter(|ratio| *ratio > 0.0) {
        Some(ratio) => {
            let left_ns = (ns as f64 / ratio - ns as f64) as u64;
            format!(
                "{what}: {:.0}%, {references} references, {} left",
                ratio * 100.0,
                length(left_ns.next_multiple_of(1_000_000_000))
            )
        }
        None => format!("{what}: {references} references in {}", length(ns)),
    }
}

#[allow(clippy::print_stderr, reason = "progress is for the person who waits")]
fn print(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_from_the_part_that_is_done() {
        let position = Position {
            bytes: 25,
            total_bytes: Some(100),
            references: 1_000_000,
            total_references: None,
        };
        let shown = text("reading x", position, 10_000_000_000);
        assert_eq!(shown, "reading x: 25%, 1,000,000 references, 30 s left");
        let unknown = Position { total_bytes: None, ..position };
        let shown = text("reading -", unknown, 10_000_000_000);
        assert_eq!(shown, "reading -: 1,000,000 references in 10 s");
    }
}
