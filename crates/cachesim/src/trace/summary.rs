//! What a trace is like: how much of it, how often pages come back, which classes.
//!
//! A *write reference* leaves its page dirty: by itself, or because the page is reported dirty before it
//! is referenced again ([`crate::dense`] rule 2). So a summary and a simulation count the same.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::mix;
use super::reference::{Access, Reference};

/// Pages that are told apart. Beyond, every second one is forgotten by its hash, and counts of distinct
/// pages are estimates: of so many pages within a thousandth. 16 million need about half a GiB.
const PAGES_MAX: usize = 1 << 24;

/// Bounds of the groups of pages by how often they are referenced: from, to.
const GROUPS: [(u64, u64); 6] = [(1, 1), (2, 3), (4, 15), (16, 255), (256, 4095), (4096, u64::MAX)];

/// Shares of the pages, the most referenced first, for which the share of references is told.
const TOPS: [f64; 4] = [0.001, 0.01, 0.1, 0.2];

/// Figures of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// References.
    pub references: u64,
    /// Of these, those that leave the page dirty; an estimate where `is_estimate` and `dirtied` say so.
    pub write_references: u64,
    /// Times that a page was reported dirty apart from a reference.
    pub dirtied: u64,
    /// Distinct pages.
    pub pages: u64,
    /// Whether `pages` and what follows from it is an estimate.
    pub is_estimate: bool,
    /// Earliest and latest time, in microseconds.
    pub time_us: Option<(u64, u64)>,
    /// Pages by how often they are referenced; groups without pages are left out.
    pub reuse: Vec<ReuseShare>,
    /// For shares of the pages, the most referenced first: share of pages, share of references.
    pub tops: Vec<(f64, f64)>,
    /// By class, in the order of the trace.
    pub classes: Vec<ClassSummary>,
}

/// Pages that are referenced about equally often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReuseShare {
    /// Least references of a page.
    pub from: u64,
    /// Most.
    pub to: u64,
    /// Share of all pages, 0 to 1.
    pub pages_ratio: f64,
    /// Share of all references, 0 to 1.
    pub references_ratio: f64,
}

/// Figures of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSummary {
    /// Its name.
    pub name: String,
    /// References.
    pub references: u64,
    /// Of these, those that leave the page dirty.
    pub write_references: u64,
    /// Distinct pages.
    pub pages: u64,
}

/// Collects a [`Summary`].
#[derive(Debug, Default)]
pub struct SummaryBuilder {
    summary: Summary,
    pages: HashMap<u64, Page, FixedState>,
    /// Pages are kept if the hash has this many zeros at its end.
    zeros: u32,
    limit: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    references: u64,
    class: Option<u16>,
    /// Whether its latest reference left it dirty.
    is_written: bool,
}

impl SummaryBuilder {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { limit: PAGES_MAX, ..Self::default() }
    }

    /// Adds an event, a page or a run of pages.
    pub fn add(&mut self, event: &Reference) {
        let pages = u64::from(event.pages);
        let class = event.class.map(usize::from);
        if let Some(class) = class
            && class >= self.summary.classes.len()
        {
            self.summary.classes.resize_with(class + 1, ClassSummary::default);
        }
        if let Some(time_us) = event.time_us {
            let (first, last) = self.summary.time_us.unwrap_or((time_us, time_us));
            self.summary.time_us = Some((first.min(time_us), last.max(time_us)));
        }
        let mut writes = 0;
        if event.access == Access::Dirtied {
            self.summary.dirtied += pages;
            for one in event.each() {
                writes += self.dirty(one.page);
            }
        } else {
            let is_write = event.access == Access::Write;
            writes = if is_write { pages } else { 0 };
            self.summary.references += pages;
            for one in event.each() {
                self.count(one.page, one.class, is_write);
            }
        }
        self.summary.write_references += writes;
        if let Some(class) = class.and_then(|class| self.summary.classes.get_mut(class)) {
            class.references += if event.is_reference() { pages } else { 0 };
            class.write_references += writes;
        }
    }

    /// The figures; `classes` are the names by number.
    #[must_use]
    pub fn finish(mut self, classes: &[String]) -> Summary {
        let scale = 1_u64 << self.zeros.min(63);
        self.summary.pages = self.pages.len() as u64 * scale;
        self.summary.is_estimate = self.zeros > 0;
        let mut counts: Vec<u64> = self.pages.values().map(|page| page.references).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = counts.iter().sum();
        let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        for (from, to) in GROUPS {
            let start = counts.partition_point(|count| *count > to);
            let end = counts.partition_point(|count| *count >= from);
            let group = counts.get(start..end).unwrap_or_default();
            if !group.is_empty() {
                self.summary.reuse.push(ReuseShare {
                    from,
                    to,
                    pages_ratio: ratio(group.len() as u64, counts.len() as u64),
                    references_ratio: ratio(group.iter().sum(), all),
                });
            }
        }
        for top in TOPS {
            let pages = (top * counts.len() as f64).round() as usize;
            if pages > 0 {
                let sum: u64 = counts.iter().take(pages).sum();
                self.summary.tops.push((top, ratio(sum, all)));
            }
        }
        for page in self.pages.values() {
            let class =
                page.class.and_then(|class| self.summary.classes.get_mut(usize::from(class)));
            if let Some(class) = class {
                class.pages += scale;
            }
        }
        for (class, name) in self.summary.classes.iter_mut().zip(classes) {
            class.name.clone_from(name);
        }
        self.summary
    }

    fn count(&mut self, page: u64, class: Option<u16>, is_write: bool) {
        if !is_kept(page, self.zeros) {
            return;
        }
        let new = Page { references: 0, class, is_written: false };
        let page = self.pages.entry(page).or_insert(new);
        page.references += 1;
        page.is_written = is_write;
        if self.pages.len() > self.limit {
            self.zeros += 1;
            let zeros = self.zeros;
            self.pages.retain(|page, _| is_kept(*page, zeros));
        }
    }

    /// The page is dirty now; how many references that makes write references, among all the pages that
    /// this one stands for.
    fn dirty(&mut self, page: u64) -> u64 {
        let scale = 1 << self.zeros.min(63);
        match self.pages.get_mut(&page) {
            Some(page) if !page.is_written => {
                page.is_written = true;
                scale
            }
            _ => 0,
        }
    }
}

