//! Opening a session: socket, encryption, authentication, until the server is ready.
//!
//! # Rules
//!
//! 1. Each host of an address has its own deadline; the look-up of a name counts.
//! 2. A password travels in clear only under TLS or on this machine.
//! 3. What the other side says before it has proven who it is, is cut, made safe and marked
//!    (CVE-2024-10977), and no message of that time may be long.
//! 4. Bytes that arrive before encryption begins are an error (CVE-2021-23222).

mod reach;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use bytes::BytesMut;
use evenkeel::runtime::Runtime;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::frontend;

use super::address::{Address, ChannelBindingPolicy, Endpoint, SessionAttributes, TlsMode};
use super::protocol::{Body, HEADER_BYTES, Malformed, error_fields, tag, transaction_status};
use super::wire::{Deadline, Wire, WireError};
use super::{password, tls};
use crate::secret::Secret;
use crate::target::{StatementError, TargetError};
use crate::text;

/// The largest message taken from a peer that has not proven who it is (as libpq's limit for
/// errors of that time, `MAX_ERRLEN`).
const LARGEST_EARLY_MESSAGE_BYTES: usize = 30_000;

/// Number of the request for TLS, in place of a protocol's version.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A session that is ready for its first statement.
pub(super) struct Connected {
    pub(super) wire: Wire,
    /// The endpoint that answered, as shown to people.
    pub(super) shown: String,
    pub(super) parameters: BTreeMap<String, String>,
    /// Process and secret, for cancelling.
    pub(super) backend_key: Option<(i32, i32)>,
    pub(super) notices: Vec<StatementError>,
    pub(super) endpoint: Endpoint,
}

/// Opens a session with the first host of `address` that grants one; gives up as soon as `leave` is
/// set.
pub(super) fn connect(
    address: &Address,
    runtime: &dyn Runtime,
    leave: Option<&AtomicBool>,
) -> Result<Connected, TargetError> {
    let mut failures = Vec::new();
    // `prefer-standby`: a first round looks for a standby, a second one takes anything.
    let rounds: &[SessionAttributes] = match address.session_attributes {
        SessionAttributes::PreferStandby => &[SessionAttributes::Standby, SessionAttributes::Any],
        _ => std::slice::from_ref(&address.session_attributes),
    };
    for wanted in rounds {
        for endpoint in &address.endpoints {
            match connect_endpoint(address, endpoint, *wanted, runtime, leave) {
                Ok(connected) => return Ok(connected),
                // As libpq: a password that is wrong is not tried elsewhere.
                Err(error @ (TargetError::Refused { .. } | TargetError::Configuration(_)))
                    if !is_worth_another_host(&error) =>
                {
                    return Err(error);
                }
                Err(error) => failures.push(error),
            }
        }
    }
    match failures.len() {
        1 => Err(failures.remove(0)),
        _ => Err(TargetError::Connect {
            address: address.to_string(),
            reason: failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        }),
    }
}

/// Asks the server to cancel what the session with `key` does. No answer comes.
pub(super) fn cancel(
    address: &Address,
    endpoint: &Endpoint,
    key: (i32, i32),
    runtime: &dyn Runtime,
) -> Result<(), TargetError> {
    let opening = Opening::new(address, endpoint);
    let Encrypted { mut wire, deadline, .. } =
        opening.encrypted(address.tls_mode(&endpoint.host), runtime)?;
    let mut message = BytesMut::new();
    frontend::cancel_request(key.0, key.1, &mut message);
    wire.send(&message, deadline).map_err(|error| opening.lost(&error))?;
    // The server closes once the signal is sent; waiting for that keeps the order of things.
    match wire.receive(deadline) {
        Ok(()) | Err(WireError::Closed | WireError::System(_)) => Ok(()),
        Err(error) => Err(opening.lost(&error)),
    }
}

