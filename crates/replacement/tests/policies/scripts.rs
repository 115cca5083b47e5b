//! Runs `scripts.txt`.

use std::collections::BTreeSet;

use evenkeel_replacement::KeySpace;
use evenkeel_replacement::policy::Hint;
use evenkeel_replacement::registry::{PolicySpecification, Registry};

use super::cache::{Cache, Outcome};

const SCRIPTS: &str = include_str!("scripts.txt");

struct Script {
    specification: String,
    frames: u32,
    tokens: Vec<String>,
}

fn scripts() -> Vec<Script> {
    let mut scripts: Vec<Script> = Vec::new();
    for line in SCRIPTS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix("> ") {
            let (head, _) = header.split_once(": ").expect("what the script shows");
            let (specification, frames) = head.rsplit_once(", ").expect("policy, frames");
            let (specification, frames) = (specification.to_owned(), frames.parse().unwrap());
            scripts.push(Script { specification, frames, tokens: Vec::new() });
        } else if let Some(last) = scripts.last_mut() {
            last.tokens.extend(line.split_whitespace().map(str::to_owned));
        }
    }
    scripts
}

/// Replays a script; prints what really happened in the script's own form.
fn replay(script: &Script, space: KeySpace) -> Vec<String> {
    let mut cache = Cache::new(&script.specification, script.frames, space);
    let mut tick_ms = 0;
    let mut happened = Vec::new();
    for token in &script.tokens {
        if let Some(ms) = token.strip_prefix('@') {
            tick_ms = ms.parse().unwrap();
            happened.push(token.clone());
            continue;
        }
        let (ring, rest) = match token.strip_prefix('~') {
            Some(rest) => ("~", rest),
            None => ("", token.as_str()),
        };
        let page: u64 = rest.split(['=', '>']).next().unwrap().parse().unwrap();
        let hint = if ring.is_empty() { Hint::Normal } else { Hint::Ring };
        happened.push(match cache.reference(page, tick_ms, hint) {
            Outcome::Hit => format!("{ring}{page}="),
            Outcome::Miss(None) => format!("{ring}{page}"),
            Outcome::Miss(Some(left)) => format!("{ring}{page}>{left}"),
        });
    }
    happened
}

#[test]
fn every_policy_does_what_was_worked_out_by_hand() {
    for script in scripts() {
        for space in [KeySpace::Hashed, KeySpace::Dense(64)] {
            let happened = replay(&script, space);
            assert_eq!(happened, script.tokens, "{}, {}", script.specification, script.frames);
        }
    }
}

#[test]
fn every_policy_has_a_script() {
    let scripted: BTreeSet<&str> = scripts()
        .iter()
        .map(|script| script.specification.parse::<PolicySpecification>().unwrap().name())
        .collect();
    for known in Registry::standard().descriptions() {
        assert!(scripted.contains(known.name), "{} has no script", known.name);
    }
}
