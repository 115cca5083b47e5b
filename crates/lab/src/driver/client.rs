//! One session's way through its scripts.
//!
//! A client never waits by itself: [`Client::proceed`] goes on until something must be waited for,
//! and says what.

use std::collections::BTreeMap;

use evenkeel::runtime::{Instant, Readiness, Runtime};

use super::capture::{Captured, Sink};
use super::evaluation::Evaluation;
use super::{CommandTimes, Plan};
use crate::distribution::{CallSite, Purpose, RandomStream};
use crate::measure::record::{Outcome, TransactionRecord};
use crate::target::{
    Progress, Request, RowSink, Session, SessionCalls, StatementError, TargetError,
    TransactionStatus,
};
use crate::workload::script::{Capture, Command, Script, SleepDuration, Value, Workload};
use crate::workload::value::{sleep_units, truth};

/// One client.
pub(super) struct Client {
    /// From 0, over all workers.
    pub(super) id: u32,
    pub(super) session: Option<Box<dyn Session>>,
    /// Transactions it has ended.
    pub(super) ended: u64,
    /// Since when it has had nothing to do.
    pub(super) free_since_ns: u64,
    /// Whether a transaction is under way.
    pub(super) is_busy: bool,
    /// Whether it waited for anything in the current transaction.
    pub(super) has_waited: bool,
    /// Whether it is out of the run, by its end or by an abort.
    pub(super) is_finished: bool,
    variables: Vec<Value>,
    evaluation: Evaluation,
    script_choice: RandomStream,
    captured: Captured,
    script: usize,
    command: usize,
    waits_for: WaitsFor,
    planned_ns: u64,
    start_ns: u64,
    think_ns: u64,
    retries: u32,
    command_start_ns: u64,
    /// State at the transaction's start, for another try.
    saved_variables: Vec<Value>,
    saved_random: Option<RandomStream>,
}

/// What the current transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    Nothing,
    /// The answer to the current command.
    Answer,
    /// A rollback after a failure of this kind.
    Rollback(Outcome),
    /// The end of a pause that began then.
    Pause(u64),
}

/// How far a client came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for its session.
    Waiting,
    /// It waits until then.
    Sleeping(u64),
    /// The transaction ended.
    Ended(Outcome),
    /// The client cannot go on; so the transaction, if one was under way, ended.
    GaveUp { outcome: Outcome, reason: String },
}

/// Lines of `debug(...)` and of failures kept between two looks of the conductor.
const DEBUG_LINES_MAX: usize = 10_000;

/// What a client needs from its worker.
pub(super) struct Context<'a> {
    pub(super) plan: &'a Plan,
    pub(super) runtime: &'a dyn Runtime,
    pub(super) origin: Instant,
    pub(super) readiness: &'a mut dyn Readiness,
    pub(super) errors: &'a mut BTreeMap<String, u64>,
    pub(super) commands: &'a mut Vec<Vec<CommandTimes>>,
    /// Lines of `debug(...)`, and of failures where they are wanted, for the conductor to hand on.
    pub(super) debug: &'a mut Vec<String>,
}

impl Context<'_> {
    /// Keeps what `debug(...)` prints, as pgbench words it.
    #[cold]
    fn debug(&mut self, (script, command): (usize, u32), text: &str) {
        self.say(|| format!("debug(script={script},command={command}): {text}"));
    }

    /// Keeps a line. The conductor hands it on; what comes faster than it does is not kept.
    fn say(&mut self, line: impl FnOnce() -> String) {
        if self.debug.len() < DEBUG_LINES_MAX {
            self.debug.push(line());
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.runtime.now().nanos_since(self.origin)
    }
}

