//! ARC: an LRU of pages seen once and an LRU of pages seen again, whose split adapts to which of the
//! two remembered halves is missed more.
//!
//! - **Source**: N. Megiddo, D. Modha, FAST 2003, figure 4.
//! - **Parameters**: `ratio` (`real`, `integer`, default `real`): whether the step of adaptation is
//!   a real quotient, as in the paper, or an integer one, as in many ports.
//! - **Differences to the paper**: when the list that should give a victim holds only pinned pages,
//!   the other is searched and the split does not change for it. After pages were dropped, lists may
//!   hold fewer pages than frames; the ghosts then keep their bounds.
//! - **Hit**: logged, O(1). **Victim**: O(1) plus pinned frames passed.
//! - **Memory**: 13 bytes a frame and a remembered page, of which there are up to as many as frames; where keys are
//!   hashed 17 and 25.
//! - **Scan resistance**: yes, since a page seen once does not displace T2; but a burst of touches
//!   counts as frequency, so on traces with correlated references it comes near LRU.

use std::sync::Arc;

use crate::frame_list::{Links, List};
use crate::frames::{LoggedHits, resize_links, shared};
use crate::ghost::{Ghosts, KeySpace};
use crate::keys::Keys;
use crate::page_map::{PageMap, is_remembered};
use crate::policy::{
    Access, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics, ResizeError,
    add_count,
};

/// How the step of adaptation is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ratio {
    /// As a real number.
    #[default]
    Real,
    /// Rounded down.
    Integer,
}

/// Which list a frame is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    T1,
    T2,
    /// In T1, chosen to leave without being remembered (the paper's case IV A).
    T1Unremembered,
}

const B1: usize = 0;
const B2: usize = 1;

const ENTRY_UNKNOWN: u32 = 0;
const ENTRY_FROM_B1: u32 = 1;
const ENTRY_FROM_B2: u32 = 2;

/// See the module.
#[derive(Debug)]
pub struct AdaptiveReplacement {
    ratio: Ratio,
    space: KeySpace,
    links: Links,
    /// The page in each frame of a list.
    keys: Keys,
    /// Seen once, most recent first.
    t1: List,
    /// Seen again, most recent first.
    t2: List,
    place_of: Vec<Place>,
    ghosts: Ghosts,
    /// The target for the length of T1.
    target: f64,
    statistics: PolicyStatistics,
}

impl AdaptiveReplacement {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(ratio: Ratio, frames: u32, space: KeySpace) -> Self {
        Self {
            ratio,
            space,
            links: Links::new(frames),
            keys: Keys::new(frames, space),
            t1: List::default(),
            t2: List::default(),
            place_of: vec![Place::Nowhere; frames as usize],
            // |B1| <= C and the four lists together hold 2C: one spare for the page on its way out.
            ghosts: Ghosts::new(frames.saturating_add(1), space),
            target: 0.0,
            statistics: PolicyStatistics::default(),
        }
    }

    fn step(&self, mine: u32, other: u32) -> f64 {
        let quotient = match self.ratio {
            Ratio::Real => f64::from(other) / f64::from(mine.max(1)),
            Ratio::Integer => f64::from(other / mine.max(1)),
        };
        quotient.max(1.0)
    }

    #[inline]
    fn leave(&mut self, frame: FrameId) -> Option<(PageKey, Place)> {
        if !self.links.is_linked(frame.0) {
            return None;
        }
        let page = self.keys.get(frame.0);
        let place = std::mem::replace(&mut self.place_of[frame.0 as usize], Place::Nowhere);
        let list = if place == Place::T2 { &mut self.t2 } else { &mut self.t1 };
        self.links.remove(list, frame.0);
        Some((page, place))
    }
}

