//! PostgreSQL's rules for usage counts, one by one (`freelist.c`, `bufmgr.c`).

use std::collections::HashSet;

use evenkeel_replacement::clock_sweep::{ClockSweep, ClockSweepParameters};
use evenkeel_replacement::policy::{
    Access, Answer, Candidates, FrameId, Hint, HitLog, Miss, PageKey, Policy, TakeFirst,
};

struct Pins(HashSet<u32>);

impl Candidates for Pins {
    fn is_pinned(&mut self, frame: FrameId) -> bool {
        self.0.contains(&frame.0)
    }

    fn offer(&mut self, frame: FrameId) -> Answer {
        if self.is_pinned(frame) { Answer::Pinned } else { Answer::Take }
    }
}

fn full(parameters: ClockSweepParameters, frames: u32) -> ClockSweep {
    let mut sweep = ClockSweep::new(parameters, frames);
    for frame in 0..frames {
        let miss = sweep.miss(PageKey(u64::from(frame)), Access::default());
        sweep.admit(miss, FrameId(frame), PageKey(u64::from(frame)), Access::default());
    }
    sweep
}

fn pin(sweep: &ClockSweep, frame: u32, times: u32, hint: Hint, tick_ms: u32) {
    let mut log = HitLog::default();
    for _ in 0..times {
        sweep.hit_path().hit(FrameId(frame), Access { hint, tick_ms }, &mut log);
    }
    assert!(log.is_empty(), "a use of a buffer changes its own word alone");
}

fn counts(sweep: &ClockSweep, frames: u32) -> Vec<u32> {
    (0..frames).map(|frame| sweep.usage(FrameId(frame))).collect()
}

#[test]
fn a_load_counts_one_and_the_count_stops_at_five() {
    let sweep = full(ClockSweepParameters::default(), 2);
    assert_eq!(counts(&sweep, 2), [1, 1]);
    pin(&sweep, 0, 3, Hint::Normal, 0);
    assert_eq!(counts(&sweep, 2), [4, 1]);
    pin(&sweep, 0, 9, Hint::Normal, 0);
    assert_eq!(counts(&sweep, 2), [5, 1]);
}

#[test]
fn pins_through_a_ring_never_lift_a_count_above_one() {
    let parameters = ClockSweepParameters { initial: 0, ..Default::default() };
    let sweep = full(parameters, 2);
    pin(&sweep, 0, 9, Hint::Ring, 0);
    pin(&sweep, 1, 3, Hint::Normal, 0);
    pin(&sweep, 1, 9, Hint::Ring, 0);
    assert_eq!(counts(&sweep, 2), [1, 3]);
}

#[test]
fn a_page_read_through_a_ring_does_not_start_hot() {
    let parameters = ClockSweepParameters { cap: 10, initial: 3, ..Default::default() };
    let mut sweep = ClockSweep::new(parameters, 2);
    for (frame, hint) in [(0, Hint::Ring), (1, Hint::Normal)] {
        let access = Access { hint, tick_ms: 0 };
        let miss = sweep.miss(PageKey(u64::from(frame)), access);
        sweep.admit(miss, FrameId(frame), PageKey(u64::from(frame)), access);
    }
    assert_eq!(counts(&sweep, 2), [1, 3]);
}

#[test]
fn when_all_counts_are_full_a_victim_costs_the_cap_and_one_more_turn() {
    for cap in [1, 5, 10] {
        let mut sweep = full(ClockSweepParameters { cap, ..Default::default() }, 8);
        for frame in 0..8 {
            pin(&sweep, frame, 20, Hint::Normal, 0);
        }
        assert_eq!(sweep.victim(Miss::default(), &mut TakeFirst), Some(FrameId(0)));
        assert_eq!(sweep.statistics().sweep_steps, u64::from(cap) * 8 + 1);
    }
}

#[test]
fn pinned_buffers_are_passed_without_being_lowered() {
    let mut sweep = full(ClockSweepParameters::default(), 3);
    pin(&sweep, 1, 2, Hint::Normal, 0);
    let found = sweep.victim(Miss::default(), &mut Pins(HashSet::from([1])));
    assert_eq!(found, Some(FrameId(0)));
    assert_eq!(counts(&sweep, 3), [0, 3, 0]);
}

