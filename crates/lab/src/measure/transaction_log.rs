//! pgbench's `-l` files, so that scripts made for them read our runs too.
//!
//! The columns are those of pgbench 15 and later (`doLog` in pgbench.c):
//! `client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]`. The lag is
//! there with a rate, the retries with more than one try. `time` is in microseconds, or one of the
//! words `skipped`, `failed`, `serialization`, `deadlock`. Transactions that were cut off or lost
//! with their session have no line, as in pgbench; `session.json` counts them.

use std::collections::HashMap;
use std::io::{self, Write};

use evenkeel::runtime::WallTime;

use super::record::{Outcome, TransactionRecord};
use crate::distribution::{Purpose, RandomStream};
use crate::experiment::document::Arrival;

const SECOND_NS: i64 = 1_000_000_000;

/// What goes into the files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogOptions {
    /// The share of transactions that get a line, from 0 to 1 (`--sampling-rate`).
    pub sampling_ratio: f64,
    /// Seconds per line (`--aggregate-interval`); `None`: a line per transaction.
    pub aggregate_s: Option<u64>,
    /// Tell serialization failures and deadlocks apart (`--failures-detailed`).
    pub are_failures_detailed: bool,
    /// Draws which transactions get a line.
    pub seed: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { sampling_ratio: 1.0, aggregate_s: None, are_failures_detailed: false, seed: 0 }
    }
}

/// The name of a thread's file as pgbench forms it: `prefix.pid`, from the second thread on
/// `prefix.pid.thread`.
#[must_use]
pub fn file_name(prefix: &str, process_id: u32, thread: usize) -> String {
    match thread {
        0 => format!("{prefix}.{process_id}"),
        _ => format!("{prefix}.{process_id}.{thread}"),
    }
}

/// The text of one thread's file, transaction by transaction, so that it can be written while the run
/// goes on.
#[derive(Debug)]
pub struct TransactionLog {
    options: LogOptions,
    origin_wall: WallTime,
    has_lag: bool,
    has_retries: bool,
    /// Lines so far, by client, those that sampling leaves out included.
    numbers: HashMap<u32, u64>,
    sampling: HashMap<u32, RandomStream>,
    aggregate: Aggregate,
    aggregate_start_s: i64,
}

impl TransactionLog {
    /// An empty log of a run whose origin was at `origin_wall`, with its way of arrival and its largest
    /// number of tries.
    #[must_use]
    pub fn new(
        origin_wall: WallTime,
        arrival: Arrival,
        max_tries: u32,
        options: LogOptions,
    ) -> Self {
        Self {
            options,
            origin_wall,
            has_lag: arrival != Arrival::Closed,
            has_retries: max_tries != 1,
            numbers: HashMap::new(),
            sampling: HashMap::new(),
            aggregate: Aggregate::default(),
            aggregate_start_s: wall(origin_wall, 0).0,
        }
    }

    /// Writes what follows from a transaction that ended.
    ///
    /// # Errors
    /// As `output` reports.
    pub fn add(&mut self, record: &TransactionRecord, output: &mut dyn Write) -> io::Result<()> {
        if !has_line(record) {
            return Ok(());
        }
        match self.options.aggregate_s {
            Some(seconds) => self.add_to_aggregate(record, seconds.max(1), output),
            None => self.add_line(record, output),
        }
    }

    /// Writes what the end of the run brings: the aggregate that was not full yet.
    ///
    /// # Errors
    /// As `output` reports.
    pub fn finish(&mut self, output: &mut dyn Write) -> io::Result<()> {
        match self.options.aggregate_s {
            Some(_) => self.aggregate.write(self.aggregate_start_s, output),
            None => Ok(()),
        }
    }

    fn add_line(&mut self, record: &TransactionRecord, output: &mut dyn Write) -> io::Result<()> {
        let number = self.numbers.entry(record.client).or_default();
        *number += 1;
        if self.options.sampling_ratio < 1.0 {
            let seed = self.options.seed;
            let stream = self.sampling.entry(record.client).or_insert_with(|| {
                RandomStream::new(seed, u64::from(record.client), Purpose::Sampling)
            });
            if stream.unit() >= self.options.sampling_ratio {
                return Ok(());
            }
        }
        let (seconds, micros) = wall(self.origin_wall, record.end_ns);
        write!(output, "{} {number} ", record.client)?;
        match word(record.outcome, self.options.are_failures_detailed) {
            Some(word) => write!(output, "{word}")?,
            None => write!(output, "{}", rounded_us(record.response_ns()))?,
        }
        write!(output, " {} {seconds} {micros}", record.script)?;
        if self.has_lag {
            write!(output, " {}", rounded_us(record.lag_ns()))?;
        }
        if self.has_retries {
            write!(output, " {}", record.retries)?;
        }
        writeln!(output)
    }

    fn add_to_aggregate(
        &mut self,
        record: &TransactionRecord,
        seconds: u64,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let step = i64::try_from(seconds).unwrap_or(i64::MAX);
        // Empty intervals have lines too.
        while wall(self.origin_wall, record.end_ns).0 >= self.aggregate_start_s.saturating_add(step)
        {
            std::mem::take(&mut self.aggregate).write(self.aggregate_start_s, output)?;
            self.aggregate_start_s = self.aggregate_start_s.saturating_add(step);
        }
        self.aggregate.add(record, self.has_lag);
        Ok(())
    }
}

