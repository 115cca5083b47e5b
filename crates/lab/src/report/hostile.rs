//! Whole records that hold what no session writes: an edge value in every field of every kind. The reader of
//! records refuses them, or analysis and renderers end with words that are finite.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Number, Value};

use super::{FILES, fixture, terminal};
use crate::experiment::document::SessionDocument;
use crate::experiment::store;
use crate::statistics::{analyse, analyse_unpaired};

/// What may stand where a number does; not all fit every field, and then the reader refuses.
fn edges() -> Vec<Value> {
    let real = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    vec![
        Value::Null,
        Value::from(0),
        Value::from(1),
        Value::from(-1),
        Value::from(u32::MAX),
        Value::from(i64::MIN),
        Value::from(u64::MAX),
        real(-0.0),
        real(f64::MIN_POSITIVE),
        real(1e18),
        real(f64::MAX),
        real(f64::MIN),
    ]
}

/// For each path the edges that the reader takes there.
static TAKEN: LazyLock<BTreeMap<String, Vec<Value>>> = LazyLock::new(|| {
    let record = small();
    let mut all = BTreeSet::new();
    paths(&record, "", &mut all);
    all.into_iter()
        .map(|path| {
            let taken = edges().into_iter().filter(|edge| {
                let mut changed = record.clone();
                visit(&mut changed, "", &mut |at, value| {
                    if at == path {
                        *value = edge.clone();
                    }
                });
                store::parse_session(&serde_json::to_vec(&changed).unwrap(), "hostile").is_ok()
            });
            let taken = taken.collect();
            (path, taken)
        })
        .collect()
});

/// A small session with something in every list.
fn small() -> Value {
    let mut document = fixture::session(fixture::TINY);
    document.analysis = None;
    for run in &mut document.runs {
        run.timeline.truncate(3);
        run.histogram.truncate(4);
        run.exceedance.truncate(3);
        run.events.truncate(3);
        run.episodes.truncate(2);
    }
    serde_json::to_value(&document).unwrap()
}

/// The path of every number, places in lists left out.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| paths(value, &format!("{path}.{key}"), found));
        }
        Value::Array(list) => list.iter().for_each(|value| paths(value, path, found)),
        Value::Number(_) => {
            found.insert(path.to_owned());
        }
        _ => {}
    }
}

/// Calls `change` with each number below a path.
fn visit(value: &mut Value, path: &str, change: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Object(map) => {
            map.iter_mut().for_each(|(key, value)| visit(value, &format!("{path}.{key}"), change))
        }
        Value::Array(list) => list.iter_mut().for_each(|value| visit(value, path, change)),
        Value::Number(_) => change(path, value),
        _ => {}
    }
}

/// Whether a word of the text is no number, or one without an end.
fn unfit(text: &str) -> Option<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| matches!(*word, "NaN" | "inf" | "Infinity" | "nan"))
        .map(str::to_owned)
}

/// Reads the record as a command would, concludes and renders. Whether it was read.
fn judge(record: &Value, what: &str) -> bool {
    let text = serde_json::to_vec(record).unwrap();
    let Ok(stored) = store::parse_session(&text, "hostile") else { return false };
    let conclude: [fn(&SessionDocument) -> _; 2] = [analyse, analyse_unpaired];
    for conclude in conclude {
        let mut document = stored.document.clone();
        document.analysis = Some(conclude(&document));
        // JSON has no word for what is not finite, so it must not be asked to write it.
        let again = serde_json::to_string(&document.analysis).unwrap();
        assert_eq!(unfit(&again), None, "{what}: {again}");
        let mut out = Vec::new();
        terminal::render(&document, terminal::Style::default(), None, &mut out).unwrap();
        for (_, render) in FILES {
            render(&document, &mut out).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        if let Some(word) = unfit(&text) {
            let line = text.lines().find(|line| unfit(line).is_some()).unwrap_or_default();
            let line: String = line.chars().take(300).collect();
            panic!("{what}: '{word}' in: {line}");
        }
    }
    true
}

#[test]
fn an_edge_value_in_any_field_of_a_record_ends_in_an_error_or_in_finite_words() {
    let record = small();
    assert!(judge(&record, "as it is"));
    let mut all = BTreeSet::new();
    paths(&record, "", &mut all);
    assert!(all.len() > 100, "{all:?}");
    let mut read = 0;
    for path in &all {
        for edge in [
            Value::from(0),
            Value::from(u32::MAX),
            Value::from(u64::MAX),
            Number::from_f64(f64::MAX).into(),
        ] {
            let mut changed = record.clone();
            visit(&mut changed, "", &mut |at, value| {
                if at == path {
                    *value = edge.clone();
                }
            });
            read += usize::from(judge(&changed, &format!("{path} = {edge}")));
        }
    }
    // Not all is refused by the reader: the rest is for analysis and renderers.
    assert!(read > 2 * all.len(), "{read} of {}", 4 * all.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn edge_values_in_many_fields_at_once_end_in_an_error_or_in_finite_words(
        choices in proptest::collection::vec((0_usize..12, 0_usize..12), 64),
        primary in prop_oneof![
            Just("throughput"), Just("response_p99"), Just("response_mean"), Just("response_max"),
            Just("no_such_measure"),
        ],
    ) {
        let mut record = small();
        // A third of the kinds of fields, each place with a value of its own.
        let mut at_number = 0;
        visit(&mut record, "", &mut |at, value| {
            let kind = TAKEN.keys().position(|path| path == at).unwrap();
            let (is_changed, edge) = choices[kind % choices.len()];
            at_number += 1;
            let taken = &TAKEN[at];
            if is_changed < 4 && !taken.is_empty() {
                *value = taken[(edge + at_number * 5) % taken.len()].clone();
            }
        });
        record["protocol"]["primary"] = Value::from(primary);
        let was_read = judge(&record, "many");
        prop_assert!(was_read, "nothing was tried");
    }
}
