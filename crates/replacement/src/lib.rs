//! Cache-replacement policies for page caches, behind one interface for a concurrent buffer pool
//! and for a simulator.
//!
//! The crate is pure: no I/O, no clock, no threads, randomness only from a seed. [`policy`] holds
//! the contract; every policy is a file of its own that states its source, parameters, costs,
//! memory and differences to the paper.

pub mod arc;
pub mod clock;
pub mod clock2q_plus;
pub mod clock_sweep;
pub mod fifo;
mod frame_list;
mod frames;
mod ghost;
pub mod lru;
pub mod policy;
pub mod random;
pub mod s3_fifo;
pub mod sieve;
pub mod two_q;

pub use ghost::KeySpace;
