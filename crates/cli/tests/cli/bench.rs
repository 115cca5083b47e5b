//! `bench` on a real server: how it ends, what it prints, and that it takes pgbench's options.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_lab::experiment::store;
use evenkeel_lab::target::postgres::binaries::{Binaries, Places, Wanted};
use evenkeel_lab::target::postgres::server::{DATABASE, ManagedServer, SUPERUSER, ServerOptions};

/// The rows that built-in scripts of scale 1 need.
const TABLES: &str = "\
    CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88)); \
    CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84)); \
    CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84)); \
    CREATE TABLE pgbench_history \
        (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)); \
    INSERT INTO pgbench_branches VALUES (1, 0); \
    INSERT INTO pgbench_tellers SELECT t, 1, 0 FROM generate_series(1, 10) t; \
    INSERT INTO pgbench_accounts SELECT a, 1, 0, '' FROM generate_series(1, 100000) a";

pub(crate) struct Fixture {
    server: Option<ManagedServer>,
    pub(crate) pgbench: PathBuf,
    directory: String,
    port: String,
    /// Where commands run; outlives the server, which it holds.
    pub(crate) scratch: tempfile::TempDir,
}

/// A server with pgbench's tables and 70 connections; none where there are no binaries.
pub(crate) fn fixture(name: &str) -> Option<Fixture> {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let binaries = Binaries::find(&Wanted::Newest, &Places::of_this_machine()).unwrap()?;
    let pgbench = binaries.program("pgbench");
    let scratch = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = ServerOptions::new(binaries, name, Arc::new(AtomicBool::new(false)));
    options.parent = Some(scratch.path().to_owned());
    for (name, value) in [("shared_buffers", "32MB"), ("fsync", "off"), ("max_connections", "70")] {
        options.settings.insert(name.to_owned(), value.to_owned());
    }
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    server.connect().unwrap().execute(TABLES).unwrap();
    let address = server.address();
    let directory = address.hosts().first().cloned().unwrap();
    let port = address.port().to_string();
    Some(Fixture { server: Some(server), pgbench, directory, port, scratch })
}

impl Fixture {
    /// A script file; its path relative to where commands run.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        std::fs::write(self.scratch.path().join(name), text).unwrap();
        name.to_owned()
    }

    /// `program` with the server in its environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.scratch.path())
            .env("PGHOST", &self.directory)
            .env("PGPORT", &self.port)
            .env("PGUSER", SUPERUSER)
            .env("PGDATABASE", DATABASE)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_evenkeel")));
        command.arg("bench").args(arguments);
        command
    }

    /// Runs `bench` to its end: exit code, results and remarks.
    fn ends(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.bench(arguments).output().unwrap();
        (status.code(), super::text(&stdout), super::text(&stderr))
    }

    fn logs(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.scratch.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("pgbench_log"))
            .collect()
    }
}

/// Starts a run without an end that reports progress, and waits until it has.
fn under_way(fixture: &Fixture, arguments: &[&str]) -> (Child, impl BufRead + use<>) {
    let mut child =
        fixture.bench(arguments).args(["-n", "-T", "600", "-P", "0.2"]).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    for _ in 0..2 {
        line.clear();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("progress: "), "{line}");
    }
    (child, said)
}

#[test]
fn a_server_that_freezes_makes_the_run_invalid_and_is_named() {
    let Some(mut fixture) = fixture("benchfrozen") else { return };
    let arguments = ["-n", "-T", "2", "--grace", "0.2", "-P", "0.2", "-b", "select-only"];
    let mut child = fixture.bench(&arguments).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("progress: "), "{line}");
    let server = fixture.server.as_mut().unwrap();
    server.freeze().unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    server.thaw().unwrap();
    let results = super::text(&stdout);
    assert_eq!(status.code(), Some(2), "{results}");
    assert!(results.contains("INCOMPLETE: the server stopped answering at"), "{results}");
    assert!(results.contains("its processes are stopped"), "{results}");
}

