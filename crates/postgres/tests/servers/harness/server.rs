//! A PostgreSQL server for tests, in a temporary folder, on a free port.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use peeklock_postgres::{Database, DatabaseOptions, PostgresMetrics};

/// Time limit for steps that take some seconds at most on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs of PostgreSQL and an empty database cluster; `None` if it is not installed.
static TEMPLATE: OnceLock<Option<Template>> = OnceLock::new();

struct Template {
    programs: PathBuf,
    data: PathBuf,
    /// Removed when this process ends, in any way.
    _folder: Folder,
}

/// A shell in a folder, run as the server's user. The commands after `read line` in its script run when this is
/// dropped, and when this process ends in any way.
#[derive(Debug)]
struct Shell(Child);

impl Shell {
    fn run(folder: &Path, script: &str) -> Self {
        let script = format!("cd '{}' || exit 1; {script}", folder.display());
        Self(as_server_user("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A folder that is removed with its contents.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _shell: Shell,
}

impl Folder {
    fn new() -> Self {
        let path = tempfile::Builder::new().prefix("peeklock-postgres-").tempdir().unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("nobody").arg(&path));
        }
        let _shell = Shell::run(&path, "read line; rm -rf \"$PWD\"");
        Self { path, _shell }
    }
}

fn is_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| Command::new("id").arg("-u").output().unwrap().stdout == b"0\n")
}

/// Runs a program as another user, because PostgreSQL refuses to run as root.
fn as_server_user(program: impl AsRef<Path>) -> Command {
    if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--"]).arg(program.as_ref());
        command
    } else {
        Command::new(program.as_ref())
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn find_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

fn template() -> Option<&'static Template> {
    let made = TEMPLATE.get_or_init(|| {
        let Some(programs) = find_programs() else {
            assert!(std::env::var_os("PEEKLOCK_REQUIRE_POSTGRES").is_none(), "PostgreSQL is not installed");
            // Prominent, so that a suite that skips its tests does not look like one that passed.
            eprintln!(
                "\n*** SKIPPED: PostgreSQL is not installed (no /usr/lib/postgresql/*/bin/initdb) ***\n"
            );
            return None;
        };
        let folder = Folder::new();
        let data = folder.path.join("data");
        let mut initdb = as_server_user(programs.join("initdb"));
        initdb.args([
            "--no-sync",
            "--wal-segsize=1",
            "-A",
            "trust",
            "-U",
            "root",
            "-E",
            "UTF8",
            "--locale=C",
            "-D",
        ]);
        run(initdb.arg(&data));
        let script = "printf '%s\\n' \"create role app login password 'secret'\" 'create database app owner app' | \"$0\" --single -D data postgres";
        run(as_server_user("sh").args(["-ec", script]).arg(programs.join("postgres")).current_dir(&folder.path));
        Some(Template { programs, data, _folder: folder })
    });
    made.as_ref()
}

/// Settings of all servers: small, and as durable as a production server.
const CONFIGURATION: &str = "
listen_addresses = '127.0.0.1'
shared_buffers = 16MB
max_connections = 60
min_wal_size = 32MB
max_wal_size = 128MB
wal_keep_size = 64MB
wal_retrieve_retry_interval = 100ms
wal_receiver_status_interval = 1s
wal_receiver_timeout = 5s
full_page_writes = on
fsync = on
log_min_messages = warning
";

/// First and number of ports that no system gives to outgoing connections by default.
const PORTS: (u32, u32) = (10_000, 6_000);

/// A port without a listener, another one at each call: a server binds its port later, and no other one must have it by
/// then.
fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let (first, count) = PORTS;
    loop {
        // Processes at the same time begin at different ports.
        let next = std::process::id().wrapping_mul(64).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(first + next % count).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server; it is killed and its folder removed when it is dropped, or when this process ends.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    /// Declared before the folder, so that it is dropped first.
    process: Option<Shell>,
    folder: Folder,
}

impl Server {
    /// Starts a new primary with these additional settings. `None` if PostgreSQL is not installed.
    pub(crate) fn start(configuration: &str) -> Option<Self> {
        let template = template()?;
        let mut server = Self::copied(&template.data, configuration);
        server.launch();
        Some(server)
    }

    /// A server on a copy of an unused data folder.
    fn copied(data: &Path, configuration: &str) -> Self {
        let folder = Folder::new();
        run(as_server_user("cp").arg("-a").arg(data).arg(folder.path.join("data")));
        let port = free_port();
        let server = Self { port, folder, process: None };
        let sockets = server.folder.path.display().to_string();
        server.configure(&format!(
            "{CONFIGURATION}port = {port}\nunix_socket_directories = '{sockets}'\n{configuration}"
        ));
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path.join("data")
    }

