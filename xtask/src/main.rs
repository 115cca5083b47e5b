//! The repository's own tools: `cargo xtask <task>`.

mod bench_cachesim;
mod bench_distribution;
mod bench_driver;
mod check;
mod check_traces;
mod check_verdicts;
mod compare_libcachesim;
mod libcachesim;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A task: its name, what it is for, and what it does with the rest of the arguments.
type Task = (&'static str, &'static str, fn(&[String]) -> anyhow::Result<()>);

/// Exit code of a comparison whose peer is not installed; 1 is anything else that went wrong.
const PEER_ABSENT: u8 = 2;

/// All tasks, in the order in which they are listed.
const TASKS: &[Task] = &[
    ("test", "everything that must hold; installs what is missing, after saying so", check::test),
    ("lint", "rustfmt, clippy with warnings as errors, cargo deny when installed", check::lint),
    ("tidy", "the repository's own rules: layers, sizes, words, secrets, docs", tidy::run),
    (
        "check-verdicts",
        "how often the laboratory is wrong, on targets whose truth is known",
        check_verdicts::run,
    ),
    (
        "check-traces",
        "counts of a folder of traces against those that its README.md lists",
        check_traces::run,
    ),
    (
        "compare-libcachesim",
        "our misses against libCacheSim's, to the last one, over traces",
        compare_libcachesim::run,
    ),
    ("bench-driver", "our CPU time per transaction against pgbench's", bench_driver::run),
    (
        "bench-cachesim",
        "our simulator's CPU time and memory against libCacheSim's",
        bench_cachesim::run,
    ),
    ("bench-distribution", "nanoseconds per drawn key", bench_distribution::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        say(&usage());
        return ExitCode::FAILURE;
    };
    let Some((_, _, task)) = TASKS.iter().find(|(known, _, _)| known == name) else {
        say(&format!("xtask: no task is called '{name}'\n{}", usage()));
        return ExitCode::FAILURE;
    };
    match task(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("xtask {name}: {error:#}"));
            let is_absent = error.is::<libcachesim::NotInstalled>();
            if is_absent { ExitCode::from(PEER_ABSENT) } else { ExitCode::FAILURE }
        }
    }
}

fn usage() -> String {
    TASKS.iter().fold("cargo xtask <task>, one of:".to_owned(), |text, (name, purpose, _)| {
        format!("{text}\n  {name:<20} {purpose}")
    })
}

/// The repository's root folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A line for the person at the terminal.
#[allow(clippy::print_stderr, reason = "the repository's tools talk to people here")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// A line of results.
#[allow(clippy::print_stdout, reason = "the repository's tools print results here")]
fn print(text: &str) {
    println!("{text}");
}
