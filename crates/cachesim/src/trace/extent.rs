//! Bytes into pages.

use std::num::NonZeroU32;

use super::error::Fault;
use super::reference::Reference;

/// Most pages of one request: 16 GiB of 4-kB pages. More is not a request but a wrong column.
const PAGES_MAX: u64 = 1 << 22;

/// A request for `bytes` bytes from byte `start` on, as a run of pages. An empty request touches the
/// page it begins on.
pub(super) fn cut(start: u128, bytes: u64, page_bytes: NonZeroU32) -> Result<Reference, Fault> {
    let page_bytes = u128::from(page_bytes.get());
    let first = start / page_bytes;
    let last = (start + u128::from(bytes.max(1)) - 1) / page_bytes;
    let Ok(page) = u64::try_from(first) else {
        return Err(Fault::new(
            format!("a request at byte {start} is beyond any disk"),
            "check --trace-format, --columns and --block-size",
        ));
    };
    run(page, u64::try_from(last - first).unwrap_or(u64::MAX).saturating_add(1))
}

/// `pages` pages from `page` on.
pub(super) fn run(page: u64, pages: u64) -> Result<Reference, Fault> {
    if pages == 0 {
        return Err(Fault::new("a request of no block", "check --trace-format"));
    }
    if pages > PAGES_MAX || page.checked_add(pages).is_none() {
        return Err(Fault::new(
            format!(
                "a request of {pages} pages from page {page}: at most {PAGES_MAX} are believed"
            ),
            "check --trace-format, --columns and --page-size",
        ));
    }
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    Ok(Reference { pages, ..Reference::read(page) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(start: u128, bytes: u64, page: u32) -> (u64, u32) {
        let cut = cut(start, bytes, NonZeroU32::new(page).unwrap()).unwrap();
        (cut.page, cut.pages)
    }

    #[test]
    fn a_request_touches_each_page_it_has_a_byte_in() {
        assert_eq!(pages(0, 8192, 8192), (0, 1));
        assert_eq!(pages(8191, 2, 8192), (0, 2));
        assert_eq!(pages(512, 0, 512), (1, 1));
        assert_eq!(pages(4096, 65_536, 8192), (0, 9));
    }

    #[test]
    fn a_request_of_an_impossible_length_is_refused() {
        let page = NonZeroU32::MIN;
        assert!(cut(0, u64::MAX, page).is_err());
        assert!(cut(u128::from(u64::MAX) * 512, 1, page).is_err());
        assert!(run(u64::MAX, 2).is_err());
        assert!(run(0, 0).is_err());
    }
}
