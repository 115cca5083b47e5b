//! The pages that replay has touched, until they are written (rules R4, R5).

use std::collections::BTreeMap;

use super::Report;
use crate::page::{Header, Lsn, PageBytes, PageIdentity, PageImage, seal};
use crate::smgr::{OwedSync, Smgr, SmgrError};
use crate::wal::record::Record;
use crate::wal::rmgr::{RedoError, RedoPages, ResourceManager};

pub(super) struct ReplayedPages<'a> {
    relations: &'a Smgr,
    pages: BTreeMap<PageIdentity, PageImage>,
    pages_max: usize,
    images: u64,
    changes: u64,
    changes_held: u64,
}

impl<'a> ReplayedPages<'a> {
    pub(super) fn new(relations: &'a Smgr, pages_max: usize) -> Self {
        Self {
            relations,
            pages: BTreeMap::new(),
            pages_max: pages_max.max(1),
            images: 0,
            changes: 0,
            changes_held: 0,
        }
    }

    /// Compares what replay made of pages with the images that check mode added to the record.
    pub(super) fn check(
        &self,
        record: &Record<'_>,
        manager: &dyn ResourceManager,
        report: &mut Report,
    ) -> Result<(), RedoError> {
        for block in &record.blocks {
            let Some(image) = block.image.as_ref().filter(|image| image.is_for_check) else {
                continue;
            };
            // A page that the same record dropped has nothing to compare.
            let Some(replayed) = self.pages.get(&block.identity) else { continue };
            let mut expected = PageImage::zeroed();
            image.restore(&mut expected);
            let mut replayed = replayed.clone();
            for page in [&mut expected, &mut replayed] {
                mask(block.identity, page);
                manager.mask(block.identity, page);
            }
            if let Some(at) =
                expected.iter().zip(replayed.iter()).position(|(left, right)| left != right)
            {
                return Err(RedoError::Impossible(format!(
                    "{}: replay made byte {at} {:#04x}, and it was {:#04x}",
                    block.identity, replayed[at], expected[at]
                )));
            }
            report.checked += 1;
        }
        Ok(())
    }

    /// Writes all pages when there are more than may be held.
    pub(super) fn keep_small(&mut self, report: &mut Report) -> Result<(), SmgrError> {
        if self.pages.len() > self.pages_max { self.write(report) } else { Ok(()) }
    }

    pub(super) fn count(&self, report: &mut Report) {
        report.images = self.images;
        report.changes = self.changes;
        report.changes_held = self.changes_held;
    }

    /// Makes everything durable (rule R5), names of files included, which a crash may have left in the
    /// kernel's cache alone.
    pub(super) fn finish(&mut self, report: &mut Report) -> Result<(), SmgrError> {
        self.write(report)?;
        let queue = self.relations.sync_queue();
        queue.add(OwedSync::Directory);
        for owed in queue.owed_before(queue.begin_cycle()) {
            if queue.take(&owed) {
                self.relations.sync(owed)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, report: &mut Report) -> Result<(), SmgrError> {
        // In the order of their places: a fork grows from its front (smgr, rule S1).
        for (identity, mut page) in std::mem::take(&mut self.pages) {
            self.make_place(identity)?;
            seal(&mut page, self.relations.database(), identity);
            self.relations.write(identity, &page)?;
            report.pages_written += 1;
        }
        Ok(())
    }

    /// A fork or a block that the crash took, or that a later record drops: what replay has for it is whole.
    fn make_place(&self, identity: PageIdentity) -> Result<(), SmgrError> {
        let PageIdentity { relation, fork, block } = identity;
        if !self.relations.exists(relation, fork)? {
            self.relations.create(relation, fork)?;
        }
        let blocks = self.relations.blocks(relation, fork)?;
        if blocks <= block.0 {
            self.relations.extend(relation, fork, block.0 - blocks + 1)?;
        }
        Ok(())
    }

    /// The page as it is, in memory from now on.
    fn page(&mut self, identity: PageIdentity) -> Result<&mut PageImage, RedoError> {
        if !self.pages.contains_key(&identity) {
            let mut page = PageImage::zeroed();
            self.relations.read(identity, &mut page)?;
            self.pages.insert(identity, page);
        }
        Ok(self.pages.entry(identity).or_default())
    }
}

impl RedoPages for ReplayedPages<'_> {
    fn repeat(
        &mut self,
        record: &Record<'_>,
        index: usize,
        change: &mut dyn FnMut(&mut PageBytes) -> Result<(), RedoError>,
    ) -> Result<(), RedoError> {
        let Some(block) = record.blocks.get(index) else {
            return Err(RedoError::Impossible(format!("it has no block {index}")));
        };
        // Rule R4.
        let image = block.image.as_ref().filter(|image| !image.is_for_check);
        let page = if image.is_some() || block.is_made_anew {
            let page = self.pages.entry(block.identity).or_default();
            page.fill(0);
            page
        } else {
            self.page(block.identity)?
        };
        if let Some(image) = image {
            image.restore(page);
        } else if Header::read(page).lsn >= record.end {
            self.changes_held += 1;
            return Ok(());
        } else {
            change(page)?;
        }
        set_lsn(page, record.end);
        self.images += u64::from(image.is_some());
        self.changes += u64::from(image.is_none());
        Ok(())
    }

    fn relations(&self) -> &Smgr {
        self.relations
    }

    fn forget(&mut self, is_gone: &mut dyn FnMut(PageIdentity) -> bool) {
        self.pages.retain(|identity, _| !is_gone(*identity));
    }
}

fn set_lsn(page: &mut PageBytes, lsn: Lsn) {
    Header { lsn, ..Header::read(page) }.write(page);
}

/// LSN and checksum differ between a page and its image, and what lies in its hole means nothing.
fn mask(identity: PageIdentity, page: &mut PageBytes) {
    let header = Header { lsn: Lsn(0), checksum: 0, ..Header::read(page) };
    header.write(page);
    if header.check(identity).is_ok() {
        page[usize::from(header.lower)..usize::from(header.upper)].fill(0);
    }
}
