//! Operations that fail, lie or stall by rule, over any file system.
//!
//! A rule is a line of text, so that a failing run can be written down and repeated:
//!
//! ```text
//! on 3 write of base/ : fail full      the third write to a file in base/ fails, once
//! on 2+ sync of wal/ : fail io         every sync of the log from the second on fails
//! on 1 write of base/5 : short 512     512 bytes are written, then the write fails
//! on 4 write of * : lose               acknowledged, and never done
//! on 4 write of base/ : misdirect 8192 done 8192 bytes too far; negative for too near
//! on 7 read of * : flip 100 1          byte 100 of what is read comes with bit 0 flipped
//! on 1+ sync of wal/ : stall 1000000   takes 1,000,000 ns longer
//! ```
//!
//! Operations count from 1, per rule, over the files whose name begins as given. The first rule that
//! is due decides; rules behind it count the operation all the same.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use super::{
    Entry, EntryKind, File, FileSystem, LockGuard, Name, OpenOptions, Operation, VfsError,
    VfsErrorKind,
};
use crate::runtime::Runtime;

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The operation is not done and fails.
    Fail(VfsErrorKind),
    /// A write does this many bytes, then fails with `Io`.
    Short(u64),
    /// A write or a sync is acknowledged and not done.
    Lose,
    /// A write is done this many bytes further on.
    Misdirect(i64),
    /// A read's byte at this place, if it has it, is changed by exclusive or.
    Flip {
        /// Place in what is read.
        at: u64,
        /// Bits to change.
        mask: u8,
    },
    /// The operation takes this many nanoseconds longer.
    Stall(u64),
}

/// When and where a rule acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The how-manieth matching operation, from 1.
    pub nth: u64,
    /// All later ones, too.
    pub for_good: bool,
    /// Which operation.
    pub operation: Operation,
    /// Of files whose name begins so; empty for all.
    pub prefix: String,
    /// What happens.
    pub action: Action,
}

const KINDS: [(VfsErrorKind, &str); 3] =
    [(VfsErrorKind::Io, "io"), (VfsErrorKind::Full, "full"), (VfsErrorKind::NotFound, "not_found")];

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plus = if self.for_good { "+" } else { "" };
        let prefix = if self.prefix.is_empty() { "*" } else { &self.prefix };
        write!(formatter, "on {}{plus} {} of {prefix} : ", self.nth, self.operation.word())?;
        match self.action {
            Action::Fail(kind) => {
                let word = KINDS.iter().find(|(of, _)| *of == kind).map_or("io", |(_, word)| word);
                write!(formatter, "fail {word}")
            }
            Action::Short(bytes) => write!(formatter, "short {bytes}"),
            Action::Lose => formatter.write_str("lose"),
            Action::Misdirect(by) => write!(formatter, "misdirect {by}"),
            Action::Flip { at, mask } => write!(formatter, "flip {at} {mask}"),
            Action::Stall(nanos) => write!(formatter, "stall {nanos}"),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["on", count, operation, "of", prefix, ":", action @ ..] = words.as_slice() else {
            return Err(format!(
                "'{}' is not of the form: on N[+] OPERATION of PREFIX|* : ACTION",
                text.escape_debug()
            ));
        };
        let number = |what: &str, word: &str| -> Result<u64, String> {
            word.parse().map_err(|_| format!("{what} is a whole number, not '{word}'"))
        };
        let (count, for_good) =
            count.strip_suffix('+').map_or((*count, false), |count| (count, true));
        let nth = number("the count", count)?;
        if nth == 0 {
            return Err("operations count from 1".to_owned());
        }
        let operation = Operation::ALL
            .iter()
            .find(|(_, word)| word == operation)
            .map(|(operation, _)| *operation)
            .ok_or_else(|| format!("'{operation}' is no operation"))?;
        let action = match *action {
            ["fail", kind] => Action::Fail(
                KINDS
                    .iter()
                    .find(|(_, word)| *word == kind)
                    .map(|(kind, _)| *kind)
                    .ok_or_else(|| format!("'{kind}' is none of io, full, not_found"))?,
            ),
            ["short", bytes] => Action::Short(number("the bytes written", bytes)?),
            ["lose"] => Action::Lose,
            ["misdirect", by] => Action::Misdirect(
                by.parse().map_err(|_| format!("misdirect wants whole bytes, not '{by}'"))?,
            ),
            ["flip", at, mask] => Action::Flip {
                at: number("the place", at)?,
                mask: mask
                    .parse()
                    .ok()
                    .filter(|mask| *mask != 0)
                    .ok_or_else(|| format!("bits to flip are 1 to 255, not '{mask}'"))?,
            },
            ["stall", nanos] => Action::Stall(number("the nanoseconds", nanos)?),
            _ => {
                return Err(format!(
                    "'{}' is no action: fail KIND, short BYTES, lose, misdirect BYTES, flip AT BITS, \
                     stall NANOSECONDS",
                    action.join(" ")
                ));
            }
        };
        let makes_sense = match action {
            Action::Short(_) | Action::Misdirect(_) => operation == Operation::Write,
            Action::Lose => {
                matches!(operation, Operation::Write | Operation::Sync | Operation::SyncDirectory)
            }
            Action::Flip { .. } => operation == Operation::Read,
            Action::Fail(_) | Action::Stall(_) => operation != Operation::Name,
        };
        if !makes_sense {
            return Err(format!("'{}' cannot happen to {}", words[6..].join(" "), words[2]));
        }
        let prefix = if *prefix == "*" { String::new() } else { (*prefix).to_owned() };
        Ok(Self { nth, for_good, operation, prefix, action })
    }
}

