//! Encryption by rustls, with the meaning that libpq gives to `sslmode`.

use super::address::{Address, Endpoint, TlsMode};
use super::wire::WireError;
use crate::target::TargetError;

/// A TLS connection to `endpoint` that is about to say its first word.
pub(super) fn connection(
    address: &Address,
    _endpoint: &Endpoint,
    _mode: TlsMode,
) -> Result<rustls::ClientConnection, TargetError> {
    Err(TargetError::Configuration(format!("{address}: TLS is not ready")))
}

/// The certificate's digest that binds authentication to this connection (RFC 5929).
pub(super) fn channel_binding(_connection: &rustls::ClientConnection) -> Option<Vec<u8>> {
    None
}

/// What to do about a failed handshake.
pub(super) fn remedy(_error: &WireError) -> &'static str {
    ""
}
