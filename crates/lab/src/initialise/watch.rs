//! Looks after a load while it waits for its server: hears the user at once, and ends a load whose
//! server is silent.
//!
//! The load is done by a task of its own; whoever called for it watches here. A flag cannot end an
//! index build: the statement is the server's. So the server is asked to cancel whatever the covered
//! sessions are doing, again and again until the load has noticed, since a cancel between two
//! statements ends neither; and when that does not help, the sessions are left.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::{Event, Instant, Runtime};

use super::{Answer, InitialiseError, Left, Phase};
use crate::target::TargetError;
use crate::target::postgres::address::Address;
use crate::target::postgres::client::{CancelHandle, Client};
use crate::target::postgres::server::{has_stopped_process, postmaster_of};

/// How often the user's flag is looked at: people take a tenth of a second for at once.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long one request to cancel may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a new session may take as the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long what is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// A load that has not moved for so long makes us ask the server whether it is there.
    pub(super) quiet: Duration,
    /// So long without movement and without an answer, and the server counts as gone.
    pub(super) silence: Duration,
    /// How long the server may take to confirm that it has cancelled; then its sessions are left.
    pub(super) cancel: Duration,
}

impl Patience {
    /// The silence is longer than the stalls of disks that write out gigabytes of dirty pages, and
    /// shorter than people's patience; three seconds after Ctrl-C are as much as they give.
    pub(super) const OF_PEOPLE: Self = Self {
        quiet: Duration::from_secs(10),
        silence: Duration::from_secs(30),
        cancel: Duration::from_secs(3),
    };
}

/// What every task of the load holds.
#[derive(Clone)]
pub(super) struct Watched(Arc<Shared>);

struct Shared {
    /// The user wants out.
    stop: Arc<AtomicBool>,
    /// All sessions of the load end their waits.
    leave: Arc<AtomicBool>,
    is_over: AtomicBool,
    /// Grows with everything that the server has done for us.
    steps: AtomicU64,
    sessions: Mutex<Vec<CancelHandle>>,
    /// Where the load is, until the watcher has told it.
    phase: Mutex<Option<Phase>>,
    changed: Arc<dyn Event>,
    is_told: Arc<dyn Event>,
}

/// How a load that was looked after went.
pub(super) struct Watch<T> {
    /// What the task returned.
    pub(super) result: T,
    /// Why its sessions were left, where the server's silence was the reason.
    pub(super) silence: Option<Answer>,
    /// Whether its sessions were left, for whatever reason.
    pub(super) was_left: bool,
}

/// Does `work` in a task of its own and looks after it until it ends; `progress` hears of it from
/// the caller's task.
pub(super) fn look_after<T: Send + 'static>(
    address: &Address,
    runtime: &Arc<dyn Runtime>,
    patience: Patience,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(Phase),
    work: impl FnOnce(&Watched) -> T + Send + 'static,
) -> Result<Watch<T>, InitialiseError> {
    let watched = Watched(Arc::new(Shared {
        stop: Arc::clone(stop),
        leave: Arc::new(AtomicBool::new(false)),
        is_over: AtomicBool::new(false),
        steps: AtomicU64::new(0),
        sessions: Mutex::new(Vec::new()),
        phase: Mutex::new(None),
        changed: runtime.event(),
        is_told: runtime.event(),
    }));
    let result = Arc::new(Mutex::new(None));
    let task = runtime
        .spawn("init", {
            let (watched, result) = (watched.clone(), Arc::clone(&result));
            Box::new(move || {
                let end = End(&watched);
                let done = work(&watched);
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
                drop(end);
            })
        })
        .map_err(|error| InitialiseError::Task(format!("starting a task: {error}")))?;
    let mut watcher = Watcher {
        address,
        runtime,
        patience,
        shared: &watched.0,
        steps: 0,
        moved_at: runtime.now(),
        heard_at: runtime.now(),
        next_question: runtime.now().plus(patience.quiet),
        left_at: None,
        silence: None,
    };
    watcher.watch(progress);
    let silence = watcher.silence;
    task.join().map_err(|panicked| InitialiseError::Task(panicked.to_string()))?;
    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = result.ok_or_else(|| InitialiseError::Task("a task ended early".to_owned()))?;
    Ok(Watch { result, silence, was_left: watched.0.leave.load(Ordering::SeqCst) })
}

impl Watched {
    /// From now on statements of this session are cancelled too.
    pub(super) fn cover(&self, client: &Client) {
        if let Some(handle) = client.cancel_handle() {
            lock(&self.0.sessions).push(handle);
        }
    }

