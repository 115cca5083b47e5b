//! Policies run over a trace, or over a sample of it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::dense::DenseTrace;
use evenkeel_cachesim::miniature::Miniature;
use evenkeel_cachesim::simulate::SimulationOptions;
use evenkeel_cachesim::trace::{self, SpatialSample};
use evenkeel_replacement::policy::MAX_FRAMES;

use super::results::{Cell, Facts, Results, Row, Sample};
use super::runs::Runner;
use super::{Arguments, Session};

/// What is run over.
enum Subject {
    Whole(Arc<DenseTrace>),
    Sample(Miniature),
}

/// Reads the trace and runs all policies at all sizes. `None` when interrupted.
pub(super) fn simulate(
    session: &Session,
    arguments: &Arguments,
    choices: &[Choice],
    path: &Path,
) -> anyhow::Result<Option<Results>> {
    let Some(subject) = Subject::load(session, arguments, path)? else { return Ok(None) };
    let facts = subject.facts();
    let sizes = session.frames(&facts, || arguments.default_sizes())?;
    let runner = subject.runner(session, arguments);
    let asked: Vec<(Choice, u32)> = choices
        .iter()
        .flat_map(|choice| sizes.iter().map(|frames| (choice.clone(), *frames)))
        .collect();
    let cells = |asked| subject.cells(&runner, arguments.warm_up, asked);
    let Some(done) = cells(asked)? else { return Ok(None) };
    let rows: Vec<Row> = choices
        .iter()
        .zip(done.chunks(sizes.len()))
        .map(|(choice, cells)| Row {
            policy: choice.to_string(),
            is_bound: *choice == Choice::Optimum,
            cells: cells.to_vec(),
        })
        .collect();
    let best = |size: usize| {
        let pools = rows.iter().enumerate().filter(|(_, row)| !row.is_bound);
        pools.min_by_key(|(_, row)| row.cells[size].misses.count).map(|(index, _)| index)
    };
    let winners: Vec<(usize, u32)> = sizes
        .iter()
        .enumerate()
        .filter_map(|(size, frames)| {
            let frames = frames.checked_mul(2).filter(|frames| *frames <= MAX_FRAMES)?;
            Some((best(size)?, frames))
        })
        .collect();
    let twice = winners.iter().map(|(row, frames)| (choices[*row].clone(), *frames)).collect();
    let Some(doubled) = cells(twice)? else { return Ok(None) };
    let doubled = winners.into_iter().map(|(row, _)| row).zip(doubled).collect();
    let classes = match &subject {
        Subject::Whole(trace) => trace.class_names().to_vec(),
        // The miniature's classes are its groups.
        Subject::Sample(_) => Vec::new(),
    };
    Ok(Some(Results { facts, classes, sizes, rows, doubled }))
}

impl Subject {
    fn load(session: &Session, arguments: &Arguments, path: &Path) -> anyhow::Result<Option<Self>> {
        let mut reader = arguments.open(path)?;
        let mut progress = session.progress(path);
        let Some(rate) = arguments.sample else {
            let trace = trace::load_while(&mut reader, &mut progress)?;
            return Ok(trace.map(|trace| {
                let is_collapsing = arguments.collapse_repeats;
                Self::Whole(Arc::new(if is_collapsing { trace.without_repeats() } else { trace }))
            }));
        };
        let sample = SpatialSample::new(rate, arguments.seed).context("--sample")?;
        let is_collapsing = arguments.collapse_repeats;
        let miniature = Miniature::load(&mut reader, sample, is_collapsing, &mut progress)?;
        Ok(miniature.map(Self::Sample))
    }

    const fn trace(&self) -> &Arc<DenseTrace> {
        match self {
            Self::Whole(trace) => trace,
            Self::Sample(miniature) => miniature.trace(),
        }
    }

    fn facts(&self) -> Facts {
        let trace = self.trace();
        let writes = trace.writes();
        let (references, pages) = (trace.references().len() as u64, u64::from(trace.pages()));
        let whole = Facts {
            name: trace.name().to_owned(),
            references,
            pages,
            page_bytes: trace.page_bytes(),
            writes: Some(writes),
            has_writes: writes > 0,
            sample: None,
        };
        match self {
            Self::Whole(_) => whole,
            Self::Sample(miniature) => Facts {
                references: miniature.requests(),
                pages: miniature.pages(),
                writes: None,
                sample: Some(Sample { rate: miniature.rate(), pages, references }),
                ..whole
            },
        }
    }

    fn runner(&self, session: &Session, arguments: &Arguments) -> Runner {
        let per_second = arguments.references_per_second;
        let options = match self {
            Self::Whole(trace) => SimulationOptions {
                warm_up: (trace.references().len() as f64 * arguments.warm_up) as usize,
                references_per_s: per_second,
            },
            Self::Sample(miniature) => SimulationOptions {
                warm_up: miniature.warm_up(arguments.warm_up),
                references_per_s: miniature.references_per_s(per_second),
            },
        };
        Runner {
            runtime: Arc::clone(&session.runtime),
            stop: Arc::clone(&session.stop),
            trace: Arc::clone(self.trace()),
            seed: arguments.seed,
            options,
            jobs: session.jobs,
        }
    }

    /// Each policy with so many frames.
    fn cells(
        &self,
        runner: &Runner,
        warm_up: f64,
        asked: Vec<(Choice, u32)>,
    ) -> anyhow::Result<Option<Vec<Cell>>> {
        let Self::Sample(miniature) = self else {
            let done = runner.run(asked)?;
            return Ok(done.map(|done| done.into_iter().map(Cell::exact).collect()));
        };
        // For each, the runs of the estimate and of the ends of its margin; each run once.
        let mut runs: Vec<(Choice, u32)> = Vec::new();
        let mut places = Vec::with_capacity(asked.len());
        for (choice, frames) in asked {
            let Some(scaled) = miniature.frames(frames) else {
                bail!(
                    "a cache of {frames} pages is not half a page in a sample of {}: take a larger \
                     --sample, or larger sizes",
                    evenkeel_lab::report::number::percent(miniature.rate())
                );
            };
            let mut place = |frames: u32| {
                let run = (choice.clone(), frames);
                runs.iter().position(|known| *known == run).unwrap_or_else(|| {
                    runs.push(run);
                    runs.len() - 1
                })
            };
            let middle = place(scaled.frames);
            let ends = scaled.around.map(|frames| (frames > 0).then(|| place(frames)));
            places.push((middle, ends));
        }
        let Some(done) = runner.run(runs)? else { return Ok(None) };
        let cell = |(middle, ends): (usize, [Option<usize>; 2])| {
            let ends = ends.map(|place| place.map(|place| &done[place]));
            let found = miniature.estimates(warm_up, &done[middle], ends);
            let run = Some(done[middle].clone());
            Cell { run, ..Cell::estimated(found.requests, found.misses, found.write_backs) }
        };
        Ok(Some(places.into_iter().map(cell).collect()))
    }
}
