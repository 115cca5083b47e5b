//! The end of the log in memory: a ring that many tasks fill at once, each its own range.
//!
//! Bytes lie in 64-bit words that are stored and loaded one by one. That needs no lock and no unsafe code,
//! and is not much slower than a plain copy (the benchmark `wal` says how much). Whether a range is filled
//! is told by a counter for each sector: a group ends at the end of a sector (rule W4), so that a full
//! counter leaves no doubt, whatever follows.
//!
//! Who fills has the range to itself: it was given out once (`insert`), and the ring's place was written to
//! its file before (`written`).

use crate::page::Lsn;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::vfs::SECTOR_BYTES;

const WORD_BYTES: usize = 8;
const SECTOR: u64 = SECTOR_BYTES as u64;

pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    /// Bytes filled of each sector.
    filled: Box<[AtomicU32]>,
}

impl Ring {
    /// `bytes` is a power of two and at least a sector.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            words: (0..bytes / WORD_BYTES).map(|_| AtomicU64::new(0)).collect(),
            filled: (0..bytes / SECTOR_BYTES).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        (self.words.len() * WORD_BYTES) as u64
    }

    /// Puts whole words at a position, and then says that they are there.
    pub(super) fn fill(&self, at: Lsn, bytes: &[u8]) {
        let first = self.index(at.0 / WORD_BYTES as u64, self.words.len());
        let until_wrap = (self.words.len() - first) * WORD_BYTES;
        let (before, behind) = bytes.split_at(until_wrap.min(bytes.len()));
        store(&self.words[first..], before);
        store(&self.words, behind);
        self.say_filled(at, bytes.len() as u64);
    }

    /// Puts zeros at a position.
    pub(super) fn fill_zeros(&self, at: Lsn, bytes: u64) {
        for word in at.0 / WORD_BYTES as u64..(at.0 + bytes) / WORD_BYTES as u64 {
            self.words[self.index(word, self.words.len())].store(0, Ordering::Relaxed);
        }
        self.say_filled(at, bytes);
    }

    fn say_filled(&self, at: Lsn, bytes: u64) {
        let (mut at, end) = (at.0, at.0 + bytes);
        while at < end {
            let sector_end = (at / SECTOR + 1) * SECTOR;
            let count = sector_end.min(end) - at;
            // SeqCst: ordered against the flag of a task that waits for it (see `Writer::wait_filled`).
            self.sector(at).fetch_add(u32::try_from(count).unwrap_or(0), Ordering::SeqCst);
            at = sector_end;
        }
    }

    /// The first position from `from` up to `to`, both at sectors, whose sector is not full.
    pub(super) fn filled_up_to(&self, from: Lsn, to: Lsn) -> Lsn {
        let mut at = from.0;
        while at < to.0 {
            if self.sector(at).load(Ordering::SeqCst) < SECTOR_BYTES as u32 {
                return Lsn(at);
            }
            at += SECTOR;
        }
        to
    }

    /// Takes filled sectors out, from `from` until `into` is full; its place can be filled again once
    /// `written` says so.
    pub(super) fn take(&self, from: Lsn, into: &mut [u8]) {
        let first = from.0 / WORD_BYTES as u64;
        for (word, piece) in (first..).zip(into.chunks_exact_mut(WORD_BYTES)) {
            let value = self.words[self.index(word, self.words.len())].load(Ordering::Relaxed);
            piece.copy_from_slice(&value.to_le_bytes());
        }
        for sector in 0..(into.len() / SECTOR_BYTES) as u64 {
            self.sector(from.0 + sector * SECTOR).store(0, Ordering::Relaxed);
        }
    }

    fn sector(&self, at: u64) -> &AtomicU32 {
        &self.filled[self.index(at / SECTOR, self.filled.len())]
    }

    /// The place of the `number`th element; lengths are powers of two.
    fn index(&self, number: u64, length: usize) -> usize {
        // Only the low bits count.
        (number as usize) & (length - 1)
    }
}

fn store(words: &[AtomicU64], bytes: &[u8]) {
    let (pieces, _) = bytes.as_chunks::<WORD_BYTES>();
    for (word, piece) in words.iter().zip(pieces) {
        word.store(u64::from_le_bytes(*piece), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_is_taken_across_the_wrap_and_only_full_sectors_count() {
        let ring = Ring::new(2048);
        assert_eq!(ring.bytes(), 2048);
        let bytes: Vec<u8> = (0..1024_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let start = Lsn(2048 * 5 + 1536);
        ring.fill(start, &bytes[..1000]);
        assert_eq!(ring.filled_up_to(start, Lsn(start.0 + 1024)), Lsn(start.0 + 512));
        ring.fill_zeros(Lsn(start.0 + 1000), 24);
        assert_eq!(ring.filled_up_to(start, Lsn(start.0 + 1024)), Lsn(start.0 + 1024));
        let mut taken = vec![9; 1024];
        ring.take(start, &mut taken);
        assert_eq!(taken[..1000], bytes[..1000]);
        assert_eq!(taken[1000..], [0; 24]);
        assert_eq!(ring.filled_up_to(start, Lsn(start.0 + 1024)), start, "taken, so not filled");
    }
}
