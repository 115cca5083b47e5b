//! How large pgbench's tables will be, told before they are made.

use super::{ACCOUNTS_PER_SCALE, InitialiseOptions, SCALE_OF_BIGINT};

/// A page, its header excluded (`src/include/storage/bufpage.h`).
const PAGE_BYTES: u64 = 8192;
const PAGE_HEADER_BYTES: u64 = 24;

/// A line pointer.
const POINTER_BYTES: u64 = 4;

/// What a load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Tables, in bytes.
    pub table_bytes: u64,
    /// Their indexes, in bytes.
    pub index_bytes: u64,
    /// Write-ahead log that the load writes, in bytes, at most; how much of it is kept at a time
    /// depends on the server's settings.
    pub wal_bytes: u64,
}

/// Bytes of tables and indexes after loading at this scale, for PostgreSQL's usual pages of 8 kB:
/// arithmetic on the layout of rows and index entries, not an experience value. What runs add
/// (history, new row versions, the log) is not in it.
#[must_use]
pub fn estimated_bytes(options: &InitialiseOptions) -> u64 {
    let Estimate { table_bytes, index_bytes, .. } = estimate(options, false);
    table_bytes.saturating_add(index_bytes)
}

/// What a load at this scale needs; `is_wal_minimal`: the server's `wal_level` is `minimal`, so that
/// a table made in the same transaction, and an index on it, are synced instead of logged.
#[must_use]
pub fn estimate(options: &InitialiseOptions, is_wal_minimal: bool) -> Estimate {
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
    let table_bytes = heap.saturating_add(small);

    // Rows are logged without their headers, so the table's size is an upper bound; whole pages
    // follow when they are frozen after a checkpoint.
    let is_single = options.effective_jobs() == 1;
    let is_frozen_later = options.vacuum && (!is_single || options.partitions > 0);
    let logged_rows = if is_wal_minimal && is_single { 0 } else { heap };
    let logged_index = if is_wal_minimal { 0 } else { index };
    let wal_bytes = if options.unlogged {
        0
    } else {
        let frozen = if is_frozen_later { heap } else { 0 };
        logged_rows.saturating_add(frozen).saturating_add(logged_index).saturating_add(small)
    };
    Estimate { table_bytes, index_bytes: index, wal_bytes }
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

    #[test]
    fn the_log_is_counted_where_a_load_writes_one() {
        let of = |options: &InitialiseOptions, minimal| estimate(options, minimal).wal_bytes;
        let single = InitialiseOptions::new(10);
        let several = InitialiseOptions { jobs: 4, ..single.clone() };
        let tables = estimate(&single, false).table_bytes;
        assert!(of(&single, false) >= tables);
        assert!(of(&single, true) < tables / 100);
        assert!(of(&several, false) > of(&single, false) * 3 / 2, "rows are frozen afterwards");
        assert!(of(&several, true) >= tables, "several sessions cannot share a transaction");
        assert_eq!(of(&InitialiseOptions { unlogged: true, ..several }, false), 0);
    }
}
