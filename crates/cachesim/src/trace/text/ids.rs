//! One page number a line, as LIRS's authors and many others publish. After the number an operation
//! may stand (`17 W`). Skipped are empty lines, comments after `#`, and `*`, which in LIRS's traces
//! makes the authors' program print and is no reference.

use super::super::error::{Fault, shown};
use super::super::reference::Reference;
use super::{Lines, decimal, known_access};

/// See the module.
pub(in super::super) struct IdLines;

impl Lines for IdLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        let text = line.trim_ascii();
        if text.is_empty() || text == b"*" || text.first() == Some(&b'#') {
            return Ok(());
        }
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        let Some(page) = decimal(first) else {
            return Err(Fault::new(
                format!("{} is no page number below 2^64", shown(first)),
                "a line is one number; for text keys use --trace-format csv --columns key=1",
            ));
        };
        let access = words.next().map(known_access).transpose()?.unwrap_or_default();
        if let Some(surplus) = words.next() {
            return Err(Fault::new(
                format!("{} after the page number and the operation", shown(surplus)),
                "name the format with --trace-format if the lines have more fields",
            ));
        }
        out.push(Reference { access, ..Reference::read(page) });
        Ok(())
    }
}
