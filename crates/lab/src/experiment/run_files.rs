//! Files of single runs, written where they were asked for: pgbench's transaction log under `tx/`,
//! HdrHistogram's formats under `hist/`, each named by the run's index as in `runs.csv`.
//!
//! 1. They are written after the run has ended and been sampled, so that they cannot disturb it, and
//!    whole or not at all: no name ever stands for half a run's transactions.
//! 2. They hold the measured part only, which is what the record's figures are made of.
//! 3. They cannot be made again from the record, which keeps no single transactions.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::document::Arrival;
use super::store::{self, StoreError};
use crate::driver::RunData;
use crate::measure::summary::Window;
use crate::measure::transaction_log::{LogOptions, TransactionLog};
use crate::measure::{hdr, record::TransactionRecord};

/// Folder of the transaction logs.
pub const LOG_FOLDER: &str = "tx";

/// Folder of HdrHistogram's files.
pub const HISTOGRAM_FOLDER: &str = "hist";

/// What is written for each run, and where.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// The session's directory.
    pub directory: PathBuf,
    /// `tx/<run>.log`, as `pgbench -l` writes it.
    pub has_log: bool,
    /// `hist/<run>.hlog` and `hist/<run>.hgrm`.
    pub has_histograms: bool,
}

impl RunFiles {
    /// Writes what is wanted of run `index`, which ran with `arrival` and at most `max_tries` tries.
    ///
    /// # Errors
    /// What the operating system refuses; a file that is not whole does not stand under its name.
    pub fn write(
        &self,
        index: u32,
        data: &RunData,
        arrival: Arrival,
        max_tries: u32,
    ) -> Result<(), StoreError> {
        if self.has_log {
            write_log(&self.directory, index, data, arrival, max_tries)?;
        }
        if self.has_histograms {
            write_histograms(&self.directory, index, data)?;
        }
        Ok(())
    }
}

/// Writes `hist/<index>.hlog` and `hist/<index>.hgrm` into `directory`.
///
/// # Errors
/// What the operating system refuses.
pub fn write_histograms(directory: &Path, index: u32, data: &RunData) -> Result<(), StoreError> {
    let window = Window::measured(data);
    let folder = store::make_folder(directory, HISTOGRAM_FOLDER)?;
    store::replace_file(&folder, &format!("{index}.hlog"), |file| {
        let mut out = BufWriter::new(file);
        hdr::write_interval_log(data, window, &mut out)?;
        out.flush()
    })?;
    store::replace_file(&folder, &format!("{index}.hgrm"), |file| {
        let mut out = BufWriter::new(file);
        hdr::write_percentiles(data, window, &mut out)?;
        out.flush()
    })
}

fn write_log(
    directory: &Path,
    index: u32,
    data: &RunData,
    arrival: Arrival,
    max_tries: u32,
) -> Result<(), StoreError> {
    let window = Window::measured(data);
    // Threads keep their transactions apart; a reader of one file expects them by their ends.
    let mut records: Vec<TransactionRecord> = data
        .records()
        .filter(|record| (window.start_ns..window.end_ns).contains(&record.planned_ns))
        .collect();
    records.sort_unstable_by_key(|record| (record.end_ns, record.client));
    let folder = store::make_folder(directory, LOG_FOLDER)?;
    store::replace_file(&folder, &format!("{index}.log"), |file| {
        let mut out = BufWriter::new(file);
        // Failures apart, as `--failures-detailed` has them: the log is all that tells them later.
        let options = LogOptions { are_failures_detailed: true, ..LogOptions::default() };
        let mut log = TransactionLog::new(data.origin_wall, arrival, max_tries, options);
        for record in &records {
            log.add(record, &mut out)?;
        }
        log.finish(&mut out)?;
        out.flush()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::{data_of, record};
    use crate::measure::record::Outcome;

    const MS: u64 = 1_000_000;

    fn files(directory: &Path) -> RunFiles {
        RunFiles { directory: directory.to_path_buf(), has_log: true, has_histograms: true }
    }

    #[test]
    fn a_log_has_every_transaction_in_the_order_of_the_ends_with_its_failure_named() {
        let scratch = tempfile::tempdir().unwrap();
        let mut data = data_of(&[
            record(10 * MS, 10 * MS, 30 * MS, Outcome::Committed),
            record(0, 5 * MS, 20 * MS, Outcome::Deadlock),
            // Of the warm-up, and planned after the end.
            record(0, 0, 40 * MS, Outcome::Committed),
            record(90 * MS, 90 * MS, 91 * MS, Outcome::Committed),
        ]);
        data.measured_start_ns = MS / 2;
        data.measured_end_ns = 90 * MS;
        // The one of the warm-up is the only one planned before the measured part.
        let mut moved: Vec<TransactionRecord> = data.records().collect();
        moved[1].planned_ns = MS;
        let mut data = crate::driver::RunData {
            measured_start_ns: data.measured_start_ns,
            measured_end_ns: data.measured_end_ns,
            ..data_of(&moved)
        };
        data.arrival = Arrival::Poisson { rate_per_s: 10.0 };
        files(scratch.path()).write(7, &data, data.arrival, 3).unwrap();
        let text = std::fs::read_to_string(scratch.path().join("tx/7.log")).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines.iter().all(|line| line.len() == 8), "lag and retries: {text}");
        assert_eq!((lines[0][2], lines[1][2]), ("deadlock", "20000"), "{text}");
    }

    #[test]
    fn nothing_is_written_that_was_not_asked_for_and_no_half_file_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let data = data_of(&[record(0, 0, MS, Outcome::Committed)]);
        let only_log = RunFiles { has_histograms: false, ..files(scratch.path()) };
        only_log.write(0, &data, Arrival::Closed, 1).unwrap();
        assert!(!scratch.path().join(HISTOGRAM_FOLDER).exists());
        // A file where the folder should be.
        std::fs::write(scratch.path().join(HISTOGRAM_FOLDER), "").unwrap();
        let error = files(scratch.path()).write(1, &data, Arrival::Closed, 1).unwrap_err();
        assert!(error.to_string().contains("hist"), "{error}");
        let logs = std::fs::read_dir(scratch.path().join(LOG_FOLDER)).unwrap().count();
        assert_eq!(logs, 2);
    }
}