impl Policy for AdaptiveReplacement {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(LoggedHits)
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        let Some(place) = self.place_of.get_mut(frame.0 as usize) else { return };
        match place {
            Place::T2 => self.links.move_to_head(&mut self.t2, frame.0),
            Place::T1 | Place::T1Unremembered => {
                *place = Place::T2;
                self.links.remove(&mut self.t1, frame.0);
                self.links.push_head(&mut self.t2, frame.0);
            }
            Place::Nowhere => {}
        }
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        let frames = self.links.count();
        // The steps use the lengths before the page leaves its ghost list.
        let (b1, b2) = (self.ghosts.len(B1), self.ghosts.len(B2));
        match self.ghosts.remove(page) {
            Some(B1) => {
                self.statistics.ghost_hits += 1;
                self.target = (self.target + self.step(b1, b2)).min(f64::from(frames));
                Miss::new(ENTRY_FROM_B1, true)
            }
            Some(_) => {
                self.statistics.ghost_hits += 1;
                self.target = (self.target - self.step(b2, b1)).max(0.0);
                Miss::new(ENTRY_FROM_B2, true)
            }
            None => {
                if self.t1.len() + b1 >= frames {
                    if self.t1.len() < frames {
                        self.ghosts.pop_oldest(B1);
                    }
                } else if self.resident() + b1 + b2 >= frames.saturating_mul(2) {
                    self.ghosts.pop_oldest(B2);
                }
                Miss::new(ENTRY_UNKNOWN, false)
            }
        }
    }

    #[inline]
    fn victim(&mut self, miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let t1 = f64::from(self.t1.len());
        let unremembered = miss.entry() == ENTRY_UNKNOWN && self.t1.len() >= self.links.count();
        // On equality only a page from B2 takes its room from T1.
        #[allow(clippy::float_cmp, reason = "the paper compares |T1| with p for equality")]
        let from_t1 = unremembered
            || (!self.t1.is_empty()
                && (t1 > self.target || (miss.entry() == ENTRY_FROM_B2 && t1 == self.target)));
        let (first, then) = if from_t1 { (self.t1, self.t2) } else { (self.t2, self.t1) };
        let frames = self.links.oldest_first(&first).chain(self.links.oldest_first(&then));
        let frame = self.statistics.search(frames, candidates)?;
        let place = &mut self.place_of[frame.0 as usize];
        if unremembered && *place == Place::T1 {
            *place = Place::T1Unremembered;
        }
        Some(frame)
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        match self.leave(frame) {
            Some((page, Place::T1)) => self.ghosts.push(B1, page),
            Some((page, Place::T2)) => self.ghosts.push(B2, page),
            _ => {}
        }
    }

    fn refused(&mut self, frame: FrameId) {
        if let Some(place @ Place::T1Unremembered) = self.place_of.get_mut(frame.0 as usize) {
            *place = Place::T1;
        }
    }

    #[inline]
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.links.is_free(frame.0) {
            return;
        }
        self.keys.set(frame.0, page);
        self.ghosts.remove(page);
        if miss.was_ghost() {
            self.place_of[frame.0 as usize] = Place::T2;
            self.links.push_head(&mut self.t2, frame.0);
        } else {
            self.place_of[frame.0 as usize] = Place::T1;
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
        resize_links(&mut self.links, frames)?;
        self.keys.resize(frames);
        self.place_of.resize(frames as usize, Place::Nowhere);
        self.ghosts = self.ghosts.resized(frames.saturating_add(1), self.space);
        self.target = self.target.min(f64::from(frames));
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let end = frames.len() + count;
        let from_t1 = f64::from(self.t1.len()) > self.target;
        let order = if from_t1 { [self.t1, self.t2] } else { [self.t2, self.t1] };
        for list in order {
            let left = end - frames.len();
            frames.extend(self.links.oldest_first(&list).take(left).map(FrameId));
        }
    }

    fn resident(&self) -> u32 {
        self.t1.len() + self.t2.len()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        self.ghosts.page_map()
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        if is_remembered(word) { self.ghosts.bring_near(word) } else { self.links.bring_near(word) }
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        add_count(counts, 0, u64::from(self.t1.len()));
        add_count(counts, 1, u64::from(self.t2.len()));
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.t1, "T1")?;
        self.links.check(&self.t2, "T2")?;
        self.ghosts.check()?;
        let frames = self.links.count();
        self.links.check_count(self.resident())?;
        if !(0.0..=f64::from(frames)).contains(&self.target) {
            return Err(format!("the target {} is outside 0..={frames}", self.target));
        }
        if self.ghosts.total() > frames.saturating_add(1) {
            return Err(format!("{} pages remembered for {frames} frames", self.ghosts.total()));
        }
        self.ghosts.check_disjoint(&self.links, &self.keys, &[self.t1, self.t2])
    }
}
