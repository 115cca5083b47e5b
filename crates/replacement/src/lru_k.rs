//! LRU-K: the page whose K-th last uncorrelated use lies furthest back leaves.
//!
//! Uses that follow one another within the correlated reference period are one use: the statement,
//! the retry, the next tuple on the same page. A page within its period is not a victim while there is
//! another. The history of a page that left is kept for a while.
//!
//! - **Source**: E. O'Neil, P. O'Neil, G. Weikum, SIGMOD 1993, figure 2.1.
//! - **Parameters**: `k` (1 to 8, default 2), `correlated` (the period in references as a share of the
//!   frames, 0 to 100, default 0.25), `correlated_ms` (0 to 3,600,000, default 0; above 0 the period is
//!   this time instead), `history` (remembered pages as a share of the frames, 0 to 100, default 2).
//!   The period matters more than K: without one, LRU-2 misses more than LRU on OLTP page traces.
//! - **Differences to the paper**: time is the number of references (or the caller's tick); the
//!   retained information period is a number of pages, not a time; when every page is within its
//!   period, the one whose period began to run out first is taken, since a pool must take one.
//! - **Hit**: logged; O(log C) when applied, O(1) within the period. **Victim**: O(log C) plus pinned
//!   frames passed.
//! - **Memory**: 89 bytes a frame and a tree node of 24 or more, 85 (hashed:
//!   97) a remembered page. The tree allocates.
//! - **Scan resistance**: yes: a page used once has no K-th last use and leaves first.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::frame_list::{Links, List, NONE};
use crate::frames::{LoggedHits, Residents, shared};
use crate::ghost::{Ghosts, KeySpace};
use crate::page_map::PageMap;
use crate::policy::{
    Access, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics, ResizeError,
    add_count, share_of,
};

/// Largest K.
pub const K_MAX: usize = 8;

/// The parameters; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LruKParameters {
    /// How many uses back.
    pub k: usize,
    /// The correlated reference period in references, as a share of the frames.
    pub correlated: f64,
    /// Above zero: the period in milliseconds of the caller's tick, instead.
    pub correlated_ms: u32,
    /// Remembered pages as a share of the frames.
    pub history: f64,
}

impl Default for LruKParameters {
    fn default() -> Self {
        Self { k: 2, correlated: 0.25, correlated_ms: 0, history: 2.0 }
    }
}

/// Times of the last K uncorrelated uses, newest first; 0: there was none. And the last use of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct History {
    uses: [u64; K_MAX],
    last: u64,
}

/// See the module.
#[derive(Debug)]
pub struct LruK {
    parameters: LruKParameters,
    space: KeySpace,
    residents: Residents,
    history_of: Vec<History>,
    links: Links,
    /// Pages within their period, most recently used first.
    correlated: List,
    is_settled: Vec<bool>,
    /// Pages out of it: K-th last use, last uncorrelated use, frame. The first leaves first.
    settled: BTreeSet<(u64, u64, u32)>,
    ghosts: Ghosts,
    ghost_history: Vec<History>,
    period: u64,
    /// Counts references from 1; or milliseconds, with the tick's wraps unfolded.
    now: u64,
    last_tick_ms: u32,
    statistics: PolicyStatistics,
}

