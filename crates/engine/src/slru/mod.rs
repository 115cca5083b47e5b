#![doc = include_str!("README.md")]

pub mod clog;
mod error;
mod files;
mod group;
#[cfg(test)]
mod tests;
mod victim;

use std::sync::Arc;

pub use error::SlruError;
pub use files::SEGMENT_PAGES;
pub use victim::{Choice, SlotStatus, SlotView, VictimRule, choose};

use self::files::Files;
use crate::buffer::WriteAhead;
use crate::page::{
    BlockNumber, DatabaseId, Fork, Header, Lsn, PageBytes, PageIdentity, PageImage, PageKind,
    RelationNumber, seal,
};
use crate::runtime::{Event, Runtime};
use crate::stats::{WaitPlace, Waited};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{RwLock, RwLockWriteGuard, read, try_write, write};
use crate::vfs::FileSystem;

/// Slots of a bank, as in PostgreSQL since 17.
pub const BANK_SLOTS: u32 = 16;

/// Where the entries of a page begin; before them stands the page's header (rule L6).
pub const ENTRIES_AT: usize = 32;

/// What is fixed when an SLRU is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlruSettings {
    /// Its directory.
    pub name: &'static str,
    /// Tells its pages from those of relations and of other SLRUs in checksums; see [`number_of`].
    pub number: RelationNumber,
    /// Pages kept in memory.
    pub slots: u32,
    /// Whether slots are in banks of 16 with a lock each (PostgreSQL since 17), or all in one.
    pub is_banked: bool,
    /// How a slot is chosen.
    pub victim_rule: VictimRule,
    /// Log positions kept for each page: one for each group of entries; 0 where none is needed.
    pub groups: usize,
}

/// The number of the `nth` SLRU for checksums: no relation has such a one.
#[must_use]
pub const fn number_of(nth: u32) -> RelationNumber {
    RelationNumber(u32::MAX - nth)
}

fn identity(number: RelationNumber, page: u32) -> PageIdentity {
    PageIdentity { relation: number, fork: Fork::Main, block: BlockNumber(page) }
}

/// What an SLRU works with.
#[derive(Clone)]
pub struct SlruComponents {
    /// Where its files are.
    pub files: Arc<dyn FileSystem>,
    /// The database they belong to.
    pub database: DatabaseId,
    /// The log that goes before pages.
    pub log: Arc<dyn WriteAhead>,
    /// Time and waits.
    pub runtime: Arc<dyn Runtime>,
}

/// Counts since an SLRU was opened: the columns of `pg_stat_slru`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlruStatistics {
    /// Pages made.
    pub zeroed: u64,
    /// Pages found.
    pub hits: u64,
    /// Pages read from disk.
    pub reads: u64,
    /// Pages written.
    pub written: u64,
    /// Questions whether a page is there.
    pub exists: u64,
    /// Times all was flushed.
    pub flushes: u64,
    /// Times old pages were removed.
    pub truncates: u64,
}

#[derive(Default)]
struct Counts {
    zeroed: AtomicU64,
    hits: AtomicU64,
    reads: AtomicU64,
    written: AtomicU64,
    exists: AtomicU64,
    flushes: AtomicU64,
    truncates: AtomicU64,
}

#[derive(Default)]
struct Slot {
    status: SlotStatus,
    page: u32,
    is_dirty: bool,
    /// Racily changed under the shared lock (rule L3).
    used: AtomicU64,
    /// Away while the page is being read.
    bytes: Option<PageImage>,
    /// For each group of entries, up to where the log must be durable before the page may be written.
    positions: Vec<Lsn>,
}

#[derive(Default)]
struct Bank {
    slots: Vec<Slot>,
    uses: AtomicU64,
    /// Who waits for the read or write of which slot to end.
    waiters: Vec<(usize, Arc<dyn Event>)>,
}

