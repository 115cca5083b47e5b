//! `evenkeel trace convert`, `sample` and `generate`: a trace read and another written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use evenkeel_cachesim::generate;
use evenkeel_cachesim::trace::{
    Options, Output, OutputFormat, Reference, SpatialSample, TraceReader,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{TraceOptions, TraceProgress, grouped};
use crate::exit::Outcome;

/// Write a trace in another format
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArguments {
    /// File, - for the standard input, or generate:SPEC
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    how: TraceOptions,
}

/// Write the references to a share of the pages, chosen by hash
///
/// A page is in the sample with all its references or with none, so that reuse is kept: a cache of R
/// times the frames on the sample behaves about as the whole one on the trace.
#[derive(Debug, clap::Args)]
pub(crate) struct SampleArguments {
    /// File, - for the standard input, or generate:SPEC
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    output: OutputArguments,
    /// Share of the pages, above 0 and at most 1
    #[arg(long, value_name = "R")]
    rate: f64,
    /// Chooses other pages
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    how: TraceOptions,
}

/// Write a generated trace; `evenkeel trace formats` lists the generators
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArguments {
    /// Such as zipf(pages=100000,s=0.99,references=10M)
    #[arg(value_name = "SPEC")]
    spec: String,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, clap::Args)]
struct OutputArguments {
    /// File to write, packed if it ends in .gz, .xz or .zst; - for the standard output
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// evenkeel, ids, csv or oracle-general; by the name's ending where not given, else evenkeel
    #[arg(long, value_name = "FORMAT")]
    to: Option<OutputFormat>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

/// Runs `convert`.
pub(super) fn convert(arguments: &ConvertArguments) -> anyhow::Result<Outcome> {
    let reader = TraceReader::open(&arguments.trace, &arguments.how.options())?;
    copy(reader, &arguments.output, None)
}

/// Runs `sample`.
pub(super) fn sample(arguments: &SampleArguments) -> anyhow::Result<Outcome> {
    let Some(sample) = SpatialSample::new(arguments.rate, arguments.seed) else {
        bail!("--rate {}: a share above 0 and at most 1 is wanted", arguments.rate);
    };
    let reader = TraceReader::open(&arguments.trace, &arguments.how.options())?;
    copy(reader, &arguments.output, Some(sample))
}

/// Runs `generate`.
pub(super) fn generate(arguments: &GenerateArguments) -> anyhow::Result<Outcome> {
    let spec = arguments.spec.strip_prefix(generate::PREFIX).unwrap_or(&arguments.spec);
    let name = PathBuf::from(format!("{}{spec}", generate::PREFIX));
    copy(TraceReader::open(&name, &Options::default())?, &arguments.output, None)
}

fn copy(
    mut reader: TraceReader,
    arguments: &OutputArguments,
    sample: Option<SpatialSample>,
) -> anyhow::Result<Outcome> {
    let path = &arguments.out;
    let shown = path.display();
    let is_stdout = path.as_os_str() == "-";
    // A trace appears under its name by a rename, which would put a file in a device's place.
    if !is_stdout && std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        bail!("{shown} is no regular file: name another, or write to standard output with '-'");
    }
    if !is_stdout && !arguments.force && path.exists() {
        bail!("{shown} exists: remove it, or replace it by --force");
    }
    let interrupted = interruption()?;
    let mut progress = TraceProgress::new(&format!("writing {shown}"));
    let mut batch = Vec::new();
    let mut is_more = reader.read(&mut batch)?;
    // A trace has times from the start or not at all.
    let has_times = batch.iter().any(|event| event.time_us.is_some());
    let format = arguments.to.unwrap_or_else(|| by_ending(path));
    let failed = || format!("cannot write {shown}");
    let mut output = Output::create(path, format, &reader, has_times).with_context(failed)?;
    while is_more {
        for event in batch.drain(..) {
            let written = match sample {
                None => output.write(&event, reader.classes()),
                Some(sample) => event
                    .each()
                    .filter(|one: &Reference| sample.has(one.page))
                    .try_for_each(|one| output.write(&one, reader.classes())),
            };
            match written {
                // A reader such as `head` that has seen enough is not an error.
                Err(error) if is_stdout && error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Ok(Outcome::Success);
                }
                other => other.with_context(failed)?,
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            return Ok(Outcome::Interrupted);
        }
        progress.tell(reader.position());
        is_more = reader.read(&mut batch)?;
    }
    let references = output.references();
    let dropped = output.dropped();
    output.finish().with_context(failed)?;
    drop(progress);
    for (what, count) in dropped {
        say(&warning(format, what, count));
    }
    if !is_stdout {
        say(&format!(
            "{shown}: {} of {} references, {format}",
            grouped(references),
            grouped(reader.position().references)
        ));
    }
    Ok(Outcome::Success)
}

