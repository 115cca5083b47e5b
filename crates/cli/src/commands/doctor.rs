//! `evenkeel doctor`: what on this machine will spoil a measurement.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_lab::measure::machine::{Examination, Finding, Grade, examine, examine_quickly};
use evenkeel_lab::report::text::wrap;
use evenkeel_lab::target::postgres::binaries::{Binaries, Places, Wanted};
use evenkeel_lab::target::postgres::server::default_parent;

use crate::commands::report::terminal_style;
use crate::exit::Outcome;

/// Width of the column of names and of grades.
const NAME_WIDTH: usize = 13;
const GRADE_WIDTH: usize = 5;

/// Say what on this machine will spoil a measurement
///
/// Looks for about two seconds, and writes a file of 64 kB for a moment to time the disk.
///
/// Exit codes: 0 whatever is found; with --strict, 2 when something will spoil measurements; 1 when
/// nothing could be examined.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where data are or will be; where managed servers are made unless said
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Look for a fifth of a second, write nothing, time neither timer nor disk
    #[arg(long)]
    quick: bool,
    /// Exit with 2 when something is found that will spoil measurements
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table for people
    Text,
    /// For programs
    Json,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let directory = arguments.data_dir.unwrap_or_else(default_parent);
    if !directory.is_dir() {
        bail!("--data-dir {} is not a directory that exists", directory.display());
    }
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let mut examination = if arguments.quick {
        examine_quickly(&directory, &runtime)
    } else {
        examine(&directory, &runtime)
    };
    examination.findings.push(programs());
    let text = match arguments.format {
        Format::Text => {
            let columns = terminal_style(std::io::stdout().is_terminal()).columns;
            table(&examination, columns)
        }
        Format::Json => {
            let document = serde_json::json!({
                "data_directory": directory,
                "machine": examination.machine,
                "findings": examination.findings,
            });
            serde_json::to_string_pretty(&document).context("writing JSON")? + "\n"
        }
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    let worst = examination.findings.iter().map(|finding| finding.grade).max();
    if arguments.strict && worst == Some(Grade::Bad) {
        return Ok(Outcome::Invalid);
    }
    Ok(Outcome::Success)
}

/// Whether servers of our own can be started.
fn programs() -> Finding {
    let found = Binaries::find(&Wanted::Newest, &Places::of_this_machine());
    let (grade, found, remedy) = match found {
        Ok(Some(binaries)) => {
            let place = binaries.directory().display();
            (Grade::Ok, format!("{} in {place}", binaries.version()), String::new())
        }
        Ok(None) => (
            Grade::Warn,
            "no server programs found".to_owned(),
            "compare brings them where it can; or install PostgreSQL's server package".to_owned(),
        ),
        Err(error) => (
            Grade::Warn,
            format!("server programs cannot be used: {error}"),
            "name a directory of others in the experiment".to_owned(),
        ),
    };
    Finding { name: "postgres", grade, found, remedy }
}

fn table(examination: &Examination, width: usize) -> String {
    let machine = &examination.machine;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
    let mut text = format!("{}; {}", known(&machine.kernel), known(&machine.cpu));
    if let Some(count) = machine.cpu_count {
        text.push_str(&format!("; {count} processors"));
    }
    if let Some(bytes) = machine.memory_bytes {
        text.push_str(&format!("; {} MiB", bytes >> 20));
    }
    let mut lines: Vec<String> = wrap(&text, width);
    lines.push(String::new());
    let indent = NAME_WIDTH + GRADE_WIDTH;
    for finding in &examination.findings {
        let grade = match finding.grade {
            Grade::Ok => "ok",
            Grade::Unknown => "?",
            Grade::Warn => "warn",
            Grade::Bad => "BAD",
        };
        let mut parts = wrap(&finding.found, width - indent).into_iter();
        let first = parts.next().unwrap_or_default();
        lines.push(format!("{:<NAME_WIDTH$}{grade:<GRADE_WIDTH$}{first}", finding.name));
        lines.extend(parts.map(|part| format!("{:indent$}{part}", "")));
        if !finding.remedy.is_empty() {
            for part in wrap(&format!("-> {}", finding.remedy), width - indent) {
                lines.push(format!("{:indent$}{part}", ""));
            }
        }
    }
    let count = |grade| examination.findings.iter().filter(|found| found.grade == grade).count();
    lines.push(String::new());
    lines.push(match (count(Grade::Bad), count(Grade::Warn)) {
        (0, 0) => "Nothing found that would spoil a measurement.".to_owned(),
        (0, warn) => format!("{warn} to keep in mind; nothing that must be changed."),
        (bad, warn) => format!("{bad} will spoil measurements, {warn} to keep in mind."),
    });
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stays_within_the_terminal_and_names_the_remedy() {
        let finding = |grade, found: &str, remedy: &str| Finding {
            name: "dirty limits",
            grade,
            found: found.to_owned(),
            remedy: remedy.to_owned(),
        };
        let examination = Examination {
            findings: vec![
                finding(Grade::Ok, "fine", ""),
                finding(Grade::Bad, &"many words ".repeat(30), &"do this and that ".repeat(20)),
            ],
            ..Examination::default()
        };
        for width in [80, 100] {
            let text = table(&examination, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("-> do this"));
            assert!(!text.contains("word\n") && !text.contains("an\n"), "words are whole: {text}");
            assert!(text.ends_with("1 will spoil measurements, 0 to keep in mind.\n"));
        }
    }
}
