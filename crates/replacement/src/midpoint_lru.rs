//! An LRU list that new pages enter at 5/8 of its length, and whose last 1/8 is a clock.
//!
//! The list has three parts: young, old, and at its end the clock zone. A page read enters at the
//! border of young and old and sinks, unless it is used, which moves it to the front. A page that sinks
//! into the zone gets a usage count there, and victims are taken from the zone by a sweep, so that
//! neither a search nor a use of a page in the zone changes the order.
//!
//! - **Source**: A. Borodin's mail to pgsql-hackers of February 2019 on a tweaked LRU, which names
//!   the list, 5/8 and the swept 1/8; MySQL's 5/8 is the same border seen from the front.
//! - **Parameters**: `midpoint` (where new pages enter, as a share of the list from its front, 0 to 1,
//!   default 0.625), `clock_share` (the zone, 0.001 to 1, default 0.125; both together at most 1),
//!   `clock_use` (what the hand does with a page of the zone that was used: `front`, the default, moves
//!   it to the front of the list; `stay` lowers its count and passes it), `cap` (the highest count, 1
//!   to 255, default 5).
//! - **Differences to the source**: the patch is not public. That the border is counted from the front,
//!   and both readings of `clock_use`, are ours. Pages pushed out of the zone's share by others enter
//!   it with count 0.
//! - **Hit**: in the zone one load, at most one compare-and-swap; elsewhere logged, O(1). **Victim**:
//!   amortised O(1), at worst `cap` + 1 turns of the zone, then one walk over the list.
//! - **Memory**: 21 bytes a frame; no ghosts.
//! - **Scan resistance**: yes: a scan displaces only what lies behind the midpoint.

use std::sync::Arc;

use crate::frame_list::{Links, List, NONE};
use crate::frames::{Residents, Words};
use crate::policy::{
    Access, Answer, Candidates, FrameId, HitLog, HitPath, Miss, PageKey, Policy, PolicyStatistics,
    ResizeError, add_count, share_of,
};

/// What the hand does with a page of the zone that was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockUse {
    /// Moves it to the front of the list.
    #[default]
    Front,
    /// Lowers its count and passes it.
    Stay,
}

/// The parameters; see the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MidpointLruParameters {
    /// Where new pages enter, as a share of the list from its front.
    pub midpoint: f64,
    /// The share of the zone.
    pub clock_share: f64,
    /// What happens to used pages of the zone.
    pub clock_use: ClockUse,
    /// The highest count in the zone.
    pub cap: u32,
}

impl Default for MidpointLruParameters {
    fn default() -> Self {
        Self { midpoint: 0.625, clock_share: 0.125, clock_use: ClockUse::Front, cap: 5 }
    }
}

/// In a frame's word: the page is in the zone. Below it stands the count.
const IN_ZONE: u32 = 1 << 31;

/// The words hits store to.
#[derive(Debug)]
struct ZoneCounts {
    words: Words,
    cap: u32,
}

