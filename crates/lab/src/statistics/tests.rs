//! Documents for the tests of the judgement, and the tests of the whole of it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::experiment::document::{
    Arm, Arrival, CacheState, Counts, Difference, ExceedanceCount, GateStatus, HostSummary,
    LatencySummary, Machine, Percentile, Protocol, Run, SCHEMA, TimelineSecond, VerdictKind,
};
use crate::target::QueryMode;

/// A latency distribution without spread but for its tail: p50, p99 and the maximum.
pub(super) fn latencies(p50_ns: u64, p99_ns: u64, max_ns: u64) -> LatencySummary {
    let percentiles = [(0.0, p50_ns), (0.5, p50_ns), (0.99, p99_ns), (1.0, max_ns)]
        .map(|(q, value_ns)| Percentile {
            q,
            value_ns,
            count_beyond: ((1.0 - q) * 10_000.0) as u64,
            is_lower_bound: false,
        })
        .to_vec();
    LatencySummary {
        count: 10_000,
        mean_ns: Some(p50_ns as f64),
        standard_deviation_ns: Some(0.0),
        min_ns: Some(p50_ns),
        max_ns: Some(max_ns),
        percentiles,
    }
}

/// A run of a closed loop of 4 clients that did 1000 transactions a second for a minute, 4 ms each.
pub(super) fn run(arm: u32, block: u32) -> Run {
    let second = |second: u32| TimelineSecond {
        second,
        planned: 1000,
        started: 1000,
        finished: 1000,
        p50_ns: Some(4_000_000),
        p99_ns: Some(9_000_000),
        max_ns: Some(12_000_000),
        ..TimelineSecond::default()
    };
    Run {
        index: block * 2 + arm,
        block,
        position: arm,
        arm,
        instance: (block / 2) % 2,
        started_at: "2030-01-01T00:00:00Z".to_owned(),
        duration_ns: 60_000_000_000,
        incomplete: None,
        counts: Counts { planned: 60_000, started: 60_000, committed: 60_000, ..Counts::default() },
        throughput_per_s: Some(1000.0),
        response: latencies(4_000_000, 9_000_000, 12_000_000),
        service: latencies(4_000_000, 9_000_000, 12_000_000),
        lag: latencies(1_000, 2_000, 3_000),
        driver_lag_p99_ns: Some(20_000),
        scripts: Vec::new(),
        exceedance: Vec::new(),
        histogram: Vec::new(),
        failed: LatencySummary::default(),
        failed_histogram: Vec::new(),
        episodes: Vec::new(),
        timeline: (0..60).map(second).collect(),
        events: Vec::new(),
        counters: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        host: HostSummary::default(),
        errors: BTreeMap::new(),
        key_audits: Vec::new(),
        driver_cpu_ns_per_transaction: None,
        driver_busy_ratio: None,
        clock_jump_ns: Some(0),
        server_restarted: false,
        data_hash: Some("9f3e".to_owned()),
        server_version: Some("PostgreSQL 15.18".to_owned()),
    }
}

/// A session of `pairs` pairs of [`run`]s, throughput deciding with a margin of 2%.
pub(crate) fn session(pairs: u32) -> SessionDocument {
    let arm = |name: &str, role| Arm {
        name: name.to_owned(),
        role,
        kind: "managed".to_owned(),
        address: String::new(),
        server_version: Some("PostgreSQL 15.18".to_owned()),
        server_version_num: Some(150_018),
        declared_settings: BTreeMap::new(),
        captured_settings: BTreeMap::from([("fsync".to_owned(), "on".to_owned())]),
        environment_names: Vec::new(),
        build_options: None,
        data_hash: None,
    };
    SessionDocument {
        schema: SCHEMA.to_owned(),
        evenkeel_version: "0".to_owned(),
        started_at: "2030-01-01T00:00:00Z".to_owned(),
        ended_at: None,
        command: Vec::new(),
        title: String::new(),
        incomplete: None,
        protocol: Protocol {
            seed: 7,
            pairs_planned: pairs,
            looks: vec![pairs],
            block_order: Vec::new(),
            duration_ns: 60_000_000_000,
            grace_ns: 0,
            cache_state: CacheState::CarriedOver,
            arrival: Arrival::Closed,
            clients: 4,
            threads: 1,
            query_mode: QueryMode::Simple,
            scale: None,
            fillfactor: None,
            scripts: Vec::new(),
            latency_limit_ns: None,
            max_tries: 1,
            primary: "throughput".to_owned(),
            margin_ratio: 0.02,
            is_quick: false,
            expects_saturation: false,
        },
        machine: Machine::default(),
        arms: vec![arm("master", ArmRole::Baseline), arm("patch", ArmRole::Contender)],
        differences: Vec::new(),
        runs: (0..pairs).flat_map(|block| [run(0, block), run(1, block)]).collect(),
        analysis: None,
    }
}

