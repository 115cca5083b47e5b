//! `evenkeel import`: read pgbench's logs.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use evenkeel_lab::experiment::import::{
    Content, SeventhColumn, Statement, group_by_run, read_run, to_session,
};
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
    #[arg(short = 'R', long)]
    rate: Option<f64>,
    /// Sampling rate that pgbench was given, above 0, at most 1
    #[arg(long, value_name = "RATIO")]
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
    let seventh = if arguments.retries { SeventhColumn::Retries } else { SeventhColumn::Lag };
    let mut runs = Vec::new();
    for (name, paths) in group_by_run(&arguments.logs) {
        let run = read_run(&name, &paths, seventh)?;
        for remark in &run.remarks {
            say(&format!("warning: {remark}"));
        }
        let what = match &run.content {
            Content::Transactions { records, .. } => format!("{} transactions", records.len()),
            Content::Intervals(intervals) => {
                format!("{} intervals (no percentiles can be had from them)", intervals.len())
            }
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
    let document = to_session(&runs, &statement, command);
    store::write_session(&arguments.out, &document)?;
    report::write_files(&arguments.out, &document).context("the files beside the record")?;
    say(&format!(
        "{} run(s) in {out}\ncompare: evenkeel compare {out}/session.json OTHER/session.json",
        document.runs.len(),
        out = arguments.out.display()
    ));
    Ok(Outcome::Success)
}

#[allow(clippy::print_stderr, reason = "remarks are no part of a result")]
fn say(text: &str) {
    eprintln!("{text}");
}
