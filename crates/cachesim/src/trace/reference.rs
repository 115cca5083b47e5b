//! What a trace says, one event at a time.

/// What happened to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// A reference that leaves the page as it is.
    #[default]
    Read,
    /// A reference that leaves the page dirty.
    Write,
    /// No further reference: the page, referenced before and still pinned, became dirty.
    Dirtied,
}

/// One event of a trace. It may stand for a run of neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The first page. Of PostgreSQL's formats the upper 32 bits number the relation's fork in order
    /// of appearance and the lower ones are the block; of others it is the trace's own number, and a
    /// hash where the trace has text keys.
    pub page: u64,
    /// So many pages from `page` upwards, each referenced once, in order; at least 1.
    pub pages: u32,
    /// What happened.
    pub access: Access,
    /// Microseconds on the trace's clock, where it has one.
    pub time_us: Option<u64>,
    /// Index into the reader's classes, where the trace has any.
    pub class: Option<u16>,
}

impl Reference {
    /// A reference to `page` of which nothing more is known.
    #[must_use]
    pub const fn read(page: u64) -> Self {
        Self { page, pages: 1, access: Access::Read, time_us: None, class: None }
    }

    /// Whether this counts as a reference: all but [`Access::Dirtied`].
    #[must_use]
    pub const fn is_reference(&self) -> bool {
        !matches!(self.access, Access::Dirtied)
    }

    /// The pages of the run, one event each.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..u64::from(self.pages)).map(move |offset| Self {
            page: self.page.wrapping_add(offset),
            pages: 1,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_many_references_as_it_has_pages() {
        let run = Reference { pages: 3, access: Access::Write, ..Reference::read(7) };
        let pages: Vec<(u64, u32, Access)> =
            run.each().map(|it| (it.page, it.pages, it.access)).collect();
        assert_eq!(pages, [7, 8, 9].map(|page| (page, 1, Access::Write)));
    }
}
