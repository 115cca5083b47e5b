//! What the conductor and its workers share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::runtime::{Event, Instant, Runtime, Waker};

use super::schedule::Schedule;
use super::{Calls, ClientAbort, CommandTimes, DriverError, Plan, Totals};
use crate::distribution::CallSite;
use crate::measure::histogram::LogHistogram;
use crate::measure::record_log::RecordLog;
use crate::target::Canceller;

/// How far a run has come; only ever goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(super) enum Phase {
    /// Sessions are being opened.
    Connecting = 0,
    /// Transactions start.
    Running = 1,
    /// No transaction that is not due yet starts any more; those under way and due are finished.
    Draining = 2,
    /// Everything is left as it is.
    Stopped = 3,
}

/// Shared by the conductor and all workers.
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) runtime: Arc<dyn Runtime>,
    phase: AtomicU32,
    origin_ns: AtomicU64,
    /// Some client gave up and the plan wants the run to end then.
    pub(super) wants_stop: AtomicBool,
    pub(super) schedule: Mutex<Schedule>,
    /// Wakes the conductor.
    pub(super) changed: Arc<dyn Event>,
    pub(super) workers: Vec<Arc<WorkerShare>>,
}

/// What one worker shares with the conductor.
pub(super) struct WorkerShare {
    /// Sets a connected worker off.
    pub(super) go: Arc<dyn Event>,
    pub(super) stage: Mutex<Stage>,
    /// Interrupts the worker's wait; present once it has connected.
    pub(super) waker: Mutex<Option<Waker>>,
    /// Locked by the worker except while it waits.
    pub(super) state: Mutex<WorkerState>,
}

/// How far a worker has come.
pub(super) enum Stage {
    /// It opens its sessions.
    Connecting,
    /// All its sessions stand.
    Connected,
    /// It could not go on.
    Failed(DriverError),
    /// It has ended.
    Ended,
}

/// What a worker has measured.
#[derive(Default)]
pub(super) struct WorkerState {
    pub(super) log: RecordLog,
    pub(super) totals: Totals,
    pub(super) driver_lag: LogHistogram,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) aborts: Vec<ClientAbort>,
    pub(super) commands: Vec<Vec<CommandTimes>>,
    /// What the random functions of all its clients have drawn.
    pub(super) call_sites: Vec<CallSite>,
    /// Lines of `debug(...)` that the conductor has not handed on yet.
    pub(super) debug: Vec<String>,
    pub(super) calls: Calls,
    /// CPU time of the worker's thread over the run, and how long that was.
    pub(super) busy_ns: u64,
    pub(super) alive_ns: u64,
    /// A client that waits for a new session, and since when its transaction is planned; for the
    /// conductor to record where the worker does not come back.
    pub(super) reconnecting: Option<(u32, u64)>,
    /// What ends, in the target, the requests that were given up.
    pub(super) cancellers: Vec<Canceller>,
}

impl Shared {
    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Connecting,
            1 => Phase::Running,
            2 => Phase::Draining,
            _ => Phase::Stopped,
        }
    }

    /// Goes on to `phase` and wakes all workers.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u32, Ordering::AcqRel);
        for worker in &self.workers {
            worker.go.notify();
            if let Some(waker) = &*lock(&worker.waker) {
                waker.wake();
            }
        }
    }

    pub(super) fn new(plan: Plan, runtime: Arc<dyn Runtime>, schedule: Schedule) -> Self {
        let workers = (0..plan.worker_count())
            .map(|_| {
                Arc::new(WorkerShare {
                    go: runtime.event(),
                    stage: Mutex::new(Stage::Connecting),
                    waker: Mutex::new(None),
                    state: Mutex::new(WorkerState {
                        log: RecordLog::new(),
                        ..WorkerState::default()
                    }),
                })
            })
            .collect();
        Self {
            plan,
            phase: AtomicU32::new(Phase::Connecting as u32),
            origin_ns: AtomicU64::new(0),
            wants_stop: AtomicBool::new(false),
            schedule: Mutex::new(schedule),
            changed: runtime.event(),
            runtime,
            workers,
        }
    }

    pub(super) fn set_origin(&self, origin: Instant) {
        self.origin_ns.store(origin.as_nanos(), Ordering::Release);
    }

    pub(super) fn origin(&self) -> Instant {
        Instant::from_nanos(self.origin_ns.load(Ordering::Acquire))
    }
}

/// Locks; a panic elsewhere leaves sums that are as good as they were.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
