//! One transaction as it is recorded.

/// How a transaction ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outcome {
    /// It committed, or ran to the script's end.
    Committed,
    /// It failed for good with a serialization failure.
    SerializationFailure,
    /// It failed for good with a deadlock.
    Deadlock,
    /// It failed with another SQL error.
    OtherError,
    /// It was not started since it was late by more than the latency limit already.
    Skipped,
    /// It had not ended when the run's grace time was over; `end` is when we stopped waiting.
    Censored,
    /// Its session was lost.
    Aborted,
}

/// One transaction. Times are nanoseconds since the run's origin, on the monotonic clock.
///
/// response = end - planned, lag = start - planned, service = end - start - think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRecord {
    /// When the schedule wanted it to start (closed loop: when it did).
    pub planned_ns: u64,
    /// When it did start (a skipped one: when that was decided).
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Time spent in `\sleep` inside it.
    pub think_ns: u64,
    /// Which client ran it, from 0.
    pub client: u32,
    /// How often it was tried again.
    pub retries: u32,
    /// Which script, by its index in the workload.
    pub script: u16,
    /// How it ended.
    pub outcome: Outcome,
}

impl TransactionRecord {
    /// From the planned start to the end, `\sleep` included: what a user of the database waits.
    #[must_use]
    pub const fn response_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.planned_ns)
    }

    /// From the actual start to the end, without `\sleep`.
    #[must_use]
    pub const fn service_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns).saturating_sub(self.think_ns)
    }

    /// From the planned start to the actual start.
    #[must_use]
    pub const fn lag_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.planned_ns)
    }
}
