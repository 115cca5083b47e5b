//! FIFO: the page loaded first leaves first; hits change nothing.
//!
//! - **Source**: the textbook. A baseline. It is [`crate::lru`]'s queue, in which hits move nothing.
//! - **Parameters**: none.
//! - **Hit**: nothing at all. **Victim**: O(1) plus pinned frames passed, which keep their place; at
//!   most one walk over all frames.
//! - **Memory**: 8 bytes a frame; no ghosts.
//! - **Scan resistance**: none.

use crate::lru::OneQueue;

/// See the module.
pub type Fifo = OneQueue<false>;
