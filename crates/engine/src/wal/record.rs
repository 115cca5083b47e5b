//! A record: what is asked for, its bytes, and what any bytes turn out to be.
//!
//! ```text
//! header (32 bytes), a reference for each block, for each block its image and its data, main data
//! ```
//!
//! The form follows PostgreSQL's (`access/xlogrecord.h`). Differences: fixed-width references instead of
//! ones that leave out what repeats, no compression, 64-bit transaction numbers, and a checksum that also
//! covers position and database (rule W3).

use std::ops::Range;

use super::position::{ALIGNMENT_BYTES, record_start};
use crate::page::{
    BlockNumber, DatabaseId, Fork, Header, Lsn, PAGE_BYTES, PageBytes, PageIdentity,
    RelationNumber, crc32c,
};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 32;

/// Bytes of a block reference without image.
pub const REFERENCE_BYTES: usize = 12;

/// Bytes that an image adds to its reference.
pub const IMAGE_REFERENCE_BYTES: usize = 4;

/// Pages that one record can change, as in PostgreSQL (`XLR_MAX_BLOCK_ID`); all their images fit.
pub const BLOCKS_MAX: usize = 32;

/// Bytes of a record at most: what a damaged length can make a reader allocate.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

const CHECKSUM: Range<usize> = 4..8;
const PREVIOUS: Range<usize> = 8..16;

const HAS_IMAGE: u8 = 1;
const IMAGE_IS_FOR_CHECK: u8 = 2;
const IS_MADE_ANEW: u8 = 4;

/// Who replays a record: an index into the table of resource managers. 0 is the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerNumber(pub u8);

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// Who replays it.
    pub manager: ManagerNumber,
    /// The manager's own: which kind of record.
    pub info: u8,
    /// For whom; 0 for no transaction.
    pub transaction: u64,
    /// The pages it changes.
    pub blocks: &'a [NewBlock<'a>],
    /// What belongs to no page, in pieces that are joined.
    pub data: &'a [&'a [u8]],
}

/// A page that a record changes.
#[derive(Clone, Copy, Debug)]
pub struct NewBlock<'a> {
    /// Which page.
    pub identity: PageIdentity,
    /// Its bytes after the change, with the LSN that they had before.
    pub page: &'a PageBytes,
    /// How replay comes by the page.
    pub replay: Replay,
    /// What the manager needs to repeat the change.
    pub data: &'a [u8],
}

/// How replay comes by a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// By repeating the change on the page as it was; the first change behind a redo point carries an
    /// image (rule W12).
    Repeat,
    /// By making it from nothing with the record's data.
    MakeAnew,
    /// By an image, always.
    Image,
}

/// What becomes of a block in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageUse {
    None,
    /// Replay puts it in the place of the page.
    Restore,
    /// Replay compares its result with it.
    Check,
}

/// Why a record cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log record {what} {found}, at most {most}")]
pub struct TooLarge {
    /// What there is too much of.
    pub what: &'static str,
    /// How much.
    pub found: usize,
    /// The limit.
    pub most: usize,
}

/// The bytes of a record in the making; kept by who writes many, so that none allocates.
#[derive(Debug, Default)]
pub struct RecordBuffer {
    bytes: Vec<u8>,
    length: usize,
    images: u32,
    image_bytes: u64,
}

