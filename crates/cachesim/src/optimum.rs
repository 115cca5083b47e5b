//! The clairvoyant optimum: evict the page whose next use is farthest away.
//!
//! - **Source**: L. Belady, IBM Systems Journal 5(2), 1966 (MIN); optimality: R. Mattson et al.,
//!   IBM Systems Journal 9(2), 1970.
//! - A page that is missed always enters, as a buffer pool must let it. A cache that may refuse pages
//!   can miss less than this.
//! - Fewest misses, not fewest write-backs: those are counted and not minimised.
//! - **Ties**: only pages that are never used again have equal next uses; of them the one whose last
//!   use lies farthest back leaves first. Which one leaves does not change the misses.
//! - **Cost**: one pass backwards for the next uses, shared by all sizes; then O(1) a reference, with
//!   six words touched at the most. **Memory**: 4 bytes a reference for the next uses; per size an
//!   eighth of a byte a reference and one byte a page.

use std::collections::VecDeque;

use crate::dense::{DenseTrace, WRITE};
use crate::position_set::PositionSet;
use crate::simulate::{Counts, Observer, Simulated, SimulationOptions, count_requests};

/// No further use.
const NEVER: u32 = u32::MAX;

/// References between two reports of progress.
const CHUNK: usize = 65_536;

/// For each reference of a trace, where its page is referenced next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextUses(Vec<u32>);

impl NextUses {
    /// Finds them, in one pass from the end.
    #[must_use]
    pub fn of(trace: &DenseTrace) -> Self {
        let mut next_of_page = vec![NEVER; trace.pages() as usize];
        let mut next = vec![NEVER; trace.references().len()];
        for (position, reference) in trace.references().iter().enumerate().rev() {
            let page = &mut next_of_page[(reference & !WRITE) as usize];
            // A trace has fewer than 2^32 references.
            let here = u32::try_from(position).unwrap_or(NEVER);
            next[position] = std::mem::replace(page, here);
        }
        Self(next)
    }
}

/// Runs the optimum with `frames` frames (at least 1) over `trace`, whose next uses are `next`.
/// `None` when `observer` ended it.
pub fn simulate_optimum(
    frames: u32,
    trace: &DenseTrace,
    next: &NextUses,
    options: &SimulationOptions,
    observer: &impl Observer,
) -> Option<Simulated> {
    let references = trace.references();
    let warm_up = options.warm_up.min(references.len());
    let mut cache = Cache {
        next_uses: PositionSet::new(references.len()),
        never_again: VecDeque::new(),
        is_dirty: vec![false; trace.pages() as usize],
        resident: 0,
    };
    let mut misses = 0;
    let mut write_backs = 0;
    let mut by_class = vec![Counts::default(); trace.class_names().len()];
    let class_of = |page: u32| trace.class_of_page().map(|of| usize::from(of[page as usize]));
    for (position, (reference, next)) in references.iter().zip(&next.0).enumerate() {
        if position == warm_up {
            (misses, write_backs) = (0, 0);
            by_class.fill(Counts::default());
        }
        if position % CHUNK == CHUNK - 1 && !observer.advanced(CHUNK) {
            return None;
        }
        let page = reference & !WRITE;
        if cache.next_uses.contains(position) {
            cache.next_uses.remove(position);
        } else {
            misses += 1;
            if let Some(class) = class_of(page) {
                by_class[class].misses += 1;
            }
            if cache.resident < frames {
                cache.resident += 1;
            } else if let Some(evicted) = cache.evict(references)
                && std::mem::take(&mut cache.is_dirty[evicted as usize])
            {
                write_backs += 1;
                if let Some(class) = class_of(evicted) {
                    by_class[class].write_backs += 1;
                }
            }
        }
        if reference & WRITE != 0 {
            cache.is_dirty[page as usize] = true;
        }
        if *next == NEVER {
            cache.never_again.push_back(page);
        } else {
            cache.next_uses.insert(*next as usize);
        }
    }
    observer.advanced(references.len() % CHUNK);
    if warm_up == references.len() {
        (misses, write_backs) = (0, 0);
        by_class.fill(Counts::default());
    }
    let counted = &references[warm_up..];
    count_requests(&mut by_class, trace.class_of_page(), counted);
    Some(Simulated {
        counts: Counts { requests: counted.len() as u64, misses, write_backs },
        by_class,
        dirty_at_end: cache.is_dirty.iter().filter(|is_dirty| **is_dirty).count() as u64,
        ..Simulated::default()
    })
}

