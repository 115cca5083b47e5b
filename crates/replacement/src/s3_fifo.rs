//! S3-FIFO and Clock2Q+: a small FIFO that most pages do not survive, a main queue for those that do,
//! and a memory of those that did not.
//!
//! A missed page enters the small queue, or the main one when it is remembered. From the small
//! queue's end a page that was used often enough moves to the main one, another leaves and is
//! remembered. In the main queue a used page goes round again.
//!
//! The two policies share these queues and differ in what a hit does: S3-FIFO counts up to three;
//! Clock2Q+ sets one bit, and in the small queue only when at least `window` x its length further
//! pages have entered since the page did, so that a burst of touches counts as one (see
//! [`crate::clock2q_plus`]).
//!
//! - **Source**: J. Yang et al., SOSP 2023, algorithm 1.
//! - **Parameters**: `small` (share of the frames, 0.01 to 0.9, default 0.1), `ghosts` (remembered
//!   pages as a share of the frames, 0 to 4, default 0.9), `promote` (uses in the small queue that
//!   move a page to the main one, 1 to 3, default 2), `warm_up` (default on): while nothing has been
//!   evicted and the small queue is full, new pages enter the main one.
//! - **Differences to the paper**: `warm_up` is the later form of the authors' simulator (December
//!   2024) and decides much on loops; off is the paper. A pinned page keeps its place and the search
//!   goes on behind it.
//! - **Hit**: one load, at most one store. **Victim**: amortised O(1), at worst four walks.
//! - **Memory**: 17 bytes a frame, 13 a remembered page; where keys are hashed 21 and 25.
//! - **Scan resistance**: yes.

use std::sync::Arc;

use crate::frame_list::{Links, List, NONE};
use crate::frames::{Words, resize_links};
use crate::ghost::{Ghosts, KeySpace};
use crate::keys::Keys;
use crate::page_map::{PageMap, is_remembered};
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitLog, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count, share_of,
};

/// What a hit does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HitRule {
    /// Count up to three.
    Count,
    /// Set one bit; in the small queue only after this share of its length has entered since.
    Window(f64),
}

/// The parameters; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct S3FifoParameters {
    /// Share of the frames for the small queue.
    pub small: f64,
    /// Remembered pages as a share of the frames.
    pub ghosts: f64,
    /// Uses in the small queue that move a page to the main one.
    pub promote: u32,
    /// Whether pages enter the main queue until the first eviction once the small one is full.
    pub warm_up: bool,
}

impl Default for S3FifoParameters {
    fn default() -> Self {
        Self { small: 0.1, ghosts: 0.9, promote: 2, warm_up: true }
    }
}

/// Most uses counted.
const COUNT_CAP: u32 = 3;

/// In a frame's word: the page is in the small queue and its window has not passed.
const IN_WINDOW: u32 = 1 << 31;

/// The words hits store to.
#[derive(Debug)]
struct Uses {
    words: Words,
    cap: u32,
}

impl Uses {
    /// Whether a use counts for a page with this word: inside the window it is part of the burst that
    /// brought the page in.
    #[inline]
    fn counts(&self, word: u32) -> bool {
        word & IN_WINDOW == 0 && word < self.cap
    }
}

