//! What to run: scripts in pgbench's language, and the built-in ones.
//!
//! # Rules
//!
//! 1. A script that pgbench runs means the same here. What is refused (`\shell`, `\setshell`) is refused
//!    by name, with the reason.
//! 2. `:name` in SQL is a variable outside of literals, quoted identifiers, comments and dollar quotes.
//!    pgbench replaces it inside of literals as well; there it is nearly always a time or a JSON path.
//! 3. `:scale` is what the target holds, never a guess.
//! 4. All scripts of a run share one table of variables; a client's variables are an array.
//! 5. An error names file, line and column, and shows the line with a caret.
//! 6. Sizes are bounded: 16 MiB a script, 64 KiB a line, 64 levels of nesting.

pub mod builtin;
pub mod compile;
pub mod error;
pub mod evaluate;
pub mod expression;
mod expression_parser;
pub mod script;
mod sql_scanner;

pub use builtin::Builtin;
pub use compile::Compiler;
pub use error::ScriptError;

#[cfg(test)]
mod tests;
