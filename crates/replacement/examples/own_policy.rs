//! A policy of one's own, written outside of the crate: it passes the conformance suite, is
//! registered, and runs beside ours.
//!
//! `cargo run -p evenkeel-replacement --example own_policy`
//!
//! The policy is "not recently used, from a window": it offers the `window` oldest frames that were
//! not used since they were loaded or last passed, else the oldest of all. What it is worth does not
//! matter here; what matters is how a hit reaches it without a lock, how a victim is offered, and how
//! the search ends when everything is pinned.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_replacement::policy::{
    Access, Answer, Candidates, FrameId, HitLog, HitPath, MAX_FRAMES, Miss, PageKey, Policy,
    PolicyStatistics, ResizeError, TakeFirst, add_count,
};
use evenkeel_replacement::registry::{
    ParameterDescription, ParameterKind, PolicyDescription, PolicySpecification, PolicyVisitor,
    Registry, Value,
};
use evenkeel_replacement::{KeySpace, conformance};

static DESCRIPTION: PolicyDescription = PolicyDescription {
    name: "nru_window",
    idea: "The first unused page among the oldest leaves, else the oldest.",
    source: "this example",
    caution: "",
    parameters: &[ParameterDescription {
        name: "window",
        kind: ParameterKind::Integer { minimum: 1, maximum: 1000 },
        unit: "frames",
        default: Value::Integer(8),
        meaning: "how many of the oldest pages are looked at",
    }],
};

/// The part that hits go through, shared with all workers: one flag a frame.
struct Used(Box<[AtomicBool]>);

impl Used {
    fn new(frames: usize) -> Self {
        Self((0..frames).map(|_| AtomicBool::new(false)).collect())
    }

    fn get(&self, frame: u32) -> bool {
        self.0.get(frame as usize).is_some_and(|used| used.load(Ordering::Relaxed))
    }

    /// A use. Read first: a store that changes nothing still takes the cache line from the others.
    fn note(&self, frame: u32) {
        if !self.get(frame) {
            self.set(frame, true);
        }
    }

    fn set(&self, frame: u32, is_used: bool) {
        if let Some(used) = self.0.get(frame as usize) {
            used.store(is_used, Ordering::Relaxed);
        }
    }
}

impl HitPath for Used {
    fn hit(&self, frame: FrameId, _access: Access, _log: &mut HitLog) {
        self.note(frame.0);
    }
}

struct NruWindow {
    window: usize,
    used: Arc<Used>,
    /// Oldest first.
    order: VecDeque<u32>,
    statistics: PolicyStatistics,
}

impl NruWindow {
    fn new(window: u32, frames: u32) -> Self {
        Self {
            window: window as usize,
            used: Arc::new(Used::new(frames as usize)),
            order: VecDeque::with_capacity(frames as usize),
            statistics: PolicyStatistics::default(),
        }
    }

    /// Frames in the order in which they are offered: each once, so that a search ends.
    fn offers(&self) -> impl Iterator<Item = u32> + '_ {
        let oldest = || self.order.iter().copied().take(self.window);
        let unused = oldest().filter(|frame| !self.used.get(*frame));
        let others = oldest().filter(|frame| self.used.get(*frame));
        unused.chain(others).chain(self.order.iter().copied().skip(self.window))
    }
}

impl Policy for NruWindow {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.used) as Arc<dyn HitPath>
    }

    fn hit(&mut self, frame: FrameId, _access: Access) {
        self.used.note(frame.0);
    }

    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let (mut found, mut steps) = (None, 0);
        for frame in self.offers().map(FrameId) {
            steps += 1;
            match candidates.offer(frame) {
                Answer::Take => found = Some(frame),
                Answer::Pinned | Answer::Dirty => continue,
                Answer::Stop => {}
            }
            break;
        }
        self.statistics.sweep_steps += steps;
        match found {
            Some(_) => self.statistics.victims += 1,
            None => self.statistics.failed_searches += 1,
        }
        found
    }

    fn admit(&mut self, _miss: Miss, frame: FrameId, _page: PageKey, _access: Access) {
        self.used.set(frame.0, false);
        self.order.push_back(frame.0);
    }

    fn forget_frame(&mut self, frame: FrameId) {
        self.order.retain(|other| *other != frame.0);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        if frames == 0 || frames > MAX_FRAMES {
            return Err(ResizeError::Size(frames));
        }
        if let Some(beyond) = self.order.iter().find(|frame| **frame >= frames) {
            return Err(ResizeError::Resident(*beyond));
        }
        let resized = Used::new(frames as usize);
        for frame in &self.order {
            resized.set(*frame, self.used.get(*frame));
        }
        self.used = Arc::new(resized);
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        frames.extend(self.offers().take(count).map(FrameId));
    }

    fn resident(&self) -> u32 {
        u32::try_from(self.order.len()).unwrap_or(u32::MAX)
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for frame in &self.order {
            add_count(counts, usize::from(self.used.get(*frame)), 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut sorted: Vec<u32> = self.order.iter().copied().collect();
        sorted.sort_unstable();
        let count = sorted.len();
        sorted.dedup();
        if sorted.len() == count { Ok(()) } else { Err("a frame stands twice".to_owned()) }
    }
}

/// Replays pages and counts misses: what a simulator does, in a few lines. It is compiled once for
/// each of our policies, and once for `Box<dyn Policy>`, which a policy of one's own comes as.
struct CountMisses<'a> {
    pages: &'a [u64],
    frames: usize,
}

impl PolicyVisitor for CountMisses<'_> {
    type Output = u64;

    fn visit<P: Policy + 'static>(self, mut policy: P) -> u64 {
        let (mut page_in, mut misses) = (Vec::new(), 0);
        for page in self.pages {
            let access = Access::default();
            if let Some(frame) = page_in.iter().zip(0..).find(|(held, _)| *held == page) {
                policy.hit(FrameId(frame.1), access);
                continue;
            }
            misses += 1;
            let miss = policy.miss(PageKey(*page), access);
            let frame = if page_in.len() < self.frames {
                page_in.push(*page);
                FrameId(u32::try_from(page_in.len() - 1).unwrap_or(0))
            } else {
                let Some(frame) = policy.victim(miss, &mut TakeFirst) else {
                    policy.abandon(miss);
                    continue;
                };
                policy.evicted(frame);
                page_in[frame.0 as usize] = *page;
                frame
            };
            policy.admit(miss, frame, PageKey(*page), access);
        }
        misses
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let make = |window, frames| Box::new(NruWindow::new(window, frames)) as Box<dyn Policy>;
    conformance::check(&|frames| make(8, frames))?;
    println!("nru_window passes the conformance suite");

    let mut registry = Registry::standard();
    registry.add(&DESCRIPTION, move |arguments, frames, _, _| {
        make(arguments.integer("window"), frames)
    })?;

    // A hot set of 40 pages, and a scan of 400 that passes by.
    let pages: Vec<u64> = (0..20_000_u64)
        .map(|at| if at % 3 == 0 { 1000 + at / 3 % 400 } else { at * at % 101 % 40 })
        .collect();
    let mut chosen: Vec<PolicySpecification> = registry.defaults();
    chosen.extend(registry.parse_list("nru_window(window=32), clock_sweep(cap=10)")?);
    println!("misses of {} references with 64 frames:", pages.len());
    for policy in chosen {
        let counting = CountMisses { pages: &pages, frames: 64 };
        let misses = policy.visit(64, KeySpace::Hashed, 1, counting)?;
        println!("{misses:7}  {policy}");
    }
    Ok(())
}
