//! Starts the workers, tells them when to begin and to end, and gathers what they measured.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel::runtime::{Instant, Runtime, TaskHandle, WallTime};

use super::schedule::Schedule;
use super::shared::{Phase, Shared, Stage, WorkerState, lock};
use super::{
    ClientAbort, DriverError, EndedTransactions, Length, Observer, Plan, ProgressReport, RunData,
    StopFlag, Totals, cpu, memory, plan, worker,
};
use crate::distribution::CallSite;
use crate::experiment::document::KeyAudit;
use crate::measure::histogram::LogHistogram;
use crate::measure::record::{Outcome, TransactionRecord};
use crate::measure::record_log::{RecordCursor, RecordLog, RecordRoom};
use crate::target::Canceller;
use crate::workload::compile::call_site_names;
use crate::workload::script::Workload;

/// How often records get room, the clocks are compared and aborted clients are told.
const TICK: Duration = Duration::from_millis(250);

/// How many records are copied while a worker's log is locked: about 5 us.
const ENDED_PER_LOOK: usize = 1024;

/// How long the target may take to hear of one request that was given up, and of all of them.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
const CANCEL_TIMEOUT_OF_ALL: Duration = Duration::from_secs(5);

/// The same for one request where the user wants out; a server that works answers in a millisecond.
const CANCEL_TIMEOUT_AT_STOP: Duration = Duration::from_millis(250);

/// How long workers may take to put their records down once they were told to stop. One that waits
/// for a new session may take longer; it is not waited for.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// Carries out `plan`: opens all sessions, starts transactions, waits for those under way at the
/// end, and returns what was measured. Blocks until then. `observer` hears of it meanwhile, and
/// `stop` ends it at any moment with the results up to then.
///
/// # Errors
/// When the plan contradicts itself, a session cannot be opened at the start, or the system refuses
/// a thread. Later faults are part of the data.
pub fn run(
    plan: Plan,
    runtime: Arc<dyn Runtime>,
    observer: &dyn Observer,
    stop: &StopFlag,
) -> Result<RunData, DriverError> {
    plan.check()?;
    let slots_max = match plan.length {
        Length::Duration(_) => u64::MAX,
        Length::TransactionsPerClient(count) => count.saturating_mul(u64::from(plan.clients)),
    };
    let end_ns = plan.planned_ns().unwrap_or(u64::MAX);
    let schedule = Schedule::new(plan.arrival, plan.seed, end_ns, slots_max);
    let shared = Arc::new(Shared::new(plan, Arc::clone(&runtime), schedule));
    stop.listen(&shared.changed);
    let mut conductor = Conductor::new(shared, stop, observer);
    let result = conductor.conduct();
    if result.is_err() {
        conductor.shared.enter(Phase::Stopped);
    }
    result
}

struct Conductor<'a> {
    shared: Arc<Shared>,
    stop: &'a StopFlag,
    observer: &'a dyn Observer,
    tasks: Vec<TaskHandle>,
    origin: Instant,
    origin_wall: WallTime,
    clock_jump_ns: u64,
    cpu_start_ns: u64,
    connection_ns: u64,
    aborts_told: Vec<usize>,
    /// How far the observer has heard of ended transactions, by worker; empty where it does not want to.
    ended_told: Vec<RecordCursor>,
    ended: Vec<TransactionRecord>,
    reported: Totals,
    reported_at_ns: u64,
    next_report_ns: u64,
    incomplete: Option<String>,
    is_memory_foreseen: bool,
    is_memory_used_up: bool,
}

impl<'a> Conductor<'a> {
    fn new(shared: Arc<Shared>, stop: &'a StopFlag, observer: &'a dyn Observer) -> Self {
        let next_report_ns = shared.plan.progress_interval.map_or(u64::MAX, plan::nanos);
        let aborts_told = vec![0; shared.workers.len()];
        let ended_told = match observer.wants_ended() {
            true => vec![RecordCursor::default(); shared.workers.len()],
            false => Vec::new(),
        };
        let origin = shared.runtime.now();
        let origin_wall = shared.runtime.wall();
        Self {
            shared,
            stop,
            observer,
            tasks: Vec::new(),
            origin,
            origin_wall,
            clock_jump_ns: 0,
            cpu_start_ns: 0,
            connection_ns: 0,
            aborts_told,
            ended_told,
            ended: Vec::with_capacity(ENDED_PER_LOOK),
            reported: Totals::default(),
            reported_at_ns: 0,
            next_report_ns,
            incomplete: None,
            is_memory_foreseen: false,
            is_memory_used_up: false,
        }
    }