struct Rules {
    rules: Mutex<Vec<(Rule, u64)>>,
    runtime: Option<Arc<dyn Runtime>>,
}

impl Rules {
    /// The action that is due for this operation, if any; stalls are served here.
    fn due(&self, operation: Operation, name: &str) -> Option<Action> {
        let mut due = None;
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, seen) in rules.iter_mut() {
            if rule.operation != operation || !name.starts_with(&rule.prefix) {
                continue;
            }
            *seen += 1;
            if due.is_none() && (*seen == rule.nth || (rule.for_good && *seen > rule.nth)) {
                due = Some(rule.action);
            }
        }
        drop(rules);
        if let (Some(Action::Stall(nanos)), Some(runtime)) = (due, &self.runtime) {
            runtime.sleep_until(runtime.now().plus_nanos(nanos));
        }
        due
    }

    /// For operations that can only fail, stall, or be lost.
    fn pass(
        &self,
        operation: Operation,
        name: &str,
        go_on: impl FnOnce() -> Result<(), VfsError>,
    ) -> Result<(), VfsError> {
        match self.due(operation, name) {
            Some(Action::Fail(kind)) => Err(failure(operation, name, kind)),
            Some(Action::Lose) => Ok(()),
            _ => go_on(),
        }
    }

    fn check(&self, operation: Operation, name: &str) -> Result<(), VfsError> {
        self.pass(operation, name, || Ok(()))
    }
}

fn failure(operation: Operation, name: &str, kind: VfsErrorKind) -> VfsError {
    VfsError::new(operation, name, kind, "a rule makes it fail")
}

/// A file system with faults.
pub struct FaultyFileSystem {
    inner: Arc<dyn FileSystem>,
    rules: Arc<Rules>,
}

impl FaultyFileSystem {
    /// Faults over `inner`. Stalls need a `runtime` to wait with; without one they take no time.
    #[must_use]
    pub fn new(
        inner: Arc<dyn FileSystem>,
        rules: impl IntoIterator<Item = Rule>,
        runtime: Option<Arc<dyn Runtime>>,
    ) -> Self {
        let rules = Mutex::new(rules.into_iter().map(|rule| (rule, 0)).collect());
        Self { inner, rules: Arc::new(Rules { rules, runtime }) }
    }

