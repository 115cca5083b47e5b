//! Stack distances: how many distinct pages were used since a page's last use.
//!
//! Every page in the stack has a slot on a line of slots, in the order of last use. A distance is the
//! number of taken slots from the page's own to the end, counted with a bit a slot and a Fenwick tree
//! over words of bits. When the line is full, the taken slots are moved together.
//!
//! - **Source**: R. Mattson, J. Gecsei, D. Slutz, I. Traiger, IBM Systems Journal 9(2), 1970 (stack
//!   algorithms); B. Bennett, V. Kruskal, IBM J. Res. Dev. 19, 1975 (a tree over times); G. Almási,
//!   C. Caşcaval, D. Padua, MSP 2002 (holes in the line of times).
//! - **Cost**: O(log pages) a use; the tree has a node for 64 slots, so that for a million pages it
//!   has 128 KiB. Moving together costs a constant a use, as the line is twice as long as what is in
//!   it.
//! - **Memory**: 12.4 bytes a page in the stack, twice that for a moment.

/// A page without a slot.
const NONE: u32 = u32::MAX;

/// Shortest line, in slots.
const SHORTEST: usize = 1024;

/// See the module. Pages are small numbers that the owner chooses.
#[derive(Clone, Debug, Default)]
pub(crate) struct LruStack {
    /// By page: its slot.
    slot_of: Vec<u32>,
    /// By slot: the page that took it, which may have moved on.
    page_at: Vec<u32>,
    taken: Vec<u64>,
    /// Fenwick tree: taken slots by word of `taken`.
    sums: Vec<u32>,
    next_slot: usize,
    len: u32,
}

impl LruStack {
    /// An empty stack with room for pages below `pages`; more may come.
    pub(crate) fn new(pages: u32) -> Self {
        let mut stack = Self { slot_of: vec![NONE; pages as usize], ..Self::default() };
        stack.compact();
        stack
    }

    #[cfg(test)]
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Uses `page`: moves it to the top. Returns its distance, 1 for the page on top, `None` for a
    /// page that was not in the stack.
    #[inline]
    pub(crate) fn touch(&mut self, page: u32) -> Option<u32> {
        if page as usize >= self.slot_of.len() {
            self.slot_of.resize(page as usize + 1, NONE);
        }
        if self.next_slot == self.page_at.len() {
            self.compact();
        }
        let slot = self.slot_of[page as usize];
        let distance = if slot == NONE {
            self.len += 1;
            None
        } else {
            let before = self.taken_before(slot as usize);
            self.clear(slot as usize);
            Some(self.len - before)
        };
        let slot = self.next_slot;
        self.next_slot += 1;
        self.taken[slot / 64] |= 1 << (slot % 64);
        self.add(slot / 64, 1);
        self.page_at[slot] = page;
        self.slot_of[page as usize] = u32::try_from(slot).unwrap_or(NONE);
        distance
    }

    /// Takes `page` out of the stack, if it is there.
    pub(crate) fn remove(&mut self, page: u32) {
        let Some(place) = self.slot_of.get_mut(page as usize) else { return };
        let slot = std::mem::replace(place, NONE);
        if slot != NONE {
            self.clear(slot as usize);
            self.len -= 1;
        }
    }

    /// The pages from the top down.
    pub(crate) fn top_down(&self) -> impl Iterator<Item = u32> + '_ {
        let is_taken = |slot: &usize| self.taken[slot / 64] & (1 << (slot % 64)) != 0;
        (0..self.next_slot).rev().filter(is_taken).map(|slot| self.page_at[slot])
    }

    fn clear(&mut self, slot: usize) {
        self.taken[slot / 64] &= !(1 << (slot % 64));
        self.add(slot / 64, u32::MAX);
    }

    /// Adds to the sums of `word`; `u32::MAX` takes one away.
    #[inline]
    fn add(&mut self, word: usize, amount: u32) {
        let mut node = word + 1;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = sum.wrapping_add(amount);
            node += node & node.wrapping_neg();
        }
    }

    /// Taken slots before `slot`.
    #[inline]
    fn taken_before(&self, slot: usize) -> u32 {
        let mut node = slot / 64;
        let mut sum = (self.taken[node] & !(u64::MAX << (slot % 64))).count_ones();
        while node > 0 {
            sum = sum.wrapping_add(self.sums[node]);
            node &= node - 1;
        }
        sum
    }

    /// Moves the taken slots together and makes the line twice as long as they are.
    fn compact(&mut self) {
        let mut kept: usize = 0;
        for slot in 0..self.next_slot {
            if self.taken[slot / 64] & (1 << (slot % 64)) != 0 {
                let page = self.page_at[slot];
                self.page_at[kept] = page;
                self.slot_of[page as usize] = u32::try_from(kept).unwrap_or(NONE);
                kept += 1;
            }
        }
        let slots = (kept * 2).max(SHORTEST).next_multiple_of(64);
        self.page_at.resize(slots, 0);
        self.taken.clear();
        self.taken.resize(slots / 64, 0);
        self.sums.clear();
        self.sums.resize(slots / 64 + 1, 0);
        for word in 0..slots / 64 {
            let count = kept.saturating_sub(word * 64).min(64);
            self.taken[word] = if count == 64 { u64::MAX } else { !(u64::MAX << count) };
            self.add(word, u32::try_from(count).unwrap_or(0));
        }
        self.next_slot = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distances_are_those_of_a_list_in_which_pages_move_to_the_front(
            operations in proptest::collection::vec((0_u8..10, 0_u32..90), 0..4000)
        ) {
            let mut stack = LruStack::new(10);
            let mut model: Vec<u32> = Vec::new();
            for (operation, page) in operations {
                let at = model.iter().position(|held| *held == page);
                if let Some(at) = at {
                    model.remove(at);
                }
                if operation == 0 {
                    stack.remove(page);
                } else {
                    let expected = at.map(|at| u32::try_from(at).unwrap() + 1);
                    prop_assert_eq!(stack.touch(page), expected);
                    model.insert(0, page);
                }
                prop_assert_eq!(stack.len() as usize, model.len());
            }
            prop_assert_eq!(stack.top_down().collect::<Vec<_>>(), model);
        }
    }
}
