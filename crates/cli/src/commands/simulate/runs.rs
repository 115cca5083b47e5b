//! Runs over one trace on several threads. Results come in the order asked for, whoever finishes
//! first.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::Context as _;
use evenkeel::runtime::{Event, Runtime};
use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::dense::DenseTrace;
use evenkeel_cachesim::optimum::NextUses;
use evenkeel_cachesim::simulate::{Observer, Simulated, SimulationOptions};

use crate::progress::length;

/// One policy at one size.
pub(super) type Cell = Simulated;

/// What is quicker needs no progress.
const QUIET_NS: u64 = 2_000_000_000;
/// Time from one line to the next: where they are overwritten, and where they stay.
const OVERWRITTEN_NS: u64 = 250_000_000;
const STAYING_NS: u64 = 10_000_000_000;

/// Runs policies over a trace.
pub(super) struct Runner {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) trace: Arc<DenseTrace>,
    pub(super) seed: u64,
    pub(super) options: SimulationOptions,
    pub(super) jobs: usize,
}

/// What the threads share.
struct Work {
    trace: Arc<DenseTrace>,
    seed: u64,
    options: SimulationOptions,
    asked: Vec<(Choice, u32)>,
    next: AtomicUsize,
    next_uses: OnceLock<NextUses>,
    results: Mutex<Vec<Option<anyhow::Result<Option<Simulated>>>>>,
    progress: Progress,
    running: AtomicUsize,
    ended: Arc<dyn Event>,
}

struct Progress {
    references: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Observer for Progress {
    fn advanced(&self, references: usize) -> bool {
        self.references.fetch_add(references as u64, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

impl Runner {
    /// Runs each policy with so many frames. `None` when interrupted.
    pub(super) fn run(&self, asked: Vec<(Choice, u32)>) -> anyhow::Result<Option<Vec<Cell>>> {
        let count = asked.len();
        let threads = self.jobs.clamp(1, count.max(1));
        let work = Arc::new(Work {
            trace: Arc::clone(&self.trace),
            seed: self.seed,
            options: self.options,
            asked,
            next: AtomicUsize::new(0),
            next_uses: OnceLock::new(),
            results: Mutex::new((0..count).map(|_| None).collect()),
            progress: Progress { references: AtomicU64::new(0), stop: Arc::clone(&self.stop) },
            running: AtomicUsize::new(threads),
            ended: self.runtime.event(),
        });
        let mut tasks = Vec::new();
        for _ in 0..threads {
            let work = Arc::clone(&work);
            let body = Box::new(move || {
                work.take_turns();
                work.running.fetch_sub(1, Ordering::SeqCst);
                work.ended.notify();
            });
            tasks.push(self.runtime.spawn("simulate", body).context("a thread to simulate on")?);
        }
        self.watch(&work);
        for task in tasks {
            task.join()?;
        }
        let mut cells = Vec::with_capacity(count);
        let mut results = work.results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for result in results.drain(..) {
            match result.transpose()?.flatten() {
                Some(simulated) => cells.push(simulated),
                None => return Ok(None),
            }
        }
        Ok(Some(cells))
    }

    fn watch(&self, work: &Work) {
        let is_terminal = std::io::stderr().is_terminal();
        let all = work.asked.len() as u64 * self.trace.references().len() as u64;
        let begun = self.runtime.now();
        let step_ns = if is_terminal { OVERWRITTEN_NS } else { STAYING_NS };
        let mut next_ns = QUIET_NS;
        let mut is_open = false;
        while work.running.load(Ordering::SeqCst) > 0 {
            if work.ended.wait_until(Some(begun.plus_nanos(next_ns))) {
                continue;
            }
            let ns = self.runtime.now().nanos_since(begun);
            let done = work.progress.references.load(Ordering::Relaxed).clamp(1, all.max(1));
            let left = u128::from(ns) * u128::from(all - done.min(all)) / u128::from(done);
            let left = length(u64::try_from(left).unwrap_or(u64::MAX));
            let share = done * 100 / all.max(1);
            let name = evenkeel_lab::text::terminal(self.trace.name()).into_owned();
            let text =
                format!("simulating {name}: {share}% of {} runs, {left} left", work.asked.len());
            if is_terminal {
                put(&format!("\r\x1b[K{text}"));
                is_open = true;
            } else {
                put(&format!("{text}\n"));
            }
            next_ns = ns + step_ns;
        }
        if is_open {
            put("\r\x1b[K");
        }
    }
}

impl Work {
    fn take_turns(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((choice, frames)) = self.asked.get(index) else { return };
            let next_uses = || self.next_uses.get_or_init(|| NextUses::of(&self.trace));
            let (trace, options) = (&self.trace, &self.options);
            let result =
                choice.simulate(*frames, trace, next_uses, self.seed, options, &self.progress);
            let result = result.with_context(|| format!("{choice} with {frames} frames"));
            let mut results =
                self.results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(place) = results.get_mut(index) {
                *place = Some(result);
            }
        }
    }
}

#[allow(clippy::print_stderr, reason = "progress is for people and goes to stderr")]
fn put(text: &str) {
    eprint!("{text}");
}
