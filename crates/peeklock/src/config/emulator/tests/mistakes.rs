//! Invalid input and its messages.

use std::fmt::Write as _;

use super::*;

/// Queues, each with the only message it causes.
const BAD_QUEUES: &[(&str, &str)] = &[
    ("5", "3:1: Queues: holds objects, found 5; write [ { \"Name\": ... } ]"),
    ("{}", "3:1: Queues: Name: missing; write \"Name\": \"orders\""),
    ("{\"Name\": 5}", "3:10: Queues: Name: expected a text in quotes, found 5; write \"Name\": \"orders\""),
    ("{\"Name\": \"a@b\"}", "3:10: Queues: Name: \"a@b\" can't be used: it contains '@'"),
    (
        "{\"Name\": \"q\"}, {\"Name\": \"Q\"}",
        "3:25: queue \"Q\" is already declared in line 3 as \"q\"; names match",
    ),
    ("{\"Name\": \"q\", \"Name\": \"r\"}", "3:15: Queues: Name: occurs twice; remove one"),
    (
        "{\"Name\": \"q\", \"Properties\": []}",
        "3:29: queue \"q\": Properties: expected an object, found a list",
    ),
];

/// Like [`BAD_QUEUES`], in the properties of a queue, from line 4 on.
const BAD_PROPERTIES: &[(&str, &str)] = &[
    (
        "\"LockDuration\": \"PT4S\"",
        "4:17: queue \"q\": LockDuration: \"PT4S\" is outside the range from PT5S to PT5M",
    ),
    (
        "\"LockDuration\": 60",
        "LockDuration: expected a text in quotes, found 60; write \"LockDuration\": \"PT1M\"",
    ),
    ("\"LockDuration\": \"P1M\"", "LockDuration: \"P1M\" has years or months"),
    ("\"MaxDeliveryCount\": 0", "MaxDeliveryCount: 0 is not a whole number from 1 to 2147483647"),
    ("\"MaxDeliveryCount\": 2.5", "MaxDeliveryCount: 2.5 is not a whole number from 1"),
    (
        "\"MaxDeliveryCount\": \"few\"",
        "expected a whole number, found \"few\"; write \"MaxDeliveryCount\": 3",
    ),
    ("\"DefaultMessageTimeToLive\": \"PT0S\"", "DefaultMessageTimeToLive: \"PT0S\" is less than a second"),
    ("\"DefaultMessageTimeToLive\": \"soon\"", "DefaultMessageTimeToLive: \"soon\" is not a duration"),
    (
        "\"RequiresSession\": \"yes\"",
        "RequiresSession: expected true or false, found \"yes\"; write \"RequiresSession\": false",
    ),
    ("\"RequiresDuplicateDetection\": 1", "RequiresDuplicateDetection: expected true or false, found 1"),
    ("\"DuplicateDetectionHistoryTimeWindow\": \"PT4S\"", "is outside the range from PT5S to PT168H"),
    ("\"DeadLetteringOnMessageExpiration\": {}", "expected true or false, found an object"),
    ("\"ForwardTo\": \"a?\"", "ForwardTo: \"a?\" can't be used: it contains '?'"),
    ("\"ForwardTo\": \"Q\"", "ForwardTo: \"Q\" is the queue itself"),
    (
        "\"ForwardDeadLetteredMessagesTo\": 5",
        "ForwardDeadLetteredMessagesTo: expected a text in quotes, found 5",
    ),
    ("\"AutoDeleteOnIdle\": \"PT1M\"", "AutoDeleteOnIdle: \"PT1M\" is too short; write at least \"PT5M\""),
    ("\"Status\": \"Off\"", "Status: \"Off\" is not a status; write \"Active\""),
    ("\"MaxSizeInMegabytes\": 0", "MaxSizeInMegabytes: 0 is not a whole number from 1"),
    (
        "\"MaxSizeInMegabytes\": 1, \"MaxMessageSizeInKilobytes\": 102400",
        "a message of 102400 KB never fits; raise",
    ),
    (
        "\"EnableExpress\": true, \"RequiresDuplicateDetection\": true",
        "EnableExpress: can't be combined with",
    ),
    (
        "\"RequiresSession\": true, \"requiressession\": true",
        "4:26: queue \"q\": RequiresSession: occurs twice",
    ),
];

/// Like [`BAD_QUEUES`], for topics.
const BAD_TOPICS: &[(&str, &str)] = &[
    ("{}", "6:1: Topics: Name: missing"),
    (
        "{\"Name\": \"t\", \"Subscriptions\": {}}",
        "6:32: topic \"t\": Subscriptions: expected a list, found an object",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"a/b\"}]}",
        "topic \"t\": Subscriptions: Name: \"a/b\" can't be used: it contains",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\"}, {\"Name\": \"S\"}]}",
        "topic \"t\": subscription \"S\" is already declared in line 6 as \"s\"",
    ),
    (
        "{\"Name\": \"t\", \"Properties\": {\"DefaultMessageTimeToLive\": 1}}",
        "topic \"t\": DefaultMessageTimeToLive: exp",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\", \"Properties\": {\"LockDuration\": \"PT6M\"}}]}",
        "topic \"t\", subscription \"s\": LockDuration: \"PT6M\" is outside",
    ),
    (
        "{\"Name\": \"t\", \"Subscriptions\": [{\"Name\": \"s\", \"Rules\": 1}]}",
        "subscription \"s\": Rules: expected a list",
    ),
];

