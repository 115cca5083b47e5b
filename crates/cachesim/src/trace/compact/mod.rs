//! evenkeel's own trace format: compact, checksummed, written and read as a stream.
//!
//! ```text
//! file    = magic block*                   the last block is the end; without it the file is cut short
//! magic   = 89 'E' 'K' 'T' 0d 0a 1a 0a     (text transfers break it visibly)
//! block   = kind:u8 length:u32 crc:u32 payload
//! crc     = CRC-32 (IEEE) over kind, length and payload
//! 'H'     = version:u16 page_bytes:u32 flags:u8 name      once, first; flags: 1 = times
//! 'C'     = name                                          one class; numbered from 0
//! 'D'     = count:varint event*                           stands alone: all deltas begin at 0
//! event   = head:u8 [pages:varint] [class:varint] page:zigzag varint [time:zigzag varint]
//! head    = access (bits 0-1: read, write, dirtied), 4 = a run, 8 = the class changes
//! 'E'     = events:u64
//! ```
//!
//! All integers of fixed width are little-endian. `page` is the distance from the page after the one
//! before of the same class (of the first 16 classes of a block; the others share one), `time` in
//! microseconds from the event before. A class is sent as its number plus one, 0 for none.

mod reader;
mod writer;

pub(super) use reader::CompactReader;
pub use writer::CompactWriter;

/// Begins each file.
pub(super) const MAGIC: &[u8; 8] = b"\x89EKT\r\n\x1a\n";

const VERSION: u16 = 1;

/// Bytes before a block's payload.
const BLOCK_HEAD_BYTES: usize = 9;

/// Longest payload.
const PAYLOAD_MAX: usize = 1 << 18;

/// Most classes.
const CLASSES_MAX: usize = 60_001;

/// Longest name of a trace or a class, in bytes.
const NAME_MAX: usize = 1 << 12;

/// Most pages of a run, as readers of other formats believe at most.
const RUN_MAX: u32 = 1 << 22;

const RUN: u8 = 4;
const CLASS_CHANGES: u8 = 8;
const HAS_TIMES: u8 = 1;

/// Classes of a block whose last pages are remembered.
const REMEMBERED: usize = 16;

/// What deltas refer to; both sides keep it alike.
#[derive(Clone, Copy, Debug, Default)]
struct Context {
    expected_page: [u64; REMEMBERED + 1],
    time_us: u64,
    /// The class plus one, 0 for none.
    class: u32,
}

impl Context {
    /// Where the page is expected.
    fn place(&self) -> usize {
        (self.class as usize).min(REMEMBERED)
    }
}

fn checksum(kind: u8, length: u32, payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[kind]);
    crc.update(&length.to_le_bytes());
    crc.update(payload);
    crc.finalize()
}

fn zigzag(delta: i64) -> u64 {
    ((delta << 1) ^ (delta >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint off the front; `None` where it does not end or is longer than 64 bits.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
