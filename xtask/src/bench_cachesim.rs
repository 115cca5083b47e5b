//! `cargo xtask bench-cachesim`: CPU time of our simulator against libCacheSim's, and memory per
//! cached page, interleaved run by run over one trace.
//!
//! The trace is zipf(1.0) over a million pages in no order, after a quarter of uniform references that
//! keep every policy evicting. Ours runs over the renumbered trace (which the command does once for
//! all policies and sizes), theirs over its fastest format, mapped; neither counts reading the file.
//!
//! libCacheSim runs twice: as it comes, which is how its package is used, and with a hash table made to
//! fit the cache, which no user is told to do and which is the harder peer. A row's speeds are medians of
//! its rounds; memory is the growth of a process of its own that does this run alone. The last line is
//! the worst row's ratio to libCacheSim as it comes, the line before it that to the fitted one.

use anyhow::Context as _;
use evenkeel_cachesim::dense::{DenseTrace, DenseTraceBuilder, Reference};
use evenkeel_lab::distribution::{Purpose, RandomStream, Sampler};

use crate::libcachesim::{Pair, Run, Side, Who, build};

const PAGES: u64 = 1_000_000;
const REFERENCES: usize = 5_000_000;
const FRAMES: [u32; 3] = [10_000, 50_000, 200_000];
const ROUNDS: usize = 3;
const SIDES: [Who; 3] = [Who::Ours, Who::Fitted, Who::AsItComes];
const POLICIES: [&str; 10] = [
    "fifo",
    "lru",
    "clock",
    "clock_sweep",
    "sieve",
    "s3_fifo",
    "clock2q_plus",
    "arc",
    "two_q",
    "lirs",
];

/// Runs the benchmark. Arguments, where others are wanted: rounds, references, and policies.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let rounds: usize = arguments.first().map_or(Ok(ROUNDS), |text| text.parse())?;
    let references: usize = arguments.get(1).map_or(Ok(REFERENCES), |text| text.parse())?;
    let chosen = arguments.get(2..).unwrap_or_default();
    let ours = build()?;
    crate::say(&format!("drawing {references} references"));
    let trace = trace(references)?;
    let pair = Pair::prepare(ours, trace.references())?;
    crate::print(&format!("{} distinct pages", trace.pages()));
    crate::print(
        "                               million references     bytes of memory        ratio to",
    );
    crate::print(
        "                               per CPU-second         per frame              libCacheSim",
    );
    crate::print(
        "policy         frames  misses  ours fitted as-comes   ours fitted as-comes  fitted as-comes",
    );
    let mut sides = SIDES.into_iter().map(|who| pair.start(who)).collect::<Result<Vec<_>, _>>()?;
    let mut worst = [f64::INFINITY; 2];
    let mut differences = Vec::new();
    for policy in POLICIES {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == policy) {
            continue;
        }
        for frames in FRAMES {
            let runs = interleaved(&mut sides, policy, frames, rounds)?;
            let mut memory_bytes = [0; SIDES.len()];
            for (who, bytes) in SIDES.into_iter().zip(&mut memory_bytes) {
                let alone = pair.start(who)?.run(policy, frames)?.context("it cannot run this")?;
                *bytes = alone.memory_bytes;
            }
            let [our, fitted, as_it_comes] = runs;
            let ratio = |their: Run| their.cpu_ns as f64 / our.cpu_ns.max(1) as f64;
            let ratios = [ratio(fitted), ratio(as_it_comes)];
            for (worst, ratio) in worst.iter_mut().zip(ratios) {
                *worst = worst.min(ratio);
            }
            if our.misses != fitted.misses {
                differences
                    .push(format!("{policy} with {frames} frames: {} misses", fitted.misses));
            }
            let speed = runs.map(|run| references as f64 * 1e3 / run.cpu_ns.max(1) as f64);
            let per_frame = memory_bytes.map(|bytes| bytes as f64 / f64::from(frames));
            crate::print(&format!(
                "{policy:<13} {frames:>7} {:>7.4} {:>5.1} {:>6.1} {:>8.1} {:>6.0} {:>6.0} {:>8.0} {:>7.2} {:>8.2}",
                our.misses as f64 / references as f64,
                speed[0],
                speed[1],
                speed[2],
                per_frame[0],
                per_frame[1],
                per_frame[2],
                ratios[0],
                ratios[1],
            ));
        }
    }
    for difference in differences {
        crate::print(&format!("libCacheSim differs: {difference}"));
    }
    crate::print(&format!("ratio to libCacheSim with a fitted hash table: {:.3}", worst[0]));
    crate::print(&format!("ratio: {:.3}", worst[1]));
    Ok(())
}

/// The medians of `rounds` runs of each side, which take turns in starting.
fn interleaved(
    sides: &mut [Side],
    policy: &str,
    frames: u32,
    rounds: usize,
) -> anyhow::Result<[Run; SIDES.len()]> {
    let mut runs = [const { Vec::new() }; SIDES.len()];
    for round in 0..rounds {
        for turn in 0..SIDES.len() {
            let at = (round + turn) % SIDES.len();
            runs[at].extend(sides[at].run(policy, frames)?);
        }
    }
    let [ours, fitted, as_it_comes] = runs;
    Ok([median(&ours)?, median(&fitted)?, median(&as_it_comes)?])
}

fn trace(references: usize) -> anyhow::Result<DenseTrace> {
    let zipf = Sampler::new("zipfian:1.0,scattered".parse()?, PAGES - 1);
    let uniform = Sampler::new("uniform".parse()?, PAGES - 1);
    let mut stream = RandomStream::new(1, 0, Purpose::Audit);
    let mut builder = DenseTraceBuilder::new("zipf", 8192);
    for position in 0..references {
        let law = if position % 4 == 0 { &uniform } else { &zipf };
        builder.reference(law.draw(&mut stream).index, Reference::default())?;
    }
    Ok(builder.finish())
}

/// The run with the median CPU time.
fn median(runs: &[Run]) -> anyhow::Result<Run> {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| run.cpu_ns);
    runs.get(runs.len() / 2).copied().context("not a single run")
}
