//! Which format a content is of.
//!
//! Binary formats with a mark are known by it, oracleGeneral by what its first records say, texts by
//! their first lines. Bare binary page numbers have nothing to be known by: they are only believed of
//! a file whose name ends in `.trace`, and of these the width and the order of bytes are found by
//! which gives repetition and neighbourhood.

use std::collections::HashSet;

use super::binary::{LCS_HEADER_BYTES, LCS_MAGIC, u16_le, u32_le, u64_le};
use super::compact;
use super::error::{Fault, shown};
use super::format::Format;
use super::postgres::{is_buffercache_header, is_lookup_header, is_perf_event};
use super::text::{access, decimal, fields, is_known_header, time_us};

const REMEDY: &str = "name it with --trace-format; `evenkeel trace formats` lists them";

/// The format of content that begins with `head`, which is all of it if `is_whole`, in a file called
/// `name`.
pub(super) fn detect(head: &[u8], is_whole: bool, name: &str) -> Result<Format, Fault> {
    if head.is_empty() {
        return Err(Fault::new("is empty", "record it again"));
    }
    if head.starts_with(compact::MAGIC) {
        return Ok(Format::Evenkeel);
    }
    if u64_le(head, 0) == LCS_MAGIC && head.len() >= LCS_HEADER_BYTES.min(16) {
        return Ok(Format::Lcs);
    }
    if is_text(head) {
        return text(head, is_whole);
    }
    binary(head, name)
}

fn is_text(head: &[u8]) -> bool {
    head.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r'))
}

fn text(head: &[u8], is_whole: bool) -> Result<Format, Fault> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let ends = head.iter().filter(|byte| **byte == b'\n').count();
    let lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // The last line of what is looked at may go on beyond it, unless that is all.
    let lines = lines.take(if is_whole { ends + 1 } else { ends.max(1) });
    let mut first = None;
    for line in lines.filter(|line| !line.is_empty() && *line != b"*").take(200) {
        if line.starts_with(b"rmgr: ") || line.starts_with(b"first record is after ") {
            return Ok(Format::PgWaldump);
        }
        if line.starts_with(b"Attaching ") || line.starts_with(b"Attached ") {
            continue;
        }
        if is_lookup_header(line) {
            return Ok(Format::PgLookups);
        }
        if is_buffercache_header(line) {
            return Ok(Format::PgBuffercache);
        }
        if is_perf_event(line) {
            return Ok(Format::PgProbes);
        }
        if first.is_none() && line.contains(&b',') {
            if is_known_header(line) {
                return Ok(Format::Csv);
            }
            if let Some(format) = disk_or_cache(line) {
                return Ok(format);
            }
        }
        // Comments before the first line of data; perf writes some, too.
        if line.starts_with(b"#") {
            continue;
        }
        if first.is_none() {
            let words: Vec<&[u8]> =
                line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            let are_numbers = words.iter().all(|word| decimal(word).is_some());
            match words.as_slice() {
                [_] if are_numbers => return Ok(Format::Ids),
                [page, name] if decimal(page).is_some() && access(name).is_some() => {
                    return Ok(Format::Ids);
                }
                [_, _, _, _] if are_numbers => return Ok(Format::Arc),
                _ => first = Some(line),
            }
        }
    }
    match first {
        Some(line) if line.contains(&b',') => Err(Fault::new(
            format!("is of no known format; it begins with {}", shown(line)),
            "say which column is what, as in --columns page=2,op=3,time=1",
        )),
        Some(line) => Err(Fault::new(
            format!("is of no known format; it begins with {}", shown(line)),
            REMEDY,
        )),
        None => Err(Fault::new("has no line of data", REMEDY)),
    }
}

/// Comma-separated formats without a header.
fn disk_or_cache(line: &[u8]) -> Option<Format> {
    let row: Vec<_> = fields(line).take(9).collect();
    let is_number = |column: usize| row.get(column).is_some_and(|f| decimal(f).is_some());
    let is_time = |column: usize| row.get(column).is_some_and(|f| time_us(f, 1).is_some());
    let is_access = |column: usize| row.get(column).is_some_and(|f| access(f).is_some());
    let is_word = |column: usize| is_access(column) && !is_number(column);
    if row.len() == 7 && is_time(0) && is_number(2) && is_word(3) && is_number(4) && is_number(5) {
        return Some(Format::Msr);
    }
    if row.len() == 7 && is_time(0) && is_number(2) && is_number(3) && is_number(4) && is_word(5) {
        return Some(Format::Twitter);
    }
    let is_spc = is_number(0) && is_number(1) && is_number(2) && is_word(3) && is_time(4);
    (row.len() >= 5 && is_spc).then_some(Format::Spc)
}

fn binary(head: &[u8], name: &str) -> Result<Format, Fault> {
    if is_every(head, 32, |record| u16_le(record, 14) >> 8 == 1) {
        return Ok(Format::VscsiV1);
    }
    if is_every(head, 40, |record| u16_le(record, 2) >> 8 == 2) {
        return Ok(Format::VscsiV2);
    }
    if is_oracle_general(head) {
        return Ok(Format::OracleGeneral);
    }
    let bare = ["", ".gz", ".xz", ".zst"].iter().any(|end| {
        name.strip_suffix(end).is_some_and(|stem| {
            std::path::Path::new(stem).extension().is_some_and(|end| end == "trace")
        })
    });
    let guess = if bare { bare_numbers(head) } else { None };
    guess.ok_or_else(|| {
        Fault::new(
            "is binary and of no known format",
            "if it is bare page numbers say --trace-format u32be, u32le, u64be or u64le",
        )
    })
}

