//! The four tables: who made them, how they are made, their small content, their keys.

use super::rows::{ACCOUNTS_PER_SCALE, BRANCHES_PER_SCALE, TELLERS_PER_SCALE};
use super::watch::Watched;
use super::{
    InitialiseError, InitialiseOptions, MARKER, MARKER_INCOMPLETE, PartitionMethod,
    SCALE_OF_BIGINT, execute,
};
use crate::target::postgres::client::{Client, quote_identifier};

pub(super) const TABLES: [&str; 4] =
    ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];

/// Relations of our names that a statement would meet, and whether they are ours.
pub(super) fn existing(client: &mut Client) -> Result<Vec<(String, bool)>, InitialiseError> {
    let rows = client
        .query(
            "select c.relname, coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), '') \
             from pg_catalog.pg_class c where c.relname in ('pgbench_accounts', \
             'pgbench_branches', 'pgbench_history', 'pgbench_tellers') \
             and pg_catalog.pg_table_is_visible(c.oid) order by 1",
        )
        .map_err(|source| InitialiseError::Client { what: "looking for tables", source })?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let is_ours = row.value(1).is_some_and(|comment| {
                comment.starts_with(MARKER) || comment.starts_with(MARKER_INCOMPLETE)
            });
            Some((row.value(0)?.to_owned(), is_ours))
        })
        .collect())
}

/// Begins a transaction and makes the tables in it, marked as incomplete.
pub(super) fn creation(options: &InitialiseOptions, drop: bool, server_version: u32) -> String {
    let mut sql = String::from("begin; ");
    if drop {
        sql.push_str(&format!("drop table if exists {}; ", TABLES.join(", ")));
    }
    let aid = if options.scale >= SCALE_OF_BIGINT { "bigint" } else { "int" };
    let kind = if options.unlogged { "unlogged table" } else { "table" };
    let tablespace = options
        .tablespace
        .as_deref()
        .map(|name| format!(" tablespace {}", quote_identifier(name)))
        .unwrap_or_default();
    // As pgbench, history is never given a fill factor: nothing in it is updated.
    let with = format!(" with (fillfactor={})", options.fillfactor.unwrap_or(100));
    for (name, columns, has_fill) in [
        (
            "pgbench_history",
            format!("tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22)"),
            false,
        ),
        (
            "pgbench_tellers",
            "tid int not null, bid int, tbalance int, filler char(84)".to_owned(),
            true,
        ),
        (
            "pgbench_accounts",
            format!("aid {aid} not null, bid int, abalance int, filler char(84)"),
            true,
        ),
        ("pgbench_branches", "bid int not null, bbalance int, filler char(88)".to_owned(), true),
    ] {
        let mut kind = kind;
        let mut suffix = if has_fill { with.clone() } else { String::new() };
        if name == "pgbench_accounts" && options.partitions > 0 {
            let method = match options.partition_method {
                PartitionMethod::Range => "range",
                PartitionMethod::Hash => "hash",
            };
            // Only its parts have pages to fill.
            suffix = format!(" partition by {method} (aid)");
            // From 18 on a partitioned table, which has no storage, cannot be unlogged.
            if server_version >= 180_000 {
                kind = "table";
            }
        }
        sql.push_str(&format!("create {kind} {name} ({columns}){suffix}{tablespace}; "));
    }
    for part in 1..=u64::from(options.partitions) {
        let kind = if options.unlogged { "unlogged table" } else { "table" };
        let bounds = bounds(options, part);
        sql.push_str(&format!(
            "create {kind} pgbench_accounts_{part} partition of pgbench_accounts for values \
             {bounds}{with}{tablespace}; "
        ));
    }
    sql.push_str(&comments(MARKER_INCOMPLETE));
    sql
}

/// Puts `marker` on all four tables.
pub(super) fn comments(marker: &str) -> String {
    TABLES.map(|table| format!("comment on table {table} is '{marker}'")).join("; ")
}

/// Of part `part`, from 1; as pgbench's `createPartitions`: the outermost ranges are open.
fn bounds(options: &InitialiseOptions, part: u64) -> String {
    let count = u64::from(options.partitions);
    match options.partition_method {
        PartitionMethod::Hash => format!("with (modulus {count}, remainder {})", part - 1),
        PartitionMethod::Range => {
            let length = (options.scale * ACCOUNTS_PER_SCALE).div_ceil(count);
            let bound = |before: u64, open: &str| {
                let is_outermost = before == 0 || before == count;
                if is_outermost { open.to_owned() } else { (before * length + 1).to_string() }
            };
            format!("from ({}) to ({})", bound(part - 1, "minvalue"), bound(part, "maxvalue"))
        }
    }
}

pub(super) fn fill_small(client: &mut Client, scale: u64) -> Result<(), InitialiseError> {
    let branches = scale * BRANCHES_PER_SCALE;
    let tellers = scale * TELLERS_PER_SCALE;
    execute(
        client,
        "filling pgbench_branches",
        &format!(
            "insert into pgbench_branches (bid, bbalance) \
             select bid, 0 from generate_series(1, {branches}) as bid"
        ),
    )?;
    execute(
        client,
        "filling pgbench_tellers",
        &format!(
            "insert into pgbench_tellers (tid, bid, tbalance) \
             select tid, (tid - 1) / {TELLERS_PER_SCALE} + 1, 0 \
             from generate_series(1, {tellers}) as tid"
        ),
    )
}

/// Builds the keys, and references where they are wanted.
pub(super) fn build_keys(
    client: &mut Client,
    options: &InitialiseOptions,
    watched: &Watched,
) -> Result<(), InitialiseError> {
    let tablespace = options
        .index_tablespace
        .as_deref()
        .map(|name| format!(" using index tablespace {}", quote_identifier(name)))
        .unwrap_or_default();
    for (table, column) in
        [("pgbench_branches", "bid"), ("pgbench_tellers", "tid"), ("pgbench_accounts", "aid")]
    {
        let sql = format!("alter table {table} add primary key ({column}){tablespace}");
        watched.check()?;
        execute(client, "building keys", &sql)?;
    }
    if options.foreign_keys {
        for (table, column, target) in [
            ("pgbench_tellers", "bid", "pgbench_branches"),
            ("pgbench_accounts", "bid", "pgbench_branches"),
            ("pgbench_history", "bid", "pgbench_branches"),
            ("pgbench_history", "tid", "pgbench_tellers"),
            ("pgbench_history", "aid", "pgbench_accounts"),
        ] {
            let sql = format!(
                "alter table {table} add constraint {table}_{column}_fkey foreign key ({column}) \
                 references {target}"
            );
            watched.check()?;
            execute(client, "building references", &sql)?;
        }
    }
    Ok(())
}

/// Of the four tables with all that belongs to them.
pub(super) fn total_bytes(client: &mut Client) -> Option<u64> {
    client
        .value(
            "select pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid))::bigint \
             from pg_catalog.pg_class c where c.relname in ('pgbench_accounts', \
             'pgbench_branches', 'pgbench_history', 'pgbench_tellers') \
             and pg_catalog.pg_table_is_visible(c.oid) or c.oid in (select i.inhrelid \
             from pg_catalog.pg_inherits i join pg_catalog.pg_class p on p.oid = i.inhparent \
             where p.relname = 'pgbench_accounts' and pg_catalog.pg_table_is_visible(p.oid))",
        )
        .ok()
        .flatten()
        .and_then(|text| text.parse().ok())
}
