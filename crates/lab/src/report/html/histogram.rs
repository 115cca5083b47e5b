//! How response times are distributed, both arms over each other; gaps between two kinds of
//! transactions are marked.

use std::collections::BTreeSet;
use std::io;

use super::chart::{self, Anchor, Chart, WIDE};
use super::escape::Sink;
use super::scale::{Quantity, Scale, Spread};
use crate::experiment::document::{Run, SessionDocument};
use crate::report::{model, number};

const HEIGHT: f64 = 330.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDE - 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Bins of a decade; about 12% wide.
const BINS: usize = 20;
/// From 1 ns to 10^13 ns, almost three hours.
const DECADES: usize = 13;
/// Widest recorded bucket on a logarithmic axis, in decades (a sixteenth of its value); what is farther
/// from its neighbour than that lies beside an empty one.
const BUCKET_DECADES_MAX: f64 = 0.026_4;

/// The drawing.
pub(super) fn section(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let grid = bounds(document.runs.iter());
    let arms: Vec<(u32, Vec<f64>)> = (0_u32..)
        .zip(&document.arms)
        .map(|(arm, _)| (arm, shares(document.runs.iter().filter(|run| run.arm == arm), &grid)))
        .filter(|(_, shares)| shares.iter().any(|share| *share > 0.0))
        .collect();
    if arms.is_empty() {
        return sink.put("<p class=\"none\">No run holds a histogram.</p>");
    }
    let is_used = |bin: &usize| arms.iter().any(|(_, s)| s.get(*bin).is_some_and(|v| *v > 0.0));
    let first = (0..BINS * DECADES).find(is_used).unwrap_or(0);
    let last = (0..BINS * DECADES).rev().find(is_used).unwrap_or(0);
    let x = Scale::covering(
        Spread::Logarithmic,
        Quantity::TimeNs,
        [bound(first), bound(last + 1)].into_iter(),
        (LEFT, RIGHT),
    );
    let y = Scale::covering(
        Spread::Logarithmic,
        Quantity::Share,
        arms.iter().flat_map(|(_, s)| s.iter().copied()).filter(|share| *share > 0.0),
        (BOTTOM, TOP),
    );
    let entries: Vec<_> = arms
        .iter()
        .map(|(arm, _)| (None, "swatch", chart::arm_class(*arm), model::arm_name(document, *arm)))
        .collect();
    chart::legend(sink, &entries)?;
    chart::open(sink, WIDE, HEIGHT, "Distribution of response times of the arms")?;
    let mut drawing = Chart { sink, x, y };
    for (place, (arm, shares)) in arms.iter().enumerate() {
        let Some((from, to)) = gap(shares) else { continue };
        let (Some(x0), Some(x1)) = (x.at(bound(from)), x.at(bound(to))) else { continue };
        let words = format!(
            "{}: nearly nothing between {} and {}",
            super::shift::short(&model::arm_name(document, *arm)),
            number::time(bound(from)),
            number::time(bound(to))
        );
        let class = if place == 0 { "gap" } else { "gap second" };
        chart::area(drawing.sink, (x0, x1), (TOP, BOTTOM), class, &words)?;
        let at = u32::try_from(place).map_or(0.0, f64::from);
        let middle = f64::midpoint(x0, x1).clamp(LEFT + 130.0, RIGHT - 130.0);
        let y = 14.0f64.mul_add(at, TOP + 12.0);
        chart::label(drawing.sink, (middle, y), Anchor::Middle, "side", &words)?;
    }
    drawing.axes(9, "response time", 6, "share of transactions, bins 12% wide")?;
    for (arm, shares) in &arms {
        let steps: Vec<(f64, Option<f64>)> = (first..=last)
            .flat_map(|bin| {
                let share = shares.get(bin).copied().filter(|share| *share > 0.0);
                [(bound(bin), share), (bound(bin + 1), share)]
            })
            .collect();
        let floor: Vec<(f64, Option<f64>, Option<f64>)> =
            steps.iter().map(|(at, share)| (*at, share.map(|_| 1e-18), *share)).collect();
        drawing.band(&floor, "fill", chart::arm_class(*arm))?;
        let class = if *arm == 0 { "medium" } else { "medium dashed" };
        drawing.line(steps.into_iter(), class, chart::arm_class(*arm))?;
    }
    chart::close(sink)
}

/// Lower bound of a bin.
fn bound(bin: usize) -> f64 {
    10_f64.powf(small(bin) / small(BINS))
}

/// Upper bounds of all buckets that are not empty: a bucket reaches down to its neighbour.
fn bounds<'a>(runs: impl Iterator<Item = &'a Run>) -> BTreeSet<u64> {
    runs.flat_map(|run| &run.histogram).map(|bucket| bucket.upper_ns).collect()
}

