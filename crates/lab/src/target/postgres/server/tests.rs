use evenkeel::runtime::OsRuntime;

use super::super::binaries::{Places, Wanted};
use super::*;

fn runtime() -> Arc<dyn Runtime> {
    Arc::new(OsRuntime::new())
}

/// The newest binaries that are on this machine, or nothing to test with.
fn binaries() -> Option<Binaries> {
    Binaries::find(&Wanted::Newest, &Places::of_this_machine()).unwrap()
}

fn options(parent: &Path) -> Option<ServerOptions> {
    let mut options = ServerOptions::new(binaries()?, "test", Arc::new(AtomicBool::new(false)));
    options.parent = Some(parent.to_owned());
    options.settings.insert("shared_buffers".to_owned(), "16MB".to_owned());
    options.settings.insert("fsync".to_owned(), "off".to_owned());
    Some(options)
}

/// Open to the user who runs the server when we are root.
fn parent() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    parent
}

fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn a_server_is_made_started_frozen_stopped_and_leaves_nothing() {
    let parent = parent();
    let Some(options) = options(parent.path()) else { return };
    let runtime = runtime();
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    let process = server.process_id().unwrap();
    let mut client = server.connect().unwrap();
    let value = |client: &mut Client, sql: &str| client.value(sql).unwrap().unwrap();
    assert_eq!(value(&mut client, "show shared_buffers"), "16MB");
    assert_eq!(value(&mut client, "show listen_addresses"), "");
    assert_eq!(
        value(&mut client, "select datcollate from pg_database where datname = 'postgres'"),
        "C"
    );
    drop(client);
    server.freeze().unwrap();
    for process in process_tree(process) {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let state = text.rsplit_once(')').unwrap().1.split_whitespace().next().unwrap();
        // A session that had just ended may wait to be collected.
        assert!(matches!(state, "T" | "Z"), "{text}");
    }
    server.thaw().unwrap();
    assert!(server.connect().is_ok());
    assert_eq!(server.stop().unwrap(), Shutdown::Fast);
    assert_eq!(server.stop().unwrap(), Shutdown::WasDown);
    assert!(is_gone(process));
    server.remove().unwrap();
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn data_restored_from_a_snapshot_are_what_was_loaded_whatever_a_run_did_to_them() {
    use super::super::counters::Counters;
    use super::super::server_log::LogFollower;
    use super::super::settings::Settings;
    use super::super::snapshot::{Snapshot, content_hash};
    let parent = parent();
    let Some(options) = options(parent.path()) else { return };
    let runtime = runtime();
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    assert!(Snapshot::take(&server, &runtime).is_err());
    let mut log = LogFollower::from_start(&server.log_path());
    let mut client = server.connect().unwrap();
    let before = Counters::read(&mut client).unwrap();
    client.execute("create table t as select generate_series(1, 1000) as n").unwrap();
    client.execute("checkpoint").unwrap();
    let deltas = Counters::read(&mut client).unwrap().since(&before);
    assert!(deltas["wal_bytes"].unwrap() > 10_000.0);
    assert!(deltas.contains_key("pg_stat_database.xact_commit"));
    let kinds: Vec<&str> = log.take_events().unwrap().iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&"checkpoint_sync"), "{kinds:?}");
    let settings = Settings::read(&mut client).unwrap();
    assert_eq!(settings.values["fsync"], "off");
    drop(client);
    server.stop().unwrap();
    let snapshot = Snapshot::take(&server, &runtime).unwrap();
    for _ in 0..2 {
        server.start().unwrap();
        let mut client = server.connect().unwrap();
        assert_eq!(client.value("select sum(n) from t").unwrap().unwrap(), "500500");
        client.execute("delete from t").unwrap();
        drop(client);
        server.stop().unwrap();
        assert_ne!(content_hash(&server.data_directory()).unwrap(), snapshot.sha256());
        let report = snapshot.restore(&server, true, &runtime).unwrap();
        assert_eq!(report.bytes, snapshot.bytes());
        assert_eq!(content_hash(&server.data_directory()).unwrap(), snapshot.sha256());
    }
    snapshot.remove().unwrap();
    drop(server);
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_nothing() {
    let parent = parent();
    let Some(mut options) = options(parent.path()) else { return };
    options.settings.insert("no_such_setting".to_owned(), "1".to_owned());
    let mut server = ManagedServer::create(options, &runtime()).unwrap();
    server.initialise().unwrap();
    let error = server.start().unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
    drop(server);
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn an_interruption_ends_the_making_of_a_server_at_once() {
    let parent = parent();
    let Some(options) = options(parent.path()) else { return };
    options.stop.store(true, Ordering::Relaxed);
    let mut server = ManagedServer::create(options, &runtime()).unwrap();
    assert!(matches!(server.initialise(), Err(ServerError::Interrupted)));
    drop(server);
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_server_that_was_killed_is_noticed() {
    let parent = parent();
    let Some(options) = options(parent.path()) else { return };
    let runtime = runtime();
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    server.check_alive().unwrap();
    let process = i32::try_from(server.process_id().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let deadline = runtime.now().plus(Duration::from_secs(10));
    let error = loop {
        match server.check_alive() {
            Err(error) => break error,
            Ok(()) => assert!(runtime.now() < deadline, "the death was not noticed"),
        }
    };
    assert!(matches!(error, ServerError::Ended { .. }), "{error}");
}

#[test]
fn settings_are_quoted_and_cannot_smuggle_lines() {
    let one = |name: &str, value: &str| {
        settings_text(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    };
    assert!(one("a.b_c", "it's \\ 5").unwrap().ends_with("a.b_c = 'it''s \\\\ 5'\n"));
    assert!(one("a", "1\nfsync = off").is_err());
    assert!(one("a = 1 #", "1").is_err());
    assert!(one("", "1").is_err());
}

#[test]
fn a_path_too_long_for_a_socket_is_known() {
    assert!(fits_socket(Path::new("/var/tmp/evenkeel-a-12345678")));
    assert!(!fits_socket(&Path::new("/").join("x".repeat(100))));
}

#[test]
fn who_has_little_room_in_var_tmp_places_the_servers_elsewhere() {
    assert_eq!(parent_of(Some("/mnt/big".into())), Path::new("/mnt/big"));
    for unset in [None, Some("".into())] {
        assert_ne!(parent_of(unset), Path::new(""));
    }
}
