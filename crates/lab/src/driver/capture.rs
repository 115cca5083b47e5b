//! Rows into variables: `\gset` and `\aset`.

use std::sync::Arc;

use crate::target::RowSink;
use crate::workload::script::{Capture, Slot, Symbols, Value};

/// Collects what a statement's rows put into variables.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// Slots of the columns of the current result; `None` where no script mentions the variable.
    slots: Vec<Option<Slot>>,
    /// Values by column of the last row of the current result.
    last_row: Vec<Value>,
    rows_in_result: u64,
    /// What is to be assigned.
    assignments: Vec<(Slot, Value)>,
    /// The variable of a column, while it is looked up.
    name: String,
    /// Rows of each result.
    rows_by_result: Vec<u64>,
    /// Why a column of the current result can be no variable.
    wrong_name: Option<String>,
    /// The same of a result whose row would be assigned.
    refused: Option<String>,
}

/// A [`RowSink`] that knows how variables are named.
pub(super) struct Sink<'a> {
    pub(super) captured: &'a mut Captured,
    pub(super) symbols: &'a Symbols,
    pub(super) capture: &'a Capture,
}

impl Captured {
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.last_row.clear();
        self.rows_in_result = 0;
        self.assignments.clear();
        self.rows_by_result.clear();
        self.wrong_name = None;
        self.refused = None;
    }

    /// Puts the values into `variables`.
    ///
    /// # Errors
    /// For `\gset`, when the last result has not exactly one row; when a column's name is none that
    /// a variable can have.
    pub(super) fn assign(
        &mut self,
        capture: &Capture,
        variables: &mut [Value],
    ) -> Result<(), String> {
        if let Capture::GSet { .. } = capture {
            match self.rows_by_result.last() {
                Some(1) => {}
                Some(count) => return Err(format!("\\gset expects one row, got {count}")),
                None => return Err("\\gset expects a statement that returns a row".to_owned()),
            }
        }
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        for (slot, value) in self.assignments.drain(..) {
            if let Some(variable) = variables.get_mut(slot.0 as usize) {
                *variable = value;
            }
        }
        Ok(())
    }
}

impl RowSink for Sink<'_> {
    fn columns(&mut self, columns: &[&str]) {
        let (command, prefix) = match self.capture {
            Capture::GSet { prefix } => ("gset", prefix.as_str()),
            Capture::ASet { prefix } => ("aset", prefix.as_str()),
            Capture::None => return,
        };
        let captured = &mut *self.captured;
        captured.rows_in_result = 0;
        captured.wrong_name = None;
        captured.slots.clear();
        for column in columns {
            captured.name.clear();
            captured.name.push_str(prefix);
            captured.name.push_str(column);
            let slot = self.symbols.find(&captured.name);
            // What a script mentions is a name.
            if slot.is_none() && captured.wrong_name.is_none() && !is_variable(&captured.name) {
                let name = crate::text::excerpt(&captured.name, 60);
                captured.wrong_name = Some(format!(
                    "\\{command} cannot set a variable named \"{name}\"; name the column with AS, of \
                     letters, digits and _"
                ));
            }
            captured.slots.push(slot);
        }
    }

    fn row(&mut self, values: &[Option<&[u8]>]) {
        self.captured.rows_in_result += 1;
        self.captured.last_row.clear();
        self.captured.last_row.extend(values.iter().map(|value| value_of(*value)));
    }

    fn end_of_result(&mut self) {
        let captured = &mut *self.captured;
        captured.rows_by_result.push(captured.rows_in_result);
        if captured.rows_in_result > 0 {
            // Only the last result counts for \gset.
            if matches!(self.capture, Capture::GSet { .. }) {
                captured.assignments.clear();
                captured.refused = None;
            }
            captured.refused = captured.refused.take().or_else(|| captured.wrong_name.take());
            for (slot, value) in captured.slots.iter().zip(captured.last_row.drain(..)) {
                if let Some(slot) = slot {
                    captured.assignments.push((*slot, value));
                }
            }
        }
        captured.rows_in_result = 0;
    }
}

/// Whether a variable can be called so.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(crate::workload::is_name)
}

/// An integer where the text is exactly how one is written, so that it is sent again as it came.
fn value_of(text: Option<&[u8]>) -> Value {
    let Some(text) = text else { return Value::Null };
    let text = String::from_utf8_lossy(text);
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => Value::Int(number),
        _ => Value::Text(Arc::from(&*text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(capture: &Capture, results: &[&[&str]]) -> (Result<(), String>, Vec<Value>) {
        let mut symbols = Symbols::default();
        symbols.slot("other");
        symbols.slot("p_x");
        let mut captured = Captured::default();
        let mut sink = Sink { captured: &mut captured, symbols: &symbols, capture };
        for rows in results {
            sink.columns(&["x", "unmentioned"]);
            for row in *rows {
                sink.row(&[Some(row.as_bytes()), None]);
            }
            sink.end_of_result();
        }
        let mut variables = vec![Value::Bool(true), Value::Null];
        let result = captured.assign(capture, &mut variables);
        (result, variables)
    }

    #[test]
    fn a_column_that_can_be_no_variable_ends_the_script_instead_of_setting_nothing() {
        for (column, ok) in [("x y", false), ("?column?", false), ("", false), ("é_1", true)] {
            let mut captured = Captured::default();
            let mut symbols = Symbols::default();
            symbols.slot("other");
            for capture in [gset(), Capture::ASet { prefix: String::new() }] {
                captured.clear();
                let gset_prefixed = matches!(capture, Capture::GSet { .. }) && column.is_empty();
                let mut sink =
                    Sink { captured: &mut captured, symbols: &symbols, capture: &capture };
                sink.columns(&[column]);
                sink.row(&[Some(b"1")]);
                sink.end_of_result();
                let result = captured.assign(&capture, &mut [Value::Null]);
                assert_eq!(result.is_ok(), ok || gset_prefixed, "{column} {result:?}");
            }
        }
    }

    fn gset() -> Capture {
        Capture::GSet { prefix: "p_".to_owned() }
    }

    #[test]
    fn gset_takes_the_one_row_of_the_last_result() {
        let (result, variables) = run(&gset(), &[&["1"], &["42"]]);
        assert_eq!(result, Ok(()));
        assert_eq!(variables, [Value::Bool(true), Value::Int(42)]);
    }

    #[test]
    fn gset_refuses_no_row_and_two_rows() {
        assert!(run(&gset(), &[&[]]).0.is_err());
        assert!(run(&gset(), &[&["1", "2"]]).0.is_err());
        assert!(run(&gset(), &[]).0.is_err());
    }

    #[test]
    fn aset_takes_the_last_row_and_passes_over_empty_results() {
        let aset = Capture::ASet { prefix: "p_".to_owned() };
        let (result, variables) = run(&aset, &[&["1", "2"], &[]]);
        assert_eq!(result, Ok(()));
        assert_eq!(variables[1], Value::Int(2));
    }

    #[test]
    fn text_that_is_no_plain_integer_stays_as_it_came() {
        let (_, variables) = run(&gset(), &[&["007"]]);
        assert_eq!(variables[1], Value::Text(Arc::from("007")));
    }
}
