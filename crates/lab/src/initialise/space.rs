//! Which directories of the server a load fills, and by how much.

use std::path::PathBuf;

use super::size::{Estimate, estimate};
use super::{InitialiseError, InitialiseOptions};
use crate::target::postgres::client::{Client, ClientError, quote_literal};

/// Space that a load takes in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What is kept there, in words.
    pub what: &'static str,
    /// Directory on the server's machine; `None` where the role may not see it.
    pub directory: Option<PathBuf>,
    /// At the most, in bytes.
    pub bytes: u64,
}

/// What the load takes and where, as the server's tablespaces and settings say: tables, indexes, log.
/// The log counts as far as it is kept at a time: twice `max_wal_size` (a soft limit, which a load
/// passes while a checkpoint is under way) and `wal_keep_size`; all of it where an archive or a
/// replication slot may hold it back.
///
/// # Errors
/// When a tablespace does not exist, and when the server is lost.
pub fn needs(
    client: &mut Client,
    options: &InitialiseOptions,
) -> Result<Vec<Need>, InitialiseError> {
    let failed =
        |source| InitialiseError::Client { what: "asking where the tables would lie", source };
    let setting = |client: &mut Client, sql: &str| visible(client.value(sql));
    let data = setting(client, "show data_directory").map_err(failed)?.map(PathBuf::from);
    let wal_level = setting(client, "show wal_level").map_err(failed)?;
    let Estimate { table_bytes, index_bytes, wal_bytes } =
        estimate(options, wal_level.as_deref() == Some("minimal"));
    let mut place = |name: Option<&str>| -> Result<Option<PathBuf>, InitialiseError> {
        let choice = match name {
            Some(name) => quote_literal(name),
            None => "coalesce(nullif(pg_catalog.current_setting('default_tablespace'), ''), \
                     (select t.spcname from pg_catalog.pg_database d join \
                     pg_catalog.pg_tablespace t on t.oid = d.dattablespace \
                     where d.datname = pg_catalog.current_database()))"
                .to_owned(),
        };
        let found = client
            .query(&format!(
                "select pg_catalog.pg_tablespace_location(oid) from pg_catalog.pg_tablespace \
                 where spcname = {choice}"
            ))
            .map_err(failed)?;
        match (found.row(0), name) {
            (None, Some(name)) => Err(InitialiseError::Option(format!(
                "there is no tablespace {name} on this server: \\db in psql lists them"
            ))),
            (None, None) => Ok(data.clone()),
            (Some(row), _) => Ok(row
                .value(0)
                .filter(|location| !location.is_empty())
                .map_or_else(|| data.clone(), |location| Some(PathBuf::from(location)))),
        }
    };
    let tables = place(options.tablespace.as_deref())?;
    let indexes = place(options.index_tablespace.as_deref())?;
    let kept = kept_log(client, wal_bytes).map_err(failed)?;
    let log = data.map(|data| data.join("pg_wal"));
    Ok(vec![
        Need { what: "tables", directory: tables, bytes: table_bytes },
        Need { what: "indexes", directory: indexes, bytes: index_bytes },
        Need { what: "log", directory: log, bytes: kept },
    ])
}

/// How much of a log of `wal_bytes` lies on the disk at a time.
fn kept_log(client: &mut Client, wal_bytes: u64) -> Result<u64, ClientError> {
    let held_back = visible(client.value(
        "select (pg_catalog.current_setting('archive_mode') <> 'off' \
         or exists (select 1 from pg_catalog.pg_replication_slots))::text",
    ))?;
    let limit = visible(client.value(
        "select (2 * pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_wal_size')) \
         + coalesce(pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_keep_size', true)), \
         0))::text",
    ))?;
    Ok(match (held_back.as_deref(), limit.and_then(|text| text.parse().ok())) {
        (Some("false"), Some(limit)) => wal_bytes.min(limit),
        _ => wal_bytes,
    })
}

/// What the role may not see, or the version does not have, is `None`.
fn visible(value: Result<Option<String>, ClientError>) -> Result<Option<String>, ClientError> {
    match value {
        Err(ClientError::Statement(_)) => Ok(None),
        other => other,
    }
}
