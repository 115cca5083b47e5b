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

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::conninfo::{self, Parameter, Parameters};
use super::{password, service_file};
use crate::secret::Secret;

/// The port of a server that says nothing else.
pub const DEFAULT_PORT: u16 = 5432;

/// How long one host may take to answer, where nothing else is asked (libpq would wait for ever).
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Directories in which servers put their sockets: Debian's and Fedora's, and upstream's.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

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
        complete_from_environment(&mut parameters, surroundings)?;
        Resolver { parameters: &parameters, surroundings }.address()
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

/// Variables of the environment and the parameters they stand for (libpq's `PQconninfoOptions`).
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLSNI", "sslsni"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGCLIENTENCODING", "client_encoding"),
];

/// Variables whose neglect would weaken what the user asked for.
const REFUSED_ENVIRONMENT: &[&str] =
    &["PGREQUIREAUTH", "PGREQUIREPEER", "PGSSLCRL", "PGSSLCRLDIR", "PGSSLMINPROTOCOLVERSION"];

fn complete_from_environment(
    parameters: &mut Parameters,
    surroundings: &Surroundings<'_>,
) -> Result<(), AddressError> {
    let lookup = |name: &str| (surroundings.environment)(name).filter(|value| !value.is_empty());
    for name in REFUSED_ENVIRONMENT {
        if lookup(name).is_some() {
            return Err(AddressError::new(format!(
                "environment variable {name} is not supported; unset it"
            )));
        }
    }
    for (variable, name) in ENVIRONMENT {
        if let Some(value) = lookup(variable) {
            parameters.entry(name).or_insert_with(|| Parameter {
                value,
                origin: format!("environment variable {variable}"),
            });
        }
    }
    Ok(())
}

/// Makes an address of completed parameters.
struct Resolver<'a> {
    parameters: &'a Parameters,
    surroundings: &'a Surroundings<'a>,
}

