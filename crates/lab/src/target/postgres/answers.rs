//! What the server's answers mean to a session: from bytes to "done", "failed" or "still to come".
//! No socket here, so that every case can be tried at every byte boundary.
//!
//! # Rules
//!
//! 1. A row that nobody wants is counted off by its length; it is neither copied nor waited for as
//!    a whole. Nor are notices, parameters and other remarks.
//! 2. A request is done when the ReadyForQuery of its last Sync has come; the first error among its
//!    answers is its failure.
//! 3. After an error the server skips to the next Sync. Statements whose Parse was skipped are not
//!    prepared, whatever was assumed when they were sent.

use std::collections::VecDeque;

use super::protocol::{
    Body, HEADER_BYTES, Malformed, error_fields, header, shown_tag, tag, transaction_status,
};
use crate::target::{RowSink, StatementError, TransactionStatus};
use crate::workload::script::StatementId;

/// The largest row, description or error that is looked at.
const LARGEST_MESSAGE_BYTES: usize = 64 << 20;

/// Columns for which a row's values need no allocation.
const INLINE_COLUMN_COUNT: usize = 16;

/// The state of a session as the server's answers tell it.
#[derive(Debug)]
pub(super) struct Answers {
    status: TransactionStatus,
    /// Syncs sent and answered; a query of the simple protocol counts as one.
    syncs_sent: u64,
    syncs_answered: u64,
    /// Errors of earlier Syncs are no failure of the request under way.
    failures_count_from: u64,
    failure: Option<Box<StatementError>>,
    /// Bytes that belong to a message nobody wants.
    skip: usize,
    /// Whether rows go to the sink.
    wants_rows: bool,
    /// Whether a COPY FROM is to be declined.
    wants_copy_declined: bool,
    prepared: Vec<Prepared>,
    /// Statements whose Parse is sent and not yet answered, with the Sync that follows it.
    parsing: VecDeque<(StatementId, u64)>,
}

/// What is known of a named statement in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// The server does not have it.
    No,
    /// Its Parse travels before the Sync of that number.
    Sent(u64),
    /// The server has it.
    Yes,
    /// The server may or may not have it.
    Unknown,
}

/// Why a session cannot go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The server ended the session and said why.
    Ended(String),
    /// The server broke the protocol, or asks for what cannot be done.
    Malformed(Malformed),
}

impl From<Malformed> for Broken {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

impl Answers {
    pub(super) fn new(statement_count: usize) -> Self {
        Self {
            status: TransactionStatus::Idle,
            syncs_sent: 0,
            syncs_answered: 0,
            failures_count_from: 0,
            failure: None,
            skip: 0,
            wants_rows: false,
            wants_copy_declined: false,
            prepared: vec![Prepared::No; statement_count],
            parsing: VecDeque::new(),
        }
    }

    pub(super) const fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Whether answers are still to come.
    #[inline]
    pub(super) const fn is_waiting(&self) -> bool {
        self.syncs_answered != self.syncs_sent
    }

    /// A Sync, or a query of the simple protocol, is on its way.
    #[inline]
    pub(super) fn expect_sync(&mut self) {
        self.syncs_sent += 1;
    }

    /// A request begins: from now on rows are wanted or not, and errors are its failure.
    #[inline]
    pub(super) fn begin(&mut self, wants_rows: bool) {
        self.wants_rows = wants_rows;
        self.failures_count_from = self.syncs_sent;
        self.failure = None;
    }

    /// The failure of the request that has ended.
    #[inline]
    pub(super) fn take_failure(&mut self) -> Option<Box<StatementError>> {
        self.failure.take()
    }

    /// Whether the server waits for COPY data that we do not have; asked once.
    #[inline]
    pub(super) fn take_copy_declined(&mut self) -> bool {
        std::mem::take(&mut self.wants_copy_declined)
    }

    /// What must be sent before the named statement can be used in the Sync being filled.
    #[inline]
    pub(super) fn prepared(&self, statement: StatementId) -> Prepared {
        match self.prepared.get(statement.0 as usize) {
            // Sent in this very group: if it fails, what follows it is skipped as well.
            Some(Prepared::Sent(sync)) if *sync == self.syncs_sent => Prepared::Yes,
            Some(Prepared::Sent(_)) => Prepared::Unknown,
            Some(state) => *state,
            None => Prepared::No,
        }
    }

    /// The statement's Parse is on its way.
    pub(super) fn expect_parse(&mut self, statement: StatementId) {
        if let Some(state) = self.prepared.get_mut(statement.0 as usize) {
            *state = Prepared::Sent(self.syncs_sent);
            self.parsing.push_back((statement, self.syncs_sent));
        }
    }

