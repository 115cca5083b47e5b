//! Series of values over time: change points, trends, periods.

use super::sign_flip::{mean, median};
use crate::distribution::{Purpose, RandomStream};

/// What a run's series of seconds looks like (after E. Barrett et al., OOPSLA 2017).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One level.
    Flat,
    /// It ends above where it began.
    WarmUp,
    /// It ends below where it began.
    Slowdown,
}

/// Shortest stretch between change points, in values.
pub const SEGMENT_MIN: usize = 10;

/// Shorter series are not classified.
const SERIES_MIN: usize = 30;

/// Permutations of a change point's test: the least p is 1 in 100.
const PERMUTATIONS: usize = 99;

/// Level of that test.
const CHANGE_POINT_ALPHA: f64 = 0.01;

/// A change of level smaller than this share does not matter to a comparison.
const LEVEL_RATIO_MIN: f64 = 0.05;

/// Classifies a series by its change points: the level of its last segment against the first. `None`
/// for series that are too short.
#[must_use]
pub fn classify(values: &[f64], seed: u64) -> Option<Class> {
    if values.len() < SERIES_MIN {
        return None;
    }
    let points = change_points(values, seed);
    let first_end = points.first().copied().unwrap_or(values.len());
    let last_start = points.last().copied().unwrap_or(0);
    let first = median(values.get(..first_end)?)?;
    let last = median(values.get(last_start..)?)?;
    let level = mean(values)?.abs();
    if points.is_empty() || (last - first).abs() <= level * LEVEL_RATIO_MIN {
        return Some(Class::Flat);
    }
    Some(if last > first { Class::WarmUp } else { Class::Slowdown })
}

/// Where the distribution of a series changes: divisive estimation with the energy statistic (D.
/// Matteson, N. James, JASA 109, 2014; exponent 1), each split tested by permutation within its
/// segment. Positions are the starts of the later segments, ascending.
#[must_use]
pub fn change_points(values: &[f64], seed: u64) -> Vec<usize> {
    let mut stream = RandomStream::new(seed, 3, Purpose::Audit);
    let mut points = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        let Some(segment) = values.get(from..to) else { continue };
        let Some((split, statistic)) = best_split(segment) else { continue };
        let mut shuffled = segment.to_vec();
        let mut at_least = 1;
        // Stops as soon as the level cannot be reached any more.
        let allowed = (CHANGE_POINT_ALPHA * (PERMUTATIONS + 1) as f64).floor() as usize;
        for _ in 0..PERMUTATIONS {
            for i in (1..shuffled.len()).rev() {
                let other = stream.up_to(i as u64) as usize;
                shuffled.swap(i, other);
            }
            at_least += usize::from(best_split(&shuffled).is_some_and(|(_, s)| s >= statistic));
            if at_least > allowed {
                break;
            }
        }
        if at_least <= allowed {
            points.push(from + split);
            open.push((from, from + split));
            open.push((from + split, to));
        }
    }
    points.sort_unstable();
    points
}

/// The split with the largest energy statistic, and the statistic. Sums of distances are kept up to
/// date while the split moves on, so all splits together cost n^2.
fn best_split(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    if n < 2 * SEGMENT_MIN {
        return None;
    }
    let distance_to = |value: f64, others: &[f64]| -> f64 {
        others.iter().map(|other| (value - other).abs()).sum()
    };
    let (left, right) = values.split_at(SEGMENT_MIN);
    let mut within_left: f64 =
        left.iter().enumerate().map(|(i, v)| distance_to(*v, left.get(..i).unwrap_or(&[]))).sum();
    let mut within_right: f64 =
        right.iter().enumerate().map(|(i, v)| distance_to(*v, right.get(..i).unwrap_or(&[]))).sum();
    let mut between: f64 = left.iter().map(|value| distance_to(*value, right)).sum();
    let mut best: Option<(usize, f64)> = None;
    for split in SEGMENT_MIN..=n - SEGMENT_MIN {
        let (a, b) = (split as f64, (n - split) as f64);
        let energy = 2.0 * between / (a * b)
            - within_left * 2.0 / (a * (a - 1.0))
            - within_right * 2.0 / (b * (b - 1.0));
        let statistic = energy * a * b / (a + b);
        if best.is_none_or(|(_, most)| statistic > most) {
            best = Some((split, statistic));
        }
        // The value at `split` changes sides.
        let (Some(value), Some(before), Some(after)) =
            (values.get(split), values.get(..split), values.get(split + 1..))
        else {
            break;
        };
        let (to_left, to_right) = (distance_to(*value, before), distance_to(*value, after));
        within_left += to_left;
        within_right -= to_right;
        between += to_right - to_left;
    }
    best
}

/// The Theil-Sen slope: the median of the slopes of all pairs of points. `None` below two points.
#[must_use]
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, (x, y)) in points.iter().enumerate() {
        for (other_x, other_y) in points.iter().skip(i + 1) {
            if (other_x - x).abs() > 0.0 {
                slopes.push((other_y - y) / (other_x - x));
            }
        }
    }
    median(&slopes)
}

/// Kendall's two-sided p for a trend, by the normal approximation without ties; `None` below 6 points.
#[must_use]
pub fn trend_p(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    if n < 6.0 {
        return None;
    }
    let mut score = 0.0;
    for (i, (x, y)) in points.iter().enumerate() {
        for (other_x, other_y) in points.iter().skip(i + 1) {
            score += ((other_y - y) * (other_x - x)).signum();
        }
    }
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let z = (score.abs() - 1.0).max(0.0) / variance.sqrt();
    Some(statrs::function::erf::erfc(z * std::f64::consts::FRAC_1_SQRT_2))
}

