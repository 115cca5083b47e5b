//! A disk in memory that keeps apart what is there and what is durable, and can crash.
//!
//! Each file has the bytes that are read now, the bytes at the last sync, and every version of every
//! sector written in between; each directory likewise has names. [`SimDisk::crash`] makes the disk
//! that a machine finds after losing power: whether a sector, a length or a name survived is decided
//! by a [`crash::Survival`]. The disk that crashed is not changed, so one moment can be damaged in
//! many ways. [`SimDisk::observe`] shows every moment before an operation that changes something.
//!
//! What is not simulated: time (a disk answers at once), and directories that are renamed.

mod content;
pub mod crash;
mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::content::CHUNK_BYTES;
use self::crash::Survival;
use self::state::{Directory, Inode, NameChange, Node, State, not_found};
use super::os::{poisoned, same_directory};
use super::{
    Entry, EntryKind, File, FileSystem, LockGuard, Name, OpenOptions, Operation, VfsError,
    VfsErrorKind,
};

/// A simulated disk; copies of it are the same disk.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// The moment before an operation that changes something.
pub struct Boundary<'a> {
    state: &'a State,
    operation: Operation,
    name: &'a str,
}

impl Boundary<'_> {
    /// The operation that comes next.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// The file or directory it is on.
    #[must_use]
    pub const fn name(&self) -> &str {
        self.name
    }

    /// How many operations changed something before.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.state.operations
    }

    /// The disk after a crash at this moment.
    pub fn crash(&self, survival: &mut dyn Survival) -> SimDisk {
        SimDisk::of(crash::crash(self.state, survival))
    }
}

/// A sync that is going to fail, and what the kernel makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncFailure {
    /// Of files whose name begins so; empty for all.
    pub prefix: String,
    /// The how-manieth sync of such a file from now on, from 1.
    pub nth: u64,
    /// What becomes of what was to be synced.
    pub aftermath: SyncAftermath,
}

/// What a kernel does with pages that it could not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncAftermath {
    /// They stay dirty: a later sync would write them.
    Keep,
    /// They count as clean and are still read: a later sync succeeds without having written them
    /// (Linux's ext4, which surprised PostgreSQL in 2018).
    Forget,
    /// They are dropped: what is read is what was durable before.
    Drop,
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("SimDisk")
            .field("operations", &state.operations)
            .field("files", &state.inodes.len())
            .finish_non_exhaustive()
    }
}

impl SimDisk {
    /// An empty disk without a limit of space.
    #[must_use]
    pub fn new() -> Self {
        Self::of(State::new())
    }

    fn of(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while holding it is a failed test already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations that changed something, so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The disk after a crash now. This one is not changed.
    pub fn crash(&self, survival: &mut dyn Survival) -> Self {
        Self::of(crash::crash(&self.state(), survival))
    }

    /// Every operation after the first `operations` fails, as do reads then.
    pub fn power_off_after(&self, operations: u64) {
        self.state().power_off_after = Some(operations);
    }

    /// Space in all, in bytes; `None` for no limit.
    pub fn set_quota_bytes(&self, quota_bytes: Option<u64>) {
        self.state().quota_bytes = quota_bytes;
    }

    /// Bytes of space taken, in whole chunks of 4096.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used_chunks * CHUNK_BYTES as u64
    }

    /// Lets a sync fail.
    pub fn fail_sync(&self, failure: SyncFailure) {
        self.state().sync_failures.push(failure);
    }

    /// Calls `observer` before each operation that changes something. It must not use this disk, but
    /// may crash the moment it is shown.
    pub fn observe(&self, observer: impl FnMut(&Boundary<'_>) + Send + 'static) {
        self.state().observer = Some(Box::new(observer));
    }

    /// Ends observing.
    pub fn stop_observing(&self) {
        self.state().observer = None;
    }

    /// Changes bytes behind everybody's back, durably: rot. Beyond the end of the file nothing happens.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn damage(
        &self,
        name: &Name,
        offset: u64,
        change: impl Fn(u8) -> u8,
        bytes: u64,
    ) -> Result<(), VfsError> {
        let mut state = self.state();
        let Some(Node::File(inode)) = state.node(name) else {
            return Err(not_found(Operation::Write, name));
        };
        let file = state.inode(inode);
        for content in [&mut file.now, &mut file.durable] {
            for at in offset..offset.saturating_add(bytes).min(content.bytes) {
                let chunk = at / CHUNK_BYTES as u64;
                let start = usize::try_from(at % CHUNK_BYTES as u64).unwrap_or(0);
                let mut image = content.chunk(chunk).map_or([0; CHUNK_BYTES], |chunk| **chunk);
                image[start] = change(image[start]);
                content.put(chunk, Arc::new(image));
            }
        }
        Ok(())
    }
}

