//! Where a server is and who wants to talk to it, as `psql` would understand it.
//!
//! # Rules
//!
//! 1. Precedence as in libpq: connection string, then the service file, then the environment, then
//!    defaults (`conninfo_add_defaults` in PostgreSQL's `fe-connect.c`). An empty value is no value.
//! 2. The environment is handed in ([`Surroundings`]); this module reads none.
//! 3. A password in a connection string is refused unless [`Surroundings::allow_password`] says
//!    otherwise: other users of the machine see a command line in the list of processes.
//! 4. Over TCP to another machine the server is verified (`verify-full`) unless something weaker was
//!    asked for. libpq's default, `prefer`, holds for this machine only.
//! 5. An address is shown as `host:port/database` or as the socket's path; nothing that is shown
//!    holds a password.

mod resolver;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::conninfo::{self, Parameter, Parameters};
use super::service_file;
use crate::secret::Secret;

/// The port of a server that says nothing else.
pub const DEFAULT_PORT: u16 = 5432;

/// How long one host may take to answer, where nothing else is asked (libpq would wait for ever).
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where and as whom to connect.
#[derive(Clone, Debug)]
pub struct Address {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) database: String,
    pub(super) user: String,
    pub(super) application_name: String,
    /// The `options` of the start-up message (`-c name=value`).
    pub(super) options: Option<String>,
    /// How long one endpoint may take; `None` waits for ever.
    pub(super) connect_timeout: Option<Duration>,
    pub(super) session_attributes: SessionAttributes,
    pub(super) keepalives: bool,
    pub(super) tls: TlsSettings,
    warnings: Vec<String>,
}

/// A server is refused, or an address is not understood: what, where, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

/// What an address is completed from: the surroundings of the user.
pub struct Surroundings<'a> {
    /// The environment. Only the command line hands in the real one.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The operating system's name of the user, for `user` and `dbname`.
    pub user_name: Option<String>,
    /// For `~/.pgpass`, `~/.pg_service.conf` and `~/.postgresql/`.
    pub home_directory: Option<PathBuf>,
    /// Accept a password inside the connection string (rule 3).
    pub allow_password: bool,
}

/// One server among those of an address, tried in order.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) password: Option<Secret>,
}

/// A place at which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// The directory of a Unix socket; beginning with `@` a name in the abstract space.
    Socket(PathBuf),
    /// A host by name or number; `number` saves the look-up and leaves `name` for verification.
    Network { name: String, number: Option<IpAddr> },
}

/// What a session must be able to do (`target_session_attrs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionAttributes {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// Everything about encryption and proof of identity.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsSettings {
    /// What was asked for; `None` takes rule 4's default.
    pub(super) mode: Option<TlsMode>,
    /// Start with TLS at once instead of asking first (PostgreSQL 17).
    pub(super) direct: bool,
    pub(super) root_certificates: RootCertificates,
    pub(super) client_certificate: Option<PathBuf>,
    pub(super) client_key: Option<PathBuf>,
    pub(super) channel_binding: ChannelBindingPolicy,
    /// Leave the host's name out of the TLS greeting.
    pub(super) hide_server_name: bool,
    pub(super) configurations: super::tls::ConfigurationCache,
}

/// `sslmode`, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TlsMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyAuthority,
    VerifyFull,
}

/// Which authorities are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum RootCertificates {
    /// `~/.postgresql/root.crt` where it exists, else those of the system.
    #[default]
    Default,
    /// `sslrootcert=system`.
    System,
    /// A file of certificates.
    File(PathBuf),
}

/// `channel_binding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChannelBindingPolicy {
    Disable,
    #[default]
    Prefer,
    Require,
}

impl AddressError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("user_name", &self.user_name).finish_non_exhaustive()
    }
}

