#![doc = include_str!("README.md")]

pub mod durable;
pub mod error;
pub mod fault;
mod name;
mod os;
pub mod sim;

use std::sync::Arc;

pub use error::{Operation, VfsError, VfsErrorKind};
pub use name::{NAME_BYTES_MAX, Name};
pub use os::OsFileSystem;

/// The unit in which a disk may tear a write (rule V1).
pub const SECTOR_BYTES: usize = 512;

/// What direct I/O wants offsets, lengths and memory to be multiples of (rule V8).
pub const DIRECT_IO_BYTES: usize = 4096;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Writing is allowed.
    pub write: bool,
    /// The file is made and must not exist; implies `write`.
    pub create_new: bool,
    /// Past the kernel's page cache (rule V8).
    pub direct_io: bool,
}

impl OpenOptions {
    /// For reading what exists.
    pub const READ: Self = Self { write: false, create_new: false, direct_io: false };
    /// For reading and writing what exists.
    pub const READ_WRITE: Self = Self { write: true, create_new: false, direct_io: false };
    /// For reading and writing a file that must not exist yet.
    pub const CREATE_NEW: Self = Self { write: true, create_new: true, direct_io: false };
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file and its length in bytes.
    File {
        /// The length.
        bytes: u64,
    },
    /// A directory.
    Directory,
}

/// A name within a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The last part of the name, as the system gives it: it need not be a valid [`Name`].
    pub name: String,
    /// What it stands for; `None` for what is neither file nor directory, as a link.
    pub kind: Option<EntryKind>,
}

/// A directory tree that holds one database. All errors say which operation on which name failed.
pub trait FileSystem: Send + Sync {
    /// Opens or creates a file.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `Full`, `Io`.
    fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError>;

    /// Creates a directory; its parent must exist.
    ///
    /// # Errors
    /// `NotFound` (the parent), `Exists`, `Full`, `Io`.
    fn create_directory(&self, name: &Name) -> Result<(), VfsError>;

    /// Gives `from` the name `to` in the same directory; what had that name is gone (rule V3).
    ///
    /// # Errors
    /// `NotFound`, `Invalid` (another directory), `Full`, `Io`.
    fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError>;

    /// Removes a file, or a directory that is empty.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` (not empty), `Io`.
    fn remove(&self, name: &Name) -> Result<(), VfsError>;

    /// The names in a directory, sorted by byte.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError>;

    /// What a name stands for; `None` where it is not there.
    ///
    /// # Errors
    /// `Io`.
    fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError>;

    /// Makes the names in a directory durable (rule V2).
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    fn sync_directory(&self, directory: &Name) -> Result<(), VfsError>;

    /// Locks against every other opener, of this process or another, until the guard is dropped or
    /// the process ends. The file is made where it is missing and stays.
    ///
    /// # Errors
    /// `Locked`, `Full`, `Io`.
    fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError>;

    /// Bytes that can still be allocated.
    ///
    /// # Errors
    /// `Io`.
    fn free_bytes(&self) -> Result<u64, VfsError>;
}

/// Holds a lock until it is dropped.
pub trait LockGuard: Send + Sync {}

/// An open file. Calls may come from several threads at once.
pub trait File: Send + Sync {
    /// Reads from `offset` until `buffer` is full or the file ends; says how much (rule V6).
    ///
    /// # Errors
    /// `Io`; `Invalid` for misaligned direct I/O.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError>;

    /// Writes all of `bytes` at `offset`; the file grows as needed (rule V5).
    ///
    /// # Errors
    /// `Full`, `Io`; `Invalid` for misaligned direct I/O or a handle opened for reading.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError>;

    /// The length in bytes.
    ///
    /// # Errors
    /// `Io`.
    fn length(&self) -> Result<u64, VfsError>;

    /// Cuts the file, or lets it grow by zeros that have no space yet.
    ///
    /// # Errors
    /// `Full`, `Io`, `Invalid`.
    fn set_length(&self, bytes: u64) -> Result<(), VfsError>;

    /// Makes sure of the space of a range; the file grows to its end (rule V9).
    ///
    /// # Errors
    /// `Full`, `Io`, `Invalid`.
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), VfsError>;

    /// Makes bytes and length durable (rules V1, V4).
    ///
    /// # Errors
    /// `Io`, `Full`, `Poisoned`.
    fn sync(&self) -> Result<(), VfsError>;

    /// Asks the system to begin writing a range now, so that a later sync has less to do (rule V10).
    ///
    /// # Errors
    /// `Io`.
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<(), VfsError>;
}
