//! How large pgbench's tables will be, told before they are made.

use super::{ACCOUNTS_PER_SCALE, InitialiseOptions, SCALE_OF_BIGINT};

/// A page, its header excluded (`src/include/storage/bufpage.h`).
const PAGE_BYTES: u64 = 8192;
const PAGE_HEADER_BYTES: u64 = 24;

/// A line pointer.
const POINTER_BYTES: u64 = 4;

/// Bytes of tables and indexes after loading at this scale, for PostgreSQL's usual pages of 8 kB:
/// arithmetic on the layout of rows and index entries, not an experience value. What runs add
/// (history, new row versions, the log) is not in it.
#[must_use]
pub fn estimated_bytes(options: &InitialiseOptions) -> u64 {
    let rows = options.scale.saturating_mul(ACCOUNTS_PER_SCALE);
    // Header 24; aid, bid, abalance; filler 84 with a header of 1: 24 + 12 + 85, to a multiple of 8.
    let row_bytes: u64 = if options.scale >= SCALE_OF_BIGINT { 24 + 16 + 85 } else { 24 + 12 + 85 };
    let row_bytes = row_bytes.next_multiple_of(8);
    let fill = u64::from(options.fillfactor.unwrap_or(100));
    let reserved = PAGE_BYTES * (100 - fill.min(100)) / 100;
    let usable = PAGE_BYTES - PAGE_HEADER_BYTES - reserved.min(PAGE_BYTES - PAGE_HEADER_BYTES);
    let rows_per_page = (usable / (row_bytes + POINTER_BYTES)).max(1);
    let heap = rows.div_ceil(rows_per_page).saturating_mul(PAGE_BYTES);
    // Entries of 16 bytes (header 8, key to a multiple of 8) in leaves that are 90% full.
    let leaf_usable = (PAGE_BYTES - PAGE_HEADER_BYTES - 16) * 90 / 100;
    let entries_per_leaf = leaf_usable / (16 + POINTER_BYTES);
    let leaves = rows.div_ceil(entries_per_leaf);
    let index = leaves.saturating_add(leaves.div_ceil(250)).saturating_mul(PAGE_BYTES);
    // Branches and tellers: about 40 bytes each, eleven a unit of scale, with their indexes.
    let small = options.scale.saturating_mul(11 * 64).saturating_add(PAGE_BYTES);
    heap.saturating_add(index).saturating_add(small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_grows_with_scale_and_with_emptier_pages_and_never_overflows() {
        let of = |scale, fillfactor| {
            estimated_bytes(&InitialiseOptions { fillfactor, ..InitialiseOptions::new(scale) })
        };
        // pgbench at scale 1: 1640 pages of accounts, 276 of their index.
        let one = of(1, None);
        let exact = (1640 + 276) * 8192;
        assert!(one.abs_diff(exact) < exact / 50, "{one} {exact}");
        assert!(of(1, Some(50)) > one * 3 / 2);
        assert!(of(25_000, None) / 25_000 >= one * 99 / 100);
        assert!(of(u64::MAX, Some(10)) > 0);
    }
}
