//! All transactions of one thread, 32 bytes each.
//!
//! Recording a transaction writes into memory that is there already: chunks are handed in by the
//! task that conducts the run, before they are needed. Think time and retries, which most
//! transactions do not have, are kept aside.

use super::record::{Outcome, TransactionRecord};

/// Records in a chunk (2 MiB).
pub const CHUNK_RECORDS: usize = 1 << 16;

/// Set in [`Packed::outcome`] where the record has an [`Extra`].
const HAS_EXTRA: u8 = 0x80;

/// The records of one thread in the order in which they were made.
#[derive(Debug, Default)]
pub struct RecordLog {
    full: Vec<Chunk>,
    current: Vec<Packed>,
    current_extras: Vec<Extra>,
    spare: Option<Vec<Packed>>,
}

/// How far a reader of a growing log has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCursor {
    chunk: usize,
    record: usize,
    extra: usize,
}

#[derive(Debug)]
struct Chunk {
    records: Vec<Packed>,
    extras: Vec<Extra>,
}

#[derive(Clone, Copy, Debug)]
struct Packed {
    planned_ns: u64,
    start_ns: u64,
    end_ns: u64,
    client: u32,
    script: u16,
    outcome: u8,
}

#[derive(Clone, Copy, Debug)]
struct Extra {
    think_ns: u64,
    retries: u32,
}

const OUTCOMES: [Outcome; 7] = [
    Outcome::Committed,
    Outcome::SerializationFailure,
    Outcome::Deadlock,
    Outcome::OtherError,
    Outcome::Skipped,
    Outcome::Censored,
    Outcome::Aborted,
];

impl RecordLog {
    /// An empty log with a first chunk and a spare one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            // Room for the chunks of 2^32 records.
            full: Vec::with_capacity(1 << 10),
            current: Vec::with_capacity(CHUNK_RECORDS),
            current_extras: Vec::new(),
            spare: Some(Vec::with_capacity(CHUNK_RECORDS)),
        }
    }

    /// Adds a record. Allocates only where the spare chunk has not been replaced in time.
    #[inline]
    pub fn push(&mut self, record: &TransactionRecord) {
        if self.current.len() == self.current.capacity() {
            self.next_chunk();
        }
        let mut outcome = record.outcome as u8;
        if record.think_ns != 0 || record.retries != 0 {
            outcome |= HAS_EXTRA;
            self.current_extras.push(Extra { think_ns: record.think_ns, retries: record.retries });
        }
        self.current.push(Packed {
            planned_ns: record.planned_ns,
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            client: record.client,
            script: record.script,
            outcome,
        });
    }

    /// Whether the spare chunk has been used.
    #[must_use]
    pub const fn wants_spare(&self) -> bool {
        self.spare.is_none()
    }

    /// Makes room for [`CHUNK_RECORDS`] further records ahead of need.
    pub fn refill(&mut self, room: RecordRoom) {
        self.spare.get_or_insert(room.0);
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.iter().map(|chunk| chunk.records.len()).sum::<usize>() + self.current.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records in order.
    pub fn iter(&self) -> impl Iterator<Item = TransactionRecord> + '_ {
        self.full
            .iter()
            .map(|chunk| (&chunk.records, &chunk.extras))
            .chain(std::iter::once((&self.current, &self.current_extras)))
            .flat_map(|(records, extras)| {
                let mut extras = extras.iter();
                records.iter().map(move |packed| {
                    let extra = if packed.outcome & HAS_EXTRA == 0 { None } else { extras.next() };
                    packed.unpack(extra)
                })
            })
    }

    /// Copies up to `count_max` records from `cursor` on to the end of `records`, and moves the cursor
    /// behind them. Fewer than asked for: there are no more yet.
    pub fn read(
        &self,
        cursor: &mut RecordCursor,
        count_max: usize,
        records: &mut Vec<TransactionRecord>,
    ) {
        let mut left = count_max;
        while left > 0 {
            let (packed, extras, is_last) = match self.full.get(cursor.chunk) {
                Some(chunk) => (&chunk.records, &chunk.extras, false),
                None => (&self.current, &self.current_extras, true),
            };
            for packed in packed.iter().skip(cursor.record).take(left) {
                let mut extra = None;
                if packed.outcome & HAS_EXTRA != 0 {
                    extra = extras.get(cursor.extra);
                    cursor.extra += 1;
                }
                records.push(packed.unpack(extra));
                cursor.record += 1;
                left -= 1;
            }
            if is_last {
                return;
            }
            if cursor.record >= packed.len() {
                *cursor = RecordCursor { chunk: cursor.chunk + 1, ..RecordCursor::default() };
            }
        }
    }

    #[cold]
    fn next_chunk(&mut self) {
        let next = self.spare.take().unwrap_or_else(|| Vec::with_capacity(CHUNK_RECORDS));
        let records = std::mem::replace(&mut self.current, next);
        if !records.is_empty() {
            let extras = std::mem::take(&mut self.current_extras);
            self.full.push(Chunk { records, extras });
        }
    }
}

