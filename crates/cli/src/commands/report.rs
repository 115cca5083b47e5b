//! `evenkeel report`: render a stored session again.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use evenkeel_lab::experiment::document::{SessionDocument, VerdictKind};
use evenkeel_lab::experiment::store::{self, Seal};
use evenkeel_lab::report::html::index::{self, Entry};
use evenkeel_lab::report::{self, html, markdown, terminal};
use evenkeel_lab::statistics::gates;

use crate::exit::Outcome;

/// Render a stored session again, or an index over several
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 done, 1 usage or environment, 2 INVALID, or the record was changed after it was
written, 3 WORSE.")]
pub(crate) struct Arguments {
    /// Session directory, or the path of its session.json; with --index several
    #[arg(value_name = "DIR", required = true)]
    sessions: Vec<PathBuf>,
    /// Write a page that lists the sessions: verdict, interval and a link to each one's own page
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "out"])]
    index: Option<PathBuf>,
    /// What to render
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Write to this file instead of standard output; with a directory, write every file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What to render.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text as wide as the terminal, from 80 to 100 columns
    #[value(alias = "text")]
    Terminal,
    /// One page for a browser
    Html,
    /// Short text for a mail or a pull request
    Markdown,
    /// The record itself, checked
    Json,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if let Some(index) = &arguments.index {
        return write_index(index, &arguments.sessions);
    }
    let [session] = &arguments.sessions[..] else {
        bail!(
            "{} sessions: name one, or list them on a page with --index FILE",
            arguments.sessions.len()
        );
    };
    let mut stored = store::read_session(session)?;
    remark(stored.seal)?;
    if stored.seal == Seal::Altered {
        altered(&mut stored.document, "this record");
    }
    let document = &stored.document;
    match &arguments.out {
        Some(path) if path.is_dir() => {
            report::write_files(path, document)?;
        }
        Some(path) => {
            let (directory, name) = place(path)?;
            refuse_special(path)?;
            let wanted = arguments.format;
            store::replace_file(directory, name, |file: &mut File| {
                let mut out = BufWriter::new(file);
                render(document, wanted, terminal::Style::default(), None, &mut out)?;
                out.flush()
            })?;
        }
        None => {
            let stdout = io::stdout();
            let style = terminal_style(stdout.is_terminal());
            let page = session.join("report.html");
            let page = page.is_file().then(|| page.display().to_string());
            let mut out = BufWriter::new(stdout.lock());
            let written = render(document, arguments.format, style, page.as_deref(), &mut out)
                .and_then(|()| out.flush());
            match written {
                // A reader such as `head` that has enough is no failure.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.context("write to standard output")?,
            }
        }
    }
    Ok(if stored.seal == Seal::Altered { Outcome::Invalid } else { outcome(document) })
}

/// Writes the index; a session that cannot be read ends it, since a list with holes would not show them.
fn write_index(path: &Path, sessions: &[PathBuf]) -> anyhow::Result<Outcome> {
    let (directory, name) = place(path)?;
    refuse_special(path)?;
    let folder = std::path::absolute(directory).context("the index's folder")?;
    let mut entries = Vec::with_capacity(sessions.len());
    for session in sessions {
        let mut stored = store::read_session(session)?;
        if stored.seal == Seal::Altered {
            remark(stored.seal)?;
            altered(&mut stored.document, "this record");
        }
        let own = if session.is_dir() { Some(session.as_path()) } else { session.parent() };
        let page = std::path::absolute(own.unwrap_or(Path::new(".")))?.join("report.html");
        let page = page.is_file().then(|| index::relative_address(&folder, &page));
        entries.push(Entry { document: stored.document, page });
    }
    store::replace_file(directory, name, |file: &mut File| {
        let mut out = BufWriter::new(file);
        index::render(&entries, &mut out)?;
        out.flush()
    })?;
    Ok(Outcome::Success)
}

