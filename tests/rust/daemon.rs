//! A Peeklock daemon as a child process.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How often a start is tried: another process may take a free port first.
const STARTS: usize = 5;

/// One daemon; its data outlives [`Daemon::kill`] and comes back with [`Daemon::start`].
#[derive(Debug)]
pub struct Daemon {
    directory: TempDir,
    child: Option<Child>,
    amqp: SocketAddr,
}

impl Daemon {
    /// Starts a daemon with the named queues, each with default options.
    pub fn with_queues(names: &[&str]) -> Self {
        let tables: Vec<String> =
            names.iter().map(|name| format!("[[queues]]\nname = \"{name}\"\n")).collect();
        Self::with_config(&tables.join("\n"))
    }

    /// Starts a daemon with this TOML.
    pub fn with_config(config: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("peeklock-rust-").tempdir().unwrap();
        fs::write(directory.path().join("peeklock.toml"), config).unwrap();
        let mut daemon = Self { directory, child: None, amqp: SocketAddr::from(([127, 0, 0, 1], 0)) };
        daemon.start();
        daemon
    }

    /// Starts the daemon and returns once `/health` answers.
    pub fn start(&mut self) {
        for _ in 0..STARTS {
            let (amqp, http) = (free_address(), free_address());
            let mut child = self.spawn(amqp, http);
            if is_healthy(&mut child, http) {
                self.amqp = amqp;
                self.child = Some(child);
                return;
            }
        }
        panic!("the daemon does not start:\n{}", self.log());
    }

    fn spawn(&self, amqp: SocketAddr, http: SocketAddr) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.path("daemon.log")).unwrap();
        let mut command = Command::new(binary());
        command
            .arg("serve")
            .arg("--config")
            .arg(self.path("peeklock.toml"))
            .arg("--data-dir")
            .arg(self.path("data"))
            .args(["--amqp", &amqp.to_string(), "--http", &http.to_string()])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("PEEKLOCK_")) {
            command.env_remove(key);
        }
        command.spawn().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where AMQP clients connect.
    pub fn amqp(&self) -> SocketAddr {
        self.amqp
    }

    /// The directory that the daemon keeps its data in.
    pub fn data_directory(&self) -> PathBuf {
        self.path("data")
    }

    /// What the daemon has printed so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    /// SIGKILL: what a power cut leaves.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Resident memory of the daemon, in bytes; Linux only.
    pub fn resident_bytes(&self) -> u64 {
        let id = self.child.as_ref().expect("the daemon runs").id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        kilobytes * 1024
    }

    /// Asserts that the daemon runs and has not panicked, not even in a task of its own.
    pub fn assert_sound(&mut self) {
        let ended = self.child.as_mut().expect("the daemon was started").try_wait().unwrap();
        let log = self.log();
        assert!(ended.is_none(), "the daemon ended with {ended:?}:\n{log}");
        assert!(!log.contains("panicked"), "the daemon panicked:\n{log}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The daemon under test: `PEEKLOCK_BIN`, or the one that cargo built beside this test.
fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("PEEKLOCK_BIN") {
        return named.into();
    }
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).map(|profile| profile.join("peeklock")).unwrap();
    assert!(Path::new(&built).exists(), "no daemon: run `cargo build -p peeklock` or set PEEKLOCK_BIN");
    built
}

fn free_address() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap()
}

fn is_healthy(child: &mut Child, http: SocketAddr) -> bool {
    while child.try_wait().unwrap().is_none() {
        if answers_health(http).unwrap_or(false) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn answers_health(http: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(http)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200") && answer.contains("healthy"))
}
