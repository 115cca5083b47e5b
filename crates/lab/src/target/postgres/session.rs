//! A session for load: never blocks, and costs as little as can be.
//!
//! # Rules
//!
//! 1. A statement is one write and one read, where the kernel takes and gives all at once.
//! 2. Nothing is read before the driver has seen that something is there.
//! 3. In the steady state nothing is allocated.
//! 4. What does not fit into the socket waits in the output; until it is sent, the session asks for
//!    room to write and reads all the same, so that no two full buffers wait for each other.
//!    Otherwise arrivals alone are waited for, and what has arrived is read to its end.
//! 5. In a pipeline nothing is sent until the buffer holds 64 KiB or the pipeline ends, as in libpq.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::runtime::{Interest, Readiness, Runtime};

use super::address::{Address, Endpoint};
use super::answers::{Answers, Broken, Prepared};
use super::connect::{self, Connected};
use super::protocol::{Input, write};
use super::statement::{self, Messages};
use super::transport::Transport;
use crate::target::{
    Canceller, Progress, QueryMode, Request, RowSink, Session, SessionCalls, Target, TargetError,
    TransactionStatus,
};
use crate::workload::script::{StatementId, Value, Workload};

/// From how many bytes on a pipeline is sent before it ends (libpq's `OUTBUFFER_THRESHOLD`).
const PIPELINE_FLUSH_BYTES: usize = 64 * 1024;

/// An output buffer that has grown beyond this is given back once it is empty.
const LARGEST_KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// How often a session reads before others have their turn.
const LARGEST_READ_COUNT: u32 = 16;

/// A PostgreSQL server that a workload runs on.
#[derive(Debug)]
pub struct PostgresTarget {
    address: Address,
    /// The messages of the workload that was opened last, and whose they are.
    messages: Mutex<Option<(Arc<Workload>, Arc<Messages>)>>,
}

/// One session of it.
struct PostgresSession {
    transport: Transport,
    input: Input,
    /// What is to be sent, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    answers: Answers,
    messages: Arc<Messages>,
    workload: Arc<Workload>,
    interest: Interest,
    /// Under which the session is registered.
    token: Option<u64>,
    is_pipeline: bool,
    /// A request is under way whose end is to be reported.
    is_busy: bool,
    /// How often what is waited for was changed.
    changes: u64,
    shown: String,
    /// Where its requests are cancelled, and by which key.
    cancel: Option<Arc<CancelPlace>>,
}

/// Where a session's requests are cancelled.
struct CancelPlace {
    address: Address,
    endpoint: Endpoint,
    /// Process and secret.
    key: (i32, i32),
}

impl PostgresTarget {
    /// The server at `address`. Nothing is sent yet.
    #[must_use]
    pub const fn new(address: Address) -> Self {
        Self { address, messages: Mutex::new(None) }
    }

    fn messages(
        &self,
        workload: &Arc<Workload>,
        mode: QueryMode,
    ) -> Result<Arc<Messages>, TargetError> {
        let mut kept = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, messages)) = &*kept
            && Arc::ptr_eq(owner, workload)
            && messages.mode() == mode
        {
            return Ok(Arc::clone(messages));
        }
        let messages = Arc::new(Messages::new(workload, mode)?);
        *kept = Some((Arc::clone(workload), Arc::clone(&messages)));
        Ok(messages)
    }
}

/// What a session waits for that has nothing to send. TLS takes from the socket what it pleases, so that
/// the end of what has arrived is not seen without a further read.
const fn idle_interest(transport: &Transport) -> Interest {
    if transport.may_hold_data() { Interest::Read } else { Interest::Arrival }
}