fn connect_endpoint(
    address: &Address,
    endpoint: &Endpoint,
    wanted: SessionAttributes,
    runtime: &dyn Runtime,
    leave: Option<&AtomicBool>,
) -> Result<Connected, TargetError> {
    let opening = Opening { leave, ..Opening::new(address, endpoint) };
    let mode = address.tls_mode(&endpoint.host);
    let attempt = |mode: TlsMode| opening.start(mode, wanted, runtime);
    let result = attempt(mode);
    // `allow` and `prefer` are two attempts: the server may accept the one and refuse the other.
    match (mode, &result) {
        (TlsMode::Allow, Err(TargetError::Refused { .. })) => attempt(TlsMode::Require).or(result),
        (TlsMode::Prefer, Err(TargetError::Refused { .. })) => attempt(TlsMode::Disable).or(result),
        _ => result,
    }
}

fn is_worth_another_host(error: &TargetError) -> bool {
    // Starting up, shutting down, full: another host may do better. Wrong password: it will not.
    matches!(error, TargetError::Refused { error, .. }
        if error.sqlstate.starts_with("57P") || error.sqlstate == "53300")
}

/// One attempt at one endpoint.
struct Opening<'a> {
    address: &'a Address,
    endpoint: &'a Endpoint,
    shown: String,
    /// The handshake failed, which `prefer` answers by going without.
    has_tls_failed: Cell<bool>,
    /// Set from another task: nobody wants the session any more.
    leave: Option<&'a AtomicBool>,
}

impl<'a> Opening<'a> {
    fn new(address: &'a Address, endpoint: &'a Endpoint) -> Self {
        let shown = address.shown(endpoint);
        Self { address, endpoint, shown, has_tls_failed: Cell::new(false), leave: None }
    }

    fn start(
        &self,
        mode: TlsMode,
        wanted: SessionAttributes,
        runtime: &dyn Runtime,
    ) -> Result<Connected, TargetError> {
        let Encrypted { mut wire, binding, deadline } = self.encrypted(mode, runtime)?;
        self.send_startup(&mut wire, deadline)?;
        self.authenticate(&mut wire, binding, deadline)?;
        let mut connected = Connected {
            wire,
            shown: self.shown.clone(),
            parameters: BTreeMap::new(),
            backend_key: None,
            notices: Vec::new(),
            endpoint: self.endpoint.clone(),
        };
        self.until_ready(&mut connected, deadline)?;
        self.check_attributes(&connected, wanted)?;
        Ok(connected)
    }

