//! The measures of a run: what is compared, in which unit, and which direction is good.

use crate::experiment::document::{Arrival, LatencySummary, Run, SessionDocument};

/// A measure, by its name in `session.json`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Measure(String);

/// What a measure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// `per_s`, `ns`, `bytes`, `count` or `ratio`.
    pub unit: &'static str,
    /// Whether a larger value is better; `None`: neither.
    pub larger_is_better: Option<bool>,
    /// Whether it is a single extreme value, which is shown and not tested.
    pub is_extreme: bool,
}

/// Percentiles of response time that have a row of their own.
const RESPONSE_PERCENTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// How a percentile is written in a measure's name: `p99.9`.
#[must_use]
pub fn percentile_name(q: f64) -> String {
    let percent = format!("{:.4}", q * 100.0);
    let trimmed = percent.trim_end_matches('0').trim_end_matches('.');
    format!("p{trimmed}")
}

impl Measure {
    /// The measure called `name`; unknown names are measures without values.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The rows every comparison has, then per-transaction counters and outcomes that the runs hold.
    #[must_use]
    pub fn all_of(document: &SessionDocument) -> Vec<Self> {
        let mut names = vec!["throughput".to_owned(), "response_mean".to_owned()];
        names.extend(RESPONSE_PERCENTILES.map(|q| format!("response_{}", percentile_name(q))));
        names.push("response_max".to_owned());
        if document.protocol.arrival != Arrival::Closed {
            for kind in ["service_mean", "service_p50", "service_p99", "lag_p99"] {
                names.push(kind.to_owned());
            }
        }
        let mut counters: Vec<String> = document
            .runs
            .iter()
            .flat_map(|run| run.counters.keys().map(|key| format!("counter.{key}")))
            .collect();
        counters.extend(
            document
                .runs
                .iter()
                .flat_map(|run| run.outcomes.keys().map(|k| format!("outcome.{k}"))),
        );
        counters.sort();
        counters.dedup();
        names.extend(counters);
        names.into_iter().map(Self).collect()
    }

    /// The value in `run`; `None` where the run does not hold it.
    #[must_use]
    pub fn value(&self, run: &Run) -> Option<f64> {
        let name = self.0.as_str();
        let value = if name == "throughput" {
            run.throughput_per_s
        } else if let Some(key) = name.strip_prefix("counter.") {
            let committed = run.counts.committed;
            let counter = run.counters.get(key).copied().flatten()?;
            (committed > 0).then(|| counter / committed as f64)
        } else if let Some(key) = name.strip_prefix("outcome.") {
            run.outcomes.get(key).copied().flatten()
        } else {
            let (_, figure) = name.split_once('_')?;
            latency(summary_of(self, run)?, figure)
        };
        value.filter(|value| value.is_finite())
    }

    /// The percentile it names, as a share.
    #[must_use]
    pub fn percentile(&self) -> Option<f64> {
        let (_, figure) = self.0.split_once('_')?;
        let percent: f64 = figure.strip_prefix('p')?.parse().ok()?;
        Some(percent / 100.0)
    }

    /// What it is.
    #[must_use]
    pub fn nature(&self) -> Nature {
        let name = self.0.as_str();
        let nature = |unit, larger_is_better| Nature { unit, larger_is_better, is_extreme: false };
        if name == "throughput" {
            return nature("per_s", Some(true));
        }
        if let Some(key) = name.strip_prefix("counter.").or(name.strip_prefix("outcome.")) {
            let unit = if key.contains("bytes") {
                "bytes"
            } else if key.ends_with("_ratio") {
                "ratio"
            } else if key.contains("time") || key.ends_with("_ms") {
                "ms"
            } else {
                "count"
            };
            return nature(unit, None);
        }
        Nature { unit: "ns", larger_is_better: Some(false), is_extreme: name.ends_with("_max") }
    }
}

/// The distribution that a measure of latency is a figure of; `None` for other measures.
#[must_use]
pub fn summary_of<'a>(measure: &Measure, run: &'a Run) -> Option<&'a LatencySummary> {
    match measure.name().split_once('_')?.0 {
        "response" => Some(&run.response),
        "service" => Some(&run.service),
        "lag" => Some(&run.lag),
        _ => None,
    }
}

fn latency(summary: &LatencySummary, figure: &str) -> Option<f64> {
    match figure {
        "mean" => summary.mean_ns,
        "max" => summary.max_ns.map(|value| value as f64),
        "min" => summary.min_ns.map(|value| value as f64),
        _ => {
            let percent: f64 = figure.strip_prefix('p')?.parse().ok()?;
            percentile_of(summary, percent / 100.0).map(|percentile| percentile.value_ns as f64)
        }
    }
}

/// The percentile `q` of a summary, where it holds it.
#[must_use]
pub fn percentile_of(
    summary: &LatencySummary,
    q: f64,
) -> Option<&crate::experiment::document::Percentile> {
    summary.percentiles.iter().find(|percentile| (percentile.q - q).abs() < 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_named_without_trailing_zeros() {
        assert_eq!(
            [0.5, 0.99, 0.999, 0.9999].map(percentile_name),
            ["p50", "p99", "p99.9", "p99.99"]
        );
        assert_eq!(Measure::new("response_p99.9").percentile(), Some(0.9990000000000001));
        assert_eq!(Measure::new("response_mean").percentile(), None);
    }
}
