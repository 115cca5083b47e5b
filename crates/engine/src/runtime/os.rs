//! The runtime of the operating system: the only caller of its clocks, threads and waits.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::epoll;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{ClockId, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};

use super::{
    Clock, Entropy, Event, Instant, Interest, Readiness, Ready, TaskHandle, TaskPanicked, Tasks,
    Waits, Waker, WallTime,
};

/// Linux delays timers by up to 50 us to join wake-ups. A schedule in nanoseconds does not want
/// that; 1 ns is the least the kernel takes.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Events taken from the kernel in one wait.
const EVENTS_PER_WAIT: usize = 256;

/// The token of the descriptor through which wakers interrupt a wait; no source may use it.
const WAKE_TOKEN: u64 = u64::MAX;

/// Time, threads, waits and chance as the operating system gives them.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRuntime;

impl OsRuntime {
    /// The runtime; it holds no state.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

fn nanos_of(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

fn timespec_of(nanos: u64) -> Timespec {
    // Both parts fit: 2^64 ns are 2^34 s.
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    }
}

fn monotonic_now() -> Instant {
    Instant::from_nanos(nanos_of(clock_gettime(rustix::time::ClockId::Monotonic)))
}

impl Clock for OsRuntime {
    fn now(&self) -> Instant {
        monotonic_now()
    }

    fn wall(&self) -> WallTime {
        let time = clock_gettime(rustix::time::ClockId::Realtime);
        WallTime::from_unix_nanos(
            time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec),
        )
    }
}

impl Tasks for OsRuntime {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the door through which threads are started"
    )]
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<TaskHandle> {
        let name = name.to_owned();
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            // Refused only by very old kernels; waits are then late by up to 50 us, no more.
            let _ = set_current_timer_slack(Some(TIMER_SLACK_NS));
            body();
        })?;
        Ok(TaskHandle::new(Box::new(move || {
            thread.join().map_err(|payload| {
                let message = payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| payload.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".to_owned());
                TaskPanicked { name, message }
            })
        })))
    }
}

impl Waits for OsRuntime {
    fn sleep_until(&self, deadline: Instant) {
        let request = timespec_of(deadline.as_nanos());
        loop {
            // Absolute, so an interruption by a signal does not add to the wait.
            match rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request) {
                Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }

    fn event(&self) -> Arc<dyn Event> {
        Arc::new(OsEvent { is_set: Mutex::new(false), changed: Condvar::new() })
    }

    fn readiness(&self) -> io::Result<Box<dyn Readiness>> {
        Ok(Box::new(OsReadiness::new()?))
    }
}

impl Entropy for OsRuntime {
    fn entropy_u64(&self) -> u64 {
        // The standard library keys each hasher from the operating system's generator; one hash of
        // nothing is 64 bits derived from it, without a further dependency.
        use std::hash::{BuildHasher, Hasher, RandomState};
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(monotonic_now().as_nanos());
        hasher.finish()
    }
}

struct OsEvent {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Event for OsEvent {
    fn notify(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *is_set {
                *is_set = false;
                return true;
            }
            is_set = match deadline {
                None => self.changed.wait(is_set).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.nanos_since(monotonic_now());
                    if left == 0 {
                        return false;
                    }
                    self.changed
                        .wait_timeout(is_set, Duration::from_nanos(left))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }
}

/// An epoll set, and a descriptor by which wakers interrupt its wait.
struct OsReadiness {
    epoll: OwnedFd,
    wakes: Arc<Wakes>,
    events: Vec<epoll::Event>,
    /// The tokens of sources waited for by [`Interest::Arrival`].
    arrivals: HashMap<RawFd, u64>,
    /// Those among them that have ended: the kernel has reported it once and does not do so again.
    ended: Vec<u64>,
}

struct Wakes {
    descriptor: OwnedFd,
    woken: Mutex<HashMap<u64, ()>>,
}

impl Wakes {
    fn wake(&self, token: u64) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = woken.is_empty();
        woken.insert(token, ());
        drop(woken);
        if was_empty {
            // Fails only when the counter is full, and then the waiter is being woken anyway.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }
}

impl OsReadiness {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(
            &epoll,
            &descriptor,
            epoll::EventData::new_u64(WAKE_TOKEN),
            epoll::EventFlags::IN,
        )?;
        let wakes = Arc::new(Wakes { descriptor, woken: Mutex::new(HashMap::new()) });
        Ok(Self {
            epoll,
            wakes,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            arrivals: HashMap::new(),
            ended: Vec::new(),
        })
    }

