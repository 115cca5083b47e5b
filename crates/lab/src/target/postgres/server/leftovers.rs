//! What evenkeel processes that were killed have left: servers that still run, and directories.
//!
//! # Rules
//!
//! 1. Only what is proven to be ours is touched. A directory is ours when it carries a marker that is
//!    a file of our own user, and it is left when the process that the marker names (number, start,
//!    process namespace) is gone. A process belongs to it when it is PostgreSQL's and its working
//!    directory, as the kernel knows it, lies inside.
//! 2. A process is held by a descriptor (`pidfd_open(2)`) before it is looked at, so that the signal
//!    cannot reach another one that has got its number meanwhile.
//! 3. Nothing is done in silence: every directory is named, with what was ended in it, or with the
//!    reason why it stays.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel::runtime::Runtime;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::LOOK_EVERY;
use super::directory::{MARKER, Maker, PREFIX, remove_marked};

/// How long an immediate shutdown may take; PostgreSQL's own postmaster kills after 5 s.
const QUIT_TIMEOUT: Duration = Duration::from_secs(6);

/// How long the kernel may take to end killed processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The names of the programs that run in our directories, as the kernel keeps them.
const PROGRAMS: [&str; 2] = ["postgres", "initdb"];

/// A directory whose maker was killed, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is, or was.
    pub directory: PathBuf,
    /// Processes of a server in it that were ended.
    pub processes_ended: usize,
    /// Why it is still there; `None`: it was removed.
    pub failure: Option<String>,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let directory = self.directory.display();
        match &self.failure {
            None => write!(f, "removed {directory}, left behind by an evenkeel that was killed")?,
            Some(reason) => write!(
                f,
                "{directory} was left behind by an evenkeel that was killed, and stays: {reason}"
            )?,
        }
        match self.processes_ended {
            0 => Ok(()),
            count => write!(f, "; its server, of {count} processes, was still there and was ended"),
        }
    }
}

/// Ends servers in `parent` whose evenkeel was killed before it could, and removes their directories
/// and those without a server. Waits 11 s at most for each server.
#[must_use]
pub fn remove_leftovers(parent: &Path, runtime: &dyn Runtime) -> Vec<Leftover> {
    let mut leftovers = Vec::new();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let directory = entry.path();
        let Some(maker) = maker_of(&directory) else { continue };
        if maker.may_live() {
            continue;
        }
        let found = processes_in(&directory).len();
        // Where other processes are seen than the maker saw (a container that shares the directory),
        // its death is not proven.
        if !maker.is_of_our_namespace(found > 0) {
            continue;
        }
        if found > 0 && !end_processes(&directory, runtime) {
            let failure = Some(format!(
                "{} of its server's processes do not end though they were killed (is their storage \
                 hanging?)",
                processes_in(&directory).len()
            ));
            leftovers.push(Leftover { directory, processes_ended: 0, failure });
            continue;
        }
        let failure = remove_marked(&directory).err().map(|error| error.to_string());
        leftovers.push(Leftover { directory, processes_ended: found, failure });
    }
    leftovers
}

/// Who made the directory, where its marker is to be believed.
fn maker_of(directory: &Path) -> Option<Maker> {
    let own_uid = rustix::process::geteuid().as_raw();
    let metadata = std::fs::symlink_metadata(directory).ok()?;
    if !metadata.is_dir() || (own_uid != 0 && metadata.uid() != own_uid) {
        return None;
    }
    let marker = directory.join(MARKER);
    // Another user could have put a marker to trick us; it must be ours as well.
    let metadata = std::fs::symlink_metadata(&marker).ok()?;
    if !metadata.is_file() || metadata.uid() != own_uid {
        return None;
    }
    Maker::parse(&std::fs::read_to_string(&marker).ok()?)
}

/// Immediate shutdown, stopped processes included, then force; whether all have ended.
fn end_processes(directory: &Path, runtime: &dyn Runtime) -> bool {
    for process in processes_in(directory) {
        // Those that end in between need no signal. The order to quit waits for the one to go on.
        let _ = pidfd_send_signal(&process, Signal::QUIT);
        let _ = pidfd_send_signal(&process, Signal::CONT);
    }
    if wait_for_end(directory, QUIT_TIMEOUT, runtime) {
        return true;
    }
    for process in processes_in(directory) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
    wait_for_end(directory, KILL_TIMEOUT, runtime)
}

fn wait_for_end(directory: &Path, timeout: Duration, runtime: &dyn Runtime) -> bool {
    let deadline = runtime.now().plus(timeout);
    loop {
        if processes_in(directory).is_empty() {
            return true;
        }
        if runtime.now() >= deadline {
            return false;
        }
        runtime.sleep_until(runtime.now().plus(LOOK_EVERY));
    }
}

