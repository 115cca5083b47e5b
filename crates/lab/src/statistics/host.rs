//! The gate on the machine's other load: CPU time that neither the server nor the driver had.
//!
//! Load that comes and goes by chance widens the intervals by itself, and blocks spread it over the arms.
//! Two things it does that no interval shows:
//!
//! 1. Where most of the machine belongs to others, what is measured is the machine under them: the server
//!    waits for CPUs, and a patch that changes what it does with one shows no more as it would on a
//!    machine of its own. Above half of the CPUs the session is void; above a quarter the verdict says it.
//! 2. Where it fell on one arm more than on the other, the difference between the arms is its own. A share
//!    of CPU time is a share of throughput at best, so one that is larger than any margin in use (10%)
//!    voids the session. A smaller one that exceeds what chance makes of these pairs is said.

use super::compare::pairs;
use super::finite::Percent;
use super::gates::{not_applicable, run_name, share_of};
use super::sign_flip::{SubsetMeans, mean, median};
use crate::experiment::document::{Gate, GateStatus, Run, SessionDocument};

/// The gate's name.
const NAME: &str = "host";

/// Median share of the CPUs' time lost to others from which a session is void.
const LOST_VOID: f64 = 0.5;
/// Of foreign processes, from which it is said.
const FOREIGN_SAID: f64 = 0.25;
/// Of the hypervisor, from which it is said; most, of any run.
const STEAL_SAID: f64 = 0.05;
/// Mean difference of the lost share between arms from which a session is void.
const APART_VOID: f64 = 0.1;
/// From which it is said, where the pairs agree on it.
const APART_SAID: f64 = 0.02;

/// Whether the machine was the experiment's own.
pub(super) fn gate(document: &SessionDocument, runs: &[&Run]) -> Gate {
    let cpus = f64::from(document.machine.cpu_count.unwrap_or(1).max(1));
    let foreign = |run: &Run| share_of(run.host.foreign_cpus).map(|it| (it / cpus).min(1.0));
    let steal = |run: &Run| share_of(run.host.steal_ratio).map(|it| it.min(1.0));
    let lost = |run: &Run| match (foreign(run), steal(run)) {
        (None, None) => None,
        (foreign, steal) => Some((foreign.unwrap_or(0.0) + steal.unwrap_or(0.0)).min(1.0)),
    };
    let lost_by_run: Vec<f64> = runs.iter().filter_map(|run| lost(run)).collect();
    let Some(lost_median) = median(&lost_by_run) else {
        return not_applicable(NAME, "the machine's load is not known");
    };
    let foreign_median = median(&runs.iter().filter_map(|run| foreign(run)).collect::<Vec<_>>());
    let steal_most =
        runs.iter().filter_map(|run| Some((steal(run)?, *run))).max_by(|a, b| a.0.total_cmp(&b.0));
    let shown = |share: Option<f64>| {
        share.map_or_else(|| "n/a".to_owned(), |share| format!("{:.0}", Percent(share)))
    };
    let mut text = format!("foreign load {} of the CPUs", shown(foreign_median));
    if let Some((most, run)) = steal_most {
        text = format!("{text}, steal at most {:.1}", Percent(most));
        if most > STEAL_SAID {
            text = format!("{text} in {}", run_name(document, run));
        }
    }
    if lost_median > LOST_VOID {
        let text = format!(
            "{text}: others had {:.0} of this machine (at most {:.0}): stop them, or measure elsewhere",
            Percent(lost_median),
            Percent(LOST_VOID)
        );
        return judged(GateStatus::Failed, text);
    }
    let arms = u32::try_from(document.arms.len()).unwrap_or(u32::MAX);
    let apart = (1..arms)
        .filter_map(|arm| {
            let differences: Vec<f64> = pairs(document, 0, arm)
                .iter()
                .filter_map(|(against, run)| Some(lost(run)? - lost(against)?))
                .collect();
            let by = mean(&differences)?;
            let is_seen = SubsetMeans::new(&differences, document.protocol.seed).p(0.0) <= 0.05;
            Some((arm, by, is_seen))
        })
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    if let Some((arm, by, is_seen)) = apart
        && (by.abs() > APART_VOID || by.abs() > APART_SAID && is_seen)
    {
        let name = |arm: u32| document.arms.get(arm as usize).map_or("?", |arm| arm.name.as_str());
        let (more, less) = if by > 0.0 { (arm, 0) } else { (0, arm) };
        let text = format!(
            "{text}, and {:.0} points more of it in the runs of '{}' than of '{}': a difference of its own",
            by.abs() * 100.0,
            name(more),
            name(less)
        );
        let is_void = by.abs() > APART_VOID;
        return judged(if is_void { GateStatus::Failed } else { GateStatus::Warned }, text);
    }
    let is_quiet = foreign_median.unwrap_or(0.0) <= FOREIGN_SAID
        && steal_most.is_none_or(|(most, _)| most <= STEAL_SAID);
    judged(if is_quiet { GateStatus::Passed } else { GateStatus::Warned }, text)
}