    /// Notes how `source` is waited for from now on; `None`: not at all.
    fn note(&mut self, source: BorrowedFd<'_>, token: u64, interest: Option<Interest>) {
        let descriptor = source.as_raw_fd();
        let before = match interest {
            Some(Interest::Arrival) => self.arrivals.insert(descriptor, token),
            _ => self.arrivals.remove(&descriptor),
        };
        // The kernel reports an end anew after each change.
        if let Some(before) = before {
            self.ended.retain(|ended| *ended != before);
        }
    }
}

fn flags_of(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
        Interest::Arrival => {
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET
        }
        Interest::ReadWrite => {
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::OUT
        }
    }
}

fn checked_token(token: u64) -> io::Result<u64> {
    if token == WAKE_TOKEN {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the largest token is reserved for wakers",
        ));
    }
    Ok(token)
}

impl Readiness for OsReadiness {
    fn register(
        &mut self,
        source: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(checked_token(token)?);
        epoll::add(&self.epoll, source, data, flags_of(interest))?;
        self.note(source, token, Some(interest));
        Ok(())
    }

    fn modify(&mut self, source: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(checked_token(token)?);
        epoll::modify(&self.epoll, source, data, flags_of(interest))?;
        self.note(source, token, Some(interest));
        Ok(())
    }

    fn deregister(&mut self, source: BorrowedFd<'_>) -> io::Result<()> {
        self.note(source, WAKE_TOKEN, None);
        Ok(epoll::delete(&self.epoll, source)?)
    }

    fn waker(&self, token: u64) -> Waker {
        let wakes = Arc::clone(&self.wakes);
        Waker::new(Arc::new(move || wakes.wake(token)))
    }

