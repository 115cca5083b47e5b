//! Tables for programs.
//!
//! Rules:
//!
//! 1. RFC 4180: comma, CRLF, quotes doubled. Fixed columns with a header, an empty cell for what is
//!    not known, so that a missing value never shifts the others.
//! 2. Units are in the column's name, times are integer nanoseconds, shares are ratios.
//! 3. Text that a spreadsheet would run as a formula (it begins with `=`, `+`, `-`, `@`, tab or
//!    carriage return) is prefixed by an apostrophe. Numbers are ours and never prefixed.
//! 4. Columns are only added, at the right.

use std::io::{self, Write};

use crate::experiment::document::{LatencySummary, Run, SessionDocument};
use crate::report::text;

/// Columns of the timeline that hold sampled values; fixed, so that files of different sessions and
/// versions of the server stack.
const SAMPLES: [&str; 23] = [
    "dirty_bytes",
    "writeback_bytes",
    "wal_bytes_per_s",
    "disk_write_bytes_per_s",
    "disk_read_bytes_per_s",
    "psi_io_some_ratio",
    "psi_cpu_some_ratio",
    "psi_memory_some_ratio",
    "steal_ratio",
    "commits_per_s",
    "blocks_read_per_s",
    "blocks_hit_per_s",
    "buffers_allocated_per_s",
    "buffers_cleaned_per_s",
    "cleaner_limit_stops_per_s",
    "buffers_checkpointed_per_s",
    "buffers_by_backends_per_s",
    "fsyncs_by_backends_per_s",
    "evictions_per_s",
    "slru_blocks_read_per_s",
    "slru_blocks_written_per_s",
    "wal_full_pages_per_s",
    "wal_buffers_full_per_s",
];

/// `runs.csv`: one row a run.
///
/// # Errors
/// What the writer refuses.
pub fn runs(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"run,block,position,arm,arm_name,instance,started_at,duration_ns,incomplete,planned,started,\
committed,serialization_failures,deadlocks,other_errors,skipped,censored,aborted,retried,retries,late,\
aborted_clients,backlog_at_end,throughput_per_s,response_mean_ns,response_p50_ns,response_p90_ns,\
response_p95_ns,response_p99_ns,response_p999_ns,response_max_ns,service_mean_ns,service_p50_ns,\
service_p99_ns,service_max_ns,lag_p50_ns,lag_p99_ns,lag_max_ns,driver_lag_p99_ns,\
driver_cpu_ns_per_transaction,driver_busy_ratio,stalls,stalled_delay_ns,wal_bytes,steal_ratio,\
foreign_cpus,psi_io_some_ratio,dirty_bytes_max,disk_free_bytes_min,clock_jump_ns,server_restarted,\
server_version,data_hash\r\n",
    )?;
    for run in &document.runs {
        let mut row = Row::new();
        row.whole(run.index).whole(run.block).whole(run.position).whole(run.arm);
        row.text(Some(&arm_name(document, run))).whole(run.instance).text(Some(&run.started_at));
        row.whole(run.duration_ns).text(run.incomplete.as_deref());
        let counts = &run.counts;
        for count in [
            counts.planned,
            counts.started,
            counts.committed,
            counts.serialization_failures,
            counts.deadlocks,
            counts.other_errors,
            counts.skipped,
            counts.censored,
            counts.aborted,
            counts.retried,
            counts.retries,
            counts.late,
            counts.aborted_clients,
            counts.backlog_at_end,
        ] {
            row.whole(count);
        }
        row.real(run.throughput_per_s);
        row.real(run.response.mean_ns);
        for q in [0.5, 0.9, 0.95, 0.99, 0.999] {
            row.maybe(quantile(&run.response, q));
        }
        row.maybe(run.response.max_ns).real(run.service.mean_ns);
        row.maybe(quantile(&run.service, 0.5)).maybe(quantile(&run.service, 0.99));
        row.maybe(run.service.max_ns);
        row.maybe(quantile(&run.lag, 0.5)).maybe(quantile(&run.lag, 0.99)).maybe(run.lag.max_ns);
        row.maybe(run.driver_lag_p99_ns);
        row.real(run.driver_cpu_ns_per_transaction).real(run.driver_busy_ratio);
        row.whole(run.episodes.len());
        // In 128 bits: delays of many waiting clients add up beyond any run's length.
        row.whole(
            run.episodes.iter().map(|episode| u128::from(episode.total_delay_ns)).sum::<u128>(),
        );
        row.real(run.outcomes.get("wal_bytes").copied().flatten());
        row.real(run.host.steal_ratio).real(run.host.foreign_cpus).real(run.host.psi_io_some_ratio);
        row.maybe(run.host.dirty_bytes_max).maybe(run.host.disk_free_bytes_min);
        row.maybe(run.clock_jump_ns).whole(run.server_restarted);
        row.text(run.server_version.as_deref()).text(run.data_hash.as_deref());
        row.end(out)?;
    }
    Ok(())
}

