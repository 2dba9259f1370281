//! Start, serve, stop.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::process::Signal;

use crate::broker::{Home, errors, get, open_connection, peeklock, run, wait_for, write};

const HEALTHY: &str = r#"{"status":"healthy","message":"Service is healthy."}"#;

const UNHEALTHY: &str =
    r#"{"status":"unhealthy","message":"Service not available. Please try after some time."}"#;

#[test]
fn health_is_reported_once_connections_are_accepted() {
    let home = Home::new();
    let broker = home.start(&[]);
    let health = |path| get(&broker.address("http"), path);
    assert_eq!(health("/health"), (200, HEALTHY.to_owned()));
    assert_eq!(health("/health/ready"), (200, r#"{"status":"ready"}"#.to_owned()));
    assert_eq!(health("/health/live"), (200, r#"{"status":"alive"}"#.to_owned()));
    // Unauthenticated clients learn nothing, not even which paths exist.
    assert_eq!(get(&broker.address("http"), "/nothing").0, 401);
    TcpStream::connect(broker.address("amqp")).unwrap();
    let port = broker.address("amqp").rsplit_once(':').unwrap().1.to_owned();
    let expected = format!(
        "Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;\
         SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    );
    assert_eq!(broker.ready()["connection_string"], expected);
}

#[test]
fn sigterm_and_sigint_drain_and_exit_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = Home::new();
        let broker = home.start(&[]);
        broker.signal(signal);
        let (status, log) = broker.finish();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("stopped"), "{log}");
        assert!(!home.path("ready.json").exists(), "the ready file outlives the broker");
    }
}

/// As with a paused terminal or a hanging supervisor, the log is read only at the end.
#[test]
fn a_log_that_is_not_read_stops_nothing() {
    const PIPE_BYTES: usize = 64 << 10;
    let home = Home::new();
    let broker = home.start(&["--log-level", "trace"]);
    for _ in 0..1_500 {
        open_connection(&broker.address("amqp")).write_all(b"AMQP nonsense").unwrap();
    }
    assert_eq!(get(&broker.address("http"), "/health"), (200, HEALTHY.to_owned()));
    broker.signal(Signal::TERM);
    wait_for(|| (!home.path("ready.json").exists()).then_some(()));
    let (status, log) = broker.finish();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.len() > PIPE_BYTES, "{}", log.len());
}

#[test]
fn a_data_directory_that_is_removed_while_the_broker_runs_ends_it_with_1() {
    let home = Home::new();
    let broker = home.start(&["--queue", "orders"]);
    std::fs::rename(home.path("data"), home.path("moved")).unwrap();
    let (status, log) = broker.finish();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("the data directory was removed or moved while it was in use"), "{log}");
    assert!(!home.path("data").exists());
    assert_eq!(run(&["store", "check", home.path("moved").to_str().unwrap()]).status.code(), Some(0));
}

/// A restored backup, say, that is moved to the place of the directory in use.
#[test]
fn a_data_directory_that_is_replaced_while_the_broker_runs_ends_it_with_1() {
    let home = Home::new();
    let other = Home::new();
    let broker = other.start(&["--queue", "orders"]);
    broker.signal(Signal::TERM);
    broker.finish();
    let broker = home.start(&["--queue", "orders"]);
    let (own, others) = (home.path("data"), other.path("data"));
    renameat_with(CWD, &own, CWD, &others, RenameFlags::EXCHANGE).unwrap();
    let (status, log) = broker.ended();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("the data directory was replaced by another one while it was in use"), "{log}");
    for directory in [own, others] {
        assert_eq!(run(&["store", "check", directory.to_str().unwrap()]).status.code(), Some(0));
    }
}

/// Reading the configuration takes until the test writes it, by a pipe.
#[test]
fn signals_while_the_configuration_is_read_are_handled_afterwards() {
    for signal in [Signal::HUP, Signal::TERM] {
        let home = Home::new();
        make_pipe(&home.path("p.toml"));
        let broker = home.spawn(&["--config", "p.toml"]);
        // Waits until the broker reads.
        let mut pipe = std::fs::File::options().write(true).open(home.path("p.toml")).unwrap();
        broker.signal(signal);
        write(&home.path("later.toml"), "");
        std::fs::rename(home.path("later.toml"), home.path("p.toml")).unwrap();
        pipe.write_all(b"# the configuration").unwrap();
        drop(pipe);
        if signal == Signal::HUP {
            wait_for(|| home.path("ready.json").exists().then_some(()));
            broker.signal(Signal::TERM);
        }
        let (status, log) = broker.ended();
        assert_eq!(status.code(), Some(0), "{log}");
        assert_eq!(log.contains("SIGHUP: reading the configuration again"), signal == Signal::HUP, "{log}");
    }
}

/// The opening of the store never ends, because its manifest is a pipe that nobody writes.
#[test]
fn a_stop_does_not_wait_for_a_store_that_is_being_opened() {
    let home = Home::new();
    std::fs::create_dir(home.path("data")).unwrap();
    make_pipe(&home.path("data/MANIFEST"));
    let broker = home.spawn(&[]);
    wait_for(|| std::fs::read_to_string(home.path("data/LOCK")).ok().filter(|owner| !owner.is_empty()));
    broker.signal(Signal::TERM);
    let (status, log) = broker.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopped") && !log.contains("ready;"), "{log}");
}

/// The command line of a daemon with a limit of the shell's `ulimit`.
fn limited(home: &Home, limit: &str) -> Command {
    let command = home.command();
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\"")).arg(command.get_program());
    limited.args(command.get_args()).current_dir(home.path("."));
    for (name, _) in command.get_envs() {
        limited.env_remove(name);
    }
    limited
}

