//! From the options to a compiled workload.

use std::sync::Arc;

use anyhow::bail;
use evenkeel_lab::target::postgres::client::Client;
use evenkeel_lab::workload::script::Workload;

use super::Arguments;
use crate::exit::Outcome;

/// Prints a built-in script.
pub(super) fn show(_name: &str) -> anyhow::Result<Outcome> {
    bail!("built-in scripts are not there yet")
}

/// The scale of pgbench's tables, as the database has it; `None` where it has none and no built-in
/// script needs them.
pub(super) fn scale(client: &mut Client, arguments: &Arguments) -> anyhow::Result<Option<u64>> {
    let found = match client.value("SELECT count(*) FROM pgbench_branches") {
        Ok(text) => text.and_then(|text| text.parse::<u64>().ok()),
        // Not there.
        Err(error) if error.sqlstate() == Some("42P01") => None,
        Err(error) => return Err(error.into()),
    };
    let needs_tables = arguments.files.is_empty() || !arguments.builtins.is_empty();
    match (found, arguments.scale) {
        (None | Some(0), _) if needs_tables => bail!(
            "the database has no pgbench tables, or they are empty; \
             load them with: evenkeel init --scale N"
        ),
        (Some(found), Some(asked)) if found != asked => bail!(
            "-s {asked} was asked for, and pgbench_branches says that the scale is {found}; \
             load the tables again with evenkeel init, or leave -s out"
        ),
        (None, Some(asked)) => Ok(Some(asked)),
        (found, _) => Ok(found),
    }
}

/// Compiles the scripts that were asked for.
pub(super) fn load(_arguments: &Arguments, _scale: Option<u64>) -> anyhow::Result<Arc<Workload>> {
    bail!("scripts are not read yet")
}
