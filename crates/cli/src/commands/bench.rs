//! `evenkeel bench`: one run.

use crate::exit::Outcome;

/// Run a workload once, with pgbench's options
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'bench' is not built yet")
}
