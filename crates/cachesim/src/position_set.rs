//! A set of positions with its largest member at hand: a tree of 64-bit words, 64 to one.
//!
//! For positions below 2^32 it is six levels deep; inserting, removing and finding the largest touch
//! at most one word of each. One bit a position and 1/63 more.

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct PositionSet {
    /// The lowest level first; the last has one word.
    levels: Vec<Vec<u64>>,
}

impl PositionSet {
    /// An empty set for positions below `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = bound.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline]
    pub(crate) fn contains(&self, position: usize) -> bool {
        self.levels[0][position / 64] & (1 << (position % 64)) != 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, mut position: usize) {
        for level in &mut self.levels {
            let word = &mut level[position / 64];
            let was_empty = *word == 0;
            *word |= 1 << (position % 64);
            if !was_empty {
                return;
            }
            position /= 64;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, mut position: usize) {
        for level in &mut self.levels {
            let word = &mut level[position / 64];
            *word &= !(1 << (position % 64));
            if *word != 0 {
                return;
            }
            position /= 64;
        }
    }

    /// The largest member.
    #[inline]
    pub(crate) fn last(&self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            at = at * 64 + word.checked_ilog2()? as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_set_agrees_with_a_sorted_set(
            operations in proptest::collection::vec((any::<bool>(), 0_usize..300_000), 0..300)
        ) {
            let mut set = PositionSet::new(300_000);
            let mut model = std::collections::BTreeSet::new();
            for (inserts, position) in operations {
                if inserts {
                    set.insert(position);
                    model.insert(position);
                } else {
                    let position = model.last().copied().unwrap_or(position);
                    set.remove(position);
                    model.remove(&position);
                }
                prop_assert_eq!(set.last(), model.last().copied());
                prop_assert_eq!(set.contains(position), model.contains(&position));
            }
        }
    }
}
