//! Processes of a server: started without a shell, watched, frozen, stopped, never left behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::{Event, Runtime, TaskHandle};
use rustix::process::{Pid, Signal, kill_process};

use super::directory::SystemUser;
use super::{LOOK_EVERY, Shutdown};

/// How long an immediate shutdown may take before all processes are killed.
const IMMEDIATE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the kernel may take to end killed processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// What is started, and how.
pub(super) struct Start<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [String],
    /// Working directory.
    pub(super) directory: &'a Path,
    /// Takes standard output and errors, appended.
    pub(super) output: &'a Path,
    /// All of the environment.
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) owner: Option<&'a SystemUser>,
}

/// How a program that was run to its end came out.
pub(super) enum Finished {
    /// It ended.
    Status(ExitStatus),
    /// The user wanted out; it was killed.
    Interrupted,
}

/// A postmaster that is our child, and the task that is its parent.
///
/// The kernel's parent-death signal follows the death of the *thread* that started the child, so
/// the child is started by a task that lives as long as it does.
pub(super) struct Postmaster {
    child: Child,
    process: Pid,
    release: Arc<dyn Event>,
    keeper: Option<TaskHandle>,
}

impl Start<'_> {
    /// The command; `prefix` is a program that becomes this one, with its own arguments.
    fn command(&self, prefix: Option<(&Path, &[&str])>) -> io::Result<Command> {
        let output = File::options().create(true).append(true).open(self.output)?;
        let mut command = match prefix {
            None => Command::new(self.program),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(self.program);
                command
            }
        };
        command
            .args(self.arguments)
            .current_dir(self.directory)
            .env_clear()
            .envs(self.environment)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0);
        if let Some(owner) = self.owner {
            // The supplementary groups of root are dropped with it.
            command.uid(owner.uid).gid(owner.gid);
        }
        Ok(command)
    }
}

/// Runs a program to its end, or until `stop` is set.
pub(super) fn run_to_end(
    start: &Start<'_>,
    runtime: &dyn Runtime,
    stop: &AtomicBool,
) -> io::Result<Finished> {
    let mut child = start.command(None)?.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Finished::Status(status));
        }
        if stop.load(Ordering::Relaxed) {
            if let Some(group) = pid_of(child.id()) {
                // It leads a group of its own, so that its children end with it.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(Finished::Interrupted);
        }
        runtime.sleep_until(runtime.now().plus(LOOK_EVERY));
    }
}

