//! The server's own counters before and after a run, read by name: what a version does not have is
//! absent, and never a column of another meaning.

use std::collections::BTreeMap;

use super::client::{Client, ClientError, Row};

/// Views of one row, with the version that brought them and the one that ended them.
const SINGLE_ROW_VIEWS: [(&str, u32); 3] =
    [("pg_stat_bgwriter", 80_300), ("pg_stat_wal", 140_000), ("pg_stat_checkpointer", 170_000)];

/// Counters at one moment, by `view.column`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// `pg_stat_io` is summed per backend type and context; `pg_stat_slru` per cache.
    pub values: BTreeMap<String, f64>,
    /// When each view was last reset, by view; another time means that a difference has no meaning.
    pub resets: BTreeMap<String, String>,
    /// Byte position of the write-ahead log.
    pub wal_position_bytes: Option<u64>,
}

impl Counters {
    /// Reads all of them. The session should not be inside a transaction.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn read(client: &mut Client) -> Result<Self, ClientError> {
        let version = client.server_version();
        let mut counters = Self::default();
        for (view, since) in SINGLE_ROW_VIEWS {
            if version >= since {
                let rows = client.query(&format!("select * from pg_catalog.{view}"))?;
                for row in rows.iter() {
                    counters.take(view, view, rows.columns(), row);
                }
            }
        }
        let rows = client.query(
            "select * from pg_catalog.pg_stat_database where datname = current_database()",
        )?;
        for row in rows.iter() {
            counters.take("pg_stat_database", "pg_stat_database", rows.columns(), row);
        }
        if version >= 130_000 {
            let rows = client.query("select * from pg_catalog.pg_stat_slru")?;
            for row in rows.iter() {
                let prefix = format!("pg_stat_slru.{}", row.named("name").unwrap_or("unknown"));
                counters.take("pg_stat_slru", &prefix, rows.columns(), row);
            }
        }
        if version >= 160_000 {
            let rows = client.query("select * from pg_catalog.pg_stat_io")?;
            for row in rows.iter() {
                let name = |column| row.named(column).unwrap_or("unknown").replace(' ', "_");
                let prefix = format!(
                    "pg_stat_io.{}.{}.{}",
                    name("backend_type"),
                    name("object"),
                    name("context")
                );
                counters.take("pg_stat_io", &prefix, rows.columns(), row);
            }
        }
        counters.wal_position_bytes = wal_position(client)?;
        Ok(counters)
    }

    /// What has been counted since `before`, by name. A counter that was reset in between, or that
    /// either side lacks, is `None`: no difference can be told.
    #[must_use]
    pub fn since(&self, before: &Self) -> BTreeMap<String, Option<f64>> {
        let mut names: Vec<&String> = self.values.keys().chain(before.values.keys()).collect();
        names.sort();
        names.dedup();
        // These views have hundreds of counters, most of which never move.
        let never_moved = |counters: &Self, name: &String| {
            counters.values.get(name).is_none_or(|value| value.abs() < f64::EPSILON)
        };
        names.retain(|name| {
            let is_wide = name.starts_with("pg_stat_io.") || name.starts_with("pg_stat_slru.");
            !(is_wide && never_moved(self, name) && never_moved(before, name))
        });
        let mut deltas: BTreeMap<String, Option<f64>> = names
            .into_iter()
            .map(|name| {
                let view = name.split('.').next().unwrap_or(name);
                let is_reset = self.resets.get(view) != before.resets.get(view);
                let delta = match (before.values.get(name), self.values.get(name)) {
                    (Some(before), Some(after)) if !is_reset && after >= before => {
                        Some(after - before)
                    }
                    _ => None,
                };
                (name.clone(), delta)
            })
            .collect();
        let wal = match (before.wal_position_bytes, self.wal_position_bytes) {
            (Some(before), Some(after)) => after.checked_sub(before),
            _ => None,
        };
        #[allow(clippy::cast_precision_loss, reason = "2^53 bytes of log are 9 petabytes")]
        deltas.insert("wal_bytes".to_owned(), wal.map(|bytes| bytes as f64));
        deltas
    }

    fn take(&mut self, view: &str, prefix: &str, columns: &[String], row: Row<'_>) {
        for (index, column) in columns.iter().enumerate() {
            let Some(text) = row.value(index) else { continue };
            match column.as_str() {
                "stats_reset" => {
                    self.resets.insert(view.to_owned(), text.to_owned());
                }
                // Not counters: identities and present states.
                "datid"
                | "datname"
                | "name"
                | "backend_type"
                | "object"
                | "context"
                | "op_bytes"
                | "numbackends"
                | "checksum_last_failure" => {}
                _ => {
                    if let Ok(value) = text.parse::<f64>()
                        && value.is_finite()
                    {
                        self.values.insert(format!("{prefix}.{column}"), value);
                    }
                }
            }
        }
    }
}

