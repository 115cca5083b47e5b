//! A PostgreSQL server of our own: in a private directory, reachable through a socket inside it
//! only, run by an ordinary user, gone when its value is gone.
//!
//! # Rules
//!
//! 1. Nothing outside of the private directory is written, and no directory without our marker is
//!    ever removed ([`PrivateDirectory`]).
//! 2. No shell: the postmaster is our own child, with a fixed argument vector, an environment that
//!    holds nothing but what is declared, and a process group of its own, so that a terminal's
//!    interruption reaches us first.
//! 3. No orphan: the postmaster is shut down by the kernel's parent-death signal when we are killed
//!    (where `setpriv` is there to arrange it); what a killed process has left all the same, a
//!    directory or a server that was frozen or in recovery, is ended and removed by the next server
//!    that is made beside it ([`remove_leftovers`]).
//! 4. Settings are written to a file of their own, included last, at every start: the data that
//!    two arms share hold no settings.

mod directory;
mod leftovers;
mod process;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::runtime::Runtime;

use super::address::Address;
use super::binaries::Binaries;
use super::client::{Client, ClientError};
use crate::target::TargetError;
pub use directory::{PrivateDirectory, SystemUser, ordinary_user};
pub use leftovers::{Leftover, remove_leftovers};
use process::{Finished, Postmaster};
pub use process::{has_stopped_process, postmaster_of, process_tree};

/// The superuser of managed servers.
pub const SUPERUSER: &str = "postgres";

/// The database of managed servers.
pub const DATABASE: &str = "postgres";

/// It only names the socket: no network is listened on.
const PORT: u16 = 5432;

/// The longest path a Unix socket can have on Linux, its end excluded.
const LONGEST_SOCKET_PATH: usize = 107;

/// How often a thing is looked at that sends no message when it happens.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often is told what is waited for.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// How long a starting server may take to let a session in before it is asked anew.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a fast shutdown may take of a server that has not answered for longer than that already.
const UNANSWERING_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Our settings, included by the server's own configuration.
const SETTINGS_FILE: &str = "evenkeel.conf";

/// What kind of server is wanted.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The programs.
    pub binaries: Binaries,
    /// Part of the private directory's name, for people: the arm's name, for example. Letters,
    /// digits and hyphens stay, the rest is dropped.
    pub name: String,
    /// Where the private directory is made; `None`: see [`default_parent`].
    pub parent: Option<PathBuf>,
    /// The user's settings; they win over [`laboratory_settings`].
    pub settings: BTreeMap<String, String>,
    /// What the server's environment holds beside `PATH`, `HOME`, `LC_ALL` and `TZ`.
    pub environment: BTreeMap<String, String>,
    /// How the data directory is made.
    pub initdb: InitdbOptions,
    /// Whether the directory stays; its owner names it to the user.
    pub is_kept: bool,
    /// How long a start may take; recovery counts.
    pub start_timeout: Duration,
    /// How long a fast shutdown may take before an immediate one is ordered.
    pub stop_timeout: Duration,
    /// Set when the user wants out: waits end early, and shutdowns are immediate.
    pub stop: Arc<AtomicBool>,
}

/// How a data directory is made. The locale is always `C`, the encoding UTF-8; files are not
/// synchronised by initdb, since taking the snapshot does that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitdbOptions {
    /// Whether pages carry checksums; `None`: as the version does by itself (off before 18).
    pub has_checksums: Option<bool>,
    /// Size of a segment of the log in MiB, a power of two; `None`: as the version does.
    pub wal_segment_mib: Option<u32>,
    /// Further arguments, each a word of its own.
    pub extra_arguments: Vec<String>,
}

/// A private server; started or not.
pub struct ManagedServer {
    options: ServerOptions,
    runtime: Arc<dyn Runtime>,
    directory: PrivateDirectory,
    /// Apart from `directory` where that has too long a path for a socket.
    socket_directory: Option<PrivateDirectory>,
    owner: Option<SystemUser>,
    postmaster: Option<Postmaster>,
    is_frozen: bool,
}

