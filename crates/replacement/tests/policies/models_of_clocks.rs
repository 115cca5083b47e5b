//! Naive models of policies with hands.

use super::cache::Outcome;
use super::models::{Model, take};

/// A queue whose oldest page goes round again while its bit is set.
pub(crate) struct Clock {
    pub(crate) frames: usize,
    pub(crate) initial: bool,
    /// The hand is at the front.
    pub(crate) queue: Vec<(u64, bool)>,
}

impl Model for Clock {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if let Some(held) = self.queue.iter_mut().find(|held| held.0 == page) {
            held.1 = true;
            return Outcome::Hit;
        }
        let mut left = None;
        if self.queue.len() == self.frames {
            while self.queue[0].1 {
                let (page, _) = self.queue.remove(0);
                self.queue.push((page, false));
            }
            left = Some(self.queue.remove(0).0);
        }
        self.queue.push((page, self.initial));
        Outcome::Miss(left)
    }
}

/// PostgreSQL's sweep over an array of buffers, with the variants.
pub(crate) struct Sweep {
    pub(crate) frames: usize,
    pub(crate) cap: u32,
    pub(crate) initial: u32,
    pub(crate) delay_ms: u32,
    /// "one", "max" or "balanced".
    pub(crate) increment: &'static str,
    pub(crate) halves: bool,
    pub(crate) pressure: usize,
    /// Page, count, when the count last rose.
    pub(crate) buffers: Vec<(u64, u32, u32)>,
    pub(crate) hand: usize,
    /// Steps that balanced rises owe.
    pub(crate) owed: u32,
}

impl Sweep {
    fn step(&mut self) {
        let count = &mut self.buffers[self.hand].1;
        *count = count.saturating_sub(1);
        self.hand = (self.hand + 1) % self.frames;
    }
}

impl Model for Sweep {
    fn reference(&mut self, page: u64, tick_ms: u32) -> Outcome {
        if let Some(held) = self.buffers.iter_mut().find(|held| held.0 == page) {
            if held.1 < self.cap && tick_ms - held.2 >= self.delay_ms {
                let risen = if self.increment == "one" { held.1 + 1 } else { self.cap };
                if self.increment == "balanced" {
                    self.owed += risen - held.1;
                }
                (held.1, held.2) = (risen, tick_ms);
            }
            return Outcome::Hit;
        }
        if self.buffers.len() < self.frames {
            self.buffers.push((page, self.initial, tick_ms));
            return Outcome::Miss(None);
        }
        for _ in 0..std::mem::take(&mut self.owed) {
            self.step();
        }
        while self.pressure > 0
            && self.buffers.iter().map(|held| held.1 as usize).sum::<usize>()
                > self.pressure * self.frames
        {
            self.step();
        }
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.frames;
            let held = &mut self.buffers[place];
            if held.1 == 0 {
                let left = held.0;
                *held = (page, self.initial, tick_ms);
                return Outcome::Miss(Some(left));
            }
            held.1 = if self.halves { held.1 / 2 } else { held.1 - 1 };
        }
    }
}

/// Zhang et al., algorithm 1.
pub(crate) struct Sieve {
    pub(crate) frames: usize,
    /// Oldest first.
    pub(crate) queue: Vec<(u64, bool)>,
    /// The page under the hand; none: start at the oldest.
    pub(crate) hand: Option<u64>,
}

impl Model for Sieve {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        if let Some(held) = self.queue.iter_mut().find(|held| held.0 == page) {
            held.1 = true;
            return Outcome::Hit;
        }
        let mut left = None;
        if self.queue.len() == self.frames {
            let at = self.hand.and_then(|hand| self.queue.iter().position(|held| held.0 == hand));
            let mut at = at.unwrap_or(0);
            while self.queue[at].1 {
                self.queue[at].1 = false;
                at = (at + 1) % self.queue.len();
            }
            self.hand = self.queue.get(at + 1).map(|held| held.0);
            left = Some(self.queue.remove(at).0);
        }
        self.queue.push((page, false));
        Outcome::Miss(left)
    }
}

