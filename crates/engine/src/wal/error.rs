//! What can go wrong with the log, by what the caller can do about it.

use super::record::TooLarge;
use crate::page::Lsn;
use crate::vfs::{VfsError, VfsErrorKind};

/// Why something could not be logged, made durable or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalError {
    /// A file operation failed, and nothing is lost by it.
    #[error(transparent)]
    Vfs(VfsError),
    /// The record cannot be written; a smaller one can.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// There is no space for more log. Free some and try again; what is committed is safe.
    #[error("there is no space for more log, free some and try again: {0}")]
    Full(VfsError),
    /// The write or the sync that was to make it durable failed.
    #[error(
        "whether the log up to {up_to} is durable is not known, reopen the database and read back: {cause}"
    )]
    CommitUnknown {
        /// What was to be durable.
        up_to: Lsn,
        /// What failed.
        cause: VfsError,
    },
    /// An earlier write or sync failed (rule W9).
    #[error(
        "the log takes nothing more since a write or sync of it failed, reopen the database: {0}"
    )]
    Poisoned(VfsError),
    /// A position behind the end of the log.
    #[error("the log ends at {end} and cannot be made durable up to {up_to}")]
    BeyondEnd {
        /// The position asked for.
        up_to: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// Positions are used up, after 4 EiB of log.
    #[error("the log has no positions left: move the data to a new database")]
    Ended,
    /// A setting cannot be.
    #[error("{setting} cannot be {found}: {rule}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// Its value.
        found: u64,
        /// What it can be.
        rule: &'static str,
    },
    /// There is a database already, or none.
    #[error("{0}")]
    Presence(&'static str),
    /// What was written by another version.
    #[error("{file} has format {found}, and this version reads format {known} only")]
    Unsupported {
        /// Which file.
        file: String,
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// What was durable is gone or changed: restore, or salvage what is left.
    #[error("the log is damaged at {at}: {what}")]
    Corrupt {
        /// Where.
        at: Lsn,
        /// What proves it.
        what: String,
    },
    /// Both copies of the control file are unreadable, or do not belong together.
    #[error("the control file is damaged, restore it from a backup: {0}")]
    ControlDamaged(String),
}

impl From<VfsError> for WalError {
    fn from(error: VfsError) -> Self {
        if error.kind() == VfsErrorKind::Full { Self::Full(error) } else { Self::Vfs(error) }
    }
}
