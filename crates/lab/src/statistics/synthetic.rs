//! Sessions on a target whose truth is known, to see how often the laboratory is wrong.
//!
//! The target is a model: log-normal service times; a level that differs from run to run, drifts over
//! the session and depends on the physical copy; seconds that are correlated; a disturbance that
//! returns; stalls that hold up every transaction that arrives in them. Its transactions go through
//! the same summary as a real run's, and the sessions through the same judgement.

use std::collections::BTreeMap;

use evenkeel::runtime::{Instant, WallTime};

use crate::distribution::{Purpose, RandomStream};
use crate::driver::RunData;
use crate::experiment::design::Design;
use crate::experiment::document::{
    Arm, ArmRole, Arrival, CacheState, Machine, Protocol, Run, SCHEMA, SessionDocument,
};
use crate::measure::histogram::LogHistogram;
use crate::measure::record::{Outcome, TransactionRecord};
use crate::measure::record_log::RecordLog;
use crate::measure::summary::{Window, summarise};
use crate::target::QueryMode;

/// What the contender is made to differ by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Injection {
    /// Nothing: an A/A session.
    None,
    /// Every service time is longer by this ratio.
    Slower(f64),
    /// A share of the transactions takes longer by so many nanoseconds.
    Later {
        /// Which share.
        ratio: f64,
        /// By how much.
        delay_ns: u64,
    },
}

/// In which order the arms run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOfRuns {
    /// As a session draws it.
    Drawn,
    /// Strictly alternating.
    Alternating,
    /// First all of one arm, then all of the other.
    OneAfterTheOther,
}

/// A synthetic session.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticSession {
    /// Everything follows from it.
    pub seed: u64,
    /// Pairs of runs.
    pub pairs: u32,
    /// Seconds a run.
    pub seconds: u32,
    /// Transactions per second.
    pub rate_per_s: f64,
    /// What differs.
    pub injection: Injection,
    /// In which order the arms run.
    pub order: OrderOfRuns,
    /// Change of the level from run to run.
    pub drift_ratio: f64,
    /// Every second run of the machine is slower by this ratio, whoever runs.
    pub alternation_ratio: f64,
    /// Stalls a second, above zero.
    pub stalls_per_s: f64,
    /// The measure that decides.
    pub primary: &'static str,
    /// The least change that matters.
    pub margin_ratio: f64,
    /// Planned looks; the last is the number of pairs.
    pub looks: usize,
}

/// Standard deviation of the level between runs.
const BETWEEN_RUNS: f64 = 0.015;
/// Standard deviation between physical copies.
const BETWEEN_COPIES: f64 = 0.004;
/// Correlation and standard deviation of seconds.
const SECONDS_CORRELATION: f64 = 0.6;
const SECONDS_DEVIATION: f64 = 0.04;
/// Every so many seconds, one second is slower by half.
const DISTURBANCE_PERIOD_S: u32 = 12;
/// Median service time, and the deviation of its logarithm.
const SERVICE_NS: f64 = 2e6;
const SERVICE_DEVIATION: f64 = 0.5;
/// Mean length of a stall.
const STALL_NS: f64 = 0.8e9;

/// Standard normal deviates from a seed, for simulations.
#[derive(Debug)]
pub struct Normal(RandomStream);

impl Normal {
    /// Everything follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(RandomStream::new(seed, 6, Purpose::Audit))
    }

    /// The next one.
    pub fn deviate(&mut self) -> f64 {
        normal(&mut self.0)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }
}

/// A standard normal deviate (G. Box, M. Muller, 1958).
fn normal(stream: &mut RandomStream) -> f64 {
    let radius = (-2.0 * stream.positive_unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.unit()).cos()
}