/// Bansal and Modha, figure 2, line by line.
#[derive(Default)]
pub(crate) struct Car {
    pub(crate) c: usize,
    pub(crate) p: f64,
    /// The hands are at the front.
    pub(crate) t1: Vec<(u64, bool)>,
    pub(crate) t2: Vec<(u64, bool)>,
    pub(crate) b1: Vec<u64>,
    pub(crate) b2: Vec<u64>,
}

impl Car {
    fn replace(&mut self) -> u64 {
        loop {
            if self.t1.len() as f64 >= self.p.max(1.0) {
                let (page, bit) = self.t1.remove(0);
                if !bit {
                    self.b1.push(page);
                    return page;
                }
                self.t2.push((page, false));
            } else {
                let (page, bit) = self.t2.remove(0);
                if !bit {
                    self.b2.push(page);
                    return page;
                }
                self.t2.push((page, false));
            }
        }
    }
}

impl Model for Car {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        let mut clocks = self.t1.iter_mut().chain(self.t2.iter_mut());
        if let Some(held) = clocks.find(|held| held.0 == page) {
            held.1 = true;
            return Outcome::Hit;
        }
        let is_known = self.b1.contains(&page) || self.b2.contains(&page);
        let mut left = None;
        if self.t1.len() + self.t2.len() == self.c {
            left = Some(self.replace());
            if !is_known {
                let total = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                if self.t1.len() + self.b1.len() == self.c {
                    self.b1.remove(0);
                } else if total == 2 * self.c {
                    self.b2.remove(0);
                }
            }
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&page) {
            self.p = (self.p + (b2 / b1).max(1.0)).min(self.c as f64);
            take(&mut self.b1, page);
            self.t2.push((page, false));
        } else if self.b2.contains(&page) {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            take(&mut self.b2, page);
            self.t2.push((page, false));
        } else {
            self.t1.push((page, false));
        }
        Outcome::Miss(left)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Heat {
    Hot,
    Cold,
}

#[derive(Clone, Copy, Debug)]
struct OnRing {
    page: u64,
    heat: Heat,
    on_test: bool,
    is_resident: bool,
    bit: bool,
}

/// Jiang, Chen and Zhang, section 4: a ring turned so that the hot hand stands at the front, and the
/// list head is the back.
#[derive(Default)]
pub(crate) struct ClockPro {
    m: usize,
    m_c: usize,
    adaptive: bool,
    ring: Vec<OnRing>,
    /// The pages under the two other hands; the cold hand stands at a resident cold page.
    cold_hand: Option<u64>,
    test_hand: Option<u64>,
    is_warm: bool,
}

impl ClockPro {
    pub(crate) fn new(frames: usize, cold: usize, adaptive: bool) -> Self {
        Self { m: frames, m_c: cold, adaptive, ..Self::default() }
    }

    fn place(&self, page: u64) -> usize {
        self.ring.iter().position(|held| held.page == page).unwrap()
    }

    fn following(&self, page: u64) -> u64 {
        self.ring[(self.place(page) + 1) % self.ring.len()].page
    }

    /// The next resident cold page behind `page`, which may be that page itself.
    fn next_cold(&self, page: u64) -> Option<u64> {
        let place = self.place(page);
        let count = self.ring.len();
        let order = (1..=count).map(|step| self.ring[(place + step) % count]);
        order
            .into_iter()
            .find(|held| held.is_resident && held.heat == Heat::Cold)
            .map(|held| held.page)
    }

    fn hot(&self) -> usize {
        self.ring.iter().filter(|held| held.heat == Heat::Hot).count()
    }

    /// Takes a page off the ring; hands on it go on.
    fn remove(&mut self, page: u64) -> OnRing {
        if self.cold_hand == Some(page) {
            self.cold_hand = self.next_cold(page).filter(|other| *other != page);
        }
        if self.test_hand == Some(page) {
            self.test_hand = Some(self.following(page)).filter(|other| *other != page);
        }
        let place = self.place(page);
        self.ring.remove(place)
    }

