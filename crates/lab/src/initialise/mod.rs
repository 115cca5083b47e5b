//! Loads pgbench's tables: the same names, columns, types and values as `pgbench -i`
//! (`src/bin/pgbench/pgbench.c`, `initCreateTables`, `initPopulateTable`), in parallel.
//!
//! # Rules
//!
//! The rules are in this folder's README.

mod completeness;
mod load;
mod rows;
mod size;
mod space;
mod tables;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel::runtime::Runtime;

use crate::target::postgres::address::Address;
use crate::target::postgres::client::{Client, ClientError};
pub use completeness::{ReadScaleError, read_scale};
pub use rows::ACCOUNTS_PER_SCALE;
use rows::TELLERS_PER_SCALE;
pub use size::{Estimate, estimate, estimated_bytes};
pub use space::{Need, needs};
use tables::TABLES;
use watch::{Patience, Watched};

/// The comment by which tables of ours are known that hold all their rows, keys and statistics.
pub const MARKER: &str = "loaded by evenkeel init";

/// The comment they carry until then.
pub const MARKER_INCOMPLETE: &str = "being loaded by evenkeel init: incomplete";

/// From this scale on account numbers need 64 bits (pgbench's `SCALE_32BIT_THRESHOLD`).
pub const SCALE_OF_BIGINT: u64 = 20_000;

/// The largest scale: pgbench's own limit, which the 32-bit numbers of branches and tellers set.
pub const LARGEST_SCALE: u64 = 2_147_483_647 / TELLERS_PER_SCALE;

/// The server's code of a statement that was cancelled.
const CANCELED: &str = "57014";

/// How accounts are divided, as pgbench's `--partition-method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionMethod {
    /// By ranges of equal length.
    Range,
    /// By a hash of the number.
    Hash,
}

/// Partitions are tables of their own: beyond this planning costs more than a statement.
const LARGEST_PARTITION_COUNT: u32 = 10_000;

/// What is loaded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialiseOptions {
    /// 100,000 accounts each.
    pub scale: u64,
    /// Percent of a page that rows fill at first; `None`: PostgreSQL's 100, as pgbench.
    pub fillfactor: Option<u32>,
    /// Sessions that load. One puts rows where pgbench puts them; several interleave their blocks
    /// (rule 4).
    pub jobs: u32,
    /// Tables without log: faster to load, empty after a crash.
    pub unlogged: bool,
    /// Where the tables lie; `None`: the database's default.
    pub tablespace: Option<String>,
    /// Where the keys' indexes lie; `None`: the database's default.
    pub index_tablespace: Option<String>,
    /// References between the tables, as pgbench's `--foreign-keys`.
    pub foreign_keys: bool,
    /// Parts of the accounts; 0: the table is not partitioned.
    pub partitions: u32,
    /// How accounts are divided; meaningless without partitions.
    pub partition_method: PartitionMethod,
    /// Whether to run VACUUM ANALYZE when loaded.
    pub vacuum: bool,
    /// Drop the four tables though they are not ours.
    pub force: bool,
}

/// Why nothing, or not all, was loaded.
#[derive(Debug, thiserror::Error)]
pub enum InitialiseError {
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
    /// Tables are in the way that are not ours.
    #[error(
        "{tables} exist in this database and were not made by evenkeel: nothing was changed. Use \
         another database, or --force to drop them with their content"
    )]
    InTheWay {
        /// Their names.
        tables: String,
    },
    /// The user wants out.
    #[error("interrupted: {left}")]
    Interrupted {
        /// What is there now.
        left: Left,
    },
    /// Something failed when tables were being replaced already.
    #[error("{error}; {left}")]
    Unfinished {
        /// What failed.
        #[source]
        error: Box<InitialiseError>,
        /// What is there now.
        left: Left,
    },
    /// The server has neither done nor said anything for too long.
    #[error("the server has not answered for {seconds} s: {answer}; {left}")]
    Silent {
        /// For how long.
        seconds: u64,
        /// What is known of it.
        answer: Answer,
        /// What is there now.
        left: Left,
    },
    /// The server refused, or was lost.
    #[error("{what}: {source}")]
    Client {
        /// What was being done.
        what: &'static str,
        /// What happened.
        source: ClientError,
    },
    /// The system refused a thread, or a task failed.
    #[error("{0}")]
    Task(String),
}

/// What a load that did not come to its end has left in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// What was there before: everything was undone.
    AsBefore,
    /// Our tables, marked so that nothing is run on them.
    Incomplete,
    /// The session was lost while its transaction was being committed.
    InDoubt,
    /// The server was left without a word from it.
    Unanswered,
}

/// What a server says that was asked whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It takes sessions: what it was asked to do takes long.
    Alive,
    /// Processes of it are stopped (SIGSTOP, or by a debugger).
    Stopped,
    /// Nothing.
    None,
}

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Tables are dropped and made.
    Tables,
    /// Accounts are sent: so many of so many.
    Rows {
        /// Sent.
        done: u64,
        /// In all.
        total: u64,
    },
    /// Keys and references are built.
    Keys,
    /// Vacuum, statistics.
    Vacuum,
    /// A checkpoint, so that the first run does not pay for the load.
    Checkpoint,
    /// Within one of the phases above nothing has moved.
    Waiting {
        /// For how long.
        seconds: u64,
        /// What the server says.
        answer: Answer,
    },
}

