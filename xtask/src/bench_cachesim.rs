//! `cargo xtask bench-cachesim`: CPU time of our simulator against libCacheSim's, and memory per
//! cached page, interleaved run by run over one trace.
//!
//! The trace is zipf(1.0) over a million pages in no order, after a quarter of uniform references that
//! keep every policy evicting. Ours runs over the renumbered trace (which the command does once for
//! all policies and sizes), theirs over its fastest format, mapped; neither counts reading the file.
//! A row is the median of its rounds; the last line is the worst row's ratio.

use anyhow::Context as _;
use evenkeel_cachesim::dense::{DenseTrace, DenseTraceBuilder, Reference};
use evenkeel_lab::distribution::{Purpose, RandomStream, Sampler};

use crate::libcachesim::{Pair, Run, build};

const PAGES: u64 = 1_000_000;
const REFERENCES: usize = 5_000_000;
const FRAMES: [u32; 2] = [10_000, 200_000];
const ROUNDS: usize = 3;
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
    let mut pair = Pair::start(&ours, trace.references())?;
    crate::print(
        "policy         frames   misses  million references per CPU-second   bytes per frame   ratio",
    );
    crate::print(
        "                                          ours      libCacheSim    ours  libCacheSim",
    );
    let mut worst = f64::INFINITY;
    let mut differences = Vec::new();
    for policy in POLICIES {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == policy) {
            continue;
        }
        for frames in FRAMES {
            let mut our_runs = Vec::new();
            let mut their_runs = Vec::new();
            for round in 0..rounds {
                for turn in [round % 2, 1 - round % 2] {
                    if turn == 0 {
                        our_runs.extend(pair.ours.run(policy, frames)?);
                    } else {
                        their_runs.extend(pair.theirs.run(policy, frames)?);
                    }
                }
            }
            let (our, their) = (median(&our_runs)?, median(&their_runs)?);
            let ratio = their.cpu_ns as f64 / our.cpu_ns.max(1) as f64;
            worst = worst.min(ratio);
            if our.misses != their.misses {
                differences.push(format!("{policy} with {frames} frames: {} misses", their.misses));
            }
            let speed = |run: Run| references as f64 * 1e3 / run.cpu_ns.max(1) as f64;
            let per_frame = |run: Run| run.memory_bytes as f64 / f64::from(frames);
            crate::print(&format!(
                "{policy:<13} {frames:>7} {:>8.4} {:>14.1} {:>16.1} {:>7.0} {:>12.0} {ratio:>7.2}",
                our.misses as f64 / references as f64,
                speed(our),
                speed(their),
                per_frame(our),
                per_frame(their),
            ));
        }
    }
    for difference in differences {
        crate::print(&format!("libCacheSim differs: {difference}"));
    }
    crate::print(&format!("ratio: {worst:.3}"));
    Ok(())
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
