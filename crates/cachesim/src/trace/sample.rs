//! Sampling by page: a page is in the sample with all its references or with none, decided by a hash of
//! its number, so that reuse is kept (C. Waldspurger et al., "Efficient MRC Construction with SHARDS",
//! FAST 2015).

use super::mix;

/// Decides which pages are in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpatialSample {
    /// Hashes up to this one are in.
    last: u64,
    salt: u64,
}

impl SpatialSample {
    /// A sample of about this share of the pages, above 0 and at most 1; `None` for another share.
    /// Different salts give independent samples.
    #[must_use]
    pub fn new(ratio: f64, salt: u64) -> Option<Self> {
        if !(ratio > 0.0 && ratio <= 1.0) {
            return None;
        }
        // 2^64 times a ratio below 1 fits; a ratio of 1 saturates to all.
        let last = (ratio * 18_446_744_073_709_551_616.0) as u64;
        // 0 is the one number that the mix leaves as it is: page 0 would be in every sample of salt 0.
        let salt = mix(salt.wrapping_add(0x9E37_79B9_7F4A_7C15));
        Some(Self { last: last.max(1) - u64::from(last < u64::MAX), salt })
    }

    /// Whether a page is in the sample.
    #[inline]
    #[must_use]
    pub fn has(&self, page: u64) -> bool {
        self.has_hash(self.hash(page))
    }

    /// The share of pages that are in, above 0 and at most 1.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (self.last as f64 + 1.0) / 18_446_744_073_709_551_616.0
    }

    /// A page's hash, by which [`SpatialSample::has_hash`] decides.
    #[inline]
    pub(crate) fn hash(&self, page: u64) -> u64 {
        // Twice, so that pages that differ by the salt do not meet in neighbouring samples.
        mix(mix(page ^ self.salt).wrapping_add(self.salt))
    }

    /// Whether a page with this hash is in the sample.
    #[inline]
    pub(crate) const fn has_hash(&self, hash: u64) -> bool {
        hash <= self.last
    }

    /// The part of the sample whose hashes are below `hash`; one hash is left at least.
    pub(crate) fn below(&self, hash: u64) -> Self {
        Self { last: self.last.min(hash.saturating_sub(1)), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_share_of_pages_and_other_salts_other_pages() {
        let sample = SpatialSample::new(0.1, 1).unwrap();
        let other = SpatialSample::new(0.1, 2).unwrap();
        let count = |it: &dyn Fn(u64) -> bool| (0..100_000).filter(|page| it(*page)).count();
        let (one, both) = (count(&|p| sample.has(p)), count(&|p| sample.has(p) && other.has(p)));
        assert!((9_700..10_300).contains(&one), "{one}");
        assert!((850..1_150).contains(&both), "{both}");
        assert_eq!(count(&|p| SpatialSample::new(1.0, 3).unwrap().has(p)), 100_000);
    }

    #[test]
    fn the_first_page_is_in_no_sample_by_privilege() {
        // Block 0 of an index is among the hottest pages of a trace.
        let holding = |salt| SpatialSample::new(0.1, salt).unwrap().has(0);
        assert!(!holding(0));
        let count = (0..1000).filter(|salt| holding(*salt)).count();
        assert!((60..140).contains(&count), "{count}");
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        for ratio in [0.0, -1.0, 1.1, f64::NAN] {
            assert_eq!(SpatialSample::new(ratio, 0), None);
        }
        assert!(SpatialSample::new(f64::MIN_POSITIVE, 0).is_some());
    }
}
