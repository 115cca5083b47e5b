//! One task: pins, locks, rings, counters.

#![cfg(not(feature = "shuttle"))]

use super::super::{Cleaned, Context, PoolError, Role, WriteCause};
use super::*;
use crate::runtime::OsRuntime;
use crate::smgr::SmgrError;
use crate::trace::{PageReference, ReferenceKind, ReferenceSink};
use crate::vfs::sim::SimDisk;

fn plain(settings: PoolSettings) -> Bench {
    bench(Arc::new(SimDisk::new()), Arc::new(OsRuntime::new()), settings)
}

#[test]
fn a_page_is_read_once_and_found_afterwards() {
    let bench = plain(PoolSettings::new(4));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 3);
    put(&worker, 1, 11, 1);
    for _ in 0..5 {
        assert_eq!(value(&worker, 1), 11);
    }
    let counted = bench.pool.statistics();
    assert_eq!((counted.extends, counted.reads_total(), counted.hits_total()), (3, 0, 6));
    // The kind is learned when a page is locked: the hits before the second lock have none.
    assert_eq!(counted.hits(Context::Normal, Some(PageKind::Plain)), 4);
    assert_eq!(counted.hits(Context::Normal, None), 2);
    assert_eq!(counted.buffers_alloc, 3);
    drop(worker);
    assert_eq!(bench.pool.statistics(), counted, "counts outlive the worker");
    bench.pool.check().unwrap();
}

#[test]
fn a_victim_that_is_dirty_is_written_before_its_frame_is_given_away() {
    let bench = plain(settings(2, "lru"));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 4);
    for block in 0..4 {
        put(&worker, block, 100 + u64::from(block), 10 + u64::from(block));
    }
    for block in 0..4 {
        assert_eq!(value(&worker, block), 100 + u64::from(block));
    }
    let counted = bench.pool.statistics();
    assert_eq!(counted.victim_was_dirty, 4);
    assert_eq!(counted.writes(WriteCause::Client), 4);
    assert_eq!(counted.evictions, counted.buffers_alloc - 2);
    assert_eq!(bench.log.durable(), Lsn(13));
    assert!(counted.sweep_steps_per_victim().unwrap() >= 1.0);
    assert_eq!(counted.usage_histogram.iter().sum::<u64>(), 2);
    bench.pool.check().unwrap();
}

#[test]
fn when_all_frames_are_pinned_a_miss_is_an_error_that_says_so() {
    for policy in ["lru", "clock_sweep", "clock2q_plus", "lirs", "random"] {
        let bench = plain(settings(2, policy));
        let worker = bench.pool.worker(Role::Client);
        extend(&worker, 3);
        let held = [worker.fetch(identity(0)).unwrap(), worker.fetch(identity(1)).unwrap()];
        let error = worker.fetch(identity(2)).unwrap_err();
        assert_eq!(error, PoolError::AllPinned { frames: 2 }, "{policy}");
        assert!(error.to_string().contains("raise shared_buffers"));
        // What is there can still be had, and more once a pin is given back.
        drop(worker.fetch(identity(1)).unwrap());
        drop(held);
        drop(worker.fetch(identity(2)).unwrap());
        bench.pool.check().unwrap();
    }
}

#[test]
fn a_second_pin_of_the_same_task_is_no_second_use() {
    // With a cap of 5, a page of count 1 leaves before one of count 2.
    let bench = plain(settings(2, "clock_sweep"));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 3);
    drop(worker.fetch(identity(0)).unwrap());
    let pin = worker.fetch(identity(0)).unwrap();
    for _ in 0..10 {
        drop(worker.fetch(identity(0)).unwrap());
    }
    let again = pin.clone();
    drop(pin);
    assert_eq!(again.identity(), identity(0));
    drop(again);
    let usage = bench.pool.statistics().usage_histogram;
    // The third page took the second's frame: counts 1 of it and, lowered by the hand, of the first.
    assert_eq!(usage.iter().sum::<u64>(), 2);
    assert!(usage.len() <= 4, "{usage:?}: ten pins of one task are one use");
    bench.pool.check().unwrap();
}

