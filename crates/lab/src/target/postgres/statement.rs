//! The messages of a workload's statements, written as far as they can be before the run.
//!
//! What each mode sends is what pgbench sends through libpq, so that the server does the same work
//! (PostgreSQL `src/bin/pgbench/pgbench.c`, `sendCommand`; `fe-exec.c`, `PQsendQueryGuts`):
//! simple: Query. Extended: Parse, Bind, Describe, Execute, Sync. Prepared: Bind, Describe, Execute,
//! Sync, and before the first use in a session a Parse under the name `P_0`, `P_1` ...

use super::protocol::write;
use crate::target::{QueryMode, TargetError};
use crate::workload::script::{Piece, Statement, StatementId, Symbols, Value, Workload};
use crate::workload::value::append_double;

/// The most parameters that a Bind can carry.
const LARGEST_PARAMETER_COUNT: usize = u16::MAX as usize;

/// The prepared messages of all statements, shared by all sessions of a run.
#[derive(Debug)]
pub(super) struct Messages {
    mode: QueryMode,
    templates: Vec<Template>,
}

/// One statement's messages.
#[derive(Debug)]
struct Template {
    /// Close (of a statement that may or may not exist), whole; prepared mode only.
    close: Box<[u8]>,
    /// Parse, whole.
    parse: Box<[u8]>,
    /// Bind up to the first value, its length still open.
    bind: Box<[u8]>,
}

impl Messages {
    /// Prepares the messages of `workload` for `mode`.
    ///
    /// # Errors
    /// When a statement cannot be sent: it holds a NUL, or too many variables.
    pub(super) fn new(workload: &Workload, mode: QueryMode) -> Result<Self, TargetError> {
        for statement in &workload.statements {
            check(statement)?;
        }
        let templates = match mode {
            QueryMode::Simple => Vec::new(),
            QueryMode::Extended | QueryMode::Prepared => {
                let statements = workload.statements.iter().enumerate();
                statements.map(|(i, statement)| Template::new(i, statement, mode)).collect()
            }
        };
        Ok(Self { mode, templates })
    }

    pub(super) const fn mode(&self) -> QueryMode {
        self.mode
    }

    /// Writes a Query with the variables' values in their places.
    pub(super) fn write_query(
        &self,
        statement: &Statement,
        symbols: &Symbols,
        variables: &[Value],
        output: &mut Vec<u8>,
    ) -> Result<(), TargetError> {
        let mut is_sound = true;
        write::message(output, b'Q', |output| {
            for piece in &statement.pieces {
                match piece {
                    Piece::Text(text) => output.extend_from_slice(text.as_bytes()),
                    Piece::Variable(slot) => match variables.get(slot.0 as usize) {
                        // As pgbench: what was never set stays as it is written.
                        None | Some(Value::Unset) => {
                            output.push(b':');
                            output.extend_from_slice(symbols.name(*slot).as_bytes());
                        }
                        Some(Value::Null) => output.extend_from_slice(b"NULL"),
                        Some(value) => is_sound &= append_text(value, output),
                    },
                }
            }
            output.push(0);
        });
        if is_sound { Ok(()) } else { Err(nul_in_variable(statement)) }
    }

    /// Writes a Close of the statement's name, should there be such a statement.
    pub(super) fn write_close(&self, statement: StatementId, output: &mut Vec<u8>) {
        if let Some(template) = self.templates.get(statement.0 as usize) {
            output.extend_from_slice(&template.close);
        }
    }

    /// Writes the statement's Parse.
    pub(super) fn write_parse(&self, statement: StatementId, output: &mut Vec<u8>) {
        if let Some(template) = self.templates.get(statement.0 as usize) {
            output.extend_from_slice(&template.parse);
        }
    }

