//! The files of an SLRU: segments of 32 pages, so that old ones can be removed from the front.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::SlruError;
use super::identity;
use crate::page::{DatabaseId, PAGE_BYTES, PageImage, RelationNumber, verify};
use crate::sync::{Mutex, lock};
use crate::vfs::{EntryKind, File, FileSystem, Name, OpenOptions, VfsErrorKind};

/// Pages of a segment, as in PostgreSQL.
pub const SEGMENT_PAGES: u32 = 32;

const PAGE: u64 = PAGE_BYTES as u64;

/// See the module.
pub(super) struct Files {
    files: Arc<dyn FileSystem>,
    database: DatabaseId,
    name: &'static str,
    number: RelationNumber,
    directory: Name,
    open: Mutex<BTreeMap<u32, Arc<dyn File>>>,
    owed: Mutex<Owed>,
}

#[derive(Default)]
struct Owed {
    segments: BTreeSet<u32>,
    is_directory: bool,
}

impl Files {
    pub(super) fn new(
        files: Arc<dyn FileSystem>,
        database: DatabaseId,
        name: &'static str,
        number: RelationNumber,
    ) -> Result<Self, SlruError> {
        let directory = Name::parse(name)?;
        if files.find(&directory)?.is_none() {
            files.create_directory(&directory)?;
            files.sync_directory(&Name::root())?;
        }
        let (open, owed) = (Mutex::new(BTreeMap::new()), Mutex::new(Owed::default()));
        Ok(Self { files, database, name, number, directory, open, owed })
    }

    pub(super) const fn database(&self) -> DatabaseId {
        self.database
    }

    /// Reads a page and verifies it.
    pub(super) fn read(&self, page: u32, bytes: &mut PageImage) -> Result<(), SlruError> {
        let missing = || SlruError::Missing { name: self.name, page: page.into() };
        let (segment, offset) = place(page);
        let file = self.segment(segment)?.ok_or_else(missing)?;
        // Zeros are the space that was made for the segment: a page that was made has a header.
        if file.read_at(offset, &mut **bytes)? < PAGE_BYTES || bytes.is_new() {
            return Err(missing());
        }
        let damaged = |damage| SlruError::Damage { name: self.name, page, damage };
        verify(bytes, self.database, identity(self.number, page)).map_err(damaged)
    }

    /// Writes a sealed page.
    pub(super) fn write(&self, page: u32, bytes: &PageImage) -> Result<(), SlruError> {
        let (segment, offset) = place(page);
        let missing = || SlruError::Missing { name: self.name, page: page.into() };
        let file = self.segment(segment)?.ok_or_else(missing)?;
        lock(&self.owed).segments.insert(segment);
        file.write_at(offset, &**bytes)?;
        Ok(())
    }

    /// Makes the segment of a page, with space for all its pages, where it is not there: a full disk is
    /// an answer here and not when the page is written.
    pub(super) fn make_room(&self, page: u32) -> Result<(), SlruError> {
        let (segment, _) = place(page);
        let file = match self.segment(segment)? {
            Some(file) => file,
            None => {
                lock(&self.owed).is_directory = true;
                let made = self.files.open(&self.segment_name(segment)?, OpenOptions::CREATE_NEW);
                let made = match made {
                    // Another task was quicker.
                    Err(error) if error.kind() == VfsErrorKind::Exists => {
                        self.files.open(&self.segment_name(segment)?, OpenOptions::READ_WRITE)?
                    }
                    made => made?,
                };
                Arc::clone(lock(&self.open).entry(segment).or_insert(made))
            }
        };
        let bytes = u64::from(SEGMENT_PAGES) * PAGE;
        if file.length()? < bytes {
            lock(&self.owed).segments.insert(segment);
            file.allocate(0, bytes)?;
        }
        Ok(())
    }

    /// Removes the segments that have only pages before `page`, the oldest first, so that a crash in
    /// between leaves no gap.
    pub(super) fn remove_before(&self, page: u32) -> Result<(), SlruError> {
        let (keep, _) = place(page);
        let mut old: Vec<u32> = Vec::new();
        for entry in self.files.list(&self.directory)? {
            if matches!(entry.kind, Some(EntryKind::File { .. }))
                && let Some(segment) = parse(&entry.name).filter(|segment| *segment < keep)
            {
                old.push(segment);
            }
        }
        old.sort_unstable();
        for segment in old {
            lock(&self.open).remove(&segment);
            let mut owed = lock(&self.owed);
            owed.segments.remove(&segment);
            owed.is_directory = true;
            drop(owed);
            crate::vfs::durable::remove_if_there(&*self.files, &self.segment_name(segment)?)?;
        }
        Ok(())
    }

    /// Makes durable what was written and made. After a failure nobody tries again (smgr, rule S6).
    pub(super) fn sync(&self) -> Result<(), SlruError> {
        let owed = std::mem::take(&mut *lock(&self.owed));
        for segment in owed.segments {
            if let Some(file) = self.segment(segment)? {
                file.sync()?;
            }
        }
        if owed.is_directory {
            self.files.sync_directory(&self.directory)?;
        }
        Ok(())
    }

    fn segment_name(&self, segment: u32) -> Result<Name, SlruError> {
        // At least four digits, as PostgreSQL's; lower case, as all our names.
        Ok(self.directory.join(&format!("{segment:04x}"))?)
    }

    fn segment(&self, segment: u32) -> Result<Option<Arc<dyn File>>, SlruError> {
        if let Some(file) = lock(&self.open).get(&segment) {
            return Ok(Some(Arc::clone(file)));
        }
        // Opened without the lock held: two openers at once both succeed, and one handle is kept.
        match self.files.open(&self.segment_name(segment)?, OpenOptions::READ_WRITE) {
            Ok(file) => Ok(Some(Arc::clone(lock(&self.open).entry(segment).or_insert(file)))),
            Err(error) if error.kind() == VfsErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn place(page: u32) -> (u32, u64) {
    (page / SEGMENT_PAGES, u64::from(page % SEGMENT_PAGES) * PAGE)
}

fn parse(name: &str) -> Option<u32> {
    let segment = u32::from_str_radix(name, 16).ok()?;
    (format!("{segment:04x}") == name).then_some(segment)
}
