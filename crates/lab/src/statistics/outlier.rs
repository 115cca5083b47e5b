//! Whether one pair alone makes the result.

use super::power::t_quantile;
use super::sign_flip::{mean, standard_deviation};

/// Level of Grubbs' test: a session of ordinary pairs is to name one in a hundred times.
const GRUBBS_ALPHA: f64 = 0.01;

/// A pair that moves the mean by this share of half the interval when it is left out is named too.
const MOVED_SHARE: f64 = 0.5;

/// With fewer pairs none can be told from the others.
const PAIRS_MIN: usize = 4;

/// A pair unlike the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlier {
    /// Its place among the pairs, from 0.
    pub pair: usize,
    /// The mean without it.
    pub without: f64,
}

/// The pair that is furthest from the mean, where F. Grubbs' test (Annals of Mathematical Statistics 21,
/// 1950) finds it unlike the others, or the mean hangs on it. Nothing is removed: the pair is named, and
/// the estimate is made by a method that it cannot move far.
#[must_use]
pub fn find(differences: &[f64], interval: Option<(f64, f64)>) -> Option<Outlier> {
    let n = differences.len() as f64;
    let (centre, deviation) = (mean(differences)?, standard_deviation(differences)?);
    if differences.len() < PAIRS_MIN || deviation <= centre.abs() * 1e-12 {
        return None;
    }
    let (pair, value) = differences
        .iter()
        .enumerate()
        .max_by(|a, b| (a.1 - centre).abs().total_cmp(&(b.1 - centre).abs()))?;
    let without = (centre * n - value) / (n - 1.0);
    let moves = interval
        .is_some_and(|(low, high)| (without - centre).abs() > MOVED_SHARE * (high - low) / 2.0);
    let far = (value - centre).abs() / deviation > grubbs_limit(differences.len())?;
    (moves || far).then_some(Outlier { pair, without })
}

/// The largest distance from the mean, in standard deviations, that is still ordinary.
fn grubbs_limit(pairs: usize) -> Option<f64> {
    let n = pairs as f64;
    let t = t_quantile(1.0 - GRUBBS_ALPHA / (2.0 * n), n - 2.0)?;
    Some((n - 1.0) / n.sqrt() * (t * t / (n - 2.0 + t * t)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_published_table() {
        // Two-sided 1%: Grubbs & Beck, Technometrics 14 (1972).
        for (pairs, limit) in [(6, 1.973), (8, 2.274), (10, 2.482), (16, 2.852)] {
            assert!((grubbs_limit(pairs).unwrap() - limit).abs() < 2e-3, "{pairs}");
        }
    }

    #[test]
    fn a_wild_pair_is_named_and_ordinary_ones_are_not() {
        let ordinary = [0.01, -0.02, 0.015, 0.0, -0.005, 0.02, -0.01, 0.005];
        assert_eq!(find(&ordinary, None), None);
        let mut wild = ordinary;
        wild[5] = 0.4;
        let found = find(&wild, None).unwrap();
        assert_eq!(found.pair, 5);
        assert!(found.without.abs() < 0.01);
    }

    #[test]
    fn pairs_that_are_all_alike_have_no_outlier() {
        assert_eq!(find(&[0.1; 8], Some((0.1, 0.1))), None);
        assert_eq!(find(&[0.0; 8], Some((0.0, 0.0))), None);
        assert_eq!(find(&[1.0, 2.0], None), None);
        assert_eq!(find(&[], None), None);
    }
}
