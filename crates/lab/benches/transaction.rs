//! What the driver itself does for one transaction: recording it, counting it, computing its `\set`s;
//! and how long a large script takes to compile.
//!
//! `cargo bench -p evenkeel-lab` prints times. They say where time goes on one machine on one day; how
//! the driver compares with pgbench's is `cargo xtask bench-driver`'s business.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed benchmark")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_lab::distribution::{CallSite, DistributionSpec, Purpose, RandomStream};
use evenkeel_lab::measure::histogram::LogHistogram;
use evenkeel_lab::measure::record::{Outcome, TransactionRecord};
use evenkeel_lab::measure::record_log::RecordLog;
use evenkeel_lab::workload::evaluate::{Draws, evaluate};
use evenkeel_lab::workload::script::{Command, Value, Workload};

use evenkeel_lab::workload::{Builtin, Compiler};

/// Below a chunk of the log, which is refilled from outside of the measured path.
const RECORDS: u32 = 50_000;

fn recording(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transaction");
    group.throughput(Throughput::Elements(u64::from(RECORDS)));
    group.bench_function("record", |bencher| {
        bencher.iter_batched_ref(
            RecordLog::new,
            |log| {
                for number in 0..RECORDS {
                    let start_ns = u64::from(number) * 1_000;
                    log.push(black_box(&TransactionRecord {
                        planned_ns: start_ns,
                        start_ns,
                        end_ns: start_ns + 900,
                        think_ns: 0,
                        client: number % 32,
                        retries: 0,
                        script: 0,
                        outcome: Outcome::Committed,
                    }));
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("count in a histogram", |bencher| {
        let mut histogram = LogHistogram::default();
        bencher.iter(|| {
            for number in 0..RECORDS {
                histogram.count(black_box(u64::from(number) * 977 + 50_000));
            }
        });
    });
    group.finish();
}

fn tpcb_like() -> Workload {
    let mut compiler = Compiler::new();
    compiler.define("scale", Value::Int(100)).unwrap();
    let text = Builtin::find("tpcb-like").unwrap().text(DistributionSpec::Uniform);
    compiler.add("tpcb-like", 1, &text).unwrap();
    compiler.finish().unwrap()
}

fn expressions(criterion: &mut Criterion) {
    let workload = tpcb_like();
    let sets: Vec<_> = workload.scripts[0]
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::Set { variable, expression } => Some((*variable, expression)),
            _ => None,
        })
        .collect();
    assert_eq!(sets.len(), 4, "tpcb-like has four");
    let mut variables = vec![Value::Null; workload.symbols.len()];
    for (slot, value) in &workload.initial {
        variables[slot.0 as usize] = value.clone();
    }
    let mut draws = Draws {
        stream: RandomStream::new(1, 0, Purpose::Script),
        call_sites: vec![CallSite::default(); workload.call_sites.len()],
    };
    criterion.bench_function("tpcb-like's four \\set", |bencher| {
        bencher.iter(|| {
            for (slot, expression) in &sets {
                let value = evaluate(expression, &variables, &mut draws, &mut |_| {}).unwrap();
                variables[slot.0 as usize] = value;
            }
        });
    });
}

fn compiling(criterion: &mut Criterion) {
    let mut text = String::new();
    for line in 0..50_000 {
        text.push_str(&format!("\\set aid{} random(1, 100000 * {})\n", line % 500, line + 1));
        text.push_str(&format!("SELECT abalance FROM accounts WHERE aid = :aid{};\n", line % 500));
    }
    let mut group = criterion.benchmark_group("script");
    group.sample_size(10).throughput(Throughput::Elements(100_000));
    group.bench_function("compile 100,000 lines", |bencher| {
        bencher.iter(|| {
            let mut compiler = Compiler::new();
            compiler.add("large", 1, black_box(&text)).unwrap();
            compiler.finish().unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, recording, expressions, compiling);
criterion_main!(benches);
