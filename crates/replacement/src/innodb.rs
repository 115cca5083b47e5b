//! InnoDB's LRU with a mid-point: new pages enter at the head of an old part, and rise only when they
//! are used again after a while.
//!
//! - **Source**: MySQL `storage/innobase/buf/buf0lru.cc` and `include/buf0buf.ic`
//!   (`buf_LRU_add_block_low`, `buf_LRU_old_adjust_len`, `buf_page_peek_if_too_old`), rules as
//!   documented for `innodb_old_blocks_pct` and `innodb_old_blocks_time`.
//! - **Parameters**: `old_percent` (5 to 95, default 37), `old_time_ms` (0 to 3,600,000, default
//!   1000): how long after its first use an old page must be used again to rise; 0 lets the first use
//!   raise it. `old_from` (26 to 2^30 pages, default 512): shorter lists have no old part.
//!   `tolerance` (0 to 1000 pages, default 20): how far the old part may be off its share.
//! - **The rules**: (1) a page read enters just behind the old part's first page, or at the front while
//!   the list is shorter than `old_from`. (2) A use of an old page moves it to the front when its first
//!   use is `old_time_ms` back. (3) A use of a young page moves it to the front when more pages have
//!   left since it was last put there than a quarter of the young part's length. (4) Nothing moves
//!   before the first page has left. (5) At least 5 pages beside the tolerance are young.
//! - **Differences to InnoDB**: no read-ahead, so loading a page is its first use. The scan depth of
//!   the victim search is the caller's. Times wrap after 49 days as InnoDB's do.
//! - **Hit**: three loads; logged only when the page is to move. **Victim**: O(1) plus pinned frames
//!   passed; at most one walk.
//! - **Memory**: 24 bytes a frame; no ghosts.
//! - **Scan resistance**: yes with a time above zero: the old part alone is displaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::frame_list::{Links, List, NONE};
use crate::frames::{Residents, Words};
use crate::policy::{
    Access, Candidates, FrameId, HitLog, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count,
};

/// The parameters; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnodbParameters {
    /// Share of the old part, in percent (InnoDB's own unit).
    pub old_percent: u32,
    /// Time between the first use of an old page and the use that raises it.
    pub old_time_ms: u32,
    /// Pages from which on there is an old part.
    pub old_from: u32,
    /// Pages by which the old part may be off its share.
    pub tolerance: u32,
}

impl Default for InnodbParameters {
    fn default() -> Self {
        Self { old_percent: 37, old_time_ms: 1000, old_from: 512, tolerance: 20 }
    }
}

/// Ratios are kept in this many parts (`BUF_LRU_OLD_RATIO_DIV`).
const RATIO_PARTS: u64 = 1024;
/// Pages that are young at least, beside the tolerance (`BUF_LRU_NON_OLD_MIN_LEN`).
pub(crate) const YOUNG_MIN: u32 = 5;
/// In a frame's word: the page is old. Below it stands the clock of the page's last move.
const OLD: u32 = 1 << 31;
const CLOCK_MASK: u32 = OLD - 1;

/// What hits read.
#[derive(Debug)]
struct Shared {
    old_time_ms: u32,
    /// How many pages left since a move before a young page may move again.
    quarter: u32,
    /// How many pages have left, modulo 2^31; `HAS_LEFT` tells none from 2^31.
    clock: AtomicU32,
    has_left: AtomicU32,
    words: Words,
    first_use_ms: Words,
}

impl Shared {
    /// Whether a use at `tick_ms` moves the page to the front.
    #[inline]
    fn moves(&self, frame: FrameId, tick_ms: u32) -> bool {
        if self.has_left.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let word = self.words.get(frame);
        if word & OLD != 0 && self.old_time_ms > 0 {
            let elapsed_ms = tick_ms.wrapping_sub(self.first_use_ms.get(frame));
            return elapsed_ms >= self.old_time_ms;
        }
        let clock = self.clock.load(Ordering::Relaxed);
        clock.wrapping_sub(word & CLOCK_MASK) & CLOCK_MASK >= self.quarter
    }

