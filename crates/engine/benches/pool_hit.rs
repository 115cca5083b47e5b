//! What a hit in the buffer pool costs: find, pin, lock shared, read 8 bytes of the header and 8 of the
//! page, release. `cargo bench -p evenkeel --bench pool_hit`.
//!
//! Beside it, in the same run and interleaved with it, a pool as one would write it first: a hash map of
//! pages behind one reader-writer lock. The ratio is what lasts; nanoseconds are one machine's on one day.
//!
//! "CPU ns each" is the time of a core that a hit took, by the threads' own CPU clocks: on a machine that
//! is shared with others it says more than the rate. Threads of one core count as one there.
//!
//! Goals: 150 ns on one core, more hits a second with more cores, and no collapse with 16 times more
//! threads than cores. The last line of each table says whether the ratios hold.

#![allow(missing_docs, reason = "a program, not a library")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here is a failed benchmark"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use evenkeel::buffer::{Components, NoLog, Pool, PoolSettings, Role};
use evenkeel::page::{BlockNumber, DatabaseId, Fork, PageIdentity, PageImage, RelationNumber};
use evenkeel::runtime::{Clock, OsRuntime, Tasks, Waits};
use evenkeel::smgr::{SEGMENT_BLOCKS, Smgr};
use evenkeel::vfs::sim::SimDisk;
use rustix::time::{ClockId, clock_gettime};

const RELATION: RelationNumber = RelationNumber(1);

/// How long one measurement of one way runs.
const SPAN_NS: u64 = 150_000_000;

/// Measurements of each way; the median counts.
const ROUNDS: usize = 5;

fn identity(block: u32) -> PageIdentity {
    PageIdentity { relation: RELATION, fork: Fork::Main, block: BlockNumber(block) }
}

/// Blocks in an order that no prefetcher foresees.
struct Blocks {
    state: u64,
    blocks: u64,
}

impl Blocks {
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u32::try_from(((self.state >> 32) * self.blocks) >> 32).unwrap()
    }
}

type Work = dyn Fn(&mut Blocks, &AtomicBool) -> u64 + Send + Sync;

/// What was measured: hits a second of all threads together, and nanoseconds of CPU for each hit.
#[derive(Clone, Copy)]
struct Measured {
    rate_per_s: f64,
    cpu_ns: f64,
}

fn thread_cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(spent.tv_sec * 1_000_000_000 + spent.tv_nsec).unwrap()
}

fn measure(threads: usize, blocks: u32, work: &Arc<Work>) -> Measured {
    let runtime = OsRuntime::new();
    let is_over = Arc::new(AtomicBool::new(false));
    let sums = Arc::new(std::sync::Mutex::new((0_u64, 0_u64)));
    let began = runtime.now();
    let tasks: Vec<_> = (0..threads as u64)
        .map(|seed| {
            let (work, is_over, sums) = (Arc::clone(work), Arc::clone(&is_over), Arc::clone(&sums));
            let body = move || {
                let mut order = Blocks { state: seed * 977 + 1, blocks: u64::from(blocks) };
                let before_ns = thread_cpu_ns();
                let done = work(&mut order, &is_over);
                let spent_ns = thread_cpu_ns() - before_ns;
                let mut sums = sums.lock().unwrap();
                *sums = (sums.0 + done, sums.1 + spent_ns);
            };
            runtime.spawn("hits", Box::new(body)).unwrap()
        })
        .collect();
    runtime.sleep_until(began.plus_nanos(SPAN_NS));
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.join().unwrap();
    }
    let took_ns = runtime.now().nanos_since(began);
    let (hits, spent_ns) = *sums.lock().unwrap();
    Measured {
        rate_per_s: hits as f64 * 1e9 / took_ns as f64,
        cpu_ns: spent_ns as f64 / hits as f64,
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn medians(rounds: &[Measured]) -> Measured {
    Measured {
        rate_per_s: median(rounds.iter().map(|round| round.rate_per_s)),
        cpu_ns: median(rounds.iter().map(|round| round.cpu_ns)),
    }
}

/// The pool, full of the relation's pages.
fn pool(blocks: u32, policy: &str) -> Arc<Pool> {
    let files = Arc::new(SimDisk::new());
    let smgr = Arc::new(Smgr::new(files, DatabaseId(1), SEGMENT_BLOCKS, false).unwrap());
    smgr.create(RELATION, Fork::Main).unwrap();
    let runtime = Arc::new(OsRuntime::new());
    let with = Components { smgr, log: Arc::new(NoLog), runtime, sink: None };
    let policy = policy.parse().unwrap();
    let pool = Pool::open(PoolSettings { policy, ..PoolSettings::new(blocks) }, with).unwrap();
    let worker = pool.worker(Role::Client);
    for _ in 0..blocks {
        worker.extend(RELATION, Fork::Main, None).unwrap();
    }
    pool
}

fn pool_work(pool: Arc<Pool>) -> Arc<Work> {
    Arc::new(move |order, is_over| {
        let worker = pool.worker(Role::Client);
        let mut hits = 0;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..64 {
                let page = worker.fetch(identity(order.next())).unwrap().shared();
                black_box((page[0], page[4000]));
            }
            hits += 64;
        }
        hits
    })
}

