//! Waits by place: how many, how long, and each one that a user would notice.
//!
//! A wait of [`LONG_WAIT_MS`] or more is kept with its place and what was waited for: R. Haas found the
//! stalls of PostgreSQL's commit log in 2012 with just such a report. Shorter ones are only summed up.

use std::collections::VecDeque;

use crate::runtime::{Instant, Runtime};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, lock};

/// A wait as long as this is reported by itself: the shortest that people notice as a delay.
pub const LONG_WAIT_MS: u64 = 100;

/// Long waits kept; the oldest go first. Enough for a bad minute, 16 KiB at most.
const KEPT_MAX: usize = 256;

/// Where a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitPlace {
    /// A page is being read from disk.
    PageRead,
    /// Another task is reading the page.
    PageReadByOther,
    /// A page is being written.
    PageWrite,
    /// Another task is writing the page.
    PageWriteByOther,
    /// The log must be durable before a page may be written.
    LogFlush,
    /// Another task has locked the page's content.
    ContentLock,
    /// Other tasks have pinned a page that must be had alone.
    Pins,
    /// Another task is extending or truncating the relation.
    Extension,
    /// A page of an SLRU is being read from disk.
    SlruRead,
    /// A page of an SLRU is being written.
    SlruWrite,
    /// Another task reads or writes the SLRU's slot.
    SlruSlot,
    /// The leader of a group sets this task's status in the commit log.
    SlruGroup,
}

impl WaitPlace {
    /// All places, with the name of each in reports.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::PageRead, "page_read"),
        (Self::PageReadByOther, "page_read_by_other"),
        (Self::PageWrite, "page_write"),
        (Self::PageWriteByOther, "page_write_by_other"),
        (Self::LogFlush, "log_flush"),
        (Self::ContentLock, "content_lock"),
        (Self::Pins, "pins"),
        (Self::Extension, "extension"),
        (Self::SlruRead, "slru_read"),
        (Self::SlruWrite, "slru_write"),
        (Self::SlruSlot, "slru_slot"),
        (Self::SlruGroup, "slru_group"),
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(place, _)| *place == self).map_or("?", |(_, name)| name)
    }
}

/// All waits at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotals {
    /// How many.
    pub waits: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Those of [`LONG_WAIT_MS`] or more.
    pub long_waits: u64,
}

/// A wait of [`LONG_WAIT_MS`] or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// Where.
    pub place: WaitPlace,
    /// For what: a page, a slot.
    pub what: String,
    /// When it ended, on the runtime's clock.
    pub ended: Instant,
    /// How long it took.
    pub waited_ns: u64,
}

#[derive(Debug, Default)]
struct Place {
    waits: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
    long_waits: AtomicU64,
}

/// The waits of one part of the engine.
#[derive(Debug, Default)]
pub struct Waited {
    places: [Place; WaitPlace::ALL.len()],
    long: Mutex<VecDeque<LongWait>>,
}

impl Waited {
    /// Runs `wait` and counts how long it took; `what` is asked only when it was long.
    pub(crate) fn during<T>(
        &self,
        runtime: &dyn Runtime,
        place: WaitPlace,
        what: impl FnOnce() -> String,
        wait: impl FnOnce() -> T,
    ) -> T {
        let began = runtime.now();
        let result = wait();
        let ended = runtime.now();
        let waited_ns = ended.nanos_since(began);
        let totals = &self.places[place as usize];
        totals.waits.fetch_add(1, Ordering::Relaxed);
        totals.total_ns.fetch_add(waited_ns, Ordering::Relaxed);
        totals.longest_ns.fetch_max(waited_ns, Ordering::Relaxed);
        if waited_ns >= LONG_WAIT_MS * 1_000_000 {
            totals.long_waits.fetch_add(1, Ordering::Relaxed);
            let wait = LongWait { place, what: what(), ended, waited_ns };
            let mut long = lock(&self.long);
            if long.len() == KEPT_MAX {
                long.pop_front();
            }
            long.push_back(wait);
        }
        result
    }

    /// The sums at `place`.
    #[must_use]
    pub fn totals(&self, place: WaitPlace) -> WaitTotals {
        let totals = &self.places[place as usize];
        WaitTotals {
            waits: totals.waits.load(Ordering::Relaxed),
            total_ns: totals.total_ns.load(Ordering::Relaxed),
            longest_ns: totals.longest_ns.load(Ordering::Relaxed),
            long_waits: totals.long_waits.load(Ordering::Relaxed),
        }
    }

    /// The latest long waits, oldest first, at most 256.
    #[must_use]
    pub fn long_waits(&self) -> Vec<LongWait> {
        lock(&self.long).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Clock, OsRuntime, Waits};

    #[test]
    fn a_wait_that_people_notice_is_kept_with_its_place() {
        let runtime = OsRuntime::new();
        let waited = Waited::default();
        let sleep = |ms: u64| runtime.sleep_until(runtime.now().plus_nanos(ms * 1_000_000));
        waited.during(&runtime, WaitPlace::PageRead, || "short".to_owned(), || sleep(1));
        waited.during(&runtime, WaitPlace::SlruSlot, || "slot 3".to_owned(), || sleep(100));
        assert_eq!(waited.totals(WaitPlace::PageRead).waits, 1);
        assert_eq!(waited.totals(WaitPlace::PageRead).long_waits, 0);
        let totals = waited.totals(WaitPlace::SlruSlot);
        assert_eq!((totals.waits, totals.long_waits), (1, 1));
        let long = waited.long_waits();
        assert_eq!(long.len(), 1);
        assert_eq!((long[0].place.name(), long[0].what.as_str()), ("slru_slot", "slot 3"));
        assert!(long[0].waited_ns >= 100_000_000 && totals.longest_ns == long[0].waited_ns);
    }

    #[test]
    fn a_flood_of_long_waits_keeps_the_latest() {
        let runtime = OsRuntime::new();
        let waited = Waited::default();
        lock(&waited.long).extend((0..KEPT_MAX as u64).map(|number| LongWait {
            place: WaitPlace::LogFlush,
            what: number.to_string(),
            ended: runtime.now(),
            waited_ns: 1,
        }));
        let wait = || runtime.sleep_until(runtime.now().plus_nanos(LONG_WAIT_MS * 1_000_000));
        waited.during(&runtime, WaitPlace::LogFlush, || "latest".to_owned(), wait);
        let kept = waited.long_waits();
        assert_eq!(kept.len(), KEPT_MAX);
        assert_eq!((kept[0].what.as_str(), kept[KEPT_MAX - 1].what.as_str()), ("1", "latest"));
    }
}
