//! Against a real server, where PostgreSQL's binaries are on this machine: what we say is what
//! `psql` says, what sessions do is what pgbench's do, and authentication works over TLS.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel::runtime::{OsRuntime, Readiness, Runtime};

use super::address::{Address, Surroundings};
use super::binaries::{Binaries, Places, Wanted};
use super::client::{Client, ClientError, quote_identifier, quote_literal};
use super::server::{ManagedServer, ServerOptions};
use super::session::PostgresTarget;
use crate::target::{
    Progress, QueryMode, Request, RowSink, Session, StatementError, Target as _, TargetError,
    TransactionStatus,
};
use crate::workload::script::{Piece, Slot, Statement, StatementId, Value, Workload};

/// A private server that is stopped and removed at the end.
struct Live {
    server: ManagedServer,
    binaries: Binaries,
    runtime: Arc<dyn Runtime>,
    _parent: tempfile::TempDir,
}

impl Live {
    /// Starts a server whose configuration `prepare` may change; `None` without binaries.
    fn start(prepare: impl FnOnce(&ManagedServer)) -> Option<Self> {
        let binaries = Binaries::find(&Wanted::Newest, &Places::of_this_machine()).unwrap()?;
        Some(Self::start_with(binaries, prepare))
    }

    /// Starts one that was built with TLS, which not every package is; `None` where there is none.
    fn start_with_tls(prepare: impl FnOnce(&ManagedServer)) -> Option<Self> {
        let places = Places::of_this_machine();
        let binaries = (10..=30)
            .rev()
            .filter_map(|major| Binaries::find(&Wanted::Major(major), &places).unwrap())
            .find(|binaries| match binaries.build_options() {
                Some(options) => options.contains("ssl"),
                // Without pg_config: Debian's servers have TLS.
                None => binaries.directory().starts_with("/usr/lib/postgresql"),
            })?;
        Some(Self::start_with(binaries, prepare))
    }

