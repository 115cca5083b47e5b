//! Heaps and B-trees by their geometry: which page holds a row, which pages a search visits.
//!
//! Geometry, PostgreSQL with pages of 8 kB: 8,168 bytes of a heap page hold rows, each with its header
//! of 24 bytes, rounded up to 8, and a line pointer of 4. 8,152 bytes of a B-tree page hold tuples of
//! 8 bytes and the key, rounded up, and a line pointer; leaves are 90% full and inner pages 70% after
//! CREATE INDEX (`src/include/access/nbtree.h`). That gives 61 rows of pgbench_accounts a page and 366
//! of its keys a leaf, as measured.
//!
//! Left out: meta pages (cached by each session), free space and visibility maps, page splits other
//! than at a region's end, and vacuum.

use std::collections::VecDeque;

use crate::trace::{Access, Reference};

/// Bytes of a heap page for rows.
const HEAP_BYTES: u64 = 8192 - 24;
/// Bytes of a B-tree page for tuples.
const TREE_BYTES: u64 = 8192 - 24 - 16;
/// Of one row or tuple.
const LINE_POINTER_BYTES: u64 = 4;
/// Bits of a page number for the block within a class.
const BLOCK_BITS: u32 = 40;

/// References of a step.
pub(super) type Queue = VecDeque<Reference>;

/// Names classes.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) names: Vec<String>,
}

impl Classes {
    fn add(&mut self, name: String) -> u16 {
        self.names.push(name);
        u16::try_from(self.names.len() - 1).unwrap_or(u16::MAX)
    }
}

fn reference(class: u16, block: u64, access: Access) -> Reference {
    let page = u64::from(class) << BLOCK_BITS | block & ((1 << BLOCK_BITS) - 1);
    Reference { class: Some(class), access, ..Reference::read(page) }
}

/// A table's heap.
#[derive(Debug)]
pub(super) struct Heap {
    class: u16,
    rows_per_page: u64,
    /// Rows, of which the last ones may have been appended.
    rows: u64,
}

impl Heap {
    /// A table of `rows` rows of `row_bytes` bytes without header, pages filled to `fill_percent`.
    pub(super) fn new(
        classes: &mut Classes,
        name: &str,
        rows: u64,
        row_bytes: u64,
        fill_percent: u64,
    ) -> Self {
        let row = (24 + row_bytes).next_multiple_of(8) + LINE_POINTER_BYTES;
        Self {
            class: classes.add(format!("{name}/heap")),
            rows_per_page: (HEAP_BYTES * fill_percent / 100 / row).max(1),
            rows,
        }
    }

    /// Number of pages.
    #[cfg(test)]
    pub(super) fn pages(&self) -> u64 {
        self.rows.div_ceil(self.rows_per_page)
    }

    /// Looks at a row.
    pub(super) fn read(&self, row: u64, out: &mut Queue) {
        out.push_back(reference(self.class, row / self.rows_per_page, Access::Read));
    }

    /// Changes a row in its page.
    pub(super) fn write(&self, row: u64, out: &mut Queue) {
        out.push_back(reference(self.class, row / self.rows_per_page, Access::Write));
    }

    /// Adds a row at the end and gives its number.
    pub(super) fn append(&mut self, out: &mut Queue) -> u64 {
        self.rows += 1;
        self.write(self.rows - 1, out);
        self.rows - 1
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }
}

/// A B-tree over keys of a fixed width.
#[derive(Debug)]
pub(super) struct Tree {
    inner_class: u16,
    leaf_class: u16,
    keys_per_leaf: u64,
    keys_per_inner: u64,
    /// Leaves of the keys that were there from the start.
    leaves: u64,
    /// Leaves that growing regions have added, after these.
    added: u64,
    /// Inner levels above the leaves, by their number of pages, lowest first.
    levels: Vec<u64>,
}

/// A place of a tree where keys are only added at the end: all of an ascending key, or those of one
/// district.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Region {
    leaf: Option<u64>,
    keys: u64,
}

impl Tree {
    /// An index of `keys` keys of `key_bytes` bytes.
    pub(super) fn new(classes: &mut Classes, name: &str, keys: u64, key_bytes: u64) -> Self {
        let tuple = (8 + key_bytes).next_multiple_of(8) + LINE_POINTER_BYTES;
        let keys_per_leaf = (TREE_BYTES * 90 / 100 / tuple).max(2);
        let keys_per_inner = (TREE_BYTES * 70 / 100 / tuple).max(2);
        let leaves = keys.div_ceil(keys_per_leaf).max(1);
        let mut levels = Vec::new();
        let mut pages = leaves;
        while pages > 1 {
            pages = pages.div_ceil(keys_per_inner);
            levels.push(pages);
        }
        Self {
            inner_class: classes.add(format!("{name}/inner")),
            leaf_class: classes.add(format!("{name}/leaf")),
            keys_per_leaf,
            keys_per_inner,
            leaves,
            added: 0,
            levels,
        }
    }