    /// A connected socket, encrypted as `mode` wants, and what binds authentication to it.
    fn encrypted<'r>(
        &self,
        mode: TlsMode,
        runtime: &'r dyn Runtime,
    ) -> Result<Encrypted<'r>, TargetError>
    where
        'a: 'r,
    {
        let (mut wire, deadline) = self.reach(runtime)?;
        let binding = self.encrypt(&mut wire, mode, deadline)?;
        Ok(Encrypted { wire, binding, deadline })
    }

    /// Encrypts the connection as `mode` wants; returns what binds authentication to it.
    fn encrypt(
        &self,
        wire: &mut Wire,
        mode: TlsMode,
        deadline: Deadline<'_>,
    ) -> Result<Option<Vec<u8>>, TargetError> {
        if matches!(mode, TlsMode::Disable | TlsMode::Allow) {
            return Ok(None);
        }
        let is_direct = self.address.tls.direct;
        if !is_direct {
            wire.send(&TLS_REQUEST, deadline).map_err(|error| self.lost(&error))?;
            while wire.input.is_empty() {
                wire.receive(deadline).map_err(|error| self.lost(&error))?;
            }
            let answer = wire.input.pending()[0];
            match answer {
                b'S' => {}
                b'N' if mode == TlsMode::Prefer => {
                    wire.input.consume(1);
                    return Ok(None);
                }
                b'N' => {
                    return Err(TargetError::Connect {
                        address: self.shown.clone(),
                        reason: "the server does not support TLS, and sslmode demands it; turn on \
                                 ssl in the server, or ask for sslmode=prefer"
                            .to_owned(),
                    });
                }
                tag::ERROR => return Err(self.early_error(wire, deadline)),
                other => {
                    return Err(self.violation(&Malformed::unexpected(other, "instead of TLS")));
                }
            }
            wire.input.consume(1);
            if !wire.input.is_empty() {
                // Rule 4: somebody on the way put them there.
                return Err(self.violation(&Malformed::new(
                    "unencrypted bytes arrived before encryption began (a man in the middle?)",
                )));
            }
        }
        let connection = tls::connection(self.address, &self.endpoint.host, mode)?;
        wire.transport.start_tls(connection);
        loop {
            let state = wire.transport.tls().map(|tls| tls.is_handshaking());
            if state != Some(true) {
                break;
            }
            match wire.handshake_step(deadline) {
                Ok(()) => {}
                Err(error) => return Err(self.handshake_failed(&error)),
            }
        }
        if is_direct && !wire.transport.tls().is_some_and(tls::has_agreed_protocol) {
            return Err(self.unreachable(
                "TLS: the server does not agree to speak PostgreSQL's protocol; \
                 sslnegotiation=direct needs PostgreSQL 17 or later"
                    .to_owned(),
            ));
        }
        Ok(wire.transport.tls().and_then(tls::channel_binding))
    }

    fn handshake_failed(&self, error: &WireError) -> TargetError {
        self.has_tls_failed.set(true);
        TargetError::Connect {
            address: self.shown.clone(),
            reason: format!("TLS: {error}{}", tls::remedy(error)),
        }
    }

    fn send_startup(&self, wire: &mut Wire, deadline: Deadline<'_>) -> Result<(), TargetError> {
        let address = self.address;
        let mut parameters = vec![
            ("user", address.user.as_str()),
            ("database", address.database.as_str()),
            ("application_name", address.application_name.as_str()),
            ("client_encoding", "UTF8"),
        ];
        if let Some(options) = &address.options {
            parameters.push(("options", options.as_str()));
        }
        let mut message = BytesMut::new();
        frontend::startup_message(parameters, &mut message).map_err(|_| {
            TargetError::Configuration(
                "a connection parameter holds a NUL character; remove it".to_owned(),
            )
        })?;
        wire.send(&message, deadline).map_err(|error| self.lost(&error))
    }

    /// Answers the server's questions until it is satisfied.
    fn authenticate(
        &self,
        wire: &mut Wire,
        mut binding: Option<Vec<u8>>,
        deadline: Deadline<'_>,
    ) -> Result<(), TargetError> {
        let must_bind = self.address.tls.channel_binding == ChannelBindingPolicy::Require;
        if self.address.tls.channel_binding == ChannelBindingPolicy::Disable {
            binding = None;
        }
        let mut exchange: Option<Exchange> = None;
        loop {
            let header = wire
                .message_up_to(LARGEST_EARLY_MESSAGE_BYTES, deadline)
                .map_err(|error| self.lost(&error))?;
            match header.tag {
                tag::AUTHENTICATION => {}
                tag::ERROR => return Err(self.early_error(wire, deadline)),
                tag::NEGOTIATE_VERSION | tag::NOTICE => {
                    wire.input.consume(header.total);
                    continue;
                }
                other => {
                    let what = Malformed::unexpected(other, "during authentication");
                    return Err(self.violation(&what));
                }
            }
            let body = wire.input.pending()[HEADER_BYTES..header.total].to_vec();
            wire.input.consume(header.total);
            let mut body = Body(&body);
            let question = body.int32().map_err(|what| self.violation(&what))?;
            let answer = match (question, &mut exchange) {
                (0, None) if must_bind => return Err(self.unbound()),
                (0, Some(exchange)) if !exchange.is_verified => {
                    return Err(self.violation(&Malformed::new(
                        "the server skipped its part of the SCRAM exchange",
                    )));
                }
                (0, _) => return Ok(()),
                (3 | 5, None) if must_bind => return Err(self.unbound()),
                (3, None) => {
                    // Rule 2.
                    if wire.transport.tls().is_none() && !self.endpoint.host.is_local() {
                        return Err(TargetError::Configuration(format!(
                            "{}: the server asks for the password in clear over an unencrypted \
                             network; use TLS (sslmode=verify-full), or scram-sha-256 in \
                             pg_hba.conf",
                            self.shown
                        )));
                    }
                    password::cleartext_answer(self.secret()?)
                }
                (5, None) => {
                    let salt = body.bytes(4).map_err(|what| self.violation(&what))?;
                    let salt = <[u8; 4]>::try_from(salt).unwrap_or_default();
                    password::md5_answer(self.secret()?, &self.address.user, salt)
                }
                (10, None) => {
                    let started = self.start_exchange(&mut body, binding.take())?;
                    let mut message = BytesMut::new();
                    let written = frontend::sasl_initial_response(
                        started.mechanism,
                        started.scram.message(),
                        &mut message,
                    );
                    exchange = Some(started);
                    written.map(|()| message)
                }
                (11, Some(exchange)) if !exchange.is_verified => {
                    exchange.scram.update(body.0).map_err(|error| self.scram_failed(&error))?;
                    let mut message = BytesMut::new();
                    frontend::sasl_response(exchange.scram.message(), &mut message)
                        .map(|()| message)
                }
                (12, Some(exchange)) if !exchange.is_verified => {
                    exchange.scram.finish(body.0).map_err(|error| self.scram_failed(&error))?;
                    exchange.is_verified = true;
                    continue;
                }
                (2 | 6 | 7 | 8 | 9, None) => {
                    return Err(TargetError::Configuration(format!(
                        "{}: the server asks for Kerberos, GSSAPI or SSPI, which are not \
                         supported; use scram-sha-256, a client certificate, peer or trust",
                        self.shown
                    )));
                }
                (other, _) => {
                    return Err(self.violation(&Malformed(format!(
                        "authentication question {other} has no place here"
                    ))));
                }
            };
            let answer = answer.map_err(|_| {
                TargetError::Configuration(format!(
                    "{}: the password holds a NUL character, which no server can accept",
                    self.shown
                ))
            })?;
            wire.send(&answer, deadline).map_err(|error| self.lost(&error))?;
        }
    }

    /// Chooses a mechanism among those that the server offers.
    fn start_exchange(
        &self,
        offers: &mut Body<'_>,
        binding: Option<Vec<u8>>,
    ) -> Result<Exchange, TargetError> {
        let (mut has_plain, mut has_plus) = (false, false);
        loop {
            let offer = offers.c_string().map_err(|what| self.violation(&what))?;
            match offer {
                b"" => break,
                _ if offer == SCRAM_SHA_256.as_bytes() => has_plain = true,
                _ if offer == SCRAM_SHA_256_PLUS.as_bytes() => has_plus = true,
                _ => {}
            }
        }
        let must_bind = self.address.tls.channel_binding == ChannelBindingPolicy::Require;
        let (mechanism, channel) = match binding {
            Some(binding) if has_plus => {
                (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(binding))
            }
            _ if must_bind => return Err(self.unbound()),
            // We could, and the server says that it cannot: it notices if that was not its word.
            Some(_) if has_plain => (SCRAM_SHA_256, ChannelBinding::unrequested()),
            None if has_plain => (SCRAM_SHA_256, ChannelBinding::unsupported()),
            _ => {
                return Err(TargetError::Configuration(format!(
                    "{}: the server offers no way to authenticate that is known here \
                     (known are SCRAM-SHA-256 and SCRAM-SHA-256-PLUS)",
                    self.shown
                )));
            }
        };
        let scram = password::scram(self.secret()?, channel);
        Ok(Exchange { scram, mechanism, is_verified: false })
    }

    /// Takes the parameters of the session, until the server is ready.
    fn until_ready(
        &self,
        connected: &mut Connected,
        deadline: Deadline<'_>,
    ) -> Result<(), TargetError> {
        loop {
            let header = connected.wire.message(deadline).map_err(|error| self.lost(&error))?;
            let input = &mut connected.wire.input;
            let mut body = Body(&input.pending()[HEADER_BYTES..header.total]);
            let mut read = || -> Result<bool, Malformed> {
                match header.tag {
                    tag::PARAMETER_STATUS => {
                        let name = String::from_utf8_lossy(body.c_string()?).into_owned();
                        let value = String::from_utf8_lossy(body.c_string()?).into_owned();
                        connected.parameters.insert(name, value);
                    }
                    tag::BACKEND_KEY => {
                        connected.backend_key = Some((body.int32()?, body.int32()?));
                    }
                    tag::NOTICE => connected.notices.push(error_fields(body.0)?),
                    tag::NEGOTIATE_VERSION => {}
                    tag::READY => {
                        transaction_status(body.0)?;
                        return Ok(true);
                    }
                    other => return Err(Malformed::unexpected(other, "before the session began")),
                }
                Ok(false)
            };
            if header.tag == tag::ERROR {
                let error = error_fields(body.0).map_err(|what| self.violation(&what))?;
                return Err(TargetError::Refused {
                    address: self.shown.clone(),
                    error: Box::new(error),
                });
            }
            let is_ready = read().map_err(|what| self.violation(&what))?;
            input.consume(header.total);
            if is_ready {
                return Ok(());
            }
        }
    }

    /// Whether the session is what `target_session_attrs` asks for. Servers since 14 say so by
    /// themselves.
    fn check_attributes(
        &self,
        connected: &Connected,
        wanted: SessionAttributes,
    ) -> Result<(), TargetError> {
        if wanted == SessionAttributes::Any {
            return Ok(());
        }
        let is_on = |name: &str| connected.parameters.get(name).map(|value| value == "on");
        let (Some(is_standby), Some(is_read_only)) =
            (is_on("in_hot_standby"), is_on("default_transaction_read_only"))
        else {
            return Err(self.unreachable(
                "servers before PostgreSQL 14 do not say whether they are standbys; leave out \
                 target_session_attrs"
                    .to_owned(),
            ));
        };
        let (is_fit, what) = match wanted {
            SessionAttributes::Any => (true, ""),
            SessionAttributes::ReadWrite => (!is_standby && !is_read_only, "read-only"),
            SessionAttributes::ReadOnly => (is_standby || is_read_only, "not read-only"),
            SessionAttributes::Primary => (!is_standby, "a standby"),
            SessionAttributes::Standby | SessionAttributes::PreferStandby => {
                (is_standby, "not a standby")
            }
        };
        if is_fit {
            return Ok(());
        }
        Err(self.unreachable(format!("the server is {what}, which target_session_attrs excludes")))
    }

    fn secret(&self) -> Result<&Secret, TargetError> {
        self.endpoint.password.as_ref().filter(|password| !password.is_empty()).ok_or_else(|| {
            TargetError::Configuration(format!(
                "{}: the server asks for the password of \"{}\" and none is given; put it into \
                 ~/.pgpass (mode 0600) or PGPASSWORD",
                self.shown,
                text::terminal(&self.address.user)
            ))
        })
    }

    /// An error message that came before the other side proved who it is (rule 3).
    fn early_error(&self, wire: &mut Wire, deadline: Deadline<'_>) -> TargetError {
        let header = match wire.message_up_to(LARGEST_EARLY_MESSAGE_BYTES, deadline) {
            Ok(header) => header,
            Err(error) => return self.lost(&error),
        };
        match error_fields(&wire.input.pending()[HEADER_BYTES..header.total]) {
            Err(what) => self.violation(&what),
            Ok(error) => TargetError::Refused {
                address: self.shown.clone(),
                error: Box::new(StatementError {
                    severity: text::excerpt(&error.severity, 20),
                    sqlstate: text::excerpt(&error.sqlstate, 5),
                    message: text::unauthenticated(&error.message),
                    detail: None,
                    hint: None,
                }),
            },
        }
    }

    fn unbound(&self) -> TargetError {
        TargetError::Configuration(format!(
            "{}: channel_binding=require, and the server does not offer SCRAM-SHA-256-PLUS under \
             TLS; use sslmode=verify-full and scram-sha-256 in pg_hba.conf",
            self.shown
        ))
    }

    fn scram_failed(&self, error: &std::io::Error) -> TargetError {
        let shown = text::unauthenticated(&error.to_string());
        self.violation(&Malformed(format!("SCRAM: {shown}")))
    }

    fn unreachable(&self, reason: String) -> TargetError {
        TargetError::Connect { address: self.shown.clone(), reason }
    }

    fn lost(&self, error: &WireError) -> TargetError {
        match error {
            WireError::Malformed(what) => self.violation(what),
            _ => self.unreachable(error.to_string()),
        }
    }

    fn violation(&self, what: &Malformed) -> TargetError {
        TargetError::Protocol { address: self.shown.clone(), reason: what.0.clone() }
    }
}

