//! Text from peers in the log: in one line, truncated, and with a limited number of lines.

use std::time::{Duration, Instant};

use peeklock_tests::client::{AMQP_HEADER, Client, PATIENCE};
use peeklock_tests::codec::{Value, code, frame};
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http;

const FORGED: &str = "2026-11-22T00:00:00Z  INFO peeklock::audit: forged";

/// A connection that opens and closes with these texts.
fn open_and_close(daemon: &Daemon, container: &str, condition: &str, description: &str) {
    let mut peer = Client::plug(daemon.amqp()).unwrap();
    let open = Value::composite(code::OPEN, vec![Value::string(container), Value::string(description)]);
    let error = Value::composite(0x1d, vec![Value::symbol(condition), Value::string(description)]);
    let frames = [frame(0, &open, &[]), frame(0, &Value::composite(code::CLOSE, vec![error]), &[])];
    peer.write(&[AMQP_HEADER.to_vec(), frames.concat()].concat()).unwrap();
    peer.read_to_end();
}

fn await_log(daemon: &Daemon, words: &str) -> String {
    await_lines(daemon, words, 1)
}

/// Waits for this many lines with `words`: a thread of its own writes the log.
fn await_lines(daemon: &Daemon, words: &str, many: usize) -> String {
    let began = Instant::now();
    loop {
        let log = daemon.log();
        let found = count(&log, words);
        if found >= many {
            return log;
        }
        assert!(began.elapsed() < PATIENCE, "{found} of {many} {words:?} in:\n{log:.4000}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(log: &str, words: &str) -> usize {
    log.lines().filter(|line| line.contains(words)).count()
}

#[test]
fn texts_of_peers_forge_no_line_and_are_cut() {
    for config in ["", "[log]\nformat = \"json\"\n", "[log]\nlevel = \"debug\"\n"] {
        let mut daemon = Daemon::with_config(config);
        let text = format!("a\n{FORGED}\r\u{1b}[2J\u{9b}31m\u{202e}\u{2028}{}", "x".repeat(2_000));
        open_and_close(&daemon, &text, &format!("evil\n{FORGED}"), &text);
        let path = format!("/a%0A{}%1B%5B2J", FORGED.replace(' ', "%20"));
        http::ask(daemon.http(), "DELETE", &path, "", b"");
        http::ask(
            daemon.http(),
            "DELETE",
            &format!("/{}", "n".repeat(3_000)),
            "Origin: http://evil\x1b.example\r\n",
            b"",
        );
        let log = await_log(&daemon, "connection ended");
        assert!(!log.lines().any(|line| line.starts_with(FORGED)), "{log}");
        let unprintable = |c: &char| (c.is_control() && *c != '\n') || ('\u{2028}'..='\u{202e}').contains(c);
        assert_eq!(log.chars().find(unprintable), None, "{log}");
        assert!(log.contains("a\\n2026") || log.contains("a\\\\n2026"), "escaped and there: {log}");
        let longest = log.lines().map(str::len).max().unwrap();
        assert!(longest < 2_500, "a line of {longest} bytes");
        daemon.assert_sound();
    }
}

#[test]
fn the_audit_log_has_short_lines_without_control_characters() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let daemon = Daemon::with_config(&format!("[log]\naudit = \"{}\"\n", path.display()));
    http::ask(daemon.http(), "DELETE", &format!("/a%0A%1B%5B2J{}", "n".repeat(1_900)), "", b"");
    let began = Instant::now();
    let audit = loop {
        let audit = std::fs::read_to_string(&path).unwrap();
        if audit.ends_with('\n') {
            break audit;
        }
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    };
    let line: serde_json::Value = serde_json::from_str(audit.trim_end()).unwrap();
    let entity = line["entity"].as_str().unwrap();
    assert!(!entity.contains(char::is_control) && entity.starts_with("a\\n\\u{1b}[2J"), "{entity:?}");
    assert!(audit.len() < 1_500, "a line of {} bytes", audit.len());
}

#[test]
fn many_lines_of_a_kind_are_left_out_and_counted() {
    const CONNECTIONS: usize = 400;
    let mut daemon = Daemon::with_config("");
    for _ in 0..CONNECTIONS {
        open_and_close(&daemon, "c", "evil", "text");
        // A request that is refused because of its name, and a change without a credential.
        let bad =
            b"DELETE /queue HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        http::say(daemon.http(), bad);
    }
    let log = await_log(&daemon, "lines omitted");
    let ended = log
        .lines()
        .filter(|line| line.contains("connection ended") && !line.contains("lines omitted"))
        .count();
    let audited = log.lines().filter(|line| line.contains("operation=\"delete\"")).count();
    assert!((10..CONNECTIONS / 2).contains(&ended), "{ended} lines");
    assert!((10..CONNECTIONS / 2).contains(&audited), "{audited} lines");
    daemon.assert_sound();
}

#[test]
fn an_authenticated_change_is_never_left_out() {
    const CHANGES: usize = 150;
    let daemon = Daemon::with_config("");
    for _ in 0..CHANGES {
        http::ask(daemon.http(), "DELETE", "/nothing", "", b"");
    }
    let words = "operation=\"delete\"";
    let log = await_lines(&daemon, words, CHANGES);
    assert_eq!(count(&log, words), CHANGES);
}
