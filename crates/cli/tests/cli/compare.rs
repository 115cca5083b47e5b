//! `compare` on real servers: what it keeps, says and leaves behind when things go wrong. Without
//! PostgreSQL on the machine those tests have nothing to try.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use evenkeel::runtime::{Clock, OsRuntime, Runtime, Waits};
use evenkeel_lab::experiment::document::{SessionDocument, VerdictKind};
use evenkeel_lab::experiment::store;
use evenkeel_lab::target::postgres::binaries::{Binaries, Places, Wanted};
use evenkeel_lab::target::postgres::server::{
    ManagedServer, ServerOptions, default_parent, process_tree,
};

use super::{evenkeel, signal, text, wait_for};

fn has_postgres() -> bool {
    Binaries::find(&Wanted::Newest, &Places::of_this_machine()).is_ok_and(|found| found.is_some())
}

fn compare(out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .args(["compare", "--scale", "1", "--cache", "cold", "--out"])
        .arg(out)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Processes whose command line has a word that contains `part`.
fn processes_with(part: &str) -> Vec<i32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let process: i32 = entry.file_name().to_str()?.parse().ok()?;
            let words = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            words.split('\0').any(|word| word.contains(part)).then_some(process)
        })
        .collect()
}

/// Waits until a session of this postmaster writes. The driver connects every client before the first
/// transaction starts, so from then on none is still being let in.
fn wait_for_transactions(postmaster: i32) {
    let is_of_server = |process: &i32| {
        std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok())
                == Some(postmaster)
        })
    };
    let runtime = OsRuntime::new();
    while !["UPDATE", "INSERT", "COMMIT"].into_iter().any(|command| {
        processes_with(&format!("postgres: postgres postgres [local] {command}"))
            .iter()
            .any(is_of_server)
    }) {
        runtime.sleep_until(runtime.now().plus_nanos(10_000_000));
    }
}

fn record(out: &Path) -> SessionDocument {
    store::read_session(out).unwrap().document
}

/// Whether a directory named in the record's arms, or a process of ours, is left.
fn leaves_nothing(name: &str) -> bool {
    !std::fs::read_dir(default_parent())
        .unwrap()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains(name))
}

#[test]
fn a_whole_session_gives_a_verdict_and_a_page_and_leaves_nothing_behind() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let Output { status, stdout, stderr } = compare(
        &out,
        &[
            "--pairs",
            "1",
            "-T",
            "1",
            "--a-name",
            "wholea",
            "--b-name",
            "wholeb",
            "--b-setting",
            "work_mem=8MB",
            "--log",
            "--histograms",
        ],
    )
    .output()
    .unwrap();
    // Invalid is possible on a machine that is busy with other tests; a failure is not.
    assert!(matches!(status.code(), Some(0 | 2)), "{status}: {}", text(&stderr));
    assert!(text(&stdout).starts_with("VERDICT"), "{}", text(&stdout));
    assert!(out.join("report.html").is_file());
    let document = record(&out);
    assert_eq!((&document.incomplete, document.runs.len()), (&None, 2));
    assert!(document.differences.iter().any(|it| it.what == "setting work_mem" && it.is_declared));
    assert!(document.arms.iter().all(|arm| arm.data_hash.is_some()));
    assert!(leaves_nothing("-whole"));
    for run in &document.runs {
        let log = out.join(format!("tx/{}.log", run.index));
        let lines = std::fs::read_to_string(&log).unwrap().lines().count() as u64;
        let counts = &run.counts;
        assert_eq!(lines, counts.started - counts.censored - counts.aborted + counts.skipped);
        let percentiles = out.join(format!("hist/{}.hgrm", run.index));
        let total = format!("Total count    = {:>12}]", counts.committed + counts.censored);
        assert!(std::fs::read_to_string(&percentiles).unwrap().contains(&total), "{total}");
        assert!(out.join(format!("hist/{}.hlog", run.index)).is_file());
    }
    // What pgbench's own scripts read, our import reads, too, each run by itself.
    let stored = scratch.path().join("imported");
    let logs = [0, 1].map(|run| out.join(format!("tx/{run}.log")).display().to_string());
    let stored = stored.display().to_string();
    let imported = evenkeel(&["import", "--out", &stored, &logs[0], &logs[1]]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let committed = |document: &SessionDocument| {
        document.runs.iter().map(|run| run.counts.committed).collect::<Vec<_>>()
    };
    assert_eq!(committed(&record(Path::new(&stored))).len(), committed(&document).len());
}

