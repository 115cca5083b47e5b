//! `cargo xtask bench-driver`: CPU time (user and system) of our process per transaction against
//! pgbench's, interleaved on one throw-away server, so that both see the same machine.
//!
//! Each round runs ours and pgbench once, in alternating order, and is one ratio; a row shows the
//! median. The last line is the worst row's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_lab::target::postgres::binaries::{Binaries, Places, Wanted};
use evenkeel_lab::target::postgres::server::{DATABASE, ManagedServer, SUPERUSER, ServerOptions};

const SCALE: &str = "10";
const ROUNDS: usize = 5;
const SECONDS: &str = "2";
const CLIENTS: [u32; 4] = [1, 2, 8, 32];

/// What is measured.
struct Case {
    name: &'static str,
    /// Arguments that both programs understand.
    arguments: Vec<String>,
}

/// One run of one program.
struct Cost {
    cpu_us: f64,
    user_us: f64,
    tps: f64,
}

/// Runs the benchmark. Arguments, where others are wanted: rounds, seconds per run, and the end of the
/// rows' names (`"select 1 prepared 32"`, `" 8"`).
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let rounds: usize = arguments.first().map_or(Ok(ROUNDS), |text| text.parse())?;
    let seconds = arguments.get(1).map_or(SECONDS, String::as_str);
    let row = arguments.get(2).map_or("", String::as_str);
    let evenkeel = build()?;
    let Some(binaries) = Binaries::find(&Wanted::Newest, &Places::of_this_machine())? else {
        bail!("no PostgreSQL binaries found");
    };
    // Some packages of the server come without it; any version measures the same here.
    let pgbench = Some(binaries.program("pgbench"))
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("pgbench"));
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let options = ServerOptions::new(binaries, "bench-driver", Arc::new(AtomicBool::new(false)));
    let mut server = ManagedServer::create(options, &runtime)?;
    server.initialise()?;
    server.start()?;
    let connection = Connection::of(&server)?;
    crate::say(&format!("loading scale {SCALE}"));
    let loaded = connection.command(&pgbench).args(["-i", "-q", "-s", SCALE]).output();
    let loaded = loaded.with_context(|| format!("run {}", pgbench.display()))?;
    if !loaded.status.success() {
        bail!("pgbench -i: {}", String::from_utf8_lossy(&loaded.stderr));
    }
    let script = std::env::temp_dir().join(format!("select-1-{}.sql", std::process::id()));
    std::fs::write(&script, "SELECT 1;\n")?;
    let result = measure(&evenkeel, &pgbench, &connection, &script, (rounds, seconds, row));
    let _ = std::fs::remove_file(&script);
    server.remove()?;
    let worst = result?;
    crate::print(&format!("ratio: {worst:.3}"));
    Ok(())
}

fn measure(
    evenkeel: &Path,
    pgbench: &Path,
    connection: &Connection,
    script: &Path,
    (rounds, seconds, row): (usize, &str, &str),
) -> anyhow::Result<f64> {
    crate::print(
        "workload               clients   ours us (user)  pgbench us (user)   tps ours  pgbench  ratio",
    );
    let mut worst: f64 = 0.0;
    for case in cases(script) {
        for clients in CLIENTS {
            if !format!("{} {clients}", case.name).ends_with(row) {
                continue;
            }
            let mut ratios = Vec::new();
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                let mut pair = [None, None];
                for turn in [round % 2, 1 - round % 2] {
                    let mut command = if turn == 0 {
                        let mut command = connection.command(evenkeel);
                        command.arg("bench");
                        command
                    } else {
                        connection.command(pgbench)
                    };
                    command.args(&case.arguments).args(["-n", "-j", "1", "-T", seconds]);
                    command.args(["-c", &clients.to_string()]);
                    pair[turn] = Some(cost(command)?);
                }
                if let [Some(our), Some(their)] = pair {
                    ratios.push(our.cpu_us / their.cpu_us);
                    ours.push(our);
                    theirs.push(their);
                }
            }
            let ratio = median(ratios);
            worst = worst.max(ratio);
            let figure =
                |costs: &[Cost], of: fn(&Cost) -> f64| median(costs.iter().map(of).collect());
            crate::print(&format!(
                "{:<22} {clients:>7} {:>9.2} ({:>4.2}) {:>11.2} ({:>4.2}) {:>11.0} {:>8.0} {ratio:>6.3}",
                case.name,
                figure(&ours, |cost| cost.cpu_us),
                figure(&ours, |cost| cost.user_us),
                figure(&theirs, |cost| cost.cpu_us),
                figure(&theirs, |cost| cost.user_us),
                figure(&ours, |cost| cost.tps),
                figure(&theirs, |cost| cost.tps),
            ));
        }
    }
    Ok(worst)
}

fn cases(script: &Path) -> Vec<Case> {
    let select_1 = script.display().to_string();
    let case = |name, words: [&str; 4]| Case { name, arguments: words.map(str::to_owned).to_vec() };
    vec![
        case("select-only prepared", ["-b", "select-only", "-M", "prepared"]),
        case("select 1 prepared", ["-f", &select_1, "-M", "prepared"]),
        case("select-only simple", ["-b", "select-only", "-M", "simple"]),
        case("select 1 simple", ["-f", &select_1, "-M", "simple"]),
    ]
}

/// Builds the command as a user would have it.
fn build() -> anyhow::Result<PathBuf> {
    let root = crate::root();
    crate::say("building the release version");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "-p", "evenkeel-cli"])
        .current_dir(&root)
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("the release version does not build");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("evenkeel"))
}

/// How both programs reach the server.
struct Connection {
    directory: String,
    port: String,
}

impl Connection {
    fn of(server: &ManagedServer) -> anyhow::Result<Self> {
        let address = server.address();
        let directory = address.hosts().first().cloned().context("the server has no socket")?;
        Ok(Self { directory, port: address.port().to_string() })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("PGHOST", &self.directory)
            .env("PGPORT", &self.port)
            .env("PGUSER", SUPERUSER)
            .env("PGDATABASE", DATABASE)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command
    }
}

/// Runs a program to its end: the CPU time it used per transaction.
fn cost(mut command: Command) -> anyhow::Result<Cost> {
    // Times of children that were waited for; nothing else is running here.
    let before = children_ticks()?;
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    let after = children_ticks()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{command:?}: {}{}", text, String::from_utf8_lossy(&output.stderr));
    }
    let number = |prefix: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(prefix))
            .and_then(|rest| rest.trim().split([' ', '/']).next())
            .and_then(|word| word.parse::<f64>().ok())
            .with_context(|| format!("no line '{prefix}' in:\n{text}"))
    };
    let transactions = number("number of transactions actually processed:")?;
    let us = |ticks: f64| ticks * 1e6 / TICKS_PER_S / transactions;
    let user = after.0 - before.0;
    let system = after.1 - before.1;
    Ok(Cost { cpu_us: us(user + system), user_us: us(user), tps: number("tps =")? })
}

/// Linux counts in hundredths of a second towards programs, on every architecture in use.
const TICKS_PER_S: f64 = 100.0;

/// User and system time of waited-for children (fields 16 and 17 of `/proc/self/stat`).
fn children_ticks() -> anyhow::Result<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = text.rsplit_once(')').context("/proc/self/stat has no name")?;
    let mut fields = rest.split_whitespace().skip(13);
    let mut next = || -> anyhow::Result<f64> {
        Ok(fields.next().context("/proc/self/stat is too short")?.parse()?)
    };
    Ok((next()?, next()?))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}