/// Sets the throughput of both runs of each pair.
pub(super) fn with_throughput(pairs: &[(f64, f64)]) -> SessionDocument {
    let mut document = session(u32::try_from(pairs.len()).unwrap());
    for run in &mut document.runs {
        let (against, arm) = pairs[run.block as usize];
        run.throughput_per_s = Some(if run.arm == 0 { against } else { arm });
    }
    document
}

fn kind(document: &SessionDocument) -> VerdictKind {
    analyse(document).comparison.verdict.kind
}

/// Eight pairs whose changes spread by about a percent around `change`.
fn around(change: f64) -> Vec<(f64, f64)> {
    [0.009, -0.011, 0.004, -0.003, 0.012, -0.008, 0.001, -0.004]
        .iter()
        .zip([1000.0, 1003.0, 998.0, 1001.0, 997.0, 1002.0, 999.0, 1000.0])
        .map(|(noise, level)| (level, level * (change + noise).exp()))
        .collect()
}

#[test]
fn each_of_the_five_verdicts_is_reached() {
    assert_eq!(kind(&with_throughput(&around(0.05))), VerdictKind::Better);
    assert_eq!(kind(&with_throughput(&around(-0.05))), VerdictKind::Worse);
    assert_eq!(kind(&with_throughput(&around(0.0))), VerdictKind::NoMaterialDifference);
    let mut wide = around(0.0);
    for (against, arm) in &mut wide {
        *arm = *against * (*arm / *against).powi(8);
    }
    assert_eq!(kind(&with_throughput(&wide)), VerdictKind::Inconclusive);
    let mut lost = with_throughput(&around(0.05));
    lost.runs[3].counts.aborted_clients = 1;
    assert_eq!(kind(&lost), VerdictKind::Invalid);
}

#[test]
fn a_verdict_says_whether_the_change_is_beyond_the_margin() {
    let of = |change| analyse(&with_throughput(&around(change))).comparison.verdict;
    assert!(of(0.06).is_beyond_margin);
    assert!(!of(0.015).is_beyond_margin);
    assert_eq!(of(0.015).kind, VerdictKind::Better);
}

#[test]
fn three_pairs_are_told_how_many_more_they_need() {
    let analysis = analyse(&with_throughput(&around(0.3)[..3]));
    let verdict = &analysis.comparison.verdict;
    assert_eq!(verdict.kind, VerdictKind::Inconclusive);
    assert_eq!(verdict.pairs_needed, Some(6));
    assert!(verdict.reasons[0].contains("0.250"), "{verdict:?}");
    assert_eq!(analysis.comparison.rows[0].low_ratio, None);
}

#[test]
fn a_change_below_the_floor_of_the_session_is_not_called_one() {
    // The second copy of the baseline is 8% faster than the first: that is placement, not a patch.
    let mut pairs = around(0.05);
    for (block, (against, arm)) in pairs.iter_mut().enumerate() {
        let factor = if (block / 2) % 2 == 1 { 1.08 } else { 1.0 };
        *against *= factor;
        *arm *= factor;
    }
    let analysis = analyse(&with_throughput(&pairs));
    let verdict = &analysis.comparison.verdict;
    assert_eq!(verdict.kind, VerdictKind::Inconclusive, "{verdict:?}");
    assert!(verdict.is_below_floor);
    assert!((0.06..0.1).contains(&analysis.floor_ratio.unwrap()));
    assert_eq!(
        analysis.comparison.rows[0].kind,
        RowKind::Unclear,
        "the row agrees with the verdict"
    );
}

#[test]
fn looking_three_times_asks_more_of_each_look() {
    let mut document = with_throughput(&around(0.009));
    assert_eq!(kind(&document), VerdictKind::Better);
    document.protocol.looks = vec![8, 12, 16];
    assert_ne!(kind(&document), VerdictKind::Better);
}

