//! From a run's records to its figures: the one place in which they are computed.

use super::episodes::{Overdue, episodes, limit_ns};
use super::exceedance::exceedance;
use super::histogram::LogHistogram;
use super::percentile::{Samples, SortedSamples};
use super::record::{Outcome, TransactionRecord};
use super::timeline::Timeline;
use crate::driver::RunData;
use crate::experiment::document::{
    Arrival, Counts, Episode, HostSummary, LatencySummary, Run, ScriptSummary,
};

/// A part of a run, from `start_ns` (inclusive) to `end_ns` (exclusive) since its origin. A
/// transaction belongs to it when its planned start does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first nanosecond.
    pub start_ns: u64,
    /// The first nanosecond after it.
    pub end_ns: u64,
}

impl Window {
    /// The measured part of a run.
    #[must_use]
    pub const fn measured(data: &RunData) -> Self {
        Self { start_ns: data.measured_start_ns, end_ns: data.measured_end_ns }
    }

    /// How long it is.
    #[must_use]
    pub const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    const fn holds(&self, at_ns: u64) -> bool {
        at_ns >= self.start_ns && at_ns < self.end_ns
    }

    /// A last commit may fall on the very end of a run whose transactions were counted.
    fn saw_commit(&self, record: &TransactionRecord) -> bool {
        record.outcome == Outcome::Committed
            && record.end_ns >= self.start_ns
            && record.end_ns <= self.end_ns
    }
}

/// What the records of a window say.
#[derive(Default)]
struct Tally {
    counts: Counts,
    response: Samples,
    service: Samples,
    lag: Samples,
    failed: Samples,
    committed_inside: u64,
    scripts: Vec<ScriptTally>,
}

#[derive(Default)]
struct ScriptTally {
    committed: u64,
    failed: u64,
    response: Samples,
}

/// The figures of `window`. What belongs to a session (indices, arm) is left at zero, and what
/// others measure (events, counters, outcomes, host, server) is left empty, for the caller to set.
#[must_use]
pub fn summarise(data: &RunData, window: Window) -> Run {
    let tally = tally(data, window);
    let [response, service, lag, failed] =
        [tally.response, tally.service, tally.lag, tally.failed].map(Samples::sorted);
    let episodes = stalls(data, window, &service);
    let seconds = window.duration_ns() as f64 / 1e9;
    let committed = tally.counts.committed;
    Run {
        index: 0,
        block: 0,
        position: 0,
        arm: 0,
        instance: 0,
        started_at: iso_8601(data, window.start_ns),
        duration_ns: window.duration_ns(),
        incomplete: data.incomplete.clone(),
        throughput_per_s: (seconds > 0.0).then(|| tally.committed_inside as f64 / seconds),
        exceedance: exceedance(&response, &episodes),
        histogram: histogram(&response).buckets(),
        failed: failed.summary(),
        failed_histogram: histogram(&failed).buckets(),
        response: response.summary(),
        service: service.summary(),
        lag: lag.summary(),
        driver_lag_p99_ns: data.driver_lag.upper_at(9_900),
        scripts: scripts(tally.scripts),
        episodes,
        timeline: timeline(data, window),
        events: Vec::new(),
        counters: std::collections::BTreeMap::new(),
        outcomes: std::collections::BTreeMap::new(),
        host: HostSummary::default(),
        errors: data.errors.clone(),
        key_audits: data.key_audits.clone(),
        driver_cpu_ns_per_transaction: cpu_per_transaction(data),
        driver_busy_ratio: data.driver_busy_ratio,
        clock_jump_ns: Some(data.clock_jump_ns),
        server_restarted: false,
        data_hash: None,
        server_version: None,
        counts: Counts { committed, ..tally.counts },
    }
}

/// What became of the transactions of one script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounts {
    /// Of those that were planned in the window. Skipped ones belong to no script: which one it would have
    /// been was never drawn.
    pub counts: Counts,
    /// Committed within the window, whenever planned: what [`Run::throughput_per_s`] counts over all.
    pub committed_inside: u64,
}

/// What became of the transactions of each script.
#[must_use]
pub fn counts_by_script(data: &RunData, window: Window) -> Vec<ScriptCounts> {
    let mut scripts = vec![ScriptCounts::default(); data.script_count];
    for record in data.records().filter(|record| record.outcome != Outcome::Skipped) {
        let Some(script) = scripts.get_mut(usize::from(record.script)) else { continue };
        script.committed_inside += u64::from(window.saw_commit(&record));
        if window.holds(record.planned_ns) {
            count(&mut script.counts, &record, window, data.latency_limit_ns);
        }
    }
    scripts
}

/// Whether a transaction was started at all: a skipped one was not, nor one that was cut off before
/// a client took it.
#[must_use]
pub fn was_started(record: &TransactionRecord) -> bool {
    match record.outcome {
        Outcome::Skipped => false,
        Outcome::Censored => record.end_ns > record.start_ns,
        _ => true,
    }
}

fn tally(data: &RunData, window: Window) -> Tally {
    let mut tally = Tally {
        scripts: (0..data.script_count).map(|_| ScriptTally::default()).collect(),
        ..Tally::default()
    };
    for record in data.records() {
        tally.committed_inside += u64::from(window.saw_commit(&record));
        if window.holds(record.planned_ns) {
            tally.add(&record, window, data.latency_limit_ns);
        }
    }
    tally.counts.aborted_clients = data.aborts.len() as u64;
    tally
}