impl Bank {
    /// Rule L3: uses of the page used last cost nothing.
    fn use_slot(&self, number: usize) {
        let uses = self.uses.load(Ordering::Relaxed);
        let used = &self.slots[number].used;
        if used.load(Ordering::Relaxed) != uses {
            self.uses.store(uses + 1, Ordering::Relaxed);
            used.store(uses + 1, Ordering::Relaxed);
        }
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.status != SlotStatus::Empty && slot.page == page)
    }

    fn wake(&mut self, number: usize) {
        self.waiters.retain(|(waited, event)| {
            if *waited == number {
                event.notify();
            }
            *waited != number
        });
    }
}

type Locked<'a> = RwLockWriteGuard<'a, Bank>;

/// A small cache of the pages of one status array.
pub struct Slru {
    settings: SlruSettings,
    files: Files,
    log: Arc<dyn WriteAhead>,
    runtime: Arc<dyn Runtime>,
    banks: Box<[RwLock<Bank>]>,
    /// The page that new entries come to (rule L2).
    latest: AtomicU64,
    counts: Counts,
    waited: Waited,
}

impl std::fmt::Debug for Slru {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Slru").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Slru {
    /// An SLRU with no page in memory. `latest_page` is the one that new entries come to.
    ///
    /// # Errors
    /// When a setting is out of its range, or the directory can be neither found nor made.
    pub fn open(
        settings: SlruSettings,
        latest_page: u32,
        with: SlruComponents,
    ) -> Result<Self, SlruError> {
        let SlruSettings { name, number, slots, is_banked, .. } = settings;
        let refuse = |expected| Err(SlruError::Slots { name, found: slots, expected });
        if !(4..=131_072).contains(&slots) {
            return refuse("4 to 131072 are possible");
        }
        if is_banked && !slots.is_multiple_of(BANK_SLOTS) {
            return refuse("banks need a multiple of 16");
        }
        let (banks, each) = if is_banked { (slots / BANK_SLOTS, BANK_SLOTS) } else { (1, slots) };
        let slot = || Slot {
            bytes: Some(PageImage::zeroed()),
            positions: vec![Lsn(0); settings.groups],
            ..Slot::default()
        };
        let bank = || Bank { slots: (0..each).map(|_| slot()).collect(), ..Bank::default() };
        Ok(Self {
            settings,
            files: Files::new(with.files, with.database, name, number)?,
            log: with.log,
            runtime: with.runtime,
            banks: (0..banks).map(|_| RwLock::new(bank())).collect(),
            latest: AtomicU64::new(latest_page.into()),
            counts: Counts::default(),
            waited: Waited::default(),
        })
    }

    /// The waits of all tasks, by place.
    #[must_use]
    pub const fn waited(&self) -> &Waited {
        &self.waited
    }

    /// Counts since it was opened.
    #[must_use]
    pub fn statistics(&self) -> SlruStatistics {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { zeroed, hits, reads, written, exists, flushes, truncates } = &self.counts;
        SlruStatistics {
            zeroed: of(zeroed),
            hits: of(hits),
            reads: of(reads),
            written: of(written),
            exists: of(exists),
            flushes: of(flushes),
            truncates: of(truncates),
        }
    }

    /// Looks at a page, with the log positions of its groups.
    ///
    /// # Errors
    /// When it cannot be read, or a slot cannot be had for it.
    pub fn look<T>(
        &self,
        page: u32,
        look: impl FnOnce(&PageBytes, &[Lsn]) -> T,
    ) -> Result<T, SlruError> {
        let shared = read(self.bank(page));
        if let Some(number) = shared.find(page) {
            let slot = &shared.slots[number];
            if let (SlotStatus::Valid | SlotStatus::Writing, Some(bytes)) =
                (slot.status, &slot.bytes)
            {
                shared.use_slot(number);
                count(&self.counts.hits);
                return Ok(look(bytes, &slot.positions));
            }
        }
        drop(shared);
        let (bank, number) = self.bring(page, write(self.bank(page)))?;
        let slot = &bank.slots[number];
        match &slot.bytes {
            Some(bytes) => Ok(look(bytes, &slot.positions)),
            None => unreachable!("rule L1: a page that can be used has its bytes"),
        }
    }

