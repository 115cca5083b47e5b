//! From an endpoint to a connected socket: a socket's file, a number, or a name to be looked up.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::runtime::{Interest, Runtime};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::super::address::Host;
use super::super::transport::Transport;
use super::super::wire::{Deadline, Wire, WireError};
use super::Opening;
use crate::target::TargetError;

/// How long to wait before knocking again at a socket whose queue is full.
const FULL_QUEUE_RETRY_NS: u64 = 1_000_000;

impl<'a> Opening<'a> {
    /// Connects to the first place behind the endpoint that answers.
    pub(super) fn reach<'r>(
        &self,
        runtime: &'r dyn Runtime,
    ) -> Result<(Wire, Deadline<'r>), TargetError>
    where
        'a: 'r,
    {
        let timeout = self.address.connect_timeout;
        let deadline = || Deadline::after(runtime, timeout).heeding(self.leave);
        let numbers = match &self.endpoint.host {
            Host::Socket(directory) => {
                let deadline = deadline();
                let wire = self.reach_unix_socket(directory, deadline, runtime)?;
                return Ok((wire, deadline));
            }
            Host::Network { number: Some(number), .. } => vec![*number],
            Host::Network { name, number: None } => self.look_up(name, deadline(), runtime)?,
        };
        let mut failures = Vec::new();
        for number in numbers {
            let deadline = deadline();
            match self.reach_number(number, deadline, runtime) {
                Ok(wire) => return Ok((wire, deadline)),
                Err(error) => failures.push(format!("{number}: {error}")),
            }
        }
        Err(self.unreachable(failures.join("; ")))
    }

    fn reach_unix_socket(
        &self,
        directory: &Path,
        deadline: Deadline<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Wire, TargetError> {
        let path = directory.join(format!(".s.PGSQL.{}", self.endpoint.port));
        let place = match path.as_os_str().as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name),
            None => SocketAddrUnix::new(&path),
        };
        let place = place.map_err(|_| {
            self.unreachable("the socket's path is too long (107 bytes at most)".to_owned())
        })?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let result =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                    .and_then(|socket| rustix::net::connect(&socket, &place).map(|()| socket));
            match result {
                Ok(socket) => {
                    return Wire::new(Transport::plain(socket), runtime)
                        .map_err(|error| self.unreachable(error.to_string()));
                }
                Err(Errno::INTR) => {}
                // The server's queue of connections is full: it comes to us in a moment.
                Err(Errno::AGAIN) if !deadline.has_passed() && !deadline.is_left() => {
                    runtime.sleep_until(runtime.now().plus_nanos(FULL_QUEUE_RETRY_NS));
                }
                Err(error) => {
                    let remedy = match error {
                        Errno::NOENT | Errno::CONNREFUSED => {
                            "; is the server running, and is this its socket directory and port?"
                        }
                        _ => "",
                    };
                    return Err(self.unreachable(format!("{}{remedy}", system_text(error))));
                }
            }
        }
    }

    fn reach_number(
        &self,
        number: IpAddr,
        deadline: Deadline<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Wire, WireError> {
        let family = if number.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(std::io::Error::from)?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(std::io::Error::from)?;
        sockopt::set_socket_keepalive(&socket, self.address.keepalives)
            .map_err(std::io::Error::from)?;
        let place = SocketAddr::new(number, self.endpoint.port);
        match rustix::net::connect(&socket, &place) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(WireError::System(error.into())),
        }
        let mut wire = Wire::new(Transport::plain(socket), runtime)?;
        while !wire.wait(Interest::ReadWrite, deadline)? {}
        match sockopt::socket_error(wire.transport.descriptor()).map_err(std::io::Error::from)? {
            Ok(()) => Ok(wire),
            Err(error) => Err(WireError::System(error.into())),
        }
    }

    /// Asks the system for the numbers of `name`. It cannot be asked without waiting, so a task
    /// of its own asks and is left behind when the time is over (rule 1).
    fn look_up(
        &self,
        name: &str,
        deadline: Deadline<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<IpAddr>, TargetError> {
        let answer = Arc::new(Mutex::new(None));
        let is_answered = runtime.event();
        let task = {
            let (answer, is_answered) = (Arc::clone(&answer), Arc::clone(&is_answered));
            let (name, port) = (name.to_owned(), self.endpoint.port);
            move || {
                let found = (name.as_str(), port)
                    .to_socket_addrs()
                    .map(|places| places.map(|place| place.ip()).collect::<Vec<_>>());
                *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                is_answered.notify();
            }
        };
        runtime
            .spawn("look-up", Box::new(task))
            .map_err(|error| self.unreachable(error.to_string()))?;
        let answer = loop {
            is_answered.wait_until(deadline.next_look());
            let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if answer.is_some() || deadline.has_passed() || deadline.is_left() {
                break answer;
            }
        };
        match answer {
            Some(Ok(numbers)) if !numbers.is_empty() => Ok(numbers),
            Some(Ok(_)) => Err(self.unreachable("the name has no address".to_owned())),
            Some(Err(error)) => {
                Err(self.unreachable(format!("the name cannot be looked up: {error}")))
            }
            None => {
                Err(self.unreachable("looking up the name took longer than allowed".to_owned()))
            }
        }
    }
}

fn system_text(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}
