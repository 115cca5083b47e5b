//! `evenkeel init`: load pgbench's tables.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{Instant, OsRuntime, Runtime};
use evenkeel_lab::initialise::{
    InitialiseError, InitialiseOptions, Need, PartitionMethod, Phase, initialise, needs,
};
use evenkeel_lab::target::postgres::address::Address;
use evenkeel_lab::target::postgres::client::Client;
use evenkeel_lab::target::postgres::snapshot::free_bytes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::connection::ConnectionOptions;
use crate::exit::Outcome;
use crate::{interruption, progress};

/// Where progress is not shown on a terminal it is told this often.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Load pgbench's tables
///
/// Names, columns, values and option names are those of `pgbench -i`, so that pgbench and its scripts
/// run on them. Tables that evenkeel did not make are never dropped without --force. A load that is
/// broken off is undone, or leaves tables that are marked and refused by every run.
///
/// Exit codes: 0 when the tables are loaded; 1 when they are not, for wrong usage included; 130 when
/// interrupted.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connection: ConnectionOptions,
    /// 100,000 accounts (about 15 MB) for each unit
    #[arg(short = 's', long, default_value_t = 1)]
    scale: u64,
    /// Percent of each page that is filled, 10 to 100
    #[arg(short = 'F', long, value_name = "PERCENT")]
    fillfactor: Option<u32>,
    /// Sessions that load. One puts each row where pgbench puts it, the same at each load; more are
    /// faster on large tables, and interleave their pages
    #[arg(short = 'j', long, default_value_t = 1)]
    jobs: u32,
    /// Make tables without log: faster to load, empty after a crash
    #[arg(long)]
    unlogged_tables: bool,
    /// Make references between the tables
    #[arg(long)]
    foreign_keys: bool,
    /// Where tables lie
    #[arg(long, value_name = "NAME")]
    tablespace: Option<String>,
    /// Where indexes lie
    #[arg(long, value_name = "NAME")]
    index_tablespace: Option<String>,
    /// Do not run VACUUM ANALYZE after loading
    #[arg(short = 'n', long)]
    no_vacuum: bool,
    /// Drop tables of the same names that evenkeel did not make
    #[arg(long)]
    force: bool,
    /// Needed when the server is on another machine: its name, once more
    #[arg(long, value_name = "HOST")]
    confirm_host: Option<String>,
    /// Take a password from the URL, where other users of this machine can see it
    #[arg(long)]
    allow_password_in_url: bool,
    /// No progress
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Divide pgbench_accounts into so many parts; 0: not at all
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    partitions: u32,
    /// How pgbench_accounts is divided; range unless said
    #[arg(long, value_enum, value_name = "METHOD", requires = "partitions")]
    partition_method: Option<Method>,
    /// Print help
    #[arg(short = '?', long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// Equal ranges of numbers
    Range,
    /// A hash of the number
    Hash,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let address = arguments.connection.address(arguments.allow_password_in_url)?;
    confirm(&address, arguments.confirm_host.as_deref())?;
    let options = InitialiseOptions {
        fillfactor: arguments.fillfactor,
        jobs: arguments.jobs,
        unlogged: arguments.unlogged_tables,
        tablespace: arguments.tablespace,
        index_tablespace: arguments.index_tablespace,
        foreign_keys: arguments.foreign_keys,
        partitions: arguments.partitions,
        partition_method: match arguments.partition_method {
            Some(Method::Hash) => PartitionMethod::Hash,
            Some(Method::Range) | None => PartitionMethod::Range,
        },
        vacuum: !arguments.no_vacuum,
        force: arguments.force,
        ..InitialiseOptions::new(arguments.scale)
    };
    options.check()?;
    let needs = needs(&mut Client::connect(&address, &runtime)?, &options)?;
    let mut teller = Teller::new(&runtime, arguments.quiet);
    let file_systems = if address.is_local() { file_systems(&needs) } else { None };
    teller.say(&format!(
        "scale {}: {} accounts; {}; {}",
        options.scale,
        options.scale * evenkeel_lab::initialise::ACCOUNTS_PER_SCALE,
        needs
            .iter()
            .map(|need| format!("about {} of {}", size(need.bytes), need.what))
            .collect::<Vec<_>>()
            .join(", "),
        file_systems.as_deref().map_or_else(
            || "free space on the server is not known from here".to_owned(),
            |systems| {
                let free: Vec<_> = systems.iter().map(|system| size(system.free)).collect();
                format!("free there: {}", free.join(", "))
            }
        ),
    ));
    check_space(file_systems.as_deref().unwrap_or_default(), options.scale)?;
    let interruption = interruption::listen_saying(
        &runtime,
        "cancelling the load on the server; once more to leave at once",
        "leaving; the server ends what it is doing by itself, and tables that are not whole are marked",
    )?;
    let result = initialise(&address, &options, &runtime, &interruption.flag, &mut |phase| {
        teller.phase(phase);
    });
    teller.finish();
    match result {
        Ok(loaded) => {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "loaded {} accounts into {} in {:.1} s{}",
                loaded.accounts,
                address.database(),
                loaded.duration_ns as f64 / 1e9,
                loaded.bytes.map_or_else(String::new, |bytes| format!(", {}", size(bytes))),
            )?;
            Ok(Outcome::Success)
        }
        Err(error @ InitialiseError::Interrupted { .. }) => {
            // Also where progress is not wanted: what is left in a database must be known.
            print(&error.to_string());
            Ok(Outcome::Interrupted)
        }
        Err(error) => Err(error).context("loading pgbench's tables"),
    }
}

