//! A connection used one message at a time, with a deadline for every wait: what opening a session
//! and administration need. (The load path waits in the driver instead: see `session.rs`.)

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::runtime::{Instant, Interest, Readiness, Ready, Runtime};

use super::protocol::{Header, Input, Malformed, header};
use super::transport::Transport;

/// The largest message that is taken whole.
const LARGEST_MESSAGE_BYTES: usize = 256 << 20;

/// How often a wait looks at the flag that may end it: people take a tenth of a second for at once.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A transport, what has arrived on it, and the means to wait for more.
pub(super) struct Wire {
    pub(super) transport: Transport,
    pub(super) input: Input,
    readiness: Box<dyn Readiness>,
    interest: Interest,
    ready: Vec<Ready>,
}

/// Until when to wait, by whose clock, and what ends the wait before.
#[derive(Clone, Copy)]
pub(super) struct Deadline<'a> {
    runtime: &'a dyn Runtime,
    at: Option<Instant>,
    /// Set from another task: nobody waits for the answer any more.
    leave: Option<&'a AtomicBool>,
}

impl<'a> Deadline<'a> {
    /// `timeout` from now; for ever where there is none.
    pub(super) fn after(runtime: &'a dyn Runtime, timeout: Option<Duration>) -> Self {
        Self { runtime, at: timeout.map(|timeout| runtime.now().plus(timeout)), leave: None }
    }

    /// The same, and over as soon as `leave` is set.
    pub(super) const fn heeding(self, leave: Option<&'a AtomicBool>) -> Self {
        Self { leave, ..self }
    }

    /// When to wake up at the latest: at its end, or to look at the flag.
    pub(super) fn next_look(self) -> Option<Instant> {
        let look = self.leave.map(|_| self.runtime.now().plus(LOOK_EVERY));
        match (self.at, look) {
            (Some(at), Some(look)) => Some(at.min(look)),
            (at, look) => at.or(look),
        }
    }

    /// Whether nobody waits any more.
    pub(super) fn is_left(self) -> bool {
        self.leave.is_some_and(|leave| leave.load(Ordering::SeqCst))
    }

    pub(super) fn has_passed(self) -> bool {
        self.at.is_some_and(|at| self.runtime.now() >= at)
    }
}

/// A wait or a message that did not end well.
#[derive(Debug)]
pub(super) enum WireError {
    /// The deadline passed.
    TimedOut,
    /// Nobody waits for it any more.
    Left,
    /// The other side closed the connection.
    Closed,
    /// The operating system, or TLS, reports.
    System(io::Error),
    /// The protocol was broken.
    Malformed(Malformed),
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut => f.write_str("no answer within the time allowed"),
            Self::Left => f.write_str("no answer until the waiting was given up"),
            Self::Closed => f.write_str("the server closed the connection"),
            Self::System(error) => f.write_str(&crate::text::excerpt(&error.to_string(), 300)),
            Self::Malformed(Malformed(what)) => f.write_str(what),
        }
    }
}

impl From<Malformed> for WireError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Wire {
    pub(super) fn new(transport: Transport, runtime: &dyn Runtime) -> io::Result<Self> {
        let mut readiness = runtime.readiness()?;
        readiness.register(transport.descriptor(), 0, Interest::Read)?;
        Ok(Self {
            transport,
            input: Input::new(),
            readiness,
            interest: Interest::Read,
            ready: Vec::new(),
        })
    }

    /// Ends the waiting; the transport and what has arrived go on elsewhere.
    pub(super) fn into_parts(mut self) -> (Transport, Input) {
        // The set is closed in a moment, and with it the registration.
        let _ = self.readiness.deregister(self.transport.descriptor());
        (self.transport, self.input)
    }

    /// Sends all of `bytes`, taking in what arrives meanwhile.
    pub(super) fn send(&mut self, bytes: &[u8], deadline: Deadline<'_>) -> Result<(), WireError> {
        let mut rest = bytes;
        loop {
            let result = if rest.is_empty() {
                self.transport.flush().map(|()| 0)
            } else {
                self.transport.write(rest)
            };
            match result {
                Ok(count) => {
                    rest = &rest[count..];
                    if rest.is_empty() && self.transport.is_flushed() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Interest::ReadWrite, deadline)?;
                    // A server that is busy answering may not read before we do.
                    if self.ready.iter().any(|ready| ready.readable) {
                        self.receive_some()?;
                    }
                }
                // The reason is in what the server sent before it closed.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until a whole message has arrived and returns its header; `input` holds it.
    pub(super) fn message(&mut self, deadline: Deadline<'_>) -> Result<Header, WireError> {
        self.message_up_to(LARGEST_MESSAGE_BYTES, deadline)
    }

    /// As [`Self::message`], refusing a message of more than `largest` bytes.
    pub(super) fn message_up_to(
        &mut self,
        largest: usize,
        deadline: Deadline<'_>,
    ) -> Result<Header, WireError> {
        loop {
            if let Some(header) = header(self.input.pending())? {
                if header.total > largest {
                    return Err(WireError::Malformed(Malformed(format!(
                        "a message of type {} announces {} bytes; at most {largest} are taken here",
                        super::protocol::shown_tag(header.tag),
                        header.total
                    ))));
                }
                if self.input.pending().len() >= header.total {
                    return Ok(header);
                }
            }
            self.receive(deadline)?;
        }
    }

    /// Waits until something more has arrived.
    pub(super) fn receive(&mut self, deadline: Deadline<'_>) -> Result<(), WireError> {
        while !self.receive_some()? {
            self.wait(Interest::Read, deadline)?;
        }
        Ok(())
    }

    /// Takes what is there; false where nothing is.
    fn receive_some(&mut self) -> Result<bool, WireError> {
        match self.transport.read(self.input.room()) {
            Ok(0) => Err(WireError::Closed),
            Ok(count) => {
                self.input.filled(count);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(WireError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the socket is ready; false when it is not and the deadline has not passed either:
    /// after a signal, and to look at the flag.
    pub(super) fn wait(
        &mut self,
        interest: Interest,
        deadline: Deadline<'_>,
    ) -> Result<bool, WireError> {
        if self.interest != interest {
            self.readiness.modify(self.transport.descriptor(), 0, interest)?;
            self.interest = interest;
        }
        if deadline.is_left() {
            return Err(WireError::Left);
        }
        self.readiness.wait(deadline.next_look(), &mut self.ready)?;
        if self.ready.is_empty() && deadline.has_passed() {
            return Err(WireError::TimedOut);
        }
        Ok(!self.ready.is_empty())
    }

    /// Goes one step on in the TLS handshake: sends what waits, then takes what comes.
    pub(super) fn handshake_step(&mut self, deadline: Deadline<'_>) -> Result<(), WireError> {
        let interest = match self.transport.flush() {
            Ok(()) => Interest::Read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Interest::ReadWrite,
            Err(error) => return Err(error.into()),
        };
        let is_over = |wire: &Self| {
            wire.transport.is_flushed()
                && !wire.transport.tls().is_some_and(|tls| tls.is_handshaking())
        };
        // What arrives may be the last that was missing.
        if !self.receive_some()? && !is_over(self) {
            self.wait(interest, deadline)?;
        }
        Ok(())
    }
}
