//! Whether a run's records fit into memory.
//!
//! Every transaction leaves a record of 32 bytes until the run has been summed up: at 50,000 a second
//! a day's run would hold 138 GB. How many there will be is known only once the run has begun, so it
//! is told then, and a run that is about to use up the memory is ended with its results.

/// Of one transaction (`measure::record_log`).
const RECORD_BYTES: u64 = 32;

/// So little is never short, and spares short runs the look.
const LOOKED_AT_BYTES: u64 = 1 << 30;

/// When enough has been seen to foresee the rest.
const FORESEEN_AFTER_NS: u64 = 5_000_000_000;

/// More than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShortage {
    /// What the run will need further, at its speed so far.
    pub needed_bytes: u64,
    /// What the machine can give.
    pub available_bytes: u64,
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
    let needed_bytes = at_end.saturating_mul(2).saturating_sub(held);
    if at_end < LOOKED_AT_BYTES {
        return None;
    }
    let available_bytes = available_bytes()?;
    (needed_bytes > available_bytes).then_some(MemoryShortage { needed_bytes, available_bytes })
}

/// What programs can still be given without swapping, by the kernel's own estimate.
pub(super) fn available_bytes() -> Option<u64> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
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
    fn the_kernel_s_words_are_understood_or_left() {
        let text = "MemTotal:       24684032 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(available_in(text), Some(20_480_000_000));
        assert_eq!(available_in("MemAvailable: x kB\n"), None);
        assert_eq!(available_in(""), None);
    }
}