/// The first pool one would write.
fn map_work(blocks: u32) -> Arc<Work> {
    let pages: HashMap<PageIdentity, Arc<RwLock<PageImage>>> = (0..blocks)
        .map(|block| (identity(block), Arc::new(RwLock::new(PageImage::zeroed()))))
        .collect();
    let pages = RwLock::new(pages);
    Arc::new(move |order, is_over| {
        let mut hits = 0;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..64 {
                let found = pages.read().unwrap();
                let page = Arc::clone(&found[&identity(order.next())]);
                drop(found);
                let page = page.read().unwrap();
                black_box((page[0], page[4000]));
            }
            hits += 64;
        }
        hits
    })
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("hits: find, pin, lock, read, release; {cores} cores; median of {ROUNDS} rounds");
    for (what, blocks) in [
        ("one page, which all want", 1),
        ("256 pages: 2 MiB", 256),
        ("65,536 pages: 512 MiB", 65_536),
    ] {
        let map = map_work(blocks);
        let ways: Vec<(String, Arc<Work>)> = ["clock2q_plus", "clock_sweep", "lru"]
            .into_iter()
            .map(|policy| (policy.to_owned(), pool_work(pool(blocks, policy))))
            .chain([("map".to_owned(), Arc::clone(&map))])
            .collect();
        println!("\n{what}");
        println!(
            "{:>14} {:>8} {:>14} {:>12} {:>14}",
            "", "threads", "hits/s", "CPU ns each", "of the map's"
        );
        let mut all: HashMap<(String, usize), Measured> = HashMap::new();
        for threads in [1, cores, cores * 16] {
            let mut seen: HashMap<&str, Vec<Measured>> = HashMap::new();
            for _ in 0..ROUNDS {
                for (name, work) in &ways {
                    seen.entry(name).or_default().push(measure(threads, blocks, work));
                }
            }
            let base = medians(&seen["map"]);
            for (name, _) in &ways {
                let one = medians(&seen[name.as_str()]);
                all.insert((name.clone(), threads), one);
                let Measured { rate_per_s, cpu_ns } = one;
                let ratio = cpu_ns / base.cpu_ns;
                println!("{name:>14} {threads:>8} {rate_per_s:>14.0} {cpu_ns:>12.1} {ratio:>14.2}");
            }
        }
        let of = |threads: usize| all[&("clock2q_plus".to_owned(), threads)];
        println!(
            "clock2q_plus: {:.1} ns on one core; {cores} threads {:.2} times as many hits a second; \
             {} threads {:.2} times those",
            of(1).cpu_ns,
            of(cores).rate_per_s / of(1).rate_per_s,
            cores * 16,
            of(cores * 16).rate_per_s / of(cores).rate_per_s,
        );
    }
}
