//! From the ring to the disk: writing, syncing, and one sync for all who wait.

use std::sync::Arc;

use super::Wal;
use super::error::WalError;
use super::position::GROUP_ALIGNMENT_BYTES;
use super::statistics::add;
use crate::page::Lsn;
use crate::runtime::Event;
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::vfs::VfsError;

/// What is written at once: enough that the call does not count, little enough to stay in a core's cache.
const WRITE_BYTES_MAX: u64 = 256 << 10;

/// Looks at the ring before waiting for an event: another core fills a range in less time than a wait takes.
const SPINS: u32 = 100;

/// Who waits for a sync.
#[derive(Default)]
pub(super) struct Committing {
    is_syncing: bool,
    waiting: Vec<Waiting>,
    /// Events that nobody waits for.
    spare: Vec<Arc<dyn Event>>,
}

struct Waiting {
    up_to: Lsn,
    event: Arc<dyn Event>,
}

/// The right to sync; when dropped, those whom the sync served are woken and one whom it did not.
struct Leading<'a>(&'a Wal);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        lock(&self.0.committing).is_syncing = false;
        self.0.wake_committing();
    }
}

impl Wal {
    /// Returns once the log is durable up to `up_to`. Of those who call while a sync is under way, one does
    /// the next for all.
    ///
    /// # Errors
    /// `CommitUnknown` when the write or the sync for it failed, `Poisoned` when an earlier one did,
    /// `BeyondEnd`.
    pub fn flush(&self, up_to: Lsn) -> Result<(), WalError> {
        self.check()?;
        if self.durable() >= up_to {
            return Ok(());
        }
        let end = self.end();
        if up_to > end {
            return Err(WalError::BeyondEnd { up_to, end });
        }
        let begin = self.runtime.now();
        let mut is_shared = true;
        let result = loop {
            let mut committing = lock(&self.committing);
            if self.durable() >= up_to {
                break Ok(());
            }
            if let Err(WalError::Poisoned(cause)) = self.check() {
                break Err(WalError::CommitUnknown { up_to, cause });
            }
            if !committing.is_syncing {
                committing.is_syncing = true;
                drop(committing);
                is_shared = false;
                let leading = Leading(self);
                let result = self.sync_group();
                drop(leading);
                match result {
                    Ok(()) => continue,
                    Err(WalError::Poisoned(cause)) => {
                        break Err(WalError::CommitUnknown { up_to, cause });
                    }
                    Err(error) => break Err(error),
                }
            }
            let event = committing.spare.pop().unwrap_or_else(|| self.runtime.event());
            committing.waiting.push(Waiting { up_to, event: Arc::clone(&event) });
            drop(committing);
            event.wait_until(None);
            lock(&self.committing).spare.push(event);
        };
        self.counters.count_flush(self.runtime.now().nanos_since(begin), is_shared);
        result
    }

    /// Closes a group, writes it, syncs it. The caller has the right to sync.
    fn sync_group(&self) -> Result<(), WalError> {
        let to = {
            let _writing = self.writing.enter();
            let to = self.close_group()?;
            self.write_up_to(to)?;
            to
        };
        // Without `writing`: the ring goes on being emptied during the sync.
        let begin = self.runtime.now();
        let synced = self.segments.sync(self.durable(), to);
        let syncs = synced.map_err(|error| self.poisoned_by(error))?;
        add(&self.counters.syncs, syncs);
        add(&self.counters.sync_nanos, self.runtime.now().nanos_since(begin));
        // Another failed meanwhile: what this sync proves is that much, but rule W9 ends the instance.
        self.check()?;
        self.durable.store(to.0, Ordering::Release);
        Ok(())
    }

    /// Wakes those who wait for what is durable now, and one more to do the next sync; all when the instance
    /// has ended.
    pub(super) fn wake_committing(&self) {
        let mut committing = lock(&self.committing);
        let durable = self.durable();
        let is_over = self.is_poisoned.load(Ordering::Acquire);
        let mut has_leader = committing.is_syncing;
        let mut woken = Vec::new();
        committing.waiting.retain(|waiting| {
            let wakes = is_over || waiting.up_to <= durable || !has_leader;
            has_leader |= waiting.up_to > durable;
            if wakes {
                woken.push(Arc::clone(&waiting.event));
            }
            !wakes
        });
        drop(committing);
        for event in woken {
            event.notify();
        }
    }

