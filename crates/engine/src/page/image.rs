//! A page of one's own.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Header, PAGE_BYTES, PageBytes};

/// Direct I/O wants memory at multiples of 4096 (vfs, rule V8).
#[derive(Clone)]
#[repr(C, align(4096))]
struct Aligned(PageBytes);

/// 8192 bytes on the heap, aligned for direct I/O; zeros at first.
#[derive(Clone)]
pub struct PageImage(Box<Aligned>);

impl PageImage {
    /// A page that was never written.
    #[must_use]
    pub fn zeroed() -> Self {
        Self(Box::new(Aligned([0; PAGE_BYTES])))
    }

    /// Whether the page was never written: all zeros.
    #[must_use]
    pub fn is_new(&self) -> bool {
        is_new(&self.0.0)
    }
}

/// Whether all bytes are zero.
pub(super) fn is_new(bytes: &PageBytes) -> bool {
    // In words: the compiler makes wide loads of it.
    bytes.chunks_exact(64).all(|piece| piece.iter().fold(0, |all, byte| all | byte) == 0)
}

impl Default for PageImage {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl Deref for PageImage {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        &self.0.0
    }
}

impl DerefMut for PageImage {
    fn deref_mut(&mut self) -> &mut PageBytes {
        &mut self.0.0
    }
}

impl fmt::Debug for PageImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PageImage").field(&Header::read(self)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_for_direct_io_and_begin_as_zeros() {
        for _ in 0..8 {
            let page = PageImage::zeroed();
            assert_eq!(page.as_ptr().addr() % crate::vfs::DIRECT_IO_BYTES, 0);
            assert!(page.is_new());
        }
        let mut page = PageImage::zeroed();
        page[PAGE_BYTES - 1] = 1;
        assert!(!page.is_new());
    }
}
