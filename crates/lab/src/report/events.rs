//! To be filled.

use std::io::{self, Write};

use crate::experiment::document::SessionDocument;

/// Renders.
///
/// # Errors
/// What the writer refuses.
pub(super) fn render(_document: &SessionDocument, _out: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