impl FileSystem for SimDisk {
    fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError> {
        let mut state = self.state();
        let operation = if options.create_new { Operation::Create } else { Operation::Open };
        state.check_power(operation, name.as_str())?;
        let inode = match (state.node(name), options.create_new) {
            (Some(Node::File(inode)), false) => inode,
            (None, true) => {
                state.directory(operation, &name.parent())?;
                let number = state.begin(operation, name.as_str())?;
                let inode = state.next_inode;
                state.next_inode += 1;
                state.inodes.insert(inode, Inode::default());
                change_name(
                    &mut state,
                    name,
                    number,
                    NameChange::Put(name.last().to_owned(), Node::File(inode)),
                );
                inode
            }
            (None, false) => return Err(not_found(operation, name)),
            (Some(Node::Directory), false) => {
                let reason = "it is a directory";
                return Err(VfsError::new(operation, name.as_str(), VfsErrorKind::Invalid, reason));
            }
            (Some(_), true) => return Err(exists(operation, name)),
        };
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            inode,
            name: name.as_str().to_owned(),
            options,
            sync_failed: AtomicBool::new(false),
        }))
    }

    fn create_directory(&self, name: &Name) -> Result<(), VfsError> {
        let operation = Operation::CreateDirectory;
        let mut state = self.state();
        state.check_power(operation, name.as_str())?;
        state.directory(operation, &name.parent())?;
        if name.is_root() || state.node(name).is_some() {
            return Err(exists(operation, name));
        }
        let number = state.begin(operation, name.as_str())?;
        state.directories.insert(name.as_str().to_owned(), Directory::default());
        let change = NameChange::Put(name.last().to_owned(), Node::Directory);
        change_name(&mut state, name, number, change);
        Ok(())
    }

    fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError> {
        same_directory(from, to)?;
        let mut state = self.state();
        state.check_power(Operation::Rename, from.as_str())?;
        match (state.node(from), state.node(to)) {
            (None, _) => return Err(not_found(Operation::Rename, from)),
            (Some(Node::File(_)), None | Some(Node::File(_))) => {}
            _ => {
                let reason = "only files are renamed";
                return Err(VfsError::new(
                    Operation::Rename,
                    from.as_str(),
                    VfsErrorKind::Invalid,
                    reason,
                ));
            }
        }
        let number = state.begin(Operation::Rename, from.as_str())?;
        let change = NameChange::Rename { from: from.last().to_owned(), to: to.last().to_owned() };
        change_name(&mut state, from, number, change);
        Ok(())
    }

    fn remove(&self, name: &Name) -> Result<(), VfsError> {
        let mut state = self.state();
        state.check_power(Operation::Remove, name.as_str())?;
        match state.node(name) {
            None => return Err(not_found(Operation::Remove, name)),
            Some(Node::File(_)) => {}
            Some(Node::Directory) => {
                if state.directories.get(name.as_str()).is_some_and(|held| !held.now.is_empty()) {
                    let reason = "the directory is not empty";
                    return Err(VfsError::new(
                        Operation::Remove,
                        name.as_str(),
                        VfsErrorKind::Invalid,
                        reason,
                    ));
                }
            }
        }
        let number = state.begin(Operation::Remove, name.as_str())?;
        change_name(&mut state, name, number, NameChange::Remove(name.last().to_owned()));
        Ok(())
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError> {
        let mut state = self.state();
        state.check_power(Operation::List, directory.as_str())?;
        let names = state.directory(Operation::List, directory)?.now.clone();
        Ok(names
            .into_iter()
            .map(|(name, node)| {
                let kind = match node {
                    Node::Directory => EntryKind::Directory,
                    Node::File(inode) => EntryKind::File { bytes: state.inode(inode).now.bytes },
                };
                Entry { name, kind: Some(kind) }
            })
            .collect())
    }

    fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError> {
        let mut state = self.state();
        state.check_power(Operation::Open, name.as_str())?;
        if name.is_root() {
            return Ok(Some(EntryKind::Directory));
        }
        Ok(state.node(name).map(|node| match node {
            Node::Directory => EntryKind::Directory,
            Node::File(inode) => EntryKind::File { bytes: state.inode(inode).now.bytes },
        }))
    }

    fn sync_directory(&self, directory: &Name) -> Result<(), VfsError> {
        let mut state = self.state();
        state.directory(Operation::SyncDirectory, directory)?;
        state.begin(Operation::SyncDirectory, directory.as_str())?;
        let names = state.directory(Operation::SyncDirectory, directory)?;
        names.durable = names.now.clone();
        names.pending.clear();
        forget_unreachable(&mut state);
        Ok(())
    }

    fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError> {
        if self.find(name)?.is_none() {
            self.open(name, OpenOptions::CREATE_NEW)?;
        }
        let mut state = self.state();
        if !state.locked.insert(name.as_str().to_owned()) {
            return Err(VfsError::new(
                Operation::Lock,
                name.as_str(),
                VfsErrorKind::Locked,
                "it is open already",
            ));
        }
        drop(state);
        Ok(Box::new(SimLock { disk: self.clone(), name: name.as_str().to_owned() }))
    }

    fn free_bytes(&self) -> Result<u64, VfsError> {
        let state = self.state();
        state.check_power(Operation::FreeSpace, "")?;
        let used = state.used_chunks * CHUNK_BYTES as u64;
        Ok(state.quota_bytes.map_or(u64::MAX, |quota| quota.saturating_sub(used)))
    }
}

