//! Every format as a user meets it: recognised, read, cut short, hostile.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;

fn reader(bytes: &[u8], name: &str, options: &Options) -> Result<TraceReader, TraceError> {
    TraceReader::new(Box::new(Cursor::new(bytes.to_vec())), name, options)
}

/// Events, one page each, until the end or an error.
fn events(bytes: &[u8], name: &str, options: &Options) -> (Vec<Reference>, Option<TraceError>) {
    let mut all = Vec::new();
    let mut reader = match reader(bytes, name, options) {
        Ok(reader) => reader,
        Err(error) => return (all, Some(error)),
    };
    loop {
        match reader.read(&mut all) {
            Ok(true) => {}
            Ok(false) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

fn told(format: Format) -> Options {
    Options { format: Some(format), ..Options::default() }
}

/// A small file of each format, and how many references it has.
fn samples() -> Vec<(Format, Vec<u8>, u64)> {
    let mut oracle = Vec::new();
    let mut first = Vec::new();
    let mut second = Vec::new();
    for i in 0..40_u64 {
        let page = i * i % 7;
        oracle.extend((i as u32).to_le_bytes());
        oracle.extend(page.to_le_bytes());
        oracle.extend(4096_u32.to_le_bytes());
        oracle.extend((-1_i64).to_le_bytes());
        for part in [i as u32, 4096, 1] {
            first.extend(part.to_le_bytes());
        }
        first.extend([0x28, 0, 5, 1]);
        first.extend(page.to_le_bytes());
        first.extend(i.to_le_bytes());
        second.extend([0x2a, 0, 5, 2]);
        for part in [i as u32, 4096, 1] {
            second.extend(part.to_le_bytes());
        }
        second.extend(page.to_le_bytes());
        second.extend(i.to_le_bytes());
        second.extend(i.to_le_bytes());
    }
    let mut lcs = binary::LCS_MAGIC.to_le_bytes().to_vec();
    lcs.extend(1_u64.to_le_bytes());
    lcs.resize(binary::LCS_HEADER_BYTES - 8, 0);
    lcs.extend(binary::LCS_MAGIC.to_le_bytes());
    lcs.extend(&oracle);
    let bare = |bytes: &dyn Fn(u64) -> Vec<u8>| -> Vec<u8> {
        (0..4000_u64).flat_map(|i| bytes((i * i / 7) % 300)).collect()
    };
    let mut compact = CompactWriter::new(Vec::new(), "small", 8192, true).unwrap();
    compact.class("heap").unwrap();
    for page in 0..40 {
        let event = Reference { class: Some(0), time_us: Some(page), ..Reference::read(page / 3) };
        compact.write(&event).unwrap();
    }
    let compact = compact.finish().unwrap();
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (Format::Evenkeel, compact, 40),
        (Format::Ids, text("*\n7\n8 W\n\n7\n# end\n9"), 4),
        (Format::Arc, text("100 3 0 0\n101 1 9 1\n"), 4),
        (Format::Csv, text("version,time,op,size,lbn\n1,5,2a,512,42\n1,5,28,512,43\n"), 2),
        (Format::Spc, text("0,20941265,8192,W,0.551706\n1,7,512,r,0.6,x\n"), 3),
        (
            Format::Msr,
            text(
                "128166372003061629,hm,1,Read,383496192,32768,1331\n128166372003061630,hm,0,Write,0,512,1\n",
            ),
            6,
        ),
        (Format::Twitter, text("0,q:1,17,213,4,get,0\n1,q:2,17,213,4,set,60\n"), 2),
        (Format::OracleGeneral, oracle, 40),
        (Format::Lcs, lcs, 40),
        (Format::VscsiV1, first, 40),
        (Format::VscsiV2, second, 40),
        (Format::U32BigEndian, bare(&|p| (p as u32).to_be_bytes().to_vec()), 4000),
        (Format::U32LittleEndian, bare(&|p| (p as u32).to_le_bytes().to_vec()), 4000),
        (Format::U64BigEndian, bare(&|p| p.to_be_bytes().to_vec()), 4000),
        (Format::U64LittleEndian, bare(&|p| p.to_le_bytes().to_vec()), 4000),
        (Format::PgLookups, text("op,client,rel,fork,block\nR,0,1,0,0\nW,0,1,0,0\nX,0,1,0,1\n"), 2),
        (
            Format::PgWaldump,
            text(
                "rmgr: Heap  len (rec/tot): 54/8254, tx: 7, lsn: 0/1, prev 0/0, desc: INSERT off 3, blkref #0: rel 1663/5/16384 blk 0 FPW\n",
            ),
            1,
        ),
        (
            Format::PgBuffercache,
            text(
                "relfilenode,reltablespace,reldatabase,relforknumber,relblocknumber,isdirty\n16384,1663,5,0,7,t\n,,,,,\n",
            ),
            1,
        ),
        (
            Format::PgProbes,
            text(
                "p 1 [0] 1.5: sdt_postgresql:buffer__read__done: (5) arg1=0 arg2=7 arg3=1663 arg4=5 arg5=9 arg6=-1 arg7=1\n",
            ),
            1,
        ),
    ]
}

#[test]
fn every_format_is_recognised_and_read() {
    let samples = samples();
    assert_eq!(samples.len(), FORMATS.len());
    for (format, bytes, references) in samples {
        let mut reader = reader(&bytes, "a.trace", &Options::default()).unwrap();
        assert_eq!(reader.format(), format);
        let mut batch = Vec::new();
        while reader.read(&mut batch).unwrap() {}
        assert_eq!(reader.position().references, references, "{format}");
        assert_eq!(reader.position().bytes, bytes.len() as u64, "{format}");
        assert!(reader.is_recognised());
    }
}

/// Also where the cut leaves the start of something else.
#[test]
fn a_trace_cut_anywhere_gives_a_part_of_its_references_or_an_error() {
    for (format, bytes, _) in samples() {
        let options = told(format);
        let (whole, error) = events(&bytes, "a", &options);
        assert_eq!(error, None, "{format}");
        let is_text = bytes.iter().all(|byte| byte.is_ascii() && *byte >= b'\n');
        // Header, some records, and the end.
        let lengths =
            (0..bytes.len().min(2000)).chain(bytes.len().saturating_sub(100)..bytes.len());
        for length in lengths {
            let (part, error) = events(&bytes[..length], "a", &options);
            // The last number of a text may have lost digits, which nothing can show.
            let sure = if is_text { part.len().saturating_sub(1) } else { part.len() };
            assert_eq!(part[..sure], whole[..sure], "{format} cut at {length}");
            if error.is_none() && !is_text {
                assert_eq!(bytes.len() % 4, length % 4, "{format} cut at {length}");
            }
            if format == Format::Evenkeel {
                assert!(error.is_some(), "cut at {length}");
            }
            // And where the format must be recognised first.
            let _ = events(&bytes[..length], "a.trace", &Options::default());
        }
    }
}

#[test]
fn an_error_in_the_middle_names_its_line_or_byte() {
    let cases: [(Format, &[u8], Place); 7] = [
        (Format::Ids, b"1\n2\nx\n4\n", Place::Line(3)),
        (Format::Arc, b"1 1 0 0\n1 1 0\n", Place::Line(2)),
        (Format::Arc, b"1 99999999999 0 0\n", Place::Line(1)),
        (Format::Csv, b"page,op\n1,R\n2,Q\n", Place::Line(3)),
        (Format::Twitter, b"0,k,1,1,1,get\n0,k,1,1,1,fly\n", Place::Line(2)),
        (Format::U32BigEndian, b"aaaabbbbcc", Place::Offset(8)),
        (Format::VscsiV1, &[0; 32], Place::Offset(0)),
    ];
    for (format, bytes, place) in cases {
        let (_, error) = events(bytes, "file", &told(format));
        let error = error.unwrap();
        assert_eq!(error.place, place, "{error}");
        assert!(!error.what.is_empty() && error.file == "file", "{error}");
    }
}

#[test]
fn columns_are_found_by_name_or_by_place() {
    let text = b"when;x\n1,2a,77,8192\n2,28,78,512\n";
    for (columns, skip) in [("page=3,op=2,time=1,size=4", 7), ("key=3,size=4", 7)] {
        let options = Options {
            columns: Some(columns.parse().unwrap()),
            page_bytes: std::num::NonZeroU32::new(512),
            ..Options::default()
        };
        let (found, error) = events(&text[skip..], "f", &options);
        assert_eq!(error, None);
        let is_key = columns.starts_with("key");
        assert_eq!(found[0].pages, if is_key { 1 } else { 16 }, "{columns}");
        assert_eq!(found.len(), 2);
        if !is_key {
            assert_eq!((found[0].page, found[0].access), (77, Access::Write));
            assert_eq!(found[1].time_us, Some(2_000_000));
        }
    }
    let options = Options { columns: Some("page=lbn".parse().unwrap()), ..Options::default() };
    let (_, error) = events(b"a,b\n1,2\n", "f", &options);
    assert!(error.unwrap().to_string().contains("no column is called 'lbn'"));
}

#[test]
fn a_trace_with_no_reference_is_an_error_for_a_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "op,client,rel,fork,block\n").unwrap();
    let error = load(&path, &Options::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("no reference"), "{error}");
    std::fs::write(&path, "op,client,rel,fork,block\nR,0,1,0,3\nW,0,1,0,3\nR,0,1,1,3\n").unwrap();
    let mut last = Position::default();
    let trace = load(&path, &Options::default(), &mut |position| last = position).unwrap();
    assert_eq!((trace.references(), trace.pages()), (&[dense::WRITE, 1][..], 2));
    assert_eq!(trace.class_names(), ["rel 1", "rel 1/fsm"]);
    assert_eq!((trace.name(), trace.page_bytes()), ("t", 8192));
    assert_eq!((last.references, last.total_bytes), (2, Some(last.bytes)));
}

