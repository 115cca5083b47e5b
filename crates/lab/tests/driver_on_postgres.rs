//! The driver against real servers, where PostgreSQL's binaries are on this machine.
#![allow(missing_docs, reason = "a test is no interface")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_lab::distribution::DistributionSpec;
use evenkeel_lab::driver::{self, Length, Observer, Plan, ProgressReport, RunData, StopFlag};
use evenkeel_lab::experiment::document::{Arrival, Run};
use evenkeel_lab::measure::{Window, summarise};
use evenkeel_lab::target::QueryMode;
use evenkeel_lab::target::postgres::binaries::{Binaries, Places, Wanted};
use evenkeel_lab::target::postgres::server::{ManagedServer, ServerOptions};
use evenkeel_lab::target::postgres::session::PostgresTarget;
use evenkeel_lab::workload::script::Value;
use evenkeel_lab::workload::{Builtin, Compiler};

/// The few rows that built-in scripts need, in pgbench's tables.
const TABLES: &str = "\
    CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88)); \
    CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84)); \
    CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84)); \
    CREATE TABLE pgbench_history \
        (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)); \
    INSERT INTO pgbench_branches SELECT b, 0 FROM generate_series(1, 1) b; \
    INSERT INTO pgbench_tellers SELECT t, 1, 0 FROM generate_series(1, 10) t; \
    INSERT INTO pgbench_accounts SELECT a, 1, 0, '' FROM generate_series(1, 100000) a";

struct Fixture {
    server: ManagedServer,
    runtime: Arc<dyn Runtime>,
    /// Outlives the server, which it holds.
    _parent: tempfile::TempDir,
}

/// A server with pgbench's tables; none where there are no binaries.
fn fixture() -> Option<Fixture> {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let binaries = Binaries::find(&Wanted::Newest, &Places::of_this_machine()).unwrap()?;
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = ServerOptions::new(binaries, "driver", Arc::new(AtomicBool::new(false)));
    options.parent = Some(parent.path().to_owned());
    let settings = [("shared_buffers", "32MB"), ("fsync", "off"), ("max_connections", "40")];
    for (name, value) in settings {
        options.settings.insert(name.to_owned(), value.to_owned());
    }
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    server.connect().unwrap().execute(TABLES).unwrap();
    Some(Fixture { server, runtime, _parent: parent })
}

impl Fixture {
    fn plan(&self, script: &str, length: Length) -> Plan {
        let mut compiler = Compiler::new();
        compiler.define("scale", Value::Int(1)).unwrap();
        compiler.add("script", 1, script).unwrap();
        let target = Arc::new(PostgresTarget::new(self.server.address()));
        let mut plan = Plan::new(Arc::new(compiler.finish().unwrap()), target, length);
        plan.query_mode = QueryMode::Prepared;
        plan
    }

    fn run(&self, plan: &Plan) -> (RunData, Run) {
        let silent = driver::Silent;
        let data = driver::run(plan.clone(), Arc::clone(&self.runtime), &silent, &StopFlag::new())
            .unwrap();
        let run = summarise(&data, Window::measured(&data));
        (data, run)
    }

    fn value(&self, sql: &str) -> String {
        self.server.connect().unwrap().value(sql).unwrap().unwrap_or_default()
    }
}

const ALL_SUMS: &str = "\
    SELECT concat_ws(' ', (SELECT sum(abalance) FROM pgbench_accounts), \
        (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches), \
        (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history))";

#[test]
fn tpcb_like_conserves_all_sums_and_counts_what_the_server_counts() {
    let Some(fixture) = fixture() else { return };
    let text = Builtin::TpcbLike.text(DistributionSpec::Uniform);
    let mut total = 0;
    for mode in [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared] {
        let mut plan = fixture.plan(&text, Length::TransactionsPerClient(25));
        (plan.clients, plan.threads, plan.query_mode, plan.seed) = (6, 2, mode, 5);
        let (data, run) = fixture.run(&plan);
        assert!(data.aborts.is_empty(), "{:?}", data.aborts);
        assert_eq!(run.counts.committed, 150);
        total += run.counts.committed;
        assert!(run.key_audits.iter().all(|audit| audit.is_passed));
        // The same seed draws the same keys, so the sums of the three runs are equal.
    }
    let sums = fixture.value(ALL_SUMS);
    let sums: Vec<i64> = sums.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!(sums[0] == sums[1] && sums[1] == sums[2] && sums[2] == sums[3], "{sums:?}");
    assert_eq!(sums[4], total as i64);
    assert_eq!(sums[0] % 3, 0, "the same seed gives the same draws in each mode: {sums:?}");
}

