//! Whether the runs were in a steady state.
//!
//! In a closed loop the series is commits per second. In an open loop these follow the schedule whatever
//! the server does, so the series is the speed at which a transaction is answered: the inverse of each
//! second's median response. (The medians of service times are not kept by the second; while a client
//! is free the two are the same.)
//!
//! A run is classified by its change points. What checkpoints do to the level is their effect and not a
//! warm-up: where a run holds two whole cycles or more, the first whole cycle is compared with the
//! last; where it holds a part, the change cannot be told from theirs and is only remarked on.

use super::finite::Percent;
use super::series::{self, Class, Course};
use super::sign_flip::median;
use crate::experiment::document::{Arrival, Gate, GateStatus, NoiseNote, Run, SessionDocument};

/// A change of level over a run from which on its figures are about the change. Twice what counts as a
/// change of level at all: a gate has to be sure.
const CHANGE_RATIO_MAX: f64 = 0.1;

/// Runs of an arm that must agree on their course before the arm is called unsteady.
const RUNS_MIN: usize = 2;

const SECOND_NS: i64 = 1_000_000_000;

/// What was seen of one run.
#[derive(Clone, Copy, Debug)]
struct Judged {
    course: Course,
    /// Checkpoints began in the run that could explain a change.
    has_checkpoint: bool,
}

/// The speed of each second that has one.
fn speeds(run: &Run, is_open: bool) -> Vec<f64> {
    run.timeline
        .iter()
        .filter_map(|second| {
            if is_open {
                second.p50_ns.filter(|median| *median > 0).map(|median| 1e9 / median as f64)
            } else {
                Some(second.finished as f64)
            }
        })
        .collect()
}

fn judge(run: &Run, is_open: bool) -> Option<Judged> {
    let speeds = speeds(run, is_open);
    let mut checkpoints: Vec<usize> = run
        .events
        .iter()
        .filter(|event| event.kind == "checkpoint" && event.start_ns >= 0)
        .filter_map(|event| usize::try_from(event.start_ns / SECOND_NS).ok())
        .filter(|second| *second < speeds.len())
        .collect();
    checkpoints.sort_unstable();
    let course = series::classify(&speeds, u64::from(run.index))?;
    let cycle = |from: &usize, to: &usize| median(speeds.get(*from..*to)?);
    if let [first, second, .., before_last, last] | [first, second @ before_last, last] =
        checkpoints.as_slice()
        && let (Some(first), Some(last)) = (cycle(first, second), cycle(before_last, last))
    {
        let change_ratio = last / first - 1.0;
        let class = match change_ratio {
            change if !change.is_finite() || change.abs() <= CHANGE_RATIO_MAX => Class::Flat,
            change if change > 0.0 => Class::WarmUp,
            _ => Class::Slowdown,
        };
        let course = Course { class, change_ratio, last_start: *before_last };
        return Some(Judged { course, has_checkpoint: false });
    }
    Some(Judged { course, has_checkpoint: !checkpoints.is_empty() })
}

const fn words(class: Class) -> &'static str {
    match class {
        Class::Flat => "keeps one level",
        Class::WarmUp => "becomes faster",
        Class::Slowdown => "becomes slower",
        Class::NoSteadyState => "changes its level at the very end",
    }
}