impl Address {
    /// Understands a URL, a string of keywords, or the plain name of a database, and completes it
    /// from the surroundings (rule 1). Reads the service and password files that apply.
    ///
    /// # Errors
    /// With the position and the remedy, where the text, a file or the environment is wrong.
    pub fn parse(text: &str, surroundings: &Surroundings<'_>) -> Result<Self, AddressError> {
        let mut parameters = if conninfo::is_connection_string(text) {
            conninfo::parse(text)?
        } else if text.is_empty() {
            Parameters::new()
        } else {
            let origin = "the database's name".to_owned();
            Parameters::from([("dbname", Parameter { value: text.to_owned(), origin })])
        };
        parameters.retain(|_, parameter| !parameter.value.is_empty());
        if let Some(parameter) = parameters.get("password")
            && !surroundings.allow_password
        {
            return Err(AddressError::new(format!(
                "{}: a password in the connection string is visible to other users of this machine; \
                 put it into ~/.pgpass (mode 0600), a service file or PGPASSWORD",
                parameter.origin
            )));
        }
        service_file::complete(&mut parameters, surroundings)?;
        resolver::complete_from_environment(&mut parameters, surroundings)?;
        resolver::Resolver { parameters: &parameters, surroundings }.address()
    }

    /// A server on this machine that listens on a Unix socket in `directory`.
    #[must_use]
    pub fn unix_socket(directory: &Path, port: u16, user: &str, database: &str) -> Self {
        Self {
            endpoints: vec![Endpoint {
                host: Host::Socket(directory.to_owned()),
                port,
                password: None,
            }],
            database: database.to_owned(),
            user: user.to_owned(),
            application_name: "evenkeel".to_owned(),
            options: None,
            connect_timeout: Some(DEFAULT_CONNECT_TIMEOUT),
            session_attributes: SessionAttributes::Any,
            keepalives: true,
            tls: TlsSettings::default(),
            warnings: Vec::new(),
        }
    }

    /// The same server, another database.
    #[must_use]
    pub fn with_database(mut self, database: &str) -> Self {
        database.clone_into(&mut self.database);
        self
    }

    /// The same server, under another name in `pg_stat_activity`.
    #[must_use]
    pub fn with_application_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.application_name);
        self
    }

    /// The same server, with this password for every host.
    #[must_use]
    pub fn with_password(mut self, password: &Secret) -> Self {
        for endpoint in &mut self.endpoints {
            endpoint.password = Some(password.clone());
        }
        self
    }

    /// The same server, with another limit to the time that one host may take to answer.
    #[must_use]
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The role.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The hosts, by name, number or socket directory, in the order in which they are tried.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.endpoints.iter().map(|endpoint| endpoint.host.to_string()).collect()
    }

    /// The port of the first host.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.endpoints.first().map_or(DEFAULT_PORT, |endpoint| endpoint.port)
    }

    /// Whether every host is this machine: a Unix socket, `localhost`, or a loopback number.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.endpoints.iter().all(|endpoint| endpoint.host.is_local())
    }

    /// What was noticed and is no error (such as a password file that others can read).
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The mode of encryption that holds for `host` (rule 4).
    pub(super) fn tls_mode(&self, host: &Host) -> TlsMode {
        match (host, self.tls.mode) {
            // libpq never speaks TLS over a Unix socket.
            (Host::Socket(_), _) => TlsMode::Disable,
            (_, Some(mode)) => mode,
            (host, None) if host.is_local() => TlsMode::Prefer,
            (_, None) => TlsMode::VerifyFull,
        }
    }

    /// `endpoint` as shown to people (rule 5).
    pub(super) fn shown(&self, endpoint: &Endpoint) -> String {
        let database = crate::text::terminal(&self.database);
        match &endpoint.host {
            Host::Socket(directory) => {
                let path = format!("{}/.s.PGSQL.{}", directory.display(), endpoint.port);
                format!("{}/{database}", crate::text::terminal(&path))
            }
            Host::Network { name, .. } if name.contains(':') => {
                format!("[{}]:{}/{database}", crate::text::terminal(name), endpoint.port)
            }
            Host::Network { name, .. } => {
                format!("{}:{}/{database}", crate::text::terminal(name), endpoint.port)
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            f.write_str(&self.shown(endpoint))?;
        }
        Ok(())
    }
}

impl Host {
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Network { number: Some(number), .. } => number.to_canonical().is_loopback(),
            Self::Network { name, number: None } => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(directory) => {
                f.write_str(&crate::text::terminal(&directory.to_string_lossy()))
            }
            Self::Network { name, .. } => f.write_str(&crate::text::terminal(name)),
        }
    }
}

