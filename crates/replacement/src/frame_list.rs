//! Doubly linked lists over small indices: the only linked structure of the crate.
//!
//! Several [`List`]s share one [`Links`]; an index is in at most one list at a time. A link is 8 bytes
//! and may carry a payload, so that what belongs to an index lies in one cache line with its place.

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// Marks an index that is in no list, in its `previous` field.
const FREE: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Link<T> {
    previous: u32,
    next: u32,
    payload: T,
}

/// The links of all indices below a bound, each with a payload.
#[derive(Clone, Debug)]
pub(crate) struct Links<T = ()> {
    links: Vec<Link<T>>,
}

/// One list. The head is where new indices usually enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    pub(crate) const fn len(self) -> u32 {
        self.len
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first index, or [`NONE`].
    pub(crate) const fn head(self) -> u32 {
        self.head
    }

    /// The last index, or [`NONE`].
    pub(crate) const fn tail(self) -> u32 {
        self.tail
    }
}

impl<T: Copy + Default> Links<T> {
    pub(crate) fn new(count: u32) -> Self {
        let mut links = Self { links: Vec::new() };
        links.resize(count);
        links
    }

    pub(crate) fn resize(&mut self, count: u32) {
        let unlinked = Link { previous: FREE, next: NONE, payload: T::default() };
        self.links.resize(count as usize, unlinked);
    }