/// Study 4, in microseconds: three runs an arm at p95 to p99 and the maximum.
const PAUSE: [[f64; 6]; 3] = [
    [1709.0, 1825.0, 2106.0, 12100.0, 186043.0, 9513855.0],
    [1707.0, 1824.0, 2118.0, 16792.0, 196107.0, 8869602.0],
    [1693.0, 1807.0, 2091.0, 15132.0, 191207.0, 7246326.0],
];
const MASTER: [[f64; 6]; 3] = [
    [1734.0, 1875.0, 2235.0, 21145.0, 203214.0, 6855888.0],
    [1762.0, 1905.0, 2288.0, 24645.0, 201309.0, 9074161.0],
    [1746.0, 1889.0, 2272.0, 20309.0, 194459.0, 7833582.0],
];
const CONTROL: [[f64; 6]; 3] = [
    [1703.0, 1830.0, 2166.0, 17953.0, 192434.0, 43946669.0],
    [1728.0, 1858.0, 2169.0, 15596.0, 187943.0, 9619191.0],
    [1700.0, 1835.0, 2189.0, 22181.0, 206445.0, 8212125.0],
];

/// Ratio of medians, Hodges-Lehmann ratio and exact p at a column.
fn study_4(a: &[[f64; 6]; 3], b: &[[f64; 6]; 3], column: usize) -> (f64, f64, f64) {
    let logs = |runs: &[[f64; 6]; 3]| -> Vec<f64> { runs.iter().map(|r| r[column].ln()).collect() };
    let (a, b) = (logs(a), logs(b));
    let middle = |values: &[f64]| sign_flip::median(values).unwrap();
    (
        (middle(&b) - middle(&a)).exp(),
        sign_flip::hodges_lehmann_shift(&a, &b).unwrap().exp(),
        sign_flip::unpaired_p(&a, &b, 0).unwrap(),
    )
}

