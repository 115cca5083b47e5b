//! The two notations of connection strings: `postgresql://...` and `keyword = value ...`.
//!
//! Grammar as libpq's (PostgreSQL `src/interfaces/libpq/fe-connect.c`, `conninfo_parse` and
//! `conninfo_uri_parse`; manual section "Connection Strings"). This file only splits a string into
//! parameters; what they mean is `address.rs`'s business.
//!
//! # Rules
//!
//! 1. A parameter given twice: the last one holds, as in libpq.
//! 2. An error names the position (in characters, from 1) and never repeats a value, which may be a
//!    password.
//! 3. A name that is not known is an error that lists near matches; a name that libpq knows and we
//!    do not support says so.

use std::collections::BTreeMap;

use super::address::AddressError;

/// Parameters by name, with the position (in characters, from 1) at which each one stands.
pub(super) type Parameters = BTreeMap<&'static str, Parameter>;

/// The value of a parameter.
#[derive(Clone)]
pub(super) struct Parameter {
    /// The value, unescaped. It may be a password: never shown.
    pub(super) value: String,
    /// Where it came from, for messages.
    pub(super) origin: String,
}

/// Every parameter that we understand.
pub(super) const SUPPORTED: &[&str] = &[
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "options",
    "passfile",
    "password",
    "port",
    "service",
    "servicefile",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "user",
];

/// Parameters of libpq that we refuse, because to ignore them could change what is measured or
/// weaken what was asked for.
const UNSUPPORTED: &[&str] = &[
    "gssdelegation",
    "gsslib",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "max_protocol_version",
    "min_protocol_version",
    "oauth_client_id",
    "oauth_issuer",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "scram_client_key",
    "scram_server_key",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkeylogfile",
    "sslpassword",
    "tcp_user_timeout",
];

/// Whether `text` is in one of the two notations (a plain word is a database's name).
pub(super) fn is_connection_string(text: &str) -> bool {
    uri_rest(text).is_some() || text.contains('=')
}

/// Splits a connection string of either notation.
pub(super) fn parse(text: &str) -> Result<Parameters, AddressError> {
    if text.contains('\0') {
        return Err(at(text, text.find('\0').unwrap_or(0), "a NUL character", "remove it"));
    }
    match uri_rest(text) {
        Some(start) => Uri { text, parameters: Parameters::new() }.parse(start),
        None => parse_keywords(text),
    }
}

/// The static name of parameter `name`, or why it is refused. `wherever` begins the message.
pub(super) fn known_name(name: &str, wherever: &str) -> Result<&'static str, AddressError> {
    if let Some(known) = SUPPORTED.iter().find(|known| **known == name) {
        return Ok(known);
    }
    let shown = crate::text::excerpt(name, 40);
    if UNSUPPORTED.contains(&name) {
        return Err(AddressError::new(format!(
            "{wherever}: parameter \"{shown}\" of libpq is not supported here; leave it out"
        )));
    }
    let mut near: Vec<(usize, &str)> = SUPPORTED
        .iter()
        .map(|known| (edit_distance(name, known), *known))
        .filter(|(distance, known)| {
            *distance <= 2 || (name.len() >= 3 && (known.contains(name) || name.contains(known)))
        })
        .collect();
    near.sort_unstable();
    let remedy = if near.is_empty() {
        format!("known are {}", SUPPORTED.join(", "))
    } else {
        let names: Vec<&str> = near.iter().take(3).map(|(_, known)| *known).collect();
        format!("did you mean {}?", names.join(" or "))
    };
    Err(AddressError::new(format!("{wherever}: unknown parameter \"{shown}\"; {remedy}")))
}

fn uri_rest(text: &str) -> Option<usize> {
    ["postgresql://", "postgres://"].iter().find(|p| text.starts_with(**p)).map(|p| p.len())
}

/// An error at byte `offset` of `text`.
fn at(text: &str, offset: usize, what: &str, remedy: &str) -> AddressError {
    AddressError::new(format!("{}: {what}; {remedy}", position(text, offset)))
}

fn position(text: &str, offset: usize) -> String {
    let character = text.get(..offset).map_or(0, |before| before.chars().count()) + 1;
    format!("connection string, character {character}")
}

fn insert(
    parameters: &mut Parameters,
    name: &str,
    value: String,
    wherever: String,
) -> Result<(), AddressError> {
    let name = known_name(name, &wherever)?;
    parameters.insert(name, Parameter { value, origin: wherever });
    Ok(())
}

