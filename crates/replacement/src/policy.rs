//! The contract between a page cache and the policy that decides who leaves it.
//!
//! # Rules
//!
//! 1. The cache owns the truth about pins, dirt and which page is in which frame. A policy knows
//!    frames, an order or counters over them, and remembered (ghost) pages.
//! 2. A frame is *resident* from [`Policy::admit`] to [`Policy::evicted`] or
//!    [`Policy::forget_frame`]. Only resident frames are offered as victims.
//! 3. A hit takes no lock. A pool keeps the policy behind a lock for misses and, beside it, the
//!    [`HitPath`] that [`Policy::hit_path`] hands out, which works on atomic words it shares with
//!    the policy. A policy whose hits change an order only logs them; [`Policy::drain`] applies the
//!    log. Who owns the policy alone (a simulator) calls [`Policy::hit`], to the same effect at once.
//! 4. A miss runs `miss`, then `victim` when no frame is free, then `evicted` or `refused`, then the
//!    page is read, then `admit` or `abandon`. Several misses may be in flight; a frame that one of
//!    them has taken answers [`Answer::Pinned`] to the others.
//! 5. A victim search ends. It offers a frame at most a bounded number of times (each policy states
//!    the bound) and answers `None` when nothing can be taken, as when all frames are pinned.
//!    A pinned frame keeps its place and its age.
//! 6. No policy reads a clock or draws entropy. Time comes with each access as a coarse tick in
//!    milliseconds, chance comes from a seed given at construction.
//! 7. Nothing is allocated after construction and [`Policy::resize`], except where a policy's
//!    memory formula says so. Memory is bounded by a formula in each policy's text.

use std::sync::Arc;

use crate::page_map::PageMap;

/// A slot of the pool, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A page: a dense number in a simulator, a hash of (relation, fork, block) in a pool. Two pages
/// with one key share their history, so a pool should hash to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageKey(pub u64);

/// What the caller knows about an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    /// An ordinary access.
    #[default]
    Normal,
    /// Through a ring of a large scan, of a bulk write or of vacuum: the page should not become hot.
    Ring,
    /// The caller expects not to need the page again.
    WontNeed,
}

/// One access: what is known of it and when it happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// What the caller knows.
    pub hint: Hint,
    /// Milliseconds on a clock that the caller keeps; it may wrap and must not go back.
    pub tick_ms: u32,
}

/// What the cache answers when it is offered a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// This one.
    Take,
    /// It is in use; leave it as it is.
    Pinned,
    /// It would have to be written first and the caller wants a clean one: look further. The caller
    /// bounds how often it answers this.
    Dirty,
    /// End the search.
    Stop,
}

/// The cache, as a victim search sees it.
pub trait Candidates {
    /// Whether the page in `frame` is in use now. Asked before a policy ages a frame that it does
    /// not offer, since a pinned frame keeps its age.
    fn is_pinned(&mut self, frame: FrameId) -> bool;

    /// Offers `frame`. With [`Answer::Take`] the cache has claimed it.
    fn offer(&mut self, frame: FrameId) -> Answer;
}

/// A cache without pins: takes the first frame offered. For simulators and examples.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakeFirst;

impl Candidates for TakeFirst {
    #[inline]
    fn is_pinned(&mut self, _frame: FrameId) -> bool {
        false
    }

    #[inline]
    fn offer(&mut self, _frame: FrameId) -> Answer {
        Answer::Take
    }
}

/// What a policy decided when a page was missed: where the page will enter. Returned by
/// [`Policy::miss`] and handed back when the page has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Miss {
    /// For the policy that made it.
    pub(crate) entry: u32,
    /// Whether the page was remembered as a ghost.
    pub(crate) was_ghost: bool,
}

impl Miss {
    /// A decision that a policy outside of this crate makes; `entry` means what it wants.
    #[must_use]
    pub const fn new(entry: u32, was_ghost: bool) -> Self {
        Self { entry, was_ghost }
    }

    /// The policy's own number.
    #[must_use]
    pub const fn entry(self) -> u32 {
        self.entry
    }

    /// Whether the page had been remembered.
    #[must_use]
    pub const fn was_ghost(self) -> bool {
        self.was_ghost
    }
}