    /// Takes what `bytes` hold: how many of them are consumed. More may be needed to go on.
    #[inline]
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        rows: &mut Option<&mut dyn RowSink>,
    ) -> Result<usize, Broken> {
        let mut consumed = 0;
        loop {
            if self.skip > 0 {
                let count = self.skip.min(bytes.len() - consumed);
                self.skip -= count;
                consumed += count;
                if self.skip > 0 {
                    return Ok(consumed);
                }
            }
            let rest = &bytes[consumed..];
            let Some(header) = header(rest)? else { return Ok(consumed) };
            match header.tag {
                // Rule 1, in the order of frequency.
                tag::DATA_ROW | tag::ROW_DESCRIPTION if !self.wants_rows => {
                    self.skip = header.total;
                    continue;
                }
                tag::BIND_COMPLETE
                | tag::NO_DATA
                | tag::COPY_DATA
                | tag::COPY_DONE
                | tag::COPY_OUT
                | tag::CLOSE_COMPLETE
                | tag::NOTICE
                | tag::NOTIFICATION
                | tag::PARAMETER_STATUS => {
                    self.skip = header.total;
                    continue;
                }
                tag::COMMAND_COMPLETE | tag::EMPTY_QUERY => {
                    if self.wants_rows
                        && let Some(rows) = rows
                    {
                        rows.end_of_result();
                    }
                    self.skip = header.total;
                    continue;
                }
                _ => {}
            }
            if rest.len() < header.total {
                if header.total > LARGEST_MESSAGE_BYTES {
                    return Err(Broken::Malformed(Malformed(format!(
                        "a message of type {} announces {} bytes; at most {LARGEST_MESSAGE_BYTES} \
                         are taken",
                        shown_tag(header.tag),
                        header.total
                    ))));
                }
                return Ok(consumed);
            }
            let body = &rest[HEADER_BYTES..header.total];
            consumed += header.total;
            match header.tag {
                tag::READY => {
                    self.status = transaction_status(body)?;
                    if !self.is_waiting() {
                        return Err(Malformed::unexpected(tag::READY, "without a request").into());
                    }
                    self.syncs_answered += 1;
                }
                tag::PARSE_COMPLETE => self.parse_completed(),
                tag::DATA_ROW => {
                    if let Some(rows) = rows {
                        hand_row(body, &mut **rows)?;
                    }
                }
                tag::ROW_DESCRIPTION => {
                    if let Some(rows) = rows {
                        hand_columns(body, &mut **rows)?;
                    }
                }
                tag::ERROR => self.failed(body)?,
                tag::COPY_IN => self.copy_in()?,
                other => return Err(Malformed::unexpected(other, "among the answers").into()),
            }
        }
    }

    fn parse_completed(&mut self) {
        // Unnamed statements of the extended mode are not in the queue.
        if let Some((statement, _)) = self.parsing.pop_front()
            && let Some(state) = self.prepared.get_mut(statement.0 as usize)
        {
            // A later Parse of the same statement may be on its way already.
            if !self.parsing.iter().any(|(other, _)| *other == statement) {
                *state = Prepared::Yes;
            }
        }
    }

    #[cold]
    fn failed(&mut self, body: &[u8]) -> Result<(), Broken> {
        let error = error_fields(body)?;
        if error.severity != "ERROR" {
            return Err(Broken::Ended(error.to_string()));
        }
        // Rule 3.
        while let Some((statement, sync)) = self.parsing.front().copied()
            && sync == self.syncs_answered
        {
            self.parsing.pop_front();
            if let Some(state) = self.prepared.get_mut(statement.0 as usize)
                && *state == Prepared::Sent(sync)
            {
                // The failed one may have been the Parse itself, or one before it; either way the
                // server does not have the statement, unless it had it before (a Parse of a name
                // that exists fails).
                *state = Prepared::Unknown;
            }
        }
        if error.sqlstate == "26000" {
            // "prepared statement does not exist": somebody deallocated them.
            for state in self.prepared.iter_mut().filter(|state| **state == Prepared::Yes) {
                *state = Prepared::Unknown;
            }
        }
        if self.failure.is_none() && self.syncs_answered >= self.failures_count_from {
            self.failure = Some(Box::new(error));
        }
        Ok(())
    }

    #[cold]
    fn copy_in(&mut self) -> Result<(), Broken> {
        if self.syncs_sent - self.syncs_answered != 1 {
            return Err(Broken::Malformed(Malformed::new(
                "a COPY ... FROM STDIN inside a pipeline; scripts cannot hold it",
            )));
        }
        self.wants_copy_declined = true;
        Ok(())
    }
}

/// Hands a row to the sink, without an allocation where it has few columns.
fn hand_row(body: &[u8], rows: &mut dyn RowSink) -> Result<(), Malformed> {
    let mut body = Body(body);
    let count = usize::from(body.int16()?);
    if count <= INLINE_COLUMN_COUNT {
        let mut values = [None; INLINE_COLUMN_COUNT];
        for value in values.iter_mut().take(count) {
            *value = body.value()?;
        }
        rows.row(&values[..count]);
    } else {
        let values = (0..count).map(|_| body.value()).collect::<Result<Vec<_>, _>>()?;
        rows.row(&values);
    }
    Ok(())
}

fn hand_columns(body: &[u8], rows: &mut dyn RowSink) -> Result<(), Malformed> {
    let names = super::protocol::column_names(body)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    rows.columns(&names);
    Ok(())
}
