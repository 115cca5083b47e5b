//! One policy, one cache size, one trace: misses and dirty evictions.
//!
//! The trace is decoded and its pages renumbered once ([`crate::dense`]); every policy and size runs
//! over the same array. Per reference that leaves one look-up in a map of pages, which the policy's
//! ghosts share ([`evenkeel_replacement::page_map`]), and the policy's own work. The loop is compiled
//! for each policy by its own type.
//!
//! A simulated cache has no pins and reads a page in no time; what it counts as write-backs are pages
//! that were dirty when they were evicted, each of which a real pool would have had to write before
//! (by whomever). Pages still dirty at the end are counted apart.

use std::sync::Arc;

use evenkeel_replacement::page_map::{ABSENT, PageMap};
use evenkeel_replacement::policy::{
    Access, FrameId, Hint, PageKey, Policy, PolicyStatistics, TakeFirst,
};

use crate::dense::{DenseTrace, WRITE};

/// References between two reports of progress; also how many ticks are prepared at once. 16 KiB of
/// references and as many of ticks stay in a first-level cache.
const CHUNK: usize = 4096;

/// How many references ahead frames are looked up. Safe code has no prefetch, so the look-ups of a
/// group are made before they are needed, when none of them waits for a decision of the policy.
const GROUP: usize = 32;

/// From so many frames on, what a policy keeps of them is brought near before it is needed. The state of
/// fewer, at most some 40 bytes a frame, is in a second-level cache of 1 MiB anyway, and asking for it
/// costs more than it saves (measured: a tenth at 10,000 frames; a fifth to a third saved at 200,000).
const FAR_FRAMES: u32 = 1 << 15;

/// Counts of one run, after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References.
    pub requests: u64,
    /// Of these, to pages that were not in the cache.
    pub misses: u64,
    /// Evicted pages that were dirty.
    pub write_backs: u64,
}

impl Counts {
    /// Misses per reference; `None` without references.
    #[must_use]
    pub fn miss_ratio(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "a ratio of counts, for people")]
        (self.requests > 0).then(|| self.misses as f64 / self.requests as f64)
    }
}

/// What a run is told beside the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationOptions {
    /// So many references fill the cache first and are not counted.
    pub warm_up: usize,
    /// How many references pass in a second where the trace has no times; matters only to policies
    /// with a delay. Above 0.
    pub references_per_s: f64,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        Self { warm_up: 0, references_per_s: 1000.0 }
    }
}

/// What came out of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// The counts.
    pub counts: Counts,
    /// The counts by class of page, where the trace has classes; write-backs under the class of the
    /// page evicted.
    pub by_class: Vec<Counts>,
    /// Pages in the cache at the end that were dirty.
    pub dirty_at_end: u64,
    /// The policy's own figures, of the counted part. All 0 for the optimum.
    pub statistics: PolicyStatistics,
    /// Frames by usage count at the end; see [`Policy::usage_histogram`].
    pub usage: Vec<u64>,
}

/// Told of each run's progress, from the run's own thread.
pub trait Observer {
    /// `references` more are done. False ends the run early.
    fn advanced(&self, references: usize) -> bool;
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn advanced(&self, _references: usize) -> bool {
        true
    }
}

/// Runs `policy`, made for `frames` frames, over `trace`. `None` when `observer` ended it.
pub fn simulate<P: Policy>(
    policy: P,
    frames: u32,
    trace: &DenseTrace,
    options: &SimulationOptions,
    observer: &impl Observer,
) -> Option<Simulated> {
    let mut run = Run::new(policy, frames, trace);
    let mut ticks = Ticks::new(trace, options.references_per_s);
    let warm_up = options.warm_up.min(trace.references().len());
    let mut position = 0;
    while position < trace.references().len() {
        if position == warm_up {
            run.start_counting();
        }
        // A chunk ends where the warm-up does, so that no reference asks whether it counts.
        let limit = if position < warm_up { warm_up } else { trace.references().len() };
        let end = limit.min(position + CHUNK);
        let references = &trace.references()[position..end];
        run.advance(references, ticks.of(position, end));
        position = end;
        if !observer.advanced(references.len()) {
            return None;
        }
    }
    if position == warm_up {
        run.start_counting();
    }
    Some(run.finish(&trace.references()[warm_up..]))
}

/// The time of each reference.
struct Ticks<'t> {
    of_trace: Option<&'t [u32]>,
    /// Milliseconds a reference, in 2^-32.
    step: u64,
    prepared: Vec<u32>,
}

impl<'t> Ticks<'t> {
    fn new(trace: &'t DenseTrace, references_per_s: f64) -> Self {
        let step_ms = 1000.0 / references_per_s.max(f64::MIN_POSITIVE);
        // Saturates at 2^64: 49 days a reference.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is positive"
        )]
        let step = (step_ms * 4_294_967_296.0) as u64;
        Self { of_trace: trace.tick_ms(), step, prepared: Vec::with_capacity(CHUNK) }
    }

    fn of(&mut self, start: usize, end: usize) -> &[u32] {
        if let Some(ticks) = self.of_trace {
            return &ticks[start..end];
        }
        self.prepared.clear();
        let step = self.step;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "ticks wrap, by the policies' contract"
        )]
        self.prepared
            .extend((start..end).map(|at| ((u128::from(step) * (at as u128)) >> 32) as u32));
        &self.prepared
    }
}