/// One line of an aggregate log.
#[derive(Debug, Default)]
struct Aggregate {
    count: u64,
    latency: Sums,
    lag: Sums,
    skipped: u64,
    retried: u64,
    retries: u64,
    serialization_failures: u64,
    deadlocks: u64,
}

/// Microseconds.
#[derive(Debug, Default)]
struct Sums {
    count: u64,
    sum: u128,
    squares: f64,
    min: u64,
    max: u64,
}

impl Sums {
    fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.squares += (value as f64).powi(2);
    }
}

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:.0} {} {}", self.sum, self.squares, self.min, self.max)
    }
}

impl Aggregate {
    fn add(&mut self, record: &TransactionRecord, has_lag: bool) {
        self.retried += u64::from(record.retries > 0);
        self.retries += u64::from(record.retries);
        match record.outcome {
            Outcome::Skipped => {
                self.count += 1;
                self.skipped += 1;
            }
            Outcome::SerializationFailure => self.serialization_failures += 1,
            Outcome::Deadlock => self.deadlocks += 1,
            Outcome::Committed => {
                self.count += 1;
                self.latency.add(rounded_us(record.response_ns()));
                if has_lag {
                    self.lag.add(rounded_us(record.lag_ns()));
                }
            }
            _ => {}
        }
    }

    fn write(&self, start: i64, output: &mut dyn Write) -> io::Result<()> {
        writeln!(
            output,
            "{start} {} {} {} {} {} {} {} {}",
            self.count,
            self.latency,
            self.lag,
            self.skipped,
            self.retried,
            self.retries,
            self.serialization_failures,
            self.deadlocks,
        )
    }
}

fn has_line(record: &TransactionRecord) -> bool {
    !matches!(record.outcome, Outcome::Censored | Outcome::Aborted)
}

fn word(outcome: Outcome, is_detailed: bool) -> Option<&'static str> {
    match outcome {
        Outcome::Skipped => Some("skipped"),
        Outcome::SerializationFailure if is_detailed => Some("serialization"),
        Outcome::Deadlock if is_detailed => Some("deadlock"),
        Outcome::Committed => None,
        _ => Some("failed"),
    }
}

fn rounded_us(nanos: u64) -> u64 {
    nanos / 1000 + u64::from(nanos % 1000 >= 500)
}

/// A time of the run on the wall clock: seconds since the epoch, and microseconds.
fn wall(origin_wall: WallTime, at_ns: u64) -> (i64, i64) {
    let at_ns = i64::try_from(at_ns).unwrap_or(i64::MAX);
    let nanos = origin_wall.as_unix_nanos().saturating_add(at_ns);
    (nanos.div_euclid(SECOND_NS), nanos.rem_euclid(SECOND_NS) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::RunData;
    use crate::driver::tests::{data_of, record};

    const MS: u64 = 1_000_000;

    fn text(data: &RunData, options: &LogOptions) -> String {
        let mut output = Vec::new();
        let mut log = TransactionLog::new(data.origin_wall, data.arrival, data.max_tries, *options);
        for record in data.records() {
            log.add(&record, &mut output).unwrap();
        }
        log.finish(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_line_has_pgbench_s_columns_and_the_wall_clock() {
        let mut data = data_of(&[record(0, 0, 2 * MS, Outcome::Committed)]);
        assert_eq!(text(&data, &LogOptions::default()), "0 1 2000 0 1800000000 2000\n");
        data.arrival = Arrival::Poisson { rate_per_s: 1.0 };
        data.max_tries = 3;
        assert_eq!(text(&data, &LogOptions::default()), "0 1 2000 0 1800000000 2000 0 0\n");
    }

    #[test]
    fn what_failed_says_so_in_pgbench_s_words() {
        let data = data_of(&[
            record(0, 0, MS, Outcome::Deadlock),
            record(0, 0, MS, Outcome::Skipped),
            record(0, 0, MS, Outcome::Censored),
        ]);
        let plain = text(&data, &LogOptions::default());
        assert!(plain.contains("0 1 failed 0") && plain.contains("0 2 skipped 0"), "{plain}");
        assert_eq!(plain.lines().count(), 2);
        let options = LogOptions { are_failures_detailed: true, ..LogOptions::default() };
        assert!(text(&data, &options).contains("0 1 deadlock 0"));
    }

    #[test]
    fn aggregates_have_a_line_for_each_interval_and_always_all_columns() {
        let data = data_of(&[
            record(0, 0, 2 * MS, Outcome::Committed),
            record(MS, MS, 5 * MS, Outcome::Committed),
            record(2_000 * MS, 2_000 * MS, 2_001 * MS, Outcome::SerializationFailure),
        ]);
        let options = LogOptions { aggregate_s: Some(1), ..LogOptions::default() };
        assert_eq!(
            text(&data, &options),
            "1800000000 2 6000 20000000 2000 4000 0 0 0 0 0 0 0 0 0\n\
             1800000001 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             1800000002 0 0 0 0 0 0 0 0 0 0 0 0 1 0\n"
        );
    }

    #[test]
    fn sampling_keeps_the_asked_share_and_the_numbers() {
        let records = vec![record(0, 0, MS, Outcome::Committed); 10_000];
        let data = data_of(&records);
        let options = LogOptions { sampling_ratio: 0.1, seed: 9, ..LogOptions::default() };
        let lines = text(&data, &options);
        // Standard deviation 30.
        assert!(lines.lines().count().abs_diff(1000) < 150, "{}", lines.lines().count());
        assert!(lines.lines().last().unwrap().split(' ').nth(1).unwrap().len() >= 4);
    }
}
