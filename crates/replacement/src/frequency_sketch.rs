//! How often pages were used lately, in a fixed few bytes: a count-min sketch with ageing.
//!
//! Four counters of four bits stand for a page, each in a row of its own; its estimate is the least
//! of them, which is never below the true count since the last ageing and rarely much above. After
//! ten times as many uses as there are frames, every counter is halved: old fame fades.
//!
//! - **Sources**: G. Cormode, S. Muthukrishnan, J. Algorithms 55 (2005), for the sketch;
//!   G. Einziger, R. Friedman, B. Manes, ACM TOS 13 (2017), for four bits and halving.
//! - **Layout**: the four counters of a page lie in one block of 64 bytes, so that a use costs one
//!   cache line. A row has four counters for each frame, in all 8 bytes a frame, rounded up to a
//!   power of two.

/// Most a counter counts.
pub(crate) const COUNT_MAX: u32 = 15;

/// Uses between two halvings, as a multiple of the frames (the authors' choice).
const SAMPLE_PER_FRAME: u64 = 10;

/// 64-bit words in a block: 64 bytes, the usual cache line.
const WORDS_PER_BLOCK: usize = 8;

/// Words of a block that belong to one row.
const WORDS_PER_ROW: usize = WORDS_PER_BLOCK / ROWS;

const ROWS: usize = 4;

/// The lowest three bits of every counter: what remains of its neighbour's after a shift is cleared.
const LOW_THREE_BITS: u64 = 0x7777_7777_7777_7777;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct FrequencySketch {
    words: Vec<u64>,
    /// Uses since the last halving.
    uses: u64,
    sample: u64,
}

impl FrequencySketch {
    /// For a cache of `frames`.
    pub(crate) fn new(frames: u32) -> Self {
        let words = (frames.max(1) as usize).next_power_of_two().max(WORDS_PER_BLOCK);
        Self { words: vec![0; words], uses: 0, sample: SAMPLE_PER_FRAME * u64::from(frames.max(1)) }
    }

    /// Counts one use of `key`.
    #[inline]
    pub(crate) fn count(&mut self, key: u64) {
        for (word, shift) in self.places(key) {
            if let Some(word) = self.words.get_mut(word)
                && (*word >> shift) & 15 < 15
            {
                *word += 1 << shift;
            }
        }
        self.uses += 1;
        if self.uses >= self.sample {
            self.halve();
        }
    }

    /// About how often `key` was used since it became rare, 0 to [`COUNT_MAX`].
    #[inline]
    pub(crate) fn estimate(&self, key: u64) -> u32 {
        let mut least = COUNT_MAX;
        for (word, shift) in self.places(key) {
            let count = self.words.get(word).map_or(0, |word| (*word >> shift) & 15);
            least = least.min(u32::try_from(count).unwrap_or(COUNT_MAX));
        }
        least
    }

    fn halve(&mut self) {
        for word in &mut self.words {
            *word = (*word >> 1) & LOW_THREE_BITS;
        }
        self.uses /= 2;
    }

    /// The word and the shift of the key's counter in each row.
    #[inline]
    fn places(&self, key: u64) -> [(usize, u32); ROWS] {
        // Two rounds of multiply and fold: the low bits of dense page numbers must not decide alone.
        let mut hash = (key ^ (key >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash ^= hash >> 32;
        let blocks = self.words.len() / WORDS_PER_BLOCK;
        // 20 bits choose counters, those above them the block; 2^44 blocks are never reached.
        #[allow(clippy::cast_possible_truncation, reason = "masked by the number of blocks")]
        let block = (hash >> 20) as usize & (blocks - 1);
        let mut places = [(0, 0); ROWS];
        for (row, place) in places.iter_mut().enumerate() {
            let bits = (hash >> (row * 5)) & 31;
            #[allow(clippy::cast_possible_truncation, reason = "five bits")]
            let (word, counter) = ((bits >> 4) as usize, (bits & 15) as u32);
            *place = (block * WORDS_PER_BLOCK + row * WORDS_PER_ROW + word, counter * 4);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_never_below_the_true_count() {
        use proptest::prelude::*;
        proptest!(|(keys in proptest::collection::vec(0_u64..64, 0..300))| {
            // 40 frames: no halving within 300 uses.
            let mut sketch = FrequencySketch::new(40);
            let mut counts = [0_u32; 64];
            for key in keys {
                sketch.count(key);
                counts[usize::try_from(key).unwrap()] += 1;
            }
            for (key, count) in (0_u64..).zip(counts) {
                prop_assert!(sketch.estimate(key) >= count.min(COUNT_MAX), "page {}", key);
            }
        });
    }

    #[test]
    fn most_rare_pages_are_seen_as_rare_beside_hot_ones() {
        // A tenth of the pages is used 8 times, the others once: 1,000 frames, 5,000 pages.
        let mut sketch = FrequencySketch::new(1_000);
        for key in 0..5_000_u64 {
            for _ in 0..if key % 10 == 0 { 8 } else { 1 } {
                if sketch.uses + 1 < sketch.sample {
                    sketch.count(key);
                }
            }
        }
        let rare = (0..5_000_u64).filter(|key| key % 10 != 0 && sketch.estimate(*key) > 0);
        let (mut counted, mut overrated) = (0_u32, 0_u32);
        for key in rare {
            counted += 1;
            overrated += u32::from(sketch.estimate(key) >= 8);
        }
        assert!(counted > 3_000, "{counted} rare pages were counted");
        assert!(overrated * 100 < counted, "{overrated} of {counted} rare pages look hot");
    }

    #[test]
    fn old_fame_fades_by_half_after_ten_uses_a_frame() {
        let mut sketch = FrequencySketch::new(10);
        for _ in 0..12 {
            sketch.count(7);
        }
        assert_eq!(sketch.estimate(7), 12);
        // One other page: many would collide with page 7 now and then.
        for _ in 0..87 {
            sketch.count(100);
        }
        assert_eq!((sketch.uses, sketch.estimate(7)), (99, 12));
        sketch.count(100);
        assert_eq!((sketch.uses, sketch.estimate(7)), (50, 6));
        assert_eq!(sketch.estimate(100), COUNT_MAX / 2);
    }

    #[test]
    fn a_counter_stops_at_fifteen_and_spills_into_no_neighbour() {
        let mut sketch = FrequencySketch::new(1_000);
        for _ in 0..100 {
            sketch.count(3);
        }
        assert_eq!(sketch.estimate(3), COUNT_MAX);
        let counted: u32 = sketch.words.iter().map(|word| word.count_ones()).sum();
        assert_eq!(counted, 16, "four counters of four bits, nothing else");
    }
}
