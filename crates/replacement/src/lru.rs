//! LRU: the page not used for longest leaves. A strict order by last use.
//!
//! - **Source**: the textbook; P. Denning, CACM 11 (1968).
//! - **Parameters**: none.
//! - **Hit**: logged, O(1) when applied. **Victim**: O(1) plus pinned frames passed, which keep their
//!   place; at most one walk over all frames.
//! - **Memory**: 16 bytes a frame; no ghosts.
//! - **Scan resistance**: none. One scan of as many pages as there are frames empties the cache.

use std::sync::Arc;

use crate::frame_list::{Links, List};
use crate::frames::{LoggedHits, Residents, shared};
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitLog, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count,
};

/// See the module.
#[derive(Debug)]
pub struct Lru {
    residents: Residents,
    links: Links,
    /// Most recently used first.
    order: List,
    statistics: PolicyStatistics,
}

impl Lru {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            residents: Residents::new(frames),
            links: Links::new(frames),
            order: List::default(),
            statistics: PolicyStatistics::default(),
        }
    }

    fn leave(&mut self, frame: FrameId) {
        if self.residents.leave(frame).is_some() {
            self.links.remove(&mut self.order, frame.0);
        }
    }
}

impl Policy for Lru {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(LoggedHits)
    }

    #[inline]
    fn hit(&self, frame: FrameId, access: Access, log: &mut HitLog) {
        log.push(frame, access);
    }

    #[inline]
    fn drain(&mut self, log: &mut HitLog) {
        for (frame, _) in log.take() {
            if self.residents.is_resident(frame) {
                self.links.move_to_head(&mut self.order, frame.0);
            }
        }
    }

    #[inline]
    fn miss(&mut self, _page: PageKey, _access: Access) -> Miss {
        Miss::default()
    }

    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let mut found = None;
        for frame in self.links.oldest_first(&self.order) {
            self.statistics.sweep_steps += 1;
            match candidates.offer(FrameId(frame)) {
                Answer::Take => {
                    found = Some(FrameId(frame));
                    break;
                }
                Answer::Pinned | Answer::Dirty => {}
                Answer::Stop => break,
            }
        }
        self.statistics.count_search(found)
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn refused(&mut self, _frame: FrameId) {}

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if self.residents.admit(frame, page) {
            self.links.push_head(&mut self.order, frame.0);
        }
    }

    fn abandon(&mut self, _miss: Miss) {}

    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn forget_page(&mut self, _page: PageKey) {}

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.links.resize(frames);
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        frames.extend(self.links.oldest_first(&self.order).take(count).map(FrameId));
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        add_count(counts, 0, u64::from(self.residents.count()));
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.order, "lru order")?;
        if self.order.len() != self.residents.count() {
            return Err(format!(
                "{} frames in order, {} resident",
                self.order.len(),
                self.residents.count()
            ));
        }
        Ok(())
    }
}
