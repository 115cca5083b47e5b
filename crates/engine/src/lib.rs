//! The evenkeel storage engine.
//!
//! Today this package holds its lowest layer only: [`runtime`], the one door for time, sleep,
//! threads, blocking waits and chance. The laboratory's load driver goes through the same door,
//! which is what allows the same driver to run on the operating system now and in a deterministic
//! simulation of time later.
//!
//! Pages, log, buffer pool and transactions are not in this package yet.

pub mod runtime;
