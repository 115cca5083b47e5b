//! A target inside this process whose answers are scripted by time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::runtime::{Clock as _, Readiness, Runtime};

use super::virtual_time::{Alarm, VirtualRuntime};
use crate::target::{
    Progress, QueryMode, Request, RowSink, Session, StatementError, Target, TargetError,
    TransactionStatus,
};
use crate::workload::script::{Capture, Command, Script, Statement, StatementId, Workload};

/// How a request is answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Success after so long.
    After(u64),
    /// Failure with this SQLSTATE after so long, the block left failed.
    Fails(u64, &'static str),
    /// The connection breaks after so long.
    Breaks(u64),
    /// Nothing ever comes.
    Never,
}

/// What is asked: which request of the target (from 0), at what time, on which session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) now_ns: u64,
    pub(super) session: u64,
}

type Behaviour = Arc<dyn Fn(Asked) -> Answer + Send + Sync>;

pub(super) struct FakeTarget {
    runtime: VirtualRuntime,
    behaviour: Behaviour,
    sessions_max: u64,
    /// Sessions opened so far.
    pub(super) sessions: AtomicU64,
    /// Requests so far.
    pub(super) requests: Arc<AtomicU64>,
}

impl FakeTarget {
    pub(super) fn new(
        runtime: &VirtualRuntime,
        behaviour: impl Fn(Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            behaviour: Arc::new(behaviour),
            sessions_max: u64::MAX,
            sessions: AtomicU64::new(0),
            requests: Arc::new(AtomicU64::new(0)),
        }
    }

    pub(super) fn with_sessions_max(mut self, sessions_max: u64) -> Self {
        self.sessions_max = sessions_max;
        self
    }
}

impl Target for FakeTarget {
    fn address(&self) -> String {
        "fake".to_owned()
    }

    fn connect(
        &self,
        _: &dyn Runtime,
        _: &Arc<Workload>,
        _: QueryMode,
    ) -> Result<Box<dyn Session>, TargetError> {
        let session = self.sessions.fetch_add(1, Ordering::SeqCst);
        if session >= self.sessions_max {
            return Err(TargetError::Refused {
                address: self.address(),
                error: error("53300", "sorry, too many clients already"),
            });
        }
        Ok(Box::new(FakeSession {
            session,
            runtime: self.runtime.clone(),
            behaviour: Arc::clone(&self.behaviour),
            requests: Arc::clone(&self.requests),
            alarm: None,
            pending: None,
            status: TransactionStatus::Idle,
        }))
    }
}

struct FakeSession {
    session: u64,
    runtime: VirtualRuntime,
    behaviour: Behaviour,
    requests: Arc<AtomicU64>,
    alarm: Option<Alarm>,
    pending: Option<(u64, Answer)>,
    status: TransactionStatus,
}

fn error(sqlstate: &str, message: &str) -> Box<StatementError> {
    Box::new(StatementError {
        severity: "ERROR".to_owned(),
        sqlstate: sqlstate.to_owned(),
        message: message.to_owned(),
        detail: None,
        hint: None,
    })
}

impl Session for FakeSession {
    fn register(&mut self, readiness: &mut dyn Readiness, token: u64) -> Result<(), TargetError> {
        self.alarm = Some(self.runtime.alarm(readiness, token));
        Ok(())
    }

    fn deregister(&mut self, _: &mut dyn Readiness) {
        self.alarm = None;
    }

    fn submit(
        &mut self,
        request: Request<'_>,
        _: &mut dyn Readiness,
    ) -> Result<Progress, TargetError> {
        if matches!(request, Request::Rollback) {
            self.status = TransactionStatus::Idle;
            return Ok(Progress::Done);
        }
        assert_eq!(
            self.status,
            TransactionStatus::Idle,
            "a failed block must be rolled back first"
        );
        let now_ns = self.runtime.now().as_nanos();
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let answer = (self.behaviour)(Asked { number, now_ns, session: self.session });
        let after_ns = match answer {
            Answer::After(after_ns) | Answer::Fails(after_ns, _) | Answer::Breaks(after_ns) => {
                after_ns
            }
            Answer::Never => return Ok(Progress::Pending),
        };
        if let Some(alarm) = &self.alarm {
            alarm.set(now_ns + after_ns);
        }
        self.pending = Some((now_ns + after_ns, answer));
        Ok(Progress::Pending)
    }

    fn advance(
        &mut self,
        _: &mut dyn Readiness,
        _: Option<&mut dyn RowSink>,
    ) -> Result<Progress, TargetError> {
        let now_ns = self.runtime.now().as_nanos();
        match self.pending.take() {
            Some((at_ns, answer)) if at_ns <= now_ns => match answer {
                Answer::Fails(_, sqlstate) => {
                    self.status = TransactionStatus::Failed;
                    Ok(Progress::Failed(error(sqlstate, "as scripted")))
                }
                Answer::Breaks(_) => Err(TargetError::Lost {
                    address: "fake".to_owned(),
                    reason: "as scripted".to_owned(),
                }),
                _ => Ok(Progress::Done),
            },
            pending => {
                self.pending = pending;
                Ok(Progress::Pending)
            }
        }
    }

    fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    fn close(self: Box<Self>) {}
}

/// A workload of these commands.
pub(super) fn workload(commands: Vec<Command>) -> Arc<Workload> {
    Arc::new(Workload {
        scripts: vec![Script {
            name: "fake".to_owned(),
            weight: 1,
            lines: (1..).take(commands.len()).collect(),
            numbers: (1..).take(commands.len()).collect(),
            listing: vec![String::new(); commands.len()],
            commands,
        }],
        statements: vec![Statement {
            pieces: Vec::new(),
            text: String::new(),
            parameters: Vec::new(),
            line: 1,
        }],
        ..Workload::default()
    })
}

/// One statement.
pub(super) fn statement() -> Command {
    Command::Sql { statement: StatementId(0), capture: Capture::None }
}
