//! Where in the log, and where in the files: positions are [`Lsn`]s.

use crate::page::Lsn;
use crate::vfs::SECTOR_BYTES;

/// Records begin at multiples of this, so that the ring is filled in whole words (rule W1).
pub const ALIGNMENT_BYTES: u64 = 8;

/// A group begins at a multiple of this: the unit in which a disk tears (rule W4).
pub const GROUP_ALIGNMENT_BYTES: u64 = SECTOR_BYTES as u64;

/// Where the first record of a database stands; what lies before is no position.
pub const FIRST: Lsn = Lsn(GROUP_ALIGNMENT_BYTES);

/// No log grows beyond this; sums of a position and a length stay in 64 bits.
pub const LAST: Lsn = Lsn(1 << 62);

/// The first place of a group at or behind `position`.
#[must_use]
pub const fn group_start(position: Lsn) -> Lsn {
    Lsn(position.0.next_multiple_of(GROUP_ALIGNMENT_BYTES))
}

/// The first place of a record at or behind `position`.
#[must_use]
pub const fn record_start(position: Lsn) -> Lsn {
    Lsn(position.0.next_multiple_of(ALIGNMENT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_groups_begin_at_their_multiples() {
        let rows = [(0, 0, 0), (1, 8, 512), (8, 8, 512), (505, 512, 512), (513, 520, 1024)];
        for (position, record, group) in rows {
            assert_eq!(record_start(Lsn(position)), Lsn(record));
            assert_eq!(group_start(Lsn(position)), Lsn(group));
        }
    }
}
