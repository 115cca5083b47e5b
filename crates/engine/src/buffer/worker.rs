//! One task's access to the pool: finding and pinning pages.

use std::cell::RefCell;
use std::sync::Arc;

use evenkeel_replacement::policy::{Access, FrameId, Hint, HitLog};

use super::counters::{Context, Counters, Role};
use super::descriptor::{NONE, RING, hash};
use super::error::PoolError;
use super::guard::Pinned;
use super::pool::Pool;
use super::ring::Ring;
use super::waiting::{Answer, Waiter};
use crate::page::{PageIdentity, PageImage};
use crate::runtime::Runtime;
use crate::stats::WaitPlace;
use crate::sync::atomic::Ordering;
use crate::sync::try_lock;
use crate::trace::{PageReference, ReferenceKind};

/// Hits of an ordered policy that are noted before one tries to apply them, and before one waits to:
/// BP-Wrapper's queue of 64 with a threshold of half of it.
const LOG_TRIED: usize = 32;
const LOG_FULL: usize = 64;

/// A frame that the worker has pinned.
#[derive(Clone, Copy, Debug)]
struct Held {
    frame: u32,
    /// How often; only the first counts in the frame (rule B3).
    pins: u32,
    /// Content locks held through these pins.
    locks: u32,
}

/// One task's access to the pool. It belongs to one task at a time; its guards stay with it.
pub struct Worker {
    pub(super) pool: Arc<Pool>,
    pub(super) role: Role,
    pub(super) waiter: Arc<Waiter>,
    pub(super) counters: Arc<Counters>,
    /// The copy of a page on its way to the disk (rule B9).
    pub(super) copy: RefCell<PageImage>,
    /// Pages written, whose writing the system has not been asked to begin yet.
    pub(super) unhinted: RefCell<Vec<PageIdentity>>,
    pub(super) hits: RefCell<HitLog>,
    held: RefCell<Vec<Held>>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Worker").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new(pool: Arc<Pool>, role: Role, counters: Arc<Counters>) -> Self {
        let unhinted = Vec::with_capacity(pool.settings.flush_after_pages(role) as usize);
        Self {
            role,
            waiter: Arc::new(Waiter::new(&*pool.with.runtime)),
            counters,
            copy: RefCell::new(PageImage::zeroed()),
            unhinted: RefCell::new(unhinted),
            hits: RefCell::new(HitLog::with_capacity(LOG_FULL)),
            held: RefCell::new(Vec::with_capacity(16)),
            pool,
        }
    }

    /// The pool it works with.
    #[must_use]
    pub const fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Finds or reads a page, and pins it.
    ///
    /// # Errors
    /// When it cannot be read, or no frame can be had for it.
    #[inline]
    pub fn fetch(&self, identity: PageIdentity) -> Result<Pinned<'_>, PoolError> {
        let hash = hash(identity);
        match self.find(identity, hash, Context::Normal) {
            Some(pinned) => Ok(pinned),
            None => self.fetch_absent(identity, hash, None),
        }
    }

    /// The same, reusing frames of `ring` for what must be read.
    ///
    /// # Errors
    /// As [`Worker::fetch`].
    pub fn fetch_through(
        &self,
        identity: PageIdentity,
        ring: &mut Ring,
    ) -> Result<Pinned<'_>, PoolError> {
        let hash = hash(identity);
        match self.find(identity, hash, ring.context()) {
            Some(pinned) => Ok(pinned),
            None => self.fetch_absent(identity, hash, Some(ring)),
        }
    }

    /// Pins a page if it is in the pool, without reading it.
    #[must_use]
    pub fn fetch_if_present(&self, identity: PageIdentity) -> Option<Pinned<'_>> {
        self.find(identity, hash(identity), Context::Normal)
    }

    #[inline]
    fn find(&self, identity: PageIdentity, hash: u64, context: Context) -> Option<Pinned<'_>> {
        let number = self.pool.table.find(&self.pool.frames, hash, identity)?;
        self.pin(number, identity, context)
    }

    /// Pins frame `number` if it holds `identity`: a hit.
    #[inline]
    pub(super) fn pin(
        &self,
        number: u32,
        identity: PageIdentity,
        context: Context,
    ) -> Option<Pinned<'_>> {
        let frame = self.pool.frame(number);
        let mut held = self.held.borrow_mut();
        let mut vacant = None;
        for (slot, place) in held.iter_mut().enumerate() {
            if place.frame == number {
                // Ours already, so the frame cannot change its page.
                if !frame.is_at(identity) {
                    return None;
                }
                place.pins += 1;
                drop(held);
                self.counters.hit(context, frame.kind.load(Ordering::Relaxed));
                self.note(identity, ReferenceKind::Read);
                return Some(Pinned::new(self, number, slot));
            }
            if place.frame == NONE {
                vacant = Some(slot);
            }
        }
        let before = frame.try_pin()?;
        if !frame.is_at(identity) {
            drop(held);
            self.pool.unpin(number, false);
            return None;
        }
        let slot = occupy(&mut held, vacant, number);
        drop(held);
        if before & RING != 0 && context == Context::Normal {
            // Rule B12: somebody else likes the page.
            frame.state.fetch_and(!RING, Ordering::Relaxed);
        }
        self.count_hit(number, identity, context);
        Some(Pinned::new(self, number, slot))
    }

    /// Takes over a pin that was made for this worker.
    pub(super) fn adopt(&self, number: u32) -> Pinned<'_> {
        let mut held = self.held.borrow_mut();
        // The page was not in the pool a moment ago, so the worker has no other pin on it.
        let vacant = held.iter().position(|place| place.frame == NONE);
        let slot = occupy(&mut held, vacant, number);
        drop(held);
        Pinned::new(self, number, slot)
    }

    /// Counts a hit and tells the policy of it.
    #[inline]
    pub(super) fn count_hit(&self, number: u32, identity: PageIdentity, context: Context) {
        let kind = self.pool.frame(number).kind.load(Ordering::Relaxed);
        self.counters.hit(context, kind);
        self.note(identity, ReferenceKind::Read);
        let mut hits = self.hits.borrow_mut();
        self.pool.hit_path.hit(FrameId(number), self.access(context), &mut hits);
        if hits.len() >= LOG_TRIED {
            self.apply_hits(&mut hits);
        }
    }

    /// Applies the noted hits of an ordered policy when its lock is free, or when no more can be noted.
    #[cold]
    fn apply_hits(&self, hits: &mut HitLog) {
        if let Some(mut replacement) = try_lock(&self.pool.replacement) {
            replacement.policy.drain(hits);
        } else if hits.len() >= LOG_FULL {
            self.pool.replacement().policy.drain(hits);
        }
    }

    /// What the policy is told of an access.
    #[inline]
    pub(super) fn access(&self, context: Context) -> Access {
        let hint = if context == Context::Normal { Hint::Normal } else { Hint::Ring };
        let tick_ms = if self.pool.is_policy_timed {
            // It wraps after 49 days, as the contract allows.
            (self.pool.with.runtime.now().as_nanos() / 1_000_000) as u32
        } else {
            0
        };
        Access { hint, tick_ms }
    }

    /// Tells the sink of references, if there is one.
    #[inline]
    pub(super) fn note(&self, identity: PageIdentity, kind: ReferenceKind) {
        if let Some(sink) = &self.pool.with.sink {
            let at = self.pool.with.runtime.now();
            sink.reference(PageReference { identity, kind, at });
        }
    }

    /// Waits for an answer, counting how long.
    pub(super) fn wait(&self, place: WaitPlace, identity: PageIdentity) -> Answer {
        let runtime: &dyn Runtime = &*self.pool.with.runtime;
        let wait = || self.waiter.wait();
        self.pool.waited.during(runtime, place, || identity.to_string(), wait)
    }

    /// How often this worker has pinned what is in `slot`.
    pub(super) fn pins_of(&self, slot: usize) -> u32 {
        self.held.borrow().get(slot).map_or(0, |place| place.pins)
    }

    /// How often this worker has pinned frame `number`.
    pub(super) fn pins_on(&self, number: u32) -> u32 {
        let held = self.held.borrow();
        held.iter().find(|place| place.frame == number).map_or(0, |place| place.pins)
    }

    /// Pins what is in `slot` once more.
    pub(super) fn pin_again(&self, slot: usize) {
        self.held.borrow_mut()[slot].pins += 1;
    }

    /// Notes that a content lock is about to be taken through `slot`; says whether one is held already.
    #[inline]
    pub(super) fn begin_lock(&self, slot: usize) -> bool {
        let mut held = self.held.borrow_mut();
        let place = &mut held[slot];
        place.locks += 1;
        place.locks > 1
    }

    /// Notes that a content lock was given back.
    pub(super) fn end_lock(&self, slot: usize) {
        self.held.borrow_mut()[slot].locks -= 1;
    }

    /// Gives a pin back, and before it the content lock that went with it.
    #[inline]
    pub(super) fn release(&self, number: u32, slot: usize, was_locked: bool) {
        let mut held = self.held.borrow_mut();
        let place = &mut held[slot];
        place.pins -= 1;
        place.locks -= u32::from(was_locked);
        let is_last = place.pins == 0;
        if is_last {
            place.frame = NONE;
        }
        drop(held);
        if is_last {
            self.pool.unpin(number, was_locked);
        } else if was_locked {
            self.pool.unlocked(number);
        }
    }
}

#[inline]
fn occupy(held: &mut Vec<Held>, vacant: Option<usize>, frame: u32) -> usize {
    let place = Held { frame, pins: 1, locks: 0 };
    if let Some(slot) = vacant {
        held[slot] = place;
        return slot;
    }
    held.push(place);
    held.len() - 1
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Guards borrow the worker, so none is left; one that was leaked on purpose still gives its pin back.
        for place in self.held.get_mut().drain(..) {
            if place.frame != NONE {
                self.pool.unpin(place.frame, place.locks > 0);
            }
        }
        let hits = self.hits.get_mut();
        if !hits.is_empty() {
            self.pool.replacement().policy.drain(hits);
        }
        self.pool.forget_counters(&self.counters);
    }
}