/// PostgreSQL's processes that work inside `directory`. One that has ended and waits to be collected
/// has no working directory.
fn processes_in(directory: &Path) -> Vec<OwnedFd> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let process: i32 = entry.file_name().to_str()?.parse().ok()?;
            // Cheap, and true of few.
            works_in(&entry.path(), directory)?;
            let held = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
            // Rule 2: what is held now is what was seen.
            works_in(&entry.path(), directory)?;
            Some(held)
        })
        .collect()
}

fn works_in(process: &Path, directory: &Path) -> Option<()> {
    let place = std::fs::read_link(process.join("cwd")).ok()?;
    if !place.starts_with(directory) {
        return None;
    }
    // In another mount namespace the same path is another directory.
    let theirs = std::fs::metadata(process.join("cwd")).ok()?;
    let ours = std::fs::metadata(&place).ok()?;
    let name = std::fs::read_to_string(process.join("comm")).ok()?;
    ((theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino())
        && PROGRAMS.contains(&name.trim_end()))
    .then_some(())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use evenkeel::runtime::OsRuntime;

    use super::super::directory::PrivateDirectory;
    use super::*;

    /// A directory whose maker had our number, but began at another time.
    fn dead(parent: &Path, name: &str) -> PathBuf {
        let directory = parent.join(name);
        std::fs::create_dir(&directory).unwrap();
        let text = Maker::of_this_process().to_string();
        let mut words = text.split_whitespace();
        let (process, namespace) = (words.next().unwrap(), words.nth(1).unwrap());
        std::fs::write(directory.join(MARKER), format!("{process} 1 {namespace}\n")).unwrap();
        directory
    }

    /// A child that a failing test does not leave behind.
    struct Process(Child);

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A process that calls itself `name`, works in `directory` and does not end by itself.
    fn process(name: &str, directory: &Path) -> Process {
        let program = directory.parent().unwrap().join(name);
        if !program.exists() {
            std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        }
        let child = Command::new(&program)
            .arg("1000")
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let proc = PathBuf::from(format!("/proc/{}/comm", child.id()));
        while !std::fs::read_to_string(&proc).unwrap().starts_with(name) {
            std::hint::spin_loop();
        }
        Process(child)
    }

    fn stop(process: &Process) {
        let process = Pid::from_raw(i32::try_from(process.0.id()).unwrap()).unwrap();
        rustix::process::kill_process(process, Signal::STOP).unwrap();
    }

    #[test]
    fn a_server_that_outlived_its_evenkeel_is_ended_though_it_is_frozen_and_named() {
        let parent = tempfile::tempdir().unwrap();
        let directory = dead(parent.path(), "evenkeel-t-dead");
        let mut server = process("postgres", &directory);
        stop(&server);
        // Nobody collects it but us, after it was seen to end.
        let leftovers = remove_leftovers(parent.path(), &OsRuntime::new());
        assert_eq!(
            leftovers,
            [Leftover { directory: directory.clone(), processes_ended: 1, failure: None }]
        );
        assert!(leftovers[0].to_string().contains("1 processes"), "{}", leftovers[0]);
        assert!(!server.0.wait().unwrap().success());
        assert!(!directory.exists());
    }

    #[test]
    fn servers_and_directories_that_are_not_proven_ours_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let mut living =
            PrivateDirectory::create(parent.path(), "t", None, &OsRuntime::new()).unwrap();
        living.keep(true);
        let unmarked = parent.path().join("evenkeel-t-unmarked");
        std::fs::create_dir(&unmarked).unwrap();
        let elsewhere = parent.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        // A maker whose processes we may not see: in a container that shares the directory.
        let contained = dead(parent.path(), "evenkeel-t-contained");
        let text = std::fs::read_to_string(contained.join(MARKER)).unwrap();
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        std::fs::write(contained.join(MARKER), format!("{} {} pid:[1]\n", words[0], words[1]))
            .unwrap();
        let mut servers =
            [living.path(), &unmarked, &elsewhere, &contained].map(|it| process("postgres", it));
        let leftovers = remove_leftovers(parent.path(), &OsRuntime::new());
        assert_eq!(leftovers, []);
        for server in &mut servers {
            assert!(server.0.try_wait().unwrap().is_none());
        }
    }

    #[test]
    fn a_person_s_shell_in_a_left_directory_is_not_killed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = dead(parent.path(), "evenkeel-t-dead");
        let mut shell = process("bash", &directory);
        let leftovers = remove_leftovers(parent.path(), &OsRuntime::new());
        assert_eq!(leftovers[0].processes_ended, 0);
        assert!(shell.0.try_wait().unwrap().is_none());
    }
}