impl HitPath for Uses {
    #[inline]
    fn hit(&self, frame: FrameId, _access: Access, _log: &mut HitLog) {
        let word = self.words.get(frame);
        if self.counts(word) {
            self.words.try_replace(frame, word, word + 1);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Small,
    Main,
}

const ENTRY_SMALL: u32 = 0;
const ENTRY_MAIN: u32 = 1;

/// See the module.
#[derive(Debug)]
pub struct S3Fifo {
    parameters: S3FifoParameters,
    rule: HitRule,
    space: KeySpace,
    uses: Arc<Uses>,
    links: Links,
    /// The page in each frame of a list.
    keys: Keys,
    /// Newest first.
    small: List,
    /// Newest first.
    main: List,
    place_of: Vec<Place>,
    ghosts: Ghosts,
    small_frames: u32,
    /// How many pages enter the small queue before a page's window has passed; 0: no window.
    window_frames: u32,
    /// The newest page of the small queue whose window has passed, or [`NONE`]; all behind it have
    /// passed as well.
    window_end: u32,
    has_evicted: bool,
    statistics: PolicyStatistics,
}

impl S3Fifo {
    /// S3-FIFO for a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(parameters: S3FifoParameters, frames: u32, space: KeySpace) -> Self {
        Self::with_rule(parameters, HitRule::Count, frames, space)
    }

    pub(crate) fn with_rule(
        parameters: S3FifoParameters,
        rule: HitRule,
        frames: u32,
        space: KeySpace,
    ) -> Self {
        let cap = match rule {
            HitRule::Count => COUNT_CAP,
            HitRule::Window(_) => 1,
        };
        let mut policy = Self {
            parameters,
            rule,
            space,
            uses: Arc::new(Uses { words: Words::new(frames), cap }),
            links: Links::new(frames),
            keys: Keys::new(frames, space),
            small: List::default(),
            main: List::default(),
            place_of: vec![Place::Nowhere; frames as usize],
            ghosts: Ghosts::new(share_of(parameters.ghosts, frames), space),
            small_frames: 0,
            window_frames: 0,
            window_end: NONE,
            has_evicted: false,
            statistics: PolicyStatistics::default(),
        };
        policy.set_sizes(frames);
        policy
    }

    fn set_sizes(&mut self, frames: u32) {
        self.small_frames = share_of(self.parameters.small, frames);
        self.window_frames = match self.rule {
            HitRule::Count => 0,
            // "At least share x S further pages": a fraction of a page is a whole one more.
            HitRule::Window(share) => share_rounded_up(share, self.small_frames),
        };
    }

    #[inline]
    fn enter_small(&mut self, frame: FrameId) {
        self.place_of[frame.0 as usize] = Place::Small;
        self.links.push_head(&mut self.small, frame.0);
        if self.window_frames == 0 {
            self.uses.words.set(frame, 0);
            return;
        }
        self.uses.words.set(frame, IN_WINDOW);
        // One page has entered: the window of one more page has passed. The page at distance
        // `window_frames` from the head is the newest outside.
        let passed = if self.window_end == NONE {
            if self.small.len() <= self.window_frames {
                return;
            }
            self.small.tail()
        } else {
            self.links.previous(self.window_end)
        };
        if passed != NONE && passed != frame.0 {
            self.uses.words.set(FrameId(passed), self.uses.words.get(FrameId(passed)) & !IN_WINDOW);
            self.window_end = passed;
        }
    }

    #[inline]
    fn unlink(&mut self, frame: FrameId) {
        match std::mem::replace(&mut self.place_of[frame.0 as usize], Place::Nowhere) {
            Place::Small => {
                if self.window_end == frame.0 {
                    self.window_end = self.links.next(frame.0);
                }
                self.links.remove(&mut self.small, frame.0);
            }
            Place::Main => self.links.remove(&mut self.main, frame.0),
            Place::Nowhere => {}
        }
    }

    #[inline]
    fn leave(&mut self, frame: FrameId) -> Option<(PageKey, Place)> {
        if !self.links.is_linked(frame.0) {
            return None;
        }
        let page = self.keys.get(frame.0);
        let place = self.place_of[frame.0 as usize];
        self.unlink(frame);
        self.uses.words.set(frame, 0);
        Some((page, place))
    }

    /// Looks through the small queue once. `Err`: the cache wants to stop.
    #[inline]
    fn search_small(&mut self, candidates: &mut dyn Candidates) -> Result<Option<FrameId>, ()> {
        let mut at = self.small.tail();
        while at != NONE {
            let frame = FrameId(at);
            at = self.links.previous(at);
            self.statistics.sweep_steps += 1;
            let word = self.uses.words.get(frame);
            if word & !IN_WINDOW >= self.parameters.promote {
                if !candidates.is_pinned(frame) {
                    self.unlink(frame);
                    self.uses.words.set(frame, 0);
                    self.place_of[frame.0 as usize] = Place::Main;
                    self.links.push_head(&mut self.main, frame.0);
                }
                continue;
            }
            match candidates.offer(frame) {
                Answer::Take => return Ok(Some(frame)),
                Answer::Pinned | Answer::Dirty => {}
                Answer::Stop => return Err(()),
            }
        }
        Ok(None)
    }

    /// Looks through the main queue until its counters are used up.
    #[inline]
    fn search_main(&mut self, candidates: &mut dyn Candidates) -> Result<Option<FrameId>, ()> {
        let mut at = self.main.tail();
        let mut steps = u64::from(self.main.len()) * u64::from(self.uses.cap + 1);
        while at != NONE && steps > 0 {
            steps -= 1;
            let frame = FrameId(at);
            let next = self.links.previous(at);
            self.statistics.sweep_steps += 1;
            let word = self.uses.words.get(frame);
            if word > 0 {
                if !candidates.is_pinned(frame) {
                    self.uses.words.set(frame, word - 1);
                    self.links.move_to_head(&mut self.main, frame.0);
                }
            } else {
                match candidates.offer(frame) {
                    Answer::Take => return Ok(Some(frame)),
                    Answer::Pinned | Answer::Dirty => {}
                    Answer::Stop => return Err(()),
                }
            }
            // Behind the head the walk begins again at the tail, until the steps are used up.
            at = if next == NONE { self.main.tail() } else { next };
        }
        Ok(None)
    }
}

impl Policy for S3Fifo {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.uses) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        let word = self.uses.words.get(frame);
        if self.uses.counts(word) {
            self.uses.words.set(frame, word + 1);
        }
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        if self.ghosts.remove(page).is_some() {
            self.statistics.ghost_hits += 1;
            Miss::new(ENTRY_MAIN, true)
        } else {
            Miss::new(ENTRY_SMALL, false)
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        self.has_evicted = true;
        // The main queue gives when it is over its share, or when the small one has nothing.
        let main_frames = self.links.count().saturating_sub(self.small_frames);
        let from_main = self.main.len() > main_frames || self.small.is_empty();
        let mut result = Ok(None);
        if from_main {
            result = self.search_main(candidates);
        }
        if result == Ok(None) {
            result = self.search_small(candidates);
        }
        // The small queue may have given its pages to the main one instead of a victim.
        if result == Ok(None) {
            result = self.search_main(candidates);
        }
        self.statistics.count_search(result.unwrap_or(None))
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        if let Some((page, Place::Small)) = self.leave(frame) {
            self.ghosts.push(0, page);
        }
    }

