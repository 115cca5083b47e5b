//! `evenkeel compare`: paired runs of two arms, to a verdict.

mod flags;
mod stored;

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{Entropy, OsRuntime, Runtime};
use evenkeel_lab::driver::foretell_memory;
use evenkeel_lab::experiment::document::{SessionDocument, VerdictKind};
use evenkeel_lab::experiment::estimate;
use evenkeel_lab::experiment::file::ExperimentFile;
use evenkeel_lab::experiment::laboratory::Laboratory;
use evenkeel_lab::experiment::plan::{Plan, PlanError};
use evenkeel_lab::experiment::session::{self, End, SessionError, Surroundings};
use evenkeel_lab::experiment::store;
use evenkeel_lab::{report, statistics};

use crate::commands::report::terminal_style;
use crate::exit::Outcome;
use crate::progress::Progress;
use crate::{address, interruption};

/// The experiment as it was run, beside its results; `--from` and `--extend` read it.
const EXPERIMENT_FILE: &str = "experiment.toml";

/// Compare two arms: paired, interleaved, to a verdict
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 a verdict and the primary measure not worse, 1 usage or environment, 2 INVALID,
3 WORSE, 4 no verdict though --require-verdict was given, 130 interrupted (results are kept).")]
pub(crate) struct Arguments {
    /// An experiment file (docs/experiment-file.md); or two stored sessions to compare
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// Repeat the protocol of a stored session, with a new order
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "extend"])]
    from: Option<PathBuf>,
    /// Go on with a session that was cut off, with the pairs and looks it had planned
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    extend: Option<PathBuf>,
    /// Exit with 4 when there is no verdict
    #[arg(long)]
    require_verdict: bool,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    flags: flags::Flags,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if let [left, right] = &arguments.files[..] {
        let document = stored::compare(left, right, &arguments.flags)?;
        let directory = arguments.flags.out();
        if let Some(directory) = directory {
            refuse_occupied(directory)?;
            make_directory(directory)?;
        }
        return conclude(&document, directory, arguments.require_verdict);
    }
    let request = Request::read(&arguments)?;
    let Some(request) = request else { return no_experiment() };
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let directory = request.directory(runtime.as_ref())?;
    let interruption = interruption::listen(&runtime)?;
    let plan = &request.plan;
    // All that can be found wrong without a server is found before anything is promised.
    let mut laboratory =
        Laboratory::new(plan.clone(), Arc::clone(&runtime), interruption.clone(), &|text| {
            address::server_address(text, false).map_err(|error| format!("{error:#}"))
        })?;
    let kept = request.file.to_toml().context("the experiment cannot be kept as TOML")?;
    let is_new = !directory.exists();
    make_directory(&directory)?;
    store::replace_file(&directory, EXPERIMENT_FILE, |file| file.write_all(kept.as_bytes()))
        .with_context(|| format!("cannot write into {}", directory.display()))?;
    laboratory.keep_run_files(&directory);
    let pairs_done = request.earlier.as_ref().map_or(0, session::complete_blocks);
    let pairs_left = plan.pairs.saturating_sub(pairs_done);
    let mut progress = Progress::new(
        &runtime,
        arguments.quiet,
        pairs_left.saturating_mul(u32::try_from(plan.arms.len()).unwrap_or(1)),
        estimate::run_ns(plan),
    );
    if !arguments.quiet {
        announce(plan, pairs_done, &directory.display().to_string());
    }
    let result = session::run(
        plan,
        &mut laboratory,
        Surroundings {
            runtime: runtime.as_ref(),
            directory: &directory,
            analyse: &|document| Some(statistics::analyse(document)),
            stop: &interruption.flag,
            command: vec![
                "evenkeel".to_owned(),
                "compare".to_owned(),
                "--from".to_owned(),
                directory.display().to_string(),
            ],
            earlier: request.earlier,
        },
        &mut progress,
    );
    progress.finish();
    let (document, end) = match result {
        Ok(ended) => ended,
        Err(error) => {
            forget_if_empty(&directory, is_new);
            return match error {
                SessionError::Failure(session::Failure::Interrupted) => Ok(Outcome::Interrupted),
                SessionError::Store { ref document, .. } => {
                    rescue(document, &directory);
                    Err(error.into())
                }
                error => Err(error.into()),
            };
        }
    };
    let kept = format!("{} kept in {}", counted(document.runs.len(), "run"), directory.display());
    if end != End::Complete && session::complete_blocks(&document) == 0 {
        // Without a pair every table would be empty: one line says all there is.
        if let Err(error) = report::write_files(&directory, &document) {
            say(&format!("warning: {error}"));
        }
        return match end {
            End::Failed(reason) => bail!("the session was cut off: {reason}; no pair, {kept}"),
            End::Complete | End::Interrupted => {
                say(&format!("interrupted before the first pair was complete; {kept}"));
                Ok(Outcome::Interrupted)
            }
        };
    }
    let outcome = conclude(&document, Some(&directory), arguments.require_verdict)?;
    match end {
        End::Complete => Ok(outcome),
        End::Interrupted => Ok(Outcome::Interrupted),
        End::Failed(reason) => bail!("the session was cut off: {reason}; {kept}"),
    }
}