/// Like [`BAD_QUEUES`], for rules.
const BAD_RULES: &[(&str, &str)] = &[
    ("{}", "8:1: topic \"t\", subscription \"s\": Rules: Properties: missing; write"),
    (
        "{\"Name\": \"r\"}",
        "8:1: topic \"t\", subscription \"s\", rule \"r\": Properties: missing; write \"Properties\"",
    ),
    (
        "{\"Name\": \"a#\", \"Properties\": {\"SqlFilter\": {\"SqlExpression\": \"1=1\"}}}",
        "Name: \"a#\" can't be used: it contains",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {}}",
        "8:29: topic \"t\", subscription \"s\", rule \"r\": CorrelationFilter: missing",
    ),
    ("{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Sql\"}}", "rule \"r\": SqlFilter: missing; write"),
    (
        "{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Red\"}}",
        "FilterType: \"Red\" is not a filter; write \"Correlation\"",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Sql\",\n\"SqlFilter\": {\"SqlExpression\": \"a b\"}}}",
        "9:35: topic \"t\", subscription \"s\", rule \"r\": SqlFilter: SqlExpression: found 'b' where an operator",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\n\"SqlFilter\": {\"SqlExpression\": \"\\u0061\\n b\"}}}",
        "9:42: topic \"t\", subscription \"s\", rule \"r\": SqlFilter: SqlExpression: found 'b' where an operator",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"FilterType\": \"Sql\", \"SqlFilter\": {}}}",
        "SqlFilter: SqlExpression: missing; write",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"To\": \"x\"}, \"Action\": {\"SqlExpression\": \"SET a\"}}}",
        "rule \"r\": Action: SqlExpression: the text ends where",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {}}}",
        "rule \"r\": CorrelationFilter: sets nothing to compare",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {}}}}",
        "CorrelationFilter: sets nothing to",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"To\": 5}}}",
        "CorrelationFilter: To: expected a text",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"a\": 1, \"A\": 2}}}}",
        "CorrelationFilter: Properties: \"A\" occurs twice, names match regardless of case",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"a\": [1]}}}}",
        "CorrelationFilter: Properties.a: expected a text, number or boolean, found a list",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"\": 1}}}}",
        "a property has an empty name",
    ),
    (
        "{\"Name\": \"r\", \"Properties\": {\"CorrelationFilter\": {\"Properties\": {\"a\": 1e999}}}}",
        "does not fit into 64",
    ),
];

/// Whole files.
const BAD_FILES: &[(&str, &str)] = &[
    ("", "1:1: expected an object with UserConfig"),
    ("[]", "1:1: expected an object with UserConfig; is this the emulator's Config.json?"),
    ("{}", "1:1: UserConfig: missing; is this the emulator's Config.json?"),
    ("{\n\"UserConfig\": 5}", "2:15: UserConfig: expected an object, found 5"),
    ("{\"UserConfig\": {}}", "1:16: UserConfig: Namespaces: missing; write \"Namespaces\": ["),
    ("{\"UserConfig\": {\"Namespaces\": {}}}", "UserConfig: Namespaces: expected a list, found an object"),
    (
        "{\"UserConfig\": {\"Namespaces\": [{\"Name\": \"a\"}, {\"Name\": \"b\"}]}}",
        "only one namespace is supported; remove the others",
    ),
    ("{\"UserConfig\": {\"Namespaces\": [{\"Name\": 5}]}}", "namespace: Name: expected a text"),
    ("{\"UserConfig\": {\n\"Namespaces\": [,]}}", "2:16: not JSON: "),
    ("{\"UserConfig\": {\"Namespaces\": []", "not JSON: Unterminated"),
    ("{'UserConfig': {}}", "1:2: not JSON: "),
    ("{UserConfig: {}}", "1:2: not JSON: "),
];

/// Builds a whole file around an error.
type Make<'a> = &'a dyn Fn(&str) -> String;

#[test]
fn every_mistake_is_refused_with_its_place_and_advice() {
    let queues = |text: &str| file(text, "");
    let properties = |text: &str| file(&format!("{{\"Name\": \"q\", \"Properties\": {{\n{text}\n}}}}"), "");
    let topics = |text: &str| file("", text);
    let whole = str::to_owned;
    let tables: [(Make<'_>, _); 5] = [
        (&queues, BAD_QUEUES),
        (&properties, BAD_PROPERTIES),
        (&topics, BAD_TOPICS),
        (&rules_file, BAD_RULES),
        (&whole, BAD_FILES),
    ];
    let mut wrong = String::new();
    for (make, bad) in tables {
        for (text, expected) in bad {
            let found = read(&make(text)).map_or_else(|problems| problems.to_string(), |_| "nothing".into());
            if !found.contains(expected) {
                writeln!(wrong, "{text}\n expected: {expected}\n found:    {found}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = file(
        "{\"Name\": \"a@\"},\n{\"Name\": \"q\", \"Properties\": {\"LockDuration\": 1}}",
        "{\"Name\": \"t\", \"Subscriptions\": [\n{\"Name\": \"s\", \"Rules\": [\n{\"Name\": \"r\"}]}]}",
    );
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.list.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3, 4, 9]);
}
