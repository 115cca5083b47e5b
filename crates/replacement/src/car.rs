//! CAR: ARC on two clocks, so that a hit only sets a bit.
//!
//! - **Source**: S. Bansal, D. Modha, FAST 2004, figure 2.
//! - **Parameters**: none.
//! - **Differences to the paper**: a pinned page under a hand is passed and keeps its bit; when a
//!   whole turn of one clock meets only pinned pages, the other gives the victim. A page that another
//!   miss remembered meanwhile is taken out of the memory when it enters.
//! - **Hit**: one load, at most one store. **Victim**: amortised O(1), at worst two turns of both clocks.
//! - **Memory**: 21 bytes a frame, 13 (hashed: 25) a remembered page, up to as many of these as frames.
//! - **Scan resistance**: as ARC.

use std::sync::Arc;

use crate::frame_list::{Links, List};
use crate::frames::{ReferenceBits, Residents, Words};
use crate::ghost::{Ghosts, KeySpace};
use crate::page_map::PageMap;
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count,
};

const B1: usize = 0;
const B2: usize = 1;

const ENTRY_UNKNOWN: u32 = 0;
const ENTRY_FROM_B1: u32 = 1;
const ENTRY_FROM_B2: u32 = 2;

/// See the module.
#[derive(Debug)]
pub struct ClockAdaptiveReplacement {
    space: KeySpace,
    residents: Residents,
    bits: Arc<ReferenceBits>,
    links: Links,
    /// Newest first: the hand is at the tail, and a page it passes goes to the head.
    t1: List,
    t2: List,
    is_in_t2: Vec<bool>,
    ghosts: Ghosts,
    /// The target for the length of T1.
    target: f64,
    statistics: PolicyStatistics,
}

/// How a look at one page under a hand ended.
enum Look {
    Found(FrameId),
    Passed,
    WasPinned,
    Stop,
}

impl ClockAdaptiveReplacement {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(frames: u32, space: KeySpace) -> Self {
        Self {
            space,
            residents: Residents::new(frames),
            bits: Arc::new(ReferenceBits(Words::new(frames))),
            links: Links::new(frames),
            t1: List::default(),
            t2: List::default(),
            is_in_t2: vec![false; frames as usize],
            // One spare: a page enters the memory before the directory is trimmed.
            ghosts: Ghosts::new(frames.saturating_add(1), space),
            target: 0.0,
            statistics: PolicyStatistics::default(),
        }
    }

    fn leave(&mut self, frame: FrameId) -> Option<(PageKey, bool)> {
        let page = self.residents.leave(frame)?;
        let was_in_t2 = std::mem::take(&mut self.is_in_t2[frame.0 as usize]);
        let list = if was_in_t2 { &mut self.t2 } else { &mut self.t1 };
        self.links.remove(list, frame.0);
        self.bits.0.set(frame, 0);
        Some((page, was_in_t2))
    }

    fn look_t1(&mut self, candidates: &mut dyn Candidates) -> Look {
        let frame = FrameId(self.t1.tail());
        self.statistics.sweep_steps += 1;
        if self.bits.0.get(frame) != 0 {
            if candidates.is_pinned(frame) {
                self.links.move_to_head(&mut self.t1, frame.0);
                return Look::WasPinned;
            }
            self.bits.0.set(frame, 0);
            self.links.remove(&mut self.t1, frame.0);
            self.links.push_head(&mut self.t2, frame.0);
            self.is_in_t2[frame.0 as usize] = true;
            return Look::Passed;
        }
        match candidates.offer(frame) {
            Answer::Take => Look::Found(frame),
            Answer::Stop => Look::Stop,
            Answer::Pinned | Answer::Dirty => {
                self.links.move_to_head(&mut self.t1, frame.0);
                Look::WasPinned
            }
        }
    }

    fn look_t2(&mut self, candidates: &mut dyn Candidates) -> Look {
        let frame = FrameId(self.t2.tail());
        self.statistics.sweep_steps += 1;
        if self.bits.0.get(frame) != 0 {
            let is_pinned = candidates.is_pinned(frame);
            if !is_pinned {
                self.bits.0.set(frame, 0);
            }
            self.links.move_to_head(&mut self.t2, frame.0);
            return if is_pinned { Look::WasPinned } else { Look::Passed };
        }
        match candidates.offer(frame) {
            Answer::Take => Look::Found(frame),
            Answer::Stop => Look::Stop,
            Answer::Pinned | Answer::Dirty => {
                self.links.move_to_head(&mut self.t2, frame.0);
                Look::WasPinned
            }
        }
    }
}

