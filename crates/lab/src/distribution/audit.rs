//! Audits draws: the shares that fell on the most likely keys, beside the shares that should.

use super::Sampler;
use crate::experiment::document::{KeyAudit, KeyShare};

/// The tops of the key space that are counted.
pub const TOP_RATIOS: [f64; 4] = [0.2, 0.1, 0.05, 0.01];

/// Drawn and expected may differ by so many standard errors. Beyond five there is one session in 1.7
/// million by chance; four tops and a few call sites a run leave that rare enough.
const STANDARD_ERRORS_MAX: f64 = 5.0;

/// Counts draws of one call site by rank. 56 bytes; a draw costs four comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAuditCounter {
    last: u64,
    /// Ranks below these belong to the tops.
    ends: [u64; TOP_RATIOS.len()],
    counts: [u64; TOP_RATIOS.len()],
    draws: u64,
}

impl KeyAuditCounter {
    /// For keys 0 to `last`.
    #[must_use]
    pub fn new(last: u64) -> Self {
        let ends = TOP_RATIOS.map(|ratio| (ratio * (last as f64 + 1.0)).round() as u64);
        Self { last, ends, counts: [0; TOP_RATIOS.len()], draws: 0 }
    }

    /// Counts a draw.
    #[inline]
    pub fn count(&mut self, rank: u64) {
        self.draws += 1;
        for (count, end) in self.counts.iter_mut().zip(self.ends) {
            *count += u64::from(rank < end);
        }
    }

    /// The index of the last key counted for.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// How many draws were counted.
    #[must_use]
    pub const fn draws(&self) -> u64 {
        self.draws
    }

    /// Adds another client's counts of the same call site. False, and nothing is added, when it drew
    /// from another number of keys.
    pub fn merge(&mut self, other: &Self) -> bool {
        if self.last != other.last {
            return false;
        }
        self.draws += other.draws;
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        true
    }

    /// Sets the counts beside what `sampler` promises.
    #[must_use]
    pub fn audit(&self, sampler: &Sampler, source: &str, distribution: &str) -> KeyAudit {
        let mut is_passed = true;
        let shares = TOP_RATIOS
            .iter()
            .zip(self.ends)
            .zip(self.counts)
            .map(|((top_ratio, end), count)| {
                let expected = sampler.share_of_top(end);
                let drawn = (self.draws > 0).then(|| count as f64 / self.draws as f64);
                if let Some(drawn) = drawn {
                    let draws = self.draws as f64;
                    // Half a draw for the step of the counts.
                    let allowed = STANDARD_ERRORS_MAX
                        * (expected * (1.0 - expected) / draws).sqrt()
                        + 0.5 / draws;
                    is_passed &= (drawn - expected).abs() <= allowed + 1e-12;
                }
                KeyShare { top_ratio: *top_ratio, expected_ratio: expected, drawn_ratio: drawn }
            })
            .collect();
        KeyAudit {
            source: source.to_owned(),
            distribution: distribution.to_owned(),
            keys: self.last.saturating_add(1),
            draws: self.draws,
            shares,
            is_passed,
        }
    }
}
