//! LRU's curve from a sample of the pages, while the trace streams by: SHARDS.
//!
//! A page is in the sample with all its references or with none, decided by a hash
//! ([`SpatialSample`]). Of a sample of rate R, a reference stands for 1/R references, and the other
//! pages used since its page's last use stand for 1/R pages each. With a *fixed rate* the memory grows
//! with the trace's pages; with a *fixed size* the rate falls whenever the sample is full: the pages
//! with the largest hashes leave it.
//!
//! - **Source**: C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with
//!   SHARDS", FAST 2015. Different here: estimates are divided by the true number of references, which
//!   equals their SHARDS-adj and needs no adjusted bucket; a reference counted at rate R keeps its
//!   weight 1/R when the rate falls, which equals their rescaling of the histogram; and every estimate
//!   has a margin.
//! - **Margin** (95%): two errors are bounded one after the other. Which pages are in the sample: they
//!   fall into [`GROUPS`] groups by their hashes, each a sample of its own, and the spread of the
//!   groups' estimates gives Student's interval. How well the sample measures distance: of C pages about
//!   C R are in it, with a standard deviation of sqrt(C R (1 - R)), so the truth at C frames lies
//!   between the estimates at C ± 1.96 sqrt(C (1 - R) / R) frames. Below about 4/R frames that includes
//!   none, and the upper end says so.
//! - **Memory**: about 50 bytes a page of the sample, 90 with a fixed size, and at most 2 MiB for the
//!   counts.
//! - **Cost**: a hash for each reference, O(log sample) for those in the sample.

use std::collections::{BinaryHeap, HashMap};

use evenkeel_replacement::policy::MAX_FRAMES;
use foldhash::fast::FixedState;

use crate::lru_stack::LruStack;
use crate::trace::{SpatialSample, mix};

/// Independent groups of pages that give the margin.
pub const GROUPS: usize = 16;

/// Student's t with 15 degrees of freedom at 97.5%.
const STUDENT_T: f64 = 2.131_449_545_559_323;

/// The standard normal distribution at 97.5%.
const NORMAL_Z: f64 = 1.959_963_984_540_054;

/// Distances up to this one are counted apart; above, so many buckets share a doubling.
const EXACT: u64 = 256;

/// A page that was never written is dirty in no cache.
const NEVER_DIRTY: u64 = u64::MAX;

/// Fewest pages of a sample of fixed size: fewer say nothing.
pub const SAMPLE_PAGES_MIN: u32 = 64;

/// How the sample is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// This share of the pages, above 0 and at most 1.
    Rate(f64),
    /// At most so many pages, at least [`SAMPLE_PAGES_MIN`].
    Pages(u32),
}

/// A sample that cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// Not a share.
    #[error("a share of the pages above 0 and at most 1 is wanted, such as 0.01 or 1%, not {0}")]
    Rate(f64),
    /// Too few or too many.
    #[error("a sample has {SAMPLE_PAGES_MIN} to {MAX_FRAMES} pages, not {0}")]
    Pages(u32),
    /// The sample outgrew what a stack can hold.
    #[error("the sample has more than {MAX_FRAMES} pages: take a smaller share")]
    TooManyPages,
}

/// One number a group.
type Groups = [f64; GROUPS];

/// Takes a trace, reference by reference.
#[derive(Clone, Debug)]
pub struct SampledLru {
    sample: SpatialSample,
    limit: Option<usize>,
    /// Reciprocal of the current rate.
    weight: f64,
    slot_of: HashMap<u64, u32, FixedState>,
    /// Hash and page of what is in the sample, the largest hash on top; only with a fixed size.
    by_hash: BinaryHeap<(u64, u64)>,
    free: Vec<u32>,
    slots: Vec<Slot>,
    stack: LruStack,
    requests: u64,
    sampled: u64,
    /// Weight of the references counted.
    referenced: Groups,
    /// By bucket of distance: weight of the references that hit from there on.
    hits: Vec<Groups>,
    /// By bucket: differences of the dirty evictions along the sizes.
    write_backs: Vec<Groups>,
}

/// A page of the sample.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The smallest cache in which it is dirty now.
    dirty_from: u64,
    group: usize,
}

