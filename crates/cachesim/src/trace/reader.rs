//! A trace as a stream.

use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use crate::generate::{self, Generator};

use super::binary::{LCS_HEADER_BYTES, RECORD_MAX, Records, check_lcs_header};
use super::compact::CompactReader;
use super::detect::detect;
use super::error::{Fault, Place, TraceError};
use super::format::Format;
use super::input::{Input, LOOKED_AT};
use super::options::{Options, PAGE_BYTES, SECTOR_BYTES};
use super::postgres::{BuffercacheLines, LookupLines, PerfScriptLines, WaldumpLines};
use super::reference::Reference;
use super::relations::RelationNames;
use super::text::{ArcLines, CsvLines, IdLines, Lines, MsrLines, SpcLines, TwitterLines};

/// Events that are decoded at once, about.
const BATCH: usize = 4096;

/// How far a reader has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes of the file that have been read, compressed as they are.
    pub bytes: u64,
    /// Bytes of the file; `None` where that is not known.
    pub total_bytes: Option<u64>,
    /// References so far.
    pub references: u64,
    /// References in all; `None` where that is not known.
    pub total_references: Option<u64>,
}

impl Position {
    /// The part that is done, from 0 to 1; `None` where the end is not known.
    #[must_use]
    pub fn done_ratio(&self) -> Option<f64> {
        let (done, total) = match (self.total_references, self.total_bytes) {
            (Some(total), _) => (self.references, total),
            (None, Some(total)) => (self.bytes, total),
            (None, None) => return None,
        };
        (total > 0).then(|| (done as f64 / total as f64).min(1.0))
    }
}

/// Reads a trace of any known format.
pub struct TraceReader {
    file: String,
    name: String,
    format: Format,
    is_recognised: bool,
    page_bytes: u32,
    memory_bytes: Option<u64>,
    input: Input,
    total_bytes: Option<u64>,
    decoder: Decoder,
    references: u64,
    is_at_end: bool,
}

enum Decoder {
    Lines(Box<dyn Lines>),
    Records(Records),
    Compact(Box<CompactReader>),
    Generated(Box<Generator>),
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("file", &self.file)
            .field("format", &self.format)
            .field("references", &self.references)
            .finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens the trace at `path`, the standard input for `-`, or the generator of a specification after
    /// [`generate::PREFIX`].
    ///
    /// # Errors
    /// When the file cannot be read, or its format is not known or not the one that was named.
    pub fn open(path: &Path, options: &Options) -> Result<Self, TraceError> {
        let file = path.display().to_string();
        if file.starts_with(generate::PREFIX) {
            return Self::generated(&file, options.memory_bytes);
        }
        let (input, total_bytes) =
            Input::open(path).map_err(|fault| fault.in_file(&file, Place::Whole))?;
        Self::with(path, file, input, total_bytes, options)
    }

