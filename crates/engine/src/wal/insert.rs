//! From a record to the ring: reserve a range, fill it, say so.
//!
//! PostgreSQL's `XLogInsertRecord` (`access/transam/xlog.c`) reserves under a spinlock as this does, and then
//! says by one of eight insertion locks how far it got; here the ring's own counters say it.

use super::Wal;
use super::error::WalError;
use super::position::{GROUP_ALIGNMENT_BYTES, LAST, group_start};
use super::record::{
    HEADER_BYTES, ImageUse, ManagerNumber, NewBlock, NewRecord, RecordBuffer, Replay, TooLarge,
};
use super::statistics::{WalStatistics, add};
use crate::page::{Header, Lsn};
use crate::sync::atomic::Ordering;
use crate::sync::lock;

/// The log's own records.
pub const LOG_MANAGER: ManagerNumber = ManagerNumber(0);

/// The log's record that ends a group; its data is the watermark (rule W5).
pub const MARK: u8 = 1;

const MARK_BYTES: u64 = HEADER_BYTES as u64 + 8;

/// What the end of a group takes at most: a mark, and zeros to the end of its sector.
const GROUP_END_BYTES: u64 = MARK_BYTES.next_multiple_of(8) + GROUP_ALIGNMENT_BYTES;

/// Where a record was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Its start.
    pub start: Lsn,
    /// Its end: the LSN for the pages that it changed.
    pub end: Lsn,
}

/// What was given out.
pub(super) struct Reservation {
    next: Lsn,
    previous: Lsn,
    /// Where the last group ended; `next` is the same while nothing has come since.
    closed: Lsn,
    counted: WalStatistics,
}

impl Reservation {
    pub(super) fn new(next: Lsn, previous: Lsn) -> Self {
        Self { next, previous, closed: next, counted: WalStatistics::default() }
    }

    pub(super) const fn next(&self) -> Lsn {
        self.next
    }

    pub(super) const fn counted(&self) -> &WalStatistics {
        &self.counted
    }

    /// Gives out a range for a record; says where the record before begins.
    fn take(&mut self, bytes: u64) -> (Inserted, Lsn) {
        let start = self.next;
        let end = Lsn(start.0 + bytes);
        self.next = end;
        (Inserted { start, end }, std::mem::replace(&mut self.previous, start))
    }
}

/// What keeps a record from being given a range.
enum Obstacle {
    Redo,
    Ring,
    Segment,
}

impl Wal {
    /// Logs a change. Its pages are locked by the caller until they bear the record's end as LSN. The record
    /// is durable once [`Wal::flush`] up to its end has returned.
    ///
    /// # Errors
    /// `TooLarge`; `Full` when segments cannot be made ready: nothing is logged then. `Poisoned`.
    pub fn insert(
        &self,
        buffer: &mut RecordBuffer,
        record: &NewRecord<'_>,
    ) -> Result<Inserted, WalError> {
        self.insert_leaving(self.geometry().payload_bytes(), buffer, record)
    }

    /// Logs what must still be logged when the disk is full, into the ballast (rule W13).
    ///
    /// # Errors
    /// As [`Wal::insert`].
    pub fn insert_urgent(
        &self,
        buffer: &mut RecordBuffer,
        record: &NewRecord<'_>,
    ) -> Result<Inserted, WalError> {
        self.insert_leaving(GROUP_END_BYTES, buffer, record)
    }

    fn insert_leaving(
        &self,
        left_bytes: u64,
        buffer: &mut RecordBuffer,
        record: &NewRecord<'_>,
    ) -> Result<Inserted, WalError> {
        loop {
            self.check()?;
            let redo = self.redo();
            buffer.encode(record, self.incarnation, |block| self.image_use(block, redo))?;
            let bytes = buffer.rounded_bytes();
            if bytes > self.ring.bytes() / 2 {
                let most = usize::try_from(self.ring.bytes() / 2).unwrap_or(usize::MAX);
                let found = usize::try_from(bytes).unwrap_or(usize::MAX);
                return Err(
                    TooLarge { what: "with half of wal_buffers has bytes:", found, most }.into()
                );
            }
            let mut reservation = lock(&self.reservation);
            let end = Lsn(reservation.next.0 + bytes);
            if end > LAST {
                return Err(WalError::Ended);
            }
            if let Some(obstacle) = self.obstacle(end, redo, left_bytes) {
                drop(reservation);
                match obstacle {
                    Obstacle::Redo => {}
                    Obstacle::Ring => self.make_room(end)?,
                    Obstacle::Segment => {
                        add(&self.counters.segment_waits, 1);
                        self.prepare_up_to(Lsn(end.0.saturating_add(left_bytes)))?;
                    }
                }
                continue;
            }
            let (inserted, previous) = reservation.take(bytes);
            let counted = &mut reservation.counted;
            counted.records += 1;
            counted.record_bytes += bytes;
            counted.full_page_images += u64::from(buffer.images());
            counted.image_bytes += buffer.image_bytes();
            drop(reservation);
            // Rule W14: nothing waits from here to the end.
            self.ring.fill(inserted.start, buffer.seal(inserted.start, previous, self.database));
            self.say_filled();
            self.wake_for_segments(inserted.end);
            return Ok(inserted);
        }
    }

