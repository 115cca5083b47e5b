//! The resource manager of the tests, and a database on it whose every state can be judged.
//!
//! Slots of pages hold amounts; a *transfer* takes from one page and gives to another, so that the sum is 0
//! whenever records are whole, and notes in a third page how many transfers its transaction has made. A
//! *commit* notes in a fourth how many there should be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::super::{
    CreationSettings, OpenSettings, Opened, RecoveryError, create as create_database,
};
use crate::page::{
    BlockNumber, DatabaseId, Fork, Header, PageBytes, PageIdentity, PageImage, PageKind,
    RelationNumber, seal,
};
use crate::runtime::OsRuntime;
use crate::smgr::SmgrError;
use crate::vfs::FileSystem;
use crate::wal::record::{ManagerNumber, NewBlock, NewRecord, Record, RecordBuffer, Replay};
use crate::wal::rmgr::{Managers, RedoError, RedoPages, ResourceManager};
use crate::wal::{Wal, WalError, WalSettings};

pub(super) const RELATION: RelationNumber = RelationNumber(16_384);

const LEDGER: ManagerNumber = ManagerNumber(5);
const TRANSFER: u8 = 1;
const COMMIT: u8 = 2;
const MADE: u8 = 3;

/// Pages with amounts; then one with the transfers of each transaction, one with the commits.
const AMOUNT_BLOCKS: u32 = 6;
const TRANSFERS: u32 = AMOUNT_BLOCKS;
const COMMITS: u32 = AMOUNT_BLOCKS + 1;
const BLOCKS: u32 = AMOUNT_BLOCKS + 2;
const SLOTS: u64 = 1000;

const CREATION: CreationSettings =
    CreationSettings { wal_segment_bytes: 32 << 10, relation_segment_blocks: 4 };

pub(super) const SETTINGS: OpenSettings = OpenSettings {
    wal: WalSettings {
        ring_bytes: 64 << 10,
        full_page_writes: true,
        check_images: false,
        min_wal_bytes: 96 << 10,
        writer_delay_ms: 0,
    },
    direct_io: false,
    replay_pages_max: 64,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    None,
    ForgetsSecondBlock,
}

struct Ledger(Defect);

fn identity(block: u32) -> PageIdentity {
    PageIdentity { relation: RELATION, fork: Fork::Main, block: BlockNumber(block) }
}

fn slot(page: &PageBytes, slot: u64) -> i64 {
    let at = 24 + usize::try_from(slot).unwrap() * 8;
    i64::from_le_bytes(page[at..at + 8].try_into().unwrap())
}

fn add(page: &mut PageBytes, slot_number: u64, by: i64) {
    let at = 24 + usize::try_from(slot_number).unwrap() * 8;
    let value = slot(page, slot_number) + by;
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn make(page: &mut PageBytes) {
    // No hole: slots are everywhere.
    Header { upper: 24, ..Header::empty(PageKind::Plain, 0) }.write(page);
}

/// A block's data: which slot, by how much.
fn change_of(slot: u64, by: i64) -> [u8; 16] {
    let mut data = [0; 16];
    data[..8].copy_from_slice(&slot.to_le_bytes());
    data[8..].copy_from_slice(&by.to_le_bytes());
    data
}

fn apply(page: &mut PageBytes, data: &[u8]) -> Result<(), RedoError> {
    let impossible = || RedoError::Impossible("its data is no change".to_owned());
    let (slot, by) = data.split_first_chunk().ok_or_else(impossible)?;
    let by = by.try_into().map_err(|_| impossible())?;
    let slot = u64::from_le_bytes(*slot);
    if slot >= SLOTS {
        return Err(impossible());
    }
    add(page, slot, i64::from_le_bytes(by));
    Ok(())
}

impl ResourceManager for Ledger {
    fn number(&self) -> ManagerNumber {
        LEDGER
    }

    fn name(&self) -> &'static str {
        "ledger"
    }

    fn redo(&self, record: &Record<'_>, pages: &mut dyn RedoPages) -> Result<(), RedoError> {
        for (index, block) in record.blocks.iter().enumerate() {
            pages.repeat(record, index, &mut |page| {
                if record.info == MADE {
                    make(page);
                    return Ok(());
                }
                if index == 1 && self.0 == Defect::ForgetsSecondBlock {
                    return Ok(());
                }
                apply(page, block.data)
            })?;
        }
        Ok(())
    }

    fn describe(&self, record: &Record<'_>, text: &mut dyn fmt::Write) -> fmt::Result {
        match record.info {
            TRANSFER => text.write_str("transfer"),
            COMMIT => text.write_str("commit"),
            MADE => text.write_str("made"),
            other => write!(text, "info {other}"),
        }
    }
}

pub(super) fn managers_with(defect: Defect) -> Managers {
    Managers::new([Box::new(Ledger(defect)) as Box<dyn ResourceManager>])
}

pub(super) fn managers() -> Managers {
    managers_with(Defect::None)
}

