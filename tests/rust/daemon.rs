//! A Peeklock daemon as a child process.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::PATIENCE;

/// A daemon; its data is kept by [`Daemon::kill`] for the next [`Daemon::start`].
#[derive(Debug)]
pub struct Daemon {
    directory: TempDir,
    child: Option<Child>,
    amqp: SocketAddr,
    http: SocketAddr,
    descriptors_max: Option<u32>,
    binary: PathBuf,
}

impl Daemon {
    /// Starts a daemon with the named queues, each with default options.
    pub fn with_queues(names: &[&str]) -> Self {
        let tables: Vec<String> =
            names.iter().map(|name| format!("[[queues]]\nname = \"{name}\"\n")).collect();
        Self::with_config(&tables.join("\n"))
    }

    /// Starts a daemon with this configuration in TOML.
    pub fn with_config(config: &str) -> Self {
        let mut daemon = Self::stopped(config);
        daemon.start();
        daemon
    }

    /// Starts this binary with this configuration, instead of the binary under test.
    pub fn of_binary(path: &Path, config: &str) -> Self {
        let mut daemon = Self::stopped(config);
        path.clone_into(&mut daemon.binary);
        daemon.start();
        daemon
    }

    /// A daemon with this configuration that is not started yet.
    pub fn stopped(config: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("peeklock-rust-").tempdir().unwrap();
        fs::write(directory.path().join("peeklock.toml"), config).unwrap();
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            directory,
            child: None,
            amqp: nowhere,
            http: nowhere,
            descriptors_max: None,
            binary: binary().to_owned(),
        }
    }

    /// Replaces the configuration; a running daemon reads it on [`Self::reload`].
    pub fn set_config(&self, config: &str) {
        fs::write(self.path("peeklock.toml"), config).unwrap();
    }

    /// Sends SIGHUP: the daemon reloads its configuration.
    pub fn reload(&self) {
        signal(self.child.as_ref().expect("the daemon runs"), "HUP");
    }

    /// Limits the descriptors of the next start (`RLIMIT_NOFILE`).
    pub fn set_descriptors_max(&mut self, descriptors_max: Option<u32>) {
        self.descriptors_max = descriptors_max;
    }

    /// Starts the daemon and returns once it accepts connections, on a port chosen by the system.
    pub fn start(&mut self) {
        self.start_within(PATIENCE);
    }

    /// Like [`Self::start`], for a store that takes longer to open.
    pub fn start_within(&mut self, patience: Duration) {
        // The file of a killed daemon would be taken for the new one's.
        let ready = self.path("ready.json");
        let _ = fs::remove_file(&ready);
        let mut child = self.spawn();
        let start = Instant::now();
        while !ready.exists() {
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < patience,
                "the daemon does not start:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        let ready = fs::read_to_string(ready).unwrap();
        (self.amqp, self.http) = (address(&ready, "amqp"), address(&ready, "http"));
        self.child = Some(child);
    }

    fn spawn(&self) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.path("daemon.log")).unwrap();
        let mut command = match self.descriptors_max {
            None => without_settings(&self.binary),
            Some(max) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &max.to_string()]).arg(&self.binary);
                shell
            }
        };
        command
            .args(["serve", "--config", "peeklock.toml", "--data-dir", "data", "--ready-file", "ready.json"])
            .args(["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command.spawn().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The address for AMQP clients.
    pub fn amqp(&self) -> SocketAddr {
        self.amqp
    }

    /// The address for HTTP.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The daemon's data directory.
    pub fn data_directory(&self) -> PathBuf {
        self.path("data")
    }

    /// The daemon's output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    /// Sends SIGKILL, which leaves the state of a crash.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Resident memory allocated by the daemon, in bytes; Linux only. Pages of its program file, which the kernel maps
    /// on demand, are not included.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// The peak of resident memory, in bytes, including pages of the program file; Linux only.
    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let id = self.child.as_ref().expect("the daemon runs").id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        kilobytes * 1024
    }

    /// Processor time of the daemon, all threads, user and system; Linux only.
    pub fn cpu_time(&self) -> Duration {
        cpu_time(&self.child.as_ref().expect("the daemon runs").id().to_string())
    }

    /// Asserts that the daemon runs and has not panicked in any task.
    pub fn assert_sound(&mut self) {
        let ended = self.child.as_mut().expect("the daemon was started").try_wait().unwrap();
        let log = self.log();
        assert!(ended.is_none(), "the daemon ended with {ended:?}:\n{log}");
        assert!(!log.contains("panicked"), "the daemon panicked:\n{log}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A build with profiling counters writes them when it stops cleanly (packaging/profiled.sh).
        if let Some(child) = self.child.as_mut()
            && std::env::var_os("LLVM_PROFILE_FILE").is_some()
        {
            signal(child, "TERM");
            child.wait().unwrap();
        }
        self.kill();
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
    assert!(sent.success());
}

/// Processor time of this process; Linux only.
pub fn own_cpu_time() -> Duration {
    cpu_time("self")
}

fn cpu_time(process: &str) -> Duration {
    /// The kernel reports hundredths of a second to user space, on every architecture.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The command's name may contain any characters; fields are counted after it.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().unwrap());
    TICK * ticks.sum::<u32>()
}

/// The binary under test, without settings from the environment.
pub fn command() -> Command {
    without_settings(binary())
}

fn without_settings(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("PEEKLOCK_")) {
        command.env_remove(key);
    }
    command
}

/// The daemon under test: `PEEKLOCK_BIN`, or the one that cargo builds next to this test.
pub fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os("PEEKLOCK_BIN") {
        Some(named) => PathBuf::from(named).canonicalize().expect("PEEKLOCK_BIN names a file"),
        None => build(),
    });
    &BINARY
}

/// Builds the daemon with the profile of this test: `cargo test` builds no binaries of other packages.
fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").to_owned();
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = directory.parent().unwrap();
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "peeklock", "--profile", profile])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the daemon does not build");
    directory.join("peeklock")
}

/// A field of the ready file: `ADDR:PORT` in a flat JSON object.
fn address(ready: &str, protocol: &str) -> SocketAddr {
    let (_, rest) = ready.split_once(&format!("\"{protocol}\":\"")).expect("an address");
    rest.split('"').next().unwrap().parse().expect("ADDR:PORT")
}
