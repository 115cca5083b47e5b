//! `evenkeel doctor`: what on this machine will spoil a measurement.

use crate::exit::Outcome;

/// Say what on this machine will spoil a measurement
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'doctor' is not built yet")
}
