//! What the configuration declares, against what is stored.

use rustix::process::Signal;

use crate::broker::{Home, write};

/// Starts a broker, stops it at once: its log.
fn start_and_stop(home: &Home, arguments: &[&str]) -> String {
    let broker = home.start(arguments);
    broker.signal(Signal::TERM);
    let (status, log) = broker.finish();
    assert_eq!(status.code(), Some(0), "{log}");
    log
}

#[test]
fn queues_and_topics_are_declared_and_declared_again() {
    let home = Home::new();
    let text = "[[queues]]\nname = \"orders\"\nrequires_session = true\n\
                [[topics]]\nname = \"news\"\nmax_size_in_megabytes = 1\n";
    write(&home.path("p.toml"), text);
    for _ in 0..2 {
        let log = start_and_stop(&home, &["--config", "p.toml"]);
        assert!(log.contains("queues=1 topics=1"), "{log}");
        assert!(!log.contains("WARN"), "{log}");
    }
    let log = start_and_stop(&home, &["--topic", "sport", "--topic", "NEWS"]);
    assert!(log.contains("queues=1 topics=2"), "{log}");
    assert!(log.contains("queue \"orders\" is stored but not declared"), "{log}");
    assert!(!log.contains("\"news\""), "{log}");
    let log = start_and_stop(&home, &["--queue", "orders"]);
    assert!(log.contains("topic \"news\" is stored but not declared"), "{log}");
}

#[test]
fn a_change_that_an_existing_entity_cannot_take_exits_with_2() {
    let home = Home::new();
    write(&home.path("p.toml"), "[[queues]]\nname = \"orders\"\n[[topics]]\nname = \"news\"\n");
    start_and_stop(&home, &["--config", "p.toml"]);
    let refused = |text: &str, reason: &str| {
        write(&home.path("p.toml"), text);
        let (code, log) = home.refused(&["--config", "p.toml"]);
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(reason), "{log}");
    };
    refused(
        "[[queues]]\nname = \"orders\"\nrequires_session = true\n",
        "\"orders\" can't have these options: requires_session of an existing queue can't be changed",
    );
    refused("[[queues]]\nname = \"news\"\n", "a topic of this name exists, and it can't become a queue");
    refused("[[topics]]\nname = \"orders\"\n", "a queue of this name exists, and it can't become a topic");
    for arguments in [["--topic", "orders/all"], ["--queue", "news"]] {
        let (code, log) = home.refused(&arguments);
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains("of this name exists"), "{log}");
    }
}
