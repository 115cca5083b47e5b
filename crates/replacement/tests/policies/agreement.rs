//! Each policy agrees with its naive model, reference by reference: hit or miss, and who leaves.

use evenkeel_replacement::KeySpace;
use evenkeel_replacement::policy::Hint;
use proptest::prelude::*;

use super::cache::Cache;
use super::models::{Arc, Fifo, Lru, Model, S3Fifo, TwoQ, share};
use super::models_of_clocks::{Car, Clock, ClockPro, Sieve, Sweep};
use super::models_of_recency::{Innodb, Lirs, LruK, MidpointLru};

/// Pages and the milliseconds that pass before each: uniform, skewed, loops, and bursts.
fn traces() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let page = prop_oneof![
        3 => 0_u64..60,
        3 => 0_u64..12,
        2 => 0_u64..4,
    ];
    let loops = (1_u64..30, 20_usize..200).prop_map(|(length, count)| {
        (0..count as u64).map(|at| (at % length, 1)).collect::<Vec<_>>()
    });
    let bursts = proptest::collection::vec((0_u64..30, 1_usize..4, 1_u32..9), 1..120).prop_map(
        |bursts: Vec<(u64, usize, u32)>| {
            bursts.into_iter().flat_map(|(page, times, ms)| vec![(page, ms); times]).collect()
        },
    );
    let single = proptest::collection::vec((page, 0_u32..6), 1..400);
    proptest::collection::vec(prop_oneof![4 => single, 1 => loops, 2 => bursts], 1..4)
        .prop_map(|parts: Vec<Vec<(u64, u32)>>| parts.concat())
}

fn agrees(
    specification: &str,
    frames: u32,
    mut model: impl Model,
    trace: &[(u64, u32)],
) -> Result<(), TestCaseError> {
    for space in [KeySpace::Dense(64), KeySpace::Hashed] {
        if space == KeySpace::Hashed && !trace.len().is_multiple_of(4) {
            // The answers are the same; the contract's suite runs both. One in four is enough here.
            continue;
        }
        let mut cache = Cache::new(specification, frames, space);
        let mut tick_ms = 1;
        if space == KeySpace::Hashed {
            return compare(specification, frames, &mut cache, None, trace, &mut tick_ms);
        }
        compare(specification, frames, &mut cache, Some(&mut model), trace, &mut tick_ms)?;
    }
    Ok(())
}

fn compare(
    specification: &str,
    frames: u32,
    cache: &mut Cache,
    mut model: Option<&mut dyn Model>,
    trace: &[(u64, u32)],
    tick_ms: &mut u32,
) -> Result<(), TestCaseError> {
    let mut dense = model.is_none().then(|| Cache::new(specification, frames, KeySpace::Dense(64)));
    for (at, (page, elapsed_ms)) in trace.iter().enumerate() {
        *tick_ms += elapsed_ms;
        let ours = cache.reference(*page, *tick_ms, Hint::Normal);
        let theirs = match (&mut model, &mut dense) {
            (Some(model), _) => model.reference(*page, *tick_ms),
            (None, Some(dense)) => dense.reference(*page, *tick_ms, Hint::Normal),
            (None, None) => ours,
        };
        prop_assert_eq!(
            ours,
            theirs,
            "{} with {} frames, reference {} of page {}",
            specification,
            frames,
            at,
            page
        );
        prop_assert_eq!(cache.policy.check(), Ok(()), "{} at {}", specification, at);
    }
    Ok(())
}

#[test]
fn fifo_lru_clock_and_sieve_agree_with_their_models() {
    proptest!(|(frames in 1_u32..14, trace in traces())| {
        let c = frames as usize;
        agrees("fifo", frames, Fifo { frames: c, queue: vec![] }, &trace)?;
        agrees("lru", frames, Lru { frames: c, order: vec![] }, &trace)?;
        for (text, initial) in [("clock", false), ("clock(initial=1)", true)] {
            agrees(text, frames, Clock { frames: c, initial, queue: vec![] }, &trace)?;
        }
        agrees("sieve", frames, Sieve { frames: c, queue: vec![], hand: None }, &trace)?;
    });
}

