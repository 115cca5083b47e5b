//! One thread's event loop: starts what is due, follows what is under way, records what ended.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use evenkeel::runtime::{Instant, Readiness, Ready};

use super::client::{Client, Context, Step};
use super::shared::{Phase, Shared, Stage, WorkerShare, WorkerState, lock};
use super::{Calls, ClientAbort, DriverError, Length, Totals, cpu, plan};
use crate::measure::record::{Outcome, TransactionRecord};

/// The token by which the conductor interrupts a wait. Clients have theirs from 0.
const CONDUCTOR_TOKEN: u64 = u64::MAX - 1;

/// Runs the worker with this index to its end; for a task of its own.
pub(super) fn run(shared: &Shared, index: usize) {
    let Some(share) = shared.workers.get(index) else { return };
    let guard = EndGuard { shared, share };
    match Worker::connect(shared, share, index) {
        Err(error) => *lock(&share.stage) = Stage::Failed(error),
        Ok(None) => {}
        Ok(Some(mut worker)) => {
            *lock(&share.waker) = Some(worker.readiness.waker(CONDUCTOR_TOKEN));
            *lock(&share.stage) = Stage::Connected;
            shared.changed.notify();
            while shared.phase() == Phase::Connecting {
                share.go.wait_until(None);
            }
            worker.work();
        }
    }
    drop(guard);
}

/// Tells the conductor that the worker has ended, also when it panics.
struct EndGuard<'a> {
    shared: &'a Shared,
    share: &'a WorkerShare,
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        let mut stage = lock(&self.share.stage);
        if !matches!(*stage, Stage::Failed(_)) {
            *stage = Stage::Ended;
        }
        drop(stage);
        self.shared.changed.notify();
    }
}

struct Worker<'a> {
    shared: &'a Shared,
    share: &'a WorkerShare,
    readiness: Box<dyn Readiness>,
    origin: Instant,
    clients: Vec<Client>,
    /// Clients that are not finished.
    live: usize,
    /// Open loop: free clients, the one that has been free longest first.
    free: VecDeque<usize>,
    /// Pausing clients by the end of their pause.
    sleepers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Closed loop: clients that start their next transaction when the others have had a turn.
    runnable: VecDeque<usize>,
    /// A slot taken ahead of its time; there is a free client for it.
    claimed_ns: Option<u64>,
    is_schedule_over: bool,
    is_open_loop: bool,
    transactions_max: u64,
    latency_limit_ns: u64,
    measured_start_ns: u64,
    /// What was asked of the system by sessions that are closed.
    left: Calls,
}

impl<'a> Worker<'a> {
    /// Opens the sessions of the worker's clients. `None` when the run was stopped meanwhile.
    fn connect(
        shared: &'a Shared,
        share: &'a WorkerShare,
        index: usize,
    ) -> Result<Option<Self>, DriverError> {
        let plan = &shared.plan;
        let mut readiness = shared
            .runtime
            .readiness()
            .map_err(|error| DriverError::System { what: "wait for sessions", error })?;
        let workers = shared.workers.len() as u64;
        let bound = |worker: u64| (u64::from(plan.clients) * worker / workers) as u32;
        let ids = bound(index as u64)..bound(index as u64 + 1);
        let mut clients = Vec::with_capacity(ids.len());
        for id in ids {
            if shared.phase() == Phase::Stopped {
                return Ok(None);
            }
            let mut client = Client::new(id, plan);
            let connected = plan
                .target
                .connect(&*shared.runtime, &plan.workload, plan.query_mode)
                .and_then(|mut session| {
                    session.register(&mut *readiness, clients.len() as u64)?;
                    Ok(session)
                });
            match connected {
                Ok(session) => client.session = Some(session),
                Err(error) => {
                    return Err(DriverError::Connect { client: id, clients: plan.clients, error });
                }
            }
            clients.push(client);
        }
        let transactions_max = match plan.length {
            Length::TransactionsPerClient(count) => count,
            Length::Duration(_) => u64::MAX,
        };
        Ok(Some(Self {
            shared,
            share,
            readiness,
            origin: Instant::from_nanos(0),
            live: clients.len(),
            free: VecDeque::with_capacity(clients.len()),
            sleepers: BinaryHeap::with_capacity(clients.len()),
            runnable: VecDeque::with_capacity(clients.len()),
            clients,
            claimed_ns: None,
            is_schedule_over: false,
            is_open_loop: plan.is_open_loop(),
            transactions_max,
            latency_limit_ns: plan.latency_limit.map_or(u64::MAX, plan::nanos),
            measured_start_ns: plan::nanos(plan.warm_up),
            left: Calls::default(),
        }))
    }