/// `percentiles.csv`: one row for each run, kind of time, script and percentile.
///
/// # Errors
/// What the writer refuses.
pub fn percentiles(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"run,block,arm,arm_name,kind,script,q,value_ns,count_beyond,is_lower_bound\r\n",
    )?;
    for run in &document.runs {
        let of_scripts = run.scripts.iter().map(|script| {
            let name = document
                .protocol
                .scripts
                .get(script.script as usize)
                .map_or_else(|| format!("script {}", script.script), |used| used.name.clone());
            ("response", name, &script.response)
        });
        let of_run = [
            ("response", String::new(), &run.response),
            ("service", String::new(), &run.service),
            ("lag", String::new(), &run.lag),
        ];
        for (kind, script, summary) in of_run.into_iter().chain(of_scripts) {
            for percentile in &summary.percentiles {
                let mut row = Row::new();
                row.whole(run.index).whole(run.block).whole(run.arm);
                row.text(Some(&arm_name(document, run))).word(kind);
                row.text((!script.is_empty()).then_some(script.as_str()));
                row.real(Some(percentile.q)).whole(percentile.value_ns);
                row.whole(percentile.count_beyond).whole(percentile.is_lower_bound);
                row.end(out)?;
            }
        }
    }
    Ok(())
}

/// `exceedance.csv`: how many transactions of each run took at least so long.
///
/// # Errors
/// What the writer refuses.
pub fn exceedance(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"run,block,arm,arm_name,threshold_ns,count,episodes,transactions\r\n")?;
    for run in &document.runs {
        for threshold in &run.exceedance {
            let mut row = Row::new();
            row.whole(run.index).whole(run.block).whole(run.arm);
            row.text(Some(&arm_name(document, run)));
            row.whole(threshold.threshold_ns).whole(threshold.count).whole(threshold.episodes);
            row.whole(run.response.count);
            row.end(out)?;
        }
    }
    Ok(())
}

/// `timeline.csv`: one row for each run and second.
///
/// # Errors
/// What the writer refuses.
pub fn timeline(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "run,block,arm,arm_name,second,planned,started,finished,failed,backlog,p50_ns,p99_ns,max_ns,{}\r\n",
        SAMPLES.join(",")
    )?;
    for run in &document.runs {
        for second in &run.timeline {
            let mut row = Row::new();
            row.whole(run.index).whole(run.block).whole(run.arm);
            row.text(Some(&arm_name(document, run))).whole(second.second);
            row.whole(second.planned).whole(second.started).whole(second.finished);
            row.whole(second.failed).whole(second.backlog);
            row.maybe(second.p50_ns).maybe(second.p99_ns).maybe(second.max_ns);
            for name in SAMPLES {
                row.real(second.samples.get(name).copied().flatten());
            }
            row.end(out)?;
        }
    }
    Ok(())
}

/// `otava.csv`: the runs of the arm that is judged (of the baseline where none is), for detecting
/// changes over the sessions of a longer time.
///
/// # Errors
/// What the writer refuses.
pub fn series(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"time,commit,throughput_per_s,response_mean_ns,response_p50_ns,response_p95_ns,\
response_p99_ns,response_p999_ns,response_max_ns\r\n",
    )?;
    let judged = document.analysis.as_ref().map_or(0, |analysis| analysis.comparison.arm);
    for run in document.runs.iter().filter(|run| run.arm == judged && run.incomplete.is_none()) {
        let mut row = Row::new();
        row.text(Some(&run.started_at)).text(Some(&arm_name(document, run)));
        row.real(run.throughput_per_s).real(run.response.mean_ns);
        for q in [0.5, 0.95, 0.99, 0.999] {
            row.maybe(quantile(&run.response, q));
        }
        row.maybe(run.response.max_ns);
        row.end(out)?;
    }
    Ok(())
}

fn arm_name(document: &SessionDocument, run: &Run) -> String {
    document.arms.get(run.arm as usize).map(|arm| arm.name.clone()).unwrap_or_default()
}

