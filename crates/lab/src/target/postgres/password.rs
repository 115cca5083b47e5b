//! Where a password may come from, and what becomes of it: the one file that exposes secrets.
//!
//! A password is looked up in a password file (`~/.pgpass`; PostgreSQL `fe-connect.c`,
//! `passwordFromFile`) and becomes an answer to the server's question here and nowhere else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;

use crate::secret::Secret;

/// A password file is small; what is larger is something else.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// A password file, read.
pub(super) struct PasswordFile {
    entries: Vec<Entry>,
}

/// `host:port:database:user:password`; `None` is `*`.
struct Entry {
    patterns: [Option<String>; 4],
    password: Secret,
}

impl PasswordFile {
    /// Reads the file at `path`; `None` where there is none.
    ///
    /// # Errors
    /// With a warning to show where the file is not fit to be used, as psql warns and goes on.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, String> {
        let Ok(metadata) = std::fs::metadata(path) else { return Ok(None) };
        let shown = crate::text::terminal(&path.to_string_lossy()).into_owned();
        if !metadata.is_file() {
            return Err(format!("password file {shown} is not a plain file and is not used"));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(format!(
                "password file {shown} can be read by others and is not used; chmod 0600 it"
            ));
        }
        if metadata.len() > LARGEST_FILE_BYTES {
            return Err(format!(
                "password file {shown} has {} bytes, too many, and is not used",
                metadata.len()
            ));
        }
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(Self::parse(&String::from_utf8_lossy(&bytes)))),
            Err(error) => Err(format!("password file {shown} cannot be read: {error}")),
        }
    }

    /// The password of the first line that fits.
    pub(super) fn password(
        &self,
        host: &str,
        port: u16,
        database: &str,
        user: &str,
    ) -> Option<Secret> {
        let port = port.to_string();
        let wanted = [host, &port, database, user];
        self.entries
            .iter()
            .find(|entry| {
                entry
                    .patterns
                    .iter()
                    .zip(wanted)
                    .all(|(pattern, wanted)| pattern.as_ref().is_none_or(|text| text == wanted))
            })
            .map(|entry| entry.password.clone())
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { entries: lines.filter_map(Entry::parse).collect() }
    }
}

impl Entry {
    /// A line; `None` where it has too few fields (libpq passes over such lines in silence).
    fn parse(line: &str) -> Option<Self> {
        let mut rest = line;
        let mut patterns = [const { None }; 4];
        for pattern in &mut patterns {
            let (field, after) = split_field(rest)?;
            *pattern = if field == "*" { None } else { Some(unescaped(field)) };
            rest = after;
        }
        // The password ends at the next colon that is not escaped, should there be one.
        let password = split_field(rest).map_or(rest, |(field, _)| field);
        Some(Self { patterns, password: Secret::new(unescaped(password)) })
    }
}

/// Splits at the first colon without a backslash before it.
fn split_field(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b':' => return Some((&text[..i], &text[i + 1..])),
            _ => i += 1,
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => plain.extend(characters.next()),
            _ => plain.push(c),
        }
    }
    plain
}

/// The message that answers a request for the password as it is.
pub(super) fn cleartext_answer(secret: &Secret) -> std::io::Result<BytesMut> {
    let mut message = BytesMut::new();
    frontend::password_message(secret.expose().as_bytes(), &mut message)?;
    Ok(message)
}

/// The message that answers a request for an MD5 digest.
pub(super) fn md5_answer(secret: &Secret, user: &str, salt: [u8; 4]) -> std::io::Result<BytesMut> {
    let digest = md5_hash(user.as_bytes(), secret.expose().as_bytes(), salt);
    let mut message = BytesMut::new();
    frontend::password_message(digest.as_bytes(), &mut message)?;
    Ok(message)
}

/// A SCRAM-SHA-256 exchange (RFC 5802, RFC 7677).
pub(super) fn scram(secret: &Secret, binding: ChannelBinding) -> ScramSha256 {
    ScramSha256::new(secret.expose().as_bytes(), binding)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn found(file: &str, host: &str, port: u16, database: &str, user: &str) -> Option<String> {
        PasswordFile::parse(file)
            .password(host, port, database, user)
            .map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn the_first_line_that_fits_gives_the_password() {
        let file = "# comment\n\
                    short:line\n\
                    db.example:5432:app:alice:first\n\
                    db.example:*:*:alice:second\n\
                    we\\:ird\\\\host:1:*:*:pass\\:word\\\\:ignored\n\
                    *:*:*:*:last\n";
        let cases = [
            (("db.example", 5432, "app", "alice"), "first"),
            (("db.example", 5433, "app", "alice"), "second"),
            (("we:ird\\host", 1, "x", "y"), "pass:word\\"),
            (("elsewhere", 5432, "app", "bob"), "last"),
        ];
        for ((host, port, database, user), expected) in cases {
            assert_eq!(found(file, host, port, database, user).as_deref(), Some(expected));
        }
        assert_eq!(found("a:1:b:c:d\n", "a", 1, "b", "other"), None);
    }

    #[test]
    fn a_password_file_that_others_can_read_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pgpass");
        std::fs::File::create(&path).unwrap().write_all(b"*:*:*:*:canary\n").unwrap();
        for (mode, is_used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match PasswordFile::read(&path) {
                Ok(Some(file)) => assert!(is_used && file.password("", 1, "", "").is_some()),
                Ok(None) => panic!("the file exists"),
                Err(warning) => {
                    assert!(!is_used && warning.contains("chmod 0600"), "{warning}");
                    assert!(!warning.contains("canary"));
                }
            }
        }
        assert!(PasswordFile::read(directory.path()).is_err());
        assert!(PasswordFile::read(&directory.path().join("none")).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_a_password_file(text in "[a-z*:\\\\\n#é]{0,60}") {
            let _ = PasswordFile::parse(&text).password("a", 1, "b", "c");
        }

        #[test]
        fn an_escaped_field_comes_back(field in "[^\0\r\n]{1,20}", password in "[^\0\r\n]{0,20}") {
            prop_assume!(field != "*" && !field.starts_with('#'));
            let escape = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:");
            let line = format!("{}:*:*:*:{}", escape(&field), escape(&password));
            // A line ends where str::lines says so.
            prop_assume!(line.lines().count() == 1);
            prop_assert_eq!(found(&line, &field, 1, "b", "c"), Some(password));
        }
    }
}