impl SampledLru {
    /// An empty sample. Different salts draw different pages.
    ///
    /// # Errors
    /// When no sample can be drawn so.
    pub fn new(sampling: Sampling, salt: u64) -> Result<Self, SamplingError> {
        let (rate, limit) = match sampling {
            Sampling::Rate(rate) => (rate, None),
            Sampling::Pages(pages) if (SAMPLE_PAGES_MIN..=MAX_FRAMES).contains(&pages) => {
                (1.0, Some(pages as usize))
            }
            Sampling::Pages(pages) => return Err(SamplingError::Pages(pages)),
        };
        let sample = SpatialSample::new(rate, salt).ok_or(SamplingError::Rate(rate))?;
        Ok(Self {
            sample,
            limit,
            weight: 1.0 / sample.rate(),
            slot_of: HashMap::with_hasher(FixedState::default()),
            by_hash: BinaryHeap::new(),
            free: Vec::new(),
            slots: Vec::new(),
            stack: LruStack::new(0),
            requests: 0,
            sampled: 0,
            referenced: [0.0; GROUPS],
            hits: Vec::new(),
            write_backs: Vec::new(),
        })
    }

    /// The next reference.
    ///
    /// # Errors
    /// When a sample of fixed rate outgrows what can be held.
    #[inline]
    pub fn reference(&mut self, page: u64, is_write: bool) -> Result<(), SamplingError> {
        self.requests += 1;
        let hash = self.sample.hash(page);
        if self.sample.has_hash(hash) { self.sampled(page, hash, is_write) } else { Ok(()) }
    }

    /// The page, referenced before and still pinned, became dirty: its latest reference was a write.
    #[inline]
    pub fn dirtied(&mut self, page: u64) {
        if let Some(slot) = self.slot_of.get(&page) {
            self.slots[*slot as usize].dirty_from = 1;
        }
    }

    /// References so far.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    fn sampled(&mut self, page: u64, hash: u64, is_write: bool) -> Result<(), SamplingError> {
        self.sampled += 1;
        let slot = match self.slot_of.get(&page) {
            Some(slot) => *slot,
            None => self.add(page, hash)?,
        };
        let Slot { dirty_from, group } = self.slots[slot as usize];
        self.referenced[group] += self.weight;
        if let Some(others) = self.stack.touch(slot) {
            let distance = self.distance(others);
            at_mut(&mut self.hits, bucket(distance))[group] += self.weight;
            self.count_write_back(dirty_from, distance, group);
            let dirty = &mut self.slots[slot as usize].dirty_from;
            *dirty = (*dirty).max(distance);
        }
        if is_write {
            self.slots[slot as usize].dirty_from = 1;
        }
        // A page that leaves at once was counted at the rate at which it was drawn.
        if self.limit.is_some_and(|limit| self.slot_of.len() > limit) {
            self.lower_the_rate();
        }
        Ok(())
    }

    /// The distance in the trace for one in the sample: the page itself, and the others scaled.
    fn distance(&self, in_sample: u32) -> u64 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is positive"
        )]
        let others = (f64::from(in_sample - 1) * self.weight).round() as u64;
        others.saturating_add(1)
    }

    fn add(&mut self, page: u64, hash: u64) -> Result<u32, SamplingError> {
        let new = Slot { dirty_from: NEVER_DIRTY, group: group_of(hash) };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = new;
            slot
        } else {
            let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            if slot >= MAX_FRAMES {
                return Err(SamplingError::TooManyPages);
            }
            self.slots.push(new);
            slot
        };
        self.slot_of.insert(page, slot);
        if self.limit.is_some() {
            self.by_hash.push((hash, page));
        }
        Ok(slot)
    }

    /// Drops the pages with the largest hash and draws only smaller ones from now on.
    fn lower_the_rate(&mut self) {
        let Some((largest, _)) = self.by_hash.peek().copied() else { return };
        while let Some((hash, page)) = self.by_hash.peek().copied() {
            if hash < largest {
                break;
            }
            self.by_hash.pop();
            if let Some(slot) = self.slot_of.remove(&page) {
                self.leave(slot);
            }
        }
        self.sample = self.sample.below(largest);
        self.weight = 1.0 / self.sample.rate();
    }

    /// What the page would have done later is told by those that stay, whose weight grows.
    fn leave(&mut self, slot: u32) {
        self.stack.remove(slot);
        self.free.push(slot);
    }

    fn count_write_back(&mut self, dirty_from: u64, distance: u64, group: usize) {
        if dirty_from < distance {
            at_mut(&mut self.write_backs, bucket(dirty_from))[group] += self.weight;
            at_mut(&mut self.write_backs, bucket(distance))[group] -= self.weight;
        }
    }

    /// The curve of what was given so far.
    #[must_use]
    pub fn finish(mut self) -> SampledCurve {
        let left: Vec<u32> = self.stack.top_down().collect();
        for (slot, depth) in left.into_iter().zip(1_u32..) {
            let Slot { dirty_from, group } = self.slots[slot as usize];
            self.count_write_back(dirty_from, self.distance(depth), group);
        }
        let rate = self.sample.rate();
        let pages = self.slot_of.len() as u64;
        let weight = self.weight;
        SampledCurve {
            requests: self.requests,
            sampled_references: self.sampled,
            sampled_pages: pages,
            rate,
            pages: pages as f64 * weight,
            misses: Cumulative::new(self.referenced, &self.hits, -1.0),
            write_backs: Cumulative::new([0.0; GROUPS], &self.write_backs, 1.0),
        }
    }
}

