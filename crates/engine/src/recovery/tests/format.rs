//! docs/storage-format.md says what the code writes.

use crate::page::{
    BlockNumber, DatabaseId, Fork, Header, Lsn, PageIdentity, PageImage, PageKind, RelationNumber,
    seal,
};
use crate::vfs::sim::SimDisk;
use crate::vfs::{FileSystem, Name, OpenOptions};
use crate::wal::control::{CONTROL_FILE_BYTES, COPY_OFFSETS, Control};
use crate::wal::record::{
    HEADER_BYTES, IMAGE_REFERENCE_BYTES, ManagerNumber, NewBlock, NewRecord, REFERENCE_BYTES,
    RecordBuffer, Replay,
};
use crate::wal::segment::SegmentHeader;

const DOCUMENT: &str = include_str!("../../../../../docs/storage-format.md");

/// The rows of a section's table: first byte, byte behind the last, field.
fn rows(section: &str) -> Vec<(usize, usize, String)> {
    let (_, text) = DOCUMENT.split_once(&format!("\n## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    text.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let (start, end) = cells.next()?.split_once("..")?;
            Some((start.parse().ok()?, end.parse().ok()?, cells.next()?.to_owned()))
        })
        .collect()
}

/// The bytes hold each field where the table says, and the table says it of every byte.
fn check(section: &str, bytes: &[u8], fields: &[(&str, Vec<u8>)]) {
    let rows = rows(section);
    assert_eq!(
        rows.iter().map(|row| row.2.as_str()).collect::<Vec<_>>(),
        fields.iter().map(|field| field.0).collect::<Vec<_>>(),
        "{section}"
    );
    let mut at = 0;
    for ((start, end, name), (_, value)) in rows.iter().zip(fields) {
        assert_eq!(*start, at, "{section}: {name} begins where the field before ends");
        assert_eq!(bytes[*start..*end], value[..], "{section}: {name}");
        at = *end;
    }
    assert_eq!(at, bytes.len(), "{section}: every byte is in the table");
}

fn crc(parts: &[&[u8]]) -> Vec<u8> {
    // Another implementation than the engine's.
    crc32c::crc32c(&parts.concat()).to_le_bytes().to_vec()
}

