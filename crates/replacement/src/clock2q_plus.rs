//! Clock2Q+: S3-FIFO's queues with one bit a page and a correlation window.
//!
//! A page used again right after it entered the small queue is still the same burst: a hit there
//! counts only when at least `window` x the small queue's length further pages have entered since. The
//! main queue is a plain CLOCK. On page traces of databases, where bursts are the rule, it is the best
//! of the policies whose hits take no lock, and is what a pool should start with.
//!
//! - **Source**: Zhai et al., "Clock2Q+", VLDB 2026 (arXiv 2511.21958).
//! - **Parameters**: `small` (default 0.1), `ghosts` (default 0.9), `window` (0 to 1, default 0.5),
//!   `warm_up` (default on); ranges as in [`crate::s3_fifo`].
//! - **Differences to the paper**: the window is kept as a mark that moves along the small queue
//!   instead of a counter a page, so a hit reads one word.
//! - **Hit**: one load, at most one store. **Victim**: amortised O(1), at worst four walks.
//! - **Memory**: 17 bytes a frame, 13 a remembered page; where keys are hashed 21 and 25.
//! - **Scan resistance**: yes, and bursts do not defeat it.

use crate::ghost::KeySpace;
use crate::s3_fifo::{HitRule, S3Fifo, S3FifoParameters};

/// Clock2Q+ for a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]); `window` is a share of the
/// small queue's length. `parameters.promote` is not used: one counted use promotes.
#[must_use]
pub fn clock2q_plus(
    parameters: S3FifoParameters,
    window: f64,
    frames: u32,
    space: KeySpace,
) -> S3Fifo {
    let parameters = S3FifoParameters { promote: 1, ..parameters };
    S3Fifo::with_rule(parameters, HitRule::Window(window), frames, space)
}