impl RecordBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), length: 0, images: 0, image_bytes: 0 }
    }

    /// Puts everything into bytes but what only the position decides.
    pub(super) fn encode(
        &mut self,
        record: &NewRecord<'_>,
        incarnation: u32,
        image_use: impl Fn(&NewBlock<'_>) -> ImageUse,
    ) -> Result<(), TooLarge> {
        let limit = |what, found, most| {
            if found > most { Err(TooLarge { what, found, most }) } else { Ok(()) }
        };
        limit("names blocks:", record.blocks.len(), BLOCKS_MAX)?;
        (self.images, self.image_bytes) = (0, 0);
        let bytes = &mut self.bytes;
        bytes.clear();
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(&record.transaction.to_le_bytes());
        bytes.extend_from_slice(&incarnation.to_le_bytes());
        let blocks = u8::try_from(record.blocks.len()).unwrap_or(u8::MAX);
        bytes.extend_from_slice(&[record.manager.0, record.info, blocks, 0]);
        // Decided once per block: the page's header is read for each.
        let mut images = [(ImageUse::None, 0_u16, 0_u16); BLOCKS_MAX];
        for (block, slot) in record.blocks.iter().zip(&mut images) {
            let image = image_use(block);
            let hole = if image == ImageUse::None { 0..0 } else { hole(block) };
            *slot = (image, hole.start, hole.end);
            limit("has bytes of one block:", block.data.len(), usize::from(u16::MAX))?;
            let mut flags = match image {
                ImageUse::None => 0,
                ImageUse::Restore => HAS_IMAGE,
                ImageUse::Check => HAS_IMAGE | IMAGE_IS_FOR_CHECK,
            };
            if block.replay == Replay::MakeAnew {
                flags |= IS_MADE_ANEW;
            }
            bytes.extend_from_slice(&block.identity.relation.0.to_le_bytes());
            bytes.extend_from_slice(&block.identity.block.0.to_le_bytes());
            bytes.extend_from_slice(&[block.identity.fork.number(), flags]);
            let data = u16::try_from(block.data.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&data.to_le_bytes());
            if image != ImageUse::None {
                bytes.extend_from_slice(&hole.start.to_le_bytes());
                bytes.extend_from_slice(&hole.end.to_le_bytes());
            }
        }
        for (block, (image, hole_start, hole_end)) in record.blocks.iter().zip(images) {
            if image != ImageUse::None {
                let (start, end) = (usize::from(hole_start), usize::from(hole_end));
                bytes.extend_from_slice(&block.page[..start]);
                bytes.extend_from_slice(&block.page[end..]);
                self.images += 1;
                self.image_bytes += (PAGE_BYTES - (end - start)) as u64;
            }
            bytes.extend_from_slice(block.data);
        }
        for piece in record.data {
            bytes.extend_from_slice(piece);
        }
        self.length = bytes.len();
        limit("has bytes:", self.length, RECORD_BYTES_MAX)?;
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        bytes[0..4].copy_from_slice(&length.to_le_bytes());
        bytes.resize(self.length.next_multiple_of(8), 0);
        Ok(())
    }

    /// Completes the bytes for a position; they end at a multiple of 8.
    pub(super) fn seal(&mut self, start: Lsn, previous: Lsn, database: DatabaseId) -> &[u8] {
        self.bytes[PREVIOUS].copy_from_slice(&previous.0.to_le_bytes());
        let sum = checksum(&self.bytes[..self.length], start, database);
        self.bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }

    /// Bytes with the zeros behind that round them up.
    pub(super) const fn rounded_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) const fn images(&self) -> u32 {
        self.images
    }

    pub(super) const fn image_bytes(&self) -> u64 {
        self.image_bytes
    }
}

/// The part of a page that holds nothing, where its header says so. A page whose header cannot be goes
/// whole: better a longer record than one that loses bytes.
fn hole(block: &NewBlock<'_>) -> Range<u16> {
    let header = Header::read(block.page);
    match header.check(block.identity) {
        Ok(_) => header.lower..header.upper,
        Err(_) => 0..0,
    }
}

fn checksum(bytes: &[u8], start: Lsn, database: DatabaseId) -> u32 {
    let mut place = [0; 16];
    place[0..8].copy_from_slice(&start.0.to_le_bytes());
    place[8..16].copy_from_slice(&database.0.to_le_bytes());
    crc32c(&[&bytes[..CHECKSUM.start], &bytes[CHECKSUM.end..], &place])
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it begins.
    pub start: Lsn,
    /// Where it ends: the LSN of the pages that it changed.
    pub end: Lsn,
    /// Where the one before it begins; 0 for the first of a database.
    pub previous: Lsn,
    /// For whom; 0 for no transaction.
    pub transaction: u64,
    /// The incarnation that wrote it.
    pub incarnation: u32,
    /// Who replays it.
    pub manager: ManagerNumber,
    /// The manager's own: which kind of record.
    pub info: u8,
    /// The pages it changes.
    pub blocks: Vec<Block<'a>>,
    /// What belongs to no page.
    pub data: &'a [u8],
}

