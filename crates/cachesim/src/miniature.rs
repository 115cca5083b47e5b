//! Miniature simulation: any policy on a sample of the pages with as small a part of the frames.
//!
//! A page is in the sample with all its references or with none ([`SpatialSample`]). A cache of C frames
//! over the trace behaves about as one of C R frames over a sample of rate R does; its misses stand for
//! 1/R misses each. Only the sample is kept in memory.
//!
//! - **Source**: C. Waldspurger, T. Saemundsson, I. Ahmad, N. Park, "Cache Modeling and Optimization
//!   using Miniature Simulations", USENIX ATC 2017. Estimates are divided by the true number of
//!   references (their SHARDS-adj): a hot page that the sample lacks, or has, hits at every size.
//! - **Margin** (95%), as of [`crate::sampled_curve`]: the spread of [`GROUPS`] groups of pages, whose
//!   misses are counted apart, and the same at the two sizes of [`sizes_around`].
//! - **Parameters**: shares of the frames need no care, and times are those of the trace. Where a trace
//!   has none, the sample's references pass as much slower as it has fewer
//!   ([`Miniature::references_per_s`]). A parameter that counts frames (`innodb(old_from=...)`) counts
//!   those of the miniature.

use std::sync::Arc;

use crate::dense::{DenseTrace, DenseTraceBuilder, DenseTraceError, Reference};
use crate::sampled_curve::{Estimate, GROUPS, group_of, sizes_around};
use crate::simulate::{Counts, Simulated};
use crate::trace::{
    self, Access, Fault, MemoryBound, Place, Position, SpatialSample, TraceError, TraceReader,
};

/// Every so many references of the sample the place in the trace is noted, for the warm-up.
const NOTED: usize = 256;

/// A sample of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miniature {
    trace: Arc<DenseTrace>,
    sample: SpatialSample,
    requests: u64,
    /// The references of the trace before each [`NOTED`]th one of the sample.
    places: Vec<u64>,
}

/// Estimates of one policy at one size, as shares of the counted references.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimates {
    /// References of the trace after the warm-up.
    pub requests: u64,
    /// Misses a reference.
    pub misses: Estimate,
    /// Dirty evictions a reference.
    pub write_backs: Estimate,
}

/// The frames of the miniatures that stand for one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MiniatureFrames {
    /// For the estimate.
    pub frames: u32,
    /// For the ends of the margin; the first may be no frame at all.
    pub around: [u32; 2],
}

impl Miniature {
    /// Reads a trace and keeps what is in `sample`, for as long as `progress` says true. With
    /// `is_collapsing`, references that repeat the page of the one before are left out
    /// ([`DenseTrace::without_repeats`]).
    ///
    /// # Errors
    /// When the trace cannot be read, has no reference, or the sample is beyond what a [`DenseTrace`]
    /// can hold or is empty.
    pub fn load(
        reader: &mut TraceReader,
        sample: SpatialSample,
        is_collapsing: bool,
        progress: &mut dyn FnMut(Position) -> bool,
    ) -> Result<Option<Self>, TraceError> {
        let mut builder = DenseTraceBuilder::<u64>::new(reader.name(), reader.page_bytes());
        let mut groups = [0_u16; GROUPS];
        for (group, place) in groups.iter_mut().zip(0_u32..) {
            let refused = |error: DenseTraceError| {
                Fault::new(error.to_string(), "").in_file(reader.file(), Place::Whole)
            };
            *group = builder.add_class(&place.to_string()).map_err(refused)?;
        }
        let mut requests = 0_u64;
        let mut places = Vec::new();
        let mut repeats = Repeats::new(is_collapsing);
        let mut bound = MemoryBound::of(reader);
        let is_whole = trace::scan(reader, progress, |event, _| {
            let page = event.page;
            let Some(access) = repeats.read(page, event.access) else { return Ok(()) };
            let is_reference = access != Access::Dirtied;
            let before = requests;
            requests += u64::from(is_reference);
            let hash = sample.hash(page);
            if !sample.has_hash(hash) {
                return Ok::<(), String>(());
            }
            bound.look(&builder)?;
            if !is_reference {
                builder.dirtied(page);
                return Ok(());
            }
            if builder.references().is_multiple_of(NOTED) {
                places.push(before);
            }
            let what = Reference {
                is_write: access == Access::Write,
                time_ms: event.time_us.map(|time_us| time_us / 1000),
                class: Some(groups[group_of(hash)]),
            };
            builder.reference(page, what).map(drop).map_err(|error| error.to_string())
        })?;
        if is_whole && builder.references() == 0 {
            let what = format!("none of its pages is in a sample of {} of them", sample.rate());
            let remedy = "take a larger share, or another seed";
            return Err(Fault::new(what, remedy).in_file(reader.file(), Place::Whole));
        }
        let trace = Arc::new(builder.finish());
        Ok(is_whole.then_some(Self { trace, sample, requests, places }))
    }

