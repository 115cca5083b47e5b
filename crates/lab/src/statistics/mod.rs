//! From runs to a verdict.
