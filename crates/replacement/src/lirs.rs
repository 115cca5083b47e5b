//! LIRS: what counts is the distance between a page's last two uses, not the time since the last.
//!
//! Most frames hold LIR pages (low inter-reference recency). A small rest holds HIR pages in a queue,
//! whose front leaves first. A stack orders pages by their last use, down to the LIR page that was used
//! least recently; it also remembers HIR pages that left. A HIR page used again while it is in the
//! stack has a shorter distance than that LIR page, and takes its place.
//!
//! - **Source**: S. Jiang, X. Zhang, SIGMETRICS 2002.
//! - **Parameters**: `hir` (share of the frames for HIR pages, 0.001 to 0.9, default 0.01, at least 2
//!   frames where there are more than 2, as in the authors' program), `ghosts` (remembered pages as a
//!   share of the frames, 0 to 2500, default 2500, the authors' limit; libraries take 2): beyond it the
//!   page that left first is forgotten.
//! - **Differences to the paper**: the bound on remembered pages. A use directly after a use of the
//!   same page counts, where the authors' program skips it. When the queue holds only pinned pages,
//!   LIR pages are taken from the stack's bottom, and are remembered in their place.
//! - **Hit**: logged, amortised O(1). **Victim**: O(1) plus pinned frames passed; at most one walk
//!   over all frames and the stack.
//! - **Memory**: 21 bytes a frame, 24 a page in the stack (where keys are hashed 28, and 8 a remembered
//!   one); allocated as they come, up to 1 + `ghosts` times the frames. A pool should set `ghosts` to 2.
//! - **Scan resistance**: yes, and loops longer than the cache are held in part. The short queue throws
//!   out new pages quickly, which costs on transaction traces.

use std::sync::Arc;

use crate::entries::Entries;
use crate::frame_list::{Links, List, NONE};
use crate::frames::{LoggedHits, Residents, shared};
use crate::ghost::KeySpace;
use crate::page_map::{PageMap, REMEMBERED, is_remembered};
use crate::policy::{
    Access, Candidates, FrameId, HitPath, Miss, PageKey, Policy, PolicyStatistics, ResizeError,
    add_count, share_of,
};

/// The sizes; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LirsParameters {
    /// Share of the frames for HIR pages.
    pub hir: f64,
    /// Remembered pages as a share of the frames.
    pub ghosts: f64,
}

impl Default for LirsParameters {
    fn default() -> Self {
        Self { hir: 0.01, ghosts: 2500.0 }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Lirs {
    parameters: LirsParameters,
    residents: Residents,
    /// S: most recently used first, the bottom is the tail.
    stack: Entries,
    /// Where each frame's page stands in the stack, or [`NONE`].
    entry_of: Vec<u32>,
    is_lir: Vec<bool>,
    queue_links: Links,
    /// Q: resident HIR pages; the end is the head, the front the tail.
    queue: List,
    ghost_links: Links,
    /// Remembered pages, the last that left first.
    ghosts: List,
    lir_count: u32,
    lir_frames: u32,
    ghosts_max: u32,
    statistics: PolicyStatistics,
}

const ENTRY_NEW: u32 = 0;
const ENTRY_REMEMBERED: u32 = 1;

impl Lirs {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]).
    #[must_use]
    pub fn new(parameters: LirsParameters, frames: u32, space: KeySpace) -> Self {
        let mut policy = Self {
            parameters,
            residents: Residents::new(frames),
            stack: Entries::new(frames, space),
            entry_of: vec![NONE; frames as usize],
            is_lir: vec![false; frames as usize],
            queue_links: Links::new(frames),
            queue: List::default(),
            ghost_links: Links::new(0),
            ghosts: List::default(),
            lir_count: 0,
            lir_frames: 0,
            ghosts_max: 0,
            statistics: PolicyStatistics::default(),
        };
        policy.set_sizes(frames);
        policy
    }

    fn set_sizes(&mut self, frames: u32) {
        // One HIR frame at least, and one LIR frame where there are two.
        let hir = share_of(self.parameters.hir, frames).max(2).min(frames.saturating_sub(1));
        self.lir_frames = frames - hir.max(1);
        self.ghosts_max = share_of(self.parameters.ghosts, frames);
    }

