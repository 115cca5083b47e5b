//! An experiment from the question to the record.

pub mod conditions;
pub mod design;
pub mod difference;
pub mod document;
pub mod estimate;
pub mod file;
pub mod freeze;
pub mod import;
pub mod laboratory;
mod naming;
pub mod plan;
pub mod run_files;
pub mod session;
pub mod store;