/// A number of things in words.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// What is to be run, from files and flags.
struct Request {
    file: ExperimentFile,
    plan: Plan,
    earlier: Option<SessionDocument>,
    /// Of a session that goes on.
    earlier_directory: Option<PathBuf>,
}

impl Request {
    fn read(arguments: &Arguments) -> anyhow::Result<Option<Self>> {
        let source = match (&arguments.files[..], &arguments.from, &arguments.extend) {
            ([path], _, _) if is_record(path) => bail!(
                "{}: a stored session is compared with another one, or repeated with --from",
                path.display()
            ),
            ([path], _, _) => Some(path.clone()),
            (_, Some(session), _) | (_, _, Some(session)) => {
                Some(session_directory(session).join(EXPERIMENT_FILE))
            }
            _ => None,
        };
        let flags = arguments.flags.to_file()?;
        if source.is_none() && flags == ExperimentFile::default() {
            return Ok(None);
        }
        let mut file = match &source {
            Some(path) => ExperimentFile::read(path)?,
            None => ExperimentFile::default(),
        };
        if arguments.from.is_some() {
            // A repetition is another draw, into a directory of its own.
            file.seed = None;
            file.out = None;
        }
        let given = flags.to_toml().unwrap_or_default();
        file.overlay(flags);
        let directory = source.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        let fresh_seed = OsRuntime::new().entropy_u64() >> 11;
        let mut plan = Plan::new(&file, directory, fresh_seed)
            .map_err(|error| placed(&error, source.as_deref(), &given))?;
        let (mut earlier, mut earlier_directory) = (None, None);
        if let Some(session) = &arguments.extend {
            let store::StoredSession { document, seal } = store::read_session(session)?;
            if seal == store::Seal::Altered {
                bail!(
                    "{} was changed after it was written (its checksum does not agree): it is not gone on \
                     with. Repeat it as a new session with --from",
                    session.display()
                );
            }
            session::extend(&mut plan, &document)?;
            earlier = Some(document);
            earlier_directory = Some(session_directory(session));
        }
        // Kept with what was decided here, and with paths that hold from anywhere.
        file.seed = Some(plan.seed);
        absolute_scripts(&mut file, directory);
        Ok(Some(Self { file, plan, earlier, earlier_directory }))
    }

    fn directory(&self, runtime: &dyn Runtime) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.earlier_directory {
            return Ok(directory.clone());
        }
        let directory = self
            .file
            .out
            .clone()
            .unwrap_or_else(|| session::default_directory(runtime.wall(), &self.plan.title));
        refuse_occupied(&directory)?;
        if directory.join(EXPERIMENT_FILE).exists() {
            bail!(
                "{} holds an {EXPERIMENT_FILE} already, which would be replaced: name another \
                 directory with --out",
                directory.display()
            );
        }
        if directory.exists() && !directory.is_dir() {
            bail!("{} is not a directory: name another one with --out", directory.display());
        }
        Ok(directory)
    }
}

/// A plan's error with the place in the file, where the key stands there and no flag overrides it.
fn placed(error: &PlanError, source: Option<&Path>, given: &str) -> anyhow::Error {
    let is_flag = ExperimentFile::locate(given, &error.key).is_some();
    let place = source.filter(|_| !is_flag).and_then(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        let (line, column) = ExperimentFile::locate(&text, &error.key)?;
        Some(format!("{}:{line}:{column}: ", path.display()))
    });
    anyhow::anyhow!("{}{error}", place.unwrap_or_default())
}

fn absolute_scripts(file: &mut ExperimentFile, directory: &Path) {
    let Ok(directory) = std::path::absolute(directory) else { return };
    for script in file.workload.file.iter_mut().flat_map(|list| &mut list.0) {
        *script = directory.join(&*script).display().to_string();
    }
}

fn is_record(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|extension| extension == "json")
}

fn session_directory(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.to_path_buf()
    } else {
        path.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
    }
}

/// Keeps the record where there may be room when its own directory takes no more.
fn rescue(document: &SessionDocument, directory: &Path) {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let elsewhere =
        match fresh_directory(&std::env::temp_dir(), &format!("evenkeel-rescued-{name}")) {
            Ok(elsewhere) => elsewhere,
            Err(error) => return say(&format!("warning: nor can it be kept elsewhere: {error}")),
        };
    match store::write_session(&elsewhere, document) {
        Ok(()) => say(&format!(
            "the record with all {} runs is kept in {}",
            document.runs.len(),
            elsewhere.display()
        )),
        Err(error) => say(&format!("warning: nor can it be kept elsewhere: {error}")),
    }
}