    fn conduct(&mut self) -> Result<RunData, DriverError> {
        let runtime = Arc::clone(&self.shared.runtime);
        for index in 0..self.shared.workers.len() {
            if let Some(worker) = self.shared.workers.get(index) {
                lock(&worker.state).commands = self.command_times();
            }
            let shared = Arc::clone(&self.shared);
            let task = runtime
                .spawn(&format!("client-{index}"), Box::new(move || worker::run(&shared, index)))
                .map_err(|error| DriverError::System { what: "start a thread", error })?;
            self.tasks.push(task);
        }
        let is_connected = self.await_sessions()?;
        self.connection_ns = runtime.now().nanos_since(self.origin);
        self.cpu_start_ns = cpu::process_ns();
        self.origin = runtime.now();
        self.origin_wall = runtime.wall();
        self.shared.set_origin(self.origin);
        if is_connected {
            self.shared.enter(Phase::Running);
            self.observer.started(self.connection_ns);
            self.watch();
        } else {
            self.incomplete = Some("interrupted before the first transaction".to_owned());
            self.shared.enter(Phase::Stopped);
            self.await_ends(runtime.now().plus(STOP_PATIENCE));
        }
        self.gather()
    }

    /// Waits until all sessions stand; false when the run was stopped meanwhile.
    fn await_sessions(&self) -> Result<bool, DriverError> {
        loop {
            let mut connected = 0;
            for worker in &self.shared.workers {
                let mut stage = lock(&worker.stage);
                match &*stage {
                    Stage::Connecting => {}
                    Stage::Connected => connected += 1,
                    Stage::Ended => return Ok(true),
                    Stage::Failed(_) => {
                        if let Stage::Failed(error) = std::mem::replace(&mut *stage, Stage::Ended) {
                            return Err(error);
                        }
                    }
                }
            }
            if connected == self.shared.workers.len() {
                return Ok(true);
            }
            if self.stop.is_set() {
                return Ok(false);
            }
            self.shared.changed.wait_until(None);
        }
    }

    /// Follows the run from the first transaction to the last.
    fn watch(&mut self) {
        let runtime = Arc::clone(&self.shared.runtime);
        let end = self.shared.plan.planned_ns().map(|ns| self.origin.plus_nanos(ns));
        let last = end.map(|end| end.plus(self.shared.plan.grace));
        let mut tick = runtime.now().plus(TICK);
        while !self.has_ended() {
            let now = runtime.now();
            if now >= tick {
                self.refill();
                self.tell_ended();
                self.compare_clocks();
                self.look_at_memory(now.nanos_since(self.origin));
                tick = now.plus(TICK);
            }
            self.tell(now.nanos_since(self.origin));
            let reason = if self.stop.is_set() {
                Some("interrupted")
            } else if self.shared.wants_stop.load(Ordering::Acquire) {
                Some("a client gave up")
            } else if self.is_memory_used_up {
                Some(memory::MEMORY_USED_UP)
            } else {
                None
            };
            if reason.is_some() || last.is_some_and(|last| now >= last) {
                let was_over = end.is_some_and(|end| now >= end);
                if !was_over || reason == Some("interrupted") {
                    self.incomplete = reason.map(str::to_owned);
                }
                if !was_over {
                    lock(&self.shared.schedule).cut(now.nanos_since(self.origin));
                }
                self.shared.enter(Phase::Stopped);
                self.await_ends(runtime.now().plus(STOP_PATIENCE));
                break;
            }
            let mut next = tick.min(self.origin.plus_nanos(self.next_report_ns));
            match (end, last) {
                (Some(end), Some(last)) if now >= end => {
                    if self.shared.phase() == Phase::Running {
                        self.shared.enter(Phase::Draining);
                    }
                    next = next.min(last);
                }
                (Some(end), _) => next = next.min(end),
                _ => {}
            }
            self.shared.changed.wait_until(Some(next));
        }
        self.compare_clocks();
        self.tell(runtime.now().nanos_since(self.origin));
    }

    fn has_ended(&self) -> bool {
        self.shared
            .workers
            .iter()
            .all(|worker| matches!(*lock(&worker.stage), Stage::Ended | Stage::Failed(_)))
    }

    fn await_ends(&self, deadline: Instant) {
        while !self.has_ended() && self.shared.runtime.now() < deadline {
            self.shared.changed.wait_until(Some(deadline));
        }
    }

    /// Hands chunks of records to workers that have used their spare one.
    fn refill(&self) {
        for worker in &self.shared.workers {
            if lock(&worker.state).log.wants_spare() {
                let room = RecordRoom::new();
                lock(&worker.state).log.refill(room);
            }
        }
    }

