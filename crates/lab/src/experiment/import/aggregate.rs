//! One line of an aggregate log (pgbench.c, `doLog` with `--aggregate-interval`).

/// One interval. Times are microseconds; sums of squares are microseconds squared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AggregateLine {
    /// Its start, seconds since 1970.
    pub start_s: u64,
    /// Transactions that committed in it.
    pub count: u64,
    /// Sum of times.
    pub sum_us: f64,
    /// Sum of squared times.
    pub sum_square_us2: f64,
    /// Shortest.
    pub min_us: u64,
    /// Longest.
    pub max_us: u64,
    /// Sum of lags.
    pub sum_lag_us: f64,
    /// Not started since too late.
    pub skipped: u64,
    /// Tried more than once.
    pub retried: u64,
    /// Further tries.
    pub retries: u64,
    /// Failed: serialization.
    pub serialization_failures: u64,
    /// Failed: deadlock.
    pub deadlocks: u64,
    /// Failed: other.
    pub other_errors: u64,
}

impl AggregateLine {
    /// Transactions that failed for good.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.serialization_failures.saturating_add(self.deadlocks).saturating_add(self.other_errors)
    }

    /// Those that were begun.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.count.saturating_add(self.failed())
    }

    /// Those that were begun or skipped.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.started().saturating_add(self.skipped)
    }

    /// Adds the same interval of another thread.
    pub(super) fn add(&mut self, other: &Self) -> Result<(), String> {
        let sum = |left: u64, right: u64| {
            left.checked_add(right).ok_or_else(|| "the counts are beyond all measure".to_owned())
        };
        // An empty interval has no least value; pgbench writes 0 for it.
        self.min_us = match (self.count, other.count) {
            (0, _) => other.min_us,
            (_, 0) => self.min_us,
            _ => self.min_us.min(other.min_us),
        };
        self.max_us = self.max_us.max(other.max_us);
        self.count = sum(self.count, other.count)?;
        self.sum_us += other.sum_us;
        self.sum_square_us2 += other.sum_square_us2;
        self.sum_lag_us += other.sum_lag_us;
        self.skipped = sum(self.skipped, other.skipped)?;
        self.retried = sum(self.retried, other.retried)?;
        self.retries = sum(self.retries, other.retries)?;
        self.serialization_failures =
            sum(self.serialization_failures, other.serialization_failures)?;
        self.deadlocks = sum(self.deadlocks, other.deadlocks)?;
        self.other_errors = sum(self.other_errors, other.other_errors)?;
        Ok(())
    }
}

/// Understands one line without its end.
///
/// # Errors
/// What is wrong with it.
pub fn parse_line(text: &str) -> Result<AggregateLine, String> {
    parse_columns(&text.split(' ').collect::<Vec<_>>())
}

pub(super) fn parse_columns(columns: &[&str]) -> Result<AggregateLine, String> {
    if !matches!(columns.len(), 6 | 10 | 11 | 15 | 16) {
        return Err(format!(
            "{} columns, where an interval has 6, 10, 11, 15 or 16",
            columns.len()
        ));
    }
    let whole = |index: usize| -> Result<u64, String> {
        columns.get(index).map_or(Ok(0), |text| text.parse().map_err(|_| wrong(text)))
    };
    let real = |index: usize| -> Result<f64, String> {
        columns.get(index).map_or(Ok(0.0), |text| match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            _ => Err(wrong(text)),
        })
    };
    // Least and largest are whole microseconds that pgbench prints as reals without places.
    let line = AggregateLine {
        start_s: whole(0)?,
        count: whole(1)?,
        sum_us: real(2)?,
        sum_square_us2: real(3)?,
        min_us: whole(4)?,
        max_us: whole(5)?,
        sum_lag_us: real(6)?,
        skipped: whole(10)?,
        retried: whole(11)?,
        retries: whole(12)?,
        serialization_failures: whole(13)?,
        deadlocks: whole(14)?,
        other_errors: whole(15)?,
    };
    let line = if columns.len() == 11 {
        // Before version 15 those skipped are counted among all (pgbench.c, `accumStats`).
        AggregateLine { count: line.count.saturating_sub(line.skipped), ..line }
    } else {
        line
    };
    if line.min_us > line.max_us {
        return Err(format!("the least time {} is above the largest {}", line.min_us, line.max_us));
    }
    Ok(line)
}

fn wrong(text: &str) -> String {
    format!("'{}' is not a number", crate::report::text::visible(text, 40))
}
