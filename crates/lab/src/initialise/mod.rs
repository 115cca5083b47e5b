//! Loads pgbench's tables: the same names, columns, types and values as `pgbench -i`
//! (`src/bin/pgbench/pgbench.c`, `initCreateTables`, `initPopulateTable`), in parallel.
//!
//! # Rules
//!
//! 1. A table that exists is dropped only when it carries our comment, or when the caller forces it;
//!    otherwise nothing at all is changed.
//! 2. The size is estimated before anything is made, and compared with the free space by whoever
//!    can see the server's disk.
//! 3. Order: tables, rows, keys, `VACUUM ANALYZE`, `CHECKPOINT`.
//! 4. A single task loads as pgbench does, into a table made in the same transaction, with
//!    `COPY ... FREEZE`. Several tasks cannot share a transaction: their rows are frozen by
//!    `VACUUM FREEZE` afterwards, so that runs do not pay for it.

mod rows;
mod size;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::Runtime;

use crate::target::postgres::address::Address;
use crate::target::postgres::client::{Client, ClientError, quote_identifier};
pub use rows::ACCOUNTS_PER_SCALE;
use rows::{BRANCHES_PER_SCALE, TELLERS_PER_SCALE};
pub use size::estimated_bytes;

/// The comment by which tables of ours are known.
pub const MARKER: &str = "loaded by evenkeel init";

/// From this scale on account numbers need 64 bits (pgbench's `SCALE_32BIT_THRESHOLD`).
pub const SCALE_OF_BIGINT: u64 = 20_000;

/// The largest scale: pgbench's own limit, which the 32-bit numbers of branches and tellers set.
pub const LARGEST_SCALE: u64 = 2_147_483_647 / TELLERS_PER_SCALE;

/// Accounts that a task takes at a time.
const ACCOUNTS_PER_PIECE: u64 = 50_000;

const TABLES: [&str; 4] =
    ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];

/// What is loaded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialiseOptions {
    /// 100,000 accounts each.
    pub scale: u64,
    /// Percent of a page that rows fill at first; `None`: PostgreSQL's 100, as pgbench.
    pub fillfactor: Option<u32>,
    /// Sessions that load.
    pub jobs: u32,
    /// Tables without log: faster to load, empty after a crash.
    pub unlogged: bool,
    /// Where the tables lie; `None`: the database's default.
    pub tablespace: Option<String>,
    /// Where the keys' indexes lie; `None`: the database's default.
    pub index_tablespace: Option<String>,
    /// References between the tables, as pgbench's `--foreign-keys`.
    pub foreign_keys: bool,
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
    /// The user wants out; tables may be left empty or in part full.
    #[error("interrupted; the tables are incomplete, run it again")]
    Interrupted,
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
        Ok(())
    }
}

