//! Whether a run's records fit into memory.
//!
//! Every transaction leaves a record of 32 bytes until the run has been summed up: at 50,000 a second
//! a day's run would hold 138 GB. How many there will be is known only once the run has begun, so it
//! is told then, and a run that is about to use up the memory is ended with its results. With a rate it is
//! known before. `limit` says how much there is.

mod limit;

use std::path::Path;
use std::time::Duration;

use crate::experiment::document::Arrival;

/// Of one transaction (`measure::record_log`).
const RECORD_BYTES: u64 = 32;

/// So little is never short, and spares short runs the look.
const LOOKED_AT_BYTES: u64 = 1 << 30;

/// When enough has been seen to foresee the rest.
const FORESEEN_AFTER_NS: u64 = 5_000_000_000;

/// More than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShortage {
    /// What the run will need further: for its records, and as much again to sum them up.
    pub needed_bytes: u64,
    /// What the machine, or the control group, can give.
    pub available_bytes: u64,
}

impl std::fmt::Display for MemoryShortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "needs {:.1} GB more memory for its records, and {:.1} GB are there: it will end early; choose a \
             shorter duration (-T), or a lower rate (-R)",
            self.needed_bytes as f64 / 1e9,
            self.available_bytes as f64 / 1e9
        )
    }
}

/// What will be missing at the end of a run of `duration` with this arrival; `None` where it fits, or where
/// no rate says how many transactions there will be.
#[must_use]
pub fn foretell(arrival: Arrival, duration: Duration) -> Option<MemoryShortage> {
    foretell_with(arrival, duration, available_bytes)
}

fn foretell_with(
    arrival: Arrival,
    duration: Duration,
    available_bytes: impl FnOnce() -> Option<u64>,
) -> Option<MemoryShortage> {
    let rate_per_s = match arrival {
        Arrival::Closed => return None,
        Arrival::Poisson { rate_per_s } | Arrival::Constant { rate_per_s } => rate_per_s,
    };
    // Rates are positive and finite; a product beyond 64 bits saturates.
    let records = (rate_per_s * duration.as_secs_f64()) as u64;
    shortage(records.saturating_mul(RECORD_BYTES), 0, available_bytes)
}

/// Why a run was ended.
pub(super) const MEMORY_USED_UP: &str = "the records of its transactions had taken so much memory \
     that little more was left than it takes to sum them up; choose a shorter run, or a rate (-R)";

/// Whether a run must end now to be summed up, which takes up to as much again.
pub(super) fn is_used_up(records: u64, available_bytes: impl FnOnce() -> Option<u64>) -> bool {
    let held = records.saturating_mul(RECORD_BYTES);
    held >= LOOKED_AT_BYTES && available_bytes().is_some_and(|available| available < held)
}

/// What will be missing at the end of a run that has `records` after `elapsed_ns` of `planned_ns`;
/// `None` where it fits, or it is too early to say.
pub(super) fn foresee(
    records: u64,
    elapsed_ns: u64,
    planned_ns: u64,
    available_bytes: impl FnOnce() -> Option<u64>,
) -> Option<MemoryShortage> {
    if elapsed_ns < FORESEEN_AFTER_NS {
        return None;
    }
    let held = records.saturating_mul(RECORD_BYTES);
    let at_end = u128::from(held) * u128::from(planned_ns) / u128::from(elapsed_ns);
    let at_end = u64::try_from(at_end).unwrap_or(u64::MAX);
    shortage(at_end, held, available_bytes)
}

/// What will be missing for records of `at_end` bytes, of which `held` are there.
fn shortage(
    at_end: u64,
    held: u64,
    available_bytes: impl FnOnce() -> Option<u64>,
) -> Option<MemoryShortage> {
    if at_end < LOOKED_AT_BYTES {
        return None;
    }
    let needed_bytes = at_end.saturating_mul(2).saturating_sub(held);
    let available_bytes = available_bytes()?;
    (needed_bytes > available_bytes).then_some(MemoryShortage { needed_bytes, available_bytes })
}

/// What this process can still be given without swapping.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    limit::available_bytes(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn a_day_at_50_000_a_second_is_told_after_seconds_and_an_hour_at_1000_is_not() {
        let day_ns = 86_400 * GB;
        let shortage = foresee(500_000, 10 * GB, day_ns, || Some(20 * GB)).unwrap();
        assert_eq!(shortage.available_bytes, 20 * GB);
        assert!(shortage.needed_bytes.abs_diff(276 * GB) < GB, "{shortage:?}");
        assert_eq!(foresee(500_000, 10 * GB, day_ns, || Some(300 * GB)), None);
        assert_eq!(foresee(200_000, 4 * GB, day_ns, || Some(GB)), None);
        assert_eq!(foresee(10_000, 10 * GB, 3600 * GB, || Some(1)), None);
        assert_eq!(foresee(u64::MAX, u64::MAX, u64::MAX, || None), None);
    }

    #[test]
    fn a_run_ends_while_its_records_can_still_be_summed_up() {
        let records = 10 * GB / RECORD_BYTES;
        assert!(is_used_up(records, || Some(9 * GB)));
        assert!(!is_used_up(records, || Some(11 * GB)));
        assert!(!is_used_up(records, || None));
        assert!(!is_used_up(1000, || Some(0)));
    }

    #[test]
    fn a_rate_that_will_not_fit_is_told_before_the_first_run() {
        let day = Duration::from_secs(86_400);
        let fast = Arrival::Poisson { rate_per_s: 50_000.0 };
        let shortage = foretell_with(fast, day, || Some(20 * GB)).unwrap();
        assert_eq!(shortage.needed_bytes, 2 * 32 * 50_000 * 86_400);
        assert_eq!(
            shortage.to_string(),
            "needs 276.5 GB more memory for its records, and 20.0 GB are there: it will end early; choose \
             a shorter duration (-T), or a lower rate (-R)"
        );
        assert_eq!(foretell_with(fast, day, || Some(300 * GB)), None);
        let slow = Arrival::Constant { rate_per_s: 100.0 };
        assert_eq!(foretell_with(slow, day, || Some(0)), None, "280 MB");
        assert_eq!(foretell_with(Arrival::Closed, day, || Some(0)), None);
    }
}