    fn page_left(&self) {
        let clock = self.clock.load(Ordering::Relaxed);
        self.clock.store(clock.wrapping_add(1) & CLOCK_MASK, Ordering::Relaxed);
        self.has_left.store(1, Ordering::Relaxed);
    }
}

impl HitPath for Shared {
    #[inline]
    fn hit(&self, frame: FrameId, access: Access, log: &mut HitLog) {
        if self.moves(frame, access.tick_ms) {
            log.push(frame, access);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Innodb {
    parameters: InnodbParameters,
    residents: Residents,
    shared: Arc<Shared>,
    links: Links,
    /// Front first.
    order: List,
    /// The first page of the old part, or [`NONE`].
    old_first: u32,
    old_len: u32,
    statistics: PolicyStatistics,
}

impl Innodb {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]). Parameters are brought into
    /// range.
    #[must_use]
    pub fn new(parameters: InnodbParameters, frames: u32) -> Self {
        let parameters = InnodbParameters {
            old_percent: parameters.old_percent.clamp(5, 95),
            old_from: parameters.old_from.max(YOUNG_MIN + 1 + parameters.tolerance),
            ..parameters
        };
        Self {
            parameters,
            residents: Residents::new(frames),
            shared: Arc::new(Shared {
                old_time_ms: parameters.old_time_ms,
                quarter: quarter(&parameters, frames),
                clock: AtomicU32::new(0),
                has_left: AtomicU32::new(0),
                words: Words::new(frames),
                first_use_ms: Words::new(frames),
            }),
            links: Links::new(frames),
            order: List::default(),
            old_first: NONE,
            old_len: 0,
            statistics: PolicyStatistics::default(),
        }
    }

    #[inline]
    fn is_old(&self, frame: u32) -> bool {
        self.shared.words.get(FrameId(frame)) & OLD != 0
    }

    fn set_old(&self, frame: u32, is_old: bool) {
        let word = self.shared.words.get(FrameId(frame));
        let word = if is_old { word | OLD } else { word & !OLD };
        self.shared.words.set(FrameId(frame), word);
    }

    /// Moves the border until the old part is within the tolerance of its share.
    fn adjust(&mut self) {
        let len = self.order.len();
        let share = u64::from(len) * ratio(&self.parameters) / RATIO_PARTS;
        let most = len.saturating_sub(self.parameters.tolerance + YOUNG_MIN);
        let wanted = u32::try_from(share).unwrap_or(u32::MAX).min(most);
        loop {
            if self.old_len + self.parameters.tolerance < wanted {
                self.old_first = self.links.previous(self.old_first);
                self.old_len += 1;
                self.set_old(self.old_first, true);
            } else if self.old_len > wanted + self.parameters.tolerance && self.old_len > 1 {
                self.set_old(self.old_first, false);
                self.old_first = self.links.next(self.old_first);
                self.old_len -= 1;
            } else {
                return;
            }
        }
    }

    fn insert(&mut self, frame: u32, is_old: bool) {
        let place = FrameId(frame);
        if is_old && self.old_first != NONE && self.order.len() >= self.parameters.old_from {
            self.links.insert_behind(&mut self.order, self.old_first, frame);
            self.old_len += 1;
            // A page that never was in front carries the clock's beginning, as in InnoDB.
            self.shared.words.set(place, OLD);
        } else {
            self.links.push_head(&mut self.order, frame);
            self.shared.words.set(place, self.shared.clock.load(Ordering::Relaxed));
        }
        if self.order.len() > self.parameters.old_from && self.old_first != NONE {
            self.adjust();
        } else if self.order.len() >= self.parameters.old_from {
            // The old part begins: first everything is old, then the border moves.
            for old in self.links.oldest_first(&self.order) {
                self.set_old(old, true);
            }
            self.old_first = self.order.head();
            self.old_len = self.order.len();
            self.adjust();
        }
    }

    fn remove(&mut self, frame: u32) {
        if self.old_first == frame {
            let before = self.links.previous(frame);
            if before == NONE {
                self.old_first = self.links.next(frame);
            } else {
                self.set_old(before, true);
                self.old_first = before;
                self.old_len += 1;
            }
        }
        self.links.remove(&mut self.order, frame);
        if self.old_first == NONE {
            return;
        }
        if self.order.len() < self.parameters.old_from {
            for other in self.links.oldest_first(&self.order) {
                self.set_old(other, false);
            }
            (self.old_first, self.old_len) = (NONE, 0);
            return;
        }
        if self.is_old(frame) {
            self.old_len -= 1;
        }
        self.adjust();
    }

    fn move_to_front(&mut self, frame: u32) {
        self.remove(frame);
        self.insert(frame, false);
    }

    fn leave(&mut self, frame: FrameId) {
        if self.residents.leave(frame).is_some() {
            self.remove(frame.0);
            self.shared.words.set(frame, 0);
            self.shared.page_left();
        }
    }
}

/// The old part's share in [`RATIO_PARTS`].
fn ratio(parameters: &InnodbParameters) -> u64 {
    u64::from(parameters.old_percent) * RATIO_PARTS / 100
}

/// A quarter of the young part's length in a pool of `frames`.
fn quarter(parameters: &InnodbParameters, frames: u32) -> u32 {
    let young = u64::from(frames) * (RATIO_PARTS - ratio(parameters));
    u32::try_from(young / (RATIO_PARTS * 4)).unwrap_or(CLOCK_MASK)
}

impl Policy for Innodb {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.shared) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, access: Access) {
        // A logged hit asks again: an earlier one of the log may have moved the page already.
        if self.residents.is_resident(frame) && self.shared.moves(frame, access.tick_ms) {
            self.move_to_front(frame.0);
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        self.statistics.search(self.links.oldest_first(&self.order), candidates)
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, access: Access) {
        if !self.residents.admit(frame, page) {
            return;
        }
        self.shared.first_use_ms.set(frame, access.tick_ms);
        self.insert(frame.0, true);
        // The use that loaded the page; it moves only when no time has to pass.
        if self.parameters.old_time_ms == 0 && self.shared.moves(frame, access.tick_ms) {
            self.move_to_front(frame.0);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.links.resize(frames);
        let old = &self.shared;
        self.shared = Arc::new(Shared {
            old_time_ms: old.old_time_ms,
            quarter: quarter(&self.parameters, frames),
            clock: AtomicU32::new(old.clock.load(Ordering::Relaxed)),
            has_left: AtomicU32::new(old.has_left.load(Ordering::Relaxed)),
            words: old.words.resized(frames),
            first_use_ms: old.first_use_ms.resized(frames),
        });
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

    /// Old pages under 0, young ones under 1.
    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        add_count(counts, 0, u64::from(self.old_len));
        add_count(counts, 1, u64::from(self.residents.count() - self.old_len));
    }

    fn check(&self) -> Result<(), String> {
        self.links.check(&self.order, "order")?;
        if self.order.len() != self.residents.count() {
            return Err(format!(
                "{} in order, {} resident",
                self.order.len(),
                self.residents.count()
            ));
        }
        let has_old = self.old_first != NONE;
        if has_old != (self.order.len() >= self.parameters.old_from) {
            return Err(format!("an old part: {has_old}, with {} pages", self.order.len()));
        }
        let (mut old, mut first, mut was_young) = (0, NONE, false);
        for frame in self.links.oldest_first(&self.order) {
            if self.is_old(frame) {
                if was_young {
                    return Err(format!("frame {frame} is old and stands before a young one"));
                }
                old += 1;
                first = frame;
            } else {
                was_young = true;
            }
        }
        if old != self.old_len || first != self.old_first {
            return Err(format!("{old} old pages from frame {first}, noted {}", self.old_len));
        }
        Ok(())
    }
}
