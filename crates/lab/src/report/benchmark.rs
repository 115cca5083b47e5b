//! `bench.txt`: one line a run in the text format of Go's benchmarks, which `benchstat` reads.
//!
//! The format is described in the Go project's "Proposal: Go Benchmark Data Format"
//! (golang/proposal, design/14313-benchmark-format.md): `Benchmark` with a capital or digit after
//! it, the iteration count, then pairs of value and unit. The arm is a key of the name, so that
//! `benchstat -col /arm bench.txt` compares the arms.

use std::io::{self, Write};

use crate::experiment::document::{ArmRole, LatencySummary, SessionDocument};

/// Renders.
///
/// # Errors
/// What the writer refuses.
pub(super) fn render(document: &SessionDocument, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "goos: linux")?;
    writeln!(out, "pkg: evenkeel")?;
    for run in &document.runs {
        let arm = document.arms.get(run.arm as usize);
        let name = arm.map_or_else(|| format!("arm{}", run.arm), |arm| word(&arm.name));
        let role = match arm.map(|arm| arm.role) {
            Some(ArmRole::Baseline) => "baseline",
            Some(ArmRole::Contender) => "contender",
            Some(ArmRole::Control) => "control",
            None => "unknown",
        };
        let script = document
            .protocol
            .scripts
            .first()
            .map_or_else(|| "unknown".to_owned(), |script| word(&script.name));
        if run.counts.committed == 0 {
            // benchstat would take the line for a measurement.
            writeln!(out, "# run {} of {name} committed nothing", run.index)?;
            continue;
        }
        write!(
            out,
            "BenchmarkSession/script={script}/arm={name}/role={role} {}",
            run.counts.committed
        )?;
        for (value, unit) in [
            (run.response.mean_ns, "ns/op"),
            (run.throughput_per_s, "tx/s"),
            (quantile(&run.response, 0.5), "p50-response-ns"),
            (quantile(&run.response, 0.99), "p99-response-ns"),
            (quantile(&run.response, 0.999), "p99.9-response-ns"),
            (quantile(&run.response, 1.0), "max-response-ns"),
            (quantile(&run.service, 0.99), "p99-service-ns"),
        ] {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                write!(out, " {value} {unit}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Letters, digits and a few signs; a name in this format holds no spaces, and `-8` at its end would
/// be read as a number of processors.
fn word(text: &str) -> String {
    let kept: String = text
        .chars()
        .take(60)
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' })
        .collect();
    if kept.is_empty() { "unnamed".to_owned() } else { kept }
}

#[allow(clippy::cast_precision_loss, reason = "latencies lie far below 2^53 ns, which is 104 days")]
fn quantile(summary: &LatencySummary, q: f64) -> Option<f64> {
    summary
        .percentiles
        .iter()
        .find(|found| (found.q - q).abs() < 1e-9)
        .map(|found| found.value_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn every_line_is_a_name_a_count_and_pairs_of_value_and_unit() {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        for (name, document) in sessions {
            let mut out = Vec::new();
            render(&document, &mut out).unwrap();
            for line in
                String::from_utf8(out).unwrap().lines().skip(2).filter(|l| !l.starts_with('#'))
            {
                let fields: Vec<&str> = line.split(' ').collect();
                assert!(fields[0].starts_with("BenchmarkSession/"), "{name}: {line}");
                assert!(fields[1].parse::<u64>().is_ok(), "{name}: {line}");
                assert!(fields.len().is_multiple_of(2), "{name}: {line}");
                for pair in fields[2..].chunks(2) {
                    assert!(pair[0].parse::<f64>().unwrap().is_finite(), "{name}: {line}");
                }
            }
        }
    }
}