impl SyntheticSession {
    /// Runs the session and gives its record, not yet judged.
    #[must_use]
    pub fn run(&self) -> SessionDocument {
        let mut machine = RandomStream::new(self.seed, 1, Purpose::Audit);
        let copies: Vec<f64> = (0..4).map(|_| BETWEEN_COPIES * normal(&mut machine)).collect();
        let design = Design::draw(self.seed, 2, self.pairs);
        let mut runs = Vec::new();
        let mut index = 0_u32;
        for (block, planned) in (0_u32..).zip(&design.blocks) {
            for (position, drawn) in (0_u32..).zip(&planned.runs) {
                let arm = if self.order == OrderOfRuns::Drawn { drawn.arm } else { position };
                // The place in time that this run has on the machine.
                let place = match self.order {
                    OrderOfRuns::OneAfterTheOther => block + arm * self.pairs,
                    _ => index,
                };
                let copy = copies.get((arm * 2 + drawn.instance) as usize).copied().unwrap_or(0.0);
                let drift = (1.0 + self.drift_ratio).ln() * f64::from(place);
                let alternation =
                    if place % 2 == 1 { (1.0 + self.alternation_ratio).ln() } else { 0.0 };
                let level = BETWEEN_RUNS * normal(&mut machine) + copy + drift + alternation;
                let mut run = self.one_run(planned.seed, u64::from(place), arm, level);
                (run.index, run.block, run.position) = (index, block, position);
                (run.arm, run.instance) = (arm, drawn.instance);
                runs.push(run);
                index += 1;
            }
        }
        self.document(runs, design)
    }