/// Memory for a chunk of records.
#[derive(Debug)]
pub struct RecordRoom(Vec<Packed>);

impl RecordRoom {
    /// Allocates it.
    #[must_use]
    pub fn new() -> Self {
        Self(Vec::with_capacity(CHUNK_RECORDS))
    }
}

impl Default for RecordRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl Packed {
    fn unpack(&self, extra: Option<&Extra>) -> TransactionRecord {
        let outcome = usize::from(self.outcome & !HAS_EXTRA);
        TransactionRecord {
            planned_ns: self.planned_ns,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            think_ns: extra.map_or(0, |extra| extra.think_ns),
            client: self.client,
            retries: extra.map_or(0, |extra| extra.retries),
            script: self.script,
            outcome: OUTCOMES.get(outcome).copied().unwrap_or(Outcome::Aborted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: u64) -> TransactionRecord {
        TransactionRecord {
            planned_ns: index,
            start_ns: index + 1,
            end_ns: index + 10,
            think_ns: if index.is_multiple_of(7) { index } else { 0 },
            client: 3,
            retries: u32::from(index.is_multiple_of(11)),
            script: 2,
            outcome: OUTCOMES[usize::try_from(index % 7).unwrap()],
        }
    }

    #[test]
    fn records_come_back_as_they_went_in_across_chunks() {
        let mut log = RecordLog::new();
        let count = CHUNK_RECORDS as u64 * 2 + 5;
        for index in 0..count {
            log.push(&record(index));
        }
        assert_eq!(log.len() as u64, count);
        for (index, seen) in log.iter().enumerate() {
            assert_eq!(seen, record(index as u64));
        }
    }

    #[test]
    fn recording_a_transaction_allocates_nothing_while_chunks_are_handed_in() {
        let mut log = RecordLog::new();
        // The second chunk is the spare one; a third is handed in, as the conductor does.
        let counted = allocation_counter::measure(|| {
            for index in 0..CHUNK_RECORDS as u64 * 2 {
                log.push(&TransactionRecord { think_ns: 0, retries: 0, ..record(index) });
            }
        });
        assert_eq!(counted.count_total, 0, "{counted:?}");
        let room = RecordRoom::new();
        let counted = allocation_counter::measure(|| {
            log.refill(room);
            for index in 0..CHUNK_RECORDS as u64 {
                log.push(&TransactionRecord { think_ns: 0, retries: 0, ..record(index) });
            }
        });
        assert_eq!(counted.count_total, 0, "{counted:?}");
    }

    #[test]
    fn a_reader_of_a_growing_log_sees_each_record_once() {
        let mut log = RecordLog::new();
        let mut cursor = RecordCursor::default();
        let mut seen = Vec::new();
        let count = CHUNK_RECORDS as u64 * 2 + 5;
        for index in 0..count {
            log.push(&record(index));
            // Reads that end within a chunk, at its end, and that find nothing.
            if index.is_multiple_of(9973) || index == CHUNK_RECORDS as u64 - 1 {
                log.read(&mut cursor, 7000, &mut seen);
                log.read(&mut cursor, 0, &mut seen);
            }
        }
        log.read(&mut cursor, usize::MAX, &mut seen);
        log.read(&mut cursor, usize::MAX, &mut seen);
        assert_eq!(seen.len() as u64, count);
        assert!(seen.iter().zip(0..).all(|(seen, index)| *seen == record(index)));
    }

    #[test]
    fn a_record_takes_32_bytes() {
        assert_eq!(std::mem::size_of::<Packed>(), 32);
    }

    #[test]
    fn a_spare_chunk_is_asked_for_once_it_is_used() {
        let mut log = RecordLog::new();
        for index in 0..=CHUNK_RECORDS as u64 {
            log.push(&record(index));
        }
        assert!(log.wants_spare());
        log.refill(RecordRoom::new());
        assert!(!log.wants_spare());
    }
}
