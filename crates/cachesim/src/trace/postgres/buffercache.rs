//! Snapshots of the view `pg_buffercache` as CSV with a header, columns in any order. A row is one
//! reference to a page that was in the cache at that time, a write where it was dirty; rows of unused
//! buffers are passed over. A column `snapshot` or `taken_at` (seconds) tells snapshots apart.
//!
//! A snapshot knows no order of references and not how many there were: what comes out is a list of
//! contents, useful to warm a cache or to see which relations fill it, not to rank policies.

use super::super::error::{Fault, shown};
use super::super::reference::{Access, Reference};
use super::super::relations::{RelationFork, RelationNames, Relations};
use super::super::text::{Lines, fields, time_us};
use super::{column, fork, number};

const REMEDY: &str = "write it by \\copy (select relfilenode, reltablespace, reldatabase, \
                      relforknumber, relblocknumber, isdirty from pg_buffercache) to 'FILE' csv header";

/// See the module.
pub(in super::super) struct BuffercacheLines {
    columns: Option<Columns>,
    relations: Relations,
}

struct Columns {
    relation: usize,
    space: Option<usize>,
    database: Option<usize>,
    fork: Option<usize>,
    block: usize,
    is_dirty: Option<usize>,
    time: Option<usize>,
}

/// Whether a line is this format's header.
pub(in super::super) fn is_header(line: &[u8]) -> bool {
    columns(line).is_some()
}

fn columns(header: &[u8]) -> Option<Columns> {
    Some(Columns {
        relation: column(header, &["relfilenode"])?,
        block: column(header, &["relblocknumber"])?,
        space: column(header, &["reltablespace"]),
        database: column(header, &["reldatabase"]),
        fork: column(header, &["relforknumber"]),
        is_dirty: column(header, &["isdirty"]),
        time: column(header, &["snapshot", "taken_at"]),
    })
}

impl BuffercacheLines {
    pub(in super::super) fn new(names: RelationNames) -> Self {
        Self { columns: None, relations: Relations::new(names, false) }
    }
}

impl Lines for BuffercacheLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let Some(columns) = &self.columns else {
            self.columns = columns(line);
            if self.columns.is_none() {
                return Err(Fault::new(
                    format!("{} has no columns relfilenode and relblocknumber", shown(line)),
                    REMEDY,
                ));
            }
            return Ok(());
        };
        let row: Vec<_> = fields(line).take(64).collect();
        let field = |column: usize| row.get(column).map(AsRef::as_ref).unwrap_or_default();
        // A buffer that holds no page.
        if field(columns.relation).is_empty() && row.len() > columns.relation {
            return Ok(());
        }
        let optional = |column: Option<usize>, what: &str| match column {
            Some(column) => number(field(column), what, REMEDY),
            None => Ok(0),
        };
        let place = RelationFork {
            space: optional(columns.space, "tablespace")?,
            database: optional(columns.database, "database")?,
            relation: number(field(columns.relation), "relation", REMEDY)?,
            fork: columns.fork.map_or(Ok(0), |column| fork(field(column), REMEDY))?,
        };
        let block = number(field(columns.block), "block", REMEDY)?;
        let access = match columns.is_dirty.map(field) {
            None | Some(b"f" | b"false") => Access::Read,
            Some(b"t" | b"true") => Access::Write,
            Some(other) => {
                return Err(Fault::new(format!("isdirty is {}, not t or f", shown(other)), REMEDY));
            }
        };
        let time_us = match columns.time {
            Some(column) => Some(time_us(field(column), 1_000_000_000).ok_or_else(|| {
                Fault::new(
                    format!("the time {} is no number of seconds", shown(field(column))),
                    "select extract(epoch from now()) as taken_at",
                )
            })?),
            None => None,
        };
        let (page, class) = self.relations.page(place, block)?;
        out.push(Reference { page, pages: 1, access, time_us, class: Some(class) });
        Ok(())
    }

    fn classes(&self) -> &[String] {
        self.relations.classes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Vec<Reference>, Fault> {
        let mut decoder = BuffercacheLines::new(RelationNames::default());
        let mut out = Vec::new();
        for line in text.lines() {
            decoder.line(line.as_bytes(), &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn unused_buffers_are_no_pages() {
        let out = decode(
            "bufferid,relfilenode,reltablespace,reldatabase,relforknumber,relblocknumber,isdirty,\
             usagecount,pinning_backends\n1,1262,1664,0,0,0,f,5,0\n2,16384,1663,5,2,9,t,1,0\n\
             3,,,,,,,,\n",
        )
        .unwrap();
        let seen: Vec<_> = out.iter().map(|it| (it.page, it.access)).collect();
        assert_eq!(seen, [(0, Access::Read), ((1 << 32) | 9, Access::Write)]);
    }

    #[test]
    fn a_row_cut_short_is_an_error() {
        assert!(decode("relfilenode,relblocknumber,isdirty\n16384,1\n").is_err());
        assert!(decode("relblocknumber,relfilenode\n1\n").is_err());
        assert!(decode("a,b\n").is_err());
    }
}
