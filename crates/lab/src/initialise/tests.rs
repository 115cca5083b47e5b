use std::os::unix::fs::PermissionsExt;

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
    union all select relname || coalesce(array_to_string(reloptions, ','), '') from pg_class \
        where relname like 'pgbench%' and relkind = 'r' \
    union all select 'a' || count(*) || md5(string_agg(a::text, ',' order by aid)) \
        from pgbench_accounts a \
    union all select 't' || md5(string_agg(t::text, ',' order by tid)) from pgbench_tellers t \
    union all select 'b' || md5(string_agg(b::text, ',' order by bid)) from pgbench_branches b \
    union all select 'h' || count(*) from pgbench_history) as parts";

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
    let mut fingerprint = || client.value(FINGERPRINT).unwrap().unwrap();
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
    ] {
        pgbench(arguments);
        let theirs = fingerprint();
        let refusal = load(&server, &options, &runtime).unwrap_err().to_string();
        assert!(refusal.contains("pgbench_accounts") && refusal.contains("--force"), "{refusal}");
        assert_eq!(fingerprint(), theirs);
        load(&server, &InitialiseOptions { force: true, ..options.clone() }, &runtime).unwrap();
        assert_eq!(fingerprint(), theirs);
        // Ours may be replaced without force.
        let loaded = load(&server, &options, &runtime).unwrap();
        let (bytes, estimate) = (loaded.bytes.unwrap(), estimated_bytes(&options));
        assert!(bytes.abs_diff(estimate) < bytes / 10, "{bytes} {estimate}");
    }
    for script in ["select-only", "simple-update", "tpcb-like"] {
        pgbench(&["-n", "-b", script, "-t", "20"]);
    }
    let sums = "select (select sum(abalance) from pgbench_accounts) = \
        (select sum(delta) from pgbench_history) and (select count(*) from pgbench_history) = 40";
    assert_eq!(client.value(sums).unwrap().unwrap(), "t");
}

#[test]
fn an_interrupted_load_says_so_and_can_be_repeated() {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let Some((server, _parent)) = server(&runtime) else { return };
    for jobs in [1, 2] {
        let options = InitialiseOptions { jobs, ..InitialiseOptions::new(2) };
        let stop = Arc::new(AtomicBool::new(false));
        let mut last = 0;
        let result = initialise(&server.address(), &options, &runtime, &stop, &mut |phase| {
            if let Phase::Rows { done, total } = phase {
                assert!(done >= last && done <= total);
                last = done;
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(matches!(result, Err(InitialiseError::Interrupted)), "{result:?}");
        assert_eq!(load(&server, &options, &runtime).unwrap().accounts, 200_000);
    }
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
    let sql = |scale| tables_sql(&InitialiseOptions::new(scale), false);
    assert!(sql(19_999).contains("aid int not null"));
    assert!(sql(20_000).contains("aid bigint not null"));
    assert!(!sql(1).contains("drop"));
}