    /// Replaces all rules; counting begins anew.
    pub fn set_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        *self.rules.rules.lock().unwrap_or_else(PoisonError::into_inner) =
            rules.into_iter().map(|rule| (rule, 0)).collect();
    }
}

impl FileSystem for FaultyFileSystem {
    fn open(&self, name: &Name, options: OpenOptions) -> Result<Arc<dyn File>, VfsError> {
        let operation = if options.create_new { Operation::Create } else { Operation::Open };
        self.rules.check(operation, name.as_str())?;
        Ok(Arc::new(FaultyFile {
            inner: self.inner.open(name, options)?,
            name: name.as_str().to_owned(),
            rules: Arc::clone(&self.rules),
        }))
    }

    fn create_directory(&self, name: &Name) -> Result<(), VfsError> {
        self.rules.check(Operation::CreateDirectory, name.as_str())?;
        self.inner.create_directory(name)
    }

    fn rename(&self, from: &Name, to: &Name) -> Result<(), VfsError> {
        self.rules.check(Operation::Rename, from.as_str())?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &Name) -> Result<(), VfsError> {
        self.rules.check(Operation::Remove, name.as_str())?;
        self.inner.remove(name)
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, VfsError> {
        self.rules.check(Operation::List, directory.as_str())?;
        self.inner.list(directory)
    }

    fn find(&self, name: &Name) -> Result<Option<EntryKind>, VfsError> {
        self.rules.check(Operation::Open, name.as_str())?;
        self.inner.find(name)
    }

    fn sync_directory(&self, directory: &Name) -> Result<(), VfsError> {
        self.rules.pass(Operation::SyncDirectory, directory.as_str(), || {
            self.inner.sync_directory(directory)
        })
    }

    fn lock(&self, name: &Name) -> Result<Box<dyn LockGuard>, VfsError> {
        self.rules.check(Operation::Lock, name.as_str())?;
        self.inner.lock(name)
    }

    fn free_bytes(&self) -> Result<u64, VfsError> {
        self.rules.check(Operation::FreeSpace, "")?;
        self.inner.free_bytes()
    }
}

struct FaultyFile {
    inner: Arc<dyn File>,
    name: String,
    rules: Arc<Rules>,
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, VfsError> {
        match self.rules.due(Operation::Read, &self.name) {
            Some(Action::Fail(kind)) => Err(failure(Operation::Read, &self.name, kind).at(offset)),
            Some(Action::Flip { at, mask }) => {
                let count = self.inner.read_at(offset, buffer)?;
                let read = buffer.get_mut(..count).into_iter().flatten();
                for byte in read.skip(usize::try_from(at).unwrap_or(usize::MAX)).take(1) {
                    *byte ^= mask;
                }
                Ok(count)
            }
            _ => self.inner.read_at(offset, buffer),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), VfsError> {
        match self.rules.due(Operation::Write, &self.name) {
            Some(Action::Fail(kind)) => Err(failure(Operation::Write, &self.name, kind).at(offset)),
            Some(Action::Short(count)) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len());
                self.inner.write_at(offset, &bytes[..count])?;
                let at = offset.saturating_add(count as u64);
                Err(failure(Operation::Write, &self.name, VfsErrorKind::Io).at(at))
            }
            Some(Action::Lose) => Ok(()),
            Some(Action::Misdirect(by)) => {
                self.inner.write_at(offset.saturating_add_signed(by), bytes)
            }
            _ => self.inner.write_at(offset, bytes),
        }
    }

    fn length(&self) -> Result<u64, VfsError> {
        self.inner.length()
    }