impl Target for PostgresTarget {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn connect(
        &self,
        runtime: &dyn Runtime,
        workload: &Arc<Workload>,
        mode: QueryMode,
    ) -> Result<Box<dyn Session>, TargetError> {
        let messages = self.messages(workload, mode)?;
        let Connected { wire, shown, backend_key, endpoint, .. } =
            connect::connect(&self.address, runtime, None)?;
        let (transport, input) = wire.into_parts();
        let mut session = PostgresSession::new(transport, input, shown, messages, workload);
        session.cancel = backend_key
            .map(|key| Arc::new(CancelPlace { address: self.address.clone(), endpoint, key }));
        Ok(Box::new(session))
    }
}

impl PostgresSession {
    fn new(
        mut transport: Transport,
        input: Input,
        shown: String,
        messages: Arc<Messages>,
        workload: &Arc<Workload>,
    ) -> Self {
        let statement_count = match messages.mode() {
            QueryMode::Prepared => workload.statements.len(),
            QueryMode::Simple | QueryMode::Extended => 0,
        };
        transport.forget_calls();
        Self {
            interest: idle_interest(&transport),
            transport,
            input,
            output: Vec::with_capacity(1024),
            sent: 0,
            answers: Answers::new(statement_count),
            messages,
            workload: Arc::clone(workload),
            token: None,
            is_pipeline: false,
            is_busy: false,
            changes: 0,
            shown,
            cancel: None,
        }
    }

    /// Writes the messages of one statement into the output, its Sync excepted.
    #[inline]
    fn write_statement(&mut self, id: StatementId, variables: &[Value]) -> Result<(), TargetError> {
        let Some(statement) = self.workload.statements.get(id.0 as usize) else {
            return Err(statement::unknown(id));
        };
        let start = self.output.len();
        let result = match self.messages.mode() {
            QueryMode::Simple => self.messages.write_query(
                statement,
                &self.workload.symbols,
                variables,
                &mut self.output,
            ),
            QueryMode::Extended => {
                self.messages.write_parse(id, &mut self.output);
                self.messages.write_execution(id, statement, variables, &mut self.output)
            }
            QueryMode::Prepared => {
                let state = self.answers.prepared(id);
                if state != Prepared::Yes {
                    if state == Prepared::Unknown {
                        self.messages.write_close(id, &mut self.output);
                    }
                    self.messages.write_parse(id, &mut self.output);
                    self.answers.expect_parse(id);
                }
                self.messages.write_execution(id, statement, variables, &mut self.output)
            }
        };
        if result.is_err() {
            self.output.truncate(start);
        }
        result
    }

    fn start_pipeline(&mut self) -> Result<Progress, TargetError> {
        if self.messages.mode() == QueryMode::Simple {
            return Err(TargetError::Configuration(
                "pipelines need the extended protocol; use -M extended or -M prepared".to_owned(),
            ));
        }
        if self.is_pipeline {
            return Err(TargetError::Configuration("a pipeline is open already".to_owned()));
        }
        self.answers.begin(false);
        self.is_pipeline = true;
        Ok(Progress::Done)
    }

