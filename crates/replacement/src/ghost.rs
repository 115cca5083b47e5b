//! Remembered pages: bounded queues of page keys that are no longer resident.
//!
//! A page is remembered once at most, in one of up to four queues (ARC needs two). Look-up goes
//! through a [`PageMap`] when pages are numbered densely (a simulator that renumbered its pages), else
//! through an open-addressing table; both give the same answers.

use std::sync::Arc;

use crate::frame_list::{Links, List, NONE};
use crate::keys::Keys;
use crate::page_map::{PageMap, REMEMBERED, is_remembered};
use crate::policy::PageKey;

/// How page keys are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpace {
    /// Keys are any 64 bits: 24 bytes a remembered page at the most.
    Hashed,
    /// Keys are below this number: 4 bytes a page of the key space, no hashing, in a [`PageMap`] that
    /// the policy's owner may share.
    Dense(u32),
}

/// Queues of remembered pages.
#[derive(Debug)]
pub(crate) struct Ghosts {
    index: Index,
    links: Links,
    keys: Keys,
    queue_of: Vec<u8>,
    queues: [List; 4],
    free: FreeNodes,
}

/// Nodes in no queue: those that were released, last first, then those never used.
#[derive(Clone, Copy, Debug)]
struct FreeNodes {
    /// Linked by `next`.
    released: u32,
    never_used: u32,
}

impl Ghosts {
    /// Room for `capacity` pages in all queues together.
    pub(crate) fn new(capacity: u32, space: KeySpace) -> Self {
        Self {
            index: Index::new(capacity, space),
            links: Links::new(capacity),
            keys: Keys::new(capacity, space),
            queue_of: vec![0; capacity as usize],
            queues: [List::default(); 4],
            free: FreeNodes { released: NONE, never_used: 0 },
        }
    }

    /// Where pages are found, if they are numbered densely.
    pub(crate) fn page_map(&self) -> Option<Arc<PageMap>> {
        self.index.page_map()
    }

    pub(crate) fn len(&self, queue: usize) -> u32 {
        self.queues[queue].len()
    }

    /// All queues together.
    pub(crate) fn total(&self) -> u32 {
        self.queues.iter().map(|queue| queue.len()).sum()
    }

    /// The queue that remembers `page`.
    #[inline]
    pub(crate) fn find(&self, page: PageKey) -> Option<usize> {
        let node = self.index.find(page, |node| self.keys.get(node))?;
        Some(usize::from(self.queue_of[node as usize]))
    }

    /// Where `page` is remembered: the index of a payload that the caller keeps beside the ghosts.
    #[inline]
    pub(crate) fn node_of(&self, page: PageKey) -> Option<u32> {
        self.index.find(page, |node| self.keys.get(node))
    }

    /// Reads what [`Ghosts::remove`] will read of the page with this word, for the processor to have it
    /// near.
    #[inline]
    pub(crate) fn bring_near(&self, word: u32) -> u32 {
        self.keys.bring_near(word & !REMEMBERED)
    }

    /// Forgets `page`; says which queue had it.
    #[inline]
    pub(crate) fn remove(&mut self, page: PageKey) -> Option<usize> {
        let node = self.index.find(page, |node| self.keys.get(node))?;
        let queue = usize::from(self.queue_of[node as usize]);
        self.release(node, queue);
        Some(queue)
    }

    /// Remembers `page` as the newest of `queue`. It must not be remembered yet. When there is no
    /// room at all the oldest of the same queue, else of the longest one, is forgotten.
    #[inline]
    pub(crate) fn push(&mut self, queue: usize, page: PageKey) {
        debug_assert!(self.find(page).is_none(), "a page is remembered once");
        if self.links.count() == 0 {
            return;
        }
        if self.free.released == NONE && self.free.never_used == self.links.count() {
            let full = if self.queues[queue].is_empty() { self.longest() } else { queue };
            self.pop_oldest(full);
        }
        let node = self.free.released;
        let node = if node == NONE {
            self.free.never_used += 1;
            self.free.never_used - 1
        } else {
            self.free.released = self.links.next(node);
            node
        };
        self.keys.set(node, page);
        self.queue_of[node as usize] = u8::try_from(queue).unwrap_or(0);
        self.links.push_head(&mut self.queues[queue], node);
        self.index.insert(page, node);
    }