#[test]
fn a_folder_and_a_missing_file_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("none")] {
        let error = TraceReader::open(&path, &Options::default()).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}

/// Events of a file, one page each.
fn of_file(path: &Path) -> Vec<Reference> {
    let mut reader = TraceReader::open(path, &Options::default()).unwrap();
    let mut events = Vec::new();
    while reader.read(&mut events).unwrap() {}
    events.into_iter().flat_map(Reference::each).collect()
}

#[test]
fn what_is_converted_is_read_again_in_every_format_and_compression() {
    let folder = tempfile::tempdir().unwrap();
    let spec = "generate:pgbench(scale=1,rate=1000,references=3000)";
    let original = of_file(Path::new(spec));
    for (name, format) in [
        ("a.ekt", OutputFormat::Evenkeel),
        ("a.ekt.gz", OutputFormat::Evenkeel),
        ("a.csv.xz", OutputFormat::Csv),
        ("a.ids.zst", OutputFormat::Ids),
        ("a.bin", OutputFormat::OracleGeneral),
    ] {
        let path = folder.path().join(name);
        let mut reader = TraceReader::open(Path::new(spec), &Options::default()).unwrap();
        let mut output = Output::create(&path, format, &reader, true).unwrap();
        let mut batch = Vec::new();
        while reader.read(&mut batch).unwrap() {
            for event in batch.drain(..) {
                output.write(&event, reader.classes()).unwrap();
            }
        }
        assert!(!path.exists(), "{name} has its name only when it is whole");
        output.finish().unwrap();
        let read = of_file(&path);
        let what = |event: &Reference| (event.page, event.access, event.time_us);
        match format {
            OutputFormat::Evenkeel => assert_eq!(read, original, "{name}"),
            OutputFormat::Csv => {
                assert!(read.iter().map(what).eq(original.iter().map(what)), "{name}");
            }
            OutputFormat::Ids => {
                let what = |event: &Reference| (event.page, event.access);
                assert!(read.iter().map(what).eq(original.iter().map(what)), "{name}");
            }
            OutputFormat::OracleGeneral => {
                let what = |event: &Reference| event.page;
                assert!(read.iter().map(what).eq(original.iter().map(what)), "{name}");
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
}

/// Recorded on PostgreSQL 15.18 under pgbench.
#[test]
fn what_postgres_s_tools_print_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trace/testdata");
    let cases = [
        ("waldump-15.txt", Format::PgWaldump, 8, 6, 8, "rel 16396"),
        ("waldump-15-details.txt", Format::PgWaldump, 5, 4, 5, "rel 16404"),
        ("buffercache-15.csv", Format::PgBuffercache, 9, 7, 4, "rel 1259"),
        ("perf-script-15.txt", Format::PgProbes, 8, 6, 0, "pgbench_accounts_pkey/index"),
        ("bpftrace-15.csv", Format::PgLookups, 10, 6, 0, "pgbench_accounts/heap"),
    ];
    for (name, format, references, pages, writes, class) in cases {
        let path = folder.join(name);
        let reader = TraceReader::open(&path, &Options::default()).unwrap();
        assert_eq!(reader.format(), format, "{name}");
        let trace = load(&path, &Options::default(), &mut |_| {}).unwrap();
        let found = (trace.references().len(), trace.pages(), trace.writes());
        assert_eq!(found, (references, pages, writes), "{name}");
        let classes = trace.class_names();
        assert!(classes.iter().any(|known| known == class), "{name}: {classes:?}");
    }
}

#[test]
fn writing_that_ends_early_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let reader = TraceReader::open(Path::new("generate:loop"), &Options::default()).unwrap();
    let path = folder.path().join("a.ekt");
    let mut output = Output::create(&path, OutputFormat::Evenkeel, &reader, false).unwrap();
    output.write(&Reference::read(1), &[]).unwrap();
    drop(output);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_next_reference_of_oracle_general_is_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let reader = TraceReader::open(Path::new("generate:loop"), &Options::default()).unwrap();
    let path = folder.path().join("a");
    let mut output = Output::create(&path, OutputFormat::OracleGeneral, &reader, false).unwrap();
    for page in [7, 8, 7] {
        output.write(&Reference::read(page), &[]).unwrap();
    }
    output.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let next: Vec<i64> = bytes.chunks(24).map(|r| binary::u64_le(r, 16) as i64).collect();
    assert_eq!(next, [2, -1, -1]);
}

/// Text that is nearly a trace.
fn nearly_text() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "[0-9]{1,20}",
        "[RWXD*#]",
        Just("blkref #0: rel 1663/5/1 fork main blk 1".to_owned()),
        Just("rmgr: Heap desc: x, blkref #".to_owned()),
        Just("op,client,rel,fork,block".to_owned()),
        Just("relfilenode,relblocknumber".to_owned()),
        Just("sdt_postgresql:buffer__read__done: arg1=0 arg2=9".to_owned()),
        Just("\"".to_owned()),
        "[ -~]{0,8}",
    ];
    let separator = prop_oneof![Just(","), Just(" "), Just("\n"), Just("\r\n"), Just("/")];
    proptest::collection::vec((word, separator), 0..60)
        .prop_map(|parts| parts.iter().flat_map(|(w, s)| [w.as_str(), *s]).collect::<String>())
        .prop_map(String::into_bytes)
}

