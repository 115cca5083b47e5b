//! What a session could have seen, and how many pairs would settle a question.

use statrs::distribution::{ChiSquared, Continuous, ContinuousCDF, StudentsT};

use super::sign_flip::p_floor;

/// Chance of seeing an effect of the size called detectable.
pub const POWER: f64 = 0.8;

/// Most pairs a recommendation names, and a session takes: beyond it the machine or longer runs, not the
/// number, are the remedy.
pub const PAIRS_MAX: u32 = 1_000;

/// Chance that the number of pairs needed lies in the range that is named.
const RANGE: f64 = 0.8;

/// The quantile of Student's t; `None` below one degree of freedom.
#[must_use]
pub fn t_quantile(probability: f64, degrees: f64) -> Option<f64> {
    if degrees < 1.0 {
        return None;
    }
    let quantile = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(probability);
    quantile.is_finite().then_some(quantile)
}

/// The textbook's least difference seen with a chance of 80% by `pairs` pairs whose differences have this
/// standard deviation, testing at `alpha`: (t(1 - alpha/2) + t(0.8)) s / sqrt(n). Student's test reaches
/// it; the sign-flip test of few pairs does not, see [`detectable`].
#[must_use]
pub fn minimal_detectable(deviation: f64, pairs: usize, alpha: f64) -> Option<f64> {
    let degrees = pairs as f64 - 1.0;
    let sum = t_quantile(1.0 - alpha / 2.0, degrees)? + t_quantile(POWER, degrees)?;
    Some(sum * deviation / (pairs as f64).sqrt())
}

/// What 6 to 16 pairs see with a chance of 80%, in standard deviations of the pairs as the session itself
/// finds it, at the levels of one to five looks. An interval moves along with its pairs, so this is the
/// 80% quantile of how far the interval of unchanged pairs reaches below zero; simulated with normal
/// differences, 20,000 sessions each (8,000 from 13 pairs on), to within 1%. Zero: never significant.
const FLIP_MULTIPLES: [[f64; 5]; 11] = [
    [1.796, 0.0, 0.0, 0.0, 0.0],
    [1.324, 1.841, 1.841, 1.841, 1.841],
    [1.187, 1.393, 1.524, 1.524, 1.524],
    [1.084, 1.212, 1.296, 1.351, 1.351],
    [1.005, 1.111, 1.178, 1.221, 1.247],
    [0.941, 1.037, 1.095, 1.132, 1.154],
    [0.893, 0.982, 1.031, 1.064, 1.089],
    [0.848, 0.932, 0.976, 1.006, 1.029],
    [0.811, 0.889, 0.929, 0.958, 0.979],
    [0.786, 0.859, 0.899, 0.925, 0.944],
    [0.750, 0.819, 0.856, 0.881, 0.898],
];

/// Pairs of the first row of [`FLIP_MULTIPLES`].
const FLIP_PAIRS_MIN: usize = 6;

/// The least difference (in log units) that the sign-flip test at level `alpha` finds with a chance of
/// 80%; `None` where so few pairs are never significant. The discreteness of the test makes few pairs
/// much weaker than the textbook says (six by a third); beyond sixteen the two agree.
#[must_use]
pub fn detectable(deviation: f64, pairs: usize, alpha: f64) -> Option<f64> {
    if p_floor(pairs) > alpha {
        return None;
    }
    let column = super::LOOK_ALPHAS.iter().position(|known| (known - alpha).abs() < 1e-9);
    let row = pairs.checked_sub(FLIP_PAIRS_MIN).and_then(|row| FLIP_MULTIPLES.get(row));
    let multiple =
        column.and_then(|column| row?.get(column).copied()).filter(|multiple| *multiple > 0.0);
    match multiple {
        Some(multiple) => Some(multiple * deviation),
        None => minimal_detectable(deviation, pairs, alpha),
    }
}

/// Rule 6: the least difference found with a chance of 80% where the estimate must lie beyond `threshold` too
/// (the A/A floor; the reach of the seconds within runs): what the test finds, or the threshold and the
/// estimate's own uncertainty.
#[must_use]
pub fn detectable_beyond(threshold: f64, deviation: f64, pairs: usize, alpha: f64) -> Option<f64> {
    let test = detectable(deviation, pairs, alpha)?;
    let error = deviation / (pairs as f64).sqrt();
    Some(test.max(threshold + t_quantile(POWER, pairs as f64 - 1.0)? * error))
}

/// What makes the estimate uncertain and the A/A floor high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Standard deviation of the pairs' differences.
    pub pairs: f64,
    /// Standard deviation between copies of an arm, which more pairs do not lessen.
    pub copies: f64,
}

impl Spread {
    /// Of a session with this spread between pairs and this floor (in log units, where it has one). The
    /// floor is the larger of two differences between copies; what its square is more than chance alone
    /// would make it, on average, is taken for the copies'.
    #[must_use]
    pub fn of(deviation: f64, pairs: usize, floor: Option<f64>) -> Self {
        // E max(x, y)^2 = 1 + 2/pi for standard normal x and y.
        const LARGER_OF_TWO: f64 = 1.0 + 2.0 * std::f64::consts::FRAC_1_PI;
        let by_chance = 2.0 * deviation.powi(2) / (pairs as f64).max(1.0);
        let copies =
            floor.map_or(0.0, |floor| (floor * floor / LARGER_OF_TWO - by_chance).max(0.0) / 2.0);
        Self { pairs: deviation, copies: copies.sqrt() }
    }
}

