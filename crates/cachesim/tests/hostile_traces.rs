//! Any bytes read as any format give an answer or an error with its place, within bounded memory.
//!
//! A test binary of its own: the memory it looks at is the process's largest so far, which other tests
//! would add to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panics")]

use std::io::{Cursor, Read, Write as _};
use std::num::NonZeroU32;

use evenkeel_cachesim::trace::{self, FORMATS, Format, Options, Place, TraceError, TraceReader};
use proptest::prelude::*;

/// Most memory that the whole process may have held. The unpacking of xz may take 128 MiB by its own
/// bound, of zstd as much again; tests run side by side.
const MEMORY_MAX_BYTES: u64 = 512 << 20;

/// Reads everything and keeps nothing; how many references, and how it ended.
fn read_through(source: Box<dyn Read>, options: &Options) -> (u64, Result<(), TraceError>) {
    let mut reader = match TraceReader::new(source, "a.trace", options) {
        Ok(reader) => reader,
        Err(error) => return (0, Err(error)),
    };
    let mut batch = Vec::new();
    loop {
        batch.clear();
        match reader.read(&mut batch) {
            Ok(true) => {}
            Ok(false) => return (reader.position().references, Ok(())),
            Err(error) => {
                assert_ne!(error.place, Place::Whole, "while reading, a place is known: {error}");
                return (reader.position().references, Err(error));
            }
        }
    }
}

/// The largest memory that this process has had; none where the system does not tell.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn assert_memory_was_bounded() {
    if let Some(peak) = peak_bytes() {
        assert!(peak < MEMORY_MAX_BYTES, "{} MiB were held", peak >> 20);
    }
}

/// Words of all formats in any order, which get further than noise.
fn nearly_a_trace() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "[0-9]{1,20}",
        "-?[0-9]{1,5}\\.[0-9]{0,9}",
        "[RWXD*#]",
        "arg[1-8]=-?[0-9]{1,11}",
        Just("Read".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("4294967295".to_owned()),
        Just("blkref #0: rel 1663/5/1 fork main blk 1".to_owned()),
        Just("rmgr: Heap desc: x, blkref #".to_owned()),
        Just("op,client,space,database,rel,fork,block,time_ns".to_owned()),
        Just("relfilenode,relblocknumber,isdirty".to_owned()),
        Just("page,op,time_us,class".to_owned()),
        Just("p 1 [0] 1.5: sdt_postgresql:buffer__read__done: (5)".to_owned()),
        Just("p 1 [0] 1.5: sdt_postgresql:buffer__extend__done: (5)".to_owned()),
        "\"[ -~]{0,6}\"?",
    ];
    let separator = prop_oneof![
        4 => Just(","), 3 => Just(" "), 2 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\0")
    ];
    proptest::collection::vec((word, separator), 0..80)
        .prop_map(|parts| parts.iter().flat_map(|(w, s)| [w.as_str(), *s]).collect::<String>())
        .prop_map(String::into_bytes)
}

/// Headers that promise much, and noise after them.
fn promising() -> impl Strategy<Value = Vec<u8>> {
    let evenkeel = b"\x89EKT\r\n\x1a\n".to_vec();
    let mut block = evenkeel.clone();
    block.extend(b"H\xff\xff\xff\xff\0\0\0\0");
    let mut lcs = 0x1234_5678_9abc_def0_u64.to_le_bytes().to_vec();
    lcs.extend([0xff; 200]);
    // An xz stream header, a zstd frame that claims a window of 2^41 bytes and a content of 2^64 - 1.
    let xz = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x28".to_vec();
    let zstd = b"\x28\xb5\x2f\xfd\xc0\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec();
    let gz = b"\x1f\x8b\x08\x1e\0\0\0\0\0\xff\xff\xff".to_vec();
    let head = proptest::sample::select(vec![evenkeel, block, lcs, xz, zstd, gz]);
    (head, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(mut head, noise)| {
        head.extend(noise);
        head
    })
}

