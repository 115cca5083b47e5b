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
//! - **Memory**: 12 bytes a frame, 16 with a delay; no ghosts.
//! - **Scan resistance**: none of its own (a scanned page enters with `initial`); PostgreSQL keeps
//!   scans in rings outside of the policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::frames::{Residents, Words};
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

/// The words hits store to.
#[derive(Debug)]
struct Counters {
    parameters: ClockSweepParameters,
    usage: Words,
    /// When each counter last rose; unused (empty) without a delay.
    last_rise_ms: Words,
    /// By how much counters rose through hits since the last search; kept only for balance and
    /// pressure.
    rises: AtomicU64,
}

impl Counters {
    fn new(parameters: ClockSweepParameters, frames: u32) -> Self {
        let delayed = if parameters.delay_ms > 0 { frames } else { 0 };
        let (usage, last_rise_ms) = (Words::new(frames), Words::new(delayed));
        Self { parameters, usage, last_rise_ms, rises: AtomicU64::new(0) }
    }

    #[inline]
    fn raise(&self, frame: FrameId, from: u32, to: u32) {
        let counts_rises =
            self.parameters.pressure > 0 || self.parameters.increment == Increment::Balanced;
        if self.usage.try_replace(frame, from, to) && counts_rises {
            self.rises.fetch_add(u64::from(to - from), Ordering::Relaxed);
        }
    }
}

impl HitPath for Counters {
    #[inline]
    fn hit(&self, frame: FrameId, access: Access, _log: &mut HitLog) {
        let usage = self.usage.get(frame);
        if access.hint != Hint::Normal {
            // A ring's pin makes a page just not the first to go, and never hot.
            if usage == 0 {
                self.raise(frame, 0, 1);
            }
            return;
        }
        if usage >= self.parameters.cap {
            return;
        }
        if self.parameters.delay_ms > 0 {
            let elapsed_ms = access.tick_ms.wrapping_sub(self.last_rise_ms.get(frame));
            // The upper half of the range is a tick that went back.
            if elapsed_ms < self.parameters.delay_ms || elapsed_ms > u32::MAX / 2 {
                return;
            }
            // Two hits may both pass; the second's compare-and-swap then fails or adds one too
            // many, as in the prototype.
            self.last_rise_ms.set(frame, access.tick_ms);
        }
        let raised = match self.parameters.increment {
            Increment::One => usage + 1,
            Increment::Max | Increment::Balanced => self.parameters.cap,
        };
        self.raise(frame, usage, raised);
    }
}

/// See the module.
#[derive(Debug)]
pub struct ClockSweep {
    residents: Residents,
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
            residents: Residents::new(frames),
            counters: Arc::new(Counters::new(parameters, frames)),
            hand: 0,
            sum: 0,
            statistics: PolicyStatistics::default(),
        }
    }

    /// The count of `frame`, for tests and for `look`ing at a pool.
    #[must_use]
    pub fn usage(&self, frame: FrameId) -> u32 {
        self.counters.usage.get(frame)
    }

    #[inline]
    fn tick(&mut self) -> FrameId {
        let frame = FrameId(self.hand);
        self.hand += 1;
        if self.hand >= self.residents.frames() {
            self.hand = 0;
        }
        frame
    }

    fn lowered(&self, usage: u32) -> u32 {
        match self.counters.parameters.decay {
            Decay::One => usage - 1,
            Decay::Half => usage / 2,
        }
    }

    /// Pays what hits since the last search owe: steps for balance, lowered counters for pressure.
    fn pay(&mut self, candidates: &mut dyn Candidates) {
        let parameters = self.counters.parameters;
        if parameters.pressure == 0 && parameters.increment != Increment::Balanced {
            return;
        }
        let rises = self.counters.rises.swap(0, Ordering::Relaxed);
        self.sum += i64::try_from(rises).unwrap_or(i64::MAX / 2);
        let frames = self.residents.frames();
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
        let usage = self.counters.usage.get(frame);
        let lowers = usage > 0 && self.residents.is_resident(frame) && !candidates.is_pinned(frame);
        if lowers {
            self.counters.usage.set(frame, usage - 1);
            self.sum -= 1;
        }
        lowers
    }

    fn leave(&mut self, frame: FrameId) {
        if self.residents.leave(frame).is_some() {
            self.sum -= i64::from(self.counters.usage.get(frame));
            self.counters.usage.set(frame, 0);
        }
    }
}

