//! How far a long task is, on stderr.

use std::io::{IsTerminal, Write};

use evenkeel::runtime::{Clock, Instant, OsRuntime};

/// Between two lines on a terminal, and elsewhere.
const TERMINAL_NS: u64 = 500_000_000;
const PIPE_NS: u64 = 20_000_000_000;

/// Work done and the time it will still take.
pub(super) struct Progress {
    what: &'static str,
    runtime: OsRuntime,
    start: Instant,
    shown: Instant,
    total: f64,
    done: f64,
    is_terminal: bool,
    is_line_open: bool,
}

impl Progress {
    /// `total` in any unit of work.
    pub(super) fn new(what: &'static str, total: f64) -> Self {
        let runtime = OsRuntime::new();
        let start = runtime.now();
        Self {
            what,
            start,
            shown: start,
            runtime,
            total,
            done: 0.0,
            is_terminal: std::io::stderr().is_terminal(),
            is_line_open: false,
        }
    }

    /// More work is done; says so now and then.
    pub(super) fn add(&mut self, work: f64) {
        self.done += work;
        let now = self.runtime.now();
        let every_ns = if self.is_terminal { TERMINAL_NS } else { PIPE_NS };
        if now.nanos_since(self.shown) < every_ns || self.done <= 0.0 {
            return;
        }
        self.shown = now;
        let share = (self.done / self.total).min(1.0);
        let left_s = now.nanos_since(self.start) as f64 / 1e9 * (1.0 / share - 1.0);
        let text = format!("{}: {:.0}%, about {} left", self.what, share * 100.0, length(left_s));
        if self.is_terminal {
            write(&format!("\r{text:<60}"));
            self.is_line_open = true;
        } else {
            crate::say(&text);
        }
    }

    /// Makes room for a line of results.
    pub(super) fn clear(&mut self) {
        if self.is_line_open {
            write(&format!("\r{:<60}\r", ""));
            self.is_line_open = false;
        }
    }
}

fn length(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{:.0} s", seconds.ceil())
    } else {
        format!("{:.0} min", (seconds / 60.0).ceil())
    }
}

/// Nothing is lost where stderr is closed.
fn write(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