impl Postmaster {
    pub(super) fn start(start: &Start<'_>, runtime: &Arc<dyn Runtime>) -> io::Result<Self> {
        let death_signal: &[&str] = &["--pdeathsig", "INT", "--"];
        let setpriv = setpriv();
        let prefix = setpriv.as_deref().map(|program| (program, death_signal));
        let mut command = start.command(prefix)?;
        let release = runtime.event();
        let started = runtime.event();
        let outcome = Arc::new(Mutex::new(None));
        let keeper = runtime.spawn("server-keeper", {
            let (release, started, outcome) =
                (Arc::clone(&release), Arc::clone(&started), Arc::clone(&outcome));
            Box::new(move || {
                let spawned = command.spawn();
                // Closes our copies of the log's descriptors.
                drop(command);
                let is_started = spawned.is_ok();
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawned);
                started.notify();
                if is_started {
                    release.wait_until(None);
                }
            })
        })?;
        started.wait_until(None);
        let spawned = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        let child = match spawned {
            Some(Ok(child)) => child,
            Some(Err(error)) => return Err(error),
            None => return Err(io::Error::other("the task that starts servers ended early")),
        };
        let process = pid_of(child.id())
            .ok_or_else(|| io::Error::other("the system gave an impossible process number"))?;
        Ok(Self { child, process, release, keeper: Some(keeper) })
    }

    pub(super) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; `None` while it lives.
    pub(super) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Fast for as long as `timeout` and until `stop` is set, then immediate, then by force.
    pub(super) fn stop(
        &mut self,
        timeout: Duration,
        runtime: &dyn Runtime,
        stop: &AtomicBool,
    ) -> io::Result<Shutdown> {
        if self.child.try_wait()?.is_some() {
            return Ok(Shutdown::WasDown);
        }
        // A process that somebody has stopped (SIGSTOP) takes no order before it goes on.
        self.thaw()?;
        if !timeout.is_zero() {
            self.signal(Signal::INT);
            if self.wait(timeout, runtime, Some(stop))? {
                return Ok(Shutdown::Fast);
            }
        }
        // Its children are looked up while it is there to be their parent.
        let tree = process_tree(self.child.id());
        self.signal(Signal::QUIT);
        let is_down = self.wait(IMMEDIATE_TIMEOUT, runtime, None)?;
        if is_down && tree.iter().all(|process| !is_alive(*process)) {
            return Ok(Shutdown::Immediate);
        }
        for process in &tree {
            if let Some(process) = pid_of(*process) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        if !is_down && !self.wait(KILL_TIMEOUT, runtime, None)? {
            return Err(io::Error::other(format!(
                "process {} does not end though it was killed (is its storage hanging?)",
                self.child.id()
            )));
        }
        Ok(if is_down { Shutdown::Immediate } else { Shutdown::Killed })
    }

    /// Stops every process of the server, parents first, until no new one is found.
    pub(super) fn freeze(&self, runtime: &dyn Runtime) -> io::Result<()> {
        let mut frozen = std::collections::BTreeSet::new();
        // A stopped process forks no more; each round can find only what was forked before.
        for _ in 0..100 {
            let new: Vec<u32> = process_tree(self.child.id())
                .into_iter()
                .filter(|process| !frozen.contains(process))
                .collect();
            if new.is_empty() {
                return self.wait_until_stopped(runtime);
            }
            for process in new {
                frozen.insert(process);
                if let Some(process) = pid_of(process) {
                    // It may have ended in between.
                    let _ = kill_process(process, Signal::STOP);
                }
            }
        }
        Err(io::Error::other("the server makes processes faster than they can be stopped"))
    }

    /// A signal is on its way for a moment: waits until it has arrived everywhere.
    fn wait_until_stopped(&self, runtime: &dyn Runtime) -> io::Result<()> {
        let deadline = runtime.now().plus(KILL_TIMEOUT);
        loop {
            let running = process_tree(self.child.id())
                .into_iter()
                .find(|process| !matches!(state(*process), None | Some('T' | 't' | 'Z' | 'X')));
            match running {
                None => return Ok(()),
                Some(process) if runtime.now() >= deadline => {
                    return Err(io::Error::other(format!("process {process} does not stop")));
                }
                Some(_) => runtime.sleep_until(runtime.now().plus_nanos(200_000)),
            }
        }
    }

    pub(super) fn thaw(&self) -> io::Result<()> {
        for process in process_tree(self.child.id()).into_iter().rev() {
            if let Some(process) = pid_of(process) {
                let _ = kill_process(process, Signal::CONT);
            }
        }
        Ok(())
    }

    /// Whether one of the server's processes is stopped (SIGSTOP, or by a debugger).
    pub(super) fn is_suspended(&self) -> bool {
        has_stopped_process(self.child.id())
    }

    fn signal(&self, signal: Signal) {
        // The child has not been waited for, so its number cannot belong to another process.
        let _ = kill_process(self.process, signal);
    }

    /// True when it has ended; false when the time is over, or when the user wants out.
    fn wait(
        &mut self,
        timeout: Duration,
        runtime: &dyn Runtime,
        stop: Option<&AtomicBool>,
    ) -> io::Result<bool> {
        let deadline = runtime.now().plus(timeout);
        loop {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            let now = runtime.now();
            if now >= deadline || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(false);
            }
            runtime.sleep_until(now.plus(LOOK_EVERY).min(deadline));
        }
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            for process in process_tree(self.child.id()) {
                if let Some(process) = pid_of(process) {
                    let _ = kill_process(process, Signal::KILL);
                }
            }
            let _ = self.child.wait();
        }
        self.release.notify();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// A process and its descendants, parents before children; only itself where `/proc` is hidden.
#[must_use]
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let parent = std::fs::read_to_string(entry.path().join("stat")).ok().and_then(|text| {
            text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
        });
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(process) = tree.get(next) {
        if let Some(found) = children.remove(process) {
            tree.extend(found);
        }
        next += 1;
    }
    tree
}

/// The parent of a server process of this machine; `None` where the process of that number is no
/// session of PostgreSQL's, as with a server in a container of its own. `proc` is `/proc`.
#[must_use]
pub fn postmaster_of(proc: &Path, backend: u32) -> Option<u32> {
    let command = std::fs::read(proc.join(format!("{backend}/cmdline"))).ok()?;
    if !command.starts_with(b"postgres: ") {
        return None;
    }
    let status = std::fs::read_to_string(proc.join(format!("{backend}/stat"))).ok()?;
    let parent = status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 1).then_some(parent)
}

/// Whether the process or a descendant of it is stopped (SIGSTOP, or by a debugger).
#[must_use]
pub fn has_stopped_process(root: u32) -> bool {
    process_tree(root).into_iter().any(|process| matches!(state(process), Some('T' | 't')))
}

/// Whether a process runs; one that has ended and waits to be collected does not.
fn is_alive(process: u32) -> bool {
    !matches!(state(process), None | Some('Z' | 'X'))
}

/// The kernel's letter for the state of a process; `None` where there is no such process.
fn state(process: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

fn pid_of(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

/// The program that asks the kernel for a signal at its parent's death and then becomes the server
/// (util-linux 2.33 and later). Without it a server outlives us when we are killed by force.
fn setpriv() -> Option<PathBuf> {
    static FOUND: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    FOUND
        .get_or_init(|| {
            ["/usr/bin/setpriv", "/bin/setpriv"].map(PathBuf::from).into_iter().find(|path| {
                Command::new(path).arg("--help").stdin(Stdio::null()).output().is_ok_and(|output| {
                    String::from_utf8_lossy(&output.stdout).contains("--pdeathsig")
                })
            })
        })
        .clone()
}
