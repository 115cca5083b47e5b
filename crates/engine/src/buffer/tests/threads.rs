//! Many tasks at once, on threads of the system.

#![cfg(not(feature = "shuttle"))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::super::{PoolError, Role, WriteCause};
use super::*;
use crate::runtime::{Event, OsRuntime, TaskHandle, Tasks, Waits};
use crate::smgr::SmgrError;
use crate::stats::WaitPlace;
use crate::vfs::sim::SimDisk;

fn spawn(body: impl FnOnce() + Send + 'static) -> TaskHandle {
    OsRuntime::new().spawn("test", Box::new(body)).unwrap()
}

fn join(tasks: Vec<TaskHandle>) {
    for task in tasks {
        task.join().unwrap();
    }
}

/// Waits until `is_so`: the other task has been started and cannot but get there.
fn until(is_so: impl Fn() -> bool) {
    let runtime = OsRuntime::new();
    while !is_so() {
        runtime.sleep_until(crate::runtime::Clock::now(&runtime).plus_nanos(100_000));
    }
}

/// Reads stop at a gate until it is opened, and are counted.
struct Gate {
    is_closed: AtomicBool,
    reads: AtomicU32,
    opened: Arc<dyn Event>,
}

fn gated(settings: PoolSettings) -> (Arc<Gate>, Bench) {
    let runtime = OsRuntime::new();
    let gate = Arc::new(Gate {
        is_closed: AtomicBool::new(false),
        reads: AtomicU32::new(0),
        opened: runtime.event(),
    });
    let hooked = Arc::clone(&gate);
    let hook = move |operation: Operation, _: &[u8]| {
        if operation == Operation::Read {
            hooked.reads.fetch_add(1, Ordering::SeqCst);
            if hooked.is_closed.load(Ordering::SeqCst) {
                hooked.opened.wait_until(None);
            }
        }
    };
    let files = Arc::new(SimDisk::new());
    (gate, bench_with(files, Arc::new(runtime), settings, Arc::new(hook)))
}

#[test]
fn misses_on_one_page_wait_for_one_read() {
    let (gate, bench) = gated(settings(4, "lru"));
    let pool = Arc::clone(&bench.pool);
    let worker = pool.worker(Role::Client);
    extend(&worker, 8);
    put(&worker, 0, 77, 1);
    for block in 1..6 {
        drop(worker.fetch(identity(block)).unwrap());
    }
    assert!(!pool.holds(identity(0)));
    gate.reads.store(0, Ordering::SeqCst);
    gate.is_closed.store(true, Ordering::SeqCst);
    let tasks = (0..6).map(|_| {
        let pool = Arc::clone(&pool);
        spawn(move || assert_eq!(value(&pool.worker(Role::Client), 0), 77))
    });
    let tasks: Vec<TaskHandle> = tasks.collect();
    until(|| gate.reads.load(Ordering::SeqCst) == 1);
    // What is in the pool is had meanwhile: neither the read nor the search for a victim is in the way.
    for block in 3..6 {
        drop(worker.fetch_if_present(identity(block)).unwrap());
    }
    gate.is_closed.store(false, Ordering::SeqCst);
    gate.opened.notify();
    join(tasks);
    assert_eq!(gate.reads.load(Ordering::SeqCst), 1, "one read for six who wanted the page");
    assert!(pool.statistics().hits_total() >= 5);
    pool.check().unwrap();
}

