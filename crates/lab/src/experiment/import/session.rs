//! An imported log as a session record, which `compare` and `report` accept.

use std::collections::BTreeMap;

use evenkeel::runtime::{Instant, WallTime};

use super::{AggregateLine, Content, ImportedRun};
use crate::driver::RunData;
use crate::experiment::document::{
    Arm, ArmRole, Arrival, CacheState, Counts, LatencySummary, Machine, Protocol, Run, SCHEMA,
    ScriptUse, SessionDocument, TimelineSecond,
};
use crate::experiment::session::iso;
use crate::measure::histogram::LogHistogram;
use crate::measure::record::TransactionRecord;
use crate::measure::record_log::RecordLog;
use crate::measure::summary::{Window, summarise};
use crate::target::QueryMode;

/// What the log does not say and the user may.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    /// What reports call the arm.
    pub name: String,
    /// Transactions per second that pgbench was asked for (`--rate`).
    pub rate_per_s: Option<f64>,
    /// Share of transactions in the log (`--sampling-rate`), above 0, at most 1.
    pub sampling_ratio: Option<f64>,
    /// The measure that decides a later comparison.
    pub primary: Option<String>,
}

/// One session of one arm with all `runs`.
#[must_use]
pub fn to_session(
    runs: &[ImportedRun],
    statement: &Statement,
    command: Vec<String>,
) -> SessionDocument {
    let has_lag = runs.iter().any(ImportedRun::has_lag);
    // A lag is only logged of transactions that were scheduled: pgbench ran with a rate.
    let rate_per_s = statement.rate_per_s.or_else(|| {
        has_lag.then(|| logged_rate(runs, statement.sampling_ratio.unwrap_or(1.0))).flatten()
    });
    let arrival = match rate_per_s {
        Some(rate_per_s) => Arrival::Poisson { rate_per_s },
        None => Arrival::Closed,
    };
    let is_open = rate_per_s.is_some();
    let imported: Vec<Run> = (0u32..)
        .zip(runs)
        .map(|(index, run)| {
            let mut run = run.to_run(arrival, statement.sampling_ratio);
            run.index = index;
            run.block = index;
            run
        })
        .collect();
    let clients = runs.iter().map(ImportedRun::client_count).max().unwrap_or(1);
    let script_count = runs.iter().map(ImportedRun::script_count).max().unwrap_or(1);
    let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    SessionDocument {
        schema: SCHEMA.to_owned(),
        evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: imported.first().map(|run| run.started_at.clone()).unwrap_or_default(),
        ended_at: None,
        command,
        title: format!("{} (imported from pgbench's logs)", statement.name),
        incomplete: None,
        protocol: Protocol {
            seed: 0,
            pairs_planned: count,
            looks: vec![count],
            block_order: vec![vec![0]; runs.len()],
            duration_ns: imported.iter().map(|run| run.duration_ns).max().unwrap_or(0),
            grace_ns: 0,
            cache_state: CacheState::CarriedOver,
            arrival,
            clients,
            threads: 1,
            query_mode: QueryMode::Simple,
            scale: None,
            fillfactor: None,
            scripts: (0..script_count)
                .map(|script| ScriptUse {
                    name: format!("script {script}"),
                    weight: 1,
                    sha256: String::new(),
                })
                .collect(),
            latency_limit_ns: None,
            max_tries: 1,
            primary: statement
                .primary
                .clone()
                .unwrap_or_else(|| if is_open { "response_p99" } else { "throughput" }.to_owned()),
            margin_ratio: if is_open { 0.05 } else { 0.02 },
            is_quick: false,
            expects_saturation: false,
        },
        machine: Machine::default(),
        arms: vec![Arm {
            name: statement.name.clone(),
            role: ArmRole::Baseline,
            kind: "imported".to_owned(),
            address: runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", "),
            server_version: None,
            server_version_num: None,
            declared_settings: BTreeMap::new(),
            captured_settings: BTreeMap::new(),
            environment_names: Vec::new(),
            build_options: None,
            data_hash: None,
        }],
        differences: Vec::new(),
        runs: imported,
        analysis: None,
    }
}

/// Transactions per second that were scheduled, as the logs have it.
#[must_use]
pub fn logged_rate(runs: &[ImportedRun], sampling_ratio: f64) -> Option<f64> {
    let (mut planned, mut seconds) = (0.0, 0.0);
    for run in runs {
        let run = run.to_run(Arrival::Closed, None);
        planned += run.counts.planned as f64;
        seconds += run.duration_ns as f64 / 1e9;
    }
    (planned > 0.0 && seconds > 0.0).then(|| planned / seconds / sampling_ratio)
}