#[test]
fn a_limit_of_the_size_of_files_is_named() {
    let home = Home::new();
    let output = limited(&home, "-f 1").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(errors(&output).contains("File too large"), "{output:?}");
}

#[test]
fn a_store_that_does_not_open_for_want_of_descriptors_exits_with_1() {
    let home = Home::new();
    let mut refusals = 0;
    for descriptors in 8.. {
        let mut command = limited(&home, &format!("-n {descriptors}"));
        command.arg("--ready-file").arg(home.path("ready.json")).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let is_up = || home.path("ready.json").exists();
        wait_for(|| (is_up() || child.try_wait().unwrap().is_some()).then_some(()));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if is_up() {
            break;
        }
        refusals += usize::from(errors(&output).contains("data directory"));
        assert_eq!(output.status.code(), Some(1), "{descriptors}: {output:?}");
    }
    assert!(refusals > 0, "the store is opened with as few as the rest needs");
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn draining_waits_for_connections_and_a_second_signal_does_not() {
    let home = Home::new();
    write(&home.path("p.toml"), "[amqp]\ndrain_time_out = \"10 minutes\"\n[[queues]]\nname = \"q\"\n");
    let broker = home.start(&["--config", "p.toml"]);
    let connection = open_connection(&broker.address("amqp"));
    broker.signal(Signal::TERM);
    let unhealthy =
        wait_for(|| Some(get(&broker.address("http"), "/health")).filter(|(status, _)| *status != 200));
    assert_eq!(unhealthy, (503, UNHEALTHY.to_owned()));
    let address = broker.address("http");
    assert_eq!(get(&address, "/health/ready"), (503, r#"{"status":"draining"}"#.to_owned()));
    assert_eq!(get(&address, "/health/live").0, 200, "a broker that drains is alive");
    assert_eq!(run(&["health", "--http", &address]).status.code(), Some(1));
    assert_eq!(run(&["health", "--live", "--http", &address]).status.code(), Some(0));
    assert!(!home.path("ready.json").exists(), "the ready file outlives readiness");
    broker.signal(Signal::TERM);
    let (status, log) = broker.finish();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("stopping at once"), "{log}");
    drop(connection);
}

#[test]
fn a_second_broker_on_the_same_data_directory_exits_with_3() {
    let home = Home::new();
    let first = home.start(&[]);
    let (code, log) = home.refused(&[]);
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("is in use by another Peeklock"), "{log}");
    assert_eq!(get(&first.address("http"), "/health").0, 200, "the first one is unharmed");
}

#[test]
fn an_address_in_use_exits_with_1_before_anything_is_touched() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    write(&home.path("p.toml"), &format!("[http]\nlisten = \"{address}\"\n"));
    let mut command = peeklock();
    command.args(["--amqp", "127.0.0.1:0", "--config"]).arg(home.path("p.toml"));
    let output = command.arg("--data-dir").arg(home.path("data")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains(&format!("can't listen for HTTP on {address}")), "{}", errors(&output));
    assert!(!home.path("data").exists());
}

#[test]
fn a_ready_file_that_can_not_be_written_exits_with_1_before_anything_is_touched() {
    let home = Home::new();
    write(&home.path("file"), "");
    for place in ["nowhere/ready.json", "file/ready.json", "."] {
        let refused = home.command().arg("--ready-file").arg(home.path(place)).output().unwrap();
        let log = errors(&refused);
        assert_eq!(refused.status.code(), Some(1), "{place}: {log}");
        assert!(log.contains("--ready-file FILE chooses another") && !log.contains("connect with"), "{log}");
        assert!(!home.path("data").exists(), "{place}");
    }
}

#[test]
fn a_wrong_file_exits_with_2_and_names_every_place() {
    let home = Home::new();
    write(&home.path("p.toml"), "[[queues]]\nname = \"q\"\nlock_duration = \"1h\"\nforward_to = \"Q\"\n");
    let (code, text) = home.refused(&["--config", "p.toml"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("p.toml:3:17: queue \"q\": lock_duration: \"1h\" is outside the range"), "{text}");
    assert!(text.contains("p.toml:4:14: queue \"q\": forward_to: \"Q\" is the queue itself"), "{text}");
    assert!(!home.path("data").exists());
}

#[test]
fn a_flag_beats_a_variable_and_a_variable_beats_the_file() {
    let home = Home::new();
    write(&home.path("p.toml"), "[log]\nformat = \"text\"\nlevel = \"off\"\n");
    let mut command = home.command();
    command.args(["--config", "p.toml", "--log-level", "info"]).env("PEEKLOCK_LOG_FORMAT", "json");
    command.env("PEEKLOCK_LOG_LEVEL", "error").env("PEEKLOCK_READY_FILE", "ready.json");
    command.stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for(|| home.path("ready.json").exists().then_some(()));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let log = errors(&output);
    assert!(!log.is_empty(), "the flag asks for more than the variable");
    for line in log.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(entry["message"].is_string(), "{line}");
    }
}

#[test]
fn a_broker_without_configuration_has_a_queue_and_keeps_declared_entities() {
    let home = Home::new();
    let stop = |arguments: &[&str]| {
        let broker = home.start(arguments);
        broker.signal(Signal::TERM);
        broker.finish().1
    };
    assert!(stop(&[]).contains("queues=1"), "an empty directory gets one queue");
    assert!(stop(&["--queue", "orders", "--queue", "QUEUE"]).contains("queues=2"));
    let log = stop(&["--queue", "third"]);
    assert!(log.contains("queues=3"), "{log}");
    assert!(log.contains("queue \"orders\""), "{log}");
    let log = stop(&[]);
    assert!(log.contains("queues=3") && !log.contains("does not declare"), "{log}");
}