    /// Writes the ring's whole sectors, so that it can be filled up to `end`.
    pub(super) fn make_room(&self, end: Lsn) -> Result<(), WalError> {
        let _writing = self.writing.enter();
        self.check()?;
        if !self.has_room(end) {
            add(&self.counters.ring_waits, 1);
            let next = self.end().0;
            self.write_up_to(Lsn(next - next % GROUP_ALIGNMENT_BYTES))?;
        }
        Ok(())
    }

    /// Writes the log up to `to`, the end of a sector. The caller holds `writing`.
    pub(super) fn write_up_to(&self, to: Lsn) -> Result<(), WalError> {
        let mut staging = std::mem::take(&mut *lock(&self.staging));
        let result = self.write_pieces(to, &mut staging);
        *lock(&self.staging) = staging;
        // Rule W9: what of it is on the disk is not known.
        result.map_err(|error| self.poisoned_by(error))
    }

    fn write_pieces(&self, to: Lsn, staging: &mut Vec<u8>) -> Result<(), VfsError> {
        let mut from = Lsn(self.written.load(Ordering::Acquire));
        while from < to {
            let piece_end = Lsn(to.0.min(from.0 + WRITE_BYTES_MAX));
            self.wait_filled(from, piece_end);
            staging.resize(usize::try_from(piece_end.0 - from.0).unwrap_or(0), 0);
            self.ring.take(from, staging);
            self.segments.write(from, staging)?;
            add(&self.counters.writes, 1);
            add(&self.counters.written_bytes, staging.len() as u64);
            self.written.store(piece_end.0, Ordering::Release);
            from = piece_end;
        }
        Ok(())
    }

