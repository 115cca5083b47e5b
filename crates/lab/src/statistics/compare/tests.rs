//! What a row says.

use super::super::tests::{run, session, with_throughput};
use super::*;

const LEVEL: Level = Level { alpha: 0.05, seed: 1, margin_ratio: 0.02 };

fn row(document: &SessionDocument, measure: &str) -> Compared {
    let mut rows = [compare(&Measure::new(measure), &pairs(document, 0, 1), LEVEL, true)];
    let count = rows[0].differences.len();
    conclude(&mut rows, LEVEL, count);
    let [row] = rows;
    row
}

#[test]
fn a_wild_pair_is_named_and_cannot_move_the_estimate_far() {
    let pairs: Vec<(f64, f64)> = [0.02, 0.018, 0.022, 0.019, 0.021, -0.9, 0.02, 0.017]
        .iter()
        .map(|d: &f64| (1000.0, 1000.0 * d.exp()))
        .collect();
    let row = row(&with_throughput(&pairs), "throughput").row;
    assert!((row.change_ratio.unwrap() - 0.019).abs() < 0.003, "{row:?}");
    assert!(row.notes.iter().any(|note| note.starts_with("pair 6 alone")), "{row:?}");
    assert!(row.notes.iter().any(|note| note.contains("Student's t")), "{row:?}");
}

#[test]
fn counts_with_zeros_have_an_interval_and_no_infinite_ratio() {
    let mut document = session(8);
    for run in &mut document.runs {
        let zero = if run.block % 2 == 0 { 0.0 } else { 4.0 };
        let value = if run.arm == 0 { zero } else { 100.0 + f64::from(run.block) };
        run.outcomes.insert("temporary_files".to_owned(), Some(value));
        run.outcomes.insert("from_nothing".to_owned(), Some(if run.arm == 0 { 0.0 } else { 9.0 }));
    }
    let some = row(&document, "outcome.temporary_files").row;
    assert!((some.p.unwrap() - 2.0 / 256.0).abs() < 1e-12);
    assert!(some.low_ratio.unwrap() > 1.0 && some.high_ratio > some.low_ratio, "{some:?}");
    let none = row(&document, "outcome.from_nothing").row;
    assert_eq!((none.change_ratio, none.low_ratio), (None, None));
    assert!(none.p.unwrap() < 0.01);
}

#[test]
fn pairs_that_agree_by_luck_do_not_narrow_the_interval_below_what_seconds_allow() {
    // Every run reports the same ratio to the digit, while its ten-second blocks swing by tens of percent.
    let mut document = with_throughput(&[(1000.0, 1010.0); 8]);
    let calm = row(&document, "throughput").row;
    assert!(calm.low_ratio.unwrap() > 0.0);
    for run in &mut document.runs {
        let turn = run.block + run.arm;
        for second in &mut run.timeline {
            second.finished = if (second.second / 10 + turn) % 3 == 0 { 400 } else { 1300 };
        }
    }
    let swinging = row(&document, "throughput").row;
    assert!(swinging.low_ratio.unwrap() < 0.0, "{swinging:?}");
    assert!(swinging.p.unwrap() > 0.05);
    assert!(swinging.notes.iter().any(|note| note.contains("widened")));
}

#[test]
fn what_both_runs_of_a_pair_do_in_their_course_is_no_uncertainty() {
    let mut document = with_throughput(&[(1000.0, 1010.0); 8]);
    for run in &mut document.runs {
        for second in &mut run.timeline {
            second.finished = 200 + u64::from(second.second) * 30;
        }
    }
    assert!(row(&document, "throughput").row.low_ratio.unwrap() > 0.0);
}

#[test]
fn percentiles_with_little_beyond_them_are_too_few() {
    let mut document = session(8);
    assert_ne!(row(&document, "response_p99").row.kind, RowKind::TooFew);
    document.runs[5].response.percentiles[2].count_beyond = 9;
    assert_eq!(row(&document, "response_p99").row.kind, RowKind::TooFew);
    assert_eq!(row(&document, "response_p50").row.kind, RowKind::Same);
    // Service has its own counts.
    assert_ne!(row(&document, "service_p99").row.kind, RowKind::TooFew);
    document.runs[5].service.percentiles[2].count_beyond = 9;
    assert_eq!(row(&document, "service_p99").row.kind, RowKind::TooFew);
}

#[test]
fn stalls_are_judged_by_episodes() {
    let mut document = session(8);
    for run in &mut document.runs {
        run.response.percentiles[2].value_ns = 2 * STALL_NS;
    }
    assert_eq!(row(&document, "response_p99").row.kind, RowKind::TooFew, "no episode at all");
    let episode = crate::experiment::document::Episode {
        start_ns: 0,
        end_ns: 1,
        clients: 1,
        transactions: 1,
        total_delay_ns: 1,
        worst_ns: 3 * STALL_NS,
        coincides_with: Vec::new(),
    };
    for run in document.runs.iter_mut().take(3) {
        run.episodes.push(episode.clone());
    }
    assert_ne!(row(&document, "response_p99").row.kind, RowKind::TooFew);
}

#[test]
fn maxima_are_shown_and_not_tested() {
    let row = row(&session(8), "response_max").row;
    assert_eq!((row.kind, row.p), (RowKind::NotTested, None));
    assert!(row.value.is_some());
}

#[test]
fn a_repeated_or_cut_run_does_not_shift_the_pairs() {
    let mut document = session(4);
    document.runs[2].incomplete = Some("cut off".to_owned());
    let found: Vec<u32> = pairs(&document, 0, 1).iter().map(|(run, _)| run.block).collect();
    assert_eq!(found, [0, 2, 3]);
    // Run again later: the block is complete after all.
    document.runs.push(crate::experiment::document::Run { index: 99, ..run(0, 1) });
    let found: Vec<u32> = pairs(&document, 0, 1).iter().map(|(run, _)| run.index).collect();
    assert_eq!(found, [0, 99, 4, 6]);
}