struct Cache {
    /// Of each page in the cache that is used again, where. A reference hits when its own position is
    /// in here.
    next_uses: PositionSet,
    /// Pages in the cache that are not used again, the earliest last use first.
    never_again: VecDeque<u32>,
    is_dirty: Vec<bool>,
    resident: u32,
}

impl Cache {
    fn evict(&mut self, references: &[u32]) -> Option<u32> {
        if let Some(page) = self.never_again.pop_front() {
            return Some(page);
        }
        let farthest = self.next_uses.last()?;
        self.next_uses.remove(farthest);
        Some(references[farthest] & !WRITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{DenseTraceBuilder, Reference};
    use crate::simulate::{Unobserved, simulate};
    use evenkeel_replacement::lru::Lru;
    use proptest::prelude::*;

    fn trace(pages: &[(u8, bool)]) -> DenseTrace {
        let mut builder = DenseTraceBuilder::new("t", 8192);
        for (page, is_write) in pages {
            let reference = Reference { is_write: *is_write, ..Reference::default() };
            builder.reference(u64::from(*page), reference).unwrap();
        }
        builder.finish()
    }

    /// By searching the future at every miss.
    fn naive(trace: &DenseTrace, frames: usize) -> u64 {
        let pages: Vec<u32> = trace.references().iter().map(|it| it & !WRITE).collect();
        let mut cache: Vec<u32> = Vec::new();
        let mut misses = 0;
        for (position, page) in pages.iter().enumerate() {
            if cache.contains(page) {
                continue;
            }
            misses += 1;
            if cache.len() == frames {
                let next = |page: &u32| {
                    pages[position..].iter().position(|later| later == page).unwrap_or(usize::MAX)
                };
                let farthest =
                    (0..cache.len()).max_by_key(|index| next(&cache[*index])).unwrap_or(0);
                cache.swap_remove(farthest);
            }
            cache.push(*page);
        }
        misses
    }

    fn optimum(trace: &DenseTrace, frames: u32) -> Simulated {
        let options = SimulationOptions::default();
        simulate_optimum(frames, trace, &NextUses::of(trace), &options, &Unobserved).unwrap()
    }

    #[test]
    fn beladys_own_example_has_its_misses() {
        // 1 2 3 4 1 2 5 1 2 3 4 5 with 3 frames: 7 faults, with 4: 6.
        let pages: Vec<(u8, bool)> =
            [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].map(|page| (page, false)).to_vec();
        let trace = trace(&pages);
        assert_eq!(optimum(&trace, 3).counts.misses, 7);
        assert_eq!(optimum(&trace, 4).counts.misses, 6);
    }

    #[test]
    fn a_page_that_was_written_is_written_back_once_when_it_leaves() {
        let trace = trace(&[(1, true), (1, true), (2, false), (3, true), (2, false)]);
        let result = optimum(&trace, 1);
        assert_eq!(result.counts, Counts { requests: 5, misses: 4, write_backs: 2 });
        assert_eq!(result.dirty_at_end, 0);
        assert_eq!(optimum(&trace, 3).dirty_at_end, 2);
    }

    proptest! {
        #[test]
        fn nothing_misses_less_than_the_optimum_which_is_that_of_a_search_of_the_future(
            pages in proptest::collection::vec((0_u8..20, any::<bool>()), 0..400),
            frames in 1_u32..12,
        ) {
            let trace = trace(&pages);
            let best = optimum(&trace, frames);
            prop_assert_eq!(best.counts.misses, naive(&trace, frames as usize));
            let options = SimulationOptions::default();
            let lru = simulate(Lru::new(frames), frames, &trace, &options, &Unobserved).unwrap();
            prop_assert!(best.counts.misses <= lru.counts.misses);
        }
    }
}
