use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel::runtime::OsRuntime;

use super::*;
use crate::target::postgres::binaries::{Binaries, Places, Wanted};
use crate::target::postgres::server::{ManagedServer, ServerOptions};

/// A started server in a directory of the test, or nothing to test with.
fn server(runtime: &Arc<dyn Runtime>) -> Option<(ManagedServer, tempfile::TempDir)> {
    let binaries = Binaries::find(&Wanted::Newest, &Places::of_this_machine()).unwrap()?;
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = ServerOptions::new(binaries, "init", Arc::new(AtomicBool::new(false)));
    options.parent = Some(parent.path().to_owned());
    options.settings.insert("fsync".to_owned(), "off".to_owned());
    let mut server = ManagedServer::create(options, runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    Some((server, parent))
}

fn load(
    server: &ManagedServer,
    options: &InitialiseOptions,
    runtime: &Arc<dyn Runtime>,
) -> Result<Initialised, InitialiseError> {
    let stop = Arc::new(AtomicBool::new(false));
    initialise(&server.address(), options, runtime, &stop, &mut |_| {})
}

/// What two loads must have in common: columns with types, keys, and every value.
const FINGERPRINT: &str = "select string_agg(part, E'\\n' order by part) from ( \
    select table_name || '.' || column_name || ' ' || ordinal_position || ' ' || data_type || ' ' \
        || coalesce(character_maximum_length::text, '') || ' ' || is_nullable as part \
        from information_schema.columns where table_name like 'pgbench%' \
    union all select conname || pg_get_constraintdef(oid) from pg_constraint \
        where conrelid::regclass::text like 'pgbench%' and contype in ('p', 'f') \
    union all select relname || relkind::text || relpersistence::text || reltablespace::text \
        || coalesce(array_to_string(reloptions, ','), '') \
        || coalesce(pg_get_expr(relpartbound, oid), '') || coalesce(pg_get_partkeydef(oid), '') \
        from pg_class where relname like 'pgbench%' \
    union all select 'a' || count(*) || md5(string_agg(a::text, ',' order by aid)) \
        from pgbench_accounts a \
    union all select 't' || md5(string_agg(t::text, ',' order by tid)) from pgbench_tellers t \
    union all select 'b' || md5(string_agg(b::text, ',' order by bid)) from pgbench_branches b \
    union all select 'h' || count(*) from pgbench_history) as parts";

/// Which row lies where: what the order of loading decides.
const PLACES: &str = "select md5(string_agg(aid || ctid::text, ',' order by aid)) || \
    (select md5(string_agg(tid || ctid::text, ',' order by tid)) from pgbench_tellers) || \
    (select md5(string_agg(bid || ctid::text, ',' order by bid)) from pgbench_branches) \
    from pgbench_accounts";

#[test]
fn the_tables_are_to_the_byte_what_pgbench_makes_and_pgbench_runs_on_them() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    let program = server.options().binaries.program("pgbench");
    if !program.is_file() {
        return;
    }
    let pgbench = |arguments: &[&str]| {
        let output = std::process::Command::new(&program)
            .args(["-h", &server.directory().display().to_string(), "-U", "postgres", "-p", "5432"])
            .args(arguments)
            .arg("postgres")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut client = server.connect().unwrap();
    for (arguments, options) in [
        (&["-i", "-q", "-s", "2"][..], InitialiseOptions { jobs: 2, ..InitialiseOptions::new(2) }),
        (
            &["-i", "-q", "-s", "1", "-F", "70", "--foreign-keys", "--unlogged-tables"][..],
            InitialiseOptions {
                fillfactor: Some(70),
                foreign_keys: true,
                unlogged: true,
                ..InitialiseOptions::new(1)
            },
        ),
        (
            &["-i", "-q", "-s", "1", "-F", "80", "--partitions", "3"][..],
            InitialiseOptions { fillfactor: Some(80), partitions: 3, ..InitialiseOptions::new(1) },
        ),
        (
            &["-i", "-q", "-s", "1", "--partitions", "2", "--partition-method", "hash"][..],
            InitialiseOptions {
                partitions: 2,
                partition_method: PartitionMethod::Hash,
                ..InitialiseOptions::new(1)
            },
        ),
        (&["-i", "-q", "-s", "2"][..], InitialiseOptions::new(2)),
    ] {
        pgbench(arguments);
        let theirs = client.value(FINGERPRINT).unwrap().unwrap();
        let places = client.value(PLACES).unwrap().unwrap();
        assert_eq!(read_scale(&mut client).unwrap(), Some(options.scale));
        let refusal = load(&server, &options, &runtime).unwrap_err().to_string();
        assert!(refusal.contains("pgbench_accounts") && refusal.contains("--force"), "{refusal}");
        assert_eq!(client.value(FINGERPRINT).unwrap().unwrap(), theirs);
        load(&server, &InitialiseOptions { force: true, ..options.clone() }, &runtime).unwrap();
        assert_eq!(client.value(FINGERPRINT).unwrap().unwrap(), theirs);
        if options.jobs == 1 && options.partitions == 0 {
            assert_eq!(client.value(PLACES).unwrap().unwrap(), places);
        }
        // Ours may be replaced without force.
        let loaded = load(&server, &options, &runtime).unwrap();
        let (bytes, estimate) = (loaded.bytes.unwrap(), estimated_bytes(&options));
        assert!(bytes.abs_diff(estimate) < bytes / 10, "{bytes} {estimate}");
        assert_eq!(read_scale(&mut client).unwrap(), Some(options.scale));
    }
    for script in ["select-only", "simple-update", "tpcb-like"] {
        pgbench(&["-n", "-b", script, "-t", "20"]);
    }
    let sums = "select (select sum(abalance) from pgbench_accounts) = \
        (select sum(delta) from pgbench_history) and (select count(*) from pgbench_history) = 40";
    assert_eq!(client.value(sums).unwrap().unwrap(), "t");
}

#[test]
fn a_load_broken_off_among_the_rows_is_never_taken_for_a_whole_one() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    let mut client = server.connect().unwrap();
    assert_eq!(read_scale(&mut client).unwrap(), None);
    for (jobs, expected) in [(1, Left::AsBefore), (2, Left::Incomplete)] {
        let options = InitialiseOptions { jobs, ..InitialiseOptions::new(3) };
        let stop = Arc::new(AtomicBool::new(false));
        let mut last = 0;
        let result = initialise(&server.address(), &options, &runtime, &stop, &mut |phase| {
            if let Phase::Rows { done, total } = phase {
                assert!(done >= last && done <= total);
                last = done;
                stop.store(true, Ordering::SeqCst);
            }
        });
        let Err(InitialiseError::Interrupted { left }) = result else { panic!("{result:?}") };
        assert_eq!(left, expected);
        let scale = read_scale(&mut client);
        match left {
            Left::AsBefore => assert_eq!(scale.unwrap(), None, "nothing was there before"),
            _ => assert!(matches!(scale, Err(ReadScaleError::Incomplete { .. })), "{scale:?}"),
        }
    }
    // Without force, since the tables are ours; and a single session undoes all it did.
    assert_eq!(load(&server, &InitialiseOptions::new(2), &runtime).unwrap().accounts, 200_000);
    let stop = Arc::new(AtomicBool::new(false));
    let result =
        initialise(&server.address(), &InitialiseOptions::new(1), &runtime, &stop, &mut |phase| {
            stop.store(matches!(phase, Phase::Rows { .. }), Ordering::SeqCst);
        });
    assert!(result.unwrap_err().to_string().contains("as it was before"));
    assert_eq!(read_scale(&mut client).unwrap(), Some(2));
}

