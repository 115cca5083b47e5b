//! The first 24 bytes of a page.

use super::{Damage, HEADER_BYTES, Lsn, PAGE_BYTES, PageBytes, PageIdentity};

/// The layout this code writes and reads.
pub const LAYOUT: u8 = 1;

/// Bytes of a line pointer.
pub(super) const LINE_POINTER_BYTES: usize = 4;

/// What a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Rows of a table.
    Heap,
    /// Leaf of a B-tree.
    BtreeLeaf,
    /// Inner page of a B-tree.
    BtreeInner,
    /// Where a B-tree's root is.
    BtreeMeta,
    /// Free-space map.
    FreeSpaceMap,
    /// Visibility map.
    VisibilityMap,
    /// For tests of the layers below: free use.
    Plain,
    /// Entries of a status array, as the commit log.
    StatusArray,
}

impl PageKind {
    const NUMBERS: [(Self, u8); 8] = [
        (Self::Heap, 1),
        (Self::BtreeLeaf, 2),
        (Self::BtreeInner, 3),
        (Self::BtreeMeta, 4),
        (Self::FreeSpaceMap, 5),
        (Self::VisibilityMap, 6),
        (Self::Plain, 7),
        (Self::StatusArray, 8),
    ];

    /// Its number on the page.
    #[must_use]
    pub fn number(self) -> u8 {
        Self::NUMBERS.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, number)| *number)
    }

    /// The kind of a number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::NUMBERS.iter().find(|(_, of)| *of == number).map(|(kind, _)| *kind)
    }
}

/// A page's header, as it stands: nothing is checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Behind the log record that changed the page last.
    pub lsn: Lsn,
    /// See rule P2.
    pub checksum: u32,
    /// By page kind.
    pub flags: u16,
    /// End of the line pointers.
    pub lower: u16,
    /// Begin of the items.
    pub upper: u16,
    /// Begin of the page kind's own area.
    pub special: u16,
    /// [`LAYOUT`].
    pub layout: u8,
    /// [`PageKind::number`].
    pub kind: u8,
    /// Zero.
    pub reserved: u16,
}

fn number16(bytes: &PageBytes, at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

impl Header {
    /// The header of an empty page with `special_bytes` (rounded up to 8) for its kind.
    #[must_use]
    pub fn empty(kind: PageKind, special_bytes: u16) -> Self {
        // 8160 leaves the header and nothing else; more would be a caller's mistake.
        let special = 8192 - special_bytes.min(8160).next_multiple_of(8);
        Self {
            lsn: Lsn(0),
            checksum: 0,
            flags: 0,
            lower: 24,
            upper: special,
            special,
            layout: LAYOUT,
            kind: kind.number(),
            reserved: 0,
        }
    }

    /// Reads the header of any bytes.
    #[must_use]
    pub fn read(bytes: &PageBytes) -> Self {
        let mut lsn = [0; 8];
        lsn.copy_from_slice(&bytes[0..8]);
        Self {
            lsn: Lsn(u64::from_le_bytes(lsn)),
            checksum: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            flags: number16(bytes, 12),
            lower: number16(bytes, 14),
            upper: number16(bytes, 16),
            special: number16(bytes, 18),
            layout: bytes[20],
            kind: bytes[21],
            reserved: number16(bytes, 22),
        }
    }

    /// Writes it into a page.
    pub fn write(&self, bytes: &mut PageBytes) {
        bytes[0..8].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.lower.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.upper.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.special.to_le_bytes());
        bytes[20] = self.layout;
        bytes[21] = self.kind;
        bytes[22..24].copy_from_slice(&self.reserved.to_le_bytes());
    }

    /// Checks everything of rule P1 that the header itself shows, and that the layout and the kind are
    /// known.
    ///
    /// # Errors
    /// The first field that cannot be.
    pub fn check(&self, identity: PageIdentity) -> Result<PageKind, Damage> {
        let damage = |what: &str, expected: String, found: String| {
            Err(Damage { identity, what: what.to_owned(), expected, found })
        };
        if self.layout != LAYOUT {
            return damage("layout", LAYOUT.to_string(), self.layout.to_string());
        }
        let Some(kind) = PageKind::of_number(self.kind) else {
            return damage("kind", "1 to 8".to_owned(), self.kind.to_string());
        };
        if self.reserved != 0 {
            return damage("reserved bytes", "0".to_owned(), self.reserved.to_string());
        }
        let (lower, upper, special) =
            (usize::from(self.lower), usize::from(self.upper), usize::from(self.special));
        if special > PAGE_BYTES {
            return damage("special", format!("at most {PAGE_BYTES}"), special.to_string());
        }
        if upper > special {
            return damage("upper", format!("at most special, {special}"), upper.to_string());
        }
        if lower > upper || lower < HEADER_BYTES {
            let expected = format!("{HEADER_BYTES} to upper, {upper}");
            return damage("lower", expected, lower.to_string());
        }
        if !(lower - HEADER_BYTES).is_multiple_of(LINE_POINTER_BYTES) {
            return damage("lower", "whole line pointers".to_owned(), lower.to_string());
        }
        Ok(kind)
    }
}
