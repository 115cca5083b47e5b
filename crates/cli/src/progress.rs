//! How far a session has come, on stderr: a bar where that is a terminal, else plain lines, and
//! nothing with `--quiet`.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::runtime::{Instant, Runtime};
use evenkeel_lab::experiment::document::{Analysis, Arm, Run, VerdictKind};
use evenkeel_lab::experiment::session::Observer;
use evenkeel_lab::report::number;
use evenkeel_lab::text::{terminal, terminal_lines};
use indicatif::{ProgressBar, ProgressStyle};

/// Tells of a session.
pub(crate) struct Progress {
    runtime: Arc<dyn Runtime>,
    bar: Option<ProgressBar>,
    is_quiet: bool,
    runs_done: u32,
    runs_left: u32,
    /// When the first run's preparations began, and when the last run ended.
    begun: Option<Instant>,
    last_end: Option<Instant>,
    /// The time of each run before one has been seen.
    expected_run_ns: u64,
}

impl Progress {
    /// Of a session of `runs` runs, each expected to take `expected_run_ns`.
    pub(crate) fn new(
        runtime: &Arc<dyn Runtime>,
        is_quiet: bool,
        runs: u32,
        expected_run_ns: u64,
    ) -> Self {
        let bar = (!is_quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            runtime: Arc::clone(runtime),
            bar,
            is_quiet,
            runs_done: 0,
            runs_left: runs,
            begun: None,
            last_end: None,
            expected_run_ns,
        }
    }

    /// Nothing more will be told.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        if self.is_quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| print(text)),
            None => print(text),
        }
    }

    fn left_ns(&self) -> u64 {
        let now = self.runtime.now();
        let seen_ns =
            self.begun.zip(self.last_end).map_or(0, |(begun, end)| end.nanos_since(begun));
        let under_way_ns = self.last_end.or(self.begun).map_or(0, |since| now.nanos_since(since));
        left_ns(self.expected_run_ns, self.runs_done, seen_ns, self.runs_left, under_way_ns)
    }
}

/// How long `runs_left` runs take, of which the first has been under way for a time. What was expected
/// counts as one run seen, so that the first ones do not make the figure jump; whole runs are counted only,
/// so that it falls with the clock while one is under way.
fn left_ns(
    expected_run_ns: u64,
    runs_done: u32,
    seen_ns: u64,
    runs_left: u32,
    under_way_ns: u64,
) -> u64 {
    let each = seen_ns.saturating_add(expected_run_ns) / (u64::from(runs_done) + 1);
    let others = each.saturating_mul(u64::from(runs_left.saturating_sub(1)));
    let this = if runs_left == 0 { 0 } else { each.saturating_sub(under_way_ns) };
    others.saturating_add(this)
}

impl Observer for Progress {
    fn stage(&mut self, text: &str, expected_ns: Option<u64>) {
        let is_of_run = ["restoring", "starting", "warming", "checkpoint", "run "];
        if self.begun.is_none() && is_of_run.iter().any(|begin| text.starts_with(begin)) {
            self.begun = Some(self.runtime.now());
        }
        let text = terminal(text);
        let length = expected_ns.map_or_else(String::new, |ns| format!(" ({})", length(ns)));
        let left = length_left(self.left_ns());
        match &self.bar {
            Some(bar) => bar.set_message(format!("{text}{length}, {left} left at most")),
            // Without a terminal each line stays: only what takes long is worth one.
            None if expected_ns.is_some()
                || (text.starts_with("loading") && !text.ends_with('%')) =>
            {
                self.line(&format!("{text}{length}, {left} left at most"));
            }
            None => {}
        }
    }

    fn remark(&mut self, text: &str) {
        self.line(text);
    }

    fn run_ended(&mut self, run: &Run, arm: &Arm, runs_left: u32) {
        self.runs_done += 1;
        self.runs_left = runs_left;
        self.last_end = Some(self.runtime.now());
        let percentile = |q: f64| {
            run.response
                .percentiles
                .iter()
                .find(|percentile| (percentile.q - q).abs() < 1e-9)
                .map_or_else(|| "n/a".to_owned(), |it| number::time_short(it.value_ns))
        };
        let throughput =
            run.throughput_per_s.map_or_else(|| "n/a".to_owned(), |rate| format!("{rate:.1}"));
        let cut =
            run.incomplete.as_ref().map_or_else(String::new, |why| format!("  CUT OFF: {why}"));
        self.line(&format!(
            "run {:>3}  block {:>2}  {:<20} {:>10} tps  p50 {:>8}  p99 {:>8}{cut}",
            run.index + 1,
            run.block + 1,
            evenkeel_lab::report::text::shortened(&arm.name, 20),
            throughput,
            percentile(0.5),
            percentile(0.99),
        ));
    }

    fn looked(&mut self, analysis: &Analysis) {
        self.line(&format!(
            "looked after {} pairs: {}",
            analysis.pairs,
            match analysis.comparison.verdict.kind {
                VerdictKind::Better => "better",
                VerdictKind::Worse => "worse",
                VerdictKind::NoMaterialDifference => "no material difference",
                VerdictKind::Inconclusive => "not settled",
                VerdictKind::Invalid => "invalid so far",
            }
        ));
    }
}

/// A length of time for people.
pub(crate) fn length(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn length_left(ns: u64) -> String {
    // Seconds of an estimate of minutes would pretend to know more than it does.
    let seconds = ns.div_ceil(1_000_000_000);
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

#[allow(clippy::print_stderr, reason = "the one place where progress is told")]
fn print(text: &str) {
    eprintln!("{}", shown(text));
}

/// What a terminal gets: names of arms and titles come from files that others write, and servers'
/// words from servers.
fn shown(text: &str) -> Cow<'_, str> {
    terminal_lines(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_falls_with_the_clock_and_does_not_jump_from_run_to_run() {
        const RUN: u64 = 60_000_000_000;
        // Sixteen runs that take a tenth longer than was expected, looked at every ten seconds.
        let (mut last, mut seen) = (left_ns(RUN, 0, 0, 16, 0), 0);
        assert_eq!(last, 16 * RUN);
        for done in 0..16_u32 {
            for tenth in 0..6 {
                let under_way = tenth * 11 * RUN / 60;
                let left = left_ns(RUN, done, seen, 16 - done, under_way);
                assert!(left <= last + RUN, "{done} {tenth}: {left} after {last}");
                assert!(left + RUN >= last, "{done} {tenth}: {left} after {last}");
                last = left;
            }
            seen += 11 * RUN / 10;
        }
        assert_eq!(left_ns(RUN, 16, seen, 0, 5), 0);
    }

    #[test]
    fn lengths_are_for_people() {
        assert_eq!(length(5_000_000_000), "5 s");
        assert_eq!(length(150_000_000_000), "2 min 30 s");
        assert_eq!(length(7_260_000_000_000), "2 h 01 min");
        assert_eq!(length_left(150_000_000_001), "3 min");
    }

    #[test]
    fn an_arm_s_name_cannot_speak_to_the_terminal() {
        assert_eq!(shown("measuring '\u{1b}]0;x\u{7}'\nnext"), "measuring '\\x1b]0;x\\x07'\nnext");
    }
}