impl ImportedRun {
    /// Whether a lag was logged that is above zero: pgbench ran with a rate.
    #[must_use]
    pub fn has_lag(&self) -> bool {
        match &self.content {
            Content::Transactions { records, .. } => {
                records.iter().any(|record| record.lag_ns() > 0)
            }
            Content::Intervals(intervals) => {
                intervals.iter().any(|interval| interval.sum_lag_us > 0.0)
            }
        }
    }

    fn client_count(&self) -> u32 {
        match &self.content {
            Content::Transactions { records, .. } => {
                records.iter().map(|record| record.client).max().unwrap_or(0).saturating_add(1)
            }
            Content::Intervals(_) => 1,
        }
    }

    fn script_count(&self) -> usize {
        match &self.content {
            Content::Transactions { records, .. } => {
                usize::from(records.iter().map(|record| record.script).max().unwrap_or(0)) + 1
            }
            Content::Intervals(_) => 1,
        }
    }

    fn to_run(&self, arrival: Arrival, sampling_ratio: Option<f64>) -> Run {
        let mut run = match &self.content {
            Content::Transactions { records, duration_ns } => {
                self.run_of_records(records, *duration_ns, arrival)
            }
            Content::Intervals(intervals) => self.run_of_intervals(intervals),
        };
        // Of a sample the counts stay what was logged; only the rate is of the whole.
        if let (Some(ratio), Some(rate)) = (sampling_ratio, run.throughput_per_s) {
            run.throughput_per_s = Some(rate / ratio);
        }
        run
    }