fn any_format() -> impl Strategy<Value = Format> {
    proptest::sample::select(FORMATS.map(|(_, format, _)| format).to_vec())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop_oneof![proptest::collection::vec(any::<u8>(), 0..400), nearly_text()],
        format in proptest::option::of(any_format()),
        page in proptest::option::of(1_u32..100_000),
    ) {
        let options = Options {
            format,
            page_bytes: page.and_then(std::num::NonZeroU32::new),
            ..Options::default()
        };
        let (found, _) = events(&bytes, "a.trace", &options);
        prop_assert!(found.iter().all(|event| event.pages > 0));
    }

    #[test]
    fn a_sample_with_changed_bytes_is_read_or_refused(
        (which, at, byte) in (0_usize..19, any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let (format, mut bytes, _) = samples().swap_remove(which);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        events(&bytes, "a.trace", &told(format));
        events(&bytes, "a.trace", &Options::default());
    }

    #[test]
    fn page_numbers_of_text_are_read_as_written(pages in proptest::collection::vec(any::<u64>(), 1..50)) {
        let text: String = pages.iter().map(|page| format!("{page}\n")).collect();
        let (found, error) = events(text.as_bytes(), "x", &Options::default());
        prop_assert_eq!(error, None);
        prop_assert_eq!(found.iter().map(|event| event.page).collect::<Vec<_>>(), pages);
    }
}
