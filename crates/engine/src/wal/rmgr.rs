//! What the log needs from those whose changes it holds: to repeat them, to put them in words.

use std::fmt;

use super::record::{ManagerNumber, Record};
use crate::page::{PageBytes, PageIdentity};
use crate::smgr::{Smgr, SmgrError};

/// Repeats and describes the records of a kind. `redo` is called for each record of the log in order, and
/// again from an earlier point after a crash: what it does outside of pages must bear that.
pub trait ResourceManager: Send + Sync {
    /// Its number, in every record.
    fn number(&self) -> ManagerNumber;

    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Repeats the change of a record.
    ///
    /// # Errors
    /// When the record cannot be one of this manager, or as the files say.
    fn redo(&self, record: &Record<'_>, pages: &mut dyn RedoPages) -> Result<(), RedoError>;

    /// Puts a record in words, without a line's end.
    ///
    /// # Errors
    /// The writer's.
    fn describe(&self, record: &Record<'_>, text: &mut dyn fmt::Write) -> fmt::Result;

    /// Changes to zero what may differ between a page and its replay, such as hints that are not logged.
    /// Header and hole are seen to.
    fn mask(&self, _identity: PageIdentity, _page: &mut PageBytes) {}

    /// Called when everything was replayed: what the manager keeps outside of pages must be durable when it
    /// returns, since the log that says it is not read again.
    ///
    /// # Errors
    /// As the files say.
    fn finish(&self) -> Result<(), RedoError> {
        Ok(())
    }
}

/// The pages of a database during replay.
pub trait RedoPages {
    /// Lets `change` repeat the change of the record's block `index` on its page, unless the page holds it
    /// already: by an image, or since its LSN says so. For a block that the record makes anew, `change` gets
    /// zeros. The page bears the record's end as LSN afterwards.
    ///
    /// # Errors
    /// `change`'s; or when the page cannot be read.
    fn repeat(
        &mut self,
        record: &Record<'_>,
        index: usize,
        change: &mut dyn FnMut(&mut PageBytes) -> Result<(), RedoError>,
    ) -> Result<(), RedoError>;

    /// The files of relations, for records that create, cut or drop them. Pages held in memory that a cut
    /// or a drop removes are to be forgotten by [`RedoPages::forget`] before.
    fn relations(&self) -> &Smgr;

    /// Forgets pages held in memory for which `is_gone` says so.
    fn forget(&mut self, is_gone: &mut dyn FnMut(PageIdentity) -> bool);
}

/// Why a record could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedoError {
    /// A page could not be read or written.
    #[error(transparent)]
    Smgr(#[from] SmgrError),
    /// The record, or the page it is for, cannot be.
    #[error("{0}")]
    Impossible(String),
}

/// A record in words: positions, who and for whom, its pages with their images, and what its manager says.
pub struct Described<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The managers of the database.
    pub managers: &'a Managers,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { start, previous, transaction, manager, info, .. } = self.record;
        let known = self.managers.of(*manager);
        let name = match known {
            Some(manager) => manager.name(),
            None if *manager == super::LOG_MANAGER => "log",
            None => "unknown",
        };
        let bytes = self.record.end.0 - start.0;
        write!(
            formatter,
            "{start} {name} {bytes} bytes, transaction {transaction}, after {previous}: "
        )?;
        match (known, self.record.watermark()) {
            (Some(manager), _) => manager.describe(self.record, formatter)?,
            (None, Some(watermark)) => write!(formatter, "mark, durable up to {watermark}")?,
            (None, None) => {
                write!(formatter, "manager {}, info {info}", manager.0)?;
            }
        }
        for (index, block) in self.record.blocks.iter().enumerate() {
            write!(formatter, "; block {index}: {}", block.identity)?;
            if let Some(image) = &block.image {
                let what = if image.is_for_check { "image to check" } else { "image" };
                write!(formatter, ", {what} of {} bytes", image.bytes.len())?;
            }
            if block.is_made_anew {
                formatter.write_str(", made anew")?;
            }
        }
        Ok(())
    }
}

/// The resource managers of a database by number.
#[derive(Default)]
pub struct Managers {
    by_number: Vec<Option<Box<dyn ResourceManager>>>,
}

impl Managers {
    /// The table of these managers; a later one with the same number takes the place of an earlier one.
    #[must_use]
    pub fn new(managers: impl IntoIterator<Item = Box<dyn ResourceManager>>) -> Self {
        let mut by_number = Vec::new();
        for manager in managers {
            let at = usize::from(manager.number().0);
            if by_number.len() <= at {
                by_number.resize_with(at + 1, || None);
            }
            by_number[at] = Some(manager);
        }
        Self { by_number }
    }

    /// Tells all of them that everything was replayed.
    ///
    /// # Errors
    /// The first one's.
    pub fn finish(&self) -> Result<(), RedoError> {
        self.by_number.iter().flatten().try_for_each(|manager| manager.finish())
    }

    /// The manager of a number.
    #[must_use]
    pub fn of(&self, number: ManagerNumber) -> Option<&dyn ResourceManager> {
        self.by_number.get(usize::from(number.0))?.as_deref()
    }
}