/// LRU's estimated curve.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledCurve {
    /// References of the trace.
    pub requests: u64,
    /// Of these, to pages of the sample at their time.
    pub sampled_references: u64,
    /// Pages in the sample at the end.
    pub sampled_pages: u64,
    /// Share of pages in the sample at the end.
    pub rate: f64,
    /// Estimated distinct pages of the trace.
    pub pages: f64,
    misses: Cumulative,
    write_backs: Cumulative,
}

/// An estimated share of the references, with its 95% interval, all within 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Estimate {
    /// Of group totals that add up to the estimate, as shares of `requests`; the ends are Student's.
    #[must_use]
    pub fn of_groups(groups: &[f64; GROUPS], requests: f64) -> Self {
        let requests = requests.max(1.0);
        let sum: f64 = groups.iter().sum();
        let mean = sum / GROUPS as f64;
        let squares: f64 = groups.iter().map(|value| (value - mean).powi(2)).sum();
        // The sum of the groups has GROUPS times the variance of one.
        let deviation = (squares / (GROUPS - 1) as f64 * GROUPS as f64).sqrt();
        Self::within(sum / requests, STUDENT_T * deviation / requests)
    }

    /// The same estimate with ends that also hold what two others may be.
    #[must_use]
    pub fn widened(self, others: [Self; 2]) -> Self {
        let low = others.iter().fold(self.low, |low, other| low.min(other.low));
        let high = others.iter().fold(self.high, |high, other| high.max(other.high));
        Self { low, high, ..self }
    }

    fn within(ratio: f64, margin: f64) -> Self {
        let inside = |value: f64| value.clamp(0.0, 1.0);
        Self { ratio: inside(ratio), low: inside(ratio - margin), high: inside(ratio + margin) }
    }
}

/// How far the number of frames of a cache is off in a sample of this rate: the truth at `frames` lies
/// between the sample's figures at the two numbers given, 95 times of 100. The lower one may be 0: then
/// the sample cannot tell the cache from none.
#[must_use]
pub fn sizes_around(frames: f64, rate: f64) -> (f64, f64) {
    let margin = NORMAL_Z * (frames * (1.0 - rate).max(0.0) / rate).sqrt();
    ((frames - margin).max(0.0), frames + margin)
}

impl SampledCurve {
    /// Misses a reference, with so many frames.
    #[must_use]
    pub fn misses(&self, frames: u32) -> Estimate {
        self.estimate(&self.misses, frames)
    }

    /// Dirty evictions a reference.
    #[must_use]
    pub fn write_backs(&self, frames: u32) -> Estimate {
        self.estimate(&self.write_backs, frames)
    }

    fn estimate(&self, of: &Cumulative, frames: u32) -> Estimate {
        let requests = self.requests as f64;
        let at = |frames: f64| Estimate::of_groups(&of.at(frames), requests);
        let frames = f64::from(frames);
        let (fewer, more) = sizes_around(frames, self.rate);
        at(frames).widened([at(fewer), at(more)])
    }
}

