//! Rules B3 to B5 as types: a page is pinned before it is locked, read under a lock, changed under an
//! exclusive one, and given back when the guard goes.

use std::ops::Deref;

use super::descriptor::{Content, DIRTY, Frame, LOCK_WAITERS, PINS};
use super::error::PoolError;
use super::waiting::For;
use super::worker::Worker;
use crate::page::{PageBytes, PageIdentity};
use crate::stats::WaitPlace;
use crate::sync::atomic::Ordering;
use crate::sync::{RwLockReadGuard, RwLockWriteGuard};
use crate::trace::ReferenceKind;

/// A pinned page: it stays in its frame. Its bytes are had by a lock.
pub struct Pinned<'w> {
    worker: &'w Worker,
    number: u32,
    slot: usize,
    is_locked: bool,
}

/// A page that others may read at the same time, and nobody changes.
pub struct Shared<'w> {
    // Before the pin, as it is to be given back before it.
    guard: RwLockReadGuard<'w, Content>,
    pinned: Pinned<'w>,
}

/// A page that nobody else reads or changes.
pub struct Exclusive<'w> {
    guard: RwLockWriteGuard<'w, Content>,
    pinned: Pinned<'w>,
    is_changed: bool,
}

impl std::fmt::Debug for Pinned<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pinned({})", self.identity())
    }
}

impl std::fmt::Debug for Shared<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Shared({})", self.identity())
    }
}

impl std::fmt::Debug for Exclusive<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Exclusive({})", self.identity())
    }
}

impl<'w> Pinned<'w> {
    pub(super) const fn new(worker: &'w Worker, number: u32, slot: usize) -> Self {
        Self { worker, number, slot, is_locked: false }
    }

    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    fn frame(&self) -> &'w Frame {
        self.worker.pool.frame(self.number)
    }

    /// Which page it is.
    #[must_use]
    pub fn identity(&self) -> PageIdentity {
        self.frame().identity()
    }

    /// Waits until nobody changes the page, and locks it for reading.
    ///
    /// # Panics
    /// When the task would wait for itself (rule B5).
    #[must_use]
    #[inline]
    pub fn shared(mut self) -> Shared<'w> {
        let frame = self.frame();
        let guard = self.lock(For::Shared, Frame::try_shared);
        frame.note_kind(&guard);
        Shared { guard, pinned: self }
    }

    /// Waits until nobody else reads or changes the page, and locks it for changing.
    ///
    /// # Panics
    /// When the task would wait for itself (rule B5).
    #[must_use]
    #[inline]
    pub fn exclusive(mut self) -> Exclusive<'w> {
        let frame = self.frame();
        let guard = self.lock(For::Exclusive, Frame::try_exclusive);
        frame.note_kind(&guard);
        Exclusive { guard, pinned: self, is_changed: false }
    }

    /// Locks the page for changing if that needs no wait; else the pin comes back.
    ///
    /// # Errors
    /// The pin, when somebody has the lock or waits for it.
    pub fn try_exclusive(mut self) -> Result<Exclusive<'w>, Self> {
        let frame = self.frame();
        if frame.state.load(Ordering::Relaxed) & LOCK_WAITERS != 0 {
            return Err(self);
        }
        let Some(guard) = frame.try_exclusive() else { return Err(self) };
        frame.note_kind(&guard);
        self.worker.begin_lock(self.slot);
        self.is_locked = true;
        Ok(Exclusive { guard, pinned: self, is_changed: false })
    }

    /// Waits until nobody else has pinned the page, and locks it for changing (rule B4): what moves
    /// items in the page may be done.
    ///
    /// # Errors
    /// `PinnedBySelf` when the task has further pins on it, `CleanupAwaited` when another task waits
    /// for the same.
    pub fn cleanup(self) -> Result<Exclusive<'w>, PoolError> {
        let (worker, number) = (self.worker, self.number);
        let identity = self.identity();
        let pins = worker.pins_of(self.slot);
        if pins > 1 {
            return Err(PoolError::PinnedBySelf { identity, pins });
        }
        let frame = self.frame();
        let is_alone = || (frame.state.load(Ordering::Acquire) & PINS == 1).then_some(());
        let mut locked = self.exclusive();
        loop {
            if is_alone().is_some() {
                return Ok(locked);
            }
            let queues = &worker.pool.queues;
            match queues.try_or_join_alone(frame, number, &worker.waiter, is_alone) {
                None => return Err(PoolError::CleanupAwaited(identity)),
                Some(true) => return Ok(locked),
                Some(false) => {}
            }
            let pinned = locked.unlock();
            worker.wait(WaitPlace::Pins, identity);
            locked = pinned.exclusive();
        }
    }

    #[inline]
    fn lock<G>(&mut self, reason: For, attempt: impl Fn(&'w Frame) -> Option<G>) -> G {
        let frame = self.frame();
        let is_held = self.worker.begin_lock(self.slot);
        self.is_locked = true;
        if frame.state.load(Ordering::Relaxed) & LOCK_WAITERS == 0
            && let Some(guard) = attempt(frame)
        {
            return guard;
        }
        self.lock_slowly(reason, is_held, || attempt(frame))
    }

    #[cold]
    fn lock_slowly<G>(&self, reason: For, is_held: bool, attempt: impl Fn() -> Option<G>) -> G {
        assert!(!is_held, "rule B5: the task holds a lock of {} already", self.identity());
        let (worker, number) = (self.worker, self.number);
        let mut is_turn = false;
        loop {
            let (queues, waiter) = (&worker.pool.queues, &worker.waiter);
            let got = queues.try_or_join(self.frame(), number, reason, waiter, is_turn, &attempt);
            if let Some(guard) = got {
                return guard;
            }
            worker.wait(WaitPlace::ContentLock, self.identity());
            is_turn = true;
        }
    }

    /// Says that the lock was given back; the pin stays.
    fn unlocked(&mut self) {
        self.is_locked = false;
        self.worker.end_lock(self.slot);
        self.worker.pool.unlocked(self.number);
    }
}

