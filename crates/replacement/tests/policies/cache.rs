//! The smallest cache that can run a policy: no pins, no dirt, frames filled in order.

use std::collections::HashMap;

use evenkeel_replacement::KeySpace;
use evenkeel_replacement::policy::{Access, FrameId, Hint, PageKey, Policy, TakeFirst};
use evenkeel_replacement::registry::PolicySpecification;

/// What a reference did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Hit,
    /// The page came in, and this one left for it.
    Miss(Option<u64>),
}

pub(crate) struct Cache {
    pub(crate) policy: Box<dyn Policy>,
    page_in: Vec<u64>,
    frame_of: HashMap<u64, u32>,
    frames: usize,
}

impl Cache {
    pub(crate) fn new(specification: &str, frames: u32, space: KeySpace) -> Self {
        let specification: PolicySpecification = specification.parse().unwrap();
        Self {
            policy: specification.build(frames, space, 1).unwrap(),
            page_in: Vec::new(),
            frame_of: HashMap::new(),
            frames: frames as usize,
        }
    }

    pub(crate) fn reference(&mut self, page: u64, tick_ms: u32, hint: Hint) -> Outcome {
        let access = Access { hint, tick_ms };
        if let Some(frame) = self.frame_of.get(&page) {
            self.policy.hit(FrameId(*frame), access);
            return Outcome::Hit;
        }
        let miss = self.policy.miss(PageKey(page), access);
        let (frame, left) = if self.page_in.len() < self.frames {
            self.page_in.push(page);
            (FrameId(u32::try_from(self.page_in.len() - 1).unwrap()), None)
        } else {
            let frame = self.policy.victim(miss, &mut TakeFirst).expect("a victim without pins");
            self.policy.evicted(frame);
            let left = std::mem::replace(&mut self.page_in[frame.0 as usize], page);
            self.frame_of.remove(&left);
            (frame, Some(left))
        };
        self.policy.admit(miss, frame, PageKey(page), access);
        self.frame_of.insert(page, frame.0);
        Outcome::Miss(left)
    }
}
