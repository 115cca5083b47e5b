//! The door for time, sleep, threads, blocking waits and chance.
//!
//! Nothing in the engine or the load driver reads a clock, sleeps, starts a thread, blocks or draws
//! entropy by itself: it asks a [`Runtime`]. [`os::OsRuntime`] answers from the operating system.
//! A simulated runtime can answer from a virtual clock, because every point at which a task may
//! wait is a call into these traits.
//!
//! # Rules
//!
//! 1. [`Clock::now`] never goes back, and is the only time that durations are computed from.
//!    [`Clock::wall`] may jump; it is for showing to people and for noticing that it jumped.
//! 2. A task waits only in [`Waits::sleep_until`], [`Event::wait_until`], [`Readiness::wait`] and
//!    [`TaskHandle::join`]. Locks are held for short, bounded sections that contain no wait.
//! 3. A wait with a deadline returns at or after the deadline, never before it, unless the thing
//!    waited for happened.
//! 4. [`Entropy::entropy_u64`] seeds generators; it is not drawn from inside a measured path. What
//!    was drawn is recorded, so that a run can be repeated.

mod os;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

pub use os::OsRuntime;

/// A point on the monotonic clock, in nanoseconds since an origin that is fixed for the life of
/// the runtime (on Linux: of the machine's current boot).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The point `nanos` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; zero where `earlier` is the later one.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time from `earlier` to `self`; zero where `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The point `nanos` later, at most the clock's end (about 584 years after its origin).
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// The point `duration` later, at most the clock's end.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.plus_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A point on the wall clock, in nanoseconds since 1970-01-01T00:00:00Z. It may jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(i64);

impl WallTime {
    /// The point `nanos` nanoseconds after the Unix epoch (before it where negative).
    #[must_use]
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_unix_nanos(self) -> i64 {
        self.0
    }
}

/// Reads time.
pub trait Clock {
    /// The monotonic clock (rule 1). Costs tens of nanoseconds; no system call on Linux.
    fn now(&self) -> Instant;

    /// The wall clock.
    fn wall(&self) -> WallTime;
}

/// Starts tasks.
pub trait Tasks {
    /// Starts `body` as a task of its own. `name` (at most 15 bytes are shown by the kernel) is for
    /// debuggers and for `top -H`.
    ///
    /// # Errors
    /// When the system refuses another thread.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<TaskHandle>;
}

/// Makes a task wait.
pub trait Waits {
    /// Returns at `deadline` or as soon after it as the system manages; at once if it has passed.
    fn sleep_until(&self, deadline: Instant);

    /// A new event that is not set.
    fn event(&self) -> Arc<dyn Event>;

    /// A new, empty set of sources to wait for.
    ///
    /// # Errors
    /// When the system is out of descriptors.
    fn readiness(&self) -> io::Result<Box<dyn Readiness>>;
}

/// Draws chance.
pub trait Entropy {
    /// 64 bits that nobody can foresee (under simulation: that follow from the seed).
    fn entropy_u64(&self) -> u64;
}

/// The four doors together. Handed around as `Arc<dyn Runtime>`.
pub trait Runtime: Clock + Tasks + Waits + Entropy + Send + Sync {}

impl<T: Clock + Tasks + Waits + Entropy + Send + Sync> Runtime for T {}

/// A flag that tasks wait for. It stays set until one waiter has seen it, so a notification that
/// comes before the wait is not lost.
pub trait Event: Send + Sync {
    /// Sets the event and wakes one waiter.
    fn notify(&self);

    /// Waits until the event is set, and clears it; or until `deadline`. True when it was set.
    fn wait_until(&self, deadline: Option<Instant>) -> bool;
}

/// What a registered source is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the end of the stream.
    Read,
    /// Something new to read, or the end of the stream: reported when it arrives, not for as long as
    /// it is there. Who leaves something unread asks for another report by [`Readiness::modify`]. Saves
    /// the kernel a second look at each source after each report.
    Arrival,
    /// Something to read, or room to write.
    ReadWrite,
}

/// A source that became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token under which the source was registered.
    pub token: u64,
    /// There is something to read, or the peer has closed, or an error waits to be read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// A set of sources one task waits for: sockets, and wakers that other tasks hold.
///
/// Level-triggered, [`Interest::Arrival`] excepted: a source that is still ready is reported again. A
/// source that the peer has closed, or that has failed, is reported by every wait until it is removed,
/// whatever it is waited for, so that nobody misses an end. A set belongs to the task that made it;
/// only its wakers travel.
pub trait Readiness {
    /// Adds `source` under `token`. The caller removes it before closing it.
    ///
    /// # Errors
    /// As the system reports (already registered, out of memory).
    fn register(
        &mut self,
        source: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()>;

    /// Changes what `source` is waited for.
    ///
    /// # Errors
    /// When `source` is not registered.
    fn modify(&mut self, source: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Removes `source`.
    ///
    /// # Errors
    /// When `source` is not registered.
    fn deregister(&mut self, source: BorrowedFd<'_>) -> io::Result<()>;

    /// A waker that any task may use to make `token` ready, for sources without a descriptor.
    fn waker(&self, token: u64) -> Waker;

    /// Replaces the content of `ready` by the sources that are ready, waiting until there is one or
    /// until `deadline` (for ever where there is none). An interruption by a signal returns with
    /// `ready` empty.
    ///
    /// # Errors
    /// As the system reports.
    fn wait(&mut self, deadline: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<()>;
}

/// Makes a token of a [`Readiness`] set ready, from any task.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`; for runtimes to make.
    #[must_use]
    pub fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self(wake)
    }

    /// Makes the token ready once. Several calls before the wait may be reported as one.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// A task ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task '{name}' panicked: {message}")]
pub struct TaskPanicked {
    /// The task's name.
    pub name: String,
    /// The panic's message, where it had one.
    pub message: String,
}

/// A started task.
pub struct TaskHandle {
    join: Box<dyn FnOnce() -> Result<(), TaskPanicked> + Send>,
}

impl TaskHandle {
    /// A handle whose [`join`](Self::join) calls `join`; for runtimes to make.
    #[must_use]
    pub fn new(join: Box<dyn FnOnce() -> Result<(), TaskPanicked> + Send>) -> Self {
        Self { join }
    }

    /// Waits until the task has ended.
    ///
    /// # Errors
    /// When it ended by a panic.
    pub fn join(self) -> Result<(), TaskPanicked> {
        (self.join)()
    }
}

impl std::fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskHandle")
    }
}
