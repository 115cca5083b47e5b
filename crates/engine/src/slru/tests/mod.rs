//! Tests of an SLRU and of the commit log as wholes.

#![cfg(not(feature = "shuttle"))]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::clog::{CommitLog, CommitLogSettings, PAGE_TRANSACTIONS, TransactionStatus};
use super::*;
use crate::buffer::{LogFailure, NoLog};
use crate::runtime::{Clock, OsRuntime, TaskHandle, Tasks, Waits};
use crate::vfs::fault::{FaultyFileSystem, Rule};
use crate::vfs::sim::SimDisk;
use crate::vfs::sim::crash::{Drawn, Nothing};
use crate::vfs::{EntryKind, FileSystem, Name, Operation, VfsErrorKind};

fn components(files: Arc<dyn FileSystem>, log: Arc<dyn WriteAhead>) -> SlruComponents {
    SlruComponents { files, database: DatabaseId(3), log, runtime: Arc::new(OsRuntime::new()) }
}

fn small(slots: u32, victim_rule: VictimRule) -> SlruSettings {
    let number = number_of(9);
    SlruSettings { name: "test", number, slots, is_banked: false, victim_rule, groups: 4 }
}

fn open(settings: SlruSettings, files: &Arc<dyn FileSystem>) -> Slru {
    Slru::open(settings, 0, components(Arc::clone(files), Arc::new(NoLog))).unwrap()
}

fn put(slru: &Slru, page: u32, value: u8) {
    slru.change(page, |bytes, _| bytes[ENTRIES_AT..].fill(value)).unwrap();
}

fn value(slru: &Slru, page: u32) -> Result<u8, SlruError> {
    slru.look(page, |bytes, _| {
        assert!(bytes[ENTRIES_AT..].iter().all(|byte| *byte == bytes[ENTRIES_AT]), "torn");
        bytes[ENTRIES_AT]
    })
}

