#![doc = include_str!("README.md")]

mod checkpoint;
pub mod control;
mod error;
mod flush;
mod gate;
mod insert;
pub mod position;
pub mod reader;
pub mod record;
mod ring;
pub mod rmgr;
pub mod segment;
mod statistics;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

pub use checkpoint::RedoPoint;
pub use error::WalError;
pub use insert::{Inserted, LOG_MANAGER, MARK};
pub use statistics::{LONG_WAIT_NANOS, WalStatistics};

use self::control::{Control, ControlStore};
use self::flush::Committing;
use self::gate::Gate;
use self::insert::Reservation;
use self::ring::Ring;
use self::segment::{Geometry, Segments};
use self::statistics::Counters;
use crate::page::{DatabaseId, Lsn};
use crate::runtime::{Event, Runtime};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use crate::vfs::{FileSystem, VfsError};

/// The ring must hold two records of some size and the end of a group.
pub const RING_BYTES_MIN: usize = 16 << 10;

/// What can differ from one opening of a database to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalSettings {
    /// Bytes of log that memory holds before they must be written (`wal_buffers`): a power of two, 16 KiB at
    /// least. A record takes half of it at most.
    pub ring_bytes: usize,
    /// Whether the first change of a page behind a redo point carries the page (`full_page_writes`). Without,
    /// a page torn by a crash is lost.
    pub full_page_writes: bool,
    /// Whether every change carries the page after it, for replay to compare its result with
    /// (`wal_consistency_checking`).
    pub check_images: bool,
    /// Segments are used again as long as those ahead are fewer bytes than this (`min_wal_size`).
    pub min_wal_bytes: u64,
    /// How long the worker waits between two syncs that nobody waits for (`wal_writer_delay`).
    pub writer_delay_ms: u64,
}

impl Default for WalSettings {
    /// PostgreSQL's values, but for the ring: 4 MiB hold what comes in while a slow disk syncs.
    fn default() -> Self {
        Self {
            ring_bytes: 4 << 20,
            full_page_writes: true,
            check_images: false,
            min_wal_bytes: 80 << 20,
            writer_delay_ms: 200,
        }
    }
}

impl WalSettings {
    fn check(&self) -> Result<(), WalError> {
        if self.ring_bytes < RING_BYTES_MIN || !self.ring_bytes.is_power_of_two() {
            return Err(WalError::Setting {
                setting: "wal_buffers",
                found: self.ring_bytes as u64,
                rule: "it is a power of two, 16 KiB at least",
            });
        }
        Ok(())
    }
}

/// The log of an open database, ready to be written.
pub struct Wal {
    runtime: Arc<dyn Runtime>,
    settings: WalSettings,
    database: DatabaseId,
    incarnation: u32,
    segments: Segments,
    ring: Ring,
    reservation: Mutex<Reservation>,
    /// Changes only under the lock of `reservation`.
    redo: AtomicU64,
    /// The ring's places before it are free.
    written: AtomicU64,
    durable: AtomicU64,
    /// Segments are ready up to here: the start of the first one that is not.
    ready: AtomicU64,
    /// Held by who writes from the ring to segments.
    writing: Gate,
    /// What a write is put together in; taken by who holds `writing`.
    staging: Mutex<Vec<u8>>,
    /// Someone waits until the ring is filled.
    wants_filled: AtomicBool,
    filled: Arc<dyn Event>,
    committing: Mutex<Committing>,
    /// Held by who makes segments ready or gives them up.
    preparing: Gate,
    /// Held by who writes the control file.
    controlling: Gate,
    control: ControlStore,
    is_poisoned: AtomicBool,
    poison: Mutex<Option<VfsError>>,
    /// What the worker shall make durable.
    requested: AtomicU64,
    is_worker_idle: AtomicBool,
    are_segments_asked: AtomicBool,
    is_stopping: AtomicBool,
    wake: Arc<dyn Event>,
    counters: Counters,
}

