//! What to run: scripts in pgbench's language, and the built-in ones. The rules stand in `README.md`
//! beside this file.
//!
//! # Map, in the order in which a script passes through it
//!
//! - [`builtin`], [`source`]: where the text comes from.
//! - [`compile`]: collects scripts and `-D` options, gives the [`script::Workload`]; `script_parser` reads
//!   commands, `sql_scanner` SQL, `expression_lexer` and `expression_parser` expressions.
//! - [`script`], [`expression`]: what is executed.
//! - [`evaluate`], `arithmetic`, [`value`]: how.
//! - [`scale`]: which scale the scripts see.

mod arithmetic;
pub mod builtin;
pub mod compile;
pub mod error;
pub mod evaluate;
pub mod expression;
mod expression_lexer;
mod expression_parser;
pub mod scale;
pub mod script;
mod script_parser;
pub mod source;
mod sql_scanner;
pub mod value;

pub use builtin::Builtin;
pub use compile::Compiler;
pub use error::ScriptError;
pub(crate) use expression_lexer::is_name;
pub use source::read_script;

#[cfg(test)]
mod tests;
