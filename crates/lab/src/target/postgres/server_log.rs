//! What the server wrote into its log, as events on the run's time axis.
//!
//! Understood are the texts of PostgreSQL 10 to 19 in English behind the prefix `%m [%p] `, which
//! managed servers are given: checkpoints (`src/backend/access/transam/xlog.c`, `LogCheckpointEnd`),
//! automatic vacuum, lock waits, temporary files, crashes and restarts. Other lines are passed over.
//!
//! A checkpoint's line gives the length of its phases, not their limits. The write phase is placed
//! at its start and the sync phase directly behind it; `phase_uncertainty_ns` is the rest of the
//! total, by which the places can be wrong.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use evenkeel::runtime::WallTime;

use crate::experiment::document::Event;

/// Longest line that is kept; what is longer is cut (statements may be of any length).
const LONGEST_LINE_BYTES: usize = 64 * 1024;

/// Bytes read from the log in one go.
const CHUNK_BYTES: usize = 64 * 1024;

/// Something the server reports, with times of the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// As in [`Event::kind`].
    pub kind: &'static str,
    /// When it began.
    pub start: WallTime,
    /// When it ended; equal to the start for a point in time.
    pub end: WallTime,
    /// By name with unit.
    pub figures: BTreeMap<String, f64>,
    /// The server's words.
    pub text: String,
}

impl LogEvent {
    /// Places the beginning by a text that begins with the length in seconds.
    fn set_elapsed(&mut self, text: &str) {
        if let Some(seconds) = first_number(text) {
            self.start = before(self.end, seconds);
            self.figures.insert("elapsed_ns".to_owned(), nanos(seconds));
        }
    }

    /// The event on an axis whose zero is at `origin` of the same wall clock.
    #[must_use]
    pub fn on_axis(&self, origin: WallTime) -> Event {
        let since = |time: WallTime| time.as_unix_nanos().saturating_sub(origin.as_unix_nanos());
        Event {
            kind: self.kind.to_owned(),
            start_ns: since(self.start),
            end_ns: since(self.end),
            figures: self.figures.clone(),
            text: self.text.clone(),
        }
    }
}

/// Reads a log that grows.
#[derive(Debug)]
pub struct LogFollower {
    path: PathBuf,
    offset: u64,
    pending: Vec<u8>,
    parser: LogParser,
}

impl LogFollower {
    /// From the log's beginning.
    #[must_use]
    pub fn from_start(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0, pending: Vec::new(), parser: LogParser::new() }
    }

    /// From what the log's end is now; a checkpoint that is under way is not seen to begin.
    ///
    /// # Errors
    /// When the log cannot be looked at; one that does not exist yet begins at zero.
    pub fn from_end(path: &Path) -> io::Result<Self> {
        let offset = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { offset, ..Self::from_start(path) })
    }

    /// What has been completed since the last call. A log that was cut is read from its new
    /// beginning.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn take_events(&mut self) -> io::Result<Vec<LogEvent>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() < self.offset {
            self.offset = 0;
            self.pending.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut events = Vec::new();
        let mut chunk = vec![0_u8; CHUNK_BYTES];
        loop {
            let count = file.read(&mut chunk)?;
            if count == 0 {
                return Ok(events);
            }
            self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(0));
            for byte in &chunk[..count] {
                if *byte == b'\n' {
                    let line = String::from_utf8_lossy(&self.pending).into_owned();
                    self.pending.clear();
                    self.parser.line(&line, &mut events);
                } else if self.pending.len() < LONGEST_LINE_BYTES {
                    self.pending.push(*byte);
                }
            }
        }
    }
}

/// Turns lines into events.
#[derive(Debug, Default)]
pub struct LogParser {
    checkpoint_began: Option<(WallTime, String)>,
}

