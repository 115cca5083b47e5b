//! Policies against scripts worked out by hand and against naive models written from the papers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panics")]

mod agreement;
mod cache;
mod documentation;
mod models;
mod models_of_clocks;
mod models_of_recency;
mod scripts;
mod sweep;
