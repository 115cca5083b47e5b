//! Whether pgbench's tables are there and whole, and what their scale is.

use super::MARKER_INCOMPLETE;
use super::rows::{ACCOUNTS_PER_SCALE, TELLERS_PER_SCALE};
use crate::target::postgres::client::{Client, ClientError};

/// Why a database's scale cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ReadScaleError {
    /// The server refused, or was lost.
    #[error("reading the scale of pgbench's tables: {0}")]
    Client(#[from] ClientError),
    /// A load was broken off, or is under way.
    #[error(
        "{table} was not loaded to its end: a load by evenkeel init was broken off, or is still \
         going on. Load again with: evenkeel init"
    )]
    Incomplete {
        /// The table that says so.
        table: String,
    },
    /// The tables are not as pgbench makes them.
    #[error(
        "{0}. These are not pgbench's tables at one scale; load them with evenkeel init --force, or \
         pgbench -i, in a database of their own"
    )]
    NotPgbench(String),
}

/// What of each table must be there for the scale to mean anything. `pgbench_history` is not looked
/// at: whoever does not write to it may have dropped it.
const COLUMNS: [(&str, &[&str]); 3] = [
    ("pgbench_branches", &["bid", "bbalance"]),
    ("pgbench_tellers", &["tid", "bid", "tbalance"]),
    ("pgbench_accounts", &["aid", "bid", "abalance"]),
];

/// The scale of pgbench's tables as the session's search path finds them, whoever made them; `None`
/// where there is no `pgbench_branches`. `Some(0)` where the tables are empty.
///
/// # Errors
/// When they were not loaded to their end, or are not pgbench's.
pub fn read_scale(client: &mut Client) -> Result<Option<u64>, ReadScaleError> {
    let rows = client.query(
        "select c.relname, coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), \
         (select pg_catalog.string_agg(a.attname::text, ' ') from pg_catalog.pg_attribute a \
          where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), \
         exists (select 1 from pg_catalog.pg_index i join pg_catalog.pg_attribute a \
          on a.attrelid = c.oid and a.attnum = i.indkey[0] and a.attname = 'aid' \
          where i.indrelid = c.oid and i.indisvalid) \
         from pg_catalog.pg_class c where c.relname in ('pgbench_accounts', 'pgbench_branches', \
         'pgbench_history', 'pgbench_tellers') and pg_catalog.pg_table_is_visible(c.oid)",
    )?;
    let of = |table: &str| rows.iter().find(|row| row.value(0) == Some(table));
    if of("pgbench_branches").is_none() {
        return Ok(None);
    }
    for row in rows.iter() {
        if row.value(1).is_some_and(|comment| comment.starts_with(MARKER_INCOMPLETE)) {
            let table = row.value(0).unwrap_or_default().to_owned();
            return Err(ReadScaleError::Incomplete { table });
        }
    }
    for (table, columns) in COLUMNS {
        let Some(row) = of(table) else {
            let text = format!("pgbench_branches is there and {table} is not");
            return Err(ReadScaleError::NotPgbench(text));
        };
        let found: Vec<&str> = row.value(2).unwrap_or_default().split(' ').collect();
        if let Some(missing) = columns.iter().find(|column| !found.contains(column)) {
            return Err(ReadScaleError::NotPgbench(format!("{table} has no column {missing}")));
        }
    }
    let branches = count(client, "select pg_catalog.count(*) from pgbench_branches")?.unwrap_or(0);
    let tellers = count(client, "select pg_catalog.count(*) from pgbench_tellers")?.unwrap_or(0);
    if branches.checked_mul(TELLERS_PER_SCALE) != Some(tellers) {
        return Err(ReadScaleError::NotPgbench(format!(
            "pgbench_branches has {branches} rows and pgbench_tellers {tellers}, not \
             {TELLERS_PER_SCALE} times as many"
        )));
    }
    // To count accounts would take minutes; the last one is found at once where there is an index.
    if of("pgbench_accounts").is_some_and(|row| row.value(3) == Some("t")) {
        let last = count(client, "select pg_catalog.max(aid) from pgbench_accounts")?.unwrap_or(0);
        let expected = branches.saturating_mul(ACCOUNTS_PER_SCALE);
        if last < expected {
            return Err(ReadScaleError::NotPgbench(format!(
                "pgbench_branches has {branches} rows, and the last of pgbench_accounts is number \
                 {last} instead of {expected}"
            )));
        }
    }
    Ok(Some(branches))
}

fn count(client: &mut Client, sql: &str) -> Result<Option<u64>, ClientError> {
    Ok(client.value(sql)?.and_then(|text| text.parse().ok()))
}
