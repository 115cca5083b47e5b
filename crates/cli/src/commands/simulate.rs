//! `evenkeel simulate`: what each policy does with a trace at each size of cache.

mod curve;
mod output;
mod plot;
mod policies;
mod results;
mod runs;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_cachesim::cache_size::CacheSize;
use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::trace::{self, Position, TraceReader};
use evenkeel_replacement::registry::Registry;

use super::trace::{ContentOptions, TraceProgress};
use crate::exit::Outcome;
use plot::Plot;
use results::Facts;

/// Sizes where none are given, and where a chart is asked for.
const SIZES: [&str; 5] = ["1%", "2%", "5%", "10%", "20%"];
const SIZES_OF_A_CHART: [&str; 9] = ["0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%", "20%", "50%"];

/// Simulate replacement policies over page traces: misses and write-backs by size of cache
///
/// A TRACE is a file, `-` for the standard input, or `generate:SPEC` (`evenkeel trace formats` lists
/// both). A trace too large for memory is sampled: --sample runs every policy on a share of the pages,
/// --curve with --sample or --sample-pages gives LRU's whole curve in one pass. Exit codes: 0 done, 1
/// wrong usage or an unreadable trace, 130 interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Traces
    #[arg(value_name = "TRACE", required_unless_present = "list_policies")]
    traces: Vec<PathBuf>,
    /// Policies, such as lru,clock_sweep(cap=10),optimum; all where not given
    #[arg(long, value_name = "P[,P..]", conflicts_with = "curve")]
    policy: Vec<String>,
    /// Sizes: pages (1000), shares of the trace's pages (5%), bytes (64MiB); 1%,2%,5%,10%,20% where
    /// not given, more for a curve or a plot
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    cache: Vec<String>,
    /// LRU at all sizes from one pass instead of policies size by size
    #[arg(long, conflicts_with_all = ["by_class", "steps", "warm_up"])]
    curve: bool,
    /// Look at this share of the pages only, such as 1%; figures are estimates with a 95% margin
    #[arg(long, value_name = "SHARE", value_parser = sample, conflicts_with = "by_class")]
    sample: Option<f64>,
    /// Look at so many pages, whatever the trace's length, for a curve
    #[arg(long, value_name = "N", requires = "curve", conflicts_with = "sample")]
    sample_pages: Option<u32>,
    /// Draw the miss ratios: FILE.svg for one trace, FILE.html for a page of all with the numbers
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Share of the references that fill the cache before counting begins, such as 0.1 or 10%
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0")]
    warm_up: f64,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show also misses by class of page (relation and page kind), where the trace has it
    #[arg(long)]
    by_class: bool,
    /// Show also how many frames a policy looks at per victim
    #[arg(long)]
    steps: bool,
    /// Leave out references that repeat the page of the one before
    #[arg(long)]
    collapse_repeats: bool,
    /// References in a second, for delays of policies where the trace has no times
    #[arg(long, value_name = "R", value_parser = rate, default_value = "1000")]
    references_per_second: f64,
    /// Seed of policies that draw, and of samples
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at the same time; as many as there are processors where not given. Changes no result
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroU32>,
    /// List the policies and their parameters
    #[arg(long)]
    list_policies: bool,
    /// The traces' format, where it is not recognised
    #[arg(long, value_name = "FORMAT", help_heading = "Reading")]
    trace_format: Option<trace::Format>,
    #[command(flatten)]
    content: ContentOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
}

/// What every trace's work shares.
struct Session {
    runtime: Arc<dyn Runtime>,
    stop: Arc<AtomicBool>,
    jobs: usize,
    /// As asked for; none where nothing was.
    sizes: Vec<CacheSize>,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let registry = Registry::standard();
    if arguments.list_policies {
        return super::trace::print(&output::policies(&registry));
    }
    let choices = choices(&registry, &arguments.policy)?;
    let sizes = sizes(&arguments.cache)?;
    let plot = arguments.plot.as_deref();
    let plot = plot.map(|path| Plot::new(path, arguments.traces.len())).transpose()?;
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let stop = crate::interruption::listen(&runtime)?.flag;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = arguments.jobs.map_or(processors, |jobs| jobs.get() as usize);
    let session = Session { runtime, stop, jobs, sizes };
    let mut all = Vec::new();
    for path in &arguments.traces {
        let results = if arguments.curve {
            curve::of(&session, &arguments, path)?
        } else {
            policies::simulate(&session, &arguments, &choices, path)?
        };
        let Some(results) = results else { return Ok(Outcome::Interrupted) };
        all.push(results);
    }
    if let Some(plot) = plot {
        plot.write(&all)?;
    }
    let text = match arguments.format {
        Format::Csv => output::csv(&all),
        Format::Json => output::json(&all)?,
        Format::Text if arguments.curve => {
            all.iter().map(output::curve).collect::<Vec<_>>().join("\n")
        }
        Format::Text => {
            let pieces: Vec<String> = all
                .iter()
                .map(|results| output::text(results, arguments.by_class, arguments.steps))
                .collect();
            pieces.join("\n")
        }
    };
    super::trace::print(&text)
}

