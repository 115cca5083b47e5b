//! `evenkeel bench`: one run, with pgbench's options and pgbench's words.

mod files;
mod log;
mod options;
mod progress;
mod script_options;
mod text;
mod workload;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_lab::driver::{self, Length, Plan, RunData, StopFlag};
use evenkeel_lab::experiment::document::{Arrival, Machine, Run, ScriptUse};
use evenkeel_lab::experiment::laboratory::silence_of_running;
use evenkeel_lab::measure::sampler::{Sampler, SamplerOptions};
use evenkeel_lab::measure::{Window, machine, summarise};
use evenkeel_lab::target::QueryMode;
use evenkeel_lab::target::postgres::client::Client;
use evenkeel_lab::target::postgres::session::PostgresTarget;
use evenkeel_lab::target::postgres::settings::Settings;

use crate::connection::ConnectionOptions;
use crate::exit::Outcome;

/// Run a workload once, with pgbench's options
///
/// Options are pgbench's, with its letters. Without a rate each client starts a transaction when its
/// last one has ended; with one, transactions start by a schedule and response times count from it.
///
/// Exit codes: 0 when the run went as planned; 1 for wrong usage, or when no run was possible (no
/// server, no permission); 2 when the run is INVALID or was cut short: a client gave up, or nothing
/// committed; 130 when interrupted, with what was measured until then.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    scripts: script_options::ScriptOptions,
    /// Print a built-in script and exit
    #[arg(long, value_name = "NAME")]
    show_script: Option<String>,
    /// Keys of built-in scripts: uniform, gaussian:P, exponential:P or zipfian:S[,scattered]
    #[arg(long, value_name = "SPEC")]
    distribution: Option<String>,
    /// Give a variable a value (repeatable)
    #[arg(short = 'D', long = "define", value_name = "VARNAME=VALUE")]
    defines: Vec<String>,
    /// Scale the database is expected to have; another one found is an error
    #[arg(short = 's', long, value_name = "NUM")]
    scale: Option<u64>,

    /// Sessions
    #[arg(short = 'c', long = "client", value_name = "NUM", default_value_t = 1)]
    clients: u32,
    /// Threads
    #[arg(short = 'j', long, value_name = "NUM", default_value_t = 1)]
    jobs: u32,
    /// Open a session for each transaction
    #[arg(short = 'C', long)]
    connect: bool,
    /// Transactions each client runs [default: 10]
    #[arg(short = 't', long, value_name = "NUM", conflicts_with = "time")]
    transactions: Option<u64>,
    /// Seconds to measure
    #[arg(short = 'T', long, value_name = "SECONDS")]
    time: Option<f64>,
    /// Transactions per second over all clients; response times count from the schedule
    #[arg(short = 'R', long, value_name = "NUM")]
    rate: Option<f64>,
    /// How scheduled transactions arrive
    #[arg(long, value_enum, value_name = "KIND", requires = "rate")]
    arrival: Option<ArrivalKind>,
    /// Count transactions over NUM ms as late; with a rate, skip those that are late before they start
    #[arg(short = 'L', long, value_name = "NUM")]
    latency_limit: Option<f64>,
    /// How statements travel
    #[arg(short = 'M', long, value_enum, value_name = "MODE", default_value_t = Protocol::Simple)]
    protocol: Protocol,
    /// Do not vacuum before the run
    #[arg(short = 'n', long)]
    no_vacuum: bool,
    /// Vacuum pgbench_accounts too
    #[arg(short = 'v', long)]
    vacuum_all: bool,
    /// Tries per transaction at most; 0: no limit but -L or -T
    #[arg(long, value_name = "NUM", default_value_t = 1)]
    max_tries: u32,
    /// Go on after other SQL errors
    #[arg(long)]
    continue_on_error: bool,
    /// End the run as soon as a client gives up
    #[arg(long)]
    exit_on_abort: bool,
    /// Seed: a number, "time" or "rand"
    #[arg(long, value_name = "SEED", default_value = "time")]
    random_seed: String,
    /// Seconds to run before measuring
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    warm_up: f64,
    /// Seconds to wait for unfinished transactions at the end
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    grace: f64,

    /// Show progress every NUM seconds
    #[arg(short = 'P', long, value_name = "NUM")]
    progress: Option<f64>,
    /// Show progress with Unix times
    #[arg(long, requires = "progress")]
    progress_timestamp: bool,
    /// Report time, failures and retries of each command
    #[arg(short = 'r', long, alias = "report-latencies")]
    report_per_command: bool,
    /// Tell failures apart
    #[arg(long)]
    failures_detailed: bool,
    /// Tell each failed statement, and what becomes of its transaction, on stderr
    #[arg(long)]
    verbose_errors: bool,
    /// Write a log of transactions, in pgbench's format
    #[arg(short = 'l', long)]
    log: bool,
    /// Begin of the log files' names [default: pgbench_log]
    #[arg(long, value_name = "PREFIX", requires = "log")]
    log_prefix: Option<String>,
    /// Share of transactions that are logged
    #[arg(long, value_name = "NUM", requires = "log", conflicts_with = "aggregate_interval")]
    sampling_rate: Option<f64>,
    /// Log sums over NUM seconds instead of transactions
    #[arg(long, value_name = "NUM", requires = "log")]
    aggregate_interval: Option<u64>,
    /// Write session.json, tables and HdrHistogram files into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    foreign: options::ForeignOptions,
    /// Print help
    #[arg(short = '?', long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// How scheduled transactions arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ArrivalKind {
    /// At random, independently of each other
    #[default]
    Poisson,
    /// At a fixed distance
    Constant,
}