/// A page that a record changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Which page.
    pub identity: PageIdentity,
    /// Whether the record makes it from nothing.
    pub is_made_anew: bool,
    /// The page after the change.
    pub image: Option<Image<'a>>,
    /// What the manager needs to repeat the change.
    pub data: &'a [u8],
}

/// The bytes of a page but for a hole of zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Where the hole is.
    pub hole: Range<usize>,
    /// What is around the hole.
    pub bytes: &'a [u8],
    /// Not to be put in the page's place, but to compare the result of replay with.
    pub is_for_check: bool,
}

impl Image<'_> {
    /// Writes the page.
    pub fn restore(&self, page: &mut PageBytes) {
        let (before, behind) = self.bytes.split_at(self.hole.start.min(self.bytes.len()));
        page[..before.len()].copy_from_slice(before);
        page[before.len()..PAGE_BYTES - behind.len()].fill(0);
        page[PAGE_BYTES - behind.len()..].copy_from_slice(behind);
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotARecord {
    /// The length says that nothing was written here.
    #[error("no record begins here")]
    Nothing,
    /// There are fewer bytes than a record of this length has.
    #[error("{needed} bytes are needed and {there} are there")]
    Short {
        /// Bytes that the record has, as far as known.
        needed: usize,
        /// Bytes there are.
        there: usize,
    },
    /// A field cannot have this value.
    #[error("{0} cannot be")]
    Field(&'static str),
    /// The checksum is another.
    #[error("the checksum is {found:08x}, and {expected:08x} of these bytes in this place")]
    Checksum {
        /// Of the bytes.
        expected: u32,
        /// Stored.
        found: u32,
    },
}

/// The fields that say whether a record continues the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) previous: Lsn,
    pub(super) incarnation: u32,
}

/// Whether the bytes at `start` are a record of this database in this place, as far as the checksum says.
pub(super) fn verify(bytes: &[u8], start: Lsn, database: DatabaseId) -> Result<Link, NotARecord> {
    let length = length(bytes)?;
    let (rounded, there) = (length.next_multiple_of(8), bytes.len());
    let bytes = bytes.get(..rounded).ok_or(NotARecord::Short { needed: rounded, there })?;
    let (bytes, padding) = bytes.split_at(length);
    let mut fields = Fields { bytes };
    fields.u32()?;
    let found = fields.u32()?;
    let expected = checksum(bytes, start, database);
    if found != expected {
        return Err(NotARecord::Checksum { expected, found });
    }
    if padding.iter().any(|byte| *byte != 0) {
        return Err(NotARecord::Field("a byte that rounds up the length"));
    }
    let previous = Lsn(fields.u64()?);
    fields.u64()?;
    Ok(Link { previous, incarnation: fields.u32()? })
}

impl<'a> Record<'a> {
    /// What the bytes at `start` are. `bytes` may go on behind the record.
    ///
    /// # Errors
    /// Why they are not a record of this database in this place.
    pub fn decode(bytes: &'a [u8], start: Lsn, database: DatabaseId) -> Result<Self, NotARecord> {
        verify(bytes, start, database)?;
        Self::parse(bytes, start)
    }

    /// The fields of verified bytes.
    pub(super) fn parse(bytes: &'a [u8], start: Lsn) -> Result<Self, NotARecord> {
        let (length, there) = (length(bytes)?, bytes.len());
        let bytes = bytes.get(..length).ok_or(NotARecord::Short { needed: length, there })?;
        let mut fields = Fields { bytes };
        fields.u64()?;
        let previous = Lsn(fields.u64()?);
        let transaction = fields.u64()?;
        let incarnation = fields.u32()?;
        let [manager, info, count, reserved] = fields.u32()?.to_le_bytes();
        if reserved != 0 {
            return Err(NotARecord::Field("the reserved byte"));
        }
        if usize::from(count) > BLOCKS_MAX {
            return Err(NotARecord::Field("the number of blocks"));
        }
        let mut blocks = Vec::with_capacity(usize::from(count));
        let mut lengths = [0_usize; BLOCKS_MAX];
        for data_bytes in lengths.iter_mut().take(usize::from(count)) {
            let (block, length) = Block::decode_reference(&mut fields)?;
            blocks.push(block);
            *data_bytes = length;
        }
        for (block, data_bytes) in blocks.iter_mut().zip(lengths) {
            if let Some(image) = &mut block.image {
                image.bytes = fields.take(PAGE_BYTES - image.hole.len())?;
            }
            block.data = fields.take(data_bytes)?;
        }
        let end = record_start(Lsn(start.0.saturating_add(length as u64)));
        let manager = ManagerNumber(manager);
        let data = fields.bytes;
        Ok(Self { start, end, previous, transaction, incarnation, manager, info, blocks, data })
    }
}

impl Record<'_> {
    /// How far the log was durable when the record was written, if it is a mark (rule W5).
    #[must_use]
    pub fn watermark(&self) -> Option<Lsn> {
        let is_mark = self.manager == super::LOG_MANAGER && self.info == super::MARK;
        let data = self.data.try_into().ok().filter(|_| is_mark)?;
        Some(Lsn(u64::from_le_bytes(data)))
    }
}