#[test]
fn a_failed_read_is_the_answer_to_all_who_waited() {
    let (gate, bench) = gated(settings(4, "lru"));
    let pool = Arc::clone(&bench.pool);
    extend(&pool.worker(Role::Client), 1);
    gate.is_closed.store(true, Ordering::SeqCst);
    let failures = Arc::new(Mutex::new(Vec::new()));
    let task = |pool: &Arc<Pool>| {
        let (pool, failures) = (Arc::clone(pool), Arc::clone(&failures));
        spawn(move || {
            let error = pool.worker(Role::Client).fetch(identity(5)).unwrap_err();
            failures.lock().unwrap().push(error);
        })
    };
    let first = task(&pool);
    until(|| gate.reads.load(Ordering::SeqCst) == 1);
    let others: Vec<TaskHandle> = (0..5).map(|_| task(&pool)).collect();
    until(|| {
        let partition = pool.table.partition(super::super::descriptor::hash(identity(5)));
        partition.first().is_some_and(|loading| loading.waiters.len() == 5)
    });
    gate.is_closed.store(false, Ordering::SeqCst);
    gate.opened.notify();
    join(vec![first]);
    join(others);
    let failures = failures.lock().unwrap();
    let expected = SmgrError::BeyondEnd { identity: identity(5), blocks: 1 };
    assert_eq!(*failures, vec![PoolError::Storage(expected); 6]);
    assert_eq!(gate.reads.load(Ordering::SeqCst), 1, "nobody asked the disk again");
    pool.check().unwrap();
}

#[test]
fn a_cleanup_waits_until_the_last_other_pin_is_gone() {
    let (_, bench) = gated(PoolSettings::new(4));
    let pool = Arc::clone(&bench.pool);
    let worker = pool.worker(Role::Client);
    extend(&worker, 1);
    let pins = [worker.fetch(identity(0)).unwrap(), worker.fetch(identity(0)).unwrap()];
    let is_done = Arc::new(AtomicBool::new(false));
    let (other, done) = (Arc::clone(&pool), Arc::clone(&is_done));
    let task = spawn(move || {
        let worker = other.worker(Role::Client);
        let mut page = worker.fetch(identity(0)).unwrap().cleanup().unwrap();
        done.store(true, Ordering::SeqCst);
        say(page.change(), 4, 4);
    });
    until(|| {
        let state = pool.frame(pins[0].number()).state.load(Ordering::SeqCst);
        state & super::super::descriptor::PIN_WAITERS != 0
    });
    // A pinned page can still be locked and read while somebody waits to have it alone.
    let [first, second] = pins;
    let read = first.shared();
    assert_eq!(said(&read), 0);
    drop(read);
    assert!(!is_done.load(Ordering::SeqCst));
    let third = pool.worker(Role::Client);
    let error = third.fetch(identity(0)).unwrap().cleanup().unwrap_err();
    assert_eq!(error, PoolError::CleanupAwaited(identity(0)));
    drop(second);
    join(vec![task]);
    assert!(is_done.load(Ordering::SeqCst));
    assert_eq!(value(&worker, 0), 4);
    assert_eq!(pool.waited().totals(WaitPlace::Pins).waits, 1);
    pool.check().unwrap();
}

#[test]
fn changes_of_many_tasks_to_few_pages_are_all_kept() {
    // Each page counts up; a lost update or a torn read would show. More tasks than cores, frames for
    // two pins each, evictions and writers all the time.
    for policy in ["clock2q_plus", "clock_sweep", "lru", "lru_k", "random"] {
        let settings = PoolSettings { backend_flush_after_pages: 8, ..settings(40, policy) };
        let (_, bench) = gated(settings);
        let pool = Arc::clone(&bench.pool);
        extend(&pool.worker(Role::Client), 100);
        let is_over = Arc::new(AtomicBool::new(false));
        let helpers = [Role::BackgroundWriter, Role::Checkpointer].map(|role| {
            let (pool, is_over) = (Arc::clone(&pool), Arc::clone(&is_over));
            spawn(move || {
                let worker = pool.worker(role);
                let mut room = Vec::new();
                while !is_over.load(Ordering::SeqCst) {
                    if role == Role::BackgroundWriter {
                        worker.clean_ahead(10, 10, 5, &mut room).unwrap();
                    } else {
                        for page in pool.dirty_pages() {
                            worker.write(page).unwrap();
                        }
                    }
                }
            })
        });
        let tasks = (0..16_u64).map(|task| {
            let pool = Arc::clone(&pool);
            spawn(move || {
                let worker = pool.worker(Role::Client);
                let mut random = task + 1;
                for _ in 0..600_u64 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Half of the uses go to 4 pages, which are fought for.
                    let block = u32::try_from(random >> 33).unwrap();
                    let block = if block % 2 == 0 { block / 2 % 4 } else { block / 2 % 100 };
                    let mut page = worker.fetch(identity(block)).unwrap().exclusive();
                    let before = said(&page);
                    say(page.change(), before + 1, before + 1);
                    if random >> 60 == 0 {
                        let pinned = page.unlock();
                        assert!(said(&pinned.shared()) > before);
                    } else if random >> 60 == 1 {
                        drop(page);
                        let read = worker.fetch(identity((block + 1) % 100)).unwrap().shared();
                        said(&read);
                    }
                }
            })
        });
        join(tasks.collect());
        is_over.store(true, Ordering::SeqCst);
        join(helpers.into_iter().collect());
        let worker = pool.worker(Role::Client);
        let sum: u64 = (0..100).map(|block| value(&worker, block)).sum();
        assert_eq!(sum, 16 * 600, "{policy}");
        pool.check().unwrap();
        worker.flush_relation(RELATION).unwrap();
        let on_disk: u64 = (0..100)
            .map(|block| {
                let mut page = crate::page::PageImage::zeroed();
                pool.smgr().read(identity(block), &mut page).unwrap();
                said(&page)
            })
            .sum();
        assert_eq!(on_disk, 16 * 600, "{policy}");
        assert!(pool.statistics().writes(WriteCause::Checkpointer) > 0);
    }
}

