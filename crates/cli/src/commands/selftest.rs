//! `evenkeel selftest`: prove the clock.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use evenkeel::runtime::{Event, Instant, OsRuntime, Runtime};
use evenkeel_lab::driver::{self, Length, Observer};
use evenkeel_lab::experiment::document::Arrival;
use evenkeel_lab::experiment::freeze::{self, Check, Freeze};
use evenkeel_lab::experiment::laboratory::Interruption;
use evenkeel_lab::measure::summary::{Window, summarise};
use evenkeel_lab::target::postgres::binaries::{Binaries, Wanted};
use evenkeel_lab::target::postgres::server::{
    ManagedServer, ServerOptions, default_parent, remove_leftovers,
};
use evenkeel_lab::target::postgres::session::PostgresTarget;
use evenkeel_lab::workload::Compiler;

use crate::exit::Outcome;
use crate::{interruption, progress};

/// Prove the clock: freeze a server and check the percentiles
///
/// A managed server is frozen for half of the run. Response times, counted from the schedule, then
/// have a closed form; a load generator that waits for answers misses it by a factor of thousands.
/// Exit status 0 when all agree, 2 when not.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Length of the run; the server is frozen for half of it
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// Transactions per second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    rate: u32,
    /// Directory of the PostgreSQL programs
    #[arg(long, value_name = "DIR")]
    binaries: Option<std::path::PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
}

const CLIENTS: u32 = 4;

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let interruption = interruption::listen(&runtime)?;
    let wanted = arguments.binaries.clone().map_or(Wanted::Newest, Wanted::Directory);
    let binaries = Binaries::find_or_fetch(&wanted, &interruption.flag, &mut |text| say(text))?;
    let version = binaries.version().to_owned();
    let options = ServerOptions::new(binaries, "selftest", Arc::clone(&interruption.flag));
    for leftover in remove_leftovers(&default_parent(), runtime.as_ref()) {
        say(&leftover.to_string());
    }
    let mut server = ManagedServer::create(options, &runtime)?;
    if !arguments.quiet {
        say(&format!("making a server with {version}"));
    }
    server.initialise()?;
    server.start()?;
    let server = Arc::new(Mutex::new(server));
    let measured = measure(&arguments, &runtime, &interruption, &server);
    let removed = Arc::into_inner(server)
        .map(|server| server.into_inner().unwrap_or_else(PoisonError::into_inner).remove());
    if interruption.is_set() {
        return Ok(Outcome::Interrupted);
    }
    let checks = measured?;
    if let Some(removed) = removed {
        removed?;
    }
    print(&checks)?;
    Ok(if checks.iter().all(Check::is_passed) { Outcome::Success } else { Outcome::Invalid })
}

