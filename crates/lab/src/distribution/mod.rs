//! Key distributions: which of `n` keys a transaction touches.
//!
//! A distribution draws an *index* from 0 to n - 1 and knows the share of draws that each run of
//! indices should get, so that what was drawn can be audited. Indices are exact over the full range of
//! 64 bits: where a double has no longer a bit for every key, the missing bits are drawn uniformly.
//!
//! # Rules
//!
//! 1. Draws are in range for every parameter accepted, at the ends of the parameters' ranges too.
//! 2. A draw takes constant time and no table whose size depends on the number of keys.
//! 3. Every distribution has its cumulative distribution, computed apart from the sampler, and a
//!    goodness-of-fit test of the one against the other.
//! 4. What a client draws follows from the seed and the client's number alone.

mod audit;
mod exponential;
mod gaussian;
mod hash;
mod spec;
mod stream;
mod zipfian;

pub use audit::{KeyAuditCounter, TOP_RATIOS};
pub use exponential::Exponential;
pub use gaussian::Gaussian;
pub use hash::{Permutation, hash_fnv1a, hash_murmur2, permute};
pub use spec::{DistributionSpec, SpecError};
pub use stream::{Purpose, RandomStream};
pub use zipfian::Zipfian;

/// A distribution over a number of keys, ready to draw: constants are computed once.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    /// The index of the last key: the number of keys less one, so that 2^64 keys are possible.
    last: u64,
    shape: Shape,
    /// Hot keys are scattered over the key space by this permutation.
    scatter: Option<Permutation>,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Uniform,
    Gaussian(Gaussian),
    Exponential(Exponential),
    Zipfian(Zipfian),
}

/// One draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The key's index, from 0.
    pub index: u64,
    /// The key's place in the order of likelihood, from 0 for the most likely.
    pub rank: u64,
}

impl Sampler {
    /// Draws by `spec` from the indices 0 to `last`.
    #[must_use]
    pub fn new(spec: DistributionSpec, last: u64) -> Self {
        let shape = match spec {
            DistributionSpec::Uniform => Shape::Uniform,
            DistributionSpec::Gaussian { parameter } => {
                Shape::Gaussian(Gaussian::new(parameter, last))
            }
            DistributionSpec::Exponential { parameter } => {
                Shape::Exponential(Exponential::new(parameter, last))
            }
            DistributionSpec::Zipfian { exponent, .. } => {
                Shape::Zipfian(Zipfian::new(exponent, last))
            }
        };
        let is_scattered = matches!(spec, DistributionSpec::Zipfian { scattered: true, .. });
        // The permutation's size is a count; 2^64 keys are scattered over 2^64 - 1 of them.
        let scatter = is_scattered.then(|| Permutation::new(last.saturating_add(1), SCATTER_SEED));
        Self { last, shape, scatter }
    }

    /// Draws an index and its rank.
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream) -> Draw {
        match &self.shape {
            Shape::Uniform => {
                let index = stream.up_to(self.last);
                Draw { index, rank: index }
            }
            Shape::Gaussian(gaussian) => {
                let index = gaussian.draw(stream);
                Draw { index, rank: gaussian.rank(index) }
            }
            Shape::Exponential(exponential) => {
                let index = exponential.draw(stream);
                Draw { index, rank: index }
            }
            Shape::Zipfian(zipfian) => {
                let rank = zipfian.draw(stream);
                let index = self.scatter.as_ref().map_or(rank, |scatter| scatter.apply(rank));
                Draw { index, rank }
            }
        }
    }

    /// The index of the last key.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The share of draws that should fall on the `count` most likely keys.
    #[must_use]
    pub fn share_of_top(&self, count: u64) -> f64 {
        if count == 0 {
            return 0.0;
        }
        if count > self.last {
            return 1.0;
        }
        let keys = self.last as f64 + 1.0;
        match &self.shape {
            Shape::Uniform => count as f64 / keys,
            Shape::Gaussian(gaussian) => gaussian.share_of_top(count),
            Shape::Exponential(exponential) => exponential.share_below(count),
            Shape::Zipfian(zipfian) => zipfian.share_below(count),
        }
    }

    /// The share of draws that should fall on indices below `end`, in the order of the keys; for a
    /// scattered distribution in the order of likelihood.
    #[must_use]
    pub fn share_below(&self, end: u64) -> f64 {
        if end == 0 {
            return 0.0;
        }
        if end > self.last {
            return 1.0;
        }
        match &self.shape {
            Shape::Gaussian(gaussian) => gaussian.share_below(end),
            _ => self.share_of_top(end),
        }
    }
}

/// Seeds the permutation that scatters hot keys. Fixed, so that the same rows are hot in every run and
/// arm.
const SCATTER_SEED: i64 = 0x5CA7_7E12;

/// Below this many keys a double holds every index with bits to spare.
const EXACT_KEYS: u64 = 1 << 50;

/// Draws the bits that a double had no room for: a uniform offset within the gap between neighbouring
/// values of a draw that came from 53 random bits.
#[inline]
fn fill_gap(index: u64, gap: f64, last: u64, stream: &mut RandomStream) -> u64 {
    if gap < 2.0 {
        return index.min(last);
    }
    // Saturates at u64::MAX, which `up_to` takes.
    let offset = stream.up_to(gap as u64 - 1);
    index.saturating_add(offset).min(last)
}

#[cfg(test)]
mod tests;
