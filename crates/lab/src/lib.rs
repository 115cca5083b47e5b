//! The laboratory: the same workload on two arms, paired and interleaved, judged with an interval
//! at every percentile.
//!
//! # Map, in the order in which an experiment passes through it
//!
//! - [`workload`]: what to run. pgbench's script language and the built-in scripts; [`distribution`]
//!   draws the keys.
//! - [`target`]: whom to run it on, behind one seam, [`target::Session`].
//! - [`initialise`]: pgbench's tables, loaded in parallel.
//! - [`driver`]: when to start each transaction, and who runs it.
//! - [`measure`]: what happened, transaction by transaction and second by second.
//! - [`experiment`]: arms, blocks, restore and warm-up, the order of runs, the session directory.
//! - [`statistics`]: from runs to a verdict.
//! - [`report`]: the verdict for people and for programs.

pub mod distribution;
pub mod driver;
pub mod experiment;
pub mod initialise;
mod json;
pub mod measure;
pub mod report;
pub mod secret;
pub mod statistics;
pub mod target;
pub mod text;
pub mod workload;
