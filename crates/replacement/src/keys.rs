//! Page keys by frame or by ghost, half as wide where pages are numbered densely: what is evicted and
//! remembered is far from the processor, so bytes are time.

use crate::ghost::KeySpace;
use crate::policy::PageKey;

/// A key for each index below a bound, or none.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// Where keys are below 2^32 - 1.
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// The key of an index that has none. In a [`Keys::Wide`] a page with this very key has none.
const NO_KEY: u64 = u64::MAX;

impl Keys {
    pub(crate) fn new(count: u32, space: KeySpace) -> Self {
        match space {
            KeySpace::Dense(_) => Self::Narrow(vec![u32::MAX; count as usize]),
            KeySpace::Hashed => Self::Wide(vec![NO_KEY; count as usize]),
        }
    }

    pub(crate) fn resize(&mut self, count: u32) {
        match self {
            Self::Narrow(keys) => keys.resize(count as usize, u32::MAX),
            Self::Wide(keys) => keys.resize(count as usize, NO_KEY),
        }
    }

    /// The key at `index`; where there is none, one that no page has.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> PageKey {
        PageKey(match self {
            Self::Narrow(keys) => match keys[index as usize] {
                u32::MAX => NO_KEY,
                key => u64::from(key),
            },
            Self::Wide(keys) => keys[index as usize],
        })
    }

    #[inline]
    pub(crate) fn set(&mut self, index: u32, page: PageKey) {
        match self {
            Self::Narrow(keys) => keys[index as usize] = u32::try_from(page.0).unwrap_or(u32::MAX),
            Self::Wide(keys) => keys[index as usize] = page.0,
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self, index: u32) {
        self.set(index, PageKey(NO_KEY));
    }

    /// Reads the key at `index`, which may be any number, for the processor to have it near.
    #[inline]
    pub(crate) fn bring_near(&self, index: u32) -> u32 {
        match self {
            Self::Narrow(keys) => keys.get(index as usize).copied().unwrap_or(0),
            Self::Wide(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_was_set_and_a_cleared_one_is_no_page() {
        for (space, largest) in
            [(KeySpace::Dense(9), u64::from(u32::MAX - 1)), (KeySpace::Hashed, u64::MAX - 1)]
        {
            let mut keys = Keys::new(2, space);
            keys.set(1, PageKey(largest));
            assert_eq!([keys.get(0), keys.get(1)], [PageKey(NO_KEY), PageKey(largest)]);
            keys.clear(1);
            keys.resize(3);
            assert_eq!([keys.get(1), keys.get(2)], [PageKey(NO_KEY), PageKey(NO_KEY)]);
        }
    }
}
