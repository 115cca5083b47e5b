//! One policy, one cache size, one trace: misses and dirty evictions.
//!
//! The trace is decoded and its pages renumbered 0.. once; every policy and size runs over the same
//! array. Per reference that leaves one look-up in an array of frames and the policy's own work.

use evenkeel_replacement::policy::{Access, FrameId, Hint, HitLog, PageKey, Policy, TakeFirst};

/// No frame.
const NONE: u32 = u32::MAX;

use crate::dense::WRITE;

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References, after the warm-up.
    pub requests: u64,
    /// Of these, pages not in the cache.
    pub misses: u64,
    /// Dirty pages that had to be written when they left.
    pub write_backs: u64,
}

/// Runs `policy` over `trace`: dense page numbers below `pages`, with [`WRITE`] set where the page is
/// dirtied. The first `warm_up` references are not counted. Time advances by one tick a reference.
pub fn simulate<P: Policy>(
    policy: &mut P,
    frames: u32,
    trace: &[u32],
    pages: u32,
    warm_up: usize,
) -> Counts {
    let mut frame_of = vec![NONE; pages as usize];
    let mut page_in = vec![0_u32; frames as usize];
    let mut is_dirty = vec![false; frames as usize];
    let mut used = 0_u32;
    let mut log = HitLog::with_capacity(1);
    let mut counts = Counts::default();
    let mut tick = 0_u32;
    for (position, reference) in trace.iter().enumerate() {
        if position == warm_up {
            counts = Counts::default();
        }
        tick = tick.wrapping_add(1);
        let access = Access { hint: Hint::Normal, tick_ms: tick };
        let page = reference & !WRITE;
        let writes = reference & WRITE != 0;
        counts.requests += 1;
        let Some(place) = frame_of.get_mut(page as usize) else { continue };
        if *place != NONE {
            let frame = *place;
            if writes {
                is_dirty[frame as usize] = true;
            }
            policy.hit(FrameId(frame), access, &mut log);
            if !log.is_empty() {
                policy.drain(&mut log);
            }
            continue;
        }
        counts.misses += 1;
        let key = PageKey(u64::from(page));
        let miss = policy.miss(key, access);
        let frame = if used < frames {
            used += 1;
            used - 1
        } else {
            let Some(FrameId(frame)) = policy.victim(miss, &mut TakeFirst) else {
                policy.abandon(miss);
                continue;
            };
            policy.evicted(FrameId(frame));
            counts.write_backs += u64::from(is_dirty[frame as usize]);
            frame_of[page_in[frame as usize] as usize] = NONE;
            frame
        };
        policy.admit(miss, FrameId(frame), key, access);
        frame_of[page as usize] = frame;
        page_in[frame as usize] = page;
        is_dirty[frame as usize] = writes;
    }
    counts
}