/// Hits that wait to be applied to an ordered policy, one log per worker (after BP-Wrapper:
/// X. Ding, S. Jiang, X. Zhang, ICDE 2009).
#[derive(Clone, Debug, Default)]
pub struct HitLog {
    entries: Vec<(FrameId, Access)>,
}

impl HitLog {
    /// A log with room for `capacity` hits before it allocates.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity) }
    }

    /// Notes a hit.
    #[inline]
    pub fn push(&mut self, frame: FrameId, access: Access) {
        self.entries.push((frame, access));
    }

    /// How many hits wait.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no hit waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the waiting hits in the order in which they happened.
    #[inline]
    pub fn take(&mut self) -> std::vec::Drain<'_, (FrameId, Access)> {
        self.entries.drain(..)
    }
}

/// Figures a policy keeps about its own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyStatistics {
    /// Victim searches that found one.
    pub victims: u64,
    /// Frames looked at in all searches. Divided by `victims`: the sweep's length per victim.
    pub sweep_steps: u64,
    /// Searches that found nothing.
    pub failed_searches: u64,
    /// Misses on remembered pages.
    pub ghost_hits: u64,
}

/// A change of size was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// Frames at or above the new size are still resident: evict or forget them first.
    #[error("frame {0} is resident and lies beyond the new size: evict or forget it first")]
    Resident(u32),
    /// The size is zero or above [`MAX_FRAMES`].
    #[error("a pool has 1 to {MAX_FRAMES} frames, not {0}")]
    Size(u32),
}

/// Most frames a policy manages: indices need two reserved values below 2^32, and links need one
/// bit. 2^30 frames of 8 KiB are 8 TiB.
pub const MAX_FRAMES: u32 = 1 << 30;

/// The part of a policy that hits go through, shared by all workers (rule 3).
pub trait HitPath: Send + Sync {
    /// A resident page was used again. Stores at most once, to the frame's own word, and reads it
    /// first; or appends to `log`.
    fn hit(&self, frame: FrameId, access: Access, log: &mut HitLog);
}

/// Decides who leaves a page cache. See the module's rules.
pub trait Policy: Send {
    /// The shared part that hits go through. After [`Policy::resize`] a new one must be taken.
    fn hit_path(&self) -> Arc<dyn HitPath>;

    /// A resident page was used again: what the hit path and [`Policy::drain`] do together, at once,
    /// for an owner that shares the policy with nobody. Does nothing for a frame that is not resident.
    fn hit(&mut self, frame: FrameId, access: Access);

    /// Applies logged hits, in order. Frames that are no longer resident are skipped.
    #[inline]
    fn drain(&mut self, log: &mut HitLog) {
        for (frame, access) in log.take() {
            self.hit(frame, access);
        }
    }

    /// A page is not in the cache. Consults and removes its ghost, adapts, and says where the page
    /// will enter.
    #[inline]
    fn miss(&mut self, _page: PageKey, _access: Access) -> Miss {
        Miss::default()
    }

    /// Looks for a frame to empty, offering candidates (rule 5).
    fn victim(&mut self, miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId>;

    /// The cache has emptied `frame`, which [`Policy::victim`] had returned. Leaves a ghost where
    /// the policy keeps one; one that keeps none forgets the frame.
    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        self.forget_frame(frame);
    }

    /// The cache did not empty `frame` after all (it was pinned again, or writing it failed): it
    /// stays where it was.
    fn refused(&mut self, _frame: FrameId) {}

