//! CLOCK-Pro: LIRS's idea on one ring with three hands, so that a hit only sets a bit.
//!
//! Pages are hot or cold. A cold page that enters is on test; used again before the test ends, it
//! becomes hot. Cold pages that leave during their test stay on the ring as memory. The cold hand
//! looks for a victim among cold pages, the hot hand turns hot pages without a use into cold ones and
//! ends the tests it passes, the test hand ends tests when more pages are remembered than there are
//! frames.
//!
//! - **Source**: S. Jiang, F. Chen, X. Zhang, USENIX 2005, section 4.
//! - **Parameters**: `cold` (share of the frames for cold pages, 0.001 to 1, default 0.05; at least one
//!   frame), `adaptive` (default on, the paper: the share then starts there, grows by a frame when a
//!   page is used within its test and shrinks when a test ends without). Fixed at 5% it did better on
//!   an OLTP page trace.
//! - **Differences to the paper**: pages enter hot until the hot share is filled for the first time
//!   (the paper does not say how a cache fills). A cold page used after its test goes to the head on a
//!   new test; a hot page that becomes cold is on none. When the cold pages are all pinned, hot ones
//!   are taken from the hot hand on, and are not remembered. The hot hand also runs when a page enters,
//!   and then cannot ask for pins. The resident cold pages are also linked among each other in the
//!   ring's order, so that the cold hand need not pass the hot ones; the order is the same.
//! - **Hit**: one load, at most one store. **Victim**: amortised O(1) while hot pages are not few; at
//!   worst four turns over the frames.
//! - **Memory**: 16 bytes a frame, 25 (hashed: 29) an entry of the ring (resident or remembered, up to
//!   twice the frames), 8 (hashed) a remembered page.
//! - **Scan resistance**: yes; loops longer than the cache are held in part.

use std::sync::Arc;

use crate::entries::Entries;
use crate::frame_list::{Links, List, NONE};
use crate::frames::{ReferenceBits, Residents, Words};
use crate::ghost::KeySpace;
use crate::page_map::PageMap;
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count, share_of,
};

/// The parameters; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockProParameters {
    /// Share of the frames for cold pages.
    pub cold: f64,
    /// Whether that share adapts.
    pub adaptive: bool,
}

impl Default for ClockProParameters {
    fn default() -> Self {
        Self { cold: 0.05, adaptive: true }
    }
}

/// What a page on the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hot,
    Cold,
    /// Cold and on test; remembered pages always are.
    ColdOnTest,
}

/// See the module.
#[derive(Debug)]
pub struct ClockPro {
    parameters: ClockProParameters,
    residents: Residents,
    bits: Arc<ReferenceBits>,
    /// The ring. Hands move from the tail to the head and go on at the tail; the page just behind
    /// the hot hand (towards the tail) is the paper's list head.
    ring: Entries,
    kinds: Vec<Kind>,
    entry_of: Vec<u32>,
    hand_hot: u32,
    /// At a resident cold page, or [`NONE`] when there is none.
    hand_cold: u32,
    hand_test: u32,
    cold_links: Links,
    /// The resident cold pages in the ring's order.
    cold: List,
    /// Of these, the first that the hot hand will come to.
    cold_ahead: u32,
    hot_count: u32,
    /// The target for the number of cold frames.
    cold_target: u32,
    /// Whether the hot share has been filled once.
    is_warm: bool,
    statistics: PolicyStatistics,
}

const ENTRY_NEW: u32 = 0;
const ENTRY_REMEMBERED: u32 = 1;

impl ClockPro {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(parameters: ClockProParameters, frames: u32, space: KeySpace) -> Self {
        Self {
            parameters,
            residents: Residents::new(frames),
            bits: Arc::new(ReferenceBits(Words::new(frames))),
            ring: Entries::new(frames, space),
            kinds: Vec::new(),
            entry_of: vec![NONE; frames as usize],
            hand_hot: NONE,
            hand_cold: NONE,
            hand_test: NONE,
            cold_links: Links::new(0),
            cold: List::default(),
            cold_ahead: NONE,
            hot_count: 0,
            cold_target: share_of(parameters.cold, frames).clamp(1, frames.max(1)),
            is_warm: false,
            statistics: PolicyStatistics::default(),
        }
    }

    fn hot_target(&self) -> u32 {
        self.residents.frames().saturating_sub(self.cold_target)
    }

