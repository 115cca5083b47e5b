//! The bytes of a trace: from a file or the standard input, decompressed, with the place.
//!
//! Nothing here grows with what a file claims: decompressors have bounded windows, a line has a
//! bounded length, and what is read is handed on before more is.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use super::error::{Fault, Place};

/// Longest line of a text trace, in bytes: `pg_waldump` prints long records of invalidations.
const LINE_MAX: usize = 1 << 20;

/// How much is looked at to recognise a format.
pub(super) const LOOKED_AT: usize = 1 << 16;

/// Most memory for unpacking xz: what `xz -9` needs is 65 MiB.
const XZ_MEMORY_MAX: u64 = 128 << 20;

/// Compressed content within compressed content, at most.
const LAYERS_MAX: usize = 3;

/// The content of a trace.
pub(super) struct Input {
    content: Box<dyn BufRead>,
    /// Bytes of the file that have been read.
    packed: Rc<Cell<u64>>,
    /// Bytes of content that have been taken.
    offset: u64,
    /// Lines that have been taken.
    lines: u64,
    line: Vec<u8>,
    /// Names of the compressions, outermost first.
    layers: Vec<&'static str>,
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.count.set(self.count.get() + bytes as u64);
        Ok(bytes)
    }
}

impl Input {
    /// Opens a file, or the standard input for `-`; with the file's size where it is known.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<u64>), Fault> {
        if path.as_os_str() == "-" {
            return Ok((Self::new(Box::new(io::stdin()))?, None));
        }
        let failed = |error: io::Error| Fault::new(format!("cannot be opened: {error}"), "");
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Fault::new("is a folder", "name one trace"));
        }
        let length = metadata.is_file().then_some(metadata.len());
        Ok((Self::new(Box::new(file))?, length))
    }

    /// Of any bytes.
    pub(super) fn new(source: Box<dyn Read>) -> Result<Self, Fault> {
        let packed = Rc::new(Cell::new(0));
        let counted = Counted { inner: source, count: Rc::clone(&packed) };
        let mut content: Box<dyn BufRead> = Box::new(BufReader::with_capacity(LOOKED_AT, counted));
        let mut layers = Vec::new();
        loop {
            let (head, rest) = peek(content)?;
            let joined = io::Cursor::new(head.clone()).chain(rest);
            let name = compression(&head);
            if name.is_some() && layers.len() == LAYERS_MAX {
                return Err(Fault::new("is compressed more than three times", "unpack it once"));
            }
            let unpacked: Box<dyn Read> = match name {
                Some("gz") => Box::new(flate2::bufread::MultiGzDecoder::new(joined)),
                Some("xz") => Box::new(liblzma::bufread::XzDecoder::new_stream(
                    joined,
                    liblzma::stream::Stream::new_stream_decoder(
                        XZ_MEMORY_MAX,
                        liblzma::stream::CONCATENATED,
                    )
                    .map_err(|error| Fault::new(format!("cannot unpack xz: {error}"), ""))?,
                )),
                Some(_) => Box::new(
                    zstd::stream::read::Decoder::with_buffer(joined)
                        .map_err(|error| Fault::new(format!("cannot unpack zstd: {error}"), ""))?,
                ),
                None => {
                    let content: Box<dyn BufRead> = Box::new(joined);
                    return Ok(Self {
                        content,
                        packed,
                        offset: 0,
                        lines: 0,
                        line: Vec::new(),
                        layers,
                    });
                }
            };
            layers.extend(name);
            content = Box::new(BufReader::with_capacity(LOOKED_AT, unpacked));
        }
    }

    /// The first bytes, up to [`LOOKED_AT`], which stay to be read; less only where there are no more.
    pub(super) fn head(&mut self) -> Result<Vec<u8>, Fault> {
        let content = std::mem::replace(&mut self.content, Box::new(io::empty()));
        let (head, rest) = peek(content)?;
        self.content = Box::new(io::Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    /// The compressions, outermost first.
    pub(super) fn layers(&self) -> &[&'static str] {
        &self.layers
    }

    /// Bytes of the file that have been read: runs ahead of the content.
    pub(super) fn packed_bytes(&self) -> u64 {
        self.packed.get()
    }

    /// Bytes of content that have been taken.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The line that was taken last, from 1.
    pub(super) fn line_number(&self) -> u64 {
        self.lines
    }

    /// The next line without its end, `None` after the last.
    pub(super) fn line(&mut self) -> Result<Option<&[u8]>, Fault> {
        self.line.clear();
        let mut is_ended = false;
        while !is_ended {
            let available = match self.content.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(unreadable(&error).at(Place::Line(self.lines + 1)));
                }
            };
            if available.is_empty() {
                if self.line.is_empty() {
                    return Ok(None);
                }
                break;
            }
            let end = memchr::memchr(b'\n', available);
            let taken = end.map_or(available.len(), |end| end + 1);
            is_ended = end.is_some();
            self.line.extend_from_slice(&available[..taken - usize::from(is_ended)]);
            self.content.consume(taken);
            self.offset += taken as u64;
            if self.line.len() > LINE_MAX {
                return Err(Fault::new(
                    format!("a line of more than {LINE_MAX} bytes"),
                    "this is no text trace; name its format with --trace-format",
                )
                .at(Place::Line(self.lines + 1)));
            }
        }
        self.lines += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        // Editors of some systems mark UTF-8 by these bytes.
        let marked = if self.lines == 1 { self.line.strip_prefix(b"\xef\xbb\xbf") } else { None };
        Ok(Some(marked.unwrap_or(&self.line)))
    }

    /// Fills `record`; false where the content ends before its first byte.
    pub(super) fn record(&mut self, record: &mut [u8]) -> Result<bool, Fault> {
        let start = self.offset;
        let mut filled = 0;
        while filled < record.len() {
            match self.content.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => {
                    return Err(Fault::new(
                        format!(
                            "ends {filled} bytes into a record of {}: it was cut short",
                            record.len()
                        ),
                        "copy it again, or name its format with --trace-format if it is of another",
                    )
                    .at(Place::Offset(start)));
                }
                Ok(bytes) => {
                    filled += bytes;
                    self.offset += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error).at(Place::Offset(self.offset))),
            }
        }
        Ok(true)
    }
}

