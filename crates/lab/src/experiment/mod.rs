//! An experiment from the question to the record.

pub mod design;
pub mod document;
pub mod file;
pub mod store;