/// The gate. It fails for an arm of which more than half of the runs take the same course, and not a
/// level one, with no checkpoint to explain it: some runs always look like a trend by chance, most of an
/// arm's do not.
pub(super) fn gate(document: &SessionDocument, runs: &[&Run]) -> Gate {
    let is_open = document.protocol.arrival != Arrival::Closed;
    let gate = |status, text| Gate { name: "steady".to_owned(), status, text };
    let judged: Vec<(u32, Judged)> =
        runs.iter().filter_map(|run| Some((run.arm, judge(run, is_open)?))).collect();
    if judged.is_empty() {
        let text = "runs are too short to tell a trend (at least 30 s)".to_owned();
        return gate(GateStatus::NotApplicable, text);
    }
    let mut findings = Vec::new();
    for (number, arm) in (0_u32..).zip(&document.arms) {
        let own: Vec<&Judged> =
            judged.iter().filter(|(arm, _)| *arm == number).map(|(_, judged)| judged).collect();
        for class in [Class::WarmUp, Class::Slowdown, Class::NoSteadyState] {
            let alike: Vec<f64> = own
                .iter()
                .filter(|judged| judged.course.class == class && !judged.has_checkpoint)
                .map(|judged| judged.course.change_ratio)
                .filter(|change| change.abs() > CHANGE_RATIO_MAX)
                .collect();
            if alike.len() >= RUNS_MIN && alike.len() * 2 > own.len() {
                findings.push(format!(
                    "{} {} in {} of {} runs, by {:.0} within a run",
                    arm.name,
                    words(class),
                    alike.len(),
                    own.len(),
                    Percent(median(&alike).unwrap_or(0.0).abs())
                ));
            }
        }
    }
    let steady = judged.iter().filter(|(_, judged)| judged.course.class == Class::Flat).count();
    let counts = format!("{steady} of {} runs steady", judged.len());
    if !findings.is_empty() {
        let text = format!("{counts}: {}; warm up longer", findings.join("; "));
        return gate(GateStatus::Failed, text);
    }
    let unsteady = judged.len() - steady;
    // One run in five may look like a trend by a checkpoint's place alone.
    if unsteady * 5 <= judged.len() {
        return gate(GateStatus::Passed, counts);
    }
    let why = if judged.iter().any(|(_, judged)| judged.has_checkpoint) {
        "a part of a checkpoint's cycle in a run cannot be told from a trend; make the duration at \
         least two whole cycles"
    } else {
        "a longer warm-up would help"
    };
    gate(GateStatus::Warned, format!("{counts}: {why}"))
}

