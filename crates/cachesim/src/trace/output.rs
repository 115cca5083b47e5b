//! Writes traces: ours, page numbers, CSV, or libCacheSim's oracleGeneral; packed by the name's ending.
//!
//! A file appears under its name only when it is whole: until then it lies beside it under another, and
//! is removed when writing ends early.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::compact::CompactWriter;
use super::options::PAGE_BYTES;
use super::reader::TraceReader;
use super::reference::{Access, Reference};

/// Level of gz and xz: their programs' default.
const LEVEL: u32 = 6;
/// Level of zstd: its default.
const ZSTD_LEVEL: i32 = 3;

/// A format that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// evenkeel's own: keeps everything.
    #[default]
    Evenkeel,
    /// One page number a line, with `W` or `D` where the page is written or dirtied; times and classes
    /// are lost.
    Ids,
    /// `page,op,time_us,class`.
    Csv,
    /// libCacheSim's oracleGeneral: pages, seconds, page size, next reference. Holds the whole trace in
    /// memory, 24 bytes a reference, to know the next reference; writes, classes and parts of a second
    /// are lost.
    OracleGeneral,
}

impl OutputFormat {
    /// Name and format.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("evenkeel", Self::Evenkeel),
        ("ids", Self::Ids),
        ("csv", Self::Csv),
        ("oracle-general", Self::OracleGeneral),
    ];
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, format)| format == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, format)| *format).ok_or_else(
            || {
                let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
                format!(
                    "'{}' cannot be written; known are {}",
                    text.escape_debug(),
                    names.join(", ")
                )
            },
        )
    }
}

/// A trace being written.
pub struct Output {
    target: Option<Target>,
    encoder: Encoder,
    events: u64,
    references: u64,
    has_times: bool,
    page_bytes: u32,
    dropped: Dropped,
}

/// How many references (and pages marked dirty) lost what the format has no place for.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    times: u64,
    parts_of_seconds: u64,
    classes: u64,
    write_marks: u64,
    dirty_marks: u64,
}

/// The file under its preliminary name.
struct Target {
    path: PathBuf,
    partial: PathBuf,
}

enum Encoder {
    Compact(CompactWriter<Packed>),
    Ids(Packed),
    Csv { out: Packed, classes: Vec<String> },
    Oracle { out: Packed, events: Vec<(u64, u32)>, page_bytes: u32 },
}

/// What bytes go through on their way.
enum Packed {
    Plain(BufWriter<Box<dyn Write>>),
    Gz(flate2::write::GzEncoder<BufWriter<Box<dyn Write>>>),
    Xz(liblzma::write::XzEncoder<BufWriter<Box<dyn Write>>>),
    Zst(zstd::stream::write::Encoder<'static, BufWriter<Box<dyn Write>>>),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Output {
    /// Begins a trace at `path` (`-` is the standard output), packed if the name ends in `.gz`, `.xz` or
    /// `.zst`, called and with the pages of `reader`. Times are kept if `has_times`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(
        path: &Path,
        format: OutputFormat,
        reader: &TraceReader,
        has_times: bool,
    ) -> io::Result<Self> {
        let (sink, target): (Box<dyn Write>, _) = if path.as_os_str() == "-" {
            (Box::new(io::stdout()), None)
        } else {
            let target = Target::beside(path);
            (Box::new(File::create_new(&target.partial)?), Some(target))
        };
        let mut out = Packed::new(sink, path)?;
        let encoder = match format {
            OutputFormat::Evenkeel => Encoder::Compact(CompactWriter::new(
                out,
                reader.name(),
                reader.page_bytes(),
                has_times,
            )?),
            OutputFormat::Ids => Encoder::Ids(out),
            OutputFormat::Csv => {
                out.write_all(b"page,op,time_us,class\n")?;
                Encoder::Csv { out, classes: Vec::new() }
            }
            OutputFormat::OracleGeneral => {
                let page_bytes = reader.page_bytes();
                Encoder::Oracle { out, events: Vec::new(), page_bytes }
            }
        };
        Ok(Self {
            target,
            encoder,
            events: 0,
            references: 0,
            has_times,
            page_bytes: reader.page_bytes(),
            dropped: Dropped::default(),
        })
    }

