//! Line pointers and items: adding, removing, moving together.
//!
//! Source of the layout: PostgreSQL's `bufpage.h`, `itemid.h`. Differences: items are never shared
//! between line pointers, and the line pointers of removed items at the end are given back at once.

use super::header::LINE_POINTER_BYTES;
use super::{Damage, HEADER_BYTES, Header, PAGE_BYTES, PageBytes, PageIdentity};

/// Items begin at multiples of this (rule P5).
pub const ITEM_ALIGNMENT: usize = 8;

/// Largest item that fits on an empty page without an area of its own.
pub const ITEM_BYTES_MAX: usize = PAGE_BYTES - HEADER_BYTES - ITEM_ALIGNMENT;

/// What a line pointer says of its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Free to be used again.
    Unused,
    /// Has an item.
    Normal {
        /// Begin of the item in the page.
        offset: u16,
        /// Its length in bytes.
        bytes: u16,
    },
    /// Stands for another line pointer of the page.
    Redirect {
        /// The other one's number.
        to: u16,
    },
    /// Its item is gone, but an index may still refer to it.
    Dead,
}

const UNUSED: u32 = 0;
const NORMAL: u32 = 1;
const REDIRECT: u32 = 2;
const DEAD: u32 = 3;

impl Slot {
    fn of(raw: u32) -> Self {
        let field = |shift: u32| u16::try_from((raw >> shift) & 0x7FFF).unwrap_or(0);
        let (offset, bytes) = (field(0), field(17));
        match (raw >> 15) & 3 {
            NORMAL => Self::Normal { offset, bytes },
            REDIRECT => Self::Redirect { to: offset },
            DEAD => Self::Dead,
            _ => Self::Unused,
        }
    }

    fn raw(self) -> u32 {
        match self {
            Self::Unused => UNUSED << 15,
            Self::Normal { offset, bytes } => {
                u32::from(offset) | NORMAL << 15 | u32::from(bytes) << 17
            }
            Self::Redirect { to } => u32::from(to) | REDIRECT << 15,
            Self::Dead => DEAD << 15,
        }
    }
}

fn place_of(slot: u16) -> usize {
    HEADER_BYTES + usize::from(slot) * LINE_POINTER_BYTES
}

/// Number of line pointers; total on any bytes.
#[must_use]
pub fn count(page: &PageBytes) -> u16 {
    let lower = usize::from(Header::read(page).lower).min(PAGE_BYTES);
    u16::try_from(lower.saturating_sub(HEADER_BYTES) / LINE_POINTER_BYTES).unwrap_or(0)
}

/// What line pointer `slot` (from 0) says; `None` where there is none.
#[must_use]
pub fn slot(page: &PageBytes, slot: u16) -> Option<Slot> {
    if slot >= count(page) {
        return None;
    }
    let place = place_of(slot);
    let raw = page.get(place..place + LINE_POINTER_BYTES)?;
    Some(Slot::of(u32::from_le_bytes(raw.try_into().ok()?)))
}

/// The item of a normal line pointer; `None` for others, and where it would leave the page.
#[must_use]
pub fn item(page: &PageBytes, number: u16) -> Option<&[u8]> {
    match slot(page, number)? {
        Slot::Normal { offset, bytes } => {
            page.get(usize::from(offset)..usize::from(offset) + usize::from(bytes))
        }
        Slot::Unused | Slot::Redirect { .. } | Slot::Dead => None,
    }
}

/// The same, to be changed in place; its length stays.
pub fn item_mut(page: &mut PageBytes, number: u16) -> Option<&mut [u8]> {
    match slot(page, number)? {
        Slot::Normal { offset, bytes } => {
            page.get_mut(usize::from(offset)..usize::from(offset) + usize::from(bytes))
        }
        Slot::Unused | Slot::Redirect { .. } | Slot::Dead => None,
    }
}

/// Bytes between line pointers and items: what the next item and its line pointer can take without
/// [`compact`].
#[must_use]
pub fn free_bytes(page: &PageBytes) -> usize {
    let header = Header::read(page);
    usize::from(header.upper).saturating_sub(usize::from(header.lower))
}

/// Adds an item under the first unused line pointer, or a new one; says which. `None` when it does
/// not fit: [`compact`] may help.
pub fn add(page: &mut PageBytes, bytes: &[u8]) -> Option<u16> {
    let held = count(page);
    let reused = (0..held).find(|number| slot(page, *number) == Some(Slot::Unused));
    place(page, reused.unwrap_or(held), bytes, reused.is_none())
}

