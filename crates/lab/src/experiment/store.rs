//! The session directory's files: written whole or not at all, and read with distrust.
//!
//! `session.json` is the record. Its second line is a checksum, the SHA-256 of the file's own bytes
//! with the 64 hexadecimal digits of the checksum replaced by zeros, so that the seal travels with
//! the file and is renewed in the same rename. A file that no longer agrees with its seal is read
//! all the same, and the reader is told: results may be edited, but not unnoticed.
//!
//! Rules:
//!
//! 1. A file appears complete under its name or not at all: written beside it, synced, renamed, and
//!    the directory synced. A full disk leaves the previous version in place.
//! 2. A file is never written through a symbolic link that stands in its place.
//! 3. A newer major version is refused by name; a newer minor is read (fields are only added).
//! 4. Bad input gives an error with its place: line and column where the text is at fault, the path
//!    of the field where the text is sound but its meaning is not.
//!
//! What this does not do: hold a lock on the directory, or write the files that are derived from
//! the record (see [`crate::report`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::document::{SCHEMA, SessionDocument};

/// Name of the record in the session directory.
pub const SESSION_FILE: &str = "session.json";

/// A record larger than this is not read: no session comes near it (16 pairs of three arms of an
/// hour are about 60 MB), so a larger file is a mistake or an attack on memory.
const SESSION_BYTES_MAX: u64 = 1 << 30;

/// Arms are named by letters in reports.
const ARMS_MAX: usize = 26;

const OPENING: &str = "{\n  \"checksum\": \"sha256:";
const DIGEST_DIGITS: usize = 64;

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct StoredSession {
    /// What the file says.
    pub document: SessionDocument,
    /// Whether the file is as evenkeel wrote it.
    pub seal: Seal,
}

/// Whether a record is as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// Its checksum agrees.
    Intact,
    /// It was changed after it was written.
    Altered,
    /// It carries no checksum where one is written: made by another program, or reformatted.
    Absent,
}

/// Why a session directory could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried, for example `write`.
        action: &'static str,
        /// On what.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The text is not JSON, or not a session document.
    #[error("{path}:{line}:{column}: {reason}{remedy}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// From 1; 0 where the fault is at the line's start.
        column: usize,
        /// What is wrong.
        reason: String,
        /// What to do, starting with `; `; empty where nothing is known.
        remedy: &'static str,
    },
    /// The text is sound, but what it says cannot be.
    #[error("{path}: {field}: {reason}")]
    Meaning {
        /// The file.
        path: String,
        /// Path of the field, for example `runs[3].arm`.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// Written by a later evenkeel with another layout.
    #[error(
        "{path}: has schema {found}, and this evenkeel {program} reads {major}.x; \
         use the evenkeel that wrote it, or a newer one"
    )]
    NewerSchema {
        /// The file.
        path: String,
        /// Its version.
        found: String,
        /// Our own program's version.
        program: &'static str,
        /// The major version we read.
        major: u32,
    },
    /// Larger than any session.
    #[error("{path}: holds {bytes} bytes; a session record has at most {SESSION_BYTES_MAX}")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
    },
}

/// Writes the record into `directory` (made where missing), replacing the previous one in one step.
///
/// # Errors
/// What the operating system refuses; the previous record then stays as it was.
pub fn write_session(directory: &Path, document: &SessionDocument) -> Result<(), StoreError> {
    fs::create_dir_all(directory)
        .map_err(|source| io_error("make directory", directory, source))?;
    replace_file(directory, SESSION_FILE, |file| {
        let mut sealed = Sealing { file: BufWriter::new(file), digest: Sha256::new() };
        sealed.write_all(OPENING.as_bytes())?;
        sealed.write_all(&[b'0'; DIGEST_DIGITS])?;
        sealed.write_all(b"\",")?;
        // serde_json opens the object with "{\n"; its brace is ours already.
        crate::json::write_pretty(AfterFirstByte { inner: &mut sealed, is_past: false }, document)?;
        sealed.write_all(b"\n")?;
        sealed.file.flush()?;
        let digits = hexadecimal(&sealed.digest.finalize());
        let file = sealed.file.into_inner().map_err(|error| error.into_error())?;
        file.seek(SeekFrom::Start(OPENING.len() as u64))?;
        file.write_all(digits.as_bytes())
    })
}

