//! Messages on the wire (protocol 3.0): where one ends, what an error says, how requests are
//! written. Source: PostgreSQL manual, chapter "Frontend/Backend Protocol".
//!
//! # Rules
//!
//! 1. A length that the server announces is never a reason to reserve memory: buffers grow with
//!    what has arrived.
//! 2. Nothing here trusts the other side: every read is checked, every text is made safe.

use crate::target::{StatementError, TransactionStatus};
use crate::text;

/// Type byte and length.
pub(super) const HEADER_BYTES: usize = 5;

/// What an input buffer holds at first.
const INITIAL_BUFFER_BYTES: usize = 16 * 1024;

/// Types of messages that the server sends.
pub(super) mod tag {
    pub(in crate::target::postgres) const AUTHENTICATION: u8 = b'R';
    pub(in crate::target::postgres) const BACKEND_KEY: u8 = b'K';
    pub(in crate::target::postgres) const BIND_COMPLETE: u8 = b'2';
    pub(in crate::target::postgres) const CLOSE_COMPLETE: u8 = b'3';
    pub(in crate::target::postgres) const COMMAND_COMPLETE: u8 = b'C';
    pub(in crate::target::postgres) const COPY_DATA: u8 = b'd';
    pub(in crate::target::postgres) const COPY_DONE: u8 = b'c';
    pub(in crate::target::postgres) const COPY_IN: u8 = b'G';
    pub(in crate::target::postgres) const COPY_OUT: u8 = b'H';
    pub(in crate::target::postgres) const DATA_ROW: u8 = b'D';
    pub(in crate::target::postgres) const EMPTY_QUERY: u8 = b'I';
    pub(in crate::target::postgres) const ERROR: u8 = b'E';
    pub(in crate::target::postgres) const NEGOTIATE_VERSION: u8 = b'v';
    pub(in crate::target::postgres) const NO_DATA: u8 = b'n';
    pub(in crate::target::postgres) const NOTICE: u8 = b'N';
    pub(in crate::target::postgres) const NOTIFICATION: u8 = b'A';
    pub(in crate::target::postgres) const PARAMETER_DESCRIPTION: u8 = b't';
    pub(in crate::target::postgres) const PARAMETER_STATUS: u8 = b'S';
    pub(in crate::target::postgres) const PARSE_COMPLETE: u8 = b'1';
    pub(in crate::target::postgres) const PORTAL_SUSPENDED: u8 = b's';
    pub(in crate::target::postgres) const READY: u8 = b'Z';
    pub(in crate::target::postgres) const ROW_DESCRIPTION: u8 = b'T';
}

/// The other side broke the protocol; the text says how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) String);

impl Malformed {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// A message of a type that has no place here.
    pub(super) fn unexpected(tag: u8, when: &str) -> Self {
        Self(format!("unexpected message of type {} {when}", shown_tag(tag)))
    }
}

/// The beginning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tag: u8,
    /// Bytes of the whole message, the header included.
    pub(super) total: usize,
}

/// Reads the header at the beginning of `bytes`; `None` while it is not complete.
#[inline]
pub(super) fn header(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]);
    // The length counts itself. More than 1 GiB is beyond what any server can send (MaxAllocSize).
    if !(4..=0x4000_0000).contains(&length) {
        return Err(Malformed(format!(
            "a message of type {} announces a length of {length} bytes",
            shown_tag(tag)
        )));
    }
    Ok(Some(Header { tag, total: length as usize + 1 }))
}

/// Bytes that have arrived and are not yet consumed.
#[derive(Debug)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; INITIAL_BUFFER_BYTES], start: 0, end: 0 }
    }

    /// With room for so much at first, for tests of long answers.
    #[cfg(test)]
    pub(super) fn of_capacity(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], start: 0, end: 0 }
    }

    /// What has arrived.
    #[inline]
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets the first `count` bytes.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Room for more, never empty; the buffer doubles only when it is full (rule 1).
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            self.make_room();
        }
        &mut self.bytes[self.end..]
    }

    /// `count` bytes of the room were filled.
    #[inline]
    pub(super) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    #[cold]
    fn make_room(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }
}