    #[inline]
    fn after(&self, entry: u32) -> u32 {
        let next = self.ring.links().previous(entry);
        if next == NONE { self.ring.order().tail() } else { next }
    }

    /// Moves every hand that stands at `entry`, which is about to leave its place.
    fn step_off(&mut self, entry: u32) {
        let after = self.after(entry);
        let next = if after == entry { NONE } else { after };
        for hand in [&mut self.hand_hot, &mut self.hand_test] {
            if *hand == entry {
                *hand = next;
            }
        }
    }

    #[inline]
    fn cold_after(&self, entry: u32) -> u32 {
        let next = self.cold_links.previous(entry);
        if next == NONE { self.cold.tail() } else { next }
    }

    /// Links a resident cold page that stands at the list head.
    fn link_cold(&mut self, entry: u32) {
        self.cold_links.grow_to(entry + 1);
        if self.cold_ahead == NONE {
            self.cold_links.push_head(&mut self.cold, entry);
            self.cold_ahead = entry;
        } else {
            self.cold_links.insert_behind(&mut self.cold, self.cold_ahead, entry);
        }
        if self.hand_cold == NONE {
            self.hand_cold = entry;
        }
    }

    /// Unlinks a page that is no longer resident and cold, or is about to move.
    fn unlink_cold(&mut self, entry: u32) {
        let after = self.cold_after(entry);
        let next = if after == entry { NONE } else { after };
        for hand in [&mut self.hand_cold, &mut self.cold_ahead] {
            if *hand == entry {
                *hand = next;
            }
        }
        self.cold_links.remove(&mut self.cold, entry);
    }

    /// The hot hand leaves `entry` behind.
    fn pass_with_hand_hot(&mut self, entry: u32) {
        if self.cold_ahead == entry {
            self.cold_ahead = self.cold_after(entry);
        }
        self.hand_hot = self.after(entry);
    }

    /// A new page at the list head.
    fn enter(&mut self, page: PageKey, frame: FrameId, kind: Kind) {
        let entry = if self.hand_hot == NONE {
            let entry = self.ring.push_head(page, frame.0);
            (self.hand_hot, self.hand_test) = (entry, entry);
            entry
        } else {
            self.ring.insert_behind(self.hand_hot, page, frame.0)
        };
        if self.kinds.len() <= entry as usize {
            self.kinds.resize(entry as usize + 1, Kind::Cold);
        }
        self.kinds[entry as usize] = kind;
        self.entry_of[frame.0 as usize] = entry;
        if kind == Kind::Hot {
            self.hot_count += 1;
        } else {
            self.link_cold(entry);
        }
    }

    fn move_to_list_head(&mut self, entry: u32) {
        if self.ring.order().len() == 1 {
            return;
        }
        self.step_off(entry);
        self.ring.move_behind(self.hand_hot, entry);
    }

    /// Takes a page off the ring that is linked nowhere else.
    fn take_out(&mut self, entry: u32) {
        self.step_off(entry);
        self.ring.remove(entry);
    }

    fn widen_cold(&mut self) {
        if self.parameters.adaptive {
            self.cold_target = (self.cold_target + 1).min(self.residents.frames());
        }
    }

    /// A test ends without a use. True when the page left the ring.
    fn end_test(&mut self, entry: u32) -> bool {
        if self.parameters.adaptive {
            self.cold_target = self.cold_target.saturating_sub(1).max(1);
        }
        if self.ring.frame(entry) == NONE {
            self.take_out(entry);
            true
        } else {
            self.kinds[entry as usize] = Kind::Cold;
            false
        }
    }

    /// The hot hand: turns hot pages without a use into cold ones until there are few enough.
    fn run_hand_hot(&mut self, mut candidates: Option<&mut dyn Candidates>) {
        if self.hot_count <= self.hot_target() {
            return;
        }
        // One turn clears every bit, the next finds the page, unless all are pinned or used meanwhile.
        // Then on to a hot page; the tests on the way end.
        let mut steps = u64::from(self.ring.order().len()) * 3;
        while steps > 0 {
            steps -= 1;
            self.statistics.sweep_steps += 1;
            let entry = self.hand_hot;
            let kind = self.kinds[entry as usize];
            let is_done = self.hot_count <= self.hot_target();
            if is_done && (kind == Kind::Hot || self.hot_count == 0) {
                return;
            }
            match kind {
                Kind::Hot => {
                    let frame = FrameId(self.ring.frame(entry));
                    let is_pinned =
                        candidates.as_mut().is_some_and(|candidates| candidates.is_pinned(frame));
                    let is_used = self.bits.0.get(frame) != 0;
                    self.pass_with_hand_hot(entry);
                    if is_used && !is_pinned {
                        self.bits.0.set(frame, 0);
                    } else if !is_pinned {
                        self.kinds[entry as usize] = Kind::Cold;
                        self.hot_count -= 1;
                        self.link_cold(entry);
                    }
                }
                Kind::ColdOnTest => {
                    if !self.end_test(entry) {
                        self.pass_with_hand_hot(entry);
                    }
                }
                Kind::Cold => self.pass_with_hand_hot(entry),
            }
        }
    }

