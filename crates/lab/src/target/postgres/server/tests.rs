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
        assert_eq!(state, "T", "{text}");
    }
    server.thaw().unwrap();
    assert!(server.connect().is_ok());
    assert_eq!(server.stop().unwrap(), Shutdown::Fast);
    assert_eq!(server.stop().unwrap(), Shutdown::WasDown);
    assert!(is_gone(process));
    server.remove().unwrap();
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}
