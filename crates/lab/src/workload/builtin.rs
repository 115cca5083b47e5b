//! pgbench's built-in scripts, and their use with other key distributions.

use super::error::ScriptError;
use crate::distribution::DistributionSpec;

/// A built-in script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// TPC-B-like: five statements in a transaction.
    TpcbLike,
    /// The same without the small, contended tables.
    SimpleUpdate,
    /// One look-up by key.
    SelectOnly,
}

impl Builtin {
    /// All of them, in pgbench's order.
    pub const ALL: [Self; 3] = [Self::TpcbLike, Self::SimpleUpdate, Self::SelectOnly];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpcbLike => "tpcb-like",
            Self::SimpleUpdate => "simple-update",
            Self::SelectOnly => "select-only",
        }
    }

    /// What pgbench calls it.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::TpcbLike => "<builtin: TPC-B (sort of)>",
            Self::SimpleUpdate => "<builtin: simple update>",
            Self::SelectOnly => "<builtin: select only>",
        }
    }

    /// The one whose name begins with `prefix`.
    ///
    /// # Errors
    /// When none or several do.
    pub fn find(prefix: &str) -> Result<Self, ScriptError> {
        let names = Self::ALL.map(Self::name).join(", ");
        let mut found = Self::ALL.into_iter().filter(|builtin| builtin.name().starts_with(prefix));
        match (found.next(), found.next()) {
            (Some(builtin), None) if !prefix.is_empty() => Ok(builtin),
            (None, _) => {
                let message = format!(
                    "there is no built-in script '{}'; there are {names}",
                    crate::text::excerpt(prefix, 40)
                );
                Err(ScriptError::whole("-b", message))
            }
            _ => {
                let message = format!("'{prefix}' begins several built-in scripts of {names}");
                Err(ScriptError::whole("-b", message))
            }
        }
    }

    /// Its text, with account keys drawn by `distribution`. Uniform gives pgbench's own text. Branch and
    /// teller are drawn uniformly in all of them, as in pgbench.
    #[must_use]
    pub fn text(self, distribution: DistributionSpec) -> String {
        const KEYS: &str = "1, 100000 * :scale";
        let account = match distribution {
            DistributionSpec::Uniform => format!("random({KEYS})"),
            DistributionSpec::Gaussian { parameter } => {
                format!("random_gaussian({KEYS}, {parameter:?})")
            }
            DistributionSpec::Exponential { parameter } => {
                format!("random_exponential({KEYS}, {parameter:?})")
            }
            DistributionSpec::Zipfian { exponent, scattered: false } => {
                format!("random_zipfian({KEYS}, {exponent:?})")
            }
            // The hot keys are scattered by a fixed permutation, as `evenkeel distribution` has it.
            DistributionSpec::Zipfian { exponent, scattered: true } => {
                format!("1 + permute(random_zipfian({KEYS}, {exponent:?}) - 1, 100000 * :scale, 0)")
            }
        };
        match self {
            Self::TpcbLike => format!(
                "\\set aid {account}\n\
                 \\set bid random(1, 1 * :scale)\n\
                 \\set tid random(1, 10 * :scale)\n\
                 \\set delta random(-5000, 5000)\n\
                 BEGIN;\n\
                 UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
                 UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
                 UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n\
                 INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                 VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n\
                 END;\n"
            ),
            Self::SimpleUpdate => format!(
                "\\set aid {account}\n\
                 \\set bid random(1, 1 * :scale)\n\
                 \\set tid random(1, 10 * :scale)\n\
                 \\set delta random(-5000, 5000)\n\
                 BEGIN;\n\
                 UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
                 INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                 VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n\
                 END;\n"
            ),
            Self::SelectOnly => format!(
                "\\set aid {account}\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
            ),
        }
    }
}

/// Splits `name@weight`; without a weight it is 1.
///
/// # Errors
/// When the weight is no number from 0 to 4294967295.
pub fn name_and_weight<'a>(text: &'a str, option: &str) -> Result<(&'a str, u32), ScriptError> {
    let Some((name, weight)) = text.rsplit_once('@') else { return Ok((text, 1)) };
    match weight.parse() {
        Ok(weight) => Ok((name, weight)),
        Err(_) => {
            let message = format!(
                "'{}' is not a weight: a whole number from 0 on; add @1 to a name that holds an @",
                crate::text::excerpt(weight, 40)
            );
            Err(ScriptError::whole(option, message))
        }
    }
}
