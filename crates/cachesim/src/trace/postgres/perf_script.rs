//! Output of `perf script` with the probes `buffer__read__done` and, from PostgreSQL 16 on,
//! `buffer__extend__done`: lines such as
//! `postgres 4711 [001] 88.123456: sdt_postgresql:buffer__read__done: (55..) arg1=0 arg2=7 ...`.
//!
//! Arguments as in `src/backend/utils/probes.d`: of a look-up fork, block, tablespace, database,
//! relation, backend, found; of an extension fork, tablespace, database, relation, backend, wanted
//! pages, first block. Pages of temporary relations lie in no shared buffer and are passed over, and
//! so are other events.

use super::super::error::{Fault, shown};
use super::super::extent;
use super::super::reference::{Access, Reference};
use super::super::relations::{RelationFork, RelationNames, Relations};
use super::super::text::{Lines, decimal, time_us};

const REMEDY: &str = "record the probes with their arguments as docs/traces.md shows, and print them \
                      by plain perf script";

const READ: &[u8] = b":buffer__read__done";
const EXTEND: &[u8] = b":buffer__extend__done";

/// See the module.
pub(in super::super) struct PerfScriptLines {
    relations: Relations,
}

impl PerfScriptLines {
    pub(in super::super) fn new(names: RelationNames) -> Self {
        Self { relations: Relations::new(names, false) }
    }
}

/// Whether a line is an event of these probes.
pub(in super::super) fn is_event(line: &[u8]) -> bool {
    [READ, EXTEND].iter().any(|name| memchr::memmem::find(line, name).is_some())
}

impl Lines for PerfScriptLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        let (name, is_read) = if let Some(at) = memchr::memmem::find(line, READ) {
            (at, true)
        } else if let Some(at) = memchr::memmem::find(line, EXTEND) {
            (at, false)
        } else if memchr::memmem::find(line, b"LOST").is_some() {
            return Err(Fault::new(
                format!("events are missing here: {}", shown(line)),
                "record again with a larger buffer (perf record -m), or delete this line if you \
                 accept the hole",
            ));
        } else {
            return Ok(());
        };
        let arguments = &line[name..];
        let argument = |number: u32| {
            let wanted = format!("arg{number}=");
            let mut words = arguments.split(u8::is_ascii_whitespace);
            let text = words.find_map(|word| word.strip_prefix(wanted.as_bytes()));
            let text = text.unwrap_or_default();
            parse(text).ok_or_else(|| {
                Fault::new(format!("{wanted} is {}, not a number", shown(text)), REMEDY)
            })
        };
        // The last of what stands before the event's name: "88.123456: sdt_postgresql".
        let time_us = line[..name]
            .split(u8::is_ascii_whitespace)
            .rev()
            .filter_map(|word| word.strip_suffix(b":"))
            .find_map(|word| time_us(word, 1_000_000_000));
        let mut place = RelationFork {
            fork: u8::try_from(argument(1)?)
                .ok()
                .filter(|fork| *fork < 16)
                .ok_or_else(|| Fault::new("arg1 is no fork", REMEDY))?,
            ..RelationFork::default()
        };
        let first = if is_read { 3 } else { 2 };
        place.space = argument(first)?;
        place.database = argument(first + 1)?;
        place.relation = argument(first + 2)?;
        // The backend that owns a temporary relation, or -1.
        if argument(first + 3)? != u32::MAX {
            return Ok(());
        }
        let (block, pages, access) = if is_read {
            (argument(2)?, 1, Access::Read)
        } else {
            (argument(7)?, argument(6)?, Access::Write)
        };
        let (page, class) = self.relations.page(place, block)?;
        let run = extent::run(u64::from(block), u64::from(pages))?;
        if u64::from(block) + u64::from(run.pages) > 1 << 32 {
            return Err(Fault::new("an extension beyond the last block", REMEDY));
        }
        out.push(Reference { page, access, time_us, class: Some(class), ..run });
        Ok(())
    }

    fn classes(&self) -> &[String] {
        self.relations.classes()
    }
}

/// A number of 32 bits as perf prints it: decimal, negative, or hexadecimal.
fn parse(text: &[u8]) -> Option<u32> {
    if let Some(digits) = text.strip_prefix(b"0x") {
        // Sign-extended ones have 64 bits, of which the lower are meant.
        let digits = std::str::from_utf8(digits).ok()?;
        return u64::from_str_radix(digits, 16).ok().map(|number| number as u32);
    }
    if let Some(digits) = text.strip_prefix(b"-") {
        let magnitude = u32::try_from(decimal(digits)?).ok()?;
        return Some(magnitude.wrapping_neg());
    }
    // Signed arguments of 4 bytes are sometimes printed as 64 bits.
    decimal(text).map(|number| number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Vec<Reference>, Fault> {
        let mut decoder = PerfScriptLines::new(RelationNames::default());
        let mut out = Vec::new();
        for line in text.lines() {
            decoder.line(line.as_bytes(), &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn look_ups_and_extensions_are_references_with_their_time() {
        let out = decode(
            "postgres  4711 [001]    88.123456: sdt_postgresql:buffer__read__done: (55d0) arg1=0 \
             arg2=7 arg3=1663 arg4=5 arg5=16384 arg6=-1 arg7=1 arg8=0\n\
             postgres  4711 [001]    88.123460: sdt_postgresql:buffer__read__start: (55d0) arg1=0\n\
             postgres  4711 [001]    88.123470: sdt_postgresql:buffer__extend__done: (55d0) arg1=0 \
             arg2=1663 arg3=5 arg4=16384 arg5=-1 arg6=2 arg7=8\n",
        )
        .unwrap();
        assert_eq!((out[0].page, out[0].pages, out[0].time_us), (7, 1, Some(88_123_456)));
        assert_eq!((out[1].page, out[1].pages, out[1].access), (8, 2, Access::Write));
        assert_eq!(out.len(), 2);
    }

    #[test]
    fn pages_of_temporary_relations_are_in_no_shared_buffer() {
        let line = "p 1 [0] 1.0: sdt_postgresql:buffer__read__done: (5) arg1=0 arg2=7 arg3=1663 \
                    arg4=5 arg5=16384 arg6=3 arg7=1";
        assert_eq!(decode(line).unwrap(), []);
    }

    #[test]
    fn an_event_without_its_arguments_is_an_error() {
        assert!(decode("p 1 [0] 1.0: sdt_postgresql:buffer__read__done: (5)").is_err());
        assert!(decode("PERF_RECORD_LOST lost 3").is_err());
    }
}
