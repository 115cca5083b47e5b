//! Misses: a frame is found for the page, the page is read into it, and all who wait are answered.

use std::sync::Arc;

use evenkeel_replacement::policy::{Access, FrameId, Miss, PageKey};

use super::counters::{Context, WriteCause, add};
use super::descriptor::{DIRTY, RING};
use super::error::PoolError;
use super::guard::Pinned;
use super::pool::Offers;
use super::ring::Ring;
use super::table::{Loading, Partition};
use super::waiting::{Answer, Waiter};
use super::worker::Worker;
use super::writeback::{Patience, Written};
use crate::page::PageIdentity;
use crate::smgr::SmgrError;
use crate::stats::WaitPlace;
use crate::sync::atomic::Ordering;
use crate::trace::ReferenceKind;

/// What came of asking for a page under its partition's lock.
pub(super) enum Entered<'w> {
    /// It is there, or another task brought it.
    Found(Pinned<'w>),
    /// This task has to bring it.
    Mine(Ticket<'w>),
}

/// The duty to bring a page in. Others wait for it (rule B6), so it always ends with an answer.
pub(super) struct Ticket<'w> {
    worker: &'w Worker,
    identity: PageIdentity,
    hash: u64,
    context: Context,
    is_answered: bool,
}

/// Where the bytes of a page come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is read.
    Disk,
    /// It is made at the end of its relation.
    New,
}

