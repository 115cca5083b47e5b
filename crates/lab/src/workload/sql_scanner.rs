//! Finds where a SQL command ends and where variables stand in it (psql's lexer,
//! `src/fe_utils/psqlscan.l`).
//!
//! A command ends at a semicolon outside of parentheses, literals, quoted identifiers, comments and
//! dollar quotes, or before a backslash command. `\;` joins commands, `::` is a cast.

use super::script::{Piece, Symbols};

/// How a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At a semicolon; the next command begins behind it.
    Semicolon,
    /// Before a backslash command.
    Backslash,
    /// At the end of the text.
    Text,
}

/// One scanned command.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) pieces: Vec<Piece>,
    /// Where its first character that is no space or comment stands; `None` when there is none.
    pub(crate) start: Option<usize>,
    pub(crate) end: End,
    /// Where scanning goes on.
    pub(crate) next: usize,
}

/// Something opened and never closed: where, and what.
pub(crate) type ScanError = (usize, &'static str);

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Moves behind the closing quote; doubled quotes stand for themselves, and backslashes escape
    /// where `has_escapes`.
    fn quoted(
        &mut self,
        quote: u8,
        has_escapes: bool,
        what: &'static str,
    ) -> Result<(), ScanError> {
        let start = self.at;
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' if has_escapes => self.at += 2,
                byte if byte == quote && self.peek(1) == quote => self.at += 2,
                byte if byte == quote => {
                    self.at += 1;
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Err((start, what))
    }

    fn block_comment(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        let mut depth = 0;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err((start, "this comment is never closed"))
    }

    /// The length of a dollar quote's opening at the current place.
    fn dollar_tag(&self) -> Option<usize> {
        let mut len = 1;
        while is_name(self.peek(len)) {
            if len == 1 && self.peek(len).is_ascii_digit() {
                return None;
            }
            len += 1;
        }
        (self.peek(len) == b'$').then_some(len + 1)
    }

    fn dollar_quoted(&mut self, tag_len: usize) -> Result<(), ScanError> {
        let start = self.at;
        let tag = self.bytes.get(start..start + tag_len).unwrap_or(b"$$");
        self.at += tag_len;
        let rest = self.bytes.get(self.at..).unwrap_or(b"");
        match memchr::memmem::find(rest, tag) {
            Some(place) => {
                self.at += place + tag_len;
                Ok(())
            }
            None => Err((start, "this dollar quote is never closed")),
        }
    }
}

/// Scans one command of `text` from byte `from` on. Variables become slots.
pub(crate) fn scan(text: &str, from: usize, symbols: &mut Symbols) -> Result<Scanned, ScanError> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: from };
    let mut pieces = Vec::new();
    let mut literal_from = from;
    let mut literal = String::new();
    let mut start = None;
    let mut depth = 0_u32;
    let mut end = End::Text;
    while scanner.at < scanner.bytes.len() {
        let at = scanner.at;
        let byte = scanner.peek(0);
        let is_space = byte.is_ascii_whitespace();
        let is_comment =
            (byte == b'-' && scanner.peek(1) == b'-') || (byte == b'/' && scanner.peek(1) == b'*');
        if !is_space && !is_comment && byte != b';' && byte != b'\\' {
            start.get_or_insert(at);
        }
        match byte {
            b'\'' => {
                let before = at.checked_sub(1).and_then(|at| scanner.bytes.get(at)).copied();
                let two = at.checked_sub(2).and_then(|at| scanner.bytes.get(at)).copied();
                let has_escapes = matches!(before, Some(b'e' | b'E')) && !two.is_some_and(is_name);
                scanner.quoted(b'\'', has_escapes, "this literal is never closed")?;
            }
            b'"' => scanner.quoted(b'"', false, "this quoted identifier is never closed")?,
            b'-' if is_comment => {
                let rest = scanner.bytes.get(at..).unwrap_or(b"");
                scanner.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            }
            b'/' if is_comment => scanner.block_comment()?,
            b'$' => {
                let is_inside_name = at
                    .checked_sub(1)
                    .and_then(|at| scanner.bytes.get(at))
                    .is_some_and(|b| is_name(*b));
                match scanner.dollar_tag().filter(|_| !is_inside_name) {
                    Some(len) => scanner.dollar_quoted(len)?,
                    None => scanner.at += 1,
                }
            }
            b'(' => {
                depth += 1;
                scanner.at += 1;
            }
            b')' => {
                depth = depth.saturating_sub(1);
                scanner.at += 1;
            }
            b';' if depth == 0 => {
                end = End::Semicolon;
                break;
            }
            b'\\' if scanner.peek(1) == b';' => {
                // Joins two commands into one message; the server gets the semicolon.
                literal.push_str(text.get(literal_from..at).unwrap_or(""));
                scanner.at += 2;
                literal_from = scanner.at - 1;
            }
            b'\\' => {
                end = End::Backslash;
                break;
            }
            b':' if scanner.peek(1) == b':' => scanner.at += 2,
            b':' if is_name(scanner.peek(1)) && !scanner.peek(1).is_ascii_digit() => {
                let mut len = 1;
                while is_name(scanner.peek(len)) {
                    len += 1;
                }
                literal.push_str(text.get(literal_from..at).unwrap_or(""));
                if !literal.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                }
                let name = text.get(at + 1..at + len).unwrap_or("");
                pieces.push(Piece::Variable(symbols.slot(name)));
                scanner.at += len;
                literal_from = scanner.at;
            }
            _ => scanner.at += 1,
        }
    }
    let stop = scanner.at.min(text.len());
    literal.push_str(text.get(literal_from..stop).unwrap_or(""));
    pieces.push(Piece::Text(literal));
    trim(&mut pieces);
    let next = if end == End::Semicolon { stop + 1 } else { stop };
    Ok(Scanned { pieces, start, end, next })
}

/// Takes white space off both ends.
fn trim(pieces: &mut Vec<Piece>) {
    if let Some(Piece::Text(text)) = pieces.first_mut() {
        *text = text.trim_start().to_owned();
    }
    if let Some(Piece::Text(text)) = pieces.last_mut() {
        text.truncate(text.trim_end().len());
    }
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
}
