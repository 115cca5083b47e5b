//! Cache-replacement policies for page caches, behind one interface for a concurrent buffer pool
//! and for a simulator.
//!
//! The crate is pure: no I/O, no clock, no threads, randomness only from a seed. [`policy`] holds
//! the contract; every policy is a file of its own that states its source, parameters, costs,
//! memory and differences to the paper.

pub mod arc;
pub mod car;
mod catalogue;
pub mod clock;
pub mod clock2q_plus;
pub mod clock_pro;
pub mod clock_sweep;
pub mod conformance;
mod entries;
pub mod fifo;
mod frame_list;
mod frames;
mod frequency_sketch;
mod ghost;
pub mod innodb;
mod keys;
pub mod lirs;
pub mod lru;
pub mod lru_k;
pub mod midpoint_lru;
pub mod page_map;
pub mod policy;
pub mod random;
pub mod registry;
pub mod s3_fifo;
pub mod sieve;
mod specification;
pub mod two_q;
pub mod w_tinylfu;

pub use ghost::KeySpace;

/// Runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use crate::registry::{PolicySpecification, Registry};
    use crate::{KeySpace, conformance};

    fn holds(one: &PolicySpecification, space: KeySpace) {
        let checked = conformance::check(&|frames| one.build(frames, space, 7).unwrap());
        if let Err(broken) = checked {
            panic!("{one}, {space:?}: {broken}");
        }
    }

    #[test]
    fn every_policy_keeps_the_contract() {
        for one in Registry::standard().defaults() {
            holds(&one, KeySpace::Hashed);
        }
    }

    #[test]
    fn policies_with_ghosts_keep_the_contract_with_dense_pages() {
        let with_ghosts = "lru_k, two_q, arc, car, clock_pro, lirs, s3_fifo, clock2q_plus";
        for one in Registry::standard().parse_list(with_ghosts).unwrap() {
            holds(&one, KeySpace::Dense(2_000_000));
        }
    }

    #[test]
    fn variants_of_policies_keep_the_contract() {
        let variants = "clock(initial=1), clock_sweep(cap=10, initial=3, delay_ms=5),
                     clock_sweep(increment=max, decay=half, pressure=3),
                     clock_sweep(increment=balanced, pressure=1),
                     midpoint_lru(midpoint=0, clock_share=1, cap=1),
                     midpoint_lru(clock_use=stay), midpoint_lru(midpoint=0.3, clock_share=0.5),
                     innodb(old_from=26, tolerance=2, old_time_ms=3),
                     innodb(old_from=26, tolerance=0, old_percent=95, old_time_ms=0),
                     innodb(old_from=26, tolerance=5, old_percent=5),
                     lru_k(k=3, correlated_ms=5), lru_k(k=8, correlated=0, history=0),
                     two_q(k_in=0.9, k_out=0), two_q(k_in=0.01, k_out=4), arc(ratio=integer),
                     clock_pro(adaptive=off), clock_pro(cold=1), clock_pro(cold=0.5),
                     lirs(hir=0.5), lirs(ghosts=0), lirs(hir=0.9, ghosts=1),
                     w_tinylfu(window=0.99), w_tinylfu(window=0.5, protected=0),
                     w_tinylfu(protected=0.99),
                     s3_fifo(promote=1, warm_up=off), s3_fifo(small=0.9, ghosts=0),
                     clock2q_plus(window=0), clock2q_plus(window=1, small=0.9)";
        for one in Registry::standard().parse_list(variants).unwrap() {
            holds(&one, KeySpace::Hashed);
        }
    }
}