    fn start_with(binaries: Binaries, prepare: impl FnOnce(&ManagedServer)) -> Self {
        let parent = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut options = ServerOptions::new(binaries.clone(), "client", stop);
        options.parent = Some(parent.path().to_owned());
        options.settings = BTreeMap::from(
            [("shared_buffers", "16MB"), ("fsync", "off"), ("max_connections", "20")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
        let mut server = ManagedServer::create(options, &runtime).unwrap();
        server.initialise().unwrap();
        prepare(&server);
        server.start().unwrap();
        Self { server, binaries, runtime, _parent: parent }
    }

    fn client(&self) -> Client {
        Client::connect(&self.server.address(), &self.runtime).unwrap()
    }

    /// What psql prints for `sql`, values separated by '|', NULL as "NULL".
    fn psql(&self, sql: &str) -> Option<String> {
        // Not every package of binaries has it.
        let program = [self.binaries.program("psql"), PathBuf::from("/usr/bin/psql")]
            .into_iter()
            .find(|path| path.exists())?;
        let address = self.server.address();
        let output = Command::new(program)
            .args(["-X", "-A", "-t", "-P", "null=NULL", "-h", &address.hosts()[0]])
            .args(["-U", address.user(), "-d", address.database(), "-c", sql])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    }
}

fn shown(rows: &super::client::Rows) -> String {
    rows.iter()
        .map(|row| {
            let values: Vec<&str> =
                row.values().iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
            values.join("|") + "\n"
        })
        .collect()
}

fn sqlstate<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    result.unwrap_err().sqlstate().unwrap_or("none").to_owned()
}

#[test]
fn a_client_sees_what_psql_sees() {
    let Some(live) = Live::start(|_| {}) else { return };
    let mut client = live.client();
    assert_eq!(client.server_version() / 10_000, live.binaries.major());
    assert_eq!(client.parameter("client_encoding"), Some("UTF8"));
    assert_eq!(client.address(), live.server.address().to_string());

    for sql in [
        "select 1 as a, null as b, 'x' || chr(233) as c",
        "select g, g * 1.5, repeat('z', g) from generate_series(1, 300) g",
        "select repeat('long', 300000)",
        "select name, setting from pg_settings where name like 'enable%' order by 1",
        "select true, 1e300::float8, '{1,2}'::int[], 'a b'::bytea",
        "select 1 where false",
    ] {
        let ours = shown(&client.query(sql).unwrap());
        assert_eq!(ours, live.psql(sql).unwrap_or_else(|| ours.clone()), "{sql}");
    }
    let rows = client.query("select 1 as one, 'two' as two").unwrap();
    assert_eq!(rows.columns(), ["one", "two"]);
    assert_eq!(rows.row(0).unwrap().named("two"), Some("two"));
    assert_eq!(rows.command(), "SELECT 1");

    // Parameters, quoting.
    let hostile = r#"it's "quoted" \ back"#;
    let rows = client.query_with("select $1::text, $2::text", &[Some(hostile), None]).unwrap();
    assert_eq!(rows.row(0).unwrap().values(), [Some(hostile.to_owned()), None]);
    let literal = format!("select {} as {}", quote_literal(hostile), quote_identifier(hostile));
    let rows = client.query(&literal).unwrap();
    assert_eq!(rows.columns(), [hostile]);
    assert_eq!(rows.row(0).unwrap().value(0), Some(hostile));

    // Several statements: the last result, all effects.
    client
        .execute("create table t (a int primary key, b text); insert into t values (1, 'x')")
        .unwrap();
    assert_eq!(client.query("select 1; insert into t values (2, 'y')").unwrap().affected(), 1);
    assert_eq!(client.value("select count(*) from t").unwrap().as_deref(), Some("2"));

    // Errors leave the session sound.
    assert_eq!(sqlstate(client.query("selec")), "42601");
    assert_eq!(sqlstate(client.query_with("select $1::int", &[Some("x")])), "22P02");
    assert_eq!(sqlstate(client.query("select 'a\0b'")), "none");
    assert!(matches!(client.value("select 1, 2"), Err(ClientError::Unexpected(_))));
    client.execute("begin").unwrap();
    assert_eq!(client.transaction_status(), TransactionStatus::InBlock);
    assert_eq!(sqlstate(client.query("select 1 / 0")), "22012");
    assert_eq!(client.transaction_status(), TransactionStatus::Failed);
    client.execute("rollback").unwrap();

    // Notices.
    client.take_notices();
    client.execute("do $$ begin raise warning 'careful'; end $$").unwrap();
    let notices = client.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!((&*notices[0].severity, &*notices[0].message), ("WARNING", "careful"));
}

#[test]
fn copying_cancelling_and_waiting_end_as_promised() {
    let Some(live) = Live::start(|_| {}) else { return };
    let mut client = live.client();
    client.execute("create table t (a int, b text)").unwrap();
    let mut data = String::new();
    for i in 0..50_000 {
        data.push_str(&format!("{i}\trow number {i}\n"));
    }
    let mut copy = client.copy_in("copy t from stdin").unwrap();
    for piece in data.as_bytes().chunks(7919) {
        copy.write(piece).unwrap();
    }
    assert_eq!(copy.finish().unwrap(), 50_000);
    let sum = client.value("select sum(a)::text || max(b) from t").unwrap();
    assert_eq!(sum.as_deref(), Some("1249975000row number 9999"));

    let mut copy = client.copy_in("copy t from stdin").unwrap();
    copy.write(b"not a number\tx\n").unwrap();
    assert_eq!(sqlstate(copy.finish()), "22P02");
    assert_eq!(sqlstate(client.copy_in("copy nowhere from stdin")), "42P01");
    assert!(matches!(client.copy_in("select 1"), Err(ClientError::Unexpected(_))));
    assert_eq!(sqlstate(client.query("copy t from stdin")), "57014");
    assert_eq!(sqlstate(client.query_with("copy t from stdin", &[])), "57014");
    assert!(matches!(client.query("copy t to stdout"), Err(ClientError::Unexpected(_))));
    assert_eq!(client.value("select count(*) from t").unwrap().as_deref(), Some("50000"));

    // Cancel from another task, once the server is seen to sleep.
    let handle = client.cancel_handle().unwrap();
    let address = live.server.address();
    let process = client.process_id().unwrap().to_string();
    let runtime = Arc::clone(&live.runtime);
    let task = live
        .runtime
        .spawn(
            "canceller",
            Box::new(move || {
                let mut other = Client::connect(&address, &runtime).unwrap();
                let sql = "select 1 from pg_stat_activity where pid = $1::int and state = 'active' \
                           and wait_event = 'PgSleep'";
                while other.query_with(sql, &[Some(&process)]).unwrap().is_empty() {
                    runtime.sleep_until(runtime.now().plus_nanos(1_000_000));
                }
                handle.cancel().unwrap();
            }),
        )
        .unwrap();
    assert_eq!(sqlstate(client.query("select pg_sleep(600)")), "57014");
    task.join().unwrap();
    assert_eq!(client.value("select 1").unwrap().as_deref(), Some("1"));

    // A dropped copy leaves nothing, and the session says that it is over.
    let copy = client.copy_in("copy t from stdin").unwrap();
    drop(copy);
    assert!(matches!(client.query("select 1"), Err(ClientError::Target(TargetError::Lost { .. }))));

    // A timeout is an error, and later calls say so at once.
    let mut client = live.client();
    client.set_timeout(Some(Duration::from_millis(50)));
    for _ in 0..2 {
        let error = client.query("select pg_sleep(600)").unwrap_err();
        assert!(error.to_string().contains("no answer within"), "{error}");
    }

    // Who waits for long is told of it, again and again, and may leave.
    let leave = Arc::new(AtomicBool::new(false));
    let mut client =
        Client::connect_heeding(&live.server.address(), &live.runtime, &leave).unwrap();
    let (mut told, every) = (0, Duration::from_millis(150));
    let result = client.execute_telling("select pg_sleep(600)", every, &mut |_| {
        told += 1;
        leave.store(told == 2, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(result.unwrap_err().to_string().contains("given up"));
    assert_eq!(told, 2);
    let mut client = live.client();
    assert_eq!(client.execute_telling("select 1", every, &mut |_| {}).unwrap(), "SELECT 1");

    // The end of the backend carries the server's reason.
    let (mut client, mut other) = (live.client(), live.client());
    let process = client.process_id().unwrap().to_string();
    other.query_with("select pg_terminate_backend($1::int)", &[Some(&process)]).unwrap();
    let error = client.query("select pg_sleep(600)").unwrap_err().to_string();
    assert!(error.contains("57P01"), "{error}");
}

/// One session and the set in which it waits.
struct Driven {
    session: Box<dyn Session>,
    readiness: Box<dyn Readiness>,
    runtime: Arc<dyn Runtime>,
    rows: Collected,
}

#[derive(Default)]
struct Collected(Vec<String>);

impl RowSink for Collected {
    fn columns(&mut self, columns: &[&str]) {
        self.0.push(columns.join(","));
    }
    fn row(&mut self, values: &[Option<&[u8]>]) {
        let texts: Vec<_> = values
            .iter()
            .map(|value| value.map_or("NULL".into(), |value| String::from_utf8_lossy(value)))
            .collect();
        self.0.push(texts.join("|"));
    }
    fn end_of_result(&mut self) {
        self.0.push("end".to_owned());
    }
}

impl Driven {
    fn new(live: &Live, workload: &Arc<Workload>, mode: QueryMode) -> Self {
        let target = PostgresTarget::new(live.server.address());
        let mut session = target.connect(live.runtime.as_ref(), workload, mode).unwrap();
        let mut readiness = live.runtime.readiness().unwrap();
        session.register(readiness.as_mut(), 5).unwrap();
        Self { session, readiness, runtime: Arc::clone(&live.runtime), rows: Collected::default() }
    }

    fn request(
        &mut self,
        request: Request<'_>,
    ) -> Result<Option<Box<StatementError>>, TargetError> {
        self.rows.0.clear();
        let mut progress = self.session.submit(request, self.readiness.as_mut())?;
        let mut ready = Vec::new();
        let deadline = self.runtime.now().plus(Duration::from_secs(60));
        loop {
            match progress {
                Progress::Done => return Ok(None),
                Progress::Failed(error) => return Ok(Some(error)),
                Progress::Pending => {}
            }
            self.readiness.wait(Some(deadline), &mut ready).unwrap();
            assert!(!ready.is_empty(), "the session hangs");
            progress = self.session.advance(self.readiness.as_mut(), Some(&mut self.rows))?;
        }
    }

    fn run(&mut self, statement: u32, variables: &[Value]) -> Result<(), String> {
        let statement = StatementId(statement);
        let request = Request::Statement { statement, variables, wants_rows: true };
        self.request(request).unwrap().map_or(Ok(()), |error| Err(error.sqlstate))
    }

    fn simply(&mut self, request: Request<'_>) -> Result<(), String> {
        self.request(request).unwrap().map_or(Ok(()), |error| Err(error.sqlstate))
    }
}

/// Statements with `{}` where a variable stands; variables are numbered from 0 in each.
fn workload(statements: &[&str]) -> Arc<Workload> {
    let statements = statements.iter().map(|sql| {
        let (mut pieces, mut text, mut parameters) = (Vec::new(), String::new(), Vec::new());
        for (i, part) in sql.split("{}").enumerate() {
            if i > 0 {
                let slot = Slot(u32::try_from(i - 1).unwrap());
                pieces.push(Piece::Variable(slot));
                parameters.push(slot);
                text.push_str(&format!("${i}"));
            }
            pieces.push(Piece::Text(part.to_owned()));
            text.push_str(part);
        }
        Statement { pieces, text, parameters, line: 1 }
    });
    Arc::new(Workload { statements: statements.collect(), ..Workload::default() })
}

#[test]
fn every_mode_runs_statements_and_survives_their_failures() {
    let Some(live) = Live::start(|_| {}) else { return };
    live.client().execute("create table t (a int primary key, b text)").unwrap();
    let big = format!("select length('{}')", "x".repeat(3_000_000));
    let workload = workload(&[
        "select {}::int as a, {}::float8 as b", // 0
        "insert into t values ({}::int, 'x')",  // 1
        "begin",                                // 2
        "select count(*) from t",               // 3
        "select 1 / {}::int",                   // 4
        "copy t from stdin",                    // 5
        "copy t to stdout",                     // 6
        "select g, repeat('y', 1000) from generate_series(1, 20000) g", // 7
        &big,                                   // 8
        "deallocate all",                       // 9
        "",                                     // 10
        "select from missing_table",            // 11
        "do $$ begin raise notice 'hello'; end $$", // 12
    ]);
    for mode in [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared] {
        live.client().execute("truncate t").unwrap();
        let mut driven = Driven::new(&live, &workload, mode);
        for i in 1..=3 {
            driven.run(0, &[Value::Int(-i), Value::Double(0.5)]).unwrap();
            assert_eq!(driven.rows.0, ["a,b", &format!("{}|0.5", -i), "end"], "{mode:?}");
        }
        driven.run(0, &[Value::Null, Value::Null]).unwrap();
        assert_eq!(driven.rows.0, ["a,b", "NULL|NULL", "end"]);
        assert_eq!(driven.run(1, &[Value::Int(1)]), Ok(()));
        assert_eq!(driven.run(1, &[Value::Int(1)]), Err("23505".to_owned()));
        assert_eq!(driven.session.transaction_status(), TransactionStatus::Idle);

        driven.run(2, &[]).unwrap();
        assert_eq!(driven.session.transaction_status(), TransactionStatus::InBlock);
        assert_eq!(driven.run(4, &[Value::Int(0)]), Err("22012".to_owned()));
        assert_eq!(driven.session.transaction_status(), TransactionStatus::Failed);
        driven.simply(Request::Rollback).unwrap();
        assert_eq!(driven.session.transaction_status(), TransactionStatus::Idle);

        // COPY: declined, or passed over; the session goes on.
        assert_eq!(driven.run(5, &[]), Err("57014".to_owned()), "{mode:?}");
        driven.run(3, &[]).unwrap();
        assert_eq!(driven.rows.0, ["count", "1", "end"]);
        driven.run(6, &[]).unwrap();

        // More than any socket takes at once, both ways.
        driven.run(7, &[]).unwrap();
        assert_eq!(driven.rows.0.len(), 20_002);
        let unwanted =
            Request::Statement { statement: StatementId(7), variables: &[], wants_rows: false };
        driven.simply(unwanted).unwrap();
        assert!(driven.rows.0.is_empty());
        driven.run(8, &[]).unwrap();
        assert_eq!(driven.rows.0, ["length", "3000000", "end"]);

        driven.run(9, &[]).unwrap();
        if mode == QueryMode::Prepared {
            assert_eq!(driven.run(3, &[]), Err("26000".to_owned()));
        }
        driven.run(3, &[]).unwrap();
        assert_eq!(driven.rows.0, ["count", "1", "end"]);
        driven.run(10, &[]).unwrap();
        for _ in 0..2 {
            assert_eq!(driven.run(11, &[]), Err("42P01".to_owned()));
        }
        driven.run(12, &[]).unwrap();
        driven.session.close();
    }
}

#[test]
fn a_statement_is_parsed_once_per_session_under_pgbenchs_name() {
    let Some(live) = Live::start(|_| {}) else { return };
    let workload = workload(&[
        "select {}::int",
        "select name || ':' || (generic_plans + custom_plans) from pg_prepared_statements order by 1",
    ]);
    let mut driven = Driven::new(&live, &workload, QueryMode::Prepared);
    for i in 0..7 {
        driven.run(0, &[Value::Int(i)]).unwrap();
    }
    driven.run(1, &[]).unwrap();
    assert_eq!(driven.rows.0[1], "P_0:7");
}

#[test]
fn pipelines_end_with_their_first_error_and_keep_what_was_committed() {
    let Some(live) = Live::start(|_| {}) else { return };
    let mut client = live.client();
    client.execute("create table t (a int primary key)").unwrap();
    let workload = workload(&["insert into t values ({}::int)", "select count(*) from t", "begin"]);
    for mode in [QueryMode::Extended, QueryMode::Prepared] {
        client.execute("truncate t").unwrap();
        let mut driven = Driven::new(&live, &workload, mode);
        let insert = |driven: &mut Driven, key: i64| driven.run(0, &[Value::Int(key)]).unwrap();
        let mut count = || client.value("select count(*) from t").unwrap().unwrap();

        driven.simply(Request::StartPipeline).unwrap();
        for key in 0..5000 {
            insert(&mut driven, key);
        }
        driven.simply(Request::EndPipeline).unwrap();
        assert_eq!(count(), "5000");

        // Group 1 commits, group 2 fails as a whole, group 3 commits again.
        driven.simply(Request::StartPipeline).unwrap();
        insert(&mut driven, 5000);
        driven.simply(Request::SyncPipeline).unwrap();
        insert(&mut driven, 5001);
        insert(&mut driven, 1);
        insert(&mut driven, 5002);
        driven.simply(Request::SyncPipeline).unwrap();
        insert(&mut driven, 5003);
        assert_eq!(driven.simply(Request::EndPipeline), Err("23505".to_owned()));
        assert_eq!(driven.session.transaction_status(), TransactionStatus::Idle);
        assert_eq!(count(), "5002");

        // A block that a pipeline leaves open and failed is left by a rollback.
        driven.simply(Request::StartPipeline).unwrap();
        driven.run(2, &[]).unwrap();
        insert(&mut driven, 1);
        assert_eq!(driven.simply(Request::EndPipeline), Err("23505".to_owned()));
        assert_eq!(driven.session.transaction_status(), TransactionStatus::Failed);
        driven.simply(Request::Rollback).unwrap();
        // A rollback in the middle brings the pipeline to an end, whatever it held.
        driven.simply(Request::StartPipeline).unwrap();
        insert(&mut driven, 1);
        driven.simply(Request::Rollback).unwrap();
        driven.run(1, &[]).unwrap();
        assert_eq!(driven.rows.0[1], "5002");

        // An empty one, and words out of place.
        driven.simply(Request::StartPipeline).unwrap();
        assert!(driven.request(Request::StartPipeline).is_err());
        driven.simply(Request::EndPipeline).unwrap();
        assert!(driven.request(Request::EndPipeline).is_err());
        assert!(driven.request(Request::SyncPipeline).is_err());
    }
    let mut driven = Driven::new(&live, &workload, QueryMode::Simple);
    let error = driven.request(Request::StartPipeline).unwrap_err().to_string();
    assert!(error.contains("-M extended"), "{error}");
}

#[test]
fn a_lost_session_says_why_even_when_idle() {
    let Some(live) = Live::start(|_| {}) else { return };
    let workload = workload(&["select pg_backend_pid()"]);
    let mut driven = Driven::new(&live, &workload, QueryMode::Prepared);
    driven.run(0, &[]).unwrap();
    let terminate = format!("select pg_terminate_backend({}::int)", driven.rows.0[1]);
    live.client().execute(&terminate).unwrap();
    let mut ready = Vec::new();
    let deadline = live.runtime.now().plus(Duration::from_secs(60));
    driven.readiness.wait(Some(deadline), &mut ready).unwrap();
    assert_eq!(ready.len(), 1);
    let error = driven.session.advance(driven.readiness.as_mut(), None).unwrap_err();
    assert!(
        matches!(&error, TargetError::Lost { reason, .. } if reason.contains("57P01")),
        "{error}"
    );
}

#[test]
fn a_full_server_and_a_missing_database_are_told_in_the_servers_words() {
    let Some(live) = Live::start(|_| {}) else { return };
    let address = live.server.address();
    let refused = |address: &Address| match Client::connect(address, &live.runtime) {
        Err(TargetError::Refused { error, .. }) => error.sqlstate,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&address.clone().with_database("nowhere")), "3D000");
    let mut clients = Vec::new();
    let full = loop {
        match Client::connect(&address, &live.runtime) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!(clients.len(), 20);
    assert!(matches!(full, TargetError::Refused { error, .. } if error.sqlstate == "53300"));
    let elsewhere = Address::unix_socket(Path::new("/nowhere"), 1, "a", "b");
    let error = Client::connect(&elsewhere, &live.runtime).unwrap_err().to_string();
    assert!(error.contains("/nowhere/.s.PGSQL.1/b") && error.contains("running"), "{error}");
}

/// Certificates of an authority, of a server by that authority, of a client, and of nobody.
struct Certificates {
    authority: PathBuf,
    impostor: PathBuf,
    client: PathBuf,
    client_key: PathBuf,
}

fn make_certificates(own: &Path, data: &Path) -> Certificates {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    let authority = |name: &str| {
        let mut parameters = CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    };
    let issuer = authority("test authority");
    let signed = |names: &[&str], common_name: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        (parameters.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (server, server_key) = signed(&["db.example.test"], "db.example.test");
    write(data.join("server.crt"), &server);
    write(data.join("server.key"), &server_key);
    write(data.join("root.crt"), &issuer.pem());
    let (client, client_key) = signed(&[], "certified");
    Certificates {
        authority: write(own.join("root.crt"), &issuer.pem()),
        impostor: write(own.join("impostor.crt"), &authority("impostor").pem()),
        client: write(own.join("client.crt"), &client),
        client_key: write(own.join("client.key"), &client_key),
    }
}

#[test]
fn authentication_and_verification_hold_over_tcp() {
    let own = tempfile::tempdir().unwrap();
    // An address of this machine that nobody else uses: the port is the same for all servers.
    let seed = OsRuntime::new();
    let [a, b, c, ..] = evenkeel::runtime::Entropy::entropy_u64(&seed).to_be_bytes();
    let number = format!("127.{}.{b}.{}", a % 200 + 20, c % 200 + 20);
    let mut certificates = None;
    let live = Live::start_with_tls(|server| {
        let data = server.data_directory();
        certificates = Some(make_certificates(own.path(), &data));
        let configuration = data.join("postgresql.conf");
        let mut text = std::fs::read_to_string(&configuration).unwrap();
        text.push_str(&format!(
            "\nlisten_addresses = '{number}'\nssl = on\nssl_ca_file = 'root.crt'\n"
        ));
        std::fs::write(configuration, text).unwrap();
        std::fs::write(
            data.join("pg_hba.conf"),
            "local all all trust\n\
             hostssl all certified all cert\n\
             hostnossl all plain_only all scram-sha-256\n\
             hostssl all scrambled all scram-sha-256\n\
             host all digested all md5\n\
             host all clear all password\n\
             host all trusted all trust\n",
        )
        .unwrap();
        if let Some(owner) = server.owner() {
            for name in ["server.crt", "server.key", "root.crt"] {
                std::os::unix::fs::chown(data.join(name), Some(owner.uid), Some(owner.gid))
                    .unwrap();
            }
        }
    });
    let (Some(live), Some(certificates)) = (live, certificates) else { return };
    let mut client = live.client();
    let canary = "pass'word-canary é";
    for role in ["scrambled", "clear", "plain_only", "certified", "trusted", "digested"] {
        let encryption = if role == "digested" { "md5" } else { "scram-sha-256" };
        client
            .execute(&format!(
                "set password_encryption = '{encryption}'; create role {role} login password {}",
                quote_literal(canary)
            ))
            .unwrap();
    }
    let root = certificates.authority.display().to_string();
    let impostor = certificates.impostor.display().to_string();
    let surroundings = Surroundings {
        environment: &|name| (name == "PGPASSWORD").then(|| canary.to_owned()),
        user_name: None,
        home_directory: None,
        allow_password: false,
    };
    let try_with = |user: &str, host: &str, rest: &str, surroundings: &Surroundings<'_>| {
        let text =
            format!("host={host} hostaddr={number} port=5432 user={user} dbname=postgres {rest}");
        let address = Address::parse(&text, surroundings).unwrap();
        Client::connect(&address, &live.runtime)
            .map(|mut client| {
                let sql = "select ssl::text from pg_stat_ssl where pid = pg_backend_pid()";
                client.value(sql).unwrap().unwrap()
            })
            .map_err(|error| {
                let text = format!("{error} {error:?}");
                assert!(!text.contains("canary"), "{text}");
                text
            })
    };
    let attempt = |user: &str, host: &str, rest: &str| try_with(user, host, rest, &surroundings);
    let good = "db.example.test";
    let full = format!("sslmode=verify-full sslrootcert={root}");

    // What each mode accepts.
    let encrypted = Ok("true".to_owned());
    let plain = Ok("false".to_owned());
    assert_eq!(attempt("scrambled", good, &full), encrypted);
    assert_eq!(attempt("scrambled", good, &format!("{full} channel_binding=require")), encrypted);
    assert_eq!(attempt("scrambled", good, &format!("{full} channel_binding=disable")), encrypted);
    assert_eq!(
        attempt("scrambled", "other.test", &format!("sslmode=verify-ca sslrootcert={root}")),
        encrypted
    );
    assert_eq!(attempt("scrambled", "other.test", "sslmode=require"), encrypted);
    // Loopback: `prefer` unless something else is asked.
    assert_eq!(attempt("scrambled", good, ""), encrypted);
    assert_eq!(attempt("plain_only", good, ""), plain);
    assert_eq!(attempt("plain_only", good, "sslmode=allow"), plain);
    assert_eq!(attempt("scrambled", good, "sslmode=allow"), encrypted);
    assert_eq!(attempt("trusted", good, "sslmode=disable"), plain);
    assert_eq!(attempt("digested", good, "sslmode=disable"), plain);
    assert_eq!(attempt("clear", good, &full), encrypted);
    assert_eq!(attempt("clear", good, "sslmode=disable"), plain);

    // What it refuses, and what it says.
    let refused = |user: &str, host: &str, rest: &str, expected: &str| {
        let error = attempt(user, host, rest).unwrap_err();
        assert!(error.contains(expected), "{user} {host} {rest}: {error}");
    };
    refused("scrambled", "other.test", &full, "sslmode=verify-ca");
    refused(
        "scrambled",
        good,
        &format!("sslmode=verify-full sslrootcert={impostor}"),
        "sslrootcert=FILE",
    );
    refused(
        "scrambled",
        good,
        &format!("sslmode=require sslrootcert={impostor}"),
        "sslrootcert=FILE",
    );
    refused("scrambled", good, "sslmode=disable", "28000");
    refused("plain_only", good, "sslmode=require", "28000");
    refused("trusted", good, "channel_binding=require", "channel_binding=require");
    refused("certified", good, &full, "28000");
    refused("scrambled", good, "sslmode=verify-ca", "sslrootcert=FILE");
    refused("scrambled", good, &format!("{full} sslnegotiation=direct"), "");
    let certificate = format!(
        "{full} sslcert={} sslkey={}",
        certificates.client.display(),
        certificates.client_key.display()
    );
    assert_eq!(attempt("certified", good, &certificate), encrypted);
    std::fs::set_permissions(&certificates.client_key, std::fs::Permissions::from_mode(0o644))
        .unwrap();
    refused("certified", good, &certificate, "chmod 0600");

    // A wrong password, and none.
    let wrong = Surroundings {
        environment: &|name| (name == "PGPASSWORD").then(|| "wrong-canary".to_owned()),
        user_name: None,
        home_directory: None,
        allow_password: false,
    };
    for user in ["scrambled", "digested", "clear"] {
        let error = try_with(user, good, "", &wrong).unwrap_err();
        assert!(error.contains("28P01") && error.contains("unauthenticated"), "{error}");
    }
    let none = Surroundings {
        environment: &|_| None,
        user_name: None,
        home_directory: None,
        allow_password: false,
    };
    let error = try_with("scrambled", good, &full, &none).unwrap_err();
    assert!(error.contains(".pgpass"), "{error}");

    // From a password file.
    let passfile = own.path().join("pgpass");
    std::fs::write(&passfile, format!("{good}:5432:postgres:scrambled:{canary}\n")).unwrap();
    std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o600)).unwrap();
    let rest = format!("{full} passfile={}", passfile.display());
    assert_eq!(try_with("scrambled", good, &rest, &none), encrypted);

    // A session for load under TLS.
    let text =
        format!("host={good} hostaddr={number} port=5432 user=scrambled dbname=postgres {full}");
    let address = Address::parse(&text, &surroundings).unwrap();
    let workload = workload(&["select g, repeat('y', 100) from generate_series(1, {}::int) g"]);
    let target = PostgresTarget::new(address);
    let mut session =
        target.connect(live.runtime.as_ref(), &workload, QueryMode::Prepared).unwrap();
    let mut readiness = live.runtime.readiness().unwrap();
    session.register(readiness.as_mut(), 1).unwrap();
    let runtime = Arc::clone(&live.runtime);
    let mut driven = Driven { session, readiness, runtime, rows: Collected::default() };
    for count in [0, 1, 1000, 50_000] {
        driven.run(0, &[Value::Int(count)]).unwrap();
        assert_eq!(i64::try_from(driven.rows.0.len()).unwrap(), count + 2);
    }
}