#[test]
fn with_all_buffers_pinned_the_search_ends_after_one_turn_and_lowers_nothing() {
    let mut sweep = full(ClockSweepParameters::default(), 7);
    pin(&sweep, 3, 4, Hint::Normal, 0);
    let before = counts(&sweep, 7);
    assert_eq!(sweep.victim(Miss::default(), &mut Pins((0..7).collect())), None);
    assert_eq!(counts(&sweep, 7), before);
    assert_eq!((sweep.statistics().sweep_steps, sweep.statistics().failed_searches), (7, 1));
}

#[test]
fn the_tries_begin_anew_with_every_count_that_is_lowered() {
    // Only frame 2 is unpinned, at 5: a turn ends after each lowering, the sixth visit takes it.
    let mut sweep = full(ClockSweepParameters::default(), 4);
    pin(&sweep, 2, 9, Hint::Normal, 0);
    let found = sweep.victim(Miss::default(), &mut Pins(HashSet::from([0, 1, 3])));
    assert_eq!(found, Some(FrameId(2)));
    assert_eq!(sweep.statistics().sweep_steps, 5 * 4 + 3);
}

#[test]
fn many_uses_within_the_delay_raise_a_count_by_one() {
    let parameters =
        ClockSweepParameters { cap: 10, initial: 3, delay_ms: 3000, ..Default::default() };
    let sweep = full(parameters, 1);
    // Loading at 0 counts as a rise.
    pin(&sweep, 0, 50, Hint::Normal, 2999);
    assert_eq!(counts(&sweep, 1), [3]);
    pin(&sweep, 0, 50, Hint::Normal, 3000);
    assert_eq!(counts(&sweep, 1), [4]);
    pin(&sweep, 0, 50, Hint::Normal, 5999);
    assert_eq!(counts(&sweep, 1), [4]);
    pin(&sweep, 0, 50, Hint::Normal, 6000);
    assert_eq!(counts(&sweep, 1), [5]);
}

#[test]
fn a_clock_that_goes_back_raises_nothing_and_one_that_wraps_is_followed() {
    let parameters = ClockSweepParameters { delay_ms: 3000, ..Default::default() };
    let mut sweep = ClockSweep::new(parameters, 1);
    let late = Access { hint: Hint::Normal, tick_ms: u32::MAX - 999 };
    let miss = sweep.miss(PageKey(1), late);
    sweep.admit(miss, FrameId(0), PageKey(1), late);
    pin(&sweep, 0, 1, Hint::Normal, u32::MAX - 5000);
    assert_eq!(counts(&sweep, 1), [1]);
    pin(&sweep, 0, 1, Hint::Normal, 1999);
    assert_eq!(counts(&sweep, 1), [1]);
    pin(&sweep, 0, 1, Hint::Normal, 2000);
    assert_eq!(counts(&sweep, 1), [2]);
}

#[test]
fn access_pressure_ends_where_every_buffer_is_pinned() {
    let parameters = ClockSweepParameters { pressure: 1, ..Default::default() };
    let mut sweep = full(parameters, 5);
    for frame in 0..5 {
        pin(&sweep, frame, 4, Hint::Normal, 0);
    }
    let before = counts(&sweep, 5);
    assert_eq!(sweep.victim(Miss::default(), &mut Pins((0..5).collect())), None);
    assert_eq!(counts(&sweep, 5), before);
    // Released, the counts are brought down to a mean of one.
    assert!(sweep.victim(Miss::default(), &mut Pins(HashSet::new())).is_some());
    assert!(counts(&sweep, 5).iter().sum::<u32>() <= 5);
}

#[test]
fn the_histogram_holds_every_resident_buffer_under_its_count() {
    let mut sweep = full(ClockSweepParameters::default(), 5);
    pin(&sweep, 0, 9, Hint::Normal, 0);
    pin(&sweep, 1, 1, Hint::Normal, 0);
    sweep.forget_frame(FrameId(4));
    let mut histogram = Vec::new();
    sweep.usage_histogram(&mut histogram);
    assert_eq!(histogram, [0, 2, 1, 0, 0, 1]);
}
