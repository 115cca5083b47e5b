//! What the log does in the background: segments ahead of need, and syncs that nobody waits for.

use super::Wal;
use super::error::WalError;
use crate::page::Lsn;
use crate::sync::atomic::Ordering;

/// Segments ready beyond the ballast: one is being filled with zeros while another is being used up.
const SEGMENTS_AHEAD: u64 = 2;

impl Wal {
    /// Asks the worker to make the log durable up to `up_to` soon (`synchronous_commit` off).
    pub fn flush_in_background(&self, up_to: Lsn) {
        self.requested.fetch_max(up_to.min(self.end()).0, Ordering::SeqCst);
        // Either this sees the flag, or the worker sees the request: both sides are SeqCst.
        if self.is_worker_idle.load(Ordering::SeqCst)
            && self.is_worker_idle.swap(false, Ordering::SeqCst)
        {
            self.wake.notify();
        }
    }

    /// Does one piece of what is due; false when nothing is. In a simulation this is the worker.
    ///
    /// # Errors
    /// As [`Wal::flush`]; `Full`, `Vfs` when no segment could be made ready, which is tried again by who
    /// needs it.
    pub fn step(&self) -> Result<bool, WalError> {
        Ok(self.flush_requested()? || self.prepare_ahead()?)
    }

    /// The worker: does what is due until [`Wal::stop`] or until the instance ends.
    ///
    /// # Errors
    /// What ended the instance.
    pub fn run(&self) -> Result<(), WalError> {
        loop {
            self.prepare_while_space()?;
            if self.flush_requested()? {
                // Rather one sync for many than many; but segments are made ready meanwhile.
                let delay_nanos = self.settings.writer_delay_ms.saturating_mul(1_000_000);
                let deadline = self.runtime.now().plus_nanos(delay_nanos);
                while !self.is_stopping() && self.wake.wait_until(Some(deadline)) {
                    self.prepare_while_space()?;
                }
                continue;
            }
            if self.is_stopping() {
                return Ok(());
            }
            self.is_worker_idle.store(true, Ordering::SeqCst);
            if !self.has_request() {
                self.wake.wait_until(None);
            }
            self.is_worker_idle.store(false, Ordering::SeqCst);
            self.check()?;
        }
    }

    /// Ends [`Wal::run`] once nothing is due.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.wake.notify();
    }

    /// Called by who has used up some of the log. One call wakes the worker until it has made segments.
    pub(super) fn wake_for_segments(&self, end: Lsn) {
        if self.wants_segments(end)
            && !self.are_segments_asked.load(Ordering::Relaxed)
            && !self.are_segments_asked.swap(true, Ordering::SeqCst)
        {
            self.wake.notify();
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn has_request(&self) -> bool {
        Lsn(self.requested.load(Ordering::SeqCst)) > self.durable()
    }

    fn flush_requested(&self) -> Result<bool, WalError> {
        let is_due = self.has_request();
        if is_due {
            self.flush(Lsn(self.requested.load(Ordering::SeqCst)))?;
        }
        Ok(is_due)
    }

    fn wants_segments(&self, end: Lsn) -> bool {
        let ahead = (1 + SEGMENTS_AHEAD).saturating_mul(self.geometry().payload_bytes());
        self.ready.load(Ordering::Acquire) < end.0.saturating_add(ahead)
    }

    fn prepare_ahead(&self) -> Result<bool, WalError> {
        let is_due = self.wants_segments(self.end());
        if is_due {
            self.prepare_up_to(Lsn(self.ready.load(Ordering::Acquire) + 1))?;
        }
        // Not after an error: the worker does not try again for each record.
        self.are_segments_asked.store(false, Ordering::SeqCst);
        Ok(is_due)
    }

    /// Without space for segments ahead, who needs one tries, and gets the error.
    fn prepare_while_space(&self) -> Result<(), WalError> {
        loop {
            match self.prepare_ahead() {
                Ok(true) => {}
                Ok(false) | Err(WalError::Full(_) | WalError::Vfs(_)) => return self.check(),
                Err(error) => return Err(error),
            }
        }
    }
}
