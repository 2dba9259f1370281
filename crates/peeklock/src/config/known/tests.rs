//! Findings beyond single values, with their positions.

use std::fs;

use super::*;
use crate::config::{emulator, entity::Bounds, file};

fn examined(text: &str, reach: &Reach) -> Findings {
    let config = file::parse("t", text).unwrap_or_else(|problems| panic!("{problems}"));
    examine(&config, text, reach)
}

/// Checks on a machine with this data directory.
fn here(data_dir: &Path) -> Reach {
    Reach::Machine(Box::new(ServeArgs { data_dir: Some(data_dir.to_owned()), ..ServeArgs::default() }))
}

fn shown(list: &[Problem]) -> Vec<String> {
    list.iter().map(|Problem { line, column, message }| format!("{line}:{column}: {message}")).collect()
}

const UNKNOWN: &str = "[[queues]]\nname = \"a\"\nforward_to = \"sb://host/Nowhere\"\n\
    [[topics]]\nname = \"t\"\n[[topics.subscriptions]]\nname = \"s\"\n\
    forward_dead_lettered_messages_to = \"A\"\nforward_to = \"asked\"\n";

#[test]
fn a_target_that_nothing_declares_is_a_mistake_as_long_as_nothing_is_stored() {
    let directory = tempfile::TempDir::new().unwrap();
    let found = examined(UNKNOWN, &here(directory.path()));
    let expected = [
        "3:14: queue \"a\": forward_to: there is no queue or topic \"Nowhere\"; declare it",
        "9:14: topic \"t\", subscription \"s\": forward_to: there is no queue or topic \"asked\"; declare it",
    ];
    assert_eq!(shown(&found.problems), expected);
    assert_eq!(found.notes, []);

    let args = ServeArgs {
        data_dir: Some(directory.path().to_owned()),
        queues: vec!["ASKED".to_owned()],
        ..ServeArgs::default()
    };
    let found = examined(UNKNOWN, &Reach::Machine(Box::new(args)));
    assert_eq!(shown(&found.problems), expected[..1], "a queue may be asked for by a variable");

    fs::write(directory.path().join("MANIFEST"), "").unwrap();
    for reach in [here(directory.path()), Reach::Text] {
        let found = examined(UNKNOWN, &reach);
        assert_eq!(found.problems, []);
        let notes = shown(&found.notes);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].ends_with("is not declared in this file; a start is refused unless it is stored"));
    }
}

#[test]
fn more_entities_than_the_limits_allow_are_a_mistake_as_long_as_nothing_is_stored() {
    let text = "[limits]\nentities_max = 2\nsubscriptions_per_topic = 1\n[[queues]]\nname = \"a\"\n[[queues]]\nname = \"b\"\n\
        [[topics]]\nname = \"t\"\n[[topics.subscriptions]]\nname = \"one\"\n[[topics.subscriptions]]\nname = \"two\"\n";
    let directory = tempfile::TempDir::new().unwrap();
    let expected = [
        "2:16: 3 queues and topics are declared, and limits.entities_max allows 2",
        "3:27: topic \"t\": 2 subscriptions are declared, and limits.subscriptions_per_topic allows 1",
    ];
    let found = examined(text, &here(directory.path()));
    assert_eq!((shown(&found.problems), shown(&found.notes)), (expected.map(Into::into).into(), vec![]));
    fs::write(directory.path().join("MANIFEST"), "").unwrap();
    let found = examined(text, &here(directory.path()));
    let unless = expected.map(|line| format!("{line}; a start is refused unless they are stored"));
    assert_eq!((found.problems, shown(&found.notes)), (vec![], unless.into()));
    let fitting = text.replace("entities_max = 2", "entities_max = 3").replace("topic = 1", "topic = 2");
    let found = examined(&fitting, &here(Path::new("/nowhere")));
    assert_eq!((found.problems, found.notes), (vec![], vec![]));
}

#[test]
fn a_circle_of_forwarding_is_noted_once() {
    let text = "[[queues]]\nname = \"a\"\nforward_to = \"T\"\n[[topics]]\nname = \"t\"\n\
        [[topics.subscriptions]]\nname = \"s\"\nforward_to = \"b\"\n[[topics.subscriptions]]\nname = \"quiet\"\n\
        [[queues]]\nname = \"b\"\nforward_to = \"A\"\n[[queues]]\nname = \"outside\"\nforward_to = \"a\"\n";
    let found = examined(text, &Reach::Text);
    assert_eq!(found.problems, []);
    let expected = "3:14: queue \"a\": forward_to: forwarding forms a loop, \"a\" to \"T\" to \"b\" to \"A\"; after 4 \
                    times each message is dead-lettered";
    assert_eq!(shown(&found.notes), [expected]);
}

