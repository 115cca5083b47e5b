//! Tokens of expressions (pgbench's `src/bin/pgbench/exprscan.l`).

use super::value::is_in_range;

/// What is wrong, and at which byte of the expression's text.
pub(crate) type ParseError = (usize, String);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// At most 2^63, which only a minus sign in front makes an integer.
    Integer(u64),
    Double(f64),
    Variable(&'a str),
    Word(&'a str),
    Symbol(&'static str),
    End,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 21] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "|", "#", "&", "~",
    "(", ")", ",",
];

/// Whether `c` may stand in a variable's name. Every character beyond ASCII may.
pub(crate) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    /// Where the next token is looked for.
    pub(crate) at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token and where it starts.
    pub(crate) fn next(&mut self) -> Result<(Token<'a>, usize), ParseError> {
        self.skip_space();
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start)) };
        let mut after = rest.chars();
        after.next();
        let after = after.as_str();
        if first == ':' {
            let len = after.find(|c| !is_name(c)).unwrap_or(after.len());
            if len == 0 {
                return Err((start, "':' must be followed by a variable's name".to_owned()));
            }
            self.at += 1 + len;
            return Ok((Token::Variable(after.get(..len).unwrap_or("")), start));
        }
        let begins_fraction = first == '.' && after.starts_with(|c: char| c.is_ascii_digit());
        if first.is_ascii_digit() || begins_fraction {
            return self.number(start);
        }
        if is_name(first) {
            let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            self.at += len;
            return Ok((Token::Word(rest.get(..len).unwrap_or("")), start));
        }
        for symbol in SYMBOLS {
            if rest.starts_with(symbol) {
                self.at += symbol.len();
                return Ok((Token::Symbol(symbol), start));
            }
        }
        let shown = crate::text::terminal(rest.get(..first.len_utf8()).unwrap_or("")).into_owned();
        let hint = if matches!(first, '\'' | '"') { "; expressions know no text" } else { "" };
        Err((start, format!("unexpected character '{shown}' in an expression{hint}")))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Also goes over a backslash at a line's end, which continues the expression on the next line.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{b}', '\u{c}']);
            let trimmed = match trimmed.strip_prefix('\\') {
                Some(after) if after.starts_with('\n') => after,
                _ => trimmed,
            };
            if trimmed.len() == rest.len() {
                return;
            }
            self.at += rest.len() - trimmed.len();
        }
    }

    fn number(&mut self, start: usize) -> Result<(Token<'a>, usize), ParseError> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits =
            |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let mut len = digits(0);
        let mut is_double = false;
        if bytes.get(len) == Some(&b'.') {
            is_double = true;
            len += 1 + digits(len + 1);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let exponent = digits(len + 1 + sign);
            if exponent > 0 {
                is_double = true;
                len += 1 + sign + exponent;
            }
        }
        let text = rest.get(..len).unwrap_or("");
        self.at += len;
        let shown = || crate::text::excerpt(text, 40);
        if is_double {
            return match text.parse::<f64>() {
                Ok(value) if is_in_range(value, text) => Ok((Token::Double(value), start)),
                _ => Err((start, format!("double constant {} is out of range", shown()))),
            };
        }
        match text.parse::<u64>() {
            Ok(value) if value <= 1 << 63 => Ok((Token::Integer(value), start)),
            _ => Err((start, out_of_range(&shown()))),
        }
    }
}

/// The message for an integer constant that does not fit.
pub(crate) fn out_of_range(digits: &str) -> String {
    format!("bigint constant {digits} is out of range: at most 9223372036854775807")
}
