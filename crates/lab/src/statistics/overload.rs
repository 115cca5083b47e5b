//! Whether an open loop's server keeps up with what is asked of it.
//!
//! A server that is asked for more than it can do falls behind steadily: what is planned and has not
//! ended grows second by second, and its response times say how long the run was, not how fast the
//! server is. Some of it is finished after the measured part, within the grace time, so counting what
//! ended sometime does not show it. Two things do: what was still open when the measured part ended, and
//! the slope of the backlog over the run. The slope is the median of the slopes of all pairs of seconds
//! (H. Theil, P. Sen), so that one stall, at whichever time, is not taken for a trend: more than half of
//! the pairs would have to rise.

use super::finite::{Percent, total};
use super::series;
use crate::experiment::document::{Arrival, Gate, GateStatus, Run, SessionDocument};

/// Least share of the asked rate that must have been achieved.
const RATE_ACHIEVED_MIN: f64 = 0.99;
/// Share of the asked rate by which the backlog may grow: the same bound, seen as a slope.
const GROWTH_RATIO_MAX: f64 = 1.0 - RATE_ACHIEVED_MIN;
/// Level of the trend's test.
const TREND_ALPHA: f64 = 0.01;
/// Growth over a whole run that a few transactions in flight make by themselves.
const GROWTH_MIN: f64 = 5.0;
/// Rule 7: points of a run that the slope is taken over; its cost is their square.
const POINTS_MAX: usize = 300;

/// How fast the backlog of a run grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Transactions a second.
    pub per_s: f64,
    /// The same as a share of the rate that was planned.
    pub rate_ratio: f64,
}

/// The growth of the backlog of `run`, where it is a trend and beyond the bound; `None` where the server
/// keeps up, and where the run is too short (below six seconds) to tell.
#[must_use]
pub fn growth(run: &Run) -> Option<Growth> {
    let seconds = run.timeline.len();
    let step = seconds.div_ceil(POINTS_MAX).max(1);
    let points: Vec<(f64, f64)> = run
        .timeline
        .iter()
        .step_by(step)
        .map(|second| (f64::from(second.second), second.backlog as f64))
        .collect();
    let planned = total(run.timeline.iter().map(|second| second.planned));
    let rate_per_s = planned as f64 / seconds.max(1) as f64;
    let per_s = series::theil_sen(&points)?;
    let is_material = per_s > GROWTH_RATIO_MAX * rate_per_s && per_s * seconds as f64 >= GROWTH_MIN;
    let is_trend = series::trend_p(&points)? < TREND_ALPHA;
    (is_material && is_trend && rate_per_s > 0.0)
        .then(|| Growth { per_s, rate_ratio: per_s / rate_per_s })
}

/// Transactions that committed or failed, whenever they did.
fn ended(run: &Run) -> u64 {
    run.counts.committed.saturating_add(super::gates::failed(&run.counts))
}

/// Transactions that were planned more than a second before the end of the measured part and had not
/// ended by then. What was planned in its last second may still be on its way.
fn behind_at_end(run: &Run) -> u64 {
    let on_their_way = run.timeline.last().map_or(0, |second| second.planned);
    run.counts.backlog_at_end.saturating_sub(on_their_way)
}

/// The gates on what an open loop asked for and got: `rate`, `backlog`, `overload`.
pub(super) fn gates(document: &SessionDocument, runs: &[&Run]) -> [Gate; 3] {
    let asked = match document.protocol.arrival {
        Arrival::Closed => {
            return [
                gate(
                    "rate",
                    GateStatus::NotApplicable,
                    "closed loop: no rate was asked".to_owned(),
                ),
                backlog(document, runs),
                gate(
                    "overload",
                    GateStatus::NotApplicable,
                    "closed loop: clients wait, so nothing is asked that is not served".to_owned(),
                ),
            ];
        }
        Arrival::Poisson { rate_per_s } | Arrival::Constant { rate_per_s } => rate_per_s,
    };
    let asked = if asked.is_finite() { format!("{asked} tps") } else { "the plan".to_owned() };
    let mut gates =
        [rate(document, runs, &asked), backlog(document, runs), overload(document, runs)];
    if document.protocol.expects_saturation {
        for gate in gates.iter_mut().filter(|gate| gate.status == GateStatus::Failed) {
            gate.status = GateStatus::Warned;
            gate.text.push_str("; saturation is declared");
        }
    }
    gates
}

fn gate(name: &str, status: GateStatus, text: String) -> Gate {
    Gate { name: name.to_owned(), status, text }
}

