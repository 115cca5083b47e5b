//! The suite that every policy passes, public so that a policy of another crate can be held to it.
//!
//! ```
//! use evenkeel_replacement::{conformance, lru::Lru};
//! conformance::check(&|frames| Box::new(Lru::new(frames))).unwrap();
//! ```
//!
//! A small cache with pins, refusals, failed reads, dropped pages and several misses in flight runs
//! random operations on the policy and checks after each that the contract of [`crate::policy`]
//! holds: a victim is resident and unpinned, no frame is lost or held twice, a search over pinned
//! frames ends and changes nothing, the same calls give the same answers, looking ahead changes
//! nothing, an owner's hit does what a logged one does. Hits wait in a log for a while, as in a pool, also
//! while their frames leave.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::policy::{
    Access, Answer, Candidates, FrameId, Hint, HitLog, Miss, PageKey, Policy, ResizeError,
};

/// Makes a policy for a number of frames.
pub type Maker<'a> = &'a dyn Fn(u32) -> Box<dyn Policy>;

/// Most offers a search over all-pinned frames may make, per frame: counters go to 255 at most and
/// pinned frames are not lowered, so a few walks are enough.
const OFFERS_PER_FRAME_MAX: u64 = 16;

/// Hits that may wait in a log before they are applied, as in a pool.
const HITS_WAITING_MAX: usize = 5;

/// Operations per random walk.
const OPERATIONS: u32 = 600;

type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Runs the whole suite.
///
/// # Errors
/// The first rule that does not hold, with the frames, the seed and the operation at which it broke.
pub fn check(make: Maker<'_>) -> Result<(), String> {
    for frames in (1..=20).chain([33, 64]) {
        all_pinned_ends(make, frames)?;
        every_frame_can_leave(make, frames)?;
        size_changes(make, frames)?;
        for seed in 0..4 {
            let first = random_walk(make, frames, seed, false, Hits::Wait)?;
            if first != random_walk(make, frames, seed, false, Hits::Wait)? {
                return Err(format!("{frames} frames, seed {seed}: two equal walks differ"));
            }
            if first != random_walk(make, frames, seed, true, Hits::Wait)? {
                return Err(format!(
                    "{frames} frames, seed {seed}: looking ahead changed what followed"
                ));
            }
            let drained = random_walk(make, frames, seed, false, Hits::DrainedAtOnce)?;
            if drained != random_walk(make, frames, seed, false, Hits::ByOwner)? {
                return Err(format!(
                    "{frames} frames, seed {seed}: an owner's hits do not do what logged ones do"
                ));
            }
        }
    }
    Ok(())
}

/// How hits reach the policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hits {
    /// Through the hit path, and wait in the log.
    Wait,
    /// Through the hit path, and are applied at once.
    DrainedAtOnce,
    /// As an owner's that shares the policy with nobody.
    ByOwner,
}

/// A pool as small as can be, and what it knows.
struct Pool<'a> {
    policy: Box<dyn Policy>,
    frame_of: Map<u64, FrameId>,
    page_in: Vec<Option<u64>>,
    pins: Vec<u32>,
    free: Vec<FrameId>,
    log: HitLog,
    hits: Hits,
    tick_ms: u32,
    where_: &'a str,
}

struct Offers<'a> {
    pins: &'a [u32],
    page_in: &'a [Option<u64>],
    refuse: HashSet<u32>,
    offered: u64,
    fault: Option<String>,
}

impl Candidates for Offers<'_> {
    fn is_pinned(&mut self, frame: FrameId) -> bool {
        self.pins.get(frame.0 as usize).is_some_and(|pins| *pins > 0)
    }

    fn offer(&mut self, frame: FrameId) -> Answer {
        self.offered += 1;
        let held = self.page_in.get(frame.0 as usize).copied().flatten();
        if held.is_none() && self.fault.is_none() {
            self.fault = Some(format!("offered frame {}, which is not resident", frame.0));
        }
        if self.is_pinned(frame) {
            Answer::Pinned
        } else if self.refuse.contains(&frame.0) {
            Answer::Dirty
        } else {
            Answer::Take
        }
    }
}

