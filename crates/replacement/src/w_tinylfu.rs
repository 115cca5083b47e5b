//! W-TinyLFU: a small LRU window before a main part that only pages used more often may enter.
//!
//! A page enters the window, an LRU. When the window overflows, its oldest page (the candidate) and
//! the oldest of the main part (the victim) are compared by how often each was used lately: the one
//! used more often stays, the victim on a tie. The main part is a segmented LRU: pages on
//! probation, and pages protected since they were used again.
//!
//! - **Source**: G. Einziger, R. Friedman, B. Manes, ACM Transactions on Storage 13 (2017).
//! - **Parameters**: `window` (share of the frames, 0.01 to 0.99, default 0.1), `protected` (share of
//!   the main part, 0 to 0.99, default 0.8). Shares are rounded down, the window to 1 at least.
//! - **Differences to the paper**: the window's default is a tenth, not a hundredth, which suits
//!   database traces better. A missed page is never refused: what the paper calls rejection is here
//!   the candidate's own departure after its time in the window. No doorkeeper filter before the
//!   sketch. The window does not adapt. When the candidate or the victim is pinned, the next of its
//!   list stands in for it.
//! - **Hit**: logged, O(1) when applied; one cache line of the sketch. **Victim**: O(1) plus pinned
//!   frames passed; each frame is offered once at most. Every 10 uses a frame all counters are halved,
//!   which costs 0.1 words a use.
//! - **Memory**: 25 to 33 bytes a frame, 8 to 16 of them the sketch's; no ghosts.
//! - **Scan resistance**: strong: a page used once does not displace one used twice. New pages of
//!   lasting worth need to be used within the window or come back a few times. Equal colliding
//!   counters can be provoked on purpose by who controls the page numbers.

use std::sync::Arc;

use crate::frame_list::{Links, List};
use crate::frames::{LoggedHits, Residents, shared};
use crate::frequency_sketch::FrequencySketch;
use crate::policy::{
    Access, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics, ResizeError,
    add_count, share_of,
};

/// The sizes; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WTinyLfuParameters {
    /// Share of the frames for the window.
    pub window: f64,
    /// Share of the main part for protected pages.
    pub protected: f64,
}

