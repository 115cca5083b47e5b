//! Administration: one statement at a time, each with a deadline. The load path is `session.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel::runtime::{Interest, Runtime};

use super::address::{Address, Endpoint};
use super::connect::{self, Connected};
use super::protocol::{
    Body, HEADER_BYTES, Malformed, column_names, error_fields, tag, transaction_status, write,
};
use super::wire::{Deadline, Wire, WireError};
use crate::target::{StatementError, TargetError, TransactionStatus};

/// How long a statement may take where nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Notices kept between two calls of [`Client::take_notices`].
const LARGEST_NOTICE_COUNT: usize = 1000;

/// Bytes of COPY data that are sent in one message.
const COPY_MESSAGE_BYTES: usize = 64 * 1024;

/// A session for administration. Every call waits until the server has answered, or until the
/// timeout; a session that has timed out is broken and answers nothing more. A client stays with
/// the task that made it; a [`CancelHandle`] travels.
pub struct Client {
    wire: Wire,
    runtime: Arc<dyn Runtime>,
    address: Address,
    endpoint: Endpoint,
    shown: String,
    parameters: BTreeMap<String, String>,
    backend_key: Option<(i32, i32)>,
    notices: Vec<StatementError>,
    timeout: Option<Duration>,
    /// Set from another task: nobody waits for answers any more.
    leave: Option<Arc<AtomicBool>>,
    status: TransactionStatus,
    /// Why nothing more can be asked.
    broken: Option<String>,
    output: Vec<u8>,
}

/// A statement did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused the statement; the session goes on.
    #[error(transparent)]
    Statement(Box<StatementError>),
    /// The session is broken.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The answer is not what the caller needs, such as no row where one must be.
    #[error("{0}")]
    Unexpected(String),
}

impl ClientError {
    /// The server's code of the error, where the server refused the statement.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Statement(error) => Some(&error.sqlstate),
            Self::Target(TargetError::Refused { error, .. }) => Some(&error.sqlstate),
            Self::Target(_) | Self::Unexpected(_) => None,
        }
    }
}

/// The rows of a result, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    columns: Vec<String>,
    /// Row after row, as many values each as there are columns.
    values: Vec<Option<String>>,
    row_count: usize,
    command: String,
}

/// One row of a result.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [String],
    values: &'a [Option<String>],
}

/// Cancels what a client does, from another task.
pub struct CancelHandle {
    address: Address,
    endpoint: Endpoint,
    key: (i32, i32),
    runtime: Arc<dyn Runtime>,
}

/// How long a call waits, apart from the client that is changed meanwhile.
struct Patience {
    runtime: Arc<dyn Runtime>,
    timeout: Option<Duration>,
    leave: Option<Arc<AtomicBool>>,
}

/// How a statement was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Simple,
    Extended,
}

/// Data on their way into a table; see [`Client::copy_in`].
#[derive(Debug)]
pub struct CopyIn<'a> {
    client: &'a mut Client,
    /// A message whose length is put in when it is sent.
    buffer: Vec<u8>,
    is_finished: bool,
}