impl LogParser {
    /// At the beginning of a log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a line without its end; adds what it completes.
    pub fn line(&mut self, line: &str, events: &mut Vec<LogEvent>) {
        let Some((time, message)) = split_line(line) else { return };
        let point = |kind| LogEvent {
            kind,
            start: time,
            end: time,
            figures: BTreeMap::new(),
            text: message.to_owned(),
        };
        if let Some(reason) = ["checkpoint starting:", "restartpoint starting:"]
            .iter()
            .find_map(|start| message.strip_prefix(start))
        {
            self.checkpoint_began = Some((time, reason.trim().to_owned()));
        } else if message.starts_with("checkpoint complete")
            || message.starts_with("restartpoint complete")
        {
            self.checkpoint(time, message, events);
        } else if message.starts_with("automatic vacuum")
            || message.starts_with("automatic analyze")
            || message.starts_with("automatic aggressive vacuum")
        {
            // The first line names the table; the elapsed time stands in a later one, or (analyze
            // before 14) in the same.
            let mut event = point("autovacuum");
            if let Some((_, rest)) = message.split_once("elapsed: ") {
                event.set_elapsed(rest);
            }
            events.push(event);
        } else if let Some((_, rest)) = message.split_once("elapsed: ")
            && let Some(event) = events.last_mut().filter(|event| event.kind == "autovacuum")
        {
            event.set_elapsed(rest);
        } else if let Some((_, rest)) = message
            .split_once(" still waiting for ")
            .or_else(|| message.split_once(" acquired "))
            .filter(|_| message.starts_with("process "))
            && let Some((_, rest)) = rest.rsplit_once(" after ")
            && let Some(milliseconds) = first_number(rest)
        {
            let mut event = point("lock_wait");
            event.start = before(time, milliseconds / 1000.0);
            event.figures.insert("wait_ns".to_owned(), nanos(milliseconds / 1000.0));
            events.push(event);
        } else if message.starts_with("temporary file: path ") {
            let mut event = point("temporary_file");
            if let Some(bytes) =
                message.rsplit_once("size ").and_then(|(_, rest)| first_number(rest))
            {
                event.figures.insert("file_bytes".to_owned(), bytes);
            }
            events.push(event);
        } else if message.contains("was terminated by signal")
            || message.starts_with("terminating any other active server processes")
            || message.starts_with("all server processes terminated; reinitializing")
        {
            events.push(point("crash"));
        } else if message.starts_with("database system is ready to accept") {
            events.push(point("restart"));
            self.checkpoint_began = None;
        }
    }

    fn checkpoint(&mut self, end: WallTime, message: &str, events: &mut Vec<LogEvent>) {
        let mut figures = BTreeMap::new();
        let mut seconds = |name: &str, key: &str| {
            let value = number_after(message, key);
            if let Some(value) = value {
                figures.insert(format!("{name}_ns"), nanos(value));
            }
            value
        };
        let write = seconds("write", "write=");
        let sync = seconds("sync", "sync=");
        let total = seconds("total", "total=");
        seconds("sync_longest", "longest=");
        seconds("sync_average", "average=");
        for (name, key, factor) in [
            ("buffers_written", "wrote ", 1.0),
            ("files_synced", "sync files=", 1.0),
            ("distance_bytes", "distance=", 1024.0),
            ("estimate_bytes", "estimate=", 1024.0),
        ] {
            if let Some(value) = number_after(message, key) {
                figures.insert(name.to_owned(), value * factor);
            }
        }
        let (start, reason) = match self.checkpoint_began.take() {
            Some((start, reason)) => (start, reason),
            // Its beginning was before ours; the total says when.
            None => (before(end, total.unwrap_or(0.0)), "unknown reason".to_owned()),
        };
        let text = format!("checkpoint ({reason}): {message}");
        events.push(LogEvent {
            kind: "checkpoint",
            start,
            end,
            figures: figures.clone(),
            text: text.clone(),
        });
        if let (Some(write), Some(sync)) = (write, sync) {
            let uncertainty = total.map_or(0.0, |total| (total - write - sync).max(0.0));
            let limits = [
                ("checkpoint_write", start, after(start, write)),
                ("checkpoint_sync", after(start, write), after(start, write + sync)),
            ];
            for (kind, start, end) in limits {
                let figures =
                    BTreeMap::from([("phase_uncertainty_ns".to_owned(), nanos(uncertainty))]);
                events.push(LogEvent { kind, start, end, figures, text: text.clone() });
            }
        }
    }
}

