//! Small rings of frames, so that a large scan, a bulk write or vacuum does not empty the pool.
//!
//! Source: PostgreSQL's `freelist.c` (BufferAccessStrategy), versions 15 to 18. Differences: "somebody
//! else likes the page" is a flag that a use without a ring clears, instead of a usage count above 1,
//! since counts belong to policies; it is not forgotten when the count would have sunk. A page that a
//! ring gives up leaves no ghost. The scan's ring does not grow with the number of reads in flight, as
//! it does from 18 on: there are none here.

use evenkeel_replacement::policy::FrameId;

use super::counters::{Context, WriteCause, add};
use super::descriptor::{DIRTY, NONE, RING};
use super::error::PoolError;
use super::pool::Pool;
use super::worker::Worker;
use super::writeback::{Patience, Written};
use crate::page::{Header, PAGE_BYTES};
use crate::sync::atomic::Ordering;

/// A sequential scan's ring: fits the second-level cache of its time.
const BULK_READ_BYTES: u64 = 256 * 1024;

/// A bulk write's ring: large enough that log flushes are seldom needed for its pages.
const BULK_WRITE_BYTES: u64 = 16 * 1024 * 1024;

/// No ring has more than this share of the pool.
const SHARE_MAX: u32 = 8;

/// A scan of a relation larger than this share of the pool uses a ring.
const SCAN_SHARE: u32 = 4;

/// Frames that one task uses again and again.
#[derive(Debug)]
pub struct Ring {
    context: Context,
    numbers: Box<[u32]>,
    at: usize,
}

impl Ring {
    fn new(context: Context, bytes: u64, frames: u32) -> Self {
        let wanted = u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX);
        // A pool too small for a ring has one without frames: its pages still count as a ring's.
        let count = wanted.min(frames / SHARE_MAX);
        Self { context, numbers: (0..count).map(|_| NONE).collect(), at: 0 }
    }

    pub(super) const fn context(&self) -> Context {
        self.context
    }

    /// How many frames it has.
    #[must_use]
    pub const fn frames(&self) -> usize {
        self.numbers.len()
    }

    /// Moves on, and says which frame is there.
    fn advance(&mut self) -> Option<u32> {
        self.at += 1;
        if self.at >= self.numbers.len() {
            self.at = 0;
        }
        self.numbers.get(self.at).copied().filter(|number| *number != NONE)
    }

    /// Puts a frame where the ring stands.
    pub(super) fn remember(&mut self, number: u32) {
        if let Some(place) = self.numbers.get_mut(self.at) {
            *place = number;
        }
    }
}

impl Pool {
    /// The ring for a sequential scan of a relation of `blocks`; `None` when it is small enough for the
    /// pool.
    #[must_use]
    pub fn scan_ring(&self, blocks: u32) -> Option<Ring> {
        let frames = self.settings.frames;
        (blocks > frames / SCAN_SHARE)
            .then(|| Ring::new(Context::BulkRead, BULK_READ_BYTES, frames))
    }

    /// The ring for a bulk write.
    #[must_use]
    pub fn bulk_write_ring(&self) -> Ring {
        Ring::new(Context::BulkWrite, BULK_WRITE_BYTES, self.settings.frames)
    }

    /// The ring for vacuum; `None` when its size is set to 0.
    #[must_use]
    pub fn vacuum_ring(&self) -> Option<Ring> {
        let bytes = self.settings.vacuum_ring_bytes;
        (bytes > 0).then(|| Ring::new(Context::Vacuum, bytes, self.settings.frames))
    }
}

impl Worker {
    /// Empties the ring's next frame, if nobody else wants its page.
    pub(super) fn reuse(&self, ring: &mut Ring) -> Result<Option<u32>, PoolError> {
        let Some(number) = ring.advance() else { return Ok(None) };
        let frame = self.pool.frame(number);
        let Some(state) = frame.try_pin_alone() else { return Ok(None) };
        let is_emptied =
            if state & RING == 0 { Ok(false) } else { self.empty_of_ring(ring, number) };
        self.pool.unpin(number, false);
        Ok(is_emptied?.then(|| {
            add(&self.counters.reuses, 1);
            number
        }))
    }

    fn empty_of_ring(&self, ring: &Ring, number: u32) -> Result<bool, PoolError> {
        let frame = self.pool.frame(number);
        if frame.state.load(Ordering::Acquire) & DIRTY != 0 {
            if ring.context == Context::BulkRead {
                // A scan that meets dirty pages must not wait for the log: rather take another frame.
                let Some(bytes) = frame.try_shared() else { return Ok(false) };
                let lsn = Header::read(&bytes).lsn;
                drop(bytes);
                if lsn > self.pool.with.log.durable() {
                    add(&self.counters.rejections, 1);
                    return Ok(false);
                }
            }
            if self.write_out(number, WriteCause::Ring, Patience::None)? == Written::Busy {
                return Ok(false);
            }
        }
        Ok(self.invalidate(number, 1, false, |policy| policy.forget_frame(FrameId(number))))
    }
}
