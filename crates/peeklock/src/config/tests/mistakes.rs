//! Errors in queues, topics, subscriptions and rules.

use std::fmt::Write as _;

use super::*;

/// Each in a queue's table, from line 3 on, with the only message it must cause.
const BAD_QUEUE: &[(&str, &str)] = &[
    (
        "lockDuration = \"PT1M\"",
        "3:1: queue \"q\": unknown key `lockDuration`; did you mean `lock_duration`?",
    ),
    (
        "lock-duration = \"PT1M\"",
        "3:1: queue \"q\": unknown key `lock-duration`; did you mean `lock_duration`?",
    ),
    (
        "lock_duraton = \"PT1M\"",
        "3:1: queue \"q\": unknown key `lock_duraton`; did you mean `lock_duration`?",
    ),
    (
        "[network]\nallowed_origins = [\"null\"]",
        "4:19: [network] allowed_origins: \"null\" is not an origin of web pages; write \"https://shop.example\"",
    ),
    (
        "[network]\nallowed_origins = [\"https://shop.example/path\"]",
        "is not an origin of web pages; write \"https://shop.example\": scheme, host and port if it has one, without a path",
    ),
    (
        "[network]\nallowed_hosts = [\"https://broker.example\"]",
        "allowed_hosts: \"https://broker.example\" is not a host name; write \"broker.example\", or \"*.example\"",
    ),
    ("xyz = 1", "3:1: queue \"q\": unknown key `xyz`; known keys are name, max_size_in_megabytes"),
    (
        "lock_duration = 60",
        "3:17: queue \"q\": lock_duration: expected a text in quotes, found 60; write lock_dura",
    ),
    (
        "lock_duration = \"PT4S\"",
        "3:17: queue \"q\": lock_duration: \"PT4S\" is outside the range from PT5S to PT5M",
    ),
    ("lock_duration = \"6 minutes\"", "lock_duration: \"6 minutes\" is outside the range from PT5S to PT5M"),
    (
        "lock_duration = \"P1M\"",
        "lock_duration: \"P1M\" has years or months, whose length varies; write days",
    ),
    (
        "max_delivery_count = 0",
        "3:22: queue \"q\": max_delivery_count: 0 is outside the range from 1 to 2147483647",
    ),
    ("max_delivery_count = -1", "max_delivery_count: -1 is outside the range from 1 to 2147483647"),
    (
        "max_delivery_count = 1.5",
        "max_delivery_count: expected a whole number, found 1.5; write max_delivery_count",
    ),
    ("default_message_time_to_live = \"999ms\"", "_live: \"999ms\" is too short; write at least"),
    (
        "dead_lettering_on_message_expiration = \"yes\"",
        "expected true or false, found \"yes\"; write dead_lette",
    ),
    ("max_message_size_in_kilobytes = 102401", "is outside the range from 1 to 102400"),
    ("max_size_in_megabytes = 0", "is outside the range from 1 to 10485760"),
    (
        "max_size_in_megabytes = 1\nmax_message_size_in_kilobytes = 2048",
        "4:33: queue \"q\": max_message_size_in_kilobytes: a message of 2048 KB never fits into a queue of 1 MB; raise",
    ),
    (
        "default_message_time_to_live = \"P15D\"\n[limits]\nmessage_time_to_live_max = \"P14D\"",
        "3:32: queue \"q\": default_message_time_to_live: longer than message_time_to_live_max in [limits]; write at most",
    ),
    (
        "default_message_time_to_live = \"unlimited\"\n[limits]\nmessage_time_to_live_max = \"P14D\"",
        "3:32: queue \"q\": default_message_time_to_live: longer than message_time_to_live_max",
    ),
    (
        "requires_session = \"yes\"",
        "3:20: queue \"q\": requires_session: expected true or false, found \"yes\"; write requires",
    ),
    (
        "auto_delete_on_idle = \"1 minute\"",
        "3:23: queue \"q\": auto_delete_on_idle: \"1 minute\" is too short; write at least \"PT5M\", or \"unlimited\"; \
         for tests, auto_delete_on_idle_min in [limits] lowers that",
    ),
    (
        "auto_delete_on_idle = 300",
        "auto_delete_on_idle: expected a text in quotes, found 300; write auto_delete",
    ),
    ("auto_delete_on_idle = \"never\"", "auto_delete_on_idle: \"never\" is not a duration; write ISO 8601"),
    ("tier = \"premium\"", "3:8: queue \"q\": tier: the whole namespace has one; write it in [namespace]"),
    (
        "duplicate_detection_history_time_window = \"19s\"",
        "duplicate_detection_history_time_window: \"19s\" is outside the range from PT20S to PT168H",
    ),
    (
        "enable_express = true\nrequires_duplicate_detection = true",
        "3:18: queue \"q\": enable_express: can't be combined with requires_duplicate_detection; remove one",
    ),
    (
        "forward_to = \"Q\"",
        "3:14: queue \"q\": forward_to: \"Q\" is the queue itself; write another queue or",
    ),
    (
        "forward_to = \"sb://host/\"",
        "forward_to: \"sb://host/\" names no entity; write \"sb://host/name\", or",
    ),
    ("forward_to = \"SB://host\"", "forward_to: \"SB://host\" names no entity; write \"sb://host/name\", or"),
    (
        "forward_dead_lettered_messages_to = \"a?\"",
        "\"a?\" can't be used: it contains '?', which is not allowed",
    ),
    (
        "status = \"active\"",
        "status: \"active\" is not a status; write \"Active\", \"Disabled\", \"SendDisabled\" or",
    ),
    ("requiresSession = true", "unknown key `requiresSession`; did you mean `requires_session`?"),
];

