//! Our simulator and libCacheSim (through its Python package) side by side: two processes that each
//! hold the same trace and run what they are asked for.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};
use evenkeel_cachesim::dense::WRITE;

const PEER: &str = include_str!("libcachesim_runs.py");

/// What one run cost and found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) misses: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) memory_bytes: u64,
}

/// Both simulators over one trace.
pub(crate) struct Pair {
    pub(crate) ours: Side,
    pub(crate) theirs: Side,
    // Removed when both are done with it.
    _directory: Directory,
}

impl Pair {
    /// Starts both over `references` (dense page numbers; writes are read as references).
    pub(crate) fn start(ours: &Path, references: &[u32]) -> anyhow::Result<Self> {
        let directory = Directory::create()?;
        let (dense, oracle) = (directory.0.join("trace.u32"), directory.0.join("trace.oracle"));
        write(references, &dense, &oracle)?;
        let peer = directory.0.join("libcachesim_runs.py");
        std::fs::write(&peer, PEER)?;
        let mut command = Command::new(ours);
        command.arg(&dense);
        let ours = Side::start(command)?;
        let mut command = Command::new("python3");
        command.arg(&peer).arg(&oracle).arg(references.len().to_string());
        let theirs = Side::start(command).context(
            "libCacheSim's Python package is needed: python3 -m pip install libcachesim",
        )?;
        Ok(Self { ours, theirs, _directory: directory })
    }
}

/// One simulator in a process of its own.
pub(crate) struct Side {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Side {
    fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("a pipe from it")?);
        let mut side = Self { child, to, from };
        side.line()?;
        Ok(side)
    }

    /// Runs `policy` with `frames` frames; `None` when this simulator cannot.
    pub(crate) fn run(&mut self, policy: &str, frames: u32) -> anyhow::Result<Option<Run>> {
        let to = self.to.as_mut().context("the pipe is closed")?;
        writeln!(to, "{frames} {policy}")?;
        to.flush()?;
        let line = self.line().with_context(|| format!("{policy} with {frames} frames"))?;
        if line.starts_with('-') {
            return Ok(None);
        }
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().context("too few numbers")?.context("not a number");
        Ok(Some(Run { misses: next()?, cpu_ns: next()?, memory_bytes: next()? }))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            bail!("it ended without an answer ({})", self.child.wait()?);
        }
        Ok(line)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Without its input it ends by itself.
        self.to = None;
        let _ = self.child.wait();
    }
}

/// Builds our half as a user would have it.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let root = crate::root();
    crate::say("building the release version");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "-p", "evenkeel-cachesim"])
        .args(["--example", "answer_runs"])
        .current_dir(&root)
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("the release version does not build");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("examples").join("answer_runs"))
}

/// Writes the trace for both: 4 bytes a reference for ours; for theirs `oracleGeneral`, that is time
/// (u32), page (u64), size (u32), and where the page is used next (i64, -1: nowhere).
fn write(references: &[u32], dense: &Path, oracle: &Path) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(dense)?);
    for reference in references {
        file.write_all(&(reference & !WRITE).to_le_bytes())?;
    }
    file.flush()?;
    let mut next = vec![-1_i64; references.len()];
    let mut last = std::collections::HashMap::new();
    for (position, reference) in references.iter().enumerate() {
        if let Some(before) = last.insert(reference & !WRITE, position) {
            // Its positions count from 1.
            next[before] = i64::try_from(position)? + 1;
        }
    }
    let mut file = BufWriter::new(File::create(oracle)?);
    for (position, (reference, next)) in references.iter().zip(next).enumerate() {
        file.write_all(&u32::try_from(position / 1000)?.to_le_bytes())?;
        file.write_all(&(u64::from(reference & !WRITE) + 1).to_le_bytes())?;
        file.write_all(&1_u32.to_le_bytes())?;
        file.write_all(&next.to_le_bytes())?;
    }
    file.flush()?;
    Ok(())
}

struct Directory(PathBuf);

impl Directory {
    fn create() -> anyhow::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("evenkeel-libcachesim-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
