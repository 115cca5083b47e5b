//! An imported log as a session record, which `compare` and `report` accept.

use std::collections::BTreeMap;

use evenkeel::runtime::{Instant, WallTime};

use super::{AggregateLine, Content, ImportError, ImportedRun, layout};
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

/// One session of one arm with all `runs`, which are repetitions of each other.
///
/// # Errors
/// When they are not, or when the logs contradict the statement.
pub fn to_session(
    runs: &[ImportedRun],
    statement: &Statement,
    command: Vec<String>,
) -> Result<SessionDocument, ImportError> {
    for run in runs {
        run.agrees_with(statement).map_err(ImportError::Whole)?;
    }
    let ratio = statement.sampling_ratio.unwrap_or(1.0);
    if let Some((first, others)) = runs.split_first() {
        for other in others {
            first.repeats(other, ratio).map_err(|how| {
                ImportError::Whole(format!(
                    "{} and {} do not belong to one session: {how}. Import each into a directory of its \
                     own",
                    first.name, other.name
                ))
            })?;
        }
    }
    // A lag is only logged of transactions that were scheduled: pgbench ran with a rate.
    let is_scheduled = runs.iter().any(|run| run.has_schedule);
    let rate_per_s =
        statement.rate_per_s.or_else(|| is_scheduled.then(|| logged_rate(runs, ratio)).flatten());
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
    Ok(SessionDocument {
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
    })
}

/// Lengths of repetitions differ by no more than this share, where they are of a given time.
const DURATION_RATIO_MAX: f64 = 0.05;
/// What the rates of repetitions may differ by: so many deviations of their counts, and a rest for what
/// begins and ends within a second.
const RATE_DEVIATIONS: f64 = 4.0;
const RATE_REST: f64 = 0.01;

/// Transactions per second that were scheduled, as the logs of repetitions have it.
fn logged_rate(runs: &[ImportedRun], sampling_ratio: f64) -> Option<f64> {
    let (mut planned, mut seconds) = (0.0, 0.0);
    for (of_run, in_run) in runs.iter().filter_map(ImportedRun::scheduled) {
        planned += of_run;
        seconds += in_run;
    }
    (planned > 0.0 && seconds > 0.0).then(|| planned / seconds / sampling_ratio)
}

impl ImportedRun {
    /// How many transactions were scheduled in how many seconds. Of single transactions from the first to
    /// the last that was: a server that is behind at the end has the later ones unlogged.
    fn scheduled(&self) -> Option<(f64, f64)> {
        match &self.content {
            Content::Transactions { records, .. } => {
                let last_ns = records.iter().map(|record| record.planned_ns).max()?;
                let first_ns = records.iter().map(|record| record.planned_ns).min()?;
                let gaps = records.len().checked_sub(1)?;
                (last_ns > first_ns).then(|| (gaps as f64, (last_ns - first_ns) as f64 / 1e9))
            }
            Content::Intervals { lines, step_s } => {
                let planned = lines.iter().map(AggregateLine::planned).fold(0, u64::saturating_add);
                Some((planned as f64, lines.len() as f64 * *step_s as f64))
            }
        }
    }

    /// Whether what the caller states can be.
    fn agrees_with(&self, statement: &Statement) -> Result<(), String> {
        let name = &self.name;
        if statement.rate_per_s.is_some() && !self.has_schedule {
            return Err(format!(
                "{name}: the log has no schedule lags, which pgbench writes whenever it has a rate: it ran \
                 without --rate (leave out -R)"
            ));
        }
        match (&self.content, statement.sampling_ratio) {
            (Content::Intervals { .. }, Some(_)) => Err(format!(
                "{name}: pgbench does not aggregate samples (leave out --sampling-rate)"
            )),
            (Content::Transactions { records, .. }, stated) => {
                let held = self.sample_ratio;
                if layout::is_sample_of(held, stated.unwrap_or(1.0), records.len()) {
                    return self.rate_agrees_with(statement);
                }
                Err(match stated {
                    Some(stated) => format!(
                        "{name}: by the clients' own numbers the log holds {:.1}% of their transactions, \
                         and not {:.1}% (--sampling-rate)",
                        held * 100.0,
                        stated * 100.0
                    ),
                    None => format!(
                        "{name}: by the clients' own numbers the log holds only {:.1}% of their \
                         transactions: say the --sampling-rate that pgbench was given, or give the whole log",
                        held * 100.0
                    ),
                })
            }
            (Content::Intervals { .. }, None) => self.rate_agrees_with(statement),
        }
    }

