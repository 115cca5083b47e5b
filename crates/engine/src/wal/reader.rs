//! Reads the log forward, each record verified, and finds where it ends.

use std::sync::Arc;

use super::error::WalError;
use super::position::{FIRST, group_start};
use super::record::{HEADER_BYTES, Link, NotARecord, Record, length, verify};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, Segments};
use crate::page::{DatabaseId, Lsn};
use crate::vfs::File;

/// What is read from a file at once.
const WINDOW_BYTES: usize = 64 << 10;

/// Bytes of the log as they lie in segments, wherever they come from.
struct Stream<'a> {
    segments: &'a Segments,
    database: DatabaseId,
    /// The file that was read last.
    file: Option<(u64, Arc<dyn File>)>,
    window: Vec<u8>,
    window_start: Lsn,
}

impl Stream<'_> {
    /// The bytes from `at` on, `count` of them, or as many as there are without a gap. A segment that is
    /// missing or short is a gap, an error of the system is an error (rule W7).
    fn bytes(&mut self, at: Lsn, count: usize) -> Result<&[u8], WalError> {
        let start =
            at.0.checked_sub(self.window_start.0).and_then(|start| usize::try_from(start).ok());
        let is_there =
            |start: usize| start <= self.window.len() && self.window.len() - start >= count;
        if !start.is_some_and(is_there) {
            self.window.clear();
            self.window_start = at;
            let wanted = count.max(WINDOW_BYTES);
            while self.window.len() < wanted && self.read_more(wanted)? {}
        }
        let start = usize::try_from(at.0 - self.window_start.0).unwrap_or(usize::MAX);
        let bytes = self.window.get(start..).unwrap_or(&[]);
        Ok(&bytes[..bytes.len().min(count)])
    }

    /// The bytes of what may be a record at `at`.
    fn record_bytes(&mut self, at: Lsn) -> Result<Result<&[u8], NotARecord>, WalError> {
        match length(self.bytes(at, HEADER_BYTES)?) {
            Ok(length) => Ok(Ok(self.bytes(at, length.next_multiple_of(8))?)),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Whether there is a record at `at`.
    fn verify(&mut self, at: Lsn) -> Result<Result<Link, NotARecord>, WalError> {
        let database = self.database;
        Ok(self.record_bytes(at)?.and_then(|bytes| verify(bytes, at, database)))
    }

    /// Appends to the window what its next segment has; false at a gap.
    fn read_more(&mut self, wanted: usize) -> Result<bool, WalError> {
        let at = Lsn(self.window_start.0 + self.window.len() as u64);
        let geometry = self.segments.geometry();
        let (segment, offset) = geometry.place(at);
        let Some(file) = self.file(segment)? else { return Ok(false) };
        let left = usize::try_from(geometry.segment_bytes() - offset).unwrap_or(usize::MAX);
        let have = self.window.len();
        self.window.resize(have + left.min(wanted - have), 0);
        let read = file.read_at(offset, &mut self.window[have..])?;
        self.window.truncate(have + read);
        Ok(read > 0)
    }

    fn file(&mut self, segment: u64) -> Result<Option<Arc<dyn File>>, WalError> {
        match &self.file {
            Some((of, file)) if *of == segment => Ok(Some(Arc::clone(file))),
            _ => {
                let Some(file) = self.segments.file(segment)? else { return Ok(None) };
                self.check_header(segment, &*file)?;
                self.file = Some((segment, Arc::clone(&file)));
                Ok(Some(file))
            }
        }
    }

    /// A segment of another database is a mix-up that must be told. Any other header says nothing against
    /// the records, which are verified by themselves: a crash may leave an old header or none.
    fn check_header(&self, segment: u64, file: &dyn File) -> Result<(), WalError> {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        file.read_at(0, &mut bytes)?;
        match SegmentHeader::decode(&bytes) {
            Some(header) if header.database != self.database => Err(WalError::Corrupt {
                at: self.segments.geometry().start_of(segment),
                what: format!(
                    "segment {segment:016x} belongs to database {:016x}, not to {:016x}",
                    header.database.0, self.database.0
                ),
            }),
            _ => Ok(()),
        }
    }
}

/// Reads records one after the other, from a redo point to the end.
pub struct LogReader<'a> {
    stream: Stream<'a>,
    incarnation: u32,
    position: Lsn,
    previous: Lsn,
    watermark: Lsn,
    /// Whether the last record was a mark: then the zeros to the end of its sector belong to its group.
    is_group_closed: bool,
    ended_by: Option<NotARecord>,
}

