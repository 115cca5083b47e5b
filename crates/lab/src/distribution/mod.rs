//! Key distributions as the laboratory uses them: those of `evenkeel-distribution`, and beside them
//! what counts and judges the draws. [`KeyAuditCounter`] compares draws with a [`KeyLaw`];
//! [`CallSite`] is what a random function in a script uses.

mod audit;
mod call_site;

pub use audit::{KeyAuditCounter, TOP_RATIOS};
pub use call_site::CallSite;
pub use evenkeel_distribution::*;

#[cfg(test)]
mod tests;
