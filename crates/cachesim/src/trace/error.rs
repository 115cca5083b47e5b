//! What is wrong with a trace, where, and what to do.

use std::fmt;

/// Where in a trace: of compressed ones, in the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The trace as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// Bytes from the start.
    Offset(u64),
}

/// A trace that cannot be read, or only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file as it was named, `-` for the standard input.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// What to do; may be empty.
    pub remedy: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        match self.place {
            Place::Whole => {}
            Place::Line(line) => write!(f, "line {line}: ")?,
            Place::Offset(offset) => write!(f, "byte {offset}: ")?,
        }
        f.write_str(&self.what)?;
        if !self.remedy.is_empty() {
            write!(f, ": {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for TraceError {}

/// An error before it is known in which file and at which place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) remedy: String,
    /// Where, if the decoder knows better than its caller.
    pub(crate) place: Option<Place>,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into(), place: None }
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    pub(crate) fn in_file(self, file: &str, place: Place) -> TraceError {
        TraceError {
            file: file.to_owned(),
            place: self.place.unwrap_or(place),
            what: self.what,
            remedy: self.remedy,
        }
    }
}

/// Bytes of a trace for an error: short, and nothing that could speak to a terminal.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let mut text = String::from("'");
    for byte in bytes.iter().take(LONGEST) {
        text.extend(byte.escape_ascii().map(char::from));
    }
    text.push_str(if bytes.len() > LONGEST { "...'" } else { "'" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_what_and_the_remedy() {
        let error = Fault::new("no number", "use --trace-format").in_file("a.csv", Place::Line(3));
        assert_eq!(error.to_string(), "a.csv: line 3: no number: use --trace-format");
        let error = Fault::new("cut short", "").at(Place::Offset(9)).in_file("-", Place::Whole);
        assert_eq!(error.to_string(), "-: byte 9: cut short");
    }

    #[test]
    fn a_trace_cannot_speak_to_the_terminal_through_an_error() {
        assert_eq!(shown(b"\x1b]0;x\x07"), "'\\x1b]0;x\\x07'");
        assert_eq!(shown(&[b'a'; 50]).len(), 45);
    }
}
