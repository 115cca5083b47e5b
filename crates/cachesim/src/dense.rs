//! A page trace in the form that every simulation runs over: pages renumbered 0, 1, 2, … in the
//! order of their first appearance, four bytes a reference.
//!
//! A trace is decoded and renumbered once. After that a page is an index into arrays, and no policy
//! hashes anything, at any size. Readers and generators feed a [`DenseTraceBuilder`]; a
//! [`DenseTrace`] cannot be changed, so what the builder has checked holds for good.
//!
//! # Rules
//!
//! 1. Every reference's page is below [`DenseTrace::pages`], which is at most [`MAX_PAGES`].
//! 2. A *write* is a reference that leaves the page dirty: [`WRITE`] is set in it. A trace may report
//!    the dirtying apart from the reference (PostgreSQL's `MarkBufferDirty`); then the builder sets
//!    [`WRITE`] on the page's latest reference. That is exact: a page can be dirtied only while it is
//!    pinned, the pin began with a reference at or before the latest one, and a pinned page does not
//!    leave. It also keeps a simulated cache, which knows no pins, from having lost the page in
//!    between. A page dirtied before any reference to it is counted in
//!    [`DenseTrace::writes_without_reference`] and is otherwise ignored.
//! 3. A *class* is what a page belongs to, for breakdowns: a relation, a page kind, or both as
//!    `relation/kind`. A page has one class, that of its first reference.
//! 4. Times are milliseconds from the first reference and never go back; an earlier time counts as
//!    the latest so far.
//!
//! # Memory
//!
//! Finished: 4 bytes a reference, 4 more with times, 2 a page with classes. While building, beside
//! that: a hash table of 17 bytes (33 for 128-bit identities) a slot, 8/7 to 16/7 slots a page and
//! thrice that for a moment when it grows, and 4 bytes a page for rule 2.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

/// Set in a reference that leaves its page dirty.
pub const WRITE: u32 = 1 << 31;

/// Most distinct pages of a trace: a page number and [`WRITE`] share 32 bits, and all ones mean no
/// page. 2^31 - 1 pages of 8 KiB are 16 TiB.
pub const MAX_PAGES: u32 = WRITE - 1;

/// Most references of a trace that is held in memory (16 GiB). Longer ones can be sampled as they
/// stream by.
pub const MAX_REFERENCES: usize = u32::MAX as usize;

/// Most classes of pages.
pub const MAX_CLASSES: usize = u16::MAX as usize;

/// No reference yet, in the builder.
const NEVER: u32 = u32::MAX;

/// A trace is beyond what the dense form can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DenseTraceError {
    /// More than [`MAX_PAGES`] distinct pages.
    #[error("more than {MAX_PAGES} distinct pages: sample the trace by page, or use larger pages")]
    TooManyPages,
    /// More than [`MAX_REFERENCES`] references.
    #[error("more than {MAX_REFERENCES} references: take a part of the trace, or sample it")]
    TooManyReferences,
    /// More than [`MAX_CLASSES`] classes.
    #[error("more than {MAX_CLASSES} classes of pages: group them")]
    TooManyClasses,
    /// A class that was never named.
    #[error("class {0} has no name: every class is added before a page has it")]
    UnknownClass(u16),
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenseTrace {
    name: String,
    page_bytes: u32,
    references: Vec<u32>,
    pages: u32,
    tick_ms: Option<Vec<u32>>,
    class_of_page: Option<Vec<u16>>,
    class_names: Vec<String>,
    writes_without_reference: u64,
}

impl DenseTrace {
    /// What the trace is called in results: a file's name, a generator's parameters.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of a page; sizes given in bytes are divided by it.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The references in order: a page number, with [`WRITE`] set where the page is left dirty.
    #[must_use]
    pub fn references(&self) -> &[u32] {
        &self.references
    }

    /// Number of distinct pages; page numbers are below it.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The time of each reference, in milliseconds from the first; `None` where the trace has none.
    #[must_use]
    pub fn tick_ms(&self) -> Option<&[u32]> {
        self.tick_ms.as_deref()
    }

    /// The class of each page, an index into [`DenseTrace::class_names`]; `None` where the trace
    /// has none.
    #[must_use]
    pub fn class_of_page(&self) -> Option<&[u16]> {
        self.class_of_page.as_deref()
    }

