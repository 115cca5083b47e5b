//! PostgreSQL's clock sweep (a generalised CLOCK) and the variants argued about on its list.
//!
//! A counter per frame, raised by use and lowered by the hand; the hand takes the first unpinned
//! frame whose counter is zero. With the defaults this is PostgreSQL exactly: counters 0 to 5, a
//! loaded page starts at 1, each first pin adds 1, a pin through a ring only lifts 0 to 1, a pinned
//! frame is passed without being lowered, and a full turn over pinned frames ends the search.
//!
//! - **Source**: PostgreSQL `src/backend/storage/buffer/freelist.c` (`StrategyGetBuffer`) and
//!   `bufmgr.c` (`PinBuffer`). Delayed increments: P. Geoghegan's prototype of April 2014. Set to
//!   maximum, and balanced: G. Stark in the same thread. Access pressure: R. Haas, 2014-04-16.
//!   Halving: R. Haas and A. Sharma, 2013.
//! - **Parameters**: `cap` (1 to 255, default 5), `initial` (0 to `cap`, default 1), `delay_ms` (0 to
//!   3,600,000, default 0): a counter rises only when so long has passed since it last rose, loading
//!   included, ring pins excepted. `increment`: what a use does (`one` adds one; `max` sets the counter
//!   to the cap; `balanced` does so and makes the hand take as many steps as the counter rose).
//!   `decay`: what the hand does (`one` lowers by one, `half` halves). `pressure` (0 to 255, default 0:
//!   off): while the sum of all counters exceeds this many a frame, each rise is paid for by a counter
//!   that the hand lowers.
//! - **Differences to PostgreSQL**: the hand belongs to whoever holds the policy, so there is no
//!   atomic ticket; the order of frames visited is the same. A page read through a ring starts at 1
//!   even where `initial` is higher. With `delay_ms`, a tick that went back counts as not elapsed.
//!   What `balanced` and `pressure` owe is paid at the next search, not at the hit, since a hit may
//!   not move the hand; both share one counter of rises between workers, which costs on many cores.
//! - **Hit**: one load and at most one compare-and-swap. **Victim**: amortised O(1), at worst
//!   `cap` + 1 turns (with `half`: log2(cap) + 2).
//! - **Memory**: 4 bytes a frame, 8 with a delay; no ghosts.
//! - **Scan resistance**: none of its own (a scanned page enters with `initial`); PostgreSQL keeps
//!   scans in rings outside of the policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::frames::{Words, check_size};
use crate::policy::{
    Access, Answer, Candidates, FrameId, Hint, HitLog, HitPath, Miss, PageKey, Policy,
    PolicyStatistics, ResizeError, add_count,
};

/// What a use does to a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Increment {
    /// Adds one, up to the cap.
    #[default]
    One,
    /// Sets it to the cap.
    Max,
    /// Sets it to the cap, and the hand takes as many steps as it rose.
    Balanced,
}

/// What the hand does to a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// Takes one away.
    #[default]
    One,
    /// Halves it, rounding down.
    Half,
}

/// The sweep's parameters; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSweepParameters {
    /// Highest count.
    pub cap: u32,
    /// Count of a page just loaded.
    pub initial: u32,
    /// Least time between two rises of one counter.
    pub delay_ms: u32,
    /// What a use does.
    pub increment: Increment,
    /// What the hand does.
    pub decay: Decay,
    /// Access pressure, as a multiple of the number of frames; 0: off.
    pub pressure: u32,
}

impl Default for ClockSweepParameters {
    fn default() -> Self {
        Self {
            cap: 5,
            initial: 1,
            delay_ms: 0,
            increment: Increment::One,
            decay: Decay::One,
            pressure: 0,
        }
    }
}

/// In a frame's word: a page is in it. Below it stands the count.
const RESIDENT: u32 = 1 << 31;

/// The words hits store to.
#[derive(Debug)]
struct Counters {
    parameters: ClockSweepParameters,
    words: Words,
    /// When each counter last rose; unused (empty) without a delay.
    last_rise_ms: Words,
    /// By how much counters rose through hits since the last search; kept only for balance and
    /// pressure.
    rises: AtomicU64,
}

impl Counters {
    fn new(parameters: ClockSweepParameters, frames: u32) -> Self {
        let delayed = if parameters.delay_ms > 0 { frames } else { 0 };
        let (words, last_rise_ms) = (Words::new(frames), Words::new(delayed));
        Self { parameters, words, last_rise_ms, rises: AtomicU64::new(0) }
    }

    #[inline]
    fn usage(&self, frame: FrameId) -> u32 {
        self.words.get(frame) & !RESIDENT
    }

