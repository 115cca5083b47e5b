//! Encryption by rustls, with the meaning that libpq gives to `sslmode`.
//!
//! # Rules
//!
//! 1. `verify-full`: the chain leads to a trusted authority and the name is the host's.
//!    `verify-ca`: the chain alone. Below that nobody is verified, only encrypted.
//! 2. A certificate that is itself in the file of authorities is trusted by being there, as OpenSSL
//!    trusts it: servers with a self-made certificate are set up that way.
//! 3. Each session shakes hands anew: what a resumed one costs would depend on the order of runs.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConfig, Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::address::{Address, Host, RootCertificates, TlsMode, TlsSettings};
use super::certificate::Certificate;
use super::wire::WireError;
use crate::target::TargetError;
use crate::text;

/// What PostgreSQL is called among the protocols that TLS carries.
const PROTOCOL_NAME: &[u8] = b"postgresql";

/// Configurations that were made for an address, by mode: files are read once for many sessions.
#[derive(Clone, Default)]
pub(super) struct ConfigurationCache(Arc<Mutex<Vec<(TlsMode, SharedConfiguration)>>>);

type SharedConfiguration = Arc<ClientConfig>;

impl std::fmt::Debug for ConfigurationCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConfigurationCache")
    }
}

/// A TLS connection to `host` that is about to say its first word.
pub(super) fn connection(
    address: &Address,
    host: &Host,
    mode: TlsMode,
) -> Result<ClientConnection, TargetError> {
    let configuration = configuration(&address.tls, mode)?;
    let name = match host {
        Host::Network { name, .. } => name.as_str(),
        Host::Socket(_) => "localhost",
    };
    let server_name = match ServerName::try_from(name.to_owned()) {
        Ok(name) => name,
        // Where the name is not verified it need not be one.
        Err(_) if mode < TlsMode::VerifyFull => {
            ServerName::IpAddress(std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED).into())
        }
        Err(_) => {
            return Err(TargetError::Configuration(format!(
                "\"{}\" is not a name that a certificate can have; use the host's DNS name or \
                 IP address",
                text::excerpt(name, 60)
            )));
        }
    };
    ClientConnection::new(configuration, server_name)
        .map_err(|error| TargetError::Configuration(format!("TLS: {error}")))
}

/// The certificate's digest that binds authentication to this connection (RFC 5929).
pub(super) fn channel_binding(connection: &ClientConnection) -> Option<Vec<u8>> {
    let certificate = connection.peer_certificates()?.first()?;
    Certificate::parse(certificate)?.server_end_point()
}

/// Whether the server has agreed, inside TLS, to speak PostgreSQL's protocol.
pub(super) fn has_agreed_protocol(connection: &ClientConnection) -> bool {
    connection.alpn_protocol() == Some(PROTOCOL_NAME)
}

/// What to do about a failed handshake.
pub(super) fn remedy(error: &WireError) -> &'static str {
    let WireError::System(error) = error else { return "" };
    let error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match error {
        Some(rustls::Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer => {
                "; name the authority's certificate with sslrootcert=FILE, or ask for \
                 sslmode=require to give up verification"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; connect by a name that the certificate has, or ask for sslmode=verify-ca"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "; the server needs a new certificate"
            }
            _ => "",
        },
        _ => "",
    }
}

fn configuration(settings: &TlsSettings, mode: TlsMode) -> Result<Arc<ClientConfig>, TargetError> {
    let mut kept = settings.configurations.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, configuration)) = kept.iter().find(|(other, _)| *other == mode) {
        return Ok(Arc::clone(configuration));
    }
    let configuration = Arc::new(make_configuration(settings, mode)?);
    kept.push((mode, Arc::clone(&configuration)));
    Ok(configuration)
}

