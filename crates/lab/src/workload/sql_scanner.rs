//! Finds where a SQL command ends and where variables stand in it (psql's lexer,
//! `src/fe_utils/psqlscan.l`).
//!
//! # Rules
//!
//! 1. A command ends at a semicolon outside of parentheses, literals, quoted identifiers, comments,
//!    dollar quotes and bodies of SQL functions (`BEGIN ATOMIC ... END`), or before a backslash command.
//! 2. `\;` joins commands into one message; `\:` is a colon.
//! 3. `:name` is a variable, `::name` a cast, `:=` and `:1` are nothing of ours.
//! 4. SQL has colons of its own, in slices of arrays and between keys and values of JSON constructors.
//!    There, a name that no variable has is left alone; see [`Part::Variable`].

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

/// A part of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Sent as it stands.
    Text(&'a str),
    /// `:name`, where a variable may stand.
    Variable {
        name: &'a str,
        /// Of the colon.
        offset: usize,
        /// Whether the colon may as well be SQL's own.
        may_be_sql: bool,
    },
}

/// One scanned command.
#[derive(Debug)]
pub(crate) struct Scanned<'a> {
    pub(crate) parts: Vec<Part<'a>>,
    /// Where its first character that is no space or comment stands; `None` when there is none.
    pub(crate) start: Option<usize>,
    pub(crate) end: End,
    /// Where scanning goes on.
    pub(crate) next: usize,
    /// What looks like variables within literals, and where.
    pub(crate) quoted: Vec<(&'a str, usize)>,
}

/// Something that is wrong: where, and what.
pub(crate) type ScanError = (usize, &'static str);

/// Scans one command of `text` from byte `from` on.
pub(crate) fn scan(text: &str, from: usize) -> Result<Scanned<'_>, ScanError> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: from,
        literal_from: from,
        parts: Vec::new(),
        quoted: Vec::new(),
        has_comment: false,
        open: Vec::new(),
        parentheses: 0,
        last_word: "",
        function: FunctionBody::default(),
    };
    let mut start = None;
    let end = loop {
        let at = scanner.at;
        let (byte, next) = (scanner.peek(0), scanner.peek(1));
        if at >= scanner.bytes.len() {
            break End::Text;
        }
        let is_space = byte.is_ascii_whitespace() || byte == 0x0b;
        let is_comment = matches!((byte, next), (b'-', b'-') | (b'/', b'*'));
        if is_space || is_comment {
            scanner.space_or_comment(start.is_none())?;
            continue;
        }
        if byte == b';' && !scanner.is_in_parentheses() && scanner.function.depth == 0 {
            break End::Semicolon;
        }
        if byte == b'\\' && !matches!(next, b';' | b':') {
            break End::Backslash;
        }
        start.get_or_insert(at);
        scanner.token(byte)?;
    };
    if end != End::Semicolon
        && let Some((offset, _)) = scanner.open.iter().find(|(_, kind)| *kind != Open::Bracket)
    {
        return Err((*offset, "this parenthesis is never closed"));
    }
    if end == End::Text && scanner.function.depth > 0 {
        return Err((start.unwrap_or(from), "the body of this function is never ended"));
    }
    let stop = scanner.at.min(text.len());
    scanner.flush(stop);
    let mut parts = scanner.parts;
    trim(&mut parts);
    let next = if end == End::Semicolon { stop + 1 } else { stop };
    Ok(Scanned { parts, start, end, next, quoted: scanner.quoted })
}

/// What an opening bracket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// `(`
    Parenthesis,
    /// `(` behind a name that begins with "json".
    Json,
    /// `[`
    Bracket,
}

/// Follows whether the command creates a function whose body holds semicolons, by psql's rule: the
/// first words are CREATE [OR REPLACE] FUNCTION or PROCEDURE, and BEGIN and CASE are ended by END.
#[derive(Debug, Default)]
struct FunctionBody {
    words: usize,
    /// First letters of the first words, where they are among those.
    beginning: [u8; 4],
    depth: u32,
}