    #[inline]
    fn is_resident(&self, frame: FrameId) -> bool {
        self.words.get(frame) & RESIDENT != 0
    }

    #[inline]
    fn counts_rises(&self) -> bool {
        self.parameters.pressure > 0 || self.parameters.increment == Increment::Balanced
    }

    /// By how much a use raises the count in `word`, the word of `frame`; notes when it does.
    #[inline]
    fn rise(&self, frame: FrameId, word: u32, access: Access) -> u32 {
        let usage = word & !RESIDENT;
        if access.hint != Hint::Normal {
            // A ring's pin makes a page just not the first to go, and never hot.
            return u32::from(usage == 0);
        }
        if usage >= self.parameters.cap {
            return 0;
        }
        if self.parameters.delay_ms > 0 {
            let elapsed_ms = access.tick_ms.wrapping_sub(self.last_rise_ms.get(frame));
            // The upper half of the range is a tick that went back.
            if elapsed_ms < self.parameters.delay_ms || elapsed_ms > u32::MAX / 2 {
                return 0;
            }
            // Two hits may both pass; the second's compare-and-swap then fails or adds one too
            // many, as in the prototype.
            self.last_rise_ms.set(frame, access.tick_ms);
        }
        match self.parameters.increment {
            Increment::One => 1,
            Increment::Max | Increment::Balanced => self.parameters.cap - usage,
        }
    }
}