    /// Number of leaves and of inner pages.
    #[cfg(test)]
    pub(super) fn pages(&self) -> (u64, u64) {
        (self.leaves + self.added, self.levels.iter().sum())
    }

    /// Searches for the key of this rank: root, inner pages, leaf.
    pub(super) fn search(&self, rank: u64, out: &mut Queue) {
        self.descend(rank / self.keys_per_leaf, Access::Read, out);
    }

    /// Adds a key beside the one of this rank, into a leaf that has room.
    pub(super) fn insert(&self, rank: u64, out: &mut Queue) {
        self.descend(rank / self.keys_per_leaf, Access::Write, out);
    }

    /// Adds a key at the end of a region. A full leaf is followed by a new one.
    pub(super) fn extend(&mut self, region: &mut Region, out: &mut Queue) {
        if region.leaf.is_none() || region.keys >= self.keys_per_leaf {
            region.leaf = Some(self.leaves + self.added);
            region.keys = 0;
            self.added += 1;
        }
        region.keys += 1;
        self.descend(region.leaf.unwrap_or_default(), Access::Write, out);
    }

    /// Searches the end of a region.
    pub(super) fn search_end(&self, region: Region, out: &mut Queue) {
        self.descend(region.leaf.unwrap_or_default(), Access::Read, out);
    }

    /// Leaves `count` of them from the one of this rank on, as a scan of a range visits them.
    pub(super) fn scan(&self, rank: u64, keys: u64, out: &mut Queue) {
        self.search(rank, out);
        let first = rank / self.keys_per_leaf;
        let last = (rank + keys.saturating_sub(1)) / self.keys_per_leaf;
        for leaf in first + 1..=last.min(self.leaves.saturating_sub(1)) {
            out.push_back(reference(self.leaf_class, leaf, Access::Read));
        }
    }

    fn descend(&self, leaf: u64, access: Access, out: &mut Queue) {
        // Inner pages are numbered from the lowest level up, each level after the one below it.
        let mut start: u64 = self.levels.iter().sum();
        for (level, pages) in self.levels.iter().enumerate().rev() {
            start -= pages;
            let span = u32::try_from(level + 1)
                .ok()
                .and_then(|exponent| self.keys_per_inner.checked_pow(exponent));
            let place = span.map_or(0, |span| leaf / span).min(pages - 1);
            out.push_back(reference(self.inner_class, start + place, Access::Read));
        }
        out.push_back(reference(self.leaf_class, leaf, access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_is_that_of_postgres() {
        let mut classes = Classes::default();
        let accounts = Heap::new(&mut classes, "accounts", 100_000, 97, 100);
        assert_eq!(accounts.pages(), 1640);
        // One million keys: 2,733 leaves and, with the meta page, 2,745 pages.
        let key = Tree::new(&mut classes, "pkey", 1_000_000, 4);
        assert_eq!(key.pages(), (2733, 11));
        let wide = Tree::new(&mut classes, "customer", 300_000, 12);
        assert!((1140..=1155).contains(&wide.pages().0), "{:?}", wide.pages());
        let small = Tree::new(&mut classes, "branches", 10, 4);
        assert_eq!(small.pages(), (1, 0));
    }

    #[test]
    fn a_search_goes_from_the_root_to_the_leaf_and_stays_in_the_tree() {
        let mut classes = Classes::default();
        let tree = Tree::new(&mut classes, "pkey", 50_000_000, 4);
        let (leaves, inner) = tree.pages();
        for rank in [0, 1, 366, 25_000_000, 49_999_999] {
            let mut out = Queue::new();
            tree.search(rank, &mut out);
            let blocks: Vec<(u16, u64)> = out
                .iter()
                .map(|it| (it.class.unwrap(), it.page & ((1 << BLOCK_BITS) - 1)))
                .collect();
            assert_eq!(blocks.len(), 4);
            assert_eq!(blocks[0], (0, inner - 1), "the root is the last inner page");
            assert!(blocks[1].1 < blocks[0].1 && blocks[2].1 < blocks[1].1, "{blocks:?}");
            assert!(blocks[3].0 == 1 && blocks[3].1 < leaves);
        }
    }

    #[test]
    fn a_region_fills_a_leaf_before_the_next() {
        let mut classes = Classes::default();
        let mut tree = Tree::new(&mut classes, "history", 0, 4);
        let mut region = Region::default();
        let mut out = Queue::new();
        for _ in 0..367 {
            tree.extend(&mut region, &mut out);
        }
        let leaves: Vec<u64> = out.iter().map(|it| it.page & 0xffff).collect();
        assert_eq!((leaves[0], leaves[365], leaves[366]), (1, 1, 2));
    }
}
