//! Microsoft Research Cambridge: time in 100 ns since 1601, host, disk, `Read` or `Write`, offset and
//! size in bytes, response time (D. Narayanan, A. Donnelly, A. Rowstron, "Write Off-Loading",
//! FAST 2008). Each host's disk is a space of its own, in the upper 16 bits of the page, and a class.

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::super::error::{Fault, shown};
use super::super::extent;
use super::super::reference::Reference;
use super::{Lines, fields, known_access, number, time_us};

const REMEDY: &str = "a line is time,host,disk,type,offset,size,response";

/// Bits of a page number that are left to the page within a disk.
const DISK_SHIFT: u32 = 48;

/// Most disks: more are not one trace.
const DISKS_MAX: usize = 1 << 15;

/// See the module.
pub(in super::super) struct MsrLines {
    page_bytes: NonZeroU32,
    disks: HashMap<Vec<u8>, u16>,
    classes: Vec<String>,
}

impl MsrLines {
    pub(in super::super) fn new(page_bytes: NonZeroU32) -> Self {
        Self { page_bytes, disks: HashMap::new(), classes: Vec::new() }
    }

    fn disk(&mut self, host: &[u8], disk: u64) -> Result<u16, Fault> {
        let mut name = host.to_vec();
        name.extend_from_slice(format!(".{disk}").as_bytes());
        if let Some(known) = self.disks.get(&name) {
            return Ok(*known);
        }
        if self.disks.len() >= DISKS_MAX {
            return Err(Fault::new(format!("more than {DISKS_MAX} disks"), REMEDY));
        }
        let next = u16::try_from(self.disks.len()).unwrap_or(u16::MAX);
        self.classes.push(String::from_utf8_lossy(&name).into_owned());
        self.disks.insert(name, next);
        Ok(next)
    }
}

impl Lines for MsrLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut fields = fields(line);
        let mut next = || fields.next().unwrap_or_default();
        let time = next();
        let time_us = time_us(&time, 100)
            .ok_or_else(|| Fault::new(format!("{} is no time", shown(&time)), REMEDY))?;
        let host = next();
        let disk = number(&next(), "disk", REMEDY)?;
        let access = known_access(&next())?;
        let offset = number(&next(), "offset", REMEDY)?;
        let bytes = number(&next(), "size", REMEDY)?;
        let mut reference = extent::cut(u128::from(offset), bytes, self.page_bytes)?;
        if reference.page >> DISK_SHIFT != 0 {
            return Err(Fault::new(format!("byte {offset} is beyond 2^48 pages"), REMEDY));
        }
        let disk = self.disk(&host, disk)?;
        reference.page |= u64::from(disk) << DISK_SHIFT;
        out.push(Reference { access, time_us: Some(time_us), class: Some(disk), ..reference });
        Ok(())
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }
}
