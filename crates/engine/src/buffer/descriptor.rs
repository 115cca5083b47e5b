//! A frame: its state word, which page it holds, and the page's bytes.
//!
//! The state word packs what a hit has to change or to know: the number of pins and the flags below.
//! Pinning is one atomic addition, looked at afterwards; a pin that met a frame without a page is given
//! back and means nothing.

use crate::page::{BlockNumber, Fork, PAGE_BYTES, PageBytes, PageIdentity, RelationNumber};
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, try_read, try_write, write};

/// The part of the state word that counts pins.
pub(super) const PINS: u64 = 0xFFFF_FFFF;
/// The frame holds the page that it says, and is in the table. Without it the frame is free, or belongs
/// to the one task that is emptying or filling it.
pub(super) const VALID: u64 = 1 << 32;
/// The page differs from what is on disk, or will once a write in progress has failed.
pub(super) const DIRTY: u64 = 1 << 33;
/// A copy of the page is on its way to the disk.
pub(super) const WRITING: u64 = 1 << 34;
/// The page came through a ring, and nobody without one has used it since (rule B12).
pub(super) const RING: u64 = 1 << 35;
/// Tasks wait for the content lock.
pub(super) const LOCK_WAITERS: u64 = 1 << 36;
/// Tasks wait until one pin is left.
pub(super) const PIN_WAITERS: u64 = 1 << 37;
/// Tasks wait for a write in progress to end.
pub(super) const WRITE_WAITERS: u64 = 1 << 38;

/// No frame, where a frame's number is expected.
pub(super) const NONE: u32 = u32::MAX;

/// The bytes, in the frame itself (docs/decisions/0010).
#[repr(align(8))]
pub(super) struct Content(PageBytes);

impl std::ops::Deref for Content {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        &self.0
    }
}

impl std::ops::DerefMut for Content {
    fn deref_mut(&mut self) -> &mut PageBytes {
        &mut self.0
    }
}

/// A slot of the pool. Its first cache line has all that a hit writes to, and the page's header.
#[repr(C, align(64))]
pub(super) struct Frame {
    pub(super) state: AtomicU64,
    /// Relation (upper half) and block. Like `fork` it changes only while the frame is not valid, so
    /// whoever has a pin may read it without a lock.
    place: AtomicU64,
    /// The next frame of the same bucket of the table.
    pub(super) next: AtomicU32,
    fork: AtomicU8,
    /// [`PageKind`](crate::page::PageKind)'s number, as last seen; for counters only.
    pub(super) kind: AtomicU8,
    content: RwLock<Content>,
}

impl Frame {
    /// A free frame.
    pub(super) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            place: AtomicU64::new(0),
            fork: AtomicU8::new(0),
            kind: AtomicU8::new(0),
            next: AtomicU32::new(NONE),
            content: RwLock::new(Content([0; PAGE_BYTES])),
        }
    }

    /// Whether the frame says that it holds `identity`; only under a pin is that the truth.
    #[inline]
    pub(super) fn is_at(&self, identity: PageIdentity) -> bool {
        self.place.load(Ordering::Relaxed) == place_of(identity)
            && self.fork.load(Ordering::Relaxed) == identity.fork.number()
    }

    /// The page that the frame says it holds; only under a pin is that the truth.
    pub(super) fn identity(&self) -> PageIdentity {
        let place = self.place.load(Ordering::Relaxed);
        let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(0);
        let fork = Fork::of_number(self.fork.load(Ordering::Relaxed)).unwrap_or(Fork::Main);
        PageIdentity {
            relation: RelationNumber(half(place >> 32)),
            fork,
            block: BlockNumber(half(place)),
        }
    }

    /// Says which page the frame is going to hold. For the task that is filling it.
    pub(super) fn set_identity(&self, identity: PageIdentity) {
        self.place.store(place_of(identity), Ordering::Relaxed);
        self.fork.store(identity.fork.number(), Ordering::Relaxed);
    }

    /// Adds a pin if the frame holds a page; gives the state before it. The caller then looks whether
    /// it is the page it wanted (rule B2).
    #[inline]
    pub(super) fn try_pin(&self) -> Option<u64> {
        let before = self.state.fetch_add(1, Ordering::Acquire);
        if before & VALID != 0 {
            return Some(before);
        }
        // The frame was emptied a moment ago. Nobody waits for pins of a frame without a page.
        self.state.fetch_sub(1, Ordering::Release);
        None
    }

    /// Takes a frame with a page that nobody has pinned: the first half of evicting it.
    pub(super) fn try_pin_alone(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Relaxed);
        if state & (PINS | VALID) != VALID {
            return None;
        }
        self.state.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).ok()
    }

    /// Ends the validity of a frame that has exactly `pins` pins, all of them the caller's, and no write
    /// under way; dirt is allowed only if `is_dirt_allowed`. The pins stay, to be given back.
    pub(super) fn try_invalidate(&self, pins: u64, is_dirt_allowed: bool) -> bool {
        let forbidden = if is_dirt_allowed { WRITING } else { WRITING | DIRTY };
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & (PINS | VALID) != VALID | pins || state & forbidden != 0 {
                return false;
            }
            let change =
                self.state.compare_exchange(state, pins, Ordering::AcqRel, Ordering::Relaxed);
            match change {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// Makes a filled frame valid with `pins` pins. Added, not stored: tasks that were led astray may be
    /// giving back pins of theirs.
    pub(super) fn validate(&self, pins: u64, flags: u64) {
        self.state.fetch_add(VALID | flags | pins, Ordering::Release);
    }

    /// The bytes, for the task that is filling the frame: nobody else can have the lock.
    pub(super) fn fill(&self) -> RwLockWriteGuard<'_, Content> {
        write(&self.content)
    }

    /// The content lock, shared, if it can be had at once.
    #[inline]
    pub(super) fn try_shared(&self) -> Option<RwLockReadGuard<'_, Content>> {
        try_read(&self.content)
    }

    /// The content lock, exclusive, if it can be had at once.
    #[inline]
    pub(super) fn try_exclusive(&self) -> Option<RwLockWriteGuard<'_, Content>> {
        try_write(&self.content)
    }

    /// Notes what kind of page it is, as its bytes say.
    #[inline]
    pub(super) fn note_kind(&self, bytes: &PageBytes) {
        let kind = bytes[KIND_AT];
        if self.kind.load(Ordering::Relaxed) != kind {
            self.kind.store(kind, Ordering::Relaxed);
        }
    }
}

