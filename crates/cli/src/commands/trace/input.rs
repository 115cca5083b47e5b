//! Which trace, and how to read it: the options that every command on traces shares.

use std::num::NonZeroU32;
use std::path::PathBuf;

use evenkeel_cachesim::trace::{Columns, Format, Options, TraceReader};
use evenkeel_lab::driver::available_bytes;

/// A trace and how to read it.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceInput {
    /// File, - for the standard input, or generate:SPEC
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) how: TraceOptions,
}

/// How to read a trace, where `--format` cannot mean anything else.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct TraceOptions {
    /// Format of the trace, if it is not recognised; `evenkeel trace formats` lists them
    // Errors of the readers name it as every command does.
    #[arg(long, value_name = "FORMAT", visible_alias = "format")]
    trace_format: Option<Format>,
    #[command(flatten)]
    content: ContentOptions,
}

/// How to read a trace whose format is recognised or named elsewhere.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ContentOptions {
    /// Which column of a CSV file is what: page=lbn,op=op,time=time,size=size,class=rel, by name or
    /// place from 1; key= instead of page= for text
    #[arg(long, value_name = "MAP")]
    columns: Option<Columns>,
    /// Cut requests that carry lengths into pages of this size, such as 8kB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    page_size: Option<NonZeroU32>,
    /// Bytes of one unit of block numbers, for cutting: of csv, spc, oracle-general, lcs and vscsi
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512")]
    block_size: NonZeroU32,
    /// CSV file with relfilenode, relname and relkind; else X.rels.csv beside X.csv
    #[arg(long, value_name = "FILE")]
    relations: Option<PathBuf>,
    /// Unit of a CSV file's times, where its header does not name one (time_ms)
    #[arg(long, value_enum, default_value_t = TimeUnit::S)]
    time_unit: TimeUnit,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TimeUnit {
    S,
    Ms,
    Us,
    Ns,
}

impl TraceOptions {
    /// As the readers take them.
    pub(crate) fn options(&self) -> Options {
        self.content.options(self.trace_format)
    }
}

impl ContentOptions {
    /// As the readers take them, for a trace of `format`, recognised where not given.
    pub(crate) fn options(&self, format: Option<Format>) -> Options {
        Options {
            format,
            columns: self.columns.clone(),
            page_bytes: self.page_size,
            block_bytes: self.block_size,
            relations: self.relations.clone(),
            time_unit_ns: match self.time_unit {
                TimeUnit::S => 1_000_000_000,
                TimeUnit::Ms => 1_000_000,
                TimeUnit::Us => 1_000,
                TimeUnit::Ns => 1,
            },
            // As much again may be wanted by what is done with it.
            memory_bytes: available_bytes().map(|bytes| bytes / 2),
        }
    }
}

impl TraceInput {
    /// Opens the trace.
    pub(crate) fn open(&self) -> anyhow::Result<TraceReader> {
        Ok(TraceReader::open(&self.trace, &self.how.options())?)
    }
}

/// A size: bytes, or with kB, MB (1024 as in PostgreSQL) or KiB, MiB.
fn bytes(text: &str) -> Result<NonZeroU32, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = &text[digits.len()..];
    let factor = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" | "KiB" | "k" | "K" => 1024,
        "MB" | "MiB" | "M" => 1024 * 1024,
        _ => return Err(format!("'{unit}' is no unit; write bytes, 8kB or 1MB")),
    };
    digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .and_then(NonZeroU32::new)
        .ok_or_else(|| "a size from 1 byte to 4 GB is wanted, such as 8kB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_postgres() {
        let size = |text| bytes(text).map(NonZeroU32::get);
        assert_eq!(size("8kB"), Ok(8192));
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1 MiB"), Ok(1 << 20));
        for text in ["", "kB", "0", "8 apples", "-1", "99999999999", "4096MB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