/// How statements travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    Simple,
    Extended,
    Prepared,
}

impl Protocol {
    const fn mode(self) -> QueryMode {
        match self {
            Self::Simple => QueryMode::Simple,
            Self::Extended => QueryMode::Extended,
            Self::Prepared => QueryMode::Prepared,
        }
    }
}

/// Everything that is known when a run has ended.
struct Finished<'a> {
    arguments: &'a Arguments,
    plan: &'a Plan,
    data: &'a RunData,
    run: Run,
    scale: Option<u64>,
    scripts: &'a [ScriptUse],
    settings: &'a Settings,
    machine: &'a Machine,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    arguments.foreign.refuse()?;
    if let Some(name) = &arguments.show_script {
        return workload::show(name, &arguments);
    }
    if arguments.scripts.names_builtin("list") {
        return Ok(workload::list());
    }
    let seed = options::seed(&arguments.random_seed, &OsRuntime)?;
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let address = arguments.connection.address(false)?;

    let mut client = Client::connect(&address, &runtime)?;
    let settings = Settings::read(&mut client).context("read the server's settings")?;
    let machine = describe_machine(&settings);
    let scale = workload::scale(&mut client, &arguments)?;
    let (workload, scripts) = workload::load(&arguments, scale)?;
    if !arguments.no_vacuum {
        vacuum(&mut client, arguments.vacuum_all)?;
    }
    drop(client);

    // The machine only: a session of the sampler's own would count against max_connections.
    let sampled = SamplerOptions {
        address: None,
        ..SamplerOptions::of_running(&address, &runtime, &Arc::default())
    };
    let server_process = sampled.server_process;
    // Not earlier: before there is anything to keep, a signal ends the process at once.
    let stop = StopFlag::new();
    listen_for_signals(&*runtime, &stop)?;
    let target = Arc::new(PostgresTarget::new(address.clone()));
    let plan = plan(&arguments, workload, target, seed)?;
    let log = match arguments.log {
        true => Some(log::LogFiles::create(&arguments, &plan)?),
        false => None,
    };
    let observer = progress::Printer::new(&arguments, runtime.wall(), log);
    let sampler = Sampler::start(sampled, &runtime).context("looking at this machine")?;
    let data = driver::run(plan.clone(), Arc::clone(&runtime), &observer, &stop)?;
    observer.clear();
    let logged = observer.finish_log(data.incomplete.is_none());
    let window = Window::measured(&data);
    let mut run = summarise(&data, window);
    let clock_jump_ns = run.clock_jump_ns;
    let origin = data.origin.plus_nanos(window.start_ns);
    sampler.finish(origin, Duration::from_nanos(window.duration_ns())).apply(&mut run);
    run.clock_jump_ns = run.clock_jump_ns.max(clock_jump_ns);
    if run.incomplete.is_none() {
        run.incomplete = silence_of_running(&data, &address, server_process, &runtime);
    }
    let finished = Finished {
        arguments: &arguments,
        plan: &plan,
        data: &data,
        run,
        scale,
        scripts: &scripts,
        settings: &settings,
        machine: &machine,
    };
    // Files first: they are what a person who is not there to read will look for.
    let written = files::write(&finished);
    print(&finished)?;
    written?;
    logged?;
    Ok(outcome(&finished))
}