fn judged(status: GateStatus, text: String) -> Gate {
    super::gates::gate(NAME, status, text)
}

#[cfg(test)]
mod tests {
    use super::super::analyse;
    use super::super::tests::session;
    use super::*;
    use crate::experiment::document::VerdictKind;

    /// Two CPUs, of which others had this many in the runs of each arm.
    fn loaded(foreign_cpus: [f64; 2], steal_ratio: f64) -> SessionDocument {
        let mut document = session(8);
        document.machine.cpu_count = Some(2);
        for run in &mut document.runs {
            run.host.foreign_cpus = Some(foreign_cpus[run.arm as usize]);
            run.host.steal_ratio = Some(steal_ratio);
            run.throughput_per_s = Some(if run.arm == 0 { 1000.0 } else { 800.0 });
        }
        document
    }

    fn found(document: &SessionDocument) -> (GateStatus, VerdictKind, String) {
        let analysis = analyse(document);
        let gate = analysis.gates.into_iter().find(|gate| gate.name == NAME).unwrap();
        (gate.status, analysis.comparison.verdict.kind, gate.text)
    }

    #[test]
    fn no_verdict_is_given_where_others_had_most_of_the_machine() {
        for (cpus, steal, status, kind) in [
            (0.1, 0.0, GateStatus::Passed, VerdictKind::Worse),
            (0.6, 0.0, GateStatus::Warned, VerdictKind::Worse),
            (0.1, 0.06, GateStatus::Warned, VerdictKind::Worse),
            (1.56, 0.0, GateStatus::Failed, VerdictKind::Invalid),
            (0.4, 0.4, GateStatus::Failed, VerdictKind::Invalid),
        ] {
            let (found_status, found_kind, text) = found(&loaded([cpus, cpus], steal));
            assert_eq!((found_status, found_kind), (status, kind), "{cpus} {steal}: {text}");
        }
        let (_, _, text) = found(&loaded([1.56, 1.56], 0.0));
        assert!(text.contains("others had 78% of this machine"), "{text}");
    }

    #[test]
    fn load_that_fell_on_one_arm_is_not_sold_as_that_arms_doing() {
        let (status, kind, text) = found(&loaded([0.0, 0.3], 0.0));
        assert_eq!((status, kind), (GateStatus::Failed, VerdictKind::Invalid), "{text}");
        assert!(text.contains("15 points more of it in the runs of 'patch'"), "{text}");
        let (status, kind, text) = found(&loaded([0.1, 0.0], 0.0));
        assert_eq!((status, kind), (GateStatus::Warned, VerdictKind::Worse), "{text}");
        assert!(text.contains("5 points more of it in the runs of 'master'"), "{text}");
    }

    #[test]
    fn a_machine_whose_load_is_unknown_is_not_called_quiet() {
        assert_eq!(found(&session(8)).0, GateStatus::NotApplicable);
    }
}
