//! The command from outside: a module per command.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail as tests do: by a panic with its place"
)]

mod bench;
mod compare;
mod expressions;
mod init;
mod report;
mod simulate;
mod trace;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

fn evenkeel(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Reads what the command says until `text` comes.
fn wait_for(child: &mut Child, text: &str) -> impl BufRead + use<> {
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while said.read_line(&mut line).unwrap() > 0 {
        if line.contains(text) {
            return said;
        }
        line.clear();
    }
    panic!("the command ended without saying '{text}'");
}

fn signal(process: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), signal)
        .unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
