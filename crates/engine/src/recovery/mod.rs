#![doc = include_str!("README.md")]

mod pages;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::pages::ReplayedPages;
use crate::page::{DatabaseId, Lsn};
use crate::runtime::Runtime;
use crate::smgr::{SEGMENT_BLOCKS, Smgr, SmgrError};
use crate::vfs::{FileSystem, LockGuard, Name, VfsError};
use crate::wal::control::{Control, ControlStore};
use crate::wal::position::group_start;
use crate::wal::reader::LogReader;
use crate::wal::record::ManagerNumber;
use crate::wal::rmgr::{Managers, RedoError};
use crate::wal::segment::{Geometry, SEGMENT_BYTES, Segments};
use crate::wal::{LOG_MANAGER, Wal, WalError, WalSettings};

/// The file that is locked while the database is open (rule R1).
pub const LOCK_FILE: &str = "lock";

/// What is fixed when a database is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreationSettings {
    /// Bytes of a segment of the log (`wal_segment_size`): a multiple of 4096 from 4096 to 1 GiB.
    pub wal_segment_bytes: u32,
    /// Pages of a segment of a relation: 1 at least.
    pub relation_segment_blocks: u32,
}

impl Default for CreationSettings {
    /// PostgreSQL's sizes.
    fn default() -> Self {
        Self { wal_segment_bytes: SEGMENT_BYTES, relation_segment_blocks: SEGMENT_BLOCKS }
    }
}

/// What can differ from one opening to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSettings {
    /// The log's.
    pub wal: WalSettings,
    /// Whether relation files are read and written past the kernel's cache.
    pub direct_io: bool,
    /// Pages that replay holds in memory at most before it writes them; 1 at least.
    pub replay_pages_max: usize,
}

impl Default for OpenSettings {
    /// 32 MiB of pages during replay.
    fn default() -> Self {
        Self { wal: WalSettings::default(), direct_io: false, replay_pages_max: 4096 }
    }
}

/// Why a database could not be created or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// Another opener holds it, or the lock could not be had.
    #[error(transparent)]
    Lock(VfsError),
    /// Log or control file.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// Relation files.
    #[error(transparent)]
    Smgr(#[from] SmgrError),
    /// A record could not be replayed.
    #[error("the record at {at} of manager {} cannot be replayed: {cause}", .manager.0)]
    Redo {
        /// Its start.
        at: Lsn,
        /// Its manager.
        manager: ManagerNumber,
        /// Why.
        cause: RedoError,
    },
}

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Where replay began.
    pub redo: Lsn,
    /// Where the log ended.
    pub end: Lsn,
    /// The highest watermark that was read; 0 where there was none.
    pub watermark: Lsn,
    /// Records from redo point to end, marks not counted.
    pub records: u64,
    /// Pages put in place from images.
    pub images: u64,
    /// Changes repeated on pages.
    pub changes: u64,
    /// Changes that a page held already.
    pub changes_held: u64,
    /// Replayed pages that were compared with an image of check mode, all equal.
    pub checked: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Segments of the log copied in place (rule R3).
    pub segments_copied: u64,
    /// Which copy of the control file was damaged, and how.
    pub control_damage: Option<String>,
}

/// An open database as far as it goes: log and relation files.
pub struct Opened {
    /// The log.
    pub wal: Wal,
    /// The relation files.
    pub relations: Smgr,
    /// What was done.
    pub report: Report,
    /// To be held as long as the database is open.
    pub lock: Box<dyn LockGuard>,
}

/// Makes a new, empty database: it is there wholly or not at all.
///
/// # Errors
/// `Lock`; `Presence` where there is one, `Setting`, `Full`, `Vfs`.
pub fn create(
    files: &Arc<dyn FileSystem>,
    database: DatabaseId,
    settings: CreationSettings,
) -> Result<(), RecoveryError> {
    let _lock = lock(&**files)?;
    let CreationSettings { wal_segment_bytes, relation_segment_blocks } = settings;
    Geometry::new(wal_segment_bytes)?;
    Smgr::new(Arc::clone(files), database, relation_segment_blocks, false)?;
    Ok(Wal::create(files, &Control::new(database, wal_segment_bytes, relation_segment_blocks))?)
}