impl Wal {
    /// Makes the log of a new database: segments, then the control file, which makes it one. What an
    /// unfinished attempt left is used or removed.
    ///
    /// # Errors
    /// `Presence` where there is a database, `Setting`, `Full`, `Vfs`.
    pub fn create(files: &Arc<dyn FileSystem>, control: &Control) -> Result<(), WalError> {
        if files.find(&crate::vfs::Name::parse(control::CONTROL_FILE)?)?.is_some() {
            return ControlStore::create(&**files, control);
        }
        let segments = Segments::new(Arc::clone(files), control)?;
        segments.create_directory()?;
        segments.remove_unfinished()?;
        for segment in segments.existing()? {
            segments.remove(segment)?;
        }
        let (first, _) = segments.geometry().place(control.redo);
        // The second one is ballast (rule W13).
        for segment in [first, first + 1] {
            segments.prepare(segment)?;
        }
        segments.sync_names()?;
        ControlStore::create(&**files, control)
    }

    /// Starts writing where the control file says that the log is empty: recovery has seen to it (rule W11).
    ///
    /// # Errors
    /// `Setting`, `Full`, `Vfs`.
    pub fn start(
        files: Arc<dyn FileSystem>,
        runtime: Arc<dyn Runtime>,
        store: ControlStore,
        settings: WalSettings,
    ) -> Result<Self, WalError> {
        settings.check()?;
        let control = store.current();
        let start = control.redo;
        let wal = Self {
            segments: Segments::new(files, &control)?,
            ring: Ring::new(settings.ring_bytes),
            reservation: Mutex::new(Reservation::new(start, control.previous)),
            redo: AtomicU64::new(start.0),
            written: AtomicU64::new(start.0),
            durable: AtomicU64::new(start.0),
            ready: AtomicU64::new(0),
            writing: Gate::new(Arc::clone(&runtime)),
            staging: Mutex::new(Vec::new()),
            wants_filled: AtomicBool::new(false),
            filled: runtime.event(),
            committing: Mutex::new(Committing::default()),
            preparing: Gate::new(Arc::clone(&runtime)),
            controlling: Gate::new(Arc::clone(&runtime)),
            control: store,
            is_poisoned: AtomicBool::new(false),
            poison: Mutex::new(None),
            requested: AtomicU64::new(0),
            is_worker_idle: AtomicBool::new(false),
            are_segments_asked: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            wake: runtime.event(),
            counters: Counters::default(),
            database: control.database,
            incarnation: control.incarnation,
            runtime,
            settings,
        };
        wal.adopt_segments(start)?;
        Ok(wal)
    }

    /// The database it belongs to.
    #[must_use]
    pub const fn database(&self) -> DatabaseId {
        self.database
    }

    /// Which position lies in which file where.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.segments.geometry()
    }

    /// The watermark: the log is durable up to here.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// The last redo point: a page whose LSN is not beyond it goes into the log whole when it is changed.
    #[must_use]
    pub fn redo(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Where the next record will begin.
    #[must_use]
    pub fn end(&self) -> Lsn {
        lock(&self.reservation).next()
    }

    /// What the control file says.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.current()
    }

    /// What was counted so far.
    #[must_use]
    pub fn statistics(&self) -> WalStatistics {
        let inserted = *lock(&self.reservation).counted();
        self.counters.complete(&inserted)
    }

    /// Refuses whatever comes after a failed write or sync (rule W9).
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn check(&self) -> Result<(), WalError> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*lock(&self.poison) {
            Some(cause) => Err(WalError::Poisoned(cause.clone())),
            None => Ok(()),
        }
    }

    /// Ends the instance: nothing is acknowledged from now on (rule W9). Also for others whose sync failed.
    pub fn poison(&self, cause: VfsError) {
        lock(&self.poison).get_or_insert(cause);
        self.is_poisoned.store(true, Ordering::Release);
        self.wake_committing();
        self.wake.notify();
    }

    fn poisoned_by(&self, cause: VfsError) -> WalError {
        self.poison(cause.clone());
        WalError::Poisoned(cause)
    }
}
