//! The bytes of a simulated file, shared between copies until they change.

use std::sync::Arc;

use crate::vfs::SECTOR_BYTES;

/// The unit of sharing and of counting space.
pub(super) const CHUNK_BYTES: usize = 4096;

pub(super) const SECTORS_PER_CHUNK: u64 = (CHUNK_BYTES / SECTOR_BYTES) as u64;

pub(super) type Chunk = Arc<[u8; CHUNK_BYTES]>;

/// A length and chunks; a chunk that is not there reads as zeros and takes no space.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: u64,
    chunks: Vec<Option<Chunk>>,
}

fn index(chunk: u64) -> usize {
    // Simulated files fit into memory.
    usize::try_from(chunk).unwrap_or(usize::MAX)
}

impl Content {
    pub(super) fn chunk(&self, chunk: u64) -> Option<&Chunk> {
        self.chunks.get(index(chunk))?.as_ref()
    }

    /// Puts `bytes` in the place of a chunk; true when it takes new space.
    pub(super) fn put(&mut self, chunk: u64, bytes: Chunk) -> bool {
        let at = index(chunk);
        if self.chunks.len() <= at {
            self.chunks.resize(at + 1, None);
        }
        self.chunks[at].replace(bytes).is_none()
    }

    /// Copies one sector of `from` into its place.
    pub(super) fn put_sector(&mut self, sector: u64, from: &[u8; CHUNK_BYTES]) {
        let (chunk, start) = place_of(sector);
        let mut bytes = self.chunk(chunk).map_or([0; CHUNK_BYTES], |chunk| **chunk);
        bytes[start..start + SECTOR_BYTES].copy_from_slice(&from[start..start + SECTOR_BYTES]);
        self.put(chunk, Arc::new(bytes));
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let (chunk, start) = (at / CHUNK_BYTES as u64, index(at % CHUNK_BYTES as u64));
            let piece = (CHUNK_BYTES - start).min(count - done);
            let into = &mut buffer[done..done + piece];
            match self.chunk(chunk) {
                Some(bytes) => into.copy_from_slice(&bytes[start..start + piece]),
                None => into.fill(0),
            }
            done += piece;
        }
        count
    }

    /// Cuts or grows; what is cut reads as zeros should the file grow again. Says how many chunks
    /// were given back.
    pub(super) fn set_length(&mut self, bytes: u64) -> u64 {
        let mut freed = 0;
        if bytes < self.bytes {
            let keep = index(bytes.div_ceil(CHUNK_BYTES as u64));
            while self.chunks.len() > keep {
                freed += u64::from(self.chunks.pop().flatten().is_some());
            }
            let start = index(bytes % CHUNK_BYTES as u64);
            if start > 0
                && let Some(Some(last)) = self.chunks.get_mut(keep.saturating_sub(1))
            {
                Arc::make_mut(last)[start..].fill(0);
            }
        }
        self.bytes = bytes;
        freed
    }

    pub(super) fn chunk_count(&self) -> u64 {
        self.chunks.iter().flatten().count() as u64
    }
}

/// The chunk of a sector and where in it the sector begins.
pub(super) fn place_of(sector: u64) -> (u64, usize) {
    (sector / SECTORS_PER_CHUNK, index(sector % SECTORS_PER_CHUNK) * SECTOR_BYTES)
}
