//! Naive models of policies that keep an order of uses.

use super::cache::Outcome;
use super::models::{Model, share, take};

/// O'Neil, O'Neil and Weikum, figure 2.1: all pages are looked at for each victim.
pub(crate) struct LruK {
    pub(crate) frames: usize,
    pub(crate) k: usize,
    pub(crate) period: u64,
    pub(crate) in_ms: bool,
    pub(crate) remembered: usize,
    /// HIST and LAST of pages in the cache.
    pub(crate) held: Vec<(u64, Vec<u64>, u64)>,
    /// The same of pages that left, the last that left at the end.
    pub(crate) history: Vec<(u64, Vec<u64>)>,
    pub(crate) now: u64,
}

impl Model for LruK {
    fn reference(&mut self, page: u64, tick_ms: u32) -> Outcome {
        self.now = if self.in_ms { u64::from(tick_ms) } else { self.now + 1 };
        let (now, period) = (self.now, self.period);
        if let Some((_, hist, last)) = self.held.iter_mut().find(|held| held.0 == page) {
            if now - *last > period {
                let correlated = *last - hist[0];
                for i in (1..hist.len()).rev() {
                    hist[i] = if hist[i - 1] == 0 { 0 } else { hist[i - 1] + correlated };
                }
                hist[0] = now;
            }
            *last = now;
            return Outcome::Hit;
        }
        let mut left = None;
        if self.held.len() == self.frames {
            let eligible = |held: &&(u64, Vec<u64>, u64)| now - held.2 > period;
            let victim = self
                .held
                .iter()
                .filter(eligible)
                .min_by_key(|held| (held.1[self.k - 1], held.1[0]))
                .or_else(|| self.held.iter().min_by_key(|held| held.2))
                .unwrap()
                .0;
            let place = self.held.iter().position(|held| held.0 == victim).unwrap();
            let (page, hist, _) = self.held.remove(place);
            self.history.push((page, hist));
            if self.history.len() > self.remembered {
                self.history.remove(0);
            }
            left = Some(victim);
        }
        let mut hist = vec![0; self.k];
        if let Some(place) = self.history.iter().position(|held| held.0 == page) {
            let (_, old) = self.history.remove(place);
            hist[1..].copy_from_slice(&old[..self.k - 1]);
        }
        hist[0] = now;
        self.held.push((page, hist, now));
        Outcome::Miss(left)
    }
}

/// Jiang and Zhang: stack S and queue Q as vectors, top and end last.
pub(crate) struct Lirs {
    pub(crate) lir_frames: usize,
    pub(crate) hir_frames: usize,
    pub(crate) ghosts_max: usize,
    pub(crate) stack: Vec<u64>,
    pub(crate) queue: Vec<u64>,
    pub(crate) lir: Vec<u64>,
    /// Pages that are in the stack only, in the order in which they left.
    pub(crate) ghosts: Vec<u64>,
}

impl Lirs {
    fn prune(&mut self) {
        while self.stack.first().is_some_and(|bottom| !self.lir.contains(bottom)) {
            let bottom = self.stack.remove(0);
            take(&mut self.ghosts, bottom);
        }
    }

    fn promote(&mut self, page: u64) {
        self.lir.push(page);
        if self.lir.len() > self.lir_frames {
            let bottom = self.stack.remove(0);
            take(&mut self.lir, bottom);
            self.queue.push(bottom);
            self.prune();
        }
    }
}

impl Model for Lirs {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if self.lir.contains(&page) {
            take(&mut self.stack, page);
            self.stack.push(page);
            self.prune();
            return Outcome::Hit;
        }
        if self.queue.contains(&page) {
            take(&mut self.queue, page);
            let was_in_stack = take(&mut self.stack, page);
            self.stack.push(page);
            if was_in_stack {
                self.promote(page);
            } else {
                self.queue.push(page);
                self.prune();
            }
            return Outcome::Hit;
        }
        let was_in_stack = take(&mut self.stack, page);
        take(&mut self.ghosts, page);
        let mut left = None;
        if self.lir.len() + self.queue.len() == self.lir_frames + self.hir_frames {
            let front = self.queue.remove(0);
            left = Some(front);
            if self.stack.contains(&front) {
                if self.ghosts.len() >= self.ghosts_max {
                    let oldest = if self.ghosts_max == 0 { front } else { self.ghosts.remove(0) };
                    take(&mut self.stack, oldest);
                }
                if self.ghosts_max > 0 {
                    self.ghosts.push(front);
                }
                self.prune();
            }
        }
        self.stack.push(page);
        if self.lir_frames > 0 && (was_in_stack || self.lir.len() < self.lir_frames) {
            self.promote(page);
        } else {
            self.queue.push(page);
            self.prune();
        }
        Outcome::Miss(left)
    }
}

