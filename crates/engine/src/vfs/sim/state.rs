//! What a simulated disk knows: what is there now, what is durable, and what lies between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::{CHUNK_BYTES, Chunk, Content, place_of};
use super::{Boundary, SyncAftermath, SyncFailure};
use crate::vfs::{Name, Operation, SECTOR_BYTES, VfsError, VfsErrorKind};

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Directory,
}

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Put(String, Node),
    Remove(String),
    Rename { from: String, to: String },
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Put(name, node) => {
                names.insert(name.clone(), *node);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            Self::Rename { from, to } => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) now: BTreeMap<String, Node>,
    pub(super) durable: BTreeMap<String, Node>,
    /// With the number of the operation that made it, in order.
    pub(super) pending: Vec<(u64, NameChange)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) now: Content,
    pub(super) durable: Content,
    /// Versions of each sector since the last sync: the operation's number, and the chunk the sector
    /// was part of.
    pub(super) sectors: BTreeMap<u64, Vec<(u64, Chunk)>>,
    pub(super) lengths: Vec<(u64, u64)>,
    /// Operations that cut the file: their versions of sectors are zeros that nobody wrote.
    pub(super) cuts: BTreeSet<u64>,
}

impl Inode {
    pub(super) fn is_clean(&self) -> bool {
        self.sectors.is_empty() && self.lengths.is_empty()
    }

    /// Everything written becomes durable.
    fn settle(&mut self) {
        let sectors = std::mem::take(&mut self.sectors);
        for (sector, versions) in &sectors {
            if let Some((_, chunk)) = versions.last() {
                self.durable.put_sector(*sector, chunk);
            }
        }
        self.lengths.clear();
        self.cuts.clear();
        self.durable.set_length(self.now.bytes);
    }

    /// The kernel's page cache forgets what it could not write: what is read is what is durable.
    fn revert(&mut self) {
        self.sectors.clear();
        self.lengths.clear();
        self.cuts.clear();
        self.now = self.durable.clone();
    }
}

pub(super) type Observer = Box<dyn FnMut(&Boundary<'_>) + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) directories: BTreeMap<String, Directory>,
    pub(super) next_inode: u64,
    /// Operations that changed something, so far.
    pub(super) operations: u64,
    pub(super) quota_bytes: Option<u64>,
    pub(super) used_chunks: u64,
    pub(super) locked: BTreeSet<String>,
    pub(super) power_off_after: Option<u64>,
    pub(super) sync_failures: Vec<SyncFailure>,
    pub(super) observer: Option<Observer>,
}

impl State {
    pub(super) fn new() -> Self {
        let mut state = Self::default();
        state.directories.insert(String::new(), Directory::default());
        state
    }

    /// Before an operation that only reads.
    pub(super) fn check_power(&self, operation: Operation, name: &str) -> Result<(), VfsError> {
        match self.power_off_after {
            Some(last) if self.operations >= last => Err(VfsError::new(
                operation,
                name,
                VfsErrorKind::PoweredOff,
                format!("the simulated machine lost its power after operation {last}"),
            )),
            _ => Ok(()),
        }
    }

    /// Before an operation that changes something: tells the observer, counts.
    pub(super) fn begin(&mut self, operation: Operation, name: &str) -> Result<u64, VfsError> {
        self.check_power(operation, name)?;
        if let Some(mut observer) = self.observer.take() {
            observer(&Boundary { state: self, operation, name });
            self.observer = Some(observer);
        }
        self.operations += 1;
        Ok(self.operations)
    }

