//! The verdict for people and for programs.
//!
//! Every renderer takes the session document and a writer, and writes as it goes: nothing but the
//! document is held. What is said is decided once, in [`model`]; the media differ only in how.

mod conclusion;
pub mod csv;
pub mod html;
pub mod markdown;
pub mod model;
pub mod number;
pub mod terminal;
pub mod text;

mod benchmark;
mod events;
#[cfg(test)]
pub(crate) mod fixture;
mod judge;
mod table;

use std::io::{self, BufWriter};
use std::path::Path;

use crate::experiment::document::SessionDocument;
use crate::experiment::store::{self, StoreError};

type Renderer = fn(&SessionDocument, &mut dyn io::Write) -> io::Result<()>;

/// Every file beside the record, and what writes it.
const FILES: [(&str, Renderer); 11] = [
    ("runs.csv", csv::runs),
    ("percentiles.csv", csv::percentiles),
    ("exceedance.csv", csv::exceedance),
    ("timeline.csv", csv::timeline),
    ("events.jsonl", events::render),
    ("bench.txt", benchmark::render),
    ("otava.csv", csv::series),
    ("bmf.json", judge::metrics),
    ("junit.xml", judge::junit),
    ("summary.md", markdown::render),
    ("report.html", html::render),
];

/// Writes every file that is derived from the record into the session directory, each replaced in
/// one step: `report.html`, `summary.md`, `runs.csv`, `percentiles.csv`, `exceedance.csv`,
/// `timeline.csv`, `events.jsonl`, `bench.txt`, `otava.csv`, `bmf.json`, `junit.xml`. The record itself, `session.json`, is written by
/// [`store::write_session`].
///
/// # Errors
/// What the operating system refuses; files written before stay.
pub fn write_files(directory: &Path, document: &SessionDocument) -> Result<(), StoreError> {
    for (name, render) in FILES {
        store::replace_file(directory, name, |file| {
            let mut out = BufWriter::new(file);
            render(document, &mut out)?;
            io::Write::flush(&mut out)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::store;

    #[test]
    fn little_or_nothing_measured_is_no_verdict_no_empty_table_and_no_number_without_an_end() {
        use crate::experiment::document::VerdictKind;

        for (name, document) in fixture::bare_sessions() {
            let analysis = document.analysis.as_ref().unwrap();
            let kind = analysis.comparison.verdict.kind;
            assert!(
                matches!(kind, VerdictKind::Inconclusive | VerdictKind::Invalid),
                "{name}: {kind:?}"
            );
            let mut out = Vec::new();
            terminal::render(&document, terminal::Style::default(), None, &mut out).unwrap();
            for (_, render) in FILES {
                render(&document, &mut out).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
                assert!(!matches!(word, "NaN" | "inf" | "Infinity" | "nan"), "{name}: {word}");
            }
            for empty in ["<tbody></tbody>", "<table></table>", "</thead></table>", "<svg></svg>"] {
                assert!(!text.contains(empty), "{name}: {empty}");
            }
        }
    }

    /// Also leaves pages to look at: `EVENKEEL_SAMPLES=/tmp/samples cargo test -p evenkeel-lab
    /// every_session_is_written_in_every_form`.
    #[test]
    fn every_session_is_written_in_every_form() {
        let kept = std::env::var_os("EVENKEEL_SAMPLES");
        let scratch = tempfile::tempdir().unwrap();
        let root = kept.as_deref().map_or(scratch.path(), Path::new);
        let mut sessions = fixture::odd_sessions();
        sessions.extend(fixture::bare_sessions());
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        sessions.push(("usual", fixture::session(fixture::USUAL)));
        sessions.push(("big", fixture::session(fixture::BIG)));
        let mut judged = fixture::session(fixture::USUAL);
        judged.analysis = Some(crate::statistics::analyse(&judged));
        sessions.push(("judged", judged));
        for (name, document) in sessions {
            let directory = root.join(name);
            store::write_session(&directory, &document).unwrap();
            write_files(&directory, &document).unwrap();
            let mut text = Vec::new();
            terminal::render(&document, terminal::Style::default(), Some("report.html"), &mut text)
                .unwrap();
            std::fs::write(directory.join("terminal.txt"), text).unwrap();
            let page = std::fs::metadata(directory.join("report.html")).unwrap().len();
            assert!(page < 3_000_000, "{name}: the page holds {page} bytes");
            assert!(page > 0, "{name}");
        }
    }
}
