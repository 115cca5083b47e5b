//! The optional stream of page references: what a cache simulator needs to say which policy and which
//! size would have done better. It has no effect on behaviour; without a sink it costs one comparison a
//! reference.
//!
//! The engine knows no trace format. `evenkeel-lab` has a sink that writes the simulator's.

use crate::page::PageIdentity;
use crate::runtime::Instant;

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// It was asked for.
    Read,
    /// It was made, at the end of its relation.
    New,
    /// It became dirty; no further reference.
    Dirtied,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReference {
    /// The page.
    pub identity: PageIdentity,
    /// What happened.
    pub kind: ReferenceKind,
    /// When.
    pub at: Instant,
}

/// Receives references in the order in which the pool saw them, from all tasks at once. It is called
/// while pages are pinned: it must neither wait long nor use the pool.
pub trait ReferenceSink: Send + Sync {
    /// Notes one event.
    fn reference(&self, reference: PageReference);
}