fn le64(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn le32(value: u32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn le16(value: u16) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

#[test]
fn the_control_file_is_as_documented() {
    let control = Control {
        generation: 0x0102_0304_0506_0708,
        incarnation: 0x1112_1314,
        redo: Lsn(0x2122_2324),
        previous: Lsn(0x2122_2000),
        durable: Lsn(0x3132_3334),
        next_transaction: 0x4142_4344_4546_4748,
        ..Control::new(DatabaseId(0x5152_5354_5556_5758), 0x0100_0000, 0x0002_0000)
    };
    let bytes = control.encode();
    check(
        "Control file copy",
        &bytes,
        &[
            ("magic", b"evenkeel".to_vec()),
            ("format", le32(1)),
            ("checksum", crc(&[&bytes[..12], &bytes[16..]])),
            ("generation", le64(0x0102_0304_0506_0708)),
            ("database", le64(0x5152_5354_5556_5758)),
            ("incarnation", le32(0x1112_1314)),
            ("page bytes", le32(8192)),
            ("wal segment bytes", le32(0x0100_0000)),
            ("relation segment blocks", le32(0x0002_0000)),
            ("redo", le64(0x2122_2324)),
            ("previous", le64(0x2122_2000)),
            ("durable", le64(0x3132_3334)),
            ("next transaction", le64(0x4142_4344_4546_4748)),
            ("reserved", vec![0; 432]),
        ],
    );
    assert!(DOCUMENT.contains("The file has 8192 bytes; the copies stand at 0 and at 4096"));
    assert_eq!((CONTROL_FILE_BYTES, COPY_OFFSETS), (8192, [0, 4096]));
}

#[test]
fn a_segment_s_header_is_as_documented() {
    let header = SegmentHeader {
        database: DatabaseId(0x5152_5354_5556_5758),
        incarnation: 0x1112_1314,
        segment_bytes: 0x0100_0000,
        segment: 0x0102_0304_0506_0708,
    };
    let bytes = header.encode();
    check(
        "Log segment header",
        &bytes,
        &[
            ("magic", b"evenklog".to_vec()),
            ("format", le32(1)),
            ("checksum", crc(&[&bytes[..12], &bytes[16..]])),
            ("database", le64(0x5152_5354_5556_5758)),
            ("incarnation", le32(0x1112_1314)),
            ("segment bytes", le32(0x0100_0000)),
            ("segment", le64(0x0102_0304_0506_0708)),
            ("reserved", vec![0; 472]),
        ],
    );
}

#[test]
fn records_stand_in_their_segment_as_documented() {
    let disk = SimDisk::new();
    super::ledger::create(&super::files(&disk));
    let opened = super::open(&super::files(&disk)).unwrap();
    let mut page = PageImage::zeroed();
    Header { upper: 8000, ..Header::empty(PageKind::Plain, 0) }.write(&mut page);
    page[8190] = 7;
    let identity = PageIdentity {
        relation: RelationNumber(0x0102_0304),
        fork: Fork::VisibilityMap,
        block: BlockNumber(0x1112_1314),
    };
    let block = NewBlock { identity, page: &page, replay: Replay::Image, data: b"block" };
    let record = NewRecord {
        manager: ManagerNumber(9),
        info: 8,
        transaction: 0x4142_4344_4546_4748,
        blocks: &[block],
        data: &[b"main"],
    };
    let first = opened.wal.insert(&mut RecordBuffer::new(), &record).unwrap();
    opened.wal.flush(first.end).unwrap();
    let file = disk.open(&Name::parse("wal/0000000000000000").unwrap(), OpenOptions::READ).unwrap();
    let mut bytes = vec![0; 1024];
    file.read_at(512 + first.start.0, &mut bytes).unwrap();
    let references = HEADER_BYTES + REFERENCE_BYTES + IMAGE_REFERENCE_BYTES;
    let length = references + (24 + 192) + 5 + 4;
    let place = [le64(first.start.0), le64(0xBA4C)].concat();
    check(
        "Log record header",
        &bytes[..HEADER_BYTES],
        &[
            ("length", le32(u32::try_from(length).unwrap())),
            ("checksum", crc(&[&bytes[..4], &bytes[8..length], &place])),
            ("previous", le64(0)),
            ("transaction", le64(0x4142_4344_4546_4748)),
            ("incarnation", le32(2)),
            ("manager", vec![9]),
            ("info", vec![8]),
            ("blocks", vec![1]),
            ("reserved", vec![0]),
        ],
    );
    check(
        "Log block reference",
        &bytes[HEADER_BYTES..references],
        &[
            ("relation", le32(0x0102_0304)),
            ("block", le32(0x1112_1314)),
            ("fork", vec![2]),
            ("flags", vec![1]),
            ("data bytes", le16(5)),
            ("hole start", le16(24)),
            ("hole end", le16(8000)),
        ],
    );
    assert_eq!(bytes[references..references + 24], page[..24]);
    assert_eq!(&bytes[length - 9..length], b"blockmain");
    // The mark behind it says how far the log was durable before: up to its begin.
    let mark = length.next_multiple_of(8);
    assert_eq!(bytes[mark + 28..mark + 32], [0, 1, 0, 0]);
    assert_eq!(bytes[mark + 32..mark + 40], le64(first.start.0));
    assert!(bytes[mark + 40..512].iter().all(|byte| *byte == 0));
}

#[test]
fn a_page_s_header_is_as_documented() {
    let mut page = PageImage::zeroed();
    let header = Header {
        lsn: Lsn(0x0102_0304_0506_0708),
        flags: 0x1112,
        lower: 0x0020,
        upper: 0x1000,
        special: 0x1800,
        ..Header::empty(PageKind::BtreeMeta, 0)
    };
    header.write(&mut page);
    let identity = PageIdentity {
        relation: RelationNumber(0x0102_0304),
        fork: Fork::FreeSpaceMap,
        block: BlockNumber(0x1112_1314),
    };
    seal(&mut page, DatabaseId(5), identity);
    let place = [le64(5), le32(0x0102_0304), vec![1], le32(0x1112_1314)].concat();
    check(
        "Page header",
        &page[..24],
        &[
            ("lsn", le64(0x0102_0304_0506_0708)),
            ("checksum", crc(&[&place, &page[..8], &page[12..]])),
            ("flags", le16(0x1112)),
            ("lower", le16(0x0020)),
            ("upper", le16(0x1000)),
            ("special", le16(0x1800)),
            ("layout", vec![1]),
            ("kind", vec![4]),
            ("reserved", vec![0, 0]),
        ],
    );
}