impl Block<'_> {
    fn decode_reference(fields: &mut Fields<'_>) -> Result<(Self, usize), NotARecord> {
        let relation = RelationNumber(fields.u32()?);
        let block = BlockNumber(fields.u32()?);
        let [fork, flags, low, high] = fields.u32()?.to_le_bytes();
        let fork = Fork::of_number(fork).ok_or(NotARecord::Field("the fork"))?;
        if flags & !(HAS_IMAGE | IMAGE_IS_FOR_CHECK | IS_MADE_ANEW) != 0 {
            return Err(NotARecord::Field("a block's flags"));
        }
        let image = if flags & HAS_IMAGE == 0 {
            None
        } else {
            let [start_low, start_high, end_low, end_high] = fields.u32()?.to_le_bytes();
            let hole = usize::from(u16::from_le_bytes([start_low, start_high]))
                ..usize::from(u16::from_le_bytes([end_low, end_high]));
            if hole.start > hole.end || hole.end > PAGE_BYTES {
                return Err(NotARecord::Field("the hole of an image"));
            }
            let is_for_check = flags & IMAGE_IS_FOR_CHECK != 0;
            Some(Image { hole, bytes: &[], is_for_check })
        };
        let identity = PageIdentity { relation, fork, block };
        let is_made_anew = flags & IS_MADE_ANEW != 0;
        let data_bytes = usize::from(u16::from_le_bytes([low, high]));
        Ok((Self { identity, is_made_anew, image, data: &[] }, data_bytes))
    }
}

/// The length of the record at the begin of `bytes`, as far as it can be one: what a reader needs to have
/// enough bytes for [`Record::decode`].
pub(super) fn length(bytes: &[u8]) -> Result<usize, NotARecord> {
    let length = usize::try_from(Fields { bytes }.u32()?).unwrap_or(usize::MAX);
    match length {
        0 => Err(NotARecord::Nothing),
        HEADER_BYTES..=RECORD_BYTES_MAX => Ok(length),
        _ => Err(NotARecord::Field("the length")),
    }
}

/// Bytes that are taken from the front.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], NotARecord> {
        let there = self.bytes.len();
        let (taken, left) =
            self.bytes.split_at_checked(count).ok_or(NotARecord::Short { needed: count, there })?;
        self.bytes = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotARecord> {
        let there = self.bytes.len();
        let (taken, left) =
            self.bytes.split_first_chunk().ok_or(NotARecord::Short { needed: N, there })?;
        self.bytes = left;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, NotARecord> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, NotARecord> {
        self.array().map(u64::from_le_bytes)
    }
}

