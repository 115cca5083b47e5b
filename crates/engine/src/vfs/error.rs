//! What can go wrong with files, and where it did.

use std::fmt;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Checking a name.
    Name,
    /// Opening an existing file or directory.
    Open,
    /// Creating a file.
    Create,
    /// Creating a directory.
    CreateDirectory,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Asking for or changing the length.
    Length,
    /// Making sure of space.
    Allocate,
    /// Making bytes and length durable.
    Sync,
    /// Asking the system to begin writing.
    StartWriteback,
    /// Renaming.
    Rename,
    /// Removing a file or an empty directory.
    Remove,
    /// Reading a directory.
    List,
    /// Making names durable.
    SyncDirectory,
    /// Locking against a second opener.
    Lock,
    /// Asking for free space.
    FreeSpace,
}

impl Operation {
    /// All of them, with the word for each in rules and messages.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Name, "name"),
        (Self::Open, "open"),
        (Self::Create, "create"),
        (Self::CreateDirectory, "create_directory"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Length, "set_length"),
        (Self::Allocate, "allocate"),
        (Self::Sync, "sync"),
        (Self::StartWriteback, "start_writeback"),
        (Self::Rename, "rename"),
        (Self::Remove, "remove"),
        (Self::List, "list"),
        (Self::SyncDirectory, "sync_directory"),
        (Self::Lock, "lock"),
        (Self::FreeSpace, "free_space"),
    ];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(operation, _)| *operation == self).map_or("?", |(_, word)| word)
    }
}

/// What kind of failure, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VfsErrorKind {
    /// There is no such name.
    NotFound,
    /// The name is taken.
    Exists,
    /// No space is left, or a quota is used up: free some and try again.
    Full,
    /// Another process, or another opener in this one, holds the lock.
    Locked,
    /// The call cannot be right whatever the state of the disk.
    Invalid,
    /// The system or the device failed.
    Io,
    /// An earlier sync through this handle failed (rule V4).
    Poisoned,
    /// The simulated machine has lost its power.
    PoweredOff,
}

/// A failed file operation: which, on what, where, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfsError(Box<Detail>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Detail {
    operation: Operation,
    name: String,
    offset: Option<u64>,
    kind: VfsErrorKind,
    reason: String,
}

impl VfsError {
    /// A failure of `operation` on `name`.
    #[must_use]
    pub fn new(
        operation: Operation,
        name: impl AsRef<str>,
        kind: VfsErrorKind,
        reason: impl Into<String>,
    ) -> Self {
        Self(Box::new(Detail {
            operation,
            name: name.as_ref().to_owned(),
            offset: None,
            kind,
            reason: reason.into(),
        }))
    }

    /// The same, at a byte offset.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// What kind of failure.
    #[must_use]
    pub const fn kind(&self) -> VfsErrorKind {
        self.0.kind
    }

    /// What was being done.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The name of the file or directory.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The byte offset, where the operation has one.
    #[must_use]
    pub const fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

impl fmt::Display for VfsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { operation, name, offset, reason, .. } = &*self.0;
        let word = operation.word().replace('_', " ");
        let name = if name.is_empty() { "." } else { name };
        write!(formatter, "cannot {word} {}", name.escape_debug())?;
        if let Some(offset) = offset {
            write!(formatter, " at byte {offset}")?;
        }
        write!(formatter, ": {reason}")
    }
}

impl std::error::Error for VfsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_why() {
        let error = VfsError::new(
            Operation::Write,
            "base/5",
            VfsErrorKind::Full,
            "no space left on device",
        );
        assert_eq!(
            error.at(8192).to_string(),
            "cannot write base/5 at byte 8192: no space left on device"
        );
        let root =
            VfsError::new(Operation::SyncDirectory, "", VfsErrorKind::Io, "input/output error");
        assert_eq!(root.to_string(), "cannot sync directory .: input/output error");
    }
}