#[test]
fn study_4_is_reproduced_to_every_digit_of_its_table() {
    let expected = [
        (0.978, 0.976, 0.10),
        (0.966, 0.964, 0.10),
        (0.927, 0.927, 0.10),
        (0.716, 0.681, 0.10),
        (0.950, 0.957, 0.20),
        (1.132, 1.057, 0.60),
    ];
    for (column, (medians, shift, p)) in expected.into_iter().enumerate() {
        let found = study_4(&MASTER, &PAUSE, column);
        assert!((found.0 - medians).abs() < 6e-4, "column {column}: {found:?}");
        assert!((found.1 - shift).abs() < 6e-4, "column {column}: {found:?}");
        assert!((found.2 - p).abs() < 1e-9, "column {column}: {found:?}");
    }
    // The control arm: the patch cannot be told from a longer timeout.
    for (a, b, column, medians, p) in [
        (&MASTER, &CONTROL, 3, 0.849, 0.30),
        (&CONTROL, &PAUSE, 3, 0.843, 0.20),
        (&CONTROL, &PAUSE, 1, 0.994, 0.10),
        (&CONTROL, &PAUSE, 5, 0.922, 0.40),
    ] {
        let found = study_4(a, b, column);
        assert!((found.0 - medians).abs() < 6e-4 && (found.2 - p).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn study_4_ends_inconclusive_since_three_against_three_cannot_do_more() {
    let mut document = session(3);
    document.protocol.primary = "response_p98".to_owned();
    for run in &mut document.runs {
        let source = if run.arm == 0 { MASTER } else { PAUSE };
        let value_ns = (source[run.block as usize][3] * 1e3) as u64;
        let percentile = Percentile { q: 0.98, value_ns, count_beyond: 200, is_lower_bound: false };
        run.response.percentiles.insert(2, percentile);
        run.response.percentiles[3].value_ns = value_ns * 2;
        run.response.percentiles[4].value_ns = value_ns * 3;
        run.response.max_ns = Some(value_ns * 3);
    }
    let analysis = analyse_unpaired(&document);
    let verdict = &analysis.comparison.verdict;
    assert_eq!(verdict.kind, VerdictKind::Inconclusive, "{verdict:?}");
    assert!(verdict.reasons[0].starts_with("unpaired, weak"));
    assert!(verdict.reasons[1].contains("3 against 3") && verdict.reasons[1].contains("0.10"));
    let row = &analysis.comparison.rows[0];
    assert!((row.change_ratio.unwrap() + 1.0 - 0.681).abs() < 6e-4);
    assert!((row.p.unwrap() - 0.10).abs() < 1e-9);
    assert_eq!((row.low_ratio, row.kind), (None, RowKind::Unclear));
    assert!(!analysis.is_paired);
}

/// Study 2's table: at least so many seconds, master, patch, ratio of rates.
const STUDY_2: [(u64, u64, u64, Option<f64>); 11] = [
    (1, 5335, 5643, Some(1.057)),
    (2, 1693, 803, Some(0.474)),
    (3, 1033, 536, Some(0.519)),
    (4, 659, 246, Some(0.373)),
    (5, 493, 206, Some(0.418)),
    (6, 137, 129, Some(0.941)),
    (8, 88, 90, Some(1.022)),
    (9, 32, 88, Some(2.748)),
    (10, 32, 55, Some(1.717)),
    (12, 11, 16, Some(1.453)),
    (13, 0, 15, None),
];

#[test]
fn study_2_is_reproduced_and_its_undefined_row_is_null() {
    let mut document = session(1);
    for run in &mut document.runs {
        run.response.count = [26_184_746, 26_204_773][run.arm as usize];
        run.exceedance = STUDY_2
            .iter()
            .map(|(seconds, master, patch, _)| ExceedanceCount {
                threshold_ns: seconds * 1_000_000_000,
                count: if run.arm == 0 { *master } else { *patch },
                episodes: 1,
            })
            .collect();
    }
    let analysis = analyse(&document);
    let rows = &analysis.comparison.exceedance;
    assert_eq!(rows.len(), STUDY_2.len());
    for (row, (seconds, master, patch, ratio)) in rows.iter().zip(STUDY_2) {
        assert_eq!((row.against_count, row.count), (master, patch));
        match (row.rate_ratio, ratio) {
            (Some(found), Some(ratio)) => assert!((found - ratio).abs() < 6e-4, "{row:?}"),
            (found, expected) => assert_eq!(found, expected, "at {seconds} s"),
        }
        assert_eq!(row.kind, RowKind::TooFew, "two episodes in all are not enough");
    }
    assert!((rows[0].against_per_million.unwrap() - 203.7).abs() < 0.05);
    assert!((rows[7].per_million.unwrap() - 3.36).abs() < 0.005);
    let text = serde_json::to_string(&analysis).unwrap();
    assert!(text.contains(r#""rate_ratio":null"#));
}

#[test]
fn an_empty_session_is_invalid_and_has_nulls_not_numbers() {
    for pairs in [0, 1] {
        let mut document = session(pairs);
        for run in &mut document.runs {
            run.counts = Counts::default();
            run.throughput_per_s = None;
            (run.response, run.service) = (LatencySummary::default(), LatencySummary::default());
            (run.lag, run.timeline) = (LatencySummary::default(), Vec::new());
        }
        let analysis = analyse(&document);
        assert_eq!(analysis.comparison.verdict.kind, VerdictKind::Invalid);
        assert_eq!(analysis.comparison.rows[0].change_ratio, None);
        let value: serde_json::Value = serde_json::to_value(&analysis).unwrap();
        assert!(value["comparison"]["rows"][0]["value"].is_null());
        let _ = analyse_unpaired(&document);
    }
}

#[test]
fn a_control_arm_is_compared_with_both_others() {
    let mut document = with_throughput(&around(0.05));
    let mut control = document.arms[1].clone();
    control.role = ArmRole::Control;
    document.arms.push(control);
    let third: Vec<Run> = (0..8)
        .map(|block| Run { arm: 2, throughput_per_s: Some(1000.0), ..run(0, block) })
        .collect();
    document.runs.extend(third);
    let analysis = analyse(&document);
    let pairs: Vec<(u32, u32)> = analysis.further.iter().map(|c| (c.arm, c.against)).collect();
    assert_eq!(pairs, [(1, 2), (2, 0)]);
    assert_eq!(analysis.further[0].verdict.kind, VerdictKind::Better);
    assert_ne!(analysis.further[1].verdict.kind, VerdictKind::Better);
}

#[test]
fn a_percentile_that_censoring_reaches_cannot_make_an_arm_better() {
    let mut document = session(8);
    document.protocol.primary = "response_p99".to_owned();
    for run in &mut document.runs {
        let value_ns = if run.arm == 0 { 9_000_000 } else { 5_000_000 } + u64::from(run.block);
        run.response.percentiles[2].value_ns = value_ns;
    }
    assert_eq!(kind(&document), VerdictKind::Better);
    for run in document.runs.iter_mut().filter(|run| run.arm == 1) {
        run.response.percentiles[2].is_lower_bound = true;
    }
    assert_eq!(kind(&document), VerdictKind::Inconclusive);
    for run in &mut document.runs {
        run.response.percentiles[2].is_lower_bound = run.arm == 0;
    }
    assert_eq!(kind(&document), VerdictKind::Better, "the baseline was at least so slow");
}

#[test]
fn rows_that_not_every_pair_holds_are_not_concluded_on() {
    let mut document = with_throughput(&around(0.0));
    for run in &mut document.runs {
        let value = if run.arm == 0 { 100.0 } else { 300.0 } + f64::from(run.block);
        run.counters.insert("whole".to_owned(), Some(value));
        run.counters.insert("part".to_owned(), (run.block != 2).then_some(value));
    }
    let analysis = analyse(&document);
    let row = |name: &str| analysis.comparison.rows.iter().find(|row| row.measure == name).unwrap();
    assert!(row("counter.whole").p_adjusted.unwrap() <= 0.05);
    assert_eq!(row("counter.part").p_adjusted, None);
    assert_eq!(row("counter.part").notes, ["only 7 of 8 pairs hold it"]);
}

#[test]
fn no_number_of_a_hostile_record_is_lost_in_infinity() {
    let mut document = with_throughput(&around(0.0));
    for run in &mut document.runs {
        let wild = if run.arm == 0 { 1e-300 } else { 1e300 };
        run.throughput_per_s = Some(if run.block == 0 { f64::NAN } else { wild });
        run.response.mean_ns = Some(f64::INFINITY);
        run.counters.insert("negative".to_owned(), Some(-5.0));
        run.outcomes.insert("zero".to_owned(), Some(0.0));
        run.response.count = u64::MAX;
        run.duration_ns = u64::MAX;
    }
    document.protocol.margin_ratio = f64::NAN;
    for analysis in [analyse(&document), analyse_unpaired(&document)] {
        // What is not a number becomes null, and only optional fields may be null.
        let text = serde_json::to_string(&analysis).unwrap();
        let again: Analysis = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}

fn throughputs() -> impl Strategy<Value = Vec<(f64, f64)>> {
    proptest::collection::vec((500.0_f64..2000.0, 500.0_f64..2000.0), 6..9)
}

fn primary(pairs: &[(f64, f64)]) -> crate::experiment::document::MeasureRow {
    let document = with_throughput(pairs);
    let level = Level { alpha: 0.05, seed: 1, margin_ratio: 0.02 };
    let measure = Measure::new("throughput");
    compare::compare(&measure, &compare::pairs(&document, 0, 1), level, true).row
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (1.0 + a.abs()),
        (a, b) => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn another_unit_changes_no_change(pairs in throughputs(), scale in 1e-3_f64..1e3) {
        let scaled: Vec<_> = pairs.iter().map(|(a, b)| (a * scale, b * scale)).collect();
        let (row, other) = (primary(&pairs), primary(&scaled));
        prop_assert!(close(row.change_ratio, other.change_ratio) && close(row.p, other.p));
        prop_assert!(close(row.low_ratio, other.low_ratio) && close(row.high_ratio, other.high_ratio));
    }

    #[test]
    fn swapping_the_arms_turns_every_change_around(pairs in throughputs()) {
        let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let (row, other) = (primary(&pairs), primary(&swapped));
        let inverse = |ratio: Option<f64>| ratio.map(|ratio| 1.0 / (1.0 + ratio) - 1.0);
        prop_assert!(close(row.change_ratio, inverse(other.change_ratio)));
        prop_assert!(close(row.low_ratio, inverse(other.high_ratio)));
        prop_assert!(close(row.p, other.p));
    }

    #[test]
    fn the_order_of_pairs_does_not_matter(pairs in throughputs(), turn in 1_usize..6) {
        let mut turned = pairs.clone();
        turned.rotate_left(turn);
        turned.reverse();
        let (row, other) = (primary(&pairs), primary(&turned));
        prop_assert!(close(row.change_ratio, other.change_ratio) && close(row.p, other.p));
        prop_assert!(close(row.low_ratio, other.low_ratio) && close(row.high_ratio, other.high_ratio));
    }

    #[test]
    fn the_interval_excludes_no_change_exactly_where_p_is_small(pairs in throughputs()) {
        let row = primary(&pairs);
        let (low, high) = (row.low_ratio.unwrap(), row.high_ratio.unwrap());
        prop_assert!(low <= high);
        prop_assert_eq!(low > 0.0 || high < 0.0, row.p.unwrap() <= 0.05);
    }
}

#[test]
fn gates_are_all_present_whatever_the_document_holds() {
    let names = |document: &SessionDocument| -> Vec<String> {
        analyse(document).gates.iter().map(|gate| gate.name.clone()).collect()
    };
    let mut empty = session(0);
    empty.arms.clear();
    assert_eq!(names(&empty), names(&session(2)));
    assert!(analyse(&session(2)).gates.iter().all(|gate| gate.status != GateStatus::Failed));
    let undeclared = Difference {
        arm: 1,
        what: "setting fsync".to_owned(),
        baseline: Some("on".to_owned()),
        other: Some("off".to_owned()),
        is_declared: false,
    };
    let mut differing = session(8);
    differing.differences.push(undeclared);
    assert_eq!(kind(&differing), VerdictKind::Invalid);
}