impl Clone for Pinned<'_> {
    /// A further pin of the same task; it costs no shared word.
    fn clone(&self) -> Self {
        self.worker.pin_again(self.slot);
        Self::new(self.worker, self.number, self.slot)
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.worker.release(self.number, self.slot, self.is_locked);
    }
}

impl<'w> Shared<'w> {
    /// Which page it is.
    #[must_use]
    pub fn identity(&self) -> PageIdentity {
        self.pinned.identity()
    }

    /// Gives the lock back and keeps the pin.
    #[must_use]
    pub fn unlock(self) -> Pinned<'w> {
        let Self { guard, mut pinned } = self;
        drop(guard);
        pinned.unlocked();
        pinned
    }
}

impl Deref for Shared<'_> {
    type Target = PageBytes;

    #[inline]
    fn deref(&self) -> &PageBytes {
        &self.guard
    }
}

impl<'w> Exclusive<'w> {
    /// Which page it is.
    #[must_use]
    pub fn identity(&self) -> PageIdentity {
        self.pinned.identity()
    }

    /// The bytes, to be changed. The page is dirty from here on (rule B10).
    #[must_use]
    pub fn change(&mut self) -> &mut PageBytes {
        if !self.is_changed {
            self.is_changed = true;
            let frame = self.pinned.frame();
            let before = frame.state.fetch_or(DIRTY, Ordering::AcqRel);
            if before & DIRTY == 0 {
                self.pinned.worker.note(self.identity(), ReferenceKind::Dirtied);
            }
        }
        &mut self.guard
    }

    /// Whether nobody else has pinned the page at this moment.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.pinned.frame().state.load(Ordering::Acquire) & PINS == 1
    }

    /// Gives the lock back and keeps the pin.
    #[must_use]
    pub fn unlock(self) -> Pinned<'w> {
        let Self { guard, mut pinned, .. } = self;
        drop(guard);
        pinned.unlocked();
        pinned
    }
}

impl Deref for Exclusive<'_> {
    type Target = PageBytes;

    #[inline]
    fn deref(&self) -> &PageBytes {
        &self.guard
    }
}
