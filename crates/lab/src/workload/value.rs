//! Values as text, and text as values.

use std::io::Write as _;

use super::arithmetic::is_true;
use super::evaluate::Fault;
use super::expression::Scalar;
use super::script::Value;

/// What operators see of a variable. Text from `-D`, `\gset` and `\aset` is read when it is used.
///
/// # Errors
/// When the variable is unset or its text is no value.
pub(crate) fn scalar(value: &Value) -> Result<Scalar, Fault> {
    Ok(match value {
        Value::Unset => return Err(Fault::Undefined),
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Int(value) => Scalar::Int(*value),
        Value::Double(value) => Scalar::Double(*value),
        Value::Text(text) => read(text)?,
    })
}

/// Whether `value` counts as true in `\if`: true and numbers other than zero do, NULL does not.
///
/// # Errors
/// When it is unset, or text that is no value.
pub fn truth(value: &Value) -> Result<bool, Fault> {
    Ok(is_true(scalar(value)?))
}

/// How long `\sleep :variable` pauses, in its unit. As in pgbench, a negative time is no pause and what
/// follows the digits does not count.
///
/// # Errors
/// When the value does not begin with a number.
pub fn sleep_units(value: &Value) -> Result<u64, String> {
    let text = match value {
        Value::Int(units) => return Ok(u64::try_from(*units).unwrap_or(0)),
        Value::Double(units) => return Ok(units.trunc().max(0.0) as u64),
        Value::Text(text) => text.trim_start(),
        Value::Unset => return Err("\\sleep: the variable is undefined".to_owned()),
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
    };
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if len == 0 {
        return Err(format!(
            "\\sleep: '{}' is not a time, a whole number is needed",
            crate::text::excerpt(text, 40)
        ));
    }
    let units = digits.get(..len).and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
    Ok(if is_negative { 0 } else { units })
}

/// Reads text as pgbench's `makeVariableValue` does.
fn read(text: &str) -> Result<Scalar, Fault> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    // Prefixes are as good as the words, but "o" could be on or off.
    let begins = |word: &str| {
        !text.is_empty()
            && word.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text))
    };
    let shown = || crate::text::excerpt(text, 40);
    if is("null") {
        return Ok(Scalar::Null);
    }
    if begins("true") || begins("yes") || is("on") {
        return Ok(Scalar::Bool(true));
    }
    if begins("false") || begins("no") || is("off") || is("of") {
        return Ok(Scalar::Bool(false));
    }
    let number = text.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // What looks like an integer is one, and never a double.
        return match number.parse() {
            Ok(value) => Ok(Scalar::Int(value)),
            Err(_) => Err(Fault::OutOfRange(shown(), "bigint")),
        };
    }
    match number.parse::<f64>() {
        Ok(value) if is_in_range(value, digits) => Ok(Scalar::Double(value)),
        Ok(_) => Err(Fault::OutOfRange(shown(), "double")),
        Err(_) => Err(Fault::Malformed(shown())),
    }
}

/// Whether a number written as `digits` is a normal double: C's `strtod` complains of what is too
/// large, and of what is too small for full precision.
pub(crate) fn is_in_range(value: f64, digits: &str) -> bool {
    let names_infinity = digits.starts_with(['i', 'I']);
    let mantissa = digits.split(['e', 'E']).next().unwrap_or(digits);
    let is_zero = !mantissa.contains(|c: char| ('1'..='9').contains(&c));
    value.is_nan()
        || value.is_normal()
        || (value.is_infinite() && names_infinity)
        || (value == 0.0 && is_zero)
}

/// As `debug(...)` prints it.
pub(crate) fn shown(value: Scalar) -> String {
    match value {
        Scalar::Null => "null".to_owned(),
        Scalar::Bool(value) => format!("boolean {value}"),
        Scalar::Int(value) => format!("int {value}"),
        Scalar::Double(value) => {
            let mut text = b"double ".to_vec();
            append_double(value, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
    }
}

/// Appends a double as pgbench prints it and pastes it into SQL: `%.15g` of PostgreSQL's own `printf`
/// (`src/port/snprintf.c`), which knows NaN without a sign and Infinity.
pub(crate) fn append_double(value: f64, output: &mut Vec<u8>) {
    const DIGITS: i32 = 15;
    if value.is_nan() {
        return output.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return output.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    let scientific = format!("{value:.14e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| -> String {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    // Writing to a Vec cannot fail.
    let _ = if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        write!(output, "{}", trimmed(&format!("{value:.decimals$}")))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(output, "{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_pgbench_reads_it() {
        for (text, expected) in [
            ("12", Ok(Scalar::Int(12))),
            (" -12", Ok(Scalar::Int(-12))),
            ("+7", Ok(Scalar::Int(7))),
            ("007", Ok(Scalar::Int(7))),
            ("1.5", Ok(Scalar::Double(1.5))),
            ("1e3", Ok(Scalar::Double(1000.0))),
            ("inf", Ok(Scalar::Double(f64::INFINITY))),
            ("0e0", Ok(Scalar::Double(0.0))),
            ("NULL", Ok(Scalar::Null)),
            ("t", Ok(Scalar::Bool(true))),
            ("YES", Ok(Scalar::Bool(true))),
            ("on", Ok(Scalar::Bool(true))),
            ("of", Ok(Scalar::Bool(false))),
            ("n", Ok(Scalar::Bool(false))),
            ("o", Err(Fault::Malformed("o".to_owned()))),
            ("", Err(Fault::Malformed(String::new()))),
            ("12 ", Err(Fault::Malformed("12 ".to_owned()))),
            ("truely", Err(Fault::Malformed("truely".to_owned()))),
            (
                "9223372036854775808",
                Err(Fault::OutOfRange("9223372036854775808".to_owned(), "bigint")),
            ),
            ("1e999", Err(Fault::OutOfRange("1e999".to_owned(), "double"))),
            ("1e-400", Err(Fault::OutOfRange("1e-400".to_owned(), "double"))),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_pause_is_as_long_as_its_variable_says() {
        for (value, expected) in [
            (Value::Int(5), Some(5)),
            (Value::Int(-5), Some(0)),
            (Value::Double(1.9), Some(1)),
            (Value::Double(f64::NAN), Some(0)),
            (Value::Text("10ms".into()), Some(10)),
            (Value::Text("-3".into()), Some(0)),
            (Value::Text("99999999999999999999".into()), Some(u64::MAX)),
            (Value::Text("x".into()), None),
            (Value::Text("é".into()), None),
            (Value::Null, None),
            (Value::Unset, None),
            (Value::Bool(true), None),
        ] {
            assert_eq!(sleep_units(&value).ok(), expected, "{value:?}");
        }
    }

    /// Expected texts from pgbench 15.18.
    #[test]
    fn doubles_are_written_as_pgbench_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e14, "100000000000000"),
            (999_999_999_999_999.9, "1e+15"),
            (0.000_012_345_678_901_234_56, "1.23456789012346e-05"),
            (0.0001, "0.0001"),
            (-1e-300, "-1e-300"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            let mut output = Vec::new();
            append_double(value, &mut output);
            assert_eq!(String::from_utf8(output).unwrap(), expected);
        }
    }
}