    /// The sample's references, their groups as classes.
    #[must_use]
    pub const fn trace(&self) -> &Arc<DenseTrace> {
        &self.trace
    }

    /// Share of the pages that are in the sample.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// References of the whole trace.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Estimated distinct pages of the whole trace.
    #[must_use]
    pub fn pages(&self) -> u64 {
        rounded(f64::from(self.trace.pages()) / self.rate())
    }

    /// The miniatures of a cache with so many frames; `None` where not half a frame is left of it.
    #[must_use]
    pub fn frames(&self, frames: u32) -> Option<MiniatureFrames> {
        let rate = self.rate();
        let scaled = |frames: f64| u32::try_from(rounded(frames * rate)).unwrap_or(u32::MAX);
        let (fewer, more) = sizes_around(f64::from(frames), rate);
        let around = [scaled(fewer), scaled(more)];
        let frames = scaled(f64::from(frames));
        (frames > 0).then_some(MiniatureFrames { frames, around })
    }

    /// How many references of the sample a warm-up of this share of the trace takes.
    #[must_use]
    pub fn warm_up(&self, share: f64) -> usize {
        let wanted = rounded(self.requests as f64 * share);
        let after = self.places.partition_point(|place| *place < wanted);
        let Some(before) = after.checked_sub(1) else { return 0 };
        // Between two notes the references of the sample are taken to lie evenly.
        let all = self.trace.references().len();
        let first = before * NOTED;
        let last = all.min(first + NOTED);
        let from = self.places[before];
        let to = self.places.get(after).copied().unwrap_or(self.requests);
        let part = (wanted - from) as f64 / (to - from).max(1) as f64;
        let into = (last - first) as f64 * part;
        first + usize::try_from(rounded(into)).unwrap_or(0)
    }

    /// References of the sample in a second where so many of the trace pass.
    #[must_use]
    pub fn references_per_s(&self, of_the_trace: f64) -> f64 {
        let sampled = self.trace.references().len() as f64;
        of_the_trace * sampled / (self.requests as f64).max(1.0)
    }

    /// What the miniatures of one cache say of it: the run with [`MiniatureFrames::frames`], and those
    /// with [`MiniatureFrames::around`], of which the first may be none.
    #[must_use]
    pub fn estimates(
        &self,
        warm_up_share: f64,
        run: &Simulated,
        around: [Option<&Simulated>; 2],
    ) -> Estimates {
        let requests = self.requests - rounded(self.requests as f64 * warm_up_share);
        let of = |run: &Simulated, count: fn(&Counts) -> u64| {
            let mut groups = [0.0; GROUPS];
            for (group, counts) in groups.iter_mut().zip(&run.by_class) {
                *group = count(counts) as f64 / self.rate();
            }
            Estimate::of_groups(&groups, requests as f64)
        };
        let figure = |count: fn(&Counts) -> u64, without_a_cache: fn(&Counts) -> u64| {
            let ends = around.map(|end| match end {
                Some(end) => of(end, count),
                None => of(run, without_a_cache),
            });
            of(run, count).widened(ends)
        };
        Estimates {
            requests,
            misses: figure(|counts| counts.misses, |counts| counts.requests),
            write_backs: figure(|counts| counts.write_backs, |_| 0),
        }
    }
}

/// Leaves out references that repeat the page of the one before.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    is_collapsing: bool,
    last: Option<u64>,
}

impl Repeats {
    /// Leaves them out, or lets all pass.
    #[must_use]
    pub const fn new(is_collapsing: bool) -> Self {
        Self { is_collapsing, last: None }
    }

    /// What the next event is once repeats are left out. A repeat that reads says nothing new, which is
    /// `None`; one that writes makes the reference it repeats a write.
    #[inline]
    pub fn read(&mut self, page: u64, access: Access) -> Option<Access> {
        if !self.is_collapsing || access == Access::Dirtied {
            return Some(access);
        }
        if self.last.replace(page) != Some(page) {
            return Some(access);
        }
        (access == Access::Write).then_some(Access::Dirtied)
    }
}

