//! `evenkeel import`: read pgbench's logs.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use evenkeel_lab::experiment::document::{Arrival, Run, SessionDocument};
use evenkeel_lab::experiment::import::{
    Content, SeventhColumn, Statement, group_by_run, read_run, to_session,
};
use evenkeel_lab::report::number;
use evenkeel_lab::{experiment::store, report};

use crate::exit::Outcome;

/// Read pgbench's logs into a record that can be compared
///
/// Takes the files of `pgbench -l` of versions 9.6 to 19, per transaction or aggregate. The files
/// of one run's threads (pgbench_log.123, pgbench_log.123.1 ...) become one run; several runs
/// become one session.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Log files
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Directory for the record
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// What reports call these runs
    #[arg(long)]
    name: Option<String>,
    /// Rate that pgbench was given
    #[arg(short = 'R', long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Sampling rate that pgbench was given, above 0, at most 1
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    sampling_rate: Option<f64>,
    /// The seventh of seven columns is the number of retries (--max-tries without --rate)
    #[arg(long)]
    retries: bool,
    /// The measure that decides a later comparison
    #[arg(long, value_name = "MEASURE")]
    primary: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if arguments.sampling_rate.is_some_and(|ratio| !(ratio > 0.0 && ratio <= 1.0)) {
        bail!("--sampling-rate is above 0 and at most 1");
    }
    if arguments.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        bail!("--rate is a number above 0");
    }
    if arguments.out.join(store::SESSION_FILE).exists() {
        bail!("{} holds a session already: name another directory", arguments.out.display());
    }
    let seventh = match (arguments.retries, arguments.rate) {
        (true, Some(_)) => bail!(
            "--retries says that pgbench ran without --rate, and -R that it had one: with both there are \
             eight columns, which need no word"
        ),
        (true, None) => SeventhColumn::Retries,
        (false, Some(_)) => SeventhColumn::Lag,
        (false, None) => SeventhColumn::ByItsNumbers,
    };
    let mut runs = Vec::new();
    for (name, paths) in group_by_run(&arguments.logs)? {
        let run = read_run(&name, &paths, seventh)?;
        for remark in &run.remarks {
            say(&format!("note: {remark}"));
        }
        let what = match &run.content {
            Content::Transactions { records, .. } => format!("{} transactions", records.len()),
            Content::Intervals { lines, step_s } => format!(
                "{} intervals of {step_s} s (no percentiles can be had from them)",
                lines.len()
            ),
        };
        say(&format!("{name}: {what} in {} file(s)", paths.len()));
        runs.push(run);
    }
    let statement = Statement {
        name: arguments.name.clone().unwrap_or_else(|| {
            arguments
                .out
                .file_name()
                .map_or_else(|| "imported".to_owned(), |name| name.to_string_lossy().into_owned())
        }),
        rate_per_s: arguments.rate,
        sampling_ratio: arguments.sampling_rate,
        primary: arguments.primary.clone(),
    };
    let command = std::env::args().collect();
    let document = to_session(&runs, &statement, command)?;
    if let (None, Arrival::Poisson { rate_per_s }) =
        (statement.rate_per_s, document.protocol.arrival)
    {
        say(&format!(
            "note: the logs hold schedule lags, so pgbench ran with --rate: about {rate_per_s:.1} per \
             second by the logs (-R says it exactly)"
        ));
    }
    store::write_session(&arguments.out, &document)?;
    report::write_files(&arguments.out, &document).context("the files beside the record")?;
    summary(&document).context("write to standard output")?;
    say(&format!(
        "{} run(s) in {out}\ncompare: evenkeel compare {out}/session.json OTHER/session.json",
        document.runs.len(),
        out = arguments.out.display()
    ));
    Ok(Outcome::Success)
}

/// What the runs hold, a table for each: kinds of latency by their percentiles.
fn summary(document: &SessionDocument) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = document
        .runs
        .iter()
        .try_for_each(|run| summarise(document, run, &mut out))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn summarise(document: &SessionDocument, run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let arrival = match document.protocol.arrival {
        Arrival::Closed => "closed loop".to_owned(),
        Arrival::Poisson { rate_per_s } | Arrival::Constant { rate_per_s } => {
            format!("open loop at {rate_per_s:.1} per second")
        }
    };
    let counts = &run.counts;
    writeln!(
        out,
        "run {}: {} transactions in {}, {} per second, {arrival}",
        run.index + 1,
        counts.committed,
        number::length(run.duration_ns),
        run.throughput_per_s.map_or_else(|| number::ABSENT.to_owned(), |rate| format!("{rate:.1}")),
    )?;
    let failed = counts.serialization_failures + counts.deadlocks + counts.other_errors;
    if failed + counts.skipped + counts.retried > 0 {
        writeln!(out, "  {failed} failed, {} skipped, {} retried", counts.skipped, counts.retried)?;
    }
    writeln!(
        out,
        "  {:<10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "mean", "p50", "p90", "p99", "p99.9", "max"
    )?;
    let kinds = [("response", &run.response), ("service", &run.service), ("lag", &run.lag)];
    for (kind, latencies) in kinds {
        if latencies.count == 0 {
            continue;
        }
        write!(
            out,
            "  {kind:<10}{:>10}",
            latencies.mean_ns.map_or_else(|| number::ABSENT.to_owned(), number::time)
        )?;
        for q in [0.5, 0.9, 0.99, 0.999] {
            let found = latencies.percentiles.iter().find(|found| (found.q - q).abs() < 1e-9);
            let shown = found.map_or_else(
                || number::ABSENT.to_owned(),
                |found| number::time_short(found.value_ns),
            );
            write!(out, "{shown:>10}")?;
        }
        let most = latencies.max_ns.map_or_else(|| number::ABSENT.to_owned(), number::time_short);
        writeln!(out, "{most:>10}")?;
    }
    let stalled = run.episodes.iter().max_by_key(|episode| episode.end_ns - episode.start_ns);
    if let Some(longest) = stalled {
        writeln!(
            out,
            "  {} stalls, the longest {} at {}",
            run.episodes.len(),
            number::time_short(longest.end_ns - longest.start_ns),
            number::length(longest.start_ns),
        )?;
    }
    Ok(())
}

#[allow(clippy::print_stderr, reason = "remarks are no part of a result")]
fn say(text: &str) {
    eprintln!("{text}");
}
