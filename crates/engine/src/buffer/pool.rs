//! The pool: its parts, opening it, figures about it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use evenkeel_replacement::KeySpace;
use evenkeel_replacement::policy::{FrameId, HitPath, Policy};

use super::counters::{Counters, PoolStatistics, Role, WriteCause};
use super::descriptor::{DIRTY, Frame, LOCK_WAITERS, PIN_WAITERS, PINS, VALID, WRITING, hash};
use super::error::PoolError;
use super::settings::PoolSettings;
use super::table::Table;
use super::waiting::{For, Queues, Waiter};
use super::worker::Worker;
use super::write_ahead::WriteAhead;
use crate::page::{Fork, PageIdentity, RelationNumber};
use crate::runtime::{Event, Runtime};
use crate::smgr::Smgr;
use crate::stats::Waited;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::trace::ReferenceSink;

/// What a pool works with.
#[derive(Clone)]
pub struct Components {
    /// The relation files.
    pub smgr: Arc<Smgr>,
    /// The log that goes before pages.
    pub log: Arc<dyn WriteAhead>,
    /// Time and waits.
    pub runtime: Arc<dyn Runtime>,
    /// Who is told of every reference, if anybody.
    pub sink: Option<Arc<dyn ReferenceSink>>,
}

/// Who leaves: the policy, and the frames that hold nothing. Only misses come here (rule B7).
pub(super) struct Replacement {
    pub(super) policy: Box<dyn Policy>,
    pub(super) free: Vec<u32>,
    /// Frames handed out, from `free` or by eviction.
    pub(super) allocations: u64,
    /// To be told of the next one.
    pub(super) sleeper: Option<Arc<dyn Event>>,
}

impl Replacement {
    pub(super) fn count_allocation(&mut self) {
        self.allocations += 1;
        if let Some(sleeper) = self.sleeper.take() {
            sleeper.notify();
        }
    }
}

struct Counted {
    live: Vec<Arc<Counters>>,
    ended: Counters,
}

/// A relation's fork that somebody extends or truncates, with those who wait to do so.
type Extensions = BTreeMap<(RelationNumber, Fork), VecDeque<Arc<Waiter>>>;

/// The shared buffer pool. Used through [`Worker`]s.
pub struct Pool {
    pub(super) frames: Box<[Frame]>,
    pub(super) table: Table,
    pub(super) queues: Queues,
    pub(super) replacement: Mutex<Replacement>,
    pub(super) hit_path: Arc<dyn HitPath>,
    pub(super) is_policy_timed: bool,
    pub(super) with: Components,
    pub(super) settings: PoolSettings,
    pub(super) waited: Waited,
    pub(super) extensions: Mutex<Extensions>,
    counted: Mutex<Counted>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pool").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Pool {
    /// An empty pool.
    ///
    /// # Errors
    /// When a setting is out of its range.
    pub fn open(settings: PoolSettings, with: Components) -> Result<Arc<Self>, PoolError> {
        settings.check()?;
        let built = settings.policy.build(settings.frames, KeySpace::Hashed, settings.policy_seed);
        let policy = built.map_err(|error| PoolError::Setting {
            name: "shared_buffers",
            found: settings.frames.to_string(),
            expected: error.to_string(),
        })?;
        Ok(Arc::new(Self {
            frames: (0..settings.frames).map(|_| Frame::new()).collect(),
            table: Table::new(settings.frames),
            queues: Queues::new(),
            hit_path: policy.hit_path(),
            replacement: Mutex::new(Replacement {
                policy,
                // Taken from the end: frame 0 goes first.
                free: (0..settings.frames).rev().collect(),
                allocations: 0,
                sleeper: None,
            }),
            is_policy_timed: settings.is_policy_timed(),
            with,
            settings,
            waited: Waited::default(),
            extensions: Mutex::new(BTreeMap::new()),
            counted: Mutex::new(Counted { live: Vec::new(), ended: Counters::default() }),
        }))
    }

    /// Access for one task.
    #[must_use]
    pub fn worker(self: &Arc<Self>, role: Role) -> Worker {
        let counters = Arc::new(Counters::default());
        lock(&self.counted).live.push(Arc::clone(&counters));
        Worker::new(Arc::clone(self), role, counters)
    }

    /// What the pool was opened with.
    #[must_use]
    pub const fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// The waits of all workers, by place.
    #[must_use]
    pub const fn waited(&self) -> &Waited {
        &self.waited
    }

    /// The relation files below the pool.
    #[must_use]
    pub fn smgr(&self) -> &Smgr {
        &self.with.smgr
    }