    /// Names of the classes: a relation, a page kind, or `relation/kind`.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// How many references leave their page dirty.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.references.iter().map(|reference| u64::from(reference >> 31)).sum()
    }

    /// How many pages were reported dirty before any reference to them (rule 2).
    #[must_use]
    pub fn writes_without_reference(&self) -> u64 {
        self.writes_without_reference
    }

    /// The same trace under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same trace without references that repeat the page of the one before, which some authors'
    /// programs ignore. A repeat that writes makes the reference it repeats a write.
    #[must_use]
    pub fn without_repeats(mut self) -> Self {
        let mut kept: usize = 0;
        for position in 0..self.references.len() {
            let reference = self.references[position];
            let last = kept.checked_sub(1).map(|last| &mut self.references[last]);
            match last {
                Some(last) if (*last ^ reference) & !WRITE == 0 => *last |= reference & WRITE,
                _ => {
                    self.references[kept] = reference;
                    if let Some(tick_ms) = &mut self.tick_ms {
                        tick_ms[kept] = tick_ms[position];
                    }
                    kept += 1;
                }
            }
        }
        self.references.truncate(kept);
        if let Some(tick_ms) = &mut self.tick_ms {
            tick_ms.truncate(kept);
        }
        self
    }
}

/// What a trace says of one reference, beside the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Whether the page is left dirty.
    pub is_write: bool,
    /// Milliseconds on the trace's clock. All references have a time or none has: one without takes
    /// the latest before it.
    pub time_ms: Option<u64>,
    /// The page's class, from [`DenseTraceBuilder::add_class`].
    pub class: Option<u16>,
}

/// Renumbers pages; see the module. `Identity` is what a page is called in the source: `u64`, or
/// `u128` where 64 bits cannot tell pages apart.
#[derive(Clone, Debug)]
pub struct DenseTraceBuilder<Identity = u64> {
    /// The fixed seed keeps equal runs equal in time, too. Crafted identities can make the table
    /// slow, never wrong.
    page_of: HashMap<Identity, u32, FixedState>,
    latest_reference: Vec<u32>,
    trace: DenseTrace,
    first_ms: Option<u64>,
    latest_ms: u32,
    /// Class of pages that have none, made when it is first needed.
    unclassified: Option<u16>,
}

impl<Identity: Copy + Eq + Hash> DenseTraceBuilder<Identity> {
    /// An empty trace called `name` with pages of `page_bytes` (at least 1).
    #[must_use]
    pub fn new(name: impl Into<String>, page_bytes: u32) -> Self {
        Self {
            page_of: HashMap::with_hasher(FixedState::default()),
            latest_reference: Vec::new(),
            trace: DenseTrace {
                name: name.into(),
                page_bytes: page_bytes.max(1),
                ..DenseTrace::default()
            },
            first_ms: None,
            latest_ms: 0,
            unclassified: None,
        }
    }

    /// Makes room for so many references, where the source knows. A number that was merely claimed
    /// costs nothing: the room is bounded.
    #[must_use]
    pub fn with_expected_references(mut self, references: usize) -> Self {
        // 64 MiB: less than what a wrong claim could hurt, and enough to save most growth.
        const MAX_RESERVED: usize = 1 << 24;
        self.trace.references.reserve(references.min(MAX_RESERVED));
        self
    }

    /// Number of references so far.
    #[must_use]
    pub fn references(&self) -> usize {
        self.trace.references.len()
    }