impl<'a> Pool<'a> {
    fn new(make: Maker<'_>, frames: u32, where_: &'a str) -> Self {
        Self {
            policy: make(frames),
            frame_of: Map::default(),
            page_in: vec![None; frames as usize],
            pins: vec![0; frames as usize],
            free: (0..frames).rev().map(FrameId).collect(),
            log: HitLog::default(),
            hits: Hits::Wait,
            tick_ms: 0,
            where_,
        }
    }

    fn access(&mut self) -> Access {
        self.tick_ms = self.tick_ms.wrapping_add(1);
        // Mostly ordinary; the clock decides, so that equal walks have equal hints.
        let hint = match self.tick_ms % 16 {
            5 | 11 => Hint::Ring,
            7 => Hint::WontNeed,
            _ => Hint::Normal,
        };
        Access { hint, tick_ms: self.tick_ms }
    }

    fn fail<T>(&self, text: &str) -> Result<T, String> {
        Err(format!("{}: {text}", self.where_))
    }

    /// A search with the given frames refusing; the victim is checked, not yet emptied.
    fn search(&mut self, miss: Miss, refuse: HashSet<u32>) -> Result<Option<FrameId>, String> {
        self.policy.drain(&mut self.log);
        let mut offers =
            Offers { pins: &self.pins, page_in: &self.page_in, refuse, offered: 0, fault: None };
        let victim = self.policy.victim(miss, &mut offers);
        let (offered, fault, refused) = (offers.offered, offers.fault, offers.refuse);
        if let Some(fault) = fault {
            return self.fail(&fault);
        }
        let limit = OFFERS_PER_FRAME_MAX * (self.page_in.len() as u64 + 1);
        if offered > limit {
            return self.fail(&format!("a search made {offered} offers, more than {limit}"));
        }
        if let Some(frame) = victim {
            let place = frame.0 as usize;
            if self.pins.get(place).copied().unwrap_or(1) > 0 || refused.contains(&frame.0) {
                return self.fail(&format!("the victim {place} had not been given away"));
            }
        }
        Ok(victim)
    }

    fn empty(&mut self, frame: FrameId) {
        self.policy.evicted(frame);
        self.take_out(frame);
    }

    fn take_out(&mut self, frame: FrameId) {
        if let Some(page) = self.page_in[frame.0 as usize].take() {
            self.frame_of.remove(&page);
            self.free.push(frame);
        }
    }

    /// Brings `page` in as an ordinary miss; false when there was no room.
    fn load(&mut self, page: u64) -> Result<bool, String> {
        let access = self.access();
        let miss = self.policy.miss(PageKey(page), access);
        if self.free.is_empty() {
            match self.search(miss, HashSet::new())? {
                Some(frame) => self.empty(frame),
                None => {
                    self.policy.abandon(miss);
                    return Ok(false);
                }
            }
        }
        self.enter(miss, page);
        Ok(true)
    }

    fn enter(&mut self, miss: Miss, page: u64) {
        let access = self.access();
        if let Some(frame) = self.free.pop() {
            self.policy.admit(miss, frame, PageKey(page), access);
            self.page_in[frame.0 as usize] = Some(page);
            self.frame_of.insert(page, frame);
        }
    }

    fn hit(&mut self, frame: FrameId) {
        let access = self.access();
        if self.hits == Hits::ByOwner {
            self.policy.hit(frame, access);
            return;
        }
        self.policy.hit_path().hit(frame, access, &mut self.log);
        if self.hits == Hits::DrainedAtOnce {
            self.policy.drain(&mut self.log);
        }
    }

