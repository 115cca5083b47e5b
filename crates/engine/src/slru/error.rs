//! Why a page of an SLRU could not be had, or could not be written.

use crate::buffer::LogFailure;
use crate::page::Damage;
use crate::vfs::VfsError;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlruError {
    /// The file operation failed.
    #[error(transparent)]
    Vfs(#[from] VfsError),
    /// The page is not what was written there.
    #[error("page {page} of {name}: {damage}; restore the file from a backup")]
    Damage {
        /// Which SLRU: its directory.
        name: &'static str,
        /// Which page.
        page: u32,
        /// What is wrong with it.
        damage: Damage,
    },
    /// There is no such page: it was never made, or cut off.
    #[error("{name} has no page {page}")]
    Missing {
        /// Which SLRU: its directory.
        name: &'static str,
        /// Which page.
        page: u64,
    },
    /// A page needed the log to be durable first. It stays, dirty.
    #[error("page {page} of {name} was not written: {failure}")]
    Log {
        /// Which SLRU: its directory.
        name: &'static str,
        /// Which page.
        page: u32,
        /// What the log says.
        failure: LogFailure,
    },
    /// A setting is out of its range.
    #[error("{name} has {found} slots: {expected}")]
    Slots {
        /// Which SLRU: its directory.
        name: &'static str,
        /// As many as were asked for.
        found: u32,
        /// What may be asked for.
        expected: &'static str,
    },
    /// Every slot holds the latest page: there are too few.
    #[error("{name} has no slot for page {page} beside the latest page; give it more slots")]
    NoSlot {
        /// Which SLRU: its directory.
        name: &'static str,
        /// Which page.
        page: u32,
    },
}
