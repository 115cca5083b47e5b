//! `evenkeel trace`: look at page-reference traces, convert, sample and generate them.

mod convert;
mod head;
mod info;
mod input;
mod progress;

use std::io::Write;

use anyhow::Context;
use evenkeel_cachesim::generate::FAMILIES;
use evenkeel_cachesim::trace::FORMATS;

pub(crate) use input::{ContentOptions, TraceInput, TraceOptions};
pub(crate) use progress::TraceProgress;

use crate::exit::Outcome;

/// Look at page-reference traces, convert, sample and generate them
///
/// A TRACE is a file, `-` for the standard input, or `generate:SPEC`. Its format and compression (gz,
/// xz, zstd) are recognised by the content.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Info(info::Arguments),
    Head(head::Arguments),
    Convert(convert::ConvertArguments),
    Sample(convert::SampleArguments),
    Generate(convert::GenerateArguments),
    /// List the formats of traces, and the generators
    Formats,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    match arguments.command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Head(arguments) => head::run(&arguments),
        Command::Convert(arguments) => convert::convert(&arguments),
        Command::Sample(arguments) => convert::sample(&arguments),
        Command::Generate(arguments) => convert::generate(&arguments),
        Command::Formats => print(&formats()),
    }
}

/// Writes a result. A reader such as `head` that has seen enough is not an error.
pub(super) fn print(text: &str) -> anyhow::Result<Outcome> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Outcome::Success),
        other => other.map(|()| Outcome::Success).context("cannot write to the standard output"),
    }
}

fn formats() -> String {
    let mut text = String::from("formats, for --trace-format where they are not recognised:\n");
    for (name, _, what) in FORMATS {
        text.push_str(&format!("  {name:<16}{what}\n"));
    }
    text.push_str("\ngenerators, as generate:NAME(parameter=value,...), with their defaults:\n");
    for (name, parameters, what) in FAMILIES {
        text.push_str(&format!("  {name:<16}{what}\n  {:<16}{parameters}\n", ""));
    }
    text.push_str(
        "  all take references=1000000, seed=1, and rate=R (steps a second, which gives times)\n",
    );
    text
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_fit_a_terminal() {
        for line in formats().lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        let shown = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
