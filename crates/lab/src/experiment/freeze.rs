//! The proof of the clock: a server that stands still for a known time gives response times that
//! can be computed beforehand (methodology, self-tests).
//!
//! With arrivals at a fixed distance over a time T and a server that is frozen for D of it, the
//! share D/T of all transactions waits, each for the rest of the freeze: their response times are
//! uniform on 0..D, all others are about zero. A load generator that waits for answers before it
//! sends shows none of that: it measures a handful of slow transactions.

use super::document::{LatencySummary, Run};

/// What was done, by the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Freeze {
    /// Length of the measured part.
    pub run_ns: u64,
    /// How long the server stood still.
    pub frozen_ns: u64,
    /// Sessions: as many transactions are in the server's hands when it freezes.
    pub clients: u32,
}

/// One thing expected and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What, for people.
    pub name: String,
    /// By the closed form.
    pub expected: f64,
    /// As measured; `None`: not to be had.
    pub measured: Option<f64>,
    /// How far they may lie apart.
    pub tolerance: f64,
    /// `ms`, `%` or empty for a number.
    pub unit: &'static str,
}

impl Check {
    /// Whether they agree.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.measured.is_some_and(|measured| (measured - self.expected).abs() <= self.tolerance)
    }
}

/// Time to drain what has piled up, and the lateness of signals and sleeps: a fiftieth of the
/// freeze, at least 0.15 s.
const DRAIN_RATIO: f64 = 0.02;
const DRAIN_NS_MIN: f64 = 150e6;

/// The value that quantile `q` of response times must have.
#[must_use]
pub fn response_quantile_ns(freeze: Freeze, q: f64) -> f64 {
    let (run, frozen) = (freeze.run_ns as f64, freeze.frozen_ns as f64);
    let share = (frozen / run).clamp(0.0, 1.0);
    if share <= 0.0 { 0.0 } else { ((q - (1.0 - share)) / share).clamp(0.0, 1.0) * frozen }
}

/// Compares a run with what its freeze must have done to it.
#[must_use]
pub fn checks(run: &Run, freeze: Freeze) -> Vec<Check> {
    let frozen = freeze.frozen_ns as f64;
    let tolerance_ms = (frozen * DRAIN_RATIO).max(DRAIN_NS_MIN) / 1e6;
    let mut checks = Vec::new();
    for (q, name) in
        [(0.25, "p25"), (0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")]
    {
        let Some(measured) = value_ms(&run.response, q) else { continue };
        checks.push(Check {
            name: format!("response {name}"),
            expected: response_quantile_ns(freeze, q) / 1e6,
            measured: Some(measured),
            tolerance: tolerance_ms,
            unit: "ms",
        });
    }
    checks.push(Check {
        name: "response max".to_owned(),
        expected: frozen / 1e6,
        measured: run.response.max_ns.map(|ns| ns as f64 / 1e6),
        tolerance: tolerance_ms,
        unit: "ms",
    });
    // Only what was in the server's hands is slow by its own clock: far less than 1%.
    let in_hand = f64::from(freeze.clients) / (run.counts.planned as f64).max(1.0);
    if in_hand < 0.005 {
        checks.push(Check {
            name: "service p99".to_owned(),
            expected: 0.0,
            measured: value_ms(&run.service, 0.99),
            tolerance: DRAIN_NS_MIN / 1e6,
            unit: "ms",
        });
    }
    let threshold_ns = 1_000_000_000_u64;
    if freeze.frozen_ns > 2 * threshold_ns {
        let expected = (frozen - threshold_ns as f64) / freeze.run_ns as f64 * 100.0;
        let measured = run
            .exceedance
            .iter()
            .find(|count| count.threshold_ns == threshold_ns)
            .map(|count| count.count as f64 / (run.counts.planned as f64).max(1.0) * 100.0);
        checks.push(Check {
            name: "at least 1 s".to_owned(),
            expected,
            measured,
            tolerance: 2.0,
            unit: "%",
        });
    }
    let long = run
        .episodes
        .iter()
        .filter(|episode| (episode.end_ns.saturating_sub(episode.start_ns)) as f64 > frozen * 0.5);
    checks.push(Check {
        name: "stalls of half that length".to_owned(),
        expected: 1.0,
        measured: Some(long.count() as f64),
        tolerance: 0.0,
        unit: "",
    });
    checks.push(Check {
        name: "transactions lost".to_owned(),
        expected: 0.0,
        measured: Some(run.counts.planned.abs_diff(run.counts.committed) as f64),
        tolerance: 0.0,
        unit: "",
    });
    checks
}

fn value_ms(summary: &LatencySummary, q: f64) -> Option<f64> {
    summary
        .percentiles
        .iter()
        .find(|percentile| (percentile.q - q).abs() < 1e-9)
        .map(|percentile| percentile.value_ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREEZE: Freeze = Freeze { run_ns: 30_000_000_000, frozen_ns: 15_000_000_000, clients: 4 };

    #[test]
    fn the_closed_form_gives_the_figures_of_the_methodology() {
        for (q, seconds) in
            [(0.25, 0.0), (0.5, 0.0), (0.75, 7.5), (0.9, 12.0), (0.99, 14.7), (1.0, 15.0)]
        {
            let value = response_quantile_ns(FREEZE, q) / 1e9;
            assert!((value - seconds).abs() < 1e-9, "{q}: {value}");
        }
        assert!(response_quantile_ns(Freeze { frozen_ns: 0, ..FREEZE }, 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_generator_that_waits_for_answers_would_fail() {
        // Coordinated omission: p99 as small as ever, one slow transaction a client.
        let check = Check {
            name: "response p99".to_owned(),
            expected: response_quantile_ns(FREEZE, 0.99) / 1e6,
            measured: Some(1.2),
            tolerance: 300.0,
            unit: "ms",
        };
        assert!(!check.is_passed());
        assert!(!Check { measured: None, ..check.clone() }.is_passed());
        assert!(Check { measured: Some(14_650.0), ..check }.is_passed());
    }
}
