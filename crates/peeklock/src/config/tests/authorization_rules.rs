//! Shared access rules of entities: sources of their keys, which messages never contain.

use peeklock_engine::{AuthorizationRule, Rights, Secret, Timestamp};

use super::*;

const KEYS: &str = "primary_key = \"one\"\nsecondary_key = \"two\"";

fn queue(rules: &str) -> String {
    format!("[[queues]]\nname = \"q\"\n{rules}")
}

fn rule(lines: &str) -> String {
    queue(&format!("[[queues.authorization_rules]]\n{lines}"))
}

#[test]
fn rules_are_read_in_file_order() {
    let text = rule(&format!(
        "name = \"sender\"\nrights = [\"Send\"]\n{KEYS}\n[[queues.authorization_rules]]\n\
         name = \"owner\"\nrights = [\"Manage\", \"Listen\", \"Send\"]\nprimary_key = \"a+/=\"\nsecondary_key = \"b\""
    ));
    let rule = |name: &str, rights, primary: &str, secondary: &str| AuthorizationRule {
        name: name.into(),
        rights,
        primary_key: Secret::new(primary),
        secondary_key: Secret::new(secondary),
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    };
    let send = Rights { send: true, ..Rights::default() };
    let expected = [rule("sender", send, "one", "two"), rule("owner", Rights::ALL, "a+/=", "b")];
    assert_eq!(merged(ServeArgs::default(), &text).queues[0].options.authorization_rules, expected);
    let topic = text.replace("queues", "topics");
    assert_eq!(merged(ServeArgs::default(), &topic).topics[0].options.authorization_rules, expected);
}

#[test]
fn keys_come_from_files_and_variables() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret\r\n").unwrap();
    let text = rule(&format!(
        "name = \"r\"\nrights = [\"Listen\"]\nprimary_key_file = '{}'\nsecondary_key_env = \"CARGO_PKG_NAME\"",
        file.path().display()
    ));
    let config = merged(ServeArgs::default(), &text);
    let [rule] = &*config.queues[0].options.authorization_rules else { panic!("not one rule") };
    assert_eq!((rule.primary_key.expose(), rule.secondary_key.expose()), ("secret", "peeklock"));
}

#[test]
fn a_rule_without_a_secondary_key_has_one_key() {
    let text = rule("name = \"r\"\nrights = [\"Send\"]\nprimary_key = \"one\"");
    let config = merged(ServeArgs::default(), &text);
    let [rule] = &*config.queues[0].options.authorization_rules else { panic!("not one rule") };
    assert_eq!((rule.primary_key.expose(), rule.secondary_key.expose()), ("one", ""));
    let empty = ["secondary_key = \"\"", "secondary_key_file = \"/dev/null\""];
    for line in empty.into_iter().chain(["secondary_key_env = \"PEEKLOCK_NO_KEY\""]) {
        let message = only_message(&format!("{text}\n{line}"));
        assert!(message.contains("secondary_key"), "a key that is named must be there: {message}");
    }
}

#[test]
fn a_bad_rule_is_refused_with_its_place_and_advice() {
    let start = "t:3:1: queue \"q\", authorization rule \"r\": ";
    for (lines, expected) in [
        (
            "rights = [\"Send\"]",
            "t:3:1: queue \"q\": authorization rule: name: missing; write name = \"sender\" or",
        ),
        (
            "name = \"r\"",
            &*format!("{start}rights: missing; write rights = [\"Listen\", \"Send\"] or the like"),
        ),
        (
            "name = \"r\"\nrights = \"Send\"",
            "t:5:10: queue \"q\", authorization rule \"r\": rights: expected a list",
        ),
        (
            "name = \"r\"\nrights = [1]",
            "t:5:10: queue \"q\", authorization rule \"r\": rights: expected a list",
        ),
        (
            "name = \"r\"\nrights = []",
            "t:5:10: queue \"q\", authorization rule \"r\": rights: is empty; write",
        ),
        (
            "name = \"r\"\nrights = [\"send\"]",
            "t:5:10: queue \"q\", authorization rule \"r\": rights: \"send\" is not a right; write \"Listen\",",
        ),
        (
            "name = \"r\"\nrights = [\"Manage\"]",
            "t:5:10: queue \"q\", authorization rule \"r\": rights: \"Manage\" needs the others; write rights = [\"L",
        ),
        (
            "name = \"a/b\"\nrights = [\"Send\"]",
            "t:4:8: queue \"q\": authorization rule: name: \"a/b\" can't be used: it contains '/', which is not allowed",
        ),
    ] {
        let message = only_message(&rule(&format!("{lines}\n{KEYS}")));
        assert!(message.starts_with(expected), "{lines}\n expected: {expected}\n found:    {message}");
    }
}

#[test]
fn a_missing_or_bad_key_is_refused_without_showing_it() {
    let long = format!("primary_key = \"{}\"", "hunter2".repeat(37));
    for (line, expected) in [
        (
            "",
            "3:1: queue \"q\", authorization rule \"r\": primary_key: missing; write primary_key = \"…\" (32 random",
        ),
        (
            "primary_key = \"hunter2\"\nprimary_key_env = \"X\"",
            "primary_key_env: primary_key sets it already; remove",
        ),
        (
            "primary_key_env = \"X\"\nprimary_key = \"hunter2\"",
            "primary_key: primary_key_env sets it already; remove",
        ),
        ("primary_key = \"\"", "primary_key: is empty"),
        ("primary_key = 5", "primary_key: expected a text in quotes; write primary_key = \"…\""),
        ("primary_key = \"hunter2 \"", "primary_key: has spaces, line ends or control characters"),
        (&long, "primary_key: is longer than 256 characters"),
        (
            "primary_key_file = \"/nowhere/key\"",
            "primary_key_file: \"/nowhere/key\" can't be read: No such file",
        ),
        ("primary_key_file = \"/dev/null\"", "primary_key_file: the value in \"/dev/null\" is empty"),
        (
            "primary_key_env = \"PEEKLOCK_NO_KEY\"",
            "the environment variable \"PEEKLOCK_NO_KEY\" is not set, or is",
        ),
    ] {
        let text = format!("name = \"r\"\nrights = [\"Send\"]\nsecondary_key = \"two\"\n{line}");
        let message = only_message(&rule(&text));
        assert!(message.contains(expected), "{line}\n expected: {expected}\n found:    {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn there_are_at_most_12_with_different_names() {
    let rules = |names: &[&str]| -> String {
        let one = |name: &&str| {
            format!("{{ name = \"{name}\", rights = [\"Send\"], {} }},", KEYS.replace('\n', ", "))
        };
        queue(&format!("authorization_rules = [{}]", names.iter().map(one).collect::<Vec<_>>().join("\n")))
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    assert_eq!(merged(ServeArgs::default(), &rules(&names)).queues[0].options.authorization_rules.len(), 12);
    let message = only_message(&rules(&[&names[..], &["m"]].concat()));
    assert!(message.contains("15:10: queue \"q\": authorization_rules: there are more than 12"), "{message}");
    let message = only_message(&rules(&["same", "same"]));
    assert!(message.contains("authorization rule \"same\" is already declared in line 3"), "{message}");
}
