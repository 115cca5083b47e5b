use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel::runtime::{Instant, Runtime, WallTime};

use super::fake::{Answer, Asked, FakeTarget, statement, workload};
use super::virtual_time::VirtualRuntime;
use super::*;
use crate::experiment::document::{Arrival, Run};
use crate::measure::histogram::LogHistogram;
use crate::measure::record::{Outcome, TransactionRecord};
use crate::measure::record_log::RecordLog;
use crate::measure::summary::little_error_ratio;
use crate::measure::{Window, summarise};
use crate::workload::script::{Command, SleepDuration};
use std::sync::Arc;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

struct Bench {
    runtime: VirtualRuntime,
    target: Arc<FakeTarget>,
    plan: Plan,
}

impl Bench {
    fn new(seconds: u64, behaviour: impl Fn(Asked) -> Answer + Send + Sync + 'static) -> Self {
        let runtime = VirtualRuntime::default();
        let target = Arc::new(FakeTarget::new(&runtime, behaviour));
        let length = Length::Duration(Duration::from_secs(seconds));
        let plan = Plan::new(workload(vec![statement()]), target.clone(), length);
        Self { runtime, target, plan }
    }

    fn constant(mut self, rate_per_s: f64, clients: u32) -> Self {
        self.plan.arrival = Arrival::Constant { rate_per_s };
        self.clients(clients)
    }

    fn clients(mut self, clients: u32) -> Self {
        self.plan.clients = clients;
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        change(&mut self.plan);
        self
    }

    fn run(&self) -> RunData {
        self.try_run().unwrap()
    }

    fn try_run(&self) -> Result<RunData, DriverError> {
        let runtime: Arc<dyn Runtime> = Arc::new(self.runtime.clone());
        run(self.plan.clone(), runtime, &Silent, &StopFlag::new())
    }
}

/// A run of one client and thread with these records.
pub(crate) fn data_of(records: &[TransactionRecord]) -> RunData {
    let mut log = RecordLog::new();
    for record in records {
        log.push(record);
    }
    RunData {
        origin: Instant::from_nanos(0),
        origin_wall: WallTime::from_unix_nanos(1_800_000_000 * SECOND as i64),
        measured_start_ns: 0,
        measured_end_ns: records.iter().map(|record| record.end_ns + 1).max().unwrap_or(0),
        logs: vec![log],
        arrival: Arrival::Closed,
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
    }
}

/// A transaction of client 0.
pub(crate) fn record(
    planned_ns: u64,
    start_ns: u64,
    end_ns: u64,
    outcome: Outcome,
) -> TransactionRecord {
    TransactionRecord {
        planned_ns,
        start_ns,
        end_ns,
        think_ns: 0,
        client: 0,
        retries: 0,
        script: 0,
        outcome,
    }
}

fn summary(data: &RunData) -> Run {
    summarise(data, Window::measured(data))
}

fn at(summary: &crate::experiment::document::LatencySummary, q: f64) -> u64 {
    summary.percentiles.iter().find(|one| (one.q - q).abs() < 1e-9).unwrap().value_ns
}

fn outcomes(data: &RunData) -> BTreeMap<Outcome, u64> {
    let mut counts = BTreeMap::new();
    for record in data.records() {
        *counts.entry(record.outcome).or_default() += 1;
    }
    counts
}

/// Answers after a millisecond, and not at all from `start_ns` to `end_ns`.
fn freezing(start_ns: u64, end_ns: u64) -> impl Fn(Asked) -> Answer + Send + Sync {
    move |asked| {
        let is_frozen = asked.now_ns + MS > start_ns && asked.now_ns < end_ns;
        Answer::After(if is_frozen { end_ns - asked.now_ns + MS } else { MS })
    }
}

