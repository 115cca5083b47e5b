//! LRU at every size at once, exactly, in one pass over the trace.
//!
//! A reference hits in a cache of C frames when fewer than C other pages were used since its page's
//! last use ([`crate::lru_stack`]). Dirty evictions follow from the same distances: between two uses a
//! page leaves every cache smaller than the distance, and is dirty there unless it was missed, and so
//! read again, since its last write.
//!
//! - **Source**: R. Mattson et al., IBM Systems Journal 9(2), 1970; for write-backs J. Thompson,
//!   A. Smith, ACM TOCS 7(1), 1989.
//! - **Memory**: beside the trace 32 bytes a page.

use crate::dense::{DenseTrace, WRITE};
use crate::lru_stack::LruStack;
use crate::simulate::{Counts, Observer};

/// References between two reports of progress.
const CHUNK: usize = 65_536;

/// A page that was never written is dirty in no cache.
const NEVER_DIRTY: u32 = u32::MAX;

/// What LRU does at every size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LruCurve {
    requests: u64,
    /// By number of frames, from 0 to the number of pages.
    misses: Vec<u64>,
    write_backs: Vec<u64>,
}

impl LruCurve {
    /// Runs over the whole of `trace`. `None` when `observer` ended it.
    pub fn of(trace: &DenseTrace, observer: &impl Observer) -> Option<Self> {
        let pages = trace.pages() as usize;
        let mut stack = LruStack::new(trace.pages());
        let mut hits_at = vec![0_u64; pages + 1];
        // Differences along the sizes, then sums.
        let mut write_backs = vec![0_u64; pages + 2];
        // By page: the smallest cache in which it is dirty now.
        let mut dirty_from = vec![NEVER_DIRTY; pages];
        for references in trace.references().chunks(CHUNK) {
            for reference in references {
                let page = reference & !WRITE;
                let dirty_from = &mut dirty_from[page as usize];
                if let Some(distance) = stack.touch(page) {
                    hits_at[distance as usize] += 1;
                    count_write_back(&mut write_backs, *dirty_from, distance);
                    *dirty_from = (*dirty_from).max(distance);
                }
                if reference & WRITE != 0 {
                    *dirty_from = 1;
                }
            }
            if !observer.advanced(references.len()) {
                return None;
            }
        }
        for (page, depth) in stack.top_down().zip(1_u32..) {
            count_write_back(&mut write_backs, dirty_from[page as usize], depth);
        }
        let requests = trace.references().len() as u64;
        let mut misses = requests;
        for place in &mut hits_at {
            misses -= *place;
            *place = misses;
        }
        let mut sum = 0_u64;
        for place in &mut write_backs {
            sum = sum.wrapping_add(*place);
            *place = sum;
        }
        Some(Self { requests, misses: hits_at, write_backs })
    }

    /// The counts with so many frames.
    #[must_use]
    pub fn at(&self, frames: u32) -> Counts {
        let index = (frames as usize).min(self.misses.len().saturating_sub(1));
        let value = |of: &[u64]| of.get(index).copied().unwrap_or(0);
        Counts {
            requests: self.requests,
            misses: value(&self.misses),
            write_backs: value(&self.write_backs),
        }
    }

    /// The number of frames from which on nothing is ever missed twice.
    #[must_use]
    pub fn largest_useful(&self) -> u32 {
        let last = self.misses.last().copied().unwrap_or(0);
        let index = self.misses.partition_point(|misses| *misses > last);
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}

/// In caches of `dirty_from` to `distance` - 1 frames the page left dirty.
#[inline]
fn count_write_back(differences: &mut [u64], dirty_from: u32, distance: u32) {
    if dirty_from < distance {
        let start = &mut differences[dirty_from as usize];
        *start = start.wrapping_add(1);
        let end = &mut differences[distance as usize];
        *end = end.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{DenseTraceBuilder, Reference};
    use crate::simulate::{SimulationOptions, Unobserved, simulate};
    use evenkeel_replacement::lru::Lru;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_curve_is_that_of_a_simulation_at_every_size_with_its_write_backs(
            pages in proptest::collection::vec((0_u64..40, 0_u8..4), 0..600)
        ) {
            let mut builder = DenseTraceBuilder::new("t", 8192);
            for (page, write) in pages {
                let reference = Reference { is_write: write == 0, ..Reference::default() };
                builder.reference(page, reference).unwrap();
            }
            let trace = builder.finish();
            let curve = LruCurve::of(&trace, &Unobserved).unwrap();
            let options = SimulationOptions::default();
            for frames in 1..45 {
                let run = simulate(Lru::new(frames), frames, &trace, &options, &Unobserved).unwrap();
                prop_assert_eq!(curve.at(frames), run.counts, "{} frames", frames);
            }
        }
    }
}