/// Reads the fields of a message's body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn int16(&mut self) -> Result<u16, Malformed> {
        let (value, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*value))
    }

    pub(super) fn int32(&mut self) -> Result<i32, Malformed> {
        let (value, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*value))
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (value, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(value)
    }

    /// Bytes up to a NUL.
    pub(super) fn c_string(&mut self) -> Result<&'a [u8], Malformed> {
        let end = memchr::memchr(0, self.0)
            .ok_or_else(|| Malformed::new("a text in a message does not end"))?;
        let value = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(value)
    }

    /// The next value of a row; `None` is NULL.
    #[inline]
    pub(super) fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match usize::try_from(self.int32()?) {
            Ok(length) => self.bytes(length).map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// The names of a result's columns, from the body of a RowDescription.
pub(super) fn column_names(body: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut body = Body(body);
    let count = body.int16()?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(String::from_utf8_lossy(body.c_string()?).into_owned());
        // Table, column, type, type's size, modifier, format.
        body.bytes(4 + 2 + 4 + 2 + 4 + 2)?;
    }
    Ok(names)
}

/// Reads the body of an ErrorResponse or NoticeResponse.
pub(super) fn error_fields(body: &[u8]) -> Result<StatementError, Malformed> {
    let mut body = Body(body);
    let (mut localised_severity, mut severity) = (None, None);
    let (mut sqlstate, mut message, mut detail, mut hint) = (None, None, None, None);
    loop {
        let code = body.byte()?;
        if code == 0 {
            break;
        }
        let field = String::from_utf8_lossy(body.c_string()?);
        let text = text::terminal_lines(&field).into_owned();
        match code {
            b'S' => localised_severity = Some(text),
            b'V' => severity = Some(text),
            b'C' => sqlstate = Some(text),
            b'M' => message = Some(text),
            b'D' => detail = Some(text),
            b'H' => hint = Some(text),
            _ => {}
        }
    }
    Ok(StatementError {
        severity: severity.or(localised_severity).unwrap_or_else(|| "ERROR".to_owned()),
        sqlstate: sqlstate.unwrap_or_else(|| "XX000".to_owned()),
        message: message.unwrap_or_else(|| "the server gave no message".to_owned()),
        detail,
        hint,
    })
}

/// Reads the body of a ReadyForQuery.
#[inline]
pub(super) fn transaction_status(body: &[u8]) -> Result<TransactionStatus, Malformed> {
    match body {
        b"I" => Ok(TransactionStatus::Idle),
        b"T" => Ok(TransactionStatus::InBlock),
        b"E" => Ok(TransactionStatus::Failed),
        _ => Err(Malformed::new("ReadyForQuery without a transaction status")),
    }
}

/// A type byte as shown to people.
pub(super) fn shown_tag(tag: u8) -> String {
    if tag.is_ascii_graphic() { format!("'{}'", char::from(tag)) } else { format!("0x{tag:02x}") }
}

fn too_short() -> Malformed {
    Malformed::new("a message is shorter than its content")
}

/// Writes messages to the server into a buffer that is kept.
pub(super) mod write {
    /// A message of type `tag` whose body `content` writes; its length is put in afterwards.
    #[inline]
    pub(in crate::target::postgres) fn message(
        output: &mut Vec<u8>,
        tag: u8,
        content: impl FnOnce(&mut Vec<u8>),
    ) {
        output.push(tag);
        let start = output.len();
        output.extend_from_slice(&[0; 4]);
        content(output);
        set_length(output, start);
    }