impl Policy for ClockSweep {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.counters) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&self, frame: FrameId, access: Access, log: &mut HitLog) {
        self.counters.hit(frame, access, log);
    }

    #[inline]
    fn drain(&mut self, _log: &mut HitLog) {}

    #[inline]
    fn miss(&mut self, _page: PageKey, _access: Access) -> Miss {
        Miss::default()
    }

    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        self.pay(candidates);
        let frames = self.residents.frames();
        // PostgreSQL's rule: give up after a whole turn in which nothing was lowered.
        let mut tries = frames;
        while tries > 0 {
            let frame = self.tick();
            self.statistics.sweep_steps += 1;
            let usage = self.counters.usage.get(frame);
            if !self.residents.is_resident(frame) {
                tries -= 1;
                continue;
            }
            if usage > 0 {
                // A pinned frame is passed without being lowered, and is no progress.
                if candidates.is_pinned(frame) {
                    tries -= 1;
                } else {
                    let lowered = self.lowered(usage);
                    self.counters.usage.set(frame, lowered);
                    self.sum -= i64::from(usage - lowered);
                    tries = frames;
                }
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
    fn evicted(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn refused(&mut self, _frame: FrameId) {}

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, access: Access) {
        if self.residents.admit(frame, page) {
            let initial = self.counters.parameters.initial;
            let initial = if access.hint == Hint::Normal { initial } else { initial.min(1) };
            self.counters.usage.set(frame, initial);
            self.sum += i64::from(initial);
            if self.counters.parameters.delay_ms > 0 {
                self.counters.last_rise_ms.set(frame, access.tick_ms);
            }
        }
    }

    fn abandon(&mut self, _miss: Miss) {}

    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn forget_page(&mut self, _page: PageKey) {}

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        let parameters = self.counters.parameters;
        let delayed = if parameters.delay_ms > 0 { frames } else { 0 };
        self.counters = Arc::new(Counters {
            parameters,
            usage: self.counters.usage.resized(frames),
            last_rise_ms: self.counters.last_rise_ms.resized(delayed),
            rises: AtomicU64::new(self.counters.rises.load(Ordering::Relaxed)),
        });
        if self.hand >= frames {
            self.hand = 0;
        }
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let total = self.residents.frames();
        let ahead = (self.hand..total).chain(0..self.hand).map(FrameId);
        frames.extend(
            ahead
                .filter(|frame| self.residents.is_resident(*frame) && self.usage(*frame) == 0)
                .take(count),
        );
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for (frame, _) in self.residents.iter() {
            add_count(counts, self.usage(frame) as usize, 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.hand >= self.residents.frames() {
            return Err(format!("the hand {} is beyond the frames", self.hand));
        }
        for frame in (0..self.residents.frames()).map(FrameId) {
            let usage = self.usage(frame);
            if usage > self.counters.parameters.cap {
                return Err(format!("frame {} counts {usage}, above the cap", frame.0));
            }
        }
        let parameters = self.counters.parameters;
        if parameters.pressure > 0 || parameters.increment == Increment::Balanced {
            let frames = (0..self.residents.frames()).map(FrameId);
            let counted: i64 = frames.map(|frame| i64::from(self.usage(frame))).sum();
            let waiting = self.counters.rises.load(Ordering::Relaxed);
            if self.sum + i64::try_from(waiting).unwrap_or(0) != counted {
                return Err(format!("counts sum to {counted}, kept {} and {waiting}", self.sum));
            }
        }
        Ok(())
    }
}
