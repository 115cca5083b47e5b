//! The only way in which anything enters the page.
//!
//! [`Sink::put`] takes markup only as `&'static str`, which text from outside cannot be (nothing
//! here leaks or forges a static lifetime), numbers as numbers, and everything else as [`Text`] or
//! [`Lines`], which neutralise it. So whether the page is safe can be seen from the types, and a
//! test parses hostile pages besides.

use std::io::{self, Write};

use crate::report::text;

/// Longest text shown from one field; longer ones are cut with a mark, so that one field cannot
/// make the page large.
const CHARACTERS_MAX: usize = 4000;

/// Writes the page.
pub(super) struct Sink<'a> {
    out: &'a mut dyn Write,
}

impl<'a> Sink<'a> {
    pub(super) const fn new(out: &'a mut dyn Write) -> Self {
        Self { out }
    }

    pub(super) fn put(&mut self, piece: impl Piece) -> io::Result<()> {
        piece.write_to(self.out)
    }

    /// A writer whose every byte is escaped, for long values that are produced as a stream.
    pub(super) const fn escaping(&mut self) -> Escaping<'_> {
        Escaping { out: &mut *self.out }
    }
}

/// Writes pieces one after another: `put!(sink, "<p>", Text(name), "</p>")`.
macro_rules! put {
    ($sink:expr, $($piece:expr),+ $(,)?) => {{ $( $sink.put($piece)?; )+ }};
}
pub(super) use put;

/// What may enter.
pub(super) trait Piece {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Markup: known when the program is compiled.
impl Piece for &'static str {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.as_bytes())
    }
}

/// Text, as content or inside a quoted attribute; on one line.
pub(super) struct Text<S>(pub(super) S);

impl<S: AsRef<str>> Piece for Text<S> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        escape(&text::visible(self.0.as_ref(), CHARACTERS_MAX), out)
    }
}

/// Text of several lines, for `<pre>`.
pub(super) struct Lines<S>(pub(super) S);

impl<S: AsRef<str>> Piece for Lines<S> {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        for (place, line) in self.0.as_ref().lines().enumerate() {
            if place > 0 {
                out.write_all(b"\n")?;
            }
            escape(&text::visible(line, CHARACTERS_MAX), out)?;
        }
        Ok(())
    }
}

/// A coordinate or length in a drawing: at most one decimal, never an exponent, never NaN.
pub(super) struct At(pub(super) f64);

impl Piece for At {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let value = if self.0.is_finite() { self.0.clamp(-1e5, 1e5) } else { 0.0 };
        let tenths = (value * 10.0).round() / 10.0;
        // "-0" is a second spelling of nothing.
        let tenths = if tenths.abs() < 0.05 { 0.0 } else { tenths };
        write!(out, "{tenths}")
    }
}

/// A whole number.
pub(super) struct Whole(pub(super) u64);

impl Piece for Whole {
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", self.0)
    }
}

/// See [`Sink::escaping`].
pub(super) struct Escaping<'a> {
    out: &'a mut dyn Write,
}

impl Write for Escaping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut from = 0;
        for (place, byte) in bytes.iter().enumerate() {
            let entity: &[u8] = match byte {
                b'&' => b"&amp;",
                b'<' => b"&lt;",
                b'>' => b"&gt;",
                b'"' => b"&quot;",
                b'\'' => b"&#39;",
                // HTML forbids the other control characters even as references.
                0..=8 | 11..=31 | 127 => b"?",
                _ => continue,
            };
            self.out.write_all(bytes.get(from..place).unwrap_or_default())?;
            self.out.write_all(entity)?;
            from = place + 1;
        }
        self.out.write_all(bytes.get(from..).unwrap_or_default())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn escape(text: &str, out: &mut dyn Write) -> io::Result<()> {
    Escaping { out }.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::HOSTILE;

    fn written(piece: impl Piece) -> String {
        let mut out = Vec::new();
        piece.write_to(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_text_can_open_an_element_or_leave_an_attribute() {
        for hostile in HOSTILE {
            for shown in [written(Text(hostile)), written(Lines(hostile))] {
                assert!(!shown.contains(['<', '>', '"', '\'']), "{shown}");
                assert!(!shown.contains(['\0', '\u{1b}', '\u{202e}']), "{shown:?}");
            }
        }
        assert_eq!(written(Text("a<b & \"c\" 'd'")), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;");
        assert_eq!(written(Lines("a\nb\u{7}")), "a\nb\\u{7}");
    }

    #[test]
    fn coordinates_are_plain_decimals() {
        for (value, shown) in [
            (1.0, "1"),
            (1.26, "1.3"),
            (-0.01, "0"),
            (f64::NAN, "0"),
            (f64::INFINITY, "0"),
            (1e300, "100000"),
        ] {
            assert_eq!(written(At(value)), shown);
        }
    }
}