#[test]
fn statements_that_would_last_for_ever_are_cancelled_on_the_server_at_ctrl_c() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    let mut client = server.connect().unwrap();
    load(&server, &InitialiseOptions::new(1), &runtime).unwrap();
    for (name, left) in
        [("Tables", Left::AsBefore), ("Keys", Left::Incomplete), ("Vacuum", Left::Incomplete)]
    {
        let stop = Arc::new(AtomicBool::new(false));
        let mut blocker = server.connect().unwrap();
        let result =
            initialise(&server.address(), &InitialiseOptions::new(1), &runtime, &stop, &mut |at| {
                if format!("{at:?}") == name {
                    // Nobody gets at the table before this session ends.
                    let lock = "begin; lock table pgbench_branches in access exclusive mode";
                    blocker.execute(lock).unwrap();
                    stop.store(true, Ordering::SeqCst);
                }
            });
        assert!(
            matches!(&result, Err(InitialiseError::Interrupted { left: it }) if *it == left),
            "{name}: {result:?}"
        );
        blocker.execute("rollback").unwrap();
        let busy = "select count(*) from pg_stat_activity where state = 'active' \
            and application_name = 'evenkeel init'";
        assert_eq!(client.value(busy).unwrap().unwrap(), "0", "{name}");
        let scale = read_scale(&mut client);
        assert_eq!(scale.is_ok(), left == Left::AsBefore, "{name}: {scale:?}");
    }
    load(&server, &InitialiseOptions::new(1), &runtime).unwrap();
    assert_eq!(read_scale(&mut client).unwrap(), Some(1));
}

