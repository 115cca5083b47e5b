//! Our simulator and libCacheSim (through its Python package) side by side: two processes that each
//! hold the same trace and run what they are asked for.

use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

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

/// libCacheSim's Python package is not there.
#[derive(Debug)]
pub(crate) struct NotInstalled;

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "libCacheSim's Python package is needed: python3 -m pip install libcachesim, possibly in a \
             virtual environment whose bin folder comes first in PATH",
        )
    }
}

impl std::error::Error for NotInstalled {}

/// The installed package's version.
pub(crate) fn version() -> Result<String, NotInstalled> {
    let code = "import libcachesim; print(libcachesim.__version__)";
    let output = Command::new("python3")
        .args(["-c", code])
        .stdin(Stdio::null())
        .output()
        .map_err(|_| NotInstalled)?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(text) } else { Err(NotInstalled) }
}

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Our simulator.
    Ours,
    /// libCacheSim with a hash table that fits the cache.
    Fitted,
    /// libCacheSim as it comes: with 2^24 entries in its table, whatever the cache.
    AsItComes,
}

/// Its own default, as a power of two.
const HASH_POWER: &str = "24";

/// One trace for both simulators, of which any number may run, each in a process of its own.
pub(crate) struct Pair {
    our_program: PathBuf,
    references: usize,
    // Removed when all are done with it.
    directory: Directory,
}

impl Pair {
    /// Writes `references` (dense page numbers; writes are read as references) for both.
    pub(crate) fn prepare(our_program: PathBuf, references: &[u32]) -> anyhow::Result<Self> {
        version()?;
        let directory = Directory::create()?;
        write_dense(references, &directory.0.join("trace.u32"))?;
        write_for_peer(references, &directory)?;
        Ok(Self { our_program, references: references.len(), directory })
    }

    /// Starts one of them.
    pub(crate) fn start(&self, who: Who) -> anyhow::Result<Side> {
        match who {
            Who::Ours => {
                let mut command = Command::new(&self.our_program);
                command.arg(self.directory.0.join("trace.u32"));
                // With glibc: what is freed leaves the process, so that a later growth is seen.
                command.env("MALLOC_MMAP_THRESHOLD_", "131072");
                Side::start(command)
            }
            Who::Fitted => start_peer(&self.directory, self.references, None),
            Who::AsItComes => start_peer(&self.directory, self.references, Some(HASH_POWER)),
        }
    }
}

/// libCacheSim over one trace.
pub(crate) struct Peer {
    pub(crate) side: Side,
    // Removed when it is done with it.
    _directory: Directory,
}

impl Peer {
    /// Starts it over `references` (dense page numbers; writes are read as references).
    pub(crate) fn start(references: &[u32]) -> anyhow::Result<Self> {
        let directory = Directory::create()?;
        write_for_peer(references, &directory)?;
        let side = start_peer(&directory, references.len(), None)?;
        Ok(Self { side, _directory: directory })
    }
}

const PEER_TRACE: &str = "trace.oracle";
const PEER_PROGRAM: &str = "libcachesim_runs.py";

fn write_for_peer(references: &[u32], directory: &Directory) -> anyhow::Result<()> {
    write_oracle(references, &directory.0.join(PEER_TRACE))?;
    Ok(std::fs::write(directory.0.join(PEER_PROGRAM), PEER)?)
}

/// `hash_power`: the size of its hash table as a power of two, where it shall not fit the cache.
fn start_peer(
    directory: &Directory,
    references: usize,
    hash_power: Option<&str>,
) -> anyhow::Result<Side> {
    let mut command = Command::new("python3");
    command.arg(directory.0.join(PEER_PROGRAM)).arg(directory.0.join(PEER_TRACE));
    command.arg(references.to_string());
    match hash_power {
        Some(power) => command.env("HASH_POWER", power),
        None => command.env_remove("HASH_POWER"),
    };
    Side::start(command)
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
        self.ask(policy, frames)?;
        self.answer().with_context(|| format!("{policy} with {frames} frames"))
    }

    /// Begins a run, whose result is the next [`Side::answer`].
    pub(crate) fn ask(&mut self, policy: &str, frames: u32) -> anyhow::Result<()> {
        let to = self.to.as_mut().context("the pipe is closed")?;
        writeln!(to, "{frames} {policy}")?;
        Ok(to.flush()?)
    }

    /// The result of the run begun last; `None` when this simulator cannot.
    pub(crate) fn answer(&mut self) -> anyhow::Result<Option<Run>> {
        let line = self.line()?;
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

/// Writes the trace for ours: 4 bytes a reference.
fn write_dense(references: &[u32], path: &Path) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for reference in references {
        file.write_all(&(reference & !WRITE).to_le_bytes())?;
    }
    Ok(file.flush()?)
}

/// Writes the trace for theirs as `oracleGeneral`: time (u32), page (u64), size (u32), and where the
/// page is used next (i64, -1: nowhere).
fn write_oracle(references: &[u32], path: &Path) -> anyhow::Result<()> {
    let mut next = vec![-1_i64; references.len()];
    let mut last = std::collections::HashMap::new();
    for (position, reference) in references.iter().enumerate() {
        if let Some(before) = last.insert(reference & !WRITE, position) {
            // Its positions count from 1.
            next[before] = i64::try_from(position)? + 1;
        }
    }
    let mut file = BufWriter::new(File::create(path)?);
    for (position, (reference, next)) in references.iter().zip(next).enumerate() {
        file.write_all(&u32::try_from(position / 1000)?.to_le_bytes())?;
        file.write_all(&(u64::from(reference & !WRITE) + 1).to_le_bytes())?;
        file.write_all(&1_u32.to_le_bytes())?;
        file.write_all(&next.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

struct Directory(PathBuf);

impl Directory {
    fn create() -> anyhow::Result<Self> {
        // Several at a time in one process: tests.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-libcachesim-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