    fn compare_clocks(&mut self) {
        let runtime = &self.shared.runtime;
        let elapsed = i128::from(runtime.now().nanos_since(self.origin));
        let wall = i128::from(runtime.wall().as_unix_nanos())
            - i128::from(self.origin_wall.as_unix_nanos());
        let jump = u64::try_from((wall - elapsed).unsigned_abs()).unwrap_or(u64::MAX);
        self.clock_jump_ns = self.clock_jump_ns.max(jump);
    }

    fn look_at_memory(&mut self, now_ns: u64) {
        let workers = &self.shared.workers;
        let records = workers.iter().map(|worker| lock(&worker.state).log.len() as u64).sum();
        self.is_memory_used_up = memory::is_used_up(records, memory::available_bytes);
        if self.is_memory_foreseen {
            return;
        }
        let Some(planned_ns) = self.shared.plan.planned_ns() else { return };
        let shortage = memory::foresee(records, now_ns, planned_ns, memory::available_bytes);
        if let Some(shortage) = shortage {
            self.is_memory_foreseen = true;
            self.observer.memory_short(&shortage);
        }
    }

    /// Tells the observer what is new.
    fn tell(&mut self, now_ns: u64) {
        let mut aborts: Vec<ClientAbort> = Vec::new();
        for (worker, told) in self.shared.workers.iter().zip(&mut self.aborts_told) {
            let mut state = lock(&worker.state);
            aborts.extend(state.aborts.iter().skip(*told).cloned());
            *told = state.aborts.len();
            let lines = std::mem::take(&mut state.debug);
            drop(state);
            for line in &lines {
                self.observer.debug(line);
            }
        }
        aborts.sort_by_key(|abort| abort.at_ns);
        for abort in &aborts {
            self.observer.client_aborted(abort);
        }
        if now_ns < self.next_report_ns {
            return;
        }
        let mut totals = Totals::default();
        for worker in &self.shared.workers {
            totals.add(&lock(&worker.state).totals);
        }
        self.observer.progress(&ProgressReport {
            elapsed_ns: now_ns,
            interval_ns: now_ns - self.reported_at_ns,
            planned_ns: self.shared.plan.planned_ns(),
            ended: totals.since(&self.reported),
        });
        self.reported = totals;
        self.reported_at_ns = now_ns;
        let interval_ns = self.shared.plan.progress_interval.map_or(u64::MAX, plan::nanos).max(1);
        let passed = (now_ns / interval_ns).saturating_add(1);
        self.next_report_ns = passed.saturating_mul(interval_ns);
    }

    /// Tells the observer of the transactions that have ended since it was told last.
    fn tell_ended(&mut self) {
        for (thread, cursor) in self.ended_told.iter_mut().enumerate() {
            let Some(worker) = self.shared.workers.get(thread) else { return };
            loop {
                self.ended.clear();
                // The lock ends with the statement; the worker would wait for it.
                lock(&worker.state).log.read(cursor, ENDED_PER_LOOK, &mut self.ended);
                if !self.ended.is_empty() {
                    self.observer.ended(&EndedTransactions {
                        thread,
                        origin_wall: self.origin_wall,
                        records: &self.ended,
                    });
                }
                if self.ended.len() < ENDED_PER_LOOK {
                    break;
                }
            }
        }
    }