impl Policy for ClockAdaptiveReplacement {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.bits) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        self.bits.note(frame);
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        // The memory is changed and the split adapted only when the page enters: the paper does so
        // after a victim was found.
        match self.ghosts.find(page) {
            Some(B1) => Miss::new(ENTRY_FROM_B1, true),
            Some(_) => Miss::new(ENTRY_FROM_B2, true),
            None => Miss::new(ENTRY_UNKNOWN, false),
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        // Pinned pages met in a row on each clock; a whole turn of them closes it.
        let (mut pinned_in_t1, mut pinned_in_t2) = (0, 0);
        loop {
            let t1_open = pinned_in_t1 < self.t1.len();
            let t2_open = pinned_in_t2 < self.t2.len();
            let wants_t1 = f64::from(self.t1.len()) >= self.target.max(1.0);
            let (look, pinned) = if t1_open && (wants_t1 || !t2_open) {
                (self.look_t1(candidates), &mut pinned_in_t1)
            } else if t2_open {
                (self.look_t2(candidates), &mut pinned_in_t2)
            } else {
                return self.statistics.count_search(None);
            };
            match look {
                Look::Found(frame) => return self.statistics.count_search(Some(frame)),
                Look::Passed => (pinned_in_t1, pinned_in_t2) = (0, 0),
                Look::WasPinned => *pinned += 1,
                Look::Stop => return self.statistics.count_search(None),
            }
        }
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        if let Some((page, was_in_t2)) = self.leave(frame) {
            self.ghosts.push(if was_in_t2 { B2 } else { B1 }, page);
        }
    }

    #[inline]
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.residents.admit(frame, page) {
            return;
        }
        let frames = self.residents.frames();
        let (b1, b2) = (self.ghosts.len(B1), self.ghosts.len(B2));
        // The memory may have lost the page since the miss; what was decided then still holds.
        self.ghosts.remove(page);
        match miss.entry() {
            ENTRY_FROM_B1 => {
                self.statistics.ghost_hits += 1;
                let step = (f64::from(b2) / f64::from(b1.max(1))).max(1.0);
                self.target = (self.target + step).min(f64::from(frames));
            }
            ENTRY_FROM_B2 => {
                self.statistics.ghost_hits += 1;
                let step = (f64::from(b1) / f64::from(b2.max(1))).max(1.0);
                self.target = (self.target - step).max(0.0);
            }
            _ => {
                let (b1, b2) = (self.ghosts.len(B1), self.ghosts.len(B2));
                // The page itself is counted by the residents already.
                let resident = self.t1.len() + self.t2.len();
                if self.t1.len() + b1 >= frames {
                    self.ghosts.pop_oldest(B1);
                } else if resident + b1 + b2 >= frames.saturating_mul(2) {
                    self.ghosts.pop_oldest(B2);
                }
            }
        }
        if miss.was_ghost() {
            self.is_in_t2[frame.0 as usize] = true;
            self.links.push_head(&mut self.t2, frame.0);
        } else {
            self.links.push_head(&mut self.t1, frame.0);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn forget_page(&mut self, page: PageKey) {
        self.ghosts.remove(page);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.links.resize(frames);
        self.is_in_t2.resize(frames as usize, false);
        self.bits = Arc::new(ReferenceBits(self.bits.0.resized(frames)));
        self.ghosts = self.ghosts.resized(frames.saturating_add(1), self.space);
        self.target = self.target.min(f64::from(frames));
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let end = frames.len() + count;
        let wants_t1 = f64::from(self.t1.len()) >= self.target.max(1.0);
        let order = if wants_t1 { [self.t1, self.t2] } else { [self.t2, self.t1] };
        for list in order {
            let left = end - frames.len();
            frames.extend(
                self.links
                    .oldest_first(&list)
                    .map(FrameId)
                    .filter(|frame| self.bits.0.get(*frame) == 0)
                    .take(left),
            );
        }
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        self.ghosts.page_map()
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for (frame, _) in self.residents.iter() {
            add_count(counts, self.bits.0.get(frame) as usize, 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.t1, "T1")?;
        self.links.check(&self.t2, "T2")?;
        self.ghosts.check()?;
        let frames = self.residents.frames();
        if self.t1.len() + self.t2.len() != self.residents.count() {
            return Err("T1 and T2 together are not the resident frames".to_owned());
        }
        if !(0.0..=f64::from(frames)).contains(&self.target) {
            return Err(format!("the target {} is outside 0..={frames}", self.target));
        }
        for (frame, page) in self.residents.iter() {
            if self.ghosts.find(page).is_some() {
                return Err(format!("the page in frame {} is remembered, too", frame.0));
            }
        }
        Ok(())
    }
}
