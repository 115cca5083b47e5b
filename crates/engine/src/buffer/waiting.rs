//! Tasks that wait for something of a frame: its content lock, its pins, the end of a write.
//!
//! Whoever must wait joins a queue, sets the flag for it in the frame's state word, and looks once more
//! before it waits. Whoever gives something back changes the same word and sees the flag. Of those two
//! changes one comes first: either the waiter finds what it wants, or the giver finds the waiter. So no
//! wake-up is lost, and nobody looks at a queue unless the flag says that somebody waits.

use std::sync::Arc;

use super::descriptor::{Frame, LOCK_WAITERS, PIN_WAITERS, WRITE_WAITERS};
use super::error::PoolError;
use crate::runtime::{Event, Runtime};
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard, lock};

/// Queues; a frame's waiters are in one of them.
const STRIPES: usize = 64;

/// What a waiting task is told.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Look again: what was waited for may be free.
    Again,
    /// The page is in this frame, which has a pin for the task.
    Page(u32),
    /// The page could not be read.
    Failed(PoolError),
}

/// One task's place to wait at. A task waits for one thing at a time, so one is enough.
pub(super) struct Waiter {
    event: Arc<dyn Event>,
    answer: Mutex<Option<Answer>>,
}

impl Waiter {
    pub(super) fn new(runtime: &dyn Runtime) -> Self {
        Self { event: runtime.event(), answer: Mutex::new(None) }
    }

    /// Waits for an answer.
    pub(super) fn wait(&self) -> Answer {
        loop {
            if let Some(answer) = lock(&self.answer).take() {
                return answer;
            }
            self.event.wait_until(None);
        }
    }

    /// Ends the wait.
    pub(super) fn answer(&self, answer: Answer) {
        *lock(&self.answer) = Some(answer);
        self.event.notify();
    }
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Shared,
    Exclusive,
    Pins,
    Write,
}

impl For {
    const fn flag(self) -> u64 {
        match self {
            Self::Shared | Self::Exclusive => LOCK_WAITERS,
            Self::Pins => PIN_WAITERS,
            Self::Write => WRITE_WAITERS,
        }
    }
}

struct Queued {
    frame: u32,
    reason: For,
    waiter: Arc<Waiter>,
}

/// See the module.
pub(super) struct Queues(Box<[Mutex<Vec<Queued>>]>);

impl Queues {
    pub(super) fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::new(Vec::new())).collect())
    }

    fn stripe(&self, number: u32) -> MutexGuard<'_, Vec<Queued>> {
        lock(&self.0[number as usize % STRIPES])
    }

    /// Tries `attempt` and joins the queue if it fails; the task then waits. `is_turn` says that the
    /// task was woken for this: it goes before those who wait, else behind them and without trying
    /// when there are any.
    pub(super) fn try_or_join<T>(
        &self,
        frame: &Frame,
        number: u32,
        reason: For,
        waiter: &Arc<Waiter>,
        is_turn: bool,
        attempt: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let flag = reason.flag();
        let mut queue = self.stripe(number);
        let is_waited_for = |queue: &[Queued]| {
            queue.iter().any(|queued| queued.frame == number && queued.reason.flag() == flag)
        };
        frame.state.fetch_or(flag, Ordering::AcqRel);
        let is_overtaking = !is_turn && flag == LOCK_WAITERS && is_waited_for(&queue);
        if !is_overtaking && let Some(got) = attempt() {
            if !is_waited_for(&queue) {
                frame.state.fetch_and(!flag, Ordering::Relaxed);
            }
            return Some(got);
        }
        let place = if is_turn {
            queue.iter().position(|queued| queued.frame == number).unwrap_or(queue.len())
        } else {
            queue.len()
        };
        queue.insert(place, Queued { frame: number, reason, waiter: Arc::clone(waiter) });
        None
    }

    /// The same for being alone on a frame, which only one task may wait for at a time: two would wait
    /// for each other's pins. True when it is alone, false when it has to wait; `None` when another
    /// task waits already.
    pub(super) fn try_or_join_alone(
        &self,
        frame: &Frame,
        number: u32,
        waiter: &Arc<Waiter>,
        is_alone: impl FnOnce() -> Option<()>,
    ) -> Option<bool> {
        let mut queue = self.stripe(number);
        if queue.iter().any(|queued| queued.frame == number && queued.reason == For::Pins) {
            return None;
        }
        frame.state.fetch_or(PIN_WAITERS, Ordering::AcqRel);
        if is_alone().is_some() {
            frame.state.fetch_and(!PIN_WAITERS, Ordering::Relaxed);
            return Some(true);
        }
        queue.push(Queued { frame: number, reason: For::Pins, waiter: Arc::clone(waiter) });
        Some(false)
    }

    /// Wakes whoever waits for the content lock and comes first, with all readers behind a reader.
    pub(super) fn wake_lock(&self, frame: &Frame, number: u32) {
        let mut queue = self.stripe(number);
        let waits =
            |queued: &Queued| queued.frame == number && queued.reason.flag() == LOCK_WAITERS;
        let mut woken = 0;
        while let Some(at) = queue.iter().position(waits) {
            let is_writer = queue[at].reason == For::Exclusive;
            if is_writer && woken > 0 {
                break;
            }
            queue.remove(at).waiter.answer(Answer::Again);
            woken += 1;
            if is_writer {
                break;
            }
        }
        if !queue.iter().any(waits) {
            frame.state.fetch_and(!LOCK_WAITERS, Ordering::Relaxed);
        }
    }

    /// Wakes all who wait for pins or for a write.
    pub(super) fn wake_all(&self, frame: &Frame, number: u32, reason: For) {
        let mut queue = self.stripe(number);
        frame.state.fetch_and(!reason.flag(), Ordering::Relaxed);
        queue.retain(|queued| {
            let is_wanted = queued.frame == number && queued.reason == reason;
            if is_wanted {
                queued.waiter.answer(Answer::Again);
            }
            !is_wanted
        });
    }
}
