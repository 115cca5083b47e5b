//! Options that need a second look: seeds, times, and what pgbench has and we have not.

use std::time::Duration;

use anyhow::bail;
use evenkeel::runtime::{Clock, Entropy};

/// Options of pgbench that are refused by name, with the reason.
#[derive(Debug, clap::Args)]
pub(super) struct ForeignOptions {
    #[arg(short = 'i', long, hide = true)]
    initialize: bool,
    #[arg(short = 'I', long, hide = true)]
    init_steps: Option<String>,
    #[arg(short = 'F', long, hide = true)]
    fillfactor: Option<String>,
    #[arg(short = 'q', long, hide = true)]
    quiet: bool,
    #[arg(long, hide = true)]
    foreign_keys: bool,
    #[arg(long, hide = true)]
    index_tablespace: Option<String>,
    #[arg(long, hide = true)]
    tablespace: Option<String>,
    #[arg(long, hide = true)]
    unlogged_tables: bool,
    #[arg(long, hide = true)]
    partition_method: Option<String>,
    #[arg(long, hide = true)]
    partitions: Option<String>,
    #[arg(long, hide = true)]
    debug: bool,
}

impl ForeignOptions {
    /// # Errors
    /// For the first option given that is not ours.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        let loading = "loading is another command: evenkeel init";
        let given = [
            (self.initialize, "-i (--initialize)", loading),
            (self.init_steps.is_some(), "-I (--init-steps)", loading),
            (self.fillfactor.is_some(), "-F (--fillfactor)", loading),
            (self.quiet, "-q (--quiet)", loading),
            (self.foreign_keys, "--foreign-keys", loading),
            (self.index_tablespace.is_some(), "--index-tablespace", loading),
            (self.tablespace.is_some(), "--tablespace", loading),
            (self.unlogged_tables, "--unlogged-tables", loading),
            (self.partition_method.is_some(), "--partition-method", loading),
            (self.partitions.is_some(), "--partitions", loading),
            (self.debug, "--debug", "it would print inside of what is measured"),
        ];
        match given.iter().find(|(is_given, ..)| *is_given) {
            Some((_, name, reason)) => bail!("{name} is not supported: {reason}"),
            None => Ok(()),
        }
    }
}

/// The seed that `text` stands for.
pub(super) fn seed(text: &str, runtime: &(impl Clock + Entropy)) -> anyhow::Result<u64> {
    match text {
        "time" => Ok(runtime.wall().as_unix_nanos() as u64),
        "rand" => Ok(runtime.entropy_u64()),
        number => match number.parse() {
            Ok(seed) => Ok(seed),
            Err(_) => {
                bail!("--random-seed {number}: a whole number, \"time\" or \"rand\" is needed")
            }
        },
    }
}

/// A time in seconds given for `option`.
pub(super) fn seconds(option: &str, seconds: f64) -> anyhow::Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Ok(duration),
        Err(_) => bail!("{option} {seconds}: not a length of time"),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::OsRuntime;

    use super::*;

    #[test]
    fn a_seed_is_a_number_or_one_of_two_words() {
        assert_eq!(seed("42", &OsRuntime).unwrap(), 42);
        assert!(seed("time", &OsRuntime).unwrap() > 0);
        assert!(seed("tomorrow", &OsRuntime).unwrap_err().to_string().contains("tomorrow"));
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(seconds("-T", wrong).is_err());
        }
        assert_eq!(seconds("-T", 1.5).unwrap(), Duration::from_millis(1500));
    }
}
