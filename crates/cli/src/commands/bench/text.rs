//! The report of a run: pgbench's lines in pgbench's order, then what pgbench does not say.

use std::io::{self, Write};

use evenkeel_lab::driver::{CommandTimes, Length};
use evenkeel_lab::experiment::document::{Counts, LatencySummary};
use evenkeel_lab::measure::record::Outcome;
use evenkeel_lab::measure::{ScriptCounts, Window, counts_by_script};
use evenkeel_lab::report::text::wrap;
use evenkeel_lab::target::QueryMode;
use evenkeel_lab::text::terminal;
use evenkeel_lab::workload::script::{Command, Script};

use super::Finished;

/// Percentiles that are shown.
const SHOWN: [f64; 7] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];

/// Settings that explain most differences between two runs; the record has all.
const SETTINGS_SHOWN: [&str; 9] = [
    "shared_buffers",
    "huge_pages",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_compression",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
];

/// Columns of a line of prose, less the indent of the lines after the first.
const COLUMNS: usize = 98;

/// Keeps lines within 100 columns.
const SETTINGS_PER_LINE: usize = 4;

/// Fewer samples beyond a percentile than this say little about it.
const COUNT_BEYOND_MIN: u64 = 10;

/// Writes the report.
pub(super) fn write(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (run, plan, data) = (&finished.run, finished.plan, finished.data);
    let scripts = &plan.workload.scripts;
    writeln!(out, "evenkeel ({})", env!("CARGO_PKG_VERSION"))?;
    match scripts.as_slice() {
        [script] => writeln!(out, "transaction type: {}", terminal(&script.name))?,
        _ => writeln!(out, "transaction type: multiple scripts")?,
    }
    match finished.scale {
        Some(scale) => writeln!(out, "scaling factor: {scale}")?,
        None => writeln!(out, "scaling factor: n/a")?,
    }
    let mode = match plan.query_mode {
        QueryMode::Simple => "simple",
        QueryMode::Extended => "extended",
        QueryMode::Prepared => "prepared",
    };
    writeln!(out, "query mode: {mode}")?;
    writeln!(out, "number of clients: {}", plan.clients)?;
    writeln!(out, "number of threads: {}", data.threads)?;
    if plan.max_tries != 0 {
        writeln!(out, "maximum number of tries: {}", plan.max_tries)?;
    }
    match plan.length {
        Length::Duration(duration) => writeln!(out, "duration: {} s", duration.as_secs_f64())?,
        Length::TransactionsPerClient(count) => {
            writeln!(out, "number of transactions per client: {count}")?;
        }
    }
    write_counts(finished, &run.counts, out)?;
    write_averages(finished, out)?;
    if scripts.len() > 1 {
        write_scripts(finished, out)?;
    } else if plan.report_per_command {
        write_commands(finished, 0, "", out)?;
    }
    write_percentiles(finished, out)?;
    write_exceedance(finished, out)?;
    write_remarks(finished, out)?;
    write_circumstances(finished, out)
}

fn write_counts(finished: &Finished<'_>, counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    // pgbench's total: what ran to an end or was skipped.
    let total = counts.committed + failures(counts) + counts.skipped;
    let per_client = match finished.plan.length {
        Length::TransactionsPerClient(count) => {
            format!("/{}", count.saturating_mul(u64::from(finished.plan.clients)))
        }
        Length::Duration(_) => String::new(),
    };
    writeln!(out, "number of transactions actually processed: {}{per_client}", counts.committed)?;
    write_failures(finished, counts, total, "", out)?;
    if let Some(limit) = finished.plan.latency_limit {
        if finished.plan.is_open_loop() {
            writeln!(out, "number of transactions skipped: {}", share(counts.skipped, total))?;
        }
        let percent = percent_of(counts.late, counts.committed);
        writeln!(
            out,
            "number of transactions above the {:.1} ms latency limit: {}/{} ({percent})",
            limit.as_secs_f64() * 1e3,
            counts.late,
            counts.committed,
        )?;
    }
    Ok(())
}

/// Failed for good; sessions that were lost are counted with their clients.
const fn failures(counts: &Counts) -> u64 {
    counts.serialization_failures + counts.deadlocks + counts.other_errors
}

/// The lines on failures and retries, as shares of `total`.
fn write_failures(
    finished: &Finished<'_>,
    counts: &Counts,
    total: u64,
    lead: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let failed = share(failures(counts), total);
    writeln!(out, "{lead}number of failed transactions: {failed}")?;
    if finished.arguments.failures_detailed {
        let serialization = share(counts.serialization_failures, total);
        writeln!(out, "{lead}number of serialization failures: {serialization}")?;
        writeln!(out, "{lead}number of deadlock failures: {}", share(counts.deadlocks, total))?;
        writeln!(out, "{lead}number of other failures: {}", share(counts.other_errors, total))?;
    }
    if finished.plan.max_tries != 1 {
        let retried = share(counts.retried, total);
        writeln!(out, "{lead}number of transactions retried: {retried}")?;
        writeln!(out, "{lead}total number of retries: {}", counts.retries)?;
    }
    Ok(())
}

