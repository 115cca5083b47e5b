//! Sends the accounts, in one session or in several at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::Runtime;

use super::watch::Watched;
use super::{ACCOUNTS_PER_SCALE, InitialiseError, Phase, connect, rows};
use crate::target::postgres::address::Address;
use crate::target::postgres::client::{Client, ClientError};

/// Accounts that a task takes at a time.
const ACCOUNTS_PER_PIECE: u64 = 50_000;

/// Sends all accounts within the transaction that is open.
pub(super) fn in_one_transaction(
    client: &mut Client,
    scale: u64,
    freeze: bool,
    watched: &Watched,
) -> Result<(), InitialiseError> {
    let total = scale * ACCOUNTS_PER_SCALE;
    let option = if freeze { " with (freeze on)" } else { "" };
    let mut copy =
        client.copy_in(&format!("copy pgbench_accounts from stdin{option}")).map_err(failed)?;
    let mut buffer = Vec::new();
    let mut next = 0;
    while next < total {
        let until = total.min(next + ACCOUNTS_PER_PIECE);
        for first in (next..until).step_by(rows::BATCH) {
            watched.check()?;
            rows::accounts(first, until.min(first + rows::BATCH as u64), &mut buffer);
            copy.write(&buffer).map_err(failed)?;
        }
        next = until;
        watched.tell(Phase::Rows { done: next, total });
    }
    copy.finish().map_err(failed)?;
    Ok(())
}

/// What the loading tasks share.
struct Load {
    next: AtomicU64,
    done: AtomicU64,
    total: u64,
    watched: Watched,
    failure: Mutex<Option<InitialiseError>>,
    has_failed: AtomicBool,
    ended: AtomicU64,
}

/// Sends all accounts in `jobs` sessions, a piece at a time in each.
pub(super) fn in_parallel(
    address: &Address,
    scale: u64,
    jobs: u64,
    runtime: &Arc<dyn Runtime>,
    watched: &Watched,
) -> Result<(), InitialiseError> {
    let total = scale * ACCOUNTS_PER_SCALE;
    let load = Arc::new(Load {
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        total,
        watched: watched.clone(),
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
        watched.tell(Phase::Rows { done: load.done.load(Ordering::Relaxed), total });
    }
    for task in tasks {
        task.join().map_err(|panicked| InitialiseError::Task(panicked.to_string()))?;
    }
    let failure = load.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

impl Load {
    fn run(&self, address: &Address, runtime: &Arc<dyn Runtime>) -> Result<(), InitialiseError> {
        let mut client = connect(address, runtime, &self.watched)?;
        let mut buffer = Vec::new();
        loop {
            self.watched.check()?;
            let first = self.next.fetch_add(ACCOUNTS_PER_PIECE, Ordering::Relaxed);
            if first >= self.total || self.has_failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let until = self.total.min(first + ACCOUNTS_PER_PIECE);
            let mut copy = client.copy_in("copy pgbench_accounts from stdin").map_err(failed)?;
            for first in (first..until).step_by(rows::BATCH) {
                self.watched.check()?;
                rows::accounts(first, until.min(first + rows::BATCH as u64), &mut buffer);
                copy.write(&buffer).map_err(failed)?;
            }
            copy.finish().map_err(failed)?;
            self.done.fetch_add(until - first, Ordering::Relaxed);
        }
    }
}

fn failed(source: ClientError) -> InitialiseError {
    InitialiseError::Client { what: "loading pgbench_accounts", source }
}
