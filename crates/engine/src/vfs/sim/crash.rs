//! What is left of a disk when the power goes: everything durable, and of the rest what chance, an
//! enumeration or a recorded list decides.

use std::collections::BTreeMap;

use super::content::{CHUNK_BYTES, place_of};
use super::state::{Directory, Inode, Node, State};
use crate::vfs::SECTOR_BYTES;

/// Something written that is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undurable<'a> {
    /// The file, or the directory for a changed name.
    pub name: &'a str,
    /// What of it.
    pub part: Part,
    /// The numbers of the operations that wrote it, oldest first: one for each version.
    pub versions: &'a [u64],
}

/// The parts that survive or vanish by themselves (rules V1 and V2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A sector of 512 bytes.
    Sector(u64),
    /// The length of the file.
    Length,
    /// One change of a name in a directory.
    Name,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// As it was at the last sync.
    Old,
    /// As the n-th version since then left it, from 0.
    Version(usize),
    /// A sector that was being written: neither old nor new. For a length, a name, or a sector that
    /// was only cut off: old.
    Junk,
}

/// Decides what survives a crash; asked once for each [`Undurable`], in a fixed order.
pub trait Survival {
    /// The fate of `what`.
    fn fate(&mut self, what: &Undurable<'_>) -> Fate;
}

/// Everything survives: what the kernel's page cache does for a process that is killed.
#[derive(Clone, Copy, Debug, Default)]
pub struct All;

/// Nothing survives that was not synced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

/// What operations up to this number wrote survives, as on a disk that keeps the order.
#[derive(Clone, Copy, Debug)]
pub struct Prefix(pub u64);

impl Survival for All {
    fn fate(&mut self, what: &Undurable<'_>) -> Fate {
        last(what)
    }
}

impl Survival for Nothing {
    fn fate(&mut self, _what: &Undurable<'_>) -> Fate {
        Fate::Old
    }
}

impl Survival for Prefix {
    fn fate(&mut self, what: &Undurable<'_>) -> Fate {
        match what.versions.iter().filter(|number| **number <= self.0).count() {
            0 => Fate::Old,
            count => Fate::Version(count - 1),
        }
    }
}

fn last(what: &Undurable<'_>) -> Fate {
    what.versions.len().checked_sub(1).map_or(Fate::Old, Fate::Version)
}

/// Chance by seed. The seed draws the manner first (all, nothing, a prefix, all but one operation,
/// only one operation, only names, only data, each for itself), so that the extreme cases, which
/// break most, are not lost among the mixed ones.
#[derive(Clone, Debug)]
pub struct Drawn {
    state: u64,
    manner: Manner,
}

#[derive(Clone, Copy, Debug)]
enum Manner {
    All,
    Nothing,
    /// Up to the operation that lies this far into those that are asked for, in 1/256.
    PrefixOf(u64),
    /// Of operations, by a hash of their number.
    SomeOperations,
    OnlyNames,
    OnlyData,
    /// Chances of old and of junk in 1/16; the rest is new.
    Each {
        old: u64,
        junk: u64,
    },
}

impl Drawn {
    /// What survives follows from `seed`; `operations` is how many there were, for a prefix's length.
    #[must_use]
    pub fn new(seed: u64, operations: u64) -> Self {
        let mut drawn = Self { state: seed, manner: Manner::All };
        drawn.manner = match drawn.next() % 16 {
            0 => Manner::All,
            1 => Manner::Nothing,
            2..=4 => {
                // Recent operations are the undurable ones.
                let back = drawn.next() % 32;
                Manner::PrefixOf(operations.saturating_sub(back))
            }
            5..=7 => Manner::SomeOperations,
            8 => Manner::OnlyNames,
            9 => Manner::OnlyData,
            _ => Manner::Each { old: 1 + drawn.next() % 14, junk: drawn.next() % 2 },
        };
        drawn
    }

