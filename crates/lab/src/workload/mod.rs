//! What to run: scripts in pgbench's language, and the built-in ones.

pub mod expression;
pub mod script;