/// Name and complete runs of each arm.
fn by_arm<'a>(document: &'a SessionDocument, runs: &[&'a Run]) -> Vec<(&'a str, Vec<&'a Run>)> {
    let of = |number: usize| -> Vec<&Run> {
        runs.iter().copied().filter(|run| run.arm as usize == number).collect()
    };
    document
        .arms
        .iter()
        .enumerate()
        .map(|(number, arm)| (arm.name.as_str(), of(number)))
        .filter(|(_, runs)| !runs.is_empty())
        .collect()
}

/// Two shares: of each run, what ended at all (what was skipped, lost or never ended did not); of each
/// arm, what ended within the measured part. The second is taken over all runs of the arm, since a stall
/// that happens to meet the end of one run is no shortfall of the server.
fn rate(document: &SessionDocument, runs: &[&Run], asked: &str) -> Gate {
    // Against what was planned: the number of Poisson arrivals itself varies.
    let least = runs
        .iter()
        .filter_map(|run| {
            let planned = run.counts.planned as f64;
            (planned > 0.0)
                .then(|| (ended(run) as f64 / planned, super::gates::run_name(document, run)))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let in_time = by_arm(document, runs)
        .into_iter()
        .filter_map(|(name, runs)| {
            let planned = total(runs.iter().map(|run| run.counts.planned));
            let never =
                total(runs.iter().map(|run| {
                    run.counts.planned.saturating_sub(ended(run)).max(behind_at_end(run))
                }));
            let share = (1.0 - never as f64 / planned as f64).max(0.0);
            (planned > 0).then(|| (share, name.to_owned()))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((least, run)), Some((in_time, arm))) = (least, in_time) else {
        return gate("rate", GateStatus::Failed, "nothing was planned".to_owned());
    };
    let (share, text) = if least < RATE_ACHIEVED_MIN || least <= in_time {
        (least, format!("{:.1} of {asked} in {run}", Percent(least)))
    } else {
        let text = format!("{arm} did {:.1} of {asked} within the measured part", Percent(in_time));
        (in_time, text)
    };
    let holds = share >= RATE_ACHIEVED_MIN;
    gate("rate", if holds { GateStatus::Passed } else { GateStatus::Failed }, text)
}

fn backlog(document: &SessionDocument, runs: &[&Run]) -> Gate {
    let worst =
        runs.iter().filter(|run| run.counts.censored > 0).max_by_key(|run| run.counts.censored);
    let Some(worst) = worst else {
        let most = runs.iter().map(|run| run.counts.backlog_at_end).max().unwrap_or(0);
        let text = format!("at most {most} open at the end, all ended");
        return gate("backlog", GateStatus::Passed, text);
    };
    let (censored, planned) = (worst.counts.censored, worst.counts.planned);
    let all = total(runs.iter().map(|run| run.counts.censored));
    let text = format!(
        "{all} transactions never ended within the grace time, {censored} of {planned} in {}",
        super::gates::run_name(document, worst)
    );
    // In a closed loop each client leaves one at most: a share says nothing there.
    let is_open = document.protocol.arrival != Arrival::Closed;
    let is_much = censored as f64 > GROWTH_RATIO_MAX * planned as f64;
    gate("backlog", if is_open && is_much { GateStatus::Failed } else { GateStatus::Warned }, text)
}

fn overload(document: &SessionDocument, runs: &[&Run]) -> Gate {
    let mut findings = Vec::new();
    for (name, runs) in by_arm(document, runs) {
        let growing: Vec<(Growth, &Run)> =
            runs.iter().filter_map(|run| Some((growth(run)?, *run))).collect();
        let worst = growing.iter().max_by(|a, b| a.0.per_s.total_cmp(&b.0.per_s));
        if let Some((growth, run)) = worst {
            findings.push(format!(
                "{name} does not keep up in {} of {} runs: its backlog grows by up to {:.1} \
                 transactions a second, {:.1} of what is asked, and {} were open at the end of run {}",
                growing.len(),
                runs.len(),
                growth.per_s,
                Percent(growth.rate_ratio),
                run.counts.backlog_at_end,
                run.index + 1,
            ));
        }
    }
    if !findings.is_empty() {
        let text = format!("{}; ask for less, or declare saturation", findings.join("; "));
        return gate("overload", GateStatus::Failed, text);
    }
    if runs.iter().all(|run| run.timeline.len() < 6) {
        let text = "runs are too short to tell a trend (at least 6 s)".to_owned();
        return gate("overload", GateStatus::NotApplicable, text);
    }
    gate("overload", GateStatus::Passed, "no arm's backlog grows over a run".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, session};
    use super::*;
    use crate::experiment::document::VerdictKind;
    use crate::statistics::analyse;

    /// A session in an open loop at 1000 tps; `arm` serves `capacity` of them a second, and what is left
    /// over is finished in the grace time.
    fn asked_for_1000(arm: u32, capacity: u64) -> SessionDocument {
        let mut document = session(8);
        document.protocol.arrival = Arrival::Poisson { rate_per_s: 1000.0 };
        for run in document.runs.iter_mut().filter(|run| run.arm == arm) {
            let mut open = 4;
            for second in &mut run.timeline {
                open += second.planned.saturating_sub(capacity);
                (second.finished, second.backlog) = (second.planned.min(capacity), open);
            }
            run.counts.backlog_at_end = open;
        }
        document
    }

    fn status(document: &SessionDocument, name: &str) -> (GateStatus, String) {
        let analysis = analyse(document);
        let gate = analysis.gates.into_iter().find(|gate| gate.name == name).unwrap();
        (gate.status, gate.text)
    }

    #[test]
    fn an_arm_that_is_asked_for_more_than_it_can_do_voids_the_verdict_and_is_named() {
        let document = asked_for_1000(1, 900);
        let (failed, text) = status(&document, "overload");
        assert_eq!(failed, GateStatus::Failed);
        assert_eq!(
            text,
            "patch does not keep up in 8 of 8 runs: its backlog grows by up to 100.0 transactions a \
             second, 10.0% of what is asked, and 6004 were open at the end of run 16; ask for less, \
             or declare saturation"
        );
        let verdict = analyse(&document).comparison.verdict;
        assert_eq!(verdict.kind, VerdictKind::Invalid);
        assert!(verdict.reasons.iter().any(|reason| reason.starts_with("overload: patch")));
    }

    #[test]
    fn what_is_finished_in_the_grace_time_was_not_achieved() {
        let (failed, text) = status(&asked_for_1000(0, 950), "rate");
        assert_eq!(failed, GateStatus::Failed);
        assert_eq!(text, "master did 96.7% of 1000 tps within the measured part");
    }

    #[test]
    fn declared_saturation_is_said_and_does_not_void_the_verdict() {
        let mut document = asked_for_1000(1, 900);
        document.protocol.expects_saturation = true;
        let (warned, text) = status(&document, "overload");
        assert_eq!(warned, GateStatus::Warned);
        assert!(text.starts_with("patch does not keep up") && text.ends_with("is declared"));
        assert_ne!(analyse(&document).comparison.verdict.kind, VerdictKind::Invalid);
    }

    #[test]
    fn a_server_that_keeps_up_passes() {
        let document = asked_for_1000(1, 1000);
        for name in ["rate", "backlog", "overload"] {
            assert_eq!(status(&document, name).0, GateStatus::Passed, "{name}");
        }
    }

    #[test]
    fn one_stall_is_not_a_trend_wherever_it_lies() {
        for place in [0, 10, 30, 50, 57] {
            let mut run = run(0, 0);
            // Three seconds without an end, then the rest is made good at twice the rate.
            for (second, at) in run.timeline.iter_mut().zip(0_u64..) {
                let after = at.saturating_sub(place);
                second.backlog = match at.checked_sub(place) {
                    None => 4,
                    Some(0..3) => 1000 * (after + 1),
                    Some(_) => 3000_u64.saturating_sub(1000 * (after - 2)).max(4),
                };
            }
            assert_eq!(growth(&run), None, "stall at {place} s");
        }
        let mut document = asked_for_1000(0, 1000);
        let last = document.runs.last_mut().unwrap();
        last.counts.backlog_at_end = 3000;
        assert_eq!(status(&document, "rate").0, GateStatus::Passed);
    }

    #[test]
    fn a_few_transactions_in_flight_at_a_low_rate_are_no_overload() {
        let mut run = run(0, 0);
        for (second, at) in run.timeline.iter_mut().zip(0_u64..) {
            (second.planned, second.backlog) = (2, at / 20);
        }
        assert_eq!(growth(&run), None);
    }

    #[test]
    fn transactions_that_never_end_void_the_verdict_beyond_one_in_a_hundred() {
        for (censored, expected) in [(1, GateStatus::Warned), (700, GateStatus::Failed)] {
            let mut document = asked_for_1000(0, 1000);
            let run = &mut document.runs[3];
            run.counts.censored = censored;
            run.counts.committed -= censored;
            let (found, text) = status(&document, "backlog");
            assert_eq!(found, expected, "{text}");
            assert!(text.contains("in run 4 (patch)"), "{text}");
        }
    }

    #[test]
    fn a_day_of_seconds_is_judged_from_a_sample_of_them() {
        let mut run = run(0, 0);
        let second = run.timeline[0].clone();
        run.timeline = (0..86_400)
            .map(|at| crate::experiment::document::TimelineSecond {
                second: at,
                backlog: u64::from(at) * 20,
                ..second.clone()
            })
            .collect();
        let found = growth(&run).unwrap();
        assert!((found.per_s - 20.0).abs() < 1e-9 && (found.rate_ratio - 0.02).abs() < 1e-9);
    }
}
