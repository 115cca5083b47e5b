//! What a session will take and what it can see, before it begins.

use super::document::SessionDocument;
use super::plan::{Place, Plan};
use crate::report::number;
use crate::statistics::compare::{pairs, ratio};
use crate::statistics::look_alpha;
use crate::statistics::measure::Measure;
use crate::statistics::power::{Spread, expected_detectable};
use crate::statistics::sign_flip::standard_deviation;

/// Restore, start, checkpoint and stop of a small managed server, as seen on two-core machines.
const OVERHEAD_NS: u64 = 4_000_000_000;

/// Standard deviation of a pair's log ratio on a quiet machine, before this one has been seen: of
/// throughput, and of percentiles of response time. Guesses of the right order, told as such and used
/// only until the pilot pairs have shown the machine's own spread.
const DEVIATION_OF_THROUGHPUT: f64 = 0.03;
const DEVIATION_OF_PERCENTILE: f64 = 0.08;

/// After so many pairs their own spread says more than any prior.
pub const PILOT_PAIRS: u32 = 3;

/// How long one run takes, preparations included.
#[must_use]
pub fn run_ns(plan: &Plan) -> u64 {
    let overhead = match plan.arms.first().map(|arm| &arm.place) {
        Some(Place::Managed(_)) => OVERHEAD_NS,
        _ => 1_000_000_000,
    };
    plan.duration_ns.saturating_add(plan.warm_up_ns()).saturating_add(overhead)
}

/// How long `pairs` of the session take at most.
#[must_use]
pub fn session_ns(plan: &Plan, pairs: u32) -> u64 {
    run_ns(plan).saturating_mul(u64::from(pairs)).saturating_mul(plan.arms.len() as u64)
}

/// What is told before the first run, `done` pairs having been run before.
#[must_use]
pub fn sentences(plan: &Plan, done: u32) -> Vec<String> {
    let left = plan.pairs.saturating_sub(done);
    let minutes = session_ns(plan, left).div_ceil(60_000_000_000);
    let runs = u64::from(left) * plan.arms.len() as u64;
    let before = if done == 0 { String::new() } else { format!("{done} blocks are done; ") };
    let mut sentences = vec![format!(
        "{before}{left} block{} of {} runs of {}: {runs} runs, about {minutes} min",
        if left == 1 { "" } else { "s" },
        plan.arms.len(),
        number::length(plan.duration_ns),
    )];
    if plan.looks.len() > 1 {
        let looks: Vec<String> = plan.looks.iter().map(u32::to_string).collect();
        sentences.push(format!("looked at after {} pairs, ends when settled", looks.join(", ")));
    }
    let deviation = if plan.primary == "throughput" {
        DEVIATION_OF_THROUGHPUT
    } else {
        DEVIATION_OF_PERCENTILE
    };
    let alpha = look_alpha(plan.looks.len());
    sentences.push(
        match expected_detectable(
            Spread { pairs: deviation, copies: 0.0 },
            plan.pairs as usize,
            alpha,
        ) {
            Some(least) => format!(
                "on a quiet machine it sees differences of {} or more in {} (margin {})",
                number::percent(ratio(least)),
                plan.primary,
                number::percent(plan.margin_ratio),
            ),
            None => "too few pairs to see any difference".to_owned(),
        },
    );
    sentences
}

/// What the session will see, by the spread of its first pairs; `None` where that cannot be told.
#[must_use]
pub fn pilot(document: &SessionDocument) -> Option<String> {
    let measure = Measure::new(&document.protocol.primary);
    let differences: Vec<f64> = pairs(document, 0, 1)
        .iter()
        .filter_map(|(against, run)| {
            let (against, value) = (measure.value(against)?, measure.value(run)?);
            (against > 0.0 && value > 0.0).then(|| (value / against).ln())
        })
        .collect();
    let deviation = standard_deviation(&differences)?;
    let planned = document.protocol.pairs_planned;
    let alpha = look_alpha(document.protocol.looks.len());
    let least =
        expected_detectable(Spread { pairs: deviation, copies: 0.0 }, planned as usize, alpha)?;
    Some(format!(
        "after {} pairs: {planned} pairs will probably see differences of {} or more in {}",
        differences.len(),
        number::percent(ratio(least)),
        document.protocol.primary,
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::ExperimentFile;
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::new(&ExperimentFile::parse(text, "x").unwrap(), Path::new("."), 1).unwrap()
    }

    #[test]
    fn what_is_promised_before_the_start_follows_from_the_plan() {
        let eight = plan("pairs = 8\nduration = 56\ncache = \"cold\"");
        let rest = &super::sentences(&eight, 6)[0];
        assert_eq!(rest, "6 blocks are done; 2 blocks of 2 runs of 56 s: 4 runs, about 4 min");
        let sentences = sentences(&eight, 0);
        assert_eq!(sentences[0], "8 blocks of 2 runs of 56 s: 16 runs, about 16 min");
        assert!(sentences[1].contains("in throughput (margin 2.0%)"), "{sentences:?}");
        assert!(super::sentences(&plan("pairs = 1"), 0)[1].contains("too few pairs"));
    }

    #[test]
    fn more_pairs_take_longer_and_cost_is_linear() {
        let plan = plan("");
        assert_eq!(session_ns(&plan, 16), 2 * session_ns(&plan, 8));
    }
}