impl Default for WTinyLfuParameters {
    fn default() -> Self {
        Self { window: 0.1, protected: 0.8 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Window,
    Probation,
    Protected,
}

/// See the module.
#[derive(Debug)]
pub struct WTinyLfu {
    parameters: WTinyLfuParameters,
    residents: Residents,
    links: Links,
    /// Where a resident frame is.
    part_of: Vec<Part>,
    /// Most recently used first, as in the other lists.
    window: List,
    probation: List,
    protected: List,
    window_capacity: u32,
    protected_capacity: u32,
    sketch: FrequencySketch,
    statistics: PolicyStatistics,
}

impl WTinyLfu {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(parameters: WTinyLfuParameters, frames: u32) -> Self {
        let (window_capacity, protected_capacity) = capacities(parameters, frames);
        Self {
            parameters,
            residents: Residents::new(frames),
            links: Links::new(frames),
            part_of: vec![Part::Window; frames as usize],
            window: List::default(),
            probation: List::default(),
            protected: List::default(),
            window_capacity,
            protected_capacity,
            sketch: FrequencySketch::new(frames),
            statistics: PolicyStatistics::default(),
        }
    }

    const fn list(&mut self, part: Part) -> &mut List {
        match part {
            Part::Window => &mut self.window,
            Part::Probation => &mut self.probation,
            Part::Protected => &mut self.protected,
        }
    }

    fn unlink(&mut self, frame: u32) {
        let list = match self.part_of[frame as usize] {
            Part::Window => &mut self.window,
            Part::Probation => &mut self.probation,
            Part::Protected => &mut self.protected,
        };
        self.links.remove(list, frame);
    }

    fn push(&mut self, frame: u32, part: Part) {
        self.part_of[frame as usize] = part;
        let mut list = *self.list(part);
        self.links.push_head(&mut list, frame);
        *self.list(part) = list;
    }

    fn leave(&mut self, frame: FrameId) {
        if self.residents.leave(frame).is_some() {
            self.unlink(frame.0);
        }
    }

    /// What the window cannot hold goes on probation; what is protected too long does so, too.
    fn settle(&mut self) {
        while self.window.len() > self.window_capacity {
            let oldest = self.window.tail();
            self.unlink(oldest);
            self.push(oldest, Part::Probation);
        }
        while self.protected.len() > self.protected_capacity {
            let oldest = self.protected.tail();
            self.unlink(oldest);
            self.push(oldest, Part::Probation);
        }
    }

    fn estimate(&self, frame: u32) -> u32 {
        self.residents.page_in(FrameId(frame)).map_or(0, |page| self.sketch.estimate(page.0))
    }

    /// Frames in the order in which they would leave, were all answers [`Answer::Pinned`].
    fn departures(&self) -> Departures<'_> {
        Departures {
            policy: self,
            candidate: self.window.tail(),
            victim: if self.probation.is_empty() {
                self.protected.tail()
            } else {
                self.probation.tail()
            },
        }
    }
}

/// The lengths of the window and of the protected part.
fn capacities(parameters: WTinyLfuParameters, frames: u32) -> (u32, u32) {
    let window = share_of(parameters.window, frames).clamp(1, frames.max(1));
    let main = frames.saturating_sub(window);
    let protected = if main == 0 { 0 } else { share_of(parameters.protected, main) };
    (window, protected)
}

/// A walk over window and main part at once: of their oldest frames the one used less often is next.
struct Departures<'a> {
    policy: &'a WTinyLfu,
    candidate: u32,
    victim: u32,
}

impl Iterator for Departures<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        use crate::frame_list::NONE;
        let policy = self.policy;
        let candidate_leaves = match (self.candidate, self.victim) {
            (NONE, NONE) => return None,
            (_, NONE) => true,
            (NONE, _) => false,
            // The window has room: the main part holds too much.
            _ if policy.window.len() < policy.window_capacity => false,
            (candidate, victim) => policy.estimate(candidate) <= policy.estimate(victim),
        };
        if candidate_leaves {
            let here = self.candidate;
            self.candidate = policy.links.previous(here);
            return Some(here);
        }
        let here = self.victim;
        self.victim = policy.links.previous(here);
        if self.victim == NONE && policy.part_of[here as usize] == Part::Probation {
            self.victim = policy.protected.tail();
        }
        Some(here)
    }
}