    /// The folder of the server's socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Writes a file that only the server's user can read.
    pub(crate) fn write(&self, name: &str, contents: &str) {
        let path = self.data().join(name);
        let mut tee = as_server_user("sh");
        tee.args(["-c", "umask 077; rm -f \"$0\"; cat > \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut child = tee.spawn().unwrap();
        child.stdin.take().unwrap().write_all(contents.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Adds to the configuration.
    pub(crate) fn configure(&self, more: &str) {
        let before = fs::read_to_string(self.data().join("postgresql.conf")).unwrap();
        self.write("postgresql.conf", &format!("{before}\n{more}\n"));
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn launch(&mut self) {
        let postgres = template().unwrap().programs.join("postgres");
        // Immediate shutdown when this process is gone; remaining files are removed with the folder.
        let script = format!(
            "'{}' -D data >log 2>&1 & pid=$!; read line; kill -QUIT $pid 2>/dev/null; wait",
            postgres.display()
        );
        self.process = Some(Shell::run(&self.folder.path, &script));
        self.await_sql("select 1", "1");
    }

    fn psql(&self, sql: &str) -> Output {
        let mut psql = Command::new("psql");
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-U",
            "root",
            "-c",
            sql,
        ]);
        let is_for_all =
            ["create role", "create database", "select 1"].iter().any(|start| sql.starts_with(start));
        let database = if is_for_all { "postgres" } else { "app" };
        psql.args(["-p", &self.port.to_string(), database]).output().unwrap()
    }

    /// The answer to a statement of a superuser in database `app`.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let output = self.psql(sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until the answer is `expected`.
    pub(crate) fn await_sql(&self, sql: &str, expected: &str) {
        let start = Instant::now();
        loop {
            let output = self.psql(sql);
            if output.status.success() && String::from_utf8_lossy(&output.stdout).trim() == expected {
                return;
            }
            let log = || fs::read_to_string(self.folder.path.join("log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "{sql}: {output:?}\n{}", log());
            sleep(Duration::from_millis(20));
        }
    }

    /// Holds advisory lock 77 until it is dropped.
    pub(crate) fn sleep_holder(&self) -> Holder {
        let mut psql = Command::new("psql");
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-h",
            "127.0.0.1",
            "-U",
            "root",
            "-p",
            &self.port.to_string(),
            "app",
        ]);
        let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"select pg_advisory_lock(77);\n").unwrap();
        self.await_sql(
            "select count(*) from pg_locks where locktype = 'advisory' and granted and objid = 77",
            "1",
        );
        Holder(child)
    }

    /// Changes a setting of the running server.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.sql(&format!("alter system set {name} = {value}"));
        self.sql("select pg_reload_conf()");
        let shown = value.trim_matches('\'');
        self.await_sql(&format!("select current_setting('{name}')"), shown);
    }

    /// Ends the server like a crash.
    pub(crate) fn kill(&mut self) {
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        run(Command::new("kill").args(["-KILL", pid.lines().next().unwrap()]));
        self.process = None;
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
    }

    /// Ends the server like an administrator.
    pub(crate) fn stop(&mut self) {
        let pg_ctl = template().unwrap().programs.join("pg_ctl");
        run(as_server_user(pg_ctl).args(["stop", "-w", "-m", "fast", "-D"]).arg(self.data()));
        self.process = None;
    }

    /// A copy of a stopped server, like a cold backup.
    pub(crate) fn copy(&self, configuration: &str) -> Self {
        assert!(self.process.is_none());
        Self::copied(&self.data(), configuration)
    }

    /// Makes a stopped server a standby of another one.
    pub(crate) fn follow(&self, primary: &Self) {
        let name = self.port;
        let to = format!("host=127.0.0.1 port={} user=root application_name=s{name}", primary.port);
        self.configure(&format!("primary_conninfo = '{to}'"));
        self.write("standby.signal", "");
    }

    /// Makes a standby a primary.
    pub(crate) fn promote(&self) {
        self.sql("select pg_promote()");
        self.await_sql("select pg_is_in_recovery()", "f");
    }

    /// A URL of this server for the role of the broker.
    pub(crate) fn url(&self) -> String {
        format!("postgres://app:secret@127.0.0.1:{}/app", self.port)
    }

    /// Options with short time limits, in a separate schema.
    pub(crate) fn options(&self, schema: &str) -> DatabaseOptions {
        options(&self.url(), schema)
    }

    pub(crate) fn database(&self, schema: &str) -> Database {
        database(self.options(schema))
    }
}

/// See [`Server::sleep_holder`].
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// See [`Server::options`].
pub(crate) fn options(url: &str, schema: &str) -> DatabaseOptions {
    DatabaseOptions::parse(url).unwrap().with_schema(schema).unwrap()
}

pub(crate) fn database(options: DatabaseOptions) -> Database {
    Database::new(options, PostgresMetrics::default()).unwrap()
}
