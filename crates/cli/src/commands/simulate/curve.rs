//! LRU at all sizes from one pass: exact from a trace in memory, or estimated from a sample while the
//! trace streams by.

use std::cell::RefCell;
use std::path::Path;

use evenkeel_cachesim::miniature::Repeats;
use evenkeel_cachesim::sampled_curve::{SampledLru, Sampling, SamplingError};
use evenkeel_cachesim::simulate::Observer;
use evenkeel_cachesim::stack_distance::LruCurve;
use evenkeel_cachesim::trace::{self, Access, Position};

use super::results::{Cell, Facts, Results, Row, Sample};
use super::{Arguments, Session};

/// Reads the trace and makes the curve. `None` when interrupted.
pub(super) fn of(
    session: &Session,
    arguments: &Arguments,
    path: &Path,
) -> anyhow::Result<Option<Results>> {
    let sampling = match (arguments.sample, arguments.sample_pages) {
        (Some(rate), _) => Sampling::Rate(rate),
        (None, Some(pages)) => Sampling::Pages(pages),
        (None, None) => return exact(session, arguments, path),
    };
    sampled(session, arguments, path, sampling)
}

fn exact(session: &Session, arguments: &Arguments, path: &Path) -> anyhow::Result<Option<Results>> {
    let mut reader = arguments.open(path)?;
    let mut progress = session.progress(path);
    let Some(trace) = trace::load_while(&mut reader, &mut progress)? else { return Ok(None) };
    drop(progress);
    let trace = if arguments.collapse_repeats { trace.without_repeats() } else { trace };
    let references = trace.references().len() as u64;
    let watcher = Watcher {
        progress: RefCell::new(session.progress_of(&format!("the curve of {}", trace.name()))),
        position: RefCell::new(Position {
            total_references: Some(references),
            ..Position::default()
        }),
    };
    let Some(curve) = LruCurve::of(&trace, &watcher) else { return Ok(None) };
    drop(watcher);
    let writes = trace.writes();
    let facts = Facts {
        name: trace.name().to_owned(),
        references,
        pages: u64::from(trace.pages()),
        page_bytes: trace.page_bytes(),
        writes: Some(writes),
        has_writes: writes > 0,
        sample: None,
    };
    let sizes = session.frames(&facts, || round_sizes(1, facts.pages))?;
    let cells = sizes.iter().map(|frames| Cell::counted(curve.at(*frames))).collect();
    Ok(Some(results(facts, sizes, cells)))
}

fn sampled(
    session: &Session,
    arguments: &Arguments,
    path: &Path,
    sampling: Sampling,
) -> anyhow::Result<Option<Results>> {
    let mut reader = arguments.open(path)?;
    let mut sample = SampledLru::new(sampling, arguments.seed)?;
    let mut repeats = Repeats::new(arguments.collapse_repeats);
    let mut has_writes = false;
    let mut progress = session.progress(path);
    let is_whole = trace::scan(&mut reader, &mut progress, |event, _| {
        let Some(access) = repeats.read(event.page, event.access) else {
            return Ok::<(), SamplingError>(());
        };
        has_writes |= access != Access::Read;
        if access == Access::Dirtied {
            sample.dirtied(event.page);
            return Ok(());
        }
        sample.reference(event.page, access == Access::Write)
    })?;
    if !is_whole {
        return Ok(None);
    }
    let curve = sample.finish();
    let facts = Facts {
        name: reader.name().to_owned(),
        references: curve.requests,
        pages: rounded(curve.pages),
        page_bytes: reader.page_bytes(),
        writes: None,
        has_writes,
        sample: Some(Sample {
            rate: curve.rate,
            pages: curve.sampled_pages,
            references: curve.sampled_references,
        }),
    };
    // Smaller caches cannot be told from none.
    let smallest = rounded(4.0 / curve.rate).max(1);
    let first = if curve.rate < 1.0 { smallest } else { 1 };
    let sizes = session.frames(&facts, || round_sizes(first, facts.pages))?;
    let cell = |frames: &u32| {
        Cell::estimated(curve.requests, curve.misses(*frames), curve.write_backs(*frames))
    };
    let cells = sizes.iter().map(cell).collect();
    Ok(Some(results(facts, sizes, cells)))
}

fn results(facts: Facts, sizes: Vec<u32>, cells: Vec<Cell>) -> Results {
    let rows = vec![Row { policy: "lru".to_owned(), is_bound: false, cells }];
    Results { facts, classes: Vec::new(), sizes, rows, doubled: Vec::new() }
}

/// 1, 2, 5, 10, ... from `first` up to `pages`, and these.
fn round_sizes(first: u64, pages: u64) -> Vec<String> {
    let pages = pages.max(1);
    let mut sizes = Vec::new();
    let mut decade = 1_u64;
    while decade <= pages {
        sizes.extend([1, 2, 5].map(|part| decade.saturating_mul(part)));
        decade = decade.saturating_mul(10);
    }
    sizes.retain(|size| (first..pages).contains(size));
    sizes.push(pages);
    sizes.iter().map(u64::to_string).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is positive"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Tells how far the pass has come, and ends it when interrupted.
struct Watcher<F> {
    progress: RefCell<F>,
    position: RefCell<Position>,
}

impl<F: FnMut(Position) -> bool> Observer for Watcher<F> {
    fn advanced(&self, references: usize) -> bool {
        let mut position = self.position.borrow_mut();
        position.references += references as u64;
        self.progress.borrow_mut()(*position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_round_and_end_with_all_pages() {
        assert_eq!(round_sizes(1, 30), ["1", "2", "5", "10", "20", "30"]);
        assert_eq!(round_sizes(40, 1000), ["50", "100", "200", "500", "1000"]);
        assert_eq!(round_sizes(400, 30), ["30"]);
        assert_eq!(round_sizes(1, 0), ["1"]);
    }
}
