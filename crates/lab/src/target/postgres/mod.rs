//! PostgreSQL as a target: addresses as `psql` understands them, our own client, sessions for load.
//!
//! # Map
//!
//! - [`address`] (with `conninfo`, `service_file`, `password`): where, as whom, with what proof.
//! - `tls`, `certificate`, `transport`: a socket, plain or encrypted.
//! - `wire`, `connect`: opening a session, with a deadline for every wait.
//! - [`client`]: administration, one blocking call at a time.
//! - [`session`]: load, never blocking.

pub mod address;
mod answers;
pub mod binaries;
mod certificate;
pub mod client;
mod connect;
mod conninfo;
pub mod counters;
#[cfg(test)]
mod live_tests;
mod password;
mod protocol;
pub mod server;
pub mod server_log;
mod service_file;
pub mod session;
pub mod settings;
pub mod snapshot;
mod statement;
mod tls;
mod transport;
mod wire;