/// Sums along the sizes.
#[derive(Clone, Debug, PartialEq)]
struct Cumulative {
    /// With no frames, then by bucket.
    sums: Vec<Groups>,
}

impl Cumulative {
    fn new(start: Groups, steps: &[Groups], sign: f64) -> Self {
        let mut sums = vec![start];
        let mut sum = start;
        for step in steps {
            for (sum, step) in sum.iter_mut().zip(step) {
                *sum += sign * step;
            }
            sums.push(sum);
        }
        Self { sums }
    }

    /// With so many frames; within a bucket in proportion.
    fn at(&self, frames: f64) -> Groups {
        if frames < 1.0 {
            return self.sums.first().copied().unwrap_or_default();
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is positive"
        )]
        let whole = frames as u64;
        let index = bucket(whole);
        // Sums begin with none, so that bucket i ends at i + 1.
        let sum = |index: usize| self.sums.get(index).or(self.sums.last()).copied();
        let (before, after) = (sum(index).unwrap_or_default(), sum(index + 1).unwrap_or_default());
        let (first, next) = (first_of(index), first_of(index + 1));
        let share = ((whole - first + 1) as f64 / (next - first) as f64).min(1.0);
        let mut groups = before;
        for (value, after) in groups.iter_mut().zip(after) {
            *value += (after - *value) * share;
        }
        groups
    }
}

/// The group of a page, by its hash: bits that the threshold does not see, mixed once more.
pub(crate) const fn group_of(hash: u64) -> usize {
    (mix(hash) % GROUPS as u64) as usize
}