#[test]
fn a_server_killed_in_the_middle_ends_the_session_with_what_was_measured() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let mut child =
        compare(&out, &["--pairs", "1", "-T", "60", "--a-name", "killa", "--b-name", "killb"])
            .spawn()
            .unwrap();
    let mut said = wait_for(&mut child, "run 1: measuring");
    let servers = processes_with("/evenkeel-kill");
    assert_eq!(servers.len(), 1, "one server at a time");
    wait_for_transactions(servers[0]);
    signal(servers[0], rustix::process::Signal::KILL);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
    assert!(rest.contains("the session was cut off"), "{rest}");
    let document = record(&out);
    assert_eq!(document.runs.len(), 1);
    assert!(document.incomplete.is_some() && document.runs[0].incomplete.is_some());
    assert!(leaves_nothing("-kill"));
}

#[test]
fn a_server_that_stops_answering_is_ended_and_its_run_does_not_count() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let mut child = compare(
        &out,
        &["--pairs", "1", "-T", "3", "--grace", "1s", "--a-name", "hanga", "--b-name", "hangb"],
    )
    .spawn()
    .unwrap();
    let mut said = wait_for(&mut child, "run 1: measuring");
    let server = processes_with("/evenkeel-hang")[0];
    wait_for_transactions(server);
    for process in process_tree(u32::try_from(server).unwrap()) {
        signal(i32::try_from(process).unwrap(), rustix::process::Signal::STOP);
    }
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(1), "{rest}");
    assert!(rest.contains("was let go on (SIGCONT) and shut down"), "{rest}");
    assert!(text(&stdout).is_empty(), "no table without a pair: {}", text(&stdout));
    let document = record(&out);
    let reason = document.runs[0].incomplete.as_ref().unwrap();
    assert!(reason.contains("the server stopped answering at"), "{reason}");
    assert!(reason.contains("4 transactions censored"), "{reason}");
    assert_eq!(
        document.analysis.unwrap().comparison.verdict.kind,
        VerdictKind::Invalid,
        "a session without a pair is never valid"
    );
    assert!(leaves_nothing("-hang"));
}

#[test]
fn an_interruption_keeps_the_run_under_way_and_stops_the_servers() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let mut child =
        compare(&out, &["--pairs", "1", "-T", "60", "--a-name", "inta", "--b-name", "intb"])
            .spawn()
            .unwrap();
    let mut said = wait_for(&mut child, "run 1: measuring");
    signal(i32::try_from(child.id()).unwrap(), rustix::process::Signal::INT);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    let document = record(&out);
    assert!(document.incomplete.unwrap().contains("interrupted"));
    assert!(leaves_nothing("-int"));
}

#[test]
fn an_experiment_file_cannot_speak_to_the_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("x.toml");
    let (escape, bidi) = ("\\u001b]0;x\\u0007", '\u{202e}');
    let cases = [
        format!("\"cli{escape}{bidi}\" = 3"),
        format!("duration = \"5{escape}{bidi}fortnights\""),
        format!("primary = \"{escape}{bidi}\""),
        format!("clients = {bidi}x"),
        format!("[a]\nname = \"{escape}{bidi}\"\nbinaries = \"/no/{escape}{bidi}\""),
        format!("[a]\nversion = \"{escape}{bidi}\""),
        format!("[a]\nurl = \"postgres://{escape}@h:no{bidi}\"\n[b]\nurl = \"postgres://h\""),
        format!("[a.settings]\n\"work{escape}{bidi}\" = \"1\"\n[b]\nurl = \"postgres://h\""),
        format!("[workload]\nfile = \"no{escape}{bidi}.sql\""),
        format!("[workload]\ndistribution = \"{escape}{bidi}\""),
    ];
    for case in cases {
        std::fs::write(&file, &case).unwrap();
        let out = scratch.path().join("out");
        let Output { status, stdout, stderr } =
            compare(&out, &[file.to_str().unwrap()]).output().unwrap();
        let said = text(&stdout) + &text(&stderr);
        assert_eq!(status.code(), Some(1), "{case}: {said}");
        assert!(said.contains("evenkeel:"), "{case}: {said}");
        for line in said.lines() {
            assert!(!line.contains(|c: char| c.is_control() || c == bidi), "{case}: {line:?}");
        }
    }
}

