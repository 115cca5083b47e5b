//! Reads the format.

use super::{
    BLOCK_HEAD_BYTES, CLASS_CHANGES, CLASSES_MAX, Context, HAS_TIMES, MAGIC, NAME_MAX, PAYLOAD_MAX,
    RUN, RUN_MAX, VERSION, checksum, take_varint, unzigzag,
};
use crate::trace::error::{Fault, Place};
use crate::trace::input::Input;
use crate::trace::reference::{Access, Reference};

const DAMAGED: &str = "the file is damaged from here on: copy it again";

/// Decodes a trace block by block.
pub(in crate::trace) struct CompactReader {
    /// Bytes of a page.
    pub(in crate::trace) page_bytes: u32,
    /// The trace's name.
    pub(in crate::trace) name: String,
    has_times: bool,
    classes: Vec<String>,
    events: u64,
    payload: Vec<u8>,
}

impl CompactReader {
    /// Reads the header.
    pub(in crate::trace) fn new(input: &mut Input) -> Result<Self, Fault> {
        let mut magic = [0; MAGIC.len()];
        if !input.record(&mut magic)? || magic != *MAGIC {
            return Err(Fault::new(
                "does not begin as evenkeel's traces do",
                "leave --trace-format out, so that the format is recognised",
            )
            .at(Place::Offset(0)));
        }
        let mut payload = Vec::new();
        let kind = block(input, &mut payload)?;
        let offset = Place::Offset(MAGIC.len() as u64);
        let damaged = |what: &str| Fault::new(what, DAMAGED).at(offset);
        let (Some(b'H'), Some((fixed, name))) = (kind, payload.split_at_checked(7)) else {
            return Err(damaged("the header is missing"));
        };
        let version = u16::from_le_bytes([fixed[0], fixed[1]]);
        if version != VERSION {
            return Err(Fault::new(
                format!("is of version {version}, this evenkeel reads {VERSION}"),
                "read it with the evenkeel that wrote it, or a newer one",
            )
            .at(offset));
        }
        let page_bytes = u32::from_le_bytes([fixed[2], fixed[3], fixed[4], fixed[5]]);
        if page_bytes == 0 {
            return Err(damaged("pages of no byte"));
        }
        Ok(Self {
            page_bytes,
            name: text(name).ok_or_else(|| damaged("the name is no text"))?,
            has_times: fixed[6] & HAS_TIMES != 0,
            classes: Vec::new(),
            events: 0,
            payload,
        })
    }

    /// Appends the next events; false at the end.
    pub(in crate::trace) fn decode(
        &mut self,
        input: &mut Input,
        out: &mut Vec<Reference>,
    ) -> Result<bool, Fault> {
        let start = input.offset();
        let damaged = |what: String| Fault::new(what, DAMAGED).at(Place::Offset(start));
        let Some(kind) = block(input, &mut self.payload)? else {
            return Err(Fault::new(
                format!("ends after {} events without an end block: it was cut short", self.events),
                "copy it again",
            )
            .at(Place::Offset(start)));
        };
        match kind {
            b'C' if self.classes.len() < CLASSES_MAX => {
                let name = text(&self.payload);
                let name = name.ok_or_else(|| damaged("a class's name is no text".to_owned()))?;
                self.classes.push(name);
                Ok(true)
            }
            b'D' => {
                let before = out.len();
                self.events(out).ok_or_else(|| damaged("a block that cannot be".to_owned()))?;
                self.events += (out.len() - before) as u64;
                Ok(true)
            }
            b'E' => {
                let total = self.payload.as_slice().try_into().map(u64::from_le_bytes).ok();
                if total != Some(self.events) {
                    return Err(damaged(format!(
                        "{} events are not what was written",
                        self.events
                    )));
                }
                let mut rest = [0];
                if input.record(&mut rest)? {
                    return Err(damaged("bytes after the end".to_owned()));
                }
                Ok(false)
            }
            other => Err(damaged(format!("an unknown block '{}'", other.escape_ascii()))),
        }
    }

    /// Names of classes so far.
    pub(in crate::trace) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Decodes the payload of a block of events; `None` where it cannot be.
    fn events(&self, out: &mut Vec<Reference>) -> Option<()> {
        let mut bytes = self.payload.as_slice();
        let count = take_varint(&mut bytes)?;
        let mut context = Context::default();
        for _ in 0..count {
            // Ends at the payload's end at the latest, whatever the count says.
            let (head, rest) = bytes.split_first()?;
            bytes = rest;
            let access = match head & 3 {
                0 => Access::Read,
                1 => Access::Write,
                2 => Access::Dirtied,
                _ => return None,
            };
            if head & !(3 | RUN | CLASS_CHANGES) != 0 {
                return None;
            }
            let pages = if head & RUN == 0 { 1 } else { take_varint(&mut bytes)? };
            let pages = u32::try_from(pages).ok().filter(|pages| (1..=RUN_MAX).contains(pages))?;
            if head & CLASS_CHANGES != 0 {
                context.class = u32::try_from(take_varint(&mut bytes)?).ok()?;
                if context.class as usize > self.classes.len() {
                    return None;
                }
            }
            let place = context.place();
            let delta = unzigzag(take_varint(&mut bytes)?);
            let page = context.expected_page[place].wrapping_add_signed(delta);
            context.expected_page[place] = page.wrapping_add(pages.into());
            let time_us = if self.has_times {
                let delta = unzigzag(take_varint(&mut bytes)?);
                context.time_us = context.time_us.wrapping_add_signed(delta);
                Some(context.time_us)
            } else {
                None
            };
            let class = context.class.checked_sub(1).and_then(|class| u16::try_from(class).ok());
            out.push(Reference { page, pages, access, time_us, class });
        }
        bytes.is_empty().then_some(())
    }
}

/// Reads a block's payload and gives its kind; `None` at the end of the content.
fn block(input: &mut Input, payload: &mut Vec<u8>) -> Result<Option<u8>, Fault> {
    let start = Place::Offset(input.offset());
    let mut head = [0; BLOCK_HEAD_BYTES];
    if !input.record(&mut head)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let crc = u32::from_le_bytes([head[5], head[6], head[7], head[8]]);
    if length as usize > PAYLOAD_MAX {
        return Err(Fault::new(format!("a block of {length} bytes"), DAMAGED).at(start));
    }
    payload.clear();
    payload.resize(length as usize, 0);
    if length > 0 && !input.record(payload)? {
        return Err(Fault::new("ends within a block: it was cut short", "copy it again").at(start));
    }
    if checksum(head[0], length, payload) != crc {
        return Err(Fault::new("a block's checksum does not fit", DAMAGED).at(start));
    }
    Ok(Some(head[0]))
}

fn text(bytes: &[u8]) -> Option<String> {
    if bytes.len() > NAME_MAX {
        return None;
    }
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}
