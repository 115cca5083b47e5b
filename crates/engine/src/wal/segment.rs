//! The files of the log: made ready ahead of need, used again when recovery needs them no more (rule W10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::control::{Control, FORMAT};
use super::error::WalError;
use super::position::LAST;
use crate::page::{DatabaseId, Lsn, crc32c};
use crate::sync::{Mutex, lock};
use crate::vfs::{File, FileSystem, Name, OpenOptions, VfsError, VfsErrorKind, durable};

/// The directory of the log.
pub const DIRECTORY: &str = "wal";

/// Bytes of a segment's header: a sector, so that no record shares it.
pub const SEGMENT_HEADER_BYTES: usize = 512;

/// Bytes of a segment, header included, unless the creator of the database says otherwise; PostgreSQL's.
pub const SEGMENT_BYTES: u32 = 16 << 20;

/// What a segment can have.
pub const SEGMENT_BYTES_MIN: u32 = 4096;
/// What a segment can have.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// The file that is being made ready.
const UNFINISHED: &str = "unfinished";

const MAGIC: &[u8; 8] = b"evenklog";

/// Zeros are written in pieces of this, so that a large segment takes no memory.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Which position lies in which file where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    segment_bytes: u64,
}

impl Geometry {
    /// For segments of this size.
    ///
    /// # Errors
    /// When a segment cannot have this size.
    pub fn new(segment_bytes: u32) -> Result<Self, WalError> {
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
            || !segment_bytes.is_multiple_of(4096)
        {
            return Err(WalError::Setting {
                setting: "wal_segment_bytes",
                found: segment_bytes.into(),
                rule: "it is a multiple of 4096 from 4096 to 1 GiB",
            });
        }
        Ok(Self { segment_bytes: segment_bytes.into() })
    }

    /// Bytes of a file.
    #[must_use]
    pub const fn segment_bytes(self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of the log in a file.
    #[must_use]
    pub const fn payload_bytes(self) -> u64 {
        self.segment_bytes - SEGMENT_HEADER_BYTES as u64
    }

    /// The segment of a position and where in its file it stands.
    #[must_use]
    pub const fn place(self, position: Lsn) -> (u64, u64) {
        let payload = self.payload_bytes();
        (position.0 / payload, SEGMENT_HEADER_BYTES as u64 + position.0 % payload)
    }

    /// The first position of a segment.
    #[must_use]
    pub const fn start_of(self, segment: u64) -> Lsn {
        Lsn(segment.saturating_mul(self.payload_bytes()))
    }
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The database it belongs to.
    pub database: DatabaseId,
    /// The incarnation that made it ready.
    pub incarnation: u32,
    /// Its bytes.
    pub segment_bytes: u32,
    /// Its number.
    pub segment: u64,
}

impl SegmentHeader {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(8, &FORMAT.to_le_bytes());
        put(16, &self.database.0.to_le_bytes());
        put(24, &self.incarnation.to_le_bytes());
        put(28, &self.segment_bytes.to_le_bytes());
        put(32, &self.segment.to_le_bytes());
        let sum = crc32c(&[&bytes[..12], &bytes[16..]]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What bytes say; `None` when they are no header of this format.
    #[must_use]
    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Option<Self> {
        let number32 = |at: usize| {
            let mut field = [0; 4];
            field.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(field)
        };
        let number64 = |at: usize| u64::from(number32(at)) | u64::from(number32(at + 4)) << 32;
        let is_whole = &bytes[..8] == MAGIC
            && number32(8) == FORMAT
            && number32(12) == crc32c(&[&bytes[..12], &bytes[16..]]);
        is_whole.then(|| Self {
            database: DatabaseId(number64(16)),
            incarnation: number32(24),
            segment_bytes: number32(28),
            segment: number64(32),
        })
    }
}

/// The segments of a database.
pub struct Segments {
    files: Arc<dyn FileSystem>,
    directory: Name,
    geometry: Geometry,
    database: DatabaseId,
    incarnation: u32,
    open: Mutex<BTreeMap<u64, Arc<dyn File>>>,
}

impl Segments {
    /// The segments in `files`, of the database and the incarnation that `control` says.
    ///
    /// # Errors
    /// When the sizes cannot be.
    pub fn new(files: Arc<dyn FileSystem>, control: &Control) -> Result<Self, WalError> {
        Ok(Self {
            files,
            directory: Name::parse(DIRECTORY)?,
            geometry: Geometry::new(control.wal_segment_bytes)?,
            database: control.database,
            incarnation: control.incarnation,
            open: Mutex::new(BTreeMap::new()),
        })
    }