impl Worker {
    #[cold]
    pub(super) fn fetch_absent(
        &self,
        identity: PageIdentity,
        hash: u64,
        ring: Option<&mut Ring>,
    ) -> Result<Pinned<'_>, PoolError> {
        let context = ring.as_ref().map_or(Context::Normal, |ring| ring.context());
        match self.enter(identity, hash, context)? {
            Entered::Found(pinned) => Ok(pinned),
            Entered::Mine(ticket) => self.load(ticket, ring, Source::Disk),
        }
    }

    /// Looks for a page under the lock that makes the answer final, waits if another task is bringing
    /// it, and takes the duty if nobody is.
    pub(super) fn enter(
        &self,
        identity: PageIdentity,
        hash: u64,
        context: Context,
    ) -> Result<Entered<'_>, PoolError> {
        let pool = &self.pool;
        let mut partition = pool.table.partition(hash);
        if let Some(number) = pool.table.find_locked(&pool.frames, &partition, hash, identity) {
            match self.pin(number, identity, context) {
                Some(pinned) => return Ok(Entered::Found(pinned)),
                None => unreachable!("frame {number} is in the table and holds no {identity}"),
            }
        }
        if self.join_load(&mut partition, identity) {
            drop(partition);
            return Ok(Entered::Found(self.wait_for_load(identity, context)?));
        }
        partition.push(Loading { identity, waiters: Vec::new() });
        Ok(Entered::Mine(Ticket { worker: self, identity, hash, context, is_answered: false }))
    }

    /// Joins those who wait for a page on its way in, if it is; the task then calls
    /// [`Worker::wait_for_load`].
    pub(super) fn join_load(&self, partition: &mut Partition, identity: PageIdentity) -> bool {
        let loading = partition.iter_mut().find(|loading| loading.identity == identity);
        loading.is_some_and(|loading| {
            loading.waiters.push(Arc::clone(&self.waiter));
            true
        })
    }

    /// Waits for the page that another task is bringing in.
    pub(super) fn wait_for_load(
        &self,
        identity: PageIdentity,
        context: Context,
    ) -> Result<Pinned<'_>, PoolError> {
        match self.wait(WaitPlace::PageReadByOther, identity) {
            Answer::Page(number) => {
                let pinned = self.adopt(number);
                self.count_hit(number, identity, context);
                Ok(pinned)
            }
            Answer::Failed(error) => Err(error),
            Answer::Again => unreachable!("a read is answered with a page or an error"),
        }
    }

    /// Brings the page of `ticket` in.
    pub(super) fn load(
        &self,
        ticket: Ticket<'_>,
        ring: Option<&mut Ring>,
        source: Source,
    ) -> Result<Pinned<'_>, PoolError> {
        let pool = &self.pool;
        let (identity, context) = (ticket.identity, ticket.context);
        let access = self.access(context);
        let flags = if ring.is_some() { RING } else { 0 };
        let (number, miss) = match self.take_frame(ticket.hash, access, ring) {
            Ok(taken) => taken,
            Err(error) => return Err(ticket.fail(error)),
        };
        let frame = pool.frame(number);
        frame.set_identity(identity);
        if let Err(error) = self.fill(number, identity, source) {
            let mut replacement = pool.replacement();
            replacement.policy.abandon(miss);
            replacement.free.push(number);
            drop(replacement);
            return Err(ticket.fail(error.into()));
        }
        match source {
            Source::Disk => {
                self.counters.read(context, frame.kind.load(Ordering::Relaxed));
                self.note(identity, ReferenceKind::Read);
            }
            Source::New => {
                add(&self.counters.extends, 1);
                self.note(identity, ReferenceKind::New);
            }
        }
        // Before the page is in the table: a page that the policy does not know could be dropped.
        let page = PageKey(ticket.hash);
        pool.replacement().policy.admit(miss, FrameId(number), page, access);
        ticket.publish(number, flags);
        Ok(self.adopt(number))
    }

    fn fill(&self, number: u32, identity: PageIdentity, source: Source) -> Result<(), SmgrError> {
        let pool = &self.pool;
        let smgr = &pool.with.smgr;
        let frame = pool.frame(number);
        let mut bytes = frame.fill();
        let what = || identity.to_string();
        match source {
            Source::New => {
                bytes.fill(0);
                let extend = || smgr.extend(identity.relation, identity.fork, 1);
                let runtime = &*pool.with.runtime;
                pool.waited.during(runtime, WaitPlace::PageWrite, what, extend)?;
            }
            Source::Disk => {
                // Direct I/O wants memory as the worker's page is aligned, and frames are not.
                let mut aligned = smgr.is_direct().then(|| self.copy.borrow_mut());
                let target = aligned.as_deref_mut().map_or(&mut **bytes, |page| &mut **page);
                let read = || smgr.read(identity, target);
                let read = pool.waited.during(&*pool.with.runtime, WaitPlace::PageRead, what, read);
                if let Err(error) = read {
                    add(&self.counters.read_failures, 1);
                    return Err(error);
                }
                if let Some(page) = aligned {
                    bytes.copy_from_slice(&**page);
                }
            }
        }
        frame.note_kind(&bytes);
        Ok(())
    }

    /// A frame without a page, from the ring, the free ones, or by eviction; and what the policy said of
    /// the miss.
    fn take_frame(
        &self,
        hash: u64,
        access: Access,
        ring: Option<&mut Ring>,
    ) -> Result<(u32, Miss), PoolError> {
        let mut replacement = self.pool.replacement();
        // Before a victim is chosen: the noted hits may say who should stay.
        replacement.policy.drain(&mut self.hits.borrow_mut());
        let miss = replacement.policy.miss(PageKey(hash), access);
        drop(replacement);
        let taken = match ring {
            None => self.evict(miss),
            Some(ring) => match self.reuse(ring) {
                Ok(None) => self.evict(miss).inspect(|number| ring.remember(*number)),
                Ok(Some(number)) => Ok(number),
                Err(error) => Err(error),
            },
        };
        match taken {
            Ok(number) => Ok((number, miss)),
            Err(error) => {
                self.pool.replacement().policy.abandon(miss);
                Err(error)
            }
        }
    }

    /// A free frame, or one whose page the policy gives up.
    fn evict(&self, miss: Miss) -> Result<u32, PoolError> {
        let pool = &self.pool;
        let frames = pool.settings.frames;
        let mut dirty_left = pool.settings.dirty_passed_max;
        // Each turn fails only because another task was quicker with that frame.
        let mut turns_left = u64::from(frames) * 2 + 64;
        while turns_left > 0 {
            turns_left -= 1;
            let mut replacement = pool.replacement();
            if let Some(number) = replacement.free.pop() {
                replacement.count_allocation();
                return Ok(number);
            }
            let mut offers = Offers { frames: &pool.frames, dirty_left, has_passed: false };
            let found = replacement.policy.victim(miss, &mut offers);
            drop(replacement);
            let Some(FrameId(number)) = found else {
                if !offers.has_passed {
                    break;
                }
                // Nothing clean: then one of those that were passed.
                dirty_left = 0;
                continue;
            };
            match self.empty(number) {
                Ok(true) => {
                    add(&self.counters.evictions, 1);
                    pool.unpin(number, false);
                    pool.replacement().count_allocation();
                    return Ok(number);
                }
                Ok(false) => self.refuse(number),
                Err(error) => {
                    self.refuse(number);
                    return Err(error);
                }
            }
        }
        Err(PoolError::AllPinned { frames })
    }

    fn refuse(&self, number: u32) {
        add(&self.counters.victims_refused, 1);
        self.pool.replacement().policy.refused(FrameId(number));
        self.pool.unpin(number, false);
    }

    /// Empties a frame whose only pin is this task's; false when somebody else wants its page after all.
    fn empty(&self, number: u32) -> Result<bool, PoolError> {
        let frame = self.pool.frame(number);
        if frame.state.load(Ordering::Acquire) & DIRTY != 0 {
            match self.write_out(number, WriteCause::Client, Patience::None)? {
                Written::Busy => return Ok(false),
                Written::Clean => {}
                Written::Done => add(&self.counters.victim_was_dirty, 1),
            }
        }
        Ok(self.invalidate(number, 1, false, |policy| policy.evicted(FrameId(number))))
    }

    /// Takes the page out of a frame that has `pins` pins, all the caller's, who gives them back
    /// afterwards; `tell` tells the policy. Table and policy change together, so that nobody can bring the page in again in between.
    pub(super) fn invalidate(
        &self,
        number: u32,
        pins: u64,
        is_dirt_allowed: bool,
        tell: impl FnOnce(&mut dyn evenkeel_replacement::policy::Policy),
    ) -> bool {
        let pool = &self.pool;
        let frame = pool.frame(number);
        let hash = super::descriptor::hash(frame.identity());
        let partition = pool.table.partition(hash);
        if !frame.try_invalidate(pins, is_dirt_allowed) {
            return false;
        }
        pool.table.remove(&pool.frames, &partition, hash, number);
        tell(&mut *pool.replacement().policy);
        true
    }
}