#[test]
fn a_run_ends_with_the_code_that_says_how_it_went() {
    let Some(fixture) = fixture("benchcodes") else { return };
    let good = fixture.script("good.sql", "SELECT 1;\n");
    let slow = fixture.script("slow.sql", "SELECT pg_sleep(0.05);\n");
    let torn = fixture.script("torn.sql", "SELECT 1;\n\\set x 1 +\n");
    let wrong = fixture.script("wrong.sql", "SELECT 1;\nSELECT no_such_column;\n");
    let hot = fixture.script(
        "hot.sql",
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\n\
         UPDATE pgbench_branches SET bbalance = bbalance + 1;\nEND;\n",
    );
    let hostile = fixture.script("red\u{1b}[31m.sql", "SELECT 1;\n");
    // Arguments, exit code, what is among the results, what is among the remarks.
    let cases: &[(&[&str], i32, &[&str], &str)] = &[
        (
            &["-n", "-f", &good, "-c", "2", "-t", "5"],
            0,
            &[
                "transaction type: good.sql\n",
                "number of transactions actually processed: 10/10\n",
                "number of failed transactions: 0 (0.000%)\n",
                "latency average = ",
                "initial connection time = ",
                "tps = ",
                "server: PostgreSQL ",
                "shared_buffers 32MB",
                "machine: ",
                "script: sha256 ",
            ],
            "",
        ),
        (&["-n", "-f", &good, "-T", "1"], 0, &["duration: 1 s\n", "tps = "], ""),
        (&["-n", "-f", &hostile, "-t", "1"], 0, &["transaction type: red\\x1b[31m.sql\n"], ""),
        (
            &["-n", "-f", &slow, "-R", "200", "-L", "1", "-T", "1"],
            0,
            &["number of transactions skipped: ", " above the 1.0 ms latency limit: "],
            "",
        ),
        (
            &["-n", "-f", &hot, "-c", "8", "-t", "20", "--max-tries", "1000"],
            0,
            &[
                "actually processed: 160/160\n",
                "number of transactions retried: ",
                "total number of retries: ",
                "maximum number of tries: 1000\n",
            ],
            "",
        ),
        (&["-n", "-f", &torn], 1, &[], "torn.sql"),
        (&["-n", "-f", "missing.sql"], 1, &[], "missing.sql"),
        (&["-n", "-f", &good, "-d", "no_such_database"], 1, &[], "no_such_database"),
        (&["-n", "-f", &good, "-c", "80"], 1, &[], "too many clients"),
        (&["-n", "-f", &good, "-t", "5", "-T", "1"], 1, &[], "cannot be used with"),
        (
            &["-n", "-f", &wrong, "-c", "2", "-t", "5"],
            2,
            &["INVALID: 2 of 2 clients gave up", "errors with SQLSTATE 42703: 2"],
            "client 1 aborted: wrong.sql, line 2: ",
        ),
    ];
    for (arguments, code, results, remark) in cases {
        let (ended, stdout, stderr) = fixture.ends(arguments);
        assert_eq!(ended, Some(*code), "{arguments:?}: {stdout}{stderr}");
        for result in *results {
            assert!(stdout.contains(result), "{arguments:?}: no '{result}' in:\n{stdout}");
        }
        assert!(stderr.contains(remark), "{arguments:?}: no '{remark}' in:\n{stderr}");
        assert!(!stdout.contains("NaN") && !stdout.contains('\u{1b}'), "{arguments:?}: {stdout}");
        assert!(stdout.lines().all(|line| line.chars().count() <= 100), "{stdout}");
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_marks_it_incomplete() {
    let Some(fixture) = fixture("benchstop") else { return };
    let script = fixture.script("one.sql", "SELECT 1;\n");
    let (child, said) = under_way(&fixture, &["-f", &script, "-l", "--out", "kept"]);
    super::signal(child.id().cast_signed(), rustix::process::Signal::INT);
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    drop(said);
    let stdout = super::text(&stdout);
    assert_eq!(status.code(), Some(130), "{stdout}");
    assert!(stdout.contains("tps = ") && stdout.contains("INCOMPLETE: interrupted"), "{stdout}");
    let kept = fixture.scratch.path().join("kept");
    let document = store::read_session(&kept).unwrap().document;
    assert!(document.incomplete.is_some());
    assert!(document.runs[0].counts.committed > 0);
    assert!(document.machine.kernel.is_some());
    assert_eq!(document.arms[0].captured_settings["shared_buffers"], "4096 x 8kB");
    assert_eq!(document.protocol.scripts[0].sha256.len(), 64);
    let log = std::fs::read_dir(&kept)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("pgbench_log"))
        .unwrap();
    assert!(log.to_string_lossy().ends_with(".incomplete"), "{log:?}");
    assert!(std::fs::read_to_string(&log).unwrap().lines().count() > 10);
}

#[test]
fn a_log_that_was_cut_off_by_a_kill_holds_whole_seconds_and_is_marked() {
    let Some(fixture) = fixture("benchkill") else { return };
    let script = fixture.script("one.sql", "SELECT 1;\n");
    let (mut child, mut said) = under_way(&fixture, &["-f", &script, "-l"]);
    // Nine further reports are more than a second.
    let mut line = String::new();
    for _ in 0..9 {
        said.read_line(&mut line).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let logs = fixture.logs();
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(logs[0].to_string_lossy().ends_with(".incomplete"));
    let text = std::fs::read_to_string(&logs[0]).unwrap();
    let first = text.lines().next().unwrap();
    assert_eq!(first.split(' ').count(), 6, "{first}");
}

#[test]
fn a_server_that_goes_away_mid_run_makes_the_run_invalid() {
    let Some(mut fixture) = fixture("benchgone") else { return };
    let script = fixture.script("one.sql", "SELECT 1;\n");
    let (child, said) = under_way(&fixture, &["-f", &script, "-c", "4", "-j", "2"]);
    fixture.server.take().unwrap().remove().unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    let stdout = super::text(&stdout);
    assert_eq!(status.code(), Some(2), "{stdout}");
    assert!(stdout.contains("INVALID: 4 of 4 clients gave up"), "{stdout}");
    assert!(stdout.contains("INCOMPLETE: all clients gave up"), "{stdout}");
    let reasons: Vec<String> = said.lines().map_while(Result::ok).collect();
    let aborted = reasons.iter().filter(|line| line.contains(" aborted: "));
    assert_eq!(aborted.count(), 4, "{reasons:?}");
}

/// What is given for an option of pgbench, and what comes of it.
enum Expected {
    /// It works; this is among the results.
    Works(&'static [&'static str], &'static str),
    /// It is refused with this reason.
    Refused(&'static [&'static str], &'static str),
}

/// Every option of `pgbench --help` that concerns a run, by its long name.
const OPTIONS: &[(&str, Expected)] = {
    use Expected::{Refused, Works};
    &[
        ("builtin", Works(&["-b", "select-only@2"], "<builtin: select only>")),
        ("file", Works(&["-f", "own.sql@3"], "transaction type: own.sql")),
        ("skip-some-updates", Works(&["-N"], "<builtin: simple update>")),
        ("select-only", Works(&["-S"], "<builtin: select only>")),
        ("client", Works(&["-S", "-c", "3"], "number of clients: 3")),
        ("connect", Works(&["-S", "-C"], "(including reconnection times)")),
        ("define", Works(&["-f", "own.sql", "-D", "x=7"], "processed: 10/10")),
        ("jobs", Works(&["-S", "-c", "2", "-j", "2"], "number of threads: 2")),
        ("log", Works(&["-S", "-l"], "processed: 10/10")),
        ("latency-limit", Works(&["-S", "-L", "5"], "above the 5.0 ms latency limit")),
        ("protocol", Works(&["-S", "-M", "prepared"], "query mode: prepared")),
        ("no-vacuum", Works(&["-S", "-n"], "processed: 10/10")),
        ("progress", Works(&["-S", "-P", "1"], "processed: 10/10")),
        ("report-per-command", Works(&["-S", "-r"], "SELECT abalance FROM pgbench_accounts")),
        ("rate", Works(&["-S", "-R", "500"], "rate limit schedule lag: avg ")),
        ("scale", Works(&["-f", "own.sql", "-s", "1"], "scaling factor: 1")),
        ("transactions", Works(&["-S", "-t", "4"], "processed: 4/4")),
        ("time", Works(&["-S", "-T", "1"], "duration: 1 s")),
        ("vacuum-all", Works(&["-S", "-v"], "processed: 10/10")),
        ("aggregate-interval", Works(&["-S", "-l", "--aggregate-interval", "1"], "10/10")),
        ("failures-detailed", Works(&["-S", "--failures-detailed"], "of deadlock failures: 0")),
        ("log-prefix", Works(&["-S", "-l", "--log-prefix", "mine"], "processed: 10/10")),
        ("max-tries", Works(&["-S", "--max-tries", "3"], "maximum number of tries: 3")),
        ("progress-timestamp", Works(&["-S", "-P", "1", "--progress-timestamp"], "10/10")),
        ("random-seed", Works(&["-S", "--random-seed", "42"], "seed: 42")),
        ("sampling-rate", Works(&["-S", "-l", "--sampling-rate", "0.5"], "processed: 10/10")),
        ("show-script", Works(&["--show-script", "tpcb-like"], "INSERT INTO pgbench_history")),
        ("verbose-errors", Works(&["-S", "--verbose-errors"], "processed: 10/10")),
        ("debug", Refused(&["-S", "--debug"], "inside of what is measured")),
        // Since version 17.
        ("exit-on-abort", Works(&["-S", "--exit-on-abort"], "processed: 10/10")),
        // Since version 19.
        ("continue-on-error", Works(&["-S", "--continue-on-error"], "processed: 10/10")),
    ]
};

#[test]
fn every_option_of_pgbench_s_help_works_or_is_refused_with_a_reason() {
    let Some(fixture) = fixture("benchoptions") else { return };
    fixture.script("own.sql", "\\set y :x + :scale\nSELECT :y;\n");
    for (name, expected) in OPTIONS {
        match expected {
            Expected::Works(arguments, result) => {
                let arguments = [&["-D", "x=1"], *arguments].concat();
                let (code, stdout, stderr) = fixture.ends(&arguments);
                assert_eq!(code, Some(0), "--{name}: {stdout}{stderr}");
                assert!(stdout.contains(result), "--{name}: no '{result}' in:\n{stdout}");
            }
            Expected::Refused(arguments, reason) => {
                let (code, stdout, stderr) = fixture.ends(arguments);
                assert_eq!(code, Some(1), "--{name}: {stdout}{stderr}");
                assert!(stderr.contains(reason), "--{name}: no '{reason}' in:\n{stderr}");
            }
        }
    }
    let ended: Vec<String> =
        fixture.logs().iter().map(|path| path.to_string_lossy().into_owned()).collect();
    assert!(!ended.iter().any(|name| name.ends_with(".incomplete")), "{ended:?}");
    if !fixture.pgbench.is_file() {
        return;
    }
    let help = fixture.command(&fixture.pgbench).arg("--help").output().unwrap();
    let help = super::text(&help.stdout);
    let (_, section) = help.split_once("enchmarking options:").unwrap();
    let (options, _) = section.split_once("Common options:").unwrap();
    let selection = help.split("options to select what to run").nth(1).unwrap_or("");
    let selection = selection.split("\n\n").nth(1).unwrap_or("");
    let mut count = 0;
    for text in [options, selection] {
        for word in text.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
            let name = word.split(['=', ',']).next().unwrap();
            assert!(OPTIONS.iter().any(|(known, _)| *known == name), "--{name} is not covered");
            count += 1;
        }
    }
    assert!(count > 20, "{help}");
}

/// A line without its figures and the blanks that they leave.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        if c != '0' || !shape.ends_with('0') {
            shape.push(c);
        }
    }
    shape.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Places after the points of a line's numbers.
