//! What happened: transaction by transaction, second by second. The rules are in `README.md`.
//!
//! # Map
//!
//! - [`record`]: one transaction; [`record_log`]: all of a thread.
//! - [`summary`]: from a run's records to the figures of [`crate::experiment::document::Run`], with
//!   the help of [`percentile`], [`histogram`], [`timeline`], [`exceedance`] and [`episodes`].
//! - [`machine`]: what will spoil a measurement here.
//! - [`sampler`]: machine ([`host`]), server and its log, once a second beside the run.
//! - [`transaction_log`]: pgbench's `-l` files; [`hdr`]: HdrHistogram's formats.

pub mod episodes;
pub mod exceedance;
pub mod hdr;
pub mod histogram;
pub mod host;
pub mod machine;
pub mod percentile;
pub mod record;
pub mod record_log;
pub mod sampler;
pub mod summary;
pub mod timeline;
pub mod transaction_log;

pub use summary::{ScriptCounts, Window, counts_by_script, summarise};
