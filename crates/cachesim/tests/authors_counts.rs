//! Misses over one trace, as the authors' own programs count them.
//!
//! LIRS: S. Jiang's `lirs.c` of 2002 (1% HIR pages, at least 2, the stack unlimited). CLOCK-Pro: S.
//! Jiang's `clock-pro.c` of 2005 as it is shipped (5% cold pages, at least 2, not adaptive). Both lie
//! among the resources of Caffeine's simulator and were run over the trace below, in which no page
//! repeats the one before, because they pass over such repeats.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panics")]

use evenkeel_cachesim::choice::Choice;
use evenkeel_cachesim::dense::{DenseTrace, DenseTraceBuilder, Reference};
use evenkeel_cachesim::optimum::NextUses;
use evenkeel_cachesim::simulate::{SimulationOptions, Unobserved};
use evenkeel_replacement::registry::Registry;

/// The output function of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A third each of a loop over 1,500 pages, of skewed pages, and of a set that changes twice.
fn trace() -> DenseTrace {
    let mut builder = DenseTraceBuilder::<u64>::new("loop, skew and phases", 8192);
    let mut before = u64::MAX;
    for step in 0..60_000 {
        let drawn = mix(step + 1);
        let page = match drawn % 3 {
            0 => step / 3 % 1500,
            1 => 2000 + ((drawn >> 8) % 1000) * ((drawn >> 40) % 1000) / 1000,
            _ => 4000 + step / 20_000 * 1000 + (drawn >> 8) % 800,
        };
        if page != before {
            builder.reference(page, Reference::default()).unwrap();
        }
        before = page;
    }
    builder.finish()
}

fn misses(trace: &DenseTrace, policy: &str, frames: u32) -> u64 {
    let choice = Choice::parse_list(&Registry::standard(), policy).unwrap().remove(0);
    let none = NextUses::of(&DenseTrace::default());
    let options = SimulationOptions::default();
    let simulated = choice.simulate(frames, trace, || &none, 0, &options, &Unobserved);
    simulated.unwrap().expect("nobody interrupts it").counts.misses
}

#[test]
fn lirs_misses_as_often_as_its_author_s_program() {
    let trace = trace();
    assert_eq!((trace.references().len(), trace.pages()), (55_462, 4_857));
    for (frames, theirs) in
        [(20, 53_421), (100, 50_698), (400, 42_244), (1500, 23_429), (3000, 8_885)]
    {
        assert_eq!(misses(&trace, "lirs", frames), theirs, "{frames} frames");
    }
}

/// Not to the last miss: the program evicts a used page whose test is over, where the paper begins a new
/// test.
#[test]
fn clock_pro_misses_about_as_often_as_its_author_s_program() {
    let trace = trace();
    for (frames, theirs) in [(100, 50_576), (400, 41_840), (1500, 22_682), (3000, 9_214)] {
        let ours = misses(&trace, "clock_pro(adaptive=off)", frames);
        let away = ours.abs_diff(theirs) as f64 / theirs as f64;
        assert!(away < 0.02, "{frames} frames: {ours}, the program {theirs}");
        let lru = misses(&trace, "lru", frames);
        assert!(ours.abs_diff(theirs) * 4 < lru.abs_diff(theirs), "{frames} frames: lru {lru}");
    }
}