/// The first bytes, taken from a reader, and what is left.
fn peek(mut content: Box<dyn BufRead>) -> Result<(Vec<u8>, Box<dyn BufRead>), Fault> {
    let mut head = Vec::new();
    (&mut content)
        .take(LOOKED_AT as u64)
        .read_to_end(&mut head)
        .map_err(|error| unreadable(&error).at(Place::Offset(head.len() as u64)))?;
    Ok((head, content))
}

fn compression(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, 8, ..] => Some("gz"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        // A frame, or one to be skipped, by which some tools begin.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zst"),
        _ => None,
    }
}

fn unreadable(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::new(
            "the compressed content ends too early: the file was cut short",
            "copy or download it again",
        ),
        _ => Fault::new(
            format!("cannot be read: {error}"),
            "if it is compressed, the file is damaged: copy or download it again",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn input(bytes: Vec<u8>) -> Result<Input, Fault> {
        Input::new(Box::new(io::Cursor::new(bytes)))
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    fn lines(bytes: Vec<u8>) -> Result<Vec<String>, Fault> {
        let mut input = input(bytes)?;
        let mut lines = Vec::new();
        while let Some(line) = input.line()? {
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(lines)
    }

    #[test]
    fn parts_compressed_one_after_the_other_are_one_content() {
        for pack in [gz, xz, zst] {
            let mut bytes = pack(b"1\n2");
            bytes.extend(pack(b"3\r\n4"));
            assert_eq!(lines(bytes).unwrap(), ["1", "23", "4"]);
        }
        assert_eq!(lines(gz(&xz(b"7\n"))).unwrap(), ["7"]);
    }

    #[test]
    fn compressed_content_cut_anywhere_is_an_error() {
        for pack in [gz, xz, zst] {
            let whole = pack(b"11\n22\n33\n");
            for length in 7..whole.len() {
                assert!(lines(whole[..length].to_vec()).is_err(), "{length} of {}", whole.len());
            }
        }
    }

    #[test]
    fn content_packed_without_end_is_refused() {
        let mut bytes = b"1\n".to_vec();
        for _ in 0..6 {
            bytes = gz(&bytes);
        }
        assert!(input(bytes).err().unwrap().what.contains("three times"));
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let bomb = zst(&vec![b'7'; LINE_MAX * 3]);
        assert!(bomb.len() < 10_000);
        let fault = lines(bomb).unwrap_err();
        assert_eq!(fault.place, Some(Place::Line(1)));
    }

    #[test]
    fn what_was_looked_at_is_still_there_to_be_read() {
        let mut input = input(b"\xef\xbb\xbf1\n2\n".to_vec()).unwrap();
        assert_eq!(input.head().unwrap().len(), 7);
        assert_eq!(input.line().unwrap(), Some(&b"1"[..]));
        assert_eq!(input.line().unwrap(), Some(&b"2"[..]));
        assert_eq!(input.line().unwrap(), None);
        assert_eq!(input.line_number(), 2);
        assert_eq!(input.offset(), 7);
    }
}