    /// What ends the waits of the load's sessions.
    pub(super) fn leave(&self) -> &Arc<AtomicBool> {
        &self.0.leave
    }

    /// Called after every step that the server has done: whether to go on. The caller of the load
    /// puts in what is left.
    pub(super) fn check(&self) -> Result<(), InitialiseError> {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
        if self.0.stop.load(Ordering::SeqCst) || self.0.leave.load(Ordering::SeqCst) {
            return Err(InitialiseError::Interrupted { left: Left::AsBefore });
        }
        Ok(())
    }

    /// Has the watcher tell how far the load is, and waits until it has: what the caller then wants
    /// holds from this step on.
    pub(super) fn tell(&self, phase: Phase) {
        *lock(&self.0.phase) = Some(phase);
        self.0.changed.notify();
        self.0.is_told.wait_until(None);
    }
}

struct Watcher<'a> {
    address: &'a Address,
    runtime: &'a Arc<dyn Runtime>,
    patience: Patience,
    shared: &'a Shared,
    steps: u64,
    /// When the load's last step was.
    moved_at: Instant,
    /// When the server last did or said anything.
    heard_at: Instant,
    next_question: Instant,
    /// When the sessions are left, once the user wants out.
    left_at: Option<Instant>,
    silence: Option<Answer>,
}

impl Watcher<'_> {
    fn watch(&mut self, progress: &mut dyn FnMut(Phase)) {
        while !self.shared.is_over.load(Ordering::SeqCst) {
            self.shared.changed.wait_until(Some(self.runtime.now().plus(LOOK_EVERY)));
            let phase = lock(&self.shared.phase).take();
            if let Some(phase) = phase {
                progress(phase);
                self.shared.is_told.notify();
            } else if self.shared.is_over.load(Ordering::SeqCst) {
                return;
            } else if self.shared.stop.load(Ordering::SeqCst) {
                self.cancel_all();
            } else {
                self.look(progress);
            }
        }
    }

    fn cancel_all(&mut self) {
        let now = self.runtime.now();
        let left_at = *self.left_at.get_or_insert(now.plus(self.patience.cancel));
        for session in lock(&self.shared.sessions).iter() {
            // A server that does not hear of one does not hear of the others either.
            if self.runtime.now() >= left_at || session.cancel_within(CANCEL_TIMEOUT).is_err() {
                break;
            }
        }
        if self.runtime.now() >= left_at {
            self.shared.leave.store(true, Ordering::SeqCst);
        }
    }

    /// Asks a server that has done nothing for long whether it is there.
    fn look(&mut self, progress: &mut dyn FnMut(Phase)) {
        let now = self.runtime.now();
        let steps = self.shared.steps.load(Ordering::Relaxed);
        if steps != self.steps {
            self.steps = steps;
            self.moved_at = now;
            self.heard_at = now;
            self.next_question = now.plus(self.patience.quiet);
        }
        if now < self.next_question || self.silence.is_some() {
            return;
        }
        let answer = self.ask();
        let now = self.runtime.now();
        if answer == Answer::Alive {
            self.heard_at = now;
        }
        progress(Phase::Waiting { seconds: now.since(self.moved_at).as_secs(), answer });
        if now.since(self.heard_at) >= self.patience.silence {
            self.silence = Some(answer);
            self.shared.leave.store(true, Ordering::SeqCst);
        }
        // From the moment of the question on, so that an answer that takes long delays nothing.
        self.next_question = self.next_question.plus(self.patience.quiet).max(now);
    }

    fn ask(&self) -> Answer {
        if self.address.is_local() {
            let backends: Vec<u32> = lock(&self.shared.sessions)
                .iter()
                .filter_map(|session| u32::try_from(session.process_id()).ok())
                .collect();
            let is_stopped = backends
                .iter()
                .find_map(|backend| postmaster_of(Path::new("/proc"), *backend))
                .is_some_and(has_stopped_process);
            if is_stopped {
                return Answer::Stopped;
            }
        }
        let address = self
            .address
            .clone()
            .with_application_name("evenkeel init")
            .with_connect_timeout(ANSWER_TIMEOUT);
        match Client::connect_heeding(&address, self.runtime, &self.shared.stop) {
            // A refusal, such as that of a full server, is an answer.
            Ok(_) | Err(TargetError::Refused { .. }) => Answer::Alive,
            Err(_) => Answer::None,
        }
    }
}

/// Tells the watcher that the task has ended, also when it panics.
struct End<'a>(&'a Watched);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.0.is_over.store(true, Ordering::SeqCst);
        self.0.0.changed.notify();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
