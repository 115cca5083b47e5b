//! `evenkeel import`: read pgbench's logs.

use crate::exit::Outcome;

/// Read pgbench's logs into a run that can be compared
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'import' is not built yet")
}
