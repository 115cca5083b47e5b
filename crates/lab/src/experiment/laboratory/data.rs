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

/// Loads pgbench's tables.
pub(super) fn load(client: &mut Client, scale: u64, fillfactor: u32) -> Result<(), ClientError> {
    client.set_timeout(None);
    let accounts = scale.saturating_mul(100_000);
    // Account numbers beyond 32 bits need a wider column, as in pgbench.
    let number = if scale >= 20_000 { "bigint" } else { "int" };
    for sql in [
        format!(
            "create table pgbench_history(tid int, bid int, aid {number}, delta int, \
             mtime timestamp, filler char(22)); \
             create table pgbench_tellers(tid int not null, bid int, tbalance int, \
             filler char(84)) with (fillfactor={fillfactor}); \
             create table pgbench_accounts(aid {number} not null, bid int, abalance int, \
             filler char(84)) with (fillfactor={fillfactor}); \
             create table pgbench_branches(bid int not null, bbalance int, filler char(88)) \
             with (fillfactor={fillfactor})"
        ),
        format!(
            "insert into pgbench_branches(bid, bbalance) select bid, 0 \
             from generate_series(1, {scale}) as bid"
        ),
        format!(
            "insert into pgbench_tellers(tid, bid, tbalance) select tid, (tid - 1) / 10 + 1, 0 \
             from generate_series(1, {scale} * 10) as tid"
        ),
        format!(
            "insert into pgbench_accounts(aid, bid, abalance, filler) \
             select aid, (aid - 1) / 100000 + 1, 0, '' \
             from generate_series(1::{number}, {accounts}) as aid"
        ),
        "alter table pgbench_branches add primary key (bid); \
         alter table pgbench_tellers add primary key (tid); \
         alter table pgbench_accounts add primary key (aid)"
            .to_owned(),
        "vacuum analyze pgbench_branches".to_owned(),
        "vacuum analyze pgbench_tellers".to_owned(),
        "vacuum analyze pgbench_accounts".to_owned(),
        "vacuum analyze pgbench_history".to_owned(),
        "checkpoint".to_owned(),
    ] {
        client.execute(&sql)?;
    }
    Ok(())
}