#[test]
fn a_serializable_hot_row_fails_once_and_commits_with_retries() {
    let Some(fixture) = fixture() else { return };
    let script = "BEGIN ISOLATION LEVEL SERIALIZABLE;\n\
        UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n\
        END;\n";
    let mut plan = fixture.plan(script, Length::TransactionsPerClient(50));
    (plan.clients, plan.threads) = (8, 2);
    let (_, once) = fixture.run(&plan);
    assert_eq!(once.counts.committed + once.counts.serialization_failures, 400);
    assert_eq!(once.counts.retries, 0);
    assert_eq!(once.counts.aborted_clients, 0);
    plan.max_tries = 1000;
    let (_, often) = fixture.run(&plan);
    assert_eq!(often.counts.committed, 400);
    assert_eq!(often.errors.get("40001").copied().unwrap_or(0), often.counts.retries);
    let expected = once.counts.committed + often.counts.committed;
    let seen = fixture.value("SELECT bbalance FROM pgbench_branches");
    assert_eq!(seen, expected.to_string());
}

#[test]
fn statements_given_up_at_the_end_do_not_work_on_for_the_next_run() {
    let Some(fixture) = fixture() else { return };
    let length = Length::Duration(Duration::from_millis(200));
    let mut plan = fixture.plan("SELECT pg_sleep(1000);\n", length);
    (plan.clients, plan.threads, plan.grace) = (4, 2, Duration::from_millis(100));
    let (_, run) = fixture.run(&plan);
    assert_eq!(run.counts.censored, 4);
    // The server was told before the run returned; its processes hear of it in a moment.
    let working = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(1000)%'";
    let is_over = (0..100).any(|_| {
        fixture.value("SELECT pg_sleep(0.05)");
        fixture.value(working) == "0"
    });
    assert!(is_over, "{} still work", fixture.value(working));
}

#[test]
fn gset_and_conditions_steer_a_transaction() {
    let Some(fixture) = fixture() else { return };
    let script = "SELECT 41 AS x \\gset\n\
        \\set y :x + 1\n\
        \\if :y = 42\n\
        UPDATE pgbench_branches SET bbalance = :y;\n\
        \\else\n\
        SELECT 1/0;\n\
        \\endif\n";
    for mode in [QueryMode::Simple, QueryMode::Prepared] {
        let mut plan = fixture.plan(script, Length::TransactionsPerClient(3));
        plan.query_mode = mode;
        let (data, run) = fixture.run(&plan);
        assert!(data.aborts.is_empty(), "{:?}", data.aborts);
        assert_eq!(run.counts.committed, 3);
    }
    assert_eq!(fixture.value("SELECT bbalance FROM pgbench_branches"), "42");
}

#[test]
fn a_pipeline_runs_all_its_statements() {
    let Some(fixture) = fixture() else { return };
    let script = "\\startpipeline\n\
        UPDATE pgbench_branches SET bbalance = bbalance + 1;\n\
        \\syncpipeline\n\
        UPDATE pgbench_branches SET bbalance = bbalance + 1;\n\
        \\endpipeline\n";
    let (data, run) = fixture.run(&fixture.plan(script, Length::TransactionsPerClient(20)));
    assert!(data.aborts.is_empty(), "{:?}", data.aborts);
    assert_eq!(run.counts.committed, 20);
    assert_eq!(fixture.value("SELECT bbalance FROM pgbench_branches"), "40");
}

#[test]
fn a_block_left_open_ends_its_client_with_the_reason() {
    let Some(fixture) = fixture() else { return };
    let (data, run) =
        fixture.run(&fixture.plan("BEGIN;\nSELECT 1;\n", Length::TransactionsPerClient(5)));
    assert_eq!(run.counts.aborted_clients, 1);
    assert!(data.aborts[0].reason.contains("without completing"), "{}", data.aborts[0].reason);
}

#[test]
fn more_clients_than_connections_are_an_error_that_says_so() {
    let Some(fixture) = fixture() else { return };
    let mut plan = fixture.plan("SELECT 1;", Length::TransactionsPerClient(1));
    (plan.clients, plan.threads) = (300, 2);
    let runtime = Arc::clone(&fixture.runtime);
    let error = driver::run(plan, runtime, &driver::Silent, &StopFlag::new()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("of 300") && text.contains("53300"), "{text}");
    assert!(text.contains("raise max_connections"), "{text}");
}

/// Does something to the server once, when the run has come so far.
struct At<F: FnOnce(&mut ManagedServer)> {
    after: Duration,
    act: Mutex<Option<(F, ManagedServer)>>,
    done: Mutex<Option<ManagedServer>>,
}

impl<F: FnOnce(&mut ManagedServer)> Observer for At<F> {
    fn progress(&self, report: &ProgressReport) {
        if Duration::from_nanos(report.elapsed_ns) < self.after {
            return;
        }
        if let Some((act, mut server)) = self.act.lock().unwrap().take() {
            act(&mut server);
            *self.done.lock().unwrap() = Some(server);
        }
    }
}

