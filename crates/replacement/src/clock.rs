//! CLOCK, the second chance: one reference bit a frame and a hand that clears bits until it meets
//! one that is clear.
//!
//! - **Source**: F. Corbato, MIT Project MAC (1968). It is [`crate::clock_sweep`] with counters of
//!   one bit, and is built as such.
//! - **Parameters**: `initial` (0 or 1, default 0): the bit of a page just loaded. Textbooks differ;
//!   with 1 every page survives a whole turn, and a scan replaces everything.
//! - **Hit**: one load, at most one store. **Victim**: amortised O(1), at worst two turns.
//! - **Memory**: 4 bytes a frame; no ghosts.
//! - **Scan resistance**: weak (with `initial` 0 a page seen once leaves first).

use crate::clock_sweep::{ClockSweep, ClockSweepParameters};

/// CLOCK for a pool of `frames`; `initial` is the bit of a page just loaded.
#[must_use]
pub fn clock(initial: bool, frames: u32) -> ClockSweep {
    let parameters =
        ClockSweepParameters { cap: 1, initial: u32::from(initial), ..Default::default() };
    ClockSweep::new(parameters, frames)
}
