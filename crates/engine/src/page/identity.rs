//! Which page it is: database, relation, fork, block number.

use std::fmt;

/// Drawn when a database is created; part of every checksum (rule P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u64);

/// A table, an index, or another set of pages that is created and dropped as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationNumber(pub u32);

/// The place of a page within a fork, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNumber(pub u32);

/// The parts of a relation that are files of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fork {
    /// The data.
    Main,
    /// Where rows may fit.
    FreeSpaceMap,
    /// Pages that every transaction sees whole.
    VisibilityMap,
}

impl Fork {
    /// All forks, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Main, Self::FreeSpaceMap, Self::VisibilityMap];

    /// Its number in checksums and log records.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Main => 0,
            Self::FreeSpaceMap => 1,
            Self::VisibilityMap => 2,
        }
    }

    /// The fork of a number.
    #[must_use]
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Main),
            1 => Some(Self::FreeSpaceMap),
            2 => Some(Self::VisibilityMap),
            _ => None,
        }
    }

    /// PostgreSQL's word for it, which ends file names.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::FreeSpaceMap => "fsm",
            Self::VisibilityMap => "vm",
        }
    }
}

/// A page of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIdentity {
    /// The relation.
    pub relation: RelationNumber,
    /// The fork.
    pub fork: Fork,
    /// The place in the fork.
    pub block: BlockNumber,
}

impl fmt::Display for PageIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { relation, fork, block } = self;
        write!(formatter, "relation {}, fork {}, block {}", relation.0, fork.word(), block.0)
    }
}
