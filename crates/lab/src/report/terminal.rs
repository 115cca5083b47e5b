//! The verdict on a terminal.

use std::io::{self, Write};

use crate::experiment::document::SessionDocument;

/// How the terminal wants its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are wanted; nothing is said by colour alone.
    pub has_colour: bool,
    /// Whether only ASCII may be used.
    pub is_ascii: bool,
}

/// Renders.
///
/// # Errors
/// What the writer refuses.
pub fn render(_document: &SessionDocument, _style: Style, _out: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
