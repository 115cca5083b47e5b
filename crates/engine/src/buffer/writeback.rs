//! Writing pages: log first, a sealed copy, then a hint to the system.

use super::counters::{WriteCause, add};
use super::descriptor::{DIRTY, Frame, WRITE_WAITERS, WRITING};
use super::error::PoolError;
use super::waiting::For;
use super::worker::Worker;
use crate::page::{BlockNumber, Header, PageIdentity, seal};
use crate::runtime::Runtime;
use crate::stats::WaitPlace;
use crate::sync::atomic::Ordering;

/// Whether a writer waits for whoever holds the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// No: the caller has something else to do, or could be waited for itself.
    None,
    /// Yes.
    Waits,
}

/// What came of writing a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is with the system now.
    Done,
    /// There was nothing to write.
    Clean,
    /// Somebody changes or writes it, and the caller does not wait.
    Busy,
}

impl Worker {
    /// Writes the page in `number`, which the caller has pinned, if it is dirty. With patience it is
    /// clean afterwards as of the call, whoever wrote it.
    pub(super) fn write_out(
        &self,
        number: u32,
        cause: WriteCause,
        patience: Patience,
    ) -> Result<Written, PoolError> {
        let frame = self.pool.frame(number);
        let identity = frame.identity();
        loop {
            if !self.copy_dirty(frame, number, identity, patience) {
                let state = frame.state.load(Ordering::Acquire);
                if state & (DIRTY | WRITING) == 0 {
                    return Ok(Written::Clean);
                }
                if patience == Patience::None {
                    return Ok(Written::Busy);
                }
                self.wait_for_write(frame, number, identity);
                continue;
            }
            let written = self.write_copy(identity);
            if written.is_err() {
                add(&self.counters.write_failures, 1);
                // Rule B10: it is as dirty as before.
                frame.state.fetch_or(DIRTY, Ordering::AcqRel);
            }
            let before = frame.state.fetch_and(!WRITING, Ordering::AcqRel);
            if before & WRITE_WAITERS != 0 {
                self.pool.queues.wake_all(frame, number, For::Write);
            }
            written?;
            self.counters.write(cause);
            self.hint(identity)?;
            return Ok(Written::Done);
        }
    }

    /// Copies a dirty page and marks it as being written; false when it is clean, or somebody else
    /// writes it, or it cannot be locked without waiting.
    fn copy_dirty(
        &self,
        frame: &Frame,
        number: u32,
        identity: PageIdentity,
        patience: Patience,
    ) -> bool {
        let locked = match (frame.try_shared(), patience) {
            (Some(bytes), _) => bytes,
            (None, Patience::None) => return false,
            (None, Patience::Waits) => {
                let mut is_turn = false;
                loop {
                    let (queues, waiter) = (&self.pool.queues, &self.waiter);
                    let attempt = || frame.try_shared();
                    let reason = For::Shared;
                    let got = queues.try_or_join(frame, number, reason, waiter, is_turn, attempt);
                    if let Some(bytes) = got {
                        break bytes;
                    }
                    self.wait(WaitPlace::ContentLock, identity);
                    is_turn = true;
                }
            }
        };
        // Nobody can make it dirty while the lock is shared, so the copy has all that the flag stood for.
        let mut state = frame.state.load(Ordering::Relaxed);
        let is_ours = loop {
            if state & (DIRTY | WRITING) != DIRTY {
                break false;
            }
            let marked = state & !DIRTY | WRITING;
            let change =
                frame.state.compare_exchange(state, marked, Ordering::AcqRel, Ordering::Relaxed);
            match change {
                Ok(_) => break true,
                Err(now) => state = now,
            }
        };
        if is_ours {
            self.copy.borrow_mut().copy_from_slice(&**locked);
        }
        drop(locked);
        self.pool.unlocked(number);
        is_ours
    }

    /// Makes the log durable as far as the copied page needs it, seals the copy and writes it (rules B8
    /// and B9).
    fn write_copy(&self, identity: PageIdentity) -> Result<(), PoolError> {
        let pool = &self.pool;
        let runtime: &dyn Runtime = &*pool.with.runtime;
        let what = || identity.to_string();
        let mut copy = self.copy.borrow_mut();
        let lsn = Header::read(&copy).lsn;
        if lsn > pool.with.log.durable() {
            let flush = || pool.with.log.make_durable(lsn);
            let flushed = pool.waited.during(runtime, WaitPlace::LogFlush, what, flush);
            flushed.map_err(|failure| PoolError::Log { identity, failure })?;
        }
        let smgr = &pool.with.smgr;
        seal(&mut copy, smgr.database(), identity);
        let write = || smgr.write(identity, &copy);
        Ok(pool.waited.during(runtime, WaitPlace::PageWrite, what, write)?)
    }

    /// Waits until nobody writes the page.
    fn wait_for_write(&self, frame: &Frame, number: u32, identity: PageIdentity) {
        let is_over = || (frame.state.load(Ordering::Acquire) & WRITING == 0).then_some(());
        let (queues, waiter) = (&self.pool.queues, &self.waiter);
        if queues.try_or_join(frame, number, For::Write, waiter, false, is_over).is_none() {
            self.wait(WaitPlace::PageWriteByOther, identity);
        }
    }

    /// Notes a written page, and asks the system to begin writing when enough are noted.
    fn hint(&self, identity: PageIdentity) -> Result<(), PoolError> {
        let limit = self.pool.settings.flush_after_pages(self.role) as usize;
        if limit == 0 {
            return Ok(());
        }
        let mut unhinted = self.unhinted.borrow_mut();
        unhinted.push(identity);
        if unhinted.len() < limit {
            return Ok(());
        }
        drop(unhinted);
        self.start_writeback()
    }

    /// Asks the system to begin writing what this worker has written since it last asked; neighbours
    /// are asked for together. Without effect where the worker's `..._flush_after` is 0.
    ///
    /// # Errors
    /// `Writeback`: it counts as a failed sync.
    pub fn start_writeback(&self) -> Result<(), PoolError> {
        let mut unhinted = self.unhinted.borrow_mut();
        unhinted.sort_unstable();
        unhinted.dedup();
        let mut rest = unhinted.as_slice();
        let mut result = Ok(());
        while let Some(first) = rest.first().copied() {
            let follows = |(distance, identity): (u32, &PageIdentity)| {
                let block = BlockNumber(first.block.0.wrapping_add(distance));
                *identity == PageIdentity { block, ..first }
            };
            let run = (0..).zip(rest).take_while(|pair| follows(*pair)).count();
            rest = &rest[run..];
            let blocks = u32::try_from(run).unwrap_or(u32::MAX);
            if let Err(error) = self.pool.with.smgr.start_writeback(first, blocks) {
                result = Err(PoolError::Writeback(error));
                break;
            }
            add(&self.counters.writebacks, u64::from(blocks));
        }
        unhinted.clear();
        result
    }
}