fn is_kept(page: u64, zeros: u32) -> bool {
    mix(page).trailing_zeros() >= zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_pages_and_of_references() {
        let mut builder = SummaryBuilder::new();
        for page in 0..10 {
            builder.add(&Reference { class: Some(0), ..Reference::read(page) });
        }
        for time_us in 0..20 {
            builder.add(&Reference {
                access: Access::Write,
                time_us: Some(5 + time_us),
                ..Reference::read(3)
            });
        }
        builder.add(&Reference { access: Access::Dirtied, class: Some(0), ..Reference::read(3) });
        let summary = builder.finish(&["heap".to_owned()]);
        assert_eq!((summary.references, summary.write_references, summary.dirtied), (30, 20, 1));
        assert_eq!((summary.pages, summary.time_us), (10, Some((5, 24))));
        let shares: Vec<_> = summary.reuse.iter().map(|s| (s.from, s.references_ratio)).collect();
        assert_eq!(shares, [(1, 0.3), (16, 0.7)]);
        assert_eq!(summary.tops, [(0.1, 0.7), (0.2, 22.0 / 30.0)]);
        let class = &summary.classes[0];
        assert_eq!(
            (class.name.as_str(), class.references, class.write_references),
            ("heap", 10, 0)
        );
        assert_eq!(class.pages, 10);
    }

    #[test]
    fn a_summary_and_a_simulation_count_the_same_write_references() {
        let mut builder = SummaryBuilder::new();
        let mut dense = crate::dense::DenseTraceBuilder::<u64>::new("t", 8192);
        for step in 0..3000_u64 {
            let page = mix(step) % 40;
            let event = match mix(step + 1) % 3 {
                0 => Access::Read,
                1 => Access::Write,
                _ => Access::Dirtied,
            };
            let event = Reference { access: event, ..Reference::read(page) };
            builder.add(&event);
            if event.is_reference() {
                let is_write = event.access == Access::Write;
                let what = crate::dense::Reference { is_write, ..Default::default() };
                dense.reference(page, what).unwrap();
            } else {
                dense.dirtied(page);
            }
        }
        let (summary, dense) = (builder.finish(&[]), dense.finish());
        assert_eq!(summary.write_references, dense.writes());
        assert!(summary.write_references > 1000 && summary.dirtied > 800, "{summary:?}");
    }

    #[test]
    fn more_pages_than_are_kept_are_estimated() {
        let mut builder = SummaryBuilder { limit: 4000, ..SummaryBuilder::new() };
        builder.add(&Reference { pages: 100_000, ..Reference::read(0) });
        assert!(builder.pages.len() <= 4000);
        let summary = builder.finish(&[]);
        assert!(summary.is_estimate);
        assert!((95_000..105_000).contains(&summary.pages), "{}", summary.pages);
        assert_eq!(summary.references, 100_000);
    }
}