/// What was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// Accounts.
    pub accounts: u64,
    /// Of the four tables with their indexes.
    pub bytes: Option<u64>,
    /// In all.
    pub duration_ns: u64,
}

impl InitialiseOptions {
    /// As `pgbench -i -s scale`.
    #[must_use]
    pub const fn new(scale: u64) -> Self {
        Self {
            scale,
            fillfactor: None,
            jobs: 1,
            unlogged: false,
            tablespace: None,
            index_tablespace: None,
            foreign_keys: false,
            partitions: 0,
            partition_method: PartitionMethod::Range,
            vacuum: true,
            force: false,
        }
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// With the range.
    pub fn check(&self) -> Result<(), InitialiseError> {
        let refuse = |text: String| Err(InitialiseError::Option(text));
        if !(1..=LARGEST_SCALE).contains(&self.scale) {
            return refuse(format!(
                "a scale of {} cannot be loaded: it is from 1 to {LARGEST_SCALE}",
                self.scale
            ));
        }
        if let Some(fillfactor) = self.fillfactor
            && !(10..=100).contains(&fillfactor)
        {
            return refuse(format!(
                "a fill factor of {fillfactor} is not from 10 to 100 (percent)"
            ));
        }
        if !(1..=128).contains(&self.jobs) {
            return refuse(format!("{} jobs cannot load: 1 to 128 can", self.jobs));
        }
        if self.partitions > LARGEST_PARTITION_COUNT {
            return refuse(format!(
                "{} partitions are too many: at most {LARGEST_PARTITION_COUNT}",
                self.partitions
            ));
        }
        Ok(())
    }

    /// Sessions that load in the end: no more than there are pieces worth sharing.
    #[must_use]
    pub fn effective_jobs(&self) -> u64 {
        u64::from(self.jobs).min(self.scale).max(1)
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AsBefore => "all was undone, the database is as it was before",
            Self::Incomplete => {
                "pgbench's tables are there and marked as incomplete, so that no run takes them for \
                 whole; evenkeel init replaces them"
            }
            Self::Unanswered => {
                "what was not committed is undone as soon as the server goes on, or is gone; what \
                 was committed is marked as incomplete and refused by runs"
            }
            Self::InDoubt => {
                "the server was lost while it committed: the tables are as before, or are marked as \
                 incomplete and refused by runs"
            }
        })
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Tables => f.write_str("making the tables"),
            Self::Rows { done, total } => write!(f, "{done} of {total} accounts"),
            Self::Keys => f.write_str("building keys"),
            Self::Vacuum => f.write_str("vacuum and statistics"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Waiting { seconds, answer: Answer::Alive } => {
                write!(
                    f,
                    "at the same step for {seconds} s; the server takes sessions, so it is waited for"
                )
            }
            Self::Waiting { seconds, answer } => write!(
                f,
                "no answer for {seconds} s: {answer}; the load is given up after {} s without one",
                Patience::OF_PEOPLE.silence.as_secs()
            ),
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Alive => "it takes sessions",
            Self::Stopped => {
                "processes of it are stopped (SIGSTOP, or a debugger); let them go on (kill -CONT)"
            }
            Self::None => "it lets no new session in either; look at its log and its disk",
        })
    }
}

