//! Short measurements: how late this machine wakes a task, how long it takes to make a write
//! durable.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::Runtime;

use super::{Finding, Grade, finding};

/// Naps by which the timer is judged.
const NAPS: u32 = 200;

/// Length of a nap.
const NAP_NS: u64 = 500_000;

/// Writes that are made durable at most.
const SYNCS: u32 = 200;

/// And for how long at most.
const SYNC_TIME: Duration = Duration::from_millis(500);

/// A page of PostgreSQL's log.
const WRITE_BYTES: usize = 8192;

/// How late tasks wake up after a sleep.
pub(super) fn timer(runtime: &Arc<dyn Runtime>) -> Vec<Finding> {
    let naps = Arc::new(Mutex::new(Vec::new()));
    let (theirs, clock) = (Arc::clone(&naps), Arc::clone(runtime));
    // In a task, as the driver does: the system lets other threads sleep 50 us longer.
    let task = runtime.spawn(
        "doctor-timer",
        Box::new(move || {
            for _ in 0..NAPS {
                let deadline = clock.now().plus_nanos(NAP_NS);
                clock.sleep_until(deadline);
                let late = clock.now().nanos_since(deadline);
                theirs.lock().unwrap_or_else(PoisonError::into_inner).push(late);
            }
        }),
    );
    let joined = task
        .map_err(|error| error.to_string())
        .and_then(|task| task.join().map_err(|panicked| panicked.to_string()));
    if let Err(reason) = joined {
        return vec![finding(
            "timer",
            Grade::Bad,
            format!("cannot be measured: {reason}"),
            "ulimit -u",
        )];
    }
    let mut late = std::mem::take(&mut *naps.lock().unwrap_or_else(PoisonError::into_inner));
    let (median, worst) = median_and_worst(&mut late);
    let found = format!("wakes up {} late, {} at worst of {NAPS}", time(median), time(worst));
    let (grade, remedy) = if median > 1_000_000 {
        (Grade::Bad, "stop other work; virtual machines: ask for real processors")
    } else if median > 100_000 || worst > 5_000_000 {
        (Grade::Warn, "rates above 1000 per s will be uneven; stop other work")
    } else {
        (Grade::Ok, "")
    };
    vec![finding("timer", grade, found, remedy)]
}

/// How long it takes to make 8 kB durable in `directory`.
pub(super) fn synchronisation(directory: &Path, runtime: &dyn Runtime) -> Vec<Finding> {
    let name = format!(".evenkeel-doctor-{}-{:08x}", std::process::id(), runtime.entropy_u64());
    let path = directory.join(name);
    let result = time_syncs(&path, runtime);
    vec![match result {
        Err(error) => finding(
            "fsync",
            Grade::Warn,
            format!("cannot be timed in {}: {error}", directory.display()),
            "name a directory that can be written to (TMPDIR; --data-dir of doctor)",
        ),
        Ok(mut times) => {
            let count = times.len();
            let (median, worst) = median_and_worst(&mut times);
            let found = format!(
                "8 kB are durable after {}, {} at worst of {count}",
                time(median),
                time(worst)
            );
            if median < 20_000 {
                finding(
                    "fsync",
                    Grade::Warn,
                    found + ": too fast for a disk",
                    "is it memory, or a cache that may lose data?",
                )
            } else if worst > 20 * median.max(1_000_000) {
                finding("fsync", Grade::Warn, found, "uneven disk: longer runs, more pairs")
            } else {
                finding("fsync", Grade::Ok, found, "")
            }
        }
    }]
}

fn time_syncs(path: &Path, runtime: &dyn Runtime) -> io::Result<Vec<u64>> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    // Nameless from here on: whatever ends this process leaves nothing behind.
    std::fs::remove_file(path)?;
    let block = [0x5a_u8; WRITE_BYTES];
    // Space is allocated first, so that writing over it is what is timed, as with the log.
    for _ in 0..8 {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let end = runtime.now().plus(SYNC_TIME);
    let mut times = Vec::new();
    for number in 0..SYNCS {
        let began = runtime.now();
        if began >= end && !times.is_empty() {
            break;
        }
        let place = u64::from(number % 8) * u64::try_from(WRITE_BYTES).unwrap_or(0);
        file.seek(SeekFrom::Start(place))?;
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(runtime.now().nanos_since(began));
    }
    Ok(times)
}

fn median_and_worst(values: &mut [u64]) -> (u64, u64) {
    values.sort_unstable();
    let median = values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    (median, values.last().copied().unwrap_or(0))
}

fn time(nanos: u64) -> String {
    if nanos < 10_000_000 {
        format!("{} us", nanos.div_ceil(1000))
    } else {
        format!("{} ms", nanos / 1_000_000)
    }
}