    fn one_run(&self, block_seed: u64, place: u64, arm: u32, level: f64) -> Run {
        let mut arrivals = RandomStream::new(block_seed, 0, Purpose::Arrival);
        let mut stream = RandomStream::new(self.seed, 100 + place, Purpose::Script);
        let end_ns = u64::from(self.seconds) * 1_000_000_000;
        let mut seconds = Vec::with_capacity(self.seconds as usize);
        let mut previous = normal(&mut stream) * SECONDS_DEVIATION;
        let innovation = SECONDS_DEVIATION * (1.0 - SECONDS_CORRELATION.powi(2)).sqrt();
        let phase = stream.up_to(u64::from(DISTURBANCE_PERIOD_S) - 1);
        for second in 0..u64::from(self.seconds) {
            previous = SECONDS_CORRELATION * previous + innovation * normal(&mut stream);
            let disturbed = second % u64::from(DISTURBANCE_PERIOD_S) == phase;
            seconds.push(previous + if disturbed { 0.5_f64.ln_1p() } else { 0.0 });
        }
        let mut stalls = Vec::new();
        let mut at_ns = 0_u64;
        loop {
            at_ns += stream.exponential_gap_ns(1e9 / self.stalls_per_s);
            if at_ns >= end_ns {
                break;
            }
            stalls.push((at_ns, at_ns + stream.exponential_gap_ns(STALL_NS)));
        }
        let (slower, later) = match self.injection {
            Injection::Slower(ratio) if arm == 1 => (ratio.ln_1p(), None),
            Injection::Later { ratio, delay_ns } if arm == 1 => (0.0, Some((ratio, delay_ns))),
            _ => (0.0, None),
        };
        let mut log = RecordLog::new();
        let mut planned = 0.0;
        loop {
            planned += -arrivals.positive_unit().ln() * 1e9 / self.rate_per_s;
            let planned_ns = planned as u64;
            if planned_ns >= end_ns {
                break;
            }
            let second = (planned_ns / 1_000_000_000) as usize;
            let exponent = level
                + slower
                + seconds.get(second).copied().unwrap_or(0.0)
                + SERVICE_DEVIATION * normal(&mut stream);
            let mut service_ns = (SERVICE_NS * exponent.exp()) as u64;
            if let Some((ratio, delay_ns)) = later
                && stream.unit() < ratio
            {
                service_ns += delay_ns;
            }
            if let Some((_, until_ns)) =
                stalls.iter().find(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&planned_ns))
            {
                service_ns += until_ns - planned_ns;
            }
            log.push(&TransactionRecord {
                planned_ns,
                start_ns: planned_ns,
                end_ns: planned_ns + service_ns,
                think_ns: 0,
                client: 0,
                retries: 0,
                script: 0,
                outcome: Outcome::Committed,
            });
        }
        let data = RunData {
            origin: Instant::from_nanos(0),
            origin_wall: WallTime::from_unix_nanos(0),
            measured_start_ns: 0,
            measured_end_ns: end_ns,
            logs: vec![log],
            arrival: Arrival::Poisson { rate_per_s: self.rate_per_s },
            clients: 1,
            threads: 1,
            script_count: 1,
            latency_limit_ns: None,
            max_tries: 1,
            aborts: Vec::new(),
            errors: BTreeMap::new(),
            key_audits: Vec::new(),
            driver_cpu_ns: None,
            driver_busy_ratio: None,
            driver_lag: LogHistogram::default(),
            connection_ns: 0,
            calls: crate::driver::Calls::default(),
            clock_jump_ns: 0,
            commands: Vec::new(),
            incomplete: None,
            was_interrupted: false,
        };
        let window = Window::measured(&data);
        summarise(&data, window)
    }

    fn document(&self, runs: Vec<Run>, design: Design) -> SessionDocument {
        let arm = |name: &str, role| Arm {
            name: name.to_owned(),
            role,
            kind: "synthetic".to_owned(),
            address: "a model".to_owned(),
            server_version: None,
            server_version_num: None,
            declared_settings: BTreeMap::new(),
            captured_settings: BTreeMap::new(),
            environment_names: Vec::new(),
            build_options: None,
            data_hash: None,
        };
        // The looks of a session end with its number of pairs.
        let looks = (0..self.looks.max(1) as u32)
            .map(|look| self.pairs - (self.looks.max(1) as u32 - 1 - look) * (self.pairs / 4))
            .collect();
        SessionDocument {
            schema: SCHEMA.to_owned(),
            evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: "1970-01-01T00:00:00Z".to_owned(),
            ended_at: None,
            command: Vec::new(),
            title: "synthetic".to_owned(),
            incomplete: None,
            protocol: Protocol {
                seed: self.seed,
                pairs_planned: self.pairs,
                looks,
                block_order: design.block_order(),
                duration_ns: u64::from(self.seconds) * 1_000_000_000,
                grace_ns: 0,
                cache_state: CacheState::CarriedOver,
                arrival: Arrival::Poisson { rate_per_s: self.rate_per_s },
                clients: 1,
                threads: 1,
                query_mode: QueryMode::Simple,
                scale: None,
                fillfactor: None,
                scripts: Vec::new(),
                latency_limit_ns: None,
                max_tries: 1,
                primary: self.primary.to_owned(),
                margin_ratio: self.margin_ratio,
                is_quick: false,
                expects_saturation: false,
            },
            machine: Machine::default(),
            arms: vec![arm("A", ArmRole::Baseline), arm("B", ArmRole::Contender)],
            differences: Vec::new(),
            runs,
            analysis: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::document::VerdictKind;
    use crate::statistics::analyse;

    const SESSION: SyntheticSession = SyntheticSession {
        seed: 1,
        pairs: 8,
        seconds: 20,
        rate_per_s: 100.0,
        injection: Injection::None,
        order: OrderOfRuns::Drawn,
        drift_ratio: 0.004,
        alternation_ratio: 0.0,
        stalls_per_s: 1.0 / 60.0,
        primary: "response_p50",
        margin_ratio: 0.05,
        looks: 1,
    };

    #[test]
    fn the_same_seed_gives_the_same_session_and_judgement() {
        let judged = || {
            let document = SESSION.run();
            serde_json::to_string(&analyse(&document)).unwrap()
        };
        assert_eq!(judged(), judged());
    }

    #[test]
    fn one_pair_is_called_too_few_and_not_missing() {
        let verdict =
            crate::statistics::primary_verdict(&SyntheticSession { pairs: 1, ..SESSION }.run());
        assert_eq!(verdict.kind, VerdictKind::Inconclusive);
        assert!(verdict.reasons[0].starts_with("1 pair cannot be significant"), "{verdict:?}");
    }

    #[test]
    fn a_large_regression_is_called_one_and_its_size_is_right() {
        let document = SyntheticSession { injection: Injection::Slower(0.2), ..SESSION }.run();
        let analysis = analyse(&document);
        assert_eq!(analysis.comparison.verdict.kind, VerdictKind::Worse, "{analysis:?}");
        let row = &analysis.comparison.rows[0];
        assert!((0.15..0.25).contains(&row.change_ratio.unwrap()), "{row:?}");
    }
}
