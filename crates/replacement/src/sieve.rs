//! SIEVE: one queue, one bit a page, and a hand that clears bits but leaves pages where they are.
//!
//! **Unsafe for block traces.** It has no way to unlearn: a page behind the hand keeps its place for
//! a whole turn, so a changed working set starves. On a disk trace where LRU misses 24% it misses
//! 66%. It is here for comparison.
//!
//! - **Source**: Y. Zhang et al., NSDI 2024.
//! - **Parameters**: none.
//! - **Differences to the paper**: none; pinned pages are passed without clearing their bit.
//! - **Hit**: one load, at most one store. **Victim**: amortised O(1), at worst two walks.
//! - **Memory**: 12 bytes a frame; no ghosts.
//! - **Scan resistance**: good while the working set stays; see above.

use std::sync::Arc;

use crate::frame_list::{Links, List, NONE};
use crate::frames::{ReferenceBits, Words, resize_links};
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count,
};

/// See the module.
#[derive(Debug)]
pub struct Sieve {
    bits: Arc<ReferenceBits>,
    links: Links,
    /// Loaded last first.
    queue: List,
    /// Where the next search begins; [`NONE`]: at the tail.
    hand: u32,
    statistics: PolicyStatistics,
}

impl Sieve {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            bits: Arc::new(ReferenceBits(Words::new(frames))),
            links: Links::new(frames),
            queue: List::default(),
            hand: NONE,
            statistics: PolicyStatistics::default(),
        }
    }
}

impl Policy for Sieve {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.bits) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        self.bits.note(frame);
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        // Two walks: the first may clear every bit, the second then finds any unpinned frame.
        let mut steps = u64::from(self.queue.len()) * 2;
        while steps > 0 {
            steps -= 1;
            self.statistics.sweep_steps += 1;
            if self.hand == NONE {
                self.hand = self.queue.tail();
            }
            let frame = FrameId(self.hand);
            let next = self.links.previous(self.hand);
            if self.bits.0.get(frame) != 0 {
                if !candidates.is_pinned(frame) {
                    self.bits.0.set(frame, 0);
                }
                self.hand = next;
                continue;
            }
            match candidates.offer(frame) {
                Answer::Take => return self.statistics.count_search(Some(frame)),
                Answer::Pinned | Answer::Dirty => self.hand = next,
                Answer::Stop => break,
            }
        }
        self.statistics.count_search(None)
    }

    fn refused(&mut self, frame: FrameId) {
        // It stays, and the hand goes on behind it, or the next search would offer it again.
        if self.hand == frame.0 {
            self.hand = self.links.previous(frame.0);
        }
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, _page: PageKey, _access: Access) {
        if self.links.is_free(frame.0) {
            self.links.push_head(&mut self.queue, frame.0);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        if self.links.is_linked(frame.0) {
            if self.hand == frame.0 {
                self.hand = self.links.previous(frame.0);
            }
            self.links.remove(&mut self.queue, frame.0);
            self.bits.0.set(frame, 0);
        }
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        resize_links(&mut self.links, frames)?;
        self.bits = Arc::new(ReferenceBits(self.bits.0.resized(frames)));
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let mut at = if self.hand == NONE { self.queue.tail() } else { self.hand };
        let mut left = self.queue.len();
        let end = frames.len() + count;
        while left > 0 && frames.len() < end && at != NONE {
            left -= 1;
            if self.bits.0.get(FrameId(at)) == 0 {
                frames.push(FrameId(at));
            }
            at = self.links.previous(at);
            if at == NONE {
                at = self.queue.tail();
            }
        }
    }

    fn resident(&self) -> u32 {
        self.queue.len()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for frame in self.links.oldest_first(&self.queue).map(FrameId) {
            add_count(counts, self.bits.0.get(frame) as usize, 1);
        }
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        self.bits.0.get(FrameId(word))
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.queue, "sieve queue")?;
        self.links.check_count(self.queue.len())?;
        if self.hand != NONE && !self.links.is_linked(self.hand) {
            return Err(format!("the hand points at frame {}, which is not queued", self.hand));
        }
        Ok(())
    }
}