#[test]
fn a_server_lost_in_the_middle_leaves_tables_that_say_so() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    let mut client = server.connect().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let result =
        initialise(&server.address(), &InitialiseOptions::new(1), &runtime, &stop, &mut |phase| {
            if phase == Phase::Keys {
                let sql = "select pg_terminate_backend(pid) from pg_stat_activity \
                    where application_name = 'evenkeel init'";
                client.query(sql).unwrap();
            }
        });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("building keys") && error.contains("incomplete"), "{error}");
    assert!(matches!(read_scale(&mut client), Err(ReadScaleError::Incomplete { .. })));
}

#[test]
fn tables_that_are_not_pgbenchs_give_no_scale() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    let mut client = server.connect().unwrap();
    let mut refused = |sql: &str, expected: &str| {
        client.execute(sql).unwrap();
        let error = read_scale(&mut client).unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    };
    refused("create table pgbench_branches (id int)", "pgbench_branches has no column bid");
    refused(
        "alter table pgbench_branches rename id to bid; \
         alter table pgbench_branches add bbalance int; insert into pgbench_branches values (1, 0)",
        "pgbench_tellers is not",
    );
    refused(
        "create table pgbench_tellers (tid int, bid int, tbalance int); \
         create table pgbench_accounts (aid int primary key, bid int, abalance int)",
        "pgbench_tellers 0, not 10 times",
    );
    refused(
        "insert into pgbench_tellers select t, 1, 0 from generate_series(1, 10) t; \
         insert into pgbench_accounts select a, 1, 0 from generate_series(1, 99) a",
        "number 99 instead of 100000",
    );
    client
        .execute("insert into pgbench_accounts select a, 1, 0 from generate_series(100, 100001) a")
        .unwrap();
    assert_eq!(read_scale(&mut client).unwrap(), Some(1), "what runs insert does no harm");
    client.execute("truncate pgbench_accounts, pgbench_tellers, pgbench_branches").unwrap();
    assert_eq!(read_scale(&mut client).unwrap(), Some(0));
}

