//! `evenkeel report`: render a stored session again.

use crate::exit::Outcome;

/// Render a stored session again
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'report' is not built yet")
}
