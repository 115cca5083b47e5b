//! What the pool counts: what `pg_stat_bgwriter` and `pg_stat_io` show, and what they lack.
//!
//! Each worker counts for itself in words that only it writes, so that counting a hit costs neither a
//! lock nor a fight over a cache line. Whoever asks adds them up.

use evenkeel_replacement::policy::PolicyStatistics;

use crate::page::PageKind;
use crate::sync::atomic::{AtomicU64, Ordering};

/// For whom a worker works; decides who is said to have written a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A client's task.
    Client,
    /// The background writer.
    BackgroundWriter,
    /// The checkpointer.
    Checkpointer,
}

/// How a page was asked for: `pg_stat_io`'s contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Without a ring.
    Normal,
    /// Through the ring of a large scan.
    BulkRead,
    /// Through the ring of a bulk write.
    BulkWrite,
    /// Through the ring of vacuum.
    Vacuum,
}

impl Context {
    /// All contexts, with `pg_stat_io`'s word for each.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Normal, "normal"),
        (Self::BulkRead, "bulkread"),
        (Self::BulkWrite, "bulkwrite"),
        (Self::Vacuum, "vacuum"),
    ];
}

/// Why a page was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteCause {
    /// A client needed its frame: `buffers_backend` without extensions.
    Client,
    /// A ring needed its frame.
    Ring,
    /// The background writer: `buffers_clean`.
    BackgroundWriter,
    /// The checkpointer: `buffers_checkpoint`.
    Checkpointer,
    /// Its relation was flushed.
    Flush,
}

impl WriteCause {
    /// All causes, with a word for each.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Client, "client"),
        (Self::Ring, "ring"),
        (Self::BackgroundWriter, "background writer"),
        (Self::Checkpointer, "checkpointer"),
        (Self::Flush, "flush"),
    ];
}

/// Kinds of pages, and in place 0 those that have none.
const KINDS: usize = 16;
const CONTEXTS: usize = Context::ALL.len();
const CAUSES: usize = WriteCause::ALL.len();

/// Counts of one worker, or of all that have ended.
#[derive(Debug, Default)]
pub(super) struct Counters {
    hits: [[AtomicU64; KINDS]; CONTEXTS],
    reads: [[AtomicU64; KINDS]; CONTEXTS],
    writes: [AtomicU64; CAUSES],
    pub(super) allocations: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) reuses: AtomicU64,
    pub(super) rejections: AtomicU64,
    pub(super) victim_was_dirty: AtomicU64,
    pub(super) victims_refused: AtomicU64,
    pub(super) extends: AtomicU64,
    pub(super) writebacks: AtomicU64,
    pub(super) read_failures: AtomicU64,
    pub(super) write_failures: AtomicU64,
}

/// Adds one to a count that only the caller writes: no atomic addition is needed.
#[inline]
pub(super) fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counters {
    #[inline]
    pub(super) fn hit(&self, context: Context, kind: u8) {
        add(&self.hits[context as usize][usize::from(kind) % KINDS], 1);
    }

    pub(super) fn read(&self, context: Context, kind: u8) {
        add(&self.reads[context as usize][usize::from(kind) % KINDS], 1);
    }

    pub(super) fn write(&self, cause: WriteCause) {
        add(&self.writes[cause as usize], 1);
    }

    fn singles(&self) -> [&AtomicU64; 10] {
        [
            &self.allocations,
            &self.evictions,
            &self.reuses,
            &self.rejections,
            &self.victim_was_dirty,
            &self.victims_refused,
            &self.extends,
            &self.writebacks,
            &self.read_failures,
            &self.write_failures,
        ]
    }

    fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        let tables = self.hits.iter().chain(&self.reads).flatten();
        tables.chain(&self.writes).chain(self.singles())
    }

    /// Adds all counts to `sums`, which only the caller writes meanwhile.
    pub(super) fn add_to(&self, sums: &Self) {
        for (count, sum) in self.all().zip(sums.all()) {
            add(sum, count.load(Ordering::Relaxed));
        }
    }

    /// The figures, with what the policy says.
    pub(super) fn figures(&self, policy: PolicyStatistics, usage: Vec<u64>) -> PoolStatistics {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let table = |counts: &[[AtomicU64; KINDS]; CONTEXTS]| {
            std::array::from_fn(|context| std::array::from_fn(|kind| of(&counts[context][kind])))
        };
        PoolStatistics {
            hits: table(&self.hits),
            reads: table(&self.reads),
            writes: std::array::from_fn(|cause| of(&self.writes[cause])),
            buffers_alloc: of(&self.allocations),
            evictions: of(&self.evictions),
            ring_reuses: of(&self.reuses),
            ring_rejections: of(&self.rejections),
            victim_was_dirty: of(&self.victim_was_dirty),
            victims_refused: of(&self.victims_refused),
            extends: of(&self.extends),
            writebacks: of(&self.writebacks),
            read_failures: of(&self.read_failures),
            write_failures: of(&self.write_failures),
            policy,
            usage_histogram: usage,
        }
    }
}