    /// Writes Bind with the variables' values, Describe and Execute.
    #[inline]
    pub(super) fn write_execution(
        &self,
        id: StatementId,
        statement: &Statement,
        variables: &[Value],
        output: &mut Vec<u8>,
    ) -> Result<(), TargetError> {
        let Some(template) = self.templates.get(id.0 as usize) else {
            return Err(unknown(id));
        };
        let start = output.len();
        let mut is_sound = true;
        output.extend_from_slice(&template.bind);
        for slot in &statement.parameters {
            let place = output.len();
            // The length of NULL, and the place of every other.
            output.extend_from_slice(&[0xff; 4]);
            match variables.get(slot.0 as usize) {
                None | Some(Value::Unset | Value::Null) => {}
                Some(value) => {
                    is_sound &= append_text(value, output);
                    write::set_value_length(output, place);
                }
            }
        }
        // No formats of results: all text.
        output.extend_from_slice(&[0, 0]);
        write::set_length(output, start + 1);
        output.extend_from_slice(write::DESCRIBE_AND_EXECUTE);
        if is_sound { Ok(()) } else { Err(nul_in_variable(statement)) }
    }
}

impl Template {
    fn new(index: usize, statement: &Statement, mode: QueryMode) -> Self {
        let name = match mode {
            QueryMode::Prepared => format!("P_{index}"),
            QueryMode::Simple | QueryMode::Extended => String::new(),
        };
        let (mut close, mut parse, mut bind) = (Vec::new(), Vec::new(), Vec::new());
        write::message(&mut close, b'C', |output| {
            output.push(b'S');
            write::c_string(output, &name);
        });
        write::parse(&mut parse, &name, &statement.text);
        bind.extend_from_slice(&[b'B', 0, 0, 0, 0, 0]);
        write::c_string(&mut bind, &name);
        bind.extend_from_slice(&[0, 0]);
        // `check` has refused larger counts.
        let count = u16::try_from(statement.parameters.len()).unwrap_or(u16::MAX);
        bind.extend_from_slice(&count.to_be_bytes());
        Self { close: close.into(), parse: parse.into(), bind: bind.into() }
    }
}

/// A statement that the workload does not have.
pub(super) fn unknown(id: StatementId) -> TargetError {
    TargetError::Configuration(format!("the workload has no statement {}", id.0))
}

/// Appends the value as the text that SQL reads; false where it holds a NUL.
#[inline]
fn append_text(value: &Value, output: &mut Vec<u8>) -> bool {
    match value {
        // The callers know what to write for these.
        Value::Unset | Value::Null => {}
        Value::Bool(true) => output.extend_from_slice(b"true"),
        Value::Bool(false) => output.extend_from_slice(b"false"),
        Value::Int(value) => append_int(*value, output),
        Value::Double(value) => append_double(*value, output),
        Value::Text(text) => {
            output.extend_from_slice(text.as_bytes());
            return memchr::memchr(0, text.as_bytes()).is_none();
        }
    }
    true
}

#[inline]
fn append_int(value: i64, output: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        // A digit fits into a byte.
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        output.push(b'-');
    }
    output.extend_from_slice(&digits[start..]);
}

fn check(statement: &Statement) -> Result<(), TargetError> {
    let holds_nul = |text: &str| memchr::memchr(0, text.as_bytes()).is_some();
    let is_text_bad = holds_nul(&statement.text)
        || statement
            .pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Text(text) if holds_nul(text)));
    if is_text_bad {
        return Err(TargetError::Configuration(format!(
            "line {}: the statement holds a NUL character, which no server can accept; remove it",
            statement.line
        )));
    }
    if statement.parameters.len() > LARGEST_PARAMETER_COUNT {
        return Err(TargetError::Configuration(format!(
            "line {}: the statement has {} variables; the protocol carries at most \
             {LARGEST_PARAMETER_COUNT}",
            statement.line,
            statement.parameters.len()
        )));
    }
    Ok(())
}

