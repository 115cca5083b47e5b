//! Load once, measure often: a copy of a stopped server's data directory, restored before each run.
//!
//! # Rules
//!
//! 1. Only the data of a stopped server are copied: a directory with a `postmaster.pid` is refused.
//! 2. A clone that shares blocks is made where the file system can (`FICLONE`), else a copy; holes
//!    stay holes. All is synchronised to the device before a restore returns, so that the run does
//!    not pay for it.
//! 3. Free space is asked for before the first byte is written.
//! 4. The hash covers `base`, `global` and `pg_xact`: names, sizes, and contents. Files up to 1 MiB
//!    enter whole, larger ones with 16 pieces of 64 KiB at equal distances, the last of them the
//!    file's end. Left out is what differs without the data being different:
//!    `pg_control`, and files that the server makes anew at each start.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::runtime::Runtime;
use sha2::{Digest, Sha256};

use super::server::{ManagedServer, PrivateDirectory, ServerError, SystemUser};

/// Files up to this size enter the hash whole.
const WHOLE_BYTES: u64 = 1024 * 1024;

/// Pieces of a larger file that enter the hash.
const PIECES: u64 = 16;

/// Length of a piece.
const PIECE_BYTES: u64 = 64 * 1024;

/// Bytes read at a time, and the grain of holes.
const CHUNK_BYTES: usize = 256 * 1024;

/// Tasks that copy.
const COPY_TASKS: usize = 4;

/// Space that must be left beside the copy itself.
const SPARE_BYTES: u64 = 64 * 1024 * 1024;

/// Directories whose content is not copied: the server makes it anew.
const VOLATILE_DIRECTORIES: [&str; 4] = ["pg_stat_tmp", "pg_notify", "pg_subtrans", "pg_dynshmem"];

/// Files of one life of the server.
const VOLATILE_FILES: [&str; 3] = ["postmaster.pid", "postmaster.opts", "evenkeel.conf"];

/// The data of a server at one moment, kept apart.
#[derive(Debug)]
pub struct Snapshot {
    directory: PrivateDirectory,
    sha256: String,
    bytes: u64,
    file_count: usize,
    is_reflinked: bool,
}

/// What a copy was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Sizes in sum, holes included.
    pub bytes: u64,
    /// Files.
    pub file_count: usize,
    /// Whether all files share their blocks with the original.
    pub is_reflinked: bool,
    /// How long it took, synchronisation included.
    pub duration_ns: u64,
}

impl Snapshot {
    /// Copies the data of a server that is stopped, into a private directory beside the server's.
    ///
    /// # Errors
    /// When the server runs, space is short, or a file cannot be copied.
    pub fn take(server: &ManagedServer, runtime: &Arc<dyn Runtime>) -> Result<Self, ServerError> {
        let source = server.data_directory();
        if server.process_id().is_some() || source.join("postmaster.pid").exists() {
            return Err(ServerError::Refused(format!(
                "{} belongs to a running server: stop it before its data are copied",
                source.display()
            )));
        }
        let parent = server.directory().parent().unwrap_or_else(|| Path::new("/"));
        let directory = PrivateDirectory::create(parent, "snapshot", None, runtime.as_ref())
            .map_err(ServerError::io("making the snapshot's directory"))?;
        let target = directory.path().join("data");
        let report = copy(&source, &target, None, false, runtime, &server.options().stop)?;
        let sha256 = content_hash(&target).map_err(ServerError::io("hashing the snapshot"))?;
        Ok(Self {
            directory,
            sha256,
            bytes: report.bytes,
            file_count: report.file_count,
            is_reflinked: report.is_reflinked,
        })
    }