/// Something about a managed server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A file or directory.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// initdb, or the start, failed.
    #[error("{program} failed ({status}):\n{output}")]
    Program {
        /// Its path.
        program: PathBuf,
        /// How it ended.
        status: String,
        /// The last lines it wrote.
        output: String,
    },
    /// Nothing happened for too long.
    #[error(
        "the server in {directory} was not ready within {seconds} s; its last words:\n{output}"
    )]
    StartTimeout {
        /// Where it is.
        directory: PathBuf,
        /// How long was waited.
        seconds: u64,
        /// The last lines of its log.
        output: String,
    },
    /// The server ended though nobody told it to.
    #[error("the server in {directory} ended ({status}); its last words:\n{output}")]
    Ended {
        /// Where it is.
        directory: PathBuf,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        output: String,
    },
    /// It cannot be done in the state the server is in, or with these options.
    #[error("{0}")]
    Refused(String),
    /// The user wants out.
    #[error("interrupted")]
    Interrupted,
    /// The session could not be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A statement of administration failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl ServerError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// It was not running.
    WasDown,
    /// Fast: with a checkpoint, so that the data can be copied.
    Fast,
    /// Immediate: the data need recovery.
    Immediate,
    /// Killed.
    Killed,
}

impl ServerOptions {
    /// A server of these binaries with nothing else declared.
    #[must_use]
    pub fn new(binaries: Binaries, name: &str, stop: Arc<AtomicBool>) -> Self {
        Self {
            binaries,
            name: name.to_owned(),
            parent: None,
            settings: BTreeMap::new(),
            environment: BTreeMap::new(),
            initdb: InitdbOptions::default(),
            is_kept: false,
            start_timeout: Duration::from_secs(120),
            stop_timeout: Duration::from_secs(300),
            stop,
        }
    }
}

impl ManagedServer {
    /// Makes the private directory, without data in it: see [`Self::initialise`] and
    /// [`Self::data_directory`] (to restore a snapshot into).
    ///
    /// # Errors
    /// When the directory cannot be made, or binaries or directory are out of reach for the user
    /// who would run the server.
    pub fn create(options: ServerOptions, runtime: &Arc<dyn Runtime>) -> Result<Self, ServerError> {
        let owner = if rustix::process::geteuid().is_root() {
            Some(ordinary_user().ok_or_else(|| {
                ServerError::Refused(
                    "PostgreSQL refuses to run as root, and /etc/passwd holds neither a user \
                     'postgres' nor a user 'nobody' to run it as: run evenkeel as an ordinary user"
                        .to_owned(),
                )
            })?)
        } else {
            None
        };
        let parent = options.parent.clone().unwrap_or_else(default_parent);
        if let Some(owner) = &owner {
            check_reach(&parent, owner, "the servers' directory")?;
            check_reach(options.binaries.directory(), owner, "the binaries' directory")?;
        }
        // Who wants to tell of it has called it before.
        let _ = remove_leftovers(&parent, runtime.as_ref());
        let purpose: String = options
            .name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .take(40)
            .collect();
        let mut directory =
            PrivateDirectory::create(&parent, &purpose, owner.as_ref(), runtime.as_ref())
                .map_err(ServerError::io("making a server's private directory"))?;
        directory.keep(options.is_kept);
        let socket_directory = if fits_socket(directory.path()) {
            None
        } else {
            let short = Path::new("/tmp");
            Some(
                PrivateDirectory::create(short, "s", owner.as_ref(), runtime.as_ref())
                    .map_err(ServerError::io("making a private directory for the socket"))?,
            )
        };
        Ok(Self {
            options,
            runtime: Arc::clone(runtime),
            directory,
            socket_directory,
            owner,
            postmaster: None,
            is_frozen: false,
        })
    }

