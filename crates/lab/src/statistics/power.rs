//! What a session could have seen, and how many pairs would settle a question.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::sign_flip::p_floor;

/// Chance of seeing an effect of the size called detectable.
pub const POWER: f64 = 0.8;

/// Most pairs a recommendation names: beyond it the machine, not the number, is the remedy.
pub const PAIRS_MAX: u32 = 10_000;

/// The quantile of Student's t; `None` below one degree of freedom.
#[must_use]
pub fn t_quantile(probability: f64, degrees: f64) -> Option<f64> {
    if degrees < 1.0 {
        return None;
    }
    let quantile = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(probability);
    quantile.is_finite().then_some(quantile)
}

/// The least difference (in log units) seen with a chance of 80% by `pairs` pairs whose differences
/// have this standard deviation, testing at `alpha`: (t(1 - alpha/2) + t(0.8)) s / sqrt(n).
#[must_use]
pub fn minimal_detectable(deviation: f64, pairs: usize, alpha: f64) -> Option<f64> {
    let degrees = pairs as f64 - 1.0;
    let sum = t_quantile(1.0 - alpha / 2.0, degrees)? + t_quantile(POWER, degrees)?;
    Some(sum * deviation / (pairs as f64).sqrt())
}

/// The fewest pairs whose least p reaches `alpha`: fewer can never be significant.
#[must_use]
pub fn pairs_for_level(alpha: f64) -> u32 {
    (1..=16).find(|pairs| p_floor(*pairs as usize) <= alpha).unwrap_or(17)
}

/// How many pairs see `effect` with a chance of 80%, at least [`pairs_for_level`] of them; `None` beyond [`PAIRS_MAX`], or where effect or deviation are not above zero.
#[must_use]
pub fn pairs_needed(deviation: f64, effect: f64, alpha: f64) -> Option<u32> {
    if !(deviation > 0.0 && effect > 0.0) {
        return None;
    }
    let enough = |pairs: u32| {
        minimal_detectable(deviation, pairs as usize, alpha).is_some_and(|least| least <= effect)
    };
    let (mut low, mut high) = (pairs_for_level(alpha), PAIRS_MAX);
    if !enough(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_quantiles_are_those_of_the_tables() {
        for (degrees, expected) in [(5.0, 2.5706), (7.0, 2.3646), (10.0, 2.2281), (30.0, 2.0423)] {
            assert!((t_quantile(0.975, degrees).unwrap() - expected).abs() < 1e-4);
        }
        assert_eq!(t_quantile(0.975, 0.0), None);
    }

    #[test]
    fn a_spread_of_two_percent_needs_six_pairs_for_three_percent_and_dozens_for_one() {
        let least = minimal_detectable(0.021, 6, 0.05).unwrap();
        assert!((0.028..0.032).contains(&least), "{least}");
        let pairs = pairs_needed(0.021, 0.01, 0.05).unwrap();
        assert!((34..=40).contains(&pairs), "{pairs}");
        assert_eq!(pairs_needed(0.0, 0.01, 0.05), None);
        assert_eq!(pairs_needed(10.0, 0.001, 0.05), None);
        // A spread next to nothing needs as many pairs as the level can use at all.
        assert_eq!(pairs_needed(1e-9, 0.01, 0.05), Some(6));
        assert_eq!(pairs_needed(1e-9, 0.01, 0.0221), Some(7));
    }
}