/// Runs 100 look-ups a second for two seconds and does `act` to the server on the way.
fn disturbed(
    fixture: Fixture,
    act: impl FnOnce(&mut ManagedServer),
) -> (RunData, Run, ManagedServer) {
    let script = Builtin::SelectOnly.text(DistributionSpec::Uniform);
    let mut plan = fixture.plan(&script, Length::Duration(Duration::from_secs(2)));
    (plan.clients, plan.threads) = (4, 2);
    plan.arrival = Arrival::Constant { rate_per_s: 100.0 };
    plan.grace = Duration::from_secs(1);
    plan.progress_interval = Some(Duration::from_millis(100));
    let observer = At {
        after: Duration::from_millis(900),
        act: Mutex::new(Some((act, fixture.server))),
        done: Mutex::new(None),
    };
    let runtime = Arc::clone(&fixture.runtime);
    let data = driver::run(plan, runtime, &observer, &StopFlag::new()).unwrap();
    let run = summarise(&data, Window::measured(&data));
    let server = observer.done.into_inner().unwrap().unwrap();
    (data, run, server)
}

#[test]
fn a_frozen_server_does_not_hold_the_run_and_nothing_planned_is_forgotten() {
    let Some(fixture) = fixture() else { return };
    let (data, run, mut server) = disturbed(fixture, |server| server.freeze().unwrap());
    server.thaw().unwrap();
    assert_eq!(run.counts.planned, 200);
    assert_eq!(run.counts.committed + run.counts.censored, 200);
    assert!(run.counts.censored >= 90, "{:?}", run.counts);
    assert!(run.response.percentiles.last().unwrap().is_lower_bound);
    let last_ns = data.records().map(|record| record.end_ns).max().unwrap();
    assert!(last_ns >= 3_000_000_000, "{last_ns}");
}

#[test]
fn a_server_that_dies_ends_its_clients_and_the_run() {
    let Some(fixture) = fixture() else { return };
    let (data, run, _server) = disturbed(fixture, |server| {
        let process = server.process_id().unwrap().to_string();
        let status = std::process::Command::new("kill").args(["-QUIT", &process]).status();
        assert!(status.unwrap().success());
    });
    assert_eq!(run.counts.aborted_clients, 4, "{:?}", data.aborts);
    assert_eq!(data.incomplete.as_deref(), Some("all clients gave up"));
    assert!(run.counts.committed > 0);
    let by_outcome: BTreeMap<_, u64> =
        data.records().fold(BTreeMap::new(), |mut counts, record| {
            *counts.entry(record.outcome).or_default() += 1;
            counts
        });
    assert_eq!(by_outcome.values().sum::<u64>(), run.counts.planned);
}

#[test]
fn a_transaction_costs_one_write_and_one_read_and_waits_are_shared_by_clients() {
    let Some(fixture) = fixture() else { return };
    let select_only = Builtin::SelectOnly.text(DistributionSpec::Uniform);
    for (mode, script, statements) in [
        (QueryMode::Prepared, select_only.as_str(), 1),
        (QueryMode::Simple, &select_only, 1),
        (QueryMode::Extended, "SELECT 1;\nSELECT 2;\n", 2),
        (QueryMode::Prepared, "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n", 1),
    ] {
        for clients in [1, 32] {
            let mut plan = fixture.plan(script, Length::TransactionsPerClient(400));
            (plan.clients, plan.query_mode) = (clients, mode);
            let (data, run) = fixture.run(&plan);
            let answers = run.counts.committed * statements;
            assert_eq!(run.counts.committed, 400 * u64::from(clients));
            let calls = data.calls;
            let case = format!("{mode:?}, {clients} clients, {answers} answers: {calls:?}");
            assert_eq!(calls.sends, answers, "{case}");
            assert_eq!(calls.receives, answers, "an answer this small comes whole: {case}");
            assert_eq!((calls.changes, calls.connections), (0, 0), "{case}");
            // Beside answers a wait may end by the conductor, which looks in a few times a second.
            assert!(calls.waits <= answers + 50, "{case}");
        }
    }
}

#[test]
fn reconnecting_counts_its_connections_and_their_calls() {
    let Some(fixture) = fixture() else { return };
    let mut plan = fixture.plan("SELECT 1;\n", Length::TransactionsPerClient(10));
    (plan.clients, plan.reconnect) = (2, true);
    let (data, run) = fixture.run(&plan);
    assert_eq!(run.counts.committed, 20);
    // Each client's first session stood before the run.
    assert_eq!(data.calls.connections, 18);
    assert!(data.calls.connections_ns > 0);
    assert_eq!(data.calls.sends, 20);
}