    fn gather(&mut self) -> Result<RunData, DriverError> {
        self.tell_ended();
        let now_ns = self.shared.runtime.now().nanos_since(self.origin);
        let driver_cpu_ns = cpu::process_ns().saturating_sub(self.cpu_start_ns);
        let planned_ns = self.shared.plan.planned_ns();
        let mut logs = Vec::with_capacity(self.shared.workers.len() + 1);
        let mut gathered = WorkerState { commands: self.command_times(), ..WorkerState::default() };
        let mut driver_lag = LogHistogram::default();
        let mut unclaimed = RecordLog::default();
        for worker in &self.shared.workers {
            let state = std::mem::take(&mut *lock(&worker.state));
            gathered.cancellers.extend(state.cancellers);
            if let Some((client, planned_ns)) = state.reconnecting {
                unclaimed.push(&never_started(client, planned_ns, now_ns));
            }
            driver_lag.merge(&state.driver_lag);
            gathered.aborts.extend(state.aborts);
            for (sqlstate, count) in state.errors {
                *gathered.errors.entry(sqlstate).or_default() += count;
            }
            add_commands(&mut gathered.commands, &state.commands);
            for line in &state.debug {
                self.observer.debug(line);
            }
            if gathered.call_sites.is_empty() {
                gathered.call_sites = state.call_sites;
            } else {
                for (site, more) in gathered.call_sites.iter_mut().zip(&state.call_sites) {
                    site.merge(more);
                }
            }
            gathered.calls.add(&state.calls);
            gathered.busy_ns += state.busy_ns;
            gathered.alive_ns += state.alive_ns;
            logs.push(state.log);
        }
        self.cancel(std::mem::take(&mut gathered.cancellers));
        gathered.aborts.sort_by_key(|abort| abort.at_ns);
        let all_gave_up = gathered.aborts.len() >= self.shared.plan.clients as usize;
        if all_gave_up && self.incomplete.is_none() && planned_ns.is_none_or(|end| now_ns < end) {
            self.incomplete = Some("all clients gave up".to_owned());
        }
        let last_end_ns = logs.iter().flat_map(RecordLog::iter).map(|record| record.end_ns).max();
        let measured_end_ns = match planned_ns {
            Some(end_ns) if self.incomplete.is_some() => end_ns.min(now_ns),
            Some(end_ns) => end_ns,
            // The window's end is exclusive, and the last transaction may have been planned at it.
            None => last_end_ns.map_or(0, |last| last.saturating_add(1)),
        };
        let mut schedule = lock(&self.shared.schedule);
        schedule.cut(measured_end_ns);
        while let Some(planned_ns) = schedule.take() {
            unclaimed.push(&never_started(u32::MAX, planned_ns, now_ns.max(planned_ns)));
        }
        drop(schedule);
        if !unclaimed.is_empty() {
            logs.push(unclaimed);
        }
        let has_ended = self.has_ended();
        for task in self.tasks.drain(..) {
            if has_ended {
                task.join()?;
            }
        }
        let plan = &self.shared.plan;
        let measured_start_ns = plan::nanos(plan.warm_up).min(measured_end_ns);
        Ok(RunData {
            origin: self.origin,
            origin_wall: self.origin_wall,
            measured_start_ns,
            measured_end_ns,
            logs,
            arrival: plan.arrival,
            clients: plan.clients,
            threads: plan.worker_count(),
            script_count: plan.workload.scripts.len(),
            latency_limit_ns: plan.latency_limit.map(plan::nanos),
            max_tries: plan.max_tries,
            aborts: gathered.aborts,
            errors: gathered.errors,
            key_audits: audits(&plan.workload, &gathered.call_sites),
            driver_cpu_ns: Some(driver_cpu_ns),
            driver_busy_ratio: (gathered.alive_ns > 0)
                .then(|| gathered.busy_ns as f64 / gathered.alive_ns as f64),
            driver_lag,
            connection_ns: self.connection_ns,
            calls: gathered.calls,
            clock_jump_ns: self.clock_jump_ns,
            commands: gathered.commands,
            was_interrupted: self.stop.is_set() && self.incomplete.is_some(),
            incomplete: self.incomplete.clone(),
        })
    }

    /// Ends in the target what nobody waits for any more: it would work on for whoever measures next.
    fn cancel(&self, cancellers: Vec<Canceller>) {
        let runtime = self.shared.runtime.as_ref();
        let deadline = runtime.now().plus(CANCEL_TIMEOUT_OF_ALL);
        let timeout = if self.stop.is_set() { CANCEL_TIMEOUT_AT_STOP } else { CANCEL_TIMEOUT };
        for cancel in cancellers {
            // A target that does not hear of one does not hear of the others either.
            if cancel(runtime, timeout).is_err() || runtime.now() >= deadline {
                break;
            }
        }
    }

    /// Zeroed times for each command, where they are wanted.
    fn command_times(&self) -> Vec<Vec<super::CommandTimes>> {
        if !self.shared.plan.report_per_command {
            return Vec::new();
        }
        let scripts = self.shared.plan.workload.scripts.iter();
        scripts.map(|script| vec![super::CommandTimes::default(); script.commands.len()]).collect()
    }
}

/// A slot that no client took.
fn never_started(client: u32, planned_ns: u64, now_ns: u64) -> TransactionRecord {
    TransactionRecord {
        planned_ns,
        start_ns: now_ns,
        end_ns: now_ns,
        think_ns: 0,
        client,
        retries: 0,
        script: 0,
        outcome: Outcome::Censored,
    }
}

fn add_commands(into: &mut [Vec<super::CommandTimes>], from: &[Vec<super::CommandTimes>]) {
    for (into, from) in into.iter_mut().flatten().zip(from.iter().flatten()) {
        into.count += from.count;
        into.sum_ns += from.sum_ns;
        into.failures += from.failures;
        into.retries += from.retries;
    }
}

/// The audits of all random functions that drew keys, by their place.
fn audits(workload: &Workload, call_sites: &[CallSite]) -> Vec<KeyAudit> {
    let names = call_site_names(&workload.call_sites);
    call_sites.iter().zip(&names).filter_map(|(site, name)| site.audit(name)).collect()
}
