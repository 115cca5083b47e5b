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
    /// It changes its level so late that nothing is known of the level after.
    NoSteadyState,
}

/// Rule 7: longest series looked at value by value; longer ones are condensed to medians of equal stretches,
/// since the search for change points costs the square of the length. Ten minutes of seconds are not
/// condensed, a day's are taken in stretches of 2.5 minutes.
const VALUES_MAX: usize = 600;

/// A level that begins within this last part of a series has not been seen to last.
const LAST_PART: f64 = 0.8;

/// Shortest stretch between change points, in values.
pub const SEGMENT_MIN: usize = 10;

/// Shorter series are not classified.
const SERIES_MIN: usize = 30;

/// Permutations of a change point's test: the least p is 1 in 100.
const PERMUTATIONS: usize = 99;

/// Level of that test.
const CHANGE_POINT_ALPHA: f64 = 0.01;

/// Longest distance over which values are correlated; ten minutes of seconds.
const LAG_MAX: usize = 600;

/// So many values are searched for a period.
const PERIOD_VALUES_MAX: usize = 3600;

/// A change of level smaller than this share does not matter to a comparison.
const LEVEL_RATIO_MIN: f64 = 0.05;

/// What was seen of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// What it looks like.
    pub class: Class,
    /// Level of the last segment over that of the first, minus one.
    pub change_ratio: f64,
    /// Where the last segment begins.
    pub last_start: usize,
}

/// Classifies a series by its change points: the level of its last segment against the first, where
/// neighbouring segments whose levels differ by no more than 5% are one. `None` for series that are too
/// short, or without a level.
#[must_use]
pub fn classify(values: &[f64], seed: u64) -> Option<Course> {
    if values.len() < SERIES_MIN {
        return None;
    }
    let stretch = values.len().div_ceil(VALUES_MAX);
    let condensed: Vec<f64> = values.chunks(stretch).filter_map(median).collect();
    let mut starts = vec![0];
    starts.extend(change_points(&condensed, seed));
    let mut segments: Vec<(usize, f64)> = Vec::new();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(condensed.len());
        let level = median(condensed.get(*start..end)?)?;
        let is_another = segments
            .last()
            .is_none_or(|(_, before)| (level - before).abs() > LEVEL_RATIO_MIN * before.abs());
        if is_another {
            segments.push((*start, level));
        }
    }
    let ((_, first), (last_start, last)) = (*segments.first()?, *segments.last()?);
    let change_ratio = Some(last / first - 1.0).filter(|change| change.is_finite())?;
    let last_start = last_start * stretch;
    let class = if change_ratio.abs() <= LEVEL_RATIO_MIN {
        Class::Flat
    } else if last_start as f64 > LAST_PART * values.len() as f64 {
        Class::NoSteadyState
    } else if change_ratio > 0.0 {
        Class::WarmUp
    } else {
        Class::Slowdown
    };
    Some(Course { class, change_ratio, last_start })
}

