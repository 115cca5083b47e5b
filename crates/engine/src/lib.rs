//! The evenkeel storage engine.
//!
//! Today this package holds its lowest layer only, the two doors to the outside: [`runtime`] for
//! time, sleep, threads, blocking waits and chance, and [`vfs`] for files. The laboratory's load
//! driver goes through the first, which is what allows the same driver to run on the operating
//! system now and in a deterministic simulation of time later. The second has a simulated disk that
//! loses what was not synced.
//!
//! Pages, log, buffer pool and transactions are not in this package yet.

pub mod runtime;
pub mod vfs;