impl Client {
    /// Opens a session.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn connect(address: &Address, runtime: &Arc<dyn Runtime>) -> Result<Self, TargetError> {
        Self::open(address, runtime, None)
    }

    /// Opens a session all of whose waits, opening included, end within a tenth of a second once
    /// `leave` is set, whatever the server does: what it was asked then is lost, and so is the
    /// session.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_heeding(
        address: &Address,
        runtime: &Arc<dyn Runtime>,
        leave: &Arc<AtomicBool>,
    ) -> Result<Self, TargetError> {
        Self::open(address, runtime, Some(Arc::clone(leave)))
    }

    fn open(
        address: &Address,
        runtime: &Arc<dyn Runtime>,
        leave: Option<Arc<AtomicBool>>,
    ) -> Result<Self, TargetError> {
        let Connected { wire, shown, parameters, backend_key, notices, endpoint } =
            connect::connect(address, runtime.as_ref(), leave.as_deref())?;
        Ok(Self {
            wire,
            runtime: Arc::clone(runtime),
            address: address.clone(),
            endpoint,
            shown,
            parameters,
            backend_key,
            notices,
            timeout: Some(DEFAULT_TIMEOUT),
            leave,
            status: TransactionStatus::Idle,
            broken: None,
            output: Vec::new(),
        })
    }

    /// What ends the waits of later calls, as in [`Self::connect_heeding`]; nothing where `None`.
    pub fn heed(&mut self, leave: Option<Arc<AtomicBool>>) {
        self.leave = leave;
    }

    /// How long each later call may take; `None` waits for ever. At first 60 s.
    pub const fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Runs SQL, which may be several statements, and returns the rows of the last result.
    ///
    /// # Errors
    /// [`ClientError::Statement`] where the server refused; the session can be used on.
    pub fn query(&mut self, sql: &str) -> Result<Rows, ClientError> {
        let patience = self.patience();
        let deadline = patience.deadline();
        self.check(sql)?;
        self.output.clear();
        write::query(&mut self.output, sql);
        self.send(deadline)?;
        self.result(Protocol::Simple, deadline)
    }

    /// Runs one statement with parameters `$1`, `$2` ..., given as text; `None` is NULL.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn query_with(
        &mut self,
        sql: &str,
        parameters: &[Option<&str>],
    ) -> Result<Rows, ClientError> {
        let patience = self.patience();
        let deadline = patience.deadline();
        let count = u16::try_from(parameters.len()).map_err(|_| {
            ClientError::Unexpected("a statement has at most 65535 parameters".to_owned())
        })?;
        self.check(sql)?;
        self.output.clear();
        write::parse(&mut self.output, "", sql);
        write::message(&mut self.output, b'B', |output| {
            // Portal, statement, no formats: all text.
            output.extend_from_slice(&[0, 0, 0, 0]);
            output.extend_from_slice(&count.to_be_bytes());
            for parameter in parameters {
                write::value(output, parameter.map(str::as_bytes));
            }
            output.extend_from_slice(&[0, 0]);
        });
        for message in [write::DESCRIBE_PORTAL, write::EXECUTE, write::SYNC] {
            self.output.extend_from_slice(message);
        }
        self.send(deadline)?;
        self.result(Protocol::Extended, deadline)
    }

    /// Runs SQL for its effect and returns the last command's tag, such as `INSERT 0 1`.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn execute(&mut self, sql: &str) -> Result<String, ClientError> {
        self.query(sql).map(|rows| rows.command)
    }

    /// As [`Self::execute`], for what may take long: `tell` hears every `every` for how long there
    /// has been no answer.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn execute_telling(
        &mut self,
        sql: &str,
        every: Duration,
        tell: &mut dyn FnMut(Duration),
    ) -> Result<String, ClientError> {
        let patience = self.patience();
        let deadline = patience.deadline();
        let began = self.runtime.now();
        self.check(sql)?;
        self.output.clear();
        write::query(&mut self.output, sql);
        self.send(deadline)?;
        let spell = Patience { timeout: Some(every), ..self.patience() };
        let mut until = spell.deadline();
        loop {
            match self.wire.wait(Interest::Read, until) {
                Ok(true) => break,
                Ok(false) => {}
                Err(WireError::TimedOut) if !deadline.has_passed() => {
                    tell(self.runtime.now().since(began));
                    until = spell.deadline();
                }
                Err(error) => return Err(self.lost(&error)),
            }
        }
        self.result(Protocol::Simple, deadline).map(|rows| rows.command)
    }

    /// The one value that `sql` returns, as text; `None` is NULL.
    ///
    /// # Errors
    /// As [`Self::query`], and where there is not exactly one row of one column.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, ClientError> {
        let rows = self.query(sql)?;
        match &rows.values[..] {
            [value] => Ok(value.clone()),
            _ => Err(ClientError::Unexpected(format!(
                "{}: {} rows of {} columns came where one value was expected",
                self.shown,
                rows.len(),
                rows.columns.len()
            ))),
        }
    }

    /// Starts `COPY ... FROM STDIN`. Write the data, then call [`CopyIn::finish`]; to drop the
    /// [`CopyIn`] without it undoes the copy and breaks the session off.
    ///
    /// # Errors
    /// As [`Self::query`], and where `sql` is not such a command.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, ClientError> {
        let patience = self.patience();
        let deadline = patience.deadline();
        self.check(sql)?;
        self.output.clear();
        write::query(&mut self.output, sql);
        self.send(deadline)?;
        let header = self.next(deadline)?;
        match header.tag {
            tag::COPY_IN => {
                self.wire.input.consume(header.total);
                Ok(CopyIn {
                    client: self,
                    buffer: Vec::with_capacity(COPY_MESSAGE_BYTES + HEADER_BYTES),
                    is_finished: false,
                })
            }
            // Anything else is an answer to some other statement, or a refusal.
            _ => {
                self.result(Protocol::Simple, deadline)?;
                Err(ClientError::Unexpected(format!(
                    "{}: the statement is not a COPY ... FROM STDIN",
                    self.shown
                )))
            }
        }
    }

    /// A parameter that the server reports by itself, such as `server_version` or `TimeZone`.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The server's version as a number, such as 150018 for 15.18; 0 where it says none.
    #[must_use]
    pub fn server_version(&self) -> u32 {
        self.parameter("server_version").map_or(0, version_number)
    }

    /// The server's process of this session.
    #[must_use]
    pub fn process_id(&self) -> Option<i32> {
        self.backend_key.map(|(process, _)| process)
    }

    /// Whether a transaction block is open.
    #[must_use]
    pub const fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    /// The host that answered, as shown to people.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shown
    }

    /// What the server remarked since the last call (at most the first 1000 remarks).
    pub fn take_notices(&mut self) -> Vec<StatementError> {
        std::mem::take(&mut self.notices)
    }

    /// Lets another task cancel what this client does; `None` where the server gave no key.
    #[must_use]
    pub fn cancel_handle(&self) -> Option<CancelHandle> {
        Some(CancelHandle {
            address: self.address.clone(),
            endpoint: self.endpoint.clone(),
            key: self.backend_key?,
            runtime: Arc::clone(&self.runtime),
        })
    }

    fn patience(&self) -> Patience {
        Patience {
            runtime: Arc::clone(&self.runtime),
            timeout: self.timeout,
            leave: self.leave.clone(),
        }
    }

    fn check(&self, sql: &str) -> Result<(), ClientError> {
        if let Some(reason) = &self.broken {
            let (address, reason) = (self.shown.clone(), reason.clone());
            return Err(TargetError::Lost { address, reason }.into());
        }
        if let Some(offset) = sql.find('\0') {
            return Err(ClientError::Unexpected(format!(
                "the statement holds a NUL character at byte {offset}, which no server can accept"
            )));
        }
        Ok(())
    }

    fn send(&mut self, deadline: Deadline<'_>) -> Result<(), ClientError> {
        let output = std::mem::take(&mut self.output);
        let result = self.wire.send(&output, deadline);
        self.output = output;
        result.map_err(|error| self.lost(&error))
    }

    /// The next message that is not a remark in passing; the input holds it.
    fn next(&mut self, deadline: Deadline<'_>) -> Result<super::protocol::Header, ClientError> {
        loop {
            let header = self.wire.message(deadline).map_err(|error| self.lost(&error))?;
            let mut body = Body(&self.wire.input.pending()[HEADER_BYTES..header.total]);
            let mut read = || -> Result<bool, Malformed> {
                match header.tag {
                    tag::PARAMETER_STATUS => {
                        let name = String::from_utf8_lossy(body.c_string()?).into_owned();
                        let value = String::from_utf8_lossy(body.c_string()?).into_owned();
                        self.parameters.insert(name, value);
                    }
                    tag::NOTICE => {
                        let notice = error_fields(body.0)?;
                        if self.notices.len() < LARGEST_NOTICE_COUNT {
                            self.notices.push(notice);
                        }
                    }
                    tag::NOTIFICATION => {}
                    _ => return Ok(false),
                }
                Ok(true)
            };
            let is_remark = read().map_err(|what| self.violation(what))?;
            if !is_remark {
                return Ok(header);
            }
            self.wire.input.consume(header.total);
        }
    }

    /// Takes everything until the server is ready again.
    fn result(&mut self, protocol: Protocol, deadline: Deadline<'_>) -> Result<Rows, ClientError> {
        let mut rows = Rows::default();
        let mut error: Option<ClientError> = None;
        loop {
            let header = self.next(deadline)?;
            let body = &self.wire.input.pending()[HEADER_BYTES..header.total];
            let mut is_ready = false;
            let mut is_data_wanted = false;
            let mut read = || -> Result<(), Malformed> {
                match header.tag {
                    tag::ROW_DESCRIPTION => {
                        rows = Rows { columns: column_names(body)?, ..Rows::default() };
                    }
                    tag::NO_DATA | tag::EMPTY_QUERY => rows = Rows::default(),
                    tag::DATA_ROW => rows.push(body)?,
                    tag::COMMAND_COMPLETE => {
                        let command = String::from_utf8_lossy(Body(body).c_string()?).into_owned();
                        // A command without rows after one with rows is a result of its own.
                        if !rows.command.is_empty() {
                            rows = Rows::default();
                        }
                        rows.command = command;
                    }
                    tag::ERROR => {
                        let found = error_fields(body)?;
                        error.get_or_insert(if found.severity == "ERROR" {
                            ClientError::Statement(Box::new(found))
                        } else {
                            let reason = found.to_string();
                            ClientError::Target(TargetError::Lost {
                                address: self.shown.clone(),
                                reason,
                            })
                        });
                    }
                    tag::READY => {
                        self.status = transaction_status(body)?;
                        is_ready = true;
                    }
                    tag::COPY_IN => is_data_wanted = true,
                    tag::COPY_OUT => {
                        error.get_or_insert(ClientError::Unexpected(
                            "COPY ... TO STDOUT is not possible here; select the rows".to_owned(),
                        ));
                    }
                    tag::PARSE_COMPLETE
                    | tag::BIND_COMPLETE
                    | tag::CLOSE_COMPLETE
                    | tag::PARAMETER_DESCRIPTION
                    | tag::PORTAL_SUSPENDED
                    | tag::COPY_DATA
                    | tag::COPY_DONE => {}
                    other => return Err(Malformed::unexpected(other, "in a result")),
                }
                Ok(())
            };
            let result = read();
            self.wire.input.consume(header.total);
            result.map_err(|what| self.violation(what))?;
            if let Some(lost @ ClientError::Target(_)) = error {
                self.broken = Some(lost.to_string());
                return Err(lost);
            }
            if is_data_wanted {
                self.output.clear();
                self.output.extend_from_slice(COPY_REFUSED);
                if protocol == Protocol::Extended {
                    // The server has thrown away the Sync that came with the statement.
                    self.output.extend_from_slice(write::SYNC);
                }
                self.send(deadline)?;
            }
            if is_ready {
                return error.map_or(Ok(rows), Err);
            }
        }
    }

    fn lost(&mut self, error: &WireError) -> ClientError {
        let reason = error.to_string();
        self.broken = Some(reason.clone());
        let address = self.shown.clone();
        ClientError::Target(match error {
            WireError::Malformed(_) => TargetError::Protocol { address, reason },
            _ => TargetError::Lost { address, reason },
        })
    }

    fn violation(&mut self, what: Malformed) -> ClientError {
        self.lost(&WireError::Malformed(what))
    }
}