/// Like [`BAD_QUEUE`], in a topic's table.
const BAD_TOPIC: &[(&str, &str)] = &[
    ("name_ = 1", "3:1: topic \"t\": unknown key `name_`; did you mean `name`?"),
    ("max_size_in_megabytes = 0", "3:25: topic \"t\": max_size_in_megabytes: 0 is outside the range from 1"),
    (
        "max_size_in_megabytes = 1\nmax_message_size_in_kilobytes = 2048",
        "4:33: topic \"t\": max_message_size_in_kilobytes: a message of 2048 KB never fits into a topic of 1 MB; raise",
    ),
    (
        "max_message_size_in_kilobytes = 102400\n[amqp]\nreassembly_size_max = \"32 MiB\"",
        "a message of 102400 KB never comes through a connection with reassembly_size_max = \"32 MiB\"; raise",
    ),
    (
        "max_message_size_in_kilobytes = 102400\n[limits]\nmemory_max = \"100 MiB\"",
        "a message of 102400 KB never comes through a connection with reassembly_size_max = \"25 MiB\"; raise",
    ),
    (
        "default_message_time_to_live = \"999ms\"",
        "topic \"t\": default_message_time_to_live: \"999ms\" is too short",
    ),
    (
        "auto_delete_on_idle = \"299s\"",
        "topic \"t\": auto_delete_on_idle: \"299s\" is too short; write at least",
    ),
    (
        "requires_duplicate_detection = true\nenable_express = true",
        "4:18: topic \"t\": enable_express: can't be combined with requires_duplicate_detection; remove one",
    ),
    (
        "duplicate_detection_history_time_window = \"P8D\"",
        "topic \"t\": duplicate_detection_history_time_window: \"P8D\" is outside the range from PT20S",
    ),
    (
        "forward_to = \"q\"",
        "topic \"t\": forward_to: subscriptions have it, not topics; write it in [[topics.",
    ),
    (
        "[[topics.authorization_rules]]\nname = \"r\"\nrights = [\"Send\"]\nsecondary_key = \"k\"",
        "3:1: topic \"t\", authorization rule \"r\": primary_key: missing; write primary_key = ",
    ),
    (
        "requires_session = true",
        "topic \"t\": requires_session: subscriptions have it, not topics; write it in [[top",
    ),
    (
        "lock_duration = \"30s\"",
        "topic \"t\": lock_duration: subscriptions have it, not topics; write it in [[topics.",
    ),
    (
        "subscriptions = [\"s\"]",
        "3:18: `subscriptions` is a list of tables; write [[topics.subscriptions]], in double brackets",
    ),
    (
        "[topics.subscriptions]\nname = \"s\"",
        "3:1: `subscriptions` is a list of tables; write [[topics.subscriptions]]",
    ),
    (
        "[[topics.subscriptions]]",
        "3:1: [[topics.subscriptions]] name: missing; write name = \"all\" or the like",
    ),
    (
        "subscriptions = [{ name = \"s\" }, { name = \"S\" }]",
        "3:43: topic \"t\": subscription \"S\" is already declared in line 3 as \"s\"; names match regardless of case",
    ),
];