    /// Forgets the oldest page of `queue`.
    #[inline]
    pub(crate) fn pop_oldest(&mut self, queue: usize) -> Option<PageKey> {
        let node = self.queues[queue].tail();
        if node == NONE {
            return None;
        }
        let page = self.keys.get(node);
        self.release(node, queue);
        Some(page)
    }

    /// A copy with room for `capacity` pages: the newest of each queue stay, as far as there is room.
    pub(crate) fn resized(&self, capacity: u32, space: KeySpace) -> Self {
        let mut copy = Self::new(capacity, space);
        let mut surplus = self.total().saturating_sub(capacity);
        for (number, queue) in self.queues.iter().enumerate() {
            for node in self.links.oldest_first(queue) {
                if surplus > 0 {
                    surplus -= 1;
                } else {
                    copy.push(number, self.keys.get(node));
                }
            }
        }
        copy
    }

    /// All remembered pages, oldest first in each queue.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageKey> + '_ {
        self.queues
            .iter()
            .flat_map(|queue| self.links.oldest_first(queue))
            .map(|node| self.keys.get(node))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        for (number, queue) in self.queues.iter().enumerate() {
            self.links.check(queue, "ghost queue")?;
            for node in self.links.oldest_first(queue) {
                if usize::from(self.queue_of[node as usize]) != number {
                    return Err(format!("ghost {node} is in queue {number} and thinks otherwise"));
                }
                if self.index.find(self.keys.get(node), |node| self.keys.get(node)) != Some(node) {
                    return Err(format!("ghost {node} is not found by its key"));
                }
            }
        }
        let mut held = self.total() + (self.links.count() - self.free.never_used);
        let mut free = self.free.released;
        while free != NONE && held <= self.links.count() {
            held += 1;
            free = self.links.next(free);
        }
        if held == self.links.count() {
            Ok(())
        } else {
            Err(format!("{held} of {} ghosts are in a queue or free", self.links.count()))
        }
    }

    /// Checks that no page of the frames in `lists` is remembered.
    pub(crate) fn check_disjoint(
        &self,
        links: &Links,
        keys: &Keys,
        lists: &[List],
    ) -> Result<(), String> {
        for frame in lists.iter().flat_map(|list| links.oldest_first(list)) {
            if self.find(keys.get(frame)).is_some() {
                return Err(format!("the page in frame {frame} is remembered, too"));
            }
        }
        Ok(())
    }

    fn longest(&self) -> usize {
        (0..self.queues.len()).max_by_key(|queue| self.queues[*queue].len()).unwrap_or(0)
    }

    #[inline]
    fn release(&mut self, node: u32, queue: usize) {
        self.index.remove(self.keys.get(node), node, |node| self.keys.get(node));
        self.keys.clear(node);
        self.links.remove(&mut self.queues[queue], node);
        self.links.set_next(node, self.free.released);
        self.free.released = node;
    }
}

/// From a page key to its node; the keys by node are the owner's, who clears a node's when its page is
/// removed.
#[derive(Debug)]
pub(crate) enum Index {
    Dense(Arc<PageMap>),
    /// Linear probing over a power of two of slots, at most half full; removal shifts back, so
    /// there are no tombstones and a search ends at the first empty slot.
    Hashed(Vec<u32>),
}

