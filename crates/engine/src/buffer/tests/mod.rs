//! Tests of the pool as a whole, and what they share.

mod faults;
mod model;
mod pages;
mod schedules;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Components, LogFailure, Pool, PoolSettings, Worker, WriteAhead};
use crate::page::{
    BlockNumber, DatabaseId, Fork, HEADER_BYTES, Header, Lsn, PageBytes, PageIdentity, PageKind,
    RelationNumber,
};
use crate::runtime::Runtime;
use crate::smgr::Smgr;
use crate::vfs::{
    Entry, EntryKind, File, FileSystem, LockGuard, Name, OpenOptions, Operation, VfsError,
};

const RELATION: RelationNumber = RelationNumber(16_384);

fn identity(block: u32) -> PageIdentity {
    PageIdentity { relation: RELATION, fork: Fork::Main, block: BlockNumber(block) }
}

/// A log that only remembers how far it is durable, and may be told to fail.
#[derive(Default)]
struct FakeLog {
    durable: AtomicU64,
    fails_from: AtomicU64,
    flushes: AtomicU64,
}

impl WriteAhead for FakeLog {
    fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::SeqCst))
    }

    fn make_durable(&self, position: Lsn) -> Result<(), LogFailure> {
        let fails_from = self.fails_from.load(Ordering::SeqCst);
        if fails_from != 0 && position.0 >= fails_from {
            return Err(LogFailure { position, reason: "the disk of the log is full".to_owned() });
        }
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.durable.fetch_max(position.0, Ordering::SeqCst);
        Ok(())
    }
}

/// Called before each read and write of a page: which operation, on what bytes.
type Hook = dyn Fn(Operation, &[u8]) + Send + Sync;

/// A file system that shows reads and writes to a hook.
struct HookedFiles {
    inner: Arc<dyn FileSystem>,
    hook: Arc<Hook>,
}

struct HookedFile {
    inner: Arc<dyn File>,
    hook: Arc<Hook>,
}

impl FileSystem for HookedFiles {
    fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError> {
        let inner = self.inner.open(name, options)?;
        Ok(Arc::new(HookedFile { inner, hook: Arc::clone(&self.hook) }))
    }
    fn create_directory(&self, name: &Name) -> Result<(), VfsError> {
        self.inner.create_directory(name)
    }
    fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &Name) -> Result<(), VfsError> {
        self.inner.remove(name)
    }
    fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError> {
        self.inner.list(directory)
    }
    fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError> {
        self.inner.find(name)
    }
    fn sync_directory(&self, directory: &Name) -> Result<(), VfsError> {
        self.inner.sync_directory(directory)
    }
    fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError> {
        self.inner.lock(name)
    }
    fn free_bytes(&self) -> Result<u64, VfsError> {
        self.inner.free_bytes()
    }
}

impl File for HookedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError> {
        (self.hook)(Operation::Read, buffer);
        self.inner.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError> {
        (self.hook)(Operation::Write, bytes);
        self.inner.write_at(offset, bytes)
    }
    fn length(&self) -> Result<u64, VfsError> {
        self.inner.length()
    }
    fn set_length(&self, bytes: u64) -> Result<(), VfsError> {
        self.inner.set_length(bytes)
    }
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        self.inner.allocate(offset, bytes)
    }
    fn sync(&self) -> Result<(), VfsError> {
        self.inner.sync()
    }
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        (self.hook)(Operation::StartWriteback, &[]);
        self.inner.start_writeback(offset, bytes)
    }
}

/// A pool with its log, over files in which every page written is checked to follow its log.
struct Bench {
    pool: Arc<Pool>,
    log: Arc<FakeLog>,
}

fn settings(frames: u32, policy: &str) -> PoolSettings {
    PoolSettings { policy: policy.parse().unwrap(), ..PoolSettings::new(frames) }
}

#[cfg(not(feature = "shuttle"))]
fn bench(files: Arc<dyn FileSystem>, runtime: Arc<dyn Runtime>, settings: PoolSettings) -> Bench {
    bench_with(files, runtime, settings, Arc::new(|_, _| ()))
}

/// The same with a hook of the test's own. Relation [`RELATION`] exists afterwards.
fn bench_with(
    files: Arc<dyn FileSystem>,
    runtime: Arc<dyn Runtime>,
    settings: PoolSettings,
    hook: Arc<Hook>,
) -> Bench {
    let log = Arc::new(FakeLog::default());
    let ordered = Arc::clone(&log);
    let hook = move |operation: Operation, bytes: &[u8]| {
        hook(operation, bytes);
        if operation == Operation::Write {
            let page: &PageBytes = bytes.try_into().expect("pages are written whole");
            let lsn = Header::read(page).lsn;
            assert!(lsn <= ordered.durable(), "rule B8: page at {lsn}, log {}", ordered.durable());
        }
    };
    let files = Arc::new(HookedFiles { inner: files, hook: Arc::new(hook) });
    // Segments of 8 blocks, so that tests cross them.
    let smgr = Arc::new(Smgr::new(files, DatabaseId(7), 8, false).unwrap());
    if !smgr.exists(RELATION, Fork::Main).unwrap() {
        smgr.create(RELATION, Fork::Main).unwrap();
    }
    let with =
        Components { smgr, log: Arc::clone(&log) as Arc<dyn WriteAhead>, runtime, sink: None };
    Bench { pool: Pool::open(settings, with).unwrap(), log }
}

/// Makes a page say `value`, as of log position `lsn`.
fn say(page: &mut PageBytes, value: u64, lsn: u64) {
    Header { lsn: Lsn(lsn), ..Header::empty(PageKind::Plain, 0) }.write(page);
    page[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&value.to_le_bytes());
    page[8184..].copy_from_slice(&value.to_le_bytes());
}

/// What a page says: the same at both ends.
fn said(page: &PageBytes) -> u64 {
    let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    assert_eq!(number(HEADER_BYTES), number(8184), "the page is torn");
    number(8184)
}

fn put(worker: &Worker, block: u32, value: u64, lsn: u64) {
    let mut page = worker.fetch(identity(block)).unwrap().exclusive();
    say(page.change(), value, lsn);
}

fn value(worker: &Worker, block: u32) -> u64 {
    said(&worker.fetch(identity(block)).unwrap().shared())
}

fn extend(worker: &Worker, blocks: u32) {
    for _ in 0..blocks {
        worker.extend(RELATION, Fork::Main, None).unwrap();
    }
}