fn pack(kind: u8, bytes: &[u8]) -> Vec<u8> {
    match kind {
        0 => {
            let level = flate2::Compression::fast();
            let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        1 => zstd::encode_all(bytes, 1).unwrap(),
        2 => {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 0);
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        _ => bytes.to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_bytes_as_any_format_give_an_answer_or_an_error_with_its_place(
        bytes in prop_oneof![
            2 => proptest::collection::vec(any::<u8>(), 0..600),
            3 => nearly_a_trace(),
            1 => promising(),
        ],
        format in proptest::option::of(proptest::sample::select(
            FORMATS.map(|(_, format, _)| format).to_vec(),
        )),
        (page_bytes, block_bytes) in (proptest::option::of(1_u32..), 1_u32..),
        unit in proptest::sample::select(vec![1_u64, 1_000, 1_000_000_000]),
        columns in proptest::option::weighted(0.1, proptest::sample::select(vec![
            "page=1", "key=2,size=1,time=3", "page=2,op=1,size=3,class=4", "page=lbn",
        ])),
        packed in 0_u8..8,
    ) {
        let options = Options {
            format,
            columns: columns.map(|text| text.parse().unwrap()),
            page_bytes: page_bytes.and_then(NonZeroU32::new),
            block_bytes: NonZeroU32::new(block_bytes).unwrap(),
            time_unit_ns: unit,
            ..Options::default()
        };
        let length = bytes.len() as u64;
        let (_, end) = read_through(Box::new(Cursor::new(pack(packed, &bytes))), &options);
        if let Err(error) = end {
            prop_assert!(!error.what.is_empty());
            match error.place {
                Place::Whole => {}
                Place::Line(line) => prop_assert!((1..=length + 1).contains(&line), "{error}"),
                // Of content that is packed once more by chance the place is in what is unpacked.
                Place::Offset(at) => prop_assert!(at <= length.max(1 << 16), "{error}"),
            }
            prop_assert!(error.to_string().chars().all(|c| !c.is_control()), "{error:?}");
        }
        assert_memory_was_bounded();
    }
}

/// Repeats bytes as often as said, without holding them.
struct Endless {
    bytes: Vec<u8>,
    at: usize,
    left: usize,
}

fn endless(bytes: &[u8], megabytes: usize) -> Box<dyn Read> {
    Box::new(Endless { bytes: bytes.to_vec(), at: 0, left: megabytes << 20 })
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let length = out.len().min(self.left);
        for byte in &mut out[..length] {
            *byte = self.bytes[self.at];
            self.at = (self.at + 1) % self.bytes.len();
        }
        self.left -= length;
        Ok(length)
    }
}

#[test]
fn content_of_any_length_is_read_in_the_same_memory() {
    let arc = b"7 4194304 0 0\n";
    let (references, end) = read_through(endless(arc, 8), &Options::default());
    assert!(end.is_err() && references > 1 << 40, "{references}: {end:?}");
    for format in [Format::U32BigEndian, Format::OracleGeneral, Format::VscsiV2] {
        let options = Options { format: Some(format), ..Options::default() };
        let (references, end) = read_through(endless(b"\x02\x02\x02\x02", 120), &options);
        assert_eq!(end, Ok(()), "{format}");
        assert!(references >= (120 << 20) / 40, "{format}: {references}");
    }
    // A line without an end, and lines that name ever new classes or relations.
    let options = Options { format: Some(Format::Ids), ..Options::default() };
    let (_, end) = read_through(endless(b"7", 40), &options);
    assert_eq!(end.unwrap_err().place, Place::Line(1));
    let mut names = String::from("page,class\n");
    let mut relations = String::from("op,client,rel,fork,block\n");
    for number in 0..400_000 {
        names.push_str(&format!("1,a_class_with_a_name_of_its_own_{number}\n"));
        relations.push_str(&format!("R,0,{number},0,0\n"));
    }
    for text in [names, relations] {
        let _ = read_through(Box::new(Cursor::new(text.into_bytes())), &Options::default());
    }
    assert_memory_was_bounded();
}

/// A kilobyte can stand for thousands of millions of references.
#[test]
fn what_does_not_fit_the_memory_granted_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.lis");
    let lines: String = (0..200_u64).map(|line| format!("{} 4194304 0 0\n", line << 22)).collect();
    std::fs::write(&path, lines).unwrap();
    let options = Options { memory_bytes: Some(64 << 20), ..Options::default() };
    let error = trace::load(&path, &options, &mut |_| {}).unwrap_err();
    assert!(matches!(error.place, Place::Line(1..)), "{error}");
    assert!(error.what.contains("64 MiB"), "{error}");
    assert!(error.to_string().contains("--sample"), "{error}");
    assert_memory_was_bounded();
}