/// Byte position of the write-ahead log; `None` on a standby.
///
/// # Errors
/// When the server refuses.
pub fn wal_position(client: &mut Client) -> Result<Option<u64>, ClientError> {
    let text = client.value(
        "select case when pg_catalog.pg_is_in_recovery() then null \
         else pg_catalog.pg_current_wal_insert_lsn()::text end",
    )?;
    Ok(text.as_deref().and_then(parse_lsn))
}

/// Counters that are cheap enough to be looked at each second, all in one round trip and one row: by
/// name, as totals. What the server's version does not count, or does not know at the moment (the
/// log's position on a standby), is `None`. Backends report theirs at the end of a transaction and at
/// most once a second, so that a second's figure may belong to the one before.
///
/// # Errors
/// When the server refuses.
pub fn live(client: &mut Client) -> Result<BTreeMap<String, Option<u64>>, ClientError> {
    let rows = client.query(&live_sql(client.server_version()))?;
    let Some(row) = rows.row(0) else { return Ok(BTreeMap::new()) };
    Ok(rows
        .columns()
        .iter()
        .zip(row.values())
        .map(|(name, value)| (name.clone(), value.as_ref().and_then(|text| text.parse().ok())))
        .collect())
}

/// The statement of [`live`]. Names are ours, since the server's moved between views: what
/// checkpoints and backends wrote is in `pg_stat_bgwriter` up to 16, then in `pg_stat_checkpointer`
/// and `pg_stat_io`.
fn live_sql(version: u32) -> String {
    let mut columns = vec![
        "case when pg_catalog.pg_is_in_recovery() then null else pg_catalog.pg_wal_lsn_diff(\
         pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint end as wal_bytes",
        "d.xact_commit as commits",
        "d.blks_read as blocks_read",
        "d.blks_hit as blocks_hit",
        "b.buffers_alloc as buffers_allocated",
        "b.buffers_clean as buffers_cleaned",
        "b.maxwritten_clean as cleaner_limit_stops",
    ];
    let mut views = vec![
        "(select * from pg_catalog.pg_stat_database \
         where datname = pg_catalog.current_database()) d",
        "pg_catalog.pg_stat_bgwriter b",
    ];
    if version >= 130_000 {
        columns.push("s.slru_read as slru_blocks_read");
        columns.push("s.slru_written as slru_blocks_written");
        views.push(
            "(select pg_catalog.sum(blks_read)::bigint as slru_read, \
             pg_catalog.sum(blks_written)::bigint as slru_written \
             from pg_catalog.pg_stat_slru) s",
        );
    }
    if version >= 140_000 {
        columns.push("w.wal_fpi as wal_full_pages");
        columns.push("w.wal_buffers_full");
        views.push("pg_catalog.pg_stat_wal w");
    }
    if version >= 160_000 {
        columns.push("i.evictions");
        views.push(
            "(select pg_catalog.sum(evictions)::bigint as evictions, \
             pg_catalog.sum(coalesce(writes, 0) + coalesce(extends, 0)) filter (where backend_type \
             not in ('checkpointer', 'background writer'))::bigint as written, \
             pg_catalog.sum(fsyncs) filter (where backend_type not in ('checkpointer', \
             'background writer'))::bigint as synced \
             from pg_catalog.pg_stat_io where object = 'relation') i",
        );
    }
    if version >= 170_000 {
        columns.push("c.buffers_written as buffers_checkpointed");
        columns.push("i.written as buffers_by_backends");
        columns.push("i.synced as fsyncs_by_backends");
        views.push("pg_catalog.pg_stat_checkpointer c");
    } else {
        columns.push("b.buffers_checkpoint as buffers_checkpointed");
        columns.push("b.buffers_backend as buffers_by_backends");
        columns.push("b.buffers_backend_fsync as fsyncs_by_backends");
    }
    format!("select {} from {}", columns.join(", "), views.join(" cross join "))
}