/// The bucket of a distance, from 1 on.
fn bucket(distance: u64) -> usize {
    let distance = distance.clamp(1, 1 << 62);
    if distance < EXACT * 2 {
        return usize::try_from(distance).unwrap_or(usize::MAX);
    }
    // The leading bits: as many buckets in a doubling as distances below the first shared one.
    let shift = distance.ilog2() - EXACT.ilog2();
    let index = u64::from(shift) * EXACT + (distance >> shift);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The smallest distance of a bucket.
fn first_of(bucket: usize) -> u64 {
    let index = bucket as u64;
    if index < EXACT * 2 {
        return index;
    }
    let shift = index / EXACT - 1;
    (index - shift * EXACT) << shift
}

fn at_mut(groups: &mut Vec<Groups>, index: usize) -> &mut Groups {
    if index >= groups.len() {
        groups.resize(index + 1, [0.0; GROUPS]);
    }
    &mut groups[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{DenseTraceBuilder, Reference};
    use crate::simulate::Unobserved;
    use crate::stack_distance::LruCurve;
    use crate::trace::Access;
    use proptest::prelude::*;

    fn exact(references: &[(u64, bool)]) -> LruCurve {
        let mut builder = DenseTraceBuilder::new("t", 8192);
        for (page, is_write) in references {
            let is_write = *is_write;
            builder.reference(*page, Reference { is_write, ..Reference::default() }).unwrap();
        }
        LruCurve::of(&builder.finish(), &Unobserved).unwrap()
    }

    fn sampled(references: &[(u64, bool)], sampling: Sampling, salt: u64) -> SampledCurve {
        let mut sample = SampledLru::new(sampling, salt).unwrap();
        for (page, is_write) in references {
            sample.reference(*page, *is_write).unwrap();
        }
        sample.finish()
    }

    fn generated(spec: &str) -> Vec<(u64, bool)> {
        crate::generate::parse(spec)
            .unwrap()
            .map(|reference| (reference.page, reference.access == Access::Write))
            .collect()
    }

    #[test]
    fn buckets_are_in_order_without_gap_and_no_wider_than_a_256th() {
        for index in 1..14_000 {
            let (first, next) = (first_of(index), first_of(index + 1));
            assert!(next > first, "{index}");
            assert_eq!((bucket(first), bucket(next - 1)), (index, index));
            assert!((next - first) * 256 <= first.max(256), "{index} {first} {next}");
        }
        assert!(bucket(u64::MAX) < 16_000);
    }

    proptest! {
        #[test]
        fn a_sample_of_all_pages_is_exact_with_its_write_backs_and_without_margin(
            references in proptest::collection::vec((0_u64..60, any::<bool>()), 1..500)
        ) {
            let exact = exact(&references);
            for sampling in [Sampling::Rate(1.0), Sampling::Pages(64)] {
                let curve = sampled(&references, sampling, 3);
                for frames in 1..70 {
                    let counts = exact.at(frames);
                    let requests = references.len() as f64;
                    let misses = curve.misses(frames).ratio * requests;
                    let write_backs = curve.write_backs(frames).ratio * requests;
                    prop_assert!((misses - counts.misses as f64).abs() < 1e-6);
                    prop_assert!((write_backs - counts.write_backs as f64).abs() < 1e-6);
                }
            }
        }
    }

    /// How many of many samples' intervals hold the truth, and how far the estimates are off.
    fn coverage(spec: &str, sampling: Sampling, sizes: &[u32]) -> (f64, f64) {
        let references = generated(spec);
        let exact = exact(&references);
        let requests = references.len() as f64;
        let (mut held, mut all, mut error) = (0.0, 0.0, 0.0);
        for salt in 0..30 {
            let curve = sampled(&references, sampling, salt);
            for frames in sizes {
                let counts = exact.at(*frames);
                for (estimate, count) in [
                    (curve.misses(*frames), counts.misses),
                    (curve.write_backs(*frames), counts.write_backs),
                ] {
                    let truth = count as f64 / requests;
                    let slack = 1e-9;
                    held += f64::from(u8::from(
                        (estimate.low - slack..=estimate.high + slack).contains(&truth),
                    ));
                    all += 1.0;
                    error += (estimate.ratio - truth).abs();
                }
            }
        }
        (held / all, error / all)
    }

    #[test]
    fn intervals_hold_the_truth_at_both_kinds_of_sampling() {
        let sizes = [500, 2_000, 5_000, 12_000];
        for (spec, error_max) in [
            ("zipf(pages=20000,s=0.8,write=0.3,references=200000)", 0.02),
            ("uniform(pages=20000,write=0.1,references=150000)", 0.02),
            ("scan-hot(hot=4000,s=0.8,table=30000,share=0.3,write=0.2,references=200000)", 0.03),
        ] {
            for sampling in [Sampling::Rate(0.05), Sampling::Pages(1_000)] {
                let (held, error) = coverage(spec, sampling, &sizes);
                assert!(held >= 0.9, "{spec} {sampling:?}: {held}");
                assert!(error <= error_max, "{spec} {sampling:?}: {error}");
            }
        }
    }

    #[test]
    fn a_sample_of_fixed_size_never_outgrows_it_and_knows_the_number_of_pages() {
        let references = generated("uniform(pages=50000,references=400000)");
        let mut sample = SampledLru::new(Sampling::Pages(500), 1).unwrap();
        for (page, is_write) in &references {
            sample.reference(*page, *is_write).unwrap();
            assert!(sample.slot_of.len() <= 500 && sample.slots.len() <= 501);
            assert_eq!(sample.stack.len() as usize, sample.slot_of.len());
        }
        let curve = sample.finish();
        assert!((curve.pages / 50_000.0 - 1.0).abs() < 0.15, "{}", curve.pages);
        assert!(curve.rate < 0.012, "{}", curve.rate);
    }

    #[test]
    fn a_page_dirtied_after_its_reference_counts_as_written() {
        let mut sample = SampledLru::new(Sampling::Rate(1.0), 0).unwrap();
        for page in [1, 2] {
            sample.reference(page, false).unwrap();
        }
        sample.dirtied(1);
        sample.dirtied(9);
        let curve = sample.finish();
        assert!((curve.write_backs(1).ratio - 0.5).abs() < 1e-9);
        assert!(curve.write_backs(2).ratio.abs() < 1e-9);
    }

    #[test]
    fn samples_that_cannot_be_drawn_are_refused() {
        for sampling in [
            Sampling::Rate(0.0),
            Sampling::Rate(1.5),
            Sampling::Rate(f64::NAN),
            Sampling::Pages(63),
            Sampling::Pages(u32::MAX),
        ] {
            assert!(SampledLru::new(sampling, 0).is_err(), "{sampling:?}");
        }
    }
}