/// Reads the record of `path`, which is a session directory or the file itself.
///
/// # Errors
/// See [`StoreError`]; never a panic, whatever the file holds.
pub fn read_session(path: &Path) -> Result<StoredSession, StoreError> {
    let file_path = if path.is_dir() { path.join(SESSION_FILE) } else { path.to_path_buf() };
    let mut file = File::open(&file_path).map_err(|source| io_error("open", &file_path, source))?;
    let bytes = file.metadata().map_err(|source| io_error("inspect", &file_path, source))?.len();
    if bytes > SESSION_BYTES_MAX {
        return Err(StoreError::TooLarge { path: shown(&file_path), bytes });
    }
    let mut text = Vec::new();
    // Bounded again while reading: a pipe or /dev/zero has no length.
    Read::by_ref(&mut file)
        .take(SESSION_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|source| io_error("read", &file_path, source))?;
    if text.len() as u64 > SESSION_BYTES_MAX {
        return Err(StoreError::TooLarge { path: shown(&file_path), bytes: text.len() as u64 });
    }
    parse_session(&text, &shown(&file_path))
}

/// Reads a record from its text; `name` is how errors call it.
///
/// # Errors
/// As [`read_session`].
pub fn parse_session(text: &[u8], name: &str) -> Result<StoredSession, StoreError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let own_major = major(SCHEMA).unwrap_or(0);
    // The version first: a newer layout must be called that, not "missing field".
    let head: Head = serde_json::from_slice(text).map_err(|error| syntax(text, name, &error))?;
    match major(&head.schema) {
        None => {
            return Err(StoreError::Meaning {
                path: name.to_owned(),
                field: "schema".to_owned(),
                reason: format!("'{}' is not major.minor", head.schema.escape_debug()),
            });
        }
        Some(found) if found != own_major => {
            return Err(StoreError::NewerSchema {
                path: name.to_owned(),
                found: head.schema.escape_debug().to_string(),
                program: env!("CARGO_PKG_VERSION"),
                major: own_major,
            });
        }
        Some(_) => {}
    }
    let document: SessionDocument =
        serde_json::from_slice(text).map_err(|error| syntax(text, name, &error))?;
    check_references(&document).map_err(|(field, reason)| StoreError::Meaning {
        path: name.to_owned(),
        field,
        reason,
    })?;
    Ok(StoredSession { document, seal: seal_of(text) })
}

/// The folder `name` of `directory`, made where it is not there.
///
/// # Errors
/// What the operating system refuses.
pub fn make_folder(directory: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let folder = directory.join(name);
    fs::create_dir_all(&folder).map_err(|source| io_error("make directory", &folder, source))?;
    Ok(folder)
}

/// Replaces `directory/name` in one step by what `write` puts into the file.
///
/// # Errors
/// What the operating system refuses; the previous version then stays as it was.
pub fn replace_file(
    directory: &Path,
    name: &str,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), StoreError> {
    let path = directory.join(name);
    let partial = directory.join(format!(".{name}.partial"));
    match fs::remove_file(&partial) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error("remove", &partial, error)),
    }
    // Rule 2: `create_new` never follows a link.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&partial)
        .map_err(|source| io_error("create", &partial, source))?;
    let written = write(&mut file)
        .and_then(|()| file.sync_all())
        .map_err(|source| io_error("write", &path, source))
        .and_then(|()| {
            fs::rename(&partial, &path).map_err(|source| io_error("replace", &path, source))
        });
    if let Err(error) = written {
        // The error that matters is the one in hand; a leftover is removed by the next attempt.
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    // Rule 1: without this the rename itself may be lost with the power.
    File::open(directory)
        .and_then(|handle| handle.sync_all())
        .map_err(|source| io_error("sync", directory, source))
}