    fn rate_agrees_with(&self, statement: &Statement) -> Result<(), String> {
        let Some((stated, (planned, seconds))) = statement.rate_per_s.zip(self.scheduled()) else {
            return Ok(());
        };
        let logged = planned / seconds / statement.sampling_ratio.unwrap_or(1.0);
        if (logged / stated - 1.0).abs() <= RATE_DEVIATIONS / planned.max(1.0).sqrt() + RATE_REST {
            return Ok(());
        }
        Err(format!(
            "{}: the log's schedule has {logged:.1} transactions per second, and not {stated:.1} (-R)",
            self.name
        ))
    }

    fn seconds(&self) -> f64 {
        match &self.content {
            Content::Transactions { duration_ns, .. } => *duration_ns as f64 / 1e9,
            Content::Intervals { lines, step_s } => lines.len() as f64 * *step_s as f64,
        }
    }

    /// Transactions that the log tells of.
    fn logged(&self) -> u64 {
        match &self.content {
            Content::Transactions { records, .. } => records.len() as u64,
            Content::Intervals { lines, .. } => {
                lines.iter().map(AggregateLine::planned).fold(0, u64::saturating_add)
            }
        }
    }

    /// Whether the other can be a repetition of this one, by what logs tell; how it is not.
    fn repeats(&self, other: &Self, sampling_ratio: f64) -> Result<(), String> {
        let is_single = |run: &Self| matches!(run.content, Content::Transactions { .. });
        if is_single(self) != is_single(other) {
            return Err("one log is of single transactions and the other of intervals".to_owned());
        }
        if self.has_schedule != other.has_schedule {
            return Err("one ran with a rate and the other did not".to_owned());
        }
        if self.client_count() != other.client_count() {
            let (left, right) = (self.client_count(), other.client_count());
            return Err(format!("{left} clients against {right}"));
        }
        let (a, b) = (self.seconds(), other.seconds());
        // Runs of a given number of transactions take as long as they take.
        let is_counted = self.logged() == other.logged();
        if !is_counted && (a - b).abs() > DURATION_RATIO_MAX * a.max(b) {
            return Err(format!("{a:.1} s against {b:.1} s"));
        }
        if self.has_schedule
            && let (Some((n, in_s)), Some((m, other_s))) = (self.scheduled(), other.scheduled())
        {
            let (rate, other_rate) = (n / in_s, m / other_s);
            let by_chance = (1.0 / n.max(1.0) + 1.0 / m.max(1.0)).sqrt();
            if (other_rate.ln() - rate.ln()).abs() > RATE_DEVIATIONS * by_chance + RATE_REST {
                return Err(format!(
                    "{:.1} transactions per second against {:.1}",
                    rate / sampling_ratio,
                    other_rate / sampling_ratio
                ));
            }
        }
        Ok(())
    }

    fn client_count(&self) -> u32 {
        match &self.content {
            Content::Transactions { records, .. } => {
                records.iter().map(|record| record.client).max().unwrap_or(0).saturating_add(1)
            }
            Content::Intervals { .. } => 1,
        }
    }

    fn script_count(&self) -> usize {
        match &self.content {
            Content::Transactions { records, .. } => {
                usize::from(records.iter().map(|record| record.script).max().unwrap_or(0)) + 1
            }
            Content::Intervals { .. } => 1,
        }
    }