    /// Drops HIR pages off the stack's bottom until a LIR page is there.
    #[inline]
    fn prune(&mut self) {
        loop {
            let bottom = self.stack.order().tail();
            if bottom == NONE {
                return;
            }
            let frame = self.stack.frame(bottom);
            if frame == NONE {
                self.drop_ghost(bottom);
            } else if self.is_lir[frame as usize] {
                return;
            } else {
                self.entry_of[frame as usize] = NONE;
                self.stack.remove(bottom);
            }
        }
    }

    fn drop_ghost(&mut self, entry: u32) {
        self.ghost_links.remove(&mut self.ghosts, entry);
        self.stack.remove(entry);
    }

    /// The page in `frame`, now at the stack's top, becomes LIR; the bottom one makes room.
    fn become_lir(&mut self, frame: u32) {
        self.is_lir[frame as usize] = true;
        self.lir_count += 1;
        while self.lir_count > self.lir_frames {
            self.demote_bottom();
        }
    }

    /// The LIR page at the bottom becomes HIR, at the end of the queue and out of the stack.
    fn demote_bottom(&mut self) {
        let bottom = self.stack.order().tail();
        let frame = self.stack.frame(bottom);
        self.stack.remove(bottom);
        self.entry_of[frame as usize] = NONE;
        self.is_lir[frame as usize] = false;
        self.lir_count -= 1;
        self.queue_links.push_head(&mut self.queue, frame);
        self.prune();
    }

    fn apply_hit(&mut self, frame: u32) {
        let entry = self.entry_of[frame as usize];
        if self.is_lir[frame as usize] {
            let was_bottom = self.stack.order().tail() == entry;
            self.stack.move_to_head(entry);
            if was_bottom {
                self.prune();
            }
        } else if entry == NONE {
            if let Some(page) = self.residents.page_in(FrameId(frame)) {
                self.entry_of[frame as usize] = self.stack.push_head(page, frame);
            }
            self.queue_links.move_to_head(&mut self.queue, frame);
            // A stack without a LIR page at its bottom holds nothing (as with a single frame).
            self.prune();
        } else {
            self.stack.move_to_head(entry);
            self.queue_links.remove(&mut self.queue, frame);
            self.become_lir(frame);
        }
    }

    /// Takes the page out of its frame; with `is_remembered` it keeps its place in the stack.
    fn leave(&mut self, frame: FrameId, is_remembered: bool) {
        if self.residents.leave(frame).is_none() {
            return;
        }
        let place = frame.0 as usize;
        let entry = std::mem::replace(&mut self.entry_of[place], NONE);
        if std::mem::take(&mut self.is_lir[place]) {
            self.lir_count -= 1;
        } else {
            self.queue_links.remove(&mut self.queue, frame.0);
        }
        if entry == NONE {
            return;
        }
        if is_remembered && self.ghosts_max > 0 {
            if self.ghosts.len() >= self.ghosts_max {
                self.drop_ghost(self.ghosts.tail());
            }
            self.stack.remember(entry);
            self.ghost_links.grow_to(entry + 1);
            self.ghost_links.push_head(&mut self.ghosts, entry);
        } else {
            self.stack.remove(entry);
        }
        self.prune();
    }
}