pub(super) fn create(files: &Arc<dyn FileSystem>) {
    create_database(files, DatabaseId(0xBA4C), CREATION).unwrap();
}

pub(super) fn open_with(
    files: &Arc<dyn FileSystem>,
    managers: &Managers,
    settings: &OpenSettings,
) -> Result<Opened, RecoveryError> {
    super::super::open(files, Arc::new(OsRuntime::new()), managers, settings)
}

pub(super) fn open(files: &Arc<dyn FileSystem>) -> Result<Opened, RecoveryError> {
    open_with(files, &managers(), &SETTINGS)
}

pub(super) fn open_checked(files: &Arc<dyn FileSystem>) -> Result<Opened, RecoveryError> {
    let wal = WalSettings { check_images: true, ..SETTINGS.wal };
    open_with(files, &managers(), &OpenSettings { wal, ..SETTINGS })
}

/// What all pages say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Balance {
    sum: i64,
    transfers: BTreeMap<u64, i64>,
    commits: BTreeMap<u64, i64>,
}

/// Reads all pages from their files; there may be none yet.
pub(super) fn balance(opened: &Opened) -> Result<Balance, String> {
    let mut balance = Balance::default();
    let relations = &opened.relations;
    if !relations.exists(RELATION, Fork::Main).map_err(|error| error.to_string())? {
        return Ok(balance);
    }
    let mut page = PageImage::zeroed();
    for block in 0..BLOCKS {
        match relations.read(identity(block), &mut page) {
            Err(SmgrError::BeyondEnd { .. }) => continue,
            result => result.map_err(|error| error.to_string())?,
        }
        for number in 0..SLOTS {
            let value = slot(&page, number);
            match block {
                _ if value == 0 => {}
                TRANSFERS => drop(balance.transfers.insert(number, value)),
                COMMITS => drop(balance.commits.insert(number, value)),
                _ => balance.sum += value,
            }
        }
    }
    Ok(balance)
}

impl Balance {
    /// Whether this can be, and holds all that was acknowledged.
    pub(super) fn check(&self, acknowledged: &[(u64, u64)]) -> Result<(), String> {
        if self.sum != 0 {
            return Err(format!("half a record: amounts sum up to {}", self.sum));
        }
        for (transaction, count) in &self.commits {
            let found = self.transfers.get(transaction).copied().unwrap_or(0);
            if found != *count {
                return Err(format!(
                    "{transaction} is committed with {found} of {count} transfers"
                ));
            }
        }
        for (transaction, count) in acknowledged {
            if self.commits.get(transaction).copied() != i64::try_from(*count).ok() {
                return Err(format!("{transaction} was acknowledged and is gone"));
            }
        }
        Ok(())
    }
}

/// A running database: pages in memory, and chance that follows from a seed.
pub(super) struct Bank {
    opened: Opened,
    pages: BTreeMap<u32, PageImage>,
    dirty: std::collections::BTreeSet<u32>,
    buffer: RecordBuffer,
    random: u64,
    next_transaction: u64,
    acknowledged: Vec<(u64, u64)>,
    records_since_redo: u64,
    /// Told whenever a commit is acknowledged.
    tell: Box<dyn FnMut(u64, u64)>,
}

impl Bank {
    pub(super) fn start(opened: Opened, seed: u64) -> Self {
        Self {
            opened,
            pages: BTreeMap::new(),
            dirty: std::collections::BTreeSet::new(),
            buffer: RecordBuffer::new(),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            next_transaction: 1,
            acknowledged: Vec::new(),
            records_since_redo: 0,
            tell: Box::new(|_, _| {}),
        }
    }

    /// Goes on until recovery would have something to do.
    pub(super) fn run(&mut self, steps: u64) {
        let mut step = 0;
        while step < steps || self.records_since_redo < 25 {
            self.step().unwrap();
            step += 1;
        }
    }

    pub(super) fn telling(mut self, tell: impl FnMut(u64, u64) + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }

    pub(super) fn acknowledged(&self) -> Vec<(u64, u64)> {
        self.acknowledged.clone()
    }

    pub(super) const fn wal(&self) -> &Wal {
        &self.opened.wal
    }

    /// After a failure nothing must go on; a failed sync of pages ends the log, too (smgr, rule S6).
    pub(super) fn assert_ended(&mut self) {
        if let Err(WalError::Poisoned(_)) = self.wal().check() {
            let operations = self.acknowledged.len();
            assert!(self.transaction().is_err());
            assert_eq!(self.acknowledged.len(), operations, "nothing is acknowledged any more");
        }
    }

    /// Xorshift (G. Marsaglia).
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    pub(super) fn step(&mut self) -> Result<(), WalError> {
        if self.pages.is_empty() {
            self.make_pages()?;
        }
        match self.draw(32) {
            0..=19 => self.transaction(),
            20..=26 => {
                let block = u32::try_from(self.draw(u64::from(BLOCKS))).unwrap();
                self.write_back(block)
            }
            27 => self.checkpoint(),
            28..=29 => {
                self.wal().flush_in_background(self.wal().end());
                Ok(())
            }
            _ => self.wal().step().map(|_| ()),
        }
    }