#[cold]
fn nul_in_variable(statement: &Statement) -> TargetError {
    TargetError::Configuration(format!(
        "line {}: a variable's value holds a NUL character, which no server can accept",
        statement.line
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::workload::script::Slot;

    fn text(value: &Value) -> String {
        let mut output = Vec::new();
        append_text(value, &mut output);
        String::from_utf8(output).unwrap()
    }

    fn statement() -> Statement {
        Statement {
            pieces: vec![Piece::Text("select ".to_owned()), Piece::Variable(Slot(0))],
            text: "select $1".to_owned(),
            parameters: vec![Slot(0)],
            line: 1,
        }
    }

    fn workload(statement: Statement) -> Workload {
        let mut symbols = Symbols::default();
        symbols.slot("x");
        Workload { statements: vec![statement], symbols, ..Workload::default() }
    }

    /// Expected values from C's printf("%.15g").
    #[test]
    fn doubles_are_written_as_pgbench_writes_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (100_000.0, "100000"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1_234_567_890_123_456.0, "1.23456789012346e+15"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (1e100, "1e+100"),
            (f64::MAX, "1.79769313486232e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072e-308"),
            (0.999_999_999_999_999_9, "1"),
            (9.999_999_999_999_999e14, "1e+15"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(&Value::Double(value)), expected);
        }
    }

    #[test]
    fn a_simple_query_holds_the_values_in_their_places() {
        let workload = workload(statement());
        let messages = Messages::new(&workload, QueryMode::Simple).unwrap();
        for (value, sql) in [
            (Value::Int(-7), "select -7"),
            (Value::Null, "select NULL"),
            (Value::Unset, "select :x"),
            (Value::Bool(true), "select true"),
            (Value::Text(Arc::from("x y")), "select x y"),
        ] {
            let mut output = Vec::new();
            messages
                .write_query(&workload.statements[0], &workload.symbols, &[value], &mut output)
                .unwrap();
            let length = u32::try_from(sql.len() + 5).unwrap().to_be_bytes();
            assert_eq!(output, [b"Q", &length[..], sql.as_bytes(), b"\0"].concat());
        }
    }

    #[test]
    fn a_nul_is_refused_instead_of_cutting_the_statement_short() {
        let mut bad = statement();
        bad.pieces[0] = Piece::Text("sel\0ect".to_owned());
        assert!(Messages::new(&workload(bad), QueryMode::Simple).is_err());
        let workload = workload(statement());
        let hostile = [Value::Text(Arc::from("1\0; drop table x"))];
        for mode in [QueryMode::Simple, QueryMode::Prepared] {
            let messages = Messages::new(&workload, mode).unwrap();
            let mut output = Vec::new();
            let result = match mode {
                QueryMode::Simple => messages.write_query(
                    &workload.statements[0],
                    &workload.symbols,
                    &hostile,
                    &mut output,
                ),
                _ => messages.write_execution(
                    StatementId(0),
                    &workload.statements[0],
                    &hostile,
                    &mut output,
                ),
            };
            assert!(result.is_err());
        }
    }

    #[test]
    fn a_bind_carries_values_lengths_and_null() {
        let mut both = statement();
        both.parameters = vec![Slot(0), Slot(1)];
        let workload = workload(both);
        let messages = Messages::new(&workload, QueryMode::Prepared).unwrap();
        let mut output = Vec::new();
        messages
            .write_execution(
                StatementId(0),
                &workload.statements[0],
                &[Value::Int(42), Value::Null],
                &mut output,
            )
            .unwrap();
        let body = b"\0P_0\0\0\0\0\x02\0\0\0\x0242\xff\xff\xff\xff\0\0";
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        let expected = [b"B", &length[..], body, write::DESCRIBE_PORTAL, write::EXECUTE].concat();
        assert_eq!(output, expected);
    }

    proptest! {
        #[test]
        fn integers_are_written_in_decimal(value in any::<i64>()) {
            prop_assert_eq!(text(&Value::Int(value)), value.to_string());
        }

        #[test]
        fn a_double_is_read_back_within_fifteen_digits(value in any::<f64>()) {
            prop_assume!(value.is_finite());
            let back: f64 = text(&Value::Double(value)).parse().unwrap();
            prop_assert!((back - value).abs() <= value.abs() * 1e-14 || back.is_infinite());
        }
    }
}
