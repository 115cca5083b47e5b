//! The `evenkeel` command.

mod address;
mod commands;
mod connection;
mod exit;
mod interruption;
mod progress;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::CommandLine::try_parse() {
        Ok(line) => exit::finish(line.run()),
        Err(error) => exit::usage(&error),
    }
}
