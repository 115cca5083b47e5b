//! What owes a sync since when: the list a checkpoint works through.
//!
//! A file stands on it once, however often it is written: that is the compaction which PostgreSQL's
//! queue of requests needs when it is full (`checkpointer.c`), for nothing here.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::SegmentIdentity;

/// Something that owes a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwedSync {
    /// The names of the relation files.
    Directory,
    /// A file's bytes and length.
    Segment(SegmentIdentity),
}

/// The list. A checkpoint writes its pages, waits for writes that others have under way, then calls
/// [`SyncQueue::begin_cycle`] and pays what [`SyncQueue::owed_before`] lists, so that what those writes
/// owe is paid by it; what is added from then on belongs to the next one.
#[derive(Debug, Default)]
pub struct SyncQueue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cycle: u64,
    /// With the cycle in which the debt began.
    owed: BTreeMap<OwedSync, u64>,
}

impl SyncQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic is done while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a debt; an older one of the same file stays as old as it is.
    pub fn add(&self, owed: OwedSync) {
        let mut state = self.state();
        let cycle = state.cycle;
        state.owed.entry(owed).or_insert(cycle);
    }

    /// The file is gone, and its debt with it.
    pub fn forget(&self, owed: &OwedSync) {
        self.state().owed.remove(owed);
    }

    /// Begins a cycle; says its number. Debts noted from now on are younger.
    pub fn begin_cycle(&self) -> u64 {
        let mut state = self.state();
        state.cycle += 1;
        state.cycle
    }

    /// The debts older than `cycle` in a fixed order: the directory, then files by name.
    #[must_use]
    pub fn owed_before(&self, cycle: u64) -> Vec<OwedSync> {
        let state = self.state();
        state.owed.iter().filter(|(_, since)| **since < cycle).map(|(owed, _)| *owed).collect()
    }

    /// Takes a debt off the list, to be paid at once: whoever writes the file while it is being synced
    /// adds a new one. After a failed sync nobody may go on (smgr, rule S6), so it is not put back.
    #[must_use]
    pub fn take(&self, owed: &OwedSync) -> bool {
        self.state().owed.remove(owed).is_some()
    }

    /// How many debts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().owed.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::page::{Fork, RelationNumber};
    use super::*;

    fn segment(relation: u32) -> OwedSync {
        let relation = RelationNumber(relation);
        OwedSync::Segment(SegmentIdentity { relation, fork: Fork::Main, segment: 0 })
    }

    #[test]
    fn a_checkpoint_pays_what_was_owed_before_it_and_once() {
        let queue = SyncQueue::default();
        queue.add(segment(2));
        queue.add(segment(1));
        queue.add(segment(2));
        let cycle = queue.begin_cycle();
        queue.add(segment(3));
        // Still as old as before: its earlier write must be paid by this checkpoint.
        queue.add(segment(1));
        assert_eq!(queue.owed_before(cycle), [segment(1), segment(2)]);
        assert!(queue.take(&segment(1)) && !queue.take(&segment(1)));
        // Written while it was being synced: owed again, to the next one.
        queue.add(segment(1));
        assert_eq!(queue.owed_before(cycle), [segment(2)]);
        queue.forget(&segment(2));
        assert_eq!(queue.owed_before(queue.begin_cycle()), [segment(1), segment(3)]);
        assert_eq!(queue.len(), 2);
    }
}
