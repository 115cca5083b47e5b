//! `evenkeel simulate` from outside: its tables, its errors, its exit codes.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn trace() -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".txt").tempfile().expect("a file");
    // Belady's example: 9 faults for FIFO with 3 frames, 10 with 4; 7 and 6 for the optimum.
    let text = "1\n2\n3\n4\n1\n2\n5\n1\n2\n3\n4\n5\n";
    std::fs::write(file.path(), text).expect("it is written");
    file
}

#[test]
fn counts_are_beladys_in_csv_whatever_the_number_of_threads() {
    let trace = trace();
    let path = trace.path().to_str().expect("a name");
    let mut seen = Vec::new();
    for jobs in ["1", "3"] {
        let arguments = [path, "--policy", "fifo,optimum", "--cache", "3,4"];
        let output = simulate(&[&arguments[..], &["--format", "csv", "-j", jobs]].concat());
        assert_eq!(output.status.code(), Some(0));
        seen.push(String::from_utf8(output.stdout).expect("text"));
    }
    assert_eq!(seen[0], seen[1]);
    let lines: Vec<&str> = seen[0].lines().collect();
    assert_eq!(lines[0], "trace,policy,cache_pages,requests,misses,write_backs");
    for (line, end) in lines[1..].iter().zip([
        ",fifo,3,12,9,0",
        ",fifo,4,12,10,0",
        ",optimum,3,12,7,0",
        ",optimum,4,12,6,0",
    ]) {
        assert!(line.ends_with(end), "{line}");
    }
    assert_eq!(lines.len(), 5);
}

#[test]
fn tables_of_all_policies_fit_a_terminal() {
    let trace = trace();
    let path = trace.path().to_str().expect("a name");
    let output = simulate(&[path, "--cache", "1,2,3,4,5,6,7,8,9", "--steps", "--by-class"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(text.contains("what twice the memory buys"));
}

#[test]
fn wrong_usage_and_unreadable_traces_say_what_and_end_with_one() {
    let trace = trace();
    let path = trace.path().to_str().expect("a name");
    for (arguments, words) in [
        (&["no-such-trace"][..], "no-such-trace"),
        (&[path, "--policy", "lru,clok"], "column 5"),
        (&[path, "--cache", "0"], "a size is above zero"),
        (&[path, "--cache", "12 apples"], "is no size"),
        (&[path, "--warm-up", "2"], "a share from 0 to below 1"),
        (&[], "TRACE"),
    ] {
        let output = simulate(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}