impl LruK {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]). `k` is brought into range.
    #[must_use]
    pub fn new(parameters: LruKParameters, frames: u32, space: KeySpace) -> Self {
        let parameters = LruKParameters { k: parameters.k.clamp(1, K_MAX), ..parameters };
        let remembered = share_of(parameters.history, frames);
        Self {
            parameters,
            space,
            residents: Residents::new(frames),
            history_of: vec![History::default(); frames as usize],
            links: Links::new(frames),
            correlated: List::default(),
            is_settled: vec![false; frames as usize],
            settled: BTreeSet::new(),
            ghosts: Ghosts::new(remembered, space),
            ghost_history: vec![History::default(); remembered as usize],
            period: Self::period(&parameters, frames),
            now: 0,
            last_tick_ms: 0,
            statistics: PolicyStatistics::default(),
        }
    }

    fn period(parameters: &LruKParameters, frames: u32) -> u64 {
        if parameters.correlated_ms > 0 {
            u64::from(parameters.correlated_ms)
        } else {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of at most 100 of 2^30 frames, not negative"
            )]
            let period = (parameters.correlated.max(0.0) * f64::from(frames)).floor() as u64;
            period
        }
    }

    /// One reference: time goes on.
    fn advance(&mut self, access: Access) {
        if self.parameters.correlated_ms > 0 {
            let elapsed_ms = access.tick_ms.wrapping_sub(self.last_tick_ms);
            // The upper half of the range is a tick that went back.
            if elapsed_ms <= u32::MAX / 2 {
                self.now += u64::from(elapsed_ms);
                self.last_tick_ms = access.tick_ms;
            }
            self.now = self.now.max(1);
        } else {
            self.now += 1;
        }
        self.settle();
    }

    /// Moves pages whose period has run out into the order of victims.
    fn settle(&mut self) {
        while self.correlated.tail() != NONE {
            let frame = self.correlated.tail();
            if self.now - self.history_of[frame as usize].last <= self.period {
                return;
            }
            self.links.remove(&mut self.correlated, frame);
            self.is_settled[frame as usize] = true;
            self.settled.insert(self.rank(frame));
        }
    }

    fn rank(&self, frame: u32) -> (u64, u64, u32) {
        let history = &self.history_of[frame as usize];
        (history.uses[self.parameters.k - 1], history.uses[0], frame)
    }

    fn unlink(&mut self, frame: u32) {
        if std::mem::take(&mut self.is_settled[frame as usize]) {
            let rank = self.rank(frame);
            self.settled.remove(&rank);
        } else {
            self.links.remove(&mut self.correlated, frame);
        }
    }

    fn apply_hit(&mut self, frame: u32) {
        if self.is_settled[frame as usize] {
            self.unlink(frame);
            // A new uncorrelated use. The time the closed period took is added to the older uses, so
            // that a burst counts as a point.
            let history = &mut self.history_of[frame as usize];
            let width = history.last - history.uses[0];
            for i in (1..self.parameters.k).rev() {
                let older = history.uses[i - 1];
                history.uses[i] = if older == 0 { 0 } else { older + width };
            }
            history.uses[0] = self.now;
            history.last = self.now;
            self.links.push_head(&mut self.correlated, frame);
        } else {
            self.history_of[frame as usize].last = self.now;
            self.links.move_to_head(&mut self.correlated, frame);
        }
    }

    fn leave(&mut self, frame: FrameId) -> Option<(PageKey, History)> {
        let page = self.residents.leave(frame)?;
        self.unlink(frame.0);
        Some((page, std::mem::take(&mut self.history_of[frame.0 as usize])))
    }
}

impl Policy for LruK {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(LoggedHits)
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, access: Access) {
        self.advance(access);
        if self.residents.is_resident(frame) {
            self.apply_hit(frame.0);
        }
    }

    #[inline]
    fn miss(&mut self, _page: PageKey, access: Access) -> Miss {
        self.advance(access);
        Miss::default()
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let in_period = self.links.oldest_first(&self.correlated);
        let frames = self.settled.iter().map(|(_, _, frame)| *frame).chain(in_period);
        self.statistics.search(frames, candidates)
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        if let Some((page, history)) = self.leave(frame) {
            self.ghosts.push(0, page);
            if let Some(node) = self.ghosts.node_of(page) {
                self.ghost_history[node as usize] = history;
            }
        }
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.residents.admit(frame, page) {
            return;
        }
        let mut history = History::default();
        if let Some(node) = self.ghosts.node_of(page) {
            self.statistics.ghost_hits += 1;
            history = self.ghost_history[node as usize];
            self.ghosts.remove(page);
            for i in (1..self.parameters.k).rev() {
                history.uses[i] = history.uses[i - 1];
            }
        }
        history.uses[0] = self.now;
        history.last = self.now;
        self.history_of[frame.0 as usize] = history;
        self.links.push_head(&mut self.correlated, frame.0);
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
        self.history_of.resize(frames as usize, History::default());
        self.is_settled.resize(frames as usize, false);
        self.period = Self::period(&self.parameters, frames);
        let remembered = share_of(self.parameters.history, frames);
        let ghosts = self.ghosts.resized(remembered, self.space);
        let mut ghost_history = vec![History::default(); remembered as usize];
        for page in ghosts.pages() {
            if let (Some(from), Some(to)) = (self.ghosts.node_of(page), ghosts.node_of(page)) {
                ghost_history[to as usize] = self.ghost_history[from as usize];
            }
        }
        (self.ghosts, self.ghost_history) = (ghosts, ghost_history);
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let in_period = self.links.oldest_first(&self.correlated);
        let order = self.settled.iter().map(|(_, _, frame)| *frame).chain(in_period);
        frames.extend(order.take(count).map(FrameId));
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

    /// How many of the last K uses of each page are known.
    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for (frame, _) in self.residents.iter() {
            let uses = self.history_of[frame.0 as usize].uses;
            add_count(counts, uses.iter().filter(|time| **time > 0).count(), 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.correlated, "pages in their period")?;
        self.ghosts.check()?;
        if self.correlated.len() as usize + self.settled.len() != self.residents.count() as usize {
            return Err("the two orders together are not the resident frames".to_owned());
        }
        for (frame, page) in self.residents.iter() {
            if self.ghosts.find(page).is_some() {
                return Err(format!("the page in frame {} is remembered, too", frame.0));
            }
            if self.is_settled[frame.0 as usize] != self.settled.contains(&self.rank(frame.0)) {
                return Err(format!("frame {} is not where it thinks", frame.0));
            }
        }
        Ok(())
    }
}