#[test]
fn a_freeze_of_half_the_run_is_seen_at_every_percentile() {
    let data = Bench::new(30, freezing(10 * SECOND, 25 * SECOND)).constant(100.0, 50).run();
    let run = summary(&data);
    assert_eq!(run.counts.planned, 3000);
    assert_eq!(run.counts.committed, 3000);
    assert_eq!(run.counts.backlog_at_end, 0);
    // Half of the transactions wait, evenly between nothing and 15 s.
    for q in [0.55, 0.6, 0.75, 0.9, 0.99, 0.999] {
        let expected = (q - 0.5) / 0.5 * 15.0;
        let seen = at(&run.response, q) as f64 / 1e9;
        assert!((seen - expected).abs() < 0.06, "p{q}: {seen} s instead of {expected} s");
    }
    assert!(at(&run.response, 0.49) <= 2 * MS);
    assert!(at(&run.response, 0.99) >= 14 * SECOND);
    // Only what was under way shows it in its service time.
    assert_eq!(at(&run.service, 0.98), MS);
    let at_1_s = run.exceedance.iter().find(|row| row.threshold_ns == SECOND).unwrap();
    assert!(at_1_s.count.abs_diff(1400) <= 6, "{}", at_1_s.count);
    assert_eq!(at_1_s.episodes, 1);
    assert_eq!(run.episodes.len(), 1);
    let length = run.episodes[0].end_ns - run.episodes[0].start_ns;
    assert!(length.abs_diff(15 * SECOND - 100 * MS) < 100 * MS, "{length}");
    assert_eq!(run.driver_lag_p99_ns, Some(0));
}

#[test]
fn a_closed_loop_sees_the_same_freeze_once_per_client() {
    let data = Bench::new(30, freezing(10 * SECOND, 25 * SECOND)).clients(4).run();
    let run = summary(&data);
    let at_1_s = run.exceedance.iter().find(|row| row.threshold_ns == SECOND).unwrap();
    assert_eq!(at_1_s.count, 4);
    assert!(at(&run.response, 0.99) <= 2 * MS);
    assert_eq!(run.lag.max_ns, Some(0));
}

#[test]
fn response_is_lag_and_service_and_think_together() {
    let think = Command::Sleep { duration: SleepDuration::Constant(7), unit_ns: MS };
    let bench = Bench::new(5, |_| Answer::After(2 * MS)).constant(300.0, 2).change(|plan| {
        plan.workload = workload(vec![statement(), think, statement()]);
    });
    let data = bench.run();
    assert!(data.records().count() > 100);
    for record in data.records().filter(|record| record.outcome == Outcome::Committed) {
        let parts = record.lag_ns() + record.service_ns() + record.think_ns;
        assert_eq!(record.response_ns(), parts);
        assert_eq!(record.think_ns, 7 * MS);
        assert_eq!(record.service_ns(), 4 * MS);
    }
}

#[test]
fn any_free_client_takes_the_next_slot() {
    // One session never answers; the others take its share.
    let bench = Bench::new(10, |asked| match asked.session {
        0 => Answer::Never,
        _ => Answer::After(MS),
    });
    let run = summary(&bench.constant(100.0, 3).change(|plan| plan.threads = 3).run());
    assert_eq!(run.counts.planned, 1000);
    assert_eq!(run.counts.committed, 999);
    assert_eq!(run.counts.censored, 1);
    assert_eq!(run.lag.max_ns, Some(0));
}

#[test]
fn an_overloaded_run_shows_backlog_and_rising_response_times() {
    // Capacity is 100 a second.
    let data = Bench::new(10, |_| Answer::After(10 * MS))
        .constant(200.0, 1)
        .change(|plan| plan.grace = Duration::from_secs(2))
        .run();
    let run = summary(&data);
    assert_eq!(run.counts.planned, 2000);
    assert!(run.counts.backlog_at_end.abs_diff(1000) < 5, "{}", run.counts.backlog_at_end);
    assert!(run.counts.censored.abs_diff(800) < 5, "{}", run.counts.censored);
    assert!(run.throughput_per_s.unwrap() < 101.0);
    assert!(at(&run.response, 0.5) > 2 * SECOND);
    let p99 = run.response.percentiles.iter().find(|one| one.q > 0.985).unwrap();
    assert!(p99.is_lower_bound);
    assert_eq!(data.records().count(), 2000);
}

