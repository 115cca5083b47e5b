//! What logging costs: bytes per second into the ring and out of it, beside a plain copy of the same bytes in the
//! same run; and how many commits share a sync.
//!
//! `cargo bench -p evenkeel --bench wal`. The files of the first part take no bytes, so that it measures the log
//! and not the kernel; the second part uses files of the system in a temporary directory.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::page::{BlockNumber, DatabaseId, Fork, PageIdentity, PageImage, RelationNumber};
use evenkeel::runtime::{Clock, OsRuntime, Tasks};
use evenkeel::vfs::sim::SimDisk;
use evenkeel::vfs::{
    Entry, EntryKind, File, FileSystem, LockGuard, Name, OpenOptions, OsFileSystem, VfsError,
};
use evenkeel::wal::control::{Control, ControlStore};
use evenkeel::wal::record::{ManagerNumber, NewBlock, NewRecord, RecordBuffer, Replay};
use evenkeel::wal::{Wal, WalSettings};

/// Long enough that starting threads does not count.
const BYTES_PER_CASE: u64 = 1 << 30;

/// The middle of an odd number counts.
const REPEATS: usize = 5;

/// A simulated disk whose log takes no bytes.
struct Discarding(SimDisk);

struct DiscardingFile {
    file: Arc<dyn File>,
    keeps: bool,
}

impl File for DiscardingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError> {
        self.file.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError> {
        if self.keeps { self.file.write_at(offset, bytes) } else { Ok(()) }
    }
    fn length(&self) -> Result<u64, VfsError> {
        self.file.length()
    }
    fn set_length(&self, bytes: u64) -> Result<(), VfsError> {
        self.file.set_length(bytes)
    }
    fn allocate(&self, _offset: u64, _bytes: u64) -> Result<(), VfsError> {
        Ok(())
    }
    fn sync(&self) -> Result<(), VfsError> {
        self.file.sync()
    }
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        self.file.start_writeback(offset, bytes)
    }
}

impl FileSystem for Discarding {
    fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError> {
        let keeps = !name.as_str().starts_with("wal/");
        Ok(Arc::new(DiscardingFile { file: self.0.open(name, options)?, keeps }))
    }
    fn create_directory(&self, name: &Name) -> Result<(), VfsError> {
        self.0.create_directory(name)
    }
    fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &Name) -> Result<(), VfsError> {
        self.0.remove(name)
    }
    fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError> {
        self.0.list(directory)
    }
    fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError> {
        self.0.find(name)
    }
    fn sync_directory(&self, directory: &Name) -> Result<(), VfsError> {
        self.0.sync_directory(directory)
    }
    fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError> {
        self.0.lock(name)
    }
    fn free_bytes(&self) -> Result<u64, VfsError> {
        self.0.free_bytes()
    }
}

fn start(files: Arc<dyn FileSystem>, segment_bytes: u32) -> Wal {
    Wal::create(&files, &Control::new(DatabaseId(1), segment_bytes, 131_072)).expect("create");
    let store = ControlStore::open(&*files).expect("open");
    Wal::start(files, Arc::new(OsRuntime::new()), store, WalSettings::default()).expect("start")
}

/// Runs a body on each of so many threads; nanoseconds from the first start to the last end.
fn on_threads(threads: usize, body: impl Fn(usize) + Send + Sync + 'static) -> u64 {
    let (runtime, body) = (OsRuntime::new(), Arc::new(body));
    let begin = runtime.now();
    let tasks: Vec<_> = (0..threads)
        .map(|thread| {
            let body = Arc::clone(&body);
            runtime.spawn("bench", Box::new(move || body(thread))).expect("thread")
        })
        .collect();
    for task in tasks {
        task.join().expect("no panic");
    }
    runtime.now().nanos_since(begin)
}

#[derive(Clone, Copy)]
enum Kind {
    Data(usize),
    PageImage,
}

