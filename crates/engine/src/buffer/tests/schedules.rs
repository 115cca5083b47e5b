//! Interleavings chosen by the schedule checker, at each lock and atomic of the pool and around each read
//! and write of a page: `cargo test -p evenkeel --features shuttle --lib schedules`.

#![cfg(feature = "shuttle")]

use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use super::super::{PoolError, Role};
use super::*;
use crate::runtime::{
    Clock, Entropy, Event, Instant, Readiness, TaskHandle, Tasks, Waits, WallTime,
};
use crate::smgr::SmgrError;
use crate::vfs::sim::SimDisk;

/// Schedules tried for each test by each of the two ways of choosing them.
const SCHEDULES: usize = 3_000;

/// Waits as the checker knows them; time stands still.
struct CheckedRuntime;

struct CheckedEvent {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Event for CheckedEvent {
    fn notify(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        assert!(deadline.is_none(), "the pool waits without deadlines");
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
        *is_set = false;
        true
    }
}

impl Clock for CheckedRuntime {
    fn now(&self) -> Instant {
        Instant::from_nanos(0)
    }
    fn wall(&self) -> WallTime {
        WallTime::from_unix_nanos(0)
    }
}

impl Tasks for CheckedRuntime {
    fn spawn(&self, name: &str, _body: Box<dyn FnOnce() + Send>) -> std::io::Result<TaskHandle> {
        Err(std::io::Error::other(format!("the pool starts no task, and so no '{name}'")))
    }
}

impl Waits for CheckedRuntime {
    fn sleep_until(&self, _deadline: Instant) {
        thread::yield_now();
    }
    fn event(&self) -> Arc<dyn Event> {
        Arc::new(CheckedEvent { is_set: Mutex::new(false), changed: Condvar::new() })
    }
    fn readiness(&self) -> std::io::Result<Box<dyn Readiness>> {
        Err(std::io::Error::other("the pool waits for no descriptor"))
    }
}

impl Entropy for CheckedRuntime {
    fn entropy_u64(&self) -> u64 {
        0
    }
}

fn checked(frames: u32, policy: &str) -> Bench {
    let settings = settings(frames, policy);
    let hook = |_: Operation, _: &[u8]| thread::yield_now();
    bench_with(Arc::new(SimDisk::new()), Arc::new(CheckedRuntime), settings, Arc::new(hook))
}

fn every_schedule(body: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(body, SCHEDULES);
    shuttle::check_pct(body, SCHEDULES, 3);
}

#[test]
fn schedules_of_fetch_evict_and_truncate_lose_no_change_and_leave_no_page() {
    every_schedule(|| {
        let bench = checked(6, "clock_sweep");
        let pool = bench.pool;
        extend(&pool.worker(Role::Client), 8);
        let counters = [0, 1].map(|_| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let worker = pool.worker(Role::Client);
                for block in [0, 5, 0, 1] {
                    match worker.fetch(identity(block)) {
                        Ok(page) if block < 2 => {
                            let mut page = page.exclusive();
                            let before = said(&page);
                            say(page.change(), before + 1, before + 1);
                        }
                        Ok(page) => drop(page.shared()),
                        Err(PoolError::Storage(SmgrError::BeyondEnd { .. })) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        let cutter = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let worker = pool.worker(Role::Checkpointer);
                worker.truncate(RELATION, Fork::Main, 3).unwrap();
                assert!((3..8).all(|block| !pool.holds(identity(block))));
                for page in pool.dirty_pages() {
                    worker.write(page).unwrap();
                }
            })
        };
        for task in counters {
            task.join().unwrap();
        }
        cutter.join().unwrap();
        let worker = pool.worker(Role::Client);
        assert_eq!((value(&worker, 0), value(&worker, 1)), (4, 2));
        assert_eq!(pool.statistics().write_failures, 0);
        drop(worker);
        pool.check().unwrap();
    });
}

#[test]
fn schedules_of_misses_on_one_page_read_it_once_and_answer_all() {
    every_schedule(|| {
        let bench = checked(4, "clock2q_plus");
        let pool = bench.pool;
        let worker = pool.worker(Role::Client);
        extend(&worker, 1);
        put(&worker, 0, 9, 1);
        worker.flush_relation(RELATION).unwrap();
        let reopened = Pool::open(pool.settings().clone(), pool.with.clone()).unwrap();
        let tasks = [0, 1, 2].map(|_| {
            let pool = Arc::clone(&reopened);
            thread::spawn(move || assert_eq!(value(&pool.worker(Role::Client), 0), 9))
        });
        for task in tasks {
            task.join().unwrap();
        }
        let counted = reopened.statistics();
        assert_eq!((counted.reads_total(), counted.hits_total()), (1, 2));
        reopened.check().unwrap();
    });
}

#[test]
fn schedules_of_locks_and_cleanup_lose_no_wake_up() {
    every_schedule(|| {
        let bench = checked(2, "lru");
        let pool = bench.pool;
        extend(&pool.worker(Role::Client), 1);
        let tasks = [0, 1, 2].map(|task| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let worker = pool.worker(Role::Client);
                let pinned = worker.fetch(identity(0)).unwrap();
                let mut page = match task {
                    0 => pinned.cleanup().unwrap(),
                    1 => pinned.shared().unlock().exclusive(),
                    _ => pinned.exclusive(),
                };
                let before = said(&page);
                say(page.change(), before + 1, before + 1);
            })
        });
        for task in tasks {
            task.join().unwrap();
        }
        let worker = pool.worker(Role::Client);
        assert_eq!(value(&worker, 0), 3);
        drop(worker);
        pool.check().unwrap();
    });
}

#[test]
fn schedules_of_a_writer_and_a_victim_search_write_the_last_change() {
    every_schedule(|| {
        let bench = checked(2, "lru");
        let pool = bench.pool;
        let worker = pool.worker(Role::Client);
        extend(&worker, 3);
        put(&worker, 0, 1, 1);
        drop(worker);
        let cleaner = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let worker = pool.worker(Role::Checkpointer);
                for page in pool.dirty_pages() {
                    worker.write(page).unwrap();
                }
                worker.clean_ahead(2, 2, 2, &mut Vec::new()).unwrap();
            })
        };
        let client = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let worker = pool.worker(Role::Client);
                put(&worker, 0, 2, 2);
                for block in [1, 2] {
                    // Two frames, both possibly pinned by the cleaner for a moment.
                    match worker.fetch(identity(block)) {
                        Ok(_) | Err(PoolError::AllPinned { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        };
        cleaner.join().unwrap();
        client.join().unwrap();
        let worker = pool.worker(Role::Client);
        assert_eq!(value(&worker, 0), 2);
        worker.flush_relation(RELATION).unwrap();
        let mut page = crate::page::PageImage::zeroed();
        pool.smgr().read(identity(0), &mut page).unwrap();
        assert_eq!((said(&page), bench.log.durable()), (2, Lsn(2)));
        drop(worker);
        pool.check().unwrap();
    });
}
