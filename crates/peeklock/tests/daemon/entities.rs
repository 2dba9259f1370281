//! Declared entities compared with stored ones.

use rustix::process::Signal;

use crate::broker::{Home, write};

/// Starts a broker and stops it at once; returns its log.
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
    assert!(log.contains("does not declare") && log.contains("queue \"orders\""), "{log}");
    assert!(!log.contains("news"), "{log}");
    let log = start_and_stop(&home, &["--queue", "orders"]);
    assert!(log.contains("topic \"news\""), "{log}");
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

#[test]
fn subscriptions_are_declared_and_keep_the_rules_that_they_have() {
    let home = Home::new();
    let declare = |rules: &str| {
        let text = format!("[[topics]]\nname = \"news\"\n[[topics.subscriptions]]\nname = \"eu\"\n{rules}\n");
        write(&home.path("p.toml"), &text);
        start_and_stop(&home, &["--config", "p.toml"])
    };
    let eu = "rules = [{ name = \"eu\", correlation = { to = \"x\", properties = { region = \"eu\", n = 1.5 } } }]";
    for _ in 0..2 {
        let log = declare(eu);
        assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    }
    for other in ["", "rules = []", "rules = [{ name = \"eu\", filter = \"true\" }]"] {
        let log = declare(other);
        assert!(
            log.contains("subscription \"eu\" of topic \"news\" has rules that differ from the file"),
            "{log}"
        );
    }
    let log = declare(&format!("lock_duration = \"PT5S\"\n{eu}"));
    assert!(!log.contains("WARN"), "the options have changed, the rules are still the first: {log}");
    let log = start_and_stop(&home, &["--topic", "news/eu", "--topic", "NEWS/all"]);
    assert!(!log.contains("WARN"), "{log}");
    let log = declare(eu);
    assert!(log.contains("subscription \"all\" of topic \"news\""), "{log}");
    assert!(!log.contains("rules that differ"), "{log}");
}

#[test]
fn a_subscription_without_rules_stays_without() {
    let home = Home::new();
    let text = "[[topics]]\nname = \"news\"\nsubscriptions = [{ name = \"none\", rules = [] }]\n";
    write(&home.path("p.toml"), text);
    for _ in 0..2 {
        let log = start_and_stop(&home, &["--config", "p.toml"]);
        assert!(!log.contains("WARN"), "{log}");
    }
}

#[test]
fn a_subscription_can_not_change_whether_it_has_sessions() {
    let home = Home::new();
    start_and_stop(&home, &["--topic", "news/all"]);
    let text = "[[topics]]\nname = \"news\"\nsubscriptions = [{ name = \"all\", requires_session = true }]\n";
    write(&home.path("p.toml"), text);
    let (code, log) = home.refused(&["--config", "p.toml"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("requires_session of an existing subscription can't be changed"), "{log}");
}
