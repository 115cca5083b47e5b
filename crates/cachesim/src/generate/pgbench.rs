//! pgbench's built-in scripts and pg_ycsb, by the pages they touch.
//!
//! An UPDATE by primary key searches the index and changes the row's page. With probability `hot` the
//! new version stays in that page (a heap-only tuple: pgbench changes no indexed column, so this needs
//! but room in the page, which pruning gives after the first updates, or a fillfactor below 100).
//! Otherwise the new version goes to the page where the last one went, at the table's end, and to a leaf
//! of the index. Tellers and branches are small and always find room. History is appended to.
//!
//! Clients take turns reference by reference, as processes on one core each would.

use evenkeel_distribution::{DistributionSpec, RandomStream, Sampler};

use super::Steps;
use super::arguments::{Arguments, SpecError};
use super::database::{Classes, Heap, Queue, Tree};
use crate::trace::Reference;

/// Rows of pgbench_accounts per scale (`naccounts` in `pgbench.c`).
const ACCOUNTS: u64 = 100_000;
const TELLERS: u64 = 10;

#[derive(Clone, Copy, PartialEq)]
enum Script {
    TpcB,
    SimpleUpdate,
    SelectOnly,
    /// pg_ycsb: a share of reads, the rest updates.
    Mixed(f64),
}

/// See the module.
pub(super) struct Pgbench {
    script: Script,
    hot: f64,
    keys: Sampler,
    accounts: Heap,
    accounts_key: Tree,
    /// New versions that found no room in their page.
    moved: Heap,
    tellers: Heap,
    tellers_key: Tree,
    branches: Heap,
    branches_key: Tree,
    history: Heap,
    classes: Classes,
}

impl Pgbench {
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let script = arguments.word(
            "script",
            &[
                ("tpcb", Script::TpcB),
                ("simple-update", Script::SimpleUpdate),
                ("select-only", Script::SelectOnly),
            ],
        )?;
        Self::with(arguments, script, DistributionSpec::Uniform)
    }

    /// pg_ycsb's A, B and C: each transaction reads or updates one row of pgbench_accounts.
    pub(super) fn ycsb(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let reads = arguments.word("workload", &[("a", 0.5), ("b", 0.95), ("c", 1.0)])?;
        let keys = DistributionSpec::Zipfian { exponent: 0.99, scattered: false };
        Self::with(arguments, Script::Mixed(reads), keys)
    }

    fn with(
        arguments: &mut Arguments,
        script: Script,
        keys: DistributionSpec,
    ) -> Result<Self, SpecError> {
        let scale = arguments.number("scale", 10, 1..=1_000_000)?;
        let fill_percent = arguments.number("fillfactor", 100, 10..=100)?;
        let keys = arguments.distribution("keys", keys)?;
        let hot = arguments.ratio("hot", 1.0, 0.0..=1.0)?;
        let mut classes = Classes::default();
        let rows = scale * ACCOUNTS;
        Ok(Self {
            script,
            hot,
            keys: Sampler::new(keys, rows - 1),
            accounts: Heap::new(&mut classes, "pgbench_accounts", rows, 97, fill_percent),
            accounts_key: Tree::new(&mut classes, "pgbench_accounts_pkey", rows, 4),
            moved: Heap::new(&mut classes, "pgbench_accounts moved", 0, 97, 100),
            tellers: Heap::new(&mut classes, "pgbench_tellers", scale * TELLERS, 96, fill_percent),
            tellers_key: Tree::new(&mut classes, "pgbench_tellers_pkey", scale * TELLERS, 4),
            branches: Heap::new(&mut classes, "pgbench_branches", scale, 96, fill_percent),
            branches_key: Tree::new(&mut classes, "pgbench_branches_pkey", scale, 4),
            // Its filler stays null.
            history: Heap::new(&mut classes, "pgbench_history", 0, 24, 100),
            classes,
        })
    }

    fn select(&self, account: u64, out: &mut Queue) {
        self.accounts_key.search(account, out);
        self.accounts.read(account, out);
    }

    fn update(&mut self, account: u64, stream: &mut RandomStream, out: &mut Queue) {
        self.accounts_key.search(account, out);
        self.accounts.write(account, out);
        if self.hot < 1.0 && stream.unit() >= self.hot {
            self.moved.append(out);
            self.accounts_key.insert(account, out);
        }
    }
}

impl Steps for Pgbench {
    fn step(&mut self, stream: &mut RandomStream, out: &mut std::collections::VecDeque<Reference>) {
        let account = self.keys.draw(stream).index;
        match self.script {
            Script::SelectOnly => self.select(account, out),
            Script::Mixed(reads) => {
                if stream.unit() < reads {
                    self.select(account, out);
                } else {
                    self.update(account, stream, out);
                }
            }
            Script::TpcB | Script::SimpleUpdate => {
                self.update(account, stream, out);
                self.select(account, out);
                if self.script == Script::TpcB {
                    let teller = stream.up_to(self.tellers.rows() - 1);
                    self.tellers_key.search(teller, out);
                    self.tellers.write(teller, out);
                    let branch = stream.up_to(self.branches.rows() - 1);
                    self.branches_key.search(branch, out);
                    self.branches.write(branch, out);
                }
                self.history.append(out);
            }
        }
    }

    fn classes(&self) -> &[String] {
        &self.classes.names
    }
}
