//! A runtime whose clock advances only while every task waits, so that a run of minutes takes
//! milliseconds and an exact time can be asserted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use evenkeel::runtime::{
    Clock, Entropy, Event, Instant, Interest, OsRuntime, Readiness, Ready, TaskHandle, Tasks,
    Waits, Waker, WallTime,
};

/// Handed around by value; clones share the clock.
#[derive(Clone, Default)]
pub(super) struct VirtualRuntime(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    now_ns: u64,
    /// Tasks that do not wait; the test's own is counted once it first waits.
    running: isize,
    has_begun: bool,
    next_id: u64,
    sources: BTreeMap<u64, Source>,
    timers: BinaryHeap<Reverse<(u64, u64, u64)>>,
}

#[derive(Default)]
struct Source {
    is_set: bool,
    tokens: Vec<u64>,
    /// A task waits, until then where there is a deadline.
    waiting: Option<Option<u64>>,
}

impl VirtualRuntime {
    /// Makes `token` of the readiness set with this id ready at a time.
    fn wake_at(&self, at_ns: u64, source: u64, token: u64) {
        self.lock().timers.push(Reverse((at_ns, source, token)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.has_begun {
            state.has_begun = true;
            state.running = 1;
        }
        state
    }

    fn new_source(&self) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        let id = state.next_id;
        state.sources.insert(id, Source::default());
        id
    }

    fn signal(&self, id: u64, token: Option<u64>) {
        let mut state = self.lock();
        state.signal(id, token);
        self.0.changed.notify_all();
    }

    /// Waits for a source; true when it was set, which clears it. Its tokens go into `tokens`.
    fn wait(&self, id: u64, deadline: Option<Instant>, tokens: &mut Vec<u64>) -> bool {
        let deadline = deadline.map(Instant::as_nanos);
        let mut state = self.lock();
        let source = state.sources.get(&id).expect("a known source");
        if !source.is_set && deadline.is_none_or(|deadline| deadline > state.now_ns) {
            state.sources.get_mut(&id).expect("a known source").waiting = Some(deadline);
            state.leave(&self.0.changed);
            while state.sources[&id].waiting.is_some() {
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let source = state.sources.get_mut(&id).expect("a known source");
        tokens.append(&mut source.tokens);
        std::mem::take(&mut source.is_set)
    }
}

impl State {
    fn signal(&mut self, id: u64, token: Option<u64>) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        source.is_set = true;
        if let Some(token) = token
            && !source.tokens.contains(&token)
        {
            source.tokens.push(token);
        }
        if source.waiting.take().is_some() {
            self.running += 1;
        }
    }

    /// The calling task stops running; the last one moves the clock.
    fn leave(&mut self, changed: &Condvar) {
        self.running -= 1;
        while self.running == 0 {
            let deadlines = self.sources.values().filter_map(|source| source.waiting.flatten());
            let timer = self.timers.peek().map(|Reverse((at_ns, ..))| *at_ns);
            let Some(next_ns) = deadlines.chain(timer).min() else { break };
            self.now_ns = self.now_ns.max(next_ns);
            while let Some(Reverse((at_ns, id, token))) = self.timers.peek().copied()
                && at_ns <= self.now_ns
            {
                self.timers.pop();
                self.signal(id, Some(token));
            }
            for source in self.sources.values_mut() {
                if source.waiting.flatten().is_some_and(|deadline| deadline <= self.now_ns) {
                    source.waiting = None;
                    self.running += 1;
                }
            }
        }
        changed.notify_all();
    }
}

impl Clock for VirtualRuntime {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.lock().now_ns)
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_nanos(1_800_000_000_000_000_000 + self.now().as_nanos() as i64)
    }
}

impl Tasks for VirtualRuntime {
    /// The threads are the real runtime's; only when they run is ours.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<TaskHandle> {
        self.lock().running += 1;
        let runtime = self.clone();
        let task = OsRuntime::new().spawn(
            name,
            Box::new(move || {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                runtime.lock().leave(&runtime.0.changed);
                if let Err(payload) = result {
                    std::panic::resume_unwind(payload);
                }
            }),
        )?;
        let runtime = self.clone();
        Ok(TaskHandle::new(Box::new(move || {
            runtime.lock().leave(&runtime.0.changed);
            let result = task.join();
            runtime.lock().running += 1;
            result
        })))
    }
}

impl Waits for VirtualRuntime {
    fn sleep_until(&self, deadline: Instant) {
        let id = self.new_source();
        self.wait(id, Some(deadline), &mut Vec::new());
    }

    fn event(&self) -> Arc<dyn Event> {
        Arc::new(VirtualEvent { runtime: self.clone(), id: self.new_source() })
    }

    fn readiness(&self) -> io::Result<Box<dyn Readiness>> {
        Ok(Box::new(VirtualReadiness { runtime: self.clone(), id: self.new_source() }))
    }
}

impl Entropy for VirtualRuntime {
    fn entropy_u64(&self) -> u64 {
        4
    }
}

struct VirtualEvent {
    runtime: VirtualRuntime,
    id: u64,
}

impl Event for VirtualEvent {
    fn notify(&self) {
        self.runtime.signal(self.id, None);
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        self.runtime.wait(self.id, deadline, &mut Vec::new())
    }
}

struct VirtualReadiness {
    runtime: VirtualRuntime,
    id: u64,
}

/// Added to a token, it asks [`VirtualReadiness::waker`] for a waker that fires at the time given by
/// [`Alarm`].
pub(super) struct Alarm {
    runtime: VirtualRuntime,
    source: u64,
    token: u64,
}

impl Alarm {
    pub(super) fn set(&self, at_ns: u64) {
        self.runtime.wake_at(at_ns, self.source, self.token);
    }
}

impl VirtualRuntime {
    /// An alarm for a token of the readiness set that the calling worker made last but one source
    /// ago: sets announce themselves through their wakers, by waking once.
    pub(super) fn alarm(&self, readiness: &dyn Readiness, token: u64) -> Alarm {
        let probe = u64::MAX - 7;
        readiness.waker(probe).wake();
        let mut state = self.lock();
        let (id, source) = state
            .sources
            .iter_mut()
            .find(|(_, source)| source.tokens.contains(&probe))
            .expect("a set that was woken");
        source.tokens.retain(|token| *token != probe);
        source.is_set = !source.tokens.is_empty();
        Alarm { runtime: self.clone(), source: *id, token }
    }
}

impl Readiness for VirtualReadiness {
    fn register(&mut self, _: BorrowedFd<'_>, _: u64, _: Interest) -> io::Result<()> {
        Err(io::Error::other("there are no descriptors in virtual time"))
    }

    fn modify(&mut self, _: BorrowedFd<'_>, _: u64, _: Interest) -> io::Result<()> {
        Err(io::Error::other("there are no descriptors in virtual time"))
    }

    fn deregister(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        Err(io::Error::other("there are no descriptors in virtual time"))
    }

    fn waker(&self, token: u64) -> Waker {
        let (runtime, id) = (self.runtime.clone(), self.id);
        Waker::new(Arc::new(move || runtime.signal(id, Some(token))))
    }

    fn wait(&mut self, deadline: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut tokens = Vec::new();
        self.runtime.wait(self.id, deadline, &mut tokens);
        ready.extend(tokens.into_iter().map(|token| Ready {
            token,
            readable: true,
            writable: false,
        }));
        Ok(())
    }
}