fn write_averages(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (run, data) = (&finished.run, finished.data);
    writeln!(out, "latency average = {} ms", ms(run.response.mean_ns))?;
    writeln!(out, "latency stddev = {} ms", ms(run.response.standard_deviation_ns))?;
    if finished.plan.is_open_loop() {
        writeln!(
            out,
            "rate limit schedule lag: avg {} (max {}) ms",
            ms(run.lag.mean_ns),
            ms(run.lag.max_ns.map(|max| max as f64)),
        )?;
    }
    if finished.plan.reconnect {
        // The sessions of the run's first transactions, opened before it, are none of these.
        let calls = &data.calls;
        let mean_ns =
            (calls.connections > 0).then(|| calls.connections_ns as f64 / calls.connections as f64);
        writeln!(out, "average connection time = {} ms", ms(mean_ns))?;
    } else {
        writeln!(out, "initial connection time = {:.3} ms", data.connection_ns as f64 / 1e6)?;
    }
    let which = if finished.plan.reconnect {
        "including reconnection times"
    } else {
        "without initial connection time"
    };
    match run.throughput_per_s {
        Some(tps) if run.counts.committed > 0 => writeln!(out, "tps = {tps:.6} ({which})"),
        _ => writeln!(out, "tps = n/a (no transaction committed)"),
    }
}

/// The part of each script, laid out as pgbench 18 does.
fn write_scripts(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let scripts = &finished.plan.workload.scripts;
    let weights: u64 = scripts.iter().map(|script| u64::from(script.weight)).sum();
    let window = Window::measured(finished.data);
    let seconds = window.duration_ns() as f64 / 1e9;
    let by_script = counts_by_script(finished.data, window);
    let ended = |counts: &Counts| counts.committed + failures(counts);
    let total: u64 = by_script.iter().map(|script| ended(&script.counts)).sum();
    for (index, (script, ScriptCounts { counts, committed_inside })) in
        scripts.iter().zip(&by_script).enumerate()
    {
        writeln!(out, "SQL script {}: {}", index + 1, terminal(&script.name))?;
        let weight = u64::from(script.weight);
        let target = tenths_of(weight, weights);
        writeln!(out, " - weight: {weight} (targets {target} of total)")?;
        let own = ended(counts);
        writeln!(out, " - {own} transactions ({} of total)", tenths_of(own, total))?;
        if own > 0 {
            let tps = if seconds > 0.0 { *committed_inside as f64 / seconds } else { 0.0 };
            writeln!(
                out,
                " - number of transactions actually processed: {} (tps = {tps:.6})",
                counts.committed
            )?;
            write_failures(finished, counts, own, " - ", out)?;
        }
        if let Some(figures) = finished.run.scripts.get(index).map(|script| &script.response) {
            writeln!(out, " - latency average = {} ms", ms(figures.mean_ns))?;
            writeln!(out, " - latency stddev = {} ms", ms(figures.standard_deviation_ns))?;
        }
        if finished.plan.report_per_command {
            write_commands(finished, index, " - ", out)?;
        }
    }
    Ok(())
}

/// The rows of a script's commands, as pgbench 18 lays them out; what never ran has no time.
fn write_commands(
    finished: &Finished<'_>,
    index: usize,
    lead: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(script) = finished.plan.workload.scripts.get(index) else { return Ok(()) };
    let times = finished.data.commands.get(index).map_or(&[][..], Vec::as_slice);
    let has_retries = finished.plan.max_tries != 1;
    let columns = if has_retries { ", failures and retries" } else { " and failures" };
    writeln!(out, "{lead}statement latencies in milliseconds{columns}:")?;
    for (text, times) in script.listing.iter().zip(by_number(script, times)) {
        let mean = match times {
            Some(times) => (times.count > 0).then(|| times.sum_ns as f64 / times.count as f64),
            // \else and \endif take no time.
            None => Some(0.0),
        };
        let times = times.unwrap_or_default();
        write!(out, "   {:>11}  {:>10}", ms(mean), times.failures)?;
        if has_retries {
            write!(out, "  {:>10}", times.retries)?;
        }
        writeln!(out, " {}", terminal(text))?;
    }
    Ok(())
}