    /// `page` has been read into `frame`, which was free.
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, access: Access);

    /// Reading the page failed; nothing entered.
    fn abandon(&mut self, _miss: Miss) {}

    /// The page in `frame` was dropped or truncated away: no ghost.
    fn forget_frame(&mut self, frame: FrameId);

    /// `page`, which is not resident, was dropped: its ghost goes, too.
    fn forget_page(&mut self, _page: PageKey) {}

    /// Changes the number of frames.
    ///
    /// # Errors
    /// When the size is out of range or frames beyond the new size are resident.
    fn resize(&mut self, frames: u32) -> Result<(), ResizeError>;

    /// Appends up to `count` frames that would be offered next, likely victims first. Changes
    /// nothing; a cleaner writes them ahead of need.
    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>);

    /// How many frames are resident.
    fn resident(&self) -> u32;

    /// Figures about the policy's own work.
    fn statistics(&self) -> PolicyStatistics;

    /// Adds the number of resident frames with each usage count to `counts`; policies without a
    /// counter put a frame that was used since it was last looked at under 1, others under 0, and
    /// those that know nothing of uses put all under 0.
    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        add_count(counts, 0, u64::from(self.resident()));
    }

    /// Where the policy finds the pages it remembers, if they are numbered densely
    /// ([`crate::KeySpace::Dense`]). An owner that shares the policy with nobody may keep its resident
    /// pages there as well, so that one look-up tells both.
    fn page_map(&self) -> Option<Arc<PageMap>> {
        None
    }

    /// Reads what a hit on a page, or its miss, will read, given the page's word in
    /// [`Policy::page_map`], and answers something made of it. Changes nothing: a simulator asks for a
    /// number of pages before it needs them, and the processor fetches all at once. The word may be
    /// untrue, or any other number.
    #[inline]
    fn bring_near(&self, _word: u32) -> u32 {
        0
    }

    /// Checks the policy's own invariants, for tests; costs a walk over everything.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    fn check(&self) -> Result<(), String>;
}

/// A boxed policy is a policy, so that one of unknown type runs where one of a known type does.
impl<P: Policy + ?Sized> Policy for Box<P> {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        (**self).hit_path()
    }

    fn hit(&mut self, frame: FrameId, access: Access) {
        (**self).hit(frame, access);
    }

    fn drain(&mut self, log: &mut HitLog) {
        (**self).drain(log);
    }

    fn miss(&mut self, page: PageKey, access: Access) -> Miss {
        (**self).miss(page, access)
    }

    fn victim(&mut self, miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        (**self).victim(miss, candidates)
    }

    fn evicted(&mut self, frame: FrameId) {
        (**self).evicted(frame);
    }

    fn refused(&mut self, frame: FrameId) {
        (**self).refused(frame);
    }

    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, access: Access) {
        (**self).admit(miss, frame, page, access);
    }

    fn abandon(&mut self, miss: Miss) {
        (**self).abandon(miss);
    }

    fn forget_frame(&mut self, frame: FrameId) {
        (**self).forget_frame(frame);
    }

    fn forget_page(&mut self, page: PageKey) {
        (**self).forget_page(page);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        (**self).resize(frames)
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        (**self).look_ahead(count, frames);
    }

    fn resident(&self) -> u32 {
        (**self).resident()
    }

    fn statistics(&self) -> PolicyStatistics {
        (**self).statistics()
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        (**self).usage_histogram(counts);
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        (**self).page_map()
    }

    fn bring_near(&self, word: u32) -> u32 {
        (**self).bring_near(word)
    }

    fn check(&self) -> Result<(), String> {
        (**self).check()
    }
}

impl PolicyStatistics {
    /// Offers frames in the order given until one is taken or the cache wants to stop: the search of
    /// policies that leave what they pass as it is.
    #[inline]
    pub(crate) fn search(
        &mut self,
        frames: impl Iterator<Item = u32>,
        candidates: &mut dyn Candidates,
    ) -> Option<FrameId> {
        for frame in frames.map(FrameId) {
            self.sweep_steps += 1;
            match candidates.offer(frame) {
                Answer::Take => return self.count_search(Some(frame)),
                Answer::Pinned | Answer::Dirty => {}
                Answer::Stop => break,
            }
        }
        self.count_search(None)
    }

    /// Counts a finished search and hands its result on.
    #[inline]
    pub(crate) fn count_search(&mut self, found: Option<FrameId>) -> Option<FrameId> {
        match found {
            Some(_) => self.victims += 1,
            None => self.failed_searches += 1,
        }
        found
    }
}

/// Adds `count` frames with usage `usage` to a histogram, which grows as needed.
pub fn add_count(counts: &mut Vec<u64>, usage: usize, count: u64) {
    if counts.len() <= usage {
        counts.resize(usage + 1, 0);
    }
    if let Some(place) = counts.get_mut(usage) {
        *place += count;
    }
}

/// A share of the frames, rounded down; at least 1 when the share is above zero, 0 when it is zero.
#[must_use]
pub fn share_of(share: f64, frames: u32) -> u32 {
    if share <= 0.0 || share.is_nan() {
        return 0;
    }
    // Saturates; a share is 4 at the most and frames are 2^30.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range, see above"
    )]
    let floor = (share * f64::from(frames)).floor() as u32;
    floor.max(1)
}