/// Fibonacci hashing: the high bits of key x 2^64/phi are well spread even for keys in sequence.
fn slot_of(PageKey(key): PageKey, slots: usize) -> usize {
    let bits = slots.trailing_zeros();
    let hash = (key ^ (key >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(hash >> (64 - bits)).unwrap_or(0)
}

impl Index {
    /// For at most `capacity` pages.
    pub(crate) fn new(capacity: u32, space: KeySpace) -> Self {
        match space {
            KeySpace::Dense(pages) => Self::Dense(Arc::new(PageMap::new(pages))),
            KeySpace::Hashed => {
                let slots = (capacity as usize).saturating_mul(2).next_power_of_two().max(2);
                Self::Hashed(vec![NONE; slots])
            }
        }
    }

    pub(crate) fn page_map(&self) -> Option<Arc<PageMap>> {
        match self {
            Self::Dense(map) => Some(Arc::clone(map)),
            Self::Hashed(_) => None,
        }
    }

    #[inline]
    pub(crate) fn find(&self, page: PageKey, key_of: impl Fn(u32) -> PageKey) -> Option<u32> {
        match self {
            Self::Dense(map) => {
                let word = map.word(u32::try_from(page.0).ok()?);
                let node = word & !REMEMBERED;
                // Rule 2 of the map: whether the node holds the page still.
                (is_remembered(word) && key_of(node) == page).then_some(node)
            }
            Self::Hashed(slots) => {
                let mut slot = slot_of(page, slots.len());
                loop {
                    let node = slots[slot];
                    if node == NONE {
                        return None;
                    }
                    if key_of(node) == page {
                        return Some(node);
                    }
                    slot = (slot + 1) & (slots.len() - 1);
                }
            }
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, page: PageKey, node: u32) {
        match self {
            Self::Dense(map) => {
                if let Ok(page) = u32::try_from(page.0) {
                    map.set(page, node | REMEMBERED);
                }
            }
            Self::Hashed(slots) => {
                let mut slot = slot_of(page, slots.len());
                while slots[slot] != NONE {
                    slot = (slot + 1) & (slots.len() - 1);
                }
                slots[slot] = node;
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, page: PageKey, node: u32, key_of: impl Fn(u32) -> PageKey) {
        match self {
            // The owner's key of the node no longer bears the word out.
            Self::Dense(_) => {}
            Self::Hashed(slots) => {
                let mask = slots.len() - 1;
                let mut hole = slot_of(page, slots.len());
                while slots[hole] != node {
                    if slots[hole] == NONE {
                        return;
                    }
                    hole = (hole + 1) & mask;
                }
                let mut slot = hole;
                loop {
                    slot = (slot + 1) & mask;
                    let node = slots[slot];
                    if node == NONE {
                        break;
                    }
                    let home = slot_of(key_of(node), slots.len());
                    // The entry may move into the hole unless its home lies between the two.
                    if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(hole) & mask) {
                        slots[hole] = node;
                        hole = slot;
                    }
                }
                slots[hole] = NONE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_hashed_ghosts_answer_as_a_vector_does() {
        use proptest::prelude::*;
        proptest!(|(capacity in 1_u32..9,
                    operations in proptest::collection::vec((0_u8..4, 0_u64..24, 0_usize..2), 0..300))| {
            let mut hashed = Ghosts::new(capacity, KeySpace::Hashed);
            let mut dense = Ghosts::new(capacity, KeySpace::Dense(24));
            // Newest last, per queue.
            let mut model: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
            for (operation, key, queue) in operations {
                let page = PageKey(key);
                let held = model.iter().position(|pages| pages.contains(&key));
                prop_assert_eq!(hashed.find(page), held);
                prop_assert_eq!(dense.find(page), held);
                match operation {
                    0 if held.is_none() => {
                        if model[0].len() + model[1].len() == capacity as usize {
                            let full = if model[queue].is_empty() { 1 - queue } else { queue };
                            model[full].remove(0);
                        }
                        model[queue].push(key);
                        hashed.push(queue, page);
                        dense.push(queue, page);
                    }
                    1 => {
                        if let Some(queue) = held {
                            model[queue].retain(|other| *other != key);
                        }
                        prop_assert_eq!(hashed.remove(page), held);
                        prop_assert_eq!(dense.remove(page), held);
                    }
                    2 => {
                        let oldest = (!model[queue].is_empty()).then(|| PageKey(model[queue].remove(0)));
                        prop_assert_eq!(hashed.pop_oldest(queue), oldest);
                        prop_assert_eq!(dense.pop_oldest(queue), oldest);
                    }
                    _ => {}
                }
                prop_assert_eq!(hashed.check(), Ok(()));
                prop_assert_eq!(dense.check(), Ok(()));
            }
        });
    }

    #[test]
    fn a_history_of_no_pages_remembers_nothing() {
        let mut ghosts = Ghosts::new(0, KeySpace::Hashed);
        ghosts.push(0, PageKey(7));
        assert_eq!(ghosts.find(PageKey(7)), None);
        assert_eq!(ghosts.total(), 0);
    }
}