impl FunctionBody {
    fn word(&mut self, word: &str, is_in_parentheses: bool) {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if let Some(place) = self.beginning.get_mut(self.words)
            && ["create", "or", "replace", "function", "procedure"].into_iter().any(is)
        {
            *place = word.as_bytes().first().map_or(0, u8::to_ascii_lowercase);
        }
        self.words = self.words.saturating_add(1);
        let is_function =
            matches!(self.beginning, [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p']);
        if !is_function || is_in_parentheses {
            return;
        }
        if is("begin") || (is("case") && self.depth > 0) {
            self.depth += 1;
        } else if is("end") {
            self.depth = self.depth.saturating_sub(1);
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Where text that no part holds yet begins.
    literal_from: usize,
    parts: Vec<Part<'a>>,
    quoted: Vec<(&'a str, usize)>,
    /// Whether the command begins with a block comment.
    has_comment: bool,
    /// Open brackets, and where.
    open: Vec<(usize, Open)>,
    /// How many of them are no `[`.
    parentheses: usize,
    /// The word right before the place.
    last_word: &'a str,
    function: FunctionBody,
}

/// Whether a name may hold `byte`.
const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

const fn begins_name(byte: u8) -> bool {
    is_name(byte) && !byte.is_ascii_digit()
}

impl<'a> Scanner<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    const fn is_in_parentheses(&self) -> bool {
        self.parentheses > 0
    }

    /// Makes a part of the text up to `stop`.
    fn flush(&mut self, stop: usize) {
        let text = self.text.get(self.literal_from..stop).unwrap_or("");
        if !text.is_empty() {
            self.parts.push(Part::Text(text));
        }
        self.literal_from = stop;
    }

    /// Goes over a space or a comment. Spaces and `--` comments before the command are no part of it;
    /// block comments are, since they may be hints.
    fn space_or_comment(&mut self, is_before: bool) -> Result<(), ScanError> {
        match (self.peek(0), self.peek(1)) {
            (b'-', b'-') => {
                let rest = self.bytes.get(self.at..).unwrap_or(b"");
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            }
            (b'/', b'*') => {
                self.has_comment = true;
                return self.block_comment();
            }
            _ => self.at += 1,
        }
        if is_before && !self.has_comment {
            self.literal_from = self.at;
        }
        Ok(())
    }

    fn token(&mut self, byte: u8) -> Result<(), ScanError> {
        let at = self.at;
        if begins_name(byte) {
            return self.word();
        }
        let last_word = std::mem::take(&mut self.last_word);
        match byte {
            b'\'' => self.quoted(b'\'', false, "this literal is never closed")?,
            b'"' => self.quoted(b'"', false, "this quoted identifier is never closed")?,
            b'$' => match self.dollar_tag() {
                Some(len) => self.dollar_quoted(len)?,
                None => self.at += 1,
            },
            b'(' => {
                let is_json =
                    last_word.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("json"));
                self.open.push((at, if is_json { Open::Json } else { Open::Parenthesis }));
                self.parentheses += 1;
                self.at += 1;
            }
            b'[' => {
                self.open.push((at, Open::Bracket));
                self.at += 1;
            }
            b')' | b']' => {
                // What is opened by the one is not closed by the other; the server will say so.
                let is_bracket = byte == b']';
                if self.open.last().is_some_and(|(_, kind)| (*kind == Open::Bracket) == is_bracket)
                {
                    self.open.pop();
                    self.parentheses -= usize::from(!is_bracket);
                }
                self.at += 1;
            }
            // Rule 2: the backslash goes, and what it protects stays.
            b'\\' => {
                self.flush(at);
                self.literal_from = at + 1;
                if self.peek(1) == b';' {
                    self.at += 2;
                    self.function = FunctionBody::default();
                } else {
                    self.at += 1;
                }
            }
            b':' => self.colon(),
            byte if byte.is_ascii_digit() => {
                while self.peek(0).is_ascii_digit() {
                    self.at += 1;
                }
            }
            _ => self.at += 1,
        }
        Ok(())
    }

    /// A keyword or name; or the E of a literal with escapes.
    fn word(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while is_name(self.peek(0)) || self.peek(0) == b'$' {
            self.at += 1;
        }
        let word = self.text.get(start..self.at).unwrap_or("");
        if word.eq_ignore_ascii_case("e") && self.peek(0) == b'\'' {
            return self.quoted(b'\'', true, "this literal is never closed");
        }
        let is_in_parentheses = self.is_in_parentheses();
        self.function.word(word, is_in_parentheses);
        self.last_word = word;
        Ok(())
    }

    fn colon(&mut self) {
        let at = self.at;
        if !begins_name(self.peek(1)) {
            // All colons in a row: none of `::name` and `:::name` is a variable.
            while self.peek(0) == b':' {
                self.at += 1;
            }
            return;
        }
        let mut len = 1;
        while is_name(self.peek(len)) {
            len += 1;
        }
        self.flush(at);
        let name = self.text.get(at + 1..at + len).unwrap_or("");
        let may_be_sql = matches!(self.open.last(), Some((_, Open::Bracket | Open::Json)));
        self.parts.push(Part::Variable { name, offset: at, may_be_sql });
        self.at += len;
        self.literal_from = self.at;
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
                    self.note_quoted(start);
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
        if self.peek(len).is_ascii_digit() {
            return None;
        }
        while is_name(self.peek(len)) {
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
                self.note_quoted(start);
                Ok(())
            }
            None => Err((start, "this dollar quote is never closed")),
        }
    }

    /// Remembers what looks like variables from `start` on.
    fn note_quoted(&mut self, start: usize) {
        let body = self.bytes.get(start..self.at).unwrap_or(b"");
        for colon in memchr::memchr_iter(b':', body) {
            let rest = body.get(colon + 1..).unwrap_or(b"");
            let is_cast = colon > 0 && body.get(colon - 1) == Some(&b':');
            let len = rest.iter().take_while(|byte| is_name(**byte)).count();
            if !is_cast && rest.first().is_some_and(|byte| begins_name(*byte)) {
                let from = start + colon + 1;
                self.quoted.push((self.text.get(from..from + len).unwrap_or(""), from - 1));
            }
        }
    }
}

/// Takes white space off both ends.
fn trim(parts: &mut Vec<Part<'_>>) {
    if let Some(Part::Text(text)) = parts.first_mut() {
        *text = text.trim_start();
    }
    if let Some(Part::Text(text)) = parts.last_mut() {
        *text = text.trim_end();
    }
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
}
