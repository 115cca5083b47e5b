//! The commands, one file each.

mod bench;
mod compare;
mod distribution;
mod doctor;
mod import;
mod init;
mod report;
mod selftest;
mod simulate;
mod trace;

use clap::{Parser, Subcommand};

use crate::exit::Outcome;

/// Compares two builds, settings or engines under the same workload, and says what may be
/// concluded.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 100)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(Box<compare::Arguments>),
    Bench(Box<bench::Arguments>),
    Init(init::Arguments),
    Report(report::Arguments),
    Import(import::Arguments),
    Distribution(distribution::Arguments),
    Doctor(doctor::Arguments),
    Selftest(selftest::Arguments),
    Simulate(Box<simulate::Arguments>),
    Trace(trace::Arguments),
}

impl CommandLine {
    /// Runs the command that was asked for.
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self.command {
            Command::Compare(arguments) => compare::run(*arguments),
            Command::Bench(arguments) => bench::run(*arguments),
            Command::Init(arguments) => init::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Import(arguments) => import::run(arguments),
            Command::Distribution(arguments) => distribution::run(arguments),
            Command::Doctor(arguments) => doctor::run(arguments),
            Command::Selftest(arguments) => selftest::run(arguments),
            Command::Simulate(arguments) => simulate::run(*arguments),
            Command::Trace(arguments) => trace::run(arguments),
        }
    }
}