/// Splits off the prefix and the severity. A line of a message that goes on (they begin with a tab)
/// has neither: its time is unknown, and zero stands for it.
fn split_line(line: &str) -> Option<(WallTime, &str)> {
    if let Some(rest) = line.strip_prefix('\t') {
        return Some((WallTime::from_unix_nanos(0), rest));
    }
    let (stamp, rest) = line.split_once(" UTC [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (severity, message) = rest.split_once(":  ")?;
    // Others (STATEMENT, DETAIL, ERROR) carry words of clients, which may look like anything.
    if severity != "LOG" {
        return None;
    }
    let civil: jiff::civil::DateTime = stamp.replacen(' ', "T", 1).parse().ok()?;
    let timestamp = jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()?;
    Some((WallTime::from_unix_nanos(i64::try_from(timestamp.as_nanosecond()).ok()?), message))
}

fn number_after(text: &str, key: &str) -> Option<f64> {
    // `sync=` must not be found in the middle of a longer name.
    let mut rest = text;
    loop {
        let place = rest.find(key)?;
        let is_whole = rest[..place].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
        rest = &rest[place + key.len()..];
        if is_whole {
            return first_number(rest);
        }
    }
}

/// The number that `text` begins with.
fn first_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().ok().filter(|value: &f64| value.is_finite())
}

fn nanos(seconds: f64) -> f64 {
    (seconds * 1e9).round()
}

fn after(time: WallTime, seconds: f64) -> WallTime {
    #[allow(clippy::cast_possible_truncation, reason = "a cast from float saturates")]
    let nanos = nanos(seconds) as i64;
    WallTime::from_unix_nanos(time.as_unix_nanos().saturating_add(nanos))
}