/// A server on another machine may be one that others rely on.
fn confirm(address: &Address, confirmed: Option<&str>) -> anyhow::Result<()> {
    let hosts = address.hosts();
    if address.is_local() || confirmed.is_some_and(|name| hosts.iter().any(|host| host == name)) {
        return Ok(());
    }
    bail!(
        "{} is not this machine, and gigabytes may be written to it: say --confirm-host {} when it \
         is meant",
        hosts.join(", "),
        hosts.first().map_or("<host>", String::as_str)
    )
}

/// A file system of the server, and what the load puts there.
struct FileSystem {
    device: u64,
    /// What, and in which directory.
    content: Vec<String>,
    needed: u64,
    free: u64,
}

/// The needs by file system; `None` where not all of their directories can be seen from here.
fn file_systems(needs: &[Need]) -> Option<Vec<FileSystem>> {
    let mut systems: Vec<FileSystem> = Vec::new();
    for need in needs {
        // A server behind a tunnel or in a container is elsewhere, though its address is of here.
        let directory = visible(need.directory.as_deref()?)?;
        let device = std::fs::metadata(directory).ok()?.dev();
        let content = format!("{} in {}", need.what, directory.display());
        match systems.iter_mut().find(|system| system.device == device) {
            Some(system) => {
                system.needed = system.needed.saturating_add(need.bytes);
                system.content.push(content);
            }
            None => systems.push(FileSystem {
                device,
                content: vec![content],
                needed: need.bytes,
                free: free_bytes(directory).ok()?,
            }),
        }
    }
    Some(systems)
}

/// The directory, or its parent where the server keeps others out of its inside (then a `pg_wal` that
/// is a link to elsewhere cannot be followed, and counts where the link lies).
fn visible(directory: &Path) -> Option<&Path> {
    [Some(directory), directory.parent()].into_iter().flatten().find(|path| path.is_dir())
}

/// Refuses a load that some file system has no room for. `--force` is about tables and no way around.
fn check_space(systems: &[FileSystem], scale: u64) -> anyhow::Result<()> {
    if let Some(system) = systems.iter().find(|system| system.free < system.needed) {
        let fits = u128::from(scale) * u128::from(system.free) / u128::from(system.needed.max(1));
        let advice = match fits.saturating_sub(1) {
            0 => "make room".to_owned(),
            fits => format!("choose a smaller --scale (up to {fits} fits), or make room"),
        };
        bail!(
            "about {} are needed and {} are free for {}: {advice}",
            size(system.needed),
            size(system.free),
            system.content.join(", "),
        );
    }
    Ok(())
}

/// Tells how far loading has come, on stderr.
struct Teller {
    runtime: Arc<dyn Runtime>,
    bar: Option<ProgressBar>,
    is_quiet: bool,
    rows_began: Option<Instant>,
    told: Option<Instant>,
    phase: &'static str,
}