    fn image_use(&self, block: &NewBlock<'_>, redo: Lsn) -> ImageUse {
        let is_first = || Header::read(block.page).lsn <= redo;
        match block.replay {
            Replay::Image => ImageUse::Restore,
            // Rule W12.
            Replay::Repeat if self.settings.full_page_writes && is_first() => ImageUse::Restore,
            Replay::Repeat | Replay::MakeAnew if self.settings.check_images => ImageUse::Check,
            Replay::Repeat | Replay::MakeAnew => ImageUse::None,
        }
    }

    fn obstacle(&self, end: Lsn, redo: Lsn, left_bytes: u64) -> Option<Obstacle> {
        if self.redo() != redo {
            return Some(Obstacle::Redo);
        }
        if !self.has_room(end) {
            return Some(Obstacle::Ring);
        }
        let wanted = end.0.saturating_add(left_bytes);
        (wanted > self.ready.load(Ordering::Acquire)).then_some(Obstacle::Segment)
    }

    /// Whether the ring can be filled up to `end`, and the group be ended behind.
    pub(super) fn has_room(&self, end: Lsn) -> bool {
        end.0 + GROUP_END_BYTES <= self.written.load(Ordering::Acquire) + self.ring.bytes()
    }

    fn say_filled(&self) {
        if self.wants_filled.load(Ordering::SeqCst) {
            self.filled.notify();
        }
    }

    /// Ends the group with a mark and the sector with zeros (rules W4, W5); says where. Nothing is done when
    /// nothing has come since the last group. The caller holds `writing`, so that only one group at a time
    /// is closed and not written: `has_room` left space for that one.
    pub(super) fn close_group(&self) -> Result<Lsn, WalError> {
        let watermark = self.durable().0.to_le_bytes();
        let mark = NewRecord {
            manager: LOG_MANAGER,
            info: MARK,
            transaction: 0,
            blocks: &[],
            data: &[&watermark],
        };
        let mut buffer = RecordBuffer::new();
        buffer.encode(&mark, self.incarnation, |_| ImageUse::None)?;
        let mut reservation = lock(&self.reservation);
        if reservation.next == reservation.closed {
            return Ok(reservation.closed);
        }
        let (inserted, previous) = reservation.take(buffer.rounded_bytes());
        let closed = group_start(inserted.end);
        (reservation.next, reservation.closed) = (closed, closed);
        reservation.counted.groups += 1;
        reservation.counted.group_bytes += closed.0 - inserted.start.0;
        drop(reservation);
        self.ring.fill(inserted.start, buffer.seal(inserted.start, previous, self.database));
        self.ring.fill_zeros(inserted.end, closed.0 - inserted.end.0);
        Ok(closed)
    }

    /// Ends the sector and makes its end the redo point; says the start of the last record before. The
    /// caller holds `writing`.
    pub(super) fn place_redo(&self) -> (Lsn, Lsn) {
        let mut reservation = lock(&self.reservation);
        let from = reservation.next;
        let redo = group_start(from);
        // A group that is closed ends its sector, so that `from` is `redo` then.
        reservation.next = redo;
        reservation.counted.group_bytes += redo.0 - from.0;
        let previous = reservation.previous;
        // Under the lock: who gets a position behind it has seen it, or looks again.
        self.redo.store(redo.0, Ordering::Release);
        drop(reservation);
        self.ring.fill_zeros(from, redo.0 - from.0);
        (redo, previous)
    }
}
