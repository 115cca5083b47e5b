#![doc = include_str!("README.md")]

mod sync_queue;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use sync_queue::{OwedSync, SyncQueue};

use crate::page::{
    BlockNumber, Damage, DatabaseId, Fork, PAGE_BYTES, PageBytes, PageIdentity, RelationNumber,
    verify,
};
use crate::vfs::{
    EntryKind, File, FileSystem, Name, OpenOptions, Operation, VfsError, VfsErrorKind,
};

/// The directory of all relation files.
pub const DIRECTORY: &str = "base";

/// Pages of a segment: 1 GiB, as in PostgreSQL.
pub const SEGMENT_BLOCKS: u32 = 131_072;

/// Blocks of a fork at most; the last number stays free to say "none", as in PostgreSQL.
pub const BLOCKS_MAX: u32 = u32::MAX - 1;

const PAGE: u64 = PAGE_BYTES as u64;

/// A file of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIdentity {
    /// The relation.
    pub relation: RelationNumber,
    /// The fork.
    pub fork: Fork,
    /// Which segment, from 0.
    pub segment: u32,
}

/// Why a page or a file could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmgrError {
    /// The file operation failed.
    #[error(transparent)]
    Vfs(#[from] VfsError),
    /// The page is not what was written there.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// There is no such block.
    #[error("{identity} lies beyond the end: there are {blocks} blocks")]
    BeyondEnd {
        /// The page asked for.
        identity: PageIdentity,
        /// How many blocks there are.
        blocks: u32,
    },
    /// The fork cannot grow so far.
    #[error("relation {} cannot grow by {by} blocks beyond its {blocks}: {BLOCKS_MAX} is the most", .relation.0)]
    TooLarge {
        /// The relation.
        relation: RelationNumber,
        /// Its blocks now.
        blocks: u32,
        /// Blocks asked for.
        by: u32,
    },
}

/// The relation files of a database.
pub struct Smgr {
    files: Arc<dyn FileSystem>,
    database: DatabaseId,
    segment_blocks: u32,
    direct_io: bool,
    directory: Name,
    open: Mutex<BTreeMap<SegmentIdentity, Arc<dyn File>>>,
    owed: SyncQueue,
}

impl Smgr {
    /// The relation files in `files`, whose directory is made where it is missing. `segment_blocks`
    /// is fixed when the database is created: [`SEGMENT_BLOCKS`], or less in a simulation.
    ///
    /// # Errors
    /// When the directory can be neither found nor made.
    pub fn new(
        files: Arc<dyn FileSystem>,
        database: DatabaseId,
        segment_blocks: u32,
        direct_io: bool,
    ) -> Result<Self, SmgrError> {
        let directory = Name::parse(DIRECTORY)?;
        if files.find(&directory)?.is_none() {
            files.create_directory(&directory)?;
            files.sync_directory(&Name::root())?;
        }
        Ok(Self {
            files,
            database,
            segment_blocks: segment_blocks.max(1),
            direct_io,
            directory,
            open: Mutex::new(BTreeMap::new()),
            owed: SyncQueue::default(),
        })
    }

    /// The database whose pages these are: whoever seals a page needs it.
    #[must_use]
    pub const fn database(&self) -> DatabaseId {
        self.database
    }