impl Ticket<'_> {
    /// Puts the filled frame into the table, with a pin for this task and for each that waits.
    fn publish(mut self, number: u32, flags: u64) {
        self.is_answered = true;
        let pool = &self.worker.pool;
        let mut partition = pool.table.partition(self.hash);
        let waiters = take(&mut partition, self.identity);
        pool.frame(number).validate(1 + waiters.len() as u64, flags);
        pool.table.insert(&pool.frames, &partition, self.hash, number);
        drop(partition);
        for waiter in waiters {
            waiter.answer(Answer::Page(number));
        }
    }

    /// Ends the duty with an error for all, which is handed back.
    pub(super) fn fail(mut self, error: PoolError) -> PoolError {
        self.answer_all(&error);
        error
    }

    fn answer_all(&mut self, error: &PoolError) {
        self.is_answered = true;
        let mut partition = self.worker.pool.table.partition(self.hash);
        let waiters = take(&mut partition, self.identity);
        drop(partition);
        for waiter in waiters {
            waiter.answer(Answer::Failed(error.clone()));
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer_all(&PoolError::Abandoned(self.identity));
        }
    }
}

fn take(partition: &mut Partition, identity: PageIdentity) -> Vec<Arc<Waiter>> {
    let at = partition.iter().position(|loading| loading.identity == identity);
    at.map_or_else(Vec::new, |at| partition.swap_remove(at).waiters)
}
