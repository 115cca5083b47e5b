//! Key distributions: which of `n` keys a transaction touches.
//!
//! A distribution draws an *index* from 0 to n - 1, and knows the key's *rank*: its place in the
//! order of likelihood, from 0. [`Sampler`] draws, [`KeyLaw`] says what to expect. The laboratory,
//! which audits draws, and the generators of traces share this crate; it has no I/O and no clock, and
//! its only chance is that of a seeded [`RandomStream`].
//!
//! Indices are exact over the full range of 64 bits. The laws other than uniform are drawn as
//! doubles, which have 53 bits where a key may have 64: beyond 2^24, a draw is smeared over a
//! neighbourhood of relative width 2^-30 (`settle`), far wider than the grid of doubles (at most
//! 2^-41) and far narrower than anything over which the density changes. So each key can be drawn,
//! its probability is right to a thousandth at worst, and that of neighbourhoods to 10^-12.
//!
//! # Rules
//!
//! 1. Draws are in range for every parameter accepted, at the ends of the parameters' ranges too.
//! 2. A draw takes constant time and no table whose size depends on the number of keys.
//! 3. Every distribution has its cumulative distribution, computed apart from the sampler, and a
//!    goodness-of-fit test of the one against the other.
//! 4. What a client draws follows from the seed and the client's number alone.

mod exponential;
mod gaussian;
mod harmonic;
mod hash;
mod law;
mod permutation;
mod poisson;
mod spec;
mod stream;
mod zipfian;

pub use harmonic::harmonic_sum;
pub use hash::{hash_fnv1a, hash_murmur2};
pub use law::KeyLaw;
pub use permutation::{Permutation, permute};
pub use poisson::PoissonGaps;
pub use spec::{ArgumentError, DistributionSpec, SpecError};
pub use stream::{Purpose, RandomStream};

use exponential::Exponential;
use gaussian::Gaussian;
use zipfian::Zipfian;

/// A distribution over a number of keys, ready to draw: constants are computed once.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    /// The index of the last key: the number of keys less one, so that 2^64 keys are possible.
    last: u64,
    spec: DistributionSpec,
    shape: Shape,
    /// Hot keys are scattered over the key space by this permutation.
    scatter: Option<Box<Permutation>>,
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
    /// Draws by `spec`, whose parameters have been [checked](DistributionSpec::checked), from the
    /// indices 0 to `last`.
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
        let scatter = is_scattered.then(|| Box::new(Permutation::new(last, SCATTER_SEED)));
        Self { last, spec, shape, scatter }
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

    /// The distribution.
    #[must_use]
    pub const fn spec(&self) -> DistributionSpec {
        self.spec
    }

    /// What the draws should look like.
    #[must_use]
    pub fn law(&self) -> KeyLaw {
        KeyLaw::new(self.spec, self.last)
    }
}

/// Seeds the permutation that scatters hot keys. Fixed, so that the same rows are hot for every
/// client, in every run and arm. In pgbench's language a scattered draw from 1 to n is
/// `1 + permute(random_zipfian(1, n, s) - 1, n, 0)`.
const SCATTER_SEED: i64 = 0;

/// From here on a double is smeared: below, the grid of doubles is finer than a hundred-thousandth
/// of a key.
const SETTLE_MIN: f64 = 16_777_216.0;

/// The relative width over which a double is smeared: 2^-30.
const SMEAR: f64 = 1.0 / 1_073_741_824.0;

/// The integer part of `value` (not negative) after smearing.
#[inline]
fn settle(value: f64, stream: &mut RandomStream) -> u64 {
    let whole = value as u64;
    if value < SETTLE_MIN {
        return whole;
    }
    // In two parts, since their sum may need more than 53 bits.
    let rest = value - whole as f64;
    let smear = value * SMEAR * (stream.unit() - 0.5);
    whole.saturating_add_signed((rest + smear).floor() as i64)
}

#[cfg(test)]
mod tests;