impl Client {
    pub(super) fn new(id: u32, plan: &Plan) -> Self {
        let workload = &plan.workload;
        let mut variables = vec![Value::Unset; workload.symbols.len()];
        let mut set = |name: &str, value: i64| {
            if let Some(slot) = workload.symbols.find(name)
                && let Some(variable) = variables.get_mut(slot.0 as usize)
            {
                *variable = Value::Int(value);
            }
        };
        // The same hash seed for all clients, as in pgbench, so that they agree on what is hot.
        let shared_seed = RandomStream::new(plan.seed, u64::MAX, Purpose::Script).bits();
        set("default_seed", shared_seed as i64);
        set("random_seed", plan.seed as i64);
        set("client_id", i64::from(id));
        for (slot, value) in &workload.initial {
            if let Some(variable) = variables.get_mut(slot.0 as usize) {
                variable.clone_from(value);
            }
        }
        Self {
            id,
            session: None,
            ended: 0,
            free_since_ns: 0,
            is_busy: false,
            has_waited: false,
            is_finished: false,
            variables,
            evaluation: Evaluation::new(plan.seed, id, workload.call_sites.len()),
            script_choice: RandomStream::new(plan.seed, u64::from(id), Purpose::ScriptChoice),
            captured: Captured::default(),
            script: 0,
            command: 0,
            waits_for: WaitsFor::Nothing,
            planned_ns: 0,
            start_ns: 0,
            think_ns: 0,
            retries: 0,
            command_start_ns: 0,
            saved_variables: Vec::new(),
            saved_random: None,
        }
    }

    /// Sets up the next transaction; [`Self::proceed`] runs it.
    #[inline]
    pub(super) fn begin(&mut self, planned_ns: u64, start_ns: u64, plan: &Plan) {
        self.script = choose_script(&plan.workload.scripts, &mut self.script_choice);
        self.command = 0;
        self.planned_ns = planned_ns;
        self.start_ns = start_ns;
        self.think_ns = 0;
        self.retries = 0;
        self.is_busy = true;
        self.has_waited = false;
        if plan.max_tries != 1 {
            self.saved_variables.clone_from(&self.variables);
            self.saved_random = Some(self.evaluation.random_state());
        }
    }

    /// The record of the transaction under way, ended now.
    #[inline]
    pub(super) fn end(&mut self, outcome: Outcome, end_ns: u64) -> TransactionRecord {
        if let WaitsFor::Pause(began_ns) = self.waits_for {
            self.think_ns += end_ns.saturating_sub(began_ns);
        }
        self.waits_for = WaitsFor::Nothing;
        self.is_busy = false;
        self.ended += 1;
        self.free_since_ns = end_ns;
        TransactionRecord {
            planned_ns: self.planned_ns,
            start_ns: self.start_ns,
            end_ns,
            think_ns: self.think_ns,
            client: self.id,
            retries: self.retries,
            script: u16::try_from(self.script).unwrap_or(u16::MAX),
            outcome,
        }
    }

    /// Goes on after a readiness event. A client without a transaction only listens whether its
    /// session still lives.
    #[inline]
    pub(super) fn resume(&mut self, context: &mut Context<'_>) -> Step {
        let Some(session) = self.session.as_mut() else { return Step::Waiting };
        let workload = &context.plan.workload;
        let capture = match workload.scripts.get(self.script).map(|script| &script.commands) {
            Some(commands) if self.waits_for == WaitsFor::Answer => {
                match commands.get(self.command) {
                    Some(Command::Sql { capture, .. }) => capture,
                    _ => &Capture::None,
                }
            }
            _ => &Capture::None,
        };
        let progress = if *capture == Capture::None {
            session.advance(context.readiness, None)
        } else {
            let symbols = &workload.symbols;
            let mut sink = Sink { captured: &mut self.captured, symbols, capture };
            session.advance(context.readiness, Some(&mut sink as &mut dyn RowSink))
        };
        match (progress, self.waits_for) {
            (Ok(Progress::Pending), _) => Step::Waiting,
            (Ok(Progress::Done), WaitsFor::Answer) => {
                if *capture != Capture::None
                    && let Err(reason) = self.captured.assign(capture, &mut self.variables)
                {
                    return self.give_up(Outcome::OtherError, &reason, context);
                }
                self.count_command(context);
                self.command += 1;
                self.proceed(context)
            }
            (Ok(Progress::Done), WaitsFor::Rollback(outcome)) => {
                self.after_failure(outcome, context)
            }
            // A server may speak at any time; nothing was asked of it.
            (Ok(Progress::Done), _) => Step::Waiting,
            (Ok(Progress::Failed(error)), WaitsFor::Answer) => self.failed(&error, context),
            (Ok(Progress::Failed(error)), _) => {
                self.give_up(Outcome::Aborted, &error.to_string(), context)
            }
            (Err(error), _) => self.lost(&error),
        }
    }