    /// Changes a page and the log positions of its groups; nobody looks at it meanwhile.
    ///
    /// # Errors
    /// As [`Slru::look`]; nothing is changed then.
    pub fn change<T>(
        &self,
        page: u32,
        change: impl FnOnce(&mut PageBytes, &mut [Lsn]) -> T,
    ) -> Result<T, SlruError> {
        self.change_locked(page, write(self.bank(page)), change)
    }

    /// The same if nobody holds the lock of the page's bank; else `change` comes back.
    fn try_change<T, F: FnOnce(&mut PageBytes, &mut [Lsn]) -> T>(
        &self,
        page: u32,
        change: F,
    ) -> Result<Result<T, SlruError>, F> {
        match try_write(self.bank(page)) {
            Some(bank) => Ok(self.change_locked(page, bank, change)),
            None => Err(change),
        }
    }

    fn change_locked<'a, T>(
        &'a self,
        page: u32,
        bank: Locked<'a>,
        change: impl FnOnce(&mut PageBytes, &mut [Lsn]) -> T,
    ) -> Result<T, SlruError> {
        let (mut bank, number) = self.bring(page, bank)?;
        let slot = &mut bank.slots[number];
        slot.is_dirty = true;
        match &mut slot.bytes {
            Some(bytes) => Ok(change(bytes, &mut slot.positions)),
            None => unreachable!("rule L1: a page that can be used has its bytes"),
        }
    }

    /// Makes a page of zeros, the latest from now on. The caller logs it.
    ///
    /// # Errors
    /// When there is no space for it on disk, or no slot.
    pub fn make(&self, page: u32) -> Result<(), SlruError> {
        self.files.make_room(page)?;
        let mut bank = write(self.bank(page));
        let number = loop {
            let found = match bank.find(page) {
                Some(number) if bank.slots[number].status == SlotStatus::Valid => Some(number),
                // Its read or write must not end in the new page.
                Some(number) => {
                    bank = self.wait(bank, number);
                    continue;
                }
                None => None,
            };
            match found {
                Some(number) => break number,
                None => match self.free_slot(bank, page)? {
                    (locked, Some(number)) => {
                        bank = locked;
                        break number;
                    }
                    (locked, None) => bank = locked,
                },
            }
        };
        let slot = &mut bank.slots[number];
        slot.page = page;
        slot.status = SlotStatus::Valid;
        slot.is_dirty = true;
        slot.positions.fill(Lsn(0));
        if let Some(bytes) = &mut slot.bytes {
            bytes.fill(0);
            Header::empty(PageKind::StatusArray, ENTRIES_BYTES).write(bytes);
        }
        bank.use_slot(number);
        // Not backwards: recovery may make pages again.
        self.latest.fetch_max(page.into(), Ordering::Relaxed);
        count(&self.counts.zeroed);
        Ok(())
    }

    /// Whether the page is there, in memory or on disk.
    ///
    /// # Errors
    /// As [`Slru::look`], its absence apart.
    pub fn exists(&self, page: u32) -> Result<bool, SlruError> {
        count(&self.counts.exists);
        match self.look(page, |_, _| ()) {
            Ok(()) => Ok(true),
            Err(SlruError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes all dirty pages and waits for writes of others. What was changed before the call is then
    /// with the system, and durable after [`Slru::sync`].
    ///
    /// # Errors
    /// When a page cannot be written; the others are tried all the same, and the first error is told.
    pub fn flush(&self) -> Result<(), SlruError> {
        count(&self.counts.flushes);
        let mut result = Ok(());
        for place in &*self.banks {
            let mut bank = write(place);
            for number in 0..bank.slots.len() {
                while bank.slots[number].status == SlotStatus::Writing {
                    bank = self.wait(bank, number);
                }
                if bank.slots[number].status == SlotStatus::Valid && bank.slots[number].is_dirty {
                    let (locked, written) = self.write_slot(place, bank, number);
                    bank = locked;
                    result = result.and(written);
                }
            }
        }
        result
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// As the file system says; the instance ends then (smgr, rule S6).
    pub fn sync(&self) -> Result<(), SlruError> {
        self.files.sync()
    }

    /// Removes the segments that lie wholly before `page`, from memory and disk.
    ///
    /// # Errors
    /// As the file system says; some segments may be left.
    pub fn truncate_before(&self, page: u32) -> Result<(), SlruError> {
        count(&self.counts.truncates);
        let first = page / SEGMENT_PAGES * SEGMENT_PAGES;
        for place in &*self.banks {
            let mut bank = write(place);
            for number in 0..bank.slots.len() {
                loop {
                    let slot = &mut bank.slots[number];
                    match slot.status {
                        SlotStatus::Empty => break,
                        _ if slot.page >= first => break,
                        SlotStatus::Valid => {
                            slot.status = SlotStatus::Empty;
                            slot.is_dirty = false;
                            break;
                        }
                        SlotStatus::Reading | SlotStatus::Writing => bank = self.wait(bank, number),
                    }
                }
            }
        }
        self.files.remove_before(first)
    }

    fn bank(&self, page: u32) -> &RwLock<Bank> {
        // Modulo: a mask would be wrong when banks are no power of two (69ab446514).
        &self.banks[page as usize % self.banks.len()]
    }

    fn latest(&self) -> u32 {
        u32::try_from(self.latest.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Has the page in a slot that can be used, reading it if it is not there.
    fn bring<'a>(
        &'a self,
        page: u32,
        mut bank: Locked<'a>,
    ) -> Result<(Locked<'a>, usize), SlruError> {
        let place = self.bank(page);
        loop {
            if let Some(number) = bank.find(page) {
                if bank.slots[number].status == SlotStatus::Reading {
                    bank = self.wait(bank, number);
                    continue;
                }
                bank.use_slot(number);
                count(&self.counts.hits);
                return Ok((bank, number));
            }
            let number = match self.free_slot(bank, page)? {
                (locked, Some(number)) => {
                    bank = locked;
                    number
                }
                (locked, None) => {
                    bank = locked;
                    continue;
                }
            };
            let slot = &mut bank.slots[number];
            slot.page = page;
            slot.status = SlotStatus::Reading;
            slot.is_dirty = false;
            let mut bytes = slot.bytes.take().unwrap_or_default();
            if self.settings.victim_rule == VictimRule::Oldest {
                // Before 2012 a page was as good as used when its read began, so that others chose
                // another slot.
                bank.use_slot(number);
            }
            drop(bank);
            count(&self.counts.reads);
            let what = || format!("page {page} of {}", self.settings.name);
            let result = self.waited.during(&*self.runtime, WaitPlace::SlruRead, what, || {
                self.files.read(page, &mut bytes)
            });
            bank = write(place);
            let slot = &mut bank.slots[number];
            slot.bytes = Some(bytes);
            slot.positions.fill(Lsn(0));
            slot.status = if result.is_ok() { SlotStatus::Valid } else { SlotStatus::Empty };
            bank.wake(number);
            result?;
            bank.use_slot(number);
            return Ok((bank, number));
        }
    }

    /// An empty slot, or one with a clean page to give up; `None` after a wait or a write, when all is
    /// to be looked at anew (rule L4).
    fn free_slot<'a>(
        &'a self,
        mut bank: Locked<'a>,
        page: u32,
    ) -> Result<(Locked<'a>, Option<usize>), SlruError> {
        let view = |slot: &Slot| SlotView {
            status: slot.status,
            page: slot.page,
            is_dirty: slot.is_dirty,
            used: slot.used.load(Ordering::Relaxed),
        };
        let views: Vec<SlotView> = bank.slots.iter().map(view).collect();
        let now = bank.uses.load(Ordering::Relaxed);
        match choose(self.settings.victim_rule, &views, self.latest(), now) {
            Choice::Take(number) => Ok((bank, Some(number))),
            Choice::Write(number) => {
                let (locked, written) = self.write_slot(self.bank(page), bank, number);
                written?;
                Ok((locked, None))
            }
            Choice::Wait(number) => {
                bank = self.wait(bank, number);
                Ok((bank, None))
            }
            Choice::None => Err(SlruError::NoSlot { name: self.settings.name, page }),
        }
    }

    /// Waits until the read or write of a slot has ended; the lock is given back meanwhile.
    fn wait<'a>(&'a self, mut bank: Locked<'a>, number: usize) -> Locked<'a> {
        let page = bank.slots[number].page;
        let event = self.runtime.event();
        bank.waiters.push((number, Arc::clone(&event)));
        drop(bank);
        let what = || format!("slot {number} of {}, page {page}", self.settings.name);
        self.waited.during(&*self.runtime, WaitPlace::SlruSlot, what, || event.wait_until(None));
        write(self.bank(page))
    }

    /// Writes a valid dirty page; the lock is given back meanwhile, and the page may be used and changed
    /// (rules L1 and L5).
    fn write_slot<'a>(
        &'a self,
        place: &'a RwLock<Bank>,
        mut bank: Locked<'a>,
        number: usize,
    ) -> (Locked<'a>, Result<(), SlruError>) {
        let slot = &mut bank.slots[number];
        let page = slot.page;
        slot.status = SlotStatus::Writing;
        slot.is_dirty = false;
        let mut copy = slot.bytes.clone().unwrap_or_default();
        let position = slot.positions.iter().copied().max().unwrap_or(Lsn(0));
        drop(bank);
        let result = self.write_copy(page, &mut copy, position);
        let mut bank = write(place);
        let slot = &mut bank.slots[number];
        slot.status = SlotStatus::Valid;
        slot.is_dirty |= result.is_err();
        bank.wake(number);
        (bank, result)
    }

    fn write_copy(&self, page: u32, copy: &mut PageImage, position: Lsn) -> Result<(), SlruError> {
        let SlruSettings { name, number, .. } = self.settings;
        let what = || format!("page {page} of {name}");
        if position > self.log.durable() {
            let flush = || self.log.make_durable(position);
            let flushed = self.waited.during(&*self.runtime, WaitPlace::LogFlush, what, flush);
            flushed.map_err(|failure| SlruError::Log { name, page, failure })?;
        }
        seal(copy, self.files.database(), identity(number, page));
        let write = || self.files.write(page, copy);
        self.waited.during(&*self.runtime, WaitPlace::SlruWrite, what, write)?;
        count(&self.counts.written);
        Ok(())
    }

    /// What the slot of a page is doing; `None` when the page is in none.
    #[cfg(test)]
    fn bank_status(&self, page: u32) -> Option<SlotStatus> {
        let bank = read(self.bank(page));
        bank.find(page).map(|number| bank.slots[number].status)
    }

    /// Checks what must hold when no task is at work: for tests.
    ///
    /// # Errors
    /// The first thing that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut pages = std::collections::BTreeSet::new();
        for (bank_number, place) in self.banks.iter().enumerate() {
            let bank = read(place);
            if !bank.waiters.is_empty() {
                return Err(format!("{} tasks wait for ever", bank.waiters.len()));
            }
            for (number, slot) in bank.slots.iter().enumerate() {
                match slot.status {
                    SlotStatus::Empty => continue,
                    SlotStatus::Valid if slot.bytes.is_some() => {}
                    status => return Err(format!("slot {number} is {status:?} for ever")),
                }
                if slot.page as usize % self.banks.len() != bank_number {
                    return Err(format!("page {} is in bank {bank_number}", slot.page));
                }
                if !pages.insert(slot.page) {
                    return Err(format!("page {} is in two slots", slot.page));
                }
            }
        }
        Ok(())
    }
}

/// Bytes of a page for entries.
const ENTRIES_BYTES: u16 = 8160;

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