    fn grow(&mut self) {
        if self.adaptive {
            self.m_c = (self.m_c + 1).min(self.m);
        }
    }

    fn end_test(&mut self, page: u64) {
        if self.adaptive {
            self.m_c = (self.m_c - 1).max(1);
        }
        let place = self.place(page);
        self.ring[place].on_test = false;
        if !self.ring[place].is_resident {
            self.remove(page);
        }
    }

    fn turn(&mut self) {
        let front = self.ring.remove(0);
        self.ring.push(front);
    }

    fn run_hot_hand(&mut self) {
        if self.hot() <= self.m - self.m_c {
            return;
        }
        while self.hot() > self.m - self.m_c {
            let front = self.ring[0];
            if front.heat == Heat::Hot {
                if !front.bit {
                    self.ring[0].heat = Heat::Cold;
                    self.cold_hand = self.cold_hand.or(Some(front.page));
                }
                self.ring[0].bit = false;
                self.turn();
            } else if front.on_test {
                self.end_test(front.page);
                if front.is_resident {
                    self.turn();
                }
            } else {
                self.turn();
            }
        }
        // On to the next hot page; the tests on the way end.
        while self.hot() > 0 && self.ring[0].heat == Heat::Cold {
            let front = self.ring[0];
            if front.on_test {
                self.end_test(front.page);
            }
            if front.is_resident {
                self.turn();
            }
        }
    }

    fn run_cold_hand(&mut self) -> u64 {
        loop {
            let page = self.cold_hand.unwrap();
            let place = self.place(page);
            let held = self.ring[place];
            if !held.bit {
                if held.on_test {
                    self.cold_hand = self.next_cold(page).filter(|other| *other != page);
                    self.ring[place].is_resident = false;
                    self.run_test_hand();
                } else {
                    self.remove(page);
                }
                return page;
            }
            self.remove(page);
            let heat = if held.on_test { Heat::Hot } else { Heat::Cold };
            self.ring.push(OnRing { heat, bit: false, on_test: !held.on_test, ..held });
            self.test_hand = self.test_hand.or(Some(page));
            if held.on_test {
                self.grow();
                self.run_hot_hand();
            } else {
                self.cold_hand = self.cold_hand.or(Some(page));
            }
        }
    }

    fn run_test_hand(&mut self) {
        while self.ring.iter().filter(|held| !held.is_resident).count() > self.m {
            let page = self.test_hand.unwrap();
            let held = self.ring[self.place(page)];
            if held.on_test {
                self.end_test(page);
            }
            if held.is_resident || !held.on_test {
                self.test_hand = Some(self.following(page));
            }
        }
    }
}

impl Model for ClockPro {
    fn reference(&mut self, page: u64, _: u32) -> Outcome {
        let held = self.ring.iter_mut().find(|held| held.page == page);
        let is_remembered = match held {
            Some(held) if held.is_resident => {
                held.bit = true;
                return Outcome::Hit;
            }
            held => held.is_some(),
        };
        if is_remembered {
            self.remove(page);
            self.grow();
        }
        let resident = self.ring.iter().filter(|held| held.is_resident).count();
        let left = (resident == self.m).then(|| self.run_cold_hand());
        self.is_warm |= self.hot() >= self.m - self.m_c;
        let is_hot = is_remembered || !self.is_warm;
        self.ring.push(OnRing {
            page,
            heat: if is_hot { Heat::Hot } else { Heat::Cold },
            on_test: !is_hot,
            is_resident: true,
            bit: false,
        });
        self.test_hand = self.test_hand.or(Some(page));
        if is_hot {
            self.run_hot_hand();
        } else {
            self.cold_hand = self.cold_hand.or(Some(page));
        }
        Outcome::Miss(left)
    }
}
