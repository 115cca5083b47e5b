//! When transactions are due in an open loop.
//!
//! There is one schedule for all clients. pgbench keeps one per thread, each with a share of the
//! rate: a thread whose clients are all stuck then makes its own slots late while clients of other
//! threads idle, and the superposition of several *constant* schedules is not constant. Here any
//! free client takes the next slot, as a pool of connections in front of a database would.
//!
//! A worker with a free client takes the next slot ahead of its time and sleeps until then. Slots
//! are taken in order, so a slot that nobody has taken when it is due means that every worker with
//! a free client holds an earlier slot, which is due as well: nothing waits behind a sleeping
//! worker, and only one worker wakes for a slot.

use crate::distribution::{Purpose, RandomStream};
use crate::experiment::document::Arrival;

/// The slots of a run, in order.
#[derive(Debug)]
pub(super) struct Schedule {
    stream: RandomStream,
    is_random: bool,
    mean_gap_ns: f64,
    /// How many slots were taken.
    taken: u64,
    /// When the next is due. The sum is kept in floating point, and rounded for each slot alone, so
    /// that a rate is met exactly however long the run: the error is below 1 ns for 104 days.
    next_ns: f64,
    /// Slots at or after this do not exist.
    end_ns: u64,
    /// There are no more slots than this.
    count_max: u64,
    /// Slots that were taken and not used.
    returned: Vec<u64>,
}

impl Schedule {
    /// The slots of `arrival` before `end_ns`, at most `count_max`; none in a closed loop.
    pub(super) fn new(arrival: Arrival, seed: u64, end_ns: u64, count_max: u64) -> Self {
        let (is_random, rate_per_s, count_max) = match arrival {
            Arrival::Closed => (false, 1.0, 0),
            Arrival::Poisson { rate_per_s } => (true, rate_per_s, count_max),
            Arrival::Constant { rate_per_s } => (false, rate_per_s, count_max),
        };
        let mut schedule = Self {
            stream: RandomStream::new(seed, 0, Purpose::Arrival),
            is_random,
            mean_gap_ns: 1e9 / rate_per_s,
            taken: 0,
            next_ns: 0.0,
            end_ns,
            count_max,
            returned: Vec::new(),
        };
        if is_random {
            schedule.step();
        }
        schedule
    }

    /// Takes the next slot: when it is due, since the origin.
    pub(super) fn take(&mut self) -> Option<u64> {
        while let Some(due_ns) = self.returned.pop() {
            if due_ns < self.end_ns {
                return Some(due_ns);
            }
        }
        // Saturates: a slot beyond the clock's end is beyond the schedule's end too.
        let due_ns = self.next_ns.round() as u64;
        if self.taken >= self.count_max || due_ns >= self.end_ns {
            return None;
        }
        self.taken += 1;
        self.step();
        Some(due_ns)
    }

    /// Takes back a slot whose client went away.
    pub(super) fn give_back(&mut self, due_ns: u64) {
        self.returned.push(due_ns);
    }

    /// Ends the schedule at `end_ns`, where it would end later.
    pub(super) fn cut(&mut self, end_ns: u64) {
        self.end_ns = self.end_ns.min(end_ns);
    }

    fn step(&mut self) {
        if self.is_random {
            self.next_ns -= self.stream.positive_unit().ln() * self.mean_gap_ns;
        } else {
            // From the count, so that errors do not add up.
            self.next_ns = self.taken as f64 * self.mean_gap_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn slots(arrival: Arrival, seconds: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrival, 7, seconds * SECOND_NS, u64::MAX);
        std::iter::from_fn(|| schedule.take()).collect()
    }

    #[test]
    fn a_rate_that_is_no_whole_number_of_microseconds_is_met_exactly() {
        let slots = slots(Arrival::Constant { rate_per_s: 100_001.0 }, 60);
        assert_eq!(slots.len(), 6_000_060);
    }

    #[test]
    fn a_constant_schedule_never_drifts() {
        let slots = slots(Arrival::Constant { rate_per_s: 3.0 }, 3000);
        for (index, due) in slots.iter().enumerate() {
            let exact = (index as u64 * SECOND_NS + 1) / 3;
            assert!(due.abs_diff(exact) <= 1, "slot {index}: {due} instead of {exact}");
        }
    }

    #[test]
    fn a_poisson_schedule_has_the_mean_and_the_spread_of_one() {
        let slots = slots(Arrival::Poisson { rate_per_s: 1000.0 }, 200);
        // 200,000 expected, standard deviation 447.
        assert!(slots.len().abs_diff(200_000) < 2_000, "{}", slots.len());
        let gaps: Vec<f64> = slots.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_gives_another() {
        let poisson = Arrival::Poisson { rate_per_s: 50.0 };
        assert_eq!(slots(poisson, 5), slots(poisson, 5));
        let mut other = Schedule::new(poisson, 8, 5 * SECOND_NS, u64::MAX);
        assert_ne!(Some(slots(poisson, 5)[0]), other.take());
    }

    #[test]
    fn a_schedule_ends_at_its_end_or_count() {
        let constant = Arrival::Constant { rate_per_s: 10.0 };
        let mut counted = Schedule::new(constant, 1, u64::MAX, 3);
        assert_eq!(std::iter::from_fn(|| counted.take()).count(), 3);
        let mut cut = Schedule::new(constant, 1, u64::MAX, u64::MAX);
        cut.cut(SECOND_NS);
        assert_eq!(std::iter::from_fn(|| cut.take()).count(), 10);
        assert_eq!(Schedule::new(Arrival::Closed, 1, u64::MAX, 5).take(), None);
    }
}