    /// Runs initdb.
    ///
    /// # Errors
    /// When initdb fails, with its last words, or when the user wants out.
    pub fn initialise(&mut self) -> Result<(), ServerError> {
        let program = self.options.binaries.program("initdb");
        let mut arguments: Vec<String> =
            ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"]
                .map(str::to_owned)
                .to_vec();
        arguments.push(self.data_directory().display().to_string());
        arguments.push(format!("--username={SUPERUSER}"));
        match (self.options.initdb.has_checksums, self.options.binaries.major()) {
            (Some(true), _) => arguments.push("--data-checksums".to_owned()),
            // Earlier versions do not know the option and need not: off is what they do.
            (Some(false), 18..) => arguments.push("--no-data-checksums".to_owned()),
            (Some(false) | None, _) => {}
        }
        if let Some(mib) = self.options.initdb.wal_segment_mib {
            if self.options.binaries.major() < 11 {
                return Err(ServerError::Refused(format!(
                    "the size of log segments cannot be chosen in PostgreSQL {}: from 11 on it can",
                    self.options.binaries.major()
                )));
            }
            arguments.push(format!("--wal-segsize={mib}"));
        }
        arguments.extend(self.options.initdb.extra_arguments.iter().cloned());
        let output = self.directory.path().join("initdb.log");
        let finished = process::run_to_end(
            &process::Start {
                program: &program,
                arguments: &arguments,
                directory: self.directory.path(),
                output: &output,
                environment: &self.environment(),
                owner: self.owner.as_ref(),
            },
            self.runtime.as_ref(),
            &self.options.stop,
        )
        .map_err(ServerError::io(format!("running {}", program.display())))?;
        match finished {
            Finished::Interrupted => return Err(ServerError::Interrupted),
            Finished::Status(status) if !status.success() => {
                return Err(ServerError::Program {
                    program,
                    status: status.to_string(),
                    output: last_lines(&output),
                });
            }
            Finished::Status(_) => {}
        }
        let configuration = self.data_directory().join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&configuration)
            .map_err(ServerError::io(format!("opening {}", configuration.display())))?;
        writeln!(file, "\ninclude_if_exists '{SETTINGS_FILE}'")
            .map_err(ServerError::io(format!("writing {}", configuration.display())))
    }

    /// Starts the server and waits until it takes sessions.
    ///
    /// # Errors
    /// When it does not come up, with the last lines of its log, or when the user wants out; it is
    /// down again then.
    pub fn start(&mut self) -> Result<(), ServerError> {
        self.start_telling(&mut |_| {})
    }

    /// As [`Self::start`]; `tell` hears what is waited for, and for how much longer, where it takes
    /// more than a few seconds.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_telling(&mut self, tell: &mut dyn FnMut(&str)) -> Result<(), ServerError> {
        if self.postmaster.is_some() {
            return Err(ServerError::Refused("the server is running already".to_owned()));
        }
        self.write_settings()?;
        let log = self.log_path();
        let program = self.options.binaries.program("postgres");
        let data = self.data_directory();
        let postmaster = Postmaster::start(
            &process::Start {
                program: &program,
                arguments: &["-D".to_owned(), data.display().to_string()],
                directory: self.directory.path(),
                output: &log,
                environment: &self.environment(),
                owner: self.owner.as_ref(),
            },
            &self.runtime,
        )
        .map_err(ServerError::io(format!("starting {}", program.display())))?;
        self.postmaster = Some(postmaster);
        let result = self.wait_until_ready(tell);
        if result.is_err() {
            self.stop()?;
        }
        result
    }

    /// Stops the server: fast, and immediately where that takes too long or the user wants out.
    ///
    /// # Errors
    /// When even killing it did not end it.
    pub fn stop(&mut self) -> Result<Shutdown, ServerError> {
        self.stop_within(self.options.stop_timeout)
    }

    /// Stops a server that does not answer, in bounded time: its processes are let go on where they
    /// are stopped, then a fast shutdown for 10 s, an immediate one for 10 s, then force.
    ///
    /// # Errors
    /// When even killing it did not end it.
    pub fn stop_unanswering(&mut self) -> Result<Shutdown, ServerError> {
        self.stop_within(UNANSWERING_STOP_TIMEOUT)
    }

    /// Whether a process of the server is stopped (SIGSTOP, or by a debugger): it cannot answer.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.postmaster.as_ref().is_some_and(Postmaster::is_suspended)
    }

    fn stop_within(&mut self, timeout: Duration) -> Result<Shutdown, ServerError> {
        if self.is_frozen {
            self.thaw()?;
        }
        let Some(postmaster) = self.postmaster.as_mut() else { return Ok(Shutdown::WasDown) };
        let timeout =
            if self.options.stop.load(Ordering::Relaxed) { Duration::ZERO } else { timeout };
        let shutdown = postmaster
            .stop(timeout, self.runtime.as_ref(), &self.options.stop)
            .map_err(ServerError::io("stopping the server"))?;
        self.postmaster = None;
        Ok(shutdown)
    }

    /// Stops the server and removes its directory, unless it is kept.
    ///
    /// # Errors
    /// When it cannot be stopped, or something cannot be removed.
    pub fn remove(mut self) -> Result<(), ServerError> {
        self.stop()?;
        if self.directory.is_kept() {
            return Ok(());
        }
        if let Some(socket) = self.socket_directory.as_mut() {
            socket.remove().map_err(ServerError::io("removing the socket's directory"))?;
        }
        self.directory.remove().map_err(ServerError::io("removing the server's directory"))
    }

    /// Where and as whom the server is reached.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::unix_socket(self.socket_path(), PORT, SUPERUSER, DATABASE)
    }

    /// A session for administration.
    ///
    /// # Errors
    /// When the server does not take it.
    pub fn connect(&self) -> Result<Client, ServerError> {
        Ok(Client::connect(&self.address(), &self.runtime)?)
    }

    /// The private directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where the data are, or will be.
    #[must_use]
    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Where the server writes its log; it grows over starts.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    /// The user who owns the files, where that is not us.
    #[must_use]
    pub const fn owner(&self) -> Option<&SystemUser> {
        self.owner.as_ref()
    }

    /// What was asked for.
    #[must_use]
    pub const fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Other settings from the next start on.
    pub fn set_settings(&mut self, settings: BTreeMap<String, String>) {
        self.options.settings = settings;
    }

    /// Whether the directory stays when this value goes.
    pub const fn keep(&mut self, is_kept: bool) {
        self.directory.keep(is_kept);
    }

    /// The postmaster's process; `None` when it is down.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.postmaster.as_ref().map(Postmaster::process_id)
    }

    /// Whether the postmaster is alive. A crash of one of its processes, after which it starts all
    /// others anew, shows in the log only (`server_log`).
    ///
    /// # Errors
    /// [`ServerError::Ended`] when it has ended by itself.
    pub fn check_alive(&mut self) -> Result<(), ServerError> {
        let ended = match self.postmaster.as_mut() {
            None => return Err(ServerError::Refused("the server is not running".to_owned())),
            Some(postmaster) => {
                postmaster.status().map_err(ServerError::io("asking for the server"))?
            }
        };
        match ended {
            None => Ok(()),
            Some(status) => Err(ServerError::Ended {
                directory: self.directory.path().to_owned(),
                status: status.to_string(),
                output: last_lines(&self.log_path()),
            }),
        }
    }

    /// Stops all of the server's processes in their tracks (SIGSTOP): no answer comes any more, no
    /// connection breaks.
    ///
    /// # Errors
    /// When it is not running.
    pub fn freeze(&mut self) -> Result<(), ServerError> {
        let postmaster = self
            .postmaster
            .as_ref()
            .ok_or_else(|| ServerError::Refused("the server is not running".to_owned()))?;
        // Marked first: a freeze that fails half-way is undone by `thaw`.
        self.is_frozen = true;
        postmaster.freeze(self.runtime.as_ref()).map_err(ServerError::io("freezing the server"))
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// When it is not running.
    pub fn thaw(&mut self) -> Result<(), ServerError> {
        self.is_frozen = false;
        self.postmaster
            .as_ref()
            .ok_or_else(|| ServerError::Refused("the server is not running".to_owned()))?
            .thaw()
            .map_err(ServerError::io("letting the server go on"))
    }

    fn socket_path(&self) -> &Path {
        self.socket_directory.as_ref().map_or_else(|| self.directory.path(), PrivateDirectory::path)
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment: BTreeMap<String, String> = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", self.directory.path().display().to_string()),
            ("LC_ALL", "C".to_owned()),
            ("TZ", "UTC".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        environment.extend(self.options.environment.clone());
        environment
    }

    fn write_settings(&self) -> Result<(), ServerError> {
        let mut settings = laboratory_settings(self.options.binaries.major());
        settings.extend(self.options.settings.clone());
        // Where it listens is not the user's to say: anything else would leave the directory.
        settings.extend(
            [
                ("listen_addresses", String::new()),
                ("port", PORT.to_string()),
                ("unix_socket_directories", self.socket_path().display().to_string()),
                ("unix_socket_permissions", "0700".to_owned()),
                ("logging_collector", "off".to_owned()),
                ("log_destination", "stderr".to_owned()),
                ("log_line_prefix", LOG_LINE_PREFIX.to_owned()),
                ("log_timezone", "UTC".to_owned()),
                ("lc_messages", "C".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        let text = settings_text(&settings)?;
        let path = self.data_directory().join(SETTINGS_FILE);
        let failed = || format!("writing {}", path.display());
        std::fs::write(&path, text).map_err(ServerError::io(failed()))?;
        if let Some(owner) = &self.owner {
            std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid))
                .map_err(ServerError::io(failed()))?;
        }
        Ok(())
    }

    fn wait_until_ready(&mut self, tell: &mut dyn FnMut(&str)) -> Result<(), ServerError> {
        let began = self.runtime.now();
        let deadline = began.plus(self.options.start_timeout);
        let mut next_word = began.plus(TELL_EVERY);
        // Short, so that a server that takes the connection and says nothing is told of.
        let address = self.address().with_connect_timeout(ANSWER_TIMEOUT);
        let status_file = self.data_directory().join("postmaster.pid");
        loop {
            self.check_alive()?;
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(ServerError::Interrupted);
            }
            // The eighth line is the state, since version 10 (src/include/utils/pidfile.h).
            let is_ready = std::fs::read_to_string(&status_file)
                .is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"));
            if is_ready
                && Client::connect_heeding(&address, &self.runtime, &self.options.stop).is_ok()
            {
                return Ok(());
            }
            let now = self.runtime.now();
            if now >= next_word && now < deadline {
                next_word = now.plus(TELL_EVERY);
                tell(&format!(
                    "the server in {} is not ready after {} s{}; it is waited for {} s more at most",
                    self.directory.path().display(),
                    now.since(began).as_secs(),
                    if self.is_suspended() {
                        ": processes of it are stopped (SIGSTOP, or a debugger)".to_owned()
                    } else {
                        format!("; its last word: {}", last_line(&self.log_path()))
                    },
                    deadline.since(now).as_secs()
                ));
            }
            if now >= deadline {
                return Err(ServerError::StartTimeout {
                    directory: self.directory.path().to_owned(),
                    seconds: self.options.start_timeout.as_secs(),
                    output: last_lines(&self.log_path()),
                });
            }
            self.runtime.sleep_until(self.runtime.now().plus(LOOK_EVERY));
        }
    }
}

impl Drop for ManagedServer {
    fn drop(&mut self) {
        // A value is dropped without `remove` after an error or a panic: nobody waits for a
        // checkpoint then. Errors have nowhere to go.
        if self.is_frozen {
            let _ = self.thaw();
        }
        if let Some(mut postmaster) = self.postmaster.take() {
            let timeout =
                if self.directory.is_kept() { Duration::from_secs(60) } else { Duration::ZERO };
            let _ = postmaster.stop(timeout, self.runtime.as_ref(), &self.options.stop);
        }
    }
}

impl std::fmt::Debug for ManagedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManagedServer")
            .field("directory", &self.directory.path())
            .field("version", &self.options.binaries.version())
            .field("process", &self.process_id())
            .finish_non_exhaustive()
    }
}