/// A connection, encrypted as far as was asked.
struct Encrypted<'a> {
    wire: Wire,
    /// What binds authentication to the encryption (RFC 5929).
    binding: Option<Vec<u8>>,
    deadline: Deadline<'a>,
}

/// A SCRAM exchange under way.
struct Exchange {
    scram: ScramSha256,
    mechanism: &'static str,
    /// The server has proven that it knows the password too.
    is_verified: bool,
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use evenkeel::runtime::OsRuntime;

    use super::super::address::Surroundings;
    use super::super::transport::Transport;
    use super::*;

    const RUNTIME: OsRuntime = OsRuntime::new();

    fn address(text: &str) -> Address {
        let surroundings = Surroundings {
            environment: &|name| (name == "PGPASSWORD").then(|| "canary".to_owned()),
            user_name: Some("user".to_owned()),
            home_directory: None,
            allow_password: false,
        };
        Address::parse(text, &surroundings).unwrap()
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    /// A peer that has said `words`, and what our side was sent in return.
    fn wire(words: &[u8]) -> (Wire, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(words).unwrap();
        (Wire::new(Transport::plain(ours.into()), &RUNTIME).unwrap(), theirs)
    }

    fn soon() -> Deadline<'static> {
        Deadline::after(&RUNTIME, Some(Duration::from_millis(20)))
    }