/// Advice on the warm-up, where in most runs the first seconds stand apart from the rest.
pub(super) fn warm_up_note(document: &SessionDocument) -> Option<NoiseNote> {
    let is_open = document.protocol.arrival != Arrival::Closed;
    let runs: Vec<&Run> = document.runs.iter().filter(|run| run.incomplete.is_none()).collect();
    let unsteady: Vec<f64> = runs
        .iter()
        .filter(|run| {
            judge(run, is_open)
                .is_some_and(|j| j.course.class == Class::WarmUp && !j.has_checkpoint)
        })
        .filter_map(|run| series::warm_up(&speeds(run, is_open)))
        .filter(|seconds| *seconds > 0)
        .map(|seconds| seconds as f64)
        .collect();
    if unsteady.len() < RUNS_MIN || unsteady.len() * 2 <= runs.len() {
        return None;
    }
    let seconds = median(&unsteady)?;
    Some(NoiseNote {
        kind: "warm_up".to_owned(),
        text: format!(
            "the first {seconds:.0} s look like warm-up in {} of {} runs (MSER-5): warm up for so \
             much longer",
            unsteady.len(),
            runs.len()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::session;
    use super::*;
    use crate::distribution::{Purpose, RandomStream};
    use crate::experiment::document::{Event, VerdictKind};
    use crate::statistics::analyse;

    /// A session of runs whose speed is noise around what `speed` says of arm and second.
    fn with_speed(is_open: bool, speed: impl Fn(u32, u32) -> f64) -> SessionDocument {
        let mut document = session(8);
        if is_open {
            document.protocol.arrival = Arrival::Poisson { rate_per_s: 1000.0 };
        }
        for run in &mut document.runs {
            let mut stream = RandomStream::new(u64::from(run.index), 7, Purpose::Audit);
            for second in &mut run.timeline {
                let speed = speed(run.arm, second.second) * (0.98 + 0.04 * stream.unit());
                if is_open {
                    second.p50_ns = Some((4e6 / speed) as u64);
                } else {
                    second.finished = (1000.0 * speed) as u64;
                }
            }
        }
        document
    }

    fn steady(document: &SessionDocument) -> Gate {
        analyse(document).gates.into_iter().find(|gate| gate.name == "steady").unwrap()
    }

    #[test]
    fn an_arm_that_is_still_warming_up_voids_the_verdict_in_either_loop() {
        for is_open in [false, true] {
            let document =
                with_speed(is_open, |arm, at| if arm == 1 && at < 25 { 0.7 } else { 1.0 });
            let gate = steady(&document);
            assert_eq!(gate.status, GateStatus::Failed, "{gate:?}");
            assert!(gate.text.contains("patch becomes faster in 8 of 8 runs"), "{gate:?}");
            let analysis = analyse(&document);
            assert_eq!(analysis.comparison.verdict.kind, VerdictKind::Invalid);
            assert_eq!(steady(&with_speed(is_open, |_, _| 1.0)).status, GateStatus::Passed);
        }
    }

    #[test]
    fn both_arms_warming_up_get_advice_on_how_long() {
        let document = with_speed(true, |_, at| if at < 20 { 0.6 } else { 1.0 });
        let note = analyse(&document).noise.into_iter().find(|note| note.kind == "warm_up");
        let note = note.unwrap();
        assert!(note.text.starts_with("the first 20 s look like warm-up in 1"), "{note:?}");
        let flat = analyse(&with_speed(true, |_, _| 1.0));
        assert!(flat.noise.iter().all(|note| note.kind != "warm_up"));
    }

    #[test]
    fn slowing_down_is_named_as_such() {
        let gate = steady(&with_speed(true, |arm, at| if arm == 0 && at > 30 { 0.8 } else { 1.0 }));
        assert_eq!(gate.status, GateStatus::Failed);
        assert!(gate.text.contains("master becomes slower in 8 of 8 runs, by 2"), "{gate:?}");
    }

    fn add_checkpoints(document: &mut SessionDocument, seconds: &[i64]) {
        for run in &mut document.runs {
            run.events = seconds
                .iter()
                .map(|second| Event {
                    kind: "checkpoint".to_owned(),
                    start_ns: second * SECOND_NS,
                    end_ns: (second + 5) * SECOND_NS,
                    figures: std::collections::BTreeMap::new(),
                    text: String::new(),
                })
                .collect();
        }
    }

    #[test]
    fn what_a_checkpoint_does_to_the_level_is_no_warm_up() {
        let mut document = with_speed(true, |_, at| if at > 30 { 0.6 } else { 1.0 });
        add_checkpoints(&mut document, &[30]);
        let gate = steady(&document);
        assert_eq!(gate.status, GateStatus::Warned, "{gate:?}");
        assert!(gate.text.contains("at least two whole cycles"), "{gate:?}");
        // Whole cycles that are alike are steady, though no second is like the one before.
        let mut document = with_speed(true, |_, at| if at % 20 < 10 { 0.6 } else { 1.0 });
        add_checkpoints(&mut document, &[0, 20, 40]);
        assert_eq!(steady(&document).status, GateStatus::Passed);
        let mut document =
            with_speed(true, |_, at| if at % 20 < 10 { 0.6 } else { 1.0 } + f64::from(at / 20));
        add_checkpoints(&mut document, &[0, 20, 40]);
        assert_eq!(steady(&document).status, GateStatus::Failed, "cycle by cycle it is faster");
    }

    #[test]
    fn a_stall_in_some_runs_is_no_trend_of_the_arm() {
        let mut document = with_speed(false, |_, _| 1.0);
        for run in document.runs.iter_mut().step_by(5) {
            for second in run.timeline.iter_mut().skip(48) {
                second.finished = 100;
            }
        }
        assert_ne!(steady(&document).status, GateStatus::Failed);
    }
}