    #[inline]
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.links.is_free(frame.0) {
            return;
        }
        self.keys.set(frame.0, page);
        self.ghosts.remove(page);
        let is_warming_up =
            self.parameters.warm_up && !self.has_evicted && self.small.len() >= self.small_frames;
        if miss.entry() == ENTRY_MAIN || is_warming_up {
            self.uses.words.set(frame, 0);
            self.place_of[frame.0 as usize] = Place::Main;
            self.links.push_head(&mut self.main, frame.0);
        } else {
            self.enter_small(frame);
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
        self.uses = Arc::new(Uses { words: self.uses.words.resized(frames), cap: self.uses.cap });
        self.ghosts = self.ghosts.resized(share_of(self.parameters.ghosts, frames), self.space);
        self.set_sizes(frames);
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let end = frames.len() + count;
        let main_frames = self.links.count().saturating_sub(self.small_frames);
        let order = if self.main.len() > main_frames || self.small.is_empty() {
            [(self.main, 1), (self.small, self.parameters.promote)]
        } else {
            [(self.small, self.parameters.promote), (self.main, 1)]
        };
        for (list, stays_at) in order {
            let left = end - frames.len();
            frames.extend(
                self.links
                    .oldest_first(&list)
                    .map(FrameId)
                    .filter(|frame| self.uses.words.get(*frame) & !IN_WINDOW < stays_at)
                    .take(left),
            );
        }
    }

    fn resident(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        self.ghosts.page_map()
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        if is_remembered(word) {
            self.ghosts.bring_near(word)
        } else {
            self.uses.words.get(FrameId(word))
        }
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for list in [self.small, self.main] {
            for frame in self.links.oldest_first(&list).map(FrameId) {
                add_count(counts, (self.uses.words.get(frame) & !IN_WINDOW) as usize, 1);
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.small, "small queue")?;
        self.links.check(&self.main, "main queue")?;
        self.ghosts.check()?;
        self.links.check_count(self.resident())?;
        self.ghosts.check_disjoint(&self.links, &self.keys, &[self.small, self.main])?;
        let mut has_passed = true;
        for frame in self.links.oldest_first(&self.small) {
            let in_window = self.uses.words.get(FrameId(frame)) & IN_WINDOW != 0;
            if !in_window && !has_passed {
                return Err(format!("frame {frame} is out of its window before an older page"));
            }
            has_passed = !in_window;
        }
        Ok(())
    }
}

/// A share of the pages, rounded up, 0 only for none.
fn share_rounded_up(share: f64, pages: u32) -> u32 {
    if share <= 0.0 || share.is_nan() {
        return 0;
    }
    // Saturates; a window is at most the whole small queue.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range, see above"
    )]
    let up = (share * f64::from(pages)).ceil() as u32;
    up
}
