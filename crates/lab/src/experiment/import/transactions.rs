//! One line of a transaction log (pgbench.c, `doLog`).

use crate::measure::record::Outcome;

/// What the seventh column is where there are seven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeventhColumn {
    /// Told by its numbers once all are read; until then read as the lag.
    #[default]
    ByItsNumbers,
    /// Schedule lag: pgbench ran with `--rate`.
    Lag,
    /// Retries: pgbench (15+) ran with `--max-tries` and without `--rate`.
    Retries,
}

/// One transaction as logged. Times are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Which client.
    pub client: u32,
    /// Which of the client's transactions.
    pub number: u64,
    /// Which script.
    pub script: u16,
    /// End, since 1970.
    pub end_unix_us: u64,
    /// From the planned start to the end.
    pub response_us: u64,
    /// From the planned start to the actual start.
    pub lag_us: u64,
    /// Further tries.
    pub retries: u32,
    /// What became of it.
    pub outcome: Outcome,
}

impl LogLine {
    /// When it should have started, since 1970.
    #[must_use]
    pub const fn planned_unix_us(&self) -> u64 {
        self.end_unix_us.saturating_sub(self.response_us)
    }

    /// When it did start, since 1970.
    #[must_use]
    pub const fn start_unix_us(&self) -> u64 {
        self.planned_unix_us().saturating_add(self.lag_us)
    }
}

/// Understands one line without its end.
///
/// # Errors
/// What is wrong with it.
pub fn parse_line(text: &str, seventh: SeventhColumn) -> Result<LogLine, String> {
    parse_columns(&text.split(' ').collect::<Vec<_>>(), seventh)
}

/// What a word in the place of the time says.
pub(super) fn failure_of(word: &str) -> Option<Outcome> {
    match word {
        "skipped" => Some(Outcome::Skipped),
        "failed" | "other" => Some(Outcome::OtherError),
        "serialization" => Some(Outcome::SerializationFailure),
        "deadlock" => Some(Outcome::Deadlock),
        _ => None,
    }
}

pub(super) fn parse_columns(columns: &[&str], seventh: SeventhColumn) -> Result<LogLine, String> {
    let [client, count, time, script, epoch_s, epoch_us, rest @ ..] = columns else {
        return Err(format!("{} columns, where a transaction has at least 6", columns.len()));
    };
    let (lag, retries) = match (rest, seventh) {
        ([], _) => (None, None),
        ([lag], SeventhColumn::Lag | SeventhColumn::ByItsNumbers) => (Some(*lag), None),
        ([retries], SeventhColumn::Retries) => (None, Some(*retries)),
        ([lag, retries], _) => (Some(*lag), Some(*retries)),
        _ => return Err(format!("{} columns, where a transaction has at most 8", columns.len())),
    };
    let epoch_us: u64 = number("microseconds", epoch_us)?;
    if epoch_us >= 1_000_000 {
        return Err(format!("{epoch_us} microseconds, where less than a second belongs"));
    }
    let end_unix_us = number::<u64>("epoch", epoch_s)?
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(epoch_us))
        .filter(|us| *us <= i64::MAX.unsigned_abs() / 1000)
        .ok_or_else(|| format!("the epoch {epoch_s} lies beyond the year 2262"))?;
    let lag_us = lag.map_or(Ok(0), |lag| number("lag", lag))?;
    let (outcome, response_us) = match failure_of(time) {
        // Their time is not logged: what is known is that they waited for their lag.
        Some(outcome) => (outcome, lag_us),
        None => (Outcome::Committed, number("time", time)?),
    };
    if lag_us > response_us {
        return Err(format!(
            "a lag of {lag_us} us in a transaction of {response_us} us: is the seventh column the \
             number of retries (--max-tries without --rate)?"
        ));
    }
    if response_us > end_unix_us {
        return Err(format!("a transaction of {response_us} us cannot have begun before 1970"));
    }
    Ok(LogLine {
        client: number("client", client)?,
        number: number("number", count)?,
        script: number("script", script)?,
        end_unix_us,
        response_us,
        lag_us,
        retries: retries.map_or(Ok(0), |retries| number("retries", retries))?,
        outcome,
    })
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| {
        format!("'{}' is not a number ({what})", crate::report::text::visible(text, 40))
    })
}