    fn wait(&mut self, deadline: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let timeout = match deadline {
            _ if !self.ended.is_empty() => Some(timespec_of(0)),
            None => None,
            Some(deadline) => {
                let left = match deadline.as_nanos() {
                    0 => 0,
                    _ => deadline.nanos_since(monotonic_now()),
                };
                Some(timespec_of(left))
            }
        };
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let (data, flags) = (event.data, event.flags);
            if data.u64() == WAKE_TOKEN {
                let mut counter = [0_u8; 8];
                // Nothing to read means that the wake was taken by an earlier turn.
                let _ = rustix::io::read(self.wakes.descriptor.as_fd(), &mut counter);
                let mut woken = self.wakes.woken.lock().unwrap_or_else(PoisonError::into_inner);
                ready.extend(woken.drain().map(|(token, ())| Ready {
                    token,
                    readable: true,
                    writable: false,
                }));
                continue;
            }
            let broken = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
            if flags.intersects(epoll::EventFlags::RDHUP | broken)
                && !self.ended.contains(&data.u64())
                && self.arrivals.values().any(|token| *token == data.u64())
            {
                self.ended.push(data.u64());
            }
            ready.push(Ready {
                token: data.u64(),
                readable: flags
                    .intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP | broken),
                writable: flags.intersects(epoll::EventFlags::OUT | broken),
            });
        }
        for token in &self.ended {
            if !ready.iter().any(|ready| ready.token == *token) {
                ready.push(Ready { token: *token, readable: true, writable: true });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_sleep_never_ends_before_its_deadline() {
        let runtime = OsRuntime::new();
        for nanos in [0, 1, 1_000, 300_000] {
            let deadline = runtime.now().plus_nanos(nanos);
            runtime.sleep_until(deadline);
            assert!(runtime.now() >= deadline);
        }
    }

    #[test]
    fn a_notification_before_the_wait_is_not_lost_and_is_seen_once() {
        let runtime = OsRuntime::new();
        let event = runtime.event();
        event.notify();
        event.notify();
        assert!(event.wait_until(Some(runtime.now())));
        assert!(!event.wait_until(Some(runtime.now().plus_nanos(1_000))));
    }

    #[test]
    fn a_waiting_task_is_woken_by_a_notification() {
        let runtime = OsRuntime::new();
        let event = runtime.event();
        let other = Arc::clone(&event);
        let task = runtime.spawn("notifier", Box::new(move || other.notify())).unwrap();
        assert!(event.wait_until(None));
        task.join().unwrap();
    }

    #[test]
    fn a_panic_in_a_task_is_reported_with_its_name_and_message() {
        let runtime = OsRuntime::new();
        let task = runtime.spawn("doomed", Box::new(|| panic!("on purpose"))).unwrap();
        let error = task.join().unwrap_err();
        assert_eq!(error.to_string(), "task 'doomed' panicked: on purpose");
    }

    #[test]
    fn readiness_reports_a_readable_socket_under_its_token() {
        let runtime = OsRuntime::new();
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut readiness = runtime.readiness().unwrap();
        readiness.register(left.as_fd(), 7, Interest::Read).unwrap();
        let mut ready = Vec::new();
        readiness.wait(Some(runtime.now()), &mut ready).unwrap();
        assert!(ready.is_empty());
        right.write_all(b"x").unwrap();
        readiness.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
        readiness.deregister(left.as_fd()).unwrap();
        readiness.wait(Some(runtime.now()), &mut ready).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn an_arrival_is_reported_once_and_again_when_more_comes_or_it_is_asked_for() {
        let runtime = OsRuntime::new();
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut readiness = runtime.readiness().unwrap();
        readiness.register(left.as_fd(), 7, Interest::Arrival).unwrap();
        let mut ready = Vec::new();
        let reported = [Ready { token: 7, readable: true, writable: false }];
        for _ in 0..2 {
            right.write_all(b"x").unwrap();
            readiness.wait(None, &mut ready).unwrap();
            assert_eq!(ready, reported);
            readiness.wait(Some(runtime.now()), &mut ready).unwrap();
            assert!(ready.is_empty());
        }
        readiness.modify(left.as_fd(), 7, Interest::Arrival).unwrap();
        readiness.wait(None, &mut ready).unwrap();
        assert_eq!(ready, reported);
    }

    #[test]
    fn a_closed_source_is_reported_until_it_is_removed_however_it_is_waited_for() {
        let runtime = OsRuntime::new();
        for interest in [Interest::Read, Interest::Arrival, Interest::ReadWrite] {
            let (left, mut right) = UnixStream::pair().unwrap();
            let mut readiness = runtime.readiness().unwrap();
            readiness.register(left.as_fd(), 7, interest).unwrap();
            // What arrives and the end are one report, of which a short read takes but the first half.
            right.write_all(b"last words").unwrap();
            drop(right);
            let mut ready = Vec::new();
            for _ in 0..3 {
                readiness.wait(Some(runtime.now()), &mut ready).unwrap();
                assert_eq!(ready.len(), 1, "{interest:?}");
                assert!(ready[0].token == 7 && ready[0].readable, "{interest:?}");
            }
            readiness.deregister(left.as_fd()).unwrap();
            readiness.wait(Some(runtime.now()), &mut ready).unwrap();
            assert!(ready.is_empty(), "{interest:?}");
        }
    }

    #[test]
    fn a_waker_ends_a_wait_from_another_task() {
        let runtime = OsRuntime::new();
        let mut readiness = runtime.readiness().unwrap();
        let waker = readiness.waker(3);
        let task = runtime.spawn("waker", Box::new(move || waker.wake())).unwrap();
        let mut ready = Vec::new();
        readiness.wait(None, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        assert_eq!(ready[0].token, 3);
        task.join().unwrap();
    }

    #[test]
    fn a_readiness_wait_holds_its_deadline_to_the_microsecond() {
        let runtime = OsRuntime::new();
        let held = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&held);
        let task = runtime
            .spawn(
                "waiter",
                Box::new(move || {
                    let mut readiness = runtime.readiness().unwrap();
                    let deadline = runtime.now().plus_nanos(250_000);
                    readiness.wait(Some(deadline), &mut Vec::new()).unwrap();
                    seen.store(runtime.now() >= deadline, Ordering::SeqCst);
                }),
            )
            .unwrap();
        task.join().unwrap();
        assert!(held.load(Ordering::SeqCst));
    }

    #[test]
    fn the_reserved_token_is_refused() {
        let (left, _right) = UnixStream::pair().unwrap();
        let mut readiness = OsRuntime::new().readiness().unwrap();
        assert!(readiness.register(left.as_fd(), u64::MAX, Interest::Read).is_err());
    }

    #[test]
    fn two_draws_of_entropy_differ() {
        assert_ne!(OsRuntime.entropy_u64(), OsRuntime.entropy_u64());
    }
}
