//! What the checkpointer and the background writer do with pages.

use evenkeel_replacement::policy::FrameId;

use super::counters::{Role, WriteCause};
use super::descriptor::{DIRTY, VALID, WRITING};
use super::error::PoolError;
use super::pool::Pool;
use super::worker::Worker;
use super::writeback::{Patience, Written};
use crate::page::PageIdentity;
use crate::sync::atomic::Ordering;

/// A page that a checkpoint has to see written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirtyPage {
    /// Which page.
    pub identity: PageIdentity,
    /// In which frame; gone from there it has been written.
    pub frame: u32,
}

/// What a background writer found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Somebody uses its page, or it holds none.
    InUse,
    /// It could be taken without writing.
    Reusable,
    /// It was written and could be taken now.
    Written,
}

/// What came of cleaning ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanedAhead {
    /// Frames that the policy named.
    pub looked_at: u64,
    /// Frames that could be taken without writing, those written now among them.
    pub reusable: u64,
    /// Pages written.
    pub written: u64,
    /// Whether it ended because it may not write more: `maxwritten_clean`.
    pub is_stopped: bool,
}

impl Pool {
    /// All pages that are dirty, or on their way to the disk, sorted by relation, fork and block: as
    /// PostgreSQL's checkpoints write them since 9.6, interleaving by tablespace apart.
    ///
    /// A page that was changed before the call is in the list, or its write is complete.
    #[must_use]
    pub fn dirty_pages(&self) -> Vec<DirtyPage> {
        let mut pages = Vec::new();
        for (number, frame) in (0_u32..).zip(&self.frames) {
            let state = frame.state.load(Ordering::Acquire);
            if state & VALID == 0 || state & (DIRTY | WRITING) == 0 {
                continue;
            }
            // Read without a pin: should the frame change its page meanwhile, the old one was written,
            // and the new one looked for in vain is only a look too many.
            pages.push(DirtyPage { identity: frame.identity(), frame: number });
        }
        pages.sort_unstable();
        pages
    }

    /// Appends up to `count` frames that the policy would offer next.
    pub fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        self.replacement().policy.look_ahead(count, frames);
    }
}

impl Worker {
    /// Writes a page of [`Pool::dirty_pages`], waiting for whoever changes or writes it. Whatever was
    /// changed before the list was made is then with the system. Says whether this task wrote it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, page: DirtyPage) -> Result<bool, PoolError> {
        self.write_as(page, self.role.write_cause(), Patience::Waits)
    }

    pub(super) fn write_as(
        &self,
        page: DirtyPage,
        cause: WriteCause,
        patience: Patience,
    ) -> Result<bool, PoolError> {
        let frame = self.pool.frame(page.frame);
        if frame.try_pin().is_none() {
            return Ok(false);
        }
        let written = if frame.is_at(page.identity) {
            self.write_out(page.frame, cause, patience)
        } else {
            Ok(Written::Clean)
        };
        self.pool.unpin(page.frame, false);
        Ok(written? == Written::Done)
    }

    /// Writes the page of a frame that nobody uses, if it is dirty, without waiting for anybody:
    /// PostgreSQL's SyncOneBuffer with `skip_recently_used`, where not being used recently is what made
    /// the policy name the frame.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn clean(&self, frame: FrameId) -> Result<Cleaned, PoolError> {
        let FrameId(number) = frame;
        let Some(frame) = self.pool.frames.get(number as usize) else { return Ok(Cleaned::InUse) };
        if frame.try_pin_alone().is_none() {
            return Ok(Cleaned::InUse);
        }
        let written = self.write_out(number, self.role.write_cause(), Patience::None);
        self.pool.unpin(number, false);
        Ok(match written? {
            Written::Done => Cleaned::Written,
            Written::Clean => Cleaned::Reusable,
            Written::Busy => Cleaned::InUse,
        })
    }

    /// Cleans the frames that the policy would offer next, until `reusable` of them could be taken
    /// without writing, `count` were looked at, or `written_max` were written. `frames` is room that
    /// the caller keeps.
    ///
    /// # Errors
    /// When a page cannot be written.
    pub fn clean_ahead(
        &self,
        count: usize,
        reusable: u64,
        written_max: u64,
        frames: &mut Vec<FrameId>,
    ) -> Result<CleanedAhead, PoolError> {
        frames.clear();
        self.pool.look_ahead(count, frames);
        let mut done = CleanedAhead::default();
        for frame in frames.iter() {
            if done.reusable >= reusable {
                break;
            }
            if done.written >= written_max {
                done.is_stopped = true;
                break;
            }
            done.looked_at += 1;
            let cleaned = self.clean(*frame)?;
            done.reusable += u64::from(cleaned != Cleaned::InUse);
            done.written += u64::from(cleaned == Cleaned::Written);
        }
        Ok(done)
    }
}

impl Worker {
    /// For whom it works.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }
}
