//! What a run leaves behind.

use std::collections::BTreeMap;

use evenkeel::runtime::{Instant, WallTime};

use crate::experiment::document::{Arrival, KeyAudit};
use crate::measure::histogram::LogHistogram;
use crate::measure::record::TransactionRecord;
use crate::measure::record_log::RecordLog;
use crate::target::SessionCalls;

/// All that is known of a run when it has ended. Times are nanoseconds since `origin`.
#[derive(Debug)]
pub struct RunData {
    /// When all sessions stood and the first transaction could start.
    pub origin: Instant,
    /// The wall clock at the origin.
    pub origin_wall: WallTime,
    /// When measuring began: the end of the warm-up.
    pub measured_start_ns: u64,
    /// When the measured part ended: as planned, or earlier where the run was cut short.
    pub measured_end_ns: u64,
    /// The transactions of each thread in the order in which they ended; the last log, where there
    /// is one more than threads, holds slots that no client ever took.
    pub logs: Vec<RecordLog>,
    /// How transactions arrived.
    pub arrival: Arrival,
    /// Sessions.
    pub clients: u32,
    /// Threads.
    pub threads: u32,
    /// Scripts of the workload.
    pub script_count: usize,
    /// See [`super::Plan::latency_limit`].
    pub latency_limit_ns: Option<u64>,
    /// See [`super::Plan::max_tries`].
    pub max_tries: u32,
    /// Clients that gave up, in the order of their going.
    pub aborts: Vec<ClientAbort>,
    /// Failed statements by SQLSTATE, those that were tried again included.
    pub errors: BTreeMap<String, u64>,
    /// Draws against expectation, by call site.
    pub key_audits: Vec<KeyAudit>,
    /// CPU time of our process from the origin to the end.
    pub driver_cpu_ns: Option<u64>,
    /// Share of the threads' time that they were busy.
    pub driver_busy_ratio: Option<f64>,
    /// Lag that arose while a client was free, of transactions planned in the measured part.
    pub driver_lag: LogHistogram,
    /// How long it took until all sessions stood.
    pub connection_ns: u64,
    /// What the workers asked of the system.
    pub calls: Calls,
    /// Largest jump of the wall clock against the monotonic clock.
    pub clock_jump_ns: u64,
    /// Times by script and command, where asked for.
    pub commands: Vec<Vec<CommandTimes>>,
    /// Null when complete; else why not.
    pub incomplete: Option<String>,
    /// The stop flag ended the run.
    pub was_interrupted: bool,
}

/// A client gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAbort {
    /// Which, from 0.
    pub client: u32,
    /// When.
    pub at_ns: u64,
    /// Why, for people.
    pub reason: String,
}

/// What a run's workers asked of the system. Each is a system call where the runtime is the operating
/// system's; looks at the clock are none there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Waits for sessions.
    pub waits: u64,
    /// Writes to sessions' sockets.
    pub sends: u64,
    /// Reads from them.
    pub receives: u64,
    /// Changes of what is waited for.
    pub changes: u64,
    /// Sessions opened while transactions ran (see [`super::Plan::reconnect`]); not in the figures above
    /// for their opening.
    pub connections: u64,
    /// How long that took in sum.
    pub connections_ns: u128,
}

impl Calls {
    pub(super) const fn add(&mut self, other: &Self) {
        self.waits += other.waits;
        self.sends += other.sends;
        self.receives += other.receives;
        self.changes += other.changes;
        self.connections += other.connections;
        self.connections_ns += other.connections_ns;
    }

    pub(super) const fn add_session(&mut self, session: SessionCalls) {
        self.sends += session.sends;
        self.receives += session.receives;
        self.changes += session.changes;
    }

    /// Waits, writes, reads and changes together.
    #[must_use]
    pub const fn system_calls(&self) -> u64 {
        self.waits + self.sends + self.receives + self.changes
    }
}

/// Times of one command of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTimes {
    /// How often it succeeded.
    pub count: u64,
    /// In sum.
    pub sum_ns: u128,
    /// How often it failed for good: the transaction was not tried again.
    pub failures: u64,
    /// How often it failed and the transaction was tried again.
    pub retries: u64,
}

impl RunData {
    /// All transactions, warm-up included, thread by thread.
    pub fn records(&self) -> impl Iterator<Item = TransactionRecord> + '_ {
        self.logs.iter().flat_map(RecordLog::iter)
    }
}
