//! `store backup` of a running or stopped broker, `store restore`, and the control socket between them.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::broker::{Broker, Home, errors, http, peeklock, run};

const OPEN: [&str; 3] = ["--authorization-required=false", "--queue", "orders"];

fn send(broker: &Broker, count: usize) {
    for number in 0..count {
        let (status, _) =
            http(&broker.address("http"), "POST", "/orders/messages", &format!("message {number}"));
        assert_eq!(status, 201);
    }
}

/// Receives and deletes until the queue is empty.
fn drain(broker: &Broker) -> usize {
    let receive = || http(&broker.address("http"), "DELETE", "/orders/messages/head?timeout=0", "").0;
    std::iter::repeat_with(receive).take_while(|status| *status == 200).count()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn backup(data: &Path, target: &Path) -> Output {
    run(&["store", "backup", "--json", "--data-dir", text(data), text(target)])
}

fn backed_up(data: &Path, target: &Path) -> Value {
    let output = backup(data, target);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn restored(target: &Path, data: &Path) -> Value {
    let output = run(&["store", "restore", "--json", "--data-dir", text(data), text(target)]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_backup_of_a_running_broker_restores_its_messages() {
    let home = Home::new();
    let broker = home.start(&OPEN);
    send(&broker, 20);
    let report = backed_up(&home.path("data"), &home.path("backup"));
    assert_eq!((&report["complete"], &report["running"]), (&true.into(), &true.into()), "{report}");
    assert_eq!(drain(&broker), 20);
    drop(broker);
    let other = Home::new();
    let report = restored(&home.path("backup"), &other.path("data"));
    assert_eq!((&report["entities"], &report["messages"]), (&1.into(), &20.into()), "{report}");
    assert_eq!(drain(&other.start(&OPEN)), 20);
    let checked = run(&["store", "check", text(&home.path("backup"))]);
    let shown = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && shown.contains("a complete backup"), "{shown}");
}

#[test]
fn a_stopped_or_killed_broker_is_backed_up_too() {
    for signal in [Signal::TERM, Signal::KILL] {
        let home = Home::new();
        let broker = home.start(&OPEN);
        send(&broker, 5);
        broker.signal(signal);
        broker.finish();
        let report = backed_up(&home.path("data"), &home.path("backup"));
        assert_eq!(report["running"], false);
        assert_eq!(restored(&home.path("backup"), &home.path("other"))["messages"], 5);
    }
}

#[test]
fn targets_that_are_not_empty_or_inside_the_data_are_refused() {
    let home = Home::new();
    let broker = home.start(&OPEN);
    std::fs::create_dir(home.path("full")).unwrap();
    std::fs::write(home.path("full").join("theirs"), "theirs").unwrap();
    let refused = backup(&home.path("data"), &home.path("full"));
    assert_eq!(refused.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(report["complete"], false);
    assert!(report["message"].as_str().unwrap().contains("is not empty: it holds theirs"), "{report}");
    let inside = backup(&home.path("data"), &home.path("data").join("a/b"));
    assert_eq!(inside.status.code(), Some(2));
    assert!(!home.path("data").join("a").exists());
    assert_eq!(backup(&home.path("nowhere"), &home.path("backup")).status.code(), Some(3));
    assert!(!home.path("backup").exists(), "a failed backup leaves nothing");
    // A data directory is not empty, so it can't be restored into.
    backed_up(&home.path("data"), &home.path("backup"));
    let data = home.path("data");
    let refused = run(&["store", "restore", "--data-dir", text(&data), text(&home.path("backup"))]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("is not empty"), "{}", errors(&refused));
    let inside = home.path("backup").join("data");
    let refused = run(&["store", "restore", "--data-dir", text(&inside), text(&home.path("backup"))]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("lies inside the backup") && !inside.exists(), "{}", errors(&refused));
    send(&broker, 1);
}

/// A misspelt URL of a database was a new directory, and the copy was reported as complete.
#[test]
fn a_copy_to_a_misspelt_url_or_inside_its_source_is_refused() {
    let home = Home::new();
    drop(home.start(&OPEN));
    let data = home.path("data");
    let copy = |to: &str| run(&["store", "copy", "--from", text(&data), "--to", to]);
    for url in ["postgre://pg-1/peeklock", "http://pg-1:5432/peeklock", "postgresq://a:b@c/d"] {
        let refused = copy(url);
        assert_eq!(refused.status.code(), Some(2), "{url}");
        assert!(errors(&refused).contains("is not the URL of a database"), "{}", errors(&refused));
    }
    let inside = data.join("copy");
    let refused = copy(text(&inside));
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("lies inside the data directory"), "{}", errors(&refused));
    assert!(!inside.exists());
}

#[test]
fn a_target_without_room_or_rights_costs_the_broker_nothing() {
    let home = Home::new();
    let broker = home.start(&OPEN);
    send(&broker, 3);
    // Nothing can be created below a file, or in /proc.
    std::fs::write(home.path("file"), "").unwrap();
    for target in [home.path("file").join("backup"), PathBuf::from("/proc/peeklock-backup")] {
        let refused = backup(&home.path("data"), &target);
        assert_eq!(refused.status.code(), Some(1), "{}", errors(&refused));
    }
    assert_eq!(drain(&broker), 3);
    backed_up(&home.path("data"), &home.path("backup"));
}

#[test]
fn the_control_socket_is_its_owners_alone_and_is_removed_with_the_broker() {
    let home = Home::new();
    let broker = home.start(&OPEN);
    let socket = home.path("data").join("control.sock");
    let metadata = std::fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    broker.signal(Signal::TERM);
    assert!(broker.finish().0.success());
    assert!(!socket.exists());
}

#[test]
fn a_stale_control_socket_is_replaced() {
    let home = Home::new();
    drop(home.start(&OPEN));
    std::fs::remove_file(home.path("ready.json")).unwrap();
    assert!(home.path("data").join("control.sock").exists(), "SIGKILL leaves it");
    let _broker = home.start(&OPEN);
    assert_eq!(backed_up(&home.path("data"), &home.path("backup"))["running"], true);
}

#[test]
fn the_socket_works_in_a_directory_with_a_long_path() {
    let home = Home::new();
    let data = home.path(&"d".repeat(200));
    let mut command = peeklock();
    command.current_dir(home.path(".")).arg("--data-dir").arg(&data);
    command.args(["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]).args(OPEN);
    let broker = home.started(command);
    send(&broker, 2);
    assert_eq!(backed_up(&data, &home.path("backup"))["running"], true);
    assert_eq!(restored(&home.path("backup"), &home.path("other"))["messages"], 2);
}

#[test]
fn nonsense_on_the_control_socket_ends_that_connection_only() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let home = Home::new();
    let broker = home.start(&OPEN);
    let connect = || UnixStream::connect(home.path("data").join("control.sock")).unwrap();
    for nonsense in ["\n", "{}\n", "{\"command\":\"finish\"}\n", "\u{0}\u{ff}\n", &"x".repeat(100_000)] {
        let mut stream = connect();
        // The broker may close before it has read everything.
        let _ = stream.write_all(nonsense.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{nonsense:?}");
    }
    // Clients beyond the limit wait, and do not block others for long.
    let idle: Vec<UnixStream> = (0..8).map(|_| connect()).collect();
    drop(idle);
    let report = backed_up(&home.path("data"), &home.path("backup"));
    assert_eq!(report["running"], true);
    send(&broker, 1);
}

/// `ulimit -f`: the signal for a write beyond it would end the command without a reason.
#[test]
fn a_backup_beyond_the_limit_of_the_size_of_files_fails_and_leaves_nothing() {
    let home = Home::new();
    let broker = home.start(&OPEN);
    send(&broker, 20);
    drop(broker);
    let script = format!(
        "ulimit -f 1; exec {} store backup --copy --data-dir {} {}",
        peeklock().get_program().display(),
        text(&home.path("data")),
        text(&home.path("backup"))
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(errors(&output).contains("File too large"), "{}", errors(&output));
    assert!(!home.path("backup").exists());
}
