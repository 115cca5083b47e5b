//! The control file: who the database is, what was fixed when it was created, where recovery begins.
//!
//! Two copies of 512 bytes, 4096 bytes apart so that they share neither sector nor page of the kernel's
//! cache. They are written in turn, each synced before the other is touched: one is whole at any moment.
//! Both are written each time, so that damage to one later never leads back to an older state. PostgreSQL
//! has one copy of 512 bytes and trusts the disk not to tear it (`pg_control.h`).

use std::sync::Arc;

use super::WalError;
use super::position::{FIRST, LAST};
use crate::page::{DatabaseId, Lsn, PAGE_BYTES, crc32c};
use crate::sync::{Mutex, lock};
use crate::vfs::{File, FileSystem, Name, OpenOptions, VfsError, VfsErrorKind, durable};

/// Its name.
pub const CONTROL_FILE: &str = "control";

/// The format this version writes and reads, of control file, segments and pages together.
pub const FORMAT: u32 = 1;

/// Bytes of a copy: a sector.
pub const COPY_BYTES: usize = 512;

/// Where the copies stand.
pub const COPY_OFFSETS: [u64; 2] = [0, 4096];

/// Bytes of the file.
pub const CONTROL_FILE_BYTES: usize = 8192;

const MAGIC: &[u8; 8] = b"evenkeel";

/// What the control file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Rises by one with each writing.
    pub generation: u64,
    /// Drawn when the database was created.
    pub database: DatabaseId,
    /// Rises by one with each recovery (rule W11).
    pub incarnation: u32,
    /// Bytes of a file of the log, header included; fixed.
    pub wal_segment_bytes: u32,
    /// Pages of a file of a relation; fixed.
    pub relation_segment_blocks: u32,
    /// Where replay begins: what was logged before is durable in pages.
    pub redo: Lsn,
    /// The start of the last record before `redo`; 0 where there is none.
    pub previous: Lsn,
    /// The log was durable up to here at least (rule W6).
    pub durable: Lsn,
    /// No transaction of a number from here on has been given out when `redo` was chosen.
    pub next_transaction: u64,
}

impl Control {
    /// The first one of a database.
    #[must_use]
    pub const fn new(
        database: DatabaseId,
        wal_segment_bytes: u32,
        relation_segment_blocks: u32,
    ) -> Self {
        Self {
            generation: 1,
            database,
            incarnation: 1,
            wal_segment_bytes,
            relation_segment_blocks,
            redo: FIRST,
            previous: Lsn(0),
            durable: FIRST,
            next_transaction: 1,
        }
    }