#[test]
fn the_clock_sweep_and_its_variants_agree_with_their_model() {
    let variants = [
        ("clock_sweep", 5, 1, 0, "one", false, 0),
        ("clock_sweep(cap=10, initial=3, delay_ms=7)", 10, 3, 7, "one", false, 0),
        ("clock_sweep(initial=0)", 5, 0, 0, "one", false, 0),
        ("clock_sweep(increment=max)", 5, 1, 0, "max", false, 0),
        ("clock_sweep(increment=balanced)", 5, 1, 0, "balanced", false, 0),
        ("clock_sweep(cap=9, decay=half)", 9, 1, 0, "one", true, 0),
        ("clock_sweep(pressure=1)", 5, 1, 0, "one", false, 1),
        ("clock_sweep(pressure=3, increment=max, delay_ms=3)", 5, 1, 3, "max", false, 3),
        ("clock_sweep(pressure=2, increment=balanced)", 5, 1, 0, "balanced", false, 2),
    ];
    proptest!(|(frames in 1_u32..14, trace in traces())| {
        for (text, cap, initial, delay_ms, increment, halves, pressure) in variants {
            let model = Sweep {
                frames: frames as usize,
                cap,
                initial,
                delay_ms,
                increment,
                halves,
                pressure,
                buffers: vec![],
                hand: 0,
                owed: 0,
            };
            agrees(text, frames, model, &trace)?;
        }
    });
}

#[test]
fn two_q_arc_and_car_agree_with_their_models() {
    proptest!(|(frames in 1_u32..14, trace in traces())| {
        let c = frames as usize;
        for (text, k_in, k_out) in [
            ("two_q", 0.25, 0.5),
            ("two_q(k_in=0.5, k_out=2)", 0.5, 2.0),
            ("two_q(k_out=0)", 0.25, 0.0),
        ] {
            let model = TwoQ {
                frames: c,
                k_in: share(k_in, c),
                k_out: share(k_out, c),
                a1_in: vec![],
                a1_out: vec![],
                am: vec![],
            };
            agrees(text, frames, model, &trace)?;
        }
        agrees("arc", frames, Arc { c, ..Arc::default() }, &trace)?;
        agrees("arc(ratio=integer)", frames, Arc { c, is_integer: true, ..Arc::default() }, &trace)?;
        agrees("car", frames, Car { c, ..Car::default() }, &trace)?;
    });
}

#[test]
fn s3_fifo_and_clock2q_plus_agree_with_their_model() {
    proptest!(|(frames in 1_u32..40, trace in traces())| {
        let c = frames as usize;
        for (text, small, ghosts, promote, cap, warm_up, window) in [
            ("s3_fifo", 0.1, 0.9, 2, 3, true, 0.0),
            ("s3_fifo(small=0.4, ghosts=2, promote=1, warm_up=off)", 0.4, 2.0, 1, 3, false, 0.0),
            ("s3_fifo(ghosts=0, promote=3)", 0.1, 0.0, 3, 3, true, 0.0),
            ("clock2q_plus", 0.1, 0.9, 1, 1, true, 0.5),
            ("clock2q_plus(small=0.5, window=0.7)", 0.5, 0.9, 1, 1, true, 0.7),
            ("clock2q_plus(small=0.3, window=1, warm_up=off)", 0.3, 0.9, 1, 1, false, 1.0),
        ] {
            let small_frames = share(small, c);
            let model = S3Fifo {
                frames: c,
                small_frames,
                ghost_frames: share(ghosts, c),
                promote,
                cap,
                warm_up,
                // At least window x S further pages have entered: rounded up.
                window: (window * small_frames as f64).ceil() as u64,
                small: vec![],
                main: vec![],
                ghosts: vec![],
                entries: 0,
                has_evicted: false,
            };
            agrees(text, frames, model, &trace)?;
        }
    });
}

