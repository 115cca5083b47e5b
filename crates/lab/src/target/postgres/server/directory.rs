//! A private directory: made by us, marked by us, and removed only when it carries our mark.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evenkeel::runtime::Runtime;

/// The file that says that a directory is ours. It holds its [`Maker`], so that leftovers of a killed
/// process can be told from those of a living one.
pub(super) const MARKER: &str = "evenkeel-private-directory";

/// What the names of private directories begin with.
pub(super) const PREFIX: &str = "evenkeel-";

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
        let marker = format!("{}\n", Maker::of_this_process());
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

/// The process that made a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Maker {
    process: u32,
    /// 0 where `/proc` did not say.
    start: u64,
    /// The kernel's name of the namespace that the number belongs to; `None` where it is not known.
    namespace: Option<String>,
}

impl Maker {
    pub(super) fn of_this_process() -> Self {
        let process = std::process::id();
        Self {
            process,
            start: process_start(process).unwrap_or(0),
            namespace: own_process_namespace(),
        }
    }

    /// `None` where `text` is no marker's.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        Some(Self {
            process: words.next()?.parse().ok()?,
            start: words.next()?.parse().ok()?,
            namespace: words.next().map(str::to_owned),
        })
    }

    /// Whether the process is there, or could be without being known from here.
    pub(super) fn may_live(&self) -> bool {
        self.start == 0 || process_start(self.process) == Some(self.start)
    }

    /// Whether the process, if it lived, would be seen from here under its number. Where that is not
    /// known it is believed unless a server is at stake.
    pub(super) fn is_of_our_namespace(&self, is_server_at_stake: bool) -> bool {
        match &self.namespace {
            Some(theirs) => own_process_namespace().as_ref() == Some(theirs),
            None => !is_server_at_stake,
        }
    }
}

impl std::fmt::Display for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.process, self.start)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " {namespace}"))
    }
}

fn own_process_namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned())
}

/// Removes a directory that carries our marker; the marker goes last, so that an interrupted
/// removal can be taken up again.
pub(super) fn remove_marked(path: &Path) -> io::Result<()> {
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
    use std::os::unix::fs::MetadataExt;

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