    /// Puts the data into a stopped server's data directory, in place of what is there. With
    /// `drop_cache` the operating system is asked to forget the files' pages (of the copy and of
    /// the snapshot), so that the server starts cold.
    ///
    /// # Errors
    /// When the server runs, space is short, or a file cannot be copied.
    pub fn restore(
        &self,
        server: &ManagedServer,
        drop_cache: bool,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<CopyReport, ServerError> {
        let target = server.data_directory();
        if server.process_id().is_some() {
            return Err(ServerError::Refused(
                "the server must be stopped before its data are restored".to_owned(),
            ));
        }
        if target.exists() {
            std::fs::remove_dir_all(&target)
                .map_err(ServerError::io(format!("removing {}", target.display())))?;
        }
        let source = self.directory.path().join("data");
        copy(&source, &target, server.owner(), drop_cache, runtime, &server.options().stop)
    }

    /// Hash of the content, hexadecimal (rule 4).
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Sizes of all files in sum.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many files.
    #[must_use]
    pub const fn file_count(&self) -> usize {
        self.file_count
    }

    /// Whether it shares its blocks with the data it was taken from.
    #[must_use]
    pub const fn is_reflinked(&self) -> bool {
        self.is_reflinked
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Removes it.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove(mut self) -> io::Result<()> {
        self.directory.remove()
    }
}

/// Hash of the data in `data_directory`, hexadecimal (rule 4).
///
/// # Errors
/// When a file cannot be read.
pub fn content_hash(data_directory: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for part in ["base", "global", "pg_xact"] {
        let tree = walk(&data_directory.join(part))?;
        files.extend(
            tree.files.into_iter().map(|file| (PathBuf::from(part).join(&file.relative), file)),
        );
    }
    files.sort_by(|left, right| left.0.cmp(&right.0));
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; CHUNK_BYTES];
    for (name, entry) in files {
        let file_name = name.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_volatile = file_name.as_deref().is_some_and(|name| {
            name == "pg_control"
                || name.starts_with("pg_internal.init")
                || name.starts_with("pgsql_tmp")
        });
        if is_volatile {
            continue;
        }
        let mut file = File::open(data_directory.join(&name))?;
        hash.update(name.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(entry.bytes.to_le_bytes());
        if entry.bytes <= WHOLE_BYTES {
            hash_up_to(&mut hash, &mut file, entry.bytes, &mut buffer)?;
            continue;
        }
        for piece in 0..PIECES {
            // The division comes last but cannot overflow: files are smaller than 2^60 bytes.
            let offset = (entry.bytes - PIECE_BYTES) / (PIECES - 1) * piece;
            let offset = if piece == PIECES - 1 { entry.bytes - PIECE_BYTES } else { offset };
            file.seek(SeekFrom::Start(offset))?;
            hash_up_to(&mut hash, &mut file, PIECE_BYTES, &mut buffer)?;
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn hash_up_to(hash: &mut Sha256, file: &mut File, bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read(&mut buffer[..wanted])?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// What a directory holds.
#[derive(Debug, Default)]
struct Tree {
    /// Parents before children, the root itself excluded.
    directories: Vec<(PathBuf, u32)>,
    files: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    relative: PathBuf,
    bytes: u64,
    mode: u32,
    is_sparse: bool,
}

fn walk(root: &Path) -> io::Result<Tree> {
    let mut tree = Tree::default();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let relative = directory.join(entry.file_name());
            let metadata = entry.metadata()?;
            let mode = metadata.permissions().mode() & 0o7777;
            if metadata.is_dir() {
                tree.directories.push((relative.clone(), mode));
                let name = entry.file_name();
                if !VOLATILE_DIRECTORIES.iter().any(|volatile| name == *volatile) {
                    waiting.push(relative);
                }
            } else if metadata.is_file() {
                if VOLATILE_FILES.iter().any(|volatile| relative == Path::new(volatile)) {
                    continue;
                }
                tree.files.push(Entry {
                    relative,
                    bytes: metadata.len(),
                    mode,
                    is_sparse: metadata.blocks().saturating_mul(512) < metadata.len(),
                });
            } else {
                return Err(io::Error::other(format!(
                    "{} is neither a file nor a directory: data outside of the data directory \
                     (tablespaces, a log elsewhere) cannot be kept in a snapshot",
                    root.join(&relative).display()
                )));
            }
        }
    }
    // Large files first, so that the tasks end at about the same time.
    tree.files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    Ok(tree)
}

fn copy(
    source: &Path,
    target: &Path,
    owner: Option<&SystemUser>,
    drop_cache: bool,
    runtime: &Arc<dyn Runtime>,
    stop: &Arc<AtomicBool>,
) -> Result<CopyReport, ServerError> {
    let began = runtime.now();
    let what = || format!("copying {} to {}", source.display(), target.display());
    let tree = walk(source).map_err(ServerError::io(what()))?;
    let bytes: u64 = tree.files.iter().map(|file| file.bytes).sum();
    let parent = target.parent().unwrap_or_else(|| Path::new("/"));
    let can_reflink = probe_reflink(source, parent, &tree);
    if !can_reflink {
        let free = free_bytes(parent).map_err(ServerError::io(what()))?;
        if free < bytes.saturating_add(SPARE_BYTES) {
            return Err(ServerError::Refused(format!(
                "{} needs {} MiB and the file system has {} MiB free: make room, or choose another \
                 directory for the servers",
                what(),
                bytes.saturating_add(SPARE_BYTES) >> 20,
                free >> 20
            )));
        }
    }
    let make = |path: &Path, mode: u32| -> io::Result<()> {
        std::fs::DirBuilder::new().mode(mode).create(path)?;
        give_to(path, owner)
    };
    make(target, 0o700).map_err(ServerError::io(what()))?;
    for (directory, mode) in &tree.directories {
        make(&target.join(directory), *mode).map_err(ServerError::io(what()))?;
    }
    let file_count = tree.files.len();
    let shared = Arc::new(Work {
        source: source.to_owned(),
        target: target.to_owned(),
        owner: owner.cloned(),
        files: tree.files,
        next: AtomicUsize::new(0),
        can_reflink,
        drop_cache,
        stop: Arc::clone(stop),
        is_reflinked: AtomicBool::new(can_reflink),
        error: Mutex::new(None),
    });
    let mut tasks = Vec::new();
    for _ in 0..COPY_TASKS.min(file_count) {
        let shared = Arc::clone(&shared);
        let task = runtime
            .spawn("snapshot-copy", Box::new(move || shared.run()))
            .map_err(ServerError::io("starting a task that copies"))?;
        tasks.push(task);
    }
    for task in tasks {
        task.join().map_err(|panicked| ServerError::Refused(panicked.to_string()))?;
    }
    if stop.load(Ordering::Relaxed) {
        return Err(ServerError::Interrupted);
    }
    if let Some(error) = shared.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(ServerError::Io { what: what(), source: error });
    }
    // Names are durable only when their directories are.
    for directory in shared.directories_of(&tree.directories) {
        File::open(&directory).and_then(|file| file.sync_all()).map_err(ServerError::io(what()))?;
    }
    Ok(CopyReport {
        bytes,
        file_count,
        is_reflinked: shared.is_reflinked.load(Ordering::Relaxed),
        duration_ns: runtime.now().nanos_since(began),
    })
}

struct Work {
    source: PathBuf,
    target: PathBuf,
    owner: Option<SystemUser>,
    files: Vec<Entry>,
    next: AtomicUsize,
    can_reflink: bool,
    drop_cache: bool,
    stop: Arc<AtomicBool>,
    is_reflinked: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

impl Work {
    fn run(&self) {
        let mut buffer = vec![0_u8; CHUNK_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            let Some(entry) = self.files.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            if let Err(error) = self.copy_file(entry, &mut buffer) {
                let named =
                    io::Error::new(error.kind(), format!("{}: {error}", entry.relative.display()));
                let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(named);
                return;
            }
        }
    }

    fn copy_file(&self, entry: &Entry, buffer: &mut [u8]) -> io::Result<()> {
        let path = self.target.join(&entry.relative);
        let mut source = File::open(self.source.join(&entry.relative))?;
        let mut target =
            File::options().write(true).create_new(true).mode(entry.mode).open(&path)?;
        if !(self.can_reflink && rustix::fs::ioctl_ficlone(&target, &source).is_ok()) {
            self.is_reflinked.store(false, Ordering::Relaxed);
            if entry.is_sparse {
                copy_with_holes(&mut source, &mut target, buffer)?;
            } else {
                io::copy(&mut source, &mut target)?;
            }
        }
        give_to(&path, self.owner.as_ref())?;
        target.sync_all()?;
        if self.drop_cache {
            for file in [&source, &target] {
                // Advice: where it is not taken the run is less cold, and nothing is wrong.
                let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
            }
        }
        Ok(())
    }

    fn directories_of(&self, inside: &[(PathBuf, u32)]) -> Vec<PathBuf> {
        let mut all = vec![self.target.clone()];
        all.extend(inside.iter().map(|(directory, _)| self.target.join(directory)));
        all
    }
}

fn give_to(path: &Path, owner: Option<&SystemUser>) -> io::Result<()> {
    match owner {
        None => Ok(()),
        Some(owner) => std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid)),
    }
}

fn copy_with_holes(source: &mut File, target: &mut File, buffer: &mut [u8]) -> io::Result<()> {
    let mut length = 0_u64;
    loop {
        let count = source.read(buffer)?;
        if count == 0 {
            break;
        }
        let chunk = &buffer[..count];
        if chunk.iter().all(|byte| *byte == 0) {
            target.seek(SeekFrom::Current(i64::try_from(count).unwrap_or(0)))?;
        } else {
            target.write_all(chunk)?;
        }
        length = length.saturating_add(u64::try_from(count).unwrap_or(0));
    }
    target.set_len(length)
}

/// Whether files below `source` can be cloned into `parent`.
fn probe_reflink(source: &Path, parent: &Path, tree: &Tree) -> bool {
    let Some(entry) = tree.files.iter().find(|entry| entry.bytes > 0) else { return false };
    let path = parent.join(".evenkeel-clone-probe");
    let result = File::open(source.join(&entry.relative))
        .ok()
        .zip(File::create(&path).ok())
        .is_some_and(|(source, target)| rustix::fs::ioctl_ficlone(&target, &source).is_ok());
    let _ = std::fs::remove_file(&path);
    result
}

/// Space that an ordinary user may still fill in the file system of `path`.
///
/// # Errors
/// When the path does not exist.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::OsRuntime;

    use super::*;

    fn data(parent: &Path) -> PathBuf {
        let data = parent.join("data");
        for part in ["base/1", "global", "pg_xact", "pg_stat_tmp", "pg_wal"] {
            std::fs::create_dir_all(data.join(part)).unwrap();
        }
        std::fs::write(data.join("base/1/100"), vec![7_u8; 3_000_000]).unwrap();
        std::fs::write(data.join("base/1/101"), b"small").unwrap();
        std::fs::write(data.join("global/pg_control"), b"control").unwrap();
        std::fs::write(data.join("pg_stat_tmp/x"), b"volatile").unwrap();
        std::fs::write(data.join("postmaster.opts"), b"volatile").unwrap();
        let sparse = File::create(data.join("base/1/102")).unwrap();
        sparse.set_len(5_000_000).unwrap();
        data
    }

    fn copied(source: &Path, target: &Path) -> Result<CopyReport, ServerError> {
        let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
        copy(source, target, None, true, &runtime, &Arc::new(AtomicBool::new(false)))
    }

    #[test]
    fn a_copy_has_the_same_hash_and_holes_and_none_of_the_volatile_files() {
        let root = tempfile::tempdir().unwrap();
        let source = data(root.path());
        let target = root.path().join("copy");
        let report = copied(&source, &target).unwrap();
        assert_eq!(report.file_count, 4);
        assert_eq!(content_hash(&source).unwrap(), content_hash(&target).unwrap());
        let sparse = std::fs::metadata(target.join("base/1/102")).unwrap();
        assert_eq!((sparse.len(), sparse.blocks()), (5_000_000, 0));
        assert!(target.join("pg_stat_tmp").is_dir() && !target.join("pg_stat_tmp/x").exists());
        assert!(!target.join("postmaster.opts").exists());
        assert_eq!(std::fs::read(target.join("base/1/100")).unwrap(), vec![7_u8; 3_000_000]);
    }

    #[test]
    fn the_hash_sees_names_sizes_and_both_ends_of_large_files_but_not_the_control_file() {
        let root = tempfile::tempdir().unwrap();
        let data = data(root.path());
        let before = content_hash(&data).unwrap();
        std::fs::write(data.join("global/pg_control"), b"another").unwrap();
        assert_eq!(content_hash(&data).unwrap(), before);
        let mut seen = std::collections::BTreeSet::from([before]);
        for offset in [0_usize, 2_999_999] {
            let mut bytes = vec![7_u8; 3_000_000];
            bytes[offset] = 8;
            std::fs::write(data.join("base/1/100"), bytes).unwrap();
            assert!(seen.insert(content_hash(&data).unwrap()), "{offset}");
        }
        std::fs::write(data.join("base/1/101"), b"other").unwrap();
        assert!(seen.insert(content_hash(&data).unwrap()));
        std::fs::rename(data.join("base/1/101"), data.join("base/1/103")).unwrap();
        assert!(seen.insert(content_hash(&data).unwrap()));
    }

    #[test]
    fn a_tablespace_outside_is_refused_instead_of_shared_between_runs() {
        let root = tempfile::tempdir().unwrap();
        let source = data(root.path());
        std::os::unix::fs::symlink("/elsewhere", source.join("base/16384")).unwrap();
        let error = copied(&source, &root.path().join("copy")).unwrap_err();
        let ServerError::Io { source, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("tablespaces"), "{source}");
    }
}