    /// Number of distinct pages so far.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.trace.pages
    }

    /// Bytes that this holds, and that the next growth of the table of pages needs for a moment.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let words = self.trace.references.capacity()
            + self.latest_reference.capacity()
            + self.trace.tick_ms.as_ref().map_or(0, Vec::capacity)
            + self.trace.class_of_page.as_ref().map_or(0, Vec::capacity) / 2;
        // A slot has an entry and a byte; an eighth of the slots is never used. The new table is twice
        // the old one, beside which it is made.
        let slot = size_of::<(Identity, u32)>() + 1;
        let table = self.page_of.capacity() / 7 * 8 * slot * 3;
        (words * size_of::<u32>() + table) as u64
    }

    /// Names a class: a relation, a page kind, or `relation/kind`. The same name gives the same
    /// class.
    ///
    /// # Errors
    /// When there are [`MAX_CLASSES`] already.
    pub fn add_class(&mut self, name: &str) -> Result<u16, DenseTraceError> {
        let names = &mut self.trace.class_names;
        let known = names.iter().position(|known| known == name);
        let index = known.unwrap_or(names.len());
        if index >= MAX_CLASSES {
            return Err(DenseTraceError::TooManyClasses);
        }
        if known.is_none() {
            names.push(name.to_owned());
        }
        u16::try_from(index).map_err(|_| DenseTraceError::TooManyClasses)
    }

    /// Adds a reference; returns the page's number.
    ///
    /// # Errors
    /// When a limit is reached or the class is unknown. The trace then is as it was.
    #[inline]
    pub fn reference(
        &mut self,
        page: Identity,
        reference: Reference,
    ) -> Result<u32, DenseTraceError> {
        let position = self.trace.references.len();
        if position >= MAX_REFERENCES {
            return Err(DenseTraceError::TooManyReferences);
        }
        if let Some(class) = reference.class
            && usize::from(class) >= self.trace.class_names.len()
        {
            return Err(DenseTraceError::UnknownClass(class));
        }
        let next = self.trace.pages;
        let number = match self.page_of.entry(page) {
            std::collections::hash_map::Entry::Occupied(known) => *known.get(),
            std::collections::hash_map::Entry::Vacant(new) => {
                if next >= MAX_PAGES {
                    return Err(DenseTraceError::TooManyPages);
                }
                *new.insert(next)
            }
        };
        if number == next {
            if let Err(error) = self.classify_new_page(reference.class) {
                self.page_of.remove(&page);
                return Err(error);
            }
            self.trace.pages += 1;
            self.latest_reference.push(NEVER);
        }
        if let Some(time_ms) = reference.time_ms {
            self.advance(time_ms);
        }
        if let Some(ticks) = &mut self.trace.tick_ms {
            ticks.push(self.latest_ms);
        }
        self.trace.references.push(number | if reference.is_write { WRITE } else { 0 });
        if let Some(latest) = self.latest_reference.get_mut(number as usize) {
            *latest = u32::try_from(position).unwrap_or(NEVER);
        }
        Ok(number)
    }

    /// Notes that `page` became dirty without being referenced again (rule 2).
    pub fn dirtied(&mut self, page: Identity) {
        let latest = self
            .page_of
            .get(&page)
            .and_then(|number| self.latest_reference.get(*number as usize))
            .and_then(|position| self.trace.references.get_mut(*position as usize));
        match latest {
            Some(reference) => *reference |= WRITE,
            None => self.trace.writes_without_reference += 1,
        }
    }

    /// The finished trace.
    #[must_use]
    pub fn finish(self) -> DenseTrace {
        let mut trace = self.trace;
        trace.references.shrink_to_fit();
        trace
    }

    fn classify_new_page(&mut self, class: Option<u16>) -> Result<(), DenseTraceError> {
        let is_first_class = self.trace.class_of_page.is_none();
        let class = match class {
            Some(class) => class,
            None if is_first_class => return Ok(()),
            None => self.unclassified()?,
        };
        if is_first_class {
            // Pages before the first one with a class.
            let before = match self.trace.pages {
                0 => Vec::new(),
                pages => vec![self.unclassified()?; pages as usize],
            };
            self.trace.class_of_page = Some(before);
        }
        if let Some(classes) = &mut self.trace.class_of_page {
            classes.push(class);
        }
        Ok(())
    }

    fn unclassified(&mut self) -> Result<u16, DenseTraceError> {
        if let Some(class) = self.unclassified {
            return Ok(class);
        }
        let class = self.add_class("unclassified")?;
        self.unclassified = Some(class);
        Ok(class)
    }

    /// Rule 4.
    fn advance(&mut self, time_ms: u64) {
        let first_ms = *self.first_ms.get_or_insert(time_ms);
        // 2^32 ms are 49 days; a longer trace stands still at its end, which only matters to
        // policies with delays.
        let since_first = u32::try_from(time_ms.saturating_sub(first_ms)).unwrap_or(u32::MAX);
        self.latest_ms = self.latest_ms.max(since_first);
        if self.trace.tick_ms.is_none() {
            self.trace.tick_ms = Some(vec![0; self.trace.references.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read() -> Reference {
        Reference::default()
    }

    #[test]
    fn pages_are_numbered_in_the_order_of_their_first_appearance() {
        let mut builder = DenseTraceBuilder::new("t", 8192);
        for page in [u64::MAX, 7, u64::MAX, 0, 7] {
            builder.reference(page, read()).unwrap();
        }
        let trace = builder.finish();
        assert_eq!(trace.references(), [0, 1, 0, 2, 1]);
        assert_eq!(trace.pages(), 3);
        assert_eq!((trace.tick_ms(), trace.class_of_page()), (None, None));
    }

    #[test]
    fn a_page_dirtied_while_pinned_is_dirty_from_its_latest_reference_on() {
        let mut builder = DenseTraceBuilder::<u128>::new("t", 8192);
        for page in [1, 2, 1, 3] {
            builder.reference(page, read()).unwrap();
        }
        builder.dirtied(1);
        builder.dirtied(9);
        let trace = builder.finish();
        assert_eq!(trace.references(), [0, 1, WRITE, 2]);
        assert_eq!((trace.writes(), trace.writes_without_reference()), (1, 1));
    }

    #[test]
    fn classes_and_times_may_begin_late_and_times_do_not_go_back() {
        let mut builder = DenseTraceBuilder::new("t", 8192);
        builder.reference(5, read()).unwrap();
        let heap = builder.add_class("accounts/heap").unwrap();
        assert_eq!(builder.add_class("accounts/heap"), Ok(heap));
        let at = |time_ms, class| Reference { time_ms: Some(time_ms), class, ..read() };
        builder.reference(6, at(1000, Some(heap))).unwrap();
        builder.reference(5, at(1007, Some(heap))).unwrap();
        builder.reference(7, at(1002, None)).unwrap();
        let trace = builder.finish();
        assert_eq!(trace.tick_ms(), Some(&[0, 0, 7, 7][..]));
        assert_eq!(trace.class_names(), ["accounts/heap", "unclassified"]);
        assert_eq!(trace.class_of_page(), Some(&[1, 0, 1][..]));
    }

    #[test]
    fn an_unknown_class_is_an_error_and_leaves_the_trace_as_it_was() {
        let mut builder = DenseTraceBuilder::new("t", 8192);
        let wrong = builder.reference(1, Reference { class: Some(3), ..read() });
        assert_eq!(wrong, Err(DenseTraceError::UnknownClass(3)));
        assert_eq!(builder.finish().references(), [0; 0]);
    }

    #[test]
    fn repeats_can_be_left_out_without_losing_a_write() {
        let mut builder = DenseTraceBuilder::new("t", 8192);
        for (time_ms, (page, is_write)) in
            [(1, false), (1, true), (2, false), (1, false), (1, false)].into_iter().enumerate()
        {
            let time_ms = Some(time_ms as u64);
            builder.reference(page, Reference { is_write, time_ms, class: None }).unwrap();
        }
        let trace = builder.finish().without_repeats();
        assert_eq!(trace.references(), [WRITE, 1, 0]);
        assert_eq!(trace.tick_ms(), Some(&[0, 2, 3][..]));
    }

    proptest! {
        #[test]
        fn renumbering_keeps_which_references_are_to_the_same_page(
            pages in proptest::collection::vec(0_u64..50, 0..300)
        ) {
            let mut builder = DenseTraceBuilder::new("t", 1);
            for page in &pages {
                builder.reference(page.wrapping_mul(0x9E37_79B9_7F4A_7C15), read()).unwrap();
            }
            let trace = builder.finish();
            for (a, b) in pages.iter().zip(trace.references()) {
                let first = pages.iter().position(|page| page == a).unwrap();
                prop_assert_eq!(*b, trace.references()[first]);
                prop_assert!(*b < trace.pages());
            }
            let mut distinct = pages.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(trace.pages() as usize, distinct.len());
        }
    }
}