#[derive(Clone, Debug)]
enum Step {
    Make(u32),
    Put(u32),
    Look(u32),
    Flush,
    Reopen,
    Truncate(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let page = || prop_oneof![0_u32..12, 30_u32..40, 60_u32..70];
    prop_oneof![
        3 => page().prop_map(Step::Make),
        6 => page().prop_map(Step::Put),
        6 => page().prop_map(Step::Look),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => page().prop_map(Step::Truncate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_what_a_map_of_them_would_hold(
        steps in prop::collection::vec(step(), 1..80),
        is_banked in any::<bool>(),
        slots in 4_u32..9,
        rule in prop_oneof![Just(VictimRule::Oldest), Just(VictimRule::OldestIdle)],
    ) {
        let slots = if is_banked { 48 } else { slots };
        let settings = SlruSettings { is_banked, ..small(slots, rule) };
        let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
        let mut slru = open(settings, &files);
        let mut model: BTreeMap<u32, u8> = BTreeMap::new();
        for (number, step) in (1_u8..).zip(steps) {
            match step {
                Step::Make(page) => {
                    slru.make(page).unwrap();
                    model.insert(page, 0);
                }
                Step::Put(page) if model.contains_key(&page) => {
                    put(&slru, page, number);
                    model.insert(page, number);
                }
                Step::Put(page) | Step::Look(page) => match (value(&slru, page), model.get(&page)) {
                    (Ok(found), Some(expected)) => prop_assert_eq!(found, *expected),
                    (Err(SlruError::Missing { .. }), None) => prop_assert!(!slru.exists(page).unwrap()),
                    (found, expected) => prop_assert!(false, "{:?}, {:?}", found, expected),
                },
                Step::Flush => slru.flush().unwrap(),
                Step::Reopen => {
                    slru.flush().unwrap();
                    slru = open(settings, &files);
                }
                Step::Truncate(page) => {
                    slru.truncate_before(page).unwrap();
                    let first = page / SEGMENT_PAGES * SEGMENT_PAGES;
                    model.retain(|page, _| *page >= first);
                }
            }
            prop_assert_eq!(slru.check(), Ok(()));
        }
        for (page, expected) in model {
            prop_assert_eq!(value(&slru, page).unwrap(), expected);
        }
    }

    #[test]
    fn transactions_are_what_a_map_of_them_would_hold(
        sets in prop::collection::vec(
            (0_u64..4 * PAGE_TRANSACTIONS, prop::collection::vec(0_u64..4 * PAGE_TRANSACTIONS, 0..8),
             any::<bool>(), 0_u64..1000),
            1..40,
        ),
        is_grouped in any::<bool>(),
    ) {
        let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
        let settings = CommitLogSettings { is_grouped, ..CommitLogSettings::OF_9_1 };
        let log = CommitLog::open(settings, 0, components(files, Arc::new(NoLog))).unwrap();
        for page in 0..4 {
            prop_assert!(log.extend(page * PAGE_TRANSACTIONS).unwrap());
        }
        let mut model = BTreeMap::new();
        for (transaction, subs, commits, position) in sets {
            let status =
                if commits { TransactionStatus::Committed } else { TransactionStatus::Aborted };
            log.set(transaction, &subs, status, Lsn(position)).unwrap();
            for one in subs.iter().chain([&transaction]) {
                model.insert(*one, (status, position));
                // Those of its group may have been set at a later position.
                prop_assert!(log.status(*one).unwrap().1 >= Lsn(position));
            }
        }
        for transaction in 0..4 * PAGE_TRANSACTIONS {
            let expected = model.get(&transaction).map(|(status, _)| *status);
            if expected.is_some() || transaction % 97 == 0 {
                let found = log.status(transaction).unwrap().0;
                prop_assert_eq!(found, expected.unwrap_or(TransactionStatus::InProgress));
            }
        }
    }
}

#[test]
fn what_was_flushed_and_synced_survives_a_crash_and_other_pages_are_old_or_new() {
    let disk = SimDisk::new();
    let files: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let slru = open(small(4, VictimRule::OldestIdle), &files);
    for page in 0..6 {
        slru.make(page).unwrap();
        put(&slru, page, 1);
    }
    slru.flush().unwrap();
    slru.sync().unwrap();
    for page in 0..6 {
        put(&slru, page, 2);
    }
    slru.flush().unwrap();
    for seed in 0..100 {
        let after: Arc<dyn FileSystem> =
            Arc::new(disk.crash(&mut Drawn::new(seed, disk.operations())));
        let after = open(small(4, VictimRule::OldestIdle), &after);
        for page in 0..6 {
            match value(&after, page) {
                Ok(found) => assert!(found == 1 || found == 2),
                Err(SlruError::Damage { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    let after: Arc<dyn FileSystem> = Arc::new(disk.crash(&mut Nothing));
    let after = open(small(4, VictimRule::OldestIdle), &after);
    assert!((0..6).all(|page| value(&after, page) == Ok(1)));
}

#[test]
fn a_read_that_fails_leaves_its_slot_empty_and_a_write_that_fails_its_page_dirty() {
    let faulty = Arc::new(FaultyFileSystem::new(Arc::new(SimDisk::new()), [], None));
    let files = Arc::clone(&faulty) as Arc<dyn FileSystem>;
    let slru = open(small(4, VictimRule::OldestIdle), &files);
    for page in 0..5 {
        slru.make(page).unwrap();
        put(&slru, page, 7);
    }
    let rule = |text: &str| text.parse::<Rule>().unwrap();
    // Page 0 is away, all others are dirty: the first of them must be written.
    faulty.set_rules([rule("on 1 write of test/ : fail io"), rule("on 1 read of test/ : fail io")]);
    let is_io = |error: SlruError, operation: Operation| {
        matches!(error, SlruError::Vfs(error)
            if error.kind() == VfsErrorKind::Io && error.operation() == operation)
    };
    assert!(is_io(value(&slru, 0).unwrap_err(), Operation::Write));
    slru.check().unwrap();
    assert!(is_io(value(&slru, 0).unwrap_err(), Operation::Read));
    slru.check().unwrap();
    for page in 0..5 {
        assert_eq!(value(&slru, page), Ok(7));
    }
    faulty.set_rules([rule("on 1 read of test/ : flip 5000 4")]);
    let error = (0..5).find_map(|page| value(&slru, page).err()).unwrap();
    assert!(error.to_string().contains("of test: relation"), "{error}");
    assert!(error.to_string().ends_with("restore the file from a backup"), "{error}");
    faulty.set_rules([rule("on 1 allocate of test/ : fail full")]);
    assert!(slru.make(40).is_err());
    slru.make(40).unwrap();
    slru.check().unwrap();
}

/// A log that is durable as far as it was asked to be.
#[derive(Default)]
struct FakeLog(AtomicU64, AtomicBool);

impl WriteAhead for FakeLog {
    fn durable(&self) -> Lsn {
        Lsn(self.0.load(Ordering::SeqCst))
    }
    fn make_durable(&self, position: Lsn) -> Result<(), LogFailure> {
        if self.1.load(Ordering::SeqCst) {
            return Err(LogFailure { position, reason: "on purpose".to_owned() });
        }
        self.0.fetch_max(position.0, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_page_waits_for_the_log_of_its_asynchronous_commits() {
    let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
    let log = Arc::new(FakeLog::default());
    let with = components(files, Arc::clone(&log) as Arc<dyn WriteAhead>);
    let commits = CommitLog::open(CommitLogSettings::for_pool(1), 0, with).unwrap();
    commits.extend(0).unwrap();
    let committed = TransactionStatus::Committed;
    commits.set(5, &[], committed, Lsn(100)).unwrap();
    commits.set(6, &[], committed, Lsn(50)).unwrap();
    commits.set(70, &[], committed, Lsn(0)).unwrap();
    assert_eq!(commits.status(6).unwrap(), (committed, Lsn(100)), "one position for the group");
    assert_eq!(commits.status(70).unwrap(), (committed, Lsn(0)), "another group");
    log.1.store(true, Ordering::SeqCst);
    let error = commits.slru().flush().unwrap_err();
    let expected =
        "page 0 of xact was not written: the log cannot be made durable up to 0/64: on purpose";
    assert_eq!(error.to_string(), expected);
    log.1.store(false, Ordering::SeqCst);
    commits.slru().flush().unwrap();
    assert_eq!((log.durable(), commits.slru().statistics().written), (Lsn(100), 1));
}

#[test]
fn old_segments_go_and_nothing_else() {
    let disk = SimDisk::new();
    let files: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let slru = open(small(8, VictimRule::OldestIdle), &files);
    for page in [0, 31, 32, 70, 100] {
        slru.make(page).unwrap();
    }
    slru.truncate_before(71).unwrap();
    let left: Vec<_> = disk.list(&Name::parse("test").unwrap()).unwrap();
    let names: Vec<&str> = left.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["0002", "0003"]);
    assert_eq!(left[0].kind, Some(EntryKind::File { bytes: 32 * 8192 }));
    assert!(!slru.exists(32).unwrap() && slru.exists(70).unwrap());
    let error = value(&slru, 32).unwrap_err();
    assert_eq!(error.to_string(), "test has no page 32");
    let counted = slru.statistics();
    assert_eq!((counted.zeroed, counted.truncates, counted.exists), (5, 1, 2));
    slru.flush().unwrap();
    slru.sync().unwrap();
}

#[test]
fn settings_out_of_range_are_refused() {
    let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
    for (settings, expected) in [
        (small(3, VictimRule::Oldest), "test has 3 slots: 4 to 131072 are possible"),
        (
            SlruSettings { is_banked: true, ..small(20, VictimRule::Oldest) },
            "test has 20 slots: banks need a multiple of 16",
        ),
    ] {
        let with = components(Arc::clone(&files), Arc::new(NoLog));
        assert_eq!(Slru::open(settings, 0, with).unwrap_err().to_string(), expected);
    }
    let pools = [(1, 16), (16_384, 32), (1 << 20, 1024)];
    for (frames, slots) in pools {
        assert_eq!(CommitLogSettings::for_pool(frames).slots, slots);
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> TaskHandle {
    OsRuntime::new().spawn("test", Box::new(body)).unwrap()
}

#[test]
fn a_slow_write_holds_up_only_those_who_follow_the_rule_of_before_2012() {
    // One write of the oldest page is slow; a task needs another page meanwhile.
    for (rule, waits) in [(VictimRule::Oldest, true), (VictimRule::OldestIdle, false)] {
        let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
        let disk: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
        let faulty = Arc::new(FaultyFileSystem::new(disk, [], Some(Arc::clone(&runtime))));
        let files = Arc::clone(&faulty) as Arc<dyn FileSystem>;
        let slru = Arc::new(open(small(4, rule), &files));
        for page in 0..5 {
            slru.make(page).unwrap();
        }
        slru.flush().unwrap();
        for page in 1..5 {
            assert_eq!(value(&slru, page), Ok(0));
        }
        put(&slru, 1, 1);
        for page in 2..5 {
            assert_eq!(value(&slru, page), Ok(0));
        }
        faulty.set_rules(["on 1 write of test/ : stall 150000000".parse::<Rule>().unwrap()]);
        let other = Arc::clone(&slru);
        let writer = spawn(move || other.flush().unwrap());
        while slru.bank_status(1) != Some(SlotStatus::Writing) {
            runtime.sleep_until(runtime.now().plus_nanos(50_000));
        }
        assert_eq!(value(&slru, 0), Ok(0));
        let waited = slru.waited().totals(WaitPlace::SlruSlot).waits;
        assert_eq!(waited > 0, waits, "{rule:?}");
        writer.join().unwrap();
        let long = slru.waited().long_waits();
        assert!(
            long.iter()
                .any(|wait| wait.place == WaitPlace::SlruWrite && wait.what == "page 1 of test")
        );
        slru.check().unwrap();
    }
}

#[test]
fn statuses_set_by_many_tasks_at_once_are_all_kept() {
    for (settings, name) in [
        (CommitLogSettings::OF_9_1, "9.1"),
        (CommitLogSettings { slots: 4, ..CommitLogSettings::OF_9_1 }, "tight"),
        (CommitLogSettings::for_pool(1), "17"),
        (CommitLogSettings { is_grouped: true, ..CommitLogSettings::OF_9_1 }, "grouped"),
    ] {
        let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
        let with = components(files, Arc::new(FakeLog::default()));
        let log = Arc::new(CommitLog::open(settings, 0, with).unwrap());
        for page in 0..12 {
            log.extend(page * PAGE_TRANSACTIONS).unwrap();
        }
        let failures = Arc::new(Mutex::new(Vec::new()));
        let tasks = (0..8_u64).map(|task| {
            let (log, failures) = (Arc::clone(&log), Arc::clone(&failures));
            spawn(move || {
                for round in 0..300_u64 {
                    // All tasks work on neighbouring transactions, as committers do.
                    let transaction = (round * 1_117 + task * 3) % (12 * PAGE_TRANSACTIONS - 4);
                    let subs = [transaction + 1, transaction + 2];
                    let position = Lsn(round);
                    let set = log.set(transaction, &subs, TransactionStatus::Committed, position);
                    let found = log.status(transaction + 2);
                    if set.is_err()
                        || found.as_ref().map(|found| found.0) != Ok(TransactionStatus::Committed)
                    {
                        failures.lock().unwrap().push((task, round, set, found));
                    }
                    if round % 50 == task {
                        log.slru().flush().unwrap();
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.join().unwrap();
        }
        assert_eq!(*failures.lock().unwrap(), [], "{name}");
        log.slru().check().unwrap();
    }
}

#[test]
fn a_leader_sets_the_status_for_all_who_find_the_lock_taken() {
    let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
    let settings = CommitLogSettings::for_pool(1);
    let log = Arc::new(CommitLog::open(settings, 0, components(files, Arc::new(NoLog))).unwrap());
    log.extend(0).unwrap();
    let (started, runtime) = (Arc::new(AtomicU64::new(0)), OsRuntime::new());
    let tasks = log.slru().change(0, |_, _| {
        // The lock is held: five committers come, the first of which becomes the leader.
        let tasks: Vec<TaskHandle> = (0..5_u64)
            .map(|task| {
                let (log, started) = (Arc::clone(&log), Arc::clone(&started));
                spawn(move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    log.set(task * 10, &[task * 10 + 1], TransactionStatus::Committed, Lsn(0))
                        .unwrap();
                })
            })
            .collect();
        while log.grouped() < 4 {
            runtime.sleep_until(runtime.now().plus_nanos(50_000));
        }
        tasks
    });
    for task in tasks.unwrap() {
        task.join().unwrap();
    }
    assert_eq!((started.load(Ordering::SeqCst), log.grouped()), (5, 4));
    for transaction in [0, 1, 10, 11, 20, 21, 30, 31, 40, 41] {
        assert_eq!(log.status(transaction).unwrap().0, TransactionStatus::Committed);
    }
    assert_eq!(log.status(2).unwrap().0, TransactionStatus::InProgress);
    log.slru().check().unwrap();
}
