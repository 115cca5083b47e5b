//! LRU: the page not used for longest leaves. A strict order by last use.
//!
//! - **Source**: the textbook; P. Denning, CACM 11 (1968).
//! - **Parameters**: none.
//! - **Hit**: logged, O(1) when applied. **Victim**: O(1) plus pinned frames passed, which keep their
//!   place; at most one walk over all frames.
//! - **Memory**: 8 bytes a frame; no ghosts.
//! - **Scan resistance**: none. One scan of as many pages as there are frames empties the cache.

use std::sync::Arc;

use crate::frame_list::{Links, List};
use crate::frames::{LoggedHits, NoHits, resize_links, shared};
use crate::policy::{
    Access, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics, ResizeError,
};

/// See the module.
pub type Lru = OneQueue<true>;

/// A queue of frames whose oldest leaves first. Frames enter as the newest; with `HITS_MOVE` a hit
/// makes a frame the newest again (LRU), without it changes nothing (FIFO, [`crate::fifo`]).
#[derive(Debug)]
pub struct OneQueue<const HITS_MOVE: bool> {
    links: Links,
    /// Newest first. A frame in it is resident.
    order: List,
    statistics: PolicyStatistics,
}

impl<const HITS_MOVE: bool> OneQueue<HITS_MOVE> {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            links: Links::new(frames),
            order: List::default(),
            statistics: PolicyStatistics::default(),
        }
    }
}

impl<const HITS_MOVE: bool> Policy for OneQueue<HITS_MOVE> {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        if HITS_MOVE { shared(LoggedHits) } else { shared(NoHits) }
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        if HITS_MOVE && self.links.is_linked(frame.0) {
            self.links.move_to_head(&mut self.order, frame.0);
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        self.statistics.search(self.links.oldest_first(&self.order), candidates)
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, _page: PageKey, _access: Access) {
        if self.links.is_free(frame.0) {
            self.links.push_head(&mut self.order, frame.0);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        if self.links.is_linked(frame.0) {
            self.links.remove(&mut self.order, frame.0);
        }
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        resize_links(&mut self.links, frames)
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        frames.extend(self.links.oldest_first(&self.order).take(count).map(FrameId));
    }

    fn resident(&self) -> u32 {
        self.order.len()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        if HITS_MOVE { self.links.bring_near(word) } else { 0 }
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.order, "the queue")?;
        self.links.check_count(self.order.len())
    }
}
