//! Random: any unpinned page leaves, each as likely as the other.
//!
//! - **Source**: the textbook; L. Belady, IBM Systems Journal 5 (1966). A baseline: what a policy
//!   without any knowledge does.
//! - **Parameters**: `seed`.
//! - **Hit**: nothing. **Victim**: O(1); after as many refused draws as there are frames, one walk.
//! - **Memory**: 16 bytes a frame; no ghosts.
//! - **Scan resistance**: some: a scan of C pages leaves about a third of the old ones.

use std::sync::Arc;

use crate::frames::{NoHits, Residents, shared};
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError,
};

/// See the module.
#[derive(Debug)]
pub struct Random {
    residents: Residents,
    /// The resident frames in any order, and where each stands.
    held: Vec<u32>,
    place_of: Vec<u32>,
    state: u64,
    statistics: PolicyStatistics,
}

impl Random {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(seed: u64, frames: u32) -> Self {
        Self {
            residents: Residents::new(frames),
            held: Vec::with_capacity(frames as usize),
            place_of: vec![0; frames as usize],
            state: seed,
            statistics: PolicyStatistics::default(),
        }
    }

    /// SplitMix64 (S. Vigna); scaled by multiplication, whose bias below 2^-32 does not matter here.
    fn draw(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let scaled = (u128::from(z) * bound as u128) >> 64;
        usize::try_from(scaled).unwrap_or(0)
    }

    fn leave(&mut self, frame: FrameId) {
        if self.residents.leave(frame).is_some() {
            let place = self.place_of[frame.0 as usize] as usize;
            self.held.swap_remove(place);
            if let Some(moved) = self.held.get(place) {
                self.place_of[*moved as usize] = u32::try_from(place).unwrap_or(0);
            }
        }
    }
}

impl Policy for Random {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(NoHits)
    }

    #[inline]
    fn hit(&mut self, _frame: FrameId, _access: Access) {}

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let count = self.held.len();
        for attempt in 0..count.saturating_mul(2) {
            self.statistics.sweep_steps += 1;
            // The second half is a plain walk, so that a single unpinned frame is found for certain.
            let place = if attempt < count { self.draw(count) } else { attempt - count };
            let frame = FrameId(self.held[place]);
            match candidates.offer(frame) {
                Answer::Take => return self.statistics.count_search(Some(frame)),
                Answer::Pinned | Answer::Dirty => {}
                Answer::Stop => break,
            }
        }
        self.statistics.count_search(None)
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if self.residents.admit(frame, page) {
            self.place_of[frame.0 as usize] = u32::try_from(self.held.len()).unwrap_or(0);
            self.held.push(frame.0);
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.place_of.resize(frames as usize, 0);
        Ok(())
    }

    /// Nobody knows who is next; the frames shown are as likely as any other.
    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        frames.extend(self.held.iter().take(count).copied().map(FrameId));
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn check(&self) -> Result<(), String> {
        if self.held.len() != self.residents.count() as usize {
            return Err(format!("{} held, {} resident", self.held.len(), self.residents.count()));
        }
        for (place, frame) in self.held.iter().enumerate() {
            if self.place_of[*frame as usize] as usize != place {
                return Err(format!("frame {frame} does not know its place {place}"));
            }
        }
        Ok(())
    }
}