#[test]
fn the_same_task_cannot_wait_for_itself() {
    let bench = plain(PoolSettings::new(4));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 1);
    let first = worker.fetch(identity(0)).unwrap();
    let second = worker.fetch(identity(0)).unwrap();
    let error = second.cleanup().unwrap_err();
    assert_eq!(error, PoolError::PinnedBySelf { identity: identity(0), pins: 2 });
    let locked = first.exclusive();
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = worker.fetch(identity(0)).unwrap().shared();
    }));
    let message = *broken.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("rule B5: the task holds a lock of relation 16384"), "{message}");
    let second = worker.fetch(identity(0)).unwrap();
    assert!(second.try_exclusive().is_err());
    drop(locked);
    assert!(worker.fetch(identity(0)).unwrap().cleanup().unwrap().is_alone());
    bench.pool.check().unwrap();
}

#[test]
fn a_lock_is_given_back_and_the_pin_stays() {
    let bench = plain(PoolSettings::new(4));
    let worker = bench.pool.worker(Role::Client);
    let other = bench.pool.worker(Role::Client);
    extend(&worker, 1);
    let mut page = worker.fetch(identity(0)).unwrap().exclusive();
    say(page.change(), 5, 5);
    assert!(other.fetch(identity(0)).unwrap().try_exclusive().is_err());
    let pinned = page.unlock();
    let read = other.fetch(identity(0)).unwrap().shared();
    let also_read = pinned.shared();
    assert_eq!((said(&read), said(&also_read)), (5, 5));
    assert!(!read.unlock().try_exclusive().is_ok_and(|page| page.is_alone()));
    let alone = also_read.unlock().try_exclusive().unwrap();
    assert!(alone.is_alone());
}

#[test]
fn a_block_beyond_the_end_is_an_error_and_leaves_no_frame_behind() {
    let bench = plain(PoolSettings::new(2));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 2);
    for _ in 0..5 {
        let error = worker.fetch(identity(2)).unwrap_err();
        let expected = SmgrError::BeyondEnd { identity: identity(2), blocks: 2 };
        assert_eq!(error, PoolError::Storage(expected));
    }
    assert_eq!(bench.pool.statistics().read_failures, 5);
    bench.pool.check().unwrap();
    assert!(worker.fetch_if_present(identity(2)).is_none());
}

#[test]
fn a_truncated_page_comes_back_as_zeros_and_its_changes_are_gone() {
    let bench = plain(PoolSettings::new(40));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 20);
    for block in 0..20 {
        put(&worker, block, 7, 7);
    }
    worker.truncate(RELATION, Fork::Main, 5).unwrap();
    assert!(!bench.pool.holds(identity(5)) && bench.pool.holds(identity(4)));
    assert!(worker.fetch(identity(5)).is_err());
    extend(&worker, 15);
    for block in 0..20 {
        assert_eq!(value(&worker, block), if block < 5 { 7 } else { 0 });
    }
    // A large pool looks blocks up one by one, a pinned page is an error to its own holder.
    let held = worker.fetch(identity(19)).unwrap();
    let error = worker.truncate(RELATION, Fork::Main, 19).unwrap_err();
    assert_eq!(error, PoolError::PinnedBySelf { identity: identity(19), pins: 1 });
    drop(held);
    worker.truncate(RELATION, Fork::Main, 19).unwrap();
    worker.drop_relation(RELATION).unwrap();
    assert!((0..20).all(|block| !bench.pool.holds(identity(block))));
    assert!(worker.fetch(identity(0)).is_err());
    assert_eq!(bench.pool.statistics().write_failures, 0);
    bench.pool.check().unwrap();
}

#[test]
fn dirty_pages_are_listed_in_the_order_of_files_and_written_once() {
    let bench = plain(PoolSettings::new(16));
    let worker = bench.pool.worker(Role::Checkpointer);
    extend(&worker, 10);
    for block in [7, 2, 9, 4] {
        put(&worker, block, 1, 1);
    }
    let pages = bench.pool.dirty_pages();
    let blocks: Vec<u32> = pages.iter().map(|page| page.identity.block.0).collect();
    assert_eq!(blocks, [2, 4, 7, 9]);
    for page in &pages {
        assert!(worker.write(*page).unwrap());
        assert!(!worker.write(*page).unwrap(), "it is clean now");
    }
    assert_eq!(bench.pool.dirty_pages(), []);
    put(&worker, 3, 1, 1);
    assert_eq!(worker.flush_relation(RelationNumber(1)).unwrap(), 0);
    assert_eq!(worker.flush_relation(RELATION).unwrap(), 1);
    let counted = bench.pool.statistics();
    assert_eq!(counted.writes(WriteCause::Checkpointer), 4);
    assert_eq!(counted.writes(WriteCause::Flush), 1);
}