/// What a session is to be expected to find with a chance of 80%, its A/A floor not known yet: the
/// estimate has to be significant and beyond the floor, which is the larger of two differences between
/// copies, each made of half of an arm's runs and so of twice the estimate's variance.
#[must_use]
pub fn expected_detectable(spread: Spread, pairs: usize, alpha: f64) -> Option<f64> {
    let n = pairs as f64;
    let error = spread.pairs / n.sqrt();
    let test = detectable(spread.pairs, pairs, alpha)?;
    if error <= 0.0 || !error.is_finite() {
        return Some(test).filter(|test| test.is_finite());
    }
    // In standard errors of the estimate as the pairs show it. Its real one holds the copies' part too.
    let needed = test / error - t_quantile(POWER, n - 1.0)?;
    let wider = (1.0 + (spread.copies / error).powi(2)).sqrt();
    let degrees = n - 1.0;
    let density_at = |x: f64| (1.0 + x * x / degrees).powf(-(degrees + 1.0) / 2.0);
    let density_of_zero = StudentsT::new(0.0, 1.0, degrees).ok()?.pdf(0.0);
    // The chance that an estimate around `effect` is beyond what is needed and beyond the floor, summed
    // in small steps by the midpoint rule.
    let step = 0.1 * wider;
    let beyond: Vec<(f64, f64)> = (0..200)
        .map(|number| {
            let estimate = needed + (f64::from(number) + 0.5) * step;
            let floor_is_below = statrs::function::erf::erf(estimate / wider / 2.0).powi(2);
            (estimate, floor_is_below * step / wider * density_of_zero)
        })
        .collect();
    let found = |effect: f64| -> f64 {
        beyond.iter().map(|(at, weight)| density_at((at - effect) / wider) * weight).sum()
    };
    let (mut low, mut high) = (needed, needed + 10.0 * wider);
    for _ in 0..24 {
        let middle = low + (high - low) / 2.0;
        if found(middle) < POWER { low = middle } else { high = middle }
    }
    Some(test.max(high * error))
}

/// The floor that chance alone stays below in 95% of sessions with this spread: two differences between
/// copies, each of twice the estimate's variance.
#[must_use]
pub fn floor_by_chance(deviation: f64, pairs: usize) -> f64 {
    // The normal quantile of (1 + sqrt(0.95)) / 2, times the square root of 2.
    const MULTIPLE: f64 = 2.2365 * std::f64::consts::SQRT_2;
    MULTIPLE * deviation / (pairs as f64).max(1.0).sqrt()
}

/// The fewest pairs whose least p reaches `alpha`: fewer can never be significant.
#[must_use]
pub fn pairs_for_level(alpha: f64) -> u32 {
    (1..=16).find(|pairs| p_floor(*pairs as usize) <= alpha).unwrap_or(17)
}