/// Like [`BAD_QUEUE`], in a subscription's table, from line 5 on.
const BAD_SUBSCRIPTION: &[(&str, &str)] = &[
    (
        "maxDeliveryCount = 1",
        "5:1: topic \"t\", subscription \"s\": unknown key `maxDeliveryCount`; did you mean `max_delivery_count`?",
    ),
    (
        "lock_duration = \"PT4S\"",
        "subscription \"s\": lock_duration: \"PT4S\" is outside the range from PT5S to PT5M",
    ),
    ("max_delivery_count = 0", "subscription \"s\": max_delivery_count: 0 is outside the range from 1"),
    ("auto_delete_on_idle = \"PT0S\"", "auto_delete_on_idle: \"PT0S\" is too short; write at least"),
    (
        "dead_lettering_on_filter_evaluation_exceptions = 0",
        "expected true or false, found 0; write dead_lettering_on_filter_evaluation_exceptions = true",
    ),
    (
        "forward_to = \"/q\"",
        "topic \"t\", subscription \"s\": forward_to: \"/q\" can't be used: it has an empty part: no",
    ),
    ("status = 1", "status: expected a text in quotes, found 1; write status = \"Active\""),
    (
        "authorization_rules = []",
        "authorization_rules: topics have it, not subscriptions; write it in [[topics]]",
    ),
    (
        "max_size_in_megabytes = 1",
        "max_size_in_megabytes: topics have it, not subscriptions; write it in [[topics]]",
    ),
    (
        "default_rule_description = {}",
        "default_rule_description: write [[topics.subscriptions.rules]] instead",
    ),
    (
        "rules = \"all\"",
        "5:9: `rules` is a list of tables; write [[topics.subscriptions.rules]], in double brackets",
    ),
    (
        "[[topics.subscriptions.rules]]\nfilter = \"true\"",
        "5:1: topic \"t\", subscription \"s\": rule: name: missing;",
    ),
    (
        "rules = [{ name = \"a\", filter = \"true\" }, { name = \"A\", filter = \"true\" }]",
        "subscription \"s\": rule \"A\" is already declared in line 5 as \"a\"; names match regardless of case",
    ),
    (
        "rules = [{ name = \"a/b\", filter = \"true\" }]",
        "5:19: topic \"t\", subscription \"s\": rule: name: \"a/b\" can't be used: it contains",
    ),
];