    fn encrypt(mode: TlsMode, words: &[u8]) -> Result<(), String> {
        let address = address("host=db.example");
        let opening = Opening::new(&address, &address.endpoints[0]);
        let (mut wire, _theirs) = wire(words);
        opening.encrypt(&mut wire, mode, soon()).map(|_| ()).map_err(|error| error.to_string())
    }

    fn authenticate(text: &str, words: &[u8]) -> (Result<(), String>, Vec<u8>) {
        let address = address(text);
        let opening = Opening::new(&address, &address.endpoints[0]);
        let (mut wire, mut theirs) = wire(words);
        let result = opening.authenticate(&mut wire, None, soon());
        theirs.set_nonblocking(true).unwrap();
        let mut answer = Vec::new();
        // Ends with WouldBlock, for our side is still open.
        let _ = theirs.read_to_end(&mut answer);
        (result.map_err(|error| error.to_string()), answer)
    }

    #[test]
    fn bytes_before_encryption_are_an_attack() {
        let injected = [b"S".to_vec(), message(b'R', &[0; 4])].concat();
        for mode in [TlsMode::Prefer, TlsMode::Require, TlsMode::VerifyFull] {
            let error = encrypt(mode, &injected).unwrap_err();
            assert!(error.contains("man in the middle"), "{error}");
        }
    }