    /// The test hand: ends tests until no more pages are remembered than there are frames.
    fn run_hand_test(&mut self) {
        while self.ring.remembered() > self.residents.frames() && self.hand_test != NONE {
            let entry = self.hand_test;
            let has_left = self.kinds[entry as usize] == Kind::ColdOnTest && self.end_test(entry);
            if !has_left {
                self.hand_test = self.after(entry);
            }
        }
    }

    /// The cold hand. `Err`: the cache wants to stop.
    fn run_hand_cold(&mut self, candidates: &mut dyn Candidates) -> Result<Option<FrameId>, ()> {
        let mut steps = u64::from(self.residents.count()) * 4;
        // Pinned pages met since something changed; as many as there are cold ones end the search.
        let mut pinned = 0;
        while steps > 0 && pinned < self.cold.len() {
            steps -= 1;
            self.statistics.sweep_steps += 1;
            let entry = self.hand_cold;
            let frame = FrameId(self.ring.frame(entry));
            if self.bits.0.get(frame) == 0 {
                match candidates.offer(frame) {
                    Answer::Take => return Ok(Some(frame)),
                    Answer::Pinned | Answer::Dirty => pinned += 1,
                    Answer::Stop => return Err(()),
                }
                self.hand_cold = self.cold_after(entry);
                continue;
            }
            if candidates.is_pinned(frame) {
                pinned += 1;
                self.hand_cold = self.cold_after(entry);
                continue;
            }
            pinned = 0;
            self.bits.0.set(frame, 0);
            self.unlink_cold(entry);
            self.move_to_list_head(entry);
            if self.kinds[entry as usize] == Kind::ColdOnTest {
                self.kinds[entry as usize] = Kind::Hot;
                self.hot_count += 1;
                self.widen_cold();
                self.run_hand_hot(Some(candidates));
            } else {
                self.kinds[entry as usize] = Kind::ColdOnTest;
                self.link_cold(entry);
            }
        }
        Ok(None)
    }

    /// Hot pages from the hot hand on, when no cold one can be taken.
    fn search_hot(&mut self, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let mut entry = self.hand_hot;
        for _ in 0..self.ring.order().len() {
            if self.kinds[entry as usize] == Kind::Hot {
                self.statistics.sweep_steps += 1;
                let frame = FrameId(self.ring.frame(entry));
                match candidates.offer(frame) {
                    Answer::Take => return Some(frame),
                    Answer::Pinned | Answer::Dirty => {}
                    Answer::Stop => return None,
                }
            }
            entry = self.after(entry);
        }
        None
    }

    fn leave(&mut self, frame: FrameId, is_remembered: bool) {
        if self.residents.leave(frame).is_none() {
            return;
        }
        self.bits.0.set(frame, 0);
        let entry = std::mem::replace(&mut self.entry_of[frame.0 as usize], NONE);
        let kind = self.kinds[entry as usize];
        if kind == Kind::Hot {
            self.hot_count -= 1;
        } else {
            self.unlink_cold(entry);
        }
        if is_remembered && kind == Kind::ColdOnTest {
            self.ring.remember(entry);
            self.run_hand_test();
        } else {
            self.take_out(entry);
        }
    }
}