fn seal_of(text: &[u8]) -> Seal {
    let Some(rest) = text.strip_prefix(OPENING.as_bytes()) else { return Seal::Absent };
    let Some((digits, rest)) = rest.split_at_checked(DIGEST_DIGITS) else { return Seal::Absent };
    let mut digest = Sha256::new();
    digest.update(OPENING.as_bytes());
    digest.update([b'0'; DIGEST_DIGITS]);
    digest.update(rest);
    if hexadecimal(&digest.finalize()).as_bytes() == digits { Seal::Intact } else { Seal::Altered }
}

/// Runs and blocks of a session: a record that counts further was not made by one.
const NUMBER_MAX: u32 = 1_000_000;

/// Indices that point nowhere: everything that reads the document may rely on them afterwards.
fn check_references(document: &SessionDocument) -> Result<(), (String, String)> {
    let arms = document.arms.len();
    let scripts = document.protocol.scripts.len();
    if arms > ARMS_MAX {
        return Err((
            "arms".to_owned(),
            format!("has {arms} entries; at most {ARMS_MAX} can be compared"),
        ));
    }
    let arm = |field: String, index: u32| {
        if (index as usize) < arms {
            Ok(())
        } else {
            Err((field, format!("is {index}, and there are {arms} arms")))
        }
    };
    for (place, difference) in document.differences.iter().enumerate() {
        arm(format!("differences[{place}].arm"), difference.arm)?;
    }
    for (place, block) in document.protocol.block_order.iter().enumerate() {
        for (position, index) in block.iter().enumerate() {
            arm(format!("protocol.block_order[{place}][{position}]"), *index)?;
        }
    }
    for (place, run) in document.runs.iter().enumerate() {
        arm(format!("runs[{place}].arm"), run.arm)?;
        let numbers = [("index", run.index), ("block", run.block), ("position", run.position)];
        for (field, number) in numbers {
            if number >= NUMBER_MAX {
                return Err((
                    format!("runs[{place}].{field}"),
                    format!("is {number}, and no session has {NUMBER_MAX} of them"),
                ));
            }
        }
        for (position, script) in run.scripts.iter().enumerate() {
            if script.script as usize >= scripts {
                return Err((
                    format!("runs[{place}].scripts[{position}].script"),
                    format!("is {}, and there are {scripts} scripts", script.script),
                ));
            }
        }
    }
    if let Some(analysis) = &document.analysis {
        arm("analysis.comparison.arm".to_owned(), analysis.comparison.arm)?;
        arm("analysis.comparison.against".to_owned(), analysis.comparison.against)?;
        for (place, comparison) in analysis.further.iter().enumerate() {
            arm(format!("analysis.further[{place}].arm"), comparison.arm)?;
            arm(format!("analysis.further[{place}].against"), comparison.against)?;
        }
    }
    Ok(())
}

fn major(schema: &str) -> Option<u32> {
    let (major, minor) = schema.split_once('.')?;
    minor.parse::<u32>().ok()?;
    major.parse().ok()
}

fn syntax(text: &[u8], name: &str, error: &serde_json::Error) -> StoreError {
    let reason = error.to_string();
    // serde_json appends the place; it stands in front already.
    let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
    let remedy = if text.is_empty() {
        "; the file is empty"
    } else if error.is_eof() || is_at_end(text, error.line(), error.column()) {
        "; the file was cut off"
    } else {
        ""
    };
    StoreError::Syntax {
        path: name.to_owned(),
        line: error.line().max(1),
        column: error.column(),
        reason: reason.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""),
        remedy,
    }
}

/// Whether a place is the text's end: a number that was cut off is reported as invalid, not as cut.
fn is_at_end(text: &[u8], line: usize, column: usize) -> bool {
    text.split(|byte| *byte == b'\n')
        .enumerate()
        .last()
        .is_some_and(|(last, content)| line == last + 1 && column >= content.len())
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { action, path: shown(path), source }
}

