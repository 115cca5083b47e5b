//! A private directory: made by us, marked by us, and removed only when it carries our mark.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use evenkeel::runtime::Runtime;

/// The file that says that a directory is ours. It holds the process that made it and that
/// process's start, so that leftovers of a killed process can be told from those of a living one.
const MARKER: &str = "evenkeel-private-directory";

/// What the names of private directories begin with.
const PREFIX: &str = "evenkeel-";

/// A directory of our own, mode 0700; removed when dropped unless it is to be kept.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    is_kept: bool,
    is_removed: bool,
}

/// An ordinary user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemUser {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its group's number.
    pub gid: u32,
}

impl PrivateDirectory {
    /// Makes a new directory in `parent`, owned by `owner` where one is given.
    ///
    /// # Errors
    /// When the parent does not exist or does not let us.
    pub fn create(
        parent: &Path,
        purpose: &str,
        owner: Option<&SystemUser>,
        runtime: &dyn Runtime,
    ) -> io::Result<Self> {
        let parent = std::path::absolute(parent)?;
        let mut tries_left = 100;
        let path = loop {
            let name = format!("{PREFIX}{purpose}-{:08x}", runtime.entropy_u64() & 0xffff_ffff);
            let path = parent.join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries_left > 0 => {
                    tries_left -= 1;
                }
                Err(error) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!(
                            "a private directory cannot be made in {}: {error}",
                            parent.display()
                        ),
                    ));
                }
            }
        };
        let made = Self { path, is_kept: false, is_removed: false };
        let process = std::process::id();
        let marker = format!("{process} {}\n", process_start(process).unwrap_or(0));
        // On failure the drop of `made` cannot remove a directory without the marker, and need not:
        // it is empty.
        if let Err(error) = std::fs::write(made.path.join(MARKER), marker) {
            let _ = std::fs::remove_dir(&made.path);
            return Err(error);
        }
        if let Some(owner) = owner {
            std::os::unix::fs::chown(&made.path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(made)
    }

    /// Where it is, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it stays when this value is dropped.
    pub const fn keep(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
    }

    /// Whether it stays when this value is dropped.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Removes it with all that is in it; once.
    ///
    /// # Errors
    /// When it does not carry our marker, or cannot be removed whole.
    pub fn remove(&mut self) -> io::Result<()> {
        if self.is_removed {
            return Ok(());
        }
        remove_marked(&self.path)?;
        self.is_removed = true;
        Ok(())
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // Whoever wants to know calls `remove`; here nobody is left to be told.
            let _ = self.remove();
        }
    }
}

/// Removes private directories in `parent` whose process is gone (it was killed before it could
/// tidy up). Returns those removed. A server that still runs in one is left alone, with its
/// directory.
pub fn remove_leftovers(parent: &Path) -> Vec<PathBuf> {
    let own_uid = rustix::process::geteuid().as_raw();
    let mut removed = Vec::new();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|metadata| {
                metadata.is_dir() && (own_uid == 0 || metadata.uid() == own_uid)
            })
            // Another user could have put a marker to trick us; it must be ours as well.
            && std::fs::symlink_metadata(path.join(MARKER))
                .is_ok_and(|metadata| metadata.is_file() && metadata.uid() == own_uid);
        if !is_ours {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(path.join(MARKER)) else { continue };
        let mut words = text.split_whitespace();
        let (Some(process), Some(start)) = (
            words.next().and_then(|word| word.parse::<u32>().ok()),
            words.next().and_then(|word| word.parse::<u64>().ok()),
        ) else {
            continue;
        };
        if process_start(process) == Some(start) || server_runs_in(&path) {
            continue;
        }
        if remove_marked(&path).is_ok() {
            removed.push(path);
        }
    }
    removed
}

