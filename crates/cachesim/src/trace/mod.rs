//! Page-reference traces of many formats as one stream of [`Reference`]s.
//!
//! [`TraceReader::open`] recognises compression and format by the content, and reads as it goes: the
//! memory it needs depends neither on the trace's length nor on anything that a file claims. [`load`]
//! makes a [`DenseTrace`] for simulation.
//!
//! # Rules
//!
//! 1. A reader never panics, loops or answers for content it does not understand: it says which file,
//!    which line or byte, what is wrong and what to do.
//! 2. No allocation follows a number in a file; blocks, lines, decompression windows and runs of pages
//!    have limits of their own. What [`load`] holds grows with the references, and has the caller's
//!    bound ([`Options::memory_bytes`]): some bytes can stand for any number of references.
//! 3. A trace that was cut short is an error where the format can show it: all but bare numbers and
//!    text cut at the end of a record. References before the cut have been given by then.
//! 4. What a format counts as one reference is written in its file; [`load`] gives the counts that
//!    their authors publish.

mod binary;
mod compact;
mod detect;
mod error;
mod extent;
mod format;
mod input;
mod options;
mod output;
mod postgres;
mod reader;
mod reference;
mod relations;
mod sample;
mod summary;
mod text;

pub use compact::CompactWriter;
pub use error::{Place, TraceError};
pub use format::{FORMATS, Format, UnknownFormat};
pub use options::{Column, Columns, ColumnsError, Options, PAGE_BYTES, SECTOR_BYTES};
pub use output::{Output, OutputFormat};
pub use reader::{Position, TraceReader};
pub use reference::{Access, Reference};
pub use sample::SpatialSample;
pub use summary::{ClassSummary, ReuseShare, Summary, SummaryBuilder};

use std::path::Path;

use crate::dense::{self, DenseTrace, DenseTraceBuilder};
pub(crate) use error::Fault;

/// References between two looks at the memory that is held.
const LOOK_REFERENCES: u64 = 1 << 16;

/// Reads the trace at `path` (`-` is the standard input) and renumbers its pages. `progress` is told
/// the position now and then.
///
/// # Errors
/// When the trace cannot be read or is not what it should be, with the place; when it has no
/// reference; when it is beyond what [`DenseTrace`] or the memory that was granted can hold.
pub fn load(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(Position),
) -> Result<DenseTrace, TraceError> {
    let mut reader = TraceReader::open(path, options)?;
    let told = load_while(&mut reader, &mut |position| {
        progress(position);
        true
    })?;
    // Nothing ends the reading early.
    Ok(told.unwrap_or_default())
}

/// As [`load`], of a trace that is open, for as long as `progress` says true; `None` once it says
/// false.
///
/// # Errors
/// As [`load`].
pub fn load_while(
    reader: &mut TraceReader,
    progress: &mut dyn FnMut(Position) -> bool,
) -> Result<Option<DenseTrace>, TraceError> {
    let mut builder = DenseTraceBuilder::<u64>::new(reader.name(), reader.page_bytes());
    let mut classes: Vec<u16> = Vec::new();
    let mut bound = MemoryBound::of(reader);
    let is_whole = scan(reader, progress, |event, names| {
        for name in names.iter().skip(classes.len()) {
            classes.push(builder.add_class(name).map_err(|error| error.to_string())?);
        }
        bound.look(&builder)?;
        if !event.is_reference() {
            builder.dirtied(event.page);
            return Ok::<(), String>(());
        }
        let what = dense::Reference {
            is_write: event.access == Access::Write,
            time_ms: event.time_us.map(|time_us| time_us / 1000),
            class: event.class.and_then(|class| classes.get(usize::from(class)).copied()),
        };
        builder.reference(event.page, what).map(drop).map_err(|error| error.to_string())
    })?;
    Ok(is_whole.then(|| builder.finish()))
}

/// Gives each event of a trace, of one page each, to `take`, with the names of the classes so far.
/// `progress` is told the position now and then; true when it never said false before the end.
///
/// # Errors
/// When the trace cannot be read or has no reference; what `take` refuses, with the place.
pub fn scan<E: std::fmt::Display>(
    reader: &mut TraceReader,
    progress: &mut dyn FnMut(Position) -> bool,
    mut take: impl FnMut(Reference, &[String]) -> Result<(), E>,
) -> Result<bool, TraceError> {
    let mut batch = Vec::new();
    while reader.read(&mut batch)? {
        for event in batch.drain(..).flat_map(Reference::each) {
            if let Err(error) = take(event, reader.classes()) {
                let fault = Fault::new(error.to_string(), "");
                return Err(fault.in_file(reader.file(), reader.place()));
            }
        }
        if !progress(reader.position()) {
            return Ok(false);
        }
    }
    if reader.position().references == 0 {
        return Err(Fault::new(
            format!("has no reference (read as {})", reader.format()),
            "is it of another format? see --trace-format",
        )
        .in_file(reader.file(), Place::Whole));
    }
    Ok(true)
}

/// Refuses to hold more than the caller of a reader granted.
pub(crate) struct MemoryBound {
    granted: Option<u64>,
    unseen: u64,
}

impl MemoryBound {
    pub(crate) fn of(reader: &TraceReader) -> Self {
        Self { granted: reader.memory_bytes(), unseen: 0 }
    }

    /// Called for each event; looks now and then.
    pub(crate) fn look(&mut self, builder: &DenseTraceBuilder) -> Result<(), String> {
        self.unseen += 1;
        if self.unseen < LOOK_REFERENCES {
            return Ok(());
        }
        self.unseen = 0;
        match self.granted {
            Some(granted) if builder.memory_bytes() > granted => Err(format!(
                "{} references to {} pages up to here take more than the {} MiB of memory that are free \
                 for them: look at a smaller share of the pages, by simulate --sample 1% or evenkeel \
                 trace sample",
                builder.references(),
                builder.pages(),
                granted >> 20
            )),
            _ => Ok(()),
        }
    }
}

/// A bijection of 64 bits in which every bit of the result depends on all of the argument's: the output
/// function of SplitMix64 (Steele, Lea & Flood 2014; variant 13 of Stafford).
#[must_use]
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
