//! The trace simulator: from a page trace to "this policy, this much cache".
//!
//! [`dense`] is the form of a trace that everything here runs over; [`simulate`] runs one policy at
//! one size, [`optimum`] the clairvoyant bound, and [`stack_distance`] LRU at all sizes at once. Traces too
//! large for that are sampled: [`sampled_curve`] for LRU, [`miniature`] for every policy.
//! [`choice`] and [`cache_size`] read what people ask for.

pub mod cache_size;
pub mod choice;
pub mod dense;
pub mod generate;
mod lru_stack;
pub mod miniature;
pub mod optimum;
mod position_set;
pub mod sampled_curve;
pub mod simulate;
pub mod stack_distance;
pub mod trace;