/// This machine, with the file system of the server's data where they are here.
fn describe_machine(settings: &Settings) -> Machine {
    let data = settings.values.get("data_directory").map(PathBuf::from);
    match data.filter(|directory| directory.exists()) {
        Some(directory) => machine::describe(&directory),
        None => Machine { file_system: None, ..machine::describe(&PathBuf::from(".")) },
    }
}

fn outcome(finished: &Finished<'_>) -> Outcome {
    let counts = &finished.run.counts;
    if finished.data.was_interrupted {
        Outcome::Interrupted
    } else if counts.committed == 0
        || counts.aborted_clients > 0
        || finished.run.incomplete.is_some()
    {
        Outcome::Invalid
    } else {
        Outcome::Success
    }
}

fn plan(
    arguments: &Arguments,
    workload: Arc<evenkeel_lab::workload::script::Workload>,
    target: Arc<PostgresTarget>,
    seed: u64,
) -> anyhow::Result<Plan> {
    let length = match (arguments.time, arguments.transactions) {
        (Some(seconds), _) => Length::Duration(options::seconds("-T", seconds)?),
        (None, Some(count)) => Length::TransactionsPerClient(count),
        (None, None) => Length::TransactionsPerClient(10),
    };
    let mut plan = Plan::new(workload, target, length);
    plan.clients = arguments.clients;
    plan.threads = arguments.jobs;
    plan.arrival = match (arguments.rate, arguments.arrival.unwrap_or_default()) {
        (None, _) => Arrival::Closed,
        (Some(rate_per_s), ArrivalKind::Poisson) => Arrival::Poisson { rate_per_s },
        (Some(rate_per_s), ArrivalKind::Constant) => Arrival::Constant { rate_per_s },
    };
    plan.warm_up = options::seconds("--warm-up", arguments.warm_up)?;
    plan.grace = options::seconds("--grace", arguments.grace)?;
    plan.latency_limit = match arguments.latency_limit {
        Some(ms) if ms > 0.0 => Some(options::seconds("-L", ms / 1e3)?),
        Some(ms) => bail!("-L {ms}: the latency limit must be above zero"),
        None => None,
    };
    plan.max_tries = arguments.max_tries;
    plan.continue_on_error = arguments.continue_on_error;
    plan.exit_on_abort = arguments.exit_on_abort;
    plan.seed = seed;
    plan.query_mode = arguments.protocol.mode();
    plan.reconnect = arguments.connect;
    plan.report_per_command = arguments.report_per_command;
    plan.verbose_errors = arguments.verbose_errors;
    plan.progress_interval = match arguments.progress {
        Some(seconds) if seconds > 0.0 => Some(options::seconds("-P", seconds)?),
        Some(seconds) => bail!("-P {seconds}: the interval must be above zero"),
        None if io::stderr().is_terminal() => Some(Duration::from_secs(1)),
        None => None,
    };
    if let Some(share) = arguments.sampling_rate
        && !(share > 0.0 && share <= 1.0)
    {
        bail!("--sampling-rate {share}: a share above 0 and up to 1 is needed");
    }
    Ok(plan)
}

/// Sets `stop` at the first Ctrl-C or termination; the second ends the process as usual.
fn listen_for_signals(runtime: &dyn Runtime, stop: &StopFlag) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("listen for signals")?;
    let stop = stop.clone();
    runtime
        .spawn(
            "signals",
            Box::new(move || {
                for signal in signals.forever() {
                    if stop.is_set() {
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    stop.stop();
                }
            }),
        )
        .context("start a thread")?;
    Ok(())
}

/// As pgbench does before a run; tables that are not there are passed over.
fn vacuum(client: &mut Client, is_accounts_too: bool) -> anyhow::Result<()> {
    let mut statements =
        vec!["VACUUM pgbench_branches", "VACUUM pgbench_tellers", "TRUNCATE pgbench_history"];
    if is_accounts_too {
        statements.push("VACUUM ANALYZE pgbench_accounts");
    }
    progress::note("starting vacuum...");
    for statement in statements {
        if let Err(error) = client.execute(statement) {
            match error.sqlstate() {
                Some(_) => progress::note(&format!("{error} (ignored; the run goes on)")),
                None => return Err(error).context(statement),
            }
        }
    }
    progress::note("end.");
    Ok(())
}

fn print(finished: &Finished<'_>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match text::write(finished, &mut out).and_then(|()| out.flush()) {
        // A reader such as `head` that has enough is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}
