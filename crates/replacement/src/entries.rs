//! Pages in one order, whether resident or only remembered: LIRS's stack, CLOCK-Pro's ring.
//!
//! An entry keeps its place when its page leaves the cache. Entries are made as they are needed, up
//! to a bound that the owner keeps, so a history that may be long costs only what it holds.

use std::sync::Arc;

use crate::frame_list::{Links, List, NONE};
use crate::ghost::{Index, KeySpace};
use crate::keys::Keys;
use crate::page_map::{PageMap, REMEMBERED};
use crate::policy::PageKey;

/// The order and its entries.
#[derive(Debug)]
pub(crate) struct Entries {
    space: KeySpace,
    /// With each page's frame, or [`NONE`] when it is only remembered.
    links: Links<u32>,
    keys: Keys,
    order: List,
    free: Vec<u32>,
    /// Finds the entries that are only remembered.
    remembered: Index,
    remembered_count: u32,
    /// How many remembered pages `remembered` has room for.
    room: u32,
}

impl Entries {
    pub(crate) fn new(frames: u32, space: KeySpace) -> Self {
        Self {
            space,
            links: Links::new(0),
            keys: Keys::new(0, space),
            order: List::default(),
            free: Vec::new(),
            remembered: Index::new(frames, space),
            remembered_count: 0,
            room: frames,
        }
    }

    pub(crate) const fn order(&self) -> &List {
        &self.order
    }

    pub(crate) const fn links(&self) -> &Links<u32> {
        &self.links
    }

    /// Where pages are found, if they are numbered densely.
    pub(crate) fn page_map(&self) -> Option<Arc<PageMap>> {
        self.remembered.page_map()
    }

    /// Reads an entry and what stands beside it, for the processor to have them near.
    #[inline]
    pub(crate) fn bring_near(&self, word: u32) -> u32 {
        self.links.bring_near(word & !REMEMBERED)
    }

    /// How many pages are only remembered.
    pub(crate) const fn remembered(&self) -> u32 {
        self.remembered_count
    }

    /// The frame of `entry`, or [`NONE`].
    #[inline]
    pub(crate) fn frame(&self, entry: u32) -> u32 {
        self.links.payload(entry)
    }

    /// The entry of a page that is only remembered.
    #[inline]
    pub(crate) fn find(&self, page: PageKey) -> Option<u32> {
        // A dense index may keep an entry whose page is resident again.
        let found = self.remembered.find(page, |entry| self.keys.get(entry));
        found.filter(|entry| self.frame(*entry) == NONE)
    }

    /// A new entry at the head, for a resident page.
    #[inline]
    pub(crate) fn push_head(&mut self, page: PageKey, frame: u32) -> u32 {
        let entry = self.create(page, frame);
        self.links.push_head(&mut self.order, entry);
        entry
    }

    /// A new entry behind `at`, for a resident page.
    #[inline]
    pub(crate) fn insert_behind(&mut self, at: u32, page: PageKey, frame: u32) -> u32 {
        let entry = self.create(page, frame);
        self.links.insert_behind(&mut self.order, at, entry);
        entry
    }

    #[inline]
    pub(crate) fn move_to_head(&mut self, entry: u32) {
        self.links.move_to_head(&mut self.order, entry);
    }

    /// Moves `entry` behind `at`, which is another.
    #[inline]
    pub(crate) fn move_behind(&mut self, at: u32, entry: u32) {
        self.links.remove(&mut self.order, entry);
        self.links.insert_behind(&mut self.order, at, entry);
    }

    /// The page of `entry` has left the cache and keeps its place.
    pub(crate) fn remember(&mut self, entry: u32) {
        if self.remembered_count == self.room {
            self.widen();
        }
        *self.links.payload_mut(entry) = NONE;
        self.remembered_count += 1;
        self.remembered.insert(self.keys.get(entry), entry);
    }

    /// Takes `entry` out of the order; nothing remembers its page.
    #[inline]
    pub(crate) fn remove(&mut self, entry: u32) {
        if self.frame(entry) == NONE {
            self.remembered.remove(self.keys.get(entry), entry, |entry| self.keys.get(entry));
            self.remembered_count -= 1;
        }
        self.links.remove(&mut self.order, entry);
        self.keys.clear(entry);
        self.free.push(entry);
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.links.check(&self.order, "order of pages")?;
        let mut count = 0;
        for entry in self.links.oldest_first(&self.order) {
            if self.frame(entry) == NONE {
                count += 1;
                if self.find(self.keys.get(entry)) != Some(entry) {
                    return Err(format!("the remembered page of entry {entry} is not found"));
                }
            }
        }
        if count != self.remembered_count {
            return Err(format!("{count} pages remembered, counted {}", self.remembered_count));
        }
        if self.order.len() as usize + self.free.len() != self.links.count() as usize {
            return Err("an entry is neither in the order nor free".to_owned());
        }
        Ok(())
    }

    #[inline]
    fn create(&mut self, page: PageKey, frame: u32) -> u32 {
        let entry = self.free.pop().unwrap_or_else(|| {
            let entry = self.links.count();
            self.links.grow_to(entry + 1);
            self.keys.resize(entry + 1);
            entry
        });
        *self.links.payload_mut(entry) = frame;
        self.keys.set(entry, page);
        entry
    }

    /// Doubles the room of the index.
    fn widen(&mut self) {
        self.room = self.room.saturating_mul(2).max(4);
        if matches!(self.remembered, Index::Dense(_)) {
            return;
        }
        let mut wider = Index::new(self.room, self.space);
        for entry in self.links.oldest_first(&self.order) {
            if self.frame(entry) == NONE {
                wider.insert(self.keys.get(entry), entry);
            }
        }
        self.remembered = wider;
    }
}