/// CopyFail, with a reason that comes back in the server's error.
const COPY_REFUSED: &[u8] = b"f\0\0\0\x1dno data for COPY at hand\0";

impl Patience {
    fn deadline(&self) -> Deadline<'_> {
        Deadline::after(self.runtime.as_ref(), self.timeout).heeding(self.leave.as_deref())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.broken.is_none() {
            // A goodbye that finds no room is not worth waiting for.
            let _ = self.wire.transport.write(write::TERMINATE);
        }
        self.wire.transport.shut_down();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.shown).finish_non_exhaustive()
    }
}

impl CancelHandle {
    /// The server's process of the client's session.
    #[must_use]
    pub const fn process_id(&self) -> i32 {
        self.key.0
    }

    /// Asks the server to cancel what the client is doing, if it is doing anything. The client
    /// then sees an error with SQLSTATE 57014.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn cancel(&self) -> Result<(), TargetError> {
        connect::cancel(&self.address, &self.endpoint, self.key, self.runtime.as_ref())
    }

    /// As [`Self::cancel`], waiting `timeout` at most and not as long as connecting may take.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not answer in time.
    pub fn cancel_within(&self, timeout: Duration) -> Result<(), TargetError> {
        let address = self.address.clone().with_connect_timeout(timeout);
        connect::cancel(&address, &self.endpoint, self.key, self.runtime.as_ref())
    }
}