fn decimals(line: &str) -> Vec<usize> {
    let numbers = line.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    numbers.filter_map(|number| Some(number.split_once('.')?.1.len())).collect()
}

#[test]
fn each_line_of_pgbench_s_report_stands_in_ours_in_its_order_and_with_its_decimals() {
    let Some(fixture) = fixture("benchlines").filter(|found| found.pgbench.is_file()) else {
        return;
    };
    fixture.script("a.sql", "-- a remark\nSELECT 1;\n");
    fixture.script(
        "b.sql",
        "\\set aid random(1, 100000)\nSELECT abalance\n FROM pgbench_accounts WHERE aid = :aid;\n\
         \\if :aid > 50000\nSELECT 2 \\; SELECT 3;\n\\elif :aid > 25000\nSELECT 4 AS four \\gset\n\
         \\else\nSELECT 5;\n\\endif\n\\sleep 1 us\n",
    );
    fixture.script("pipe.sql", "\\startpipeline\nSELECT 1;\n\\endpipeline\n");
    for arguments in [
        &["-S", "-c", "4", "-T", "1", "-P", "1", "-r", "-M", "prepared"][..],
        &["-S", "-R", "200", "-L", "50", "-T", "1", "-r"],
        &["-f", "a.sql@2", "-f", "b.sql@3", "-t", "100", "-r", "--max-tries", "2"],
        &["-f", "pipe.sql", "-t", "10", "-r", "-M", "extended"],
        &["-c", "2", "-t", "20", "--max-tries", "3", "--failures-detailed", "--verbose-errors"],
        &["-N", "-T", "1", "--max-tries", "0", "-r", "-C"],
    ] {
        let theirs = fixture.command(&fixture.pgbench).arg("-n").args(arguments).output().unwrap();
        let theirs = super::text(&theirs.stdout);
        let (code, ours, stderr) = fixture.ends(&[&["-n"], arguments].concat());
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        let mut rest = ours.lines();
        // The first line is the program's name.
        let scripts_since_18 =
            |line: &&str| !(line.contains(" transactions (") && line.contains("tps = "));
        for line in theirs.lines().skip(1).filter(scripts_since_18) {
            let found = rest.find(|own| shape(own) == shape(line));
            let Some(found) = found else {
                panic!("{arguments:?}: '{line}' of pgbench is not there in its place:\n{ours}")
            };
            if !found.contains("duration") {
                assert_eq!(decimals(found), decimals(line), "{found} against {line}");
            }
        }
        let has_lag_row = ours.lines().any(|line| line.starts_with("lag  "));
        assert_eq!(has_lag_row, arguments.contains(&"-R"), "{ours}");
        let tps = |line: &str| {
            let (_, rest) = line.split_once("tps = ")?;
            rest.split([' ', ')']).next()?.parse::<f64>().ok()
        };
        let scripts: f64 =
            ours.lines().filter(|line| line.starts_with(" - ")).filter_map(tps).sum();
        let total = ours.lines().find(|line| line.starts_with("tps")).and_then(tps).unwrap();
        assert!(scripts == 0.0 || (scripts - total).abs() < 1e-3, "{scripts} in sum: {ours}");
    }
}

