//! A socket that never blocks, plain or under TLS.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

use crate::target::SessionCalls;

/// A connected socket.
pub(super) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<rustls::ClientConnection>>,
    calls: SessionCalls,
}

impl Transport {
    /// Takes a connected socket that does not block.
    pub(super) const fn plain(socket: OwnedFd) -> Self {
        Self { socket, tls: None, calls: SessionCalls { sends: 0, receives: 0, changes: 0 } }
    }

    /// Starts TLS on top.
    pub(super) fn start_tls(&mut self, connection: rustls::ClientConnection) {
        self.tls = Some(Box::new(connection));
    }

    /// The TLS connection, where there is one.
    pub(super) fn tls(&self) -> Option<&rustls::ClientConnection> {
        self.tls.as_deref()
    }

    /// Counts calls from here on.
    pub(super) const fn forget_calls(&mut self) {
        self.calls = SessionCalls { sends: 0, receives: 0, changes: 0 };
    }

    /// How often the socket was written to and read from.
    pub(super) const fn calls(&self) -> SessionCalls {
        self.calls
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what is there into `buffer`; 0 at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` where nothing is there.
    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket = RawSocket { socket: &self.socket, calls: &mut self.calls };
        match &mut self.tls {
            None => socket.read(buffer),
            Some(tls) => read_tls(tls, &mut socket, buffer),
        }
    }

    /// Writes as much of `bytes` as there is room for.
    ///
    /// # Errors
    /// `WouldBlock` where there is no room at all.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = RawSocket { socket: &self.socket, calls: &mut self.calls };
        match &mut self.tls {
            None => socket.write(bytes),
            Some(tls) => {
                send_records(tls, &mut socket)?;
                let taken = tls.writer().write(bytes)?;
                match send_records(tls, &mut socket) {
                    // What was taken waits in the TLS connection: see `is_flushed`.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => {}
                    result => result?,
                }
                Ok(taken)
            }
        }
    }

    /// Whether everything that was written is with the kernel.
    #[inline]
    pub(super) fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.wants_write())
    }

    /// Sends what TLS holds back; `WouldBlock` where there is no room.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut socket = RawSocket { socket: &self.socket, calls: &mut self.calls };
        self.tls.as_mut().map_or(Ok(()), |tls| send_records(tls, &mut socket))
    }

    /// Whether a read may return data though the socket itself has none.
    #[inline]
    pub(super) const fn may_hold_data(&self) -> bool {
        self.tls.is_some()
    }

    /// Tells the other side that nothing more comes.
    pub(super) fn shut_down(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The session is over whether or not the other side learns it this way.
            let mut socket = RawSocket { socket: &self.socket, calls: &mut self.calls };
            let _ = send_records(tls, &mut socket);
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The socket itself.
struct RawSocket<'a> {
    socket: &'a OwnedFd,
    calls: &'a mut SessionCalls,
}

impl Read for RawSocket<'_> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.calls.receives += 1;
            match rustix::net::recv(self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok((_, count)) => return Ok(count),
            }
        }
    }
}

impl Write for RawSocket<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            self.calls.sends += 1;
            match rustix::net::send(self.socket, bytes, flags) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read_tls(
    tls: &mut rustls::ClientConnection,
    socket: &mut RawSocket<'_>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The end without a close_notify is an end like that of a plain socket: the messages
            // of PostgreSQL say themselves where they end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            result => return result,
        }
        let count = tls.read_tls(socket)?;
        let state = tls.process_new_packets();
        if let Err(error) = state {
            // The alert that says why is worth a try; the error itself is what counts.
            let _ = send_records(tls, socket);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        // A renewal of keys or the end of the handshake may want an answer.
        match send_records(tls, socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        if count == 0 {
            return match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                result => result,
            };
        }
    }
}

fn send_records(tls: &mut rustls::ClientConnection, socket: &mut RawSocket<'_>) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    Ok(())
}
