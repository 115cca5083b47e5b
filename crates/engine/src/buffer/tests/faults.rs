//! Reads and writes that fail.

#![cfg(not(feature = "shuttle"))]

use super::super::{PoolError, Role};
use super::*;
use crate::runtime::OsRuntime;
use crate::smgr::SmgrError;
use crate::vfs::fault::{FaultyFileSystem, Rule};
use crate::vfs::sim::SimDisk;
use crate::vfs::{Operation, VfsErrorKind};

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

fn faulty(settings: PoolSettings) -> (Arc<FaultyFileSystem>, Bench) {
    let files = Arc::new(FaultyFileSystem::new(Arc::new(SimDisk::new()), [], None));
    let bench =
        bench(Arc::clone(&files) as Arc<dyn FileSystem>, Arc::new(OsRuntime::new()), settings);
    (files, bench)
}

fn is_io(error: &PoolError, operation: Operation) -> bool {
    matches!(error, PoolError::Storage(SmgrError::Vfs(error))
        if error.kind() == VfsErrorKind::Io && error.operation() == operation)
}

#[test]
fn a_failed_read_leaves_no_frame_and_no_ghost_behind_and_can_be_tried_again() {
    for policy in ["clock2q_plus", "lru", "arc", "clock_pro", "lirs"] {
        let (files, bench) = faulty(settings(1, policy));
        let worker = bench.pool.worker(Role::Client);
        extend(&worker, 4);
        put(&worker, 0, 5, 5);
        worker.flush_relation(RELATION).unwrap();
        drop(worker.fetch(identity(2)).unwrap());
        drop(worker.fetch(identity(3)).unwrap());
        files.set_rules([
            rule("on 1 read of base/ : fail io"),
            rule("on 2 read of base/ : flip 4000 1"),
        ]);
        assert!(is_io(&worker.fetch(identity(0)).unwrap_err(), Operation::Read), "{policy}");
        let damaged = worker.fetch(identity(0)).unwrap_err();
        assert!(matches!(damaged, PoolError::Storage(SmgrError::Damage(_))), "{policy}: {damaged}");
        bench.pool.check().unwrap();
        assert_eq!(value(&worker, 0), 5);
        assert_eq!(bench.pool.statistics().read_failures, 2);
        bench.pool.check().unwrap();
    }
}

#[test]
fn a_victim_that_cannot_be_written_stays_with_its_changes() {
    for policy in ["clock2q_plus", "lru", "clock_sweep", "innodb", "w_tinylfu"] {
        let (files, bench) = faulty(settings(1, policy));
        let worker = bench.pool.worker(Role::Client);
        extend(&worker, 2);
        put(&worker, 0, 9, 9);
        files.set_rules([
            rule("on 1 write of base/ : fail io"),
            rule("on 2 write of base/ : short 512"),
        ]);
        for _ in 0..2 {
            let error = worker.fetch(identity(1)).unwrap_err();
            assert!(is_io(&error, Operation::Write), "{policy}: {error}");
            assert_eq!(bench.pool.dirty_pages().len(), 1, "{policy}");
            bench.pool.check().unwrap();
            assert_eq!(value(&worker, 0), 9, "{policy}");
        }
        drop(worker.fetch(identity(1)).unwrap());
        assert_eq!(value(&worker, 0), 9, "{policy}");
        let counted = bench.pool.statistics();
        assert_eq!((counted.write_failures, counted.victims_refused), (2, 2));
        bench.pool.check().unwrap();
    }
}

#[test]
fn a_log_that_cannot_be_made_durable_keeps_its_pages_off_the_disk() {
    let (_, bench) = faulty(settings(1, "lru"));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 2);
    put(&worker, 0, 3, 50);
    bench.log.fails_from.store(40, Ordering::SeqCst);
    let error = worker.fetch(identity(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "relation 16384, fork main, block 0 was not written: the log cannot be made durable up to \
         0/32: the disk of the log is full"
    );
    assert_eq!(bench.pool.dirty_pages().len(), 1);
    assert_eq!(value(&worker, 0), 3);
    bench.log.fails_from.store(0, Ordering::SeqCst);
    assert_eq!(value(&worker, 1), 0);
    assert_eq!(value(&worker, 0), 3);
    bench.pool.check().unwrap();
}

#[test]
fn a_full_disk_fails_the_extension_and_nothing_else() {
    let (files, bench) = faulty(settings(4, "clock2q_plus"));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 3);
    files.set_rules([rule("on 1 allocate of base/ : fail full")]);
    let error = worker.extend(RELATION, Fork::Main, None).unwrap_err();
    assert!(
        matches!(&error, PoolError::Storage(SmgrError::Vfs(error)) if error.kind() == VfsErrorKind::Full),
        "{error}"
    );
    bench.pool.check().unwrap();
    put(&worker, 2, 1, 1);
    let page = worker.extend(RELATION, Fork::Main, None).unwrap();
    assert_eq!(page.identity(), identity(3));
}

#[test]
fn a_failed_hint_to_write_back_is_told_as_what_it_may_hide() {
    let settings = PoolSettings { backend_flush_after_pages: 1, ..settings(1, "lru") };
    let (files, bench) = faulty(settings);
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 2);
    put(&worker, 0, 3, 3);
    files.set_rules([rule("on 1 start_writeback of base/ : fail io")]);
    let error = worker.fetch(identity(1)).unwrap_err();
    assert!(matches!(error, PoolError::Writeback(_)), "{error}");
    assert!(error.to_string().ends_with("end the instance and recover"), "{error}");
    bench.pool.check().unwrap();
}

#[test]
fn a_fault_at_any_operation_leaves_a_pool_that_holds_together() {
    // Every read and every write of a run fails once, each in a run of its own.
    let run = |settings: PoolSettings, faults: &[Rule]| -> u64 {
        let (files, bench) = faulty(settings);
        let worker = bench.pool.worker(Role::Client);
        extend(&worker, 12);
        files.set_rules(faults.iter().cloned());
        let mut failed = 0;
        let mut ring = bench.pool.scan_ring(12).unwrap();
        let mut expected = [0; 12];
        for step in 0..60_u64 {
            let block = u32::try_from(step * 5 % 12).unwrap();
            let page = if step % 3 == 0 {
                worker.fetch_through(identity(block), &mut ring)
            } else {
                worker.fetch(identity(block))
            };
            match page {
                Ok(page) => {
                    let mut page = page.exclusive();
                    assert_eq!(said(&page), expected[block as usize]);
                    if step % 2 == 0 {
                        say(page.change(), step + 1, step);
                        expected[block as usize] = step + 1;
                    }
                }
                Err(_) => failed += 1,
            }
            bench.pool.check().unwrap();
        }
        files.set_rules([]);
        for (block, expected) in (0..12).zip(expected) {
            assert_eq!(value(&worker, block), expected);
        }
        failed
    };
    for policy in ["clock2q_plus", "clock_sweep", "lru_k", "car"] {
        for frames in [1, 3, 16] {
            let settings = settings(frames, policy);
            assert_eq!(run(settings.clone(), &[]), 0);
            for nth in 1..40 {
                for operation in ["read", "write"] {
                    let fault = rule(&format!("on {nth} {operation} of base/ : fail io"));
                    assert!(run(settings.clone(), &[fault]) <= 1);
                }
            }
        }
    }
}
