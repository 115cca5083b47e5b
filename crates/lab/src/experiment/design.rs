//! In which order the arms run.
//!
//! 1. A block holds one run of every arm. Everything random that is not under study (arrivals,
//!    keys) is the same for all runs of a block.
//! 2. Positions balance in small groups: two blocks for two arms (AB BA or BA AB), three for three
//!    (a Latin square). Which of the orders comes first is drawn anew for each group. A strict
//!    alternation would let a disturbance of the same period fall on one arm only; a sequence
//!    AAABBB would give drift to one arm.
//! 3. Each arm exists in two physical instances. Within a group each instance runs (of two arms:
//!    once); over two groups each instance has stood at each position equally often; over four
//!    groups each instance of one arm has met each of the other.
//! 4. The design follows from the seed alone, and a longer design begins with the shorter one: a
//!    session that is extended goes on as if it had been planned so.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The blocks of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// In the order in which they run.
    pub blocks: Vec<Block>,
}

/// One run of every arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Seeds arrivals and keys of all runs of the block.
    pub seed: u64,
    /// Arm (index) and instance (0 or 1), in the order in which they run.
    pub runs: Vec<PlannedRun>,
}

/// Which arm runs, from which physical copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Index of the arm.
    pub arm: u32,
    /// 0 or 1.
    pub instance: u32,
}

impl Design {
    /// Draws `block_count` blocks of `arm_count` arms (one to three).
    #[must_use]
    pub fn draw(seed: u64, arm_count: u32, block_count: u32) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut blocks = Vec::new();
        let group_size = arm_count.max(2);
        let mut previous_flip = 0;
        let mut group = 0_u32;
        while blocks.len() < block_count as usize {
            // Drawn for the whole group at once, so that a shorter design is a prefix.
            let order = Order::draw(&mut random, arm_count);
            let fresh_flip = bit(&mut random);
            // Rule 3: every second group mirrors the instances of the one before.
            let flip = if group.is_multiple_of(2) { fresh_flip } else { 1 - previous_flip };
            previous_flip = flip;
            for row in 0..group_size {
                let seed = random.next_u64();
                let runs = (0u32..)
                    .zip(order.row(row))
                    .map(|(position, arm)| {
                        let crossing = if arm == 0 { 0 } else { group / 2 + arm - 1 };
                        PlannedRun { arm, instance: (position + flip + crossing) % 2 }
                    })
                    .collect();
                blocks.push(Block { seed, runs });
            }
            group += 1;
        }
        blocks.truncate(block_count as usize);
        Self { blocks }
    }

    /// Arms of each block in the order run, as the session document wants them.
    #[must_use]
    pub fn block_order(&self) -> Vec<Vec<u32>> {
        self.blocks.iter().map(|block| block.runs.iter().map(|run| run.arm).collect()).collect()
    }
}

/// A Latin square (or the two orders of two arms): row after row.
struct Order {
    first: Vec<u32>,
    step: u32,
}

impl Order {
    fn draw(random: &mut Xoshiro256PlusPlus, arm_count: u32) -> Self {
        let mut first: Vec<u32> = (0..arm_count).collect();
        // Fisher-Yates; the bias of a remainder over at most three items is below 2^-62.
        for i in (1..first.len()).rev() {
            let bound = i as u64 + 1;
            let j = usize::try_from(random.next_u64() % bound).unwrap_or(0);
            first.swap(i, j);
        }
        let step = if arm_count > 2 { 1 + bit(random) } else { 1 };
        Self { first, step }
    }

    fn row(&self, row: u32) -> Vec<u32> {
        let count = self.first.len();
        let shift = (row * self.step) as usize % count.max(1);
        (0..count).map(|i| self.first[(i + shift) % count]).collect()
    }
}

fn bit(random: &mut Xoshiro256PlusPlus) -> u32 {
    u32::from(random.next_u64() >> 63 == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn tally(design: &Design) -> BTreeMap<(u32, usize, u32), u32> {
        let mut tally = BTreeMap::new();
        for block in &design.blocks {
            for (position, run) in block.runs.iter().enumerate() {
                *tally.entry((run.arm, position, run.instance)).or_insert(0) += 1;
            }
        }
        tally
    }

    #[test]
    fn every_block_holds_every_arm_once() {
        for arms in 1..=3 {
            for block in Design::draw(7, arms, 20).blocks {
                let mut seen: Vec<u32> = block.runs.iter().map(|run| run.arm).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..arms).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn positions_balance_in_every_group_so_drift_hits_all_arms_alike() {
        for seed in 0..200 {
            for arms in 2..=3_u32 {
                let design = Design::draw(seed, arms, 12);
                for group in design.blocks.chunks(arms as usize) {
                    let mut at = BTreeMap::new();
                    for block in group {
                        for (position, run) in block.runs.iter().enumerate() {
                            *at.entry((run.arm, position)).or_insert(0) += 1;
                        }
                    }
                    assert!(at.values().all(|count| *count == 1), "{seed} {arms} {group:?}");
                    assert_eq!(at.len(), (arms * arms) as usize);
                }
            }
        }
    }

    #[test]
    fn instances_balance_over_positions_and_meet_each_other() {
        for seed in 0..200 {
            let design = Design::draw(seed, 2, 8);
            assert!(tally(&design).values().all(|count| *count == 2), "{:?}", tally(&design));
            let mut met = BTreeMap::new();
            for block in &design.blocks {
                let mut instances = [0; 2];
                for run in &block.runs {
                    instances[run.arm as usize] = run.instance;
                }
                *met.entry(instances).or_insert(0) += 1;
            }
            assert!(met.len() == 4 && met.values().all(|count| *count == 2), "{seed} {met:?}");
        }
    }

    #[test]
    fn a_strict_alternation_is_no_more_likely_than_chance() {
        let alternating = (0..1000)
            .filter(|seed| {
                let order = Design::draw(*seed, 2, 8).block_order();
                order.chunks(2).all(|pair| pair[0] == order[0])
            })
            .count();
        // All four groups alike: 2 of 16 arrangements.
        assert!((80..180).contains(&alternating), "{alternating}");
    }

    #[test]
    fn a_session_is_repeatable_and_extended_without_a_new_draw() {
        for arms in 2..=3 {
            let long = Design::draw(42, arms, 16);
            assert_eq!(long, Design::draw(42, arms, 16));
            for count in 0..16 {
                let short = Design::draw(42, arms, count);
                assert_eq!(short.blocks[..], long.blocks[..count as usize]);
            }
            assert_ne!(long, Design::draw(43, arms, 16));
        }
    }
}
