//! Ends what servers do for a load as soon as the user wants out.
//!
//! A flag cannot end an index build: the statement is the server's. So a task watches the flag and
//! has the server cancel whatever the covered sessions are doing, again and again until the load has
//! noticed, since a cancel between two statements ends neither.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::{Event, Runtime, TaskHandle};

use super::{InitialiseError, Left};
use crate::target::postgres::client::{CancelHandle, Client};

/// How often the flag is looked at: people take a tenth of a second for at once.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Cancellation {
    pub(super) watched: Watched,
    wake: Arc<dyn Event>,
    task: Option<TaskHandle>,
}

/// What every task of the load holds.
#[derive(Clone)]
pub(super) struct Watched(Arc<Shared>);

struct Shared {
    stop: Arc<AtomicBool>,
    is_over: AtomicBool,
    sessions: Mutex<Vec<CancelHandle>>,
}

impl Cancellation {
    /// Begins to watch `stop`, until the value is dropped.
    pub(super) fn watch(stop: &Arc<AtomicBool>, runtime: &Arc<dyn Runtime>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            stop: Arc::clone(stop),
            is_over: AtomicBool::new(false),
            sessions: Mutex::new(Vec::new()),
        });
        let wake = runtime.event();
        let (theirs, of_task) = (Arc::clone(&wake), Arc::clone(&shared));
        let clock = Arc::clone(runtime);
        let task = runtime.spawn(
            "init-cancel",
            Box::new(move || {
                while !of_task.is_over.load(Ordering::SeqCst) {
                    theirs.wait_until(Some(clock.now().plus(LOOK_EVERY)));
                    if of_task.stop.load(Ordering::SeqCst)
                        && !of_task.is_over.load(Ordering::SeqCst)
                    {
                        of_task.cancel_all();
                    }
                }
            }),
        )?;
        Ok(Self { watched: Watched(shared), wake, task: Some(task) })
    }
}

impl Watched {
    /// From now on statements of this session are cancelled too.
    pub(super) fn cover(&self, client: &Client) {
        if let Some(handle) = client.cancel_handle() {
            self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
    }

    /// Whether to go on; the caller of the load puts in what is left.
    pub(super) fn check(&self) -> Result<(), InitialiseError> {
        if self.0.stop.load(Ordering::SeqCst) {
            return Err(InitialiseError::Interrupted { left: Left::AsBefore });
        }
        Ok(())
    }
}

impl Shared {
    fn cancel_all(&self) {
        for session in self.sessions.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // A server that cannot be reached does nothing for us any more.
            let _ = session.cancel();
        }
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.watched.0.is_over.store(true, Ordering::SeqCst);
        self.wake.notify();
        if let Some(task) = self.task.take() {
            let _ = task.join();
        }
    }
}
