//! 2Q, the full version: a FIFO for pages seen once, an LRU for pages that came back.
//!
//! A first-time page enters A1in, a FIFO; a hit there does nothing, which filters bursts. A page that
//! leaves A1in is remembered in A1out; when it is missed again while remembered, it enters Am, an LRU.
//!
//! - **Source**: T. Johnson, D. Shasha, VLDB 1994, full version.
//! - **Parameters**: `k_in` (share of the frames for A1in, 0.01 to 0.99, default 0.25), `k_out`
//!   (remembered pages as a share of the frames, 0 to 4, default 0.5). Shares are rounded down, to 1 at
//!   least.
//! - **Differences to the paper**: when one queue holds only pinned pages the other is searched.
//! - **Hit**: logged, O(1); free in A1in. **Victim**: O(1) plus pinned frames passed.
//! - **Memory**: 13 bytes a frame and a remembered page; where keys are hashed 17 and 25.
//! - **Scan resistance**: yes; a loop longer than A1in and A1out together is not held.

use std::sync::Arc;

use crate::frame_list::{Links, List};
use crate::frames::{LoggedHits, resize_links, shared};
use crate::ghost::{Ghosts, KeySpace};
use crate::keys::Keys;
use crate::page_map::{PageMap, is_remembered};
use crate::policy::{
    Access, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics, ResizeError,
    add_count, share_of,
};

/// The sizes; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoQParameters {
    /// Share of the frames for A1in.
    pub k_in: f64,
    /// Remembered pages as a share of the frames.
    pub k_out: f64,
}

impl Default for TwoQParameters {
    fn default() -> Self {
        Self { k_in: 0.25, k_out: 0.5 }
    }
}

/// See the module.
#[derive(Debug)]
pub struct TwoQ {
    parameters: TwoQParameters,
    space: KeySpace,
    links: Links,
    /// The page in each frame of a list.
    keys: Keys,
    /// Newest first.
    a1_in: List,
    /// Most recently used first.
    am: List,
    is_in_am: Vec<bool>,
    a1_out: Ghosts,
    k_in: u32,
    statistics: PolicyStatistics,
}

const ENTRY_A1_IN: u32 = 0;
const ENTRY_AM: u32 = 1;

impl TwoQ {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(parameters: TwoQParameters, frames: u32, space: KeySpace) -> Self {
        Self {
            parameters,
            space,
            links: Links::new(frames),
            keys: Keys::new(frames, space),
            a1_in: List::default(),
            am: List::default(),
            is_in_am: vec![false; frames as usize],
            a1_out: Ghosts::new(share_of(parameters.k_out, frames), space),
            k_in: share_of(parameters.k_in, frames),
            statistics: PolicyStatistics::default(),
        }
    }

    /// The page that left, and whether it was in Am.
    #[inline]
    fn leave(&mut self, frame: FrameId) -> Option<(PageKey, bool)> {
        if !self.links.is_linked(frame.0) {
            return None;
        }
        let page = self.keys.get(frame.0);
        let was_in_am = std::mem::take(&mut self.is_in_am[frame.0 as usize]);
        let list = if was_in_am { &mut self.am } else { &mut self.a1_in };
        self.links.remove(list, frame.0);
        Some((page, was_in_am))
    }
}

impl Policy for TwoQ {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(LoggedHits)
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        if self.is_in_am.get(frame.0 as usize) == Some(&true) {
            self.links.move_to_head(&mut self.am, frame.0);
        }
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        // Out of A1out before room is made, or the page's own memory could be what is dropped.
        if self.a1_out.remove(page).is_some() {
            self.statistics.ghost_hits += 1;
            Miss::new(ENTRY_AM, true)
        } else {
            Miss::new(ENTRY_A1_IN, false)
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let from_a1_first = self.a1_in.len() > self.k_in || self.am.is_empty();
        let (first, then) =
            if from_a1_first { (self.a1_in, self.am) } else { (self.am, self.a1_in) };
        let frames = self.links.oldest_first(&first).chain(self.links.oldest_first(&then));
        self.statistics.search(frames, candidates)
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        if let Some((page, false)) = self.leave(frame) {
            self.a1_out.push(0, page);
        }
    }

    #[inline]
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.links.is_free(frame.0) {
            return;
        }
        self.keys.set(frame.0, page);
        // Another miss in flight may have remembered the page meanwhile.
        self.a1_out.remove(page);
        if miss.entry() == ENTRY_AM {
            self.is_in_am[frame.0 as usize] = true;
            self.links.push_head(&mut self.am, frame.0);
        } else {
            self.links.push_head(&mut self.a1_in, frame.0);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn forget_page(&mut self, page: PageKey) {
        self.a1_out.remove(page);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        resize_links(&mut self.links, frames)?;
        self.keys.resize(frames);
        self.is_in_am.resize(frames as usize, false);
        self.k_in = share_of(self.parameters.k_in, frames);
        self.a1_out = self.a1_out.resized(share_of(self.parameters.k_out, frames), self.space);
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let surplus = (self.a1_in.len().saturating_sub(self.k_in)) as usize;
        let end = frames.len() + count;
        frames.extend(self.links.oldest_first(&self.a1_in).take(surplus.min(count)).map(FrameId));
        let left = end - frames.len();
        frames.extend(self.links.oldest_first(&self.am).take(left).map(FrameId));
        let left = end - frames.len();
        frames.extend(
            self.links.oldest_first(&self.a1_in).skip(surplus.min(count)).take(left).map(FrameId),
        );
    }

    fn resident(&self) -> u32 {
        self.a1_in.len() + self.am.len()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        self.a1_out.page_map()
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        if is_remembered(word) { self.a1_out.bring_near(word) } else { self.links.bring_near(word) }
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        add_count(counts, 0, u64::from(self.a1_in.len()));
        add_count(counts, 1, u64::from(self.am.len()));
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.a1_in, "A1in")?;
        self.links.check(&self.am, "Am")?;
        self.a1_out.check()?;
        self.links.check_count(self.resident())?;
        self.a1_out.check_disjoint(&self.links, &self.keys, &[self.a1_in, self.am])
    }
}
