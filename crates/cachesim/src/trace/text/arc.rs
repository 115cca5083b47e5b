//! The traces of ARC's authors: first 512-byte block, number of blocks, a field to be ignored, number
//! of the request. A line is as many references as it has blocks (N. Megiddo, D. Modha, "ARC: A
//! Self-Tuning, Low Overhead Replacement Cache", FAST 2003).

use std::num::NonZeroU32;

use super::super::error::Fault;
use super::super::extent;
use super::super::options::SECTOR_BYTES;
use super::super::reference::Reference;
use super::{Lines, number};

const REMEDY: &str = "a line has four numbers: first block, count, ignored, request";

/// See the module.
pub(in super::super) struct ArcLines {
    /// Pages to cut into; else each block is one.
    pub(in super::super) page_bytes: Option<NonZeroU32>,
}

impl Lines for ArcLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(first) = words.next() else { return Ok(()) };
        let start = number(first, "block", REMEDY)?;
        let count = number(words.next().unwrap_or_default(), "count", REMEDY)?;
        number(words.next().unwrap_or_default(), "third field", REMEDY)?;
        number(words.next().unwrap_or_default(), "request number", REMEDY)?;
        if words.next().is_some() {
            return Err(Fault::new("a line of more than four fields", REMEDY));
        }
        out.push(match self.page_bytes {
            Some(page_bytes) if count > 0 => {
                let start = u128::from(start) * u128::from(SECTOR_BYTES);
                extent::cut(start, count.saturating_mul(SECTOR_BYTES.into()), page_bytes)?
            }
            _ => extent::run(start, count)?,
        });
        Ok(())
    }
}
