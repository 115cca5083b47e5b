//! UMass trace repository, in the format of the Storage Performance Council: application storage unit,
//! logical block address (of 512 bytes, unless told otherwise), size in bytes, opcode (R or W), seconds;
//! more fields may follow. Blocks of different units are different pages: the unit is in the upper 16
//! bits of the page.

use std::num::NonZeroU32;

use super::super::error::{Fault, shown};
use super::super::extent;
use super::super::reference::Reference;
use super::{Lines, fields, known_access, number, time_us};

const REMEDY: &str = "a line is ASU,LBA,size,opcode,time";

/// Bits of a page number that are left to the page within a unit.
const UNIT_SHIFT: u32 = 48;

/// See the module.
pub(in super::super) struct SpcLines {
    /// Pages to cut into.
    pub(in super::super) page_bytes: NonZeroU32,
    /// Bytes of one unit of block addresses.
    pub(in super::super) block_bytes: NonZeroU32,
}

impl Lines for SpcLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut fields = fields(line);
        let mut next = || fields.next().unwrap_or_default();
        let unit = number(&next(), "storage unit", REMEDY)?;
        let block = number(&next(), "block address", REMEDY)?;
        let bytes = number(&next(), "size", REMEDY)?;
        let access = known_access(&next())?;
        let time = next();
        let time_us = time_us(&time, 1_000_000_000)
            .ok_or_else(|| Fault::new(format!("{} is no time", shown(&time)), REMEDY))?;
        let start = u128::from(block) * u128::from(self.block_bytes.get());
        let mut reference = extent::cut(start, bytes, self.page_bytes)?;
        if unit >= 1 << 16 || reference.page >> UNIT_SHIFT != 0 {
            return Err(Fault::new(
                format!("unit {unit}, block {block} is beyond 2^16 units of 2^48 pages"),
                REMEDY,
            ));
        }
        reference.page |= unit << UNIT_SHIFT;
        out.push(Reference { access, time_us: Some(time_us), ..reference });
        Ok(())
    }
}