#[test]
fn an_interruption_is_heard_though_no_server_answers() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = deaf.local_addr().unwrap().port();
    // Without a limit of its own the opening would never end.
    let url = format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=0&sslmode=disable");
    let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["compare", "--quick", "--a-url", &url, "--b-url", &url, "--out"])
        .arg(&out)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _session = deaf.accept().unwrap();
    signal(i32::try_from(child.id()).unwrap(), rustix::process::Signal::INT);
    let runtime = OsRuntime::new();
    let deadline = runtime.now().plus_nanos(60_000_000_000);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if runtime.now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        runtime.sleep_until(runtime.now().plus_nanos(10_000_000));
    };
    assert_eq!(status.expect("it did not end").code(), Some(130));
    assert!(!out.exists(), "nothing was measured");
}

#[test]
fn a_server_without_room_for_all_clients_is_told_as_such() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut command = compare(
        &scratch.path().join("out"),
        &["--pairs", "1", "-T", "1", "--clients", "8", "--a-name", "rooma", "--b-name", "roomb"],
    );
    for arm in ["--a-setting", "--b-setting"] {
        for setting in
            ["max_connections=4", "superuser_reserved_connections=0", "max_wal_senders=0"]
        {
            command.args([arm, setting]);
        }
    }
    let Output { status, stderr, .. } = command.output().unwrap();
    let stderr = text(&stderr);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("of 8 could not connect"), "{stderr}");
    assert!(stderr.contains("53300"), "{stderr}");
    assert!(leaves_nothing("-room"));
}

#[test]
fn a_setting_that_the_server_does_not_know_ends_the_session_before_any_run() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let Output { status, stderr, .. } =
        compare(&out, &["--b-setting", "shared_bufers=1GB", "--b-name", "refused"])
            .output()
            .unwrap();
    assert_eq!(status.code(), Some(1));
    let said = text(&stderr);
    assert!(said.contains("no setting 'shared_bufers'; did you mean 'shared_buffers'?"), "{said}");
    assert!(!said.contains("loading pgbench's tables"), "found before anything is loaded: {said}");
    assert!(!out.exists(), "nothing was measured, nothing is left");
    assert!(leaves_nothing("-refused"));
}

#[test]
fn a_value_that_the_server_does_not_take_is_found_before_anything_is_loaded() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    for (setting, reason) in [
        ("shared_buffers=banana", "invalid value for parameter"),
        ("checkpoint_completion_target=7", "outside the valid range"),
        ("wal_level=it's", "invalid value for parameter"),
    ] {
        let Output { status, stderr, .. } =
            compare(&out, &["--b-setting", setting, "--b-name", "unfit"]).output().unwrap();
        assert_eq!(status.code(), Some(1), "{setting}");
        let said = text(&stderr);
        assert!(said.contains("arm 'unfit': setting") && said.contains(reason), "{said}");
        assert!(!said.contains("loading pgbench's tables"), "{setting}: {said}");
        assert!(!out.exists(), "{setting}");
    }
    assert!(leaves_nothing("-unfit"));
}

/// A stored session of four runs of pgbench of three seconds, each transaction about `each_us` long.
/// With a lag, they followed a schedule.
fn imported(scratch: &Path, name: &str, each_us: u64, lag_us: u64) -> String {
    let mut words = vec!["import".to_owned(), "--out".to_owned()];
    let out = scratch.join(name).display().to_string();
    words.push(out.clone());
    for run in 0..4_u64 {
        let log = scratch.join(format!("{name}_log.{run}"));
        let each_us = each_us + 7 * run;
        let lines: String = (1..=3_000_000 / each_us)
            .map(|n| {
                let end_us = n * each_us;
                let (s, us) = (1_600_000_000 + end_us / 1_000_000, end_us % 1_000_000);
                let lag = if lag_us > 0 { format!(" {lag_us}") } else { String::new() };
                format!("0 {n} {each_us} 0 {s} {us}{lag}\n")
            })
            .collect();
        std::fs::write(&log, lines).unwrap();
        words.push(log.display().to_string());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Output { status, stdout, stderr } = evenkeel(&words);
    assert!(status.success(), "{}", text(&stderr));
    assert!(text(&stdout).contains("run 4: "), "{}", text(&stdout));
    out
}

#[test]
fn stored_runs_that_were_not_measured_alike_are_invalid_and_the_condition_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let closed = imported(scratch.path(), "closed", 10_000, 0);
    let slower = imported(scratch.path(), "slower", 13_000, 0);
    let open = imported(scratch.path(), "open", 10_000, 500);
    for other in [&slower, &open] {
        let Output { status, stdout, .. } = evenkeel(&["compare", &closed, other]);
        let is_alike = other == &slower;
        assert_eq!(status.code(), Some(if is_alike { 3 } else { 2 }), "{}", text(&stdout));
        let said = text(&stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.contains("not measured alike: arrival"), !is_alike, "{said}");
    }
}

