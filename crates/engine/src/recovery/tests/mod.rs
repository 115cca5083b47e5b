//! Crashes of a small database whose only resource manager moves amounts between slots of pages.

mod crashes;
mod format;
mod ledger;

use std::sync::Arc;

use self::ledger::{Bank, RELATION, create, open, open_checked};
use super::{OpenSettings, RecoveryError};
use crate::page::{BlockNumber, Fork, PageIdentity};
use crate::vfs::fault::FaultyFileSystem;
use crate::vfs::sim::crash::{All, Nothing};
use crate::vfs::sim::{SimDisk, SyncAftermath, SyncFailure};
use crate::vfs::{FileSystem, Name, OpenOptions, VfsErrorKind};
use crate::wal::WalError;

fn files(disk: &SimDisk) -> Arc<dyn FileSystem> {
    Arc::new(disk.clone())
}

/// A bank that has run for `steps` and was then switched off: nothing was closed.
fn after(seed: u64, steps: u64) -> (SimDisk, Vec<(u64, u64)>) {
    let disk = SimDisk::new();
    create(&files(&disk));
    let mut bank = Bank::start(open(&files(&disk)).unwrap(), seed);
    bank.run(steps);
    (disk.crash(&mut All), bank.acknowledged())
}

#[test]
fn a_database_is_there_as_it_was_after_an_orderly_end_and_after_a_crash() {
    let (disk, acknowledged) = after(1, 80);
    for mut survival in
        [Box::new(All) as Box<dyn crate::vfs::sim::crash::Survival>, Box::new(Nothing)]
    {
        let disk = disk.crash(&mut *survival);
        let opened = open(&files(&disk)).unwrap();
        assert!(opened.report.records > 0 && opened.report.images > 0, "{:?}", opened.report);
        let balance = ledger::balance(&opened).unwrap();
        balance.check(&acknowledged).unwrap();
        drop(opened);
        let again = open(&files(&disk)).unwrap();
        assert_eq!((again.report.records, again.report.segments_copied), (0, 0));
        assert_eq!(ledger::balance(&again).unwrap(), balance);
    }
}

#[test]
fn the_second_opener_is_refused_and_changes_nothing() {
    let (disk, _) = after(2, 10);
    let opened = open(&files(&disk)).unwrap();
    let operations = disk.operations();
    let error = open(&files(&disk)).err().unwrap();
    let RecoveryError::Lock(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), VfsErrorKind::Locked);
    assert_eq!(disk.operations(), operations);
    drop(opened);
    open(&files(&disk)).unwrap();
}

#[test]
fn replay_agrees_with_every_page_that_was_logged_to_be_compared() {
    let disk = SimDisk::new();
    create(&files(&disk));
    let mut bank = Bank::start(open_checked(&files(&disk)).unwrap(), 3);
    bank.run(120);
    let report = open(&files(&disk.crash(&mut All))).unwrap().report;
    assert!(report.checked > 20, "{report:?}");
}

#[test]
fn replay_that_forgets_a_change_is_found_by_comparing() {
    let disk = SimDisk::new();
    create(&files(&disk));
    let mut bank = Bank::start(open_checked(&files(&disk)).unwrap(), 3);
    bank.run(120);
    let managers = ledger::managers_with(ledger::Defect::ForgetsSecondBlock);
    let error = ledger::open_with(&files(&disk.crash(&mut All)), &managers, &ledger::SETTINGS)
        .err()
        .unwrap();
    assert!(error.to_string().contains("replay made byte"), "{error}");
}

#[test]
fn replay_in_little_memory_gives_the_same() {
    let (disk, acknowledged) = after(4, 100);
    let settings = OpenSettings { replay_pages_max: 1, ..ledger::SETTINGS };
    let small = disk.crash(&mut All);
    let small = ledger::open_with(&files(&small), &ledger::managers(), &settings).unwrap();
    let large = open(&files(&disk)).unwrap();
    assert!(small.report.pages_written > large.report.pages_written);
    let balance = ledger::balance(&small).unwrap();
    balance.check(&acknowledged).unwrap();
    assert_eq!(balance, ledger::balance(&large).unwrap());
}

#[test]
fn a_page_torn_on_the_disk_is_healed_by_its_image_and_one_without_is_told() {
    let (disk, acknowledged) = after(5, 200);
    let opened = open(&files(&disk.crash(&mut All))).unwrap();
    assert!(opened.report.images > 3);
    let touched = opened.report.pages_written;
    let name = Name::parse(&format!("base/{}", RELATION.0)).unwrap();
    let (mut healed, mut told) = (0, 0);
    for block in 0..4_u32 {
        let torn = disk.crash(&mut All);
        torn.damage(&name, u64::from(block) * 8192 + 5000, |byte| !byte, 512).unwrap();
        let opened = open(&files(&torn)).unwrap();
        match ledger::balance(&opened) {
            Ok(balance) => {
                balance.check(&acknowledged).unwrap();
                healed += 1;
            }
            Err(error) => {
                let identity = PageIdentity {
                    relation: RELATION,
                    fork: Fork::Main,
                    block: BlockNumber(block),
                };
                assert!(error.contains(&identity.to_string()), "{error}");
                told += 1;
            }
        }
    }
    assert!(healed > 0, "{healed} healed, {told} told of, {touched} touched");
}