    pub(super) fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.entry(inode).or_default()
    }

    pub(super) fn directory(
        &mut self,
        operation: Operation,
        name: &Name,
    ) -> Result<&mut Directory, VfsError> {
        self.directories.get_mut(name.as_str()).ok_or_else(|| not_found(operation, name))
    }

    pub(super) fn node(&self, name: &Name) -> Option<Node> {
        self.directories.get(name.parent().as_str())?.now.get(name.last()).copied()
    }

    pub(super) fn take_space(
        &mut self,
        operation: Operation,
        name: &str,
        chunks: u64,
    ) -> Result<(), VfsError> {
        let used = self.used_chunks.saturating_add(chunks);
        if self.quota_bytes.is_some_and(|quota| used.saturating_mul(CHUNK_BYTES as u64) > quota) {
            return Err(VfsError::new(
                operation,
                name,
                VfsErrorKind::Full,
                "no space left on the simulated disk",
            ));
        }
        self.used_chunks = used;
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        inode: u64,
        name: &str,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), VfsError> {
        let number = self.begin(Operation::Write, name)?;
        let end = offset.checked_add(bytes.len() as u64).ok_or_else(|| too_large(name, offset))?;
        let mut at = offset;
        while at < end {
            let chunk = at / CHUNK_BYTES as u64;
            let start = usize::try_from(at % CHUNK_BYTES as u64).unwrap_or(0);
            let done = usize::try_from(at - offset).unwrap_or(usize::MAX);
            let piece = (CHUNK_BYTES - start).min(bytes.len() - done);
            let old = self.inode(inode).now.chunk(chunk).cloned();
            if old.is_none() {
                // What was written before the disk was full stays (rule V5).
                self.take_space(Operation::Write, name, 1).map_err(|error| error.at(at))?;
            }
            let mut image = old.map_or([0; CHUNK_BYTES], |old| *old);
            image[start..start + piece].copy_from_slice(&bytes[done..done + piece]);
            let image: Chunk = Arc::new(image);
            let file = self.inode(inode);
            file.now.put(chunk, Arc::clone(&image));
            let last = at + piece as u64 - 1;
            for sector in at / SECTOR_BYTES as u64..=last / SECTOR_BYTES as u64 {
                file.sectors.entry(sector).or_default().push((number, Arc::clone(&image)));
            }
            at += piece as u64;
            if at > file.now.bytes {
                file.now.bytes = at;
                match file.lengths.last_mut() {
                    Some((of, length)) if *of == number => *length = at,
                    _ => file.lengths.push((number, at)),
                }
            }
        }
        Ok(())
    }

    pub(super) fn set_length(
        &mut self,
        inode: u64,
        name: &str,
        bytes: u64,
    ) -> Result<(), VfsError> {
        let number = self.begin(Operation::Length, name)?;
        let file = self.inode(inode);
        let before = file.now.bytes;
        let cut_from = bytes.div_ceil(SECTOR_BYTES as u64);
        let freed = file.now.set_length(bytes);
        file.lengths.push((number, bytes));
        if bytes < before {
            // What was cut must not come back as data should the file grow again; until the cut is
            // durable, it may.
            file.cuts.insert(number);
            let zeros: Chunk = Arc::new([0; CHUNK_BYTES]);
            for sector in cut_from..before.div_ceil(SECTOR_BYTES as u64) {
                file.sectors.entry(sector).or_default().push((number, Arc::clone(&zeros)));
            }
            if !bytes.is_multiple_of(SECTOR_BYTES as u64) {
                let sector = bytes / SECTOR_BYTES as u64;
                let chunk = file.now.chunk(place_of(sector).0).cloned().unwrap_or(zeros);
                file.sectors.entry(sector).or_default().push((number, chunk));
            }
        }
        self.used_chunks = self.used_chunks.saturating_sub(freed);
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        inode: u64,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<(), VfsError> {
        let number = self.begin(Operation::Allocate, name)?;
        let end = offset.checked_add(bytes).ok_or_else(|| too_large(name, offset))?;
        let zeros: Chunk = Arc::new([0; CHUNK_BYTES]);
        let chunks = offset / CHUNK_BYTES as u64..end.div_ceil(CHUNK_BYTES as u64);
        let file = self.inode(inode);
        let missing: Vec<u64> = chunks.filter(|chunk| file.now.chunk(*chunk).is_none()).collect();
        // All or nothing, as fallocate does on the usual file systems.
        self.take_space(Operation::Allocate, name, missing.len() as u64)
            .map_err(|error| error.at(offset))?;
        let file = self.inode(inode);
        for chunk in missing {
            file.now.put(chunk, Arc::clone(&zeros));
        }
        if end > file.now.bytes {
            file.now.bytes = end;
            file.lengths.push((number, end));
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: u64, name: &str) -> Result<(), VfsError> {
        self.begin(Operation::Sync, name)?;
        if let Some(failure) = self.due_failure(name) {
            let file = self.inode(inode);
            match failure.aftermath {
                SyncAftermath::Keep => {}
                SyncAftermath::Forget => {
                    file.sectors.clear();
                    file.lengths.clear();
                    file.cuts.clear();
                }
                SyncAftermath::Drop => file.revert(),
            }
            self.recount();
            return Err(VfsError::new(
                Operation::Sync,
                name,
                VfsErrorKind::Io,
                "the simulated device failed",
            ));
        }
        self.inode(inode).settle();
        Ok(())
    }

    fn due_failure(&mut self, name: &str) -> Option<SyncFailure> {
        let at = self.sync_failures.iter_mut().position(|failure| {
            if !name.starts_with(&failure.prefix) {
                return false;
            }
            failure.nth = failure.nth.saturating_sub(1);
            failure.nth == 0
        })?;
        Some(self.sync_failures.remove(at))
    }

    /// Space after files vanished or were reverted.
    pub(super) fn recount(&mut self) {
        self.used_chunks = self.inodes.values().map(|file| file.now.chunk_count()).sum();
    }
}

pub(super) fn not_found(operation: Operation, name: &Name) -> VfsError {
    VfsError::new(operation, name.as_str(), VfsErrorKind::NotFound, "there is no such name")
}

fn too_large(name: &str, offset: u64) -> VfsError {
    let reason = "the range ends beyond the largest file there can be";
    VfsError::new(Operation::Write, name, VfsErrorKind::Invalid, reason).at(offset)
}