/// The operating system's name and home directory of the user who runs this process, from
/// `/etc/passwd`; for [`Surroundings`].
#[must_use]
pub fn operating_system_user() -> Option<(String, PathBuf)> {
    let number = rustix::process::geteuid().as_raw().to_string();
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        if fields.nth(1)? != number {
            return None;
        }
        Some((name.to_owned(), PathBuf::from(fields.nth(2)?)))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;

    type Environment = &'static [(&'static str, &'static str)];

    fn parse_with(text: &str, environment: &[(&str, &str)]) -> Result<Address, AddressError> {
        let surroundings = Surroundings {
            environment: &|name| {
                let found = environment.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            },
            user_name: Some("osuser".to_owned()),
            home_directory: None,
            allow_password: false,
        };
        Address::parse(text, &surroundings)
    }

    #[test]
    fn an_address_is_completed_as_psql_would() {
        let cases: [(&str, Environment, &str, &str); 12] = [
            ("postgresql://h:5433/d?user=u", &[], "h:5433/d", "u"),
            ("host=h", &[], "h:5432/osuser", "osuser"),
            ("host=h user=u", &[], "h:5432/u", "u"),
            ("plain_name", &[("PGHOST", "h")], "h:5432/plain_name", "osuser"),
            ("", &[("PGHOST", "/s"), ("PGPORT", "9"), ("PGUSER", "e")], "/s/.s.PGSQL.9/e", "e"),
            // The string wins over the environment; an empty value is none.
            (
                "host=a port=1",
                &[("PGHOST", "b"), ("PGPORT", "2"), ("PGDATABASE", "d")],
                "a:1/d",
                "osuser",
            ),
            ("host='' dbname=x", &[("PGHOST", "b")], "b:5432/x", "osuser"),
            ("host=a", &[("PGPORT", "")], "a:5432/osuser", "osuser"),
            ("host=a,b,c port=1,,3 dbname=d", &[], "a:1/d,b:5432/d,c:3/d", "osuser"),
            ("host=a,b port=7 dbname=d", &[], "a:7/d,b:7/d", "osuser"),
            ("postgresql://[::1]/d", &[], "[::1]:5432/d", "osuser"),
            ("hostaddr=10.0.0.1 dbname=d", &[], "10.0.0.1:5432/d", "osuser"),
        ];
        for (text, environment, shown, user) in cases {
            let address = parse_with(text, environment).unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(address.user(), user, "{text}");
        }
    }

    #[test]
    fn another_machine_is_verified_unless_something_weaker_is_asked_for() {
        let cases = [
            ("host=db.example", TlsMode::VerifyFull),
            ("hostaddr=10.1.2.3", TlsMode::VerifyFull),
            ("host=db.example sslmode=prefer", TlsMode::Prefer),
            ("host=db.example sslmode=disable", TlsMode::Disable),
            ("host=db.example sslmode=require sslrootcert=/x", TlsMode::VerifyAuthority),
            ("host=db.example sslmode=require", TlsMode::Require),
            ("host=localhost", TlsMode::Prefer),
            ("host=127.0.0.1", TlsMode::Prefer),
            ("host=::1", TlsMode::Prefer),
            ("host=::ffff:127.0.0.1", TlsMode::Prefer),
            // The number is what is connected to, whatever the name claims.
            ("host=localhost hostaddr=10.1.2.3", TlsMode::VerifyFull),
            ("host=/tmp sslmode=verify-full", TlsMode::Disable),
            ("host=localhost sslrootcert=system", TlsMode::VerifyFull),
        ];
        for (text, mode) in cases {
            let address = parse_with(text, &[]).unwrap();
            assert_eq!(address.tls_mode(&address.endpoints[0].host), mode, "{text}");
        }
        assert!(!parse_with("host=localhost,db.example", &[]).unwrap().is_local());
        assert!(parse_with("host=localhost,/tmp,127.0.0.9", &[]).unwrap().is_local());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_remedy() {
        let cases: [(&str, Environment, &str); 14] = [
            ("port=x", &[], "character 1: port \"x\""),
            ("port=0", &[], "from 1 to 65535"),
            ("port=65536", &[], "from 1 to 65535"),
            ("", &[("PGPORT", "99999")], "environment variable PGPORT: port"),
            ("host=a,b port=1,2,3", &[], "3 ports for 2 hosts"),
            ("host=a,b hostaddr=1.1.1.1", &[], "2 hosts and 1 values of hostaddr"),
            ("hostaddr=name", &[], "is not an IP address"),
            ("sslmode=always", &[], "it can be disable, allow, prefer"),
            ("sslrootcert=system sslmode=require", &[], "needs sslmode=verify-full"),
            ("sslnegotiation=direct sslmode=prefer", &[], "sslmode=require or stronger"),
            ("connect_timeout=soon", &[], "not a number of seconds"),
            ("client_encoding=LATIN1", &[], "only be UTF8"),
            ("gssencmode=require", &[], "disable, prefer"),
            ("", &[("PGREQUIREAUTH", "scram-sha-256")], "unset it"),
        ];
        for (text, environment, expected) in cases {
            let error = parse_with(text, environment).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_in_the_string_is_refused_and_never_repeated() {
        for text in
            ["postgresql://u:canary@h/d", "host=h password=canary", "postgres://h?password=canary"]
        {
            let error = parse_with(text, &[]).unwrap_err().to_string();
            assert!(error.contains(".pgpass") && !error.contains("canary"), "{error}");
            let surroundings = Surroundings {
                environment: &|_| None,
                user_name: Some("u".to_owned()),
                home_directory: None,
                allow_password: true,
            };
            let address = Address::parse(text, &surroundings).unwrap();
            assert!(address.endpoints[0].password.is_some());
            assert!(!format!("{address:?} {address}").contains("canary"));
        }
        let address = parse_with("host=h", &[("PGPASSWORD", "canary")]).unwrap();
        assert!(!format!("{address:#?} {address}").contains("canary"));
    }

    #[test]
    fn files_are_found_and_take_their_place_in_the_order() {
        let home = tempfile::tempdir().unwrap();
        let service = home.path().join(".pg_service.conf");
        std::fs::write(
            &service,
            "# comment\n[other]\nhost=wrong\n\n[mine]\nhost = from_service\nport=7\nuser=svc\n[mine]\nhost=second\n[bad]\nhots=x\n[nested]\nservice=mine\n[broken]\nhost\n",
        )
        .unwrap();
        let passfile = home.path().join(".pgpass");
        std::fs::write(&passfile, "from_service:7:d:svc:one\nlocalhost:*:d:svc:two\n").unwrap();
        std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o600)).unwrap();
        let parse = |text: &str, environment: &[(&str, &str)]| {
            let surroundings = Surroundings {
                environment: &|name| {
                    let found = environment.iter().find(|(known, _)| *known == name);
                    found.map(|(_, value)| (*value).to_owned())
                },
                user_name: Some("osuser".to_owned()),
                home_directory: Some(home.path().to_owned()),
                allow_password: false,
            };
            Address::parse(text, &surroundings)
        };
        // String over service over environment.
        let address =
            parse("service=mine dbname=d", &[("PGHOST", "env"), ("PGPORT", "9")]).unwrap();
        assert_eq!((address.to_string(), address.user()), ("from_service:7/d".to_owned(), "svc"));
        assert!(address.endpoints[0].password.is_some());
        let address = parse("port=8", &[("PGSERVICE", "mine")]).unwrap();
        assert_eq!(address.to_string(), "from_service:8/svc");
        assert!(address.endpoints[0].password.is_none());
        // A socket in the usual directory is "localhost" to the password file.
        let address = parse("host=/tmp user=svc dbname=d", &[]).unwrap();
        assert!(address.endpoints[0].password.is_some());

        std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o644)).unwrap();
        let address = parse("host=/tmp user=svc dbname=d", &[]).unwrap();
        assert!(address.endpoints[0].password.is_none());
        assert!(address.warnings()[0].contains("chmod 0600"));

        let cases = [
            ("service=none", "is not defined in"),
            ("service=bad", "line 12: unknown parameter \"hots\"; did you mean host"),
            ("service=nested", "line 14: a service cannot refer"),
            ("service=broken", "line 16: \"=\" is missing"),
        ];
        for (text, expected) in cases {
            let error = parse(text, &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let named = home.path().join("named.conf");
        std::fs::write(&named, "[mine]\nhost=named\n").unwrap();
        let environment = [("PGSERVICEFILE", named.to_str().unwrap()), ("PGSERVICE", "mine")];
        assert_eq!(parse("", &environment).unwrap().to_string(), "named:5432/osuser");
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in "[a-z0-9=:/@?&%, '\\\\\\[\\]_.-]{0,60}") {
            if let Ok(address) = parse_with(&text, &[]) {
                prop_assert!(!address.endpoints.is_empty());
                prop_assert!(!address.to_string().is_empty());
            }
        }
    }
}
