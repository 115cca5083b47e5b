//! The numbers behind the page, as JSON that a person or a program can take out of it.
//!
//! They stand in a `<pre>`, not in a script element: so the page holds no script element at all, and
//! that can be checked by looking for one.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use super::escape::{Sink, Text, put};
use crate::experiment::document::{
    Analysis, Arm, Counts, Difference, LatencySummary, Protocol, Run, SessionDocument,
};
use crate::report::number;

/// Beyond this the runs are left out; beyond twice this the rest is, too.
const BYTES_MAX: u64 = 700_000;

#[derive(Serialize)]
struct Slim<'a> {
    schema: &'a str,
    protocol: &'a Protocol,
    arms: &'a [Arm],
    differences: &'a [Difference],
    analysis: &'a Option<Analysis>,
    runs: Vec<SlimRun<'a>>,
}

#[derive(Serialize)]
struct SlimRun<'a> {
    index: u32,
    block: u32,
    arm: u32,
    counts: &'a Counts,
    throughput_per_s: Option<f64>,
    response: &'a LatencySummary,
    service: &'a LatencySummary,
    lag: &'a LatencySummary,
    outcomes: &'a BTreeMap<String, Option<f64>>,
}

/// The section's content.
pub(super) fn section(document: &SessionDocument, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut slim = Slim {
        schema: &document.schema,
        protocol: &document.protocol,
        arms: &document.arms,
        differences: &document.differences,
        analysis: &document.analysis,
        runs: document.runs.iter().map(slim_run).collect(),
    };
    let mut left_out = "timelines, histograms and events";
    if size_of(&slim)? > BYTES_MAX {
        slim.runs.clear();
        left_out = "the single runs";
    }
    let bytes = size_of(&slim)?;
    if bytes > 2 * BYTES_MAX {
        return sink.put("<p>They are too many for this page: see <code>session.json</code>.</p>");
    }
    put!(
        sink,
        "<p>Everything is in <code>session.json</code> and the <code>.csv</code> files beside this page; \
         here is what was concluded, as JSON, without ",
        left_out,
        ". Times are nanoseconds, changes are ratios.</p><details><summary>JSON, ",
        Text(number::bytes(number::to_f64(bytes))),
        "</summary><pre class=\"json\">",
    );
    crate::json::write(sink.escaping(), &slim)?;
    sink.put("</pre></details>")
}

fn slim_run(run: &Run) -> SlimRun<'_> {
    SlimRun {
        index: run.index,
        block: run.block,
        arm: run.arm,
        counts: &run.counts,
        throughput_per_s: run.throughput_per_s,
        response: &run.response,
        service: &run.service,
        lag: &run.lag,
        outcomes: &run.outcomes,
    }
}

fn size_of(slim: &Slim<'_>) -> io::Result<u64> {
    struct Counting(u64);
    impl io::Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counting = Counting(0);
    crate::json::write(&mut counting, slim)?;
    Ok(counting.0)
}
