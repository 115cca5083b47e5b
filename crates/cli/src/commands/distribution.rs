//! `evenkeel distribution`: print a key distribution without a database.

use crate::exit::Outcome;

/// Print what a key distribution promises and what it draws
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: Arguments) -> anyhow::Result<Outcome> {
    anyhow::bail!("'distribution' is not built yet")
}