#[test]
fn a_hung_server_does_not_hold_the_run_beyond_the_grace_time() {
    let bench = Bench::new(5, |asked| match asked.number {
        0..10 => Answer::After(MS),
        _ => Answer::Never,
    });
    let bench = bench.constant(50.0, 2).change(|plan| plan.grace = Duration::from_secs(3));
    let data = bench.run();
    let run = summary(&data);
    assert_eq!((run.counts.committed, run.counts.censored), (10, 240));
    let last = data.records().map(|record| record.end_ns).max().unwrap();
    assert!(last <= 8 * SECOND + 500 * MS, "{last}");
    assert_eq!(run.counts.started, 12);
    assert_eq!(run.lag.count, 250);
    assert_eq!(run.service.count, 12);
}

#[test]
fn slots_that_are_too_late_are_skipped_under_a_latency_limit() {
    let data = Bench::new(10, freezing(2 * SECOND, 5 * SECOND))
        .constant(100.0, 1)
        .change(|plan| plan.latency_limit = Some(Duration::from_millis(100)))
        .run();
    let run = summary(&data);
    assert_eq!(run.counts.committed + run.counts.skipped, 1000);
    assert!(run.counts.skipped.abs_diff(289) <= 3, "{}", run.counts.skipped);
    // The one under way in the freeze, and those that started late and within the limit.
    assert_eq!(run.counts.late, 1);
}

#[test]
fn little_s_law_holds_in_a_closed_loop() {
    let data = Bench::new(20, |asked| Answer::After(MS + asked.number % 7 * MS)).clients(8).run();
    let run = summary(&data);
    let error = little_error_ratio(&data, Window::measured(&data)).unwrap();
    assert!(error.abs() < 0.001, "{error}");
    let clients = run.throughput_per_s.unwrap() * run.service.mean_ns.unwrap() / 1e9;
    assert!((clients / 8.0 - 1.0).abs() < 0.02, "{clients}");
}

#[test]
fn a_transaction_belongs_to_the_phase_of_its_planned_start() {
    let data = Bench::new(5, |_| Answer::After(300 * MS))
        .constant(10.0, 10)
        .change(|plan| plan.warm_up = Duration::from_secs(2))
        .run();
    assert_eq!(data.records().count(), 70);
    let run = summary(&data);
    assert_eq!(run.counts.planned, 50);
    assert_eq!(run.timeline.len(), 5);
    assert!(run.timeline.iter().all(|second| second.planned == 10));
    // Three under way from the warm-up end in the first second, though they were not planned in it.
    assert_eq!(run.timeline[0].finished, 10);
}

#[test]
fn a_retryable_failure_is_tried_again_up_to_the_limit() {
    let conflict = |asked: Asked| match asked.number % 3 {
        2 => Answer::After(MS),
        _ => Answer::Fails(MS, "40001"),
    };
    let once = Bench::new(1, conflict).run();
    let outcomes = outcomes(&once);
    assert_eq!(
        outcomes[&Outcome::SerializationFailure]
            .div_ceil(2)
            .abs_diff(outcomes[&Outcome::Committed])
            / 2,
        0
    );
    assert!(once.aborts.is_empty());
    let often = Bench::new(1, conflict).change(|plan| plan.max_tries = 10).run();
    let run = summary(&often);
    assert_eq!(run.counts.serialization_failures, 0);
    assert_eq!(run.counts.retries, run.counts.retried * 2);
    assert_eq!(run.counts.committed, run.counts.retried);
    assert_eq!(at(&run.response, 0.5), 3 * MS);
    assert_eq!(run.errors["40001"], run.counts.retries);
}

#[test]
fn a_failure_that_never_ends_stops_at_the_limit() {
    let bench = Bench::new(1, |_| Answer::Fails(MS, "40P01")).change(|plan| plan.max_tries = 5);
    let data = bench.run();
    let run = summary(&data);
    assert_eq!(run.counts.committed, 0);
    assert_eq!(run.counts.deadlocks, 200);
    assert_eq!(run.counts.retries, 800);
    let transactions = data.records().count() as u64;
    assert_eq!(bench.target.requests.load(Ordering::SeqCst), transactions * 5);
}