/// `keyword = value keyword='quoted \' value' ...`
fn parse_keywords(text: &str) -> Result<Parameters, AddressError> {
    let mut parameters = Parameters::new();
    let bytes = text.as_bytes();
    let skip_spaces = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_whitespace) {
            i += 1;
        }
        i
    };
    let mut i = skip_spaces(0);
    while i < bytes.len() {
        let start = i;
        while i < bytes.len() && bytes[i] != b'=' && !bytes[i].is_ascii_whitespace() {
            i += 1;
        }
        let name = &text[start..i];
        i = skip_spaces(i);
        if bytes.get(i) != Some(&b'=') {
            return Err(at(
                text,
                i,
                "\"=\" is missing after a keyword",
                "write keyword=value, and 'single quotes' around a value that holds spaces",
            ));
        }
        if name.is_empty() {
            return Err(at(
                text,
                start,
                "a keyword is missing before \"=\"",
                "write keyword=value",
            ));
        }
        i = skip_spaces(i + 1);
        let value_start = i;
        let is_quoted = bytes.get(i) == Some(&b'\'');
        if is_quoted {
            i += 1;
        }
        let mut value = Vec::new();
        loop {
            match bytes.get(i) {
                None if is_quoted => {
                    return Err(at(
                        text,
                        value_start,
                        "the quote that opens here is never closed",
                        "close it with ', and write \\' for a quote inside",
                    ));
                }
                None => break,
                Some(b'\'') if is_quoted => {
                    i += 1;
                    break;
                }
                Some(byte) if !is_quoted && byte.is_ascii_whitespace() => break,
                Some(b'\\') => {
                    // A backslash takes the next character as it is; at the end it stands alone.
                    i += 1;
                    if let Some(byte) = bytes.get(i) {
                        value.push(*byte);
                        i += 1;
                    }
                }
                Some(byte) => {
                    value.push(*byte);
                    i += 1;
                }
            }
        }
        // Only ASCII bytes were taken out, so this is still UTF-8.
        let value = String::from_utf8_lossy(&value).into_owned();
        insert(&mut parameters, name, value, position(text, start))?;
        i = skip_spaces(i);
    }
    Ok(parameters)
}

/// `postgresql://[user[:password]@][host[:port][,...]][/database][?name=value[&...]]`
struct Uri<'a> {
    text: &'a str,
    parameters: Parameters,
}