impl std::fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelHandle").field("process", &self.key.0).finish_non_exhaustive()
    }
}

impl CopyIn<'_> {
    /// Sends `data`, which may end in the middle of a line. The timeout holds for each call.
    ///
    /// # Errors
    /// When the session is lost. What the server has against the data comes with
    /// [`Self::finish`].
    pub fn write(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let mut rest = data;
        while !rest.is_empty() {
            if self.buffer.is_empty() {
                self.buffer.extend_from_slice(&[tag::COPY_DATA, 0, 0, 0, 0]);
            }
            let room = COPY_MESSAGE_BYTES + HEADER_BYTES - self.buffer.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.buffer.extend_from_slice(now);
            rest = later;
            if self.buffer.len() == COPY_MESSAGE_BYTES + HEADER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Ends the data and waits for the server's verdict; returns the number of rows.
    ///
    /// # Errors
    /// When the server refuses the data, and when the session is lost.
    pub fn finish(mut self) -> Result<u64, ClientError> {
        self.flush()?;
        self.is_finished = true;
        let patience = self.client.patience();
        let deadline = patience.deadline();
        self.client.output.clear();
        self.client.output.extend_from_slice(write::COPY_DONE);
        self.client.send(deadline)?;
        let rows = self.client.result(Protocol::Simple, deadline)?;
        Ok(rows.affected())
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        write::set_length(&mut self.buffer, 1);
        let patience = self.client.patience();
        let deadline = patience.deadline();
        let result = self.client.wire.send(&self.buffer, deadline);
        self.buffer.clear();
        result.map_err(|error| self.client.lost(&error))
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if !self.is_finished && self.client.broken.is_none() {
            // Without CopyDone the server throws the data away once the connection ends.
            self.client.broken = Some("a COPY was abandoned".to_owned());
        }
    }
}

impl Rows {
    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.row_count
    }

    /// Whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Row `index`, from 0.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<Row<'_>> {
        let width = self.columns.len();
        if index >= self.row_count {
            return None;
        }
        let values = self.values.get(index * width..(index + 1) * width)?;
        Some(Row { columns: &self.columns, values })
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.row_count).filter_map(|index| self.row(index))
    }

    /// The command's tag, such as `SELECT 3`.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The number at the end of the command's tag: rows selected, inserted, changed; else 0.
    #[must_use]
    pub fn affected(&self) -> u64 {
        self.command.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    fn push(&mut self, body: &[u8]) -> Result<(), Malformed> {
        let mut body = Body(body);
        let count = usize::from(body.int16()?);
        if count != self.columns.len() {
            return Err(Malformed(format!(
                "a row has {count} values and its result {} columns",
                self.columns.len()
            )));
        }
        for _ in 0..count {
            let value = body.value()?;
            self.values.push(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        }
        self.row_count += 1;
        Ok(())
    }
}

impl<'a> Row<'a> {
    /// The value in column `index`, from 0; `None` where it is NULL or there is no such column.
    #[must_use]
    pub fn value(&self, index: usize) -> Option<&'a str> {
        self.values.get(index)?.as_deref()
    }

    /// The value in the column of that name; `None` where it is NULL or there is no such column.
    #[must_use]
    pub fn named(&self, column: &str) -> Option<&'a str> {
        self.value(self.columns.iter().position(|name| name == column)?)
    }

    /// Whether there is a column of that name.
    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    /// All values, in order.
    #[must_use]
    pub const fn values(&self) -> &'a [Option<String>] {
        self.values
    }
}

/// `text` as a literal in SQL.
#[must_use]
pub fn quote_literal(text: &str) -> String {
    // The form that does not depend on standard_conforming_strings, as libpq's PQescapeLiteral.
    let prefix = if text.contains('\\') { " E" } else { "" };
    format!("{prefix}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// `name` as an identifier in SQL.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// 150018 of "15.18 (Debian ...)", 190000 of "19devel", 180000 of "18beta1".
fn version_number(text: &str) -> u32 {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    let major: u32 = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    let is_release = text.chars().find(|c| !c.is_ascii_digit()) == Some('.');
    let minor = if is_release { parts.next().and_then(|part| part.parse().ok()) } else { None };
    let minor: u32 = minor.unwrap_or(0);
    major.saturating_mul(10_000).saturating_add(minor)
}