    /// SplitMix64 (S. Vigna).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl Survival for Drawn {
    fn fate(&mut self, what: &Undurable<'_>) -> Fate {
        let is_name = what.part == Part::Name;
        match self.manner {
            Manner::All => last(what),
            Manner::Nothing => Fate::Old,
            Manner::PrefixOf(last) => Prefix(last).fate(what),
            Manner::SomeOperations => {
                let seed = self.state;
                let kept = what.versions.iter().rposition(|number| mix(seed ^ number) & 1 == 1);
                kept.map_or(Fate::Old, Fate::Version)
            }
            Manner::OnlyNames => {
                if is_name {
                    last(what)
                } else {
                    Fate::Old
                }
            }
            Manner::OnlyData => {
                if is_name {
                    Fate::Old
                } else {
                    last(what)
                }
            }
            Manner::Each { old, junk } => match self.next() % 16 {
                draw if draw < old => Fate::Old,
                draw if draw < old + junk => Fate::Junk,
                _ => {
                    let versions = what.versions.len() as u64;
                    let version = self.next() % versions.max(1);
                    Fate::Version(usize::try_from(version).unwrap_or(0))
                }
            },
        }
    }
}

/// All survivals of one moment, one after the other; for moments with few undurable parts.
///
/// ```
/// # use evenkeel::vfs::sim::crash::Enumeration;
/// let mut enumeration = Enumeration::new();
/// loop {
///     // disk.crash(&mut enumeration), recover, check
///     if !enumeration.advance() {
///         break;
///     }
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Enumeration {
    /// The fate chosen and the number of fates, for each part in the order of asking.
    digits: Vec<(usize, usize)>,
    asked: usize,
}

impl Enumeration {
    /// Begins with nothing surviving.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes to the next combination; false when all were had.
    pub fn advance(&mut self) -> bool {
        self.digits.truncate(self.asked);
        self.asked = 0;
        while let Some((digit, count)) = self.digits.pop() {
            if digit + 1 < count {
                self.digits.push((digit + 1, count));
                return true;
            }
        }
        false
    }
}

impl Survival for Enumeration {
    fn fate(&mut self, what: &Undurable<'_>) -> Fate {
        // Old, each version; and for sectors junk.
        let versions = what.versions.len();
        let count = 1 + versions + usize::from(matches!(what.part, Part::Sector(_)));
        if self.digits.len() == self.asked {
            self.digits.push((0, count));
        }
        let digit = self.digits.get(self.asked).map_or(0, |(digit, _)| *digit);
        self.asked += 1;
        match digit {
            0 => Fate::Old,
            digit if digit <= versions => Fate::Version(digit - 1),
            _ => Fate::Junk,
        }
    }
}

/// Notes what another survival decides, as text that [`Replayed`] reads.
#[derive(Debug)]
pub struct Recorded<S> {
    inner: S,
    fates: String,
}

impl<S: Survival> Recorded<S> {
    /// Listens to `inner`.
    pub const fn new(inner: S) -> Self {
        Self { inner, fates: String::new() }
    }

    /// What was decided: `o` for old, `j` for junk, a number for a version; blanks between.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.fates
    }
}

impl<S: Survival> Survival for Recorded<S> {
    fn fate(&mut self, what: &Undurable<'_>) -> Fate {
        let fate = self.inner.fate(what);
        if !self.fates.is_empty() {
            self.fates.push(' ');
        }
        match fate {
            Fate::Old => self.fates.push('o'),
            Fate::Junk => self.fates.push('j'),
            Fate::Version(version) => self.fates.push_str(&version.to_string()),
        }
        fate
    }
}

/// Decides as a text says, as [`Recorded::text`] gives it; beyond its end everything is old.
#[derive(Clone, Debug)]
pub struct Replayed {
    fates: std::vec::IntoIter<Fate>,
}

impl Replayed {
    /// Reads the text.
    ///
    /// # Errors
    /// The word that is neither `o` nor `j` nor a number, and its place, from 1.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut fates = Vec::new();
        for (at, word) in text.split_whitespace().enumerate() {
            fates.push(match word {
                "o" => Fate::Old,
                "j" => Fate::Junk,
                number => Fate::Version(number.parse().map_err(|_| {
                    format!(
                        "word {}: '{}' is neither o, nor j, nor a version's number",
                        at + 1,
                        number.escape_debug()
                    )
                })?),
            });
        }
        Ok(Self { fates: fates.into_iter() })
    }
}

