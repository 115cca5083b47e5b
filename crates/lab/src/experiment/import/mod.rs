//! pgbench's log files of every version from 9.6 on, read with distrust.
//!
//! What the columns mean is known from their number and from a few words, not from a heading:
//!
//! | layout | columns |
//! |---|---|
//! | transactions | client, number, time (us) or `skipped` `failed` `serialization` `deadlock` `other`, script, epoch s, us; then lag (us) with `--rate`; then retries with `--max-tries` (15+) |
//! | aggregate | start, count, sum, sum of squares, least, largest (us); 10 and 11: with lag, with skipped; 15+: always 15, 19+: 16 |
//!
//! 1. The epoch is the transaction's end. Its time is counted from the schedule where there is a
//!    rate, so planned = end - time, start = planned + lag.
//! 2. Seven columns are ambiguous since version 15: the last is the lag or the retries. Unless the caller
//!    says which, the share of zeros tells them apart; a lag longer than its transaction is an error.
//! 3. The files of one run are its threads' (`pgbench_log.123`, `pgbench_log.123.1`, ...). One that is
//!    missing is an error.
//! 4. The first interval of an aggregate log begins with the run, not with its second: it is shorter than
//!    the others by an unknown part, and is left out.
//! 5. Each client numbers its transactions, so a log that holds a sample of them shows it.
//! 6. A wrong line is an error with file and line. A last line without its end is what a killed
//!    pgbench leaves: it is dropped, and said so.

mod aggregate;
mod layout;
mod session;
mod threads;
mod transactions;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

pub use aggregate::{AggregateLine, parse_line as parse_aggregate_line};
pub use session::{Statement, to_session};
pub use threads::group_by_run;
pub use transactions::{LogLine, SeventhColumn, parse_line as parse_transaction_line};

use crate::measure::record::{Outcome, TransactionRecord};

/// The log of one run, its threads' files together.
#[derive(Clone, Debug)]
pub struct ImportedRun {
    /// The files' common prefix.
    pub name: String,
    /// Wall clock of the origin that `records` count from, nanoseconds since 1970.
    pub origin_unix_ns: i64,
    /// What the log held.
    pub content: Content,
    /// Whether pgbench ran with `--rate`: the log has lags.
    pub has_schedule: bool,
    /// The share of transactions that the log holds; 1 unless pgbench ran with `--sampling-rate`.
    pub sample_ratio: f64,
    /// Things worth saying to the reader.
    pub remarks: Vec<String>,
}

/// What a log holds.
#[derive(Clone, Debug)]
pub enum Content {
    /// One line a transaction.
    Transactions {
        /// In order of their ends.
        records: Vec<TransactionRecord>,
        /// How long the run was, by its first planned start and last end.
        duration_ns: u64,
    },
    /// One line an interval; threads added up.
    Intervals {
        /// Whole ones that all threads hold, in order.
        lines: Vec<AggregateLine>,
        /// Length of each.
        step_s: u64,
    },
}

/// What is wrong with a log, and where.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A line is not what pgbench writes.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// The file.
        path: String,
        /// From 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The files as a whole do not make a run.
    #[error("{0}")]
    Whole(String),
}

/// No line of pgbench's is longer; a longer one is another kind of file.
const LINE_BYTES_MAX: u64 = 4096;

/// Reads the files of one run.
///
/// # Errors
/// See [`ImportError`].
pub fn read_run(
    name: &str,
    paths: &[PathBuf],
    seventh: SeventhColumn,
) -> Result<ImportedRun, ImportError> {
    let mut reader = Reader {
        seventh,
        lines: Vec::new(),
        intervals: BTreeMap::new(),
        last_start_s: None,
        firsts_s: Vec::new(),
        remarks: Vec::new(),
        columns: None,
    };
    for path in paths {
        reader.last_start_s = None;
        reader.read(path)?;
    }
    reader.finish(name)
}

