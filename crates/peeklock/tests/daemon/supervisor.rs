//! Notifications to a service manager, read from a socket like systemd's.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::broker::{Broker, Home, write};

/// Longer than any start in these tests; a broker that sends nothing must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service manager's socket, with the received notifications.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn listen(home: &Home) -> Self {
        let socket = UnixDatagram::bind(home.path("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    /// The assignments of the next notification.
    fn next(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("no notification");
        String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned).collect()
    }

    /// The next notification with an assignment; watchdog pings in between are skipped.
    fn next_with(&self, wanted: &str) -> Vec<String> {
        loop {
            let found = self.next();
            if found.iter().any(|assignment| assignment == wanted) {
                return found;
            }
            let skipped =
                found.iter().all(|line| line == "WATCHDOG=1" || line.starts_with("STATUS=Starting"));
            assert!(skipped, "{found:?} before {wanted}");
        }
    }
}

fn status(notification: &[String]) -> &str {
    notification.iter().find_map(|line| line.strip_prefix("STATUS=")).unwrap_or_default()
}

fn start(home: &Home, watchdog_us: Option<&str>) -> Broker {
    let mut command = home.command();
    command.args(["--config", "p.toml"]);
    command.env("NOTIFY_SOCKET", home.path("notify")).envs(watchdog_us.map(|us| ("WATCHDOG_USEC", us)));
    command.stdout(Stdio::null());
    home.started(command)
}

#[test]
fn a_service_manager_is_notified_of_start_reload_and_stop() {
    let home = Home::new();
    write(&home.path("p.toml"), "[[queues]]\nname = \"orders\"\n[[topics]]\nname = \"news\"\n");
    let manager = Manager::listen(&home);
    let broker = start(&home, None);
    assert_eq!(status(&manager.next()), "Starting: opening the store");
    let ready = manager.next_with("READY=1");
    assert_eq!(status(&ready), "Ready; queues: 1, topics: 1");

    write(&home.path("p.toml"), "[[queues]]\nname = \"orders\"\nmax_delivery_count = 3\n");
    broker.signal(Signal::HUP);
    let reloading = manager.next_with("RELOADING=1");
    let clock = reloading.iter().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(clock.parse::<u64>().unwrap() > 0);
    assert_eq!(status(&manager.next_with("READY=1")), "Ready; reloaded, changes: 1");

    write(&home.path("p.toml"), "[[queues]]\nname = \"orders\"\nmax_delivery_count = 0\n");
    broker.signal(Signal::HUP);
    manager.next_with("RELOADING=1");
    let refused = manager.next_with("READY=1");
    assert!(status(&refused).starts_with("Ready; reload refused: p.toml:3:22: "), "{refused:?}");

    broker.signal(Signal::TERM);
    assert_eq!(status(&manager.next_with("STOPPING=1")), "Stopping: clients may finish");
    assert_eq!(broker.finish().0.code(), Some(0));
}

#[test]
fn a_watchdog_gets_signs_of_life_while_the_store_answers() {
    let home = Home::new();
    write(&home.path("p.toml"), "");
    let manager = Manager::listen(&home);
    let broker = start(&home, Some("300000"));
    manager.next_with("READY=1");
    for _ in 0..3 {
        assert_eq!(manager.next(), ["WATCHDOG=1"]);
    }
    broker.signal(Signal::TERM);
    manager.next_with("STOPPING=1");
    assert_eq!(broker.finish().0.code(), Some(0));
}

#[test]
fn a_service_manager_that_reads_nothing_delays_neither_start_nor_stop() {
    let home = Home::new();
    write(&home.path("p.toml"), "");
    let _manager = Manager::listen(&home);
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.send_to(b"WATCHDOG=1", home.path("notify")).is_ok() {}
    let broker = start(&home, Some("300000"));
    broker.signal(Signal::TERM);
    assert_eq!(broker.finish().0.code(), Some(0));
}