#[test]
fn another_error_ends_its_client_and_is_counted_by_sqlstate() {
    let bench = || {
        Bench::new(2, |asked| match asked.number {
            5 => Answer::Fails(MS, "23505"),
            _ => Answer::After(MS),
        })
        .clients(2)
    };
    let data = bench().run();
    let run = summary(&data);
    assert_eq!(run.counts.aborted_clients, 1);
    assert_eq!(run.counts.other_errors, 1);
    assert_eq!(run.errors["23505"], 1);
    assert!(data.aborts[0].reason.contains("line 1"), "{}", data.aborts[0].reason);
    assert_eq!(run.incomplete, None);
    let data = bench().change(|plan| plan.continue_on_error = true).run();
    assert!(data.aborts.is_empty());
    assert_eq!(summary(&data).counts.other_errors, 1);
    let data = bench().change(|plan| plan.exit_on_abort = true).run();
    assert_eq!(data.incomplete.as_deref(), Some("a client gave up"));
}

#[test]
fn lost_connections_end_their_clients_and_the_rest_goes_on() {
    let bench = Bench::new(4, |asked| match asked.session % 2 {
        0 if asked.now_ns > SECOND => Answer::Breaks(MS),
        _ => Answer::After(MS),
    });
    let data = bench.constant(100.0, 4).run();
    let run = summary(&data);
    assert_eq!((run.counts.aborted_clients, run.counts.aborted), (2, 2));
    assert_eq!(run.counts.committed, 398);
}

#[test]
fn when_all_clients_are_gone_the_run_ends_and_its_slots_are_not_forgotten() {
    let bench = Bench::new(60, |asked| match asked.now_ns > SECOND {
        true => Answer::Breaks(MS),
        false => Answer::After(MS),
    });
    let data = bench.constant(100.0, 2).run();
    let run = summary(&data);
    assert_eq!(data.incomplete.as_deref(), Some("all clients gave up"));
    assert!(run.duration_ns < 2 * SECOND);
    assert_eq!(run.counts.aborted_clients, 2);
    assert_eq!(run.counts.planned, data.records().count() as u64);
}

#[test]
fn too_few_connections_are_a_clear_error() {
    let runtime = VirtualRuntime::default();
    let target = Arc::new(FakeTarget::new(&runtime, |_| Answer::After(MS)).with_sessions_max(3));
    let length = Length::TransactionsPerClient(1);
    let mut plan = Plan::new(workload(vec![statement()]), target, length);
    plan.clients = 200;
    plan.threads = 2;
    let error = run(plan, Arc::new(runtime), &Silent, &StopFlag::new()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("of 200 could not connect"), "{text}");
    assert!(text.contains("too many clients"), "{text}");
}

#[test]
fn a_run_that_was_stopped_keeps_what_it_measured() {
    struct StopAtFive(StopFlag);
    impl Observer for StopAtFive {
        fn progress(&self, report: &ProgressReport) {
            if report.elapsed_ns >= 5 * SECOND {
                self.0.stop();
            }
        }
    }
    let stop = StopFlag::new();
    let bench = Bench::new(600, |_| Answer::After(MS)).constant(100.0, 2).change(|plan| {
        plan.progress_interval = Some(Duration::from_secs(1));
    });
    let observer = StopAtFive(stop.clone());
    let data = run(bench.plan.clone(), Arc::new(bench.runtime.clone()), &observer, &stop).unwrap();
    assert!(data.was_interrupted);
    let run = summary(&data);
    assert_eq!(run.incomplete.as_deref(), Some("interrupted"));
    assert!(run.counts.committed.abs_diff(500) <= 2, "{}", run.counts.committed);
    assert!(run.duration_ns.abs_diff(5 * SECOND) < 10 * MS);
}

#[test]
fn a_flag_that_is_set_before_the_run_ends_it_before_the_first_transaction() {
    let bench = Bench::new(600, |_| Answer::Never).clients(2);
    let stop = StopFlag::new();
    stop.stop();
    let data = run(bench.plan.clone(), Arc::new(bench.runtime.clone()), &Silent, &stop).unwrap();
    assert!(data.was_interrupted);
}