/// To the next whole number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is positive"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use evenkeel_replacement::registry::Registry;

    use super::*;
    use crate::choice::Choice;
    use crate::optimum::NextUses;
    use crate::simulate::{SimulationOptions, Unobserved};
    use crate::trace::Options;

    fn reader(spec: &str) -> TraceReader {
        TraceReader::open(Path::new(spec), &Options::default()).unwrap()
    }

    fn miniature(spec: &str, rate: f64, salt: u64) -> Miniature {
        let sample = SpatialSample::new(rate, salt).unwrap();
        Miniature::load(&mut reader(spec), sample, false, &mut |_| true).unwrap().unwrap()
    }

    fn whole(spec: &str) -> DenseTrace {
        trace::load(Path::new(spec), &Options::default(), &mut |_| {}).unwrap()
    }

    fn run(choice: &Choice, frames: u32, trace: &DenseTrace, warm_up: usize) -> Simulated {
        let options = SimulationOptions { warm_up, ..SimulationOptions::default() };
        let next_uses = NextUses::of(trace);
        let seed = 1;
        choice.simulate(frames, trace, || &next_uses, seed, &options, &Unobserved).unwrap().unwrap()
    }

    fn estimates(miniature: &Miniature, choice: &Choice, frames: u32, warm_up: f64) -> Estimates {
        let sizes = miniature.frames(frames).unwrap();
        let skipped = miniature.warm_up(warm_up);
        let run =
            |frames: u32| (frames > 0).then(|| run(choice, frames, miniature.trace(), skipped));
        let [fewer, more] = sizes.around.map(run);
        let middle = run(sizes.frames).unwrap();
        miniature.estimates(warm_up, &middle, [fewer.as_ref(), more.as_ref()])
    }

    #[test]
    fn a_sample_of_everything_is_the_simulation_itself() {
        let spec = "generate:pgbench(references=20000,scale=2)";
        let (miniature, trace) = (miniature(spec, 1.0, 3), whole(spec));
        for choice in Choice::all(&Registry::standard()) {
            let skipped = trace.references().len() / 10;
            assert_eq!(miniature.warm_up(0.1), skipped);
            let exact = run(&choice, 300, &trace, skipped).counts;
            let found = estimates(&miniature, &choice, 300, 0.1);
            assert_eq!(found.requests, exact.requests);
            let ratio = |count: u64| count as f64 / exact.requests as f64;
            assert!((found.misses.ratio - ratio(exact.misses)).abs() < 1e-9, "{choice}");
            assert!((found.write_backs.ratio - ratio(exact.write_backs)).abs() < 1e-9, "{choice}");
        }
    }

    #[test]
    fn the_truth_lies_within_the_margin_at_least_nine_times_of_ten() {
        let spec = "generate:ycsb(references=200000,scale=2)";
        let trace = whole(spec);
        let choices = Choice::parse_list(&Registry::standard(), "lru,s3_fifo,optimum").unwrap();
        let miniatures: Vec<Miniature> = (0..12).map(|salt| miniature(spec, 0.1, salt)).collect();
        let (mut inside, mut all, mut off) = (0, 0, 0.0);
        for choice in choices {
            let exact = run(&choice, 2_000, &trace, 0).counts;
            let truth = exact.misses as f64 / exact.requests as f64;
            for miniature in &miniatures {
                let found = estimates(miniature, &choice, 2_000, 0.0).misses;
                inside += u32::from((found.low..=found.high).contains(&truth));
                off += (found.ratio - truth).abs();
                all += 1;
            }
        }
        assert!(inside * 10 >= all * 9, "{inside} of {all}");
        assert!(off / f64::from(all) < 0.01, "{}", off / f64::from(all));
    }

    #[test]
    fn a_cache_that_the_sample_cannot_tell_from_none_may_miss_everything() {
        let spec = "generate:uniform(references=20000,pages=5000)";
        let miniature = miniature(spec, 0.05, 0);
        let lru = &Choice::parse_list(&Registry::standard(), "lru").unwrap()[0];
        assert_eq!(miniature.frames(3), None);
        let found = estimates(&miniature, lru, 20, 0.0).misses;
        assert!(found.high > 0.99, "{found:?}");
    }

    #[test]
    fn repeats_left_out_of_a_sample_are_those_left_out_of_the_whole() {
        let spec = "generate:pgbench(references=20000,scale=1)";
        let sample = SpatialSample::new(1.0, 0).unwrap();
        let found = Miniature::load(&mut reader(spec), sample, true, &mut |_| true);
        let found = found.unwrap().unwrap();
        let whole = whole(spec).without_repeats();
        assert_eq!(found.trace().references(), whole.references());
        assert_eq!(found.requests(), whole.references().len() as u64);
    }

    #[test]
    fn reading_ends_when_it_is_told_to() {
        let sample = SpatialSample::new(0.5, 0).unwrap();
        let spec = "generate:uniform(references=100000)";
        let ended = Miniature::load(&mut reader(spec), sample, false, &mut |_| false);
        assert_eq!(ended, Ok(None));
    }

    #[test]
    fn a_sample_without_a_page_is_refused_with_the_remedy() {
        let sample = SpatialSample::new(1e-12, 0).unwrap();
        let spec = "generate:uniform(references=100,pages=10)";
        let error = Miniature::load(&mut reader(spec), sample, false, &mut |_| true).unwrap_err();
        assert!(error.to_string().contains("take a larger share"), "{error}");
    }
}