    #[test]
    fn a_server_without_tls_is_left_unless_that_is_allowed() {
        assert_eq!(encrypt(TlsMode::Prefer, b"N"), Ok(()));
        for mode in [TlsMode::Require, TlsMode::VerifyAuthority, TlsMode::VerifyFull] {
            let error = encrypt(mode, b"N").unwrap_err();
            assert!(error.contains("does not support TLS"), "{error}");
        }
        assert!(encrypt(TlsMode::Require, b"X").unwrap_err().contains("instead of TLS"));
        assert!(encrypt(TlsMode::Require, b"").unwrap_err().contains("within the time"));
    }

    #[test]
    fn words_before_proof_are_cut_marked_and_made_safe() {
        let long = format!("SERROR\0C28000\0M\x1b[2J{}\0\0", "A".repeat(5000));
        let hostile = message(b'E', long.as_bytes());
        let errors = [
            encrypt(TlsMode::Require, &hostile).unwrap_err(),
            authenticate("host=db.example", &hostile).0.unwrap_err(),
        ];
        for error in errors {
            assert!(error.contains("(unauthenticated peer) \\x1b[2JAAA"), "{error}");
            assert!(error.len() < 600);
        }
        let huge = [b"E\x00\x10\x00\x00".to_vec(), vec![b'A'; 100]].concat();
        let error = authenticate("host=db.example", &huge).0.unwrap_err();
        assert!(error.contains("at most 30000"), "{error}");
    }