impl Survival for Replayed {
    fn fate(&mut self, what: &Undurable<'_>) -> Fate {
        match self.fates.next().unwrap_or(Fate::Old) {
            Fate::Version(version) if version >= what.versions.len() => last(what),
            fate => fate,
        }
    }
}

/// The state of the disk after the crash: everything in it is durable.
pub(super) fn crash(state: &State, survival: &mut dyn Survival) -> State {
    let mut after =
        State { next_inode: state.next_inode, quota_bytes: state.quota_bytes, ..State::default() };
    // Names first: they decide which files there are. Parents come before children in this order.
    let mut pending = vec![String::new()];
    while let Some(path) = pending.pop() {
        let before = state.directories.get(&path);
        let names =
            before.map_or_else(BTreeMap::new, |directory| names_after(directory, &path, survival));
        for (name, node) in &names {
            let full = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            match node {
                Node::Directory => pending.push(full),
                Node::File(inode) => {
                    if let Some(file) = state.inodes.get(inode) {
                        after.inodes.insert(*inode, file_after(file, &full, survival));
                    }
                }
            }
        }
        let durable = names.clone();
        after.directories.insert(path, Directory { now: names, durable, pending: Vec::new() });
    }
    after.recount();
    after
}

fn names_after(
    directory: &Directory,
    path: &str,
    survival: &mut dyn Survival,
) -> BTreeMap<String, Node> {
    let mut names = directory.durable.clone();
    for (number, change) in &directory.pending {
        let what = Undurable { name: path, part: Part::Name, versions: &[*number] };
        if matches!(survival.fate(&what), Fate::Version(_)) {
            change.apply(&mut names);
        }
    }
    names
}

fn file_after(file: &Inode, name: &str, survival: &mut dyn Survival) -> Inode {
    if file.is_clean() {
        return Inode {
            now: file.durable.clone(),
            durable: file.durable.clone(),
            ..Inode::default()
        };
    }
    let mut content = file.durable.clone();
    let mut bytes = content.bytes;
    if !file.lengths.is_empty() {
        let numbers: Vec<u64> = file.lengths.iter().map(|(number, _)| *number).collect();
        let what = Undurable { name, part: Part::Length, versions: &numbers };
        if let Fate::Version(version) = survival.fate(&what) {
            bytes = file.lengths.get(version).map_or(bytes, |(_, length)| *length);
        }
    }
    let mut numbers = Vec::new();
    for (sector, versions) in &file.sectors {
        numbers.clear();
        numbers.extend(versions.iter().map(|(number, _)| *number));
        let what = Undurable { name, part: Part::Sector(*sector), versions: &numbers };
        match survival.fate(&what) {
            Fate::Old => {}
            Fate::Version(version) => {
                if let Some((_, chunk)) = versions.get(version) {
                    content.put_sector(*sector, chunk);
                }
            }
            // Only what was being written can be torn, not what was cut.
            Fate::Junk if numbers.iter().all(|number| file.cuts.contains(number)) => {}
            Fate::Junk => content.put_sector(*sector, &junk(*sector, &numbers)),
        }
    }
    // Sectors that survived beyond the length that survived are cut off, and read as zeros should
    // the file grow again; a longer length shows zeros where no sector survived.
    content.bytes = content.bytes.max(u64::MAX / 2);
    content.set_length(bytes);
    Inode { now: content.clone(), durable: content, ..Inode::default() }
}

/// Bytes that are neither old nor new: from the sector and the operations, so that a replay sees the
/// same.
fn junk(sector: u64, numbers: &[u64]) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    let (_, start) = place_of(sector);
    let mut state = mix(sector ^ numbers.iter().fold(0, |sum, number| sum ^ mix(*number)));
    for piece in bytes[start..start + SECTOR_BYTES].chunks_exact_mut(8) {
        state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
        piece.copy_from_slice(&state.to_le_bytes());
    }
    bytes
}
