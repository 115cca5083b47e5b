//! What a checkpoint asks of the log: a redo point, its publication, and the segments it sets free.

use super::Wal;
use super::control::Control;
use super::error::WalError;
use super::statistics::add;
use crate::page::Lsn;
use crate::sync::atomic::Ordering;

/// Where replay would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoPoint {
    /// Its position.
    pub redo: Lsn,
    /// The start of the last record before it.
    pub previous: Lsn,
}

impl Wal {
    /// Places a redo point at the end of the log. From here on the first change of each page carries an
    /// image (rule W12). The caller writes and syncs everything that was changed before, and then calls
    /// [`Wal::publish_redo`].
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn place_redo_point(&self) -> Result<RedoPoint, WalError> {
        let _writing = self.writing.enter();
        self.check()?;
        let (redo, previous) = self.place_redo();
        self.write_up_to(redo)?;
        Ok(RedoPoint { redo, previous })
    }

    /// Makes a redo point the one that recovery begins at, durably, and gives up the segments before it.
    /// Everything changed before it must be durable in pages.
    ///
    /// # Errors
    /// `CommitUnknown`, `Poisoned`; `Vfs` when a segment could not be given up: the redo point counts.
    pub fn publish_redo(&self, point: RedoPoint, next_transaction: u64) -> Result<(), WalError> {
        self.flush(point.redo)?;
        {
            let _controlling = self.controlling.enter();
            self.check()?;
            let control = Control {
                redo: point.redo,
                previous: point.previous,
                durable: self.durable(),
                next_transaction,
                ..self.control.current()
            };
            self.control.write(&control).map_err(|error| self.poisoned_by(error))?;
        }
        self.give_up_segments(point.redo)
    }

    /// Uses the segments before `redo` again for what comes, as many as `min_wal_bytes` says, and removes
    /// the others.
    fn give_up_segments(&self, redo: Lsn) -> Result<(), WalError> {
        let _preparing = self.preparing.enter();
        let geometry = self.geometry();
        let (first_needed, _) = geometry.place(redo);
        let (current, _) = geometry.place(self.end());
        let (mut next, _) = geometry.place(Lsn(self.ready.load(Ordering::Acquire)));
        let mut recycled = 0;
        for old in self.segments.existing()?.range(..first_needed) {
            let ahead_bytes = next.saturating_sub(current).saturating_mul(geometry.segment_bytes());
            if ahead_bytes < self.settings.min_wal_bytes {
                self.segments.recycle(*old, next)?;
                next += 1;
                recycled += 1;
            } else {
                self.segments.remove(*old)?;
                add(&self.counters.segments_removed, 1);
            }
        }
        if recycled > 0 {
            self.publish_segments(next)?;
            add(&self.counters.segments_recycled, recycled);
        }
        Ok(())
    }

    /// Makes segments of zeros ready until the log can go on to `end`.
    pub(super) fn prepare_up_to(&self, end: Lsn) -> Result<(), WalError> {
        let _preparing = self.preparing.enter();
        loop {
            let ready = Lsn(self.ready.load(Ordering::Acquire));
            if ready >= end {
                return Ok(());
            }
            self.check()?;
            let (segment, _) = self.geometry().place(ready);
            self.segments.prepare(segment)?;
            add(&self.counters.segments_made, 1);
            self.publish_segments(segment + 1)?;
        }
    }

    /// Says that all segments before `next` are ready, once their names are durable.
    fn publish_segments(&self, next: u64) -> Result<(), WalError> {
        self.segments.sync_names().map_err(|error| self.poisoned_by(error))?;
        self.ready.store(self.geometry().start_of(next).0, Ordering::Release);
        Ok(())
    }

    /// Makes ready what is there when the log starts at `start`, and one segment ahead; without space for
    /// that one, insertion will ask again.
    pub(super) fn adopt_segments(&self, start: Lsn) -> Result<(), WalError> {
        self.segments.remove_unfinished()?;
        let existing = self.segments.existing()?;
        let (first, _) = self.geometry().place(start);
        let mut next = first;
        if !self.segments.adopt(next)? {
            self.segments.prepare(next)?;
        }
        next += 1;
        while existing.contains(&next) && self.segments.adopt(next)? {
            next += 1;
        }
        for beyond in existing.range(next..) {
            self.segments.remove(*beyond)?;
        }
        self.publish_segments(next)?;
        self.give_up_segments(start)?;
        let ballast = self.geometry().start_of(first + 2);
        match self.prepare_up_to(ballast) {
            Err(WalError::Full(_)) => Ok(()),
            result => result,
        }
    }
}