#[test]
fn recovery_needs_no_free_space() {
    let (disk, acknowledged) = after(6, 90);
    let disk = disk.crash(&mut All);
    disk.set_quota_bytes(Some(disk.used_bytes()));
    let opened = open(&files(&disk)).unwrap();
    assert!(opened.report.segments_copied > 0);
    ledger::balance(&opened).unwrap().check(&acknowledged).unwrap();
}

#[test]
fn an_error_in_any_file_operation_of_recovery_leaves_it_to_the_next_attempt() {
    let (disk, acknowledged) = after(7, 40);
    let mut failed = 0;
    for operation in
        ["open", "create", "read", "write", "sync", "rename", "remove", "list", "sync_directory"]
    {
        for nth in 1.. {
            let crashed = disk.crash(&mut All);
            let rule = format!("on {nth} {operation} of * : fail io").parse().unwrap();
            let faulty: Arc<dyn FileSystem> =
                Arc::new(FaultyFileSystem::new(files(&crashed), [rule], None));
            let result = open(&faulty);
            let is_done = result.is_ok();
            failed += u64::from(!is_done);
            drop(result);
            let opened = open(&files(&crashed.crash(&mut Nothing))).unwrap();
            ledger::balance(&opened).unwrap().check(&acknowledged).unwrap();
            // Past the last operation of this kind, or at one whose failure does no harm.
            if is_done && nth > 20 {
                break;
            }
        }
    }
    assert!(failed > 30, "{failed}");
}

#[test]
fn what_was_seen_after_a_failed_sync_is_still_there_after_the_next_power_loss() {
    let mut cases = 0;
    for aftermath in [SyncAftermath::Keep, SyncAftermath::Forget, SyncAftermath::Drop] {
        for nth in 1..=40 {
            let disk = SimDisk::new();
            create(&files(&disk));
            let mut bank = Bank::start(open(&files(&disk)).unwrap(), nth);
            disk.fail_sync(SyncFailure { prefix: String::new(), nth, aftermath });
            let error = loop {
                if let Err(error) = bank.step() {
                    break error;
                }
            };
            assert!(
                matches!(
                    error,
                    WalError::CommitUnknown { .. } | WalError::Poisoned(_) | WalError::Vfs(_)
                ),
                "{error}"
            );
            bank.assert_ended();
            let acknowledged = bank.acknowledged();
            drop(bank);
            // The machine goes on; the database is opened again, and seen.
            let opened = open(&files(&disk)).unwrap();
            let seen = ledger::balance(&opened).unwrap();
            seen.check(&acknowledged)
                .unwrap_or_else(|error| panic!("{aftermath:?} {nth}: {error}"));
            drop(opened);
            let opened = open(&files(&disk.crash(&mut Nothing))).unwrap();
            let still = ledger::balance(&opened).unwrap();
            assert_eq!(still, seen, "{aftermath:?} {nth}");
            cases += 1;
        }
    }
    assert_eq!(cases, 120);
}

#[test]
fn any_flip_in_control_file_or_log_is_told_or_does_no_harm() {
    let (disk, acknowledged) = after(8, 50);
    let (mut told, mut harmless) = (0, 0);
    for name in ["control".to_owned()].into_iter().chain(
        disk.list(&Name::parse("wal").unwrap())
            .unwrap()
            .into_iter()
            .map(|entry| format!("wal/{}", entry.name)),
    ) {
        let name = Name::parse(&name).unwrap();
        let length = disk.open(&name, OpenOptions::READ).unwrap().length().unwrap();
        for at in (0..length).step_by(61) {
            let flipped = disk.crash(&mut All);
            flipped.damage(&name, at, |byte| byte ^ 4, 1).unwrap();
            match open(&files(&flipped)) {
                Err(RecoveryError::Wal(WalError::Corrupt { .. } | WalError::ControlDamaged(_))) => {
                    told += 1
                }
                Err(error) => panic!("{name} {at}: {error}"),
                Ok(opened) => {
                    let balance = ledger::balance(&opened).unwrap();
                    // Only what stood in the very last group may be missing (wal, rule W6).
                    match balance.check(&acknowledged) {
                        Ok(()) => harmless += 1,
                        Err(error) => {
                            let (_, before_last) = acknowledged.split_last().unwrap();
                            balance
                                .check(before_last)
                                .unwrap_or_else(|_| panic!("{name} {at}: {error}"));
                        }
                    }
                }
            }
        }
    }
    assert!(told > 100 && harmless > 100, "{told} told, {harmless} harmless");
}