impl HitPath for Counters {
    #[inline]
    fn hit(&self, frame: FrameId, access: Access, _log: &mut HitLog) {
        let word = self.words.get(frame);
        if word & RESIDENT == 0 {
            return;
        }
        let rise = self.rise(frame, word, access);
        if rise > 0 && self.words.try_replace(frame, word, word + rise) && self.counts_rises() {
            self.rises.fetch_add(u64::from(rise), Ordering::Relaxed);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct ClockSweep {
    frames: u32,
    resident: u32,
    counters: Arc<Counters>,
    /// The next frame to look at.
    hand: u32,
    /// The sum of all counters, without the rises that wait in [`Counters`] (it may be below zero
    /// when a risen counter left meanwhile).
    sum: i64,
    statistics: PolicyStatistics,
}

impl ClockSweep {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]). `cap` and `initial` are brought
    /// into range.
    #[must_use]
    pub fn new(parameters: ClockSweepParameters, frames: u32) -> Self {
        let cap = parameters.cap.clamp(1, 255);
        let parameters =
            ClockSweepParameters { cap, initial: parameters.initial.min(cap), ..parameters };
        Self {
            frames,
            resident: 0,
            counters: Arc::new(Counters::new(parameters, frames)),
            hand: 0,
            sum: 0,
            statistics: PolicyStatistics::default(),
        }
    }

    /// The count of `frame`, for tests and for `look`ing at a pool.
    #[must_use]
    pub fn usage(&self, frame: FrameId) -> u32 {
        self.counters.usage(frame)
    }

    #[inline]
    fn tick(&mut self) -> FrameId {
        let frame = FrameId(self.hand);
        self.hand += 1;
        if self.hand >= self.frames {
            self.hand = 0;
        }
        frame
    }

    #[inline]
    fn lowered(&self, usage: u32) -> u32 {
        match self.counters.parameters.decay {
            Decay::One => usage - 1,
            Decay::Half => usage / 2,
        }
    }

    /// Pays what hits since the last search owe: steps for balance, lowered counters for pressure.
    fn pay(&mut self, candidates: &mut dyn Candidates) {
        let parameters = self.counters.parameters;
        let rises = self.counters.rises.swap(0, Ordering::Relaxed);
        self.sum += i64::try_from(rises).unwrap_or(i64::MAX / 2);
        let frames = self.frames;
        // More turns than that find nothing left to lower.
        let most = u64::from(frames) * u64::from(parameters.cap);
        if parameters.increment == Increment::Balanced {
            for _ in 0..rises.min(most) {
                self.step(candidates);
            }
        }
        let limit = i64::from(frames) * i64::from(parameters.pressure);
        let mut in_vain = 0;
        while parameters.pressure > 0 && self.sum > limit && in_vain < frames {
            in_vain = if self.step(candidates) { 0 } else { in_vain + 1 };
        }
    }

    /// Moves the hand on by one frame; true when it lowered a counter by one.
    fn step(&mut self, candidates: &mut dyn Candidates) -> bool {
        let frame = self.tick();
        self.statistics.sweep_steps += 1;
        let word = self.counters.words.get(frame);
        let lowers = word > RESIDENT && !candidates.is_pinned(frame);
        if lowers {
            self.counters.words.set(frame, word - 1);
            self.sum -= 1;
        }
        lowers
    }
}

impl Policy for ClockSweep {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.counters) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, access: Access) {
        let word = self.counters.words.get(frame);
        if word & RESIDENT == 0 {
            return;
        }
        let rise = self.counters.rise(frame, word, access);
        if rise > 0 {
            self.counters.words.set(frame, word + rise);
            if self.counters.counts_rises() {
                self.counters.rises.fetch_add(u64::from(rise), Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        if self.counters.counts_rises() {
            self.pay(candidates);
        }
        let frames = self.frames;
        // PostgreSQL's rule: give up after a whole turn in which nothing was lowered.
        let mut tries = frames;
        while tries > 0 {
            let frame = self.tick();
            self.statistics.sweep_steps += 1;
            let word = self.counters.words.get(frame);
            if word > RESIDENT {
                // A pinned frame is passed without being lowered, and is no progress.
                if candidates.is_pinned(frame) {
                    tries -= 1;
                } else {
                    let usage = word & !RESIDENT;
                    let lowered = self.lowered(usage);
                    self.counters.words.set(frame, lowered | RESIDENT);
                    self.sum -= i64::from(usage - lowered);
                    tries = frames;
                }
                continue;
            }
            if word & RESIDENT == 0 {
                tries -= 1;
                continue;
            }
            match candidates.offer(frame) {
                Answer::Take => return self.statistics.count_search(Some(frame)),
                Answer::Pinned | Answer::Dirty => tries -= 1,
                Answer::Stop => return self.statistics.count_search(None),
            }
        }
        self.statistics.count_search(None)
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, _page: PageKey, access: Access) {
        if frame.0 < self.frames && !self.counters.is_resident(frame) {
            self.resident += 1;
            let initial = self.counters.parameters.initial;
            let initial = if access.hint == Hint::Normal { initial } else { initial.min(1) };
            self.counters.words.set(frame, initial | RESIDENT);
            self.sum += i64::from(initial);
            if self.counters.parameters.delay_ms > 0 {
                self.counters.last_rise_ms.set(frame, access.tick_ms);
            }
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        if self.counters.is_resident(frame) {
            self.resident -= 1;
            self.sum -= i64::from(self.counters.usage(frame));
            self.counters.words.set(frame, 0);
        }
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        check_size(frames)?;
        let beyond = (frames..self.frames).find(|frame| self.counters.is_resident(FrameId(*frame)));
        if let Some(beyond) = beyond {
            return Err(ResizeError::Resident(beyond));
        }
        self.frames = frames;
        let parameters = self.counters.parameters;
        let delayed = if parameters.delay_ms > 0 { frames } else { 0 };
        self.counters = Arc::new(Counters {
            parameters,
            words: self.counters.words.resized(frames),
            last_rise_ms: self.counters.last_rise_ms.resized(delayed),
            rises: AtomicU64::new(self.counters.rises.load(Ordering::Relaxed)),
        });
        if self.hand >= frames {
            self.hand = 0;
        }
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let ahead = (self.hand..self.frames).chain(0..self.hand).map(FrameId);
        frames
            .extend(ahead.filter(|frame| self.counters.words.get(*frame) == RESIDENT).take(count));
    }

    fn resident(&self) -> u32 {
        self.resident
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        let frames = (0..self.frames).map(FrameId);
        for frame in frames.filter(|frame| self.counters.is_resident(*frame)) {
            add_count(counts, self.usage(frame) as usize, 1);
        }
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        self.counters.words.get(FrameId(word))
    }

    fn check(&self) -> Result<(), String> {
        if self.hand >= self.frames {
            return Err(format!("the hand {} is beyond the frames", self.hand));
        }
        let frames = || (0..self.frames).map(FrameId);
        let resident = frames().filter(|frame| self.counters.is_resident(*frame)).count();
        if resident != self.resident as usize {
            return Err(format!("{resident} frames hold a page, counted {}", self.resident));
        }
        for frame in frames() {
            let usage = self.usage(frame);
            if usage > 0 && !self.counters.is_resident(frame) {
                return Err(format!("frame {} is empty and counts {usage}", frame.0));
            }
            if usage > self.counters.parameters.cap {
                return Err(format!("frame {} counts {usage}, above the cap", frame.0));
            }
        }
        if self.counters.counts_rises() {
            let counted: i64 = frames().map(|frame| i64::from(self.usage(frame))).sum();
            let waiting = self.counters.rises.load(Ordering::Relaxed);
            if self.sum + i64::try_from(waiting).unwrap_or(0) != counted {
                return Err(format!("counts sum to {counted}, kept {} and {waiting}", self.sum));
            }
        }
        Ok(())
    }
}
