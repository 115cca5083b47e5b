//! `cargo xtask test` and `cargo xtask lint`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use evenkeel_lab::target::postgres::binaries::{Binaries, Wanted};

/// Everything that must hold: tests (the tidy rules among them), documentation examples, formatting.
/// PostgreSQL's server binaries, which many tests need, are installed when they are missing and we
/// may, after saying so.
pub(crate) fn test(_arguments: &[String]) -> anyhow::Result<()> {
    bring_postgres();
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

/// The same search and the same sources as `evenkeel compare`. Without any, the tests that need a
/// server skip themselves, which is said here so that a green run is not taken for more than it is.
fn bring_postgres() {
    match Binaries::find_or_fetch(&Wanted::Newest, &AtomicBool::new(false), &mut |text| {
        crate::say(&format!("xtask test: {text}"));
    }) {
        Ok(found) => crate::say(&format!(
            "xtask test: {} in {}",
            found.version(),
            found.directory().display()
        )),
        Err(error) => crate::say(&format!(
            "xtask test: tests that need a PostgreSQL server are SKIPPED: {error}"
        )),
    }
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