/// The times of each command that pgbench counts; `None` for those that are none of ours.
fn by_number(script: &Script, times: &[CommandTimes]) -> Vec<Option<CommandTimes>> {
    let mut all = vec![None; script.listing.len()];
    let commands = script.commands.iter().zip(&script.numbers).zip(times);
    // A jump bears the number of the command before it.
    for ((_, number), times) in
        commands.filter(|((command, _), _)| !matches!(command, Command::Jump { .. }))
    {
        if let Some(place) = all.get_mut((*number as usize).wrapping_sub(1)) {
            *place = Some(*times);
        }
    }
    all
}

fn write_percentiles(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let run = &finished.run;
    if run.response.count == 0 {
        return writeln!(
            out,
            "\nno transaction ended in the measured part: there are no percentiles"
        );
    }
    writeln!(out, "\nms           {}", SHOWN.map(|q| format!("{:>10}", name_of(q))).join(" "))?;
    let rows = [("response", &run.response), ("service", &run.service), ("lag", &run.lag)];
    // Without a schedule nothing can lag behind it.
    let row_count = if finished.plan.is_open_loop() { 3 } else { 2 };
    for (name, summary) in rows.into_iter().take(row_count) {
        let cells = SHOWN.map(|q| format!("{:>10}", cell(summary, q)));
        writeln!(out, "{name:<12} {}", cells.join(" "))?;
    }
    if run.failed.count > 0 {
        let cells = SHOWN.map(|q| format!("{:>10}", cell(&run.failed, q)));
        writeln!(out, "{:<12} {}", "failed", cells.join(" "))?;
    }
    if finished.plan.is_open_loop() {
        writeln!(
            out,
            "response = from the schedule to the end; service = from the start; lag = between them"
        )?;
        if let Some(lag_ns) = run.driver_lag_p99_ns {
            writeln!(
                out,
                "lag while a client was free (this program's own): p99 {} ms",
                ms(Some(lag_ns as f64))
            )?;
        }
    } else {
        writeln!(
            out,
            "closed loop: stalls reduce the number of samples; use -R to see them whole"
        )?;
    }
    Ok(())
}