#[test]
fn flags_that_say_how_to_measure_are_not_passed_over_for_stored_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let fast = imported(scratch.path(), "fast", 10_000, 0);
    let Output { status, stderr, .. } = evenkeel(&["compare", &fast, &fast, "--clients", "8"]);
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("only --primary"), "{}", text(&stderr));
}

#[test]
fn a_report_that_cannot_be_written_is_no_success() {
    let scratch = tempfile::tempdir().unwrap();
    let fast = imported(scratch.path(), "fast", 10_000, 0);
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("out").display().to_string();
    for (out, expected) in [(&below, "cannot make"), (&fast, "holds a session already")] {
        let Output { status, stderr, .. } = evenkeel(&["compare", &fast, &fast, "--out", out]);
        assert_eq!(status.code(), Some(1), "{out}");
        assert!(text(&stderr).contains(expected), "{}", text(&stderr));
    }
    let deep = scratch.path().join("missing/dir/..").display().to_string();
    let Output { status, stderr, .. } = evenkeel(&["compare", &fast, &fast, "--out", &deep]);
    assert_eq!(status.code(), Some(0), "{}", text(&stderr));
    assert!(scratch.path().join("missing/report.html").is_file());
}

#[test]
fn a_record_that_was_edited_is_void_in_every_output_and_in_the_exit_status() {
    let scratch = tempfile::tempdir().unwrap();
    let fast = imported(scratch.path(), "fast", 10_000, 0);
    let record = Path::new(&fast).join("session.json");
    let original = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, original.replacen("\"fast\"", "\"fest\"", 1)).unwrap();
    let other = imported(scratch.path(), "other", 13_000, 0);
    for words in [
        &["report", &fast][..],
        &["report", &fast, "--format", "markdown"],
        &["report", &fast, "--format", "html"],
        &["report", &fast, "--format", "json"],
        &["compare", &fast, &other],
        &["compare", &other, &fast],
    ] {
        let Output { status, stdout, .. } = evenkeel(words);
        assert_eq!(status.code(), Some(2), "{words:?}");
        let said = text(&stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("changed after it was written"), "{words:?}: {said}");
    }
}