#[test]
fn a_chain_of_forwarding_that_is_too_long_is_noted_where_it_begins() {
    let chain = |queues: usize| {
        let queue = |index: usize| {
            let target =
                if index + 1 < queues { format!("forward_to = \"q{}\"\n", index + 1) } else { String::new() };
            format!("[[queues]]\nname = \"q{index}\"\n{target}")
        };
        examined(&(0..queues).map(queue).collect::<String>(), &Reach::Text)
    };
    assert_eq!(chain(5), Findings::default(), "four hops are allowed");
    let notes = shown(&chain(6).notes);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("3:14: queue \"q0\": forward_to: messages would be forwarded more than 4 times")
    );
}

#[test]
fn dead_letters_that_are_forwarded_make_no_circle() {
    let text = "[[queues]]\nname = \"a\"\nforward_dead_lettered_messages_to = \"b\"\n[[queues]]\nname = \"b\"\n\
        forward_to = \"a\"\n";
    assert_eq!(examined(text, &Reach::Text), Findings::default());
}

#[test]
fn values_that_are_refused_together_are_all_reported_with_their_places() {
    let text = "[amqp]\nlisten = \"0.0.0.0:5672\"\n[tls]\ncertificate = \"a.pem\"\n";
    let shown = shown(&examined(text, &Reach::Text).problems);
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(
        shown[0]
            .starts_with("2:10: AMQP listens on 0.0.0.0:5672, which other machines may reach, and the key")
    );
    assert_eq!(shown[1], "4:15: tls.key is missing: tls.certificate needs its key");
    let args = ServeArgs { allow_default_key: Some(true), ..ServeArgs::default() };
    let open = "[network]\nalso_listen = [\"0.0.0.0:5671\"]\n";
    assert_eq!(examined(open, &Reach::Machine(Box::new(args))), Findings::default(), "a variable allows it");
    let refused = examined(open, &Reach::Text).problems;
    assert_eq!((refused[0].line, refused[0].column), (2, 15));
}

#[test]
fn files_that_a_start_could_not_read_are_mistakes() {
    let directory = tempfile::TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    fs::write(directory.path().join("server.pem"), "no certificate").unwrap();
    fs::write(directory.path().join("server.key"), "no key").unwrap();
    let text = format!(
        "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclient_ca = \"{}\"\n[log]\naudit = \"{}\"\n[storage]\ndata_dir = \"{}\"\n",
        at("server.pem"),
        at("server.key"),
        at("missing.pem"),
        at("nowhere/audit.log"),
        at("server.pem"),
    );
    let found = shown(&examined(&text, &Reach::Machine(Box::default())).problems);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].starts_with("4:13: [tls] client_ca: ") && found[0].contains("can't be read: No such file")
    );
    assert!(found[1].starts_with("6:9: [log] audit: ") && found[1].ends_with("does not exist"));
    assert!(found[2].starts_with("8:12: [storage] data_dir: ") && found[2].ends_with("is not a directory"));
    assert_eq!(examined(&text, &Reach::Text), Findings::default(), "it may be meant for another machine");

    let unusable = text.lines().take(3).collect::<Vec<_>>().join("\n");
    let found = shown(&examined(&unusable, &Reach::Machine(Box::default())).problems);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("2:15: [tls] "), "{found:?}");
}

#[test]
fn the_emulators_file_is_examined_as_well() {
    let text = "\u{feff}{ \"UserConfig\": { \"Namespaces\": [ { \"Name\": \"n\", \"Queues\": [\n\
        { \"Name\": \"a\", \"Properties\": { \"forwardTo\": \"b\" } },\n\
        { \"Name\": \"b\", \"Properties\": { \"ForwardTo\": \"a\", \"ForwardDeadLetteredMessagesTo\": \"c\" } }\n\
        ] } ] } }";
    let config = emulator::parse("t", text, Bounds::default()).unwrap();
    let found = shown(&examine(&config, text, &Reach::Text).notes);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0]
            .starts_with("2:45: queue \"a\": ForwardTo: forwarding forms a loop, \"a\" to \"b\" to \"a\"")
    );
    assert!(found[1].starts_with("3:83: queue \"b\": ForwardDeadLetteredMessagesTo: \"c\" is not declared"));
}
