//! What a run shall do.

use std::sync::Arc;
use std::time::Duration;

use super::DriverError;
use crate::experiment::document::Arrival;
use crate::target::{QueryMode, Target};
use crate::workload::script::Workload;

/// A schedule that would hold more slots than this is refused: each becomes a record of 32 bytes.
const SLOTS_MAX: f64 = 500_000_000.0;

/// pgbench's limit on scripts; a record has one byte for the script.
const SCRIPTS_MAX: usize = 128;

/// How long the measured part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So long (pgbench's `-T`).
    Duration(Duration),
    /// So many transactions per client (pgbench's `-t`); in an open loop the product of this and
    /// the number of clients is the number of slots, whoever takes them.
    TransactionsPerClient(u64),
}

/// One run: a workload, a target, and when to start what.
#[derive(Clone)]
pub struct Plan {
    /// What is run.
    pub workload: Arc<Workload>,
    /// Whom it is run on.
    pub target: Arc<dyn Target>,
    /// Sessions, at least 1.
    pub clients: u32,
    /// Threads, at least 1; more than clients are not started.
    pub threads: u32,
    /// How transactions arrive.
    pub arrival: Arrival,
    /// The measured part.
    pub length: Length,
    /// Runs before measuring begins; transactions planned in it are recorded and not measured.
    pub warm_up: Duration,
    /// How long unfinished transactions are waited for at the end.
    pub grace: Duration,
    /// A transaction that takes longer is late; in an open loop one that is overdue by more when
    /// it could start is skipped.
    pub latency_limit: Option<Duration>,
    /// How often a transaction is tried at most after serialization failures and deadlocks; 0: as
    /// often as the latency limit or the duration allows.
    pub max_tries: u32,
    /// Goes on after other SQL errors, counting them, instead of giving the client up.
    pub continue_on_error: bool,
    /// Ends the run as soon as one client gives up.
    pub exit_on_abort: bool,
    /// Seeds schedule, keys and choices of script.
    pub seed: u64,
    /// How statements travel.
    pub query_mode: QueryMode,
    /// Opens a session for each transaction (pgbench's `-C`).
    pub reconnect: bool,
    /// Distance of progress reports to the observer; `None`: none.
    pub progress_interval: Option<Duration>,
    /// Measures each command (pgbench's `-r`); costs a look at the clock each.
    pub report_per_command: bool,
    /// Tells the observer of each failed statement, and what becomes of its transaction.
    pub verbose_errors: bool,
}

impl Plan {
    /// A closed loop of one client and one thread for `length`, measured from the start.
    #[must_use]
    pub fn new(workload: Arc<Workload>, target: Arc<dyn Target>, length: Length) -> Self {
        Self {
            workload,
            target,
            clients: 1,
            threads: 1,
            arrival: Arrival::Closed,
            length,
            warm_up: Duration::ZERO,
            grace: Duration::from_secs(10),
            latency_limit: None,
            max_tries: 1,
            continue_on_error: false,
            exit_on_abort: false,
            seed: 0,
            query_mode: QueryMode::Simple,
            reconnect: false,
            progress_interval: None,
            report_per_command: false,
            verbose_errors: false,
        }
    }

    /// Whether transactions start by a schedule.
    #[must_use]
    pub const fn is_open_loop(&self) -> bool {
        !matches!(self.arrival, Arrival::Closed)
    }

    /// Transactions per second asked for; `None` in a closed loop.
    #[must_use]
    pub const fn rate_per_s(&self) -> Option<f64> {
        match self.arrival {
            Arrival::Closed => None,
            Arrival::Poisson { rate_per_s } | Arrival::Constant { rate_per_s } => Some(rate_per_s),
        }
    }

    /// Warm-up and measured part together; `None` where transactions are counted.
    pub(super) fn planned_ns(&self) -> Option<u64> {
        match self.length {
            Length::Duration(duration) => Some(nanos(self.warm_up).saturating_add(nanos(duration))),
            Length::TransactionsPerClient(_) => None,
        }
    }

    /// How many threads are started.
    pub(super) fn worker_count(&self) -> u32 {
        self.threads.min(self.clients)
    }

    pub(super) fn check(&self) -> Result<(), DriverError> {
        let wrong = |text: &str| Err(DriverError::Plan(text.to_owned()));
        if self.clients == 0 || self.threads == 0 {
            return wrong("a run needs at least one client and one thread");
        }
        if self.workload.scripts.is_empty() {
            return wrong("a run needs a script");
        }
        if self.workload.scripts.len() > SCRIPTS_MAX {
            return wrong("at most 128 scripts are possible in a run");
        }
        if self.workload.scripts.iter().all(|script| script.weight == 0) {
            return wrong("the total weight of the scripts must not be zero");
        }
        if let Some(rate) = self.rate_per_s() {
            if !(rate.is_finite() && rate > 0.0) {
                return wrong("the rate must be a number above zero");
            }
            let slots = match self.length {
                Length::Duration(duration) => rate * (duration + self.warm_up).as_secs_f64(),
                Length::TransactionsPerClient(count) => count as f64 * f64::from(self.clients),
            };
            if slots > SLOTS_MAX {
                return Err(DriverError::Plan(format!(
                    "the schedule would hold {slots:.0} transactions, more than {SLOTS_MAX:.0}: \
                     lower the rate or the duration"
                )));
            }
        }
        match self.length {
            Length::Duration(duration) if duration.is_zero() => {
                return wrong("the duration must be above zero");
            }
            Length::TransactionsPerClient(0) => {
                return wrong("the number of transactions must be above zero");
            }
            Length::TransactionsPerClient(_) if !self.warm_up.is_zero() => {
                return wrong("a warm-up needs a duration instead of a number of transactions");
            }
            Length::TransactionsPerClient(_)
                if self.max_tries == 0 && self.latency_limit.is_none() =>
            {
                return wrong(
                    "an unlimited number of tries needs a latency limit or a duration, \
                     else a run could last for ever",
                );
            }
            _ => {}
        }
        Ok(())
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("target", &self.target.address())
            .field("clients", &self.clients)
            .field("threads", &self.threads)
            .field("arrival", &self.arrival)
            .field("length", &self.length)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A duration in nanoseconds, at most `u64::MAX`.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