/// Removes a directory that carries our marker; the marker goes last, so that an interrupted
/// removal can be taken up again.
fn remove_marked(path: &Path) -> io::Result<()> {
    let marker = path.join(MARKER);
    if !std::fs::symlink_metadata(&marker).is_ok_and(|metadata| metadata.is_file()) {
        return Err(io::Error::other(format!(
            "{} is left alone: it does not carry the marker of a directory made by evenkeel",
            path.display()
        )));
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.path() == marker {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    std::fs::remove_file(&marker)?;
    std::fs::remove_dir(path)
}

/// Whether the data directory inside names a postmaster that is alive.
fn server_runs_in(path: &Path) -> bool {
    std::fs::read_to_string(path.join("data/postmaster.pid"))
        .ok()
        .and_then(|text| text.lines().next().and_then(|line| line.trim().parse::<u32>().ok()))
        .is_some_and(|process| {
            std::fs::read_link(format!("/proc/{process}/cwd"))
                .is_ok_and(|directory| directory.starts_with(path))
        })
}

/// When a process began, in clock ticks since the boot; tells a process from a later one with the
/// same number.
pub(super) fn process_start(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything, also parentheses and blanks.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The user as whom a server runs when we are root: `postgres` where there is one, else `nobody`.
#[must_use]
pub fn ordinary_user() -> Option<SystemUser> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    ["postgres", "nobody"].into_iter().find_map(|name| user_in(&text, name))
}

fn user_in(passwd: &str, name: &str) -> Option<SystemUser> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (uid != 0).then(|| SystemUser { name: name.to_owned(), uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::OsRuntime;

    use super::*;

    #[test]
    fn a_directory_without_our_marker_is_never_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mut made =
            PrivateDirectory::create(parent.path(), "test", None, &OsRuntime::new()).unwrap();
        std::fs::write(made.path().join("precious"), "x").unwrap();
        std::fs::remove_file(made.path().join(MARKER)).unwrap();
        let error = made.remove().unwrap_err().to_string();
        assert!(error.contains("is left alone"), "{error}");
        let path = made.path().to_owned();
        drop(made);
        assert!(path.join("precious").exists());
    }

    #[test]
    fn a_directory_goes_with_its_value_and_stays_when_kept() {
        let parent = tempfile::tempdir().unwrap();
        let made = PrivateDirectory::create(parent.path(), "t", None, &OsRuntime::new()).unwrap();
        let path = made.path().to_owned();
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::create_dir(path.join("sub")).unwrap();
        drop(made);
        assert!(!path.exists());
        let mut made =
            PrivateDirectory::create(parent.path(), "t", None, &OsRuntime::new()).unwrap();
        made.keep(true);
        let path = made.path().to_owned();
        drop(made);
        assert!(path.exists());
    }

    #[test]
    fn leftovers_of_dead_processes_go_and_those_of_living_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        let mut living =
            PrivateDirectory::create(parent.path(), "t", None, &OsRuntime::new()).unwrap();
        living.keep(true);
        let dead = parent.path().join("evenkeel-t-dead");
        std::fs::create_dir(&dead).unwrap();
        // A process of our number that began at another time.
        std::fs::write(dead.join(MARKER), format!("{} 1\n", std::process::id())).unwrap();
        let foreign = parent.path().join("evenkeel-t-foreign");
        std::fs::create_dir(&foreign).unwrap();
        assert_eq!(remove_leftovers(parent.path()), [dead]);
        assert!(living.path().exists() && foreign.exists());
    }

    #[test]
    fn a_symbolic_link_inside_is_removed_and_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let outside = parent.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious"), "x").unwrap();
        let mut made =
            PrivateDirectory::create(parent.path(), "t", None, &OsRuntime::new()).unwrap();
        std::os::unix::fs::symlink(&outside, made.path().join("link")).unwrap();
        made.remove().unwrap();
        assert!(outside.join("precious").exists());
    }

    #[test]
    fn root_is_never_the_ordinary_user() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\npostgres:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/x\n";
        assert_eq!(user_in(passwd, "postgres"), None);
        assert_eq!(user_in(passwd, "nobody").unwrap().uid, 65534);
        assert_eq!(user_in("postgres\n", "postgres"), None);
    }

    #[test]
    fn the_start_of_a_living_process_is_known() {
        assert!(process_start(std::process::id()).is_some());
        assert_eq!(process_start(u32::MAX), None);
    }
}
