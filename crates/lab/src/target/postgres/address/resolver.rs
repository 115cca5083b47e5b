//! From parameters, completed from the environment, to an address: each value checked, each default
//! filled in.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::conninfo::{Parameter, Parameters};
use super::super::password;
use super::{
    Address, AddressError, ChannelBindingPolicy, DEFAULT_CONNECT_TIMEOUT, DEFAULT_PORT, Endpoint,
    Host, RootCertificates, SessionAttributes, Surroundings, TlsMode, TlsSettings,
};
use crate::secret::Secret;

/// Directories in which servers put their sockets: Debian's and Fedora's, and upstream's.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

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

pub(super) fn complete_from_environment(
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
pub(super) struct Resolver<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) surroundings: &'a Surroundings<'a>,
}

impl Resolver<'_> {
    pub(super) fn address(&self) -> Result<Address, AddressError> {
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
            configurations: super::super::tls::ConfigurationCache::default(),
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