fn before(time: WallTime, seconds: f64) -> WallTime {
    after(time, -seconds)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn events_of(text: &str) -> Vec<LogEvent> {
        let (mut parser, mut events) = (LogParser::new(), Vec::new());
        for line in text.lines() {
            parser.line(line, &mut events);
        }
        events
    }

    /// One line of each layout that versions 10 to 18 write.
    const COMPLETE: [(&str, &str); 3] = [
        (
            "10 to 16",
            "checkpoint complete: wrote 44 buffers (0.3%); 0 WAL file(s) added, 1 removed, 2 recycled; write=4.209 s, sync=0.042 s, total=4.301 s; sync files=31, longest=0.012 s, average=0.002 s; distance=260 kB, estimate=300 kB",
        ),
        (
            "17",
            "checkpoint complete: wrote 44 buffers (0.3%); 0 WAL file(s) added, 1 removed, 2 recycled; write=4.209 s, sync=0.042 s, total=4.301 s; sync files=31, longest=0.012 s, average=0.002 s; distance=260 kB, estimate=300 kB; lsn=0/1969A90, redo lsn=0/1969A38",
        ),
        (
            "18",
            "checkpoint complete: wrote 44 buffers (0.3%), wrote 3 SLRU buffers; 0 WAL file(s) added, 1 removed, 2 recycled; write=4.209 s, sync=0.042 s, total=4.301 s; sync files=31, longest=0.012 s, average=0.002 s; distance=260 kB, estimate=300 kB; lsn=0/1969A90, redo lsn=0/1969A38",
        ),
    ];

    #[test]
    fn a_checkpoint_of_every_version_gives_the_same_phases() {
        for (version, complete) in COMPLETE {
            let text = format!(
                "2026-01-02 03:04:05.000 UTC [77] LOG:  checkpoint starting: time\n\
                 2026-01-02 03:04:09.301 UTC [77] LOG:  {complete}\n"
            );
            let events = events_of(&text);
            let kinds: Vec<&str> = events.iter().map(|event| event.kind).collect();
            assert_eq!(kinds, ["checkpoint", "checkpoint_write", "checkpoint_sync"], "{version}");
            let origin = events[0].start;
            let axis: Vec<(i64, i64)> = events
                .iter()
                .map(|event| event.on_axis(origin))
                .map(|event| (event.start_ns, event.end_ns))
                .collect();
            assert_eq!(
                axis,
                [(0, 4_301_000_000), (0, 4_209_000_000), (4_209_000_000, 4_251_000_000)]
            );
            let figures = &events[0].figures;
            for (name, value) in [
                ("buffers_written", 44.0),
                ("sync_ns", 42_000_000.0),
                ("sync_longest_ns", 12_000_000.0),
                ("files_synced", 31.0),
                ("distance_bytes", 266_240.0),
            ] {
                assert!((figures[name] - value).abs() < 1e-6, "{version} {name}");
            }
            assert!(events[0].text.contains("(time)"));
        }
    }

    #[test]
    fn a_checkpoint_that_began_before_the_log_is_placed_by_its_total() {
        let events = events_of(&format!("2026-01-02 03:04:09.301 UTC [7] LOG:  {}", COMPLETE[0].1));
        assert_eq!(events[0].end.as_unix_nanos() - events[0].start.as_unix_nanos(), 4_301_000_000);
    }

    #[test]
    fn vacuum_lock_waits_temporary_files_and_crashes_are_seen() {
        let events = events_of(
            "2026-01-02 03:04:09.000 UTC [7] LOG:  automatic vacuum of table \"a.b.c\": index scans: 0\n\
             \tpages: 0 removed\n\
             \tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 1.50 s\n\
             2026-01-02 03:04:10.000 UTC [8] LOG:  process 8 still waiting for ShareLock on transaction 7 after 1000.250 ms\n\
             2026-01-02 03:04:11.000 UTC [8] LOG:  temporary file: path \"base/pgsql_tmp/x\", size 1048576\n\
             2026-01-02 03:04:12.000 UTC [1] LOG:  server process (PID 8) was terminated by signal 9: Killed\n\
             2026-01-02 03:04:13.000 UTC [1] LOG:  database system is ready to accept connections\n",
        );
        let kinds: Vec<&str> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["autovacuum", "lock_wait", "temporary_file", "crash", "restart"]);
        let length = |event: &LogEvent| event.end.as_unix_nanos() - event.start.as_unix_nanos();
        assert_eq!(length(&events[0]), 1_500_000_000);
        assert_eq!(length(&events[1]), 1_000_250_000);
        assert!((events[2].figures["file_bytes"] - 1_048_576.0).abs() < 1e-6);
    }

    #[test]
    fn real_logs_of_three_versions_tell_the_same_story() {
        for (version, text) in [
            (12, include_str!("server_log/fixtures/postgresql-12.log")),
            (15, include_str!("server_log/fixtures/postgresql-15.log")),
            (18, include_str!("server_log/fixtures/postgresql-18.log")),
        ] {
            let events = events_of(text);
            let of = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
            assert_eq!(of("restart"), 1, "{version}");
            assert_eq!((of("checkpoint"), of("checkpoint_sync")), (1, 1), "{version}");
            assert_eq!((of("autovacuum"), of("lock_wait")), (2, 2), "{version}");
            assert!(of("temporary_file") >= 2 && of("crash") >= 2, "{version}");
            let checkpoint = events.iter().find(|event| event.kind == "checkpoint").unwrap();
            for figure in ["buffers_written", "write_ns", "sync_ns", "total_ns", "distance_bytes"] {
                assert!(checkpoint.figures[figure] > 0.0, "{version} {figure}");
            }
            assert!(checkpoint.text.contains("(immediate force wait)"), "{version}");
            for event in events.iter().filter(|event| event.kind == "autovacuum") {
                assert!(event.figures["elapsed_ns"] > 0.0, "{version} {event:?}");
            }
        }
    }

    #[test]
    fn words_of_a_client_are_not_taken_for_the_servers() {
        let events = events_of(
            "2026-01-02 03:04:09.000 UTC [7] STATEMENT:  checkpoint complete: wrote 1 buffers\n\
             2026-01-02 03:04:09.000 UTC [7] ERROR:  all server processes terminated; reinitializing\n",
        );
        assert_eq!(events, []);
    }

    #[test]
    fn a_line_that_is_not_yet_whole_is_waited_for() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut follower = LogFollower::from_end(file.path()).unwrap();
        write!(file, "2026-01-02 03:04:13.000 UTC [1] LOG:  database system is re").unwrap();
        assert!(follower.take_events().unwrap().is_empty());
        writeln!(file, "ady to accept connections").unwrap();
        assert_eq!(follower.take_events().unwrap().len(), 1);
        assert!(follower.take_events().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_parser(lines in proptest::collection::vec(".{0,200}", 0..5)) {
            events_of(&lines.join("\n"));
        }

        #[test]
        fn no_damaged_checkpoint_breaks_the_parser(cut in 0_usize..300, noise in ".{0,9}") {
            let line = format!("2026-01-02 03:04:09.301 UTC [7] LOG:  {}", COMPLETE[2].1);
            let cut = cut.min(line.len());
            let damaged = format!("{}{noise}{}", &line[..cut], &line[cut..]);
            for event in events_of(&damaged) {
                prop_assert!(event.figures.values().all(|value| value.is_finite()));
            }
        }
    }
}