fn make_configuration(settings: &TlsSettings, mode: TlsMode) -> Result<ClientConfig, TargetError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (roots, pinned) = if mode >= TlsMode::VerifyAuthority {
        trusted(settings, mode)?
    } else {
        (RootCertStore::empty(), Vec::new())
    };
    let verifier = Verifier { mode, roots, pinned, provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TargetError::Configuration(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut configuration = match (&settings.client_certificate, &settings.client_key) {
        (None, _) => builder.with_no_client_auth(),
        (Some(certificate), None) => {
            return Err(TargetError::Configuration(format!(
                "client certificate {} has no key; name it with sslkey=FILE",
                shown(certificate)
            )));
        }
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| {
                TargetError::Configuration(format!(
                    "client certificate {} and key {} cannot be used: {error}",
                    shown(certificate),
                    shown(key)
                ))
            })?,
    };
    configuration.enable_sni = !settings.hide_server_name;
    configuration.alpn_protocols = vec![PROTOCOL_NAME.to_vec()];
    configuration.resumption = Resumption::disabled();
    Ok(configuration)
}

/// The authorities to trust, and the certificates that are trusted as they are (rule 2).
fn trusted(
    settings: &TlsSettings,
    mode: TlsMode,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TargetError> {
    let mut roots = RootCertStore::empty();
    let pinned = match &settings.root_certificates {
        RootCertificates::File(path) => {
            let found = certificates(path)?;
            // What rustls cannot read as an authority can still be the server's own.
            roots.add_parsable_certificates(found.iter().cloned());
            found
        }
        RootCertificates::Default if mode < TlsMode::VerifyFull => {
            return Err(TargetError::Configuration(
                "sslmode=verify-ca needs to know the authority; name its certificate with \
                 sslrootcert=FILE (or use sslmode=verify-full)"
                    .to_owned(),
            ));
        }
        RootCertificates::Default | RootCertificates::System => {
            // Single files that cannot be read do not matter while there are others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Vec::new()
        }
    };
    if roots.is_empty() && pinned.is_empty() {
        return Err(TargetError::Configuration(
            "the system has no certificates of authorities to verify the server by; name one with \
             sslrootcert=FILE, or ask for sslmode=require to give up verification"
                .to_owned(),
        ));
    }
    Ok((roots, pinned))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let refused = |reason: String| {
        TargetError::Configuration(format!("certificate file {}: {reason}", shown(path)))
    };
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(error.to_string()))?;
    if found.is_empty() {
        return Err(refused("it holds no certificate in PEM form".to_owned()));
    }
    Ok(found)
}

/// Reads a key that nobody else may read, as libpq demands (`initialize_SSL`).
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TargetError> {
    let refused =
        |reason: String| TargetError::Configuration(format!("key file {}: {reason}", shown(path)));
    let metadata = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.permissions().mode() & forbidden != 0 {
        return Err(refused("others can read it; chmod 0600 it".to_owned()));
    }
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| refused(format!("{error}; it must be an unencrypted key in PEM form")))
}

fn shown(path: &Path) -> String {
    text::terminal(&path.to_string_lossy()).into_owned()
}

/// Decides whether the server is who it should be (rules 1 and 2).
#[derive(Debug)]
struct Verifier {
    mode: TlsMode,
    roots: RootCertStore,
    pinned: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.pinned.iter().any(|pinned| pinned == certificate) {
            let second = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            return match Certificate::parse(certificate) {
                None => Err(CertificateError::BadEncoding.into()),
                Some(found) if !found.is_valid_at(second) => Err(CertificateError::Expired.into()),
                Some(_) => Ok(()),
            };
        }
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(certificate)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )
    }

    fn verify_name(
        certificate: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
    ) -> Result<(), rustls::Error> {
        let refused =
            match verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
        let host = server_name.to_str();
        match Certificate::parse(certificate) {
            Some(found) if found.common_name_is(&host) => Ok(()),
            _ => Err(refused),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.mode >= TlsMode::VerifyAuthority {
            self.verify_chain(certificate, intermediates, now)?;
        }
        if self.mode >= TlsMode::VerifyFull {
            Self::verify_name(certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