struct Reader {
    seventh: SeventhColumn,
    lines: Vec<LogLine>,
    /// By their start: the threads' sum, and how many of them hold it.
    intervals: BTreeMap<u64, (AggregateLine, usize)>,
    /// Of the interval read last from the file being read.
    last_start_s: Option<u64>,
    /// Of the first interval of each file.
    firsts_s: Vec<u64>,
    remarks: Vec<String>,
    /// Of the first line read: all lines of a run are alike, since its options were.
    columns: Option<(Kind, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transactions,
    Aggregate,
}

impl Reader {
    fn read(&mut self, path: &Path) -> Result<(), ImportError> {
        let shown = path.display().to_string();
        let io = |source| ImportError::Io { path: shown.clone(), source };
        let mut input = std::io::BufReader::new(std::fs::File::open(path).map_err(io)?);
        let mut bytes = Vec::new();
        let mut line = 0;
        loop {
            bytes.clear();
            line += 1;
            let taken = std::io::Read::take(&mut input, LINE_BYTES_MAX)
                .read_until(b'\n', &mut bytes)
                .map_err(io)?;
            if taken == 0 {
                return Ok(());
            }
            let wrong = |reason: String| ImportError::Line { path: shown.clone(), line, reason };
            if bytes.last() != Some(&b'\n') {
                if bytes.len() as u64 == LINE_BYTES_MAX {
                    return Err(wrong("the line is too long for a log of pgbench".to_owned()));
                }
                self.remarks.push(format!(
                    "{shown}:{line}: the last line has no end (pgbench was killed?) and was dropped"
                ));
                return Ok(());
            }
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| wrong("not text: is this a log of pgbench?".to_owned()))?;
            self.take(text.trim_end_matches(['\n', '\r'])).map_err(wrong)?;
        }
    }