    fn run_of_records(
        &self,
        records: &[TransactionRecord],
        duration_ns: u64,
        arrival: Arrival,
    ) -> Run {
        let mut log = RecordLog::new();
        for record in records {
            log.push(record);
        }
        let data = RunData {
            origin: Instant::from_nanos(0),
            origin_wall: WallTime::from_unix_nanos(self.origin_unix_ns),
            measured_start_ns: 0,
            // The last end belongs to the run.
            measured_end_ns: duration_ns.saturating_add(1),
            logs: vec![log],
            arrival,
            clients: self.client_count(),
            threads: 1,
            script_count: self.script_count(),
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
        let mut run = summarise(&data, Window::measured(&data));
        // Logs do not tell of them, which is not the same as zero.
        run.clock_jump_ns = None;
        run.driver_lag_p99_ns = None;
        run.duration_ns = duration_ns;
        run
    }

    /// Percentiles cannot be had from sums; mean, deviation and extremes can.
    fn run_of_intervals(&self, intervals: &[AggregateLine]) -> Run {
        let mut run = self.run_of_records(&[], 0, Arrival::Closed);
        let total = |of: fn(&AggregateLine) -> u64| -> u64 {
            intervals.iter().map(of).fold(0, u64::saturating_add)
        };
        let count = total(|interval| interval.count);
        let step_s = intervals
            .windows(2)
            .map(|two| two[1].start_s.saturating_sub(two[0].start_s))
            .filter(|step| *step > 0)
            .min()
            .unwrap_or(1);
        let (first, last) = match intervals {
            [] => (0, 0),
            [first, .., last] => (first.start_s, last.start_s),
            [only] => (only.start_s, only.start_s),
        };
        let duration_s = last.saturating_sub(first).saturating_add(step_s);
        run.started_at = iso(WallTime::from_unix_nanos(self.origin_unix_ns));
        run.duration_ns = duration_s.saturating_mul(1_000_000_000);
        let failures = |interval: &AggregateLine| {
            interval
                .serialization_failures
                .saturating_add(interval.deadlocks)
                .saturating_add(interval.other_errors)
        };
        run.counts = Counts {
            planned: count.saturating_add(total(|interval| interval.skipped)),
            started: count,
            committed: count,
            serialization_failures: total(|interval| interval.serialization_failures),
            deadlocks: total(|interval| interval.deadlocks),
            other_errors: total(|interval| interval.other_errors),
            skipped: total(|interval| interval.skipped),
            retried: total(|interval| interval.retried),
            retries: total(|interval| interval.retries),
            ..Counts::default()
        };
        run.throughput_per_s = Some(count as f64 / duration_s as f64);
        let sum_us: f64 = intervals.iter().map(|interval| interval.sum_us).sum();
        let square: f64 = intervals.iter().map(|interval| interval.sum_square_us2).sum();
        let busy = || intervals.iter().filter(|interval| interval.count > 0);
        let mean_us = (count > 0).then(|| sum_us / count as f64);
        run.response = LatencySummary {
            count,
            mean_ns: mean_us.map(|mean| mean * 1000.0),
            standard_deviation_ns: mean_us
                .map(|mean| (square / count as f64 - mean * mean).max(0.0).sqrt() * 1000.0),
            min_ns: busy().map(|interval| interval.min_us.saturating_mul(1000)).min(),
            max_ns: busy().map(|interval| interval.max_us.saturating_mul(1000)).max(),
            percentiles: Vec::new(),
        };
        run.timeline = intervals
            .iter()
            .map(|interval| TimelineSecond {
                second: u32::try_from(interval.start_s.saturating_sub(first)).unwrap_or(u32::MAX),
                planned: interval.count,
                started: interval.count,
                finished: interval.count,
                failed: failures(interval),
                max_ns: (interval.count > 0).then(|| interval.max_us.saturating_mul(1000)),
                ..TimelineSecond::default()
            })
            .collect();
        run
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SeventhColumn, read_run};
    use super::*;
    use crate::experiment::store;

    fn session(text: &str, statement: &Statement) -> SessionDocument {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pgbench_log.1");
        std::fs::write(&path, text).unwrap();
        let run = read_run("run", &[path], SeventhColumn::Lag).unwrap();
        let document = to_session(&[run], statement, Vec::new());
        // What is imported must be storable and readable.
        store::write_session(scratch.path(), &document).unwrap();
        store::read_session(scratch.path()).unwrap().document
    }

    #[test]
    fn an_imported_run_has_the_figures_of_its_log() {
        let text: String = (0..100)
            .map(|i| format!("{} {} {} 0 1600000000 {}\n", i % 4, i, 1000 + i, i * 10_000))
            .collect();
        let document = session(&text, &Statement { name: "x".to_owned(), ..Statement::default() });
        let run = &document.runs[0];
        assert_eq!((run.counts.committed, run.response.count), (100, 100));
        assert_eq!(run.response.max_ns, Some(1_099_000));
        assert_eq!(
            (document.protocol.clients, document.protocol.primary.as_str()),
            (4, "throughput")
        );
        assert_eq!(run.driver_lag_p99_ns, None);
    }

    #[test]
    fn a_log_with_a_schedule_lag_is_an_open_loop_without_being_told() {
        let text: String = (0..100)
            .map(|i| format!("0 {i} 2000 0 {} {} 1000\n", 1_600_000_000 + i / 10, i % 10 * 100_000))
            .collect();
        let document = session(&text, &Statement::default());
        let Arrival::Poisson { rate_per_s } = document.protocol.arrival else {
            panic!("{:?}", document.protocol.arrival)
        };
        assert!((rate_per_s - 10.0).abs() < 0.2, "{rate_per_s}");
        assert_eq!(document.protocol.primary, "response_p99");
        let stated = Statement { rate_per_s: Some(12.0), ..Statement::default() };
        assert_eq!(session(&text, &stated).protocol.arrival, Arrival::Poisson { rate_per_s: 12.0 });
    }

    #[test]
    fn a_sample_is_scaled_to_the_whole_in_its_rate_only() {
        let text = "0 1 1000 0 1600000000 0\n0 2 1000 0 1600000001 0\n";
        let whole = session(text, &Statement::default());
        let sample =
            session(text, &Statement { sampling_ratio: Some(0.1), ..Statement::default() });
        let rate = |document: &SessionDocument| document.runs[0].throughput_per_s.unwrap();
        assert!((rate(&sample) / rate(&whole) - 10.0).abs() < 1e-9);
        assert_eq!(sample.runs[0].counts, whole.runs[0].counts);
    }

    #[test]
    fn an_aggregate_log_gives_mean_and_extremes_and_no_percentile() {
        let text = "1600000000 10 10000 10000000 900 1100\n1600000010 0 0 0 0 0\n";
        let document = session(text, &Statement::default());
        let run = &document.runs[0];
        assert_eq!((run.counts.committed, run.duration_ns), (10, 20_000_000_000));
        assert_eq!(run.response.mean_ns, Some(1_000_000.0));
        assert_eq!((run.response.min_ns, run.response.max_ns), (Some(900_000), Some(1_100_000)));
        assert!(run.response.percentiles.is_empty());
        assert_eq!(run.timeline[1].max_ns, None);
    }
}