#[test]
fn space_is_asked_for_where_tablespaces_lie_and_a_misspelt_one_is_an_error() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    let mut client = server.connect().unwrap();
    let data = PathBuf::from(client.value("show data_directory").unwrap().unwrap());
    for sql in ["set allow_in_place_tablespaces = on", "create tablespace elsewhere location ''"] {
        client.execute(sql).unwrap();
    }
    let options = InitialiseOptions {
        index_tablespace: Some("elsewhere".to_owned()),
        ..InitialiseOptions::new(1)
    };
    let found = needs(&mut client, &options).unwrap();
    let what: Vec<_> = found.iter().map(|need| (need.what, need.directory.clone())).collect();
    assert_eq!(what[0], ("tables", Some(data.clone())));
    assert!(what[1].1.as_ref().is_some_and(|it| it.to_string_lossy().contains("pg_tblspc")));
    assert_eq!(what[2], ("log", Some(data.join("pg_wal"))));
    assert!(found[2].bytes > 10_000_000);
    load(&server, &options, &runtime).unwrap();
    let missing = InitialiseOptions { tablespace: Some("nowhere".to_owned()), ..options };
    let error = needs(&mut client, &missing).unwrap_err().to_string();
    assert!(error.contains("no tablespace nowhere"), "{error}");
}

#[test]
fn options_out_of_range_are_refused_before_a_server_is_asked() {
    for options in [
        InitialiseOptions::new(0),
        InitialiseOptions::new(LARGEST_SCALE + 1),
        InitialiseOptions { fillfactor: Some(9), ..InitialiseOptions::new(1) },
        InitialiseOptions { fillfactor: Some(101), ..InitialiseOptions::new(1) },
        InitialiseOptions { jobs: 0, ..InitialiseOptions::new(1) },
    ] {
        assert!(matches!(options.check(), Err(InitialiseError::Option(_))), "{options:?}");
    }
    InitialiseOptions::new(LARGEST_SCALE).check().unwrap();
}

#[test]
fn account_numbers_become_wide_exactly_where_pgbench_makes_them_so() {
    let sql = |scale| tables::creation(&InitialiseOptions::new(scale), false, 150_000);
    assert!(sql(19_999).contains("aid int not null"));
    assert!(sql(20_000).contains("aid bigint not null"));
    assert!(!sql(1).contains("drop"));
}

/// Freezes the server among the rows and tells what comes of it; `wants_out`: the user speaks then.
fn load_that_freezes(
    server: &mut ManagedServer,
    jobs: u32,
    wants_out: bool,
    runtime: &Arc<dyn Runtime>,
) -> (InitialiseError, Vec<Phase>) {
    let patience = Patience {
        quiet: Duration::from_millis(200),
        silence: Duration::from_millis(500),
        cancel: Duration::from_millis(100),
    };
    let options = InitialiseOptions { jobs, ..InitialiseOptions::new(3) };
    let stop = Arc::new(AtomicBool::new(false));
    let mut told = Vec::new();
    let address = server.address();
    let result = initialise_within(patience, &address, &options, runtime, &stop, &mut |phase| {
        if matches!(phase, Phase::Rows { .. }) {
            server.freeze().unwrap();
            stop.store(wants_out, Ordering::SeqCst);
        }
        told.push(phase);
    });
    server.thaw().unwrap();
    (result.unwrap_err(), told)
}

#[test]
fn a_server_that_freezes_while_it_is_loaded_ends_the_load_and_is_named() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((mut server, _parent)) = server(&runtime) else { return };
    for jobs in [1, 2] {
        let (error, told) = load_that_freezes(&mut server, jobs, false, &runtime);
        assert!(
            matches!(
                error,
                InitialiseError::Silent { answer: Answer::Stopped, left: Left::Unanswered, .. }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("SIGSTOP"), "{error}");
        assert!(
            told.iter()
                .any(|phase| matches!(phase, Phase::Waiting { answer: Answer::Stopped, .. }))
        );
    }
    // What the server did not confirm it does not keep as whole, and the next load replaces it.
    load(&server, &InitialiseOptions::new(1), &runtime).unwrap();
    assert_eq!(read_scale(&mut server.connect().unwrap()).unwrap(), Some(1));
}

#[test]
fn the_user_is_heard_though_the_server_that_is_loaded_is_frozen() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((mut server, _parent)) = server(&runtime) else { return };
    for jobs in [1, 2] {
        let (error, _) = load_that_freezes(&mut server, jobs, true, &runtime);
        assert!(matches!(error, InitialiseError::Interrupted { .. }), "{error}");
    }
}