    fn verify(&mut self) -> Result<(), String> {
        // Not after each hit: a log may wait while frames in it leave, and are filled again.
        if self.log.len() >= HITS_WAITING_MAX {
            self.policy.drain(&mut self.log);
        }
        let held = self.page_in.iter().filter(|page| page.is_some()).count();
        if self.policy.resident() as usize != held {
            return self
                .fail(&format!("{} frames by the policy, {held} held", self.policy.resident()));
        }
        let mut counts = Vec::new();
        self.policy.usage_histogram(&mut counts);
        if counts.iter().sum::<u64>() != held as u64 {
            return self.fail(&format!("the usage histogram {counts:?} does not sum to {held}"));
        }
        self.policy.check().or_else(|broken| self.fail(&broken))
    }
}

/// All frames pinned: the search ends, finds nothing, and everything stays.
fn all_pinned_ends(make: Maker<'_>, frames: u32) -> Result<(), String> {
    let place = format!("{frames} frames, all pinned");
    let mut pool = Pool::new(make, frames, &place);
    for page in 0..u64::from(frames) {
        pool.load(page)?;
    }
    for frame in (0..frames).map(FrameId) {
        for _ in 0..3 {
            pool.hit(frame);
        }
    }
    pool.pins.fill(1);
    for page in 100..103 {
        if pool.load(page)? {
            return pool.fail("a victim was found among pinned frames");
        }
        pool.verify()?;
    }
    // With one frame released, exactly that one is found.
    for released in 0..frames {
        pool.pins.fill(1);
        pool.pins[released as usize] = 0;
        let access = pool.access();
        let miss = pool.policy.miss(PageKey(200 + u64::from(released)), access);
        match pool.search(miss, HashSet::new())? {
            Some(frame) if frame.0 == released => pool.policy.refused(frame),
            other => return pool.fail(&format!("{other:?} found, only {released} was free to go")),
        }
        pool.policy.abandon(miss);
        pool.verify()?;
    }
    Ok(())
}

/// Emptying again and again gives each frame once.
fn every_frame_can_leave(make: Maker<'_>, frames: u32) -> Result<(), String> {
    let place = format!("{frames} frames, emptied one by one");
    let mut pool = Pool::new(make, frames, &place);
    for page in 0..u64::from(frames) * 3 {
        pool.load(page)?;
        let hit = FrameId(u32::try_from(page % u64::from(frames)).unwrap_or(0));
        if pool.page_in[hit.0 as usize].is_some() {
            pool.hit(hit);
        }
    }
    for left in (0..frames).rev() {
        let access = pool.access();
        let miss = pool.policy.miss(PageKey(1_000_000), access);
        let Some(frame) = pool.search(miss, HashSet::new())? else {
            return pool.fail(&format!("no victim though {} frames are held", left + 1));
        };
        pool.empty(frame);
        pool.policy.abandon(miss);
        pool.verify()?;
        if pool.policy.resident() != left {
            return pool.fail("emptying a frame did not lower the resident count by one");
        }
    }
    Ok(())
}

/// Growing keeps all; shrinking is refused while frames beyond are held, and works after.
fn size_changes(make: Maker<'_>, frames: u32) -> Result<(), String> {
    let place = format!("{frames} frames, resized");
    let mut pool = Pool::new(make, frames, &place);
    for page in 0..u64::from(frames) {
        pool.load(page)?;
    }
    if pool.policy.resize(0).is_ok() {
        return pool.fail("a pool of no frames was accepted");
    }
    pool.policy.resize(frames + 3).map_err(|error| format!("{place}: growing: {error}"))?;
    pool.page_in.resize(frames as usize + 3, None);
    pool.pins.resize(frames as usize + 3, 0);
    pool.free.extend((frames..frames + 3).map(FrameId));
    for page in 500..510 {
        pool.load(page)?;
        pool.verify()?;
    }
    match pool.policy.resize(frames) {
        Err(ResizeError::Resident(frame)) if frame >= frames => {}
        other => return pool.fail(&format!("shrinking over held frames answered {other:?}")),
    }
    pool.verify()?;
    for frame in (frames..frames + 3).map(FrameId) {
        pool.policy.forget_frame(frame);
        pool.take_out(frame);
    }
    pool.policy.resize(frames).map_err(|error| format!("{place}: shrinking: {error}"))?;
    pool.page_in.truncate(frames as usize);
    pool.pins.truncate(frames as usize);
    pool.free.retain(|frame| frame.0 < frames);
    for page in 600..620 {
        pool.load(page)?;
        pool.verify()?;
    }
    Ok(())
}

