//! Whom to run a workload on, behind one seam: [`Session`].
//!
//! A session never blocks: [`Session::submit`] starts work, the driver waits for readiness through
//! `engine::runtime`, and [`Session::advance`] takes what has arrived. A target that completes
//! within `submit` (an engine in this process) says so in its result.

pub mod postgres;

use evenkeel::runtime::{Readiness, Runtime};

use crate::workload::script::{StatementId, Value, Workload};

/// How statements travel (pgbench's `-M`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryMode {
    /// Variables are pasted into the text; one message a statement.
    #[default]
    Simple,
    /// Parse, bind, execute each time.
    Extended,
    /// Parsed once per session, then bound and executed by name.
    Prepared,
}

/// What a session is asked to do next.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Run a statement of the workload; `variables` is the client's array, by slot.
    Statement {
        /// Which one.
        statement: StatementId,
        /// The client's variables, by slot.
        variables: &'a [Value],
        /// Whether rows are wanted; where false they are read and dropped without being looked at.
        wants_rows: bool,
    },
    /// Begin a pipeline: later statements are sent without waiting for results.
    StartPipeline,
    /// Put a synchronisation point into the pipeline.
    SyncPipeline,
    /// Send a synchronisation point and wait for all results of the pipeline.
    EndPipeline,
    /// Leave a failed transaction block (`ROLLBACK`), outside of a script.
    Rollback,
}

/// Takes the rows a statement returns.
pub trait RowSink {
    /// A result begins; `columns` are its column names.
    fn columns(&mut self, columns: &[&str]);
    /// A row, in text form; `None` is NULL.
    fn row(&mut self, values: &[Option<&[u8]>]);
    /// A result ends (a combined query has several).
    fn end_of_result(&mut self);
}

/// How far a request has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something is still to come: wait for readiness.
    Pending,
    /// The request is done; the session can take the next one.
    Done,
    /// The statement failed; the session itself is sound (see [`Session::transaction_status`]).
    Failed(Box<StatementError>),
}

/// Whether a transaction block is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No block is open.
    Idle,
    /// Inside a block.
    InBlock,
    /// Inside a block that failed and can only be rolled back.
    Failed,
}

/// A statement was refused by the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{severity}: {message} (SQLSTATE {sqlstate})")]
pub struct StatementError {
    /// ERROR, FATAL or PANIC.
    pub severity: String,
    /// Five characters.
    pub sqlstate: String,
    /// The server's primary message.
    pub message: String,
    /// Its detail, where there is one.
    pub detail: Option<String>,
    /// Its hint, where there is one.
    pub hint: Option<String>,
}

impl StatementError {
    /// Serialization failure or deadlock: the whole transaction may be tried again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.sqlstate.as_str(), "40001" | "40P01")
    }
}

/// The session, or the way to it, is broken.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nobody answered, or the network refused.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// host:port/database or the socket's path; never a secret.
        address: String,
        /// What happened.
        reason: String,
    },
    /// The server refused the session (password, database, too many connections).
    #[error("{address} refused the session: {error}")]
    Refused {
        /// host:port/database or the socket's path.
        address: String,
        /// The server's words, unauthenticated text made safe.
        error: Box<StatementError>,
    },
    /// The connection ended in the middle.
    #[error("the connection to {address} was lost: {reason}")]
    Lost {
        /// host:port/database or the socket's path.
        address: String,
        /// What happened.
        reason: String,
    },
    /// The server said something that the protocol does not allow.
    #[error("protocol violation by {address}: {reason}")]
    Protocol {
        /// host:port/database or the socket's path.
        address: String,
        /// What was wrong.
        reason: String,
    },
    /// The connection's settings are wrong or unusable.
    #[error("{0}")]
    Configuration(String),
}

/// Opens sessions; shared by all workers.
pub trait Target: Send + Sync {
    /// What to call it in messages and reports; never a secret.
    fn address(&self) -> String;

    /// Opens a session, waiting until it is ready for statements.
    ///
    /// # Errors
    /// When no session is to be had.
    fn connect(
        &self,
        runtime: &dyn Runtime,
        workload: &std::sync::Arc<Workload>,
        mode: QueryMode,
    ) -> Result<Box<dyn Session>, TargetError>;
}

/// How often a session asked the system for something since it stood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCalls {
    /// Writes to the socket.
    pub sends: u64,
    /// Reads from it, those that found nothing included.
    pub receives: u64,
    /// Changes of what is waited for.
    pub changes: u64,
}

/// Asks the target to drop what a session is doing; waits as long as it is told at most.
///
/// # Errors
/// When the target does not hear of it.
pub type Canceller =
    Box<dyn FnOnce(&dyn Runtime, std::time::Duration) -> Result<(), TargetError> + Send>;

/// One session of a target; belongs to one worker.
pub trait Session: Send {
    /// What ends a request of this session from outside; `None` where nothing does.
    fn canceller(&self) -> Option<Canceller> {
        None
    }

    /// Adds the session to the worker's set under `token`.
    ///
    /// # Errors
    /// When the set refuses it.
    fn register(&mut self, readiness: &mut dyn Readiness, token: u64) -> Result<(), TargetError>;

    /// Removes the session from the worker's set.
    fn deregister(&mut self, readiness: &mut dyn Readiness);

    /// Starts a request: [`Progress::Done`] where nothing is to be waited for (inside a pipeline
    /// statements are queued), else [`Progress::Pending`]. Wait for readiness then before the first
    /// [`Session::advance`]: to call it early costs a system call that finds nothing.
    ///
    /// # Errors
    /// When the session is broken.
    fn submit(
        &mut self,
        request: Request<'_>,
        readiness: &mut dyn Readiness,
    ) -> Result<Progress, TargetError>;

    /// Takes what has arrived, sends what still waits to be sent. To be called whenever the
    /// session's token is ready, also while no request is under way: a server may speak, or close
    /// the connection, at any time. Without a request it returns [`Progress::Done`].
    ///
    /// # Errors
    /// When the session is broken.
    fn advance(
        &mut self,
        readiness: &mut dyn Readiness,
        rows: Option<&mut dyn RowSink>,
    ) -> Result<Progress, TargetError>;

    /// Whether a transaction block is open, as of the last completed request.
    fn transaction_status(&self) -> TransactionStatus;

    /// How often the system was asked so far; zero for a target that does not ask it.
    fn calls(&self) -> SessionCalls {
        SessionCalls::default()
    }

    /// Says goodbye and closes, without waiting.
    fn close(self: Box<Self>);
}
