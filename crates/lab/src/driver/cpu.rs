//! CPU time used, for accounting only: nothing is decided by it, so simulation need not control it.

use rustix::time::{ClockId, clock_gettime};

/// Of this process so far, in nanoseconds.
pub(super) fn process_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Of this thread so far, in nanoseconds.
pub(super) fn thread_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