    /// Whether files are read and written past the kernel's page cache (vfs, rule V8).
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.direct_io
    }

    /// What owes a sync.
    #[must_use]
    pub const fn sync_queue(&self) -> &SyncQueue {
        &self.owed
    }

    /// Makes the first file of a fork.
    ///
    /// # Errors
    /// `Exists` when the fork is there, or as the file system says.
    pub fn create(&self, relation: RelationNumber, fork: Fork) -> Result<(), SmgrError> {
        let segment = SegmentIdentity { relation, fork, segment: 0 };
        self.create_segment(segment)?;
        Ok(())
    }

    /// Whether the fork is there.
    ///
    /// # Errors
    /// As the file system says.
    pub fn exists(&self, relation: RelationNumber, fork: Fork) -> Result<bool, SmgrError> {
        let name = self.name(SegmentIdentity { relation, fork, segment: 0 })?;
        Ok(matches!(self.files.find(&name)?, Some(EntryKind::File { .. })))
    }

    /// How many blocks the fork has (rule S1).
    ///
    /// # Errors
    /// `NotFound` when the fork is not there, or as the file system says.
    pub fn blocks(&self, relation: RelationNumber, fork: Fork) -> Result<u32, SmgrError> {
        let mut blocks = 0_u32;
        for segment in 0.. {
            let identity = SegmentIdentity { relation, fork, segment };
            let Some(file) = self.segment(identity)? else {
                if segment == 0 {
                    return Err(self.not_found(identity)?.into());
                }
                break;
            };
            let held = u32::try_from(file.length()? / PAGE).unwrap_or(u32::MAX);
            blocks = blocks.saturating_add(held.min(self.segment_blocks));
            if held < self.segment_blocks || blocks >= BLOCKS_MAX {
                break;
            }
        }
        Ok(blocks.min(BLOCKS_MAX))
    }

    /// Reads a page and verifies it (rule S3).
    ///
    /// # Errors
    /// `BeyondEnd`, `Damage`, or as the file system says.
    pub fn read(&self, identity: PageIdentity, page: &mut PageBytes) -> Result<(), SmgrError> {
        let (segment, offset) = self.place(identity);
        let read = match self.segment(segment)? {
            Some(file) => file.read_at(offset, page)?,
            None => 0,
        };
        if read < PAGE_BYTES {
            let blocks = self.blocks(identity.relation, identity.fork)?;
            return Err(SmgrError::BeyondEnd { identity, blocks });
        }
        verify(page, self.database, identity)?;
        Ok(())
    }

    /// Writes a sealed page to a block that exists (rule S4).
    ///
    /// # Errors
    /// `BeyondEnd`, or as the file system says.
    pub fn write(&self, identity: PageIdentity, page: &PageBytes) -> Result<(), SmgrError> {
        let (segment, offset) = self.place(identity);
        let beyond = || -> SmgrError {
            match self.blocks(identity.relation, identity.fork) {
                Ok(blocks) => SmgrError::BeyondEnd { identity, blocks },
                Err(error) => error,
            }
        };
        let Some(file) = self.segment(segment)? else { return Err(beyond()) };
        if file.length()? < offset + PAGE {
            return Err(beyond());
        }
        // Owed before it is written: a checkpoint that begins in between must not miss it.
        self.owed.add(OwedSync::Segment(segment));
        file.write_at(offset, page)?;
        Ok(())
    }

    /// Asks the system to begin writing `blocks` pages from `first` on; for a range within one
    /// segment, as write-back tends to be. What lies beyond that segment is left.
    ///
    /// # Errors
    /// As the file system says; it counts as a failed sync (vfs, rule V10).
    pub fn start_writeback(&self, first: PageIdentity, blocks: u32) -> Result<(), SmgrError> {
        let (segment, offset) = self.place(first);
        if let Some(file) = self.segment(segment)? {
            let left = u64::from(self.segment_blocks) * PAGE - offset;
            file.start_writeback(offset, (u64::from(blocks) * PAGE).min(left))?;
        }
        Ok(())
    }

    /// Adds `by` blocks of zeros to the end, with their space (rule S2); says the first one's number.
    /// After an error the fork is as long as before, or longer by some of the blocks.
    ///
    /// # Errors
    /// `Full` when there is no space, `TooLarge`, or as the file system says.
    pub fn extend(
        &self,
        relation: RelationNumber,
        fork: Fork,
        by: u32,
    ) -> Result<BlockNumber, SmgrError> {
        let first = self.blocks(relation, fork)?;
        let end = first
            .checked_add(by)
            .filter(|end| *end <= BLOCKS_MAX)
            .ok_or(SmgrError::TooLarge { relation, blocks: first, by })?;
        let mut block = first;
        while block < end {
            let segment = SegmentIdentity { relation, fork, segment: block / self.segment_blocks };
            let within = block % self.segment_blocks;
            let count = (self.segment_blocks - within).min(end - block);
            let file = match self.segment(segment)? {
                Some(file) => file,
                None => self.create_segment(segment)?,
            };
            let offset = u64::from(within) * PAGE;
            self.owed.add(OwedSync::Segment(segment));
            if file.length()? > offset {
                // A torn page of a crash, or what rule S1 leaves uncounted.
                file.set_length(offset)?;
            }
            if within + count == self.segment_blocks {
                // Rule S1: once this segment is full, what lies behind it would count.
                self.cut_to_nothing(SegmentIdentity { segment: segment.segment + 1, ..segment })?;
            }
            file.allocate(offset, u64::from(count) * PAGE)?;
            block += count;
        }
        Ok(BlockNumber(first))
    }

    /// Cuts the fork to `blocks` (rule S5). Longer than it is, it stays as it is.
    ///
    /// # Errors
    /// As the file system says; lengths may be cut in part then.
    pub fn truncate(
        &self,
        relation: RelationNumber,
        fork: Fork,
        blocks: u32,
    ) -> Result<(), SmgrError> {
        let mut segments = Vec::new();
        for segment in 0.. {
            let identity = SegmentIdentity { relation, fork, segment };
            match self.segment(identity)? {
                Some(file) => segments.push((identity, file)),
                None => break,
            }
        }
        for (identity, file) in segments.into_iter().rev() {
            let before = u64::from(identity.segment) * u64::from(self.segment_blocks);
            let keep =
                u64::from(blocks).saturating_sub(before).min(u64::from(self.segment_blocks)) * PAGE;
            if file.length()? > keep {
                self.owed.add(OwedSync::Segment(identity));
                file.set_length(keep)?;
            }
        }
        Ok(())
    }

    /// Removes all files of a relation, last segment first, so that a crash leaves a row without gap.
    ///
    /// # Errors
    /// As the file system says; some files may be left.
    pub fn drop_relation(&self, relation: RelationNumber) -> Result<(), SmgrError> {
        for fork in Fork::ALL {
            let mut segments = 0;
            while self.segment(SegmentIdentity { relation, fork, segment: segments })?.is_some() {
                segments += 1;
            }
            for segment in (0..segments).rev() {
                let identity = SegmentIdentity { relation, fork, segment };
                self.open().remove(&identity);
                self.owed.forget(&OwedSync::Segment(identity));
                self.owed.add(OwedSync::Directory);
                match self.files.remove(&self.name(identity)?) {
                    Err(error) if error.kind() != VfsErrorKind::NotFound => {
                        return Err(error.into());
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Pays one owed sync. A file that is gone owes nothing.
    ///
    /// # Errors
    /// As the file system says; rule S6 holds then.
    pub fn sync(&self, owed: OwedSync) -> Result<(), SmgrError> {
        match owed {
            OwedSync::Directory => self.files.sync_directory(&self.directory)?,
            OwedSync::Segment(segment) => {
                if let Some(file) = self.segment(segment)? {
                    file.sync()?;
                }
            }
        }
        Ok(())
    }

    /// The relations there are files of, with their forks, in order. What is no relation file is left out.
    ///
    /// # Errors
    /// As the file system says.
    pub fn relations(&self) -> Result<Vec<(RelationNumber, Fork)>, SmgrError> {
        let mut found = std::collections::BTreeSet::new();
        for entry in self.files.list(&self.directory)? {
            if let Some(segment) = parse_name(&entry.name) {
                found.insert((segment.relation, segment.fork));
            }
        }
        Ok(found.into_iter().collect())
    }

    fn place(&self, identity: PageIdentity) -> (SegmentIdentity, u64) {
        let segment = identity.block.0 / self.segment_blocks;
        let offset = u64::from(identity.block.0 % self.segment_blocks) * PAGE;
        (SegmentIdentity { relation: identity.relation, fork: identity.fork, segment }, offset)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<SegmentIdentity, Arc<dyn File>>> {
        // Nothing that can panic is done while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, segment: SegmentIdentity) -> Result<Name, VfsError> {
        self.directory.join(&file_name(segment))
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { direct_io: self.direct_io, ..OpenOptions::READ_WRITE }
    }

    fn create_segment(&self, segment: SegmentIdentity) -> Result<Arc<dyn File>, SmgrError> {
        self.owed.add(OwedSync::Directory);
        let options = OpenOptions { create_new: true, ..self.options() };
        let file = self.files.open(&self.name(segment)?, options)?;
        self.owed.add(OwedSync::Segment(segment));
        self.open().insert(segment, Arc::clone(&file));
        Ok(file)
    }

    /// The open file of a segment; `None` where there is none.
    fn segment(&self, segment: SegmentIdentity) -> Result<Option<Arc<dyn File>>, SmgrError> {
        if let Some(file) = self.open().get(&segment) {
            return Ok(Some(Arc::clone(file)));
        }
        // Opened without the lock held: two openers at once both succeed, and one handle is kept.
        match self.files.open(&self.name(segment)?, self.options()) {
            Ok(file) => Ok(Some(Arc::clone(self.open().entry(segment).or_insert(file)))),
            Err(error) if error.kind() == VfsErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn cut_to_nothing(&self, segment: SegmentIdentity) -> Result<(), SmgrError> {
        if let Some(file) = self.segment(segment)?
            && file.length()? > 0
        {
            self.owed.add(OwedSync::Segment(segment));
            file.set_length(0)?;
        }
        Ok(())
    }

    fn not_found(&self, segment: SegmentIdentity) -> Result<VfsError, VfsError> {
        let name = self.name(segment)?;
        Ok(VfsError::new(
            Operation::Open,
            name.as_str(),
            VfsErrorKind::NotFound,
            "the relation has no such fork",
        ))
    }
}

/// The name of a segment's file.
fn file_name(segment: SegmentIdentity) -> String {
    let SegmentIdentity { relation, fork, segment } = segment;
    let fork = match fork {
        Fork::Main => String::new(),
        other => format!("_{}", other.word()),
    };
    let segment = if segment == 0 { String::new() } else { format!(".{segment}") };
    format!("{}{fork}{segment}", relation.0)
}

/// The segment of a file's name; `None` for names that [`file_name`] does not make.
fn parse_name(name: &str) -> Option<SegmentIdentity> {
    let (rest, segment) = match name.split_once('.') {
        Some((rest, segment)) => (rest, segment.parse().ok()?),
        None => (name, 0),
    };
    let (relation, fork) = match rest.split_once('_') {
        Some((relation, word)) => (
            relation,
            Fork::ALL.into_iter().find(|fork| *fork != Fork::Main && fork.word() == word)?,
        ),
        None => (rest, Fork::Main),
    };
    let segment =
        SegmentIdentity { relation: RelationNumber(relation.parse().ok()?), fork, segment };
    (file_name(segment) == name).then_some(segment)
}
