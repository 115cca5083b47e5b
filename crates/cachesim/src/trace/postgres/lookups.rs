//! Page look-ups as CSV with a header: `op,client,rel,fork,block`, where `rel` is a number of the
//! trace's own explained by a file beside it; or, as the one-liner for bpftrace in docs/traces.md
//! prints, `op,client,space,database,rel,fork,block` with PostgreSQL's own numbers. A column `time_ns`
//! may follow.
//!
//! `R` is a page that was looked up and pinned, `X` one that was added to its relation, `W` one that
//! was marked dirty while it was pinned, which is no further reference.
//!
//! bpftrace prints the events of one processor after those of another, a few milliseconds at a time. So a
//! time that goes back is an error: in that order a trace would tell another story.

use super::super::error::{Fault, shown};
use super::super::reference::{Access, Reference};
use super::super::relations::{RelationFork, RelationNames, Relations};
use super::super::text::{Lines, fields, time_us};
use super::{column, fork, number};

const REMEDY: &str = "the header is op,client,rel,fork,block or \
                      op,client,space,database,rel,fork,block, and each line has as many fields";

/// See the module.
pub(in super::super) struct LookupLines {
    names: RelationNames,
    state: Option<(Columns, Relations)>,
    latest_us: u64,
}

struct Columns {
    access: usize,
    relation: usize,
    fork: usize,
    block: usize,
    space: Option<usize>,
    database: Option<usize>,
    time: Option<usize>,
    count: usize,
}

/// Whether a line is this format's header.
pub(in super::super) fn is_header(line: &[u8]) -> bool {
    columns(line).is_some()
}

fn columns(header: &[u8]) -> Option<Columns> {
    Some(Columns {
        access: column(header, &["op"])?,
        relation: column(header, &["rel"])?,
        fork: column(header, &["fork"])?,
        block: column(header, &["block"])?,
        space: column(header, &["space"]),
        database: column(header, &["database"]),
        time: column(header, &["time_ns"]),
        count: fields(header).count(),
    })
}

impl LookupLines {
    pub(in super::super) fn new(names: RelationNames) -> Self {
        Self { names, state: None, latest_us: 0 }
    }
}

