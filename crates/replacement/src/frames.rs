//! What every policy knows of its frames: which page each holds, and the words hits store to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::frame_list::Links;
use crate::policy::{Access, FrameId, HitLog, HitPath, MAX_FRAMES, PageKey, ResizeError};

/// Pages by frame, and how many frames are resident.
#[derive(Clone, Debug)]
pub(crate) struct Residents {
    /// [`EMPTY`]: no page.
    keys: Vec<u64>,
    count: u32,
}

/// Changes the number of frames of a policy whose resident frames are those in its lists.
pub(crate) fn resize_links<T: Copy + Default>(
    links: &mut Links<T>,
    frames: u32,
) -> Result<(), ResizeError> {
    check_size(frames)?;
    if let Some(beyond) = links.first_linked(frames) {
        return Err(ResizeError::Resident(beyond));
    }
    links.resize(frames);
    Ok(())
}

/// Whether a pool may have so many frames.
pub(crate) fn check_size(frames: u32) -> Result<(), ResizeError> {
    if frames == 0 || frames > MAX_FRAMES { Err(ResizeError::Size(frames)) } else { Ok(()) }
}

/// In place of a key: the frame is empty. A page with this very key counts as the one before it,
/// with which it then shares its history, as any two pages do that hash alike.
const EMPTY: u64 = u64::MAX;

impl Residents {
    pub(crate) fn new(frames: u32) -> Self {
        Self { keys: vec![EMPTY; frames as usize], count: 0 }
    }

    pub(crate) fn frames(&self) -> u32 {
        // At most MAX_FRAMES, by construction.
        u32::try_from(self.keys.len()).unwrap_or(MAX_FRAMES)
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn is_resident(&self, frame: FrameId) -> bool {
        self.keys.get(frame.0 as usize).is_some_and(|key| *key != EMPTY)
    }

    /// The page in `frame`.
    #[inline]
    pub(crate) fn page_in(&self, frame: FrameId) -> Option<PageKey> {
        self.keys.get(frame.0 as usize).filter(|key| **key != EMPTY).map(|key| PageKey(*key))
    }

    /// Notes that `page` is in `frame` now. False (and nothing changes) when the frame is out of
    /// range or holds a page already.
    #[inline]
    pub(crate) fn admit(&mut self, frame: FrameId, page: PageKey) -> bool {
        match self.keys.get_mut(frame.0 as usize) {
            Some(place) if *place == EMPTY => {
                *place = page.0.min(EMPTY - 1);
                self.count += 1;
                true
            }
            _ => false,
        }
    }

    /// Notes that `frame` is empty now; says which page it held.
    #[inline]
    pub(crate) fn leave(&mut self, frame: FrameId) -> Option<PageKey> {
        let place = self.keys.get_mut(frame.0 as usize).filter(|key| **key != EMPTY)?;
        self.count -= 1;
        Some(PageKey(std::mem::replace(place, EMPTY)))
    }

    /// Changes the number of frames.
    pub(crate) fn resize(&mut self, frames: u32) -> Result<(), ResizeError> {
        check_size(frames)?;
        let beyond = self.keys.iter().skip(frames as usize).position(|key| *key != EMPTY);
        if let Some(beyond) = beyond {
            return Err(ResizeError::Resident(frames + u32::try_from(beyond).unwrap_or(u32::MAX)));
        }
        self.keys.resize(frames as usize, EMPTY);
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FrameId, PageKey)> + '_ {
        let held = self.keys.iter().zip(0_u32..).filter(|(key, _)| **key != EMPTY);
        held.map(|(key, frame)| (FrameId(frame), PageKey(*key)))
    }
}

/// One atomic word per frame, shared between a policy and its hit path. Relaxed order is enough:
/// a word is a hint, nothing is published through it.
#[derive(Debug)]
pub(crate) struct Words(Box<[AtomicU32]>);

impl Words {
    pub(crate) fn new(frames: u32) -> Self {
        Self((0..frames).map(|_| AtomicU32::new(0)).collect())
    }

    /// A copy with another number of frames; words of frames that stay are kept.
    pub(crate) fn resized(&self, frames: u32) -> Self {
        Self((0..frames).map(|frame| AtomicU32::new(self.get(FrameId(frame)))).collect())
    }

    /// The word of `frame`; 0 for frames out of range.
    #[inline]
    pub(crate) fn get(&self, frame: FrameId) -> u32 {
        self.0.get(frame.0 as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set(&self, frame: FrameId, value: u32) {
        if let Some(word) = self.0.get(frame.0 as usize) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Replaces `current` by `new`, unless somebody else was quicker (false); one lost hint is
    /// harmless.
    #[inline]
    pub(crate) fn try_replace(&self, frame: FrameId, current: u32, new: u32) -> bool {
        self.0.get(frame.0 as usize).is_some_and(|word| {
            word.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }
}

/// The hit path of policies with one reference bit a frame: read first, store only a change.
#[derive(Debug)]
pub(crate) struct ReferenceBits(pub(crate) Words);

impl ReferenceBits {
    #[inline]
    pub(crate) fn note(&self, frame: FrameId) {
        if self.0.get(frame) == 0 {
            self.0.set(frame, 1);
        }
    }
}

impl HitPath for ReferenceBits {
    #[inline]
    fn hit(&self, frame: FrameId, _access: Access, _log: &mut HitLog) {
        self.note(frame);
    }
}

/// The hit path of policies whose hits change nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoHits;

impl HitPath for NoHits {
    #[inline]
    fn hit(&self, _frame: FrameId, _access: Access, _log: &mut HitLog) {}
}

/// The hit path of policies whose hits change an order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedHits;

impl HitPath for LoggedHits {
    #[inline]
    fn hit(&self, frame: FrameId, access: Access, log: &mut HitLog) {
        log.push(frame, access);
    }
}

/// A hit path for policies without state of their own in it.
pub(crate) fn shared(path: impl HitPath + 'static) -> Arc<dyn HitPath> {
    Arc::new(path)
}
