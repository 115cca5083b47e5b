//! `evenkeel init`: load pgbench's tables.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{Instant, OsRuntime, Runtime};
use evenkeel_lab::initialise::{
    InitialiseError, InitialiseOptions, Phase, estimated_bytes, initialise,
};
use evenkeel_lab::target::postgres::address::Address;
use evenkeel_lab::target::postgres::client::Client;
use evenkeel_lab::target::postgres::snapshot::free_bytes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::address::server_address;
use crate::exit::Outcome;
use crate::{interruption, progress};

/// Where progress is not shown on a terminal it is told this often.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Load pgbench's tables, in parallel
///
/// Names, columns and values are those of `pgbench -i`, so that pgbench and its scripts run on them.
/// Tables that evenkeel did not make are never dropped without --force.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Server: a URL, a string of keywords, or the database's name, as psql understands them
    #[arg(value_name = "URL")]
    url: String,
    /// 100,000 accounts (about 15 MB) for each unit
    #[arg(short = 's', long, default_value_t = 1)]
    scale: u64,
    /// Percent of each page that is filled, 10 to 100
    #[arg(short = 'F', long, value_name = "PERCENT")]
    fillfactor: Option<u32>,
    /// Sessions that load; as many as processors, at most 8, unless said
    #[arg(short = 'j', long)]
    jobs: Option<u32>,
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
    #[arg(long, hide = true, value_name = "NUMBER")]
    partitions: Option<u32>,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if arguments.partitions.is_some_and(|partitions| partitions > 0) {
        bail!(
            "partitioned tables are not made by evenkeel: use pgbench -i --partitions; runs work on \
             its tables too"
        );
    }
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let address = server_address(&arguments.url, arguments.allow_password_in_url)?;
    confirm(&address, arguments.confirm_host.as_deref())?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = InitialiseOptions {
        fillfactor: arguments.fillfactor,
        jobs: arguments.jobs.unwrap_or_else(|| u32::try_from(processors.min(8)).unwrap_or(1)),
        unlogged: arguments.unlogged_tables,
        tablespace: arguments.tablespace,
        index_tablespace: arguments.index_tablespace,
        foreign_keys: arguments.foreign_keys,
        vacuum: !arguments.no_vacuum,
        force: arguments.force,
        ..InitialiseOptions::new(arguments.scale)
    };
    options.check()?;
    let estimate = estimated_bytes(&options);
    let free = free_on_server(&address, &options, &runtime)?;
    let mut teller = Teller::new(&runtime, arguments.quiet);
    teller.say(&format!(
        "scale {}: {} accounts, about {} with indexes; free on the server: {}",
        options.scale,
        options.scale * evenkeel_lab::initialise::ACCOUNTS_PER_SCALE,
        size(estimate),
        free.map_or_else(|| "not known from here".to_owned(), size),
    ));
    // The log of the load, at most as large, comes on top until it is recycled.
    if let Some(free) = free
        && free < estimate
    {
        bail!(
            "about {} are needed and {} are free where the server keeps its data: choose a smaller \
             --scale (up to {} fits), or make room",
            size(estimate),
            size(free),
            (options.scale.saturating_mul(free) / estimate.max(1)).saturating_sub(1)
        );
    }
    let interruption = interruption::listen(&runtime)?;
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
        Err(error @ InitialiseError::Interrupted) => {
            teller.say(&error.to_string());
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

/// Free space where the tables would lie; `None` where it cannot be seen from here.
fn free_on_server(
    address: &Address,
    options: &InitialiseOptions,
    runtime: &Arc<dyn Runtime>,
) -> anyhow::Result<Option<u64>> {
    let mut client = Client::connect(address, runtime)?;
    if !address.is_local() || options.tablespace.is_some() {
        return Ok(None);
    }
    // Only superusers and members of pg_read_all_settings may see where the data are.
    let Ok(Some(directory)) = client.value("show data_directory") else { return Ok(None) };
    // A server behind a tunnel or in a container is elsewhere, though its address is of here.
    let directory = Path::new(&directory);
    if !directory.is_dir() {
        return Ok(None);
    }
    Ok(free_bytes(directory).ok())
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
            Phase::Tables => ("tables", "making the tables".to_owned()),
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
            Phase::Keys => ("keys", "building keys".to_owned()),
            Phase::Vacuum => ("vacuum", "vacuum and statistics".to_owned()),
            Phase::Checkpoint => ("checkpoint", "checkpoint".to_owned()),
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
    fn sizes_are_for_people() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(15 << 20), "15.0 MB");
        assert_eq!(size(u64::MAX), "16777216.0 TB");
    }
}
