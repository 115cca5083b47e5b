//! Naive models, slow and plain: queues of pages with ghosts. Vectors hold the newest page last.

use super::cache::Outcome;

/// A policy and its cache in one.
pub(crate) trait Model {
    fn reference(&mut self, page: u64, tick_ms: u32) -> Outcome;
}

/// Takes `page` out of a vector; whether it was there.
pub(crate) fn take(from: &mut Vec<u64>, page: u64) -> bool {
    let before = from.len();
    from.retain(|other| *other != page);
    from.len() < before
}

/// A share of the frames as the policies round it.
pub(crate) fn share(of: f64, frames: usize) -> usize {
    if of == 0.0 { 0 } else { ((of * frames as f64).floor() as usize).max(1) }
}

pub(crate) struct Fifo {
    pub(crate) frames: usize,
    pub(crate) queue: Vec<u64>,
}

impl Model for Fifo {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if self.queue.contains(&page) {
            return Outcome::Hit;
        }
        let left = (self.queue.len() == self.frames).then(|| self.queue.remove(0));
        self.queue.push(page);
        Outcome::Miss(left)
    }
}

pub(crate) struct Lru {
    pub(crate) frames: usize,
    pub(crate) order: Vec<u64>,
}

impl Model for Lru {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        let is_hit = take(&mut self.order, page);
        let left = (self.order.len() == self.frames).then(|| self.order.remove(0));
        self.order.push(page);
        if is_hit { Outcome::Hit } else { Outcome::Miss(left) }
    }
}

/// Johnson and Shasha's full version, figure "2Q full".
pub(crate) struct TwoQ {
    pub(crate) frames: usize,
    pub(crate) k_in: usize,
    pub(crate) k_out: usize,
    pub(crate) a1_in: Vec<u64>,
    pub(crate) a1_out: Vec<u64>,
    pub(crate) am: Vec<u64>,
}

impl Model for TwoQ {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if take(&mut self.am, page) {
            self.am.push(page);
            return Outcome::Hit;
        }
        if self.a1_in.contains(&page) {
            return Outcome::Hit;
        }
        let was_remembered = take(&mut self.a1_out, page);
        let mut left = None;
        if self.a1_in.len() + self.am.len() == self.frames {
            if self.a1_in.len() > self.k_in || self.am.is_empty() {
                let page = self.a1_in.remove(0);
                left = Some(page);
                self.a1_out.push(page);
                if self.a1_out.len() > self.k_out {
                    self.a1_out.remove(0);
                }
            } else {
                left = Some(self.am.remove(0));
            }
        }
        if was_remembered {
            self.am.push(page)
        } else {
            self.a1_in.push(page)
        }
        Outcome::Miss(left)
    }
}

/// Megiddo and Modha, figure 4, case by case.
#[derive(Default)]
pub(crate) struct Arc {
    pub(crate) c: usize,
    pub(crate) is_integer: bool,
    pub(crate) p: f64,
    pub(crate) t1: Vec<u64>,
    pub(crate) t2: Vec<u64>,
    pub(crate) b1: Vec<u64>,
    pub(crate) b2: Vec<u64>,
}

impl Arc {
    fn delta(&self, mine: usize, other: usize) -> f64 {
        let ratio = other as f64 / mine as f64;
        (if self.is_integer { ratio.floor() } else { ratio }).max(1.0)
    }

    #[allow(clippy::float_cmp, reason = "the paper compares |T1| with p for equality")]
    fn replace(&mut self, page_is_in_b2: bool) -> u64 {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && (t1 > self.p || (page_is_in_b2 && t1 == self.p)) {
            let page = self.t1.remove(0);
            self.b1.push(page);
            page
        } else {
            let page = self.t2.remove(0);
            self.b2.push(page);
            page
        }
    }
}

impl Model for Arc {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        // Case I.
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
            return Outcome::Hit;
        }
        let c = self.c as f64;
        // Case II.
        if self.b1.contains(&page) {
            self.p = (self.p + self.delta(self.b1.len(), self.b2.len())).min(c);
            let left = self.replace(false);
            take(&mut self.b1, page);
            self.t2.push(page);
            return Outcome::Miss(Some(left));
        }
        // Case III.
        if self.b2.contains(&page) {
            self.p = (self.p - self.delta(self.b2.len(), self.b1.len())).max(0.0);
            let left = self.replace(true);
            take(&mut self.b2, page);
            self.t2.push(page);
            return Outcome::Miss(Some(left));
        }
        // Case IV.
        let mut left = None;
        if self.t1.len() + self.b1.len() == self.c {
            if self.t1.len() < self.c {
                self.b1.remove(0);
                // A cache with room asks for no page; the paper's does not arise there.
                if self.t1.len() + self.t2.len() == self.c {
                    left = Some(self.replace(false));
                }
            } else {
                left = Some(self.t1.remove(0));
            }
        } else {
            let total = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
            if total >= self.c {
                if total == 2 * self.c {
                    self.b2.remove(0);
                }
                if self.t1.len() + self.t2.len() == self.c {
                    left = Some(self.replace(false));
                }
            }
        }
        self.t1.push(page);
        Outcome::Miss(left)
    }
}

/// Yang et al., algorithm 1, with the later warm-up; and Clock2Q+ with `window`.
pub(crate) struct S3Fifo {
    pub(crate) frames: usize,
    pub(crate) small_frames: usize,
    pub(crate) ghost_frames: usize,
    pub(crate) promote: u32,
    pub(crate) cap: u32,
    pub(crate) warm_up: bool,
    /// Pages that enter the small queue before a use of a page there counts.
    pub(crate) window: u64,
    /// Page, count, number of its entry.
    pub(crate) small: Vec<(u64, u32, u64)>,
    pub(crate) main: Vec<(u64, u32)>,
    pub(crate) ghosts: Vec<u64>,
    pub(crate) entries: u64,
    pub(crate) has_evicted: bool,
}

impl S3Fifo {
    fn evict(&mut self) -> u64 {
        self.has_evicted = true;
        loop {
            if !self.small.is_empty() && self.small.len() >= self.small_frames {
                while !self.small.is_empty() {
                    let (page, count, _) = self.small.remove(0);
                    if count >= self.promote {
                        self.main.push((page, 0));
                    } else {
                        self.ghosts.push(page);
                        if self.ghosts.len() > self.ghost_frames {
                            self.ghosts.remove(0);
                        }
                        return page;
                    }
                }
            } else {
                let (page, count) = self.main.remove(0);
                if count == 0 {
                    return page;
                }
                self.main.push((page, count - 1));
            }
        }
    }
}

impl Model for S3Fifo {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if let Some(held) = self.small.iter_mut().find(|held| held.0 == page) {
            if self.entries - held.2 >= self.window {
                held.1 = (held.1 + 1).min(self.cap);
            }
            return Outcome::Hit;
        }
        if let Some(held) = self.main.iter_mut().find(|held| held.0 == page) {
            held.1 = (held.1 + 1).min(self.cap);
            return Outcome::Hit;
        }
        let was_remembered = take(&mut self.ghosts, page);
        let is_full = self.small.len() + self.main.len() == self.frames;
        let left = is_full.then(|| self.evict());
        let is_warming = self.warm_up && !self.has_evicted && self.small.len() >= self.small_frames;
        if was_remembered || is_warming {
            self.main.push((page, 0));
        } else {
            self.entries += 1;
            self.small.push((page, 0, self.entries));
        }
        Outcome::Miss(left)
    }
}
