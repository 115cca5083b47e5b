//! Setting the status of many transactions at once (PostgreSQL since 11, baaf272ac9): who finds the lock
//! taken joins a group, whose first member sets the status of all when it has the lock.

use std::sync::Arc;

use super::error::SlruError;
use crate::page::Lsn;
use crate::runtime::{Event, Runtime};
use crate::sync::{Mutex, lock};

/// Sub-transactions that a member may have: those that PostgreSQL keeps with the process.
pub(super) const MEMBER_SUBS_MAX: usize = 5;

/// What a member wants to be set: entries of one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// The transaction and its sub-transactions; as many as `count` says.
    pub(super) transactions: [u64; MEMBER_SUBS_MAX + 1],
    pub(super) count: usize,
    pub(super) status: super::clog::TransactionStatus,
    pub(super) position: Lsn,
}

impl Wish {
    pub(super) fn transactions(&self) -> &[u64] {
        &self.transactions[..self.count]
    }
}

/// Where a member waits for what came of it.
pub(super) struct Member {
    event: Arc<dyn Event>,
    result: Mutex<Option<Result<(), SlruError>>>,
}

impl Member {
    pub(super) fn wait(&self) -> Result<(), SlruError> {
        loop {
            if let Some(result) = lock(&self.result).take() {
                return result;
            }
            self.event.wait_until(None);
        }
    }

    fn answer(&self, result: Result<(), SlruError>) {
        *lock(&self.result) = Some(result);
        self.event.notify();
    }
}

/// How a task takes part.
pub(super) enum Part {
    /// It is the first: it sets the status of all.
    Leader,
    /// It waits for the leader.
    Member(Arc<Member>),
    /// The group is for another page: it goes alone.
    None,
}

#[derive(Default)]
struct Gathering {
    /// Of the leader; the group exists as long as this is set.
    page: Option<u32>,
    members: Vec<(Wish, Arc<Member>)>,
}

/// The group that is gathering now. A new one gathers while the one before is being served.
#[derive(Default)]
pub(super) struct Group(Mutex<Gathering>);

impl Group {
    /// Joins the group for `page`, or founds it.
    pub(super) fn join(&self, page: u32, wish: Wish, runtime: &dyn Runtime) -> Part {
        let mut gathering = lock(&self.0);
        match gathering.page {
            None => {
                gathering.page = Some(page);
                Part::Leader
            }
            Some(other) if other == page => {
                let member = Arc::new(Member { event: runtime.event(), result: Mutex::new(None) });
                gathering.members.push((wish, Arc::clone(&member)));
                Part::Member(member)
            }
            Some(_) => Part::None,
        }
    }

    /// Ends the gathering: those who joined are the leader's now.
    pub(super) fn close(&self) -> Served {
        Served(std::mem::take(&mut *lock(&self.0)).members)
    }
}

/// The members that a leader works for, and owes an answer.
pub(super) struct Served(Vec<(Wish, Arc<Member>)>);

impl Served {
    pub(super) fn wishes(&self) -> impl Iterator<Item = &Wish> {
        self.0.iter().map(|(wish, _)| wish)
    }

    pub(super) fn answer(&self, result: &Result<(), SlruError>) {
        for (_, member) in &self.0 {
            member.answer(result.clone());
        }
    }
}
