//! Runs one workload on one target: clients, schedule, retries. The rules are in `README.md`.
//!
//! # Map
//!
//! - [`Plan`]: what a run shall do; [`RunData`]: what it left behind; [`run`]: from one to the other.
//! - `schedule`: when transactions are due. `worker`: one thread's event loop. `client`: one
//!   session's way through its scripts. `capture`: rows into variables.

mod capture;
mod client;
mod conductor;
mod cpu;
mod data;
mod evaluation;
mod memory;
mod plan;
mod schedule;
mod shared;
mod stop;
mod worker;

use evenkeel::runtime::{TaskPanicked, WallTime};

pub use conductor::run;
pub use data::{Calls, ClientAbort, CommandTimes, RunData};
pub use memory::{MemoryShortage, available_bytes, foretell as foretell_memory};
pub use plan::{Length, Plan};
pub use stop::StopFlag;

use crate::measure::record::TransactionRecord;
use crate::target::TargetError;

/// A run could not be carried out at all. What goes wrong after its start is in [`RunData`].
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The plan contradicts itself.
    #[error("{0}")]
    Plan(String),
    /// Not all sessions could be opened.
    #[error("client {client} of {clients} could not connect: {error}{}", remedy(.error))]
    Connect {
        /// Which client, from 0.
        client: u32,
        /// How many there should be.
        clients: u32,
        /// Why.
        error: TargetError,
    },
    /// The system refuses a thread or a descriptor.
    #[error("cannot {what}: {error}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// The system's answer.
        error: std::io::Error,
    },
    /// A defect of this program.
    #[error("internal error: {0}")]
    Panicked(#[from] TaskPanicked),
}

/// What helps against a refusal; with the blanks before it.
fn remedy(error: &TargetError) -> &'static str {
    match error {
        TargetError::Refused { error, .. } if error.sqlstate == "53300" => {
            "; use fewer clients (-c), or raise max_connections"
        }
        _ => "",
    }
}

/// Figures since the last report, for a progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgressReport {
    /// Since the origin.
    pub elapsed_ns: u64,
    /// Since the last report.
    pub interval_ns: u64,
    /// Warm-up and measured part; `None` where transactions are counted.
    pub planned_ns: Option<u64>,
    /// Figures of transactions that ended since the last report.
    pub ended: Totals,
}

/// Sums over transactions that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Committed.
    pub committed: u64,
    /// Failed for good.
    pub failed: u64,
    /// Skipped.
    pub skipped: u64,
    /// Committed or failed after more than one try.
    pub retried: u64,
    /// Further tries in sum.
    pub retries: u64,
    /// Response times of committed ones in sum.
    pub response_sum_ns: u128,
    /// Their squares, in square microseconds, in sum.
    pub response_square_sum_us2: f64,
    /// Lags of committed ones in sum.
    pub lag_sum_ns: u128,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.retried += other.retried;
        self.retries += other.retries;
        self.response_sum_ns += other.response_sum_ns;
        self.response_square_sum_us2 += other.response_square_sum_us2;
        self.lag_sum_ns += other.lag_sum_ns;
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            committed: self.committed - earlier.committed,
            failed: self.failed - earlier.failed,
            skipped: self.skipped - earlier.skipped,
            retried: self.retried - earlier.retried,
            retries: self.retries - earlier.retries,
            response_sum_ns: self.response_sum_ns - earlier.response_sum_ns,
            response_square_sum_us2: self.response_square_sum_us2 - earlier.response_square_sum_us2,
            lag_sum_ns: self.lag_sum_ns - earlier.lag_sum_ns,
        }
    }
}

/// Transactions that ended, in the order in which a thread recorded them.
#[derive(Clone, Copy, Debug)]
pub struct EndedTransactions<'a> {
    /// Whose, from 0.
    pub thread: usize,
    /// The wall clock at the run's origin.
    pub origin_wall: WallTime,
    /// The transactions, warm-up included.
    pub records: &'a [TransactionRecord],
}

/// Hears of a run while it goes on. Called from the task that called [`run`], never from a worker.
pub trait Observer {
    /// All sessions stand; transactions start now.
    fn started(&self, connection_ns: u64) {
        let _ = connection_ns;
    }
    /// An interval has passed.
    fn progress(&self, report: &ProgressReport) {
        let _ = report;
    }
    /// A script's `debug(...)` was evaluated, or a statement failed in a plan with
    /// [`Plan::verbose_errors`]; `line` is as pgbench prints it.
    fn debug(&self, line: &str) {
        let _ = line;
    }
    /// A client gave up.
    fn client_aborted(&self, abort: &ClientAbort) {
        let _ = abort;
    }
    /// At its speed so far the run will not have memory for its records; said once.
    fn memory_short(&self, shortage: &MemoryShortage) {
        let _ = shortage;
    }
    /// Whether [`Observer::ended`] is to be called; asked once, when the run begins.
    fn wants_ended(&self) -> bool {
        false
    }
    /// Transactions have ended: several times a second, and once more when the run has ended, so that in
    /// the end each was told once.
    fn ended(&self, ended: &EndedTransactions<'_>) {
        let _ = ended;
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

#[cfg(test)]
mod fake;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod virtual_time;