impl HitPath for ZoneCounts {
    #[inline]
    fn hit(&self, frame: FrameId, access: Access, log: &mut HitLog) {
        let word = self.words.get(frame);
        if word & IN_ZONE == 0 {
            log.push(frame, access);
        } else if word & !IN_ZONE < self.cap {
            self.words.try_replace(frame, word, word + 1);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Young,
    Old,
    Zone,
}

/// See the module.
#[derive(Debug)]
pub struct MidpointLru {
    parameters: MidpointLruParameters,
    residents: Residents,
    counts: Arc<ZoneCounts>,
    links: Links,
    /// The three parts, front first. In the zone the hand is at the tail; what it passes goes to the
    /// head.
    young: List,
    old: List,
    zone: List,
    place_of: Vec<Place>,
    statistics: PolicyStatistics,
}

impl MidpointLru {
    /// For a pool of `frames` (1 to [`crate::policy::MAX_FRAMES`]). `cap` is brought into range.
    #[must_use]
    pub fn new(parameters: MidpointLruParameters, frames: u32) -> Self {
        let parameters = MidpointLruParameters { cap: parameters.cap.clamp(1, 255), ..parameters };
        Self {
            parameters,
            residents: Residents::new(frames),
            counts: Arc::new(ZoneCounts { words: Words::new(frames), cap: parameters.cap }),
            links: Links::new(frames),
            young: List::default(),
            old: List::default(),
            zone: List::default(),
            place_of: vec![Place::Nowhere; frames as usize],
            statistics: PolicyStatistics::default(),
        }
    }

    fn list_mut(&mut self, place: Place) -> Option<(&mut Links, &mut List)> {
        let list = match place {
            Place::Nowhere => return None,
            Place::Young => &mut self.young,
            Place::Old => &mut self.old,
            Place::Zone => &mut self.zone,
        };
        Some((&mut self.links, list))
    }

    fn take_out(&mut self, frame: u32) {
        let place = std::mem::replace(&mut self.place_of[frame as usize], Place::Nowhere);
        if let Some((links, list)) = self.list_mut(place) {
            links.remove(list, frame);
        }
    }

    fn put(&mut self, frame: u32, place: Place, at_head: bool) {
        self.place_of[frame as usize] = place;
        self.counts.words.set(FrameId(frame), if place == Place::Zone { IN_ZONE } else { 0 });
        if let Some((links, list)) = self.list_mut(place) {
            if at_head { links.push_head(list, frame) } else { links.push_tail(list, frame) }
        }
    }

    /// Moves the borders to their shares of what is resident.
    fn settle(&mut self) {
        let count = self.residents.count();
        let zone = share_of(self.parameters.clock_share, count).min(count);
        let young = floor_share(self.parameters.midpoint, count).min(count - zone);
        while self.young.len() > young {
            let frame = self.young.tail();
            self.take_out(frame);
            self.put(frame, Place::Old, true);
        }
        while self.young.len() < young && !self.old.is_empty() {
            let frame = self.old.head();
            self.take_out(frame);
            self.put(frame, Place::Young, false);
        }
        // A zone that is over its share shrinks by the victims it gives.
        while self.zone.len() < zone {
            let frame = if self.old.is_empty() { self.young.tail() } else { self.old.tail() };
            if frame == NONE {
                return;
            }
            self.take_out(frame);
            self.put(frame, Place::Zone, true);
        }
    }

    fn leave(&mut self, frame: FrameId) {
        if self.residents.leave(frame).is_some() {
            self.take_out(frame.0);
            self.counts.words.set(frame, 0);
        }
    }

    /// Sweeps the zone. `Err`: the cache wants to stop.
    fn sweep(&mut self, candidates: &mut dyn Candidates) -> Result<Option<FrameId>, ()> {
        // Counts are finite, but hits may raise them meanwhile.
        let mut steps = u64::from(self.residents.count()) * u64::from(self.parameters.cap + 2);
        let mut pinned = 0;
        while steps > 0 && pinned < self.zone.len() {
            steps -= 1;
            self.statistics.sweep_steps += 1;
            let frame = FrameId(self.zone.tail());
            let word = self.counts.words.get(frame);
            if word & !IN_ZONE == 0 {
                match candidates.offer(frame) {
                    Answer::Take => return Ok(Some(frame)),
                    Answer::Pinned | Answer::Dirty => pinned += 1,
                    Answer::Stop => return Err(()),
                }
                self.links.move_to_head(&mut self.zone, frame.0);
                continue;
            }
            if candidates.is_pinned(frame) {
                pinned += 1;
                self.links.move_to_head(&mut self.zone, frame.0);
                continue;
            }
            pinned = 0;
            match self.parameters.clock_use {
                ClockUse::Front => {
                    self.take_out(frame.0);
                    self.put(frame.0, Place::Young, true);
                    self.settle();
                }
                ClockUse::Stay => {
                    self.counts.words.set(frame, word - 1);
                    self.links.move_to_head(&mut self.zone, frame.0);
                }
            }
        }
        Ok(None)
    }

    /// Searches the list itself from its end.
    fn search_list(&mut self, candidates: &mut dyn Candidates) -> Option<FrameId> {
        for list in [self.old, self.young] {
            for frame in self.links.oldest_first(&list) {
                self.statistics.sweep_steps += 1;
                match candidates.offer(FrameId(frame)) {
                    Answer::Take => return Some(FrameId(frame)),
                    Answer::Pinned | Answer::Dirty => {}
                    Answer::Stop => return None,
                }
            }
        }
        None
    }
}

/// A share of `count`, rounded down, and 0 where that is 0.
fn floor_share(share: f64, count: u32) -> u32 {
    if share * f64::from(count) < 1.0 { 0 } else { share_of(share, count) }
}

impl Policy for MidpointLru {
    fn hit_path(&self) -> Arc<dyn HitPath> {
        Arc::clone(&self.counts) as Arc<dyn HitPath>
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _access: Access) {
        match self.place_of.get(frame.0 as usize) {
            Some(Place::Young) => self.links.move_to_head(&mut self.young, frame.0),
            Some(Place::Old) => {
                self.take_out(frame.0);
                self.put(frame.0, Place::Young, true);
                self.settle();
            }
            // A logged hit comes here when the page sank into the zone after the use.
            Some(Place::Zone) => {
                let word = self.counts.words.get(frame);
                if word & !IN_ZONE < self.counts.cap {
                    self.counts.words.set(frame, word + 1);
                }
            }
            Some(Place::Nowhere) | None => {}
        }
    }

    #[inline]
    fn victim(&mut self, _miss: Miss, candidates: &mut dyn Candidates) -> Option<FrameId> {
        let found = match self.sweep(candidates) {
            Ok(None) => self.search_list(candidates),
            Ok(found) => found,
            Err(()) => None,
        };
        self.statistics.count_search(found)
    }

    #[inline]
    fn admit(&mut self, _miss: Miss, frame: FrameId, page: PageKey, _access: Access) {
        if self.residents.admit(frame, page) {
            self.put(frame.0, Place::Old, true);
            self.settle();
        }
    }

    #[inline]
    fn forget_frame(&mut self, frame: FrameId) {
        self.leave(frame);
    }

    fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        self.residents.resize(frames)?;
        self.links.resize(frames);
        self.place_of.resize(frames as usize, Place::Nowhere);
        let words = self.counts.words.resized(frames);
        self.counts = Arc::new(ZoneCounts { words, cap: self.counts.cap });
        Ok(())
    }

    fn look_ahead(&self, count: usize, frames: &mut Vec<FrameId>) {
        let end = frames.len() + count;
        let zone = self.links.oldest_first(&self.zone).map(FrameId);
        frames
            .extend(zone.filter(|frame| self.counts.words.get(*frame) & !IN_ZONE == 0).take(count));
        for list in [self.old, self.young] {
            let left = end - frames.len();
            frames.extend(self.links.oldest_first(&list).take(left).map(FrameId));
        }
    }

    fn resident(&self) -> u32 {
        self.residents.count()
    }

    fn statistics(&self) -> PolicyStatistics {
        self.statistics
    }

    /// Counts of the zone; pages of the list under 0.
    fn usage_histogram(&self, counts: &mut Vec<u64>) {
        for (frame, _) in self.residents.iter() {
            add_count(counts, (self.counts.words.get(frame) & !IN_ZONE) as usize, 1);
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut count = 0;
        let parts = [
            (&self.young, Place::Young, "young"),
            (&self.old, Place::Old, "old"),
            (&self.zone, Place::Zone, "zone"),
        ];
        for (list, place, name) in parts {
            self.links.check(list, name)?;
            count += list.len();
            for frame in self.links.oldest_first(list) {
                let in_zone = self.counts.words.get(FrameId(frame)) & IN_ZONE != 0;
                if self.place_of[frame as usize] != place || in_zone != (place == Place::Zone) {
                    return Err(format!("frame {frame} is in {name} and thinks otherwise"));
                }
            }
        }
        if count == self.residents.count() {
            Ok(())
        } else {
            Err("the three parts together are not the resident frames".to_owned())
        }
    }
}
