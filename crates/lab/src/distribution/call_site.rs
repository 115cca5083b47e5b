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

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    fn stream() -> RandomStream {
        RandomStream::new(11, 0, Purpose::Script)
    }

    #[test]
    fn keys_lie_in_the_range_asked_for_at_both_ends_of_i64() {
        let mut stream = stream();
        for spec in ["uniform", "gaussian:2", "exponential:9", "zipfian:1", "zipfian:2,scattered"] {
            let spec: DistributionSpec = spec.parse().unwrap();
            for (low, high) in [
                (i64::MIN, i64::MAX),
                (i64::MIN, i64::MIN),
                (i64::MAX, i64::MAX),
                (i64::MIN, i64::MIN + 2),
                (i64::MAX - 2, i64::MAX),
                (-5, 5),
                (0, i64::MAX),
            ] {
                let mut site = CallSite::default();
                for _ in 0..200 {
                    let key = site.draw(&mut stream, spec, low, high).unwrap();
                    assert!((low..=high).contains(&key), "{spec} {low}..{high}: {key}");
                }
            }
        }
    }

    #[test]
    fn arguments_that_are_not_allowed_are_refused_with_what_is() {
        let mut site = CallSite::default();
        let mut message =
            |spec, low, high| site.draw(&mut stream(), spec, low, high).unwrap_err().to_string();
        let gaussian = DistributionSpec::Gaussian { parameter: 1.9 };
        assert!(message(gaussian, 1, 2).contains("at least 2.0 (not 1.9)"));
        let exponential = DistributionSpec::Exponential { parameter: 0.0 };
        assert!(message(exponential, 1, 2).contains("greater than zero (not 0)"));
        let zipfian = DistributionSpec::Zipfian { exponent: f64::NAN, scattered: false };
        assert!(message(zipfian, 1, 2).contains("greater than 0 and at most 1000 (not NaN)"));
        assert!(message(DistributionSpec::Uniform, 5, 3).contains("empty range given to random"));
        assert_eq!(site.permute(1, 0, 1), Err(ArgumentError::PermuteSize(0)));
    }

    #[test]
    fn draws_with_changing_arguments_stay_right_and_are_told_apart() {
        let (mut site, mut stream) = (CallSite::default(), stream());
        for high in [10, 20, 10, 10] {
            let key = site.draw(&mut stream, DistributionSpec::Uniform, 1, high).unwrap();
            assert!((1..=high).contains(&key));
        }
        assert_eq!(site.audit("here").unwrap().draws, 3);
        assert_eq!(site.uncounted(), 1);
        // The same number of keys from elsewhere has the same law.
        site.draw(&mut stream, DistributionSpec::Uniform, 101, 110).unwrap();
        assert_eq!(site.audit("here").unwrap().draws, 4);
    }

    #[test]
    fn clients_add_up() {
        let (mut one, mut two, mut other) =
            (CallSite::default(), CallSite::default(), CallSite::default());
        let mut stream = stream();
        one.draw(&mut stream, DistributionSpec::Uniform, 1, 10).unwrap();
        two.draw(&mut stream, DistributionSpec::Uniform, 1, 10).unwrap();
        other.draw(&mut stream, DistributionSpec::Uniform, 1, 11).unwrap();
        let mut all = CallSite::default();
        for site in [&one, &two, &other] {
            all.merge(site);
        }
        assert_eq!(all.audit("here").unwrap().draws, 2);
        assert_eq!(all.uncounted(), 1);
    }

    #[test]
    fn a_kept_permutation_is_the_one_asked_for() {
        let mut site = CallSite::default();
        for (value, size, seed) in [(5, 1_000, 0), (6, 1_000, 0), (5, 1_000, 1), (5, 999, 1)] {
            let expected = super::super::permute(value, size, seed);
            assert_eq!(site.permute(value, size, seed).ok(), expected);
        }
    }
}