    /// Goes on after a pause.
    pub(super) fn wake(&mut self, now_ns: u64, context: &mut Context<'_>) -> Step {
        if let WaitsFor::Pause(began_ns) = self.waits_for {
            self.think_ns += now_ns.saturating_sub(began_ns);
            self.count_command(context);
            self.command += 1;
        }
        self.proceed(context)
    }

    /// Executes commands until one has to be waited for, or the script ends.
    #[inline]
    pub(super) fn proceed(&mut self, context: &mut Context<'_>) -> Step {
        let workload: &Workload = &context.plan.workload;
        self.waits_for = WaitsFor::Nothing;
        let Some(script) = workload.scripts.get(self.script) else {
            return Step::Ended(Outcome::OtherError);
        };
        loop {
            let Some(command) = script.commands.get(self.command) else {
                return self.script_ended(context);
            };
            if context.plan.report_per_command {
                self.command_start_ns = context.now_ns();
            }
            let request = match command {
                Command::Sql { statement, capture } => {
                    let wants_rows = *capture != Capture::None;
                    if wants_rows {
                        self.captured.clear();
                    }
                    Request::Statement {
                        statement: *statement,
                        variables: &self.variables,
                        wants_rows,
                    }
                }
                Command::Set { variable, expression } => {
                    let place = (self.script, script.number(self.command));
                    let mut print = |text: &str| context.debug(place, text);
                    match self.evaluation.evaluate(expression, &self.variables, &mut print) {
                        Ok(value) => {
                            if let Some(place) = self.variables.get_mut(variable.0 as usize) {
                                *place = value;
                            }
                        }
                        Err(reason) => {
                            return self.give_up(Outcome::OtherError, &reason, context);
                        }
                    }
                    self.count_command(context);
                    self.command += 1;
                    continue;
                }
                Command::JumpUnless { condition, target } => {
                    let place = (self.script, script.number(self.command));
                    let mut print = |text: &str| context.debug(place, text);
                    let is_true = self
                        .evaluation
                        .evaluate(condition, &self.variables, &mut print)
                        .and_then(|value| truth(&value).map_err(|error| error.to_string()));
                    self.count_command(context);
                    match is_true {
                        Ok(true) => self.command += 1,
                        Ok(false) => self.command = *target,
                        Err(reason) => {
                            return self.give_up(Outcome::OtherError, &reason, context);
                        }
                    }
                    continue;
                }
                Command::Jump { target } => {
                    self.command = *target;
                    continue;
                }
                Command::Sleep { duration, unit_ns } => {
                    let units = match duration {
                        SleepDuration::Constant(units) => Ok(*units),
                        SleepDuration::Variable(slot) => sleep_units(
                            self.variables.get(slot.0 as usize).unwrap_or(&Value::Unset),
                        ),
                    };
                    match units {
                        Ok(units) => {
                            let now_ns = context.now_ns();
                            self.waits_for = WaitsFor::Pause(now_ns);
                            self.has_waited = true;
                            let pause_ns = units.saturating_mul(*unit_ns);
                            return Step::Sleeping(now_ns.saturating_add(pause_ns));
                        }
                        Err(reason) => {
                            return self.give_up(Outcome::OtherError, &reason, context);
                        }
                    }
                }
                Command::StartPipeline => Request::StartPipeline,
                Command::SyncPipeline => Request::SyncPipeline,
                Command::EndPipeline => Request::EndPipeline,
            };
            let Some(session) = self.session.as_mut() else {
                return Step::GaveUp {
                    outcome: Outcome::Aborted,
                    reason: "the session is closed".to_owned(),
                };
            };
            match session.submit(request, context.readiness) {
                Ok(Progress::Pending) => {
                    self.waits_for = WaitsFor::Answer;
                    self.has_waited = true;
                    return Step::Waiting;
                }
                Ok(Progress::Done) => {
                    self.count_command(context);
                    self.command += 1;
                }
                Ok(Progress::Failed(error)) => return self.failed(&error, context),
                Err(error) => return self.lost(&error),
            }
        }
    }

