//! The trace simulator: from a page trace to "this policy, this much cache".
//!
//! [`dense`] is the form of a trace that everything here runs over; [`simulate`] runs one policy at
//! one size.

pub mod dense;
pub mod simulate;
