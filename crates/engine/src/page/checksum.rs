//! The checksum of a page: written when it leaves, verified when it enters (rules P2 and P3).

use super::image::is_new;
use super::{Damage, DatabaseId, PAGE_BYTES, PageBytes, PageIdentity};

/// Where the checksum stands.
const PLACE: std::ops::Range<usize> = 8..12;

/// CRC-32C (Castagnoli), as PostgreSQL's log uses it. The one place that knows which crate does it.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    // A CRC of 32 bits in a wider type.
    u32::try_from(digest.finalize()).unwrap_or(0)
}

fn checksum(bytes: &PageBytes, database: DatabaseId, identity: PageIdentity) -> u32 {
    let mut place = [0; 17];
    place[0..8].copy_from_slice(&database.0.to_le_bytes());
    place[8..12].copy_from_slice(&identity.relation.0.to_le_bytes());
    place[12] = identity.fork.number();
    place[13..17].copy_from_slice(&identity.block.0.to_le_bytes());
    crc32c(&[&place, &bytes[..PLACE.start], &bytes[PLACE.end..PAGE_BYTES]])
}

/// Writes the checksum into a page that is about to leave for the disk.
pub fn seal(bytes: &mut PageBytes, database: DatabaseId, identity: PageIdentity) {
    let sum = checksum(bytes, database, identity);
    bytes[PLACE].copy_from_slice(&sum.to_le_bytes());
}

/// Verifies a page that has come from the disk. A page of zeros was never written and is right.
///
/// # Errors
/// When the bytes are not those that were sealed for this place.
pub fn verify(
    bytes: &PageBytes,
    database: DatabaseId,
    identity: PageIdentity,
) -> Result<(), Damage> {
    let found = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let expected = checksum(bytes, database, identity);
    if found == expected || (found == 0 && is_new(bytes)) {
        return Ok(());
    }
    Err(Damage {
        identity,
        what: "checksum".to_owned(),
        expected: format!("{expected:08x} of these bytes in this place"),
        found: format!("{found:08x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{BlockNumber, Fork, Header, Lsn, PageImage, PageKind, RelationNumber};
    use super::*;

    const DATABASE: DatabaseId = DatabaseId(0x0123_4567_89AB_CDEF);

    fn identity(relation: u32, fork: Fork, block: u32) -> PageIdentity {
        PageIdentity { relation: RelationNumber(relation), fork, block: BlockNumber(block) }
    }

    fn sealed() -> (PageImage, PageIdentity) {
        let mut page = PageImage::zeroed();
        Header { lsn: Lsn(7), ..Header::empty(PageKind::Heap, 0) }.write(&mut page);
        for (at, byte) in page.iter_mut().enumerate().skip(100) {
            *byte = u8::try_from(at % 251).unwrap();
        }
        let place = identity(5, Fork::Main, 9);
        seal(&mut page, DATABASE, place);
        (page, place)
    }

    #[test]
    fn it_is_the_published_crc_32c() {
        // RFC 3720, appendix B.4, and the customary check value.
        assert_eq!(crc32c(&[b"123456789"]), 0xE306_9283);
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xE306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8A91_36AA);
        assert_eq!(crc32c(&[&[0xFF; 32]]), 0x62A8_AB43);
    }

    #[test]
    fn it_agrees_with_another_implementation_on_any_bytes() {
        use proptest::prelude::*;
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..600), cut in 0_usize..600)| {
            let cut = cut.min(bytes.len());
            let (left, right) = bytes.split_at(cut);
            prop_assert_eq!(crc32c(&[left, right]), crc32c::crc32c(&bytes));
        });
    }

    #[test]
    fn a_flip_of_any_bit_is_seen() {
        let (page, place) = sealed();
        assert_eq!(verify(&page, DATABASE, place), Ok(()));
        for at in 0..PAGE_BYTES {
            for bit in 0..8 {
                let mut flipped = page.clone();
                flipped[at] ^= 1 << bit;
                assert!(verify(&flipped, DATABASE, place).is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn right_bytes_in_the_wrong_place_are_seen() {
        let (page, _) = sealed();
        for place in [
            identity(5, Fork::Main, 8),
            identity(6, Fork::Main, 9),
            identity(5, Fork::VisibilityMap, 9),
        ] {
            let damage = verify(&page, DATABASE, place).unwrap_err();
            assert!(damage.to_string().contains("checksum: expected"), "{damage}");
        }
        assert!(verify(&page, DatabaseId(1), identity(5, Fork::Main, 9)).is_err());
    }

    #[test]
    fn a_page_never_written_is_right_anywhere_and_one_with_a_byte_is_not() {
        let mut page = PageImage::zeroed();
        assert_eq!(verify(&page, DATABASE, identity(1, Fork::Main, 0)), Ok(()));
        page[4000] = 1;
        assert!(verify(&page, DATABASE, identity(1, Fork::Main, 0)).is_err());
    }
}
