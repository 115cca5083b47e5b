//! Page references that follow a law or a database's habits, the same for the same seed.
//!
//! A specification is a name and parameters: `zipf(pages=100000,s=0.99,order=scattered,seed=7)`. What is
//! left out has a default; [`FAMILIES`] lists all. As the name of a trace it is written with `generate:`
//! before it, and [`crate::trace::load`] makes it.
//!
//! Databases' patterns (`database.rs` has the geometry) give heap, inner and leaf pages classes of their own. They
//! model which pages are referenced in which order, from the geometry of PostgreSQL's pages; they do
//! not run transactions. What they leave out is written in their files.

mod arguments;
mod database;
mod pgbench;
mod synthetic;
mod tpcc;

use std::collections::VecDeque;
use std::fmt;

use evenkeel_distribution::{Purpose, RandomStream};

use crate::trace::{Access, PAGE_BYTES, Reference};
use arguments::Arguments;
pub use arguments::SpecError;

/// Before a specification where a trace is named.
pub const PREFIX: &str = "generate:";

/// References of a trace unless told otherwise.
const REFERENCES: u64 = 1_000_000;

/// Name, parameters with their defaults, what it is. All take `references=1000000`, `seed=1`, and
/// `rate=R`: so many steps (references, or transactions of databases) a second, which gives times.
pub const FAMILIES: [(&str, &str, &str); 9] = [
    ("uniform", "pages=10000,write=0", "every page as likely as the other"),
    (
        "zipf",
        "pages=10000,s=1,order=scattered,write=0",
        "probability as rank^-s; or order=adjacent",
    ),
    ("gaussian", "pages=10000,p=5,write=0", "pgbench's random_gaussian: hot in the middle"),
    (
        "scan-hot",
        "hot=1000,s=0.8,table=100000,share=0.1,write=0",
        "scans of a table, share of all references, beside a zipf hot set",
    ),
    (
        "loop",
        "pages=1000,loops=1,noise=0,write=0",
        "pages in order, again and again; loops in turn",
    ),
    (
        "phases",
        "pages=100000,set=1000,length=50000,s=0.8,write=0",
        "a working set that moves every so many references",
    ),
    (
        "pgbench",
        "scale=10,keys=uniform,script=tpcb,fillfactor=100,hot=1,clients=1",
        "pgbench's built-in scripts: tpcb, simple-update, select-only",
    ),
    (
        "ycsb",
        "scale=10,workload=a,keys=zipfian:0.99,fillfactor=100,hot=1,clients=1",
        "pg_ycsb a, b or c on pgbench_accounts",
    ),
    ("tpcc", "warehouses=10,clients=1", "TPC-C's five transactions in their mix"),
];

/// Makes the references of one step.
trait Steps {
    /// Appends at least one reference.
    fn step(&mut self, stream: &mut RandomStream, out: &mut VecDeque<Reference>);

    /// Names of classes; references name them by place.
    fn classes(&self) -> &[String] {
        &[]
    }
}

/// A generated trace: an iterator over its references.
pub struct Generator {
    spec: String,
    steps: Box<dyn Steps>,
    clients: Vec<Client>,
    /// Whose turn it is.
    turn: usize,
    left: u64,
    total: u64,
    step_number: u64,
    steps_per_s: Option<f64>,
}

/// A client's references, of which one is taken in turn.
struct Client {
    stream: RandomStream,
    pending: VecDeque<Reference>,
    time_us: Option<u64>,
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator")
            .field("spec", &self.spec)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// A generator by its specification, with or without [`PREFIX`].
///
/// # Errors
/// When the specification is unknown or its parameters cannot be; with what is allowed.
pub fn parse(spec: &str) -> Result<Generator, SpecError> {
    let spec = spec.strip_prefix(PREFIX).unwrap_or(spec).trim();
    let mut arguments = Arguments::parse(spec)?;
    let total = arguments.number("references", REFERENCES, 1..=1 << 40)?;
    let seed = arguments.number("seed", 1, 0..=u64::MAX)?;
    let steps_per_s = arguments.ratio("rate", 0.0, 0.0..=1e9)?;
    let steps: Box<dyn Steps> = match arguments.family() {
        "uniform" | "zipf" | "gaussian" => Box::new(synthetic::Independent::new(&mut arguments)?),
        "scan-hot" => Box::new(synthetic::ScanAndHotSet::new(&mut arguments)?),
        "loop" => Box::new(synthetic::Loops::new(&mut arguments)?),
        "phases" => Box::new(synthetic::Phases::new(&mut arguments)?),
        "pgbench" => Box::new(pgbench::Pgbench::new(&mut arguments)?),
        "ycsb" => Box::new(pgbench::Pgbench::ycsb(&mut arguments)?),
        "tpcc" => Box::new(tpcc::TpcC::new(&mut arguments)?),
        other => return Err(arguments.unknown_family(other)),
    };
    let clients = match arguments.family() {
        "pgbench" | "ycsb" | "tpcc" => arguments.number("clients", 1, 1..=10_000)?,
        _ => 1,
    };
    arguments.finish()?;
    let clients = (0..clients)
        .map(|client| Client {
            stream: RandomStream::new(seed, client, Purpose::Trace),
            pending: VecDeque::new(),
            time_us: None,
        })
        .collect();
    Ok(Generator {
        spec: spec.to_owned(),
        steps,
        clients,
        turn: 0,
        left: total,
        total,
        step_number: 0,
        steps_per_s: (steps_per_s > 0.0).then_some(steps_per_s),
    })
}

impl Generator {
    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// How many references there will be.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.total
    }

    /// Names of the classes of pages; all are known from the start.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        self.steps.classes()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        PAGE_BYTES
    }

    /// Whether references have times.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.steps_per_s.is_some()
    }
}

impl Iterator for Generator {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        self.left = self.left.checked_sub(1)?;
        let count = self.clients.len();
        let client = self.clients.get_mut(self.turn)?;
        self.turn = (self.turn + 1) % count;
        if client.pending.is_empty() {
            self.steps.step(&mut client.stream, &mut client.pending);
            client.time_us = self
                .steps_per_s
                .map(|steps_per_s| (self.step_number as f64 * 1e6 / steps_per_s) as u64);
            self.step_number += 1;
        }
        let time_us = client.time_us;
        client.pending.pop_front().map(|reference| Reference { time_us, ..reference })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

/// A reference that writes with probability `ratio`.
fn access(stream: &mut RandomStream, ratio: f64) -> Access {
    if ratio > 0.0 && stream.unit() < ratio { Access::Write } else { Access::Read }
}

#[cfg(test)]
mod tests;
