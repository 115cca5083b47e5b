//! The seam to the log: log before data (rule B8).

use crate::page::Lsn;

/// The log, as far as writing pages needs it.
pub trait WriteAhead: Send + Sync {
    /// Behind the last byte of the log that is durable. It never goes back. A hint: what is asked for
    /// with [`WriteAhead::make_durable`] counts.
    fn durable(&self) -> Lsn;

    /// Returns once the log is durable up to `position`.
    ///
    /// # Errors
    /// When it cannot be made durable. The page that needed it is not written then.
    fn make_durable(&self, position: Lsn) -> Result<(), LogFailure>;
}

/// The log could not be made durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log cannot be made durable up to {position}: {reason}")]
pub struct LogFailure {
    /// Up to where it should have been.
    pub position: Lsn,
    /// What the log says.
    pub reason: String,
}

/// For pages that no log protects: those of tests, and of tools that build files to be synced whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl WriteAhead for NoLog {
    fn durable(&self) -> Lsn {
        Lsn(u64::MAX)
    }

    fn make_durable(&self, _position: Lsn) -> Result<(), LogFailure> {
        Ok(())
    }
}
