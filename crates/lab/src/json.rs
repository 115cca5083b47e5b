//! JSON whose text shows what it holds: characters that hide, rearrange or control text are written as
//! JSON's own `\uXXXX`, which every reader turns back.

use std::io;

use serde::Serialize;
use serde_json::Result;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use crate::text::is_deceptive;

/// Writes `value` on one line.
///
/// # Errors
/// What the writer refuses, or a value that JSON cannot hold.
pub(crate) fn write<W: io::Write>(out: W, value: &impl Serialize) -> Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Plain(CompactFormatter)))
}

/// Writes `value` indented.
///
/// # Errors
/// As [`write`].
pub(crate) fn write_pretty<W: io::Write>(out: W, value: &impl Serialize) -> Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Plain(PrettyFormatter::new())))
}

struct Plain<F>(F);

/// Hands on to the formatter within.
macro_rules! hand_on {
    ($($name:ident($($argument:ident: $kind:ty),*)),+ $(,)?) => {$(
        #[inline]
        fn $name<W: ?Sized + io::Write>(&mut self, out: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            self.0.$name(out $(, $argument)*)
        }
    )+};
}

impl<F: Formatter> Formatter for Plain<F> {
    hand_on!(
        begin_array(),
        end_array(),
        begin_array_value(first: bool),
        end_array_value(),
        begin_object(),
        end_object(),
        begin_object_key(first: bool),
        end_object_key(),
        begin_object_value(),
        end_object_value(),
    );

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_deceptive(*c)) {
            self.0.write_string_fragment(out, &rest[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_string_fragment(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: &serde_json::Value) -> (String, String) {
        let (mut line, mut indented) = (Vec::new(), Vec::new());
        write(&mut line, value).unwrap();
        write_pretty(&mut indented, value).unwrap();
        (String::from_utf8(line).unwrap(), String::from_utf8(indented).unwrap())
    }

    #[test]
    fn a_name_that_reverses_the_text_around_it_is_written_as_an_escape() {
        let value = serde_json::json!({"m\u{202e}aster": ["\u{e0041}", 1, "é\u{7f}\""]});
        assert_eq!(written(&value).0, r#"{"m\u202easter":["\udb40\udc41",1,"é\u007f\""]}"#);
    }

    proptest! {
        #[test]
        fn reading_gives_back_what_was_written(texts in proptest::collection::vec(".*", 0..6)) {
            let value = serde_json::json!({"texts": texts, "empty": [], "one": {"a": 1.5}});
            let (line, indented) = written(&value);
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&line).unwrap(), &value);
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&indented).unwrap(), &value);
            prop_assert!(!line.contains(is_deceptive));
            // Nothing else differs from what serde_json writes.
            if !serde_json::to_string(&value).unwrap().contains(is_deceptive) {
                prop_assert_eq!(indented, serde_json::to_string_pretty(&value).unwrap());
            }
        }
    }
}
