//! What was drawn against what was promised.
//!
//! A counter has a fixed size whatever the number of keys: draws on the most likely 20, 10, 5 and
//! 1% of keys, and draws by 64ths of the ranks. The first are reported; both decide whether the
//! draws agree with the law, which finds wrong parameters, wrong shapes, and generators with too few
//! bits that leave parts of a large table unread.

use statrs::distribution::{Binomial, DiscreteCDF};
use statrs::function::gamma::checked_gamma_ur;

use super::{KeyLaw, Sampler};
use crate::experiment::document::{KeyAudit, KeyShare};

/// The shares of keys that are reported.
pub const TOP_RATIOS: [f64; 4] = [0.2, 0.1, 0.05, 0.01];

/// Agreement ends where chance would produce such a deviation less than once in this many tests.
/// A session makes some thousands of tests (runs x functions x five), so a sound generator fails a
/// session about once in a hundred thousand sessions.
const PROBABILITY_LIMIT: f64 = 1e-9;

/// Equal parts of the ranks that are counted apart.
const PARTS: usize = 64;

/// Counts draws of one call site by rank, for one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAuditCounter {
    last: u64,
    /// Ranks below these belong to the tops.
    ends: [u64; TOP_RATIOS.len()],
    in_top: [u64; TOP_RATIOS.len()],
    in_part: [u64; PARTS],
    draws: u64,
}

impl KeyAuditCounter {
    /// For keys 0 to `last`.
    #[must_use]
    pub fn new(last: u64) -> Self {
        let ends = TOP_RATIOS.map(|ratio| (ratio * (last as f64 + 1.0)).round() as u64);
        Self { last, ends, in_top: [0; TOP_RATIOS.len()], in_part: [0; PARTS], draws: 0 }
    }

    /// Counts a draw. A few nanoseconds.
    #[inline]
    pub fn count(&mut self, rank: u64) {
        self.draws += 1;
        for (count, end) in self.in_top.iter_mut().zip(self.ends) {
            *count += u64::from(rank < end);
        }
        let part = self.part_of(rank);
        if let Some(count) = self.in_part.get_mut(part) {
            *count += 1;
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
        for (mine, theirs) in self.in_top.iter_mut().zip(other.in_top) {
            *mine += theirs;
        }
        for (mine, theirs) in self.in_part.iter_mut().zip(other.in_part) {
            *mine += theirs;
        }
        true
    }

    /// Sets the counts beside what `sampler` promises. `source` says where the draws were asked for:
    /// script, line and the call as written.
    #[must_use]
    pub fn audit(&self, sampler: &Sampler, source: &str, distribution: &str) -> KeyAudit {
        let law = sampler.law();
        let mut is_passed = self.last == sampler.last() && self.parts_agree(&law);
        let shares = TOP_RATIOS
            .into_iter()
            .zip(self.ends)
            .zip(self.in_top)
            .map(|((top_ratio, end), count)| {
                let expected_ratio = law.share_of_top(u128::from(end));
                is_passed &= is_within_chance(count, self.draws, expected_ratio);
                let drawn_ratio = (self.draws > 0).then(|| count as f64 / self.draws as f64);
                KeyShare { top_ratio, expected_ratio, drawn_ratio }
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

    #[inline]
    fn part_of(&self, rank: u64) -> usize {
        if self.last < 1 << 57 {
            // 64 times a rank fits into a word: a fast division.
            return (rank * PARTS as u64 / (self.last + 1)) as usize;
        }
        (u128::from(rank) * PARTS as u128 / (u128::from(self.last) + 1)) as usize
    }

    /// Pearson's chi-square over the parts; neighbours are pooled until 10 draws are expected.
    fn parts_agree(&self, law: &KeyLaw) -> bool {
        let keys = law.keys();
        let first_of = |part: usize| (part as u128 * keys).div_ceil(PARTS as u128);
        let mut cells: Vec<(f64, u64)> = Vec::new();
        let (mut expected, mut drawn) = (0.0, 0);
        for (part, count) in self.in_part.iter().enumerate() {
            expected += law.share_of_ranks(first_of(part), first_of(part + 1)) * self.draws as f64;
            drawn += count;
            if expected >= 10.0 {
                cells.push((expected, drawn));
                (expected, drawn) = (0.0, 0);
            }
        }
        match cells.last_mut() {
            Some(cell) => {
                cell.0 += expected;
                cell.1 += drawn;
            }
            None => return true,
        }
        let degrees = cells.len() - 1;
        if degrees == 0 {
            return true;
        }
        let statistic: f64 = cells
            .iter()
            .map(|(expected, drawn)| (*drawn as f64 - expected).powi(2) / expected)
            .sum();
        is_chi_square_within_chance(degrees as f64, statistic)
    }
}

/// Whether chance alone gives a chi-square so large. Nothing to explain (0) is within chance; what is
/// no number is not.
fn is_chi_square_within_chance(degrees: f64, statistic: f64) -> bool {
    // The incomplete gamma function is not defined at 0 here.
    statistic == 0.0
        || checked_gamma_ur(degrees / 2.0, statistic / 2.0)
            .is_ok_and(|probability| probability >= PROBABILITY_LIMIT)
}

/// Whether `count` of `draws` is what a `probability` allows within chance: two-sided binomial test
/// at [`PROBABILITY_LIMIT`], exact where the normal curve is not near enough.
fn is_within_chance(count: u64, draws: u64, probability: f64) -> bool {
    let mean = draws as f64 * probability;
    let variance = mean * (1.0 - probability);
    if draws == 0 {
        return true;
    }
    if variance < 1e-6 {
        // All or none.
        return (count as f64 - mean).abs() < 1.0;
    }
    if variance > 1e4 {
        return (count as f64 - mean).abs() <= NORMAL_LIMIT * variance.sqrt() + 0.5;
    }
    let Ok(binomial) = Binomial::new(probability.clamp(0.0, 1.0), draws) else { return false };
    let tail = if (count as f64) < mean {
        binomial.cdf(count)
    } else {
        count.checked_sub(1).map_or(1.0, |below| binomial.sf(below))
    };
    2.0 * tail >= PROBABILITY_LIMIT
}

/// Deviations on the normal curve that both sides together exceed with [`PROBABILITY_LIMIT`].
const NORMAL_LIMIT: f64 = 6.109_410;
