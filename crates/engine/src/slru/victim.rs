//! Which slot gives way to a page that is not there: PostgreSQL's SlruSelectLRUPage before and after
//! R. Haas's change of April 2012 (3ae5133b1c), as a pure function.

/// How a slot is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VictimRule {
    /// The slot used longest ago, busy or not; if it is being read or written, everybody waits for it.
    Oldest,
    /// The slot used longest ago of those that are not busy; a busy one is waited for only when there is no
    /// other. PostgreSQL's since 9.2.
    #[default]
    OldestIdle,
}

/// What a slot is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotStatus {
    /// It holds no page.
    #[default]
    Empty,
    /// Its page is on the way in; its bytes mean nothing yet.
    Reading,
    /// Its page can be used.
    Valid,
    /// Its page can be used, and a copy of it is on the way out.
    Writing,
}

/// A slot, as the choice sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotView {
    /// What it is doing.
    pub status: SlotStatus,
    /// Its page; without meaning when it is empty.
    pub page: u32,
    /// Whether the page differs from the disk.
    pub is_dirty: bool,
    /// When it was used last, on the bank's count of uses.
    pub used: u64,
}

/// What to do to get a slot. After writing or waiting everything is looked at anew (rule L4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Take it.
    Take(usize),
    /// Write its page first.
    Write(usize),
    /// Wait until its read or write is over.
    Wait(usize),
    /// There is none: only the latest page is there.
    None,
}

/// Chooses among `slots`; the page `latest` is never given up. `now` is the bank's count of uses.
#[must_use]
pub fn choose(rule: VictimRule, slots: &[SlotView], latest: u32, now: u64) -> Choice {
    if let Some(empty) = slots.iter().position(|slot| slot.status == SlotStatus::Empty) {
        return Choice::Take(empty);
    }
    // Uses counted under the shared lock may get lost or be counted twice, so ties are possible; and a count
    // ahead of `now` is no age.
    let age = |slot: &SlotView| now.saturating_sub(slot.used);
    let oldest = |is_wanted: &dyn Fn(&SlotView) -> bool| {
        let candidates = slots.iter().enumerate();
        let candidates = candidates.filter(|(_, slot)| slot.page != latest && is_wanted(slot));
        // The logically older page goes first where ages are equal.
        candidates
            .max_by_key(|(_, slot)| (age(slot), std::cmp::Reverse(slot.page)))
            .map(|(number, _)| number)
    };
    let is_idle = |slot: &SlotView| slot.status == SlotStatus::Valid;
    let best = match rule {
        VictimRule::Oldest => oldest(&|_| true),
        VictimRule::OldestIdle => oldest(&is_idle).or_else(|| oldest(&|slot| !is_idle(slot))),
    };
    match best {
        None => Choice::None,
        Some(number) if !is_idle(&slots[number]) => Choice::Wait(number),
        Some(number) if slots[number].is_dirty => Choice::Write(number),
        Some(number) => Choice::Take(number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot(status: SlotStatus, page: u32, is_dirty: bool, used: u64) -> SlotView {
        SlotView { status, page, is_dirty, used }
    }

    #[test]
    fn everybody_waited_for_one_slow_write_and_now_takes_another_slot() {
        use SlotStatus::{Reading, Valid, Writing};
        let slots = [
            slot(Writing, 1, false, 10),
            slot(Reading, 2, false, 11),
            slot(Valid, 3, true, 13),
            slot(Valid, 4, false, 12),
            slot(Valid, 9, false, 1),
        ];
        assert_eq!(choose(VictimRule::Oldest, &slots, 9, 20), Choice::Wait(0));
        assert_eq!(choose(VictimRule::OldestIdle, &slots, 9, 20), Choice::Take(3));
        // A dirty one that is older than the clean ones is written; the rule saves waits, not writes.
        let older =
            [slot(Writing, 1, false, 10), slot(Valid, 3, true, 11), slot(Valid, 4, false, 12)];
        assert_eq!(choose(VictimRule::OldestIdle, &older, 9, 20), Choice::Write(1));
    }

    #[test]
    fn when_all_are_busy_the_one_that_began_first_is_waited_for() {
        use SlotStatus::{Reading, Writing};
        let slots =
            [slot(Reading, 5, false, 7), slot(Writing, 6, false, 5), slot(Reading, 7, false, 6)];
        for rule in [VictimRule::Oldest, VictimRule::OldestIdle] {
            assert_eq!(choose(rule, &slots, 9, 20), Choice::Wait(1));
        }
    }

    #[test]
    fn equal_ages_give_up_the_older_page_and_empty_slots_go_first() {
        use SlotStatus::{Empty, Valid};
        let mut slots =
            [slot(Valid, 8, false, 3), slot(Valid, 5, false, 3), slot(Valid, 6, false, 3)];
        assert_eq!(choose(VictimRule::OldestIdle, &slots, 9, 20), Choice::Take(1));
        slots[2].status = Empty;
        assert_eq!(choose(VictimRule::OldestIdle, &slots, 9, 20), Choice::Take(2));
        let latest = [slot(Valid, 9, true, 0)];
        assert_eq!(choose(VictimRule::OldestIdle, &latest, 9, 20), Choice::None);
    }

    fn any_slot() -> impl Strategy<Value = SlotView> {
        let status = prop_oneof![
            Just(SlotStatus::Reading),
            Just(SlotStatus::Valid),
            Just(SlotStatus::Writing),
            Just(SlotStatus::Empty)
        ];
        (status, 0_u32..20, any::<bool>(), 0_u64..30)
            .prop_map(|(status, page, is_dirty, used)| slot(status, page, is_dirty, used))
    }

    proptest! {
        #[test]
        fn nobody_waits_while_another_slot_is_idle_and_the_latest_page_stays(
            slots in prop::collection::vec(any_slot(), 1..20), latest in 0_u32..20,
        ) {
            for rule in [VictimRule::Oldest, VictimRule::OldestIdle] {
                let is_idle = |slot: &SlotView| {
                    slot.status == SlotStatus::Empty
                        || (slot.status == SlotStatus::Valid && slot.page != latest)
                };
                match choose(rule, &slots, latest, 25) {
                    Choice::Take(number) => {
                        let slot = slots[number];
                        prop_assert!(is_idle(&slot));
                        prop_assert!(slot.status == SlotStatus::Empty || !slot.is_dirty);
                    }
                    Choice::Write(number) => {
                        prop_assert!(is_idle(&slots[number]) && slots[number].is_dirty);
                    }
                    Choice::Wait(number) => {
                        prop_assert!(slots[number].page != latest);
                        prop_assert!(!is_idle(&slots[number]));
                        prop_assert!(rule == VictimRule::Oldest || !slots.iter().any(is_idle));
                    }
                    Choice::None => prop_assert!(slots.iter().all(|slot| slot.page == latest)),
                }
            }
        }
    }
}