/// SplitMix64; the suite needs no better and takes no dependency for it.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        usize::try_from((u128::from(z) * bound as u128) >> 64).unwrap_or(0)
    }
}

/// Random operations; answers the sequence of victims.
fn random_walk(
    make: Maker<'_>,
    frames: u32,
    seed: u64,
    looks_ahead: bool,
    hits: Hits,
) -> Result<Vec<u32>, String> {
    let mut place = format!("{frames} frames, seed {seed}");
    let mut chance = Chance(seed);
    let pages = frames as usize * 3 + 2;
    let mut pool = Pool { hits, ..Pool::new(make, frames, "") };
    let mut victims = Vec::new();
    // Misses whose frame is emptied and whose page is being read.
    let mut in_flight: Vec<(Miss, u64)> = Vec::new();
    for operation in 0..OPERATIONS {
        place.truncate(place.find(", operation").unwrap_or(place.len()));
        place.push_str(&format!(", operation {operation}"));
        let step = |error: String| format!("{place}{error}");
        if looks_ahead {
            let mut ahead = Vec::new();
            pool.policy.look_ahead(chance_free(operation), &mut ahead);
            check_ahead(&pool, &ahead).map_err(step)?;
        }
        let page = chance.below(pages) as u64;
        match chance.below(20) {
            0..=11 => {
                if let Some(frame) = pool.frame_of.get(&page).copied() {
                    pool.hit(frame);
                } else if !in_flight.iter().any(|(_, reading)| *reading == page) {
                    let access = pool.access();
                    let miss = pool.policy.miss(PageKey(page), access);
                    if pool.free.len() <= in_flight.len() {
                        let refuse = if chance.below(4) == 0 {
                            HashSet::from([
                                u32::try_from(chance.below(frames as usize)).unwrap_or(0)
                            ])
                        } else {
                            HashSet::new()
                        };
                        match pool.search(miss, refuse).map_err(step)? {
                            None => {
                                pool.policy.abandon(miss);
                                continue;
                            }
                            Some(frame) if chance.below(8) == 0 => {
                                pool.policy.refused(frame);
                                pool.policy.abandon(miss);
                                pool.verify().map_err(step)?;
                                continue;
                            }
                            Some(frame) => {
                                victims.push(frame.0);
                                pool.empty(frame);
                            }
                        }
                    }
                    in_flight.push((miss, page));
                }
            }
            12 | 13 => {
                if !in_flight.is_empty() {
                    let (miss, _) = in_flight.swap_remove(chance.below(in_flight.len()));
                    pool.policy.abandon(miss);
                }
            }
            14 | 15 => {
                let frame = chance.below(frames as usize);
                pool.pins[frame] = u32::from(pool.page_in[frame].is_some() && chance.below(2) == 0);
            }
            16 => {
                if let Some(frame) = pool.frame_of.get(&page).copied() {
                    pool.policy.forget_frame(frame);
                    pool.pins[frame.0 as usize] = 0;
                    pool.take_out(frame);
                } else {
                    pool.policy.forget_page(PageKey(page));
                }
            }
            _ => {
                while let Some((miss, page)) = in_flight.pop() {
                    pool.enter(miss, page);
                }
            }
        }
        pool.verify().map_err(step)?;
    }
    Ok(victims)
}

/// How far the walk looks ahead: not drawn, so that walks with and without looking agree.
fn chance_free(operation: u32) -> usize {
    (operation % 7) as usize
}

fn check_ahead(pool: &Pool<'_>, ahead: &[FrameId]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for frame in ahead {
        if !seen.insert(frame.0) {
            return pool.fail(&format!("frame {} stands twice in the look ahead", frame.0));
        }
        if pool.page_in.get(frame.0 as usize).copied().flatten().is_none() {
            return pool.fail(&format!("frame {} in the look ahead is empty", frame.0));
        }
    }
    Ok(())
}
