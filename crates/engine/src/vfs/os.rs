//! The files of the operating system: the only place of the engine that touches them.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    Advice, AtFlags, CWD, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags,
};
use rustix::io::Errno;

use super::{
    Entry, EntryKind, File, FileSystem, LockGuard, Name, OpenOptions, Operation, VfsError,
    VfsErrorKind,
};

/// Zeros written at once where a file system cannot allocate.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A directory of the operating system.
#[derive(Debug)]
pub struct OsFileSystem {
    root: OwnedFd,
}

impl OsFileSystem {
    /// The directory `root`, which must exist.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new(root: &Path) -> Result<Self, VfsError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .map_err(|errno| failed(Operation::Open, &root.to_string_lossy(), errno))?;
        Ok(Self { root })
    }

    /// Opens below the root without following links (rule V7).
    fn open_at(
        &self,
        operation: Operation,
        name: &Name,
        flags: OFlags,
    ) -> Result<OwnedFd, VfsError> {
        let path = if name.is_root() { "." } else { name.as_str() };
        let mode =
            if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        retried(|| match rustix::fs::openat2(&self.root, path, flags, mode, beneath) {
            // Kernels before 5.6 and some sandboxes.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&self.root, path, flags, mode),
            // The kernel asks to try again when a rename was in the way.
            Err(Errno::AGAIN) => Err(Errno::INTR),
            result => result,
        })
        .map_err(|errno| failed(operation, name.as_str(), errno))
    }

    fn open_directory(&self, operation: Operation, name: &Name) -> Result<OwnedFd, VfsError> {
        self.open_at(operation, name, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

impl FileSystem for OsFileSystem {
    fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError> {
        let mut flags =
            if options.write || options.create_new { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::CREATE | OFlags::EXCL, options.create_new);
        flags.set(OFlags::DIRECT, options.direct_io);
        let operation = if options.create_new { Operation::Create } else { Operation::Open };
        let descriptor = self.open_at(operation, name, flags)?;
        Ok(Arc::new(OsFile {
            descriptor,
            name: name.as_str().to_owned(),
            sync_failed: AtomicBool::new(false),
        }))
    }

    fn create_directory(&self, name: &Name) -> Result<(), VfsError> {
        let mode = Mode::RWXU;
        rustix::fs::mkdirat(&self.root, name.as_str(), mode)
            .map_err(|errno| failed(Operation::CreateDirectory, name.as_str(), errno))
    }

    fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError> {
        same_directory(from, to)?;
        rustix::fs::renameat(&self.root, from.as_str(), &self.root, to.as_str())
            .map_err(|errno| failed(Operation::Rename, from.as_str(), errno))
    }

    fn remove(&self, name: &Name) -> Result<(), VfsError> {
        match rustix::fs::unlinkat(&self.root, name.as_str(), AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                rustix::fs::unlinkat(&self.root, name.as_str(), AtFlags::REMOVEDIR)
            }
            result => result,
        }
        .map_err(|errno| failed(Operation::Remove, name.as_str(), errno))
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError> {
        let descriptor = self.open_directory(Operation::List, directory)?;
        let failed = |errno| failed(Operation::List, directory.as_str(), errno);
        let mut entries = Vec::new();
        for entry in Dir::read_from(&descriptor).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match kind_of(descriptor.as_fd(), name) {
                // Removed since it was listed.
                Err(Errno::NOENT) => continue,
                result => result.map_err(failed)?,
            };
            entries.push(Entry { name: name.to_string_lossy().into_owned(), kind });
        }
        entries.sort_by(|left, right| left.name.as_bytes().cmp(right.name.as_bytes()));
        Ok(entries)
    }

    fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError> {
        if name.is_root() {
            return Ok(Some(EntryKind::Directory));
        }
        let path = std::ffi::CString::new(name.as_str()).unwrap_or_default();
        match kind_of(self.root.as_fd(), &path) {
            Ok(kind) => Ok(kind),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(failed(Operation::Open, name.as_str(), errno)),
        }
    }

    fn sync_directory(&self, directory: &Name) -> Result<(), VfsError> {
        let descriptor = self.open_directory(Operation::SyncDirectory, directory)?;
        retried(|| rustix::fs::fsync(&descriptor))
            .map_err(|errno| failed(Operation::SyncDirectory, directory.as_str(), errno))
    }

    fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError> {
        let descriptor = self.open_at(Operation::Lock, name, OFlags::RDWR | OFlags::CREATE)?;
        // The lock belongs to this open file, so a second opener in this process is refused, too.
        retried(|| rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive))
            .map_err(|errno| match errno {
                Errno::AGAIN => VfsError::new(
                    Operation::Lock,
                    name.as_str(),
                    VfsErrorKind::Locked,
                    "it is open already, here or in another process",
                ),
                errno => failed(Operation::Lock, name.as_str(), errno),
            })?;
        Ok(Box::new(OsLock { _descriptor: descriptor }))
    }

    fn free_bytes(&self) -> Result<u64, VfsError> {
        let state = rustix::fs::fstatvfs(&self.root)
            .map_err(|errno| failed(Operation::FreeSpace, "", errno))?;
        Ok(state.f_bavail.saturating_mul(state.f_frsize))
    }
}