impl Uri<'_> {
    fn parse(mut self, start: usize) -> Result<Parameters, AddressError> {
        let mut rest = start;
        let authority_end =
            self.text[rest..].find(['/', '?']).map_or(self.text.len(), |found| rest + found);
        // As in libpq, the user part ends at the first '@' before any '/'.
        if let Some(at_sign) = self.text[rest..authority_end].find('@') {
            let (user_start, user_end) = (rest, rest + at_sign);
            match self.text[user_start..user_end].find(':') {
                None => self.decoded("user", user_start, user_end)?,
                Some(colon) => {
                    self.decoded("user", user_start, user_start + colon)?;
                    self.decoded("password", user_start + colon + 1, user_end)?;
                }
            }
            rest = user_end + 1;
        }
        rest = self.hosts(rest)?;
        if self.text.as_bytes().get(rest) == Some(&b'/') {
            let end = self.text[rest..].find('?').map_or(self.text.len(), |found| rest + found);
            self.decoded("dbname", rest + 1, end)?;
            rest = end;
        }
        if self.text.as_bytes().get(rest) == Some(&b'?') {
            self.query(rest + 1)?;
        }
        Ok(self.parameters)
    }

    /// Reads `host:port,host:port` and returns where it ends.
    fn hosts(&mut self, start: usize) -> Result<usize, AddressError> {
        let bytes = self.text.as_bytes();
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        let mut i = start;
        loop {
            let host_start = i;
            if bytes.get(i) == Some(&b'[') {
                let Some(close) = self.text[i..].find(']') else {
                    return Err(self.error(
                        i,
                        "the bracket that opens here is never closed",
                        "write an IPv6 address as [::1]",
                    ));
                };
                if close == 1 {
                    return Err(self.error(
                        i,
                        "the IPv6 address is empty",
                        "write an IPv6 address as [::1]",
                    ));
                }
                hosts.push(self.text[i + 1..i + close].to_owned());
                i += close + 1;
                if !matches!(bytes.get(i), None | Some(b':' | b'/' | b'?' | b',')) {
                    return Err(self.error(
                        i,
                        "unexpected text after \"]\"",
                        "a port (\":5432\"), \"/\", \"?\" or \",\" may follow",
                    ));
                }
            } else {
                while !matches!(bytes.get(i), None | Some(b':' | b'/' | b'?' | b',')) {
                    i += 1;
                }
                hosts.push(self.decode(host_start, i)?);
            }
            if bytes.get(i) == Some(&b':') {
                let port_start = i + 1;
                i = port_start;
                while !matches!(bytes.get(i), None | Some(b'/' | b'?' | b',')) {
                    i += 1;
                }
                ports.push(self.decode(port_start, i)?);
            } else {
                ports.push(String::new());
            }
            if bytes.get(i) != Some(&b',') {
                break;
            }
            i += 1;
        }
        let origin = position(self.text, start);
        if hosts.iter().any(|host| !host.is_empty()) {
            insert(&mut self.parameters, "host", hosts.join(","), origin.clone())?;
        }
        if ports.iter().any(|port| !port.is_empty()) {
            insert(&mut self.parameters, "port", ports.join(","), origin)?;
        }
        Ok(i)
    }

    fn query(&mut self, start: usize) -> Result<(), AddressError> {
        let mut i = start;
        while i < self.text.len() {
            let end = self.text[i..].find('&').map_or(self.text.len(), |found| i + found);
            let Some(equals) = self.text[i..end].find('=').map(|found| i + found) else {
                return Err(self.error(
                    i,
                    "\"=\" is missing after a parameter's name",
                    "write ?name=value&name=value",
                ));
            };
            if let Some(second) = self.text[equals + 1..end].find('=') {
                return Err(self.error(
                    equals + 1 + second,
                    "a second \"=\" in one parameter",
                    "write it as %3D",
                ));
            }
            let name = self.decode(i, equals)?;
            let value = self.decode(equals + 1, end)?;
            // libpq understands JDBC's way to ask for TLS.
            if name == "ssl" && value == "true" {
                insert(
                    &mut self.parameters,
                    "sslmode",
                    "require".to_owned(),
                    position(self.text, i),
                )?;
            } else {
                insert(&mut self.parameters, &name, value, position(self.text, i))?;
            }
            i = end + 1;
        }
        Ok(())
    }

    /// Stores the decoded text from `start` to `end`, if there is any.
    fn decoded(&mut self, name: &str, start: usize, end: usize) -> Result<(), AddressError> {
        let value = self.decode(start, end)?;
        if value.is_empty() {
            return Ok(());
        }
        insert(&mut self.parameters, name, value, position(self.text, start))
    }

    fn decode(&self, start: usize, end: usize) -> Result<String, AddressError> {
        let mut decoded = Vec::with_capacity(end - start);
        let bytes = &self.text.as_bytes()[..end];
        let mut i = start;
        while i < end {
            if bytes[i] != b'%' {
                decoded.push(bytes[i]);
                i += 1;
                continue;
            }
            let digit = |at: usize| {
                bytes
                    .get(at)
                    .and_then(|byte| char::from(*byte).to_digit(16))
                    .map(|digit| digit as u8)
            };
            let (Some(high), Some(low)) = (digit(i + 1), digit(i + 2)) else {
                return Err(self.error(
                    i,
                    "\"%\" is not followed by two hexadecimal digits",
                    "write a percent sign as %25",
                ));
            };
            if high == 0 && low == 0 {
                return Err(self.error(i, "%00 is not allowed", "remove it"));
            }
            decoded.push(high * 16 + low);
            i += 3;
        }
        String::from_utf8(decoded).map_err(|_| {
            self.error(start, "the decoded text is not UTF-8", "encode the text as UTF-8")
        })
    }

    fn error(&self, offset: usize, what: &str, remedy: &str) -> AddressError {
        at(self.text, offset, what, remedy)
    }
}