    /// Appends an event. `classes` are all that have appeared so far.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, event: &Reference, classes: &[String]) -> io::Result<()> {
        self.events += 1;
        if event.is_reference() {
            self.references += u64::from(event.pages);
        }
        self.count_dropped(event);
        match &mut self.encoder {
            Encoder::Compact(writer) => {
                for name in classes.iter().skip(writer.classes()) {
                    writer.class(name)?;
                }
                writer.write(event)
            }
            Encoder::Ids(out) => event.each().try_for_each(|one| {
                let mark = match one.access {
                    Access::Read => "",
                    Access::Write => " W",
                    Access::Dirtied => " D",
                };
                writeln!(out, "{}{mark}", one.page)
            }),
            Encoder::Csv { out, classes: quoted } => {
                for name in classes.iter().skip(quoted.len()) {
                    quoted.push(quote(name));
                }
                let time = event.time_us.map_or_else(String::new, |time| time.to_string());
                let class = event.class.and_then(|class| quoted.get(usize::from(class)));
                let class = class.map_or("", String::as_str);
                let access = match event.access {
                    Access::Read => 'R',
                    Access::Write => 'W',
                    Access::Dirtied => 'D',
                };
                event
                    .each()
                    .try_for_each(|one| writeln!(out, "{},{access},{time},{class}", one.page))
            }
            Encoder::Oracle { events, .. } => {
                if event.is_reference() {
                    let seconds = event.time_us.unwrap_or(0) / 1_000_000;
                    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
                    events.extend(event.each().map(|one| (one.page, seconds)));
                }
                Ok(())
            }
        }
    }

    /// What the format has no place for and the trace had, each with how often it was dropped so far:
    /// once a reference, or a mark.
    #[must_use]
    pub fn dropped(&self) -> Vec<(&'static str, u64)> {
        let is_text = matches!(self.encoder, Encoder::Ids(_) | Encoder::Csv { .. });
        let lost_size = is_text && self.page_bytes != PAGE_BYTES;
        let all = [
            ("relation and kind (class)", self.dropped.classes),
            ("time", self.dropped.times),
            ("parts of a second", self.dropped.parts_of_seconds),
            ("write flag", self.dropped.write_marks),
            ("mark of a page made dirty while pinned", self.dropped.dirty_marks),
            ("page size", if lost_size { self.references } else { 0 }),
        ];
        all.into_iter().filter(|(_, references)| *references > 0).collect()
    }

    fn count_dropped(&mut self, event: &Reference) {
        let pages = u64::from(event.pages);
        let (mut has_times, mut has_classes, mut has_writes) = (true, true, true);
        match self.encoder {
            Encoder::Compact(_) => has_times = self.has_times,
            Encoder::Ids(_) => (has_times, has_classes) = (false, false),
            Encoder::Csv { .. } => {}
            Encoder::Oracle { .. } => (has_classes, has_writes) = (false, false),
        }
        let dropped = &mut self.dropped;
        if event.access == Access::Dirtied && !has_writes {
            // With all that it says.
            dropped.dirty_marks += pages;
            return;
        }
        if event.access == Access::Write && !has_writes {
            dropped.write_marks += pages;
        }
        if event.class.is_some() && !has_classes {
            dropped.classes += pages;
        }
        if event.time_us.is_some() && !has_times {
            dropped.times += pages;
        }
        let is_cut = event.time_us.is_some_and(|time_us| time_us % 1_000_000 != 0);
        if is_cut && matches!(self.encoder, Encoder::Oracle { .. }) {
            dropped.parts_of_seconds += pages;
        }
    }

    /// References written so far.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Ends the trace, and gives the file its name.
    ///
    /// # Errors
    /// When it cannot be written; then there is no file.
    pub fn finish(mut self) -> io::Result<()> {
        let target = self.target.take();
        let finished = match self.encoder {
            Encoder::Compact(writer) => writer.finish()?.finish(),
            Encoder::Ids(out) | Encoder::Csv { out, .. } => out.finish(),
            Encoder::Oracle { mut out, events, page_bytes } => {
                oracle_general(&mut out, &events, page_bytes)?;
                out.finish()
            }
        };
        let Some(target) = target else { return finished };
        finished?;
        File::open(&target.partial)?.sync_all()?;
        std::fs::rename(&target.partial, &target.path)
    }
}

impl Target {
    fn beside(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        Self { path: path.to_owned(), partial }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Gone already where writing ended well.
        let _ = std::fs::remove_file(&self.partial);
    }
}

impl Packed {
    fn new(sink: Box<dyn Write>, path: &Path) -> io::Result<Self> {
        let sink = BufWriter::with_capacity(1 << 16, sink);
        let ending = path.extension().and_then(|ending| ending.to_str());
        Ok(match ending {
            Some("gz") => {
                Self::Gz(flate2::write::GzEncoder::new(sink, flate2::Compression::new(LEVEL)))
            }
            Some("xz") => Self::Xz(liblzma::write::XzEncoder::new(sink, LEVEL)),
            Some("zst") => Self::Zst(zstd::stream::write::Encoder::new(sink, ZSTD_LEVEL)?),
            _ => Self::Plain(sink),
        })
    }

    fn finish(self) -> io::Result<()> {
        let mut sink = match self {
            Self::Plain(sink) => sink,
            Self::Gz(encoder) => encoder.finish()?,
            Self::Xz(encoder) => encoder.finish()?,
            Self::Zst(encoder) => encoder.finish()?,
        };
        sink.flush()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gz(out) => out.write(bytes),
            Self::Xz(out) => out.write(bytes),
            Self::Zst(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gz(out) => out.flush(),
            Self::Xz(out) => out.flush(),
            Self::Zst(out) => out.flush(),
        }
    }
}

/// Records with the place of the next reference to the same page, -1 for none.
fn oracle_general(out: &mut impl Write, events: &[(u64, u32)], page_bytes: u32) -> io::Result<()> {
    let mut next_of = vec![-1_i64; events.len()];
    let mut seen: std::collections::HashMap<u64, i64, foldhash::fast::FixedState> =
        std::collections::HashMap::default();
    for (place, ((page, _), next)) in events.iter().zip(&mut next_of).enumerate().rev() {
        if let Some(later) = seen.insert(*page, place as i64) {
            *next = later;
        }
    }
    for ((page, seconds), next) in events.iter().zip(&next_of) {
        out.write_all(&seconds.to_le_bytes())?;
        out.write_all(&page.to_le_bytes())?;
        out.write_all(&page_bytes.to_le_bytes())?;
        out.write_all(&next.to_le_bytes())?;
    }
    Ok(())
}

/// A field for CSV.
fn quote(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name }
}