fn measure(
    arguments: &Arguments,
    runtime: &Arc<dyn Runtime>,
    interruption: &Interruption,
    server: &Arc<Mutex<ManagedServer>>,
) -> anyhow::Result<Vec<Check>> {
    let mut compiler = Compiler::new();
    compiler.add("select-1", 1, "select 1;\n").map_err(|error| anyhow::anyhow!("{error}"))?;
    let workload = Arc::new(compiler.finish().map_err(|error| anyhow::anyhow!("{error}"))?);
    let address = server.lock().unwrap_or_else(PoisonError::into_inner).address();
    let target = Arc::new(PostgresTarget::new(address));
    let run = Duration::from_secs(arguments.seconds);
    let mut plan = driver::Plan::new(workload, target, Length::Duration(run));
    plan.clients = CLIENTS;
    plan.arrival = Arrival::Constant { rate_per_s: f64::from(arguments.rate) };
    plan.grace = run;
    // A quarter in, so that what has piled up is drained before the end.
    let (start, length) = (run / 4, run / 2);
    if !arguments.quiet {
        say(&format!(
            "{} transactions per second for {}; the server stands still for {} of it",
            arguments.rate,
            progress::length(u64::try_from(run.as_nanos()).unwrap_or(u64::MAX)),
            progress::length(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)),
        ));
    }
    let begun = Begun { event: runtime.event() };
    let frozen = Arc::new(Mutex::new(None));
    let freezer = Freezer {
        runtime: Arc::clone(runtime),
        interruption: interruption.clone(),
        begun: Arc::clone(&begun.event),
        server: Arc::clone(server),
        result: Arc::clone(&frozen),
    };
    let task = runtime
        .spawn("freezer", Box::new(move || freezer.freeze(start, length)))
        .context("a thread that freezes the server")?;
    let data = driver::run(plan, Arc::clone(runtime), &begun, &interruption.driver);
    if data.is_err() {
        // The freezer waits for a beginning that will not come.
        interruption.interrupt();
        begun.event.notify();
    }
    task.join()?;
    let data = data?;
    let frozen = frozen.lock().unwrap_or_else(PoisonError::into_inner).take();
    let frozen_ns = frozen.unwrap_or_else(|| Err("the server was not frozen".to_owned()));
    let frozen_ns = frozen_ns.map_err(anyhow::Error::msg)?;
    let window = Window::measured(&data);
    let freeze = Freeze { run_ns: window.duration_ns(), frozen_ns, clients: CLIENTS };
    Ok(freeze::checks(&summarise(&data, window), freeze))
}

/// Tells when transactions start.
struct Begun {
    event: Arc<dyn Event>,
}

impl Observer for Begun {
    fn started(&self, _connection_ns: u64) {
        self.event.notify();
    }
}

/// Freezes the server for a while, by the clock.
struct Freezer {
    runtime: Arc<dyn Runtime>,
    interruption: Interruption,
    begun: Arc<dyn Event>,
    server: Arc<Mutex<ManagedServer>>,
    result: Arc<Mutex<Option<Result<u64, String>>>>,
}

impl Freezer {
    fn freeze(self, start: Duration, length: Duration) {
        self.begun.wait_until(None);
        let begun = self.runtime.now();
        self.wait_until(begun.plus(start));
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        // The first signal stops the server's head; backends follow within a millisecond.
        let from = self.runtime.now();
        let mut result = server.freeze().map_err(|error| error.to_string());
        if result.is_ok() {
            self.wait_until(from.plus(length));
            result = server.thaw().map_err(|error| error.to_string());
        }
        let frozen_ns = self.runtime.now().nanos_since(from);
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(result.map(|()| frozen_ns));
    }

    /// Sleeps, but not longer than the user has patience.
    fn wait_until(&self, deadline: Instant) {
        while self.runtime.now() < deadline && !self.interruption.is_set() {
            let next = self.runtime.now().plus(Duration::from_millis(100));
            self.runtime.sleep_until(next.min(deadline));
        }
    }
}

fn print(checks: &[Check]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let result = (|| {
        writeln!(out, "{:<28} {:>12} {:>12} {:>12}", "", "expected", "measured", "tolerance")?;
        for check in checks {
            let measured =
                check.measured.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.1}"));
            writeln!(
                out,
                "{:<28} {:>12.1} {:>12} {:>12.1} {:<3} {}",
                check.name,
                check.expected,
                measured,
                check.tolerance,
                check.unit,
                if check.is_passed() { "agrees" } else { "DISAGREES" }
            )?;
        }
        let failed = checks.iter().filter(|check| !check.is_passed()).count();
        if failed == 0 {
            writeln!(out, "the clock is proven: every figure is what the freeze must give")
        } else {
            writeln!(
                out,
                "{failed} figures are not what the freeze must give: do not trust measurements \
                 here before the reason is found (a busy machine, a slow clock)"
            )
        }
    })();
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to standard output"),
    }
}

#[allow(clippy::print_stderr, reason = "progress is no part of the result")]
fn say(text: &str) {
    eprintln!("{text}");
}
