//! `events.jsonl`: what happened in the server and the machine, and the stalls, one JSON object a
//! line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::experiment::document::SessionDocument;

/// Renders.
///
/// # Errors
/// What the writer refuses.
pub(super) fn render(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    for run in &document.runs {
        for event in &run.events {
            let line = Line {
                run: run.index,
                arm: run.arm,
                kind: &event.kind,
                start_ns: event.start_ns,
                end_ns: event.end_ns,
                figures: event
                    .figures
                    .iter()
                    .filter(|(_, value)| value.is_finite())
                    .map(|(name, value)| (name.as_str(), *value))
                    .collect(),
                text: &event.text,
                stall: None,
            };
            line.write(out)?;
        }
        for episode in &run.episodes {
            let line = Line {
                run: run.index,
                arm: run.arm,
                kind: "stall",
                start_ns: i64::try_from(episode.start_ns).unwrap_or(i64::MAX),
                end_ns: i64::try_from(episode.end_ns).unwrap_or(i64::MAX),
                figures: BTreeMap::new(),
                text: "",
                stall: Some(Stall {
                    clients: episode.clients,
                    transactions: episode.transactions,
                    total_delay_ns: episode.total_delay_ns,
                    worst_ns: episode.worst_ns,
                    coincides_with: &episode.coincides_with,
                }),
            };
            line.write(out)?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Line<'a> {
    run: u32,
    arm: u32,
    kind: &'a str,
    start_ns: i64,
    end_ns: i64,
    figures: BTreeMap<&'a str, f64>,
    text: &'a str,
    stall: Option<Stall<'a>>,
}

#[derive(Serialize)]
struct Stall<'a> {
    clients: u32,
    transactions: u64,
    total_delay_ns: u64,
    worst_ns: u64,
    coincides_with: &'a [String],
}

impl Line<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        crate::json::write(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn every_line_is_an_object_whatever_the_names_hold() {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        for (name, document) in sessions {
            let mut out = Vec::new();
            render(&document, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let expected: usize =
                document.runs.iter().map(|run| run.events.len() + run.episodes.len()).sum();
            assert_eq!(text.lines().count(), expected, "{name}");
            for line in text.lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(value.is_object(), "{name}: {line}");
            }
        }
    }
}