    fn make_pages(&mut self) -> Result<(), WalError> {
        let relations = &self.opened.relations;
        // As recovery would: the files need not survive, the record makes them again.
        let files = |error: SmgrError| match error {
            SmgrError::Vfs(error) => WalError::Vfs(error),
            error => panic!("{error}"),
        };
        if !relations.exists(RELATION, Fork::Main).map_err(files)? {
            relations.create(RELATION, Fork::Main).map_err(files)?;
        }
        let blocks = relations.blocks(RELATION, Fork::Main).map_err(files)?;
        if blocks < BLOCKS {
            relations.extend(RELATION, Fork::Main, BLOCKS - blocks).map_err(files)?;
        }
        for block in 0..BLOCKS {
            let mut page = PageImage::zeroed();
            make(&mut page);
            self.pages.insert(block, page);
            self.log(MADE, 0, &[(block, 0, 0)], Replay::MakeAnew)?;
        }
        Ok(())
    }

    /// Changes slots of pages, logs that, and sets the pages' LSN.
    fn log(
        &mut self,
        info: u8,
        transaction: u64,
        changes: &[(u32, u64, i64)],
        replay: Replay,
    ) -> Result<u64, WalError> {
        let data: Vec<[u8; 16]> =
            changes.iter().map(|(_, slot, by)| change_of(*slot, *by)).collect();
        for (block, slot, by) in changes {
            add(self.pages.get_mut(block).unwrap(), *slot, *by);
        }
        let blocks: Vec<NewBlock<'_>> = changes
            .iter()
            .zip(&data)
            .map(|((block, _, _), data)| NewBlock {
                identity: identity(*block),
                page: &self.pages[block],
                replay,
                data,
            })
            .collect();
        let record = NewRecord { manager: LEDGER, info, transaction, blocks: &blocks, data: &[] };
        let inserted = self.opened.wal.insert(&mut self.buffer, &record)?;
        self.records_since_redo += 1;
        for (block, _, _) in changes {
            let page = self.pages.get_mut(block).unwrap();
            Header { lsn: inserted.end, ..Header::read(page) }.write(page);
            self.dirty.insert(*block);
        }
        Ok(inserted.end.0)
    }

    fn transaction(&mut self) -> Result<(), WalError> {
        let transaction = self.next_transaction % SLOTS;
        self.next_transaction += 1;
        let count = 1 + self.draw(3);
        for _ in 0..count {
            let from = u32::try_from(self.draw(u64::from(AMOUNT_BLOCKS))).unwrap();
            let to = (from + 1 + u32::try_from(self.draw(u64::from(AMOUNT_BLOCKS) - 1)).unwrap())
                % AMOUNT_BLOCKS;
            let amount = 1 + i64::try_from(self.draw(100)).unwrap();
            let changes = [
                (from, self.draw(SLOTS), -amount),
                (to, self.draw(SLOTS), amount),
                (TRANSFERS, transaction, 1),
            ];
            self.log(TRANSFER, transaction, &changes, Replay::Repeat)?;
        }
        let commit = [(COMMITS, transaction, i64::try_from(count).unwrap())];
        let end = crate::page::Lsn(self.log(COMMIT, transaction, &commit, Replay::Repeat)?);
        if self.draw(4) == 0 {
            self.wal().flush_in_background(end);
            return Ok(());
        }
        self.wal().flush(end)?;
        self.acknowledged.push((transaction, count));
        (self.tell)(transaction, count);
        Ok(())
    }

    /// Log before data, then the page.
    fn write_back(&mut self, block: u32) -> Result<(), WalError> {
        if !self.dirty.contains(&block) {
            return Ok(());
        }
        let mut page = self.pages[&block].clone();
        self.wal().flush(Header::read(&page).lsn)?;
        seal(&mut page, self.opened.relations.database(), identity(block));
        self.opened.relations.write(identity(block), &page).map_err(|error| match error {
            SmgrError::Vfs(error) => WalError::Vfs(error),
            error => panic!("{error}"),
        })?;
        self.dirty.remove(&block);
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), WalError> {
        let point = self.wal().place_redo_point()?;
        self.records_since_redo = 0;
        for block in 0..BLOCKS {
            self.write_back(block)?;
        }
        let queue = self.opened.relations.sync_queue();
        for owed in queue.owed_before(queue.begin_cycle()) {
            if queue.take(&owed)
                && let Err(error) = self.opened.relations.sync(owed)
            {
                let SmgrError::Vfs(error) = error else { panic!("{error}") };
                self.wal().poison(error.clone());
                return Err(WalError::Poisoned(error));
            }
        }
        self.wal().publish_redo(point, self.next_transaction)
    }
}