impl Policy for Lirs {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        shared(LoggedHits)
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        if self.residents.is_resident(frame) {
            self.apply_hit(frame.0);
        }
    }

    #[inline]
    fn miss(&mut self, page: PageKey, _access: Access) -> Miss {
        // Out of the stack before room is made, or the page's own memory could be what is dropped.
        match self.stack.find(page) {
            Some(entry) => {
                self.statistics.ghost_hits += 1;
                self.drop_ghost(entry);
                Miss::new(ENTRY_REMEMBERED, true)
            }
            None => Miss::new(ENTRY_NEW, false),
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let queued = self.queue_links.oldest_first(&self.queue);
        let low = self.stack.links().oldest_first(self.stack.order());
        let lir = low
            .map(|entry| self.stack.frame(entry))
            .filter(|frame| *frame != NONE && self.is_lir[*frame as usize]);
        self.statistics.search(queued.chain(lir), candidates)
    }

    #[inline]
    fn evicted(&mut self, frame: FrameId) {
        self.leave(frame, true);
    }

    #[inline]
    fn admit(&mut self, miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if !self.residents.admit(frame, page) {
            return;
        }
        // Another miss in flight may have remembered the page meanwhile.
        if let Some(entry) = self.stack.find(page) {
            self.drop_ghost(entry);
        }
        self.entry_of[frame.0 as usize] = self.stack.push_head(page, frame.0);
        if (miss.entry() == ENTRY_REMEMBERED || self.lir_count < self.lir_frames)
            && self.lir_frames > 0
        {
            self.become_lir(frame.0);
        } else {
            self.queue_links.push_head(&mut self.queue, frame.0);
            self.prune();
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame, false);
    }

    fn forget_page(&mut self, page: PageKey) {
        if let Some(entry) = self.stack.find(page) {
            self.drop_ghost(entry);
        }
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.entry_of.resize(frames as usize, NONE);
        self.is_lir.resize(frames as usize, false);
        self.queue_links.resize(frames);
        self.set_sizes(frames);
        while self.lir_count > self.lir_frames {
            self.demote_bottom();
        }
        while self.ghosts.len() > self.ghosts_max {
            self.drop_ghost(self.ghosts.tail());
        }
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let queued = self.queue_links.oldest_first(&self.queue);
        let low = self.stack.links().oldest_first(self.stack.order());
        let lir = low
            .map(|entry| self.stack.frame(entry))
            .filter(|frame| *frame != NONE && self.is_lir[*frame as usize]);
        frames.extend(queued.chain(lir).take(count).map(FrameId));
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    fn page_map(&self) -> Option<Arc<PageMap>> {
        self.stack.page_map()
    }

    #[inline]
    fn bring_near(&self, word: u32) -> u32 {
        if is_remembered(word) {
            self.stack.bring_near(word) ^ self.ghost_links.bring_near(word & !REMEMBERED)
        } else {
            self.entry_of.get(word as usize).map_or(0, |entry| self.stack.bring_near(*entry))
        }
    }

    /// HIR pages under 0, LIR pages under 1.
    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        add_count(counts, 0, u64::from(self.queue.len()));
        add_count(counts, 1, u64::from(self.lir_count));
    }

    fn check(&self) -> Result<(), String> {
        self.stack.check()?;
        self.queue_links.check(&self.queue, "queue")?;
        self.ghost_links.check(&self.ghosts, "remembered pages")?;
        if self.ghosts.len() != self.stack.remembered() || self.ghosts.len() > self.ghosts_max {
            return Err(format!(
                "{} pages in the order of leaving, {} remembered, at most {}",
                self.ghosts.len(),
                self.stack.remembered(),
                self.ghosts_max
            ));
        }
        if self.queue.len() + self.lir_count != self.residents.count() {
            return Err("LIR pages and the queue together are not the resident frames".to_owned());
        }
        if self.lir_count > self.lir_frames {
            return Err(format!("{} LIR pages, room for {}", self.lir_count, self.lir_frames));
        }
        let bottom = self.stack.order().tail();
        if bottom != NONE {
            let frame = self.stack.frame(bottom);
            if frame == NONE || !self.is_lir[frame as usize] {
                return Err("the stack's bottom is not a LIR page".to_owned());
            }
        }
        for (frame, page) in self.residents.iter() {
            let (place, entry) = (frame.0 as usize, self.entry_of[frame.0 as usize]);
            if self.is_lir[place] == self.queue_links.is_linked(frame.0) {
                return Err(format!("frame {} is LIR and queued, or neither", frame.0));
            }
            if entry == NONE && self.is_lir[place] {
                return Err(format!("frame {} is LIR and not in the stack", frame.0));
            }
            if entry != NONE && self.stack.frame(entry) != frame.0 {
                return Err(format!("frame {} is not where it thinks", frame.0));
            }
            if self.stack.find(page).is_some() {
                return Err(format!("the page in frame {} is remembered, too", frame.0));
            }
        }
        Ok(())
    }
}