    /// Leaves the run's set and closes the session; what it asked of the system until then.
    pub(super) fn disconnect(&mut self, readiness: &mut dyn Readiness) -> SessionCalls {
        let Some(mut session) = self.session.take() else { return SessionCalls::default() };
        let calls = session.calls();
        session.deregister(readiness);
        session.close();
        calls
    }

    #[inline]
    fn script_ended(&mut self, context: &mut Context<'_>) -> Step {
        let status = self.session.as_ref().map(|session| session.transaction_status());
        match status {
            Some(TransactionStatus::Idle) | None => Step::Ended(Outcome::Committed),
            Some(_) => self.give_up(
                Outcome::OtherError,
                "the script ended without completing its last transaction",
                context,
            ),
        }
    }

    #[cold]
    fn failed(&mut self, error: &StatementError, context: &mut Context<'_>) -> Step {
        *context.errors.entry(error.sqlstate.clone()).or_default() += 1;
        if context.plan.verbose_errors {
            let (client, script) = (self.id, self.script);
            let number =
                context.plan.workload.scripts.get(script).map_or(0, |one| one.number(self.command));
            // pgbench counts from 0 here, and from 1 in debug().
            let command = number.saturating_sub(1);
            context.say(|| {
                format!(
                    "client {client} got an error in command {command} (SQL) of script {script}; {error}"
                )
            });
        }
        let outcome = match error.sqlstate.as_str() {
            "40001" => Outcome::SerializationFailure,
            "40P01" => Outcome::Deadlock,
            _ if context.plan.continue_on_error && error.severity == "ERROR" => Outcome::OtherError,
            _ => {
                self.count_failure(context);
                return self.give_up(Outcome::OtherError, &error.to_string(), context);
            }
        };
        let Some(session) = self.session.as_mut() else { return Step::Ended(outcome) };
        if session.transaction_status() == TransactionStatus::Idle {
            return self.after_failure(outcome, context);
        }
        match session.submit(Request::Rollback, context.readiness) {
            Ok(Progress::Pending) => {
                self.waits_for = WaitsFor::Rollback(outcome);
                self.has_waited = true;
                Step::Waiting
            }
            Ok(Progress::Done) => self.after_failure(outcome, context),
            Ok(Progress::Failed(error)) => {
                self.give_up(Outcome::Aborted, &error.to_string(), context)
            }
            Err(error) => self.lost(&error),
        }
    }

