//! Runs what it is asked for over one trace: the half of `cargo xtask bench-cachesim` and of
//! `cargo xtask compare-libcachesim` that is ours, and an example of the library without files.
//!
//! The argument is a file of 4-byte little-endian numbers, one a reference. Each line of the standard
//! input is a number of frames, a blank and a policy; each answer is the misses, the thread's CPU
//! time in nanoseconds and the growth of resident memory in bytes, which is right where the allocator
//! gives back what is freed (with glibc: `MALLOC_MMAP_THRESHOLD_` set to any number).

use std::io::{BufRead as _, Write as _};

use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::dense::{DenseTrace, DenseTraceBuilder, Reference};
use evenkeel_cachesim::optimum::NextUses;
use evenkeel_cachesim::simulate::{SimulationOptions, Unobserved};
use evenkeel_replacement::registry::Registry;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let trace = read(&path)?;
    let mut next_uses = None;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} {}", trace.references().len(), trace.pages())?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (frames, policy) = line.split_once(' ').ok_or("frames and a policy")?;
        let choices = Choice::parse_list(&Registry::standard(), policy)?;
        let [choice] = choices.as_slice() else { return Err("one policy a line".into()) };
        if *choice == Choice::Optimum && next_uses.is_none() {
            next_uses = Some(NextUses::of(&trace));
        }
        let none = NextUses::of(&DenseTrace::default());
        let memory_before = reset_peak_memory_bytes();
        let before = cpu_ns();
        let simulated = choice.simulate(
            frames.parse()?,
            &trace,
            || next_uses.as_ref().unwrap_or(&none),
            0,
            &SimulationOptions::default(),
            &Unobserved,
        )?;
        let cpu_ns = cpu_ns() - before;
        let memory = status_bytes("VmHWM:").saturating_sub(memory_before);
        let misses = simulated.map_or(0, |simulated| simulated.counts.misses);
        writeln!(out, "{misses} {cpu_ns} {memory}")?;
        out.flush()?;
    }
    Ok(())
}

fn read(path: &str) -> Result<DenseTrace, Failure> {
    let bytes = std::fs::read(path)?;
    let mut builder = DenseTraceBuilder::<u32>::new(path, 4096);
    for number in bytes.chunks_exact(4) {
        let page = number.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        builder.reference(page, Reference::default())?;
    }
    Ok(builder.finish())
}

/// CPU time of this process, which has one thread.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Forgets the peak so far; returns what is resident now.
fn reset_peak_memory_bytes() -> u64 {
    // Where the kernel refuses, the growth shown is that since the largest run.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    kib * 1024
}