/// Counts since the pool was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    hits: [[u64; KINDS]; CONTEXTS],
    reads: [[u64; KINDS]; CONTEXTS],
    writes: [u64; CAUSES],
    /// Frames taken for pages that came in, reuse by rings excluded: PostgreSQL's `buffers_alloc`.
    pub buffers_alloc: u64,
    /// Pages that left because their frame was needed, reuse by rings excluded.
    pub evictions: u64,
    /// Frames that a ring used again.
    pub ring_reuses: u64,
    /// Dirty pages that a scan's ring left alone since they would have needed a log flush.
    pub ring_rejections: u64,
    /// Evictions that had to write their page first: each is a miss that waited for a write.
    pub victim_was_dirty: u64,
    /// Victims that were used again, or could not be written, before they were empty.
    pub victims_refused: u64,
    /// Pages made at the end of a relation.
    pub extends: u64,
    /// Pages whose writing the system was asked to begin.
    pub writebacks: u64,
    /// Reads that failed.
    pub read_failures: u64,
    /// Writes that failed; their pages stayed dirty.
    pub write_failures: u64,
    /// What the policy counts: searches, frames looked at, ghosts met.
    pub policy: PolicyStatistics,
    /// Resident frames by usage count, as the policy has it.
    pub usage_histogram: Vec<u64>,
}

fn place(kind: Option<PageKind>) -> usize {
    kind.map_or(0, |kind| usize::from(kind.number()) % KINDS)
}

impl PoolStatistics {
    /// Pages found in the pool, by context and kind; `None` is the kind of pages never written. A
    /// page's kind is what it was when somebody last locked it.
    #[must_use]
    pub fn hits(&self, context: Context, kind: Option<PageKind>) -> u64 {
        self.hits[context as usize][place(kind)]
    }

    /// Pages read from disk, by context and kind.
    #[must_use]
    pub fn reads(&self, context: Context, kind: Option<PageKind>) -> u64 {
        self.reads[context as usize][place(kind)]
    }

    /// All pages found in the pool.
    #[must_use]
    pub fn hits_total(&self) -> u64 {
        self.hits.iter().flatten().sum()
    }

    /// All pages read from disk.
    #[must_use]
    pub fn reads_total(&self) -> u64 {
        self.reads.iter().flatten().sum()
    }

    /// The share of pages of a kind that were found, in all contexts; `None` when none was asked for.
    #[must_use]
    pub fn hit_ratio(&self, kind: Option<PageKind>) -> Option<f64> {
        let sum = |table: &[[u64; KINDS]; CONTEXTS]| -> u64 {
            table.iter().map(|kinds| kinds[place(kind)]).sum()
        };
        let (hits, reads) = (sum(&self.hits), sum(&self.reads));
        (hits + reads > 0).then(|| hits as f64 / (hits + reads) as f64)
    }

    /// Pages written, by cause.
    #[must_use]
    pub const fn writes(&self, cause: WriteCause) -> u64 {
        self.writes[cause as usize]
    }

    /// Frames looked at for each victim found; `None` when none was.
    #[must_use]
    pub fn sweep_steps_per_victim(&self) -> Option<f64> {
        let PolicyStatistics { victims, sweep_steps, .. } = self.policy;
        (victims > 0).then(|| sweep_steps as f64 / victims as f64)
    }
}
