//! What the log counts.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A wait from which on it counts as long: what a person notices, and what PostgreSQL's authors looked for
/// when they counted long waits in `slru.c`.
pub const LONG_WAIT_NANOS: u64 = 100_000_000;

/// Counts since the log was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalStatistics {
    /// Records, marks not counted.
    pub records: u64,
    /// Bytes of these records, rounded up to 8.
    pub record_bytes: u64,
    /// Images among them.
    pub full_page_images: u64,
    /// Bytes of these images, without holes.
    pub image_bytes: u64,
    /// Groups that were closed.
    pub groups: u64,
    /// Bytes of marks and of the zeros that end a sector.
    pub group_bytes: u64,
    /// Writes to the system.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of segments.
    pub syncs: u64,
    /// Time spent in them.
    pub sync_nanos: u64,
    /// Calls of `flush` that found the log not durable far enough.
    pub flushes: u64,
    /// Those among them for which another's sync did.
    pub flushes_shared: u64,
    /// How long they took in all.
    pub flush_nanos: u64,
    /// How long one took at most.
    pub flush_nanos_max: u64,
    /// Those of 100 ms or more.
    pub flushes_long: u64,
    /// Insertions that had to write first, since the ring was full.
    pub ring_waits: u64,
    /// Insertions that had to make a segment ready first.
    pub segment_waits: u64,
    /// Segments made of zeros.
    pub segments_made: u64,
    /// Segments used again.
    pub segments_recycled: u64,
    /// Segments removed.
    pub segments_removed: u64,
}

/// Counters that several tasks raise.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) sync_nanos: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) flushes_shared: AtomicU64,
    pub(super) flush_nanos: AtomicU64,
    pub(super) flush_nanos_max: AtomicU64,
    pub(super) flushes_long: AtomicU64,
    pub(super) ring_waits: AtomicU64,
    pub(super) segment_waits: AtomicU64,
    pub(super) segments_made: AtomicU64,
    pub(super) segments_recycled: AtomicU64,
    pub(super) segments_removed: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn count_flush(&self, nanos: u64, is_shared: bool) {
        add(&self.flushes, 1);
        add(&self.flushes_shared, u64::from(is_shared));
        add(&self.flush_nanos, nanos);
        add(&self.flushes_long, u64::from(nanos >= LONG_WAIT_NANOS));
        self.flush_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Adds them to what is counted under the lock of insertion.
    pub(super) fn complete(&self, inserted: &WalStatistics) -> WalStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WalStatistics {
            writes: read(&self.writes),
            written_bytes: read(&self.written_bytes),
            syncs: read(&self.syncs),
            sync_nanos: read(&self.sync_nanos),
            flushes: read(&self.flushes),
            flushes_shared: read(&self.flushes_shared),
            flush_nanos: read(&self.flush_nanos),
            flush_nanos_max: read(&self.flush_nanos_max),
            flushes_long: read(&self.flushes_long),
            ring_waits: read(&self.ring_waits),
            segment_waits: read(&self.segment_waits),
            segments_made: read(&self.segments_made),
            segments_recycled: read(&self.segments_recycled),
            segments_removed: read(&self.segments_removed),
            ..*inserted
        }
    }
}
