//! `cargo xtask compare-libcachesim FOLDER|TRACE...`: misses of our policies against libCacheSim's, over
//! each trace at a small, a middle and a large cache, to the last one.
//!
//! Exit codes: 0 all are equal, 1 some differ or a trace cannot be read, 2 libCacheSim's Python package is
//! not installed. A policy that the installed package lacks is named and not compared.
//!
//! What is compared under which name is explained in docs/policies.md, "Compared with libCacheSim".

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::dense::DenseTrace;
use evenkeel_cachesim::optimum::NextUses;
use evenkeel_cachesim::simulate::{SimulationOptions, Unobserved};
use evenkeel_cachesim::trace::{self, Options};
use evenkeel_replacement::registry::Registry;

use crate::libcachesim::{self, Peer};
use crate::print;

/// Sizes as shares of a trace's pages, in percent.
const SHARES: [u64; 3] = [1, 5, 20];

/// Fewest frames that are compared.
const FRAMES_MIN: u32 = 10;

/// What is compared, by our names, and from how many frames on. Two of libCacheSim's policies admit
/// nothing into a small queue of one page, which is what a tenth of fewer than 20 frames is, and then
/// miss every reference.
const POLICIES: [(&str, u32); 13] = [
    ("fifo", FRAMES_MIN),
    ("lru", FRAMES_MIN),
    ("clock", FRAMES_MIN),
    ("clock(initial=1)", FRAMES_MIN),
    ("clock_sweep(cap=7)", FRAMES_MIN),
    ("sieve", FRAMES_MIN),
    ("arc", FRAMES_MIN),
    ("two_q", FRAMES_MIN),
    ("two_q(k_in=0.5, k_out=1)", FRAMES_MIN),
    ("s3_fifo", 20),
    ("s3_fifo(promote=1)", 20),
    ("clock2q_plus", 20),
    ("optimum", FRAMES_MIN),
];

/// What one trace's comparison found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    frames: Vec<u32>,
    /// Policies that were compared.
    policies: usize,
    /// Policies with the same misses at every size.
    equal: usize,
    cells: usize,
    differences: Vec<String>,
    lacking: Vec<&'static str>,
}

/// Runs the comparison. Arguments: folders, in which every trace is taken, and traces.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    if arguments.is_empty() {
        bail!("name folders or traces: cargo xtask compare-libcachesim FOLDER");
    }
    let version = libcachesim::version()?;
    let mut files = Vec::new();
    for argument in arguments {
        collect(Path::new(argument), &mut files)?;
    }
    if files.is_empty() {
        bail!("{} has no trace", arguments.join(", "));
    }
    print(&format!("libCacheSim {version}; frames are 1%, 5% and 20% of the pages, at least 10\n"));
    print("| trace | references | pages | frames | policies equal |");
    print("|---|--:|--:|--:|--:|");
    let (mut cells, mut differences, mut lacking) = (0, Vec::new(), Vec::new());
    for file in &files {
        let dense = match trace::load(file, &Options::default(), &mut |_| {}) {
            Ok(dense) => dense,
            Err(error) => {
                differences.push(error.to_string());
                continue;
            }
        };
        let found = compare(&dense, &POLICIES)
            .with_context(|| format!("comparing over {}", file.display()))?;
        print(&row(file, &dense, &found));
        cells += found.cells;
        let name = file.display();
        differences.extend(found.differences.iter().map(|text| format!("{name}: {text}")));
        lacking = found.lacking;
    }
    print("");
    for policy in lacking {
        print(&format!("libCacheSim {version} has no {policy}: not compared"));
    }
    if differences.is_empty() {
        print(&format!("{cells} counts of misses over {} traces are equal", files.len()));
        return Ok(());
    }
    for difference in &differences {
        print(difference);
    }
    bail!("{} of {cells} comparisons failed", differences.len());
}