    #[test]
    fn a_password_in_clear_stays_on_this_machine() {
        let asks = [message(b'R', &[0, 0, 0, 3]), message(b'R', &[0; 4])].concat();
        let (result, answer) = authenticate("host=db.example", &asks);
        assert!(result.unwrap_err().contains("unencrypted network"));
        assert_eq!(answer, b"");
        for local in ["host=/tmp", "host=127.0.0.1"] {
            let (result, answer) = authenticate(local, &asks);
            assert_eq!(result, Ok(()));
            assert_eq!(answer, message(b'p', b"canary\0"));
        }
    }

    #[test]
    fn a_server_that_skips_its_own_proof_is_no_server() {
        let sasl = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
        let ok = message(b'R', &[0; 4]);
        let first = message(b'R', b"\0\0\0\x0br=nonce,s=c2FsdA==,i=4096");
        let last = message(b'R', b"\0\0\0\x0cv=c2lnbmF0dXJl");
        let cases = [
            (vec![sasl.clone(), ok.clone()], "skipped its part"),
            (vec![sasl.clone(), first, ok], "SCRAM: (unauthenticated peer)"),
            (vec![sasl.clone(), last.clone()], "SCRAM: (unauthenticated peer)"),
            (vec![last], "has no place"),
            (vec![sasl.clone(), sasl], "has no place"),
            (vec![message(b'R', b"\0\0\0\x0aOTHER\0\0")], "no way to authenticate"),
            (vec![message(b'R', b"\0\0\0\x0aSCRAM-SHA-256")], "does not end"),
            (vec![message(b'R', b"\0\0\0\x07")], "Kerberos"),
            (vec![message(b'R', b"\0\0")], "shorter than"),
            (vec![message(b'Z', b"I")], "during authentication"),
            (vec![message(b'R', b"\0\0\0\x05ab")], "shorter than"),
        ];
        for (words, expected) in cases {
            let error = authenticate("host=db.example", &words.concat()).0.unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("canary"));
        }
        let bind = "host=db.example channel_binding=require";
        let asks = [
            message(b'R', &[0; 4]),
            message(b'R', b"\0\0\0\x05salt"),
            message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"),
        ];
        for ask in asks {
            assert!(authenticate(bind, &ask).0.unwrap_err().contains("channel_binding=require"));
        }
    }

    #[test]
    fn a_name_that_does_not_exist_is_said_to_be_so() {
        let address = address("host=nowhere.invalid sslmode=disable connect_timeout=5");
        let error = connect(&address, &RUNTIME, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("cannot connect to nowhere.invalid:5432/user: "), "{error}");
    }
}