#[test]
fn a_scan_through_a_ring_leaves_the_pool_alone() {
    for policy in ["clock_sweep", "clock2q_plus", "lru"] {
        let bench = plain(settings(64, policy));
        let worker = bench.pool.worker(Role::Client);
        extend(&worker, 200);
        for _ in 0..3 {
            for block in 0..40 {
                drop(worker.fetch(identity(block)).unwrap());
            }
        }
        assert!(bench.pool.scan_ring(16).is_none(), "a quarter of the pool is no large relation");
        let mut ring = bench.pool.scan_ring(200).unwrap();
        assert_eq!(ring.frames(), 8, "an eighth of the pool at most");
        let before = bench.pool.statistics();
        for block in 40..200 {
            drop(worker.fetch_through(identity(block), &mut ring).unwrap());
        }
        let after = bench.pool.statistics();
        let read = after.reads(Context::BulkRead, None);
        let taken = after.buffers_alloc - before.buffers_alloc;
        assert_eq!(after.ring_reuses + taken, read, "{policy}");
        assert!(taken <= 8, "{policy}: {taken} frames for a ring of 8");
        let held = (0..40).filter(|block| bench.pool.holds(identity(*block))).count();
        assert!(held >= 32, "{policy}: only {held} of 40 are left");
        bench.pool.check().unwrap();
    }
}

#[test]
fn a_ring_leaves_a_page_that_somebody_else_likes() {
    let bench = plain(settings(64, "clock_sweep"));
    let worker = bench.pool.worker(Role::Client);
    let other = bench.pool.worker(Role::Client);
    extend(&worker, 100);
    worker.truncate(RELATION, Fork::Main, 100).unwrap();
    let mut ring = bench.pool.scan_ring(100).unwrap();
    let scan = |ring: &mut _, blocks: std::ops::Range<u32>| {
        for block in blocks {
            drop(worker.fetch_through(identity(block), ring).unwrap());
        }
    };
    scan(&mut ring, 0..8);
    drop(other.fetch(identity(3)).unwrap());
    let pinned = other.fetch_through(identity(5), &mut bench.pool.bulk_write_ring()).unwrap();
    scan(&mut ring, 8..40);
    assert!(bench.pool.holds(identity(3)) && bench.pool.holds(identity(5)));
    assert!(!bench.pool.holds(identity(4)), "nobody else wanted it");
    drop(pinned);
}

#[test]
fn a_scan_does_not_wait_for_the_log_and_a_bulk_write_does() {
    let bench = plain(settings(64, "clock_sweep"));
    let worker = bench.pool.worker(Role::Client);
    extend(&worker, 200);
    let mut ring = bench.pool.scan_ring(200).unwrap();
    for block in 0..8 {
        let page = worker.fetch_through(identity(100 + block), &mut ring).unwrap();
        say(page.exclusive().change(), 1, 1000 + u64::from(block));
    }
    bench.log.make_durable(Lsn(1003)).unwrap();
    let flushes = bench.log.flushes.load(Ordering::SeqCst);
    for block in 8..16 {
        drop(worker.fetch_through(identity(100 + block), &mut ring).unwrap());
    }
    let counted = bench.pool.statistics();
    assert_eq!(counted.ring_rejections, 4, "those behind the durable log");
    assert_eq!(counted.writes(WriteCause::Ring), 4, "those before it");
    let victims = bench.log.flushes.load(Ordering::SeqCst) - flushes;
    assert_eq!(victims, 0, "other frames were clean");
    let mut bulk = bench.pool.bulk_write_ring();
    for block in 0..32 {
        let page = worker.fetch_through(identity(20 + block), &mut bulk).unwrap();
        say(page.exclusive().change(), 1, 2000 + u64::from(block));
    }
    assert!(bench.log.durable() >= Lsn(2000), "its own pages were flushed to be used again");
    assert!(bench.pool.statistics().writes(WriteCause::Ring) > 4);
}

