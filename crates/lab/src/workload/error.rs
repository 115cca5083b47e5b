//! What is wrong with a script, and where.

use std::fmt;

/// A place in a script, and what is wrong there. Printed as
///
/// ```text
/// file:3: syntax error: expected an operand
///   \set aid random(1, )
///                      ^
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The script's name: a built-in's or the file's path.
    pub origin: String,
    /// Line, from 1; 0 when the error belongs to no line.
    pub line: u32,
    /// Column in characters, from 1; 0 when it belongs to no column.
    pub column: u32,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// The line's text; empty when there is none.
    pub text: String,
}

/// Longer lines are shown in a window of so many characters around the column.
const SHOWN_CHARACTERS: usize = 90;

impl ScriptError {
    /// An error at a byte offset of a whole source text.
    #[must_use]
    pub fn at(origin: &str, source: &str, offset: usize, message: impl Into<String>) -> Self {
        let offset = (0..=offset.min(source.len()))
            .rev()
            .find(|at| source.is_char_boundary(*at))
            .unwrap_or(0);
        let before = source.get(..offset).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let text = source.get(line_start..).unwrap_or("").lines().next().unwrap_or("");
        Self {
            origin: origin.to_owned(),
            line: u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX),
            column: u32::try_from(before.get(line_start..).unwrap_or("").chars().count() + 1)
                .unwrap_or(u32::MAX),
            message: message.into(),
            text: text.to_owned(),
        }
    }

    /// An error of a script as a whole.
    #[must_use]
    pub fn whole(origin: &str, message: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            line: 0,
            column: 0,
            message: message.into(),
            text: String::new(),
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = crate::text::terminal(&self.origin);
        if self.line == 0 {
            return write!(f, "{origin}: {}", self.message);
        }
        writeln!(f, "{origin}:{}:{}: {}", self.line, self.column, self.message)?;
        let column = self.column as usize;
        let skipped = column.saturating_sub(SHOWN_CHARACTERS * 2 / 3);
        // Each character is shown as one, so that the caret stands below what it points at: tabs, control
        // characters and marks that rearrange text would move it.
        let shown: String = self
            .text
            .chars()
            .skip(skipped)
            .take(SHOWN_CHARACTERS)
            .map(|c| match c {
                _ if c.is_whitespace() => ' ',
                _ if crate::text::terminal(c.encode_utf8(&mut [0; 4])).chars().eq([c]) => c,
                _ => '?',
            })
            .collect();
        let lead = if skipped > 0 { "..." } else { "" };
        writeln!(f, "  {lead}{}", shown.trim_end())?;
        let indent = column.saturating_sub(1).saturating_sub(skipped) + lead.len();
        write!(f, "  {}^", " ".repeat(indent))
    }
}

impl std::error::Error for ScriptError {}
