//! Text of `pg_waldump`, with or without `--bkp-details`, of PostgreSQL 13 to 18: every block reference
//! of a record is a page that the record changed. Reads leave no trace in the log, so this shows the
//! pages that are dirtied, in the order of their changes.
//!
//! Source: `XLogRecGetBlockRefInfo` in `src/backend/access/rmgrdesc/xlogdesc.c` (16 and later),
//! `XLogDumpDisplayRecord` in `src/bin/pg_waldump/pg_waldump.c` (before).

use super::super::error::{Fault, shown};
use super::super::reference::{Access, Reference};
use super::super::relations::{RelationFork, RelationNames, Relations, fork_number};
use super::super::text::Lines;
use super::number;

const REMEDY: &str = "a block reference is 'blkref #0: rel 1663/5/16384 fork fsm blk 7'";

/// See the module.
pub(in super::super) struct WaldumpLines {
    relations: Relations,
}

impl WaldumpLines {
    pub(in super::super) fn new(names: RelationNames) -> Self {
        Self { relations: Relations::new(names, false) }
    }

    /// A block reference, of which `text` begins after `blkref #`.
    fn block(&mut self, text: &[u8]) -> Result<Reference, Fault> {
        let cut =
            || Fault::new(format!("the block reference {} is cut short", shown(text)), REMEDY);
        let mut words = text.split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';'));
        let id = words.next().and_then(|word| word.strip_suffix(b":")).ok_or_else(cut)?;
        number(id, "block reference", REMEDY)?;
        if words.next() != Some(b"rel") {
            return Err(cut());
        }
        let mut parts = words.next().ok_or_else(cut)?.split(|byte| *byte == b'/');
        let mut part = |what| number(parts.next().unwrap_or_default(), what, REMEDY);
        let mut place = RelationFork {
            space: part("tablespace")?,
            database: part("database")?,
            relation: part("relation")?,
            fork: 0,
        };
        let mut word = words.next().ok_or_else(cut)?;
        if word == b"fork" {
            let name = words.next().ok_or_else(cut)?;
            place.fork = fork_number(name).ok_or_else(|| {
                Fault::new(format!("{} is no fork", shown(name)), "known are main, fsm, vm, init")
            })?;
            word = words.next().ok_or_else(cut)?;
        }
        if word != b"blk" {
            return Err(cut());
        }
        let block = number(words.next().ok_or_else(cut)?, "block", REMEDY)?;
        let (page, class) = self.relations.page(place, block)?;
        Ok(Reference { access: Access::Write, class: Some(class), ..Reference::read(page) })
    }
}

impl Lines for WaldumpLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        const MARK: &[u8] = b"blkref #";
        let text = line.trim_ascii();
        let is_record = text.starts_with(b"rmgr:");
        if !is_record && !text.starts_with(MARK) {
            // pg_waldump says so where it was told to begin within a record; and of 13 and 14 the
            // details of an image may stand alone.
            if text.is_empty() || text.starts_with(b"first record is after ") {
                return Ok(());
            }
            return Err(Fault::new(
                format!("{} is no record of pg_waldump", shown(text)),
                "give the records themselves, without --stats, and without what it wrote to stderr",
            ));
        }
        // A record's description comes first and may hold anything a user wrote: of references in
        // one line, those count that end it.
        let mut rest = match description(text) {
            Some(from) => &text[from..],
            None => text,
        };
        while let Some(at) = memchr::memmem::find(rest, MARK) {
            rest = &rest[at + MARK.len()..];
            out.push(self.block(rest)?);
        }
        Ok(())
    }

    fn classes(&self) -> &[String] {
        self.relations.classes()
    }
}

/// Where the block references of a record's line may begin: after its description's name.
fn description(line: &[u8]) -> Option<usize> {
    const MARK: &[u8] = b" desc: ";
    memchr::memmem::find(line, MARK).map(|at| at + MARK.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Vec<(u64, Access)>, Fault> {
        let mut decoder = WaldumpLines::new(RelationNames::default());
        let mut out = Vec::new();
        for line in text.lines() {
            decoder.line(line.as_bytes(), &mut out)?;
        }
        Ok(out.iter().map(|it| (it.page, it.access)).collect())
    }

    /// Of 15, one record with an image, one with two blocks, one without any.
    const SHORT: &str = "\
rmgr: Heap        len (rec/tot):     54/  8254, tx:        734, lsn: 0/014F0A48, prev 0/014F0A10, desc: INSERT off 3 flags 0x00, blkref #0: rel 1663/5/16384 blk 0 FPW
rmgr: Heap        len (rec/tot):     72/    72, tx:        735, lsn: 0/014F2A88, prev 0/014F0A48, desc: HOT_UPDATE off 1 xmax 735 flags 0x60 ; new off 4 xmax 0, blkref #0: rel 1663/5/16384 blk 9, blkref #1: rel 1663/5/16384 fork vm blk 0
rmgr: Transaction len (rec/tot):     34/    34, tx:        735, lsn: 0/014F2AD0, prev 0/014F2A88, desc: COMMIT 2026-12-01 03:00:00.000000 UTC
";

    /// Of 17 with --bkp-details.
    const DETAILS: &str = "\
rmgr: Heap        len (rec/tot):     54/  8254, tx:        734, lsn: 0/014F0A48, prev 0/014F0A10, desc: INSERT off: 3, flags: 0x00
\tblkref #0: rel 1663/5/16384 fork main blk 0 (FPW); hole: offset: 40, length: 7000, compression saved: 0, method: lz4
rmgr: Btree       len (rec/tot):     72/    72, tx:        735, lsn: 0/014F2A88, prev 0/014F0A48, desc: INSERT_LEAF off: 3
\tblkref #0: rel 1663/5/16390 fork main blk 1

";

    #[test]
    fn every_block_of_a_record_is_a_write() {
        let write = |page| (page, Access::Write);
        assert_eq!(decode(SHORT).unwrap(), [write(0), write(9), write(1 << 32)]);
        assert_eq!(decode(DETAILS).unwrap(), [write(0), write((1 << 32) | 1)]);
    }

    #[test]
    fn a_reference_cut_short_is_an_error() {
        let line = "\tblkref #0: rel 1663/5/16384 fork main blk 17";
        for length in "\tblkref #".len()..line.len() - 1 {
            assert!(decode(&line[..length]).is_err(), "{}", &line[..length]);
        }
        assert!(decode("Type  N  (%)").is_err());
        assert!(decode("\tblkref #0: rel 1663/5/16384 fork tape blk 17").is_err());
    }
}