impl Policy for WTinyLfu {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(LoggedHits)
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        let Some(page) = self.residents.page_in(frame) else { return };
        self.sketch.count(page.0);
        match self.part_of[frame.0 as usize] {
            Part::Window => self.links.move_to_head(&mut self.window, frame.0),
            Part::Protected => self.links.move_to_head(&mut self.protected, frame.0),
            Part::Probation if self.protected_capacity == 0 => {
                self.links.move_to_head(&mut self.probation, frame.0);
            }
            Part::Probation => {
                self.links.remove(&mut self.probation, frame.0);
                self.push(frame.0, Part::Protected);
                self.settle();
            }
        }
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        self.sketch.count(page.0);
        Miss::default()
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let mut statistics = self.statistics;
        let found = statistics.search(self.departures(), candidates);
        self.statistics = statistics;
        found
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if self.residents.admit(frame, page) {
            self.push(frame.0, Part::Window);
            self.settle();
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    /// Starts the counts anew: a sketch of another size cannot take over the old one's.
    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.links.resize(frames);
        self.part_of.resize(frames as usize, Part::Window);
        (self.window_capacity, self.protected_capacity) = capacities(self.parameters, frames);
        self.sketch = FrequencySketch::new(frames);
        self.settle();
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        frames.extend(self.departures().take(count).map(FrameId));
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    /// By estimated uses, 0 to 15.
    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for (_, page) in self.residents.iter() {
            add_count(counts, self.sketch.estimate(page.0) as usize, 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        let parts = [
            (&self.window, Part::Window, "window"),
            (&self.probation, Part::Probation, "probation"),
            (&self.protected, Part::Protected, "protected"),
        ];
        let mut held = 0;
        for (list, part, name) in parts {
            self.links.check(list, name)?;
            held += list.len();
            for frame in self.links.oldest_first(list) {
                if self.part_of[frame as usize] != part {
                    return Err(format!("frame {frame} is in {name} and thinks otherwise"));
                }
            }
        }
        if held != self.residents.count() {
            return Err(format!("{held} frames in lists, {} resident", self.residents.count()));
        }
        if self.window.len() > self.window_capacity
            || self.protected.len() > self.protected_capacity
        {
            return Err(format!(
                "{} in a window of {}, {} protected of {}",
                self.window.len(),
                self.window_capacity,
                self.protected.len(),
                self.protected_capacity
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Answer, TakeFirst};

    /// A cache for one policy and pages below 1,000; says which page each miss drove out.
    struct Cache {
        policy: WTinyLfu,
        page_in: Vec<Option<u64>>,
    }

    impl Cache {
        fn new(parameters: WTinyLfuParameters, frames: u32) -> Self {
            Self { policy: WTinyLfu::new(parameters, frames), page_in: vec![None; frames as usize] }
        }

        /// None on a hit; else the page that left, if one had to.
        fn get(&mut self, page: u64) -> Option<Option<u64>> {
            let access = Access::default();
            if let Some(frame) = self.page_in.iter().position(|held| *held == Some(page)) {
                let frame = FrameId(u32::try_from(frame).unwrap());
                self.policy.hit(frame, access);
                return None;
            }
            let miss = self.policy.miss(PageKey(page), access);
            let free = self.page_in.iter().position(Option::is_none);
            let (frame, left) = match free {
                Some(free) => (FrameId(u32::try_from(free).unwrap()), None),
                None => {
                    let frame = self.policy.victim(miss, &mut TakeFirst).unwrap();
                    self.policy.evicted(frame);
                    (frame, self.page_in[frame.0 as usize].take())
                }
            };
            self.policy.admit(miss, frame, PageKey(page), access);
            self.page_in[frame.0 as usize] = Some(page);
            self.policy.check().unwrap();
            Some(left)
        }
    }

    #[test]
    fn a_scan_leaves_by_the_window_and_pages_used_twice_stay() {
        // 10 frames: a window of 1, a main part of 9.
        let mut cache = Cache::new(WTinyLfuParameters::default(), 10);
        for page in (0..10).chain(0..9) {
            cache.get(page);
        }
        // Page 9, used once, is in the window; each page of the scan drives out the one before it.
        let mut before = 9;
        for page in 100..130 {
            assert_eq!(cache.get(page), Some(Some(before)), "page {page}");
            before = page;
        }
        for page in 0..9 {
            assert_eq!(cache.get(page), None, "page {page} was driven out by the scan");
        }
    }

    #[test]
    fn a_page_that_came_back_often_enough_enters_the_main_part() {
        let mut cache = Cache::new(WTinyLfuParameters { window: 0.25, protected: 0.8 }, 4);
        // Window of 1, main of 3: pages 1 to 3 in main, 4 in the window, each used once.
        for page in 1..=4 {
            assert_eq!(cache.get(page), Some(None));
        }
        // A tie: the candidate, page 4, goes.
        assert_eq!(cache.get(5), Some(Some(4)));
        // Page 4 was used twice now, page 1 once: on leaving the window it takes page 1's place.
        assert_eq!(cache.get(4), Some(Some(5)));
        assert_eq!(cache.get(6), Some(Some(1)));
        assert_eq!(cache.get(4), None);
    }

    #[test]
    fn a_pinned_candidate_is_passed_and_keeps_its_place() {
        struct AllBut(u32);
        impl Candidates for AllBut {
            fn is_pinned(&mut self, frame: FrameId) -> bool {
                frame.0 == self.0
            }
            fn offer(&mut self, frame: FrameId) -> Answer {
                if self.is_pinned(frame) { Answer::Pinned } else { Answer::Take }
            }
        }
        let mut cache = Cache::new(WTinyLfuParameters { window: 0.25, protected: 0.8 }, 4);
        for page in 1..=4 {
            cache.get(page);
        }
        // Page 4, in frame 3, is the candidate.
        let mut ahead = Vec::new();
        cache.policy.look_ahead(2, &mut ahead);
        assert_eq!(ahead, [FrameId(3), FrameId(0)]);
        let miss = cache.policy.miss(PageKey(5), Access::default());
        assert_eq!(cache.policy.victim(miss, &mut AllBut(3)), Some(FrameId(0)));
        cache.policy.refused(FrameId(0));
        assert_eq!(cache.policy.victim(miss, &mut AllBut(9)), Some(FrameId(3)));
    }

    /// The same policy over plain vectors, newest first, written from the paper's text.
    struct Model {
        window: Vec<u64>,
        probation: Vec<u64>,
        protected: Vec<u64>,
        window_capacity: usize,
        main_capacity: usize,
        protected_capacity: usize,
        sketch: FrequencySketch,
    }

    impl Model {
        fn get(&mut self, page: u64) -> Option<Option<u64>> {
            self.sketch.count(page);
            if let Some(at) = self.window.iter().position(|held| *held == page) {
                self.window.remove(at);
                self.window.insert(0, page);
                return None;
            }
            if let Some(at) = self.protected.iter().position(|held| *held == page) {
                self.protected.remove(at);
                self.protected.insert(0, page);
                return None;
            }
            if let Some(at) = self.probation.iter().position(|held| *held == page) {
                self.probation.remove(at);
                if self.protected_capacity == 0 {
                    self.probation.insert(0, page);
                    return None;
                }
                self.protected.insert(0, page);
                if self.protected.len() > self.protected_capacity {
                    let demoted = self.protected.pop().unwrap();
                    self.probation.insert(0, demoted);
                }
                return None;
            }
            self.window.insert(0, page);
            if self.window.len() <= self.window_capacity {
                return Some(None);
            }
            let candidate = self.window.pop().unwrap();
            if self.probation.len() + self.protected.len() < self.main_capacity {
                self.probation.insert(0, candidate);
                return Some(None);
            }
            let main =
                if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
            match main.last().copied() {
                Some(victim) if self.sketch.estimate(candidate) > self.sketch.estimate(victim) => {
                    main.pop();
                    self.probation.insert(0, candidate);
                    Some(Some(victim))
                }
                _ => Some(Some(candidate)),
            }
        }
    }

    #[test]
    fn the_policy_drives_out_what_the_papers_rules_drive_out() {
        use proptest::prelude::*;
        proptest!(|(frames in 1_u32..13,
                    window in prop::sample::select(vec![0.01, 0.1, 0.5, 0.99]),
                    protected in prop::sample::select(vec![0.0, 0.5, 0.8]),
                    pages in proptest::collection::vec(prop_oneof![0_u64..8, 0_u64..40], 0..400))| {
            let parameters = WTinyLfuParameters { window, protected };
            let mut cache = Cache::new(parameters, frames);
            let (window, protected) = capacities(parameters, frames);
            let mut model = Model {
                window: Vec::new(),
                probation: Vec::new(),
                protected: Vec::new(),
                window_capacity: window as usize,
                main_capacity: (frames - window) as usize,
                protected_capacity: protected as usize,
                sketch: FrequencySketch::new(frames),
            };
            for (at, page) in pages.into_iter().enumerate() {
                prop_assert_eq!(cache.get(page), model.get(page), "reference {}, page {}", at, page);
            }
        });
    }
}
