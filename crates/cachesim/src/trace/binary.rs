//! Formats of fixed records: libCacheSim's, vscsiStats', and bare page numbers.

use std::num::NonZeroU32;

use super::error::Fault;
use super::extent;
use super::format::Format;
use super::reference::{Access, Reference};
use super::text;

/// Bytes of an lcs header.
pub(super) const LCS_HEADER_BYTES: usize = 8192;

/// Begins and ends an lcs header.
pub(super) const LCS_MAGIC: u64 = 0x1234_5678_9ABC_DEF0;

/// Most bytes of a record.
pub(super) const RECORD_MAX: usize = 40;

/// Decodes records of one format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records {
    format: Format,
    page_bytes: Option<NonZeroU32>,
    block_bytes: NonZeroU32,
}

impl Records {
    pub(super) fn new(
        format: Format,
        page_bytes: Option<NonZeroU32>,
        block_bytes: NonZeroU32,
    ) -> Self {
        Self { format, page_bytes, block_bytes }
    }

    /// Bytes of a record, at most [`RECORD_MAX`].
    pub(super) fn record_bytes(&self) -> usize {
        match self.format {
            Format::U32BigEndian | Format::U32LittleEndian => 4,
            Format::U64BigEndian | Format::U64LittleEndian => 8,
            Format::VscsiV1 => 32,
            Format::VscsiV2 => 40,
            _ => 24,
        }
    }

    /// Bytes before the first record.
    pub(super) fn header_bytes(&self) -> usize {
        if self.format == Format::Lcs { LCS_HEADER_BYTES } else { 0 }
    }

    /// What a record says.
    pub(super) fn record(&self, record: &[u8]) -> Result<Reference, Fault> {
        match self.format {
            Format::U32BigEndian => Ok(Reference::read(u32_le(record, 0).swap_bytes().into())),
            Format::U32LittleEndian => Ok(Reference::read(u32_le(record, 0).into())),
            Format::U64BigEndian => Ok(Reference::read(u64_le(record, 0).swap_bytes())),
            Format::U64LittleEndian => Ok(Reference::read(u64_le(record, 0))),
            // u32 serial, u32 length, u32 entries, u16 command, u16 version, u64 block, u64 us
            Format::VscsiV1 => {
                version(record, 14, 1)?;
                self.vscsi(u32_le(record, 4), u16_le(record, 12), record, 16)
            }
            // u16 command, u16 version, u32 serial, u32 length, u32 entries, u64 block, u64 us, ...
            Format::VscsiV2 => {
                version(record, 2, 2)?;
                self.vscsi(u32_le(record, 8), u16_le(record, 0), record, 16)
            }
            // u32 seconds, u64 object, u32 size, i64 next access
            _ => {
                let object = u64_le(record, 4);
                let reference = self.extent(object, u32_le(record, 12))?;
                let time_us = u64::from(u32_le(record, 0)) * 1_000_000;
                Ok(Reference { time_us: Some(time_us), ..reference })
            }
        }
    }

    fn vscsi(
        &self,
        bytes: u32,
        command: u16,
        record: &[u8],
        block_at: usize,
    ) -> Result<Reference, Fault> {
        let access = text::access(format!("{command:02x}").as_bytes());
        // Commands that move no data (flushes, inquiries) still carry a block, as libCacheSim counts.
        let access = access.unwrap_or(Access::Read);
        let reference = self.extent(u64_le(record, block_at), bytes)?;
        Ok(Reference { access, time_us: Some(u64_le(record, block_at + 8)), ..reference })
    }

    fn extent(&self, block: u64, bytes: u32) -> Result<Reference, Fault> {
        match self.page_bytes {
            Some(page_bytes) => {
                let start = u128::from(block) * u128::from(self.block_bytes.get());
                extent::cut(start, bytes.into(), page_bytes)
            }
            None => Ok(Reference::read(block)),
        }
    }
}

/// Refuses an lcs header of another version or without its marks.
pub(super) fn check_lcs_header(header: &[u8]) -> Result<(), Fault> {
    const REMEDY: &str = "convert it by libCacheSim's traceConv to oracleGeneral";
    if u64_le(header, 0) != LCS_MAGIC || u64_le(header, LCS_HEADER_BYTES - 8) != LCS_MAGIC {
        return Err(Fault::new("has no lcs header", "name its format with --trace-format"));
    }
    match u64_le(header, 8) {
        1 => Ok(()),
        other => Err(Fault::new(format!("is of lcs version {other}, known is 1"), REMEDY)),
    }
}

fn version(record: &[u8], at: usize, expected: u16) -> Result<(), Fault> {
    // The version is in the high byte.
    match u16_le(record, at) >> 8 {
        version if version == expected => Ok(()),
        other => Err(Fault::new(
            format!("a record says that it is of version {other}, not {expected}"),
            "the file is damaged here, or of another format: see --trace-format",
        )),
    }
}

pub(super) fn u16_le(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(super) fn u32_le(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map_or(0, u32::from_le_bytes)
}

pub(super) fn u64_le(bytes: &[u8], at: usize) -> u64 {
    array(bytes, at).map_or(0, u64::from_le_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(format: Format, page: Option<u32>) -> Records {
        Records::new(format, page.and_then(NonZeroU32::new), NonZeroU32::new(512).unwrap())
    }

    #[test]
    fn a_vscsi_command_says_whether_it_writes() {
        let mut record = Vec::new();
        for part in [244_u32, 8192, 1] {
            record.extend(part.to_le_bytes());
        }
        record.extend([0x2a, 0, 0, 1]);
        record.extend(15_u64.to_le_bytes());
        record.extend(5_000_u64.to_le_bytes());
        let whole = records(Format::VscsiV1, None).record(&record).unwrap();
        assert_eq!((whole.page, whole.access, whole.time_us), (15, Access::Write, Some(5_000)));
        let cut = records(Format::VscsiV1, Some(8192)).record(&record).unwrap();
        assert_eq!((cut.page, cut.pages), (0, 2));
        record[15] = 2;
        assert!(records(Format::VscsiV1, None).record(&record).is_err());
        let mut second = vec![0x28, 0, 0, 2];
        second.extend([0; 4]);
        second.extend(512_u32.to_le_bytes());
        second.extend([0; 4]);
        second.extend(7_u64.to_le_bytes());
        second.extend([0; 16]);
        let read = records(Format::VscsiV2, None).record(&second).unwrap();
        assert_eq!((read.page, read.access, second.len()), (7, Access::Read, 40));
    }

    #[test]
    fn both_ways_to_say_never_again_are_read() {
        for next in [-1_i64, i64::MAX] {
            let mut record = 77_u32.to_le_bytes().to_vec();
            record.extend(u64::MAX.to_le_bytes());
            record.extend(4096_u32.to_le_bytes());
            record.extend(next.to_le_bytes());
            let read = records(Format::OracleGeneral, None).record(&record).unwrap();
            assert_eq!((read.page, read.time_us), (u64::MAX, Some(77_000_000)));
        }
    }
}
