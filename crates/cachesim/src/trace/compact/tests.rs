use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::trace::error::Fault;
use crate::trace::input::Input;
use crate::trace::reference::{Access, Reference};

fn write(events: &[Reference], classes: usize, has_times: bool) -> Vec<u8> {
    let mut writer = CompactWriter::new(Vec::new(), "a trace", 8192, has_times).unwrap();
    for class in 0..classes {
        writer.class(&format!("class {class}")).unwrap();
    }
    for event in events {
        writer.write(event).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: Vec<u8>) -> Result<(Vec<Reference>, usize), Fault> {
    let mut input = Input::new(Box::new(Cursor::new(bytes)))?;
    let mut reader = CompactReader::new(&mut input)?;
    let mut out = Vec::new();
    while reader.decode(&mut input, &mut out)? {}
    assert_eq!((reader.page_bytes, reader.name.as_str()), (8192, "a trace"));
    Ok((out, reader.classes().len()))
}

fn some_events() -> Vec<Reference> {
    (0..40)
        .map(|i| Reference {
            page: i * 7 % 13,
            pages: 1 + u32::from(i % 5 == 0),
            access: [Access::Read, Access::Write, Access::Dirtied][i as usize % 3],
            time_us: Some(1000 + i),
            class: (i % 4 != 0).then_some((i % 2) as u16),
        })
        .collect()
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let whole = write(&some_events(), 2, true);
    assert_eq!(read(whole.clone()).unwrap(), (some_events(), 2));
    for length in 0..whole.len() {
        assert!(read(whole[..length].to_vec()).is_err(), "{length} of {}", whole.len());
    }
}

#[test]
fn a_flipped_bit_anywhere_is_an_error() {
    let whole = write(&some_events(), 2, true);
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn a_block_that_claims_to_be_huge_costs_nothing() {
    let mut bytes = MAGIC.to_vec();
    bytes.push(b'H');
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend([0; 4]);
    assert!(read(bytes).unwrap_err().what.contains("4294967295 bytes"));
}

#[test]
fn neighbouring_pages_cost_two_bytes_each() {
    let events: Vec<Reference> = (0..100_000).map(|page| Reference::read(page / 2 * 3)).collect();
    let bytes = write(&events, 0, false);
    assert!(bytes.len() < 201_000, "{}", bytes.len());
    assert_eq!(read(bytes).unwrap().0, events);
}

fn event() -> impl Strategy<Value = Reference> {
    let access = prop_oneof![Just(Access::Read), Just(Access::Write), Just(Access::Dirtied)];
    (any::<u64>(), 1..5_u32, access, any::<u64>(), proptest::option::of(0..30_u16)).prop_map(
        |(page, pages, access, time_us, class)| Reference {
            page,
            pages,
            access,
            time_us: Some(time_us),
            class,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(events in proptest::collection::vec(event(), 0..300)) {
        prop_assert_eq!(read(write(&events, 30, true)).unwrap().0, events);
    }

    #[test]
    fn varints_are_read_as_written(value in any::<u64>(), delta in any::<i64>()) {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, value);
        push_varint(&mut bytes, zigzag(delta));
        let mut rest = bytes.as_slice();
        prop_assert_eq!(take_varint(&mut rest), Some(value));
        prop_assert_eq!(take_varint(&mut rest).map(unzigzag), Some(delta));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_payload_with_a_right_checksum_is_read_or_refused(
        kind in prop_oneof![Just(b'C'), Just(b'D'), Just(b'E'), any::<u8>()],
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = write(&[], 3, true);
        bytes.truncate(bytes.len() - BLOCK_HEAD_BYTES - 8);
        let length = payload.len() as u32;
        bytes.push(kind);
        bytes.extend(length.to_le_bytes());
        bytes.extend(checksum(kind, length, &payload).to_le_bytes());
        bytes.extend(payload);
        let _ = read(bytes);
    }
}
