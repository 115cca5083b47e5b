//! Numbers at their extremes: no interval is inverted or not a number, no chance lies outside 0 to 1.

use proptest::prelude::*;

use super::sign_flip::SubsetMeans;
use super::tests::session;
use super::*;

fn finite(value: Option<f64>) -> bool {
    value.is_none_or(f64::is_finite)
}

fn ordered(low: Option<f64>, high: Option<f64>) -> bool {
    low.zip(high).is_none_or(|(low, high)| low <= high)
}

fn is_chance(p: Option<f64>) -> bool {
    p.is_none_or(|p| (0.0..=1.0).contains(&p))
}

/// What holds of every analysis.
fn check(analysis: &Analysis) {
    for comparison in std::iter::once(&analysis.comparison).chain(&analysis.further) {
        let verdict = &comparison.verdict;
        let is_directed = matches!(
            verdict.kind,
            crate::experiment::document::VerdictKind::Better
                | crate::experiment::document::VerdictKind::Worse
        );
        assert!(
            is_directed || !verdict.reasons.is_empty(),
            "a verdict without a reason: {verdict:?}"
        );
        for row in &comparison.rows {
            let numbers = [
                row.against_value,
                row.value,
                row.change_ratio,
                row.low_ratio,
                row.high_ratio,
                row.detectable_ratio,
            ];
            assert!(numbers.into_iter().all(finite), "{row:?}");
            assert!(row.pair_log_ratios.iter().copied().all(finite), "{row:?}");
            assert!(ordered(row.low_ratio, row.high_ratio), "{row:?}");
            assert!(is_chance(row.p) && is_chance(row.p_adjusted), "{row:?}");
            assert!(row.detectable_ratio.is_none_or(|least| least >= 0.0), "{row:?}");
        }
        if is_directed
            && analysis.is_paired
            && let Some(primary) = comparison.rows.first()
        {
            let excludes = primary.low_ratio.is_none_or(|low| low >= 0.0)
                || primary.high_ratio.is_none_or(|high| high <= 0.0);
            assert!(excludes, "a direction without an interval that has it: {primary:?}");
        }
        for point in comparison.shift.iter().chain(&comparison.shift_service) {
            assert!(ordered(point.low_ratio, point.high_ratio), "{point:?}");
            assert!(ordered(point.band_low_ratio, point.band_high_ratio), "{point:?}");
            assert!(ordered(point.band_low_ratio, point.low_ratio), "{point:?}");
            assert!(finite(point.change_ratio) && finite(point.band_high_ratio), "{point:?}");
        }
        for row in &comparison.exceedance {
            assert!(ordered(row.low_ratio, row.high_ratio), "{row:?}");
            assert!(finite(row.rate_ratio) && is_chance(row.p_adjusted), "{row:?}");
        }
        for row in &comparison.stalls {
            assert!(finite(row.lift) && finite(row.lift_chance_low), "{row:?}");
            assert!(ordered(row.lift_chance_low, row.lift_chance_high), "{row:?}");
        }
    }
    let words = analysis
        .gates
        .iter()
        .map(|gate| &gate.text)
        .chain(analysis.noise.iter().map(|note| &note.text))
        .chain(&analysis.comparison.verdict.reasons)
        .chain(analysis.comparison.rows.iter().flat_map(|row| &row.notes));
    for text in words {
        assert!(
            !text.contains("NaN") && !text.contains("inf ") && !text.contains("inf%"),
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_differences_give_an_inverted_interval(
        differences in proptest::collection::vec(
            prop_oneof![Just(0.0), Just(1.0), Just(-1e300), Just(1e300), -1.0_f64..1.0], 0..10,
        ),
        alpha in 0.0_f64..1.0,
    ) {
        let means = SubsetMeans::new(&differences, 1);
        if let Some((low, high)) = means.interval(alpha) {
            prop_assert!(low <= high && low.is_finite() && high.is_finite());
        }
        prop_assert!((0.0..=1.0).contains(&means.p(0.0)));
        for p in max_t::adjusted_p(&[differences.clone(), differences.clone()], 1) {
            prop_assert!((0.0..=1.0).contains(&p));
        }
        for half in max_t::band_half_widths(&[differences], 0.05, 1).into_iter().flatten() {
            prop_assert!(half.is_finite() && half >= 0.0);
        }
    }
}

#[test]
fn pairs_that_are_all_equal_are_equal_and_not_undecided() {
    let analysis = analyse(&session(8));
    check(&analysis);
    let verdict = &analysis.comparison.verdict;
    assert_eq!(
        verdict.kind,
        crate::experiment::document::VerdictKind::NoMaterialDifference,
        "{verdict:?}"
    );
    let row = &analysis.comparison.rows[0];
    assert_eq!((row.low_ratio, row.high_ratio, row.p), (Some(0.0), Some(0.0), Some(1.0)));
}

#[test]
fn more_pairs_than_can_be_enumerated_are_judged_by_drawn_flips() {
    let mut document = session(40);
    for run in &mut document.runs {
        let noise = f64::from((run.index * 7919) % 101) / 101.0;
        let level = if run.arm == 0 { 1000.0 } else { 1050.0 };
        run.throughput_per_s = Some(level + 10.0 * noise);
    }
    let analysis = analyse(&document);
    check(&analysis);
    let verdict = &analysis.comparison.verdict;
    assert_eq!(verdict.kind, crate::experiment::document::VerdictKind::Better, "{verdict:?}");
}

#[test]
fn a_million_pairs_are_taken_at_the_cost_of_a_sample() {
    // The blocks of a record that somebody has made: a million differences, one in ten the other way.
    let differences: Vec<f64> =
        (0..1_000_000).map(|pair| if pair % 10 == 0 { -0.01 } else { 0.01 }).collect();
    assert_eq!(sign_flip::mean(&differences).map(|mean| (mean * 1e4).round()), Some(80.0));
    let spread = power::Spread { pairs: 0.01, copies: 0.0 };
    let least = power::expected_detectable(spread, differences.len(), 0.05).unwrap();
    assert!(least > 0.0 && least < 1e-4, "{least}");
    let points: Vec<(f64, f64)> =
        differences.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
    assert!(series::classify(&differences, 1).is_some());
    assert!(series::warm_up(&differences).is_some());
    assert_eq!(points.len(), 1_000_000);
}
