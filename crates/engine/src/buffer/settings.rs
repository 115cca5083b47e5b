//! What is fixed when a pool is opened.

use evenkeel_replacement::policy::MAX_FRAMES;
use evenkeel_replacement::registry::{PolicySpecification, Registry};

use super::counters::Role;
use super::error::PoolError;
use crate::page::PAGE_BYTES;

/// The policy of a pool for which none is named (docs/decisions/0011).
pub const DEFAULT_POLICY: &str = "clock2q_plus";

/// Settings of a pool; names, units and defaults are PostgreSQL's where it has them.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// `shared_buffers`: frames of 8 KiB.
    pub frames: u32,
    /// Who leaves when the pool is full.
    pub policy: PolicySpecification,
    /// For policies that draw.
    pub policy_seed: u64,
    /// Dirty candidates that a victim search passes in the hope of a clean one; 0: none, the policy's
    /// order is followed strictly, as PostgreSQL does.
    pub dirty_passed_max: u32,
    /// `backend_flush_after`: pages that a client writes before it asks the system to begin writing
    /// them; 0: never.
    pub backend_flush_after_pages: u32,
    /// `bgwriter_flush_after`: the same for the background writer.
    pub bgwriter_flush_after_pages: u32,
    /// `checkpoint_flush_after`: the same for the checkpointer.
    pub checkpoint_flush_after_pages: u32,
    /// `vacuum_buffer_usage_limit`: the ring of vacuum, 128 KiB to 16 GiB; 0: no ring.
    pub vacuum_ring_bytes: u64,
}

/// PostgreSQL's limit for each `..._flush_after`.
const FLUSH_AFTER_MAX: u32 = 256;

const KIB: u64 = 1024;

impl PoolSettings {
    /// A pool of `frames` with defaults for everything else.
    ///
    /// # Panics
    /// Never: the default policy is among those of the registry, which a test holds.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        let named = Registry::standard().parse(DEFAULT_POLICY);
        let policy = match named {
            Ok(policy) => policy,
            Err(error) => unreachable!("the default policy has a name that is known: {error}"),
        };
        Self {
            frames,
            policy,
            policy_seed: 0,
            dirty_passed_max: 0,
            backend_flush_after_pages: 0,
            bgwriter_flush_after_pages: 64,
            checkpoint_flush_after_pages: 32,
            vacuum_ring_bytes: 2048 * KIB,
        }
    }

    /// Pages that a worker of `role` writes before it asks the system to begin writing them.
    pub(super) const fn flush_after_pages(&self, role: Role) -> u32 {
        match role {
            Role::Client => self.backend_flush_after_pages,
            Role::BackgroundWriter => self.bgwriter_flush_after_pages,
            Role::Checkpointer => self.checkpoint_flush_after_pages,
        }
    }

    /// Checks ranges.
    ///
    /// # Errors
    /// The first setting out of its range.
    pub(super) fn check(&self) -> Result<(), PoolError> {
        let wrong = |name, found: String, expected: String| {
            Err(PoolError::Setting { name, found, expected })
        };
        if self.frames == 0 || self.frames > MAX_FRAMES {
            let expected = format!("a pool has 1 to {MAX_FRAMES} frames of {PAGE_BYTES} bytes");
            return wrong("shared_buffers", self.frames.to_string(), expected);
        }
        for (name, pages) in [
            ("backend_flush_after", self.backend_flush_after_pages),
            ("bgwriter_flush_after", self.bgwriter_flush_after_pages),
            ("checkpoint_flush_after", self.checkpoint_flush_after_pages),
        ] {
            if pages > FLUSH_AFTER_MAX {
                let expected = format!("0 to {FLUSH_AFTER_MAX} pages");
                return wrong(name, pages.to_string(), expected);
            }
        }
        let limits = 128 * KIB..=16 * KIB * KIB * KIB;
        if self.vacuum_ring_bytes != 0 && !limits.contains(&self.vacuum_ring_bytes) {
            return wrong(
                "vacuum_buffer_usage_limit",
                format!("{} bytes", self.vacuum_ring_bytes),
                "0 for no ring, or 128 KiB to 16 GiB".to_owned(),
            );
        }
        Ok(())
    }

    /// Whether the policy looks at the time of an access: reading the clock costs more than the rest of
    /// a hit, and most policies do not care. One does when a parameter of it in milliseconds is not 0.
    pub(super) fn is_policy_timed(&self) -> bool {
        let arguments = self.policy.arguments();
        self.policy
            .description()
            .parameters
            .iter()
            .any(|known| known.unit == "ms" && arguments.integer(known.name) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_exists_and_ranges_are_postgresql_s() {
        let good = PoolSettings::new(16);
        assert_eq!(good.policy.name(), DEFAULT_POLICY);
        assert_eq!(good.check(), Ok(()));
        for (broken, expected) in [
            (
                PoolSettings::new(0),
                "shared_buffers is 0: a pool has 1 to 1073741824 frames of 8192 bytes",
            ),
            (
                PoolSettings { backend_flush_after_pages: 257, ..good.clone() },
                "backend_flush_after is 257: 0 to 256 pages",
            ),
            (
                PoolSettings { vacuum_ring_bytes: 1, ..good },
                "vacuum_buffer_usage_limit is 1 bytes: 0 for no ring, or 128 KiB to 16 GiB",
            ),
        ] {
            assert_eq!(broken.check().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_clock_is_read_only_for_policies_that_look_at_it() {
        for (policy, is_timed) in [
            ("clock2q_plus", false),
            ("clock_sweep", false),
            ("clock_sweep(cap=10, delay_ms=3000)", true),
            ("innodb", true),
            ("innodb(old_time_ms=0)", false),
            ("lru_k(correlated_ms=128)", true),
        ] {
            let settings =
                PoolSettings { policy: policy.parse().unwrap(), ..PoolSettings::new(16) };
            assert_eq!(settings.is_policy_timed(), is_timed, "{policy}");
        }
    }
}
