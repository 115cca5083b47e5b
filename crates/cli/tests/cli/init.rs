//! `evenkeel init` and `evenkeel doctor` from outside.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel::runtime::{OsRuntime, Runtime};
use evenkeel_lab::initialise::{LARGEST_SCALE, read_scale};
use evenkeel_lab::target::postgres::binaries::{Binaries, Places, Wanted};
use evenkeel_lab::target::postgres::server::{ManagedServer, ServerOptions};

use super::{signal, text, wait_for};

fn server() -> Option<(ManagedServer, tempfile::TempDir)> {
    let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
    let binaries = Binaries::find(&Wanted::Newest, &Places::of_this_machine()).unwrap()?;
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = ServerOptions::new(binaries, "initcli", Arc::new(AtomicBool::new(false)));
    options.parent = Some(parent.path().to_owned());
    options.settings.insert("fsync".to_owned(), "off".to_owned());
    let mut server = ManagedServer::create(options, &runtime).unwrap();
    server.initialise().unwrap();
    server.start().unwrap();
    Some((server, parent))
}

fn evenkeel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn init_loads_refuses_what_does_not_fit_or_is_not_ours_and_undoes_what_is_broken_off() {
    let Some((server, _parent)) = server() else { return };
    let url = format!("postgresql:///postgres?host={}&user=postgres", server.directory().display());
    let mut client = server.connect().unwrap();
    let init = |arguments: &[&str]| {
        let all: Vec<&str> = [&["init", &url], arguments].concat();
        let Output { status, stdout, stderr } = evenkeel(&all).output().unwrap();
        (status.code().unwrap(), text(&stdout), text(&stderr))
    };

    // psql's letters name the server as the URL does, and -h is no call for help.
    let host = server.directory().display().to_string();
    let letters = ["-h", &host, "-p", "5432", "-U", "postgres", "-d", "postgres"];
    let all = [&["init"], &letters[..], &["-s", "2", "-F", "90", "--foreign-keys"]].concat();
    let Output { status, stdout, stderr } = evenkeel(&all).output().unwrap();
    let (code, said, progress) = (status.code().unwrap(), text(&stdout), text(&stderr));
    assert_eq!(code, 0, "{progress}");
    assert!(said.starts_with("loaded 200000 accounts into postgres"), "{said}");
    assert!(progress.contains("of log") && progress.contains("free there"), "{progress}");
    assert_eq!(read_scale(&mut client).unwrap(), Some(2));

    // --force is about whose tables they are, not about the disk.
    let (code, said, error) = init(&["-s", &LARGEST_SCALE.to_string(), "--force"]);
    assert_eq!((code, said.as_str()), (1, ""));
    assert!(error.contains("are needed") && error.contains("are free"), "{error}");
    for (arguments, expected) in [
        (&["-s", "0"][..], "scale of 0"),
        (&["-F", "9"], "fill factor"),
        (&["--tablespace", "nowhere"], "no tablespace nowhere"),
    ] {
        let (code, _, error) = init(arguments);
        assert!(code == 1 && error.contains(expected), "{arguments:?}: {code} {error}");
    }
    assert_eq!(read_scale(&mut client).unwrap(), Some(2), "refusals change nothing");

    // A statement that waits for a lock for ever ends at Ctrl-C, and all is as before.
    let mut blocker = server.connect().unwrap();
    blocker.execute("begin; lock table pgbench_branches").unwrap();
    let mut child = evenkeel(&["init", &url, "-s", "1"]).spawn().unwrap();
    let mut said = wait_for(&mut child, "making the tables");
    let process = i32::try_from(child.id()).unwrap();
    signal(process, rustix::process::Signal::INT);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("as it was before") && !rest.contains("results so far"), "{rest}");
    blocker.execute("rollback").unwrap();
    assert_eq!(read_scale(&mut client).unwrap(), Some(2));

    client.execute("comment on table pgbench_tellers is null").unwrap();
    let (code, _, error) = init(&["-s", "1", "-q"]);
    assert!(code == 1 && error.contains("pgbench_tellers") && error.contains("--force"), "{error}");
    let (code, _, quiet) = init(&["-s", "1", "-q", "-j", "2", "--partitions", "2", "--force"]);
    assert_eq!((code, quiet.as_str()), (0, ""));
    assert_eq!(read_scale(&mut client).unwrap(), Some(1));
}

#[test]
fn the_help_of_commands_that_take_a_server_is_asked_for_as_in_psql_and_says_how_they_end() {
    for command in ["init", "bench"] {
        for letter in ["-?", "--help"] {
            let Output { status, stdout, .. } = evenkeel(&[command, letter]).output().unwrap();
            assert_eq!(status.code(), Some(0), "{command} {letter}");
            let said = text(&stdout);
            assert!(said.contains("-h, --host") && said.contains("-U, --username"), "{said}");
            if letter == "--help" {
                assert!(said.contains("Exit codes: 0"), "{said}");
            }
        }
    }
}

#[test]
fn doctor_tells_programs_from_people_and_failure_from_findings_by_its_exit_code() {
    let run = |arguments: &[&str]| evenkeel(&[&["doctor"], arguments].concat()).output().unwrap();
    let Output { status, stdout, stderr } = run(&["--quick", "--format", "json"]);
    assert_eq!(status.code(), Some(0), "{}", text(&stderr));
    let document: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let named = |name: &str| findings.iter().any(|finding| finding["name"] == name);
    assert!(named("postgres") && named("governor") && !named("fsync"), "{document}");
    let strict = run(&["--quick", "--strict", "--data-dir", "/dev/shm"]);
    let found = text(&strict.stdout);
    let expected = if found.contains("BAD") { 2 } else { 0 };
    assert_eq!(strict.status.code(), Some(expected), "{found}");
    let Output { status, stdout, stderr } = run(&["--data-dir", "/nowhere"]);
    assert_eq!((status.code(), stdout.len()), (Some(1), 0));
    assert!(text(&stderr).contains("/nowhere"), "{}", text(&stderr));
}
