//! Which scale the scripts see.
//!
//! pgbench takes `-s`, or 1, for scripts of one's own, so that a forgotten option confines a run to the
//! first 100,000 rows of any table. Here the target says it, and a scale that was asked for and is not
//! there is an error.

/// A scale that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// Built-in scripts need tables that are not there, or empty.
    #[error(
        "the database has no pgbench tables, or they are empty; load them with: evenkeel init --scale N"
    )]
    NoTables,
    /// The tables hold another scale.
    #[error(
        "scale {asked} was asked for, and pgbench_branches says that the scale is {found}; load the \
         tables again with evenkeel init, or do not ask for a scale"
    )]
    Mismatch {
        /// What was asked for.
        asked: u64,
        /// What the target holds.
        found: u64,
    },
    /// No number that scripts can hold.
    #[error("scale {0} is out of range: at most 92233720368547, for 100000 keys each")]
    OutOfRange(u64),
}

/// Largest scale whose keys, 100,000 each, have 64 bits with a sign.
pub const SCALE_MAX: u64 = i64::MAX as u64 / 100_000;

/// The value of `:scale`. `found` is the number of branches in the target, `None` where there is no such
/// table; `asked` is the option. `None` where there is nothing to go by: then a script that reads
/// `:scale` is refused when it is compiled.
///
/// # Errors
/// When built-in scripts would find no tables, or another scale was asked for than is there.
pub fn resolve(
    found: Option<u64>,
    asked: Option<u64>,
    needs_tables: bool,
) -> Result<Option<u64>, ScaleError> {
    let scale = match (found, asked) {
        (None | Some(0), _) if needs_tables => return Err(ScaleError::NoTables),
        (Some(found), Some(asked)) if found != asked => {
            return Err(ScaleError::Mismatch { asked, found });
        }
        (Some(scale), _) | (None, Some(scale)) => scale,
        (None, None) => return Ok(None),
    };
    if scale > SCALE_MAX {
        return Err(ScaleError::OutOfRange(scale));
    }
    Ok(Some(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_says_the_scale_and_another_one_asked_for_is_an_error() {
        let mismatch = ScaleError::Mismatch { asked: 2, found: 7 };
        for (found, asked, needs_tables, expected) in [
            (Some(7), None, true, Ok(Some(7))),
            (Some(7), Some(7), true, Ok(Some(7))),
            (Some(7), Some(2), true, Err(mismatch)),
            (Some(7), Some(2), false, Err(mismatch)),
            (None, Some(2), false, Ok(Some(2))),
            (None, Some(2), true, Err(ScaleError::NoTables)),
            (Some(0), None, true, Err(ScaleError::NoTables)),
            (None, None, false, Ok(None)),
            (Some(25_000), None, true, Ok(Some(25_000))),
            (Some(92_233_720_368_548), None, true, Err(ScaleError::OutOfRange(92_233_720_368_548))),
            (Some(92_233_720_368_547), None, true, Ok(Some(92_233_720_368_547))),
            (Some(u64::MAX), None, true, Err(ScaleError::OutOfRange(u64::MAX))),
        ] {
            assert_eq!(resolve(found, asked, needs_tables), expected);
        }
    }
}
