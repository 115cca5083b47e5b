//! `evenkeel init`: load pgbench's tables.

use crate::exit::Outcome;

/// Load pgbench's tables, in parallel
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'init' is not built yet")
}
