//! The verdict for programs that watch many sessions: `junit.xml` for continuous integration and
//! `bmf.json` for Bencher.
//!
//! Rules:
//!
//! 1. In `junit.xml` WORSE is a failure, INVALID an error, and what was not concluded is skipped:
//!    nothing passes that was not shown.
//! 2. `bmf.json` holds values of valid sessions only; of an invalid one it is an empty object.
//! 3. XML 1.0 has no way to write control characters: [`text::visible`] comes before the escapes.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::model;
use super::{number, text};
use crate::experiment::document::{Comparison, SessionDocument, VerdictKind};

/// `junit.xml`: the verdict as one test case, named after the primary measure.
///
/// # Errors
/// What the writer refuses.
pub(super) fn junit(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    let verdict = model::verdict(document);
    let kind = document.analysis.as_ref().map(|analysis| analysis.comparison.verdict.kind);
    let element = match kind {
        Some(VerdictKind::Worse) => Some("failure"),
        Some(VerdictKind::Invalid) => Some("error"),
        Some(VerdictKind::Inconclusive) | None => Some("skipped"),
        Some(VerdictKind::Better | VerdictKind::NoMaterialDifference) => None,
    };
    let count = |name: &str| u8::from(element == Some(name));
    let seconds =
        document.runs.iter().map(|run| number::to_f64(run.duration_ns) / 1e9).sum::<f64>();
    let totals = format!(
        "tests=\"1\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        count("failure"),
        count("error"),
        count("skipped"),
    );
    let title = if document.title.trim().is_empty() { "Comparison" } else { &document.title };
    let measure = model::measure_name(&document.protocol.primary).title;
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites {totals}>")?;
    writeln!(out, "  <testsuite name=\"{}\" {totals}>", escaped(title))?;
    let case = format!(
        "    <testcase classname=\"evenkeel\" name=\"{}\" time=\"{seconds:.3}\"",
        escaped(&measure)
    );
    let message = escaped(&format!("{}: {}", verdict.word, verdict.sentence));
    match element {
        None => writeln!(out, "{case}>\n      <system-out>{message}</system-out>")?,
        Some(element) => writeln!(out, "{case}>\n      <{element} message=\"{message}\"/>")?,
    }
    writeln!(out, "    </testcase>\n  </testsuite>\n</testsuites>")
}

/// `bmf.json`: Bencher's metric format, one benchmark for each of the two arms; the contender's bounds
/// are the baseline's value changed by the ends of the interval.
///
/// # Errors
/// What the writer refuses.
pub(super) fn metrics(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    let mut benchmarks = Map::new();
    if let Some(analysis) = &document.analysis
        && analysis.comparison.verdict.kind != VerdictKind::Invalid
    {
        let comparison = &analysis.comparison;
        for (arm, is_judged) in [(comparison.against, false), (comparison.arm, true)] {
            // The letter keeps two arms of one name apart.
            let name = format!("{} ({})", model::arm_name(document, arm), model::letter(arm));
            benchmarks.insert(name, Value::Object(measures(comparison, is_judged)));
        }
    }
    crate::json::write_pretty(&mut *out, &Value::Object(benchmarks))?;
    out.write_all(b"\n")
}

fn measures(comparison: &Comparison, is_judged: bool) -> Map<String, Value> {
    let mut measures = Map::new();
    for row in &comparison.rows {
        let value = if is_judged { row.value } else { row.against_value };
        let Some(value) = value.filter(|value| value.is_finite()) else { continue };
        let mut metric = Map::new();
        metric.insert("value".to_owned(), json!(value));
        let bound = |ratio: Option<f64>| Some(row.against_value? * (1.0 + ratio?));
        if is_judged {
            for (key, ratio) in [("lower_value", row.low_ratio), ("upper_value", row.high_ratio)] {
                if let Some(bound) = bound(ratio).filter(|bound| bound.is_finite()) {
                    metric.insert(key.to_owned(), json!(bound));
                }
            }
        }
        let unit = if row.unit.is_empty() || row.measure.ends_with(&row.unit) {
            String::new()
        } else {
            format!("_{}", row.unit)
        };
        measures.insert(format!("{}{unit}", row.measure), Value::Object(metric));
    }
    measures
}

/// Rule 3.
fn escaped(outside: &str) -> String {
    text::visible(outside, 2000)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        // The two characters that are visible and yet forbidden.
        .replace(['\u{fffe}', '\u{ffff}'], "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn written(
        render: fn(&SessionDocument, &mut dyn Write) -> io::Result<()>,
        document: &SessionDocument,
    ) -> String {
        let mut out = Vec::new();
        render(document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_worse_session_fails_a_build_and_an_unsettled_one_does_not_pass_it() {
        let mut document = fixture::session(fixture::TINY);
        for (kind, element) in [
            (VerdictKind::Worse, "<failure message=\"WORSE: "),
            (VerdictKind::Invalid, "<error message=\"INVALID: "),
            (VerdictKind::Inconclusive, "<skipped message=\"INCONCLUSIVE: "),
            (VerdictKind::Better, "<system-out>BETTER: "),
        ] {
            document.analysis.as_mut().unwrap().comparison.verdict.kind = kind;
            let text = written(junit, &document);
            assert!(text.contains(element), "{text}");
        }
        document.analysis = None;
        assert!(written(junit, &document).contains("skipped=\"1\""));
    }

    #[test]
    fn no_name_opens_an_element_or_leaves_an_attribute() {
        let text = written(junit, &fixture::hostile());
        for line in text.lines() {
            assert!(line.matches('"').count() % 2 == 0, "{line}");
            assert!(line.matches('<').count() == line.matches('>').count(), "{line}");
            assert!(!line.contains("<script") && !line.contains("<img"), "{line}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn metrics_are_numbers_and_an_invalid_session_has_none() {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        for (name, document) in sessions {
            let value: Value = serde_json::from_str(&written(metrics, &document)).unwrap();
            let benchmarks = value.as_object().unwrap();
            assert_eq!(
                benchmarks.is_empty(),
                matches!(name, "invalid" | "no-analysis" | "no-runs")
            );
            for metric in benchmarks.values().flat_map(|it| it.as_object().unwrap().values()) {
                assert!(metric["value"].is_number(), "{name}: {metric}");
            }
            if name == "tiny" {
                let contender = benchmarks.values().next_back().unwrap();
                let metric = &contender["response_p99_ns"];
                assert!(metric["lower_value"].as_f64() < metric["value"].as_f64(), "{metric}");
            }
        }
    }
}
