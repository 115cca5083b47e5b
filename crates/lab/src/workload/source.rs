//! A script's text: read within bounds, brought into one form, and its places.

use std::io::Read as _;

use super::error::ScriptError;
use super::expression::Place;

/// Largest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 16 << 20;

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A script's text, with line feeds alone at lines' ends and without a byte order mark, so that a file
/// means the same whichever system it was saved on.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Where lines begin.
    lines: Vec<usize>,
}

impl Source {
    /// Takes a script in.
    ///
    /// # Errors
    /// When it is too large, has too long a line, or holds a NUL.
    pub(crate) fn new(name: &str, text: &str) -> Result<Self, ScriptError> {
        if text.len() > SCRIPT_BYTES_MAX {
            return Err(too_large(name));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text.to_owned() };
        let mut lines = vec![0];
        lines.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        let ends = lines.iter().skip(1).copied().chain([text.len()]);
        if let Some((start, _)) =
            lines.iter().zip(ends).find(|(start, end)| end - *start > LINE_BYTES_MAX)
        {
            let message = format!("a line has at most {} KiB", LINE_BYTES_MAX >> 10);
            return Err(ScriptError::at(name, &text, *start, message));
        }
        if let Some(at) = memchr::memchr(0, text.as_bytes()) {
            let message = "a NUL character, which no server accepts; is this a text file?";
            return Err(ScriptError::at(name, &text, at, message));
        }
        Ok(Self { name: name.to_owned(), text, lines })
    }

    /// The line (from 1) of a byte offset.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        let line = self.lines.partition_point(|start| *start <= offset);
        u32::try_from(line).unwrap_or(u32::MAX)
    }

    /// Line and column of a byte offset.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.line(offset);
        let start = self.lines.get(line.saturating_sub(1) as usize).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or("");
        let column = u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX);
        Place { line, column }
    }

    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> ScriptError {
        ScriptError::at(&self.name, &self.text, offset, message)
    }
}

/// Reads a script's file; `-` is the standard input.
///
/// # Errors
/// When it cannot be read, is too large, or is not in UTF-8.
pub fn read_script(path: &str) -> Result<String, ScriptError> {
    let failed = |error: std::io::Error| {
        ScriptError::whole(path, format!("this script cannot be read: {error}"))
    };
    // One byte more shows that there is too much; a device may never end.
    let limit = SCRIPT_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if path == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() > SCRIPT_BYTES_MAX {
        return Err(too_large(path));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(error.as_bytes().get(..at).unwrap_or(b""));
        let line = before.matches('\n').count() + 1;
        let message = format!(
            "line {line} (byte {at} of the file) is not in UTF-8; convert the file, for example \
             with iconv -f LATIN1 -t UTF-8"
        );
        ScriptError::whole(path, message)
    })
}

fn too_large(name: &str) -> ScriptError {
    ScriptError::whole(name, format!("a script has at most {} MiB", SCRIPT_BYTES_MAX >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let source = Source::new("s", "a\r\nöb\r\n\r\nc").unwrap();
        assert_eq!(source.text, "a\nöb\n\nc");
        assert_eq!(source.place(0), Place { line: 1, column: 1 });
        assert_eq!(source.place(4), Place { line: 2, column: 2 });
        assert_eq!(source.place(6), Place { line: 3, column: 1 });
        assert_eq!(source.place(7), Place { line: 4, column: 1 });
    }

    #[test]
    fn a_file_that_is_no_script_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("script.sql");
        let path = path.to_str().unwrap();
        let missing = read_script(path).unwrap_err().to_string();
        assert!(missing.contains("cannot be read"), "{missing}");
        std::fs::write(path, b"SELECT 1;\nSELECT '\xe9';\n").unwrap();
        let latin = read_script(path).unwrap_err().to_string();
        assert!(latin.contains("line 2 (byte 18 of the file) is not in UTF-8"), "{latin}");
        let endless = read_script("/dev/zero").unwrap_err().to_string();
        assert!(endless.contains("at most 16 MiB"), "{endless}");
        assert!(Source::new("s", "a\0b").unwrap_err().to_string().starts_with("s:1:2: a NUL"));
    }
}
