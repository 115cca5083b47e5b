//! What a log says about how it was written: from its own numbers, since nobody else does.

use std::collections::BTreeMap;

use super::transactions::{LogLine, SeventhColumn};
use crate::measure::record::Outcome;

/// Share of zeros from which a column is no lag: a client that waits for its time is late by microseconds.
const ZEROS_OF_RETRIES: f64 = 0.5;
/// Share of zeros up to which it is one.
const ZEROS_OF_LAGS: f64 = 0.1;

/// What the seventh of seven columns is, read as lags.
///
/// # Errors
/// When it can be either.
pub(super) fn seventh_column(lines: &[LogLine]) -> Result<SeventhColumn, String> {
    // Only of a committed transaction both are logged whatever they are.
    let committed = || lines.iter().filter(|line| line.outcome == Outcome::Committed);
    let all = committed().count() as f64;
    let zeros = committed().filter(|line| line.lag_us == 0).count() as f64;
    if all <= 0.0 || zeros <= ZEROS_OF_LAGS * all {
        Ok(SeventhColumn::Lag)
    } else if zeros >= ZEROS_OF_RETRIES * all {
        Ok(SeventhColumn::Retries)
    } else {
        Err(format!(
            "the seventh column is 0 in {:.0}% of lines: it can be the lag or the number of retries. Say \
             which: -R with the rate that pgbench was given, or --retries",
            zeros / all * 100.0
        ))
    }
}

/// The share of transactions that the log holds: each client numbers its own one by one, so what
/// `--sampling-rate` left out is missing.
///
/// # Errors
/// Where a client has one number twice.
pub(super) fn sample_ratio(lines: &[LogLine]) -> Result<f64, String> {
    let mut by_client = BTreeMap::<u32, Vec<u64>>::new();
    for line in lines {
        by_client.entry(line.client).or_default().push(line.number);
    }
    let (mut held, mut done) = (0.0, 0.0);
    for (client, mut numbers) in by_client {
        numbers.sort_unstable();
        if let Some(two) = numbers.windows(2).find(|two| two[0] == two[1]) {
            return Err(format!(
                "client {client} has its transaction {} twice: logs of several runs in one, or a file \
                 given twice",
                two[0]
            ));
        }
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { continue };
        // From the first that is held: those before it are as unknown as those after the last.
        if last > first {
            held += (numbers.len() - 1) as f64;
            done += last.saturating_sub(*first) as f64;
        }
    }
    Ok(if done > 0.0 { held / done } else { 1.0 })
}

/// Whether a log that holds this share of `lines` can have been written with `stated`.
pub(super) fn is_sample_of(held: f64, stated: f64, lines: usize) -> bool {
    // Five deviations of a binomial share.
    let chance = 5.0 * (stated * (1.0 - stated) / (lines.max(1) as f64 / stated)).sqrt();
    (held - stated).abs() <= chance + 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lags: impl IntoIterator<Item = u64>) -> Vec<LogLine> {
        (1..)
            .zip(lags)
            .map(|(number, lag_us)| LogLine {
                client: 0,
                number,
                script: 0,
                end_unix_us: 1_600_000_000_000_000 + number,
                response_us: 1000,
                lag_us,
                retries: 0,
                outcome: Outcome::Committed,
            })
            .collect()
    }

    #[test]
    fn retries_are_not_taken_for_the_lags_of_a_schedule() {
        let retries = lines((0..100).map(|n| u64::from(n % 10 == 0)));
        assert_eq!(seventh_column(&retries), Ok(SeventhColumn::Retries));
        assert_eq!(seventh_column(&lines((0..100).map(|n| 80 + n))), Ok(SeventhColumn::Lag));
        let either = lines((0..100).map(|n| u64::from(n % 10 < 7)));
        assert!(seventh_column(&either).unwrap_err().contains("--retries"));
    }

    #[test]
    fn a_sample_is_seen_by_the_numbers_that_are_missing() {
        let whole = lines([0; 500]);
        assert!((sample_ratio(&whole).unwrap() - 1.0).abs() < 1e-12);
        let sample: Vec<LogLine> =
            whole.iter().copied().filter(|line| line.number * 7919 % 10 == 0).collect();
        let held = sample_ratio(&sample).unwrap();
        assert!((held - 0.1).abs() < 1e-9, "{held}");
        assert!(is_sample_of(held, 0.1, sample.len()) && !is_sample_of(held, 0.5, sample.len()));
        assert!(is_sample_of(1.0, 1.0, 500) && !is_sample_of(1.0, 0.1, 500));
        let twice = [&whole[..], &whole[..]].concat();
        assert!(sample_ratio(&twice).unwrap_err().contains("twice"));
    }
}
