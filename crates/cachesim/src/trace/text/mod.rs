//! Text formats, read line by line, and what they share.

mod arc;
mod columns;
mod ids;
mod msr;
mod spc;
mod twitter;

pub(super) use arc::ArcLines;
pub(super) use columns::{CsvLines, is_known_header};
pub(super) use ids::IdLines;
pub(super) use msr::MsrLines;
pub(super) use spc::SpcLines;
pub(super) use twitter::TwitterLines;

use std::borrow::Cow;

use super::error::{Fault, shown};
use super::reference::{Access, Reference};

/// Decodes a trace's lines.
pub(super) trait Lines {
    /// Appends what `line` says. Lines come in order, from the first.
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault>;

    /// Names of classes so far.
    fn classes(&self) -> &[String] {
        &[]
    }
}

/// A number in decimal, of digits alone.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A time in units of `unit_ns` nanoseconds, with or without a fraction, in microseconds.
pub(super) fn time_us(text: &[u8], unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &text[text.len()..]),
    };
    let mut ns = u128::from(decimal(whole)?) * u128::from(unit_ns);
    let mut weight = u128::from(unit_ns);
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        weight /= 10;
        ns += u128::from(digit) * weight;
    }
    u64::try_from(ns / 1000).ok()
}

/// Fields of a comma-separated line, without blanks around them. A field in double quotes may hold
/// commas, and quotes doubled; line ends may not be within fields.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?.trim_ascii_start();
        if text.first() != Some(&b'"') {
            let end = memchr::memchr(b',', text);
            rest = end.map(|end| &text[end + 1..]);
            return Some(Cow::Borrowed(text[..end.unwrap_or(text.len())].trim_ascii_end()));
        }
        let mut field = Vec::new();
        let mut at = 1;
        while let Some(byte) = text.get(at) {
            at += 1;
            if *byte == b'"' {
                if text.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
            field.push(*byte);
        }
        rest = memchr::memchr(b',', &text[at..]).map(|end| &text[at + end + 1..]);
        Some(Cow::Owned(field))
    })
}

/// The number in a field, or what is wrong.
pub(super) fn number(field: &[u8], what: &str, remedy: &str) -> Result<u64, Fault> {
    decimal(field).ok_or_else(|| {
        let reason = if !field.is_empty() && field.iter().all(u8::is_ascii_digit) {
            "is more than 64 bits hold"
        } else {
            "is no whole number"
        };
        Fault::new(format!("the {what} {} {reason}", shown(field)), remedy)
    })
}

/// What an operation's name does to a page: words of disk and key-value traces, letters, and SCSI's
/// operation codes in hexadecimal.
pub(super) fn access(name: &[u8]) -> Option<Access> {
    const READS: [&str; 11] =
        ["r", "read", "get", "gets", "rs", "28", "88", "a8", "08", "0x28", "x"];
    const WRITES: [&str; 18] = [
        "w", "write", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr",
        "decr", "ws", "2a", "8a", "aa", "0a", "0x2a", "update",
    ];
    let is_one_of =
        |names: &[&str]| names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    if is_one_of(&READS) {
        Some(Access::Read)
    } else if is_one_of(&WRITES) {
        Some(Access::Write)
    } else if is_one_of(&["d", "dirtied"]) {
        Some(Access::Dirtied)
    } else {
        None
    }
}

/// The access of an operation's name, or what is wrong.
pub(super) fn known_access(name: &[u8]) -> Result<Access, Fault> {
    access(name).ok_or_else(|| {
        Fault::new(
            format!("the operation {} is unknown", shown(name)),
            "known are R, W, read, write, get, set and the like, D for dirtied, and SCSI codes \
             such as 28 and 2a; leave the column out with --columns if it is something else",
        )
    })
}

/// A text key as a page number: FNV-1a, then mixed so that neighbouring texts differ in all bits. Of a
/// billion keys, two share a number with a probability of 3%.
pub(super) fn key_number(key: &[u8]) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    }
    crate::trace::mix(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_commas_within_quotes() {
        let cases: [(&str, &[&str]); 6] = [
            ("a, b ,c", &["a", "b", "c"]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"a\"\"b\" , c", &["a\"b", "c"]),
            ("", &[""]),
            (",", &["", ""]),
            ("\"open", &["open"]),
        ];
        for (line, expected) in cases {
            let found: Vec<String> =
                fields(line.as_bytes()).map(|f| String::from_utf8_lossy(&f).into_owned()).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "18446744073709551616", "-1", "+1", "1.0", "0x1", " 1"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn times_keep_their_microseconds() {
        assert_eq!(time_us(b"0.026214", 1_000_000_000), Some(26_214));
        assert_eq!(time_us(b"128166372003061629", 100), Some(12_816_637_200_306_162));
        assert_eq!(time_us(b"7", 1_000_000), Some(7_000));
        assert_eq!(time_us(b"1.2.3", 1), None);
        assert_eq!(time_us(b"18446744073709551615", 1_000_000_000), None);
    }
}