/// Autocorrelation at `lag`; `None` where there is no variance.
#[must_use]
pub fn autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    let centre = mean(values)?;
    let variance: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    if variance <= 0.0 || lag >= values.len() {
        return None;
    }
    let product: f64 =
        values.iter().zip(values.iter().skip(lag)).map(|(a, b)| (a - centre) * (b - centre)).sum();
    Some(product / variance)
}

/// The share of independent samples that a series is worth: 1 / (1 + 2 sum of autocorrelations), the
/// sum cut where it first turns negative (C. Geyer, 1992). `None` where there is no variance.
#[must_use]
pub fn effective_ratio(values: &[f64]) -> Option<f64> {
    let mut sum = 0.0;
    for lag in 1..values.len() / 2 {
        let correlation = autocorrelation(values, lag)?;
        if correlation <= 0.0 {
            break;
        }
        sum += correlation;
    }
    Some((1.0 / (1.0 + 2.0 * sum)).min(1.0))
}

/// The period (in values) at which a series repeats itself, with the autocorrelation there; `None`
/// where none stands out. The peak must lie above what 99% of shuffled series reach, and not be the
/// slope of slow changes.
#[must_use]
pub fn period(values: &[f64], seed: u64) -> Option<(usize, f64)> {
    let longest = values.len() / 3;
    if longest < 4 {
        return None;
    }
    let peak = |values: &[f64]| -> Option<(usize, f64)> {
        let correlations: Vec<f64> =
            (0..=longest).map(|lag| autocorrelation(values, lag).unwrap_or(0.0)).collect();
        // Only behind the first dip: before it lies the correlation of neighbours.
        let dip = correlations.iter().position(|c| *c < 0.1)?;
        (dip.max(2)..longest)
            .filter_map(|lag| {
                let (before, here, after) = (
                    correlations.get(lag - 1)?,
                    correlations.get(lag)?,
                    correlations.get(lag + 1)?,
                );
                (here >= before && here >= after).then_some((lag, *here))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (lag, height) = peak(values)?;
    if height < 0.3 {
        return None;
    }
    let mut stream = RandomStream::new(seed, 4, Purpose::Audit);
    let mut shuffled = values.to_vec();
    let mut at_least = 0;
    for _ in 0..PERMUTATIONS {
        for i in (1..shuffled.len()).rev() {
            let other = stream.up_to(i as u64) as usize;
            shuffled.swap(i, other);
        }
        at_least += usize::from(peak(&shuffled).is_some_and(|(_, other)| other >= height));
    }
    (at_least == 0).then_some((lag, height))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, count: usize) -> Vec<f64> {
        let mut stream = RandomStream::new(seed, 9, Purpose::Audit);
        (0..count).map(|_| stream.unit() + stream.unit() + stream.unit()).collect()
    }

    #[test]
    fn a_planted_change_is_found_where_it_is() {
        let mut values = noise(1, 120);
        for value in values.iter_mut().skip(40) {
            *value += 2.0;
        }
        let points = change_points(&values, 5);
        assert_eq!(points.len(), 1, "{points:?}");
        assert!((38..=42).contains(&points[0]), "{points:?}");
        assert_eq!(classify(&values, 5), Some(Class::WarmUp));
        values.reverse();
        assert_eq!(classify(&values, 5), Some(Class::Slowdown));
    }

    #[test]
    fn noise_is_flat_in_nearly_all_series() {
        let flat =
            (0..60).filter(|seed| classify(&noise(*seed, 60), *seed) == Some(Class::Flat)).count();
        assert!(flat >= 56, "{flat} of 60");
        assert_eq!(classify(&noise(1, 20), 0), None);
    }

    #[test]
    fn a_spike_is_not_a_change_of_level() {
        let mut values = noise(3, 90);
        values[45] = 30.0;
        assert_eq!(classify(&values, 1), Some(Class::Flat));
    }

    #[test]
    fn slope_and_trend_are_seen_through_an_outlier() {
        let mut points: Vec<(f64, f64)> =
            (0..12).map(|i| (f64::from(i), f64::from(2 * i))).collect();
        points[5].1 = 900.0;
        assert!((theil_sen(&points).unwrap() - 2.0).abs() < 0.2);
        assert!(trend_p(&points).unwrap() < 0.01);
        assert_eq!(trend_p(&points[..4]), None);
    }

    #[test]
    fn interference_every_twelve_values_is_named() {
        let mut values = noise(7, 120);
        for value in values.iter_mut().step_by(12) {
            *value += 6.0;
        }
        assert_eq!(period(&values, 1).map(|(lag, _)| lag), Some(12));
        assert_eq!(period(&noise(8, 120), 1), None);
    }

    #[test]
    fn correlated_seconds_are_worth_less() {
        let independent = noise(2, 400);
        let mut correlated = independent.clone();
        for i in 1..correlated.len() {
            correlated[i] = 0.8 * correlated[i - 1] + independent[i];
        }
        assert!(effective_ratio(&independent).unwrap() > 0.6);
        // (1 - 0.8) / (1 + 0.8) = 0.11.
        assert!((0.05..0.25).contains(&effective_ratio(&correlated).unwrap()));
        assert_eq!(effective_ratio(&[1.0; 10]), None);
    }
}