    /// Counts since the pool was opened.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        let mut usage = Vec::new();
        let (policy, allocations) = {
            let replacement = self.replacement();
            replacement.policy.usage_histogram(&mut usage);
            (replacement.policy.statistics(), replacement.allocations)
        };
        let sums = Counters::default();
        let counted = lock(&self.counted);
        counted.ended.add_to(&sums);
        for counters in &counted.live {
            counters.add_to(&sums);
        }
        drop(counted);
        let mut figures = sums.figures(policy, usage);
        figures.buffers_alloc = allocations;
        figures
    }

    /// Frames handed out so far: what the background writer forecasts demand from.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.replacement().allocations
    }

    /// Notifies `sleeper` when the next frame is handed out; in place of whoever was to be told before.
    /// A background writer with nothing to do sleeps on it.
    pub fn notify_on_allocation(&self, sleeper: Arc<dyn Event>) {
        self.replacement().sleeper = Some(sleeper);
    }

    /// Whether the page is in the pool at this moment; by the next one it may not be.
    #[must_use]
    pub fn holds(&self, identity: PageIdentity) -> bool {
        let hash = hash(identity);
        let partition = self.table.partition(hash);
        self.table.find_locked(&self.frames, &partition, hash, identity).is_some()
    }

    pub(super) fn replacement(&self) -> MutexGuard<'_, Replacement> {
        lock(&self.replacement)
    }

    #[inline]
    pub(super) fn frame(&self, number: u32) -> &Frame {
        &self.frames[number as usize]
    }

    /// Gives a pin back and wakes whoever waited for that.
    #[inline]
    pub(super) fn unpin(&self, number: u32, was_locked: bool) {
        let before = self.frame(number).state.fetch_sub(1, Ordering::AcqRel);
        if before & (LOCK_WAITERS | PIN_WAITERS) != 0 {
            self.wake(number, before, was_locked);
        }
    }

    #[cold]
    fn wake(&self, number: u32, before: u64, was_locked: bool) {
        let frame = self.frame(number);
        if was_locked && before & LOCK_WAITERS != 0 {
            self.queues.wake_lock(frame, number);
        }
        if before & PIN_WAITERS != 0 && before & PINS <= 2 {
            self.queues.wake_all(frame, number, For::Pins);
        }
    }

    /// A content lock was given back, while the frame stays pinned.
    pub(super) fn unlocked(&self, number: u32) {
        // A change of the word that changes nothing: see `waiting`.
        let state = self.frame(number).state.fetch_or(0, Ordering::AcqRel);
        if state & LOCK_WAITERS != 0 {
            self.queues.wake_lock(self.frame(number), number);
        }
    }

    /// Ends the counting of a worker.
    pub(super) fn forget_counters(&self, counters: &Arc<Counters>) {
        let mut counted = lock(&self.counted);
        counted.live.retain(|live| !Arc::ptr_eq(live, counters));
        counters.add_to(&counted.ended);
    }

    /// Checks what must hold when no task is at work: for tests.
    ///
    /// # Errors
    /// The first thing that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut valid = 0;
        for (number, frame) in (0_u32..).zip(&self.frames) {
            let state = frame.state.load(Ordering::Acquire);
            if state & PINS != 0 {
                return Err(format!("frame {number} has {} pins", state & PINS));
            }
            if state & VALID == 0 {
                if state != 0 {
                    return Err(format!("frame {number} is empty and has flags {state:x}"));
                }
                continue;
            }
            if state & !(VALID | DIRTY | super::descriptor::RING) != 0 {
                return Err(format!("frame {number} has flags of work in progress: {state:x}"));
            }
            valid += 1;
            let identity = frame.identity();
            let hash = hash(identity);
            let partition = self.table.partition(hash);
            let found = self.table.find_locked(&self.frames, &partition, hash, identity);
            if found != Some(number) {
                return Err(format!("frame {number} holds {identity}, which is in {found:?}"));
            }
        }
        for partition in self.table.each_partition() {
            if let Some(loading) = partition.first() {
                return Err(format!("{} is on its way in for ever", loading.identity));
            }
        }
        if !lock(&self.extensions).is_empty() {
            return Err("a relation is being extended for ever".to_owned());
        }
        let replacement = self.replacement();
        let mut free = replacement.free.clone();
        free.sort_unstable();
        free.dedup();
        if free.len() + valid != self.frames.len() || free.len() != replacement.free.len() {
            return Err(format!(
                "{valid} frames hold pages and {} of {} are free",
                replacement.free.len(),
                self.frames.len()
            ));
        }
        if replacement.policy.resident() as usize != valid {
            let resident = replacement.policy.resident();
            return Err(format!("the policy counts {resident} pages, the pool {valid}"));
        }
        replacement.policy.check()
    }
}

/// The pool, as a victim search sees it. What is taken has a pin of the searcher's.
pub(super) struct Offers<'a> {
    pub(super) frames: &'a [Frame],
    /// Dirty candidates that may still be passed.
    pub(super) dirty_left: u32,
    pub(super) has_passed: bool,
}

impl evenkeel_replacement::policy::Candidates for Offers<'_> {
    fn is_pinned(&mut self, frame: FrameId) -> bool {
        let state = |frame: &Frame| frame.state.load(Ordering::Relaxed);
        self.frames.get(frame.0 as usize).is_none_or(|frame| state(frame) & (PINS | VALID) != VALID)
    }

    fn offer(&mut self, frame: FrameId) -> evenkeel_replacement::policy::Answer {
        use evenkeel_replacement::policy::Answer;
        let Some(frame) = self.frames.get(frame.0 as usize) else { return Answer::Pinned };
        if self.dirty_left > 0 && frame.state.load(Ordering::Relaxed) & (DIRTY | WRITING) != 0 {
            self.dirty_left -= 1;
            self.has_passed = true;
            return Answer::Dirty;
        }
        frame.try_pin_alone().map_or(Answer::Pinned, |_| Answer::Take)
    }
}

impl Role {
    /// Who is said to have written a page that was written to have its frame, or to have it clean.
    pub(super) const fn write_cause(self) -> WriteCause {
        match self {
            Self::Client => WriteCause::Client,
            Self::BackgroundWriter => WriteCause::BackgroundWriter,
            Self::Checkpointer => WriteCause::Checkpointer,
        }
    }
}
