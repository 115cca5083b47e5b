//! Whether a run of a managed server failed because its file system is full.
//!
//! The server says so in different voices: to a client as SQLSTATE 53100, or only in its log, as a PANIC
//! while writing ahead after which clients hear of a crash. Both name no file system.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::super::document::Run;
use super::super::session::Failure;

/// The system's words for ENOSPC, as the server passes them on (its `lc_messages` is C).
const WORDS: &str = "No space left on device";

/// How much of a log is looked at, from its end.
const LOG_BYTES: u64 = 256 * 1024;

/// Adds to the reason of a run that failed, or was cut off, that the file system of `directory` is full,
/// where the reason or what `log` has gained since it had `log_start` bytes says so.
pub(super) fn named(
    mut result: Result<Run, Failure>,
    directory: &Path,
    log: &Path,
    log_start: u64,
) -> Result<Run, Failure> {
    let reason = match &mut result {
        Ok(Run { incomplete: Some(reason), .. }) | Err(Failure::Environment(reason)) => reason,
        Ok(_) | Err(Failure::Interrupted) => return result,
    };
    if reason.contains(WORDS) || since(log, log_start).contains(WORDS) {
        reason.push_str(&format!(
            "; the file system of {} is full: make room, lower workload.scale or max_wal_size, or place the \
             servers elsewhere with TMPDIR",
            directory.display()
        ));
    }
    result
}

/// What the log has gained, or the end of it.
fn since(log: &Path, start: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let start = start.max(file.metadata()?.len().saturating_sub(LOG_BYTES));
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // A log that cannot be read says nothing.
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_for_want_of_room_names_the_file_system_and_an_earlier_one_does_not() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("server.log");
        let before =
            "PANIC:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device\n";
        std::fs::write(&log, before).unwrap();
        let ended = || Err(Failure::Environment("all clients gave up".to_owned()));
        let directory = Path::new("/data");
        let reason = |start| match named(ended(), directory, &log, start) {
            Err(Failure::Environment(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(before.len() as u64), "all clients gave up");
        let told = reason(0);
        assert!(
            told.starts_with("all clients gave up; the file system of /data is full"),
            "{told}"
        );
        assert!(told.contains("TMPDIR"), "{told}");
    }

    #[test]
    fn a_client_s_word_is_enough_and_who_wants_out_is_not_told() {
        let nowhere = Path::new("/no such log");
        let failed = Err(Failure::Environment(format!("ERROR: could not extend file: {WORDS}")));
        let told = named(failed, Path::new("/data"), nowhere, 0).unwrap_err().to_string();
        assert!(told.contains("/data is full"), "{told}");
        let out = named(Err(Failure::Interrupted), Path::new("/data"), nowhere, 0);
        assert_eq!(out.unwrap_err(), Failure::Interrupted);
    }
}
