//! Compares config/peeklock.toml and the README with the code. The former's examples are commented out by a `#` without
//! a space after it.

use std::fmt::Write as _;

use peeklock_engine::{QueueOptions, TopicOptions};

use super::*;

const REFERENCE: &str = include_str!("../../../../../config/peeklock.toml");
const README: &str = include_str!("../../../../../README.md");
const RULES: &str = include_str!("../../../../../docs/rules.md");

/// The reference file with its examples uncommented.
fn with_examples() -> String {
    let line = |line: &'static str| match line.strip_prefix('#') {
        Some(example) if example.starts_with(|char: char| char.is_ascii_lowercase() || char == '[') => {
            example
        }
        _ => line,
    };
    REFERENCE.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_reference_file_has_the_defaults_and_the_queue_of_an_unconfigured_broker() {
    let reference = merged(ServeArgs::default(), REFERENCE);
    let queue = QueueConfig { name: QUEUE_DEFAULT.into(), options: QueueOptions::default() };
    assert_eq!(reference.queues, [queue]);
    assert_eq!(Config { queues: Vec::new(), ..reference }, merged(ServeArgs::default(), ""));
}

#[test]
fn the_examples_of_the_reference_file_are_right() {
    let config = merged(ServeArgs::default(), &with_examples());
    let names: Vec<&str> = config.topics[0].subscriptions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((config.topics[0].name.as_str(), names), ("news", vec!["all", "orders"]));
    let TopicConfig { options, .. } = &config.topics[0];
    assert_eq!(options.authorization_rules.len(), 1);
    let options = TopicOptions { authorization_rules: Vec::new(), ..options.clone() };
    assert_eq!(options, TopicOptions::default());
    let rules = &config.queues[0].options.authorization_rules;
    assert_eq!(rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["sender", "owner"]);
    assert_eq!(config.topics[0].subscriptions[0], SubscriptionConfig::plain("all".into()));
}

#[test]
fn the_examples_of_the_readme_are_right() {
    let blocks: Vec<&str> = README.split("```toml\n").skip(1).collect();
    assert!(!blocks.is_empty(), "README.md has no TOML");
    for block in blocks {
        let (text, _) = block.split_once("```").unwrap();
        assert_ne!(merged(ServeArgs::default(), text), merged(ServeArgs::default(), ""), "{text}");
    }
}

#[test]
fn the_examples_of_rules_are_right() {
    let (_, rest) = RULES.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let rules = &merged(ServeArgs::default(), text).topics[0].subscriptions[0].rules;
    assert_eq!(rules.iter().map(|rule| rule.action.is_some()).collect::<Vec<_>>(), [true, false]);

    let wrong = text.replace("amount > @least AND sys.Label LIKE 'order%'", "sys.Label LIK 'order%'");
    let message = only_message(&wrong).replacen("t:", "peeklock.toml:", 1);
    assert!(RULES.contains(&message), "{message}");
    let (_, rest) = RULES.split_once("```json\n").unwrap();
    let (rule, _) = rest.split_once("```").unwrap();
    let file = format!(
        "{{\"UserConfig\": {{\"Namespaces\": [{{\"Topics\": [{{\"Name\": \"t\", \"Subscriptions\": [{{\"Name\": \"s\", \"Rules\": [{rule}]}}]}}]}}]}}}}"
    );
    let read = emulator::parse("Config.json", &file, entity::Bounds::default()).unwrap();
    assert!(read.topics[0].subscriptions[0].rules[0].action.is_some());
}

/// The keys known in a section, from the error for an unknown key.
fn known_keys(before: &str) -> Vec<String> {
    let message = only_message(&format!("{before}\nzzzzzzzzzzzz = 1"));
    let (_, keys) = message.split_once("known keys are ").unwrap();
    keys.split(", ").map(str::to_owned).collect()
}

/// A complete authorization rule.
const RULE: &str = "name = \"a\"\nrights = [\"Send\"]\nprimary_key = \"k\"\nsecondary_key = \"k\"";

/// Settings for JSON web tokens, without their roles.
const JWT: &str = "issuer = \"https://i\"\naudience = \"a\"";

/// Every section, with the text that must precede a key of it.
fn sections() -> Vec<(String, String)> {
    let names = [
        "amqp",
        "authorization",
        "http",
        "namespace",
        "network",
        "console",
        "tls",
        "storage",
        "cluster",
        "log",
        "development",
        "limits",
        "throttling",
        "transactions",
        "metrics",
        "telemetry",
    ];
    let mut sections: Vec<_> =
        names.map(|name| format!("[{name}]")).map(|header| (header.clone(), header)).into();
    let mut before = String::new();
    for (header, first) in [
        ("[[authorization.rules]]", RULE),
        ("[[authorization.certificates]]", "subject = \"CN=a\"\nrights = [\"Send\"]"),
        ("[authorization.jwt]", JWT),
        ("[[authorization.jwt.roles]]", "role = \"r\"\nrights = [\"Send\"]"),
        ("[[throttling.entities]]", "name = \"t\""),
        ("[[queues]]", "name = \"q\""),
        ("[[queues.authorization_rules]]", RULE),
        ("[[topics]]", "name = \"t\""),
        ("[[topics.authorization_rules]]", RULE),
        ("[[topics.subscriptions]]", "name = \"s\""),
        ("[[topics.subscriptions.rules]]", "name = \"r\"\ncorrelation.to = \"x\""),
    ] {
        write!(before, "{header}\n{first}\n").unwrap();
        // The header of its roles is the next section.
        let roles = if first == JWT { "roles = []" } else { "" };
        sections.push((header.to_owned(), format!("{before}{roles}")));
    }
    let header = "[topics.subscriptions.rules.correlation]";
    let before = before.replace("correlation.to = \"x\"", &format!("{header}\nto = \"x\""));
    sections.push((header.to_owned(), before));
    sections
}

#[test]
fn the_reference_file_documents_every_key() {
    let mut missing = String::new();
    let reference = with_examples();
    for (header, before) in sections() {
        let parts: Vec<&str> = reference.split(&format!("\n{header}\n")).skip(1).collect();
        assert!(!parts.is_empty(), "no {header}");
        let bodies: Vec<&str> = parts.iter().map(|part| part.split("\n[").next().unwrap()).collect();
        let lines: Vec<&str> = bodies.iter().flat_map(|body| body.lines()).collect();
        for key in known_keys(&before) {
            // These have headers of their own.
            if [
                "authorization_rules",
                "certificates",
                "entities",
                "jwt",
                "roles",
                "subscriptions",
                "rules",
                "correlation",
            ]
            .contains(&key.as_str())
            {
                continue;
            }
            // An example would need the file or the variable to exist.
            if key.ends_with("_key_file") || key.ends_with("_key_env") || key == "keys_file" {
                assert!(
                    lines.iter().any(|line| line.starts_with("# ") && line.contains(&key)),
                    "{header} {key}"
                );
                continue;
            }
            if lines.iter().any(|line| line.contains(&format!("Earlier name: {key}."))) {
                continue;
            }
            let place = lines.iter().position(|line| line.starts_with(&format!("{key} = ")));
            let documented = place.is_some_and(|line| line > 0 && lines[line - 1].starts_with("# "));
            if !documented {
                writeln!(missing, "{header} {key}").unwrap();
            }
        }
    }
    assert_eq!(missing, "", "keys without a documented line in config/peeklock.toml");
}