/// An arm's shares by bin. Recorded buckets are spread over the bins that they overlap, as two grids
/// laid over each other would show stripes else.
fn shares<'a>(runs: impl Iterator<Item = &'a Run>, grid: &BTreeSet<u64>) -> Vec<f64> {
    let mut shares = vec![0.0; BINS * DECADES];
    let mut total = 0.0;
    for bucket in runs.flat_map(|run| &run.histogram).filter(|bucket| bucket.upper_ns > 0) {
        let count = number::to_f64(bucket.count);
        total += count;
        let high = number::to_f64(bucket.upper_ns).log10() * small(BINS);
        let narrowest = (high - BUCKET_DECADES_MAX * small(BINS)).max(0.0);
        let low = grid
            .range(..bucket.upper_ns)
            .next_back()
            .filter(|neighbour| **neighbour > 0)
            .map_or(narrowest, |neighbour| number::to_f64(*neighbour).log10() * small(BINS))
            .max(narrowest);
        let last = shares.len() - 1;
        let (first_bin, last_bin) = (floor(low).min(last), floor(high).min(last));
        for bin in first_bin..=last_bin {
            let overlap = (high.min(small(bin + 1)) - low.max(small(bin))).max(0.0);
            let part = if first_bin == last_bin { 1.0 } else { overlap / (high - low).max(1e-9) };
            if let Some(share) = shares.get_mut(bin) {
                *share += count * part;
            }
        }
    }
    if total > 0.0 {
        shares.iter_mut().for_each(|share| *share /= total);
    }
    shares
}

/// The widest stretch, at least a fifth of a decade, whose bins hold under a twentieth of the lower
/// of the two peaks beside it, each side holding at least a thousandth of all (study 0's "no man's
/// land").
fn gap(shares: &[f64]) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    for from in 1..shares.len() {
        let left = shares.get(..from)?;
        if left.iter().sum::<f64>() < 1e-3 {
            continue;
        }
        let left_peak = left.iter().copied().fold(0.0, f64::max);
        let mut to = from;
        // Grows while what lies in it stays small against the peak on either side.
        for end in from + 1..shares.len() {
            let (within, right) = (shares.get(from..end)?, shares.get(end..)?);
            if right.iter().sum::<f64>() < 1e-3 {
                break;
            }
            let limit = right.iter().copied().fold(0.0, f64::max).min(left_peak) / 20.0;
            if within.iter().any(|share| *share > limit) {
                break;
            }
            to = end;
        }
        if to - from >= BINS / 5 && best.is_none_or(|(a, b)| to - from > b - a) {
            best = Some((from, to));
        }
    }
    best
}

fn small(value: usize) -> f64 {
    u32::try_from(value).map_or(f64::MAX, f64::from)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place on an axis of 260 bins; negative and absent ones become 0"
)]
const fn floor(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_two_kinds_of_transactions_is_found_and_one_kind_has_none() {
        let mut shares = vec![0.0; BINS * DECADES];
        shares[120..130].fill(0.099);
        assert_eq!(gap(&shares), None);
        shares[160] = 0.005;
        shares[161] = 0.005;
        assert_eq!(gap(&shares), Some((130, 160)));
        shares[145] = 0.004;
        assert_eq!(gap(&shares), Some((130, 145)));
    }

    #[test]
    fn equally_likely_times_make_no_stripes_whatever_the_buckets() {
        // Sixteen buckets to each power of two, as runs record them; as many counts as each is wide on a
        // logarithmic axis.
        let mut run = crate::report::fixture::session(crate::report::fixture::TINY).runs.remove(0);
        run.histogram = (10_u32..30)
            .flat_map(|power| (1..=16_u64).map(move |part| ((16 + part) << power, 16 + part)))
            .map(|(upper_ns, part)| crate::experiment::document::HistogramBucket {
                upper_ns,
                count: ((number::to_f64(part) / number::to_f64(part - 1)).ln() * 1e6) as u64,
            })
            .collect();
        let runs = [run];
        let shares = shares(runs.iter(), &bounds(runs.iter()));
        let inner: Vec<f64> = shares.iter().copied().filter(|share| *share > 0.0).collect();
        let inner = &inner[2..inner.len() - 2];
        let largest = inner.iter().copied().fold(0.0, f64::max);
        let least = inner.iter().copied().fold(1.0, f64::min);
        assert!(largest / least < 1.02, "{least} .. {largest}");
    }

    #[test]
    fn shares_add_up_to_one_whatever_the_buckets() {
        let document = crate::report::fixture::session(crate::report::fixture::TINY);
        let grid = bounds(document.runs.iter());
        let sum: f64 = shares(document.runs.iter(), &grid).iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
}
