//! The evenkeel storage engine.
//!
//! Today this package holds its lowest layers only: the two doors to the outside, [`runtime`] for
//! time, sleep, threads, blocking waits and chance, and [`vfs`] for files. The laboratory's load
//! driver goes through the first, which is what allows the same driver to run on the operating
//! system now and in a deterministic simulation of time later. The second has a simulated disk that
//! loses what was not synced. [`page`] is the bytes of a page, [`smgr`]
//! the files of relations, [`buffer`] the pool that pages are used in, [`slru`]
//! the small caches of status arrays with the commit log, [`wal`] the write-ahead log; [`recovery`]
//! opens what a crash left.
//!
//! Transactions are not in this package yet.

pub mod buffer;
pub mod page;
pub mod recovery;
pub mod runtime;
pub mod slru;
pub mod smgr;
pub mod stats;
mod sync;
pub mod trace;
pub mod vfs;
pub mod wal;