/// A simulation under way.
struct Run<'t, P> {
    policy: P,
    frames: u32,
    /// By page: its frame, while `page_in` agrees.
    map: Arc<PageMap>,
    /// By frame: its page, with [`WRITE`] while it is dirty.
    page_in: Vec<u32>,
    misses: u64,
    write_backs: u64,
    class_of_page: Option<&'t [u16]>,
    by_class: Vec<Counts>,
    statistics_before: PolicyStatistics,
}

impl<'t, P: Policy> Run<'t, P> {
    fn new(policy: P, frames: u32, trace: &'t DenseTrace) -> Self {
        let map = policy.page_map();
        Self {
            policy,
            frames,
            map: map.unwrap_or_else(|| Arc::new(PageMap::new(trace.pages()))),
            page_in: Vec::with_capacity(frames.min(trace.pages()) as usize),
            misses: 0,
            write_backs: 0,
            class_of_page: trace.class_of_page(),
            by_class: vec![Counts::default(); trace.class_names().len()],
            statistics_before: PolicyStatistics::default(),
        }
    }

    fn start_counting(&mut self) {
        self.misses = 0;
        self.write_backs = 0;
        self.by_class.fill(Counts::default());
        self.statistics_before = self.policy.statistics();
    }

    fn advance(&mut self, references: &[u32], ticks: &[u32]) {
        let mut groups = references.chunks(GROUP).zip(ticks.chunks(GROUP)).peekable();
        if let Some((first, _)) = groups.peek() {
            self.bring_words_near(first);
        }
        while let Some((group, ticks)) = groups.next() {
            if let Some((next, _)) = groups.peek() {
                self.bring_words_near(next);
            }
            if self.frames >= FAR_FRAMES {
                self.bring_frames_near(group);
            }
            for (reference, tick_ms) in group.iter().zip(ticks) {
                let access = Access { hint: Hint::Normal, tick_ms: *tick_ms };
                let page = reference & !WRITE;
                let frame = self.map.word(page);
                match self.page_in.get_mut(frame as usize) {
                    Some(held) if *held & !WRITE == page => {
                        *held |= reference & WRITE;
                        self.policy.hit(FrameId(frame), access);
                    }
                    _ => self.miss(*reference, access),
                }
            }
        }
    }

    /// Brings the words of a group of pages into the processor's caches.
    #[inline]
    fn bring_words_near(&self, group: &[u32]) {
        let seen = group.iter().fold(0, |seen, at| seen ^ self.map.word(at & !WRITE));
        std::hint::black_box(seen);
    }

    /// Does the same for what the policy keeps of the frames that will be hit.
    #[inline]
    fn bring_frames_near(&self, group: &[u32]) {
        let mut seen = 0;
        for reference in group {
            let word = self.map.word(reference & !WRITE);
            seen ^= self.page_in.get(word as usize).copied().unwrap_or(0);
            seen ^= self.policy.bring_near(word);
        }
        std::hint::black_box(seen);
    }

    #[inline]
    fn miss(&mut self, reference: u32, access: Access) {
        self.misses += 1;
        let page = reference & !WRITE;
        if let Some(classes) = self.class_of_page {
            self.by_class[usize::from(classes[page as usize])].misses += 1;
        }
        let key = PageKey(u64::from(page));
        let miss = self.policy.miss(key, access);
        let used = self.page_in.len();
        let frame = if used < self.frames as usize {
            self.page_in.push(reference);
            // Below `frames`, which is 32 bits.
            FrameId(u32::try_from(used).unwrap_or(ABSENT))
        } else {
            let Some(frame) = self.policy.victim(miss, &mut TakeFirst) else {
                // A cache without pins always has a victim; a policy of one's own may err.
                self.policy.abandon(miss);
                return;
            };
            let evicted = std::mem::replace(&mut self.page_in[frame.0 as usize], reference);
            self.policy.evicted(frame);
            if evicted & WRITE != 0 {
                self.write_backs += 1;
                if let Some(classes) = self.class_of_page {
                    self.by_class[usize::from(classes[(evicted & !WRITE) as usize])].write_backs +=
                        1;
                }
            }
            frame
        };
        self.policy.admit(miss, frame, key, access);
        self.map.set(page, frame.0);
    }

    fn finish(mut self, counted: &[u32]) -> Simulated {
        count_requests(&mut self.by_class, self.class_of_page, counted);
        let mut usage = Vec::new();
        self.policy.usage_histogram(&mut usage);
        Simulated {
            counts: Counts {
                requests: counted.len() as u64,
                misses: self.misses,
                write_backs: self.write_backs,
            },
            by_class: self.by_class,
            dirty_at_end: self.page_in.iter().filter(|held| *held & WRITE != 0).count() as u64,
            statistics: since(self.policy.statistics(), self.statistics_before),
            usage,
        }
    }
}

/// Requests by class, which no policy changes.
pub(crate) fn count_requests(
    by_class: &mut [Counts],
    class_of_page: Option<&[u16]>,
    counted: &[u32],
) {
    if let Some(classes) = class_of_page {
        for reference in counted {
            by_class[usize::from(classes[(reference & !WRITE) as usize])].requests += 1;
        }
    }
}

fn since(now: PolicyStatistics, before: PolicyStatistics) -> PolicyStatistics {
    PolicyStatistics {
        victims: now.victims - before.victims,
        sweep_steps: now.sweep_steps - before.sweep_steps,
        failed_searches: now.failed_searches - before.failed_searches,
        ghost_hits: now.ghost_hits - before.ghost_hits,
    }
}
