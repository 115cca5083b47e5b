//! Writes the format.

use std::io::{self, Write};

use super::{
    BLOCK_HEAD_BYTES, CLASS_CHANGES, CLASSES_MAX, Context, HAS_TIMES, MAGIC, NAME_MAX, PAYLOAD_MAX,
    RUN, RUN_MAX, VERSION, checksum, push_varint, zigzag,
};
use crate::trace::reference::{Access, Reference};

/// Payload at which a block is written: small enough that damage costs little, large enough that its
/// head does not.
const BLOCK_BYTES: usize = 1 << 16;

/// Most bytes of one event.
const EVENT_MAX: usize = 40;

/// Writes a trace as a stream. A file without [`CompactWriter::finish`] is one cut short, and readers
/// say so.
#[derive(Debug)]
pub struct CompactWriter<W: Write> {
    out: W,
    has_times: bool,
    events: Vec<u8>,
    count: u64,
    total: u64,
    context: Context,
    /// For events that say no time; unlike the context this lives on from block to block.
    latest_us: u64,
    classes: usize,
}

impl<W: Write> CompactWriter<W> {
    /// Begins a trace called `name` with pages of `page_bytes`. Times are kept if `has_times`; an event
    /// without one then takes that of the event before.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(mut out: W, name: &str, page_bytes: u32, has_times: bool) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let mut header = VERSION.to_le_bytes().to_vec();
        header.extend(page_bytes.to_le_bytes());
        header.push(if has_times { HAS_TIMES } else { 0 });
        header.extend(short(name).as_bytes());
        block(&mut out, b'H', &header)?;
        Ok(Self {
            out,
            has_times,
            events: Vec::with_capacity(BLOCK_BYTES + EVENT_MAX),
            count: 0,
            total: 0,
            context: Context::default(),
            latest_us: 0,
            classes: 0,
        })
    }

    /// Names the next class. Events may refer to it from here on.
    ///
    /// # Errors
    /// When there are too many, or `out` cannot be written.
    pub fn class(&mut self, name: &str) -> io::Result<()> {
        if self.classes >= CLASSES_MAX {
            return Err(io::Error::other(format!("more than {CLASSES_MAX} classes")));
        }
        self.flush()?;
        self.classes += 1;
        block(&mut self.out, b'C', short(name).as_bytes())
    }

    /// How many classes have been named.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Appends an event.
    ///
    /// # Errors
    /// When its class has no name, its run is none or longer than 2^22 pages, or `out` cannot be written.
    pub fn write(&mut self, event: &Reference) -> io::Result<()> {
        if event.pages == 0 || event.pages > RUN_MAX {
            return Err(io::Error::other(format!("a run of {} pages", event.pages)));
        }
        let class = event.class.map_or(0, |class| u32::from(class) + 1);
        if class as usize > self.classes {
            return Err(io::Error::other(format!("class {class} has no name")));
        }
        let mut head = match event.access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Dirtied => 2,
        };
        if event.pages != 1 {
            head |= RUN;
        }
        if class != self.context.class {
            head |= CLASS_CHANGES;
        }
        self.events.push(head);
        if event.pages != 1 {
            push_varint(&mut self.events, event.pages.into());
        }
        if class != self.context.class {
            push_varint(&mut self.events, class.into());
            self.context.class = class;
        }
        let place = self.context.place();
        let delta = event.page.wrapping_sub(self.context.expected_page[place]) as i64;
        push_varint(&mut self.events, zigzag(delta));
        self.context.expected_page[place] = event.page.wrapping_add(event.pages.into());
        if self.has_times {
            let time_us = event.time_us.unwrap_or(self.latest_us);
            self.latest_us = time_us;
            let delta = time_us.wrapping_sub(self.context.time_us) as i64;
            push_varint(&mut self.events, zigzag(delta));
            self.context.time_us = time_us;
        }
        self.count += 1;
        self.total += 1;
        if self.events.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Ends the trace and gives `out` back.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        block(&mut self.out, b'E', &self.total.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut payload = Vec::with_capacity(self.events.len() + 10);
        push_varint(&mut payload, self.count);
        payload.extend_from_slice(&self.events);
        block(&mut self.out, b'D', &payload)?;
        self.events.clear();
        self.count = 0;
        // A block stands alone.
        self.context = Context::default();
        Ok(())
    }
}

fn block(out: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    debug_assert!(payload.len() <= PAYLOAD_MAX, "blocks are cut well before the limit");
    let length =
        u32::try_from(payload.len()).map_err(|_| io::Error::other("a block of 4 GiB or more"))?;
    let mut head = [0; BLOCK_HEAD_BYTES];
    head[0] = kind;
    head[1..5].copy_from_slice(&length.to_le_bytes());
    head[5..].copy_from_slice(&checksum(kind, length, payload).to_le_bytes());
    out.write_all(&head)?;
    out.write_all(payload)
}

fn short(name: &str) -> &str {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