    /// Sends what waits, as far as there is room.
    #[inline]
    fn flush(&mut self, readiness: &mut dyn Readiness) -> Result<(), TargetError> {
        while self.sent < self.output.len() || !self.transport.is_flushed() {
            let result = match &self.output[self.sent..] {
                [] => self.transport.flush().map(|()| 0),
                rest => self.transport.write(rest),
            };
            match result {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.wait_for(Interest::ReadWrite, readiness);
                }
                Err(error) => return Err(self.write_failed(&error)),
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > LARGEST_KEPT_OUTPUT_BYTES {
            self.output = Vec::with_capacity(1024);
        }
        if self.interest != Interest::ReadWrite {
            return Ok(());
        }
        self.wait_for(idle_interest(&self.transport), readiness)
    }

    #[cold]
    fn wait_for(
        &mut self,
        interest: Interest,
        readiness: &mut dyn Readiness,
    ) -> Result<(), TargetError> {
        if self.interest == interest {
            return Ok(());
        }
        self.interest = interest;
        let Some(token) = self.token else { return Ok(()) };
        self.changes += 1;
        readiness
            .modify(self.transport.descriptor(), token, interest)
            .map_err(|error| self.lost(error.to_string()))
    }

    /// Has what is left unread reported again.
    #[cold]
    fn ask_again(&mut self, readiness: &mut dyn Readiness) -> Result<(), TargetError> {
        self.changes += 1;
        match (self.interest, self.token) {
            (Interest::Arrival, Some(token)) => readiness
                .modify(self.transport.descriptor(), token, self.interest)
                .map_err(|error| self.lost(error.to_string())),
            _ => Ok(()),
        }
    }

    /// A write failed: the server's last words, if any are there, say more than the error.
    #[cold]
    fn write_failed(&mut self, error: &io::Error) -> TargetError {
        loop {
            match self.transport.read(self.input.room()) {
                Ok(count) if count > 0 => {
                    self.input.filled(count);
                    if let Err(broken) = self.take(&mut None) {
                        return broken;
                    }
                }
                _ => return self.lost(error.to_string()),
            }
        }
    }

    #[inline]
    fn take(&mut self, rows: &mut Option<&mut dyn RowSink>) -> Result<(), TargetError> {
        match self.answers.take(self.input.pending(), rows) {
            Ok(count) => {
                self.input.consume(count);
                Ok(())
            }
            Err(Broken::Ended(reason)) => Err(self.lost(reason)),
            Err(Broken::Malformed(what)) => {
                Err(TargetError::Protocol { address: self.shown.clone(), reason: what.0 })
            }
        }
    }

    #[inline]
    fn finished(&mut self) -> Progress {
        self.is_busy = false;
        match self.answers.take_failure() {
            None => Progress::Done,
            Some(failure) => Progress::Failed(failure),
        }
    }

    /// The server waits for COPY data; scripts have none.
    #[cold]
    fn decline_copy(&mut self, readiness: &mut dyn Readiness) -> Result<(), TargetError> {
        self.output.extend_from_slice(b"f\0\0\0\x31a script cannot send data to COPY FROM STDIN\0");
        // By the extended protocol the server has thrown away the Sync that came with the statement.
        if self.messages.mode() != QueryMode::Simple {
            self.output.extend_from_slice(write::SYNC);
        }
        self.flush(readiness)
    }

    #[cold]
    fn lost(&self, reason: String) -> TargetError {
        TargetError::Lost { address: self.shown.clone(), reason }
    }
}

impl Session for PostgresSession {
    fn canceller(&self) -> Option<Canceller> {
        let cancel = Arc::clone(self.cancel.as_ref()?);
        Some(Box::new(move |runtime, timeout| {
            let address = cancel.address.clone().with_connect_timeout(timeout);
            connect::cancel(&address, &cancel.endpoint, cancel.key, runtime)
        }))
    }

    fn register(&mut self, readiness: &mut dyn Readiness, token: u64) -> Result<(), TargetError> {
        readiness
            .register(self.transport.descriptor(), token, self.interest)
            .map_err(|error| self.lost(format!("cannot wait for the connection: {error}")))?;
        self.token = Some(token);
        Ok(())
    }

    fn deregister(&mut self, readiness: &mut dyn Readiness) {
        if self.token.take().is_some() {
            // Fails only where the set has lost it already.
            let _ = readiness.deregister(self.transport.descriptor());
        }
    }