impl Policy for ClockPro {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.bits) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        self.bits.note(frame);
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        // Off the ring before room is made, or the test hand could drop it first.
        match self.ring.find(page) {
            Some(entry) => {
                self.statistics.ghost_hits += 1;
                self.take_out(entry);
                self.widen_cold();
                Miss::new(ENTRY_REMEMBERED, true)
            }
            None => Miss::new(ENTRY_NEW, false),
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let found = match self.run_hand_cold(candidates) {
            Ok(None) => self.search_hot(candidates),
            Ok(found) => found,
            Err(()) => None,
        };
        self.statistics.count_search(found)
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        self.leave(frame, true);
    }

    fn refused(&mut self, frame: FrameId) {
        // It stays, and the hand goes on, or the next search would offer it again.
        let entry = self.entry_of.get(frame.0 as usize).copied().unwrap_or(NONE);
        if entry != NONE && self.hand_cold == entry {
            self.hand_cold = self.cold_after(entry);
        }
    }

    #[inline]
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.residents.admit(frame, page) {
            return;
        }
        // Another miss in flight may have remembered the page meanwhile.
        if let Some(entry) = self.ring.find(page) {
            self.take_out(entry);
        }
        self.is_warm |= self.hot_count >= self.hot_target();
        if miss.entry() == ENTRY_REMEMBERED || !self.is_warm {
            self.enter(page, frame, Kind::Hot);
            self.run_hand_hot(None);
        } else {
            self.enter(page, frame, Kind::ColdOnTest);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame, false);
    }

    fn forget_page(&mut self, page: PageKey) {
        if let Some(entry) = self.ring.find(page) {
            self.take_out(entry);
        }
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.bits = Arc::new(ReferenceBits(self.bits.0.resized(frames)));
        self.entry_of.resize(frames as usize, NONE);
        self.cold_target = if self.parameters.adaptive {
            self.cold_target.min(frames)
        } else {
            share_of(self.parameters.cold, frames).clamp(1, frames)
        };
        self.run_hand_hot(None);
        self.run_hand_test();
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let end = frames.len() + count;
        let mut entry = self.hand_cold;
        for _ in 0..self.cold.len() {
            if frames.len() >= end {
                return;
            }
            let frame = FrameId(self.ring.frame(entry));
            if self.bits.0.get(frame) == 0 {
                frames.push(frame);
            }
            entry = self.cold_after(entry);
        }
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        self.ring.page_map()
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for (frame, _) in self.residents.iter() {
            add_count(counts, self.bits.0.get(frame) as usize, 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        self.ring.check()?;
        let frames = self.residents.frames();
        if self.ring.remembered() > frames {
            return Err(format!("{} remembered for {frames} frames", self.ring.remembered()));
        }
        if self.ring.order().len() != self.ring.remembered() + self.residents.count() {
            return Err("a page is not on the ring".to_owned());
        }
        if !(1..=frames).contains(&self.cold_target) {
            return Err(format!("the cold target {} is outside 1..={frames}", self.cold_target));
        }
        self.cold_links.check(&self.cold, "cold pages")?;
        let (mut hot, mut hands) = (0, 0);
        let mut cold = Vec::new();
        for entry in self.ring.links().oldest_first(self.ring.order()) {
            let (kind, frame) = (self.kinds[entry as usize], self.ring.frame(entry));
            hot += u32::from(kind == Kind::Hot);
            for hand in [self.hand_hot, self.hand_test] {
                hands += u32::from(hand == entry);
            }
            if frame == NONE && kind != Kind::ColdOnTest {
                return Err(format!("entry {entry} is remembered and not on test"));
            }
            if frame != NONE && self.entry_of[frame as usize] != entry {
                return Err(format!("frame {frame} is not where it thinks"));
            }
            if frame != NONE && kind != Kind::Hot {
                cold.push(entry);
            }
        }
        if hot != self.hot_count {
            return Err(format!("{hot} hot pages, counted {}", self.hot_count));
        }
        if hands != 2 && !self.ring.order().is_empty() {
            return Err("a hand is not on the ring".to_owned());
        }
        let mut linked: Vec<u32> = self.cold_links.oldest_first(&self.cold).collect();
        // Both are rings; they are compared from the same page on.
        if let Some(place) = linked.iter().position(|entry| cold.first() == Some(entry)) {
            linked.rotate_left(place);
        }
        if linked != cold {
            return Err(format!("cold pages {cold:?} on the ring, {linked:?} linked"));
        }
        for hand in [self.hand_cold, self.cold_ahead] {
            if (hand == NONE) != cold.is_empty() || (hand != NONE && !cold.contains(&hand)) {
                return Err(format!("a hand stands at {hand}, cold pages are {cold:?}"));
            }
        }
        for (frame, page) in self.residents.iter() {
            if self.ring.find(page).is_some() {
                return Err(format!("the page in frame {} is remembered, too", frame.0));
            }
        }
        Ok(())
    }
}