#[test]
fn tasks_that_extend_one_relation_get_blocks_of_their_own() {
    let (_, bench) = gated(settings(32, "clock2q_plus"));
    let pool = Arc::clone(&bench.pool);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tasks = (0..8_u64).map(|task| {
        let (pool, seen) = (Arc::clone(&pool), Arc::clone(&seen));
        spawn(move || {
            let worker = pool.worker(Role::Client);
            let mut ring = pool.bulk_write_ring();
            for _ in 0..40 {
                let mut page = worker.extend(RELATION, Fork::Main, Some(&mut ring)).unwrap();
                say(page.change(), task + 1, 1);
                let block = page.identity().block.0;
                seen.lock().unwrap().push((block, task + 1));
            }
        })
    });
    join(tasks.collect());
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    let blocks: Vec<u32> = seen.iter().map(|(block, _)| *block).collect();
    assert_eq!(blocks, (0..320).collect::<Vec<u32>>());
    let worker = pool.worker(Role::Client);
    for (block, expected) in seen {
        assert_eq!(value(&worker, block), expected);
    }
    assert_eq!(pool.statistics().extends, 320);
    pool.check().unwrap();
}

#[test]
fn a_truncation_among_readers_and_writers_leaves_no_page_behind() {
    let (_, bench) = gated(settings(24, "clock_sweep"));
    let pool = Arc::clone(&bench.pool);
    extend(&pool.worker(Role::Client), 60);
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks = (0..6_u32).map(|task| {
        let (pool, is_over) = (Arc::clone(&pool), Arc::clone(&is_over));
        spawn(move || {
            let worker = pool.worker(Role::Client);
            let mut at = task;
            while !is_over.load(Ordering::SeqCst) {
                at = (at * 7 + 3) % 61;
                match worker.fetch(identity(at)) {
                    Ok(page) if at < 10 => say(page.exclusive().change(), 1, 1),
                    Ok(page) => drop(page.shared()),
                    Err(PoolError::Storage(SmgrError::BeyondEnd { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    let tasks: Vec<TaskHandle> = tasks.collect();
    let worker = pool.worker(Role::Client);
    for round in 0..40 {
        let blocks = 10 + round % 5;
        worker.truncate(RELATION, Fork::Main, blocks).unwrap();
        for block in blocks..60 {
            assert!(!pool.holds(identity(block)), "block {block} of {blocks}");
        }
        extend(&worker, 60 - blocks);
    }
    is_over.store(true, Ordering::SeqCst);
    join(tasks);
    assert_eq!(pool.statistics().write_failures, 0, "no page without a place was written");
    pool.check().unwrap();
}
