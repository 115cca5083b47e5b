//! What the seconds within the runs say about the certainty of a pair.
//!
//! The spread between pairs holds the spread within runs already, so it is the better judge; but a few
//! pairs may agree by luck. Then the interval is as wide as the seconds alone would make it. The bootstrap
//! of blocks of seconds has a closed form for a mean (the variance of the blocks over their number), so
//! nothing is drawn. Blocks of the two runs of a pair are taken at the same time of the run and
//! subtracted: both runs have the same arrivals, and what a run does in its course (a cache that fills)
//! is no uncertainty of their difference.
//!
//! Only throughput is a mean of its seconds. A percentile is not: one second in a stall moves the mean of
//! the seconds' medians by far more than it moves the run's median, and an interval made from it would
//! hide every true change of the median. For percentiles the pairs alone decide.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::compare::Pair;
use super::measure::Measure;
use super::power::t_quantile;
use super::sign_flip::{mean, standard_deviation};
use crate::experiment::document::{Run, TimelineSecond};

/// Least and greatest length of a block: long enough to hold a short stall whole.
const BLOCK_SECONDS: (usize, usize) = (10, 30);

/// Fewer blocks in a run say nothing of their spread.
const BLOCKS_MIN: usize = 3;

/// The standard error of the mean over all pairs, as far as the seconds make it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WithinRuns {
    /// Of the mean of the pairs' log ratios.
    pub standard_error: f64,
    /// Degrees of freedom behind it.
    pub degrees: f64,
}

impl WithinRuns {
    /// Half the width of the interval at level `alpha`.
    #[must_use]
    pub fn half_width(&self, alpha: f64) -> Option<f64> {
        Some(t_quantile(1.0 - alpha / 2.0, self.degrees)? * self.standard_error)
    }

    /// Two-sided p of no change, were the seconds all there is.
    #[must_use]
    pub fn p(&self, centre: f64) -> Option<f64> {
        if self.standard_error <= 0.0 {
            return None;
        }
        let student = StudentsT::new(0.0, 1.0, self.degrees).ok()?;
        let p = 2.0 * student.sf(centre.abs() / self.standard_error);
        p.is_finite().then(|| p.clamp(0.0, 1.0))
    }
}

/// Of `measure` over `pairs`; `None` where the timelines cannot tell.
#[must_use]
pub fn of(measure: &Measure, pairs: &[Pair<'_>]) -> Option<WithinRuns> {
    if measure.name() != "throughput" {
        return None;
    }
    let (mut variance, mut degrees) = (0.0, 0.0);
    for (against, run) in pairs {
        let (a, b) = (blocks(against, run)?, blocks(run, against)?);
        let differences: Vec<f64> = b.iter().zip(&a).map(|(b, a)| b - a).collect();
        if differences.len() < BLOCKS_MIN {
            return None;
        }
        let count = differences.len() as f64;
        variance += standard_deviation(&differences)?.powi(2) / count;
        degrees += count - 1.0;
    }
    let standard_error = variance.sqrt() / pairs.len() as f64;
    (standard_error.is_finite() && degrees >= 1.0).then_some(WithinRuns { standard_error, degrees })
}

/// The blocks of `run`, each relative to the run's level so that differences are log ratios; as long as
/// those of its `partner`.
fn blocks(run: &Run, partner: &Run) -> Option<Vec<f64>> {
    let seconds = run.timeline.len().min(partner.timeline.len());
    let length = (seconds / 10).clamp(BLOCK_SECONDS.0, BLOCK_SECONDS.1);
    let timeline = run.timeline.get(..seconds)?;
    let values: Vec<f64> = timeline.chunks_exact(length).map(finished).collect();
    let level = mean(&values).filter(|level| *level > 0.0)?;
    Some(values.iter().map(|value| value / level).collect())
}

fn finished(seconds: &[TimelineSecond]) -> f64 {
    seconds.iter().map(|second| second.finished as f64).sum()
}