    fn set_length(&self, bytes: u64) -> Result<(), VfsError> {
        self.rules.check(Operation::Length, &self.name).map_err(|error| error.at(bytes))?;
        self.inner.set_length(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        self.rules.check(Operation::Allocate, &self.name).map_err(|error| error.at(offset))?;
        self.inner.allocate(offset, bytes)
    }

    fn sync(&self) -> Result<(), VfsError> {
        self.rules.pass(Operation::Sync, &self.name, || self.inner.sync())
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<(), VfsError> {
        self.rules.check(Operation::StartWriteback, &self.name)?;
        self.inner.start_writeback(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sim::SimDisk;
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    fn with(rules: &[&str]) -> (SimDisk, FaultyFileSystem) {
        let disk = SimDisk::new();
        let rules: Vec<Rule> = rules.iter().map(|text| rule(text)).collect();
        let files = FaultyFileSystem::new(Arc::new(disk.clone()), rules, None);
        (disk, files)
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_rule_prints_as_it_is_read() {
        for text in [
            "on 3 write of base/ : fail full",
            "on 2+ sync of wal/ : fail io",
            "on 1 write of base/5 : short 512",
            "on 4 write of * : lose",
            "on 4 write of base/ : misdirect -8192",
            "on 7 read of * : flip 100 1",
            "on 1+ sync of wal/ : stall 1000000",
            "on 1 set_length of base/ : fail not_found",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
    }

    #[test]
    fn a_rule_that_cannot_be_is_refused_with_the_reason() {
        for (text, part) in [
            ("on 0 write of * : lose", "count from 1"),
            ("on x write of * : lose", "whole number, not 'x'"),
            ("on 1 scribble of * : lose", "no operation"),
            ("on 1 write of * : explode", "no action"),
            ("on 1 sync of * : short 5", "cannot happen to sync"),
            ("on 1 read of * : flip 0 0", "1 to 255"),
            ("on 1 write * : lose", "not of the form"),
            ("", "not of the form"),
        ] {
            let error = text.parse::<Rule>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn arbitrary_text_is_refused_or_understood_and_never_breaks() {
        use proptest::prelude::*;
        proptest!(|(text in "(on )?[0-9+]{0,3} ?(write|sync|read)? ?(of )?[*a-z/]{0,5} ?:? ?[a-z0-9 -]{0,20}")| {
            if let Ok(rule) = text.parse::<Rule>() {
                prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
            }
        });
    }

    #[test]
    fn the_nth_operation_fails_once_or_for_good() {
        let (_, files) = with(&["on 2 write of a : fail full", "on 2+ sync of a : fail io"]);
        let file = files.open(&name("a"), OpenOptions::CREATE_NEW).unwrap();
        assert!(file.write_at(0, b"one").is_ok());
        let error = file.write_at(3, b"two").unwrap_err();
        assert_eq!((error.kind(), error.offset()), (VfsErrorKind::Full, Some(3)));
        assert!(file.write_at(3, b"two").is_ok());
        assert!(file.sync().is_ok());
        assert_eq!(file.sync().unwrap_err().kind(), VfsErrorKind::Io);
        assert_eq!(file.sync().unwrap_err().kind(), VfsErrorKind::Io);
    }

    #[test]
    fn lost_misdirected_and_short_writes_and_flipped_reads_are_what_they_say() {
        let (_, files) = with(&[
            "on 2 write of a : lose",
            "on 3 write of a : misdirect 4",
            "on 4 write of a : short 1",
            "on 2 read of a : flip 1 128",
        ]);
        let file = files.open(&name("a"), OpenOptions::CREATE_NEW).unwrap();
        file.write_at(0, b"........").unwrap();
        file.write_at(0, b"lost").unwrap();
        file.write_at(0, b"far.").unwrap();
        assert_eq!(file.write_at(0, b"short").unwrap_err().offset(), Some(1));
        let mut bytes = [0; 8];
        file.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"s...far.");
        file.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[1], b'.' ^ 128);
    }

    #[test]
    fn a_lost_sync_is_believed_until_the_crash() {
        let (disk, files) = with(&["on 1 sync of a : lose"]);
        let file = files.open(&name("a"), OpenOptions::CREATE_NEW).unwrap();
        file.write_at(0, b"data").unwrap();
        file.sync().unwrap();
        files.sync_directory(&Name::root()).unwrap();
        let after = disk.crash(&mut super::super::sim::crash::Nothing);
        assert_eq!(after.find(&name("a")).unwrap(), Some(EntryKind::File { bytes: 0 }));
    }
}