    /// The bytes of a copy.
    #[must_use]
    pub fn encode(&self) -> [u8; COPY_BYTES] {
        let mut bytes = [0; COPY_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(8, &FORMAT.to_le_bytes());
        put(16, &self.generation.to_le_bytes());
        put(24, &self.database.0.to_le_bytes());
        put(32, &self.incarnation.to_le_bytes());
        put(36, &(PAGE_BYTES as u32).to_le_bytes());
        put(40, &self.wal_segment_bytes.to_le_bytes());
        put(44, &self.relation_segment_blocks.to_le_bytes());
        put(48, &self.redo.0.to_le_bytes());
        put(56, &self.previous.0.to_le_bytes());
        put(64, &self.durable.0.to_le_bytes());
        put(72, &self.next_transaction.to_le_bytes());
        let sum = crc32c(&[&bytes[..12], &bytes[16..]]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What the bytes of a copy say.
    ///
    /// # Errors
    /// Why they are no copy.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotAControl> {
        let bytes: &[u8; COPY_BYTES] = bytes
            .get(..COPY_BYTES)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(NotAControl::Damaged("it is too short"))?;
        let number32 = |at: usize| {
            let mut field = [0; 4];
            field.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(field)
        };
        let number64 = |at: usize| u64::from(number32(at)) | u64::from(number32(at + 4)) << 32;
        if &bytes[..8] != MAGIC {
            return Err(NotAControl::Damaged("it does not begin with 'evenkeel'"));
        }
        if number32(12) != crc32c(&[&bytes[..12], &bytes[16..]]) {
            return Err(NotAControl::Damaged("its checksum is another"));
        }
        if number32(8) != FORMAT {
            return Err(NotAControl::Format(number32(8)));
        }
        if number32(36) as usize != PAGE_BYTES {
            return Err(NotAControl::Damaged("its pages are of another size"));
        }
        let control = Self {
            generation: number64(16),
            database: DatabaseId(number64(24)),
            incarnation: number32(32),
            wal_segment_bytes: number32(40),
            relation_segment_blocks: number32(44),
            redo: Lsn(number64(48)),
            previous: Lsn(number64(56)),
            durable: Lsn(number64(64)),
            next_transaction: number64(72),
        };
        if control.redo < FIRST
            || control.redo > control.durable
            || control.durable > LAST
            || control.previous >= control.redo
        {
            return Err(NotAControl::Damaged("its positions cannot be"));
        }
        Ok(control)
    }
}

/// Why bytes are no copy of a control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAControl {
    /// It is not what was written.
    #[error("{0}")]
    Damaged(&'static str),
    /// It is of another version.
    #[error("its format is {0}")]
    Format(u32),
}

/// The open control file.
pub struct ControlStore {
    file: Arc<dyn File>,
    current: Mutex<Control>,
    damaged: Option<String>,
    /// Which copy is written first: the one that was older or damaged when it was opened.
    first: usize,
}

impl ControlStore {
    /// Makes the file, durably and at once: it is there and whole, or it is not there.
    ///
    /// # Errors
    /// `Presence` where there is one already; `Full`, `Vfs`.
    pub fn create(files: &dyn FileSystem, control: &Control) -> Result<(), WalError> {
        let name = Name::parse(CONTROL_FILE)?;
        if files.find(&name)?.is_some() {
            return Err(WalError::Presence(
                "there is a database already: open it, or choose another directory",
            ));
        }
        let mut bytes = vec![0; CONTROL_FILE_BYTES];
        for offset in COPY_OFFSETS {
            let at = usize::try_from(offset).unwrap_or(0);
            bytes[at..at + COPY_BYTES].copy_from_slice(&control.encode());
        }
        Ok(durable::replace(files, &name, &bytes)?)
    }

    /// Opens it and takes the newer copy.
    ///
    /// # Errors
    /// `Presence` where there is none, `ControlDamaged`, `Unsupported`, `Vfs`.
    pub fn open(files: &dyn FileSystem) -> Result<Self, WalError> {
        let name = Name::parse(CONTROL_FILE)?;
        let file = match files.open(&name, OpenOptions::READ_WRITE) {
            Err(error) if error.kind() == VfsErrorKind::NotFound => {
                return Err(WalError::Presence(
                    "there is no database: its control file is missing; create it, or choose another \
                     directory",
                ));
            }
            result => result?,
        };
        let mut copies = [Err(NotAControl::Damaged("")); 2];
        for (copy, offset) in copies.iter_mut().zip(COPY_OFFSETS) {
            let mut bytes = [0; COPY_BYTES];
            let read = file.read_at(offset, &mut bytes)?;
            *copy = Control::decode(&bytes[..read]);
        }
        let (current, damaged, first) = match copies {
            [Ok(left), Ok(right)] if left.database != right.database => {
                return Err(WalError::ControlDamaged("its copies are of two databases".to_owned()));
            }
            [Ok(left), Ok(right)] if left.generation > right.generation => (left, None, 1),
            [Ok(_), Ok(right)] => (right, None, 0),
            [Ok(left), Err(why)] => (left, Some(why), 1),
            [Err(why), Ok(right)] => (right, Some(why), 0),
            [Err(NotAControl::Format(found)), Err(_)]
            | [Err(_), Err(NotAControl::Format(found))] => {
                let file = CONTROL_FILE.to_owned();
                return Err(WalError::Unsupported { file, found, known: FORMAT });
            }
            [Err(left), Err(right)] => {
                return Err(WalError::ControlDamaged(format!(
                    "of the first copy, {left}; of the second, {right}"
                )));
            }
        };
        let damaged = damaged.map(|why| format!("copy {} of the control file: {why}", first + 1));
        Ok(Self { file, current: Mutex::new(current), damaged, first })
    }

    /// What it says.
    #[must_use]
    pub fn current(&self) -> Control {
        *lock(&self.current)
    }

    /// Which copy was damaged when it was opened, and how. A writing heals it.
    #[must_use]
    pub fn damaged(&self) -> Option<&str> {
        self.damaged.as_deref()
    }

    /// Writes both copies, the older one first, and raises the generation. When it returns an error, a
    /// reader finds the old state or the new one. One caller at a time: it holds a gate.
    ///
    /// # Errors
    /// Nothing further can be written then (vfs, rule V4).
    pub fn write(&self, control: &Control) -> Result<(), VfsError> {
        let control = Control { generation: self.current().generation + 1, ..*control };
        let bytes = control.encode();
        for copy in [self.first, 1 - self.first] {
            self.file.write_at(COPY_OFFSETS[copy], &bytes)?;
            self.file.sync()?;
        }
        *lock(&self.current) = control;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimDisk;
    use crate::vfs::sim::crash::Drawn;

    fn sample() -> Control {
        Control {
            redo: Lsn(4096),
            previous: Lsn(4000),
            durable: Lsn(5120),
            next_transaction: 9,
            ..Control::new(DatabaseId(0xABCD), 16 << 20, 131_072)
        }
    }

    fn created() -> SimDisk {
        let disk = SimDisk::new();
        ControlStore::create(&disk, &sample()).unwrap();
        disk
    }

    #[test]
    fn what_is_written_is_read_and_a_flip_of_any_bit_is_noticed() {
        let mut bytes = sample().encode();
        assert_eq!(Control::decode(&bytes), Ok(sample()));
        for at in 0..COPY_BYTES {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(Control::decode(&bytes).is_err(), "byte {at} bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert!(Control::decode(&bytes[..511]).is_err());
    }

    #[test]
    fn damage_to_either_copy_leaves_the_newest_state_and_is_told_and_healed() {
        for offset in COPY_OFFSETS {
            let disk = created();
            let file = ControlStore::open(&disk).unwrap();
            let newer = Control { redo: Lsn(5000), ..file.current() };
            file.write(&newer).unwrap();
            let name = Name::parse(CONTROL_FILE).unwrap();
            disk.damage(&name, offset + 50, |byte| byte ^ 1, 1).unwrap();
            let file = ControlStore::open(&disk).unwrap();
            assert_eq!((file.current().redo, file.current().generation), (Lsn(5000), 2));
            let copy = if offset == 0 { 1 } else { 2 };
            let told = format!("copy {copy} of the control file: its checksum is another");
            assert_eq!(file.damaged(), Some(told.as_str()));
            file.write(&newer).unwrap();
            assert_eq!(ControlStore::open(&disk).unwrap().damaged(), None);
        }
    }

    #[test]
    fn damage_to_both_copies_and_other_formats_are_refused_by_name() {
        let disk = created();
        let name = Name::parse(CONTROL_FILE).unwrap();
        disk.damage(&name, 100, |_| 7, 1).unwrap();
        disk.damage(&name, 4096, |_| 7, 1).unwrap();
        let error = ControlStore::open(&disk).err().unwrap().to_string();
        assert_eq!(
            error,
            "the control file is damaged, restore it from a backup: of the first copy, its checksum \
             is another; of the second, it does not begin with 'evenkeel'"
        );
        let disk = created();
        for offset in COPY_OFFSETS {
            let mut bytes = sample().encode();
            bytes[8] = 2;
            let sum = crc32c(&[&bytes[..12], &bytes[16..]]);
            bytes[12..16].copy_from_slice(&sum.to_le_bytes());
            disk.open(&name, OpenOptions::READ_WRITE).unwrap().write_at(offset, &bytes).unwrap();
        }
        let error = ControlStore::open(&disk).err().unwrap();
        let file = CONTROL_FILE.to_owned();
        assert_eq!(error, WalError::Unsupported { file, found: 2, known: 1 });
    }

    #[test]
    fn a_crash_at_any_moment_of_writing_leaves_the_old_state_or_the_new_one() {
        let disk = created();
        let file = ControlStore::open(&disk).unwrap();
        let crashed = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (into, seeds) = (crashed.clone(), 64);
        disk.observe(move |boundary| {
            for seed in 0..seeds {
                let mut survival = Drawn::new(seed, boundary.operations());
                into.lock().unwrap().push(boundary.crash(&mut survival));
            }
        });
        file.write(&Control { redo: Lsn(5000), ..file.current() }).unwrap();
        disk.stop_observing();
        let (mut old, mut new) = (0, 0);
        for disk in crashed.lock().unwrap().iter() {
            let control = ControlStore::open(disk).unwrap().current();
            match (control.generation, control.redo) {
                (1, Lsn(4096)) => old += 1,
                (2, Lsn(5000)) => new += 1,
                other => panic!("neither old nor new: {other:?}"),
            }
        }
        assert!(old >= 64 && new >= 128, "{old} old, {new} new");
        assert!(ControlStore::create(&disk, &sample()).is_err(), "there is one");
        let none = ControlStore::open(&SimDisk::new()).err().unwrap();
        assert!(none.to_string().starts_with("there is no database"), "{none}");
    }

    #[test]
    fn any_bytes_are_a_control_file_or_not() {
        use proptest::prelude::*;
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..600), is_repaired in any::<bool>())| {
            let mut bytes = bytes;
            if is_repaired && bytes.len() >= COPY_BYTES {
                bytes[..8].copy_from_slice(MAGIC);
                bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
                let sum = crc32c(&[&bytes[..12], &bytes[16..COPY_BYTES]]);
                bytes[12..16].copy_from_slice(&sum.to_le_bytes());
            }
            if let Ok(control) = Control::decode(&bytes) {
                prop_assert!(control.redo <= control.durable);
            }
        });
    }
}