fn shown(path: &Path) -> String {
    PathBuf::from(path).display().to_string().escape_debug().to_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// Writes through, and digests what passes.
struct Sealing<'a> {
    file: BufWriter<&'a mut File>,
    digest: Sha256,
}

impl Write for Sealing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Swallows the first byte.
struct AfterFirstByte<W> {
    inner: W,
    is_past: bool,
}

impl<W: Write> Write for AfterFirstByte<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_past || bytes.is_empty() {
            return self.inner.write(bytes);
        }
        self.is_past = true;
        self.inner.write_all(bytes.get(1..).unwrap_or_default())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::fixture;

    fn written(document: &SessionDocument) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        write_session(directory.path(), document).unwrap();
        fs::read(directory.path().join(SESSION_FILE)).unwrap()
    }

    fn small() -> SessionDocument {
        let mut document = fixture::session(fixture::TINY);
        document.runs.truncate(1);
        let run = &mut document.runs[0];
        run.timeline.truncate(2);
        run.histogram.truncate(2);
        run.exceedance.truncate(2);
        document
    }

    #[test]
    fn what_was_written_is_read_back_and_the_seal_holds() {
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        for (name, document) in sessions {
            let text = written(&document);
            let stored = parse_session(&text, name).unwrap();
            assert_eq!(stored.seal, Seal::Intact, "{name}");
            let again = serde_json::to_value(&stored.document).unwrap();
            assert_eq!(again, serde_json::to_value(&document).unwrap(), "{name}");
        }
    }

    #[test]
    fn a_changed_result_does_not_go_unnoticed() {
        let document = small();
        let text = String::from_utf8(written(&document)).unwrap();
        let changed = text.replacen("\"pairs_planned\": 2", "\"pairs_planned\": 3", 1);
        assert_ne!(text, changed);
        assert_eq!(parse_session(changed.as_bytes(), "x").unwrap().seal, Seal::Altered);
        let unsealed = serde_json::to_vec(&document).unwrap();
        assert_eq!(parse_session(&unsealed, "x").unwrap().seal, Seal::Absent);
    }

    #[test]
    fn a_newer_layout_is_refused_by_name_and_a_newer_minor_is_read() {
        let text = String::from_utf8(written(&small())).unwrap();
        let newer = text.replacen("\"schema\": \"1.0\"", "\"schema\": \"2.0\"", 1);
        let error = parse_session(newer.as_bytes(), "session.json").unwrap_err().to_string();
        assert!(error.contains("schema 2.0") && error.contains("1.x"), "{error}");
        // Fields are only added within a major version, and those we do not know are skipped.
        let minor = text.replacen(
            "\"schema\": \"1.0\"",
            "\"schema\": \"1.7\", \"something_new\": {\"a\": [1]}",
            1,
        );
        assert!(parse_session(minor.as_bytes(), "session.json").is_ok());
        for nonsense in ["", "1", "one.two", "1.0.0.x", "-1.0"] {
            let text = text.replacen("\"1.0\"", &format!("\"{nonsense}\""), 1);
            assert!(parse_session(text.as_bytes(), "x").is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_file_cut_off_anywhere_is_an_error_with_its_place() {
        let text = written(&small());
        for length in (0..text.len() - 3).step_by(97).chain([0, 1, 2, text.len() - 3]) {
            let error = parse_session(&text[..length], "cut.json").unwrap_err().to_string();
            assert!(error.starts_with("cut.json:"), "{error}");
            assert!(error.contains("cut off") || error.contains("empty"), "{length}: {error}");
        }
    }

    #[test]
    fn an_index_that_points_nowhere_names_its_field() {
        let mut document = small();
        document.runs[0].arm = 9;
        let error = parse_session(&written(&document), "x").unwrap_err().to_string();
        assert!(error.contains("runs[0].arm") && error.contains('9'), "{error}");
    }

    #[test]
    fn a_failed_write_leaves_the_record_that_was_there() {
        let directory = tempfile::tempdir().unwrap();
        write_session(directory.path(), &small()).unwrap();
        let before = fs::read(directory.path().join(SESSION_FILE)).unwrap();
        let full = replace_file(directory.path(), SESSION_FILE, |file| {
            file.write_all(b"{ half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(full.unwrap_err().to_string().starts_with("write "));
        assert_eq!(fs::read(directory.path().join(SESSION_FILE)).unwrap(), before);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing half is left");
    }

    #[test]
    fn nothing_is_written_through_a_link_that_stands_in_the_way() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        for name in [".session.json.partial", SESSION_FILE] {
            std::os::unix::fs::symlink(&victim, out.join(name)).unwrap();
        }
        write_session(&out, &small()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(read_session(&out).is_ok());
    }

    #[test]
    fn every_document_is_valid_under_the_published_schema_and_the_schema_knows_every_field() {
        let text = include_str!("../../../../docs/schema/session-1.0.json");
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        let published = jsonschema::validator_for(&schema).unwrap();
        // Closed, so that a field that the schema does not name is found.
        let mut closed = schema.clone();
        close(&mut closed);
        let closed = jsonschema::validator_for(&closed).unwrap();
        let mut sessions = fixture::odd_sessions();
        sessions.push(("tiny", fixture::session(fixture::TINY)));
        sessions.push(("three", fixture::session(fixture::Plan { arms: 3, ..fixture::TINY })));
        for (name, document) in sessions {
            let value: serde_json::Value = serde_json::from_slice(&written(&document)).unwrap();
            for validator in [&published, &closed] {
                let errors: Vec<String> = validator
                    .iter_errors(&value)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .take(3)
                    .collect();
                assert!(errors.is_empty(), "{name}: {errors:?}");
            }
        }
        let mut value = serde_json::to_value(small()).unwrap();
        value["runs"][0]["throughput_per_s"] = serde_json::json!("fast");
        assert!(!published.is_valid(&value), "the schema must be able to fail");
    }

    fn close(schema: &mut serde_json::Value) {
        match schema {
            serde_json::Value::Object(fields) => {
                if fields.contains_key("properties") && fields.contains_key("required") {
                    fields.insert("additionalProperties".to_owned(), serde_json::json!(false));
                }
                fields.values_mut().for_each(close);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// Whatever the bytes: an error or a document that every renderer can show.
        #[test]
        fn no_file_makes_the_reader_or_a_renderer_panic(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6)
        ) {
            let mut text = SMALL.with(Clone::clone);
            for (index, byte) in changes {
                let at = index.index(text.len());
                text[at] = byte;
            }
            check(&text);
        }

        /// Numbers, nulls and structures in each other's places.
        #[test]
        fn no_exchange_of_values_makes_a_renderer_panic(
            from in any::<proptest::sample::Index>(),
            to in any::<proptest::sample::Index>(),
        ) {
            let mut text = String::from_utf8(SMALL.with(Clone::clone)).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let (from, to) = (from.index(lines.len()), to.index(lines.len()));
            let value = lines[from].split_once(": ").map_or("null", |(_, value)| value);
            if let Some((name, _)) = lines[to].split_once(": ") {
                let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                let comma = if lines[to].ends_with(',') { "," } else { "" };
                lines[to] = format!("{name}: {}{comma}", value.trim_end_matches(','));
                text = lines.join("\n");
            }
            check(text.as_bytes());
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse_session(&text, "x").is_err());
        }
    }

    thread_local! {
        static SMALL: Vec<u8> = written(&small());
    }

    fn check(text: &[u8]) {
        use crate::report::{csv, html, markdown, terminal};
        let Ok(stored) = parse_session(text, "x") else { return };
        let document = &stored.document;
        let mut out = Vec::new();
        terminal::render(document, terminal::Style::default(), None, &mut out).unwrap();
        markdown::render(document, &mut out).unwrap();
        html::render(document, &mut out).unwrap();
        csv::runs(document, &mut out).unwrap();
        csv::timeline(document, &mut out).unwrap();
    }
}