    /// Stores the length of what was written since `start`, itself included, at `start`.
    #[inline]
    pub(in crate::target::postgres) fn set_length(output: &mut [u8], start: usize) {
        // Statements and values are far below 4 GiB: scripts are limited to megabytes.
        let length = u32::try_from(output.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = output.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Stores the length of the value that was written behind `start`, at `start`; unlike a
    /// message's, it does not count itself.
    #[inline]
    pub(in crate::target::postgres) fn set_value_length(output: &mut [u8], start: usize) {
        let length = u32::try_from(output.len() - start - 4).unwrap_or(u32::MAX);
        if let Some(place) = output.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// A text and its NUL.
    pub(in crate::target::postgres) fn c_string(output: &mut Vec<u8>, text: &str) {
        output.extend_from_slice(text.as_bytes());
        output.push(0);
    }

    /// A parameter's value: its length and its text; `None` is NULL.
    #[inline]
    pub(in crate::target::postgres) fn value(output: &mut Vec<u8>, value: Option<&[u8]>) {
        match value {
            None => output.extend_from_slice(&[0xff; 4]),
            Some(bytes) => {
                let start = output.len();
                output.extend_from_slice(&[0; 4]);
                output.extend_from_slice(bytes);
                set_value_length(output, start);
            }
        }
    }

    pub(in crate::target::postgres) fn query(output: &mut Vec<u8>, sql: &str) {
        message(output, b'Q', |output| c_string(output, sql));
    }

    /// Parse, with types left to the server.
    pub(in crate::target::postgres) fn parse(output: &mut Vec<u8>, name: &str, sql: &str) {
        message(output, b'P', |output| {
            c_string(output, name);
            c_string(output, sql);
            output.extend_from_slice(&[0, 0]);
        });
    }

    /// Describe of the unnamed portal.
    pub(in crate::target::postgres) const DESCRIBE_PORTAL: &[u8] = b"D\0\0\0\x06P\0";
    /// Execute of the unnamed portal, all rows.
    pub(in crate::target::postgres) const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";
    /// The two above in one piece.
    pub(in crate::target::postgres) const DESCRIBE_AND_EXECUTE: &[u8] =
        b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0";
    pub(in crate::target::postgres) const SYNC: &[u8] = b"S\0\0\0\x04";
    pub(in crate::target::postgres) const COPY_DONE: &[u8] = b"c\0\0\0\x04";
    pub(in crate::target::postgres) const TERMINATE: &[u8] = b"X\0\0\0\x04";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_that_no_server_can_mean_are_refused() {
        assert_eq!(header(b"Z\0\0\0\x05"), Ok(Some(Header { tag: b'Z', total: 6 })));
        assert_eq!(header(b"Z\0\0\0"), Ok(None));
        for bytes in [&b"Z\0\0\0\x03"[..], b"Z\xff\xff\xff\xff", b"D\x40\0\0\x01", b"\0\0\0\0\0"] {
            assert!(header(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_announced_length_reserves_no_memory() {
        let mut input = Input::new();
        let announced = b"D\x3f\xff\xff\xff";
        input.room()[..5].copy_from_slice(announced);
        input.filled(5);
        assert!(header(input.pending()).unwrap().unwrap().total > 1_000_000_000);
        let _ = input.room();
        assert_eq!(input.bytes.len(), INITIAL_BUFFER_BYTES);
    }

    #[test]
    fn error_fields_are_read_and_made_safe() {
        let body = b"SFEHLER\0VERROR\0C40001\0Mcould not\x1b[2J serialize\0Dwhy\0Htry\0F\x66\0\0";
        let error = error_fields(body).unwrap();
        assert_eq!(error.severity, "ERROR");
        assert_eq!(error.message, "could not\\x1b[2J serialize");
        assert_eq!((error.detail.as_deref(), error.hint.as_deref()), (Some("why"), Some("try")));
        assert!(error.is_retryable());
        assert!(error_fields(b"SERROR\0").is_err());
        assert!(error_fields(b"SERROR").is_err());
        assert_eq!(error_fields(b"\0").unwrap().sqlstate, "XX000");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_break_a_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = header(&bytes);
            let _ = error_fields(&bytes);
            let _ = column_names(&bytes);
            let _ = transaction_status(&bytes);
            let mut body = Body(&bytes);
            while body.value().is_ok() {}
        }

        #[test]
        fn input_returns_what_went_in(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9000), 1..12), step in 1_usize..7000) {
            let mut input = Input::new();
            let (mut sent, mut seen) = (Vec::new(), Vec::new());
            for piece in &pieces {
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let room = input.room();
                    let count = room.len().min(rest.len());
                    room[..count].copy_from_slice(&rest[..count]);
                    input.filled(count);
                    rest = &rest[count..];
                }
                sent.extend_from_slice(piece);
                let count = step.min(input.pending().len());
                seen.extend_from_slice(&input.pending()[..count]);
                input.consume(count);
            }
            seen.extend_from_slice(input.pending());
            prop_assert_eq!(sent, seen);
        }
    }
}