/// What every line of a managed server's log begins with: time with milliseconds, process.
pub const LOG_LINE_PREFIX: &str = "%m [%p] ";

/// Settings of every managed server that the user does not override: they make the server say what
/// the timeline needs, and change nothing that is measured.
#[must_use]
pub fn laboratory_settings(_major: u32) -> BTreeMap<String, String> {
    [
        ("log_checkpoints", "on"),
        ("log_autovacuum_min_duration", "0"),
        ("log_lock_waits", "on"),
        ("log_temp_files", "0"),
        ("timezone", "UTC"),
        // Room for the load's sessions and ours; the default of 100 is soon used up.
        ("max_connections", "200"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// Where servers' directories are made unless said otherwise: where `TMPDIR` says; else `/var/tmp`, which is
/// on a disk where `/tmp` often is memory; else the system's directory for temporary files.
#[must_use]
pub fn default_parent() -> PathBuf {
    parent_of(std::env::var_os("TMPDIR"))
}

fn parent_of(wish: Option<OsString>) -> PathBuf {
    let wish = wish.filter(|directory| !directory.is_empty()).map(PathBuf::from);
    wish.unwrap_or_else(|| {
        let persistent = PathBuf::from("/var/tmp");
        if persistent.is_dir() { persistent } else { std::env::temp_dir() }
    })
}

/// The settings as a configuration file.
fn settings_text(settings: &BTreeMap<String, String>) -> Result<String, ServerError> {
    use std::fmt::Write as _;
    let mut text = String::from("# Written by evenkeel at every start.\n");
    for (name, value) in settings {
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        if !is_name {
            return Err(ServerError::Refused(format!("'{name}' is not the name of a setting")));
        }
        if value.contains(['\n', '\r', '\0']) {
            return Err(ServerError::Refused(format!(
                "the value of setting '{name}' holds a line end or NUL, which no configuration \
                 file can hold"
            )));
        }
        let quoted = value.replace('\\', "\\\\").replace('\'', "''");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} = '{quoted}'");
    }
    Ok(text)
}

/// Whether a server's socket fits in `directory`.
fn fits_socket(directory: &Path) -> bool {
    directory.as_os_str().len() + format!("/.s.PGSQL.{PORT}").len() <= LONGEST_SOCKET_PATH
}

/// Whether `owner` may pass through all of `path`.
fn check_reach(path: &Path, owner: &SystemUser, what: &str) -> Result<(), ServerError> {
    use std::os::unix::fs::MetadataExt;
    let absolute = std::fs::canonicalize(path)
        .map_err(ServerError::io(format!("{what} {}", path.display())))?;
    for part in absolute.ancestors() {
        let metadata = std::fs::metadata(part)
            .map_err(ServerError::io(format!("looking at {}", part.display())))?;
        let needed = if metadata.uid() == owner.uid {
            0o100
        } else if metadata.gid() == owner.gid {
            0o010
        } else {
            0o001
        };
        if metadata.mode() & needed == 0 {
            return Err(ServerError::Refused(format!(
                "{what} {} is out of reach for the user '{}', who has to run the server since root \
                 may not: {} is closed to that user. Move it, open that directory (chmod a+x), or \
                 run evenkeel as an ordinary user",
                path.display(),
                owner.name,
                part.display()
            )));
        }
    }
    Ok(())
}

/// The last line of a log, without its indentation.
fn last_line(path: &Path) -> String {
    last_lines(path).lines().last().unwrap_or_default().trim().to_owned()
}

/// The end of a log, for an error message.
fn last_lines(path: &Path) -> String {
    const LINES: usize = 15;
    const BYTES: usize = 16 * 1024;
    let Ok(bytes) = std::fs::read(path) else { return "(no log)".to_owned() };
    let tail = &bytes[bytes.len().saturating_sub(BYTES)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "(the log is empty)".to_owned();
    }
    lines[lines.len().saturating_sub(LINES)..]
        .iter()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests;