impl<'a> LogReader<'a> {
    /// Reads from `start`, a place where a group or a redo point begins; `previous` is the start of the
    /// record before.
    #[must_use]
    pub fn new(
        segments: &'a Segments,
        database: DatabaseId,
        incarnation: u32,
        start: Lsn,
        previous: Lsn,
    ) -> Self {
        let stream =
            Stream { segments, database, file: None, window: Vec::new(), window_start: Lsn(0) };
        let position = start.max(FIRST);
        Self {
            stream,
            incarnation,
            position,
            previous,
            watermark: Lsn(0),
            is_group_closed: true,
            ended_by: None,
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// `Vfs`, `Corrupt` for a segment of another database.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, WalError> {
        if self.ended_by.is_some() {
            return Ok(None);
        }
        if let Err(why) = self.find()? {
            self.ended_by = Some(why);
            return Ok(None);
        }
        let at = self.position;
        let parsed = self.stream.record_bytes(at)?.and_then(|bytes| Record::parse(bytes, at));
        match parsed {
            Err(why) => {
                self.ended_by = Some(why);
                Ok(None)
            }
            Ok(record) => {
                self.previous = record.start;
                self.position = record.end;
                self.is_group_closed = record.watermark().is_some();
                self.watermark = self.watermark.max(record.watermark().unwrap_or(Lsn(0)));
                Ok(Some(record))
            }
        }
    }

    /// Moves to the next record: here, or where the next sector begins. What lies between does not matter: that
    /// nothing was lost there is what the record behind says, which names the one before it.
    fn find(&mut self) -> Result<Result<(), NotARecord>, WalError> {
        let found = self.accept(self.position)?;
        let next = group_start(self.position);
        if found.is_err() && next > self.position && self.accept(next)?.is_ok() {
            self.position = next;
            return Ok(Ok(()));
        }
        Ok(found)
    }

    /// Whether the record at `at` continues the chain (rules W3, W11).
    fn accept(&mut self, at: Lsn) -> Result<Result<(), NotARecord>, WalError> {
        let (incarnation, previous) = (self.incarnation, self.previous);
        Ok(self.stream.verify(at)?.and_then(|link| {
            if link.incarnation != incarnation {
                return Err(NotARecord::Field("the incarnation"));
            }
            if link.previous != previous {
                return Err(NotARecord::Field("the position of the record before"));
            }
            Ok(())
        }))
    }

    /// Behind the last record that was read.
    #[must_use]
    pub const fn position(&self) -> Lsn {
        self.position
    }

    /// What of the log there is: to the end of a group's sector, or to the end of a record when the mark
    /// that would have ended its group is not there.
    fn end(&self) -> Lsn {
        if self.is_group_closed { group_start(self.position) } else { self.position }
    }

    /// The start of the last record that was read.
    #[must_use]
    pub const fn previous(&self) -> Lsn {
        self.previous
    }

    /// The highest watermark in the marks that were read.
    #[must_use]
    pub const fn watermark(&self) -> Lsn {
        self.watermark
    }

    /// Why what stands at the end is no record; once there.
    #[must_use]
    pub const fn ended_by(&self) -> Option<NotARecord> {
        self.ended_by
    }

    /// Judges the end that was reached (rule W6): nothing may show that more was durable.
    ///
    /// # Errors
    /// `Corrupt` when it is a hole; `Vfs`.
    pub fn check_end(&mut self, durable: Lsn) -> Result<(), WalError> {
        let (at, end) = (self.position, self.end());
        let hole = |what: String| Err(WalError::Corrupt { at, what });
        if durable > end {
            return hole(format!(
                "it ends here, and the control file says it was durable up to {durable}"
            ));
        }
        let geometry = self.stream.segments.geometry();
        let mut at = group_start(end);
        for segment in self.stream.segments.existing()? {
            let (start, next) = (geometry.start_of(segment), geometry.start_of(segment + 1));
            if next <= end {
                continue;
            }
            // A record that crosses into this segment has brought `at` behind its begin.
            at = at.max(group_start(start));
            while at < next {
                at = match self.evidence(at)? {
                    Ok(behind) => behind,
                    Err(what) => return hole(what),
                };
            }
        }
        Ok(())
    }

    /// Whether a record at `at`, behind the end, shows that more was durable; if not, where to look next.
    fn evidence(&mut self, at: Lsn) -> Result<Result<Lsn, String>, WalError> {
        let (incarnation, end) = (self.incarnation, self.end());
        let database = self.stream.database;
        let Ok(record) =
            self.stream.record_bytes(at)?.and_then(|bytes| Record::decode(bytes, at, database))
        else {
            return Ok(Ok(group_start(Lsn(at.0 + 1))));
        };
        if record.incarnation > incarnation {
            return Ok(Err(format!(
                "it ends here in incarnation {incarnation}, and at {at} lies a record of incarnation {}: \
                 the control file is older than the log",
                record.incarnation
            )));
        }
        match record.watermark() {
            Some(watermark) if record.incarnation == incarnation && watermark > end => Ok(Err(
                format!("it ends here, and the mark at {at} says it was durable up to {watermark}"),
            )),
            // A mark ends its group, any other record is followed by one of the group or its zeros.
            Some(_) => Ok(Ok(group_start(record.end))),
            None => Ok(Ok(record.end)),
        }
    }
}