/// The kernel gives the lock back when the descriptor is closed.
struct OsLock {
    _descriptor: OwnedFd,
}

impl LockGuard for OsLock {}

struct OsFile {
    descriptor: OwnedFd,
    name: String,
    sync_failed: AtomicBool,
}

impl OsFile {
    fn failed(&self, operation: Operation, errno: Errno) -> VfsError {
        failed(operation, &self.name, errno)
    }

    fn invalid(&self, operation: Operation) -> VfsError {
        VfsError::new(
            operation,
            &self.name,
            VfsErrorKind::Invalid,
            "the range ends beyond the largest file there can be",
        )
    }
}

impl File for OsFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset.saturating_add(done as u64);
            match rustix::io::pread(&self.descriptor, &mut buffer[done..], at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed(Operation::Read, errno).at(at)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset.saturating_add(done as u64);
            match rustix::io::pwrite(&self.descriptor, &bytes[done..], at) {
                // POSIX allows it; trying again for ever would be a hang.
                Ok(0) => {
                    let reason = "the system accepted no byte";
                    return Err(VfsError::new(
                        Operation::Write,
                        &self.name,
                        VfsErrorKind::Io,
                        reason,
                    )
                    .at(at));
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed(Operation::Write, errno).at(at)),
            }
        }
        Ok(())
    }

    fn length(&self) -> Result<u64, VfsError> {
        let state = rustix::fs::fstat(&self.descriptor)
            .map_err(|errno| self.failed(Operation::Length, errno))?;
        Ok(u64::try_from(state.st_size).unwrap_or(0))
    }

    fn set_length(&self, bytes: u64) -> Result<(), VfsError> {
        retried(|| rustix::fs::ftruncate(&self.descriptor, bytes))
            .map_err(|errno| self.failed(Operation::Length, errno).at(bytes))
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        let end = offset
            .checked_add(bytes)
            .ok_or_else(|| self.invalid(Operation::Allocate).at(offset))?;
        if bytes == 0 {
            return Ok(());
        }
        let allocated = retried(|| {
            rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), offset, bytes)
        });
        match allocated {
            Ok(()) => Ok(()),
            // A file system that cannot: zeros take the space, as far as the file is too short.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let mut at = self.length()?.max(offset);
                while at < end {
                    let count = usize::try_from(end - at).unwrap_or(ZEROS.len()).min(ZEROS.len());
                    self.write_at(at, &ZEROS[..count])?;
                    at += count as u64;
                }
                Ok(())
            }
            Err(errno) => Err(self.failed(Operation::Allocate, errno).at(offset)),
        }
    }

    fn sync(&self) -> Result<(), VfsError> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(poisoned(&self.name));
        }
        // Not tried again when interrupted: whether the error was consumed is not known (rule V4).
        rustix::fs::fdatasync(&self.descriptor).map_err(|errno| {
            self.sync_failed.store(true, Ordering::Release);
            self.failed(Operation::Sync, errno)
        })
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        // There is no safe call of sync_file_range. This advice begins writing dirty pages, too, and
        // then drops clean ones from the page cache (PostgreSQL's fd.c keeps it as its fallback).
        let Some(length) = std::num::NonZeroU64::new(bytes) else { return Ok(()) };
        rustix::fs::fadvise(&self.descriptor, offset, Some(length), Advice::DontNeed)
            .map_err(|errno| self.failed(Operation::StartWriteback, errno).at(offset))
    }
}

/// The error of every sync after a failed one (rule V4).
pub(super) fn poisoned(name: &str) -> VfsError {
    VfsError::new(
        Operation::Sync,
        name,
        VfsErrorKind::Poisoned,
        "an earlier sync of it failed, and a later success would prove nothing: reopen the database",
    )
}

/// Refuses what rule V3 does not promise.
pub(super) fn same_directory(from: &Name, to: &Name) -> Result<(), VfsError> {
    if from.is_root() || to.is_root() || from.parent() != to.parent() {
        return Err(VfsError::new(
            Operation::Rename,
            from.as_str(),
            VfsErrorKind::Invalid,
            format!("{to} lies in another directory"),
        ));
    }
    Ok(())
}

fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<EntryKind>, Errno> {
    let state = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(match FileType::from_raw_mode(state.st_mode) {
        FileType::RegularFile => {
            Some(EntryKind::File { bytes: u64::try_from(state.st_size).unwrap_or(0) })
        }
        FileType::Directory => Some(EntryKind::Directory),
        _ => None,
    })
}

fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn failed(operation: Operation, name: &str, errno: Errno) -> VfsError {
    let kind = match errno {
        Errno::NOENT => VfsErrorKind::NotFound,
        Errno::EXIST => VfsErrorKind::Exists,
        Errno::NOSPC | Errno::DQUOT => VfsErrorKind::Full,
        Errno::INVAL
        | Errno::NOTEMPTY
        | Errno::BADF
        | Errno::FBIG
        | Errno::LOOP
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::XDEV => VfsErrorKind::Invalid,
        _ => VfsErrorKind::Io,
    };
    VfsError::new(operation, name, kind, std::io::Error::from(errno).to_string())
}
