//! Arms, blocks, restore and warm-up, the order of runs, the session directory.

pub mod document;
pub mod store;
