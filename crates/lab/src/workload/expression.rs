//! Expressions of `\set` and `\if`, compiled.

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {}
