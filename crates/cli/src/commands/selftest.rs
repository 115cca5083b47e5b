//! `evenkeel selftest`: prove the clock.

use crate::exit::Outcome;

/// Prove the clock: freeze a server and check the percentiles
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'selftest' is not built yet")
}
