//! A run's files: the record, tables, and HdrHistogram's formats.

use evenkeel::runtime::WallTime;
use evenkeel_lab::driver::{Length, RunData};
use evenkeel_lab::experiment::document::{
    Arm, ArmRole, CacheState, Protocol, SCHEMA, SessionDocument,
};
use evenkeel_lab::experiment::{run_files, store};
use evenkeel_lab::report;

use super::Finished;

/// Writes what was asked for.
pub(super) fn write(finished: &Finished<'_>) -> anyhow::Result<()> {
    let arguments = finished.arguments;
    if let Some(directory) = &arguments.out {
        store::write_session(directory, &document(finished))?;
        report::write_files(directory, &document(finished))?;
        run_files::write_histograms(directory, finished.run.index, finished.data)?;
    }
    Ok(())
}

/// The run as a session of one arm.
fn document(finished: &Finished<'_>) -> SessionDocument {
    let (plan, run, data) = (finished.plan, &finished.run, finished.data);
    SessionDocument {
        schema: SCHEMA.to_owned(),
        evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: iso_8601(data.origin_wall.as_unix_nanos(), 0),
        ended_at: Some(iso_8601(data.origin_wall.as_unix_nanos(), last_end_ns(data))),
        command: std::env::args().collect(),
        title: format!("one run on {}", plan.target.address()),
        incomplete: run.incomplete.clone(),
        protocol: protocol(finished),
        machine: finished.machine.clone(),
        arms: vec![Arm {
            name: "bench".to_owned(),
            role: ArmRole::Baseline,
            kind: "url".to_owned(),
            address: plan.target.address(),
            server_version: Some(finished.settings.version.clone()),
            server_version_num: Some(finished.settings.version_num),
            declared_settings: std::collections::BTreeMap::new(),
            captured_settings: finished.settings.values.clone(),
            environment_names: Vec::new(),
            build_options: None,
            data_hash: None,
        }],
        differences: Vec::new(),
        runs: vec![run.clone()],
        analysis: None,
    }
}

fn protocol(finished: &Finished<'_>) -> Protocol {
    let (plan, run) = (finished.plan, &finished.run);
    Protocol {
        seed: plan.seed,
        pairs_planned: 1,
        looks: Vec::new(),
        block_order: vec![vec![0]],
        duration_ns: match plan.length {
            Length::Duration(duration) => duration.as_nanos() as u64,
            Length::TransactionsPerClient(_) => run.duration_ns,
        },
        grace_ns: plan.grace.as_nanos() as u64,
        cache_state: if plan.warm_up.is_zero() {
            CacheState::CarriedOver
        } else {
            CacheState::Warmed { duration_ns: plan.warm_up.as_nanos() as u64 }
        },
        arrival: plan.arrival,
        clients: plan.clients,
        threads: finished.data.threads,
        query_mode: plan.query_mode,
        scale: finished.scale,
        fillfactor: None,
        scripts: finished.scripts.to_vec(),
        latency_limit_ns: plan.latency_limit.map(|limit| limit.as_nanos() as u64),
        max_tries: plan.max_tries,
        primary: "response_p99".to_owned(),
        margin_ratio: 0.05,
        is_quick: false,
        expects_saturation: false,
    }
}

fn last_end_ns(data: &RunData) -> u64 {
    data.records().map(|record| record.end_ns).max().unwrap_or(0).max(data.measured_end_ns)
}

fn iso_8601(unix_nanos: i64, later_ns: u64) -> String {
    let at = WallTime::from_unix_nanos(
        unix_nanos.saturating_add(i64::try_from(later_ns).unwrap_or(i64::MAX)),
    );
    jiff::Timestamp::from_nanosecond(i128::from(at.as_unix_nanos()))
        .map_or_else(|_| "unknown".to_owned(), |time| time.to_string())
}
