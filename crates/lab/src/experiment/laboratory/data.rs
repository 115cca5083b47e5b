//! What the tables of a target hold.

use crate::target::postgres::client::{Client, ClientError};

/// The scale of pgbench's tables; `None` where there are none.
pub(super) fn scale(client: &mut Client) -> Result<Option<u64>, ClientError> {
    let table = client.value("select to_regclass('pgbench_branches')::text")?;
    if table.is_none() {
        return Ok(None);
    }
    let count = client.value("select count(*)::text from pgbench_branches")?;
    Ok(count.and_then(|count| count.parse().ok()))
}