    #[inline]
    fn submit(
        &mut self,
        request: Request<'_>,
        readiness: &mut dyn Readiness,
    ) -> Result<Progress, TargetError> {
        if self.is_busy {
            return Err(TargetError::Configuration(
                "a request was submitted while another one is under way".to_owned(),
            ));
        }
        match request {
            Request::Statement { statement, variables, wants_rows } if !self.is_pipeline => {
                self.answers.begin(wants_rows);
                self.write_statement(statement, variables)?;
                if self.messages.mode() != QueryMode::Simple {
                    self.output.extend_from_slice(write::SYNC);
                }
                self.answers.expect_sync();
            }
            Request::Statement { statement, variables, .. } => {
                self.write_statement(statement, variables)?;
                if self.output.len() - self.sent >= PIPELINE_FLUSH_BYTES {
                    self.flush(readiness)?;
                }
                return Ok(Progress::Done);
            }
            Request::StartPipeline => return self.start_pipeline(),
            Request::SyncPipeline | Request::EndPipeline if !self.is_pipeline => {
                return Err(TargetError::Configuration("no pipeline is open".to_owned()));
            }
            Request::SyncPipeline => {
                self.output.extend_from_slice(write::SYNC);
                self.answers.expect_sync();
                return Ok(Progress::Done);
            }
            Request::EndPipeline => {
                self.output.extend_from_slice(write::SYNC);
                self.answers.expect_sync();
                self.is_pipeline = false;
            }
            Request::Rollback => {
                if self.is_pipeline {
                    // What was queued is brought to an end first.
                    self.output.extend_from_slice(write::SYNC);
                    self.answers.expect_sync();
                    self.is_pipeline = false;
                }
                self.answers.begin(false);
                write::query(&mut self.output, "ROLLBACK");
                self.answers.expect_sync();
            }
        }
        self.is_busy = true;
        self.flush(readiness)?;
        Ok(Progress::Pending)
    }

    #[inline]
    fn advance(
        &mut self,
        readiness: &mut dyn Readiness,
        mut rows: Option<&mut dyn RowSink>,
    ) -> Result<Progress, TargetError> {
        if self.interest == Interest::ReadWrite {
            self.flush(readiness)?;
        }
        for turn in 1.. {
            let room = self.input.room();
            let room_bytes = room.len();
            let count = match self.transport.read(room) {
                Ok(0) => return Err(self.lost("the server closed the connection".to_owned())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.lost(error.to_string())),
            };
            self.input.filled(count);
            self.take(&mut rows)?;
            if self.answers.take_copy_declined() {
                self.decline_copy(readiness)?;
            }
            let is_plain = !self.transport.may_hold_data();
            // A read that did not fill the room leaves nothing behind.
            if is_plain && count < room_bytes {
                break;
            }
            let has_ended = self.is_busy && !self.answers.is_waiting();
            // A long result lets the other sessions have their turn.
            if has_ended || (is_plain && turn >= LARGEST_READ_COUNT) {
                self.ask_again(readiness)?;
                break;
            }
        }
        match self.is_busy {
            true if self.answers.is_waiting() => Ok(Progress::Pending),
            true => Ok(self.finished()),
            false => Ok(Progress::Done),
        }
    }

    fn calls(&self) -> SessionCalls {
        SessionCalls { changes: self.changes, ..self.transport.calls() }
    }

    fn transaction_status(&self) -> TransactionStatus {
        self.answers.status()
    }

