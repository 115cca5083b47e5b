//! The trace simulator: from a page trace to "this policy, this much cache".

pub mod simulate;
