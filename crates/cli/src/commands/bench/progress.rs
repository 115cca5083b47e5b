//! What a person sees while a run goes on; all of it on stderr.

use std::cell::Cell;
use std::io::IsTerminal as _;

use evenkeel::runtime::WallTime;
use evenkeel_lab::driver::{
    ClientAbort, EndedTransactions, MemoryShortage, Observer, ProgressReport, Totals,
};

use super::Arguments;
use super::log::LogFiles;

/// Prints pgbench's progress lines where they were asked for, else one line that is written over;
/// hands the transactions on to their log.
pub(super) struct Printer {
    is_asked_for: bool,
    has_timestamps: bool,
    has_lag: bool,
    has_limit: bool,
    has_retries: bool,
    origin: Cell<WallTime>,
    is_line_open: Cell<bool>,
    log: Option<LogFiles>,
}

impl Printer {
    pub(super) fn new(arguments: &Arguments, now: WallTime, log: Option<LogFiles>) -> Self {
        Self {
            is_asked_for: arguments.progress.is_some(),
            has_timestamps: arguments.progress_timestamp,
            has_lag: arguments.rate.is_some(),
            has_limit: arguments.latency_limit.is_some() && arguments.rate.is_some(),
            has_retries: arguments.max_tries != 1,
            origin: Cell::new(now),
            is_line_open: Cell::new(false),
            log,
        }
    }

    /// Brings the transaction log to its end, where there is one.
    pub(super) fn finish_log(self, is_complete: bool) -> anyhow::Result<()> {
        self.log.map_or(Ok(()), |log| log.finish(is_complete))
    }

    /// Takes away a line that was to be written over.
    pub(super) fn clear(&self) {
        if self.is_line_open.replace(false) {
            put("\r\x1b[K");
        }
    }

    /// pgbench's progress line (`printProgressReport` in pgbench.c).
    fn line(&self, report: &ProgressReport) -> String {
        let ended = &report.ended;
        let seconds = report.interval_ns as f64 / 1e9;
        let tps = if seconds > 0.0 { ended.committed as f64 / seconds } else { 0.0 };
        let (latency, deviation, lag) = averages(ended);
        let time = if self.has_timestamps {
            let wall = self.origin.get().as_unix_nanos() as f64 + report.elapsed_ns as f64;
            format!("{:.3}", wall / 1e9)
        } else {
            format!("{:.1}", report.elapsed_ns as f64 / 1e9)
        };
        let mut line = format!(
            "progress: {time} s, {tps:.1} tps, lat {latency:.3} ms stddev {deviation:.3}, {} failed",
            ended.failed
        );
        if self.has_lag {
            line += &format!(", lag {lag:.3} ms");
            if self.has_limit {
                line += &format!(", {} skipped", ended.skipped);
            }
        }
        if self.has_retries {
            line += &format!(", {} retried, {} retries", ended.retried, ended.retries);
        }
        line
    }
}

impl Observer for Printer {
    fn memory_short(&self, shortage: &MemoryShortage) {
        self.clear();
        note(&format!("warning: at this speed the run {shortage}"));
    }

    fn started(&self, _connection_ns: u64) {
        // The wall clock at the origin, to the precision that a progress line has.
        use evenkeel::runtime::Clock as _;
        self.origin.set(evenkeel::runtime::OsRuntime.wall());
    }

    fn progress(&self, report: &ProgressReport) {
        if self.is_asked_for {
            put(&format!("{}\n", self.line(report)));
            return;
        }
        let elapsed = report.elapsed_ns / 1_000_000_000;
        let mut text = format!("\r\x1b[K{elapsed} s");
        if let Some(planned_ns) = report.planned_ns {
            let planned = planned_ns / 1_000_000_000;
            let left = planned.saturating_sub(elapsed);
            text += &format!(" of {planned} s, {left} s left");
        }
        let seconds = report.interval_ns as f64 / 1e9;
        text += &format!(", {:.0} tps", report.ended.committed as f64 / seconds.max(1e-9));
        put(&text);
        self.is_line_open.set(true);
    }

    fn debug(&self, line: &str) {
        self.clear();
        put(&format!("{}\n", evenkeel_lab::text::terminal(line)));
    }

    fn wants_ended(&self) -> bool {
        self.log.is_some()
    }

    fn ended(&self, ended: &EndedTransactions<'_>) {
        if let Some(log) = &self.log {
            log.ended(ended);
        }
    }

    fn client_aborted(&self, abort: &ClientAbort) {
        self.clear();
        let reason = evenkeel_lab::text::terminal(&abort.reason).into_owned();
        put(&format!("evenkeel: client {} aborted: {reason}\n", abort.client));
    }
}

/// A remark that is no result; only where somebody watches.
pub(super) fn note(text: &str) {
    if std::io::stderr().is_terminal() {
        put(&format!("{text}\n"));
    }
}

/// Milliseconds: mean latency, its standard deviation, mean lag; zero where nothing ended, as in
/// pgbench.
fn averages(totals: &Totals) -> (f64, f64, f64) {
    if totals.committed == 0 {
        return (0.0, 0.0, 0.0);
    }
    let count = totals.committed as f64;
    let latency_us = totals.response_sum_ns as f64 / 1e3 / count;
    let variance = totals.response_square_sum_us2 / count - latency_us * latency_us;
    let lag_ms = totals.lag_sum_ns as f64 / 1e6 / count;
    (latency_us / 1e3, variance.max(0.0).sqrt() / 1e3, lag_ms)
}

#[allow(clippy::print_stderr, reason = "progress is for people and goes to stderr")]
fn put(text: &str) {
    eprint!("{text}");
}
