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

/// A curve's figures are those of LRU size by size, and a sample of all pages is no estimate off.
#[test]
fn a_curve_is_lru_at_every_size() {
    let spec = "generate:pgbench(references=30000,scale=2)";
    let sizes = ["--cache", "1,10,100,1000,2000", "--format", "csv"];
    let csv = |arguments: &[&str]| {
        let output = simulate(&[&[spec], &sizes[..], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let exact = csv(&["--policy", "lru"]);
    assert_eq!(csv(&["--curve"]), exact);
    for sample in [&["--curve", "--sample", "100%"][..], &["--policy", "lru", "--sample", "1"]] {
        for (found, exact) in csv(sample).lines().zip(exact.lines()).skip(1) {
            assert!(found.starts_with(exact), "{sample:?}: {found} is not {exact}");
        }
    }
}

#[test]
fn estimates_have_margins_and_fit_a_terminal() {
    let spec = "generate:ycsb(references=100000,scale=1)";
    for arguments in [
        &["--sample", "20%", "--policy", "lru,arc,optimum", "--steps", "--warm-up", "10%"][..],
        &["--curve", "--sample", "20%"],
        &["--curve", "--sample-pages", "2000"],
        &["--curve"],
    ] {
        let output = simulate(&[&[spec], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        let is_estimate = arguments.len() > 1;
        assert_eq!(text.contains('\u{b1}'), is_estimate, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    let output = simulate(&[spec, "--sample", "20%", "--policy", "lru", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let run = &value[0]["runs"][0];
    let count = |name: &str| run[name].as_u64().expect(name);
    assert!(count("misses_low") < count("misses") && count("misses") < count("misses_high"));
    assert_eq!(count("requests"), 100_000);
}

#[test]
fn charts_are_a_drawing_or_a_page_and_nothing_else_is_overwritten() {
    let trace = trace();
    let path = trace.path().to_str().expect("a name");
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    for (name, start) in [("c.svg", "<svg xmlns="), ("c.html", "<!DOCTYPE html>")] {
        let chart = place(name);
        let output = simulate(&[path, "--cache", "1,2,3,4", "--plot", &chart]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let chart = std::fs::read_to_string(&chart).expect("a chart");
        assert!(chart.starts_with(start));
        for policy in ["clock_sweep", "optimum"] {
            assert!(chart.contains(&format!("{policy}, 3 pages:")), "{policy}");
        }
    }
    for (chart, words) in [
        (place("c.png"), ".svg or .html"),
        (place("none/c.svg"), "there is no folder"),
        (place("."), ".svg or .html"),
    ] {
        let output = simulate(&[path, "--plot", &chart]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(words), "{text}");
    }
    let output = simulate(&[path, path, "--plot", &place("two.svg")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("name it .html"));
    std::fs::create_dir(place("folder.svg")).expect("a folder");
    let output = simulate(&[path, "--plot", &place("folder.svg")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no regular file"));
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
        (&[path, "--sample", "0"], "a share above 0 and at most 1"),
        (&[path, "--curve", "--policy", "lru"], "--policy"),
        (&[path, "--sample-pages", "1000"], "--curve"),
        (&[path, "--curve", "--sample-pages", "3"], "a sample has 64 to"),
        (&[path, "--sample", "100%", "--by-class"], "--by-class"),
        (
            &["generate:uniform(pages=5000)", "--sample", "1%", "--cache", "9"],
            "take a larger --sample",
        ),
        (&[], "TRACE"),
    ] {
        let output = simulate(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}