    fn to_run(&self, arrival: Arrival, sampling_ratio: Option<f64>) -> Run {
        let mut run = match &self.content {
            Content::Transactions { records, duration_ns } => {
                self.run_of_records(records, *duration_ns, arrival)
            }
            Content::Intervals { lines, step_s } => self.run_of_intervals(lines, *step_s),
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
    fn run_of_intervals(&self, intervals: &[AggregateLine], step_s: u64) -> Run {
        let mut run = self.run_of_records(&[], 0, Arrival::Closed);
        let total = |of: fn(&AggregateLine) -> u64| -> u64 {
            intervals.iter().map(of).fold(0, u64::saturating_add)
        };
        let count = total(|interval| interval.count);
        let first = intervals.first().map_or(0, |interval| interval.start_s);
        let duration_s = step_s.saturating_mul(intervals.len() as u64).max(1);
        run.started_at = iso(WallTime::from_unix_nanos(self.origin_unix_ns));
        run.duration_ns = duration_s.saturating_mul(1_000_000_000);
        run.counts = Counts {
            planned: total(AggregateLine::planned),
            started: total(AggregateLine::started),
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
                planned: interval.planned(),
                started: interval.started(),
                finished: interval.count,
                failed: interval.failed(),
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

    fn imported(text: &str) -> ImportedRun {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pgbench_log.1");
        std::fs::write(&path, text).unwrap();
        read_run("run", &[path], SeventhColumn::ByItsNumbers).unwrap()
    }

    fn session(text: &str, statement: &Statement) -> SessionDocument {
        let scratch = tempfile::tempdir().unwrap();
        let document = to_session(&[imported(text)], statement, Vec::new()).unwrap();
        // What is imported must be storable and readable.
        store::write_session(scratch.path(), &document).unwrap();
        store::read_session(scratch.path()).unwrap().document
    }

    #[test]
    fn an_imported_run_has_the_figures_of_its_log() {
        let text: String = (0..100)
            .map(|i| format!("{} {} {} 0 1600000000 {}\n", i % 4, i / 4, 1000 + i, i * 10_000))
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
        let stated = Statement { rate_per_s: Some(10.1), ..Statement::default() };
        assert_eq!(session(&text, &stated).protocol.arrival, Arrival::Poisson { rate_per_s: 10.1 });
    }

    /// A log of `seconds`, every `step`-th of `per_s` transactions a second, with these further columns.
    fn log(seconds: u64, per_s: u64, step: usize, more: &str) -> String {
        (0..seconds * per_s)
            .step_by(step)
            .map(|n| {
                let (s, us) = (n / per_s, n % per_s * (1_000_000 / per_s));
                format!("0 {n} 1000 0 {} {us}{more}\n", 1_600_000_000 + s)
            })
            .collect()
    }

    #[test]
    fn a_sample_is_scaled_to_the_whole_in_its_rate_only() {
        let sampling = Statement { sampling_ratio: Some(0.1), ..Statement::default() };
        let whole = session(&log(10, 100, 1, ""), &Statement::default());
        let sample = session(&log(10, 100, 10, ""), &sampling);
        let rate = |document: &SessionDocument| document.runs[0].throughput_per_s.unwrap();
        assert!((rate(&sample) / rate(&whole) - 1.0).abs() < 0.02);
        assert_eq!(sample.runs[0].counts.committed, 100);
    }

    #[test]
    fn what_a_log_contradicts_is_not_believed() {
        let with = |rate_per_s, sampling_ratio| Statement {
            rate_per_s,
            sampling_ratio,
            ..Statement::default()
        };
        let sample = log(10, 100, 10, "");
        let closed = log(10, 100, 1, "");
        let open = log(10, 100, 1, " 300");
        let aggregate = "1600000000 10 10000 10000000 900 1100\n1600000001 9 9000 0 900 1100\n";
        for (text, statement, expected) in [
            (&closed[..], with(Some(100.0), None), "no schedule lags"),
            (&open, with(Some(200.0), None), "100.0 transactions per second, and not 200.0"),
            (
                &open,
                with(Some(100.0), Some(0.1)),
                "holds 100.0% of their transactions, and not 10.0%",
            ),
            (&sample, with(None, None), "holds only 10.0% of their transactions"),
            (&sample, with(None, Some(0.5)), "and not 50.0%"),
            (aggregate, with(Some(10.0), None), "no schedule lags"),
            (aggregate, with(None, Some(0.1)), "does not aggregate samples"),
        ] {
            let error = to_session(&[imported(text)], &statement, Vec::new()).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        }
        for (text, statement) in [
            (&closed[..], with(None, None)),
            (&open, with(Some(100.0), None)),
            (&sample, with(None, Some(0.1))),
        ] {
            session(text, &statement);
        }
    }

    #[test]
    fn logs_of_different_runs_are_not_pooled_into_one_session() {
        let run = |text: &str| imported(text);
        let open = || run(&log(10, 100, 1, " 300"));
        for (other, expected) in [
            (run(&log(10, 200, 1, " 300")), "100.0 transactions per second against 200.0"),
            (run(&log(20, 100, 1, " 300")), "10.0 s against 20.0 s"),
            (run(&log(10, 100, 1, "")), "one ran with a rate and the other did not"),
            (run(&log(10, 100, 1, " 300").replace("\n0 ", "\n1 ")), "1 clients against 2"),
            (
                run("1600000000 9 9000 0 900 1100\n1600000001 9 9000 0 900 1100\n"),
                "one log is of single transactions",
            ),
        ] {
            let error =
                to_session(&[open(), other], &Statement::default(), Vec::new()).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        }
        let two = to_session(&[open(), open()], &Statement::default(), Vec::new()).unwrap();
        assert_eq!(two.runs.len(), 2);
    }

    #[test]
    fn an_aggregate_log_gives_mean_and_extremes_and_no_percentile() {
        let text = "1599999990 7 7000 0 500 1100\n1600000000 10 10000 10000000 900 1100\n\
                    1600000010 0 0 0 0 0\n";
        let document = session(text, &Statement::default());
        let run = &document.runs[0];
        assert_eq!((run.counts.committed, run.duration_ns), (10, 20_000_000_000));
        assert_eq!(run.response.mean_ns, Some(1_000_000.0));
        assert_eq!((run.response.min_ns, run.response.max_ns), (Some(900_000), Some(1_100_000)));
        assert!(run.response.percentiles.is_empty());
        assert_eq!(run.timeline[1].max_ns, None);
    }
}