/// Makes and fills the tables. `progress` is told how far it has come, a few times a second; `stop`
/// ends it early, and what the server is doing for it then is cancelled there (rule 7). A server that
/// neither moves nor answers for 30 s ends it too (rule 9).
///
/// # Errors
/// When options are out of range, foreign tables are in the way, or the server refuses or is silent.
/// Where tables were touched the error says what is left of them.
pub fn initialise(
    address: &Address,
    options: &InitialiseOptions,
    runtime: &Arc<dyn Runtime>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Initialised, InitialiseError> {
    initialise_within(Patience::OF_PEOPLE, address, options, runtime, stop, progress)
}

fn initialise_within(
    patience: Patience,
    address: &Address,
    options: &InitialiseOptions,
    runtime: &Arc<dyn Runtime>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Initialised, InitialiseError> {
    options.check()?;
    let began = runtime.now();
    let watch = watch::look_after(address, runtime, patience, stop, progress, {
        let (address, options, runtime) = (address.clone(), options.clone(), Arc::clone(runtime));
        move |watched| {
            let mut left = None;
            let result = make_and_fill(&address, &options, &runtime, watched, &mut left);
            (result, left)
        }
    })?;
    let (result, left) = watch.result;
    let bytes = match (result, watch.silence) {
        (Ok(bytes), _) => bytes,
        (Err(_), Some(answer)) => {
            let left = left.map_or(Left::AsBefore, |_| Left::Unanswered);
            let seconds = patience.silence.as_secs();
            return Err(InitialiseError::Silent { seconds, answer, left });
        }
        (Err(error), None) => return Err(finally(error, left, watch.was_left)),
    };
    Ok(Initialised {
        accounts: options.scale * ACCOUNTS_PER_SCALE,
        bytes,
        duration_ns: runtime.now().nanos_since(began),
    })
}

/// `left` is kept true: what is in the database if the next statement fails.
fn make_and_fill(
    address: &Address,
    options: &InitialiseOptions,
    runtime: &Arc<dyn Runtime>,
    watched: &Watched,
    left: &mut Option<Left>,
) -> Result<Option<u64>, InitialiseError> {
    let mut client = connect(address, runtime, watched)?;
    let existing = tables::existing(&mut client)?;
    let foreign: Vec<&str> =
        existing.iter().filter(|(_, is_ours)| !is_ours).map(|(name, _)| name.as_str()).collect();
    if !foreign.is_empty() && !options.force {
        return Err(InitialiseError::InTheWay { tables: foreign.join(", ") });
    }
    watched.check()?;
    watched.tell(Phase::Tables);
    *left = Some(Left::AsBefore);
    // One transaction: either all tables are as they were, or all are new.
    let jobs = options.effective_jobs();
    let is_single = jobs == 1;
    // COPY cannot freeze rows in a partitioned table.
    let freeze = is_single && options.partitions == 0 && client.server_version() >= 90_300;
    let sql = tables::creation(options, !existing.is_empty(), client.server_version());
    execute(&mut client, "making the tables", &sql)?;
    watched.check()?;
    tables::fill_small(&mut client, options.scale)?;
    if is_single {
        load::in_one_transaction(&mut client, options.scale, freeze, watched)?;
        watched.check()?;
    }
    commit(&mut client, left)?;
    if !is_single {
        load::in_parallel(address, options.scale, jobs, runtime, watched)?;
    }
    watched.check()?;
    watched.tell(Phase::Keys);
    tables::build_keys(&mut client, options, watched)?;
    if options.vacuum {
        watched.tell(Phase::Vacuum);
        let freeze_word = if freeze { "" } else { "freeze, " };
        for table in TABLES {
            watched.check()?;
            let sql = format!("vacuum ({freeze_word}analyze) {table}");
            execute(&mut client, "vacuuming", &sql)?;
        }
    }
    watched.check()?;
    // Rule 1: from here on the tables count as whole.
    execute(&mut client, "marking the tables as complete", &tables::comments(MARKER))?;
    watched.tell(Phase::Checkpoint);
    // Only superusers and members of pg_checkpoint may; for others it comes by itself later, and so
    // it does for those who have no patience: the tables are whole.
    match client.execute("checkpoint") {
        Ok(_) => {}
        Err(error) if matches!(error.sqlstate(), Some("42501" | CANCELED)) => {}
        Err(source) => return Err(InitialiseError::Client { what: "the checkpoint", source }),
    }
    Ok(tables::total_bytes(&mut client))
}

fn commit(client: &mut Client, left: &mut Option<Left>) -> Result<(), InitialiseError> {
    *left = Some(Left::InDoubt);
    match client.execute("commit") {
        Ok(_) => {
            *left = Some(Left::Incomplete);
            Ok(())
        }
        Err(source) => {
            if matches!(source, ClientError::Statement(_)) {
                *left = Some(Left::AsBefore);
            }
            Err(InitialiseError::Client { what: "committing", source })
        }
    }
}

/// The error as the caller sees it: with what is left, and as the wish it was where it was one.
/// `was_left`: nobody waited for the server's answer, which has no other reason here than the wish.
fn finally(error: InitialiseError, left: Option<Left>, was_left: bool) -> InitialiseError {
    match error {
        _ if was_left => {
            InitialiseError::Interrupted { left: left.map_or(Left::AsBefore, |_| Left::Unanswered) }
        }
        InitialiseError::Interrupted { .. } => {
            InitialiseError::Interrupted { left: left.unwrap_or(Left::AsBefore) }
        }
        InitialiseError::Client { ref source, .. } if source.sqlstate() == Some(CANCELED) => {
            InitialiseError::Interrupted { left: left.unwrap_or(Left::AsBefore) }
        }
        error => match left {
            Some(left) => InitialiseError::Unfinished { error: Box::new(error), left },
            None => error,
        },
    }
}

fn connect(
    address: &Address,
    runtime: &Arc<dyn Runtime>,
    watched: &Watched,
) -> Result<Client, InitialiseError> {
    let address = address.clone().with_application_name("evenkeel init");
    let mut client =
        Client::connect_heeding(&address, runtime, watched.leave()).map_err(|error| {
            InitialiseError::Client { what: "connecting", source: ClientError::Target(error) }
        })?;
    watched.cover(&client);
    // Loading and building an index take as long as they take; a server that is silent meanwhile is
    // found out by the watcher.
    client.set_timeout(None);
    // Commits of the load need not wait for the disk one by one; the checkpoint makes all durable.
    execute(&mut client, "preparing the session", "set synchronous_commit = off")?;
    Ok(client)
}

fn execute(client: &mut Client, what: &'static str, sql: &str) -> Result<(), InitialiseError> {
    client.execute(sql).map(|_| ()).map_err(|source| InitialiseError::Client { what, source })
}

#[cfg(test)]
mod tests;
