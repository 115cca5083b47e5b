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
pub mod clock_sweep;
pub mod conformance;
pub mod fifo;
mod frame_list;
mod frames;
mod frequency_sketch;
mod ghost;
pub mod lru;
pub mod lru_k;
pub mod policy;
pub mod random;
pub mod registry;
pub mod s3_fifo;
pub mod sieve;
mod specification;
pub mod two_q;
pub mod w_tinylfu;

pub use ghost::KeySpace;

#[cfg(test)]
mod tests {
    use crate::policy::Policy;
    use crate::{
        KeySpace, arc, car, clock, clock_sweep, clock2q_plus, conformance, fifo, lru, lru_k,
        random, s3_fifo, sieve, two_q, w_tinylfu,
    };

    fn holds<P: Policy + 'static>(make: impl Fn(u32) -> P) {
        if let Err(broken) = conformance::check(&|frames| Box::new(make(frames))) {
            panic!("{broken}");
        }
    }

    #[test]
    fn every_policy_keeps_the_contract() {
        holds(fifo::Fifo::new);
        holds(lru::Lru::new);
        holds(|frames| random::Random::new(7, frames));
        holds(|frames| clock::clock(false, frames));
        holds(|frames| clock::clock(true, frames));
        let sweep = clock_sweep::ClockSweepParameters::default();
        holds(|frames| clock_sweep::ClockSweep::new(sweep, frames));
        let delayed =
            clock_sweep::ClockSweepParameters { cap: 10, initial: 3, delay_ms: 5, ..sweep };
        holds(|frames| clock_sweep::ClockSweep::new(delayed, frames));
        let pressed = clock_sweep::ClockSweepParameters {
            increment: clock_sweep::Increment::Max,
            decay: clock_sweep::Decay::Half,
            pressure: 3,
            ..sweep
        };
        holds(|frames| clock_sweep::ClockSweep::new(pressed, frames));
        holds(sieve::Sieve::new);
        holds(|frames| w_tinylfu::WTinyLfu::new(w_tinylfu::WTinyLfuParameters::default(), frames));
        for space in [KeySpace::Hashed, KeySpace::Dense(2_000_000)] {
            holds(|frames| two_q::TwoQ::new(two_q::TwoQParameters::default(), frames, space));
            holds(|frames| arc::AdaptiveReplacement::new(arc::Ratio::Real, frames, space));
            holds(|frames| car::ClockAdaptiveReplacement::new(frames, space));
            let parameters = lru_k::LruKParameters::default();
            holds(|frames| lru_k::LruK::new(parameters, frames, space));
            let timed = lru_k::LruKParameters { k: 3, correlated_ms: 5, ..parameters };
            holds(|frames| lru_k::LruK::new(timed, frames, space));
            let s3 = s3_fifo::S3FifoParameters::default();
            holds(|frames| s3_fifo::S3Fifo::new(s3, frames, space));
            holds(|frames| clock2q_plus::clock2q_plus(s3, 0.5, frames, space));
        }
    }
}
