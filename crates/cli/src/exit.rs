//! Exit codes, in one table.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; of `compare`: a verdict, and the primary measure has not become worse |
//! | 1 | wrong usage, or the environment refused (no server, no space, no permission) |
//! | 2 | the session or run is INVALID: it cannot carry a verdict; or a record was changed after it was written |
//! | 3 | WORSE |
//! | 4 | INCONCLUSIVE, and `--require-verdict` was given |
//! | 130 | interrupted; results up to then are kept and marked incomplete |

use std::process::ExitCode;

/// How a command ended, other than by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done.
    Success,
    /// The result cannot carry a conclusion.
    Invalid,
    /// The primary measure has become worse.
    Worse,
    /// No conclusion, though one was required.
    NoVerdict,
    /// Stopped by the user.
    Interrupted,
}

impl Outcome {
    /// The process's exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Invalid => 2,
            Self::Worse => 3,
            Self::NoVerdict => 4,
            Self::Interrupted => 130,
        }
    }
}

/// Turns a command's result into the exit code; an error is printed with its causes.
pub(crate) fn finish(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(error) => {
            print_error(&with_causes(&error));
            ExitCode::from(1)
        }
    }
}

/// The error and its causes; a cause that the text before it has told already is not repeated.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints clap's message; help and version go to stdout and are a success.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Printing fails only when the stream is closed, and then nobody reads.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

#[allow(clippy::print_stderr, reason = "the one place where the command reports its errors")]
fn print_error(text: &str) {
    // Files, servers and names are quoted in errors.
    eprintln!("evenkeel: {}", evenkeel_lab::text::terminal_lines(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let inner = std::io::Error::other("no space left");
        let error = anyhow::Error::new(inner).context("write x: no space left").context("saving");
        assert_eq!(with_causes(&error), "saving: write x: no space left");
    }
}
