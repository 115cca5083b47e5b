//! `cargo xtask test` and `cargo xtask lint`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Everything that must hold: tests (the tidy rules among them), documentation examples, formatting.
/// PostgreSQL's server binaries, which many tests need, are installed when they are missing and we
/// may, after saying so.
pub(crate) fn test(_arguments: &[String]) -> anyhow::Result<()> {
    bring_postgres()?;
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["test", "--workspace", "--all-targets"])?;
    cargo(&["test", "--workspace", "--doc"])
}

/// What the compiler and its companions find. `cargo deny` is skipped, with a word, where it is not
/// installed.
pub(crate) fn lint(_arguments: &[String]) -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
    if is_answering("cargo", &["deny", "--version"]) {
        // The advisory database needs a network; the rest of the policy does not.
        cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"])
    } else {
        crate::say("xtask lint: cargo-deny is not installed, so deny.toml was not checked");
        Ok(())
    }
}

fn bring_postgres() -> anyhow::Result<()> {
    if has_postgres() {
        return Ok(());
    }
    if !is_root() || !is_answering("apt-get", &["--version"]) {
        crate::say(
            "xtask test: no PostgreSQL server binaries are found; tests that need them are skipped.\n\
             Install your system's PostgreSQL server package, or put its bin directory on PATH.",
        );
        return Ok(());
    }
    crate::say(
        "xtask test: no PostgreSQL server binaries are found; installing the package 'postgresql' \
         with apt-get",
    );
    // The package's own cluster is not wanted, and must not be started.
    let environment = [("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")];
    for arguments in
        [&["update"][..], &["install", "--yes", "--no-install-recommends", "postgresql"][..]]
    {
        let status = Command::new("apt-get")
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::null())
            .status()
            .context("cannot run apt-get")?;
        if !status.success() {
            bail!("apt-get {} failed: {status}", arguments.join(" "));
        }
    }
    if !has_postgres() {
        bail!("the package 'postgresql' is installed, but there is no initdb in it");
    }
    Ok(())
}

/// Whether there is a server to start: where Debian's packages put it, or on PATH.
fn has_postgres() -> bool {
    let is_packaged = std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|versions| {
        versions.flatten().any(|version| version.path().join("bin/initdb").exists())
    });
    is_packaged
        || std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path)
                .any(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        })
}

/// Whether our effective user is root.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|users| users.split_whitespace().nth(1))
            == Some("0")
    })
}

fn is_answering(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    crate::say(&format!("cargo {}", arguments.join(" ")));
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(Path::new(&program))
        .args(arguments)
        .current_dir(crate::root())
        .stdin(Stdio::null())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo {} failed: {status}", arguments.join(" "));
    }
    Ok(())
}
