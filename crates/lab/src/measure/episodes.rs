//! Stall episodes: stretches in which transactions were overdue.

use crate::experiment::document::Episode;

/// A transaction is overdue once it is older than so many median service times ...
pub const LIMIT_MEDIANS: u64 = 10;

/// ... and at least this old.
pub const LIMIT_MIN_NS: u64 = 100_000_000;

/// A transaction that became overdue. Times are since measuring began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// When it became overdue.
    pub since_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Its response time.
    pub response_ns: u64,
    /// Which client ran it; `None` where none did.
    pub client: Option<u32>,
}

/// The age from which a transaction is overdue.
#[must_use]
pub fn limit_ns(median_service_ns: Option<u64>) -> u64 {
    median_service_ns.map_or(0, |median| median.saturating_mul(LIMIT_MEDIANS)).max(LIMIT_MIN_NS)
}

/// The maximal stretches in which at least one transaction was overdue, in order.
#[must_use]
pub fn episodes(mut overdue: Vec<Overdue>) -> Vec<Episode> {
    overdue.sort_unstable_by_key(|one| (one.since_ns, one.end_ns));
    let mut episodes: Vec<Episode> = Vec::new();
    let mut clients: Vec<u32> = Vec::new();
    for one in overdue {
        match episodes.last_mut() {
            Some(last) if one.since_ns <= last.end_ns => {
                last.end_ns = last.end_ns.max(one.end_ns);
                last.transactions += 1;
                last.total_delay_ns =
                    last.total_delay_ns.saturating_add(one.end_ns.saturating_sub(one.since_ns));
                last.worst_ns = last.worst_ns.max(one.response_ns);
            }
            last => {
                if let Some(last) = last {
                    last.clients = distinct(&mut clients);
                }
                episodes.push(Episode {
                    start_ns: one.since_ns,
                    end_ns: one.end_ns,
                    clients: 0,
                    transactions: 1,
                    total_delay_ns: one.end_ns.saturating_sub(one.since_ns),
                    worst_ns: one.response_ns,
                    coincides_with: Vec::new(),
                });
            }
        }
        clients.extend(one.client);
    }
    if let Some(last) = episodes.last_mut() {
        last.clients = distinct(&mut clients);
    }
    episodes
}

/// How many different clients there are; empties the list.
fn distinct(clients: &mut Vec<u32>) -> u32 {
    clients.sort_unstable();
    clients.dedup();
    let count = u32::try_from(clients.len()).unwrap_or(u32::MAX);
    clients.clear();
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(since_ns: u64, end_ns: u64, client: u32) -> Overdue {
        Overdue { since_ns, end_ns, response_ns: end_ns - since_ns + 100, client: Some(client) }
    }

    #[test]
    fn stretches_that_touch_are_one_episode_and_others_are_not() {
        let found = episodes(vec![one(50, 60, 1), one(0, 10, 1), one(10, 20, 2), one(5, 7, 2)]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].start_ns, found[0].end_ns), (0, 20));
        assert_eq!((found[0].clients, found[0].transactions), (2, 3));
        assert_eq!(found[0].total_delay_ns, 22);
        assert_eq!(found[0].worst_ns, 110);
        assert_eq!((found[1].clients, found[1].transactions), (1, 1));
    }

    #[test]
    fn nothing_overdue_is_no_episode() {
        assert!(episodes(Vec::new()).is_empty());
    }

    #[test]
    fn the_limit_is_ten_medians_but_at_least_a_tenth_of_a_second() {
        assert_eq!(limit_ns(None), LIMIT_MIN_NS);
        assert_eq!(limit_ns(Some(1_000_000)), LIMIT_MIN_NS);
        assert_eq!(limit_ns(Some(50_000_000)), 500_000_000);
        assert_eq!(limit_ns(Some(u64::MAX)), u64::MAX);
    }
}