    /// Reads a trace from anything; `name` stands for the file in errors and in recognising formats.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn new(source: Box<dyn Read>, name: &str, options: &Options) -> Result<Self, TraceError> {
        let input = Input::new(source).map_err(|fault| fault.in_file(name, Place::Whole))?;
        Self::with(Path::new(name), name.to_owned(), input, None, options)
    }

    fn generated(spec: &str, memory_bytes: Option<u64>) -> Result<Self, TraceError> {
        let whole = |fault: Fault| fault.in_file(spec, Place::Whole);
        let generator =
            generate::parse(spec).map_err(|error| whole(Fault::new(error.to_string(), "")))?;
        Ok(Self {
            file: spec.to_owned(),
            name: generator.spec().to_owned(),
            format: Format::Generated,
            is_recognised: true,
            page_bytes: generator.page_bytes(),
            memory_bytes,
            input: Input::new(Box::new(std::io::empty())).map_err(whole)?,
            total_bytes: None,
            decoder: Decoder::Generated(Box::new(generator)),
            references: 0,
            is_at_end: false,
        })
    }

    fn with(
        path: &Path,
        file: String,
        mut input: Input,
        total_bytes: Option<u64>,
        options: &Options,
    ) -> Result<Self, TraceError> {
        let whole = |fault: Fault| fault.in_file(&file, Place::Whole);
        let told = match (options.format, &options.columns) {
            (None, Some(_)) => Some(Format::Csv),
            (Some(other), Some(_)) if other != Format::Csv => {
                return Err(whole(Fault::new(
                    format!("columns are given, but the format {other} has its own"),
                    "leave --trace-format or --columns out",
                )));
            }
            (told, _) => told,
        };
        let format = match told {
            Some(format) => format,
            None => {
                let head = input.head().map_err(whole)?;
                detect(&head, head.len() < LOOKED_AT, &file).map_err(whole)?
            }
        };
        let named = options.relations.as_deref();
        let names = || RelationNames::find(path, named);
        let disk_page =
            options.page_bytes.or(NonZeroU32::new(PAGE_BYTES)).unwrap_or(NonZeroU32::MIN);
        let decoder = match format {
            Format::Evenkeel => {
                let reader = CompactReader::new(&mut input).map_err(whole)?;
                Decoder::Compact(Box::new(reader))
            }
            Format::Ids => Decoder::Lines(Box::new(IdLines)),
            Format::Arc => Decoder::Lines(Box::new(ArcLines { page_bytes: options.page_bytes })),
            Format::Csv => Decoder::Lines(Box::new(CsvLines::new(options))),
            Format::Spc => Decoder::Lines(Box::new(SpcLines {
                page_bytes: disk_page,
                block_bytes: options.block_bytes,
            })),
            Format::Msr => Decoder::Lines(Box::new(MsrLines::new(disk_page))),
            Format::Twitter => Decoder::Lines(Box::new(TwitterLines)),
            Format::PgLookups => Decoder::Lines(Box::new(LookupLines::new(names()?))),
            Format::PgWaldump => Decoder::Lines(Box::new(WaldumpLines::new(names()?))),
            Format::PgBuffercache => Decoder::Lines(Box::new(BuffercacheLines::new(names()?))),
            Format::PgProbes => Decoder::Lines(Box::new(PerfScriptLines::new(names()?))),
            _ => {
                let records = Records::new(format, options.page_bytes, options.block_bytes);
                if records.header_bytes() > 0 {
                    let mut header = [0; LCS_HEADER_BYTES];
                    input.record(&mut header).map_err(whole)?;
                    check_lcs_header(&header)
                        .map_err(|fault| fault.in_file(&file, Place::Offset(0)))?;
                }
                Decoder::Records(records)
            }
        };
        let native = match (&decoder, format) {
            (Decoder::Compact(reader), _) => reader.page_bytes,
            (_, Format::Arc) => SECTOR_BYTES,
            _ => PAGE_BYTES,
        };
        let page_bytes = match (options.page_bytes, &decoder) {
            (Some(asked), Decoder::Compact(reader)) if asked.get() != reader.page_bytes => {
                return Err(whole(Fault::new(
                    format!("was written with pages of {} bytes", reader.page_bytes),
                    "leave --page-size out, or convert the original again",
                )));
            }
            (Some(asked), _) => asked.get(),
            (None, _) => native,
        };
        let name = match &decoder {
            Decoder::Compact(reader) if !reader.name.is_empty() => reader.name.clone(),
            _ => short_name(path),
        };
        Ok(Self {
            file,
            name,
            format,
            is_recognised: told.is_none(),
            page_bytes,
            memory_bytes: options.memory_bytes,
            input,
            total_bytes,
            decoder,
            references: 0,
            is_at_end: false,
        })
    }

    /// Appends some events to `batch`; false where there are no more. Events may be runs of pages.
    ///
    /// # Errors
    /// When the trace is damaged or not of its format. What came before has been given.
    pub fn read(&mut self, batch: &mut Vec<Reference>) -> Result<bool, TraceError> {
        let before = batch.len();
        while !self.is_at_end && batch.len() - before < BATCH {
            match self.decode(batch) {
                Ok(is_more) => self.is_at_end = !is_more,
                Err(fault) => {
                    self.is_at_end = true;
                    return Err(fault.in_file(&self.file, self.place()));
                }
            }
        }
        let new = batch.iter().skip(before).filter(|event| event.is_reference());
        self.references += new.map(|event| u64::from(event.pages)).sum::<u64>();
        Ok(batch.len() > before || !self.is_at_end)
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the format was recognised rather than named.
    #[must_use]
    pub fn is_recognised(&self) -> bool {
        self.is_recognised
    }

    /// The compressions, outermost first.
    #[must_use]
    pub fn compressions(&self) -> &[&'static str] {
        self.input.layers()
    }

    /// What the trace is called: in its header, or the file's name without endings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file as it was named.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Most memory that what holds the trace may take ([`Options::memory_bytes`]).
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.memory_bytes
    }

    /// Names of the classes that have appeared so far.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        match &self.decoder {
            Decoder::Lines(lines) => lines.classes(),
            Decoder::Records(_) => &[],
            Decoder::Compact(reader) => reader.classes(),
            Decoder::Generated(generator) => generator.classes(),
        }
    }

    /// How far this has come.
    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            bytes: self.input.packed_bytes(),
            total_bytes: self.total_bytes,
            references: self.references,
            total_references: match &self.decoder {
                Decoder::Generated(generator) => Some(generator.references()),
                _ => None,
            },
        }
    }

    /// The place in the content.
    #[must_use]
    pub fn place(&self) -> Place {
        match &self.decoder {
            Decoder::Lines(_) => Place::Line(self.input.line_number()),
            Decoder::Records(_) | Decoder::Compact(_) => Place::Offset(self.input.offset()),
            Decoder::Generated(_) => Place::Whole,
        }
    }

    fn decode(&mut self, batch: &mut Vec<Reference>) -> Result<bool, Fault> {
        match &mut self.decoder {
            Decoder::Lines(lines) => {
                let Some(line) = self.input.line()? else { return Ok(false) };
                lines.line(line, batch)?;
                Ok(true)
            }
            Decoder::Records(records) => {
                let mut buffer = [0; RECORD_MAX];
                let start = self.input.offset();
                let record = &mut buffer[..records.record_bytes()];
                if !self.input.record(record)? {
                    return Ok(false);
                }
                let event = records.record(record);
                batch.push(event.map_err(|fault| fault.at(Place::Offset(start)))?);
                Ok(true)
            }
            Decoder::Compact(reader) => reader.decode(&mut self.input, batch),
            Decoder::Generated(generator) => {
                let before = batch.len();
                batch.extend(generator.take(BATCH));
                Ok(batch.len() > before)
            }
        }
    }
}

/// A file's name without folders and the endings that say nothing.
fn short_name(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "stdin".to_owned();
    }
    let name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut short = name.as_str();
    for end in [".gz", ".xz", ".zst", ".csv", ".txt", ".trace", ".lis", ".bin", ".ekt"] {
        short = short.strip_suffix(end).filter(|rest| !rest.is_empty()).unwrap_or(short);
    }
    short.to_owned()
}
