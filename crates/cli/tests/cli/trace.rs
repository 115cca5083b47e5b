//! `evenkeel trace` from outside: what is said of a trace, and what a conversion loses.

use std::path::Path;

use super::{evenkeel, text};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two look-ups, one of them of a page that is then marked dirty, and a page added.
const LOOKUPS: &str = "op,client,rel,fork,block,time_ns\nR,0,7,0,0,1500000000\n\
                       R,0,7,0,1,1500000000\nW,0,7,0,1,1600000000\nX,0,7,0,2,2000000000\n";

#[test]
fn info_and_simulate_name_the_same_number_of_write_references() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    std::fs::write(&file, LOOKUPS).unwrap();
    let info = text(&evenkeel(&["trace", "info", path(&file)]).stdout);
    assert!(info.contains("write references  2 (66.7%)"), "{info}");
    assert!(info.contains("marked dirty      1 times"), "{info}");
    let simulated = evenkeel(&["simulate", path(&file), "--policy", "lru", "--cache", "1,2"]);
    let simulated = text(&simulated.stdout);
    assert!(simulated.contains("66.7% of them write references"), "{simulated}");
    assert!(simulated.contains("write-backs (dirty pages evicted)"), "{simulated}");
}

#[test]
fn what_a_format_has_no_place_for_is_said_once_with_its_count() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    std::fs::write(&file, LOOKUPS).unwrap();
    for (name, to, lost) in [
        ("a.ids", "ids", &["relation and kind (class): dropped 4 ", "time: dropped 4 "][..]),
        (
            "a.bin",
            "oracle-general",
            &[
                "relation and kind (class): dropped 3 ",
                "parts of a second: dropped 2 ",
                "write flag: dropped 1 ",
                "mark of a page made dirty while pinned: dropped 1 ",
            ][..],
        ),
        ("b.csv", "csv", &[][..]),
        ("a.ekt", "evenkeel", &[][..]),
    ] {
        let out = folder.path().join(name);
        let output = evenkeel(&["trace", "convert", path(&file), path(&out), "--to", to]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let warnings: Vec<&str> = said.lines().filter(|line| line.contains("warning")).collect();
        assert_eq!(warnings.len(), lost.len(), "{to}: {said}");
        for (warning, lost) in warnings.iter().zip(lost) {
            let begin = format!("evenkeel: warning: {to} has no place for the {lost}times; ");
            assert!(warning.starts_with(&begin), "{warning}");
        }
    }
}

#[test]
fn the_size_of_pages_that_text_does_not_hold_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("a.lis"), folder.path().join("a.ids"));
    std::fs::write(&file, "100 3 0 0\n101 1 9 1\n").unwrap();
    let output = evenkeel(&["trace", "convert", path(&file), path(&out)]);
    let said = text(&output.stderr);
    assert!(said.contains("no place for the page size: dropped 4 times"), "{said}");
    assert!(said.contains("--page-size"), "{said}");
}

/// The remedy names an option that the command has.
#[test]
fn the_option_that_an_error_names_is_one_of_the_command_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xyz");
    std::fs::write(&file, "1 W 3\n").unwrap();
    for command in [&["simulate"][..], &["trace", "info"], &["trace", "head"]] {
        let ask = |more: &[&str]| evenkeel(&[command, &[path(&file)], more].concat());
        let refused = ask(&[]);
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stderr);
        assert!(said.contains("name it with --trace-format"), "{command:?}: {said}");
        let told = text(&ask(&["--trace-format", "ids"]).stderr);
        assert!(told.contains("line 1: '3' after the page number"), "{command:?}: {told}");
    }
    let short = evenkeel(&["trace", "info", path(&file), "--format", "ids"]);
    assert!(text(&short.stderr).contains("line 1"), "--format stays where it means nothing else");
}

#[test]
fn block_size_and_time_unit_are_heard_by_trace_and_simulate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    // Each request is 8 kB at block 0, 2, 4 ... of 4 kB: pages 0, 1, 2 ...
    let lines: String = (0..6).map(|i| format!("0,{},8192,R,{}.5\n", i % 3 * 2, i)).collect();
    std::fs::write(&file, lines).unwrap();
    let pages = |command: &[&str], blocks: &str| {
        let common = [path(&file), "--page-size", "8kB", "--block-size", blocks];
        text(&evenkeel(&[command, &common].concat()).stdout)
    };
    let info = pages(&["trace", "info"], "4kB");
    assert!(info.contains("pages             3 of"), "{info}");
    let info = pages(&["trace", "info"], "512");
    assert!(info.contains("pages             2 of"), "{info}");
    let simulated = pages(&["simulate", "--policy", "lru", "--cache", "2"], "4kB");
    assert!(simulated.contains("6 references to 3 pages"), "{simulated}");

    std::fs::write(&file, "time,page\n0,1\n5000,2\n").unwrap();
    let info = evenkeel(&["trace", "info", path(&file), "--time-unit", "ms"]);
    assert!(text(&info.stdout).contains("5.000 s from first to last"));
    let arguments = [path(&file), "--time-unit", "ms", "--policy", "lru", "--cache", "1"];
    let simulated = evenkeel(&[&["simulate"][..], &arguments].concat());
    assert_eq!(simulated.status.code(), Some(0), "{}", text(&simulated.stderr));
}