/// Makes and fills the tables. `progress` is told how far it has come, a few times a second; `stop`
/// ends it early.
///
/// # Errors
/// When options are out of range, foreign tables are in the way, or the server refuses.
pub fn initialise(
    address: &Address,
    options: &InitialiseOptions,
    runtime: &Arc<dyn Runtime>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Initialised, InitialiseError> {
    options.check()?;
    let began = runtime.now();
    let mut client = connect(address, runtime)?;
    let existing = existing_tables(&mut client)?;
    let foreign: Vec<&str> =
        existing.iter().filter(|(_, is_ours)| !is_ours).map(|(name, _)| name.as_str()).collect();
    if !foreign.is_empty() && !options.force {
        return Err(InitialiseError::InTheWay { tables: foreign.join(", ") });
    }
    progress(Phase::Tables);
    // One transaction: either all tables are as they were, or all are new.
    let jobs = u64::from(options.jobs).min(options.scale);
    let freeze = jobs == 1 && client.server_version() >= 90_300;
    execute(&mut client, "making the tables", &tables_sql(options, !existing.is_empty()))?;
    fill_small_tables(&mut client, options.scale)?;
    if freeze {
        fill_in_one_transaction(&mut client, options, stop, progress)?;
        execute(&mut client, "committing the rows", "commit")?;
    } else {
        execute(&mut client, "committing the tables", "commit")?;
        fill_in_parallel(address, options.scale, jobs, runtime, stop, progress)?;
    }
    check_stop(stop)?;
    progress(Phase::Keys);
    build_keys(&mut client, options)?;
    check_stop(stop)?;
    if options.vacuum {
        progress(Phase::Vacuum);
        let freeze_word = if freeze { "" } else { "freeze, " };
        for table in TABLES {
            let sql = format!("vacuum ({freeze_word}analyze) {table}");
            execute(&mut client, "vacuuming", &sql)?;
            check_stop(stop)?;
        }
    }
    progress(Phase::Checkpoint);
    // Only superusers and members of pg_checkpoint may; for others it comes by itself later.
    match client.execute("checkpoint") {
        Ok(_) => {}
        Err(error) if error.sqlstate() == Some("42501") => {}
        Err(source) => return Err(InitialiseError::Client { what: "the checkpoint", source }),
    }
    let bytes = client
        .value(
            "select sum(pg_catalog.pg_total_relation_size(c.oid))::bigint from pg_catalog.pg_class c \
             where c.relname in ('pgbench_accounts', 'pgbench_branches', 'pgbench_history', \
             'pgbench_tellers') and pg_catalog.pg_table_is_visible(c.oid)",
        )
        .ok()
        .flatten()
        .and_then(|text| text.parse().ok());
    Ok(Initialised {
        accounts: options.scale * ACCOUNTS_PER_SCALE,
        bytes,
        duration_ns: runtime.now().nanos_since(began),
    })
}

fn connect(address: &Address, runtime: &Arc<dyn Runtime>) -> Result<Client, InitialiseError> {
    let mut client = Client::connect(address, runtime).map_err(|error| {
        InitialiseError::Client { what: "connecting", source: ClientError::Target(error) }
    })?;
    // Loading and building an index take as long as they take.
    client.set_timeout(None);
    // Commits of the load need not wait for the disk one by one; the checkpoint makes all durable.
    execute(&mut client, "preparing the session", "set synchronous_commit = off")?;
    Ok(client)
}

fn execute(client: &mut Client, what: &'static str, sql: &str) -> Result<(), InitialiseError> {
    client.execute(sql).map(|_| ()).map_err(|source| InitialiseError::Client { what, source })
}

fn check_stop(stop: &AtomicBool) -> Result<(), InitialiseError> {
    if stop.load(Ordering::Relaxed) { Err(InitialiseError::Interrupted) } else { Ok(()) }
}

/// Relations of our names that a statement would meet, and whether they are ours.
fn existing_tables(client: &mut Client) -> Result<Vec<(String, bool)>, InitialiseError> {
    let rows = client
        .query(
            "select c.relname, coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), '') \
             from pg_catalog.pg_class c where c.relname in ('pgbench_accounts', \
             'pgbench_branches', 'pgbench_history', 'pgbench_tellers') \
             and pg_catalog.pg_table_is_visible(c.oid) order by 1",
        )
        .map_err(|source| InitialiseError::Client { what: "looking for tables", source })?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let is_ours = row.value(1).is_some_and(|comment| comment.starts_with(MARKER));
            Some((row.value(0)?.to_owned(), is_ours))
        })
        .collect())
}

/// Begins a transaction and makes the tables in it.
fn tables_sql(options: &InitialiseOptions, drop: bool) -> String {
    let mut sql = String::from("begin; ");
    if drop {
        sql.push_str(&format!("drop table if exists {}; ", TABLES.join(", ")));
    }
    let aid = if options.scale >= SCALE_OF_BIGINT { "bigint" } else { "int" };
    let kind = if options.unlogged { "unlogged table" } else { "table" };
    let tablespace = options
        .tablespace
        .as_deref()
        .map(|name| format!(" tablespace {}", quote_identifier(name)))
        .unwrap_or_default();
    // As pgbench, history is never given a fill factor: nothing in it is updated.
    let fill = options.fillfactor.unwrap_or(100);
    for (name, columns, has_fill) in [
        (
            "pgbench_history",
            format!("tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22)"),
            false,
        ),
        (
            "pgbench_tellers",
            "tid int not null, bid int, tbalance int, filler char(84)".to_owned(),
            true,
        ),
        (
            "pgbench_accounts",
            format!("aid {aid} not null, bid int, abalance int, filler char(84)"),
            true,
        ),
        ("pgbench_branches", "bid int not null, bbalance int, filler char(88)".to_owned(), true),
    ] {
        let with = if has_fill { format!(" with (fillfactor={fill})") } else { String::new() };
        sql.push_str(&format!(
            "create {kind} {name} ({columns}){with}{tablespace}; comment on table {name} is \
             '{MARKER}'; "
        ));
    }
    sql
}

fn fill_small_tables(client: &mut Client, scale: u64) -> Result<(), InitialiseError> {
    let branches = scale * BRANCHES_PER_SCALE;
    let tellers = scale * TELLERS_PER_SCALE;
    execute(
        client,
        "filling pgbench_branches",
        &format!(
            "insert into pgbench_branches (bid, bbalance) \
             select bid, 0 from generate_series(1, {branches}) as bid"
        ),
    )?;
    execute(
        client,
        "filling pgbench_tellers",
        &format!(
            "insert into pgbench_tellers (tid, bid, tbalance) \
             select tid, (tid - 1) / {TELLERS_PER_SCALE} + 1, 0 \
             from generate_series(1, {tellers}) as tid"
        ),
    )
}

