//! Names of files below the directory of a database (rule V7).

use std::fmt;

use super::error::{Operation, VfsError, VfsErrorKind};

/// Longest name, in bytes: well below what any file system and socket path allows.
pub const NAME_BYTES_MAX: usize = 200;

/// A relative path of plain parts, such as `base/16384.1`; the empty name is the directory itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The directory of the database itself.
    #[must_use]
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Checks a name.
    ///
    /// # Errors
    /// [`VfsErrorKind::Invalid`] when a part is empty, begins with a dot or holds another character
    /// than `a-z`, `0-9`, `.`, `_`, `-`, or when the whole is longer than [`NAME_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, VfsError> {
        let is_plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        };
        if text.len() > NAME_BYTES_MAX || (!text.is_empty() && !text.split('/').all(is_plain)) {
            return Err(VfsError::new(
                Operation::Name,
                text,
                VfsErrorKind::Invalid,
                "names are parts of a-z, 0-9, '.', '_' and '-' joined by '/', not beginning with \
                 a dot, of 200 bytes at most",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name `part` within this directory.
    ///
    /// # Errors
    /// As [`Name::parse`].
    pub fn join(&self, part: &str) -> Result<Self, VfsError> {
        if self.0.is_empty() {
            Self::parse(part)
        } else {
            Self::parse(&format!("{}/{part}", self.0))
        }
    }

    /// The directory this name lies in; the root lies in itself.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0.rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned()))
    }

    /// The last part.
    #[must_use]
    pub fn last(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, last)| last)
    }

    /// The whole, parts joined by `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the directory of the database itself.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for text in [
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "a/",
            ".hidden",
            "A",
            "a b",
            "a\0",
            "\u{e9}",
            "a\\b",
        ] {
            let error = Name::parse(text).unwrap_err();
            assert_eq!(error.kind(), VfsErrorKind::Invalid, "{text:?}");
        }
        assert!(Name::parse(&"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(Name::parse(&"x".repeat(NAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_name_knows_its_directory() {
        let name = Name::root().join("base").unwrap().join("16384.1").unwrap();
        assert_eq!((name.as_str(), name.last()), ("base/16384.1", "16384.1"));
        assert_eq!(name.parent(), Name::parse("base").unwrap());
        assert_eq!(name.parent().parent(), Name::root());
        assert_eq!(Name::root().to_string(), ".");
    }
}