fn quantile(summary: &LatencySummary, q: f64) -> Option<u64> {
    summary.percentiles.iter().find(|found| (found.q - q).abs() < 1e-9).map(|found| found.value_ns)
}

/// One line being built.
struct Row {
    line: String,
    is_first: bool,
}

impl Row {
    const fn new() -> Self {
        Self { line: String::new(), is_first: true }
    }

    fn cell(&mut self, content: &str) -> &mut Self {
        if !self.is_first {
            self.line.push(',');
        }
        self.is_first = false;
        self.line.push_str(content);
        self
    }

    fn whole(&mut self, value: impl ToString) -> &mut Self {
        self.cell(&value.to_string())
    }

    fn maybe(&mut self, value: Option<u64>) -> &mut Self {
        self.cell(&value.map(|value| value.to_string()).unwrap_or_default())
    }

    fn real(&mut self, value: Option<f64>) -> &mut Self {
        self.cell(
            &value.filter(|value| value.is_finite()).map(|v| v.to_string()).unwrap_or_default(),
        )
    }

    /// One of our own words.
    fn word(&mut self, word: &'static str) -> &mut Self {
        self.cell(word)
    }

    /// Text from outside.
    fn text(&mut self, text: Option<&str>) -> &mut Self {
        let shown = text.map(quoted).unwrap_or_default();
        self.cell(&shown)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.line.push_str("\r\n");
        out.write_all(self.line.as_bytes())
    }
}

/// Rules 1 and 3.
fn quoted(text: &str) -> String {
    let shown = text::visible(text, 1000);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let shown = if is_formula { format!("'{shown}") } else { shown };
    if shown.contains([',', '"', '\n', '\r']) || shown.starts_with(' ') || shown.ends_with(' ') {
        format!("\"{}\"", shown.replace('"', "\"\""))
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    /// An RFC 4180 reader of our own, so that the test does not trust the writer.
    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        let mut is_quoted = false;
        while let Some(c) = chars.next() {
            match c {
                '"' if is_quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    cell.push('"');
                }
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
                '\r' if !is_quoted => {
                    assert_eq!(chars.next(), Some('\n'), "a bare carriage return");
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                _ => cell.push(c),
            }
        }
        assert!(cell.is_empty() && row.is_empty() && !is_quoted, "cut off");
        rows
    }

    type Renderer = fn(&SessionDocument, &mut dyn Write) -> io::Result<()>;
    const ALL: [(&str, Renderer); 5] = [
        ("series", series),
        ("runs", runs),
        ("percentiles", percentiles),
        ("exceedance", exceedance),
        ("timeline", timeline),
    ];

    #[test]
    fn a_missing_value_never_shifts_the_columns() {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        for (name, document) in &sessions {
            for (file, render) in ALL {
                let mut out = Vec::new();
                render(document, &mut out).unwrap();
                let rows = parse(&String::from_utf8(out).unwrap());
                let width = rows[0].len();
                for row in &rows {
                    assert_eq!(row.len(), width, "{name} {file}: {row:?}");
                    for cell in row {
                        assert!(!cell.contains("NaN") && cell != "inf", "{name} {file}: {cell}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_column_is_described() {
        let described = include_str!("../../../../docs/results-format.md");
        let document = fixture::session(fixture::TINY);
        for (file, render) in ALL {
            let mut out = Vec::new();
            render(&document, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for column in text.lines().next().unwrap().split(',') {
                assert!(described.contains(&format!("`{column}`")), "{file}: {column}");
            }
        }
    }

    #[test]
    fn a_spreadsheet_runs_nothing_from_these_files() {
        for hostile in fixture::HOSTILE {
            let cell = quoted(hostile);
            let opened = cell.trim_start_matches('"');
            assert!(
                !opened.starts_with(['=', '+', '-', '@', '\t', '\r']),
                "{cell} would be run as a formula"
            );
        }
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
        assert_eq!(quoted("master"), "master");
    }

    #[test]
    fn values_are_found_under_their_columns() {
        let document = fixture::session(fixture::TINY);
        let mut out = Vec::new();
        runs(&document, &mut out).unwrap();
        let rows = parse(&String::from_utf8(out).unwrap());
        let at = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
        assert_eq!(rows.len(), 1 + document.runs.len());
        assert_eq!(
            rows[1][at("response_max_ns")],
            document.runs[0].response.max_ns.unwrap().to_string()
        );
        assert_eq!(rows[1][at("data_hash")], "9f3e".repeat(16));
        assert_eq!(rows[1][at("incomplete")], "");
    }
}
