//! The power goes at every write and sync, and again during recovery.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::ledger::{Balance, Bank, balance, create, open};
use crate::sync::{Mutex, lock};
use crate::vfs::FileSystem;
use crate::vfs::sim::SimDisk;
use crate::vfs::sim::crash::{All, Drawn};

/// Survivals drawn for each moment.
const SURVIVALS: u64 = 16;

/// Crashes within recovery, one within the other.
const DEPTH: usize = 2;

/// How to come to a failure again: [`explore`] with the workload's seed, the moment, the survival.
#[derive(Clone, Debug)]
struct Trail {
    workload: u64,
    moments: Vec<(u64, u64)>,
}

impl std::fmt::Display for Trail {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "workload {}", self.workload)?;
        for (at, seed) in &self.moments {
            write!(formatter, ", crash after operation {at} with survival {seed:#x}")?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    moments: u64,
    crashes: u64,
    nested: [u64; 3],
    with_commits: u64,
    records: u64,
}

/// Chance that follows from what it is drawn for.
fn mixed(values: &[u64]) -> u64 {
    values.iter().fold(0x2545_F491_4F6C_DD1D, |state, value| {
        let state = (state ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^ (state >> 29)
    })
}

/// Recovers a crashed disk, crashing in between down to [`DEPTH`], and judges the end.
fn judge(disk: &SimDisk, acknowledged: &[(u64, u64)], trail: &Trail, tally: &mut Tally) -> Balance {
    let depth = trail.moments.len();
    tally.nested[depth - 1] += 1;
    tally.crashes += 1;
    // One moment of this recovery is shown: which one is drawn, among as many as there usually are.
    let seed = mixed(&trail.moments.iter().flat_map(|(at, seed)| [*at, *seed]).collect::<Vec<_>>());
    let shown = (depth <= DEPTH && seed.is_multiple_of(4)).then_some((seed >> 8) % 40);
    let moment: Arc<Mutex<Option<(u64, SimDisk)>>> = Arc::default();
    if let Some(shown) = shown {
        let into = moment.clone();
        disk.observe(move |boundary| {
            if boundary.operations() == shown {
                let mut survival = Drawn::new(mixed(&[seed, shown]), boundary.operations());
                *lock(&into) = Some((shown, boundary.crash(&mut survival)));
            }
        });
    }
    let files: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let opened = open(&files).unwrap_or_else(|error| panic!("{trail}: {error}"));
    disk.stop_observing();
    tally.records += opened.report.records;
    let found = balance(&opened).unwrap_or_else(|error| panic!("{trail}: {error}"));
    if let Err(error) = found.check(acknowledged) {
        panic!("{trail}: {error}");
    }
    drop(opened);
    let crashed = lock(&moment).take();
    if let Some((at, crashed)) = crashed {
        let mut deeper = trail.clone();
        deeper.moments.push((at, mixed(&[seed, at])));
        let after = judge(&crashed, acknowledged, &deeper, tally);
        // Recovery is as good as none: whenever it was cut off, the next one comes to the same.
        assert_eq!(after, found, "{deeper}");
    }
    found
}

/// Runs a workload; at each moment before a change of the disk the power goes, in many ways. With `only`, at
/// that moment and in that way alone: to look at a failure.
fn explore(workload: u64, steps: u64, only: Option<(u64, u64)>) -> Tally {
    let disk = SimDisk::new();
    let files: Arc<dyn FileSystem> = Arc::new(disk.clone());
    create(&files);
    let acknowledged: Rc<RefCell<Vec<(u64, u64)>>> = Rc::default();
    let moments: Arc<Mutex<Vec<(u64, SimDisk)>>> = Arc::default();
    let into = moments.clone();
    disk.observe(move |boundary| {
        let at = boundary.operations();
        for survival in 0..SURVIVALS {
            let seed = mixed(&[workload, at, survival]);
            if only.is_none_or(|only| only == (at, seed)) {
                lock(&into).push((seed, boundary.crash(&mut Drawn::new(seed, at))));
            }
        }
    });
    let told = acknowledged.clone();
    let mut bank = Bank::start(open(&files).unwrap(), workload)
        .telling(move |transaction, count| told.borrow_mut().push((transaction, count)));
    let mut tally = Tally::default();
    let mut before = 0;
    for _ in 0..steps {
        let known = acknowledged.borrow().clone();
        bank.step().unwrap();
        // What was acknowledged within the step came after its last moment: a commit ends its step.
        let crashed = std::mem::take(&mut *lock(&moments));
        tally.moments += crashed.len() as u64 / SURVIVALS;
        for (number, (seed, disk)) in crashed.into_iter().enumerate() {
            let at = before + number as u64 / SURVIVALS;
            let trail = Trail { workload, moments: vec![(at, seed)] };
            tally.with_commits += u64::from(!known.is_empty());
            judge(&disk, &known, &trail, &mut tally);
        }
        before = disk.operations();
    }
    disk.stop_observing();
    let last = Trail { workload, moments: vec![(before, 0)] };
    judge(&disk.crash(&mut All), &acknowledged.borrow(), &last, &mut tally);
    tally
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there_wherever_the_power_goes() {
    let mut all = Tally::default();
    for workload in 1..=3 {
        let tally = explore(workload, 60, None);
        all.moments += tally.moments;
        all.crashes += tally.crashes;
        all.with_commits += tally.with_commits;
        all.records += tally.records;
        for (sum, count) in all.nested.iter_mut().zip(tally.nested) {
            *sum += count;
        }
    }
    println!("\n{all:?}");
    assert!(all.moments > 400, "{all:?}");
    assert!(all.nested[0] >= all.moments * SURVIVALS, "{all:?}");
    assert!(all.nested[1] > 500 && all.nested[2] > 50, "{all:?}");
    assert!(all.with_commits * 2 > all.nested[0], "{all:?}");
}

#[test]
fn a_failure_can_be_looked_at_alone() {
    let all = explore(1, 10, None);
    let seed = mixed(&[1, 40, 7]);
    let one = explore(1, 10, Some((40, seed)));
    assert!(all.nested[0] > 16 && one.nested[0] == 2, "{all:?} {one:?}");
}