/// Sizes of the tables of a schema in the search path with all that belongs to them, in bytes, as
/// `relation_size_bytes.<relation>`: tables, indexes each, and `database_size_bytes`.
///
/// # Errors
/// When the server refuses.
pub fn relation_sizes(client: &mut Client) -> Result<BTreeMap<String, Option<f64>>, ClientError> {
    let rows = client.query(
        "select c.relname, pg_catalog.pg_relation_size(c.oid) \
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where c.relkind in ('r', 'i') and pg_catalog.pg_table_is_visible(c.oid) \
         and n.nspname not in ('pg_catalog', 'information_schema') \
         and n.nspname !~ '^pg_t' order by 2 desc limit 200",
    )?;
    let mut sizes: BTreeMap<String, Option<f64>> = rows
        .iter()
        .filter_map(|row| {
            let bytes = row.value(1).and_then(|text| text.parse::<f64>().ok());
            Some((format!("relation_size_bytes.{}", row.value(0)?), bytes))
        })
        .collect();
    let whole = client.value("select pg_catalog.pg_database_size(current_database())")?;
    sizes.insert("database_size_bytes".to_owned(), whole.and_then(|text| text.parse::<f64>().ok()));
    Ok(sizes)
}

/// `16/B374D848` as a count of bytes.
fn parse_lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let (high, low) = (u32::from_str_radix(high, 16).ok()?, u32::from_str_radix(low, 16).ok()?);
    Some(u64::from(high) << 32 | u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(value: f64, reset: &str) -> Counters {
        Counters {
            values: BTreeMap::from([("pg_stat_wal.wal_bytes".to_owned(), value)]),
            resets: BTreeMap::from([("pg_stat_wal".to_owned(), reset.to_owned())]),
            wal_position_bytes: Some(100),
        }
    }

    #[test]
    fn a_reset_or_a_decrease_gives_nothing_instead_of_a_wrong_difference() {
        let before = counters(10.0, "monday");
        let delta = |after: &Counters| after.since(&before)["pg_stat_wal.wal_bytes"];
        assert_eq!(delta(&counters(12.5, "monday")), Some(2.5));
        assert_eq!(delta(&counters(9.0, "monday")), None);
        assert_eq!(delta(&counters(99.0, "tuesday")), None);
        assert_eq!(delta(&Counters::default()), None);
    }

    #[test]
    fn what_backends_and_checkpoints_write_is_read_from_the_view_that_has_it_in_each_version() {
        for (version, has, has_not) in [
            (130_000, "b.buffers_backend_fsync", "pg_stat_wal"),
            (150_000, "w.wal_buffers_full", "pg_stat_io"),
            (160_000, "b.buffers_checkpoint ", "pg_stat_checkpointer"),
            (170_000, "c.buffers_written", "b.buffers_checkpoint"),
            (180_000, "i.written as buffers_by_backends", "b.buffers_backend"),
        ] {
            let sql = live_sql(version);
            assert!(sql.contains(has) && !sql.contains(has_not), "{version}: {sql}");
        }
    }

    #[test]
    fn positions_of_the_log_are_bytes() {
        assert_eq!(parse_lsn("16/B374D848"), Some(0x16_B374_D848));
        assert_eq!(parse_lsn("0/0"), Some(0));
        for wrong in ["", "1", "x/0", "0/123456789", "-1/0"] {
            assert_eq!(parse_lsn(wrong), None, "{wrong}");
        }
    }
}
