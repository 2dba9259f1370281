//! A daemon under test, on free ports and its own data directory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The binary, without the settings in the caller's environment.
pub(crate) fn peeklock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peeklock"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PEEKLOCK_")) {
        command.env_remove(name);
    }
    for name in ["ACCEPT_EULA", "EMULATOR_HTTP_PORT", "SQL_SERVER"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command that terminates.
pub(crate) fn run(arguments: &[&str]) -> Output {
    peeklock().args(arguments).output().unwrap()
}

/// The standard error of a finished process.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The data directory and files of a broker; outlives the process.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A daemon's command line with free ports; the caller adds arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = peeklock();
        command.current_dir(self.0.path()).arg("--data-dir").arg(self.path("data"));
        command.args(["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command
    }

    /// Starts a daemon and waits until it accepts connections.
    pub(crate) fn start(&self, arguments: &[&str]) -> Broker {
        let mut command = self.command();
        command.args(arguments);
        self.started(command)
    }

    /// [`Self::start`] for a command line with addresses of its own.
    pub(crate) fn started(&self, mut command: Command) -> Broker {
        command.arg("--ready-file").arg(self.path("ready.json"));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut broker = Broker { child: command.spawn().unwrap(), ready: Value::Null };
        broker.ready = wait_for(|| match std::fs::read(self.path("ready.json")) {
            Ok(text) => Some(serde_json::from_slice(&text).unwrap()),
            Err(_) => {
                let ended = broker.child.try_wait().unwrap();
                assert!(ended.is_none(), "ended while starting: {}", read_errors(&mut broker.child));
                None
            }
        });
        broker
    }

    /// Starts a daemon without waiting for anything.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Broker {
        let mut command = self.command();
        command.arg("--ready-file").arg(self.path("ready.json")).args(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Broker { child: command.spawn().unwrap(), ready: Value::Null }
    }

    /// Starts a daemon that is expected to fail; returns its exit code and standard error.
    pub(crate) fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = self.command();
        command.arg("--ready-file").arg(self.path("refused.json")).args(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut broker = Broker { child: command.spawn().unwrap(), ready: Value::Null };
        wait_for(|| {
            assert!(!self.path("refused.json").exists(), "it started");
            broker.child.try_wait().unwrap()
        });
        let (status, errors) = broker.finish();
        (status.code(), errors)
    }
}

/// A running daemon; killed when dropped.
pub(crate) struct Broker {
    child: Child,
    ready: Value,
}

impl Broker {
    pub(crate) fn address(&self, protocol: &str) -> String {
        self.ready[protocol].as_str().unwrap().to_owned()
    }

    pub(crate) fn ready(&self) -> &Value {
        &self.ready
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// [`Self::finish`], for a daemon that may not end: fails then.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        wait_for(|| self.child.try_wait().unwrap());
        self.finish()
    }

    /// Waits for the end; returns the status and standard error.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        let errors = read_errors(&mut self.child);
        (self.child.wait().unwrap(), errors)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_errors(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Polls until the condition returns a value; fails after a minute, so that a broken daemon does not hang the suite.
pub(crate) fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
        if let Some(found) = condition() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain");
}

/// Sends one GET; returns the status and the body.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    http(address, "GET", path, "")
}

/// Sends one HTTP request; returns the status and the body.
pub(crate) fn http(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    exchange(address, address, method, path, &format!("Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// Sends one HTTP request without a body: `headers` are lines with their line breaks.
pub(crate) fn http_with(address: &str, method: &str, path: &str, headers: &str) -> (u16, String) {
    exchange(address, address, method, path, &format!("{headers}\r\n"))
}

/// Sends one GET with another `Host`.
pub(crate) fn http_of_host(address: &str, host: &str, path: &str) -> (u16, String) {
    exchange(address, host, "GET", path, "\r\n")
}

/// `rest` is the text after the first headers.
fn exchange(address: &str, host: &str, method: &str, path: &str, rest: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Writes a file for a test.
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// A connection that has exchanged protocol headers, so that it is being served.
pub(crate) fn open_connection(address: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"AMQP\x03\x01\x00\x00").unwrap();
    connection.read_exact(&mut [0; 8]).unwrap();
    connection
}
