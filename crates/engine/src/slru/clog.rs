//! The commit log: two bits for each transaction.
//!
//! Source: PostgreSQL's `clog.c`. Differences: transaction numbers have 64 bits and do not wrap; a page has
//! a header, and so 32,640 entries instead of 32,768.

use std::sync::Arc;

use super::group::{Group, MEMBER_SUBS_MAX, Part, Wish};
use super::{ENTRIES_AT, Slru, SlruComponents, SlruError, SlruSettings, VictimRule, number_of};
use crate::page::{Lsn, PageBytes};
use crate::runtime::Runtime;
use crate::stats::WaitPlace;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Entries of a page: four to a byte behind the header.
pub const PAGE_TRANSACTIONS: u64 = 32_640;

/// Entries that share a log position (rule L5).
pub const GROUP_TRANSACTIONS: u64 = 32;

const _: () = assert!(PAGE_TRANSACTIONS.is_multiple_of(GROUP_TRANSACTIONS));
const _: () = assert!(ENTRIES_AT as u64 + PAGE_TRANSACTIONS / 4 == crate::page::PAGE_BYTES as u64);

/// The directory.
pub const DIRECTORY: &str = "xact";

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// It runs, or was cut off by a crash.
    InProgress,
    /// It is done.
    Committed,
    /// It is undone.
    Aborted,
    /// It is a sub-transaction that shares its parent's fate, which is being set: ask the parent.
    SubCommitted,
}

impl TransactionStatus {
    /// Its two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::InProgress => 0,
            Self::Committed => 1,
            Self::Aborted => 2,
            Self::SubCommitted => 3,
        }
    }

    /// The status of two bits; higher bits are left out of account.
    #[must_use]
    pub const fn of_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::InProgress,
            1 => Self::Committed,
            2 => Self::Aborted,
            _ => Self::SubCommitted,
        }
    }
}

/// What is fixed when a commit log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLogSettings {
    /// `transaction_buffers`: pages kept in memory.
    pub slots: u32,
    /// Whether slots are in banks of 16.
    pub is_banked: bool,
    /// How a slot is chosen.
    pub victim_rule: VictimRule,
    /// Whether tasks that find the lock taken let another one work for them.
    pub is_grouped: bool,
}

impl CommitLogSettings {
    /// PostgreSQL's of 17 for a pool of `frames`: a 512th of them, 16 to 1024, in banks.
    #[must_use]
    pub fn for_pool(frames: u32) -> Self {
        let slots = (frames / 512).clamp(16, 1024) / 16 * 16;
        Self { slots, is_banked: true, victim_rule: VictimRule::OldestIdle, is_grouped: true }
    }

    /// PostgreSQL's of 9.1, before study 2's patch: 8 slots, one lock.
    pub const OF_9_1: Self =
        Self { slots: 8, is_banked: false, victim_rule: VictimRule::Oldest, is_grouped: false };
}

/// The commit log.
pub struct CommitLog {
    slru: Slru,
    runtime: Arc<dyn Runtime>,
    group: Option<Group>,
    grouped: AtomicU64,
}

impl std::fmt::Debug for CommitLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CommitLog").field("slru", &self.slru).finish_non_exhaustive()
    }
}

/// The page of a transaction.
///
/// # Errors
/// `Missing` beyond 2^32 pages, which are 140,187,732,508,800 transactions.
fn page_of(transaction: u64) -> Result<u32, SlruError> {
    let page = transaction / PAGE_TRANSACTIONS;
    u32::try_from(page).map_err(|_| SlruError::Missing { name: DIRECTORY, page })
}

/// Byte and shift of a transaction's entry.
fn entry_of(transaction: u64) -> (usize, u32) {
    let within = transaction % PAGE_TRANSACTIONS;
    // Below 8160.
    let byte = usize::try_from(within / 4).unwrap_or(0);
    (ENTRIES_AT + byte, u32::try_from(within % 4).unwrap_or(0) * 2)
}

fn group_of(transaction: u64) -> usize {
    usize::try_from(transaction % PAGE_TRANSACTIONS / GROUP_TRANSACTIONS).unwrap_or(0)
}

impl CommitLog {
    /// A commit log that goes on behind `next`, the number of the next transaction.
    ///
    /// # Errors
    /// As [`Slru::open`].
    pub fn open(
        settings: CommitLogSettings,
        next: u64,
        with: SlruComponents,
    ) -> Result<Self, SlruError> {
        let of_slru = SlruSettings {
            name: DIRECTORY,
            number: number_of(1),
            slots: settings.slots,
            is_banked: settings.is_banked,
            victim_rule: settings.victim_rule,
            groups: usize::try_from(PAGE_TRANSACTIONS / GROUP_TRANSACTIONS).unwrap_or(0),
        };
        let runtime = Arc::clone(&with.runtime);
        Ok(Self {
            slru: Slru::open(of_slru, page_of(next)?, with)?,
            runtime,
            group: settings.is_grouped.then(Group::default),
            grouped: AtomicU64::new(0),
        })
    }

    /// The pages: flushing, syncing, figures.
    #[must_use]
    pub const fn slru(&self) -> &Slru {
        &self.slru
    }

    /// Transactions whose status another task has set for them.
    #[must_use]
    pub fn grouped(&self) -> u64 {
        self.grouped.load(Ordering::Relaxed)
    }