impl Resolver<'_> {
    fn address(&self) -> Result<Address, AddressError> {
        let user = match self.text("user") {
            Some(user) => user.to_owned(),
            None => self.surroundings.user_name.clone().ok_or_else(|| {
                AddressError::new("no user is given and this process has none; add user=...")
            })?,
        };
        let database = self.text("dbname").unwrap_or(&user).to_owned();
        self.refuse_other_encodings()?;
        let mut address = Address {
            endpoints: self.endpoints()?,
            database,
            user,
            application_name: self
                .text("application_name")
                .or_else(|| self.text("fallback_application_name"))
                .unwrap_or("evenkeel")
                .to_owned(),
            options: self.text("options").map(str::to_owned),
            connect_timeout: self.connect_timeout()?,
            session_attributes: self.choice(
                "target_session_attrs",
                SessionAttributes::Any,
                &[
                    ("any", SessionAttributes::Any),
                    ("read-write", SessionAttributes::ReadWrite),
                    ("read-only", SessionAttributes::ReadOnly),
                    ("primary", SessionAttributes::Primary),
                    ("standby", SessionAttributes::Standby),
                    ("prefer-standby", SessionAttributes::PreferStandby),
                ],
            )?,
            keepalives: self.choice("keepalives", true, &[("0", false), ("1", true)])?,
            tls: self.tls()?,
            warnings: Vec::new(),
        };
        self.passwords(&mut address)?;
        Ok(address)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.parameters
            .get(name)
            .map(|parameter| parameter.value.as_str())
            .filter(|value| !value.is_empty())
    }

    fn error(&self, name: &str, what: &str) -> AddressError {
        let origin =
            self.parameters.get(name).map_or("connection string", |found| found.origin.as_str());
        AddressError::new(format!("{origin}: {what}"))
    }

    fn choice<T: Copy>(
        &self,
        name: &str,
        default: T,
        choices: &[(&str, T)],
    ) -> Result<T, AddressError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        choices.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice).ok_or_else(
            || {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                let shown = crate::text::excerpt(value, 40);
                self.error(name, &format!("{name} is \"{shown}\"; it can be {}", words.join(", ")))
            },
        )
    }

    fn refuse_other_encodings(&self) -> Result<(), AddressError> {
        self.choice("gssencmode", (), &[("disable", ()), ("prefer", ())])?;
        let Some(encoding) = self.text("client_encoding") else { return Ok(()) };
        let word: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
        if word.eq_ignore_ascii_case("utf8") || word.eq_ignore_ascii_case("auto") {
            return Ok(());
        }
        Err(self.error("client_encoding", "client_encoding can only be UTF8; leave it out"))
    }

    fn connect_timeout(&self) -> Result<Option<Duration>, AddressError> {
        let Some(value) = self.text("connect_timeout") else {
            return Ok(Some(DEFAULT_CONNECT_TIMEOUT));
        };
        let seconds: i32 = value.trim().parse().map_err(|_| {
            self.error("connect_timeout", "connect_timeout is not a number of seconds")
        })?;
        // Zero and below wait for ever, as in libpq.
        Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
    }

    fn tls(&self) -> Result<TlsSettings, AddressError> {
        let mode = self.choice(
            "sslmode",
            None,
            &[
                ("disable", Some(TlsMode::Disable)),
                ("allow", Some(TlsMode::Allow)),
                ("prefer", Some(TlsMode::Prefer)),
                ("require", Some(TlsMode::Require)),
                ("verify-ca", Some(TlsMode::VerifyAuthority)),
                ("verify-full", Some(TlsMode::VerifyFull)),
            ],
        )?;
        let user_file = |name: &str| {
            let home = self.surroundings.home_directory.as_ref()?;
            Some(home.join(".postgresql").join(name)).filter(|path| path.exists())
        };
        let root_certificates = match self.text("sslrootcert") {
            Some("system") => RootCertificates::System,
            Some(path) => RootCertificates::File(PathBuf::from(path)),
            None => user_file("root.crt").map_or(RootCertificates::Default, RootCertificates::File),
        };
        let mode = match (mode, &root_certificates) {
            // Anybody can get a certificate of a public authority, for some name.
            (Some(weak), RootCertificates::System) if weak < TlsMode::VerifyFull => {
                return Err(self.error(
                    "sslmode",
                    "sslrootcert=system needs sslmode=verify-full; leave sslmode out",
                ));
            }
            (None, RootCertificates::System) => Some(TlsMode::VerifyFull),
            // For compatibility, libpq's `require` verifies where authorities are known.
            (Some(TlsMode::Require), RootCertificates::File(_)) => Some(TlsMode::VerifyAuthority),
            (mode, _) => mode,
        };
        let direct =
            self.choice("sslnegotiation", false, &[("postgres", false), ("direct", true)])?;
        if direct && mode.is_some_and(|mode| mode < TlsMode::Require) {
            return Err(self.error(
                "sslnegotiation",
                "sslnegotiation=direct needs sslmode=require or stronger",
            ));
        }
        let client_certificate =
            self.text("sslcert").map(PathBuf::from).or_else(|| user_file("postgresql.crt"));
        let client_key =
            self.text("sslkey").map(PathBuf::from).or_else(|| user_file("postgresql.key"));
        Ok(TlsSettings {
            mode,
            direct,
            root_certificates,
            client_key: client_key.filter(|_| client_certificate.is_some()),
            client_certificate,
            channel_binding: self.choice(
                "channel_binding",
                ChannelBindingPolicy::Prefer,
                &[
                    ("disable", ChannelBindingPolicy::Disable),
                    ("prefer", ChannelBindingPolicy::Prefer),
                    ("require", ChannelBindingPolicy::Require),
                ],
            )?,
            hide_server_name: self.choice("sslsni", false, &[("0", true), ("1", false)])?,
            configurations: super::tls::ConfigurationCache::default(),
        })
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, AddressError> {
        let split = |name: &str| -> Vec<&str> {
            self.text(name).map(|list| list.split(',').map(str::trim).collect()).unwrap_or_default()
        };
        let (names, numbers, ports) = (split("host"), split("hostaddr"), split("port"));
        if !names.is_empty() && !numbers.is_empty() && names.len() != numbers.len() {
            return Err(self.error(
                "hostaddr",
                &format!("{} hosts and {} values of hostaddr", names.len(), numbers.len()),
            ));
        }
        let count = names.len().max(numbers.len()).max(1);
        if ports.len() > 1 && ports.len() != count {
            return Err(self.error(
                "port",
                &format!("{} ports for {count} hosts; give one, or one for each", ports.len()),
            ));
        }
        let mut endpoints = Vec::with_capacity(count);
        for i in 0..count {
            let port = ports.get(i).or_else(|| ports.first().filter(|_| ports.len() == 1));
            let port = match port.copied().unwrap_or("") {
                "" => DEFAULT_PORT,
                text => text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
                    let shown = crate::text::excerpt(text, 20);
                    self.error("port", &format!("port \"{shown}\" is not a number from 1 to 65535"))
                })?,
            };
            let name = names.get(i).copied().unwrap_or("");
            let number = numbers.get(i).copied().unwrap_or("");
            endpoints.push(Endpoint { host: self.host(name, number, port)?, port, password: None });
        }
        Ok(endpoints)
    }

    fn host(&self, name: &str, number: &str, port: u16) -> Result<Host, AddressError> {
        if !number.is_empty() {
            let parsed = number.parse::<IpAddr>().map_err(|_| {
                let shown = crate::text::excerpt(number, 60);
                self.error("hostaddr", &format!("hostaddr \"{shown}\" is not an IP address"))
            })?;
            let name = if name.is_empty() { number } else { name };
            return Ok(Host::Network { name: name.to_owned(), number: Some(parsed) });
        }
        Ok(match name {
            "" => Host::Socket(default_socket_directory(port)),
            path if path.starts_with('/') || path.starts_with('@') => {
                Host::Socket(PathBuf::from(path))
            }
            name => Host::Network { name: name.to_owned(), number: name.parse().ok() },
        })
    }

    /// Gives each endpoint the password that was named, or that the password file holds for it.
    fn passwords(&self, address: &mut Address) -> Result<(), AddressError> {
        if let Some(password) = self.text("password") {
            let password = Secret::new(password);
            for endpoint in &mut address.endpoints {
                endpoint.password = Some(password.clone());
            }
            return Ok(());
        }
        let path = self
            .text("passfile")
            .map(PathBuf::from)
            .or_else(|| self.surroundings.home_directory.as_ref().map(|home| home.join(".pgpass")));
        let Some(path) = path else { return Ok(()) };
        let file = match password::PasswordFile::read(&path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(()),
            Err(warning) => {
                address.warnings.push(warning);
                return Ok(());
            }
        };
        for endpoint in &mut address.endpoints {
            let host = match &endpoint.host {
                // As libpq: a socket in the default directory is looked up as "localhost".
                Host::Socket(directory)
                    if SOCKET_DIRECTORIES.iter().any(|known| directory == Path::new(known)) =>
                {
                    "localhost".to_owned()
                }
                Host::Socket(directory) => directory.to_string_lossy().into_owned(),
                Host::Network { name, .. } => name.clone(),
            };
            endpoint.password =
                file.password(&host, endpoint.port, &address.database, &address.user);
        }
        Ok(())
    }
}

/// Where a server at `port` has its socket; where there is none, where the system would put it.
fn default_socket_directory(port: u16) -> PathBuf {
    let has_socket =
        |directory: &&&str| Path::new(directory).join(format!(".s.PGSQL.{port}")).exists();
    let exists = |directory: &&&str| Path::new(directory).is_dir();
    let directories = SOCKET_DIRECTORIES.iter();
    let found = directories.clone().find(has_socket).or_else(|| directories.clone().find(exists));
    PathBuf::from(found.copied().unwrap_or(SOCKET_DIRECTORIES[1]))
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