const _: () = {
    assert!((HEADER_BYTES as u64).is_multiple_of(ALIGNMENT_BYTES));
    let largest_block = REFERENCE_BYTES + IMAGE_REFERENCE_BYTES + PAGE_BYTES;
    assert!(HEADER_BYTES + BLOCKS_MAX * largest_block < RECORD_BYTES_MAX);
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::page::{PageImage, PageKind};

    const DATABASE: DatabaseId = DatabaseId(77);

    fn identity(block: u32) -> PageIdentity {
        PageIdentity {
            relation: RelationNumber(16_384),
            fork: Fork::Main,
            block: BlockNumber(block),
        }
    }

    /// A slotted page with a hole, filled from a seed outside of it.
    fn page(seed: u8) -> PageImage {
        let mut page = PageImage::zeroed();
        let header = Header { lsn: Lsn(9), upper: 8000, ..Header::empty(PageKind::Heap, 0) };
        header.write(&mut page);
        for (at, byte) in page[8000..].iter_mut().enumerate() {
            *byte = u8::try_from(at % 250).unwrap() ^ seed;
        }
        page
    }

    fn encoded(record: &NewRecord<'_>, image: ImageUse, start: Lsn, previous: Lsn) -> Vec<u8> {
        let mut buffer = RecordBuffer::new();
        buffer.encode(record, 3, |_| image).unwrap();
        buffer.seal(start, previous, DATABASE).to_vec()
    }

    fn sample(image: ImageUse) -> Vec<u8> {
        let page = page(1);
        let blocks = [
            NewBlock { identity: identity(4), page: &page, replay: Replay::Repeat, data: b"abc" },
            NewBlock { identity: identity(5), page: &page, replay: Replay::MakeAnew, data: b"" },
        ];
        let record = NewRecord {
            manager: ManagerNumber(2),
            info: 9,
            transaction: 1 << 40,
            blocks: &blocks,
            data: &[b"main ", b"data"],
        };
        encoded(&record, image, Lsn(512), Lsn(0))
    }

    #[test]
    fn what_is_written_is_read_and_an_image_comes_without_its_hole() {
        let bytes = sample(ImageUse::Restore);
        let record = Record::decode(&bytes, Lsn(512), DATABASE).unwrap();
        assert_eq!((record.transaction, record.incarnation, record.info), (1 << 40, 3, 9));
        assert_eq!((record.start, record.end), (Lsn(512), Lsn(512 + bytes.len() as u64)));
        assert_eq!(record.data, b"main data");
        assert_eq!(record.blocks[0].data, b"abc");
        assert!(record.blocks[1].is_made_anew && !record.blocks[0].is_made_anew);
        let image = record.blocks[0].image.clone().unwrap();
        assert_eq!((image.hole.clone(), image.bytes.len()), (24..8000, 216));
        let mut restored = PageImage::zeroed();
        restored.fill(0xEE);
        image.restore(&mut restored);
        assert_eq!(restored[..], page(1)[..]);
    }

    #[test]
    fn the_right_bytes_in_another_place_or_database_are_no_record() {
        let bytes = sample(ImageUse::None);
        assert!(Record::decode(&bytes, Lsn(512), DATABASE).is_ok());
        assert!(Record::decode(&bytes, Lsn(1024), DATABASE).is_err());
        assert!(Record::decode(&bytes, Lsn(512), DatabaseId(78)).is_err());
    }

    #[test]
    fn a_flip_of_any_bit_is_noticed() {
        for image in [ImageUse::None, ImageUse::Check] {
            let mut bytes = sample(image);
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    bytes[at] ^= 1 << bit;
                    assert!(Record::decode(&bytes, Lsn(512), DATABASE).is_err(), "{at} {bit}");
                    bytes[at] ^= 1 << bit;
                }
            }
            assert!(Record::decode(&bytes, Lsn(512), DATABASE).is_ok());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let page = page(1);
        let block =
            NewBlock { identity: identity(4), page: &page, replay: Replay::Image, data: b"" };
        let blocks = [block; BLOCKS_MAX + 1];
        let big = vec![0; RECORD_BYTES_MAX];
        let record = NewRecord {
            manager: ManagerNumber(2),
            info: 0,
            transaction: 0,
            blocks: &blocks[..BLOCKS_MAX],
            data: &[],
        };
        let mut buffer = RecordBuffer::new();
        assert_eq!(buffer.encode(&record, 1, |_| ImageUse::Restore), Ok(()));
        let error = buffer.encode(&NewRecord { blocks: &blocks, ..record }, 1, |_| ImageUse::None);
        assert_eq!(error.unwrap_err().to_string(), "a log record names blocks: 33, at most 32");
        let error = buffer.encode(&NewRecord { data: &[&big], ..record }, 1, |_| ImageUse::None);
        assert_eq!(error.unwrap_err().most, RECORD_BYTES_MAX);
        let wide = NewBlock { data: &big[..65_536], ..block };
        let error = buffer.encode(&NewRecord { blocks: &[wide], ..record }, 1, |_| ImageUse::None);
        assert_eq!(error.unwrap_err().found, 65_536);
    }

    /// Bytes with the checksum of a record, so that what is behind the checksum is reached.
    fn repaired(mut bytes: Vec<u8>, start: Lsn) -> Vec<u8> {
        if let Ok(length) = length(&bytes)
            && length <= bytes.len()
        {
            let sum = checksum(&bytes[..length], start, DATABASE);
            bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_not_and_never_break(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            length in 0_u32..420,
            blocks in 0_u8..4,
            start in any::<u64>(),
        ) {
            if bytes.len() >= HEADER_BYTES {
                bytes[0..4].copy_from_slice(&length.to_le_bytes());
                bytes[30..32].copy_from_slice(&[blocks, 0]);
            }
            let start = Lsn(start);
            if let Ok(record) = Record::decode(&repaired(bytes, start), start, DATABASE) {
                let mut page = PageImage::zeroed();
                for block in &record.blocks {
                    if let Some(image) = &block.image {
                        image.restore(&mut page);
                    }
                }
                prop_assert!(record.end > record.start || start.0 > u64::MAX - 1024);
            }
        }

        #[test]
        fn a_damaged_record_with_a_right_checksum_never_breaks(
            at in 8_usize..32 + 2 * 16,
            value in any::<u8>(),
        ) {
            let mut bytes = sample(ImageUse::Restore);
            bytes[at] = value;
            let _ = Record::decode(&repaired(bytes, Lsn(512)), Lsn(512), DATABASE);
        }

        #[test]
        fn any_record_is_read_as_it_was_written(
            (manager, info, transaction) in any::<(u8, u8, u64)>(),
            contents in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40), any::<u8>()), 0..5),
            data in proptest::collection::vec(any::<u8>(), 0..100),
            (start, previous) in any::<(u32, u64)>(),
        ) {
            let pages: Vec<PageImage> = contents.iter().map(|(seed, _, _)| page(*seed)).collect();
            let blocks: Vec<NewBlock<'_>> = contents.iter().zip(&pages).zip(0..)
                .map(|(((seed, data, _), page), block)| NewBlock {
                    identity: identity(block),
                    page,
                    replay: if seed % 2 == 0 { Replay::MakeAnew } else { Replay::Repeat },
                    data,
                })
                .collect();
            let record = NewRecord {
                manager: ManagerNumber(manager), info, transaction, blocks: &blocks, data: &[&data],
            };
            let start = Lsn(u64::from(start) * 8);
            let mut buffer = RecordBuffer::new();
            buffer.encode(&record, 5, |block| {
                match contents[usize::try_from(block.identity.block.0).unwrap()].2 % 3 {
                    0 => ImageUse::None,
                    1 => ImageUse::Restore,
                    _ => ImageUse::Check,
                }
            }).unwrap();
            let bytes = buffer.seal(start, Lsn(previous), DATABASE);
            let read = Record::decode(bytes, start, DATABASE).unwrap();
            prop_assert_eq!(
                (read.manager.0, read.info, read.transaction, read.previous.0, read.data),
                (manager, info, transaction, previous, &data[..])
            );
            prop_assert_eq!(read.blocks.len(), blocks.len());
            for (block, new) in read.blocks.iter().zip(&blocks) {
                prop_assert_eq!(block.identity, new.identity);
                prop_assert_eq!(block.data, new.data);
                if let Some(image) = &block.image {
                    let mut restored = PageImage::zeroed();
                    image.restore(&mut restored);
                    prop_assert_eq!(&restored[..], &new.page[..]);
                }
            }
        }
    }
}