    /// The failed transaction is out of the way: try again, or leave it.
    fn after_failure(&mut self, outcome: Outcome, context: &mut Context<'_>) -> Step {
        let plan = context.plan;
        let is_retryable = matches!(outcome, Outcome::SerializationFailure | Outcome::Deadlock);
        let tries = self.retries.saturating_add(1);
        let age_ns = context.now_ns().saturating_sub(self.planned_ns);
        let is_in_time = plan.latency_limit.is_none_or(|limit| age_ns <= super::plan::nanos(limit));
        let is_given_up =
            !is_retryable || (plan.max_tries != 0 && tries >= plan.max_tries) || !is_in_time;
        if plan.verbose_errors {
            let client = self.id;
            context.say(|| tries_told(client, is_given_up, tries, age_ns, plan));
        }
        if is_given_up {
            self.count_failure(context);
            return Step::Ended(outcome);
        }
        if plan.report_per_command
            && let Some(times) = self.command_times(context)
        {
            times.retries += 1;
        }
        self.retries = tries;
        self.variables.clone_from(&self.saved_variables);
        if let Some(state) = &self.saved_random {
            self.evaluation.restore(state);
        }
        self.command = 0;
        // Yielding here keeps a statement that fails at once from holding up the other clients.
        self.proceed(context)
    }

    #[cold]
    fn lost(&mut self, error: &TargetError) -> Step {
        Step::GaveUp { outcome: Outcome::Aborted, reason: error.to_string() }
    }

    /// What each random function has drawn; nothing is left behind.
    pub(super) fn take_call_sites(&mut self) -> Vec<CallSite> {
        self.evaluation.take_call_sites()
    }

    #[cold]
    fn give_up(&mut self, outcome: Outcome, reason: &str, context: &Context<'_>) -> Step {
        let script = context.plan.workload.scripts.get(self.script);
        let name = script.map_or("?", |script| script.name.as_str());
        let line = script.and_then(|script| script.lines.get(self.command)).copied();
        let reason = match line {
            Some(line) => format!("{name}, line {line}: {reason}"),
            None => format!("{name}: {reason}"),
        };
        Step::GaveUp { outcome, reason }
    }

    /// The current command has been done; measured only where that is wanted.
    #[inline]
    fn count_command(&self, context: &mut Context<'_>) {
        if !context.plan.report_per_command {
            return;
        }
        let took_ns = context.now_ns().saturating_sub(self.command_start_ns);
        if let Some(times) = self.command_times(context) {
            times.count += 1;
            times.sum_ns += u128::from(took_ns);
        }
    }

    /// The current command has failed for good; one that is tried again counts as a retry, as in pgbench.
    fn count_failure(&self, context: &mut Context<'_>) {
        if let Some(times) = self.command_times(context) {
            times.failures += 1;
        }
    }

    fn command_times<'a>(&self, context: &'a mut Context<'_>) -> Option<&'a mut CommandTimes> {
        context.commands.get_mut(self.script)?.get_mut(self.command)
    }
}

/// What becomes of a transaction that failed, and how much of its limits is used up, in pgbench's words
/// (`printVerboseErrorMessages` in pgbench.c).
#[cold]
fn tries_told(client: u32, is_given_up: bool, tries: u32, age_ns: u64, plan: &Plan) -> String {
    let what = if is_given_up {
        "ends the failed transaction"
    } else {
        "repeats the transaction after the error"
    };
    let most = if plan.max_tries == 0 { String::new() } else { format!("/{}", plan.max_tries) };
    let used = plan.latency_limit.map_or_else(String::new, |limit| {
        let percent = 100.0 * age_ns as f64 / 1e9 / limit.as_secs_f64();
        format!(", {percent:.3}% of the maximum time of tries was used")
    });
    format!("client {client} {what} (try {tries}{most}{used})")
}

/// Draws a script by weight.
#[inline]
fn choose_script(scripts: &[Script], stream: &mut RandomStream) -> usize {
    if scripts.len() == 1 {
        return 0;
    }
    let total: u64 = scripts.iter().map(|script| u64::from(script.weight)).sum();
    let mut left = stream.up_to(total.saturating_sub(1));
    for (index, script) in scripts.iter().enumerate() {
        match left.checked_sub(u64::from(script.weight)) {
            Some(rest) => left = rest,
            None => return index,
        }
    }
    0
}