    fn close(mut self: Box<Self>) {
        // Only between messages is a goodbye understood; one that finds no room is not waited for.
        if self.output.len() == self.sent && self.transport.is_flushed() {
            let _ = self.transport.write(write::TERMINATE);
        }
        self.transport.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use evenkeel::runtime::{Clock as _, OsRuntime, Waits as _};

    use super::*;
    use crate::workload::script::{Piece, Slot, Statement};

    struct Fake {
        session: PostgresSession,
        readiness: Box<dyn Readiness>,
        server: UnixStream,
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn done() -> Vec<u8> {
        [message(b'C', b"SELECT 0\0"), message(b'Z', b"I")].concat()
    }

    /// A session of one statement, `text` followed by a variable.
    fn fake(mode: QueryMode, text: &str) -> Fake {
        let workload = Arc::new(Workload {
            statements: vec![Statement {
                pieces: vec![Piece::Text(text.to_owned()), Piece::Variable(Slot(0))],
                text: format!("{text}$1"),
                parameters: vec![Slot(0)],
                line: 1,
            }],
            ..Workload::default()
        });
        let (ours, server) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let messages = Arc::new(Messages::new(&workload, mode).unwrap());
        let transport = Transport::plain(ours.into());
        let mut session =
            PostgresSession::new(transport, Input::new(), "fake".to_owned(), messages, &workload);
        let mut readiness = OsRuntime::new().readiness().unwrap();
        session.register(readiness.as_mut(), 1).unwrap();
        Fake { session, readiness, server }
    }

    impl Fake {
        fn submit(&mut self, value: i64) -> Result<Progress, TargetError> {
            let request = Request::Statement {
                statement: StatementId(0),
                variables: &[Value::Int(value)],
                wants_rows: false,
            };
            self.session.submit(request, self.readiness.as_mut())
        }

        fn advance(&mut self) -> Result<Progress, TargetError> {
            self.session.advance(self.readiness.as_mut(), None)
        }

        /// What one read finds on the server's side.
        fn received(&mut self) -> Vec<u8> {
            self.server.set_nonblocking(true).unwrap();
            let mut bytes = vec![0; 1 << 20];
            let count = self.server.read(&mut bytes).unwrap();
            bytes.truncate(count);
            bytes
        }

        fn is_writable_awaited(&mut self) -> bool {
            let mut ready = Vec::new();
            let now = OsRuntime::new().now();
            self.readiness.wait(Some(now), &mut ready).unwrap();
            ready.iter().any(|ready| ready.writable)
        }
    }

    #[test]
    fn a_statement_goes_out_in_one_piece_and_is_parsed_but_once() {
        let mut fake = fake(QueryMode::Prepared, "select ");
        assert_eq!(fake.submit(7).unwrap(), Progress::Pending);
        let kinds = |bytes: &[u8]| -> String {
            let (mut rest, mut kinds) = (bytes, String::new());
            while let Ok(Some(header)) = super::super::protocol::header(rest) {
                kinds.push(char::from(header.tag));
                rest = &rest[header.total..];
            }
            assert!(rest.is_empty());
            kinds
        };
        let first = fake.received();
        assert_eq!(kinds(&first), "PBDES");
        fake.server.write_all(&[message(b'1', b""), message(b'2', b""), done()].concat()).unwrap();
        assert_eq!(fake.advance().unwrap(), Progress::Done);
        let capacity = fake.session.output.capacity();
        for value in 0..10 {
            fake.submit(value).unwrap();
            let later = fake.received();
            assert_eq!(kinds(&later), "BDES");
            fake.server.write_all(&[message(b'2', b""), done()].concat()).unwrap();
            assert_eq!(fake.advance().unwrap(), Progress::Done);
        }
        assert_eq!(fake.session.output.capacity(), capacity);
    }

    #[test]
    fn an_answer_in_pieces_is_waited_for_to_its_last_byte() {
        let mut fake = fake(QueryMode::Simple, "select ");
        let answer = [message(b'T', b"\0\0"), message(b'D', b"\0\0"), done()].concat();
        for value in 0..3 {
            fake.submit(value).unwrap();
            for (i, byte) in answer.iter().enumerate() {
                fake.server.write_all(&[*byte]).unwrap();
                let is_last = i + 1 == answer.len();
                let expected = if is_last { Progress::Done } else { Progress::Pending };
                assert_eq!(fake.advance().unwrap(), expected, "byte {i}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_sent_as_room_appears_while_answers_are_read() {
        let text = format!("select '{}'", "x".repeat(2_000_000));
        let mut fake = fake(QueryMode::Simple, &text);
        assert_eq!(fake.submit(5).unwrap(), Progress::Pending);
        let expected = message(b'Q', format!("{text}5\0").as_bytes());
        let mut received = Vec::new();
        let mut notices = 0;
        while received.len() < expected.len() {
            received.extend(fake.received());
            // The server talks before it has heard everything.
            fake.server.write_all(&message(b'N', b"SNOTICE\0Mworking\0\0")).unwrap();
            notices += 1;
            assert!(received.len() == expected.len() || fake.is_writable_awaited());
            assert_eq!(fake.advance().unwrap(), Progress::Pending);
        }
        assert!(notices > 1);
        assert!(received == expected);
        assert!(!fake.is_writable_awaited());
        fake.server.write_all(&done()).unwrap();
        assert_eq!(fake.advance().unwrap(), Progress::Done);
        assert!(fake.session.output.capacity() <= LARGEST_KEPT_OUTPUT_BYTES);
    }

    #[test]
    fn a_result_longer_than_a_turn_is_reported_again_until_it_is_read() {
        let mut fake = fake(QueryMode::Simple, "select ");
        fake.submit(1).unwrap();
        // More than one turn reads, less than the socket holds; its end comes before anybody reads.
        let row = message(b'D', &[0; 1000]);
        let answer = [row.repeat(100), done(), message(b'N', b"SNOTICE\0Mlate\0\0")].concat();
        fake.session.input = Input::of_capacity(2048);
        fake.server.write_all(&answer).unwrap();
        let mut ready = Vec::new();
        let mut turns = 0;
        loop {
            fake.readiness.wait(Some(OsRuntime::new().now()), &mut ready).unwrap();
            assert_eq!(ready.len(), 1, "turn {turns}: unread and not reported");
            turns += 1;
            if fake.advance().unwrap() == Progress::Done {
                break;
            }
        }
        assert!(turns > 1);
    }

    #[test]
    fn the_servers_last_words_explain_a_lost_connection() {
        let last_words = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mgoing down\0\0");
        // While a statement runs.
        let mut running = fake(QueryMode::Prepared, "select ");
        running.submit(1).unwrap();
        running.server.write_all(&last_words).unwrap();
        let error = running.advance().unwrap_err().to_string();
        assert!(error.contains("going down") && error.contains("57P01"), "{error}");
        // Noticed only when the next statement cannot be written.
        let mut idle = fake(QueryMode::Prepared, "select ");
        idle.server.write_all(&last_words).unwrap();
        idle.server.shutdown(std::net::Shutdown::Both).unwrap();
        let error = idle.submit(1).unwrap_err().to_string();
        assert!(error.contains("going down"), "{error}");
        // Without words.
        let mut mute = fake(QueryMode::Prepared, "select ");
        mute.submit(1).unwrap();
        drop(mute.received());
        mute.server.shutdown(std::net::Shutdown::Both).unwrap();
        let error = mute.advance().unwrap_err();
        assert!(matches!(error, TargetError::Lost { .. }), "{error}");
    }

    #[test]
    fn a_server_that_breaks_the_protocol_is_named() {
        let mut fake = fake(QueryMode::Prepared, "select ");
        fake.submit(1).unwrap();
        fake.server.write_all(&message(b'R', &[0; 4])).unwrap();
        let error = fake.advance().unwrap_err().to_string();
        assert_eq!(
            error,
            "protocol violation by fake: unexpected message of type 'R' among the answers"
        );
    }

    #[test]
    fn a_second_request_before_the_first_has_ended_is_refused() {
        let mut fake = fake(QueryMode::Simple, "select ");
        fake.submit(1).unwrap();
        assert!(fake.submit(2).is_err());
    }

    #[test]
    fn remarks_of_an_idle_server_change_nothing() {
        let mut fake = fake(QueryMode::Simple, "select ");
        fake.server.write_all(&message(b'S', b"TimeZone\0UTC\0")).unwrap();
        assert_eq!(fake.advance().unwrap(), Progress::Done);
        fake.submit(1).unwrap();
        fake.server.write_all(&done()).unwrap();
        assert_eq!(fake.advance().unwrap(), Progress::Done);
    }

    #[test]
    fn a_closed_session_says_goodbye() {
        let mut fake = fake(QueryMode::Simple, "select ");
        Box::new(fake.session).close();
        let mut bytes = Vec::new();
        fake.server.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"X\0\0\0\x04");
    }
}