#[test]
fn an_empty_run_is_nulls_and_never_a_number() {
    let data = Bench::new(1, |_| Answer::Never).change(|plan| plan.grace = Duration::ZERO).run();
    let json = serde_json::to_value(summary(&data)).unwrap();
    assert_eq!(json["counts"]["committed"], 0);
    assert!(json["driver_cpu_ns_per_transaction"].is_null());
    assert!(json["driver_lag_p99_ns"].is_null());
    assert_eq!(json["counts"]["censored"], 1);
}

#[test]
fn counted_transactions_are_run_exactly_and_the_run_ends_with_the_last() {
    let bench = Bench::new(1, |_| Answer::After(MS)).clients(3);
    let bench = bench.change(|plan| plan.length = Length::TransactionsPerClient(7));
    let run = summary(&bench.run());
    assert_eq!((run.counts.planned, run.counts.committed), (21, 21));
    let open = Bench::new(1, |_| Answer::After(MS)).constant(50.0, 3);
    let open = open.change(|plan| plan.length = Length::TransactionsPerClient(7));
    assert_eq!(summary(&open.run()).counts.committed, 21);
}

#[test]
fn reconnecting_opens_a_session_for_each_transaction() {
    let bench = Bench::new(1, |_| Answer::After(10 * MS)).change(|plan| plan.reconnect = true);
    let data = bench.run();
    let committed = outcomes(&data)[&Outcome::Committed];
    assert_eq!(bench.target.sessions.load(Ordering::SeqCst), committed);
}

#[test]
fn a_rate_of_100001_is_met_within_a_tenth_of_a_percent() {
    let run = summary(&Bench::new(2, |_| Answer::After(1)).constant(100_001.0, 4).run());
    assert!((run.throughput_per_s.unwrap() / 100_001.0 - 1.0).abs() < 0.001);
}

#[test]
fn a_script_without_statements_lets_the_run_end() {
    let bench = Bench::new(1, |_| Answer::Never).clients(2).change(|plan| {
        plan.workload = workload(vec![Command::Jump { target: 1 }]);
        plan.length = Length::TransactionsPerClient(50);
    });
    assert_eq!(summary(&bench.run()).counts.committed, 100);
}

#[test]
fn a_transaction_longer_than_any_cap_is_reported_as_such() {
    let bench = Bench::new(1, |_| Answer::After(300 * SECOND)).change(|plan| {
        plan.grace = Duration::from_secs(1000);
    });
    let run = summary(&bench.run());
    assert_eq!(run.response.max_ns, Some(300 * SECOND));
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let refused = |change: fn(&mut Plan)| {
        let error = Bench::new(1, |_| Answer::Never).change(change).try_run().unwrap_err();
        assert!(matches!(error, DriverError::Plan(_)), "{error}");
    };
    refused(|plan| plan.clients = 0);
    refused(|plan| plan.threads = 0);
    refused(|plan| plan.length = Length::Duration(Duration::ZERO));
    refused(|plan| plan.length = Length::TransactionsPerClient(0));
    refused(|plan| plan.arrival = Arrival::Poisson { rate_per_s: f64::NAN });
    refused(|plan| plan.arrival = Arrival::Poisson { rate_per_s: 1e12 });
    refused(|plan| plan.workload = Arc::default());
    refused(|plan| {
        plan.max_tries = 0;
        plan.length = Length::TransactionsPerClient(1);
    });
}

#[test]
fn think_time_is_no_stall() {
    let pause = Command::Sleep { duration: SleepDuration::Constant(2), unit_ns: SECOND };
    let bench = Bench::new(20, |_| Answer::After(MS)).clients(3).change(|plan| {
        plan.workload = workload(vec![statement(), pause]);
    });
    let data = bench.run();
    assert!(summary(&data).episodes.is_empty());
    let longest: Option<TransactionRecord> = data.records().max_by_key(|one| one.response_ns());
    assert_eq!(longest.unwrap().service_ns(), MS);
}