/// Bytes per second into the log, without sync.
fn insertion(threads: usize, kind: Kind) -> f64 {
    let wal = Arc::new(start(Arc::new(Discarding(SimDisk::new())), 64 << 20));
    let inserting = Arc::clone(&wal);
    let nanos = on_threads(threads, move |_| {
        let mut buffer = RecordBuffer::new();
        let mut page = PageImage::zeroed();
        page.fill(0x5A);
        let data = vec![0x5A; 4096];
        let identity =
            PageIdentity { relation: RelationNumber(1), fork: Fork::Main, block: BlockNumber(1) };
        let block = NewBlock { identity, page: &page, replay: Replay::Image, data: &[] };
        let piece;
        let (blocks, data): (&[NewBlock<'_>], &[&[u8]]) = match kind {
            Kind::Data(bytes) => {
                piece = [&data[..bytes]];
                (&[], &piece)
            }
            Kind::PageImage => (std::slice::from_ref(&block), &[]),
        };
        let record = NewRecord { manager: ManagerNumber(1), info: 0, transaction: 1, blocks, data };
        let own_bytes = BYTES_PER_CASE / threads as u64;
        let mut done = 0;
        while done < own_bytes {
            let inserted = inserting.insert(&mut buffer, &record).expect("insert");
            done += inserted.end.0 - inserted.start.0;
        }
    });
    let statistics = wal.statistics();
    assert_eq!(statistics.syncs, 0, "without sync");
    per_second(statistics.record_bytes, nanos)
}

/// Bytes per second of a plain copy in pieces of this size.
fn copying(threads: usize, piece_bytes: usize) -> f64 {
    let checked = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&checked);
    let nanos = on_threads(threads, move |thread| {
        let from = vec![u8::try_from(thread + 1).unwrap_or(1); piece_bytes];
        let mut ring = vec![0_u8; 4 << 20];
        let own_bytes = BYTES_PER_CASE / threads as u64;
        let (mut done, mut at) = (0, 0);
        while done < own_bytes {
            if at + piece_bytes > ring.len() {
                at = 0;
            }
            ring[at..at + piece_bytes].copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut ring);
            at += piece_bytes;
            done += piece_bytes as u64;
        }
        sum.fetch_add(u64::from(ring[0]), Ordering::Relaxed);
    });
    assert!(checked.load(Ordering::Relaxed) > 0);
    per_second(BYTES_PER_CASE, nanos)
}

fn per_second(bytes: u64, nanos: u64) -> f64 {
    // Bytes per nanosecond are gigabytes per second.
    bytes as f64 / nanos.max(1) as f64
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn commits(committers: usize, commits_each: u64) {
    let directory = tempfile::tempdir().expect("directory");
    let files = Arc::new(OsFileSystem::new(directory.path()).expect("files"));
    let wal = Arc::new(start(files, 16 << 20));
    let committing = Arc::clone(&wal);
    let nanos = on_threads(committers, move |thread| {
        let mut buffer = RecordBuffer::new();
        let record = NewRecord {
            manager: ManagerNumber(1),
            info: 0,
            transaction: thread as u64,
            blocks: &[],
            data: &[&[0x5A; 200]],
        };
        for _ in 0..commits_each {
            let inserted = committing.insert(&mut buffer, &record).expect("insert");
            committing.flush(inserted.end).expect("flush");
        }
    });
    let statistics = wal.statistics();
    println!(
        "commit     {committers:>3} committers  {:>8.0} commits/s  {:>6.2} commits per sync  sync {:>7.0} us  \
         commit {:>7.0} us",
        statistics.flushes as f64 * 1e9 / nanos as f64,
        statistics.flushes as f64 / statistics.syncs.max(1) as f64,
        statistics.sync_nanos as f64 / statistics.syncs.max(1) as f64 / 1e3,
        statistics.flush_nanos as f64 / statistics.flushes.max(1) as f64 / 1e3,
    );
}

fn main() {
    for (name, kind, bytes) in [
        ("100 bytes of data", Kind::Data(100), 136),
        ("1000 bytes of data", Kind::Data(1000), 1032),
        ("a page's image", Kind::PageImage, 8240),
    ] {
        for threads in [1, 2] {
            let mut pairs = Vec::new();
            for _ in 0..REPEATS {
                pairs.push((insertion(threads, kind), copying(threads, bytes)));
            }
            println!(
                "insertion  {name:<18}  {threads} threads  {:>6.2} GB/s  plain copy {:>6.2} GB/s  ratio {:.3}",
                middle(pairs.iter().map(|pair| pair.0).collect()),
                middle(pairs.iter().map(|pair| pair.1).collect()),
                middle(pairs.iter().map(|pair| pair.0 / pair.1).collect()),
            );
        }
    }
    for (committers, each) in [(1, 400), (4, 200), (16, 100), (64, 50)] {
        commits(committers, each);
    }
}