/// Compares each of `policies` at each size.
fn compare(trace: &DenseTrace, policies: &[(&'static str, u32)]) -> anyhow::Result<Found> {
    let mut peer = Peer::start(trace.references())?;
    let next_uses = NextUses::of(trace);
    let mut found = Found { frames: frames(trace), ..Found::default() };
    for (policy, least) in policies {
        let choice = Choice::parse_list(&Registry::standard(), policy)?.remove(0);
        let (before, mut is_known) = (found.differences.len(), true);
        let mut sizes: Vec<u32> = found.frames.iter().map(|frames| *frames.max(least)).collect();
        sizes.dedup();
        for frames in sizes {
            // Ours runs while theirs does.
            peer.side.ask(policy, frames)?;
            let ours = choice.simulate(
                frames,
                trace,
                || &next_uses,
                0,
                &SimulationOptions::default(),
                &Unobserved,
            )?;
            let ours = ours.context("it was not interrupted")?.counts.misses;
            let theirs =
                peer.side.answer().with_context(|| format!("{policy} with {frames} frames"))?;
            let Some(theirs) = theirs else {
                is_known = false;
                found.lacking.push(policy);
                break;
            };
            found.cells += 1;
            if ours != theirs.misses {
                found.differences.push(format!(
                    "{policy} with {frames} frames misses {ours}, libCacheSim {}",
                    theirs.misses
                ));
            }
        }
        found.policies += usize::from(is_known);
        found.equal += usize::from(is_known && found.differences.len() == before);
    }
    Ok(found)
}

/// The sizes at which a trace is compared, ascending.
fn frames(trace: &DenseTrace) -> Vec<u32> {
    let pages = u64::from(trace.pages());
    let mut frames: Vec<u32> = SHARES
        .iter()
        .map(|share| u32::try_from(pages * share / 100).unwrap_or(u32::MAX).max(FRAMES_MIN))
        .collect();
    frames.dedup();
    frames
}

fn row(file: &Path, trace: &DenseTrace, found: &Found) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let frames: Vec<String> =
        found.frames.iter().map(|frames| grouped(u64::from(*frames))).collect();
    format!(
        "| {name} | {} | {} | {} | {} of {} |",
        grouped(trace.references().len() as u64),
        grouped(trace.pages().into()),
        frames.join(" · "),
        found.equal,
        found.policies,
    )
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let parts: Vec<String> =
        Some(head.to_owned()).filter(|head| !head.is_empty()).into_iter().chain(groups).collect();
    parts.join(",")
}

/// The traces in a folder and the folders in it, in order of their names. What lies beside traces is
/// passed over by its name; anything else must be readable.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = || format!("cannot read {}", path.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).with_context(failed)? {
        entries.push(entry.with_context(failed)?.path());
    }
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_beside =
            ["README", "LICENSE", "SHA256SUMS", "."].iter().any(|start| name.starts_with(start))
                || [".rels.csv", ".md"].iter().any(|end| name.ends_with(end));
        if !is_beside {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(spec: &str) -> DenseTrace {
        trace::load(Path::new(spec), &Options::default(), &mut |_| {}).unwrap()
    }

    /// Whether libCacheSim is there; a word where it is not, so that a pass is not taken for more.
    fn is_installed() -> bool {
        let installed = libcachesim::version();
        if let Err(error) = &installed {
            crate::say(&format!("SKIPPED, nothing compared: {error}"));
        }
        installed.is_ok()
    }

    #[test]
    fn every_policy_misses_as_often_as_libcachesim_s() {
        if !is_installed() {
            return;
        }
        for spec in [
            "generate:zipf(pages=2000,references=40k)",
            "generate:loop(pages=300,references=9k)",
            "generate:pgbench(scale=1,references=60k)",
        ] {
            let found = compare(&load(spec), &POLICIES).unwrap();
            assert_eq!(found.differences, [""; 0], "{spec}");
            assert!(found.cells >= 2 * found.policies, "{spec}: {found:?}");
            assert_eq!(found.policies + found.lacking.len(), POLICIES.len(), "{spec}");
        }
    }

    #[test]
    fn a_difference_is_found_and_what_the_peer_lacks_is_named() {
        if !is_installed() {
            return;
        }
        // Its clock under this name counts to 7, ours to 5.
        let policies = [("clock_sweep", 10), ("innodb", 10), ("lru", 10)];
        let found = compare(&load("generate:zipf(pages=2000,references=40k)"), &policies).unwrap();
        assert!(found.differences.iter().any(|text| text.starts_with("clock_sweep with ")));
        assert_eq!((found.policies, found.equal, found.lacking), (2, 1, vec!["innodb"]));
    }

    #[test]
    fn what_lies_beside_traces_is_passed_over_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("evenkeel-collect-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("b")).unwrap();
        for name in ["README.md", "SHA256SUMS", "b/x.rels.csv", "b/x.csv.xz", "a.bin"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let mut files = Vec::new();
        collect(&folder, &mut files).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(files, [folder.join("a.bin"), folder.join("b/x.csv.xz")]);
    }

    #[test]
    fn sizes_are_shares_of_the_pages_and_at_least_ten_frames() {
        assert_eq!(frames(&load("generate:loop(pages=300,references=900)")), [10, 15, 60]);
        assert_eq!(frames(&load("generate:loop(pages=40,references=900)")), [10]);
        assert_eq!([7, 1000, 123_456].map(grouped), ["7", "1,000", "123,456"]);
    }
}
