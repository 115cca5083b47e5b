//! A random function at one place of a script, for one client: its constants are computed when the
//! arguments change, not with each draw.

use super::{ArgumentError, DistributionSpec, KeyAuditCounter, Permutation, RandomStream, Sampler};
use crate::experiment::document::KeyAudit;

/// Keeps what a call of `random...()` or `permute()` can use again, and counts its draws.
#[derive(Clone, Debug, Default)]
pub struct CallSite {
    draws: Option<Box<Draws>>,
    permutation: Option<Box<Permutation>>,
}

#[derive(Clone, Debug)]
struct Draws {
    /// For the arguments of the last call.
    sampler: Sampler,
    low: i64,
    high: i64,
    /// For the arguments of the first call, which are counted.
    counted: Sampler,
    counter: KeyAuditCounter,
    is_counted: bool,
    uncounted: u64,
}

impl CallSite {
    /// Draws a key of `spec` from `low` to `high`, both included, over any part of the i64 range,
    /// and counts it for the audit.
    ///
    /// # Errors
    /// When the range is empty or the parameter not allowed.
    #[inline]
    pub fn draw(
        &mut self,
        stream: &mut RandomStream,
        spec: DistributionSpec,
        low: i64,
        high: i64,
    ) -> Result<i64, ArgumentError> {
        let draws = match &mut self.draws {
            Some(draws) if draws.is_for(spec, low, high) => draws,
            other => Draws::prepare(other, spec, low, high)?,
        };
        let draw = draws.sampler.draw(stream);
        if draws.is_counted {
            draws.counter.count(draw.rank);
        } else {
            draws.uncounted += 1;
        }
        Ok(low.wrapping_add(draw.index.cast_signed()))
    }

    /// `permute(value, size, seed)`, see [`super::permute`].
    ///
    /// # Errors
    /// When `size` is not positive.
    #[inline]
    pub fn permute(&mut self, value: i64, size: i64, seed: i64) -> Result<i64, ArgumentError> {
        let Some(last) = u64::try_from(size).ok().and_then(|size| size.checked_sub(1)) else {
            return Err(ArgumentError::PermuteSize(size));
        };
        let permutation = match &mut self.permutation {
            Some(known) if known.last() == last && known.seed() == seed => known,
            unknown => unknown.insert(Box::new(Permutation::new(last, seed))),
        };
        Ok(permutation.apply(value as u64 % (last + 1)) as i64)
    }

    /// Adds the draws of the same place in another client's script. Draws with other arguments than
    /// the first client's first ones are not part of the audit, but counted as such.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.draws else { return };
        match &mut self.draws {
            None => self.draws = Some(theirs.clone()),
            Some(mine) => {
                mine.uncounted += theirs.uncounted;
                let is_same = mine.counted.spec() == theirs.counted.spec();
                if !(is_same && mine.counter.merge(&theirs.counter)) {
                    mine.uncounted += theirs.counter.draws();
                }
            }
        }
    }

    /// What was drawn with the first arguments that this place saw, against what should have been.
    /// None when nothing was drawn. `source` says where this place is: script, line, and the call as
    /// written.
    #[must_use]
    pub fn audit(&self, source: &str) -> Option<KeyAudit> {
        let draws = self.draws.as_ref()?;
        let distribution = draws.counted.spec().to_string();
        Some(draws.counter.audit(&draws.counted, source, &distribution))
    }

    /// How many draws had other arguments than the first ones, and are not in the audit.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        self.draws.as_ref().map_or(0, |draws| draws.uncounted)
    }
}

impl Draws {
    #[inline]
    fn is_for(&self, spec: DistributionSpec, low: i64, high: i64) -> bool {
        self.low == low && self.high == high && self.sampler.spec() == spec
    }

    /// Makes `place` ready for these arguments.
    fn prepare(
        place: &mut Option<Box<Self>>,
        spec: DistributionSpec,
        low: i64,
        high: i64,
    ) -> Result<&mut Box<Self>, ArgumentError> {
        let spec = spec.checked()?;
        if low > high {
            return Err(ArgumentError::EmptyRange { low, high });
        }
        let last = high.wrapping_sub(low).cast_unsigned();
        let sampler = Sampler::new(spec, last);
        Ok(match place {
            Some(draws) => {
                // The number of keys decides: where the range begins does not change the law.
                draws.is_counted = sampler.spec() == draws.counted.spec()
                    && sampler.last() == draws.counted.last();
                (draws.sampler, draws.low, draws.high) = (sampler, low, high);
                draws
            }
            empty => empty.insert(Box::new(Self {
                counted: sampler.clone(),
                counter: KeyAuditCounter::new(last),
                sampler,
                low,
                high,
                is_counted: true,
                uncounted: 0,
            })),
        })
    }
}