    /// Makes the directory where it is missing.
    ///
    /// # Errors
    /// `Full`, `Vfs`.
    pub fn create_directory(&self) -> Result<(), WalError> {
        if self.files.find(&self.directory)?.is_none() {
            self.files.create_directory(&self.directory)?;
        }
        Ok(self.files.sync_directory(&Name::root())?)
    }

    /// Which position lies where.
    #[must_use]
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The numbers of the segments there are. Names that are none are left alone.
    ///
    /// # Errors
    /// `Vfs`.
    pub fn existing(&self) -> Result<BTreeSet<u64>, WalError> {
        let entries = self.files.list(&self.directory)?;
        let is_possible = |segment: &u64| self.geometry.start_of(*segment) <= LAST;
        let numbers = entries.iter().filter_map(|entry| parse_name(&entry.name));
        Ok(numbers.filter(is_possible).collect())
    }

    /// The file of a segment; `None` where there is none.
    ///
    /// # Errors
    /// `Vfs`.
    pub fn file(&self, segment: u64) -> Result<Option<Arc<dyn File>>, WalError> {
        if let Some(file) = lock(&self.open).get(&segment) {
            return Ok(Some(Arc::clone(file)));
        }
        match self.files.open(&self.name(segment)?, OpenOptions::READ_WRITE) {
            Ok(file) => Ok(Some(Arc::clone(lock(&self.open).entry(segment).or_insert(file)))),
            Err(error) if error.kind() == VfsErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a segment of zeros ready. Its name is durable after [`Segments::sync_names`].
    ///
    /// # Errors
    /// `Full` when there is no space for it, `Vfs`; there is no such segment then.
    pub fn prepare(&self, segment: u64) -> Result<(), WalError> {
        self.replace(segment, |_| Ok(()))
    }

    /// Makes a segment ready that was there when the database was opened; false where there is none.
    ///
    /// # Errors
    /// `Full`, `Vfs`.
    pub fn adopt(&self, segment: u64) -> Result<bool, WalError> {
        let Some(file) = self.file(segment)? else { return Ok(false) };
        if file.length()? != self.geometry.segment_bytes {
            self.prepare(segment)?;
        } else {
            file.write_at(0, &self.header(segment).encode())?;
            file.sync()?;
        }
        Ok(true)
    }

    /// Makes `old`, which nobody needs any more, ready as `new`. Its name is durable after
    /// [`Segments::sync_names`].
    ///
    /// # Errors
    /// `Vfs`; one of the two is there then, and is not ready.
    pub fn recycle(&self, old: u64, new: u64) -> Result<(), WalError> {
        lock(&self.open).remove(&old);
        self.files.rename(&self.name(old)?, &self.name(new)?)?;
        self.adopt(new)?;
        Ok(())
    }

    /// Removes a segment that nobody needs any more. Should a crash bring it back, the next opener
    /// removes it.
    ///
    /// # Errors
    /// `Vfs`.
    pub fn remove(&self, segment: u64) -> Result<(), WalError> {
        lock(&self.open).remove(&segment);
        Ok(durable::remove_if_there(&*self.files, &self.name(segment)?)?)
    }

    /// Removes what was being made ready when the database ended.
    ///
    /// # Errors
    /// `Vfs`.
    pub fn remove_unfinished(&self) -> Result<(), WalError> {
        Ok(durable::remove_if_there(&*self.files, &self.directory.join(UNFINISHED)?)?)
    }

    /// Copies a segment as far as `end`, with zeros behind, to a file that takes its place at once: what
    /// the kernel's cache holds and the disk may not is on the disk then, and no sector that is there is
    /// written again (rule W4). `spare` is a segment nobody needs, whose space the copy takes, so that
    /// none need be free. Its name is durable after [`Segments::sync_names`].
    ///
    /// # Errors
    /// `Full` without a spare, `Vfs`; the old file is still in its place then.
    pub fn copy_in_place(
        &self,
        segment: u64,
        end: Lsn,
        spare: Option<u64>,
    ) -> Result<(), WalError> {
        let Some(old) = self.file(segment)? else { return Ok(()) };
        let unfinished = self.directory.join(UNFINISHED)?;
        if let Some(spare) = spare
            && self.files.find(&unfinished)?.is_none()
        {
            lock(&self.open).remove(&spare);
            self.files.rename(&self.name(spare)?, &unfinished)?;
        }
        let start = self.geometry.start_of(segment);
        let bytes = end.0.saturating_sub(start.0).min(self.geometry.payload_bytes());
        self.replace(segment, |new| copy(&*old, new, SEGMENT_HEADER_BYTES as u64, bytes))
    }

    /// Makes the names of segments durable.
    ///
    /// # Errors
    /// `Vfs`: rule W9.
    pub fn sync_names(&self) -> Result<(), VfsError> {
        self.files.sync_directory(&self.directory)
    }

    /// Writes bytes of the log to segments that are ready.
    ///
    /// # Errors
    /// Whatever failed: rule W9.
    pub fn write(&self, at: Lsn, bytes: &[u8]) -> Result<(), VfsError> {
        let (mut at, mut bytes) = (at, bytes);
        while !bytes.is_empty() {
            let (segment, offset) = self.geometry.place(at);
            let left = usize::try_from(self.geometry.segment_bytes - offset).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(left.min(bytes.len()));
            self.ready(segment)?.write_at(offset, piece)?;
            at = Lsn(at.0 + piece.len() as u64);
            bytes = rest;
        }
        Ok(())
    }

    /// Makes what was written from `from` to `to` durable.
    ///
    /// # Errors
    /// Whatever failed: rule W9.
    pub fn sync(&self, from: Lsn, to: Lsn) -> Result<u64, VfsError> {
        let mut syncs = 0;
        if from < to {
            let (first, _) = self.geometry.place(from);
            let (last, _) = self.geometry.place(Lsn(to.0 - 1));
            for segment in first..=last {
                self.ready(segment)?.sync()?;
                syncs += 1;
            }
        }
        Ok(syncs)
    }

    fn ready(&self, segment: u64) -> Result<Arc<dyn File>, VfsError> {
        match self.file(segment) {
            Ok(Some(file)) => Ok(file),
            Err(WalError::Vfs(error) | WalError::Full(error)) => Err(error),
            _ => Err(VfsError::new(
                crate::vfs::Operation::Open,
                self.name(segment)?.as_str(),
                VfsErrorKind::NotFound,
                "a segment of the log that was ready has vanished",
            )),
        }
    }

    fn name(&self, segment: u64) -> Result<Name, VfsError> {
        self.directory.join(&file_name(segment))
    }

    fn header(&self, segment: u64) -> SegmentHeader {
        SegmentHeader {
            database: self.database,
            incarnation: self.incarnation,
            segment_bytes: u32::try_from(self.geometry.segment_bytes).unwrap_or(0),
            segment,
        }
    }

    /// Makes a whole file beside, then gives it the segment's name. Zeros are written, not only allocated:
    /// a write into allocated space changes the file system's records, and each sync would write those, too.
    fn replace(
        &self,
        segment: u64,
        content: impl FnOnce(&dyn File) -> Result<(), VfsError>,
    ) -> Result<(), WalError> {
        let name = self.directory.join(UNFINISHED)?;
        let made = || -> Result<(), VfsError> {
            let file = match self.files.open(&name, OpenOptions::READ_WRITE) {
                Err(error) if error.kind() == VfsErrorKind::NotFound => {
                    self.files.open(&name, OpenOptions::CREATE_NEW)?
                }
                result => result?,
            };
            let bytes = self.geometry.segment_bytes;
            if file.length()? != bytes {
                file.set_length(bytes)?;
            }
            let mut at = 0;
            while at < bytes {
                let count = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(ZEROS.len());
                file.write_at(at, &ZEROS[..count])?;
                at += count as u64;
            }
            file.write_at(0, &self.header(segment).encode())?;
            content(&*file)?;
            file.sync()
        };
        if let Err(error) = made() {
            // What is left is only space; the next attempt uses it.
            let _ = self.files.remove(&name);
            return Err(error.into());
        }
        lock(&self.open).remove(&segment);
        Ok(self.files.rename(&name, &self.name(segment)?)?)
    }
}

fn copy(from: &dyn File, to: &dyn File, offset: u64, bytes: u64) -> Result<(), VfsError> {
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(ZEROS.len())];
    let mut done = 0;
    while done < bytes {
        let count = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(buffer.len());
        let piece = &mut buffer[..count];
        let read = from.read_at(offset + done, piece)?;
        if read == 0 {
            break;
        }
        to.write_at(offset + done, &piece[..read])?;
        done += read as u64;
    }
    Ok(())
}

/// The name of a segment's file: its number in hexadecimal.
fn file_name(segment: u64) -> String {
    format!("{segment:016x}")
}

/// The segment of a file's name; `None` for names that [`file_name`] does not make.
fn parse_name(name: &str) -> Option<u64> {
    let segment = u64::from_str_radix(name, 16).ok()?;
    (file_name(segment) == name).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimDisk;

    fn segments(disk: &SimDisk) -> Segments {
        let control = Control::new(DatabaseId(5), 4096, 4);
        let segments = Segments::new(Arc::new(disk.clone()), &control).unwrap();
        segments.create_directory().unwrap();
        segments
    }

    #[test]
    fn positions_count_no_header() {
        let geometry = Geometry::new(4096).unwrap();
        assert_eq!(geometry.payload_bytes(), 3584);
        assert_eq!(geometry.place(Lsn(0)), (0, 512));
        assert_eq!(geometry.place(Lsn(3583)), (0, 4095));
        assert_eq!(geometry.place(Lsn(3584)), (1, 512));
        assert_eq!(geometry.start_of(2), Lsn(7168));
        for bytes in [0, 512, 4095, 5000, (1 << 30) + 4096] {
            assert!(Geometry::new(bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn only_names_of_segments_are_segments() {
        assert_eq!(parse_name("000000000000001f"), Some(31));
        for name in ["1f", "000000000000001F", "unfinished", "+00000000000001f", ""] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_flip_of_any_bit_of_a_header_is_noticed() {
        let header = SegmentHeader {
            database: DatabaseId(9),
            incarnation: 2,
            segment_bytes: 4096,
            segment: 1 << 40,
        };
        let mut bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some(header));
        for at in 0..bytes.len() {
            bytes[at] ^= 16;
            assert_eq!(SegmentHeader::decode(&bytes), None, "byte {at}");
            bytes[at] ^= 16;
        }
    }

    #[test]
    fn a_write_goes_on_in_the_next_segment_and_an_old_one_is_used_again() {
        let disk = SimDisk::new();
        let segments = segments(&disk);
        segments.prepare(0).unwrap();
        segments.prepare(1).unwrap();
        segments.sync_names().unwrap();
        let bytes: Vec<u8> = (0..1024_u32).map(|at| u8::try_from(at % 200).unwrap()).collect();
        segments.write(Lsn(3072), &bytes).unwrap();
        assert_eq!(segments.sync(Lsn(3072), Lsn(4096)).unwrap(), 2);
        let mut read = [0; 512];
        segments.file(1).unwrap().unwrap().read_at(512, &mut read).unwrap();
        assert_eq!(read, bytes[512..]);
        segments.recycle(0, 2).unwrap();
        assert_eq!(segments.existing().unwrap(), BTreeSet::from([1, 2]));
        segments.file(2).unwrap().unwrap().read_at(0, &mut read).unwrap();
        assert_eq!(SegmentHeader::decode(&read).unwrap().segment, 2);
        assert!(segments.write(Lsn(0), &bytes).is_err(), "it is another segment now");
    }

    #[test]
    fn a_copy_in_place_needs_no_free_space_when_a_segment_is_to_spare() {
        let disk = SimDisk::new();
        let segments = segments(&disk);
        for segment in 0..2 {
            segments.prepare(segment).unwrap();
        }
        segments.write(Lsn(0), &[7; 1024]).unwrap();
        segments.sync_names().unwrap();
        disk.set_quota_bytes(Some(disk.used_bytes()));
        assert!(matches!(segments.copy_in_place(0, Lsn(512), None), Err(WalError::Full(_))));
        segments.copy_in_place(0, Lsn(512), Some(1)).unwrap();
        let mut read = [0; 1024];
        segments.file(0).unwrap().unwrap().read_at(512, &mut read).unwrap();
        assert_eq!((&read[..512], &read[512..]), (&[7; 512][..], &[0; 512][..]));
        assert_eq!(segments.existing().unwrap(), BTreeSet::from([0]));
    }
}
