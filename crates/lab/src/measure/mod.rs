//! What happened: transaction by transaction, second by second.

pub mod record;