    fn work(&mut self) {
        self.origin = self.shared.origin();
        let cpu_start_ns = cpu::thread_ns();
        let all = 0..self.clients.len();
        if self.is_open_loop {
            self.free.extend(all);
        } else {
            self.runnable.extend(all);
        }
        let mut ready: Vec<Ready> = Vec::with_capacity(256);
        let mut waits = 0;
        loop {
            let mut state = lock(&self.share.state);
            if self.shared.phase() == Phase::Stopped {
                self.cut_off(&mut state);
                break;
            }
            for Ready { token, .. } in ready.drain(..) {
                if token != CONDUCTOR_TOKEN {
                    self.resume(token as usize, &mut state);
                }
            }
            if !self.sleepers.is_empty() {
                self.wake_sleepers(&mut state);
            }
            // One turn each: those that become runnable meanwhile wait for the next.
            for _ in 0..self.runnable.len() {
                let Some(index) = self.runnable.pop_front() else { break };
                state = self.start_closed(index, state);
            }
            if self.is_open_loop {
                state = self.start_due(state);
            }
            drop(state);
            if self.is_over() {
                break;
            }
            let deadline = self.deadline();
            waits += 1;
            if self.readiness.wait(deadline, &mut ready).is_err() {
                // The set of an epoll descriptor of our own does not fail; without it nothing can be
                // waited for, so the sessions are given up.
                let mut state = lock(&self.share.state);
                self.cut_off(&mut state);
                break;
            }
        }
        let mut state = lock(&self.share.state);
        if let Some(due_ns) = self.claimed_ns.take() {
            lock(&self.shared.schedule).give_back(due_ns);
        }
        state.busy_ns = cpu::thread_ns().saturating_sub(cpu_start_ns);
        state.alive_ns = self.now_ns();
        for client in &mut self.clients {
            let drawn = client.take_call_sites();
            if state.call_sites.is_empty() {
                state.call_sites = drawn;
            } else {
                for (site, more) in state.call_sites.iter_mut().zip(&drawn) {
                    site.merge(more);
                }
            }
        }
        for client in &mut self.clients {
            self.left.add_session(client.disconnect(&mut *self.readiness));
        }
        self.left.waits += waits;
        state.calls.add(&self.left);
    }

    fn now_ns(&self) -> u64 {
        self.shared.runtime.now().nanos_since(self.origin)
    }

    /// Whether nothing is left to do.
    fn is_over(&self) -> bool {
        if self.live == 0 {
            return true;
        }
        self.is_open_loop && self.is_schedule_over && self.free.len() == self.live
    }

    /// Until when the worker may sleep, sessions aside.
    fn deadline(&self) -> Option<Instant> {
        if !self.runnable.is_empty() {
            return Some(Instant::from_nanos(0));
        }
        let slot_ns = if self.free.is_empty() { None } else { self.claimed_ns };
        let pause_ns = self.sleepers.peek().map(|Reverse((until_ns, _))| *until_ns);
        let next_ns = match (slot_ns, pause_ns) {
            (Some(slot), Some(pause)) => Some(slot.min(pause)),
            (one, other) => one.or(other),
        };
        next_ns.map(|next_ns| self.origin.plus_nanos(next_ns))
    }

    #[inline]
    fn resume(&mut self, index: usize, state: &mut WorkerState) {
        let step = self.with_client(index, state, Client::resume);
        self.follow(index, step, state);
    }

    fn wake_sleepers(&mut self, state: &mut WorkerState) {
        let now_ns = self.now_ns();
        while let Some(Reverse((until_ns, index))) = self.sleepers.peek().copied() {
            if until_ns > now_ns {
                break;
            }
            self.sleepers.pop();
            if self.clients.get(index).is_some_and(|client| client.is_busy) {
                let step =
                    self.with_client(index, state, |client, context| client.wake(now_ns, context));
                self.follow(index, step, state);
            }
        }
    }