/// Where a page says its kind (page/README.md).
const KIND_AT: usize = 21;

fn place_of(identity: PageIdentity) -> u64 {
    u64::from(identity.relation.0) << 32 | u64::from(identity.block.0)
}

/// Spreads pages over the table, and names them to the policy.
#[inline]
pub(super) fn hash(identity: PageIdentity) -> u64 {
    // The finalizer of MurmurHash3 (A. Appleby): a bijection, so two pages of one fork never share a
    // key. Forks are moved apart by an odd constant (2^64 divided by the golden ratio).
    let mut x = place_of(identity)
        .wrapping_add(u64::from(identity.fork.number()).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    x ^= x >> 33;
    x = x.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x ^= x >> 33;
    x = x.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(relation: u32, fork: Fork, block: u32) -> PageIdentity {
        PageIdentity { relation: RelationNumber(relation), fork, block: BlockNumber(block) }
    }

    #[test]
    fn a_hit_finds_state_lock_and_page_header_on_one_cache_line() {
        let frame = Frame::new();
        assert_eq!((size_of::<Frame>(), align_of::<Frame>()), (PAGE_BYTES + 64, 64));
        let page = frame.try_shared().unwrap().as_ptr().addr();
        let begin = std::ptr::from_ref(&frame).addr();
        assert!(page - begin + crate::page::HEADER_BYTES <= 64, "{}", page - begin);
    }

    #[test]
    fn a_frame_says_what_it_was_told() {
        let frame = Frame::new();
        for identity in [
            identity(0, Fork::Main, 0),
            identity(u32::MAX, Fork::VisibilityMap, u32::MAX),
            identity(7, Fork::FreeSpaceMap, 9),
        ] {
            frame.set_identity(identity);
            assert_eq!(frame.identity(), identity);
            assert!(frame.is_at(identity));
        }
        assert!(!frame.is_at(identity(7, Fork::Main, 9)));
    }

    #[test]
    fn forks_of_one_relation_have_keys_of_their_own() {
        let mut keys: Vec<u64> = Fork::ALL
            .into_iter()
            .flat_map(|fork| (0..3000).map(move |block| hash(identity(16_384, fork, block))))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 9000);
    }

    #[test]
    fn a_pin_of_an_empty_frame_leaves_nothing_behind() {
        let frame = Frame::new();
        assert_eq!(frame.try_pin(), None);
        assert_eq!(frame.state.load(Ordering::Relaxed), 0);
        frame.validate(1, DIRTY);
        assert!(!frame.try_invalidate(1, false), "dirty");
        assert!(!frame.try_invalidate(0, true), "pinned");
        assert!(frame.try_invalidate(1, true));
        assert_eq!(frame.state.load(Ordering::Relaxed), 1, "the pin is still to be given back");
    }
}