#[test]
fn vacuum_has_a_ring_unless_it_is_turned_off() {
    let bench = plain(PoolSettings::new(4096));
    assert_eq!(bench.pool.vacuum_ring().unwrap().frames(), 256, "2 MiB");
    assert_eq!(bench.pool.scan_ring(4096).unwrap().frames(), 32, "256 KiB");
    assert_eq!(bench.pool.bulk_write_ring().frames(), 512, "an eighth of the pool, not 16 MiB");
    let none = PoolSettings { vacuum_ring_bytes: 0, ..PoolSettings::new(16) };
    assert!(plain(none).pool.vacuum_ring().is_none());
}

#[test]
fn a_cleaner_writes_what_would_be_taken_next_and_misses_find_it_clean() {
    let bench = plain(settings(16, "lru"));
    let client = bench.pool.worker(Role::Client);
    let cleaner = bench.pool.worker(Role::BackgroundWriter);
    extend(&client, 32);
    for block in 0..16 {
        put(&client, block, 1, 1);
    }
    let pinned = client.fetch(identity(0)).unwrap();
    drop(client.fetch(identity(0)).unwrap());
    let mut room = Vec::new();
    let done = cleaner.clean_ahead(16, 5, 100, &mut room).unwrap();
    assert_eq!((done.written, done.reusable, done.is_stopped), (5, 5, false));
    let done = cleaner.clean_ahead(16, 16, 3, &mut room).unwrap();
    assert_eq!((done.written, done.is_stopped), (3, true));
    let before = bench.pool.statistics().victim_was_dirty;
    for block in 16..22 {
        drop(client.fetch(identity(block)).unwrap());
    }
    let counted = bench.pool.statistics();
    assert_eq!(counted.victim_was_dirty, before, "no miss waited for a write");
    assert_eq!(counted.writes(WriteCause::BackgroundWriter), 8);
    let number = evenkeel_replacement::policy::FrameId(pinned.number());
    assert_eq!(cleaner.clean(number).unwrap(), Cleaned::InUse);
}

#[test]
fn clean_candidates_go_before_dirty_ones_where_that_is_set() {
    for (passed, expected) in [(0, 4), (8, 0)] {
        let settings = PoolSettings { dirty_passed_max: passed, ..settings(8, "lru") };
        let bench = plain(settings);
        let worker = bench.pool.worker(Role::Client);
        extend(&worker, 12);
        worker.flush_relation(RELATION).unwrap();
        for block in 0..8 {
            drop(worker.fetch(identity(block)).unwrap());
        }
        for block in 0..4 {
            put(&worker, block, 1, 1);
        }
        for block in 4..8 {
            drop(worker.fetch(identity(block)).unwrap());
        }
        for block in 8..12 {
            drop(worker.fetch(identity(block)).unwrap());
        }
        assert_eq!(bench.pool.statistics().victim_was_dirty, expected, "{passed}");
        // When nothing is clean, dirty ones are taken all the same.
        for block in 8..12 {
            put(&worker, block, 1, 1);
        }
        for block in 4..8 {
            put(&worker, block, 1, 1);
        }
        assert_eq!(value(&worker, 0), u64::from(passed == 0 || passed == 8));
    }
}

#[test]
fn the_system_is_asked_to_write_neighbours_together_after_so_many_pages() {
    use std::sync::atomic::AtomicU32;
    let asked = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&asked);
    let hook = move |operation: Operation, _: &[u8]| {
        if operation == Operation::StartWriteback {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    };
    let settings = PoolSettings { checkpoint_flush_after_pages: 4, ..PoolSettings::new(16) };
    let files = Arc::new(SimDisk::new());
    let bench = bench_with(files, Arc::new(OsRuntime::new()), settings, Arc::new(hook));
    let worker = bench.pool.worker(Role::Checkpointer);
    extend(&worker, 8);
    for block in [0, 1, 2, 5, 7] {
        put(&worker, block, 1, 1);
    }
    for page in bench.pool.dirty_pages() {
        worker.write(page).unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "0 to 2 together, and 5");
    worker.start_writeback().unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 3, "7 was left");
    assert_eq!(bench.pool.statistics().writebacks, 5);
}