    /// Starts the next transaction of a client in a closed loop.
    fn start_closed<'s>(
        &mut self,
        index: usize,
        state: MutexGuard<'s, WorkerState>,
    ) -> MutexGuard<'s, WorkerState>
    where
        'a: 's,
    {
        if self.shared.phase() != Phase::Running || self.has_had_enough(index) {
            self.finish(index);
            return state;
        }
        let planned_ns = self.now_ns();
        let (mut state, is_connected) = self.reconnected(index, planned_ns, state);
        if is_connected {
            // As in pgbench, opening a session is no part of a closed loop's transaction.
            let start_ns = self.now_ns();
            self.start(index, start_ns, start_ns, &mut state);
        }
        state
    }

    /// Starts transactions that are due, as long as there are free clients.
    fn start_due<'s>(
        &mut self,
        mut state: MutexGuard<'s, WorkerState>,
    ) -> MutexGuard<'s, WorkerState>
    where
        'a: 's,
    {
        while let Some(index) = self.free.front().copied() {
            if self.claimed_ns.is_none() {
                self.claimed_ns = lock(&self.shared.schedule).take();
            }
            let Some(planned_ns) = self.claimed_ns else {
                self.is_schedule_over = true;
                break;
            };
            let now_ns = self.now_ns();
            if planned_ns > now_ns {
                break;
            }
            self.claimed_ns = None;
            let lag_ns = now_ns - planned_ns;
            if lag_ns > self.latency_limit_ns {
                self.skip(index, planned_ns, now_ns, &mut state);
                continue;
            }
            self.free.pop_front();
            let free_since_ns = self.clients.get(index).map_or(0, |client| client.free_since_ns);
            if planned_ns >= self.measured_start_ns {
                state.driver_lag.count(now_ns - planned_ns.max(free_since_ns.min(now_ns)));
            }
            let is_connected;
            (state, is_connected) = self.reconnected(index, planned_ns, state);
            if is_connected {
                let start_ns = if self.shared.plan.reconnect { self.now_ns() } else { now_ns };
                self.start(index, planned_ns, start_ns, &mut state);
            }
        }
        state
    }

    #[inline]
    fn start(&mut self, index: usize, planned_ns: u64, start_ns: u64, state: &mut WorkerState) {
        let shared = self.shared;
        let step = self.with_client(index, state, |client, context| {
            client.begin(planned_ns, start_ns, &shared.plan);
            client.proceed(context)
        });
        self.follow(index, step, state);
    }

    /// Does what a client's step asks for, and starts its next transaction where one may start at
    /// once.
    #[inline]
    fn follow(&mut self, index: usize, mut step: Step, state: &mut WorkerState) {
        loop {
            match step {
                Step::Waiting => return,
                Step::Sleeping(until_ns) => {
                    self.sleepers.push(Reverse((until_ns, index)));
                    return;
                }
                Step::GaveUp { outcome, reason } => {
                    self.give_up(index, outcome, reason, state);
                    return;
                }
                Step::Ended(outcome) => {
                    let end_ns = self.now_ns();
                    let Some(client) = self.clients.get_mut(index) else { return };
                    let record = client.end(outcome, end_ns);
                    let has_waited = client.has_waited;
                    record_ended(&record, state);
                    if self.shared.plan.reconnect {
                        self.left.add_session(client.disconnect(&mut *self.readiness));
                    }
                    if self.is_open_loop {
                        self.free.push_back(index);
                        return;
                    }
                    // A script that waits for nothing would never give the others a turn.
                    if !has_waited || self.shared.plan.reconnect {
                        self.runnable.push_back(index);
                        return;
                    }
                    if self.shared.phase() != Phase::Running || self.has_had_enough(index) {
                        self.finish(index);
                        return;
                    }
                    let shared = self.shared;
                    step = self.with_client(index, state, |client, context| {
                        client.begin(end_ns, end_ns, &shared.plan);
                        client.proceed(context)
                    });
                }
            }
        }
    }

    /// Makes sure that a client has a session. The state is unlocked while one is opened, so that
    /// the conductor need not wait for a server that does not answer.
    fn reconnected<'s>(
        &mut self,
        index: usize,
        planned_ns: u64,
        mut state: MutexGuard<'s, WorkerState>,
    ) -> (MutexGuard<'s, WorkerState>, bool)
    where
        'a: 's,
    {
        let shared = self.shared;
        let Some(client) = self.clients.get_mut(index) else { return (state, false) };
        if client.session.is_some() {
            return (state, true);
        }
        state.reconnecting = Some((client.id, planned_ns));
        drop(state);
        let plan = &shared.plan;
        let start = shared.runtime.now();
        let connected = plan
            .target
            .connect(&*shared.runtime, &plan.workload, plan.query_mode)
            .and_then(|mut session| {
                session.register(&mut *self.readiness, index as u64)?;
                Ok(session)
            });
        self.left.connections += 1;
        self.left.connections_ns += u128::from(shared.runtime.now().nanos_since(start));
        let mut state = lock(&self.share.state);
        // Taken by the conductor where it did not want to wait any longer.
        let is_wanted = state.reconnecting.take().is_some();
        match connected {
            Ok(session) => {
                client.session = Some(session);
                (state, is_wanted)
            }
            Err(error) => {
                client.begin(planned_ns, planned_ns, plan);
                client.is_busy = is_wanted;
                self.give_up(index, Outcome::Aborted, error.to_string(), &mut state);
                (state, false)
            }
        }
    }

    fn skip(&self, index: usize, planned_ns: u64, now_ns: u64, state: &mut WorkerState) {
        let client = self.clients.get(index).map_or(0, |client| client.id);
        let record = TransactionRecord {
            planned_ns,
            start_ns: now_ns,
            end_ns: now_ns,
            think_ns: 0,
            client,
            retries: 0,
            script: 0,
            outcome: Outcome::Skipped,
        };
        record_ended(&record, state);
    }

    fn has_had_enough(&self, index: usize) -> bool {
        self.clients.get(index).is_none_or(|client| client.ended >= self.transactions_max)
    }

    fn finish(&mut self, index: usize) {
        if let Some(client) = self.clients.get_mut(index)
            && !client.is_finished
        {
            client.is_finished = true;
            self.left.add_session(client.disconnect(&mut *self.readiness));
            self.live -= 1;
        }
    }

    #[cold]
    fn give_up(&mut self, index: usize, outcome: Outcome, reason: String, state: &mut WorkerState) {
        let at_ns = self.now_ns();
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.is_finished {
            return;
        }
        if client.is_busy {
            record_ended(&client.end(outcome, at_ns), state);
        }
        state.aborts.push(ClientAbort { client: client.id, at_ns, reason });
        self.finish(index);
        self.free.retain(|free| *free != index);
        if self.free.is_empty()
            && let Some(due_ns) = self.claimed_ns.take()
        {
            lock(&self.shared.schedule).give_back(due_ns);
        }
        if self.shared.plan.exit_on_abort {
            self.shared.wants_stop.store(true, Ordering::Release);
        }
        self.shared.changed.notify();
    }

    /// Records what is under way as it stands.
    fn cut_off(&mut self, state: &mut WorkerState) {
        let now_ns = self.now_ns();
        for client in &mut self.clients {
            if client.is_busy {
                state.cancellers.extend(client.session.as_ref().and_then(|it| it.canceller()));
                record_ended(&client.end(Outcome::Censored, now_ns), state);
            }
        }
    }

    #[inline]
    fn with_client(
        &mut self,
        index: usize,
        state: &mut WorkerState,
        act: impl FnOnce(&mut Client, &mut Context<'_>) -> Step,
    ) -> Step {
        let Some(client) = self.clients.get_mut(index) else { return Step::Waiting };
        let mut context = Context {
            plan: &self.shared.plan,
            runtime: &*self.shared.runtime,
            origin: self.origin,
            readiness: &mut *self.readiness,
            errors: &mut state.errors,
            commands: &mut state.commands,
            debug: &mut state.debug,
        };
        act(client, &mut context)
    }
}

/// Puts a record into the log and the sums.
#[inline]
fn record_ended(record: &TransactionRecord, state: &mut WorkerState) {
    state.log.push(record);
    let totals: &mut Totals = &mut state.totals;
    match record.outcome {
        Outcome::Committed => {
            let response_ns = record.response_ns();
            let response_us = response_ns as f64 / 1e3;
            totals.committed += 1;
            totals.response_sum_ns += u128::from(response_ns);
            totals.response_square_sum_us2 += response_us * response_us;
            totals.lag_sum_ns += u128::from(record.lag_ns());
        }
        Outcome::Skipped => totals.skipped += 1,
        Outcome::Censored => {}
        _ => totals.failed += 1,
    }
    if record.retries > 0 {
        totals.retried += 1;
        totals.retries += u64::from(record.retries);
    }
}