/// Adds an item as number `at`, shifting that one and those behind it (rule P4); `None` when it does
/// not fit or `at` lies beyond the end.
pub fn insert(page: &mut PageBytes, at: u16, bytes: &[u8]) -> Option<u16> {
    let held = count(page);
    if at > held {
        return None;
    }
    // First as the last one, then its line pointer is rotated to where it belongs.
    let last = place(page, held, bytes, true)?;
    page.get_mut(place_of(at)..place_of(last) + LINE_POINTER_BYTES)?
        .rotate_right(LINE_POINTER_BYTES);
    Some(at)
}

/// Writes an item below the others and a line pointer for it.
fn place(page: &mut PageBytes, number: u16, bytes: &[u8], is_new: bool) -> Option<u16> {
    let mut header = Header::read(page);
    let length = u16::try_from(bytes.len()).ok().filter(|length| *length > 0)?;
    let pointer = if is_new { LINE_POINTER_BYTES } else { 0 };
    let lower = usize::from(header.lower).checked_add(pointer)?;
    let start = usize::from(header.upper).checked_sub(bytes.len())? & !(ITEM_ALIGNMENT - 1);
    if start < lower {
        return None;
    }
    page.get_mut(start..start + bytes.len())?.copy_from_slice(bytes);
    let offset = u16::try_from(start).ok()?;
    header.lower = u16::try_from(lower).ok()?;
    header.upper = offset;
    header.write(page);
    set(page, number, Slot::Normal { offset, bytes: length });
    Some(number)
}

/// Makes line pointer `number` say `slot`; the item it had is given up ([`compact`] gains its space).
/// Unused line pointers at the end are given back. False where there is no such number.
pub fn replace(page: &mut PageBytes, number: u16, slot: Slot) -> bool {
    if number >= count(page) {
        return false;
    }
    set(page, number, slot);
    let mut held = count(page);
    while held > 0 && self::slot(page, held - 1) == Some(Slot::Unused) {
        held -= 1;
    }
    let mut header = Header::read(page);
    header.lower = u16::try_from(place_of(held)).unwrap_or(header.lower);
    header.write(page);
    true
}

/// Takes number `at` away, shifting those behind it (rule P4). False where there is no such number.
pub fn remove(page: &mut PageBytes, at: u16) -> bool {
    let held = count(page);
    if at >= held {
        return false;
    }
    let Some(pointers) = page.get_mut(place_of(at)..place_of(held)) else { return false };
    pointers.rotate_left(LINE_POINTER_BYTES);
    let mut header = Header::read(page);
    header.lower = u16::try_from(place_of(held - 1)).unwrap_or(header.lower);
    header.write(page);
    true
}

fn set(page: &mut PageBytes, number: u16, slot: Slot) {
    let place = place_of(number);
    if let Some(raw) = page.get_mut(place..place + LINE_POINTER_BYTES) {
        raw.copy_from_slice(&slot.raw().to_le_bytes());
    }
}

/// Moves all items together at the end, so that the free bytes are in one piece. Numbers stay.
pub fn compact(page: &mut PageBytes) {
    let old = *page;
    let mut header = Header::read(page);
    let special = usize::from(header.special).min(PAGE_BYTES);
    let mut upper = special;
    for number in 0..count(&old) {
        let Some(bytes) = item(&old, number) else { continue };
        // Damaged pages may claim more than there is room for; what does not fit is left where it was.
        let Some(start) = upper.checked_sub(bytes.len()).map(|at| at & !(ITEM_ALIGNMENT - 1))
        else {
            continue;
        };
        if start < usize::from(header.lower) {
            continue;
        }
        page[start..start + bytes.len()].copy_from_slice(bytes);
        let (Ok(offset), Ok(length)) = (u16::try_from(start), u16::try_from(bytes.len())) else {
            continue;
        };
        set(page, number, Slot::Normal { offset, bytes: length });
        upper = start;
    }
    // What lies between is zeroed: equal pages have equal bytes, and images compress.
    if let Some(gap) = page.get_mut(usize::from(header.lower)..upper) {
        gap.fill(0);
    }
    header.upper = u16::try_from(upper).unwrap_or(header.upper);
    header.write(page);
}