/// Like [`BAD_QUEUE`], in a rule's table, from line 7 on.
const BAD_RULE: &[(&str, &str)] = &[
    (
        "",
        "5:1: topic \"t\", subscription \"s\", rule \"r\": filter: missing; write filter = \"true\", sql = \"amount > 5\" or",
    ),
    (
        "filter = \"yes\"",
        "7:10: topic \"t\", subscription \"s\", rule \"r\": filter: \"yes\" is not a filter; write \"true\" or \"false\"",
    ),
    ("filter = true", "filter: expected a text in quotes, found true; write filter = \"true\""),
    (
        "sql = \"amount > \"",
        "7:16: topic \"t\", subscription \"s\", rule \"r\": sql: the text ends where a value",
    ),
    (
        "sql = 'amount b'",
        "7:15: topic \"t\", subscription \"s\", rule \"r\": sql: found 'b' where an operator",
    ),
    (
        "sql = \"\\u0061 b\"",
        "7:15: topic \"t\", subscription \"s\", rule \"r\": sql: found 'b' where an operator",
    ),
    (
        "sql = \"\"\"\na\n  b\"\"\"",
        "9:3: topic \"t\", subscription \"s\", rule \"r\": sql: found 'b' where an operator",
    ),
    (
        "sql = \"\"\"a \\\n  b\"\"\"",
        "8:3: topic \"t\", subscription \"s\", rule \"r\": sql: found 'b' where an operator",
    ),
    (
        "sql = \"\"\"a\r\nb\"\"\"",
        "7:7: topic \"t\", subscription \"s\", rule \"r\": sql: found 'b' where an operator was expected (at character",
    ),
    ("sql = \"a = @x\"", "7:12: topic \"t\", subscription \"s\", rule \"r\": sql: "),
    ("sql = 5", "sql: expected a text in quotes, found 5; write sql = \"amount > 5\""),
    (
        "sql = \"a = 1\"\naction = \"SET b\"",
        "8:16: topic \"t\", subscription \"s\", rule \"r\": action: the text ends where",
    ),
    ("filter = \"true\"\naction = \"\"", "8:11: topic \"t\", subscription \"s\", rule \"r\": action: "),
    (
        "filter = \"true\"\nparameters = { x = 1 }",
        "8:14: topic \"t\", subscription \"s\", rule \"r\": parameters: only sql and action have parameters",
    ),
    (
        "sql = \"a = @x\"\nparameters = { x = [] }",
        "parameters.x: expected a text, number, boolean or date-time",
    ),
    ("sql = \"a = @x\"\nparameters = { x = 1, X = 2 }", "parameters: \"X\" and \"x\" are the same"),
    (
        "sql = \"1=1\"\nfilter = \"true\"",
        "8:10: topic \"t\", subscription \"s\", rule \"r\": filter: a rule has exactly one of filter, sql and corr",
    ),
    (
        "filter = \"true\"\ncorrelation = { to = \"x\" }",
        "8:15: topic \"t\", subscription \"s\", rule \"r\": correlation: a rule has exactly one of filter, sql and",
    ),
    ("correlation = \"red\"", "correlation: expected a table, found \"red\"; write correlation = { label"),
    ("correlation = {}", "rule \"r\": correlation: sets nothing to compare; write correlation = { label"),
    ("correlation = { properties = {} }", "rule \"r\": correlation: sets nothing to compare; write"),
    (
        "correlation = { label = \"a\", subject = \"a\" }",
        "7:40: topic \"t\", subscription \"s\", rule \"r\": correlation: subject: another word for label; remove one",
    ),
    (
        "correlation = { Label = \"a\" }",
        "7:17: topic \"t\", subscription \"s\", rule \"r\": correlation: unknown key `Label`; did you mean `label`?",
    ),
    (
        "correlation = { to = 5 }",
        "rule \"r\": correlation: to: expected a text in quotes, found 5; write to = \"order\"",
    ),
    (
        "correlation = { properties = [] }",
        "correlation: properties: expected a table, found a list; write properties = {",
    ),
    (
        "correlation = { properties = { a = 1, A = 2 } }",
        "correlation: properties: \"A\" and \"a\" are the same; remove one",
    ),
    ("correlation = { properties = { \"\" = 1 } }", "correlation: properties: the name is empty"),
    (
        "correlation = { properties = { a = [1] } }",
        "7:36: topic \"t\", subscription \"s\", rule \"r\": correlation: properties.a: expected a text, number, boolean or",
    ),
    ("correlation = { properties = { a = nan } }", "properties.a: nan equals no value; write a number"),
    (
        "correlation = { properties = { a = 1e400 } }",
        "properties.a: 1e400 is beyond the largest double, 1.7976931348623157e308; write a smaller number, or inf",
    ),
    (
        "correlation = { properties = { a = -1_0e3_99 } }",
        "properties.a: -10e399 is beyond the largest double",
    ),
    (
        "correlation = { properties = { a = { type = \"double\", value = \"1e400\" } } }",
        "properties.a: 1e400 is beyond the largest double",
    ),
    ("sql = \"a = @p\"\nparameters = { p = 1e309 }", "parameters.p: 1e309 is beyond the largest double"),
    ("correlation = { properties = { a = -9223372036854775809 } }", "does not fit into 64 bits"),
    (
        "correlation = { properties = { a = 2026-01-31 } }",
        "properties.a: 2026-01-31 is not a point in time; write date, time and offset, such as 2026-01-31T12:00:00Z",
    ),
];

#[test]
fn every_mistake_in_an_entity_is_refused_with_its_place_and_advice() {
    let queue = "[[queues]]\nname = \"q\"\n";
    let topic = "[[topics]]\nname = \"t\"\n";
    let subscription = &format!("{topic}[[topics.subscriptions]]\nname = \"s\"\n");
    let rule = &format!("{subscription}[[topics.subscriptions.rules]]\nname = \"r\"\n");
    let tables = [(queue, BAD_QUEUE), (topic, BAD_TOPIC), (subscription, BAD_SUBSCRIPTION), (rule, BAD_RULE)];
    let mut wrong = String::new();
    for (start, bad) in tables {
        for (lines, expected) in bad {
            let message = only_message(&format!("{start}{lines}"));
            if !message.contains(expected) {
                writeln!(wrong, "{lines}\n expected: {expected}\n found:    {message}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn mistakes_on_every_level_are_reported_at_once() {
    let text = "[[topics]]\nname = \"t?\"\n[[topics.subscriptions]]\nname = \"s/\"\nlock_duration = 1\n\
                [[topics.subscriptions.rules]]\nname = \"r\"\nfilter = \"x\"\n[[queues]]\n";
    let problems = parse("t", text).unwrap_err();
    assert_eq!(problems.list.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2, 4, 5, 8, 9]);
}
