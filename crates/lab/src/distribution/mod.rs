//! Key distributions: exact over the whole i64 range, each with its cumulative distribution.
