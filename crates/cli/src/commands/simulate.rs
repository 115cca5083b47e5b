//! `evenkeel simulate`: what each policy does with a trace at each size of cache.

mod output;
mod runs;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_cachesim::cache_size::CacheSize;
use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::dense::DenseTrace;
use evenkeel_cachesim::simulate::SimulationOptions;
use evenkeel_cachesim::trace::{self, Columns};
use evenkeel_replacement::registry::Registry;

use super::trace::TraceProgress;
use crate::exit::Outcome;
use runs::{Cell, Runner};

/// Simulate replacement policies over page traces: misses and dirty evictions by size of cache
///
/// A TRACE is a file, `-` for the standard input, or `generate:SPEC` (`evenkeel trace formats` lists
/// both). Exit codes: 0 done, 1 wrong usage or an unreadable trace, 130 interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Traces
    #[arg(value_name = "TRACE", required_unless_present = "list_policies")]
    traces: Vec<PathBuf>,
    /// Policies, such as lru,clock_sweep(cap=10),optimum; all where not given
    #[arg(long, value_name = "P[,P..]")]
    policy: Vec<String>,
    /// Sizes: pages (1000), shares of the trace's pages (5%), bytes (64MiB)
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "1%,2%,5%,10%,20%")]
    cache: Vec<String>,
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
    /// Seed of policies that draw
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
    /// Which column of a CSV file is what
    #[arg(long, value_name = "MAP", help_heading = "Reading")]
    columns: Option<Columns>,
    /// Bytes of a page
    #[arg(long, value_name = "BYTES", help_heading = "Reading")]
    page_size: Option<NonZeroU32>,
    /// Names of relations, for PostgreSQL's formats
    #[arg(long, value_name = "FILE", help_heading = "Reading")]
    relations: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
}

/// A trace's results.
struct Results {
    trace: Arc<DenseTrace>,
    choices: Vec<Choice>,
    /// As asked for, and in frames; ascending, each number of frames once.
    sizes: Vec<(CacheSize, u32)>,
    /// By policy, then size.
    cells: Vec<Vec<Cell>>,
    /// By size: the policy with the fewest misses of those that a pool can have, at twice the size.
    doubled: Vec<(usize, Cell)>,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let registry = Registry::standard();
    if arguments.list_policies {
        return super::trace::print(&output::policies(&registry));
    }
    let choices = choices(&registry, &arguments.policy)?;
    let sizes = arguments
        .cache
        .iter()
        .map(|text| text.parse::<CacheSize>())
        .collect::<Result<Vec<_>, _>>()
        .context("--cache")?;
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let interruption = crate::interruption::listen(&runtime)?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = arguments.jobs.map_or(processors, |jobs| jobs.get() as usize);
    let mut all = Vec::new();
    for path in &arguments.traces {
        let trace = Arc::new(load(&arguments, path)?);
        let sizes = frames(&sizes, &trace)?;
        let warm_up = (trace.references().len() as f64 * arguments.warm_up) as usize;
        let options =
            SimulationOptions { warm_up, references_per_s: arguments.references_per_second };
        let runner = Runner {
            runtime: Arc::clone(&runtime),
            stop: Arc::clone(&interruption.flag),
            trace: Arc::clone(&trace),
            seed: arguments.seed,
            options,
            jobs,
        };
        let Some(results) = simulate(&runner, &choices, sizes)? else {
            return Ok(Outcome::Interrupted);
        };
        all.push(results);
    }
    let text = match arguments.format {
        Format::Csv => output::csv(&all),
        Format::Json => output::json(&all)?,
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

fn simulate(
    runner: &Runner,
    choices: &[Choice],
    sizes: Vec<(CacheSize, u32)>,
) -> anyhow::Result<Option<Results>> {
    let asked: Vec<(Choice, u32)> = choices
        .iter()
        .flat_map(|choice| sizes.iter().map(|(_, frames)| (choice.clone(), *frames)))
        .collect();
    let Some(done) = runner.run(asked)? else { return Ok(None) };
    let cells: Vec<Vec<Cell>> = done.chunks(sizes.len()).map(<[Cell]>::to_vec).collect();
    let best = |size: usize| {
        let pools = choices.iter().enumerate().filter(|(_, choice)| **choice != Choice::Optimum);
        pools.map(|(index, _)| index).min_by_key(|index| cells[*index][size].counts.misses)
    };
    let winners: Vec<usize> = (0..sizes.len()).filter_map(best).collect();
    let twice = winners
        .iter()
        .zip(&sizes)
        .filter_map(|(winner, (_, frames))| {
            let frames = frames.checked_mul(2)?;
            let fits = frames <= evenkeel_replacement::policy::MAX_FRAMES;
            fits.then(|| (choices[*winner].clone(), frames))
        })
        .collect();
    let Some(doubled) = runner.run(twice)? else { return Ok(None) };
    let doubled = winners.into_iter().zip(doubled).collect();
    let trace = Arc::clone(&runner.trace);
    Ok(Some(Results { trace, choices: choices.to_vec(), sizes, cells, doubled }))
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

fn load(arguments: &Arguments, path: &std::path::Path) -> anyhow::Result<DenseTrace> {
    let options = trace::Options {
        format: arguments.trace_format,
        columns: arguments.columns.clone(),
        page_bytes: arguments.page_size,
        relations: arguments.relations.clone(),
        ..trace::Options::default()
    };
    let mut progress = TraceProgress::new(&format!("reading {}", path.display()));
    let trace = trace::load(path, &options, &mut |position| progress.tell(position))?;
    Ok(if arguments.collapse_repeats { trace.without_repeats() } else { trace })
}

fn frames(sizes: &[CacheSize], trace: &DenseTrace) -> anyhow::Result<Vec<(CacheSize, u32)>> {
    let mut frames = Vec::new();
    for size in sizes {
        let count = size.frames(trace.pages(), trace.page_bytes()).context("--cache")?;
        frames.push((*size, count));
    }
    frames.sort_by_key(|(_, frames)| *frames);
    frames.dedup_by_key(|(_, frames)| *frames);
    if frames.is_empty() {
        bail!("--cache names no size: write for example --cache 1%,5%,64MiB");
    }
    Ok(frames)
}

/// A share from 0 to below 1, or a percentage.
fn share(text: &str) -> Result<f64, String> {
    let value = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse::<f64>(),
    };
    value
        .ok()
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| "a share from 0 to below 1 is wanted, such as 0.1 or 10%".to_owned())
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
        for text in ["0", "-1", "NaN", "inf"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
