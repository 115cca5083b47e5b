#![doc = include_str!("README.md")]

mod cleaning;
mod counters;
mod descriptor;
mod error;
mod guard;
mod load;
mod pool;
mod relation;
mod ring;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod waiting;
mod worker;
mod write_ahead;
mod writeback;

pub use cleaning::{Cleaned, CleanedAhead, DirtyPage};
pub use counters::{Context, PoolStatistics, Role, WriteCause};
pub use error::PoolError;
pub use guard::{Exclusive, Pinned, Shared};
pub use pool::{Components, Pool};
pub use ring::Ring;
pub use settings::{DEFAULT_POLICY, PoolSettings};
pub use worker::Worker;
pub use write_ahead::{LogFailure, NoLog, WriteAhead};