impl Lines for LookupLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        // What bpftrace says of itself.
        if line.is_empty() || line.starts_with(b"Attaching ") || line.starts_with(b"Attached ") {
            return Ok(());
        }
        if line.starts_with(b"Lost ") || line.starts_with(b"Skipped ") {
            return Err(Fault::new(
                format!("events are missing here: {}", shown(line)),
                "record again with a larger BPFTRACE_PERF_RB_PAGES, or delete this line if you \
                 accept the hole",
            ));
        }
        let Some((columns, relations)) = &mut self.state else {
            let Some(columns) = columns(line) else {
                return Err(Fault::new(format!("{} is no header", shown(line)), REMEDY));
            };
            let has_own_numbers = columns.space.is_none();
            let names = std::mem::take(&mut self.names);
            self.state = Some((columns, Relations::new(names, has_own_numbers)));
            return Ok(());
        };
        // Nine columns at most matter; more only shows that the line is wrong.
        let mut row: [&[u8]; 9] = [b""; 9];
        let mut count = 0;
        for field in line.split(|byte| *byte == b',') {
            if let Some(place) = row.get_mut(count) {
                *place = field.trim_ascii();
            }
            count += 1;
        }
        if count != columns.count {
            return Err(Fault::new(
                format!("{count} fields where the header has {}", columns.count),
                REMEDY,
            ));
        }
        let field = |column: usize| row.get(column).copied().unwrap_or_default();
        let optional = |column: Option<usize>, what: &str| match column {
            Some(column) => number(field(column), what, REMEDY),
            None => Ok(0),
        };
        let access = match field(columns.access) {
            b"R" => Access::Read,
            // A new page is initialised where it is pinned.
            b"X" => Access::Write,
            b"W" => Access::Dirtied,
            other => {
                return Err(Fault::new(
                    format!("the operation {} is none of R, X, W", shown(other)),
                    REMEDY,
                ));
            }
        };
        let place = RelationFork {
            space: optional(columns.space, "tablespace")?,
            database: optional(columns.database, "database")?,
            relation: number(field(columns.relation), "relation", REMEDY)?,
            fork: fork(field(columns.fork), REMEDY)?,
        };
        let block = number(field(columns.block), "block", REMEDY)?;
        let time_us = match columns.time {
            Some(column) => Some(time_us(field(column), 1).ok_or_else(|| {
                Fault::new(format!("the time {} is no number", shown(field(column))), REMEDY)
            })?),
            None => None,
        };
        if let (Some(time_us), Some(column)) = (time_us, columns.time) {
            if time_us < self.latest_us {
                let column = column + 1;
                return Err(Fault::new(
                    format!("the time goes back by {} us", self.latest_us - time_us),
                    format!(
                        "bpftrace does not print the events of several processors in order: sort \
                         -s -t, -k{column},{column}n FILE"
                    ),
                ));
            }
            self.latest_us = time_us;
        }
        let (page, class) = relations.page(place, block)?;
        out.push(Reference { page, pages: 1, access, time_us, class: Some(class) });
        Ok(())
    }

    fn classes(&self) -> &[String] {
        self.state.as_ref().map_or(&[], |(_, relations)| relations.classes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(lines: &[&str]) -> Result<(Vec<Reference>, Vec<String>), Fault> {
        let mut decoder = LookupLines::new(RelationNames::default());
        let mut out = Vec::new();
        for line in lines {
            decoder.line(line.as_bytes(), &mut out)?;
        }
        Ok((out, decoder.classes().to_vec()))
    }

    #[test]
    fn a_page_marked_dirty_is_not_referenced_again() {
        let (out, classes) =
            decode(&["op,client,rel,fork,block", "R,0,1,0,7", "W,0,1,0,7", "X,1,1,2,0"]).unwrap();
        let seen: Vec<_> = out.iter().map(|it| (it.page, it.access)).collect();
        assert_eq!(seen, [(7, Access::Read), (7, Access::Dirtied), (1 << 32, Access::Write)]);
        assert_eq!(classes, ["rel 1", "rel 1/vm"]);
    }

    #[test]
    fn what_bpftrace_prints_is_read_and_lost_events_are_not_passed_over() {
        let head = ["Attaching 2 probes...", "op,client,space,database,rel,fork,block,time_ns"];
        let (out, _) = decode(&[head[0], head[1], "R,4711,1663,5,16384,0,3,1500000"]).unwrap();
        assert_eq!(out[0].time_us, Some(1500));
        let fault = decode(&[head[0], head[1], "Lost 31 events"]).unwrap_err();
        assert!(fault.what.contains("missing"), "{}", fault.what);
    }

    #[test]
    fn events_out_of_order_are_refused_with_the_command_that_sorts_them() {
        let head = "op,client,space,database,rel,fork,block,time_ns";
        let lines = [head, "R,1,1663,5,16384,0,3,9000000", "R,2,1663,5,16384,0,4,1500000"];
        let fault = decode(&lines).unwrap_err();
        assert!(fault.what.contains("goes back by 7500 us"), "{}", fault.what);
        assert!(fault.remedy.ends_with("sort -s -t, -k8,8n FILE"), "{}", fault.remedy);
        assert!(decode(&[lines[0], lines[2], lines[1]]).is_ok());
    }

    #[test]
    fn lines_that_do_not_fit_the_header_are_refused() {
        let header = "op,client,rel,fork,block";
        for line in ["R,0,1,0", "R,0,1,0,1,1", "Q,0,1,0,1", "R,0,1,77,1", "R,0,1,0,4294967296"] {
            assert!(decode(&[header, line]).is_err(), "{line}");
        }
        assert!(decode(&["R,0,1,0,1"]).is_err());
    }
}