/// Whether all records in `head` that are whole pass, and there are at least one and at most a
/// thousand looked at.
fn is_every(head: &[u8], bytes: usize, mut is_right: impl FnMut(&[u8]) -> bool) -> bool {
    let mut records = head.chunks_exact(bytes).take(1000).peekable();
    records.peek().is_some() && records.all(&mut is_right)
}

/// Times do not go back, sizes are not absurd, and the next access lies ahead or is never.
fn is_oracle_general(head: &[u8]) -> bool {
    let (mut index, mut before) = (0_i64, 0);
    is_every(head, 24, |record| {
        let (time, size) = (u32_le(record, 0), u32_le(record, 12));
        let next = u64_le(record, 16) as i64;
        let is_right = time >= before && size < 1 << 31 && (next == -1 || next > index);
        (index, before) = (index + 1, time);
        is_right
    })
}

/// Width and order of bare page numbers; `None` where the content does not show them.
fn bare_numbers(head: &[u8]) -> Option<Format> {
    let words: Vec<u32> = head.chunks_exact(4).map(|word| u32_le(word, 0)).collect();
    let pairs: Vec<u64> = head.chunks_exact(8).map(|pair| u64_le(pair, 0)).collect();
    if pairs.len() < 8 {
        return None;
    }
    // Of 8-byte numbers each half appears only with its other half, nearly; of 4-byte numbers every
    // number meets many neighbours.
    let distinct =
        |half: usize| words.iter().skip(half).step_by(2).copied().collect::<HashSet<u32>>().len();
    let most = distinct(0).max(distinct(1));
    let of_pairs = pairs.iter().copied().collect::<HashSet<u64>>().len();
    if of_pairs == pairs.len() && most == pairs.len() {
        // Nothing repeats, so nothing tells the widths apart but halves that are all the same.
        if distinct(0).min(distinct(1)) > pairs.len() / 2 {
            let all: HashSet<u32> = words.iter().copied().collect();
            if all.len() == words.len() {
                return None;
            }
        }
    }
    let is_wide = of_pairs <= most + most / 64;
    // Neighbouring pages follow each other in the right order of bytes.
    let near = |numbers: &mut dyn Iterator<Item = u64>| {
        let numbers: Vec<u64> = numbers.collect();
        numbers.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 256).count()
    };
    Some(if is_wide {
        let little = near(&mut pairs.iter().copied());
        let big = near(&mut pairs.iter().map(|pair| pair.swap_bytes()));
        if little > big { Format::U64LittleEndian } else { Format::U64BigEndian }
    } else {
        let little = near(&mut words.iter().map(|word| u64::from(*word)));
        let big = near(&mut words.iter().map(|word| u64::from(word.swap_bytes())));
        if little > big { Format::U32LittleEndian } else { Format::U32BigEndian }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Format, Fault> {
        detect(text.as_bytes(), true, "x")
    }

    #[test]
    fn texts_are_known_by_their_lines() {
        let cases = [
            ("17\n18\n", Format::Ids),
            ("*\n\n17 W\n", Format::Ids),
            ("1936993 8 0 0\n", Format::Arc),
            ("version,time,op,size,lbn\n1,5,2a,512,7\n", Format::Csv),
            ("# time, object, size, next_access_vtime\n0, 7, 1, 2\n", Format::Csv),
            ("0,20941264,8192,W,0.551706\n", Format::Spc),
            ("128166372003061629,hm,1,Read,383496192,32768,1331\n", Format::Msr),
            ("0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n", Format::Twitter),
            ("op,client,rel,fork,block\nR,0,1,0,0\n", Format::PgLookups),
            ("Attaching 2 probes...\nop,client,space,database,rel,fork,block\n", Format::PgLookups),
            ("first record is after 0/1, at 0/2, skipping over 3 bytes\n", Format::PgWaldump),
            ("rmgr: Heap  len\n", Format::PgWaldump),
            ("relfilenode,relblocknumber\n", Format::PgBuffercache),
            (
                "# perf\n# more\np 1 [0] 1.0: sdt_postgresql:buffer__read__done: (5)\n",
                Format::PgProbes,
            ),
        ];
        for (text, format) in cases {
            assert_eq!(of(text), Ok(format), "{text}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_with_a_remedy() {
        let columns = of("alpha,beta\n1,2\n").unwrap_err();
        assert!(columns.remedy.contains("--columns"), "{columns:?}");
        for text in ["", "\n\n", "hello world\n", "1 2 3\n", "1 2 3 4 5\n", "\u{1b}[31m7\n"] {
            assert!(of(text).is_err(), "{text}");
        }
        assert!(detect(b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00", true, "x.trace").is_err());
    }

    #[test]
    fn bare_numbers_show_their_width_and_order_by_what_repeats() {
        // A walk over 300 hashed or dense pages, forth and back.
        let walk: Vec<u64> = (0..4000_u64).map(|i| (i * i / 7) % 300).collect();
        let hash = |page: u64| crate::trace::mix(page + 1);
        let cases: [(Vec<u8>, Format); 5] = [
            (walk.iter().flat_map(|p| (*p as u32).to_be_bytes()).collect(), Format::U32BigEndian),
            (
                walk.iter().flat_map(|p| (*p as u32).to_le_bytes()).collect(),
                Format::U32LittleEndian,
            ),
            (walk.iter().flat_map(|p| p.to_be_bytes()).collect(), Format::U64BigEndian),
            (walk.iter().flat_map(|p| p.to_le_bytes()).collect(), Format::U64LittleEndian),
            (walk.iter().flat_map(|p| hash(*p).to_be_bytes()).collect(), Format::U64BigEndian),
        ];
        for (bytes, format) in cases {
            assert_eq!(detect(&bytes, true, "a.trace.xz"), Ok(format));
            assert!(detect(&bytes, true, "a.bin").is_err());
        }
    }
}