/// How many pairs are to be expected to find `effect` with a chance of 80%, at least
/// [`pairs_for_level`] of them; `None` beyond [`PAIRS_MAX`] (the machine or the copies are the remedy
/// then), or where effect or spread are not above zero.
#[must_use]
pub fn pairs_needed(spread: Spread, effect: f64, alpha: f64) -> Option<u32> {
    if !(spread.pairs > 0.0 && effect > 0.0) {
        return None;
    }
    let enough = |pairs: u32| {
        expected_detectable(spread, pairs as usize, alpha).is_some_and(|least| least <= effect)
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

/// Between which numbers the pairs needed lie with a chance of 80%, since the spread of `pairs` pairs is known
/// only so well; at least `pairs` and one. An end beyond [`PAIRS_MAX`] is `None`.
#[must_use]
pub fn pairs_needed_range(
    spread: Spread,
    pairs: usize,
    effect: f64,
    alpha: f64,
) -> (Option<u32>, Option<u32>) {
    let degrees = pairs as f64 - 1.0;
    let at = |probability: f64| -> Option<u32> {
        let quantile = ChiSquared::new(degrees).ok()?.inverse_cdf(probability);
        let deviation = spread.pairs * (degrees / quantile).sqrt();
        let more = u32::try_from(pairs).unwrap_or(PAIRS_MAX).saturating_add(1);
        pairs_needed(Spread { pairs: deviation, ..spread }, effect, alpha)
            .map(|needed| needed.max(more))
    };
    if degrees < 1.0 {
        return (None, None);
    }
    (at((1.0 + RANGE) / 2.0), at((1.0 - RANGE) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::super::sign_flip::{SubsetMeans, standard_deviation};
    use super::*;

    fn spread(pairs: f64) -> Spread {
        Spread { pairs, copies: 0.0 }
    }

    #[test]
    fn copies_that_differ_make_more_pairs_needed_and_then_none_enough() {
        let needed = |copies: f64| pairs_needed(Spread { pairs: 0.04, copies }, 0.02, 0.05);
        let (alike, apart) = (needed(0.0).unwrap(), needed(0.004).unwrap());
        assert!(alike < apart && apart < 2 * alike, "{alike} {apart}");
        assert_eq!(needed(0.03), None);
    }

    #[test]
    fn the_range_of_pairs_needed_holds_the_number_in_four_sessions_of_five() {
        let mut normal = super::super::synthetic::Normal::new(77);
        let truth = pairs_needed(spread(0.04), 0.02, 0.05).unwrap();
        let sessions = 400;
        let held = (0..sessions)
            .filter(|_| {
                let noise: Vec<f64> = (0..8).map(|_| 0.04 * normal.deviate()).collect();
                let found = spread(standard_deviation(&noise).unwrap());
                let (low, high) = pairs_needed_range(found, 8, 0.02, 0.05);
                low.is_some_and(|low| low <= truth) && high.is_none_or(|high| high >= truth)
            })
            .count();
        // Three standard errors of 80%.
        assert!((296..=344).contains(&held), "{held}");
        assert_eq!(pairs_needed_range(spread(0.04), 1, 0.02, 0.05), (None, None));
        assert_eq!(pairs_needed_range(spread(9.0), 8, 0.02, 0.05), (None, None));
        assert_eq!(pairs_needed_range(spread(1e-9), 8, 0.02, 0.05), (Some(9), Some(9)));
    }

    #[test]
    fn a_floor_that_chance_makes_is_not_taken_for_the_copies() {
        let alike = spread(0.04);
        assert_eq!(Spread::of(0.04, 8, None), alike);
        assert_eq!(Spread::of(0.04, 8, Some(0.02)), alike);
        // 0.1^2 / 1.6366 is the variance of a difference of copies, half of it that of a copy.
        let apart = Spread::of(1e-9, 8, Some(0.1)).copies;
        assert!((apart - (0.01 / 1.63662 / 2.0_f64).sqrt()).abs() < 1e-6, "{apart}");
    }

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
        assert!((minimal_detectable(0.021, 36, 0.05).unwrap() - 0.01).abs() < 5e-4);
        // The floor's guard costs some more.
        let pairs = pairs_needed(spread(0.021), 0.01, 0.05).unwrap();
        assert!((37..=44).contains(&pairs), "{pairs}");
        assert_eq!(pairs_needed(spread(0.0), 0.01, 0.05), None);
        assert_eq!(pairs_needed(spread(10.0), 0.001, 0.05), None);
        // A spread next to nothing needs as many pairs as the level can use at all.
        assert_eq!(pairs_needed(spread(1e-9), 0.01, 0.05), Some(6));
        assert_eq!(pairs_needed(spread(1e-9), 0.01, 0.0221), Some(7));
    }

    #[test]
    fn what_is_called_detectable_is_found_in_eight_sessions_of_ten() {
        let mut normal = super::super::synthetic::Normal::new(31);
        for (pairs, alpha) in [(6, 0.05), (7, 0.0221), (8, 0.05), (10, 0.0158), (12, 0.0221)] {
            let sessions = 1500;
            let found = (0..sessions)
                .filter(|_| {
                    let noise: Vec<f64> = (0..pairs).map(|_| normal.deviate()).collect();
                    let deviation = standard_deviation(&noise).unwrap();
                    let effect = detectable(deviation, pairs, alpha).unwrap();
                    let changed: Vec<f64> = noise.iter().map(|noise| noise + effect).collect();
                    SubsetMeans::new(&changed, 0).interval(alpha).unwrap().0 > 0.0
                })
                .count();
            // Three standard errors of 80%, and one percent for the table.
            assert!((1140..=1260).contains(&found), "{pairs} pairs at {alpha}: {found}");
        }
    }

    #[test]
    fn what_can_never_be_significant_is_not_called_detectable() {
        assert_eq!(detectable(0.01, 5, 0.05), None);
        assert_eq!(detectable(0.01, 6, 0.0221), None);
        assert_eq!(expected_detectable(spread(0.01), 3, 0.05), None);
        assert_eq!(expected_detectable(spread(0.0), 8, 0.05), Some(0.0));
    }

    #[test]
    fn the_guard_of_the_floor_makes_more_of_a_change_needed_and_never_less() {
        for pairs in [6, 8, 12, 16, 44, 1000] {
            let test = detectable(1.0, pairs, 0.05).unwrap();
            let guarded = expected_detectable(spread(1.0), pairs, 0.05).unwrap();
            assert!(guarded >= test && guarded < 1.3 * test, "{pairs}: {test} {guarded}");
            let error = 1.0 / (pairs as f64).sqrt();
            let beyond = detectable_beyond(9.0, 1.0, pairs, 0.05).unwrap();
            assert!((beyond - 9.0 - 0.85 * error).abs() < 0.1 * error);
            assert!((detectable_beyond(0.0, 1.0, pairs, 0.05).unwrap() - test).abs() < 1e-12);
        }
    }
}
