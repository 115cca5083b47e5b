//! `evenkeel report` as its users call it: what stands where, and how it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use evenkeel_lab::experiment::document::VerdictKind;
use evenkeel_lab::experiment::store;

/// A record as written under schema 1.0. It must stay readable as long as 1.x lasts: do not renew it.
const RECORD: &str = include_str!("data/session-1.0.json");

fn report(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .arg("report")
        .args(arguments)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn stored(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("session.json");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_record_of_schema_1_0_stays_readable_in_every_form() {
    let (directory, _) = stored(RECORD);
    let directory = path_text(directory.path());
    for (format, begins) in [
        ("terminal", "VERDICT  INCONCLUSIVE"),
        ("text", "VERDICT  INCONCLUSIVE"),
        ("markdown", "Do spread checkpoints shorten the worst waits?"),
        ("html", "<!DOCTYPE html>"),
        ("json", "{"),
    ] {
        let output = report(&[directory, "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{format}: {}", said(&output.stderr));
        assert!(said(&output.stdout).starts_with(begins), "{format}: {}", said(&output.stdout));
        assert_eq!(said(&output.stderr), "", "{format}");
    }
}

#[test]
fn the_exit_code_repeats_the_verdict() {
    for (kind, code) in [
        (VerdictKind::Better, 0),
        (VerdictKind::Worse, 3),
        (VerdictKind::NoMaterialDifference, 0),
        (VerdictKind::Inconclusive, 0),
        (VerdictKind::Invalid, 2),
    ] {
        let (directory, path) = stored(RECORD);
        let mut document = store::read_session(&path).unwrap().document;
        document.analysis.as_mut().unwrap().comparison.verdict.kind = kind;
        store::write_session(directory.path(), &document).unwrap();
        let output = report(&[path_text(&path)]);
        assert_eq!(output.status.code(), Some(code), "{kind:?}");
    }
}

#[test]
fn stored_sessions_of_two_builds_and_two_loads_of_the_same_tables_are_compared() {
    let (before, path) = stored(RECORD);
    let after = tempfile::tempdir().unwrap();
    let mut document = store::read_session(&path).unwrap().document;
    document.arms[0].data_hash = Some("another load".to_owned());
    document.arms[0].server_version = Some("PostgreSQL 15.99".to_owned());
    for run in document.runs.iter_mut().filter(|run| run.arm == 0) {
        run.data_hash = Some("another load".to_owned());
        run.server_version = Some("PostgreSQL 15.99".to_owned());
    }
    store::write_session(after.path(), &document).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["compare", path_text(before.path()), path_text(after.path())])
        .output()
        .unwrap();
    let shown = said(&output.stdout);
    assert!(!shown.contains("was not declared"), "{shown}");
    assert!(shown.contains("PostgreSQL 15.99"), "{shown}");
}

#[test]
fn an_altered_record_is_named_so_on_the_screen_and_in_what_is_written() {
    let (directory, path) = stored(&RECORD.replacen("\"pairs\": 2", "\"pairs\": 16", 1));
    let page = directory.path().join("again.html");
    let output = report(&[path_text(&path), "--format", "html", "--out", path_text(&page)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output.stderr).contains("changed after it was written"));
    assert_eq!(said(&output.stdout), "");
    assert!(std::fs::read_to_string(page).unwrap().contains("[ALTERED RECORD]"));
}

#[test]
fn what_cannot_be_read_is_refused_with_file_line_and_column() {
    for (text, expected) in [
        (String::new(), "session.json:1:0: "),
        (RECORD[..RECORD.len() / 2].to_owned(), "cut off"),
        (RECORD.replacen("\"seed\": 20310502", "\"seed\": \"x\"", 1), "session.json:"),
        (RECORD.replacen("\"schema\": \"1.0\"", "\"schema\": \"9.3\"", 1), "schema 9.3"),
        ("[".repeat(200_000), "session.json:1:"),
    ] {
        let (_directory, path) = stored(&text);
        let output = report(&[path_text(&path)]);
        assert_eq!(output.status.code(), Some(1));
        let message = said(&output.stderr);
        assert!(message.contains(expected), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert_eq!(said(&output.stdout), "");
    }
}

#[test]
fn a_directory_is_filled_with_every_derived_file() {
    let (directory, path) = stored(RECORD);
    let before = std::fs::read(&path).unwrap();
    let output = report(&[path_text(&path), "--out", path_text(directory.path())]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    for name in [
        "report.html",
        "summary.md",
        "runs.csv",
        "percentiles.csv",
        "exceedance.csv",
        "timeline.csv",
        "events.jsonl",
        "bench.txt",
        "otava.csv",
        "bmf.json",
        "junit.xml",
    ] {
        assert!(std::fs::metadata(directory.path().join(name)).unwrap().len() > 0, "{name}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before, "the record itself is left alone");
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        12,
        "and nothing else is left"
    );
}

#[test]
fn a_full_disk_is_an_error_and_not_half_a_page() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let (_directory, path) = stored(RECORD);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["report", path_text(&path), "--format", "html"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("standard output"), "{}", said(&output.stderr));
}

#[test]
fn an_index_lists_sessions_and_links_to_their_pages() {
    let (first, _) = stored(RECORD);
    let (second, _) = stored(RECORD);
    std::fs::write(first.path().join("report.html"), "a page").unwrap();
    let index = first.path().join("index.html");
    let of = [path_text(first.path()), path_text(second.path())];
    let output = report(&["--index", path_text(&index), of[0], of[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    let page = std::fs::read_to_string(&index).unwrap();
    assert!(page.contains("<p>2 sessions"), "{page}");
    assert_eq!(page.matches("<a href=\"./report.html\">").count(), 1, "one of them has a page");
    // A list with a hole would not show it.
    let missing = report(&["--index", path_text(&index), of[0], "/no/such/session"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing.stderr).contains("/no/such/session"));
    let several = report(&of);
    assert_eq!(several.status.code(), Some(1));
    assert!(said(&several.stderr).contains("--index FILE"), "{}", said(&several.stderr));
}

#[test]
fn no_device_is_replaced_by_a_report() {
    let (directory, _) = stored(RECORD);
    let link = directory.path().join("link.html");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for out in [path_text(&link), "/dev/null"] {
        for option in ["--out", "--index"] {
            let output = report(&[path_text(directory.path()), option, out]);
            assert_eq!(output.status.code(), Some(1), "{option} {out}");
            assert!(said(&output.stderr).contains("is no regular file"), "{option} {out}");
        }
    }
}

#[test]
fn a_pipe_has_as_many_columns_as_are_asked_for() {
    let (directory, _) = stored(RECORD);
    let widest = |columns: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["report", path_text(directory.path())])
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        // The line to repeat the session is there to be copied, and is not broken.
        let stdout = said(&output.stdout);
        let lines = stdout.lines().filter(|line| !line.starts_with("rerun"));
        lines.map(|line| line.chars().count()).max().unwrap()
    };
    assert!(widest("80") <= 80, "{}", widest("80"));
    assert!(widest("100") > 80 && widest("nonsense") == widest("100"));
}