/// The list of the 2019 mail: front first, without the zone, and the zone as a ring with the hand at
/// its front.
pub(crate) struct MidpointLru {
    pub(crate) frames: usize,
    pub(crate) midpoint: f64,
    pub(crate) clock_share: f64,
    pub(crate) stays: bool,
    pub(crate) cap: u32,
    pub(crate) list: Vec<u64>,
    pub(crate) young: usize,
    pub(crate) zone: Vec<(u64, u32)>,
}

impl MidpointLru {
    fn settle(&mut self) {
        let count = self.list.len() + self.zone.len();
        let zone = share(self.clock_share, count).min(count);
        while self.zone.len() < zone && !self.list.is_empty() {
            let last = self.list.pop().unwrap();
            self.zone.push((last, 0));
        }
        let young = (self.midpoint * count as f64).floor() as usize;
        self.young = young.min(count - zone).min(self.list.len());
    }
}

impl Model for MidpointLru {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if let Some(held) = self.zone.iter_mut().find(|held| held.0 == page) {
            held.1 = (held.1 + 1).min(self.cap);
            return Outcome::Hit;
        }
        if take(&mut self.list, page) {
            self.list.insert(0, page);
            self.settle();
            return Outcome::Hit;
        }
        let mut left = None;
        if self.list.len() + self.zone.len() == self.frames {
            loop {
                let (page, count) = self.zone.remove(0);
                if count == 0 {
                    left = Some(page);
                    break;
                }
                if self.stays {
                    self.zone.push((page, count - 1));
                } else {
                    self.list.insert(0, page);
                    self.settle();
                }
            }
        }
        self.list.insert(self.young.min(self.list.len()), page);
        self.settle();
        Outcome::Miss(left)
    }
}

#[derive(Clone, Copy, Default)]
struct Block {
    page: u64,
    moved_at: u64,
    first_use_ms: u32,
}

/// InnoDB's rules on a vector, front first; the last `old` blocks are the old part.
#[derive(Default)]
pub(crate) struct Innodb {
    pub(crate) frames: usize,
    pub(crate) ratio: usize,
    pub(crate) old_time_ms: u32,
    pub(crate) old_from: usize,
    pub(crate) tolerance: usize,
    blocks: Vec<Block>,
    old: usize,
    left: u64,
}

impl Innodb {
    pub(crate) fn new(
        frames: usize,
        percent: usize,
        old_time_ms: u32,
        old_from: usize,
        tolerance: usize,
    ) -> Self {
        let ratio = percent * 1024 / 100;
        Self { frames, ratio, old_time_ms, old_from, tolerance, ..Self::default() }
    }

    fn adjust(&mut self) {
        let len = self.blocks.len();
        let wanted = (len * self.ratio / 1024).min(len - self.tolerance - 5);
        while self.old + self.tolerance < wanted {
            self.old += 1;
        }
        while self.old > wanted + self.tolerance && self.old > 1 {
            self.old -= 1;
        }
    }

    fn add(&mut self, block: Block, as_old: bool) {
        let len = self.blocks.len();
        if as_old && len >= self.old_from {
            self.blocks.insert(len - self.old + 1, block);
            self.old += 1;
        } else {
            self.blocks.insert(0, Block { moved_at: self.left, ..block });
        }
        let len = self.blocks.len();
        if len == self.old_from {
            self.old = len;
        }
        if len >= self.old_from {
            self.adjust();
        }
    }

    fn remove(&mut self, place: usize) -> Block {
        let first_old = self.blocks.len() - self.old;
        let block = self.blocks.remove(place);
        if self.old > 0 {
            // When the border's own block goes, the block before it becomes old instead.
            if place > first_old {
                self.old -= 1;
            }
            if self.blocks.len() < self.old_from { self.old = 0 } else { self.adjust() }
        }
        block
    }

    fn too_old(&self, place: usize, tick_ms: u32) -> bool {
        let block = self.blocks[place];
        if self.left == 0 {
            return false;
        }
        if self.old_time_ms > 0 && place >= self.blocks.len() - self.old {
            return tick_ms - block.first_use_ms >= self.old_time_ms;
        }
        let quarter = self.frames * (1024 - self.ratio) / (1024 * 4);
        self.left >= block.moved_at + quarter as u64
    }
}

impl Model for Innodb {
    fn reference(&mut self, page: u64, tick_ms: u32) -> Outcome {
        if let Some(place) = self.blocks.iter().position(|block| block.page == page) {
            if self.too_old(place, tick_ms) {
                let block = self.remove(place);
                self.add(block, false);
            }
            return Outcome::Hit;
        }
        let mut left = None;
        if self.blocks.len() == self.frames {
            left = Some(self.remove(self.frames - 1).page);
            self.left += 1;
        }
        self.add(Block { page, moved_at: 0, first_use_ms: tick_ms }, true);
        let place = self.blocks.iter().position(|block| block.page == page).unwrap();
        if self.old_time_ms == 0 && self.too_old(place, tick_ms) {
            let block = self.remove(place);
            self.add(block, false);
        }
        Outcome::Miss(left)
    }
}