/// A directory that was not there before: what an earlier session has saved stays what it is.
fn fresh_directory(parent: &Path, name: &str) -> std::io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let directory = parent.join(format!("{name}{suffix}"));
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| directory),
        }
    }
}

/// A directory in which nothing was recorded is no result.
fn forget_if_empty(directory: &Path, is_new: bool) {
    if !directory.join(store::SESSION_FILE).exists() {
        let _ = std::fs::remove_file(directory.join(EXPERIMENT_FILE));
        if is_new {
            // Only succeeds where it is empty.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

fn make_directory(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the results directory {}", directory.display()))
}

/// The files of another session are not replaced.
fn refuse_occupied(directory: &Path) -> anyhow::Result<()> {
    if directory.join(store::SESSION_FILE).exists() {
        bail!(
            "{} holds a session already: name another directory with --out, or go on with it by \
             --extend",
            directory.display()
        );
    }
    Ok(())
}

/// Writes all files, prints the verdict, and turns it into the exit status. What can be said is said, also
/// where the files cannot be written; that is an error afterwards.
fn conclude(
    document: &SessionDocument,
    directory: Option<&Path>,
    require_verdict: bool,
) -> anyhow::Result<Outcome> {
    let files = directory.map(|directory| report::write_files(directory, document));
    let page = directory
        .filter(|_| matches!(files, Some(Ok(()))))
        .map(|directory| directory.join("report.html").display().to_string());
    let stdout = std::io::stdout();
    let style = terminal_style(stdout.is_terminal());
    let mut out = BufWriter::new(stdout.lock());
    match report::terminal::render(document, style, page.as_deref(), &mut out)
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.context("write to standard output")?,
    }
    if let Some(files) = files {
        files.context("the files beside the record are not whole")?;
    }
    Ok(match document.analysis.as_ref().map(|analysis| analysis.comparison.verdict.kind) {
        Some(VerdictKind::Worse) => Outcome::Worse,
        Some(VerdictKind::Invalid) => Outcome::Invalid,
        Some(VerdictKind::Inconclusive) | None if require_verdict => Outcome::NoVerdict,
        _ => Outcome::Success,
    })
}

/// What will be done, how long it takes and what it can see: before it begins.
fn announce(plan: &Plan, pairs_done: u32, directory: &str) {
    say(&evenkeel_lab::text::terminal(&plan.title));
    for line in estimate::sentences(plan, pairs_done) {
        say(&line);
    }
    for remark in plan.remarks() {
        say(&format!("note: {remark}"));
    }
    if let Some(shortage) = foretell_memory(plan.arrival, Duration::from_nanos(plan.duration_ns)) {
        say(&format!("warning: each run {shortage}"));
    }
    say(&format!("results: {directory}"));
}

/// Neither a file nor a flag: what could be meant, and how to say it.
fn no_experiment() -> anyhow::Result<Outcome> {
    let mut shipped: Vec<String> = std::fs::read_dir("experiments")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| format!("  evenkeel compare {}", path.display()))
        .collect();
    shipped.sort();
    let shipped = if shipped.is_empty() {
        String::new()
    } else {
        format!("\n\nExperiments here:\n{}", shipped.join("\n"))
    };
    bail!(
        "what shall be compared? For example:

  two settings, in two or three minutes:
    evenkeel compare --quick --b-setting checkpoint_completion_target=0.5

  two builds:
    evenkeel compare --a-binaries ~/pg-master/bin --b-binaries ~/pg-patch/bin --scale 50

  two servers that run already:
    evenkeel compare --a-url postgres:///old --b-url postgres://host/new

  all of it in a file (docs/experiment-file.md):
    evenkeel compare experiment.toml{shipped}"
    )
}

#[allow(clippy::print_stderr, reason = "what is about to happen is no part of the result")]
fn say(text: &str) {
    eprintln!("{}", evenkeel_lab::text::terminal_lines(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_rescue_does_not_replace_what_the_first_one_saved() {
        let parent = tempfile::tempdir().unwrap();
        let names: Vec<_> =
            (0..3).map(|_| fresh_directory(parent.path(), "evenkeel-rescued-x").unwrap()).collect();
        let ends = ["evenkeel-rescued-x", "evenkeel-rescued-x-2", "evenkeel-rescued-x-3"];
        for (name, end) in names.iter().zip(ends) {
            assert!(name.ends_with(end) && name.is_dir(), "{}", name.display());
        }
        assert!(fresh_directory(&parent.path().join("nowhere"), "x").is_err());
    }
}