/// How many values at the beginning look like warm-up: the cut that leaves the mean of the rest most
/// certain, on batches of five (MSER-5: K. White, Simulation 69, 1997). Zero where nothing is to be cut;
/// `None` where no cut in the first half is better than the one at its end, which says that the series is
/// too short to tell. By chance it cuts a batch or two more than it had to.
#[must_use]
pub fn warm_up(values: &[f64]) -> Option<usize> {
    const BATCH: usize = 5;
    let batches: Vec<f64> = values.chunks_exact(BATCH).filter_map(mean).collect();
    let count = batches.len();
    if count < 4 {
        return None;
    }
    // From the end, so that each cut costs one addition. Around the mean, so that squares do not
    // cancel out.
    let centre = mean(&batches)?;
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best: Option<(usize, f64)> = None;
    for (kept, (cut, batch)) in (1_u32..).zip(batches.iter().enumerate().rev()) {
        let n = f64::from(kept);
        sum += batch - centre;
        squares += (batch - centre).powi(2);
        let error = (squares - sum * sum / n).max(0.0) / (n * n);
        if cut * 2 <= count && best.is_none_or(|(_, least)| error <= least) {
            best = Some((cut, error));
        }
    }
    let (cut, _) = best?;
    (cut < count / 2).then_some(cut * BATCH)
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

/// Kendall's two-sided p for a trend, by the normal approximation with the variance that ties among the
/// values leave (M. Kendall, *Rank Correlation Methods*, 1975); `None` below 6 points. Values that are
/// all equal have no trend: 1.
#[must_use]
pub fn trend_p(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    if n < 6.0 {
        return None;
    }
    let mut score = 0.0;
    for (i, (x, y)) in points.iter().enumerate() {
        for (other_x, other_y) in points.iter().skip(i + 1) {
            score += sign(other_y - y) * sign(other_x - x);
        }
    }
    let weight = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
    let mut values: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    values.sort_by(f64::total_cmp);
    let tied: f64 = values
        .chunk_by(|a, b| a.total_cmp(b).is_eq())
        .map(|group| weight(group.len() as f64))
        .sum();
    let variance = weight(n) - tied;
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = (score.abs() - 1.0).max(0.0) / variance.sqrt();
    Some(statrs::function::erf::erfc(z * std::f64::consts::FRAC_1_SQRT_2))
}

/// Unlike `signum`, zero for zero: ties must not count as ascents.
fn sign(value: f64) -> f64 {
    if value > 0.0 {
        1.0
    } else if value < 0.0 {
        -1.0
    } else {
        0.0
    }
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
    for lag in 1..(values.len() / 2).min(LAG_MAX) {
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
    // Of a long series its middle stands for all: a timer that runs through the night shows in an hour.
    let middle = values.len().saturating_sub(PERIOD_VALUES_MAX) / 2;
    let values = values.get(middle..)?;
    let values = values.get(..PERIOD_VALUES_MAX).unwrap_or(values);
    let longest = (values.len() / 3).min(LAG_MAX);
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

    fn class(values: &[f64], seed: u64) -> Option<Class> {
        classify(values, seed).map(|course| course.class)
    }

    #[test]
    fn a_change_at_the_very_end_is_no_steady_state() {
        let mut values = noise(11, 120);
        for value in values.iter_mut().skip(104) {
            *value += 3.0;
        }
        assert_eq!(class(&values, 5), Some(Class::NoSteadyState));
    }

    #[test]
    fn a_day_of_seconds_is_classified_at_the_cost_of_ten_minutes() {
        let mut values = noise(12, 86_400);
        assert_eq!(class(&values, 5), Some(Class::Flat));
        for value in values.iter_mut().take(20_000) {
            *value *= 0.5;
        }
        let course = classify(&values, 5).unwrap();
        assert_eq!(course.class, Class::WarmUp);
        assert!((19_000..21_000).contains(&course.last_start), "{course:?}");
        assert!((0.9..1.1).contains(&course.change_ratio), "{course:?}");
        assert_eq!(period(&values, 1), None);
        assert!(effective_ratio(&values).is_some());
    }

    #[test]
    fn warm_up_is_cut_where_the_level_is_reached() {
        let mut values = noise(13, 100);
        for (second, value) in values.iter_mut().take(20).enumerate() {
            *value -= 3.0 - 0.1 * second as f64;
        }
        let cut = warm_up(&values).unwrap();
        assert!((15..=35).contains(&cut), "{cut}");
        assert_eq!(warm_up(&[1.0; 60]), Some(0), "nothing to cut where all is alike");
        let growing: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(warm_up(&growing), None, "a series that never settles has no end of warm-up");
        assert_eq!(warm_up(&[1.0; 15]), None);
        assert_eq!(warm_up(&[]), None);
    }

    #[test]
    fn values_that_are_all_alike_have_no_trend() {
        let flat: Vec<(f64, f64)> = (0..12).map(|i| (f64::from(i), 0.0)).collect();
        assert_eq!(trend_p(&flat), Some(1.0));
        // Kendall's score of 1 1 2 2 3 3 is 12, its variance (510 - 3 x 18) / 18 = 25.33.
        let steps: Vec<(f64, f64)> = (0..6).map(|i| (f64::from(i), f64::from(i / 2))).collect();
        let expected =
            statrs::function::erf::erfc(11.0 / (456.0_f64 / 18.0).sqrt() / 2.0_f64.sqrt());
        assert!((trend_p(&steps).unwrap() - expected).abs() < 1e-12);
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
        assert_eq!(class(&values, 5), Some(Class::WarmUp));
        values.reverse();
        assert_eq!(class(&values, 5), Some(Class::Slowdown));
    }

    #[test]
    fn noise_is_flat_in_nearly_all_series() {
        let flat =
            (0..60).filter(|seed| class(&noise(*seed, 60), *seed) == Some(Class::Flat)).count();
        assert!(flat >= 56, "{flat} of 60");
        assert_eq!(class(&noise(1, 20), 0), None);
    }

    #[test]
    fn a_spike_is_not_a_change_of_level() {
        let mut values = noise(3, 90);
        values[45] = 30.0;
        assert_eq!(class(&values, 1), Some(Class::Flat));
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