    fn take(&mut self, text: &str) -> Result<(), String> {
        let columns: Vec<&str> = text.split(' ').collect();
        let (kind, count) = match self.columns {
            Some(known) => known,
            None => {
                let kind = kind_of(&columns)?;
                self.columns = Some((kind, columns.len()));
                (kind, columns.len())
            }
        };
        if columns.len() != count {
            return Err(format!(
                "{} columns, where the lines before have {count}: runs with other options, or \
                 other files, do not belong together",
                columns.len()
            ));
        }
        match kind {
            Kind::Transactions => {
                self.lines.push(transactions::parse_columns(&columns, self.seventh)?);
            }
            Kind::Aggregate => {
                let line = aggregate::parse_columns(&columns)?;
                match self.last_start_s.replace(line.start_s) {
                    None => self.firsts_s.push(line.start_s),
                    Some(last) if last >= line.start_s => {
                        return Err(format!(
                            "the interval {} does not follow the one above ({last}): logs of several \
                             runs in one?",
                            line.start_s
                        ));
                    }
                    Some(_) => {}
                }
                match self.intervals.entry(line.start_s) {
                    std::collections::btree_map::Entry::Occupied(mut entry) => {
                        let (sum, threads) = entry.get_mut();
                        sum.add(&line)?;
                        *threads += 1;
                    }
                    std::collections::btree_map::Entry::Vacant(entry) => {
                        entry.insert((line, 1));
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self, name: &str) -> Result<ImportedRun, ImportError> {
        match self.columns {
            Some((Kind::Aggregate, count)) => self.finish_intervals(name, count),
            Some((Kind::Transactions, count)) => self.finish_transactions(name, count),
            None => Err(ImportError::Whole(format!(
                "{name}: the log holds no transaction: nothing can be said about it"
            ))),
        }
    }

    fn finish_intervals(self, name: &str, columns: usize) -> Result<ImportedRun, ImportError> {
        let Self { intervals, firsts_s, mut remarks, .. } = self;
        let threads = firsts_s.len();
        let begun_s = firsts_s.into_iter().max().unwrap_or(0);
        let starts: Vec<u64> = intervals.keys().copied().collect();
        let step_s = starts.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(1);
        let all = intervals.len();
        // Threads end within one interval of each other, so a last one that not all hold is a part too.
        let lines: Vec<AggregateLine> = intervals
            .into_values()
            .filter(|(line, held)| line.start_s > begun_s && *held == threads)
            .map(|(line, _)| line)
            .collect();
        let Some(first) = lines.first() else {
            return Err(ImportError::Whole(format!(
                "{name}: the log holds no whole interval: its first begins with the run and not with its \
                 second, so its length is not known; a second one is needed"
            )));
        };
        if lines.windows(2).any(|two| two[1].start_s - two[0].start_s != step_s) {
            return Err(ImportError::Whole(format!(
                "{name}: intervals are missing, or are not the same in the files of all threads"
            )));
        }
        remarks.push(format!(
            "{name}: {} of {all} intervals are left out: the first begins with the run and not with its \
             second, and is shorter than the others",
            all - lines.len()
        ));
        Ok(ImportedRun {
            name: name.to_owned(),
            origin_unix_ns: i64::try_from(u128::from(first.start_s) * 1_000_000_000)
                .unwrap_or(i64::MAX),
            // Since version 15 all columns are there, and lags are 0 without a rate.
            has_schedule: matches!(columns, 10 | 11)
                || lines.iter().any(|line| line.sum_lag_us > 0.0),
            sample_ratio: 1.0,
            content: Content::Intervals { lines, step_s },
            remarks,
        })
    }

    fn finish_transactions(self, name: &str, columns: usize) -> Result<ImportedRun, ImportError> {
        let Self { mut lines, mut remarks, seventh, .. } = self;
        let whole = |reason: String| ImportError::Whole(format!("{name}: {reason}"));
        let mut has_schedule = columns == 8;
        if columns == 7 {
            let found = layout::seventh_column(&lines);
            let seventh = match (seventh, found) {
                (SeventhColumn::Lag, Ok(SeventhColumn::Retries)) => {
                    return Err(whole(
                        "the seventh column is 0 in most lines, so it holds retries and not the lags of \
                         a schedule: pgbench ran without --rate (leave out -R)"
                            .to_owned(),
                    ));
                }
                (SeventhColumn::ByItsNumbers, Ok(SeventhColumn::Retries)) => {
                    remarks.push(format!(
                        "{name}: the seventh column is taken for the number of retries: most are 0"
                    ));
                    for line in &mut lines {
                        line.retries = u32::try_from(line.lag_us).unwrap_or(u32::MAX);
                        line.lag_us = 0;
                        if line.outcome != Outcome::Committed {
                            line.response_us = 0;
                        }
                    }
                    SeventhColumn::Retries
                }
                (SeventhColumn::ByItsNumbers, found) => found.map_err(whole)?,
                (stated, _) => stated,
            };
            has_schedule = seventh == SeventhColumn::Lag;
        }
        lines.sort_unstable_by_key(|line| line.end_unix_us);
        let (Some(origin_us), Some(last_us)) = (
            lines.iter().map(LogLine::planned_unix_us).min(),
            lines.iter().map(|line| line.end_unix_us).max(),
        ) else {
            return Err(whole("the log holds no transaction: nothing can be said about it".into()));
        };
        let sample_ratio = layout::sample_ratio(&lines).map_err(whole)?;
        let nanos = |us: u64| us.saturating_sub(origin_us).saturating_mul(1000);
        let records = lines
            .iter()
            .map(|line| TransactionRecord {
                planned_ns: nanos(line.planned_unix_us()),
                start_ns: nanos(line.start_unix_us()),
                end_ns: nanos(line.end_unix_us),
                think_ns: 0,
                client: line.client,
                retries: line.retries,
                script: line.script,
                outcome: line.outcome,
            })
            .collect();
        Ok(ImportedRun {
            name: name.to_owned(),
            origin_unix_ns: i64::try_from(origin_us.saturating_mul(1000)).unwrap_or(i64::MAX),
            content: Content::Transactions { records, duration_ns: nanos(last_us) },
            has_schedule,
            sample_ratio,
            remarks,
        })
    }
}

fn kind_of(columns: &[&str]) -> Result<Kind, String> {
    let is_word = columns.get(2).is_some_and(|word| transactions::failure_of(word).is_some());
    match columns.len() {
        8 => Ok(Kind::Transactions),
        10 | 11 | 15 | 16 => Ok(Kind::Aggregate),
        6 | 7 if is_word => Ok(Kind::Transactions),
        7 => Ok(Kind::Transactions),
        // Both layouts have six: an aggregate line begins with an epoch, a transaction with a
        // client's number, of which there are never a thousand million.
        6 if columns[0].parse::<u64>().is_ok_and(|number| number >= 1_000_000_000) => {
            Ok(Kind::Aggregate)
        }
        6 => Ok(Kind::Transactions),
        count => Err(format!(
            "{count} columns: a log of pgbench has 6 to 8, an aggregate log 6, 10, 11, 15 or 16"
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, seventh: SeventhColumn) -> Result<ImportedRun, ImportError> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("pgbench_log.1");
        std::fs::write(&path, text).unwrap();
        read_run("run", &[path], seventh)
    }

    fn records(run: ImportedRun) -> (Vec<TransactionRecord>, u64) {
        match run.content {
            Content::Transactions { records, duration_ns } => (records, duration_ns),
            Content::Intervals { .. } => panic!("not a transaction log"),
        }
    }

    #[test]
    fn every_versions_transaction_log_is_understood() {
        use SeventhColumn::{Lag, Retries};
        // Text, reading of the seventh column, then (response, lag, retries, outcome) in us.
        let cases: [(&str, &str, SeventhColumn, u64, u64, u32, Outcome); 12] = [
            ("9.6", "0 199 2241 0 1175850568 995598", Lag, 2241, 0, 0, Outcome::Committed),
            (
                "9.6 rate",
                "0 81 4621 0 1412881037 912698 3005",
                Lag,
                4621,
                3005,
                0,
                Outcome::Committed,
            ),
            (
                "9.6 -L",
                "0 83 skipped 0 1412881037 914578 5217",
                Lag,
                5217,
                5217,
                0,
                Outcome::Skipped,
            ),
            ("13", "7 1 35 2 1600000000 000001", Lag, 35, 0, 0, Outcome::Committed),
            (
                "15 tries",
                "3 0 47423 0 1499414498 34501 3",
                Retries,
                47423,
                0,
                3,
                Outcome::Committed,
            ),
            ("15 all", "3 0 47423 0 1499414498 34501 12 3", Lag, 47423, 12, 3, Outcome::Committed),
            ("15 failed", "3 1 failed 0 1499414498 84905 9", Retries, 0, 0, 9, Outcome::OtherError),
            (
                "15 detailed",
                "0 9 serialization 0 1499414498 84905 9",
                Retries,
                0,
                0,
                9,
                Outcome::SerializationFailure,
            ),
            ("15 deadlock", "0 9 deadlock 0 1499414498 84905 4 9", Lag, 4, 4, 9, Outcome::Deadlock),
            ("19 other", "0 9 other 0 1499414498 84905", Lag, 0, 0, 0, Outcome::OtherError),
            ("18 skipped", "0 9 skipped 0 1499414498 84905 70 0", Lag, 70, 70, 0, Outcome::Skipped),
            ("crlf", "0 199 2241 0 1175850568 995598\r", Lag, 2241, 0, 0, Outcome::Committed),
        ];
        for (version, text, seventh, response_us, lag_us, retries, outcome) in cases {
            let (records, _) = records(read(&format!("{text}\n"), seventh).unwrap());
            let record = records[0];
            assert_eq!(record.response_ns(), response_us * 1000, "{version}");
            assert_eq!(record.lag_ns(), lag_us * 1000, "{version}");
            assert_eq!((record.retries, record.outcome), (retries, outcome), "{version}");
        }
    }

    #[test]
    fn every_versions_aggregate_log_is_understood() {
        let cases = [
            "1649114136 5815 27552565 177846919143 1078 21716",
            "1649114136 5815 27552565 177846919143 1078 21716 5 7 0 3",
            "1649114136 5815 27552565 177846919143 1078 21716 5 7 0 3 2",
            "1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 0 0",
            "1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 1 2 3 4 5",
        ];
        for text in cases {
            let next = text.replace("1649114136", "1649114137");
            let run = read(&format!("{text}\n{next}\n"), SeventhColumn::default()).unwrap();
            let Content::Intervals { lines, .. } = run.content else { panic!("{text}") };
            let skipped = if text.ends_with("3 2") { 2 } else { 0 };
            assert_eq!((lines[0].count, lines[0].max_us), (5815 - skipped, 21716));
        }
    }

    #[test]
    fn a_wrong_line_is_named_by_file_and_line() {
        let cases = [
            ("0 1 2 0 5 6\n0 1 x 0 5 6\n", ":2: "),
            ("0 1 2 0 5 6\n0 1 2 0 5 6 7\n", ":2: 7 columns, where the lines before have 6"),
            ("hello\n", ":1: 1 columns"),
            ("0 1 2 0 1175850568 1000000\n", ":1: "),
            (
                "0 81 21 0 1412881037 912698 3005\n",
                ":1: a lag of 3005 us in a transaction of 21 us",
            ),
            ("0 1 2 0 99999999999999999999 0\n", ":1: "),
        ];
        for (text, expected) in cases {
            let message = read(text, SeventhColumn::Lag).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        assert!(read("", SeventhColumn::Lag).unwrap_err().to_string().contains("no transaction"));
    }

    #[test]
    fn a_killed_pgbenchs_last_line_is_dropped_and_said() {
        let run = read("0 1 20 0 1175850568 995598\n0 2 2", SeventhColumn::Lag).unwrap();
        assert_eq!(run.remarks.len(), 1);
        assert_eq!(records(run).0.len(), 1);
    }

    #[test]
    fn the_first_interval_is_not_counted_since_it_began_before_the_run() {
        let scratch = tempfile::tempdir().unwrap();
        // As pgbench 15 writes them: the run begins within the first second, its second thread in the next.
        let files = [
            (
                "log.1",
                "1600000000 5 500 0 100 100\n1600000001 10 1000 0 100 100\n\
                 1600000002 11 1100 0 100 100\n",
            ),
            ("log.1.1", "1600000001 3 300 0 100 100\n1600000002 12 1200 0 100 100\n"),
        ];
        let paths = files.map(|(name, text)| {
            std::fs::write(scratch.path().join(name), text).unwrap();
            scratch.path().join(name)
        });
        let run = read_run("run", &paths, SeventhColumn::default()).unwrap();
        let Content::Intervals { lines, step_s } = run.content else { panic!() };
        assert_eq!((lines.len(), lines[0].count, step_s), (1, 11 + 12, 1), "{lines:?}");
        assert!(run.remarks[0].contains("2 of 3 intervals are left out"), "{:?}", run.remarks);
        let one = read("1600000000 5 500 0 100 100\n", SeventhColumn::default());
        assert!(one.unwrap_err().to_string().contains("no whole interval"));
        let twice = "1600000000 5 500 0 100 100\n".repeat(2);
        let message = read(&twice, SeventhColumn::default()).unwrap_err().to_string();
        assert!(message.contains(":2: the interval 1600000000 does not follow"), "{message}");
    }

    #[test]
    fn whether_there_was_a_schedule_is_told_by_the_log_and_not_by_the_caller() {
        let log = |lag: &dyn Fn(u64) -> String| -> String {
            (1..=50).map(|n| format!("0 {n} 2000 0 {} 0{}\n", 1_600_000_000 + n, lag(n))).collect()
        };
        let (none, lags) = (log(&|_| String::new()), log(&|n| format!(" {}", 100 + n)));
        let tries = log(&|n| format!(" {}", n / 48));
        let both = log(&|n| format!(" {} 0", 100 + n));
        let auto = SeventhColumn::ByItsNumbers;
        for (text, has_schedule) in [(&none, false), (&lags, true), (&tries, false), (&both, true)]
        {
            assert_eq!(read(text, auto).unwrap().has_schedule, has_schedule, "{text}");
        }
        let retries: u32 = records(read(&tries, auto).unwrap()).0.iter().map(|it| it.retries).sum();
        assert_eq!(retries, 3);
        let message = read(&tries, SeventhColumn::Lag).unwrap_err().to_string();
        assert!(message.contains("pgbench ran without --rate"), "{message}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "([0-9 a-z\\n-]|\\PC){0,200}") {
            let _ = read(&text, SeventhColumn::Lag);
        }

        #[test]
        fn no_numbers_make_the_reader_panic(
            numbers in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let text: Vec<String> = numbers.iter().map(u64::to_string).collect();
            let _ = read(&format!("{}\n", text.join(" ")), SeventhColumn::Retries);
        }
    }
}
