//! Pages of a relation as a whole: making new ones, flushing, truncating, dropping.

use std::collections::VecDeque;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use evenkeel_replacement::policy::{FrameId, PageKey, Policy};

use super::counters::{Context, WriteCause};
use super::descriptor::{VALID, hash};
use super::error::PoolError;
use super::guard::{Exclusive, Pinned};
use super::load::{Entered, Source};
use super::ring::Ring;
use super::waiting::Answer;
use super::worker::Worker;
use super::writeback::Patience;
use crate::page::{BlockNumber, Fork, PageIdentity, RelationNumber};
use crate::smgr::SmgrError;
use crate::stats::WaitPlace;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// Below this share of the pool the blocks of a relation are looked for one by one, above it all frames
/// are looked at: PostgreSQL's BUF_DROP_FULL_SCAN_THRESHOLD.
const LOOKED_UP_SHARE: u32 = 32;

/// Ghosts forgotten in one go, so that misses are not held up for long.
const FORGOTTEN_AT_ONCE: u32 = 256;

/// The right to change a fork's length.
struct Extension<'w> {
    worker: &'w Worker,
    key: (RelationNumber, Fork),
}

impl Drop for Extension<'_> {
    fn drop(&mut self) {
        let mut extensions = lock(&self.worker.pool.extensions);
        if let Entry::Occupied(mut waiting) = extensions.entry(self.key) {
            // Handed on directly, so that nobody overtakes.
            match waiting.get_mut().pop_front() {
                Some(next) => next.answer(Answer::Again),
                None => drop(waiting.remove()),
            }
        }
    }
}