/// Changes a name now, and notes it as not durable.
fn change_name(state: &mut State, name: &Name, number: u64, change: NameChange) {
    if let Some(directory) = state.directories.get_mut(name.parent().as_str()) {
        change.apply(&mut directory.now);
        directory.pending.push((number, change));
    }
}

/// Files that no name leads to any more, now or after any crash, give their space back. An open
/// handle of such a file sees it empty, which no caller of ours relies upon.
fn forget_unreachable(state: &mut State) {
    let mut reachable = std::collections::BTreeSet::new();
    for directory in state.directories.values() {
        let pending = directory.pending.iter().filter_map(|(_, change)| match change {
            NameChange::Put(_, node) => Some(node),
            NameChange::Remove(_) | NameChange::Rename { .. } => None,
        });
        for node in directory.now.values().chain(directory.durable.values()).chain(pending) {
            if let Node::File(inode) = node {
                reachable.insert(*inode);
            }
        }
    }
    state.inodes.retain(|inode, _| reachable.contains(inode));
    state.recount();
}

fn exists(operation: Operation, name: &Name) -> VfsError {
    VfsError::new(operation, name.as_str(), VfsErrorKind::Exists, "the name is taken")
}

struct SimLock {
    disk: SimDisk,
    name: String,
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.name);
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    name: String,
    options: OpenOptions,
    sync_failed: AtomicBool,
}

impl SimFile {
    /// Holds callers to what the operating system would refuse.
    fn check_write(&self, operation: Operation, offset: u64) -> Result<(), VfsError> {
        if self.options.write || self.options.create_new {
            return Ok(());
        }
        let reason = "it is open for reading only";
        Err(VfsError::new(operation, &self.name, VfsErrorKind::Invalid, reason).at(offset))
    }

    fn check_alignment(
        &self,
        operation: Operation,
        offset: u64,
        bytes: usize,
    ) -> Result<(), VfsError> {
        let unit = super::DIRECT_IO_BYTES;
        if !self.options.direct_io
            || (offset.is_multiple_of(unit as u64) && bytes.is_multiple_of(unit))
        {
            return Ok(());
        }
        let reason = format!("direct I/O of {bytes} bytes there is not in multiples of {unit}");
        Err(VfsError::new(operation, &self.name, VfsErrorKind::Invalid, reason).at(offset))
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError> {
        self.check_alignment(Operation::Read, offset, buffer.len())?;
        let mut state = self.disk.state();
        state.check_power(Operation::Read, &self.name).map_err(|error| error.at(offset))?;
        Ok(state.inode(self.inode).now.read(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError> {
        self.check_write(Operation::Write, offset)?;
        self.check_alignment(Operation::Write, offset, bytes.len())?;
        self.disk.state().write(self.inode, &self.name, offset, bytes)
    }

    fn length(&self) -> Result<u64, VfsError> {
        let mut state = self.disk.state();
        state.check_power(Operation::Length, &self.name)?;
        Ok(state.inode(self.inode).now.bytes)
    }

    fn set_length(&self, bytes: u64) -> Result<(), VfsError> {
        self.check_write(Operation::Length, bytes)?;
        self.disk.state().set_length(self.inode, &self.name, bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        self.check_write(Operation::Allocate, offset)?;
        self.disk.state().allocate(self.inode, &self.name, offset, bytes)
    }

    fn sync(&self) -> Result<(), VfsError> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(poisoned(&self.name));
        }
        let result = self.disk.state().sync(self.inode, &self.name);
        if result.is_err() {
            self.sync_failed.store(true, Ordering::Release);
        }
        result
    }

    fn start_writeback(&self, _offset: u64, _bytes: u64) -> Result<(), VfsError> {
        // What a kernel writes early is a survival like any other.
        self.disk.state().check_power(Operation::StartWriteback, &self.name)
    }
}