/// That a format has no place for something.
fn warning(format: OutputFormat, what: &str, times: u64) -> String {
    let remedy = match what {
        "page size" => "name it by --page-size when you read the file",
        _ => "--to evenkeel keeps it",
    };
    let times = grouped(times);
    format!(
        "evenkeel: warning: {format} has no place for the {what}: dropped {times} times; {remedy}"
    )
}

fn by_ending(path: &Path) -> OutputFormat {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = [".gz", ".xz", ".zst"].iter().find_map(|end| name.strip_suffix(end));
    let stem = Path::new(stem.unwrap_or(&name));
    match stem.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => OutputFormat::Csv,
        Some("txt" | "ids") => OutputFormat::Ids,
        Some("oracleGeneral") => OutputFormat::OracleGeneral,
        _ => OutputFormat::Evenkeel,
    }
}

/// A flag that signals set, so that what was half written is removed; the second one ends at once.
fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let code = Outcome::Interrupted.code().into();
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("signal handlers")?;
    }
    Ok(flag)
}

#[allow(clippy::print_stderr, reason = "what was done, for the person who asked")]
fn say(text: &str) {
    eprintln!("{}", evenkeel_lab::text::terminal_lines(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(out: PathBuf, force: bool) -> OutputArguments {
        OutputArguments { out, to: None, force }
    }

    fn generated(spec: &str) -> TraceReader {
        TraceReader::open(Path::new(spec), &Options::default()).unwrap()
    }

    fn references(path: &Path) -> Vec<Reference> {
        let mut reader = TraceReader::open(path, &Options::default()).unwrap();
        let mut events = Vec::new();
        while reader.read(&mut events).unwrap() {}
        events
    }

    #[test]
    fn a_file_that_is_there_is_only_replaced_when_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a.ekt");
        let spec = "generate:zipf(references=5000)";
        copy(generated(spec), &arguments(out.clone(), false), None).unwrap();
        let refused = copy(generated(spec), &arguments(out.clone(), false), None).unwrap_err();
        assert!(refused.to_string().contains("--force"), "{refused}");
        // As root, --force on a device would have replaced it by a file.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let refused = copy(generated(spec), &arguments(link, true), None).unwrap_err();
        assert!(refused.to_string().contains("no regular file"), "{refused}");
        copy(generated("generate:loop(references=7)"), &arguments(out.clone(), true), None)
            .unwrap();
        assert_eq!(references(&out).len(), 7);
    }

    #[test]
    fn a_sample_has_all_references_of_its_pages_and_none_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, part) = (folder.path().join("w.ids"), folder.path().join("p.ids"));
        let spec = "generate:zipf(pages=1000,references=20000)";
        let sample = SpatialSample::new(0.2, 0).unwrap();
        copy(generated(spec), &arguments(whole.clone(), false), None).unwrap();
        copy(generated(spec), &arguments(part.clone(), false), Some(sample)).unwrap();
        let mut kept = references(&whole);
        kept.retain(|event| sample.has(event.page));
        assert_eq!(references(&part), kept);
        assert!(kept.len() > 500, "{}", kept.len());
    }

    #[test]
    fn a_trace_that_breaks_off_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let bad = folder.path().join("bad.txt");
        let text: String = (0..20_000).map(|page| format!("{page}\n")).collect();
        std::fs::write(&bad, format!("{text}x\n")).unwrap();
        let reader = TraceReader::open(&bad, &Options::default()).unwrap();
        let out = folder.path().join("out.ekt");
        let error = copy(reader, &arguments(out, false), None).unwrap_err();
        assert!(error.to_string().contains("line 20001"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_s_ending_says_its_format() {
        for (name, format) in [
            ("a.csv.gz", OutputFormat::Csv),
            ("a.txt", OutputFormat::Ids),
            ("a.oracleGeneral.zst", OutputFormat::OracleGeneral),
            ("a.ekt.xz", OutputFormat::Evenkeel),
            ("-", OutputFormat::Evenkeel),
        ] {
            assert_eq!(by_ending(Path::new(name)), format, "{name}");
        }
    }
}