#[test]
fn lru_k_agrees_with_its_model() {
    proptest!(|(frames in 1_u32..14, trace in traces())| {
        let c = frames as usize;
        for (text, k, correlated, correlated_ms, history) in [
            ("lru_k", 2, 0.25, 0, 2.0),
            ("lru_k(correlated=0)", 2, 0.0, 0, 2.0),
            ("lru_k(k=3, correlated=0.5, history=1)", 3, 0.5, 0, 1.0),
            ("lru_k(k=1)", 1, 0.25, 0, 2.0),
            ("lru_k(k=2, history=0)", 2, 0.25, 0, 0.0),
        ] {
            let model = LruK {
                frames: c,
                k,
                period: (correlated * c as f64).floor() as u64 + correlated_ms,
                in_ms: correlated_ms > 0,
                remembered: share(history, c),
                held: vec![],
                history: vec![],
                now: 0,
            };
            agrees(text, frames, model, &trace)?;
        }
    });
}

#[test]
fn lirs_agrees_with_its_model() {
    proptest!(|(frames in 1_u32..20, trace in traces())| {
        let c = frames as usize;
        for (text, hir, ghosts) in [
            ("lirs", 0.01, 2500.0),
            ("lirs(ghosts=1)", 0.01, 1.0),
            ("lirs(hir=0.4, ghosts=2)", 0.4, 2.0),
            ("lirs(ghosts=0)", 0.01, 0.0),
        ] {
            let hir_frames = share(hir, c).max(2).min(c - 1).max(1);
            let model = Lirs {
                lir_frames: c - hir_frames,
                hir_frames,
                ghosts_max: share(ghosts, c),
                stack: vec![],
                queue: vec![],
                lir: vec![],
                ghosts: vec![],
            };
            agrees(text, frames, model, &trace)?;
        }
    });
}

#[test]
fn clock_pro_agrees_with_its_model() {
    proptest!(|(frames in 1_u32..20, trace in traces())| {
        let c = frames as usize;
        for (text, cold, adaptive) in [
            ("clock_pro", 0.05, true),
            ("clock_pro(cold=0.5)", 0.5, true),
            ("clock_pro(cold=1)", 1.0, true),
            ("clock_pro(adaptive=off)", 0.05, false),
            ("clock_pro(cold=0.3, adaptive=off)", 0.3, false),
        ] {
            agrees(text, frames, ClockPro::new(c, share(cold, c), adaptive), &trace)?;
        }
    });
}

#[test]
fn midpoint_lru_and_innodb_agree_with_their_models() {
    proptest!(|(frames in 1_u32..48, trace in traces())| {
        let c = frames as usize;
        for (text, midpoint, clock_share, stays, cap) in [
            ("midpoint_lru", 0.625, 0.125, false, 5),
            ("midpoint_lru(clock_use=stay)", 0.625, 0.125, true, 5),
            ("midpoint_lru(midpoint=0.2, clock_share=0.5, cap=2)", 0.2, 0.5, false, 2),
            ("midpoint_lru(midpoint=0, clock_share=1, clock_use=stay, cap=3)", 0.0, 1.0, true, 3),
        ] {
            let model = MidpointLru {
                frames: c,
                midpoint,
                clock_share,
                stays,
                cap,
                list: vec![],
                young: 0,
                zone: vec![],
            };
            agrees(text, frames, model, &trace)?;
        }
        for (text, percent, old_time_ms, old_from, tolerance) in [
            ("innodb", 37, 1000, 512, 20),
            ("innodb(old_time_ms=12, old_from=26, tolerance=2)", 37, 12, 26, 2),
            ("innodb(old_percent=60, old_time_ms=5, old_from=28, tolerance=0)", 60, 5, 28, 0),
            ("innodb(old_time_ms=0, old_from=30, tolerance=4)", 37, 0, 30, 4),
        ] {
            let model = Innodb::new(c, percent, old_time_ms, old_from, tolerance);
            agrees(text, frames, model, &trace)?;
        }
    });
}
