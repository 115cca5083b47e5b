//! Whether the server still answered at the end of a run.
//!
//! Transactions may be left unanswered for two reasons: they are long, or the server is gone though
//! its connections stand (stopped processes, a hung disk, a lost network). Only the first is a
//! measurement. One question to the server tells them apart.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::runtime::Runtime;

use crate::driver::RunData;
use crate::measure::record::Outcome;
use crate::target::TargetError;
use crate::target::postgres::address::Address;
use crate::target::postgres::client::Client;
use crate::target::postgres::server::has_stopped_process;

/// How long the server may take to answer `select 1` when it has left transactions unanswered.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Transactions that nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unanswered {
    /// When the last answer came, since measuring began.
    last_answer_ns: u64,
    /// How many transactions were given up at the end of the grace time.
    censored: u64,
}

impl Unanswered {
    /// `None` when every transaction was answered, or when the user did not want to wait for it.
    pub(super) fn of(data: &RunData) -> Option<Self> {
        if data.was_interrupted {
            return None;
        }
        let (mut last_answer_ns, mut censored) = (0, 0);
        for record in data.records() {
            match record.outcome {
                Outcome::Censored => censored += 1,
                Outcome::Skipped | Outcome::Aborted => {}
                Outcome::Committed
                | Outcome::SerializationFailure
                | Outcome::Deadlock
                | Outcome::OtherError => last_answer_ns = record.end_ns.max(last_answer_ns),
            }
        }
        let last_answer_ns = last_answer_ns.saturating_sub(data.measured_start_ns);
        (censored > 0).then_some(Self { last_answer_ns, censored })
    }

    /// What the record says of a server that does not answer.
    pub(super) fn reason(self, is_suspended: bool) -> String {
        format!(
            "the server stopped answering at {:.1} s, {} transactions censored{}",
            self.last_answer_ns as f64 / 1e9,
            self.censored,
            if is_suspended { " (its processes are stopped)" } else { "" },
        )
    }
}

/// Why a run does not count, where the server at `address` left transactions unanswered and lets no
/// new session in within 5 s either; `process` is its postmaster, where that is one of this machine.
#[must_use]
pub fn silence_of_running(
    data: &RunData,
    address: &Address,
    process: Option<u32>,
    runtime: &Arc<dyn Runtime>,
) -> Option<String> {
    let unanswered = Unanswered::of(data)?;
    let is_suspended = process.is_some_and(has_stopped_process);
    let asked = address.clone().with_connect_timeout(ANSWER_TIMEOUT);
    // A refusal, such as that of a full server, is an answer.
    let answers =
        || matches!(Client::connect(&asked, runtime), Ok(_) | Err(TargetError::Refused { .. }));
    (is_suspended || !answers()).then(|| unanswered.reason(is_suspended))
}

/// Whether the server answers in time.
pub(super) fn answers(client: &mut Client) -> bool {
    client.set_timeout(Some(ANSWER_TIMEOUT));
    client.value("select 1").is_ok()
}