impl Teller {
    fn new(runtime: &Arc<dyn Runtime>, is_quiet: bool) -> Self {
        let bar = (!is_quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let runtime = Arc::clone(runtime);
        Self { runtime, bar, is_quiet, rows_began: None, told: None, phase: "" }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            _ if self.is_quiet => {}
            Some(bar) => bar.suspend(|| print(text)),
            None => print(text),
        }
    }

    fn phase(&mut self, phase: Phase) {
        let now = self.runtime.now();
        let (name, text) = match phase {
            Phase::Tables => ("tables", phase.to_string()),
            Phase::Rows { done, total } => {
                let began = *self.rows_began.get_or_insert(now);
                let spent = now.nanos_since(began) as f64;
                let share = done as f64 / total.max(1) as f64;
                let left = if done > 0 && share > 0.0 {
                    let left_ns = (spent * (1.0 - share) / share) as u64;
                    format!(", {} left", progress::length(left_ns))
                } else {
                    String::new()
                };
                ("rows", format!("loading: {:.0}%{left}", share * 100.0))
            }
            Phase::Keys => ("keys", phase.to_string()),
            Phase::Vacuum => ("vacuum", phase.to_string()),
            Phase::Checkpoint => ("checkpoint", phase.to_string()),
            // It stays on the screen: who comes back to a load that was given up wants to know.
            Phase::Waiting { .. } => return self.say(&phase.to_string()),
        };
        let is_new = name != self.phase;
        self.phase = name;
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            return;
        }
        let is_due = self.told.is_none_or(|told| now.since(told) >= TOLD_EVERY);
        if is_due || (is_new && name != "rows") {
            self.told = Some(now);
            self.say(&text);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{value:.0} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TB")
}

#[allow(clippy::print_stderr, reason = "progress is for people and no part of the result")]
fn print(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use evenkeel_lab::target::postgres::address::Surroundings;

    use super::*;

    fn address(text: &str) -> Address {
        let surroundings = Surroundings {
            environment: &|_| None,
            user_name: Some("me".to_owned()),
            home_directory: None,
            allow_password: false,
        };
        Address::parse(text, &surroundings).unwrap()
    }

    #[test]
    fn another_machine_is_loaded_only_when_it_is_named_twice() {
        let far = address("postgresql://db.example.org/app");
        assert!(
            confirm(&far, None).unwrap_err().to_string().contains("--confirm-host db.example.org")
        );
        assert!(confirm(&far, Some("db.example.com")).is_err());
        confirm(&far, Some("db.example.org")).unwrap();
        confirm(&address("postgresql://localhost/app"), None).unwrap();
    }

    #[test]
    fn a_disk_that_is_too_small_for_tables_and_log_together_is_refused_with_the_scale_that_fits() {
        let system = |needed, free| FileSystem {
            device: 1,
            content: vec!["tables in /data".to_owned(), "log in /data/pg_wal".to_owned()],
            needed,
            free,
        };
        check_space(&[system(100, 100)], 10).unwrap();
        let error = check_space(&[system(1, 2), system(100, 50)], 10).unwrap_err().to_string();
        assert!(error.contains("log in /data/pg_wal") && error.contains("up to 4 fits"), "{error}");
        let error = check_space(&[system(u64::MAX, 5)], u64::MAX).unwrap_err().to_string();
        assert!(error.ends_with("make room"), "{error}");
    }

    #[test]
    fn needs_in_one_file_system_are_added_and_one_that_is_not_seen_makes_all_unknown() {
        let scratch = tempfile::tempdir().unwrap();
        let need = |directory: Option<&Path>, bytes| Need {
            what: "tables",
            directory: directory.map(Path::to_owned),
            bytes,
        };
        let inside = scratch.path().join("not seen");
        let both = [need(Some(scratch.path()), 3), need(Some(&inside), 4)];
        let systems = file_systems(&both).unwrap();
        assert_eq!((systems.len(), systems[0].needed), (1, 7));
        assert!(file_systems(&[need(Some(scratch.path()), 3), need(None, 4)]).is_none());
        assert!(file_systems(&[need(Some(&inside.join("deeper")), 4)]).is_none());
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(15 << 20), "15.0 MB");
        assert_eq!(size(u64::MAX), "16777216.0 TB");
    }
}
