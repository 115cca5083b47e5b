//! One word for each of densely numbered pages: where it is in the cache, or where it is remembered.
//!
//! A simulator asks of every page whether it is in the cache, and a policy with ghosts asks of every
//! page that is not whether it remembers it. One map answers both with one look-up, which is most of
//! what a reference costs.
//!
//! # Rules
//!
//! 1. A word of the cache is a frame, below [`REMEMBERED`]. A word of the policy has [`REMEMBERED`] set
//!    and the highest bit clear. A page that never had either is [`ABSENT`].
//! 2. A word is a claim, which may have become untrue: whoever finds a word of its own verifies that
//!    the frame, or what it stands for, holds this very page. So a page that leaves costs no write to
//!    its word, which is far from the processor by then.
//! 3. The cache sets a page's word after [`crate::policy::Policy::admit`]; the policy sets words of pages
//!    that are not resident only.
//! 4. Words are atomic so that the two may share them, not so that two threads may.
//!
//! It takes 4 bytes a page, whatever the size of the cache.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The word of a page that never was in the cache.
pub const ABSENT: u32 = u32::MAX;

/// Set in words that belong to the policy, and in [`ABSENT`].
pub const REMEMBERED: u32 = 1 << 30;

/// See the module.
#[derive(Debug)]
pub struct PageMap(Box<[AtomicU32]>);

impl PageMap {
    /// For pages below `pages`.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self((0..pages).map(|_| AtomicU32::new(ABSENT)).collect())
    }

    /// The word of `page`.
    #[must_use]
    #[inline]
    pub fn word(&self, page: u32) -> u32 {
        self.0.get(page as usize).map_or(ABSENT, |word| word.load(Relaxed))
    }

    /// Sets the word of `page`.
    #[inline]
    pub fn set(&self, page: u32, word: u32) {
        if let Some(place) = self.0.get(page as usize) {
            place.store(word, Relaxed);
        }
    }
}

/// Whether the policy, not the cache, set this word.
#[inline]
pub(crate) fn is_remembered(word: u32) -> bool {
    // All bits are set in ABSENT, the highest included.
    word >> 30 == REMEMBERED >> 30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_remembered_pages_and_neither_are_told_apart() {
        let map = PageMap::new(3);
        map.set(0, REMEMBERED - 1);
        map.set(1, REMEMBERED | (REMEMBERED - 1));
        map.set(3, 7);
        let words = [0, 1, 2, 3].map(|page| map.word(page));
        assert_eq!(words.map(is_remembered), [false, true, false, false]);
        assert_eq!(words.map(|word| word < REMEMBERED), [true, false, false, false]);
    }
}
