//! Any operations on a pool of any size with any policy answer as a plain map of pages would.

#![cfg(not(feature = "shuttle"))]

use std::collections::BTreeMap;

use evenkeel_replacement::registry::Registry;
use proptest::prelude::*;

use super::super::{Pinned, PoolError, Role};
use super::*;
use crate::runtime::OsRuntime;
use crate::smgr::SmgrError;
use crate::vfs::sim::SimDisk;

#[derive(Clone, Debug)]
enum Step {
    Read(u32),
    ReadThroughRing(u32),
    Change(u32),
    Extend,
    Hold(u32),
    LetGo(usize),
    Truncate(u32),
    Flush,
    Checkpoint,
    Clean,
}

const BLOCKS: u32 = 30;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..BLOCKS).prop_map(Step::Read),
        2 => (0..BLOCKS).prop_map(Step::ReadThroughRing),
        6 => (0..BLOCKS).prop_map(Step::Change),
        3 => Just(Step::Extend),
        2 => (0..BLOCKS).prop_map(Step::Hold),
        2 => (0_usize..4).prop_map(Step::LetGo),
        1 => (0..BLOCKS).prop_map(Step::Truncate),
        1 => Just(Step::Flush),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Clean),
    ]
}

fn expect_page(
    got: Result<Pinned<'_>, PoolError>,
    expected: Option<u64>,
    is_full: bool,
) -> Result<(), TestCaseError> {
    match (got, expected) {
        (Ok(page), Some(value)) => prop_assert_eq!(said(&page.shared()), value),
        (Err(PoolError::AllPinned { .. }), _) => prop_assert!(is_full),
        (Err(PoolError::Storage(SmgrError::BeyondEnd { .. })), None) => {}
        (got, expected) => prop_assert!(false, "{got:?} instead of {expected:?}"),
    }
    Ok(())
}

fn run(settings: PoolSettings, steps: &[Step]) -> Result<(), TestCaseError> {
    let frames = settings.frames as usize;
    let disk = Arc::new(SimDisk::new());
    let runtime = Arc::new(OsRuntime::new());
    let one = bench(Arc::clone(&disk) as Arc<dyn FileSystem>, runtime.clone(), settings.clone());
    let worker = one.pool.worker(Role::Client);
    let mut ring = one.pool.bulk_write_ring();
    let mut model: BTreeMap<u32, u64> = BTreeMap::new();
    let mut held: Vec<Pinned<'_>> = Vec::new();
    for (number, step) in (1_u64..).zip(steps) {
        let is_held = |block: u32| held.iter().any(|pinned| pinned.identity() == identity(block));
        let mut pinned: Vec<PageIdentity> = held.iter().map(Pinned::identity).collect();
        pinned.sort_unstable();
        pinned.dedup();
        let is_full = pinned.len() == frames;
        match *step {
            Step::Read(block) => {
                let expected = model.get(&block).copied();
                expect_page(worker.fetch(identity(block)), expected, is_full && !is_held(block))?;
            }
            Step::ReadThroughRing(block) => {
                let got = worker.fetch_through(identity(block), &mut ring);
                expect_page(got, model.get(&block).copied(), is_full && !is_held(block))?;
            }
            Step::Change(block) => match worker.fetch(identity(block)) {
                Ok(page) => {
                    prop_assert!(model.contains_key(&block));
                    let mut page = page.exclusive();
                    say(page.change(), number, number);
                    model.insert(block, number);
                }
                got => expect_page(got, model.get(&block).copied(), is_full && !is_held(block))?,
            },
            Step::Extend => {
                let end = u32::try_from(model.len()).unwrap();
                match worker.extend(RELATION, Fork::Main, None) {
                    Ok(page) => {
                        prop_assert_eq!(page.identity(), identity(end));
                        prop_assert_eq!(said(&page), 0);
                        model.insert(end, 0);
                    }
                    Err(error) => {
                        let frames = u32::try_from(frames).unwrap();
                        prop_assert_eq!(error, PoolError::AllPinned { frames });
                        prop_assert!(is_full);
                    }
                }
            }
            Step::Hold(block) => {
                if let Ok(page) = worker.fetch(identity(block)) {
                    held.push(page);
                }
            }
            Step::LetGo(at) => {
                if at < held.len() {
                    held.swap_remove(at);
                }
            }
            Step::Truncate(blocks) => {
                held.retain(|pinned| pinned.identity().block.0 < blocks);
                worker.truncate(RELATION, Fork::Main, blocks).unwrap();
                model.retain(|block, _| *block < blocks);
            }
            Step::Flush => {
                let dirty = one.pool.dirty_pages().len() as u64;
                prop_assert_eq!(worker.flush_relation(RELATION).unwrap(), dirty);
                prop_assert_eq!(one.pool.dirty_pages(), []);
            }
            Step::Checkpoint => {
                for page in one.pool.dirty_pages() {
                    prop_assert!(worker.write(page).unwrap());
                }
                // Everything is on disk now, whatever is in the pool.
                for (block, value) in &model {
                    let mut page = crate::page::PageImage::zeroed();
                    one.pool.smgr().read(identity(*block), &mut page).unwrap();
                    prop_assert_eq!(said(&page), *value);
                }
            }
            Step::Clean => {
                let done = worker.clean_ahead(frames, 3, 2, &mut Vec::new()).unwrap();
                prop_assert!(done.written <= 2);
            }
        }
    }
    drop(held);
    prop_assert_eq!(one.pool.check(), Ok(()));
    worker.flush_relation(RELATION).unwrap();
    let counted = one.pool.statistics();
    prop_assert_eq!(counted.write_failures, 0);
    let again = bench(disk, runtime, settings);
    let worker = again.pool.worker(Role::Client);
    for (block, expected) in model {
        prop_assert_eq!(value(&worker, block), expected);
    }
    Ok(())
}

fn policies() -> impl Strategy<Value = evenkeel_replacement::registry::PolicySpecification> {
    prop::sample::select(Registry::standard().defaults())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_pool_answers_as_a_map_of_pages_would(
        policy in policies(),
        frames in 1_u32..=20,
        dirty_passed_max in prop_oneof![Just(0_u32), 0_u32..30],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let settings = PoolSettings { policy, dirty_passed_max, ..PoolSettings::new(frames) };
        run(settings, &steps)?;
    }
}

#[test]
fn every_policy_works_at_every_small_size() {
    let mut steps = vec![Step::Extend; 25];
    for round in 0..6_u32 {
        steps.extend((0..25).map(|block| Step::Change((block * 7 + round) % 25)));
        steps.extend((0..25).map(|block| Step::Read((block * round) % 27)));
        steps.extend([Step::Hold(round), Step::Clean, Step::LetGo(0), Step::Truncate(25 - round)]);
    }
    for policy in Registry::standard().defaults() {
        for frames in 1..=20 {
            let settings = PoolSettings { policy: policy.clone(), ..PoolSettings::new(frames) };
            run(settings, &steps).unwrap_or_else(|error| panic!("{policy}, {frames}: {error}"));
        }
    }
}
