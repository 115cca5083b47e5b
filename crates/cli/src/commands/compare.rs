//! `evenkeel compare`: paired runs of two arms, to a verdict.

use crate::exit::Outcome;

/// Compare two arms: paired, interleaved, to a verdict
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'compare' is not built yet")
}