fn fill_in_one_transaction(
    client: &mut Client,
    options: &InitialiseOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Phase),
) -> Result<(), InitialiseError> {
    let total = options.scale * ACCOUNTS_PER_SCALE;
    let failed = |source| InitialiseError::Client { what: "loading pgbench_accounts", source };
    let mut copy =
        client.copy_in("copy pgbench_accounts from stdin with (freeze on)").map_err(failed)?;
    let mut buffer = Vec::new();
    let mut next = 0;
    while next < total {
        check_stop(stop)?;
        let until = total.min(next + ACCOUNTS_PER_PIECE);
        for first in (next..until).step_by(rows::BATCH) {
            rows::accounts(first, until.min(first + rows::BATCH as u64), &mut buffer);
            copy.write(&buffer).map_err(failed)?;
        }
        next = until;
        progress(Phase::Rows { done: next, total });
    }
    copy.finish().map_err(failed)?;
    Ok(())
}

/// What the loading tasks share.
struct Load {
    next: AtomicU64,
    done: AtomicU64,
    total: u64,
    stop: Arc<AtomicBool>,
    failure: Mutex<Option<InitialiseError>>,
    has_failed: AtomicBool,
    ended: AtomicU64,
}

fn fill_in_parallel(
    address: &Address,
    scale: u64,
    jobs: u64,
    runtime: &Arc<dyn Runtime>,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(Phase),
) -> Result<(), InitialiseError> {
    let total = scale * ACCOUNTS_PER_SCALE;
    let load = Arc::new(Load {
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        total,
        stop: Arc::clone(stop),
        failure: Mutex::new(None),
        has_failed: AtomicBool::new(false),
        ended: AtomicU64::new(0),
    });
    let wake = runtime.event();
    let mut tasks = Vec::new();
    for _ in 0..jobs {
        let (load_of_task, address) = (Arc::clone(&load), address.clone());
        let (runtime_of_task, wake) = (Arc::clone(runtime), Arc::clone(&wake));
        let spawned = runtime.spawn(
            "init-load",
            Box::new(move || {
                if let Err(error) = load_of_task.run(&address, &runtime_of_task) {
                    load_of_task.has_failed.store(true, Ordering::SeqCst);
                    let mut first =
                        load_of_task.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                }
                load_of_task.ended.fetch_add(1, Ordering::SeqCst);
                wake.notify();
            }),
        );
        match spawned {
            Ok(task) => tasks.push(task),
            Err(error) => {
                load.has_failed.store(true, Ordering::SeqCst);
                load.failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(InitialiseError::Task(format!("starting a task: {error}")));
                break;
            }
        }
    }
    let started = u64::try_from(tasks.len()).unwrap_or(0);
    while load.ended.load(Ordering::SeqCst) < started {
        wake.wait_until(Some(runtime.now().plus(Duration::from_millis(250))));
        progress(Phase::Rows { done: load.done.load(Ordering::Relaxed), total });
    }
    for task in tasks {
        task.join().map_err(|panicked| InitialiseError::Task(panicked.to_string()))?;
    }
    let failure = load.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

impl Load {
    fn run(&self, address: &Address, runtime: &Arc<dyn Runtime>) -> Result<(), InitialiseError> {
        let failed = |source| InitialiseError::Client { what: "loading pgbench_accounts", source };
        let mut client = connect(address, runtime)?;
        let mut buffer = Vec::new();
        loop {
            check_stop(&self.stop)?;
            let first = self.next.fetch_add(ACCOUNTS_PER_PIECE, Ordering::Relaxed);
            if first >= self.total || self.has_failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let until = self.total.min(first + ACCOUNTS_PER_PIECE);
            let mut copy = client.copy_in("copy pgbench_accounts from stdin").map_err(failed)?;
            for first in (first..until).step_by(rows::BATCH) {
                rows::accounts(first, until.min(first + rows::BATCH as u64), &mut buffer);
                copy.write(&buffer).map_err(failed)?;
            }
            copy.finish().map_err(failed)?;
            self.done.fetch_add(until - first, Ordering::Relaxed);
        }
    }
}

fn build_keys(client: &mut Client, options: &InitialiseOptions) -> Result<(), InitialiseError> {
    let tablespace = options
        .index_tablespace
        .as_deref()
        .map(|name| format!(" using index tablespace {}", quote_identifier(name)))
        .unwrap_or_default();
    for (table, column) in
        [("pgbench_branches", "bid"), ("pgbench_tellers", "tid"), ("pgbench_accounts", "aid")]
    {
        let sql = format!("alter table {table} add primary key ({column}){tablespace}");
        execute(client, "building keys", &sql)?;
    }
    if options.foreign_keys {
        for (table, column, target) in [
            ("pgbench_tellers", "bid", "pgbench_branches"),
            ("pgbench_accounts", "bid", "pgbench_branches"),
            ("pgbench_history", "bid", "pgbench_branches"),
            ("pgbench_history", "tid", "pgbench_tellers"),
            ("pgbench_history", "aid", "pgbench_accounts"),
        ] {
            let sql = format!(
                "alter table {table} add constraint {table}_{column}_fkey foreign key ({column}) \
                 references {target}"
            );
            execute(client, "building references", &sql)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