/// Checks rule P1 for every line pointer, and that no two items share a byte.
///
/// # Errors
/// The first field or line pointer that cannot be.
pub fn check(page: &PageBytes, identity: PageIdentity) -> Result<(), Damage> {
    let header = Header::read(page);
    header.check(identity)?;
    let damage = |number: u16, expected: String, found: String| Damage {
        identity,
        what: format!("line pointer {number}"),
        expected,
        found,
    };
    let mut items: Vec<(u16, u16, u16)> = Vec::new();
    for number in 0..count(page) {
        match slot(page, number) {
            Some(Slot::Normal { offset, bytes }) => {
                let end = u32::from(offset) + u32::from(bytes);
                if offset < header.upper || end > u32::from(header.special) || bytes == 0 {
                    return Err(damage(
                        number,
                        format!("an item within {}..{}", header.upper, header.special),
                        format!("{offset}..{end}"),
                    ));
                }
                items.push((offset, bytes, number));
            }
            Some(Slot::Redirect { to }) if to >= count(page) => {
                return Err(damage(
                    number,
                    format!("one of the {} line pointers", count(page)),
                    format!("number {to}"),
                ));
            }
            _ => {}
        }
    }
    items.sort_unstable();
    for pair in items.windows(2) {
        if let [(offset, bytes, first), (next, _, second)] = pair
            && u32::from(*offset) + u32::from(*bytes) > u32::from(*next)
        {
            return Err(damage(
                *second,
                "an item of its own".to_owned(),
                format!("bytes {next} and on, which line pointer {first} has, too"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BlockNumber, Fork, PageImage, PageKind, RelationNumber};
    use super::*;

    const PLACE: PageIdentity =
        PageIdentity { relation: RelationNumber(1), fork: Fork::Main, block: BlockNumber(2) };

    fn empty(special_bytes: u16) -> PageImage {
        let mut page = PageImage::zeroed();
        Header::empty(PageKind::Plain, special_bytes).write(&mut page);
        page
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(usize),
        Insert(u16, usize),
        Drop(u16),
        Kill(u16),
        Remove(u16),
        Compact,
    }

    fn step() -> impl Strategy<Value = Step> {
        let bytes = prop_oneof![1_usize..40, 1_usize..3000];
        prop_oneof![
            bytes.clone().prop_map(Step::Add),
            (0_u16..12, bytes).prop_map(|(at, bytes)| Step::Insert(at, bytes)),
            (0_u16..12).prop_map(Step::Drop),
            (0_u16..12).prop_map(Step::Kill),
            (0_u16..12).prop_map(Step::Remove),
            Just(Step::Compact),
        ]
    }

    #[derive(Clone, Debug, PartialEq)]
    enum Held {
        Unused,
        Item(Vec<u8>),
        Dead,
    }

    proptest! {
        #[test]
        fn items_are_what_a_list_of_them_would_hold(
            steps in prop::collection::vec(step(), 0..60),
            special_bytes in 0_u16..64,
        ) {
            let mut page = empty(special_bytes);
            let special = usize::from(Header::read(&page).special);
            page[special..].fill(0xEE);
            let mut model: Vec<Held> = Vec::new();
            for (number, step) in (1_u8..).zip(steps) {
                let bytes_of = |length: usize| vec![number; length];
                match step {
                    Step::Add(length) => {
                        let bytes = bytes_of(length);
                        if let Some(at) = add(&mut page, &bytes) {
                            let unused = model.iter().position(|held| *held == Held::Unused);
                            let expected = unused.unwrap_or(model.len());
                            prop_assert_eq!(usize::from(at), expected);
                            if unused.is_none() {
                                model.push(Held::Unused);
                            }
                            model[expected] = Held::Item(bytes);
                        } else {
                            prop_assert!(free_bytes(&page) < length + 4 + 7);
                        }
                    }
                    Step::Insert(at, length) => {
                        let bytes = bytes_of(length);
                        if insert(&mut page, at, &bytes).is_some() {
                            model.insert(usize::from(at), Held::Item(bytes));
                        } else {
                            prop_assert!(
                                usize::from(at) > model.len() || free_bytes(&page) < length + 4 + 7
                            );
                        }
                    }
                    Step::Drop(at) => {
                        let is_there = usize::from(at) < model.len();
                        prop_assert_eq!(replace(&mut page, at, Slot::Unused), is_there);
                        if is_there {
                            model[usize::from(at)] = Held::Unused;
                        }
                        while is_there && model.last() == Some(&Held::Unused) {
                            model.pop();
                        }
                    }
                    Step::Kill(at) => {
                        let is_there = usize::from(at) < model.len();
                        prop_assert_eq!(replace(&mut page, at, Slot::Dead), is_there);
                        if is_there {
                            model[usize::from(at)] = Held::Dead;
                        }
                        while is_there && model.last() == Some(&Held::Unused) {
                            model.pop();
                        }
                    }
                    Step::Remove(at) => {
                        let is_there = usize::from(at) < model.len();
                        prop_assert_eq!(remove(&mut page, at), is_there);
                        if is_there {
                            model.remove(usize::from(at));
                        }
                    }
                    Step::Compact => {
                        compact(&mut page);
                        let used: usize = model
                            .iter()
                            .map(|held| match held {
                                Held::Item(bytes) => bytes.len().next_multiple_of(8),
                                _ => 0,
                            })
                            .sum();
                        let room = special - HEADER_BYTES - model.len() * 4;
                        prop_assert_eq!(free_bytes(&page), room - used);
                    }
                }
                prop_assert_eq!(check(&page, PLACE), Ok(()));
                prop_assert_eq!(usize::from(count(&page)), model.len());
                for (at, held) in (0_u16..).zip(&model) {
                    match held {
                        Held::Item(bytes) => prop_assert_eq!(item(&page, at), Some(bytes.as_slice())),
                        Held::Unused => prop_assert_eq!(slot(&page, at), Some(Slot::Unused)),
                        Held::Dead => prop_assert_eq!(slot(&page, at), Some(Slot::Dead)),
                    }
                }
                prop_assert!(page[special..].iter().all(|byte| *byte == 0xEE));
            }
        }

        #[test]
        fn any_bytes_can_be_read_and_changed_without_a_panic(
            head in prop::collection::vec(any::<u8>(), 24..200),
            steps in prop::collection::vec(step(), 0..8),
        ) {
            let mut page = PageImage::zeroed();
            page[..head.len()].copy_from_slice(&head);
            let _ = check(&page, PLACE);
            for number in 0..count(&page).min(40) {
                let _ = (slot(&page, number), item(&page, number).map(<[u8]>::len));
            }
            for step in steps {
                match step {
                    Step::Add(length) => drop(add(&mut page, &vec![1; length])),
                    Step::Insert(at, length) => drop(insert(&mut page, at, &vec![1; length])),
                    Step::Drop(at) => drop(replace(&mut page, at, Slot::Unused)),
                    Step::Kill(at) => drop(replace(&mut page, at, Slot::Redirect { to: at })),
                    Step::Remove(at) => drop(remove(&mut page, at)),
                    Step::Compact => compact(&mut page),
                }
            }
        }
    }

    #[test]
    fn a_full_page_takes_as_many_rows_as_postgresql_s() {
        // pgbench_accounts: 121 bytes a row, 61 rows a page (mechanism: 128 + 4 bytes each).
        let mut page = empty(0);
        let mut rows = 0;
        while add(&mut page, &[1; 121]).is_some() {
            rows += 1;
        }
        assert_eq!(rows, 61);
        // A leaf with 16 bytes of its own and items of 16: 407.
        let mut leaf = empty(16);
        let mut entries = 0;
        while add(&mut leaf, &[1; 16]).is_some() {
            entries += 1;
        }
        assert_eq!(entries, 407);
    }

    #[test]
    fn damage_is_named_by_line_pointer() {
        let mut page = empty(0);
        add(&mut page, &[1; 16]).unwrap();
        add(&mut page, &[2; 16]).unwrap();
        let Some(first) = slot(&page, 0) else { panic!("it was added") };
        set(&mut page, 1, first);
        let damage = check(&page, PLACE).unwrap_err().to_string();
        assert_eq!(
            damage,
            "relation 1, fork main, block 2 is damaged: line pointer 1: expected an item of its own, \
             found bytes 8176 and on, which line pointer 0 has, too"
        );
        set(&mut page, 1, Slot::Redirect { to: 2 });
        assert!(check(&page, PLACE).unwrap_err().what.contains("line pointer 1"));
        set(&mut page, 1, Slot::Normal { offset: 8184, bytes: 16 });
        assert!(check(&page, PLACE).unwrap_err().found.contains("8184..8200"));
    }

    #[test]
    fn the_document_s_table_is_the_code_s_layout() {
        let header = Header {
            lsn: super::super::Lsn(0x0807_0605_0403_0201),
            checksum: 0x0C0B_0A09,
            flags: 0x0E0D,
            lower: 0x100F,
            upper: 0x1211,
            special: 0x1413,
            layout: 0x15,
            kind: 0x16,
            reserved: 0x1817,
        };
        let mut page = PageImage::zeroed();
        header.write(&mut page);
        let expected: Vec<u8> = (1..=24).collect();
        assert_eq!(page[..24], expected);
        assert_eq!(Header::read(&page), header);
        let rows = include_str!("README.md");
        for row in [
            "| 0..8 | `lsn`",
            "| 8..12 | `checksum`",
            "| 12..14 | `flags`",
            "| 14..16 | `lower`",
            "| 16..18 | `upper`",
            "| 18..20 | `special`",
            "| 20 | `layout`",
            "| 21 | `kind`",
            "| 22..24 |",
        ] {
            assert!(rows.contains(row), "{row}");
        }
        assert_eq!(Slot::Normal { offset: 0x7FFF, bytes: 0 }.raw(), 0xFFFF);
        assert_eq!(Slot::Normal { offset: 0, bytes: 0x7FFF }.raw(), 0xFFFE_8000);
    }
}
