//! pgbench's transaction log, written while the run goes on.
//!
//! Until a run has ended as planned its files' names end in `.incomplete`, so that what a crash or an
//! interruption cut off cannot be taken for the whole.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use evenkeel_lab::driver::{EndedTransactions, Plan};
use evenkeel_lab::measure::transaction_log::{self, LogOptions, TransactionLog};

use super::Arguments;

/// What the name of a file ends in as long as something may be missing.
const INCOMPLETE: &str = ".incomplete";

/// Records reach the disk's cache at the latest after so long.
const FLUSH_INTERVAL_NS: u64 = 1_000_000_000;

/// The log files of a run, one per thread.
pub(super) struct LogFiles {
    state: RefCell<State>,
}

struct State {
    options: LogOptions,
    plan: Plan,
    files: Vec<LogFile>,
    error: Option<io::Error>,
}

struct LogFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// From the first transaction on.
    log: Option<TransactionLog>,
    flushed_at_ns: u64,
}

impl LogFiles {
    /// Makes the files, empty, before the run.
    ///
    /// # Errors
    /// Where they cannot be made.
    pub(super) fn create(arguments: &Arguments, plan: &Plan) -> anyhow::Result<Self> {
        let options = LogOptions {
            sampling_ratio: arguments.sampling_rate.unwrap_or(1.0),
            aggregate_s: arguments.aggregate_interval,
            are_failures_detailed: arguments.failures_detailed,
            seed: plan.seed,
        };
        let prefix = arguments.log_prefix.as_deref().unwrap_or("pgbench_log");
        let mut files = Vec::new();
        for thread in 0..plan.threads.min(plan.clients) as usize {
            let name = transaction_log::file_name(prefix, std::process::id(), thread);
            let path = match (&arguments.out, &arguments.log_prefix) {
                (Some(directory), None) => {
                    std::fs::create_dir_all(directory)
                        .with_context(|| format!("make directory {}", directory.display()))?;
                    directory.join(name)
                }
                _ => PathBuf::from(name),
            };
            let incomplete = incomplete(&path);
            let file = File::create(&incomplete)
                .with_context(|| format!("make {}", incomplete.display()))?;
            files.push(LogFile { path, out: BufWriter::new(file), log: None, flushed_at_ns: 0 });
        }
        let plan = plan.clone();
        Ok(Self { state: RefCell::new(State { options, plan, files, error: None }) })
    }

    /// Writes what has ended. After an error nothing more is written; [`Self::finish`] tells it.
    pub(super) fn ended(&self, ended: &EndedTransactions<'_>) {
        let mut state = self.state.borrow_mut();
        if state.error.is_none()
            && let Err(error) = state.write(ended)
        {
            state.error = Some(error);
        }
    }

    /// Brings the files to their end. Those of a run that ended as planned get their names.
    ///
    /// # Errors
    /// Where something could not be written, now or before; the files stay marked as incomplete.
    pub(super) fn finish(self, is_complete: bool) -> anyhow::Result<()> {
        let mut state = self.state.into_inner();
        let error = state.error.take();
        for file in &mut state.files {
            let written = match &mut file.log {
                Some(log) if error.is_none() => log.finish(&mut file.out),
                _ => Ok(()),
            };
            let path = &file.path;
            let written = written.and_then(|()| file.out.flush());
            match &error {
                // Told below.
                Some(_) => {}
                None => {
                    written.with_context(|| format!("write {}", incomplete(path).display()))?;
                    if is_complete {
                        std::fs::rename(incomplete(path), path)
                            .with_context(|| format!("rename to {}", path.display()))?;
                    }
                }
            }
        }
        match error {
            None => Ok(()),
            Some(error) => Err(error).context("write the transaction log"),
        }
    }
}

impl State {
    fn write(&mut self, ended: &EndedTransactions<'_>) -> io::Result<()> {
        let Some(file) = self.files.get_mut(ended.thread) else { return Ok(()) };
        let (plan, options) = (&self.plan, self.options);
        let log = file.log.get_or_insert_with(|| {
            TransactionLog::new(ended.origin_wall, plan.arrival, plan.max_tries, options)
        });
        for record in ended.records {
            log.add(record, &mut file.out)?;
        }
        let last_ns = ended.records.last().map_or(0, |record| record.end_ns);
        if last_ns.saturating_sub(file.flushed_at_ns) >= FLUSH_INTERVAL_NS {
            file.flushed_at_ns = last_ns;
            file.out.flush()?;
        }
        Ok(())
    }
}

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(INCOMPLETE);
    PathBuf::from(name)
}