/// Levenshtein's distance.
fn edit_distance(a: &str, b: &str) -> usize {
    // Names are short; what is longer than any parameter cannot be near one.
    if a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(parameters) => parameters
                .iter()
                .map(|(name, parameter)| format!("{name}={}", parameter.value))
                .collect::<Vec<_>>()
                .join(" | "),
            Err(error) => format!("error: {error}"),
        }
    }

    /// Cases after PostgreSQL's own table, `src/interfaces/libpq/t/001_uri.pl`.
    #[test]
    fn connection_strings_mean_what_they_mean_to_libpq() {
        let cases = [
            (
                "postgresql://uri-user:secret@host:12345/db",
                "dbname=db | host=host | password=secret | port=12345 | user=uri-user",
            ),
            (
                "postgresql://uri-user@host:12345/db",
                "dbname=db | host=host | port=12345 | user=uri-user",
            ),
            ("postgresql://host/db", "dbname=db | host=host"),
            ("postgresql://host:12345/", "host=host | port=12345"),
            ("postgres://host", "host=host"),
            ("postgresql://", ""),
            ("postgresql:///db", "dbname=db"),
            ("postgresql://%68ost/", "host=host"),
            ("postgresql://host/db?user=uri-user", "dbname=db | host=host | user=uri-user"),
            ("postgresql://host?user=a%20b&port=1", "host=host | port=1 | user=a b"),
            ("postgresql://[::1]:5433/db", "dbname=db | host=::1 | port=5433"),
            ("postgresql://[2001:db8::1234]/", "host=2001:db8::1234"),
            ("postgresql://a,b:2,[::1]:3/x", "dbname=x | host=a,b,::1 | port=,2,3"),
            (
                "postgresql://%2Fvar%2Flib%2Fpostgresql/dbname",
                "dbname=dbname | host=/var/lib/postgresql",
            ),
            ("postgresql:///?host=/path/to/socket", "host=/path/to/socket"),
            ("postgresql://host?ssl=true", "host=host | sslmode=require"),
            (
                "postgresql://host/db?hostaddr=127.0.0.1",
                "dbname=db | host=host | hostaddr=127.0.0.1",
            ),
            ("postgres://user@/db", "dbname=db | user=user"),
            ("host=a port = 5433  dbname='my db'", "dbname=my db | host=a | port=5433"),
            (r"user='o\'brien' password=a\\b", r"password=a\b | user=o'brien"),
            ("user=a\\ b", "user=a b"),
            ("user='' host=x host=y", "host=y | user="),
            ("", ""),
            ("postgresql://host:12345?badparam=x", "error: connection string, character 25"),
            ("postgresql://[::1", "error: connection string, character 14: the bracket"),
            (
                "postgresql://[]",
                "error: connection string, character 14: the IPv6 address is empty",
            ),
            ("postgresql://[::1]x", "error: connection string, character 19: unexpected text"),
            ("postgresql://host?zzz", "error: connection string, character 19: \"=\" is missing"),
            (
                "postgresql://host?user=a=b",
                "error: connection string, character 25: a second \"=\"",
            ),
            ("postgresql://%", "error: connection string, character 14: \"%\" is not followed"),
            ("postgresql://%g1", "error: connection string, character 14: \"%\" is not followed"),
            ("postgresql://%00", "error: connection string, character 14: %00"),
            ("postgresql://%ff", "error: connection string, character 14: the decoded text"),
            ("host", "error: connection string, character 5: \"=\" is missing"),
            ("host=a b", "error: connection string, character 9: \"=\" is missing"),
            ("=a", "error: connection string, character 1: a keyword is missing"),
            ("é='", "error: connection string, character 3: the quote"),
            (
                "host=a requiressl=1",
                "error: connection string, character 8: parameter \"requiressl\" of libpq is not supported",
            ),
        ];
        for (text, expected) in cases {
            let found = shown(text);
            if expected.starts_with("error") {
                assert!(found.starts_with(expected), "{text}: {found}");
            } else {
                assert_eq!(found, expected, "{text}");
            }
        }
    }

    #[test]
    fn a_misspelt_parameter_is_told_its_neighbours() {
        assert!(shown("sslmod=require").contains("did you mean sslmode"));
        assert!(shown("databse=x").contains("known are"));
        assert!(shown("hostname=x").contains("did you mean host"));
        assert!(shown("pasword=x").contains("did you mean password"));
    }

    #[test]
    fn an_error_never_repeats_a_value() {
        for text in [
            "postgresql://u:canary%zz@host",
            "password=canary x",
            "password='canary",
            "postgresql://u:canary%ff@h",
            "postgresql://u:canary@h?bad",
            "password=canary usr=x",
        ] {
            let found = shown(text);
            assert!(found.starts_with("error"), "{text}");
            assert!(!found.contains("canary"), "{found}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,80}", tail in "[a-z:@/?&=%\\[\\],'\\\\ ]{0,40}") {
            let _ = parse(&text);
            let _ = parse(&format!("postgresql://{tail}"));
            let _ = parse(&tail);
        }

        #[test]
        fn a_quoted_value_comes_back(value in "[^\0]{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
            let parameters = parse(&format!("user='{quoted}'")).unwrap();
            prop_assert_eq!(&parameters["user"].value, &value);
        }
    }
}
