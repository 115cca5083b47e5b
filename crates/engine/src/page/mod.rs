#![doc = include_str!("README.md")]

mod checksum;
mod header;
mod identity;
mod image;
pub mod slotted;

pub(crate) use checksum::crc32c;
pub use checksum::{seal, verify};
pub use header::{Header, LAYOUT, PageKind};
pub use identity::{BlockNumber, DatabaseId, Fork, PageIdentity, RelationNumber};
pub use image::PageImage;

use std::fmt;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;

/// Bytes of a page's header; line pointers begin behind it.
pub const HEADER_BYTES: usize = 24;

/// The bytes of a page, wherever they lie.
pub type PageBytes = [u8; PAGE_BYTES];

/// A position in the log, in bytes since the log began; 0 for a page no record has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    /// As PostgreSQL prints it: the upper and the lower half in hexadecimal.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// Bytes that cannot be a page, or not this one: where, what was expected, what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{identity} is damaged: {what}: expected {expected}, found {found}")]
pub struct Damage {
    /// The page.
    pub identity: PageIdentity,
    /// The field or line pointer.
    pub what: String,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub found: String,
}
