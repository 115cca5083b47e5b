//! Which frame holds a page, and which pages are being read.
//!
//! Buckets are chains of frames. Finding walks a chain without any lock and may be led astray by a frame
//! that moves to another chain meanwhile; so what it finds is verified under a pin, and what it does not
//! find is looked for again under the lock of the page's partition (rule B2). Chains change only under
//! that lock.

use std::sync::Arc;

use super::descriptor::{Frame, NONE};
use super::waiting::Waiter;
use crate::page::PageIdentity;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};

/// Locks of the table; as many as PostgreSQL has since 9.5 (3acc10c997).
const PARTITIONS: usize = 128;

/// A walk without a lock that is longer than this has probably been led astray.
const STEPS_MAX: u32 = 32;

/// A page on its way in. At most one task reads a page; the others wait for its answer (rule B6).
pub(super) struct Loading {
    pub(super) identity: PageIdentity,
    pub(super) waiters: Vec<Arc<Waiter>>,
}

/// The pages on their way in, of one partition.
pub(super) type Partition = Vec<Loading>;

#[repr(align(64))]
struct Padded(Mutex<Partition>);

/// See the module.
pub(super) struct Table {
    heads: Box<[AtomicU32]>,
    partitions: Box<[Padded]>,
}

impl Table {
    pub(super) fn new(frames: u32) -> Self {
        // Two buckets a frame: half of them empty, chains of one as a rule.
        let buckets = (frames as usize * 2).next_power_of_two().max(PARTITIONS);
        Self {
            heads: (0..buckets).map(|_| AtomicU32::new(NONE)).collect(),
            partitions: (0..PARTITIONS)
                .map(|_| Padded(Mutex::new(Vec::with_capacity(4))))
                .collect(),
        }
    }

    fn bucket(&self, hash: u64) -> &AtomicU32 {
        // The lower bits; partitions are a coarser cut of the same.
        let mask = self.heads.len() - 1;
        &self.heads[usize::try_from(hash & mask as u64).unwrap_or(0)]
    }

    /// Locks the partition of a page with this hash.
    pub(super) fn partition(&self, hash: u64) -> MutexGuard<'_, Partition> {
        let at = usize::try_from(hash % PARTITIONS as u64).unwrap_or(0);
        lock(&self.partitions[at].0)
    }

    /// Locks each partition in turn.
    pub(super) fn each_partition(&self) -> impl Iterator<Item = MutexGuard<'_, Partition>> {
        self.partitions.iter().map(|partition| lock(&partition.0))
    }

    /// A frame that said a moment ago that it holds the page. Neither answer is final (rule B2).
    #[inline]
    pub(super) fn find(&self, frames: &[Frame], hash: u64, identity: PageIdentity) -> Option<u32> {
        let mut at = self.bucket(hash).load(Ordering::Acquire);
        for _ in 0..STEPS_MAX {
            let frame = frames.get(at as usize)?;
            if frame.is_at(identity) {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// The frame that holds the page; final as long as the partition is locked.
    pub(super) fn find_locked(
        &self,
        frames: &[Frame],
        _partition: &MutexGuard<'_, Partition>,
        hash: u64,
        identity: PageIdentity,
    ) -> Option<u32> {
        let mut at = self.bucket(hash).load(Ordering::Acquire);
        while let Some(frame) = frames.get(at as usize) {
            if frame.is_at(identity) {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Enters a frame. The page must not be in the table.
    pub(super) fn insert(
        &self,
        frames: &[Frame],
        _partition: &MutexGuard<'_, Partition>,
        hash: u64,
        number: u32,
    ) {
        let head = self.bucket(hash);
        frames[number as usize].next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(number, Ordering::Release);
    }

    /// Takes a frame out. Its own link stays, so that who stands at it finds on.
    pub(super) fn remove(
        &self,
        frames: &[Frame],
        _partition: &MutexGuard<'_, Partition>,
        hash: u64,
        number: u32,
    ) {
        let mut link = self.bucket(hash);
        loop {
            let at = link.load(Ordering::Relaxed);
            let Some(frame) = frames.get(at as usize) else { return };
            if at == number {
                link.store(frame.next.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = &frame.next;
        }
    }
}
