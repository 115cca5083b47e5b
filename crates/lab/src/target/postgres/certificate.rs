//! What must be read out of a certificate beyond what rustls reads: the digest that binds
//! authentication to it, its validity, and the common name of certificates from before 2000's
//! subject alternative names. DER as in X.690, certificates as in RFC 5280.

use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

/// The parts of an X.509 certificate that are used here, borrowed from its DER form.
#[derive(Debug)]
pub(super) struct Certificate<'a> {
    whole: &'a [u8],
    /// Identifier and parameters of the algorithm that signed it.
    signature_algorithm: &'a [u8],
    subject: &'a [u8],
    /// First and last second of validity, since 1970.
    not_before: i64,
    not_after: i64,
    has_alternative_names: bool,
}

/// Universal types of DER.
const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]` (version, a hash's parameters) and `[3]` (extensions).
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;

impl<'a> Certificate<'a> {
    /// Reads a certificate; `None` where it is not one.
    pub(super) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut outer = Der(Der(der).expect(SEQUENCE)?);
        let mut body = Der(outer.expect(SEQUENCE)?);
        let signature_algorithm = outer.expect(SEQUENCE)?;
        body.optional(CONTEXT_0);
        body.expect(INTEGER)?;
        body.expect(SEQUENCE)?; // the algorithm once more
        body.expect(SEQUENCE)?; // issuer
        let mut validity = Der(body.expect(SEQUENCE)?);
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = body.expect(SEQUENCE)?;
        let mut has_alternative_names = false;
        while let Some((kind, content)) = body.next() {
            if kind != CONTEXT_3 {
                continue;
            }
            let mut extensions = Der(Der(content).expect(SEQUENCE)?);
            while let Some((_, extension)) = extensions.next() {
                // 2.5.29.17
                has_alternative_names |= Der(extension).expect(OBJECT)? == [0x55, 0x1d, 0x11];
            }
        }
        let whole = der;
        Some(Self {
            whole,
            signature_algorithm,
            subject,
            not_before,
            not_after,
            has_alternative_names,
        })
    }

    /// The binding `tls-server-end-point` (RFC 5929, section 4.1): the certificate's digest by the
    /// hash of its signature, SHA-256 in place of MD5 and SHA-1. `None` where the signature has no
    /// such hash (Ed25519).
    pub(super) fn server_end_point(&self) -> Option<Vec<u8>> {
        let mut algorithm = Der(self.signature_algorithm);
        let identifier = algorithm.expect(OBJECT)?;
        // 1.2.840.113549.1.1.x: RSA; 1.2.840.10045.4.x: ECDSA.
        let hash = match identifier {
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, kind] => match kind {
                4 | 5 | 11 => 256,
                12 => 384,
                13 => 512,
                14 => 224,
                10 => pss_hash(algorithm)?,
                _ => return None,
            },
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1] => 256,
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, kind] => match kind {
                1 => 224,
                2 => 256,
                3 => 384,
                4 => 512,
                _ => return None,
            },
            _ => return None,
        };
        Some(match hash {
            224 => Sha224::digest(self.whole).to_vec(),
            384 => Sha384::digest(self.whole).to_vec(),
            512 => Sha512::digest(self.whole).to_vec(),
            _ => Sha256::digest(self.whole).to_vec(),
        })
    }

    /// Whether the certificate is valid at `second` since 1970.
    pub(super) const fn is_valid_at(&self, second: i64) -> bool {
        self.not_before <= second && second <= self.not_after
    }

    /// Whether the common name is that of `host`. It counts only where there are no subject
    /// alternative names, as in libpq (`pgtls_verify_peer_name_matches_certificate_guts`).
    pub(super) fn common_name_is(&self, host: &str) -> bool {
        if self.has_alternative_names {
            return false;
        }
        let mut sets = Der(self.subject);
        let mut common_name = None;
        while let Some((SET, set)) = sets.next() {
            let mut attributes = Der(set);
            while let Some((SEQUENCE, attribute)) = attributes.next() {
                let mut attribute = Der(attribute);
                // 2.5.4.3; of several the last is the most specific.
                if attribute.expect(OBJECT) == Some(&[0x55, 0x04, 0x03]) {
                    common_name = attribute.next().map(|(_, text)| text);
                }
            }
        }
        common_name.and_then(|name| std::str::from_utf8(name).ok()).is_some_and(|name| {
            match (name.strip_prefix("*."), host.split_once('.')) {
                // A star stands for the first label, whole, of a name with at least two more.
                (Some(rest), Some((first, host_rest))) => {
                    !first.is_empty() && rest.contains('.') && rest.eq_ignore_ascii_case(host_rest)
                }
                _ => !name.contains(['*', '\0']) && name.eq_ignore_ascii_case(host),
            }
        })
    }
}

/// The hash inside the parameters of RSASSA-PSS (RFC 4055); SHA-1, the default, counts as SHA-256.
fn pss_hash(mut algorithm: Der<'_>) -> Option<u32> {
    let mut parameters = Der(algorithm.expect(SEQUENCE)?);
    let Some((CONTEXT_0, content)) = parameters.next() else { return Some(256) };
    // 2.16.840.1.101.3.4.2.x
    match Der(Der(content).expect(SEQUENCE)?).expect(OBJECT)? {
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, kind] => match kind {
            1 => Some(256),
            2 => Some(384),
            3 => Some(512),
            4 => Some(224),
            _ => None,
        },
        _ => Some(256),
    }
}

/// A series of DER values.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value's type and content; `None` at the end and where the form is broken.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (kind, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if length >= 0x80 {
            let count = length - 0x80;
            // Four bytes of length are more than any certificate needs.
            if count == 0 || count > 4 {
                return None;
            }
            let (bytes, after) = rest.split_at_checked(count)?;
            rest = after;
            length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*kind, content))
    }

    fn expect(&mut self, kind: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == kind).map(|(_, content)| content)
    }

    /// Passes over a value of that type, should it be next.
    fn optional(&mut self, kind: u8) {
        if self.0.first() == Some(&kind) {
            self.next();
        }
    }

    /// A point in time in seconds since 1970.
    fn time(&mut self) -> Option<i64> {
        let (kind, text) = self.next()?;
        let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = match kind {
            UTC_TIME if text.len() == 12 => {
                let year: i64 = text[..2].parse().ok()?;
                (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
            }
            GENERALIZED_TIME if text.len() == 14 => (text[..4].parse().ok()?, &text[4..]),
            _ => return None,
        };
        let number = |at: usize| rest[at..at + 2].parse::<i64>().ok();
        let (month, day) = (number(0)?, number(2)?);
        let (hour, minute, second) = (number(4)?, number(6)?, number(8)?);
        // Days from the civil date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
        let shifted = if month <= 2 { year - 1 } else { year };
        let era = shifted.div_euclid(400);
        let year_of_era = shifted.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        Some(((days * 24 + hour) * 60 + minute) * 60 + second)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn self_signed(names: &[&str], common_name: &str) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(names).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        parameters.not_before = rcgen::date_time_ymd(2001, 2, 3);
        parameters.not_after = rcgen::date_time_ymd(2071, 2, 28);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn validity_is_read_from_both_forms_of_time() {
        let der = self_signed(&[], "a");
        let certificate = Certificate::parse(&der).unwrap();
        // 2001-02-03 and 2071-02-28 at 00:00:00.
        assert_eq!(certificate.not_before, 981_158_400);
        assert_eq!(certificate.not_after, 3_192_307_200);
        assert!(certificate.is_valid_at(1_700_000_000));
        assert!(!certificate.is_valid_at(981_158_399));
        assert!(!certificate.is_valid_at(3_192_307_201));
    }

    #[test]
    fn a_common_name_counts_only_without_alternative_names() {
        let cases: [(&[&str], &str, &str, bool); 8] = [
            (&[], "db.example", "db.example", true),
            (&[], "DB.example", "db.EXAMPLE", true),
            (&["other.example"], "db.example", "db.example", false),
            (&[], "*.db.example", "a.db.example", true),
            (&[], "*.db.example", "a.b.db.example", false),
            (&[], "*.db.example", "db.example", false),
            (&[], "*.example", "a.example", false),
            (&[], "*", "a", false),
        ];
        for (names, common_name, host, expected) in cases {
            let der = self_signed(names, common_name);
            let certificate = Certificate::parse(&der).unwrap();
            assert_eq!(certificate.common_name_is(host), expected, "{common_name} {host}");
        }
    }

    #[test]
    fn the_binding_is_the_digest_by_the_signatures_hash() {
        // rcgen signs with ECDSA and SHA-256 by default.
        let der = self_signed(&[], "a");
        let binding = Certificate::parse(&der).unwrap().server_end_point().unwrap();
        assert_eq!(binding, Sha256::digest(&der).to_vec());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let der = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
        let binding = Certificate::parse(der.der()).unwrap().server_end_point().unwrap();
        assert_eq!(binding, Sha384::digest(der.der()).to_vec());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let der = rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
        assert_eq!(Certificate::parse(der.der()).unwrap().server_end_point(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_and_damaged_bytes_are_refused_without_harm(
            noise in prop::collection::vec(any::<u8>(), 0..100),
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let _ = Certificate::parse(&noise);
            let mut der = self_signed(&["x.example"], "y");
            let place = place.index(der.len());
            der[place] = byte;
            if let Some(certificate) = Certificate::parse(&der) {
                let _ = certificate.server_end_point();
                let _ = certificate.common_name_is("y");
            }
        }
    }
}