#[test]
fn a_background_writer_is_told_of_the_next_frame_handed_out() {
    use crate::runtime::Waits;
    let runtime = OsRuntime::new();
    let bench = plain(PoolSettings::new(4));
    let worker = bench.pool.worker(Role::Client);
    let event = runtime.event();
    bench.pool.notify_on_allocation(Arc::clone(&event));
    assert!(!event.wait_until(Some(crate::runtime::Clock::now(&runtime))));
    extend(&worker, 1);
    assert!(event.wait_until(None));
    assert_eq!(bench.pool.allocations(), 1);
}

#[test]
fn a_sink_is_told_of_each_reference_and_of_what_becomes_dirty() {
    #[derive(Default)]
    struct Kept(std::sync::Mutex<Vec<(u32, ReferenceKind)>>);
    impl ReferenceSink for Kept {
        fn reference(&self, one: PageReference) {
            self.0.lock().unwrap().push((one.identity.block.0, one.kind));
        }
    }
    let kept = Arc::new(Kept::default());
    let smgr = Arc::new(Smgr::new(Arc::new(SimDisk::new()), DatabaseId(7), 8, false).unwrap());
    smgr.create(RELATION, Fork::Main).unwrap();
    let with = Components {
        smgr,
        log: Arc::new(super::super::NoLog),
        runtime: Arc::new(OsRuntime::new()),
        sink: Some(Arc::clone(&kept) as Arc<dyn ReferenceSink>),
    };
    let pool = Pool::open(settings(1, "lru"), with).unwrap();
    let worker = pool.worker(Role::Client);
    extend(&worker, 2);
    put(&worker, 0, 1, 1);
    put(&worker, 0, 2, 2);
    value(&worker, 1);
    use ReferenceKind::{Dirtied, New, Read};
    let expected = [(0, New), (1, New), (0, Read), (0, Dirtied), (0, Read), (1, Read)];
    assert_eq!(*kept.0.lock().unwrap(), expected);
}

#[test]
fn pages_are_the_same_through_direct_io() {
    let disk = SimDisk::new();
    let smgr = Arc::new(Smgr::new(Arc::new(disk), DatabaseId(7), 8, true).unwrap());
    smgr.create(RELATION, Fork::Main).unwrap();
    let runtime = Arc::new(OsRuntime::new());
    let with = Components { smgr, log: Arc::new(super::super::NoLog), runtime, sink: None };
    let pool = Pool::open(settings(2, "lru"), with).unwrap();
    let worker = pool.worker(Role::Client);
    extend(&worker, 9);
    for block in 0..9 {
        put(&worker, block, u64::from(block) + 1, 0);
    }
    for block in 0..9 {
        assert_eq!(value(&worker, block), u64::from(block) + 1);
    }
    pool.check().unwrap();
}

#[test]
fn neither_a_hit_nor_a_miss_allocates() {
    let directory = tempfile::tempdir().unwrap();
    let files = crate::vfs::OsFileSystem::new(directory.path()).unwrap();
    let smgr = Arc::new(Smgr::new(Arc::new(files), DatabaseId(7), 8, false).unwrap());
    smgr.create(RELATION, Fork::Main).unwrap();
    for policy in ["clock2q_plus", "clock_sweep", "lru", "arc", "innodb"] {
        let runtime = Arc::new(OsRuntime::new());
        let smgr = Arc::clone(&smgr);
        let with = Components { smgr, log: Arc::new(super::super::NoLog), runtime, sink: None };
        let pool = Pool::open(settings(8, policy), with).unwrap();
        let worker = pool.worker(Role::Client);
        worker.truncate(RELATION, Fork::Main, 0).unwrap();
        extend(&worker, 24);
        let use_all = || {
            for step in 0..500_u32 {
                let mut page = worker.fetch(identity(step * 7 % 24)).unwrap().exclusive();
                page.change()[100] = 1;
                drop(page);
                drop(worker.fetch(identity(step % 3)).unwrap().shared());
            }
        };
        use_all();
        let counted = allocation_counter::measure(use_all);
        assert_eq!(counted.count_total, 0, "{policy}");
        assert!(pool.statistics().reads_total() > 100, "{policy}: there were misses");
    }
}