fn write_exceedance(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let run = &finished.run;
    let rows: Vec<_> = run.exceedance.iter().filter(|row| row.count > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nat least     transactions  per million  stalls")?;
    for row in rows {
        let per_million = row.count as f64 * 1e6 / run.response.count.max(1) as f64;
        let threshold = match row.threshold_ns {
            ns if ns >= 1_000_000_000 => format!("{} s", ns / 1_000_000_000),
            ns => format!("{} ms", ns / 1_000_000),
        };
        writeln!(out, "{threshold:<12} {:>12} {per_million:>12.1} {:>7}", row.count, row.episodes)?;
    }
    Ok(())
}

fn write_remarks(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (run, counts) = (&finished.run, &finished.run.counts);
    // Uniform draws as they should be are not worth a line; the record has them all.
    let worth_showing =
        run.key_audits.iter().filter(|audit| !audit.is_passed || audit.distribution != "uniform");
    for audit in worth_showing {
        let shares: Vec<String> = audit
            .shares
            .iter()
            .map(|share| {
                let drawn =
                    share.drawn_ratio.map_or("n/a".to_owned(), |drawn| format!("{drawn:.5}"));
                format!(
                    "top {:.0}%: {drawn} ({:.5})",
                    share.top_ratio * 100.0,
                    share.expected_ratio
                )
            })
            .collect();
        let (verdict, _) = evenkeel_lab::report::model::audit_word(audit);
        writeln!(
            out,
            "\nkeys of {}, {}: {verdict}",
            terminal(&audit.source),
            terminal(&audit.distribution)
        )?;
        writeln!(out, "  drawn (expected): {}", shares.join(", "))?;
    }
    for (sqlstate, count) in &run.errors {
        writeln!(out, "errors with SQLSTATE {}: {count}", terminal(sqlstate))?;
    }
    if counts.censored > 0 {
        writeln!(
            out,
            "{} transactions had not ended when {}: percentiles marked > are lower bounds",
            counts.censored,
            if run.incomplete.is_some() {
                "the run was cut short"
            } else {
                "the grace time was over"
            }
        )?;
    }
    if counts.backlog_at_end > 0 && finished.plan.is_open_loop() {
        writeln!(
            out,
            "{} transactions had not ended with the measured part",
            counts.backlog_at_end
        )?;
    }
    if counts.aborted_clients > 0 {
        let lost = finished.data.records().filter(|one| one.outcome == Outcome::Aborted).count();
        writeln!(
            out,
            "INVALID: {} of {} clients gave up ({lost} transactions lost with their sessions)",
            counts.aborted_clients, finished.plan.clients
        )?;
    }
    if counts.committed == 0 {
        writeln!(out, "INVALID: no transaction committed; the run was too short, or all failed")?;
    }
    if let Some(reason) = &run.incomplete {
        let reason = terminal(reason);
        writeln!(out, "INCOMPLETE: {reason}; the figures are of what was done until then")?;
    }
    Ok(())
}

/// On what, by what and under which settings: without it the figures above cannot be repeated.
fn write_circumstances(finished: &Finished<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (settings, machine) = (finished.settings, finished.machine);
    // `version()` names the compiler too, which makes one line of 120 columns and more.
    for (number, line) in
        wrap(&format!("server: {}", terminal(&settings.version)), COLUMNS).iter().enumerate()
    {
        writeln!(out, "{}{line}", if number == 0 { "\n" } else { "  " })?;
    }
    let shown: Vec<String> = SETTINGS_SHOWN
        .iter()
        .filter_map(|name| {
            Some(format!("{name} {}", terminal(&in_one_unit(settings.values.get(*name)?))))
        })
        .collect();
    for line in shown.chunks(SETTINGS_PER_LINE) {
        writeln!(out, "  {}", line.join(", "))?;
    }
    let facts = [
        machine.cpu_count.map(|count| format!("{count} processors")),
        machine.cpu.clone(),
        machine.memory_bytes.map(|bytes| format!("{} MiB", bytes >> 20)),
        machine.kernel.clone(),
        machine.file_system.as_ref().map(|name| format!("data on {name}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    writeln!(out, "machine: {}", terminal(&facts.join(", ")))?;
    for warning in &machine.warnings {
        writeln!(out, "  {}", terminal(warning))?;
    }
    for script in finished.scripts {
        writeln!(out, "script: sha256 {} {}", script.sha256, terminal(&script.name))?;
    }
    writeln!(out, "seed: {}", finished.plan.seed)
}

/// A setting in blocks (`4096 x 8kB`) as a size (`32MB`); others as they are.
fn in_one_unit(value: &str) -> String {
    let kilobytes = value.split_once(" x ").and_then(|(count, unit)| {
        let unit: u64 = unit.strip_suffix("kB")?.parse().ok()?;
        count.parse::<u64>().ok()?.checked_mul(unit)
    });
    match kilobytes {
        None => value.to_owned(),
        Some(size) if size > 0 && size.is_multiple_of(1 << 20) => format!("{}GB", size >> 20),
        Some(size) if size > 0 && size.is_multiple_of(1 << 10) => format!("{}MB", size >> 10),
        Some(size) => format!("{size}kB"),
    }
}

fn name_of(q: f64) -> String {
    if q >= 1.0 {
        return "max".to_owned();
    }
    format!("p{}", (q * 1e6).round() / 1e4)
}

fn cell(summary: &LatencySummary, q: f64) -> String {
    match summary.percentiles.iter().find(|one| (one.q - q).abs() < 1e-9) {
        // The maximum has nothing beyond it by nature.
        Some(one) if q < 1.0 && one.count_beyond < COUNT_BEYOND_MIN => "too few".to_owned(),
        Some(one) if one.is_lower_bound => format!(">{}", ms(Some(one.value_ns as f64))),
        Some(one) => ms(Some(one.value_ns as f64)),
        None => "n/a".to_owned(),
    }
}

fn ms(nanos: Option<f64>) -> String {
    nanos.map_or_else(|| "n/a".to_owned(), |nanos| format!("{:.3}", nanos / 1e6))
}

/// A count with its share of `total`, as pgbench prints it.
fn share(count: u64, total: u64) -> String {
    format!("{count} ({})", percent_of(count, total))
}

fn percent_of(count: u64, total: u64) -> String {
    if total == 0 {
        "n/a".to_owned()
    } else {
        format!("{:.3}%", 100.0 * count as f64 / total as f64)
    }
}

/// As [`percent_of`], with the one decimal that pgbench gives shares of scripts.
fn tenths_of(count: u64, total: u64) -> String {
    if total == 0 {
        "n/a".to_owned()
    } else {
        format!("{:.1}%", 100.0 * count as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nothing_is_not_available_and_never_nan() {
        assert_eq!(share(0, 0), "0 (n/a)");
        assert_eq!(share(1, 8), "1 (12.500%)");
        assert_eq!(ms(None), "n/a");
    }

    #[test]
    fn a_setting_in_blocks_is_shown_as_people_write_it() {
        let cases =
            [("4096 x 8kB", "32MB"), ("131072 x 8kB", "1GB"), ("on", "on"), ("1 x 8kB", "8kB")];
        for (stored, shown) in cases {
            assert_eq!(in_one_unit(stored), shown);
        }
    }

    #[test]
    fn percentiles_have_the_names_people_use() {
        let names = SHOWN.map(name_of);
        assert_eq!(names, ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"]);
    }
}