/// A device, a pipe or a link would be replaced by a file.
fn refuse_special(path: &Path) -> anyhow::Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        bail!(
            "{} is no regular file and would be replaced by one: name another, or write to standard \
             output",
            path.display()
        );
    }
    Ok(())
}

/// Voids a record of which `what` was changed after it was written. What is rendered travels on without
/// this terminal's warning, so it carries its own.
pub(crate) fn altered(document: &mut SessionDocument, what: &str) {
    document.title = format!("[ALTERED RECORD] {}", document.title);
    let reason = format!("{what} was changed after it was written: its checksum does not agree");
    gates::void(document, "record", &reason);
}

/// How a terminal wants its text, by the usual environment variables.
pub(crate) fn terminal_style(is_terminal: bool) -> terminal::Style {
    // https://no-color.org: set and not empty.
    let refuses = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    // As the C library chooses among them.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .unwrap_or_default()
        .to_ascii_lowercase();
    terminal::Style {
        columns: if is_terminal { terminal_columns() } else { columns_asked_for() },
        has_colour: is_terminal && !refuses && !is_dumb,
        is_ascii: !(locale.contains("utf-8") || locale.contains("utf8")),
    }
}

/// Columns of the terminal on standard output, within what reports can be written for.
fn terminal_columns() -> usize {
    rustix::termios::tcgetwinsize(rustix::stdio::stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        // Some terminals do not know: they say 0.
        .filter(|columns| *columns > 0)
        .map_or(terminal::COLUMNS, |columns| {
            columns.clamp(terminal::COLUMNS_MIN, terminal::COLUMNS)
        })
}

/// Columns where there is no terminal to ask: what `COLUMNS` says, as `ls` and `psql` have it.
fn columns_asked_for() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.trim().parse::<usize>().ok())
        .filter(|columns| *columns > 0)
        .map_or(terminal::COLUMNS, |columns| {
            columns.clamp(terminal::COLUMNS_MIN, terminal::COLUMNS)
        })
}

fn render(
    document: &SessionDocument,
    format: Format,
    style: terminal::Style,
    page: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Terminal => terminal::render(document, style, page, out),
        Format::Html => html::render(document, out),
        Format::Markdown => markdown::render(document, out),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, document)?;
            out.write_all(b"\n")
        }
    }
}

/// As `compare` would have ended: scripts may ask the record later.
fn outcome(document: &SessionDocument) -> Outcome {
    match document.analysis.as_ref().map(|analysis| analysis.comparison.verdict.kind) {
        Some(VerdictKind::Worse) => Outcome::Worse,
        Some(VerdictKind::Invalid) => Outcome::Invalid,
        _ => Outcome::Success,
    }
}

fn place(path: &Path) -> anyhow::Result<(&Path, &str)> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .with_context(|| format!("{}: names no file to write", path.display()))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((directory.unwrap_or(Path::new(".")), name))
}

fn remark(seal: Seal) -> io::Result<()> {
    let mut errors = io::stderr();
    match seal {
        Seal::Intact => Ok(()),
        Seal::Altered => writeln!(
            errors,
            "evenkeel: this record was changed after it was written: its checksum does not agree"
        ),
        Seal::Absent => writeln!(errors, "evenkeel: this record carries no checksum"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_written_into_the_current_directory() {
        assert_eq!(place(Path::new("x.html")).unwrap(), (Path::new("."), "x.html"));
        assert_eq!(place(Path::new("a/x.html")).unwrap(), (Path::new("a"), "x.html"));
        assert!(place(Path::new("..")).is_err());
        assert!(place(Path::new("/")).is_err());
    }

    #[test]
    fn a_directory_without_a_record_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = Arguments {
            sessions: vec![directory.path().to_path_buf()],
            index: None,
            format: Format::Terminal,
            out: None,
        };
        let error = format!("{:#}", run(arguments).unwrap_err());
        assert!(error.contains("session.json"), "{error}");
    }
}
