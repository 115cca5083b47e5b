//! What is known of a trace after simulation, whichever way it was come by.

use evenkeel_cachesim::sampled_curve::Estimate;
use evenkeel_cachesim::simulate::{Counts, Simulated};

/// A trace's results.
pub(super) struct Results {
    pub(super) facts: Facts,
    /// Names of the classes of pages.
    pub(super) classes: Vec<String>,
    /// Sizes in frames, ascending, each once.
    pub(super) sizes: Vec<u32>,
    pub(super) rows: Vec<Row>,
    /// By size: which row misses least of those that a pool can have, and its cell at twice the size.
    pub(super) doubled: Vec<(usize, Cell)>,
}

/// What a trace consists of.
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) references: u64,
    /// Distinct pages; estimated where there is a sample.
    pub(super) pages: u64,
    pub(super) page_bytes: u32,
    /// References that leave their page dirty; not known where there is a sample.
    pub(super) writes: Option<u64>,
    pub(super) has_writes: bool,
    pub(super) sample: Option<Sample>,
}

/// The part of a trace that was looked at.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// Share of the pages.
    pub(super) rate: f64,
    pub(super) pages: u64,
    pub(super) references: u64,
}

/// A policy at every size.
pub(super) struct Row {
    pub(super) policy: String,
    /// A bound that no pool can have, and not a policy.
    pub(super) is_bound: bool,
    pub(super) cells: Vec<Cell>,
}

/// One policy at one size.
#[derive(Clone)]
pub(super) struct Cell {
    /// References counted.
    pub(super) requests: u64,
    pub(super) misses: Count,
    pub(super) write_backs: Count,
    /// The run, where there was one; of a sample, the miniature's.
    pub(super) run: Option<Simulated>,
}

/// A number, exact or estimated.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) count: u64,
    /// The ends of the 95% interval, where it is an estimate.
    pub(super) interval: Option<(u64, u64)>,
}

impl Cell {
    pub(super) fn exact(run: Simulated) -> Self {
        Self { run: Some(run.clone()), ..Self::counted(run.counts) }
    }

    pub(super) fn counted(counts: Counts) -> Self {
        let exact = |count| Count { count, interval: None };
        Self {
            requests: counts.requests,
            misses: exact(counts.misses),
            write_backs: exact(counts.write_backs),
            run: None,
        }
    }

    pub(super) fn estimated(requests: u64, misses: Estimate, write_backs: Estimate) -> Self {
        Self {
            requests,
            misses: Count::estimated(requests, misses),
            write_backs: Count::estimated(requests, write_backs),
            run: None,
        }
    }

    /// A count of this cell as a share of the references.
    pub(super) fn ratio(&self, count: u64) -> Option<f64> {
        (self.requests > 0).then(|| count as f64 / self.requests as f64)
    }
}

impl Count {
    fn estimated(requests: u64, estimate: Estimate) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count is positive and no larger"
        )]
        let count = |ratio: f64| (ratio * requests as f64).round() as u64;
        let interval = Some((count(estimate.low), count(estimate.high)));
        Self { count: count(estimate.ratio), interval }
    }
}