#[test]
fn every_verdict_has_the_exit_status_that_scripts_are_promised() {
    let scratch = tempfile::tempdir().unwrap();
    let fast = imported(scratch.path(), "fast", 10_000, 0);
    let slow = imported(scratch.path(), "slow", 13_000, 0);
    let like = imported(scratch.path(), "like", 10_003, 0);
    let status = |arguments: &[&str]| {
        let Output { status, stdout, stderr } = evenkeel(arguments);
        (status.code(), format!("{}{}", text(&stdout), text(&stderr)))
    };
    for (arguments, expected) in [
        (&["compare", &slow, &fast][..], 0),
        (&["compare", "/no/such.json", &fast], 1),
        (&["compare", "--no-such-flag"], 1),
        (&["compare", "--clients", "-1"], 1),
        (&["compare", &fast, &slow], 3),
        (&["compare", &fast, &like], 0),
        (&["compare", "--require-verdict", &fast, &like], 4),
        (&["compare", "--require-verdict", &fast, &slow], 3),
    ] {
        let (found, said) = status(arguments);
        assert_eq!(found, Some(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn what_is_wrong_without_a_server_is_found_before_anything_is_promised_or_written() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let out = out.to_str().unwrap();
    let occupied = scratch.path().join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    std::fs::write(occupied.join("experiment.toml"), "mine").unwrap();
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    let wrong = scratch.path().join("wrong.sql");
    std::fs::write(&wrong, "\\nosuchcommand\n").unwrap();
    let toml = scratch.path().join("e.toml");
    std::fs::write(&toml, "duration = 5\n").unwrap();
    let toml = toml.to_str().unwrap();
    let cases: [(&[&str], &str); 14] = [
        (&[toml, "-T", "0", "--out", out], "evenkeel: duration: "),
        (&["-L", "0", "--out", out], "latency_limit: "),
        (&["-R", "1e-300", "--out", out], "rate: at "),
        (&["-T", "99999999999999", "--out", out], "100 days"),
        (&["--looks", "2,6", "-p", "6", "--out", out], "at least 7 pairs"),
        (&["--b-setting", "port=5433", "--out", out], "b.settings.port: a managed server"),
        (&["-f", "/no/such/script.sql", "--out", out], "/no/such/script.sql"),
        (&["-f", wrong.to_str().unwrap(), "--out", out], "nosuchcommand"),
        (&["--a-binaries", "/no/such/bin", "--out", out], "/no/such/bin"),
        (&["--quick", "--out", occupied.to_str().unwrap()], "experiment.toml already"),
        (&["--quick", "--out", file.to_str().unwrap()], "is not a directory"),
        (&["--quick", "--out", "/proc/no/such"], "/proc/no/such"),
        (&["--margin", "-0.1", "--out", out], "margin: it is a ratio"),
        (&["--a-url", "postgres://u:c4nary@h/x", "--b-url", "dbname=y", "--out", out], "~/.pgpass"),
    ];
    for (arguments, expected) in cases {
        let words: Vec<&str> = ["compare"].iter().chain(arguments).copied().collect();
        let Output { status, stdout, stderr } = evenkeel(&words);
        let said = text(&stderr);
        assert_eq!(status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("against") && !said.contains("c4nary"), "{arguments:?}: {said}");
        assert!(stdout.is_empty());
        assert!(!Path::new(out).exists(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(occupied.join("experiment.toml")).unwrap(), "mine");
}

#[test]
fn a_server_without_pgbenchs_tables_is_told_with_the_remedy_and_serves_other_scripts() {
    let Ok(Some(binaries)) = Binaries::find(&Wanted::Newest, &Places::of_this_machine()) else {
        return;
    };
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let options = ServerOptions::new(binaries, "tableless", Arc::default());
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    let url =
        format!("host={} port=5432 user=postgres dbname=postgres", server.directory().display());
    let scratch = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (plain, scaled) = (script("a", "select 1;\n"), script("b", "select :scale;\n"));
    let compare = |out: &str, more: &[&str]| {
        let out = scratch.path().join(out).display().to_string();
        let mut words = vec!["compare", "--a-url", &url, "--b-url", &url, "--out", &out];
        words.extend(["--a-name", "x", "--b-name", "y", "-T", "1", "--pairs", "1"]);
        words.extend(["--cache", "cold"]);
        words.extend(more);
        let Output { status, stderr, .. } = evenkeel(&words);
        (status.code(), text(&stderr))
    };
    let (status, said) = compare("1", &[]);
    assert!(status == Some(1) && said.contains("evenkeel init"), "{said}");
    let (status, said) = compare("2", &["-f", &scaled]);
    assert!(status == Some(1) && said.contains("scale"), "{said}");
    let (status, said) = compare("3", &["-f", &plain]);
    assert!(matches!(status, Some(0 | 2)), "{said}");
    server.remove().unwrap();
}

#[test]
fn a_rate_that_is_not_reached_ends_with_the_status_of_an_invalid_session() {
    if !has_postgres() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let arguments = ["--pairs", "1", "-T", "1", "-R", "100000", "--grace", "500ms"];
    let Output { status, stdout, stderr } =
        compare(&out, &[&arguments[..], &["--a-name", "ratea", "--b-name", "rateb"]].concat())
            .output()
            .unwrap();
    assert_eq!(status.code(), Some(2), "{}", text(&stderr));
    assert!(text(&stdout).starts_with("VERDICT  INVALID"), "{}", text(&stdout));
    assert!(leaves_nothing("-rate"));
}