impl Worker {
    /// Makes a page of zeros at the end of a fork, with its space on disk, and locks it for changing.
    /// Until it is written it is read as zeros, also after a crash.
    ///
    /// # Errors
    /// When there is no space, or no frame. The fork is then as long as before.
    pub fn extend(
        &self,
        relation: RelationNumber,
        fork: Fork,
        ring: Option<&mut Ring>,
    ) -> Result<Exclusive<'_>, PoolError> {
        let context = ring.as_ref().map_or(Context::Normal, |ring| ring.context());
        let extension = self.begin_extension(relation, fork);
        let block = BlockNumber(self.pool.with.smgr.blocks(relation, fork)?);
        let identity = PageIdentity { relation, fork, block };
        let pinned = loop {
            // Before the block exists: whoever asks for it from now on waits for this page.
            match self.enter(identity, hash(identity), context) {
                Ok(Entered::Mine(ticket)) => break self.load(ticket, ring, Source::New)?,
                Ok(Entered::Found(pinned)) => {
                    unreachable!("{} lies beyond the end and is in the pool", pinned.identity())
                }
                // Somebody had asked for it before and was told that there is no such block.
                Err(PoolError::Storage(SmgrError::BeyondEnd { .. })) => {}
                Err(error) => return Err(error),
            }
        };
        drop(extension);
        Ok(pinned.exclusive())
    }

    fn begin_extension(&self, relation: RelationNumber, fork: Fork) -> Extension<'_> {
        let key = (relation, fork);
        let mut extensions = lock(&self.pool.extensions);
        match extensions.entry(key) {
            Entry::Vacant(place) => {
                place.insert(VecDeque::new());
            }
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(Arc::clone(&self.waiter));
                drop(extensions);
                let identity = PageIdentity { relation, fork, block: BlockNumber(u32::MAX) };
                self.wait(WaitPlace::Extension, identity);
            }
        }
        Extension { worker: self, key }
    }

    /// Writes all dirty pages of a relation. What is changed meanwhile may stay dirty. Says how many
    /// were written.
    ///
    /// # Errors
    /// When a page cannot be written.
    pub fn flush_relation(&self, relation: RelationNumber) -> Result<u64, PoolError> {
        let mut written = 0;
        for page in self.pool.dirty_pages() {
            if page.identity.relation == relation
                && self.write_as(page, WriteCause::Flush, Patience::Waits)?
            {
                written += 1;
            }
        }
        Ok(written)
    }

    /// Cuts a fork to `blocks`, on disk and in the pool, dirty or not. Waits for other tasks that have
    /// pinned a page that goes. The caller sees to it that nobody wants those pages any more.
    ///
    /// # Errors
    /// `PinnedBySelf`, or as the file system says; lengths may be cut in part then.
    pub fn truncate(
        &self,
        relation: RelationNumber,
        fork: Fork,
        blocks: u32,
    ) -> Result<(), PoolError> {
        let extension = self.begin_extension(relation, fork);
        let smgr = &self.pool.with.smgr;
        let end = smgr.blocks(relation, fork)?;
        // Before the file is cut, so that nobody writes a page that has no place any more; and after it,
        // since until then somebody may have read one again.
        self.drop_pages(relation, fork, blocks, end)?;
        smgr.truncate(relation, fork, blocks)?;
        self.drop_pages(relation, fork, blocks, end)?;
        self.forget_ghosts(relation, fork, blocks, end);
        drop(extension);
        Ok(())
    }

    /// Removes a relation, on disk and in the pool; otherwise as [`Worker::truncate`].
    ///
    /// # Errors
    /// `PinnedBySelf`, or as the file system says; some files may be left.
    pub fn drop_relation(&self, relation: RelationNumber) -> Result<(), PoolError> {
        let smgr = &self.pool.with.smgr;
        let mut forks = Vec::new();
        for fork in Fork::ALL {
            if smgr.exists(relation, fork)? {
                let extension = self.begin_extension(relation, fork);
                let end = smgr.blocks(relation, fork)?;
                self.drop_pages(relation, fork, 0, end)?;
                forks.push((extension, end));
            }
        }
        smgr.drop_relation(relation)?;
        for (extension, end) in &forks {
            self.drop_pages(relation, extension.key.1, 0, *end)?;
            self.forget_ghosts(relation, extension.key.1, 0, *end);
        }
        Ok(())
    }

    fn drop_pages(
        &self,
        relation: RelationNumber,
        fork: Fork,
        first: u32,
        end: u32,
    ) -> Result<(), PoolError> {
        let pool = &self.pool;
        if end.saturating_sub(first) < pool.settings.frames / LOOKED_UP_SHARE {
            for block in first..end {
                self.drop_page(PageIdentity { relation, fork, block: BlockNumber(block) })?;
            }
            return Ok(());
        }
        let goes = |identity: PageIdentity| {
            identity.relation == relation && identity.fork == fork && identity.block.0 >= first
        };
        let mut loading = Vec::new();
        for partition in pool.table.each_partition() {
            let identities = partition.iter().map(|loading| loading.identity);
            loading.extend(identities.filter(|identity| goes(*identity)));
        }
        for identity in loading {
            self.drop_page(identity)?;
        }
        for frame in &pool.frames {
            // A hint; `drop_page` looks again under the lock.
            let is_valid = frame.state.load(Ordering::Acquire) & VALID != 0;
            let identity = frame.identity();
            if is_valid && goes(identity) {
                self.drop_page(identity)?;
            }
        }
        Ok(())
    }

    /// Takes a page out of the pool, with its changes; waits for others that use, read or write it.
    fn drop_page(&self, identity: PageIdentity) -> Result<(), PoolError> {
        let pool = &self.pool;
        let hash = hash(identity);
        loop {
            let mut partition = pool.table.partition(hash);
            let found = pool.table.find_locked(&pool.frames, &partition, hash, identity);
            let is_loading = found.is_none() && self.join_load(&mut partition, identity);
            drop(partition);
            let pinned: Pinned<'_> = match found {
                None if !is_loading => return Ok(()),
                None => match self.wait_for_load(identity, Context::Normal) {
                    Ok(pinned) => pinned,
                    Err(_) => return Ok(()),
                },
                Some(number) => {
                    let pins = self.pins_on(number);
                    if pins > 0 {
                        return Err(PoolError::PinnedBySelf { identity, pins });
                    }
                    let forget = |policy: &mut dyn Policy| policy.forget_frame(FrameId(number));
                    if pool.frame(number).is_at(identity)
                        && self.invalidate(number, 0, true, forget)
                    {
                        pool.replacement().free.push(number);
                        return Ok(());
                    }
                    match self.pin(number, identity, Context::Normal) {
                        Some(pinned) => pinned,
                        None => continue,
                    }
                }
            };
            let number = pinned.number();
            // Alone and locked, nobody can have a lock on the frame when it is handed on.
            let alone = pinned.cleanup()?;
            let forget = |policy: &mut dyn Policy| policy.forget_frame(FrameId(number));
            let is_gone = self.invalidate(number, 1, true, forget);
            drop(alone);
            if is_gone {
                pool.replacement().free.push(number);
                return Ok(());
            }
        }
    }

    fn forget_ghosts(&self, relation: RelationNumber, fork: Fork, first: u32, end: u32) {
        for from in (first..end).step_by(FORGOTTEN_AT_ONCE as usize) {
            let mut replacement = self.pool.replacement();
            for block in from..end.min(from.saturating_add(FORGOTTEN_AT_ONCE)) {
                let identity = PageIdentity { relation, fork, block: BlockNumber(block) };
                replacement.policy.forget_page(PageKey(hash(identity)));
            }
        }
    }
}
