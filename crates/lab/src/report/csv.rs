//! Tables for programs: RFC 4180, fixed columns with a header, an empty cell for what is not known.

use std::io::{self, Write};

use crate::experiment::document::SessionDocument;

/// `runs.csv`.
///
/// # Errors
/// What the writer refuses.
pub fn runs(_document: &SessionDocument, _out: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
/// `percentiles.csv`.
///
/// # Errors
/// What the writer refuses.
pub fn percentiles(_document: &SessionDocument, _out: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
/// `exceedance.csv`.
///
/// # Errors
/// What the writer refuses.
pub fn exceedance(_document: &SessionDocument, _out: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
/// `timeline.csv`.
///
/// # Errors
/// What the writer refuses.
pub fn timeline(_document: &SessionDocument, _out: &mut dyn Write) -> io::Result<()> {
    Ok(())
}
