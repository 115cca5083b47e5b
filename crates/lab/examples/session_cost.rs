//! What a session costs: a prepared select by key in a loop on many sessions and one task, and the
//! processor time (user and system) of this process per statement.
//!
//! `session_cost "host=/run/x dbname=postgres" CLIENTS SECONDS [simple|extended|prepared] [KEYS]`
//!
//! It needs pgbench's tables, and compares with `pgbench -n -S -M prepared -c CLIENTS -j 1`.

use std::sync::Arc;

use evenkeel::runtime::{Clock as _, OsRuntime, Runtime};
use evenkeel_lab::target::postgres::address::{Address, Surroundings, operating_system_user};
use evenkeel_lab::target::postgres::session::PostgresTarget;
use evenkeel_lab::target::{Progress, QueryMode, Request, Target as _};
use evenkeel_lab::workload::script::{Piece, Slot, Statement, StatementId, Value, Workload};
use rand_core::Rng as _;
use rustix::time::ClockId;

#[allow(clippy::print_stdout, reason = "an example whose output is its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, clients, seconds, rest @ ..] = &arguments[..] else {
        return Err("session_cost ADDRESS CLIENTS SECONDS [MODE] [KEYS]".into());
    };
    let (user_name, home_directory) = operating_system_user().unzip();
    let surroundings = Surroundings {
        environment: &|name| std::env::var(name).ok(),
        user_name,
        home_directory,
        allow_password: false,
    };
    let target = PostgresTarget::new(Address::parse(address, &surroundings)?);
    let clients: usize = clients.parse()?;
    let seconds: u64 = seconds.parse()?;
    let mode = match rest.first().map(String::as_str) {
        Some("simple") => QueryMode::Simple,
        Some("extended") => QueryMode::Extended,
        _ => QueryMode::Prepared,
    };
    let keys: u64 = rest.get(1).map_or(Ok(1_000_000), |keys| keys.parse())?;

    let sql = "SELECT abalance FROM pgbench_accounts WHERE aid = ";
    let workload = Arc::new(Workload {
        statements: vec![Statement {
            pieces: vec![Piece::Text(sql.to_owned()), Piece::Variable(Slot(0))],
            text: format!("{sql}$1"),
            parameters: vec![Slot(0)],
            line: 1,
        }],
        ..Workload::default()
    });
    let runtime = OsRuntime::new();
    let runtime: &dyn Runtime = &runtime;
    let mut readiness = runtime.readiness()?;
    let mut sessions = Vec::new();
    for token in 0..clients {
        let mut session = target.connect(runtime, &workload, mode)?;
        session.register(readiness.as_mut(), token as u64)?;
        sessions.push(session);
    }
    let mut generator: rand_xoshiro::Xoshiro256PlusPlus =
        rand_core::SeedableRng::seed_from_u64(runtime.entropy_u64());
    let mut variables = [Value::Int(0)];
    let mut next = |readiness: &mut dyn evenkeel::runtime::Readiness,
                    session: &mut Box<dyn evenkeel_lab::target::Session>| {
        variables[0] = Value::Int((generator.next_u64() % keys) as i64 + 1);
        let request = Request::Statement {
            statement: StatementId(0),
            variables: &variables,
            wants_rows: false,
        };
        session.submit(request, readiness)
    };
    for session in &mut sessions {
        next(readiness.as_mut(), session)?;
    }
    let started = OsRuntime.now();
    let processor_time = || {
        let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let processor_start_us = processor_time();
    let end = started.plus_nanos(seconds * 1_000_000_000);
    let mut ready = Vec::new();
    let (mut count, mut waits) = (0_u64, 0_u64);
    let mut now = started;
    while now < end {
        readiness.wait(Some(end), &mut ready)?;
        waits += 1;
        for source in &ready {
            let Some(session) = sessions.get_mut(source.token as usize) else { continue };
            match session.advance(readiness.as_mut(), None)? {
                Progress::Pending => {}
                Progress::Done => {
                    count += 1;
                    // A driver reads the clock at the end and at the start of a statement.
                    now = OsRuntime.now();
                    next(readiness.as_mut(), session)?;
                }
                Progress::Failed(error) => return Err(error.into()),
            }
        }
    }
    let spent_us = processor_time() - processor_start_us;
    let elapsed = OsRuntime.now().since(started).as_secs_f64();
    println!(
        "clients {clients}: {:.0} statements/s, {:.2} us of processor time each, {:.2} sessions a wait",
        count as f64 / elapsed,
        spent_us / count as f64,
        count as f64 / waits as f64
    );
    Ok(())
}