    /// Makes the page of `transaction` if it is the page's first: to be called for each new transaction
    /// number before it is used. Says whether a page was made, which the caller logs.
    ///
    /// # Errors
    /// When there is no space for it.
    pub fn extend(&self, transaction: u64) -> Result<bool, SlruError> {
        if !transaction.is_multiple_of(PAGE_TRANSACTIONS) {
            return Ok(false);
        }
        self.slru.make(page_of(transaction)?)?;
        Ok(true)
    }

    /// What became of `transaction`, and up to where the log must be durable before that may be told on
    /// (written into a page as a hint): 0 when it need not be.
    ///
    /// # Errors
    /// When its page cannot be read.
    pub fn status(&self, transaction: u64) -> Result<(TransactionStatus, Lsn), SlruError> {
        let (byte, shift) = entry_of(transaction);
        self.slru.look(page_of(transaction)?, |page, positions| {
            let position = positions.get(group_of(transaction)).copied().unwrap_or(Lsn(0));
            (TransactionStatus::of_bits(page[byte] >> shift), position)
        })
    }

    /// Sets the status of a transaction and its sub-transactions, so that nobody sees a part of a commit:
    /// first the sub-transactions on other pages become sub-committed, then the transaction's own page
    /// changes at once, then the others. `position` is that of an asynchronous commit's record, which
    /// must be durable before the pages are written; 0 when the record is durable already.
    ///
    /// # Errors
    /// When a page cannot be had; what was set before stays, and setting again is right.
    pub fn set(
        &self,
        transaction: u64,
        subs: &[u64],
        status: TransactionStatus,
        position: Lsn,
    ) -> Result<(), SlruError> {
        let own = page_of(transaction)?;
        let (mut same, mut others) = (Vec::new(), Vec::new());
        for sub in subs {
            if page_of(*sub)? == own { same.push(*sub) } else { others.push(*sub) }
        }
        others.sort_unstable();
        if status == TransactionStatus::Committed {
            self.set_pages(&others, TransactionStatus::SubCommitted, position)?;
        }
        self.set_own(own, transaction, &same, status, position)?;
        self.set_pages(&others, status, position)
    }

    /// Sets transactions in order of number, each page at once.
    fn set_pages(
        &self,
        transactions: &[u64],
        status: TransactionStatus,
        position: Lsn,
    ) -> Result<(), SlruError> {
        let of_page =
            |left: &u64, right: &u64| left / PAGE_TRANSACTIONS == right / PAGE_TRANSACTIONS;
        for run in transactions.chunk_by(of_page) {
            if let Some(first) = run.first() {
                self.slru.change(page_of(*first)?, |page, positions| {
                    put(page, positions, run, status, position);
                })?;
            }
        }
        Ok(())
    }

    fn set_own(
        &self,
        page: u32,
        transaction: u64,
        subs: &[u64],
        status: TransactionStatus,
        position: Lsn,
    ) -> Result<(), SlruError> {
        let alone = |bytes: &mut PageBytes, positions: &mut [Lsn]| {
            put(bytes, positions, subs, status, position);
            put(bytes, positions, &[transaction], status, position);
        };
        let Some(group) = self.group.as_ref().filter(|_| subs.len() <= MEMBER_SUBS_MAX) else {
            return self.slru.change(page, alone);
        };
        let alone = match self.slru.try_change(page, alone) {
            Ok(result) => return result,
            Err(alone) => alone,
        };
        let mut transactions = [transaction; MEMBER_SUBS_MAX + 1];
        transactions[..subs.len()].copy_from_slice(subs);
        transactions[subs.len()] = transaction;
        let wish = Wish { transactions, count: subs.len() + 1, status, position };
        match group.join(page, wish, &*self.runtime) {
            Part::None => self.slru.change(page, alone),
            Part::Member(member) => {
                self.grouped.fetch_add(1, Ordering::Relaxed);
                let what = || format!("transaction {transaction}");
                let wait = || member.wait();
                let waited = self.slru.waited();
                waited.during(&*self.runtime, WaitPlace::SlruGroup, what, wait)
            }
            Part::Leader => {
                let mut served = None;
                let result = self.slru.change(page, |bytes, positions| {
                    // Only now, so that as many as possible have joined.
                    let members = group.close();
                    alone(bytes, positions);
                    for wish in members.wishes() {
                        put(bytes, positions, wish.transactions(), wish.status, wish.position);
                    }
                    served = Some(members);
                });
                served.unwrap_or_else(|| group.close()).answer(&result);
                result
            }
        }
    }

    /// Removes pages whose transactions all come before `oldest`.
    ///
    /// # Errors
    /// As the file system says.
    pub fn truncate_before(&self, oldest: u64) -> Result<(), SlruError> {
        self.slru.truncate_before(page_of(oldest)?)
    }
}

/// Sets entries of one page, and the log positions of their groups.
fn put(
    page: &mut PageBytes,
    positions: &mut [Lsn],
    transactions: &[u64],
    status: TransactionStatus,
    position: Lsn,
) {
    for transaction in transactions {
        let (byte, shift) = entry_of(*transaction);
        page[byte] = page[byte] & !(3 << shift) | status.bits() << shift;
        if let Some(held) = positions.get_mut(group_of(*transaction)) {
            *held = position.max(*held);
        }
    }
}