#[test]
fn verbose_errors_tell_each_failure_and_counts_tell_retries_from_failures() {
    let Some(fixture) = fixture("benchverbose") else { return };
    let script = fixture.script(
        "hot.sql",
        "BEGIN ISOLATION LEVEL SERIALIZABLE;\n\
         UPDATE pgbench_branches SET bbalance = bbalance + 1;\nEND;\n",
    );
    let arguments = ["-n", "-f", &script, "-c", "8", "-t", "20", "--max-tries", "2", "-r"];
    let (_, stdout, stderr) =
        fixture.ends(&[&arguments[..], &["--verbose-errors", "-L", "60000"]].concat());
    let count = |text: &str| stderr.lines().filter(|line| line.contains(text)).count();
    // A serializable transaction is refused at its UPDATE or, more rarely, at its commit.
    let errors = count(" (SQL) of script 0; ERROR: could not serialize");
    let repeats = count(" repeats the transaction after the error (try 1/2, 0.");
    let ends = count(" ends the failed transaction (try 2/2, 0.");
    assert!(repeats > 0 && errors == repeats + ends, "{stdout}{stderr}");
    let statements = ["BEGIN", "UPDATE", "END;"].map(|statement| -> [usize; 2] {
        let is_its_row = |line: &&str| line.split_whitespace().nth(3) == Some(statement);
        let row = stdout.lines().find(is_its_row).unwrap_or_else(|| panic!("{stdout}"));
        let mut counts = row.split_whitespace().skip(1).map(|count| count.parse().unwrap());
        [counts.next().unwrap(), counts.next().unwrap()]
    });
    let in_sum = |column: usize| statements.iter().map(|counts| counts[column]).sum::<usize>();
    assert_eq!([in_sum(0), in_sum(1)], [ends, repeats], "{stdout}{stderr}");
    assert!(stdout.contains(&format!("total number of retries: {repeats}\n")), "{stdout}");
}