/// Opens a database, after whatever ended it before.
///
/// # Errors
/// `Lock`; `Corrupt` for a hole in the log, `ControlDamaged`, `Unsupported`; `Redo`; whatever the files say. What
/// was durable before is so still, and opening can be tried again.
pub fn open(
    files: &Arc<dyn FileSystem>,
    runtime: Arc<dyn Runtime>,
    managers: &Managers,
    settings: &OpenSettings,
) -> Result<Opened, RecoveryError> {
    // Rule R1.
    let lock = lock(&**files)?;
    let store = ControlStore::open(&**files)?;
    let control = store.current();
    let segments = Segments::new(Arc::clone(files), &control)?;
    let relations = Smgr::new(
        Arc::clone(files),
        control.database,
        control.relation_segment_blocks,
        settings.direct_io,
    )?;
    let mut report = Report {
        redo: control.redo,
        control_damage: store.damaged().map(ToOwned::to_owned),
        ..Report::default()
    };
    let mut next = control;
    find_end(&segments, &mut next, &mut report)?;
    if report.end > control.redo {
        copy_tail(&segments, &mut report)?;
        let mut pages = ReplayedPages::new(&relations, settings.replay_pages_max);
        replay(&segments, &control, managers, &mut pages, &mut report)?;
        pages.finish(&mut report)?;
        managers.finish().map_err(|cause| RecoveryError::Redo {
            at: report.end,
            manager: LOG_MANAGER,
            cause,
        })?;
    }
    // Rule R6.
    store.write(&next).map_err(WalError::Vfs)?;
    let wal = Wal::start(Arc::clone(files), runtime, store, settings.wal)?;
    Ok(Opened { wal, relations, report, lock })
}

fn lock(files: &dyn FileSystem) -> Result<Box<dyn LockGuard>, RecoveryError> {
    let name = Name::parse(LOCK_FILE).map_err(RecoveryError::Lock)?;
    files.lock(&name).map_err(RecoveryError::Lock)
}

/// Reads the log to its end and judges that (rule R2); says what the control file shall say next.
fn find_end(
    segments: &Segments,
    control: &mut Control,
    report: &mut Report,
) -> Result<(), WalError> {
    let mut reader = reader(segments, control);
    let mut transaction_max = 0;
    while let Some(record) = reader.next_record()? {
        transaction_max = transaction_max.max(record.transaction);
    }
    reader.check_end(control.durable)?;
    report.end = reader.position();
    report.watermark = reader.watermark();
    control.incarnation += 1;
    control.redo = group_start(reader.position());
    control.previous = reader.previous();
    control.durable = control.redo;
    control.next_transaction = control.next_transaction.max(transaction_max.saturating_add(1));
    Ok(())
}

fn reader<'a>(segments: &'a Segments, control: &Control) -> LogReader<'a> {
    let Control { database, incarnation, redo, previous, .. } = *control;
    LogReader::new(segments, database, incarnation, redo, previous)
}

/// Makes what was read durable (rule R3). Before the last watermark it is.
fn copy_tail(segments: &Segments, report: &mut Report) -> Result<(), WalError> {
    let geometry = segments.geometry();
    let (first, _) = geometry.place(report.watermark.max(report.redo));
    let (last, _) = geometry.place(Lsn(report.end.0 - 1));
    for segment in first..=last {
        let spare = segments.existing()?.range(last + 1..).next_back().copied();
        segments.copy_in_place(segment, report.end, spare)?;
        segments.sync_names()?;
        report.segments_copied += 1;
    }
    Ok(())
}

fn replay(
    segments: &Segments,
    control: &Control,
    managers: &Managers,
    pages: &mut ReplayedPages<'_>,
    report: &mut Report,
) -> Result<(), RecoveryError> {
    let mut reader = reader(segments, control);
    while let Some(record) = reader.next_record()? {
        if record.manager == LOG_MANAGER {
            continue;
        }
        let (at, manager) = (record.start, record.manager);
        let replayed = match managers.of(manager) {
            Some(known) => {
                known.redo(&record, pages).and_then(|()| pages.check(&record, known, report))
            }
            None => Err(RedoError::Impossible("there is no such resource manager".to_owned())),
        };
        replayed.map_err(|cause| RecoveryError::Redo { at, manager, cause })?;
        pages.keep_small(report)?;
        report.records += 1;
    }
    pages.count(report);
    Ok(())
}