/// Counts one transaction that was planned in the window; whether it failed.
fn count(
    counts: &mut Counts,
    record: &TransactionRecord,
    window: Window,
    limit_ns: Option<u64>,
) -> bool {
    counts.planned += 1;
    let was_started = was_started(record);
    counts.started += u64::from(was_started);
    counts.retried += u64::from(record.retries > 0);
    counts.retries += u64::from(record.retries);
    counts.backlog_at_end += u64::from(record.end_ns > window.end_ns);
    match record.outcome {
        Outcome::Committed => {
            counts.committed += 1;
            counts.late += u64::from(limit_ns.is_some_and(|limit| record.response_ns() > limit));
            false
        }
        Outcome::SerializationFailure => {
            counts.serialization_failures += 1;
            true
        }
        Outcome::Deadlock => {
            counts.deadlocks += 1;
            true
        }
        Outcome::OtherError => {
            counts.other_errors += 1;
            true
        }
        Outcome::Skipped => {
            counts.skipped += 1;
            false
        }
        Outcome::Censored => {
            counts.censored += 1;
            false
        }
        Outcome::Aborted => {
            counts.aborted += 1;
            true
        }
    }
}

impl Tally {
    fn add(&mut self, record: &TransactionRecord, window: Window, limit_ns: Option<u64>) {
        let was_started = was_started(record);
        let is_failure = count(&mut self.counts, record, window, limit_ns);
        if is_failure {
            self.failed.push(record.response_ns(), false);
        }
        let is_censored = record.outcome == Outcome::Censored;
        let script = self.scripts.get_mut(usize::from(record.script));
        if let Some(script) = script {
            script.failed += u64::from(is_failure);
            if record.outcome == Outcome::Committed {
                script.committed += 1;
                script.response.push(record.response_ns(), false);
            } else if is_censored && was_started {
                script.response.push(record.response_ns(), true);
            }
        }
        if record.outcome == Outcome::Committed || is_censored {
            self.response.push(record.response_ns(), is_censored);
            self.lag.push(record.lag_ns(), is_censored && !was_started);
            if was_started {
                self.service.push(record.service_ns(), is_censored);
            }
        }
    }
}

fn stalls(data: &RunData, window: Window, service: &SortedSamples) -> Vec<Episode> {
    let limit = limit_ns(service.at(5_000));
    let overdue = data
        .records()
        .filter(|record| window.holds(record.planned_ns) && record.outcome != Outcome::Skipped)
        .filter_map(|record| {
            // Think time is the workload's wish, not a delay.
            let patience = limit.saturating_add(record.think_ns);
            let since = record.planned_ns.saturating_add(patience);
            (record.end_ns > since).then(|| Overdue {
                since_ns: since - window.start_ns,
                end_ns: record.end_ns - window.start_ns,
                response_ns: record.response_ns(),
                client: was_started(&record).then_some(record.client),
            })
        })
        .collect();
    episodes(overdue)
}

fn histogram(response: &SortedSamples) -> LogHistogram {
    let mut histogram = LogHistogram::default();
    for value in response.values() {
        histogram.count(*value);
    }
    histogram
}

fn timeline(data: &RunData, window: Window) -> Vec<crate::experiment::document::TimelineSecond> {
    let mut timeline = Timeline::new(window.start_ns, window.end_ns);
    for record in data.records() {
        timeline.add(&record, was_started(&record));
    }
    timeline.finish()
}

fn scripts(tallies: Vec<ScriptTally>) -> Vec<ScriptSummary> {
    tallies
        .into_iter()
        .enumerate()
        .map(|(index, tally)| ScriptSummary {
            script: u32::try_from(index).unwrap_or(u32::MAX),
            committed: tally.committed,
            failed: tally.failed,
            response: tally.response.sorted().summary(),
        })
        .collect()
}

/// CPU time was spent on the warm-up too, so its transactions count here.
fn cpu_per_transaction(data: &RunData) -> Option<f64> {
    let committed =
        data.records().filter(|record| record.outcome == Outcome::Committed).count() as u64;
    let cpu_ns = data.driver_cpu_ns?;
    (committed > 0).then(|| cpu_ns as f64 / committed as f64)
}

/// The wall clock at a time of the run, ISO 8601 with offset.
fn iso_8601(data: &RunData, at_ns: u64) -> String {
    let nanos = i128::from(data.origin_wall.as_unix_nanos()) + i128::from(at_ns);
    jiff::Timestamp::from_nanosecond(nanos)
        .map_or_else(|_| "unknown".to_owned(), |time| time.to_string())
}

/// The relative error of Little's law in a closed loop: clients against throughput times mean time
/// from start to end. `None` where it does not apply: in an open loop, or where nothing finished.
#[must_use]
pub fn little_error_ratio(data: &RunData, window: Window) -> Option<f64> {
    if data.arrival != Arrival::Closed || data.clients == 0 || window.duration_ns() == 0 {
        return None;
    }
    // Each transaction's share of the window, so that those across its edges count exactly.
    let busy_ns: u128 = data
        .records()
        .map(|record| {
            let start = record.start_ns.max(window.start_ns);
            u128::from(record.end_ns.min(window.end_ns).saturating_sub(start))
        })
        .sum();
    let expected = f64::from(data.clients) * window.duration_ns() as f64;
    (busy_ns > 0).then(|| busy_ns as f64 / expected - 1.0)
}

/// Whether a summary has any sample.
#[must_use]
pub const fn is_empty(summary: &LatencySummary) -> bool {
    summary.count == 0
}
