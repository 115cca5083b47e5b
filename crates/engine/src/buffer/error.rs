//! Why a page could not be had, or could not be written.

use super::write_ahead::LogFailure;
use crate::page::PageIdentity;
use crate::smgr::SmgrError;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Reading, writing or extending failed.
    #[error(transparent)]
    Storage(#[from] SmgrError),
    /// A page needed the log to be durable first. The page stays in the pool, dirty.
    #[error("{identity} was not written: {failure}")]
    Log {
        /// The page.
        identity: PageIdentity,
        /// What the log says.
        failure: LogFailure,
    },
    /// Asking the system to begin writing failed. It counts as a failed sync: the instance must end
    /// (smgr, rule S6).
    #[error("the system could not begin to write pages: {0}; end the instance and recover")]
    Writeback(SmgrError),
    /// Every frame is in use.
    #[error(
        "no frame is free: all {frames} of the pool are in use at once; \
         raise shared_buffers or let fewer tasks run at once"
    )]
    AllPinned {
        /// How many there are.
        frames: u32,
    },
    /// The caller itself holds the page, which must be had alone.
    #[error("{identity} is pinned {pins} times by the task that wants it alone")]
    PinnedBySelf {
        /// The page.
        identity: PageIdentity,
        /// Pins of the same worker.
        pins: u32,
    },
    /// Another task already waits until it has the page alone.
    #[error("{0} is waited for by another task that wants it alone")]
    CleanupAwaited(PageIdentity),
    /// The task that was reading the page ended without an answer, by a panic.
    #[error("{0} was not read: the task that was reading it broke off")]
    Abandoned(PageIdentity),
    /// A setting is out of its range.
    #[error("{name} is {found}: {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
}