    /// Waits for those who have a range before `to` and have not filled it yet. Only who holds `writing`
    /// does, so that there is one event.
    fn wait_filled(&self, from: Lsn, to: Lsn) {
        let mut at = self.ring.filled_up_to(from, to);
        let mut spins = 0;
        while at < to && spins < SPINS {
            std::hint::spin_loop();
            spins += 1;
            at = self.ring.filled_up_to(at, to);
        }
        while at < to {
            // Either this sees what was filled, or who fills sees the flag: both sides are SeqCst.
            self.wants_filled.store(true, Ordering::SeqCst);
            at = self.ring.filled_up_to(at, to);
            if at < to {
                self.filled.wait_until(None);
            }
            self.wants_filled.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::{Clock, OsRuntime, Tasks, Waits};
    use crate::sync::atomic::{AtomicU64, Ordering};
    use crate::sync::lock;
    use crate::vfs::sim::{SimDisk, SyncAftermath, SyncFailure};
    use crate::vfs::{Entry, EntryKind, File, FileSystem, LockGuard, Name, OpenOptions, VfsError};
    use std::sync::Arc;

    use super::super::tests::{insert_plain, start_on};
    use super::super::{Wal, WalError};
    use super::*;

    /// A disk whose syncs of the log wait until they are let go, from a certain one on.
    struct Held {
        disk: SimDisk,
        is_held: Arc<crate::sync::atomic::AtomicBool>,
        arrived: Arc<AtomicU64>,
        release: Arc<dyn Event>,
    }

    struct HeldFile {
        file: Arc<dyn File>,
        of: Arc<Held>,
    }

    impl File for HeldFile {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError> {
            self.file.read_at(offset, buffer)
        }
        fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError> {
            self.file.write_at(offset, bytes)
        }
        fn length(&self) -> Result<u64, VfsError> {
            self.file.length()
        }
        fn set_length(&self, bytes: u64) -> Result<(), VfsError> {
            self.file.set_length(bytes)
        }
        fn allocate(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
            self.file.allocate(offset, bytes)
        }
        fn sync(&self) -> Result<(), VfsError> {
            if self.of.is_held.load(Ordering::SeqCst) {
                self.of.arrived.fetch_add(1, Ordering::SeqCst);
                self.of.release.wait_until(None);
            }
            self.file.sync()
        }
        fn start_writeback(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
            self.file.start_writeback(offset, bytes)
        }
    }

    struct HeldFiles(Arc<Held>);

    impl FileSystem for HeldFiles {
        fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError> {
            let file = self.0.disk.open(name, options)?;
            Ok(Arc::new(HeldFile { file, of: Arc::clone(&self.0) }))
        }
        fn create_directory(&self, name: &Name) -> Result<(), VfsError> {
            self.0.disk.create_directory(name)
        }
        fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError> {
            self.0.disk.rename(from, to)
        }
        fn remove(&self, name: &Name) -> Result<(), VfsError> {
            self.0.disk.remove(name)
        }
        fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError> {
            self.0.disk.list(directory)
        }
        fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError> {
            self.0.disk.find(name)
        }
        fn sync_directory(&self, directory: &Name) -> Result<(), VfsError> {
            self.0.disk.sync_directory(directory)
        }
        fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError> {
            self.0.disk.lock(name)
        }
        fn free_bytes(&self) -> Result<u64, VfsError> {
            self.0.disk.free_bytes()
        }
    }

    /// Looks until it is so.
    fn until(is_so: impl Fn() -> bool) {
        let runtime = OsRuntime::new();
        while !is_so() {
            runtime.sleep_until(runtime.now().plus_nanos(100_000));
        }
    }

    /// Eight committers: the first is held in its sync until the others wait, then let go.
    fn eight_committers(disk: &SimDisk, fails: bool) -> (Arc<Wal>, Vec<Result<(), WalError>>) {
        let runtime = OsRuntime::new();
        let held = Arc::new(Held {
            disk: disk.clone(),
            is_held: Arc::default(),
            arrived: Arc::default(),
            release: runtime.event(),
        });
        let wal = Arc::new(start_on(Arc::new(HeldFiles(held.clone()))));
        held.is_held.store(true, Ordering::SeqCst);
        if fails {
            disk.fail_sync(SyncFailure {
                prefix: "wal/".to_owned(),
                nth: 1,
                aftermath: SyncAftermath::Drop,
            });
        }
        let results = Arc::new(crate::sync::Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for committer in 0..8 {
            let (wal_of, results) = (wal.clone(), results.clone());
            let body = move || {
                let inserted = insert_plain(&wal_of, committer, 100).unwrap();
                let result = wal_of.flush(inserted.end);
                lock(&results).push(result);
            };
            tasks.push(runtime.spawn("committer", Box::new(body)).unwrap());
            if committer == 0 {
                until(|| held.arrived.load(Ordering::SeqCst) == 1);
            }
        }
        until(|| lock(&wal.committing).waiting.len() == 7);
        held.is_held.store(false, Ordering::SeqCst);
        held.release.notify();
        for task in tasks {
            task.join().unwrap();
        }
        let results = std::mem::take(&mut *lock(&results));
        (wal, results)
    }

    #[test]
    fn committers_that_come_during_a_sync_share_the_next_one() {
        let (wal, results) = eight_committers(&SimDisk::new(), false);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        let counted = wal.statistics();
        assert_eq!((counted.flushes, counted.syncs, counted.groups), (8, 2, 2));
        assert_eq!(counted.flushes_shared, 6);
        assert_eq!(wal.durable(), wal.end());
    }

    #[test]
    fn after_a_failed_sync_all_who_wait_get_an_unknown_commit_and_nothing_is_acknowledged() {
        let disk = SimDisk::new();
        let (wal, results) = eight_committers(&disk, true);
        assert_eq!(results.len(), 8);
        for result in results {
            let error = result.unwrap_err();
            assert!(matches!(error, WalError::CommitUnknown { .. }), "{error}");
        }
        let operations = disk.operations();
        assert!(matches!(wal.flush(wal.end()), Err(WalError::Poisoned(_))));
        assert!(matches!(insert_plain(&wal, 9, 10), Err(WalError::Poisoned(_))));
        assert!(matches!(wal.place_redo_point(), Err(WalError::Poisoned(_))));
        assert!(matches!(wal.step(), Err(WalError::Poisoned(_)) | Ok(false)));
        assert_eq!(disk.operations(), operations, "nothing was tried again");
    }
}
