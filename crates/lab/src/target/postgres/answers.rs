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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut body = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            super::super::protocol::write::value(&mut body, value.map(str::as_bytes));
        }
        message(b'D', &body)
    }

    fn description(names: &[&str]) -> Vec<u8> {
        let mut body = u16::try_from(names.len()).unwrap().to_be_bytes().to_vec();
        for name in names {
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&[0; 19]);
        }
        message(b'T', &body)
    }

    fn error(severity: &str, sqlstate: &str) -> Vec<u8> {
        message(b'E', format!("SX\0V{severity}\0C{sqlstate}\0Mwords\0\0").as_bytes())
    }

    #[derive(Default, Debug, PartialEq, Eq)]
    struct Collected(Vec<String>);

    impl RowSink for Collected {
        fn columns(&mut self, columns: &[&str]) {
            self.0.push(format!("columns {columns:?}"));
        }
        fn row(&mut self, values: &[Option<&[u8]>]) {
            let texts = values.iter().map(|value| value.map(String::from_utf8_lossy));
            self.0.push(format!("row {:?}", texts.collect::<Vec<_>>()));
        }
        fn end_of_result(&mut self) {
            self.0.push("end".to_owned());
        }
    }

    /// Gives `bytes` in pieces of `step` bytes, as a socket might.
    fn feed(answers: &mut Answers, bytes: &[u8], step: usize) -> Result<Vec<String>, Broken> {
        let mut sink = Collected::default();
        let mut pending = Vec::new();
        for piece in bytes.chunks(step) {
            pending.extend_from_slice(piece);
            let count = answers.take(&pending, &mut Some(&mut sink))?;
            pending.drain(..count);
        }
        assert!(pending.is_empty(), "{} bytes were left", pending.len());
        Ok(sink.0)
    }

    fn statement(wants_rows: bool) -> Answers {
        let mut answers = Answers::new(3);
        answers.begin(wants_rows);
        answers.expect_sync();
        answers
    }

    #[test]
    fn an_answer_is_the_same_at_every_split() {
        let stream = [
            message(b'1', b""),
            message(b'2', b""),
            message(b'N', b"SNOTICE\0Mhello\0\0"),
            description(&["a", "b"]),
            row(&[Some("1"), None]),
            row(&[Some(""), Some("long enough to be split somewhere")]),
            message(b'S', b"TimeZone\0UTC\0"),
            message(b'C', b"SELECT 2\0"),
            message(b'Z', b"T"),
        ]
        .concat();
        let expected = [
            r#"columns ["a", "b"]"#,
            r#"row [Some("1"), None]"#,
            r#"row [Some(""), Some("long enough to be split somewhere")]"#,
            "end",
        ];
        for step in 1..=stream.len() {
            let mut answers = statement(true);
            assert_eq!(feed(&mut answers, &stream, step).unwrap(), expected, "step {step}");
            assert!(!answers.is_waiting());
            assert_eq!(answers.status(), TransactionStatus::InBlock);
            let mut unwanted = statement(false);
            assert_eq!(feed(&mut unwanted, &stream, step).unwrap(), [""; 0], "step {step}");
            assert!(!unwanted.is_waiting());
        }
    }

    #[test]
    fn an_unwanted_row_is_never_held_as_a_whole() {
        let mut answers = statement(false);
        // A row of a gigabyte, of which only the header has come: all of it is consumed.
        assert_eq!(answers.take(b"D\x3f\xff\xff\xf0abc", &mut None), Ok(8));
        assert_eq!(answers.take(&[0; 1000], &mut None), Ok(1000));
        // A wanted one is refused before it is collected.
        let mut answers = statement(true);
        assert!(answers.take(b"D\x3f\xff\xff\xf0abc", &mut None).is_err());
        let mut answers = statement(false);
        assert!(answers.take(b"E\x3f\xff\xff\xf0abc", &mut None).is_err());
    }

    #[test]
    fn a_failure_keeps_its_code_and_the_session() {
        for step in [1, 7, 1000] {
            let mut answers = statement(false);
            let stream = [error("ERROR", "40001"), message(b'Z', b"E")].concat();
            feed(&mut answers, &stream, step).unwrap();
            let failure = answers.take_failure().unwrap();
            assert!(failure.is_retryable());
            assert_eq!(answers.status(), TransactionStatus::Failed);
            assert!(!answers.is_waiting());
            // The next request starts clean.
            answers.begin(false);
            answers.expect_sync();
            let stream = [message(b'C', b"ROLLBACK\0"), message(b'Z', b"I")].concat();
            feed(&mut answers, &stream, step).unwrap();
            assert_eq!(answers.take_failure(), None);
            assert_eq!(answers.status(), TransactionStatus::Idle);
        }
    }

    #[test]
    fn the_end_of_the_session_is_no_failed_statement() {
        for severity in ["FATAL", "PANIC"] {
            let mut answers = statement(false);
            let result = feed(&mut answers, &error(severity, "57P01"), 1000);
            assert!(matches!(&result, Err(Broken::Ended(text)) if text.contains("57P01")));
        }
    }

    #[test]
    fn after_an_error_in_a_pipeline_the_first_one_counts_and_later_groups_go_on() {
        let mut answers = Answers::new(3);
        answers.begin(false);
        answers.expect_parse(StatementId(0));
        answers.expect_parse(StatementId(1));
        assert_eq!(answers.prepared(StatementId(1)), Prepared::Yes);
        answers.expect_sync();
        // In the next group statement 1 may be missing: it must be closed and parsed again.
        assert_eq!(answers.prepared(StatementId(1)), Prepared::Unknown);
        answers.expect_parse(StatementId(1));
        answers.expect_sync();
        let stream = [
            message(b'1', b""),
            message(b'2', b""),
            error("ERROR", "22012"),
            message(b'Z', b"I"),
            message(b'3', b""),
            message(b'1', b""),
            error("ERROR", "23505"),
        ]
        .concat();
        feed(&mut answers, &stream, 3).unwrap();
        assert!(answers.is_waiting());
        feed(&mut answers, &message(b'Z', b"I"), 3).unwrap();
        assert!(!answers.is_waiting());
        assert_eq!(answers.take_failure().unwrap().sqlstate, "22012");
        assert_eq!(answers.prepared(StatementId(0)), Prepared::Yes);
        assert_eq!(answers.prepared(StatementId(1)), Prepared::Yes);
        assert_eq!(answers.prepared(StatementId(2)), Prepared::No);
    }

    #[test]
    fn a_statement_whose_parse_failed_is_not_taken_for_prepared() {
        let mut answers = Answers::new(2);
        answers.begin(false);
        answers.expect_parse(StatementId(0));
        answers.expect_sync();
        feed(&mut answers, &[error("ERROR", "42P01"), message(b'Z', b"I")].concat(), 4).unwrap();
        assert_eq!(answers.prepared(StatementId(0)), Prepared::Unknown);
        assert_eq!(answers.take_failure().unwrap().sqlstate, "42P01");
    }

    #[test]
    fn deallocated_statements_are_parsed_again() {
        let mut answers = Answers::new(1);
        answers.begin(false);
        answers.expect_parse(StatementId(0));
        answers.expect_sync();
        feed(&mut answers, &[message(b'1', b""), message(b'Z', b"I")].concat(), 9).unwrap();
        assert_eq!(answers.prepared(StatementId(0)), Prepared::Yes);
        answers.begin(false);
        answers.expect_sync();
        feed(&mut answers, &[error("ERROR", "26000"), message(b'Z', b"I")].concat(), 9).unwrap();
        assert_eq!(answers.prepared(StatementId(0)), Prepared::Unknown);
    }

    #[test]
    fn messages_out_of_place_are_violations() {
        for stream in [
            message(b'R', b"\0\0\0\0"),
            message(b'W', b"\0\0\0"),
            message(b'?', b""),
            message(b'Z', b"X"),
            message(b'Z', b""),
            message(b'D', b"\0\x02\0\0"),
            message(b'T', b"\0\x01name"),
            message(b'E', b"Mno end"),
            b"D\0\0\0\x01".to_vec(),
        ] {
            let result = feed(&mut statement(true), &stream, 1000);
            assert!(matches!(result, Err(Broken::Malformed(_))), "{stream:?}: {result:?}");
        }
        let mut idle = Answers::new(0);
        assert!(feed(&mut idle, &message(b'Z', b"I"), 1000).is_err());
    }

    #[test]
    fn copying_out_is_passed_over_and_copying_in_is_declined() {
        let mut answers = statement(false);
        let stream = [
            message(b'H', b"\0\0\0"),
            message(b'd', b"1\n"),
            message(b'c', b""),
            message(b'C', b"COPY 1\0"),
            message(b'Z', b"I"),
        ]
        .concat();
        feed(&mut answers, &stream, 5).unwrap();
        assert_eq!(answers.take_failure(), None);
        let mut answers = statement(false);
        feed(&mut answers, &message(b'G', b"\0\0\0"), 5).unwrap();
        assert!(answers.take_copy_declined());
        assert!(!answers.take_copy_declined());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_mean_the_same_at_every_split(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            kinds in prop::collection::vec((prop::sample::select(b"123ACDEGHINSTZcdnst".to_vec()), prop::collection::vec(any::<u8>(), 0..20)), 0..12),
            step in 1_usize..40,
            wants_rows in any::<bool>(),
        ) {
            let framed: Vec<u8> = kinds.iter().flat_map(|(kind, body)| message(*kind, body)).collect();
            for stream in [&bytes, &framed] {
                let run = |step: usize| {
                    let mut answers = statement(wants_rows);
                    let mut sink = Collected::default();
                    let mut pending = Vec::new();
                    let mut end = None;
                    for piece in stream.chunks(step) {
                        pending.extend_from_slice(piece);
                        match answers.take(&pending, &mut Some(&mut sink)) {
                            Ok(count) => drop(pending.drain(..count)),
                            Err(broken) => {
                                end = Some(broken);
                                break;
                            }
                        }
                    }
                    (sink, end, answers.status(), answers.take_failure())
                };
                prop_assert_eq!(run(step), run(stream.len().max(1)));
            }
        }
    }
}