impl Arguments {
    fn open(&self, path: &Path) -> anyhow::Result<TraceReader> {
        Ok(TraceReader::open(path, &self.content.options(self.trace_format))?)
    }

    /// Sizes of a table or chart, where none are given.
    fn default_sizes(&self) -> Vec<String> {
        let sizes: &[&str] = if self.plot.is_some() { &SIZES_OF_A_CHART } else { &SIZES };
        sizes.iter().map(|size| (*size).to_owned()).collect()
    }
}

impl Session {
    /// Tells how far the reading of a trace has come; false once interrupted.
    fn progress(&self, path: &Path) -> impl FnMut(Position) -> bool {
        self.progress_of(&format!("reading {}", path.display()))
    }

    fn progress_of(&self, what: &str) -> impl FnMut(Position) -> bool + use<> {
        let mut progress = TraceProgress::new(what);
        let stop = Arc::clone(&self.stop);
        move |position| {
            progress.tell(position);
            !stop.load(Ordering::Relaxed)
        }
    }

    /// The sizes asked for, else `otherwise`, in frames; ascending, each once.
    fn frames(
        &self,
        facts: &Facts,
        otherwise: impl FnOnce() -> Vec<String>,
    ) -> anyhow::Result<Vec<u32>> {
        let usual = if self.sizes.is_empty() { sizes(&otherwise())? } else { Vec::new() };
        let pages = u32::try_from(facts.pages).unwrap_or(u32::MAX);
        let all = self.sizes.iter().chain(&usual);
        let frames: Result<Vec<u32>, _> =
            all.map(|size| size.frames(pages, facts.page_bytes)).collect();
        let mut frames = frames.context("--cache")?;
        frames.sort_unstable();
        frames.dedup();
        Ok(frames)
    }
}

fn sizes(texts: &[String]) -> anyhow::Result<Vec<CacheSize>> {
    let sizes: Result<Vec<CacheSize>, _> = texts.iter().map(|text| text.parse()).collect();
    sizes.context("--cache")
}

fn choices(registry: &Registry, texts: &[String]) -> anyhow::Result<Vec<Choice>> {
    if texts.is_empty() {
        return Ok(Choice::all(registry));
    }
    let mut choices = Vec::new();
    for text in texts {
        for choice in
            Choice::parse_list(registry, text).with_context(|| format!("--policy '{text}'"))?
        {
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
    }
    Ok(choices)
}

/// A share from 0 to below 1, or a percentage.
fn share(text: &str) -> Result<f64, String> {
    ratio(text)
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| "a share from 0 to below 1 is wanted, such as 0.1 or 10%".to_owned())
}

/// A share above 0 and at most 1, or a percentage.
fn sample(text: &str) -> Result<f64, String> {
    ratio(text)
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| "a share above 0 and at most 1 is wanted, such as 0.01 or 1%".to_owned())
}

fn ratio(text: &str) -> Option<f64> {
    match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.trim().parse::<f64>().ok(),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|rate| rate.is_finite() && *rate >= 1e-3)
        .ok_or_else(|| "references in a second, at least 0.001, are wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_below_one() {
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("0.25"), Ok(0.25));
        for text in ["1", "100%", "-1%", "NaN", "", "x"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert_eq!(sample("1%"), Ok(0.01));
        assert_eq!(sample("1"), Ok(1.0));
        for text in ["0", "0%", "101%", "-1", "NaN", "x"] {
            assert!(sample(text).is_err(), "{text}");
        }
        for text in ["0", "-1", "NaN", "inf"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