    /// How many indices there are, linked or not.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        // Counts are given in 32 bits.
        u32::try_from(self.links.len()).unwrap_or(NONE)
    }

    #[inline]
    pub(crate) fn payload(&self, index: u32) -> T {
        self.links[index as usize].payload
    }

    #[inline]
    pub(crate) fn payload_mut(&mut self, index: u32) -> &mut T {
        &mut self.links[index as usize].payload
    }

    /// Makes room for indices below `count`, doubling what there is.
    #[inline]
    pub(crate) fn grow_to(&mut self, count: u32) {
        if self.links.len() < count as usize {
            self.resize(count);
        }
    }

    /// Whether `index` is in a list.
    #[inline]
    pub(crate) fn is_linked(&self, index: u32) -> bool {
        self.links.get(index as usize).is_some_and(|link| link.previous != FREE)
    }

    /// Whether `index` exists and is in no list.
    #[inline]
    pub(crate) fn is_free(&self, index: u32) -> bool {
        self.links.get(index as usize).is_some_and(|link| link.previous == FREE)
    }

    /// The index before `index` (towards the head), or [`NONE`].
    #[inline]
    pub(crate) fn previous(&self, index: u32) -> u32 {
        self.links[index as usize].previous
    }

    /// The index behind `index` (towards the tail), or [`NONE`].
    #[inline]
    pub(crate) fn next(&self, index: u32) -> u32 {
        self.links[index as usize].next
    }

    /// Gives an index that is in no list a successor, for its owner's chain of unused ones.
    #[inline]
    pub(crate) fn set_next(&mut self, index: u32, next: u32) {
        debug_assert!(!self.is_linked(index), "an index in a list has its successor");
        self.links[index as usize].next = next;
    }

    /// Reads an index's link and what stands beside it, for the processor to have them near.
    #[inline]
    pub(crate) fn bring_near(&self, index: u32) -> u32 {
        let Some(link) = self.links.get(index as usize) else { return 0 };
        let beside = |at: u32| self.links.get(at as usize).map_or(0, |link| link.next);
        beside(link.previous) ^ beside(link.next)
    }

    #[inline]
    pub(crate) fn push_head(&mut self, list: &mut List, index: u32) {
        debug_assert!(!self.is_linked(index), "an index is in one list at most");
        self.place(index, NONE, list.head);
        if list.head == NONE {
            list.tail = index;
        } else {
            self.links[list.head as usize].previous = index;
        }
        list.head = index;
        list.len += 1;
    }

    #[inline]
    pub(crate) fn push_tail(&mut self, list: &mut List, index: u32) {
        debug_assert!(!self.is_linked(index), "an index is in one list at most");
        self.place(index, list.tail, NONE);
        if list.tail == NONE {
            list.head = index;
        } else {
            self.links[list.tail as usize].next = index;
        }
        list.tail = index;
        list.len += 1;
    }

    /// Puts `index` behind `at` (towards the tail).
    #[inline]
    pub(crate) fn insert_behind(&mut self, list: &mut List, at: u32, index: u32) {
        debug_assert!(!self.is_linked(index), "an index is in one list at most");
        let next = self.links[at as usize].next;
        self.place(index, at, next);
        self.links[at as usize].next = index;
        if next == NONE {
            list.tail = index;
        } else {
            self.links[next as usize].previous = index;
        }
        list.len += 1;
    }

    #[inline]
    pub(crate) fn remove(&mut self, list: &mut List, index: u32) {
        let Link { previous, next, .. } = self.links[index as usize];
        debug_assert!(previous != FREE, "only a linked index can be removed");
        if previous == NONE {
            list.head = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next == NONE {
            list.tail = previous;
        } else {
            self.links[next as usize].previous = previous;
        }
        self.place(index, FREE, NONE);
        list.len -= 1;
    }

    #[inline]
    pub(crate) fn move_to_head(&mut self, list: &mut List, index: u32) {
        if list.head == index {
            return;
        }
        // It is not the head: something is before it.
        let Link { previous, next, .. } = self.links[index as usize];
        debug_assert!(previous != FREE, "only a linked index can be moved");
        self.links[previous as usize].next = next;
        if next == NONE {
            list.tail = previous;
        } else {
            self.links[next as usize].previous = previous;
        }
        self.place(index, NONE, list.head);
        self.links[list.head as usize].previous = index;
        list.head = index;
    }

    /// Walks from the tail to the head.
    #[inline]
    pub(crate) fn oldest_first<'a>(&'a self, list: &List) -> impl Iterator<Item = u32> + 'a {
        let mut at = list.tail;
        std::iter::from_fn(move || {
            (at != NONE).then(|| {
                let here = at;
                at = self.links[here as usize].previous;
                here
            })
        })
    }

    #[inline]
    fn place(&mut self, index: u32, previous: u32, next: u32) {
        let link = &mut self.links[index as usize];
        (link.previous, link.next) = (previous, next);
    }

    /// The first index from `from` on that is in a list.
    pub(crate) fn first_linked(&self, from: u32) -> Option<u32> {
        let beyond = self.links.iter().skip(from as usize);
        beyond.zip(from..).find(|(link, _)| link.previous != FREE).map(|(_, index)| index)
    }

    /// Checks that as many indices are linked as the owner's lists are long together.
    pub(crate) fn check_count(&self, expected: u32) -> Result<(), String> {
        let linked = self.links.iter().filter(|link| link.previous != FREE).count();
        if linked == expected as usize {
            Ok(())
        } else {
            Err(format!("{linked} are linked, the lists hold {expected}"))
        }
    }

    /// Checks that `list` is whole: both directions agree and the length is right.
    pub(crate) fn check(&self, list: &List, name: &str) -> Result<(), String> {
        let (mut count, mut before, mut at) = (0_u32, NONE, list.head);
        while at != NONE {
            if self.links[at as usize].previous != before {
                return Err(format!("{name}: the link back from {at} does not lead to {before}"));
            }
            count += 1;
            if count > list.len {
                return Err(format!("{name}: longer than its length {}", list.len));
            }
            (before, at) = (at, self.links[at as usize].next);
        }
        if before != list.tail || count != list.len {
            return Err(format!("{name}: {count} links for a length of {}", list.len));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_agree_with_vectors_under_any_sequence_of_operations() {
        use proptest::prelude::*;
        proptest!(|(operations in proptest::collection::vec((0_u8..6, 0_u32..12), 0..200))| {
            let mut links: Links = Links::new(12);
            let mut list = List::default();
            let mut model: Vec<u32> = Vec::new();
            for (operation, index) in operations {
                let tail = model.last().copied();
                let at = model.iter().position(|held| *held == index);
                match (operation, at) {
                    (0, None) => { links.push_head(&mut list, index); model.insert(0, index); }
                    (1, None) => { links.push_tail(&mut list, index); model.push(index); }
                    (2, Some(at)) => { links.remove(&mut list, index); model.remove(at); }
                    (3, Some(at)) => {
                        links.move_to_head(&mut list, index);
                        model.remove(at);
                        model.insert(0, index);
                    }
                    (4, None) if tail.is_some() => {
                        links.insert_behind(&mut list, model[model.len() / 2], index);
                        model.insert(model.len() / 2 + 1, index);
                    }
                    (5, None) if tail.is_some() => {
                        links.insert_behind(&mut list, model[model.len() - 1], index);
                        model.push(index);
                    }
                    _ => {}
                }
                prop_assert_eq!(links.check(&list, "list"), Ok(()));
                let mut walked: Vec<u32> = links.oldest_first(&list).collect();
                walked.reverse();
                prop_assert_eq!(&walked, &model);
            }
        });
    }
}
