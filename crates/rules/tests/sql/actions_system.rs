//! Actions on system properties.

use super::actions::Row;

pub(crate) const ROWS: &[Row] = &[
    ("SET sys.To = 'x'", Ok("sys.To = x"), "semantics §13.2"),
    ("SET sys.Label = 'x'", Ok("sys.Label = x"), "semantics §13.2"),
    ("SET sys.Subject = 'x'", Ok("sys.Label = x"), "semantics §13.2: alias (inferred)"),
    ("SET sys.ContentType = 'x'", Ok("sys.ContentType = x"), "semantics §13.2"),
    ("SET sys.CorrelationId = sys.MessageId", Ok("sys.CorrelationId = message-1"), "semantics §13.2"),
    ("SET sys.ReplyTo = 'x'", Ok("sys.ReplyTo = x"), "semantics §13.2"),
    ("SET sys.ReplyToSessionId = 'x'", Ok("sys.ReplyToSessionId = x"), "semantics §13.2"),
    (
        "SET sys.MessageId = newid()",
        Ok("sys.MessageId = 00000000-0000-0000-0000-000000000001"),
        "(inferred): GUIDs as .NET writes them",
    ),
    ("SET sys.CorrelationId = quantity", Ok("sys.CorrelationId = 5"), "(inferred): as text"),
    ("SET sys.CorrelationId = -0.5", Ok("sys.CorrelationId = -0.5"), "(inferred): as text"),
    ("SET sys.Label = yes", Ok("sys.Label = True"), "(inferred): as .NET writes it"),
    ("SET sys.Label = 1.0E20", Ok("sys.Label = 1E+20"), "(inferred): as .NET writes it"),
    ("SET sys.Label = huge", Ok("sys.Label = 18446744073709551615"), "(inferred): as text"),
    ("SET sys.Label = at", Ok("sys.Label = 2026-11-22T10:00:00.1230000Z"), "(inferred): the round-trip form"),
    (
        "SET sys.Label = sys.Label + '!'; SET sys.To = sys.Label",
        Ok("sys.Label = the bus stops!; sys.To = the bus stops!"),
        "(inferred): one after the other",
    ),
    ("SET sys.Label = NULL", Ok("sys.Label removed"), "(inferred): UNKNOWN removes"),
    ("SET sys.Label = missing", Ok("sys.Label removed"), "(inferred): UNKNOWN removes"),
    ("REMOVE sys.Label", Ok("sys.Label removed"), "sql-rule-action: REMOVE"),
    (
        "REMOVE sys.Label; SET new = sys.Label",
        Ok("sys.Label removed; new = Null"),
        "(inferred): one after the other",
    ),
    ("REMOVE sys.ReplyToSessionId", Ok("sys.ReplyToSessionId removed"), "sql-rule-action: REMOVE"),
    ("SET sys.Label = binary", Err("sys.Label takes a value that can be written as a string"), "(inferred)"),
    (
        "SET sys.Label = long; SET sys.To = sys.Label + sys.Label",
        Err("a property may have 32768"),
        "semantics §3: one property ≤ 32 KB",
    ),
    (
        "SET sys.MessageId = long",
        Err("20000 characters long; it may have 128"),
        "semantics §3: ≤ 128 characters",
    ),
    ("SET sys.SessionId = long", Err("it may have 128"), "semantics §3: ≤ 128 characters"),
    ("SET sys.PartitionKey = long", Err("it may have 128"), "semantics §3: ≤ 128 characters"),
    // Session and partition.
    (
        "SET sys.SessionId = 'other'",
        Ok("sys.SessionId = other; sys.PartitionKey = other"),
        "(inferred): a partition key that was the session follows it; semantics §3",
    ),
    (
        "SET sys.SessionId = 'x'; SET sys.PartitionKey = 'x'",
        Ok("sys.SessionId = x; sys.PartitionKey = x"),
        "semantics §3: equal",
    ),
    (
        "SET sys.PartitionKey = 'other'",
        Err("PartitionKey must be equal to the SessionId"),
        "semantics §3: must be equal (inferred: a failure)",
    ),
    (
        "SET sys.SessionId = 'x'; SET sys.PartitionKey = 'y'",
        Err("must be equal"),
        "semantics §3: must be equal (inferred: a failure)",
    ),
    (
        "REMOVE sys.SessionId; SET sys.PartitionKey = 'y'",
        Ok("sys.SessionId removed; sys.PartitionKey = y"),
        "semantics §3",
    ),
    (
        "REMOVE sys.PartitionKey; SET sys.SessionId = 'x'",
        Ok("sys.PartitionKey removed; sys.SessionId = x"),
        "semantics §3",
    ),
    (
        "SET sys.SessionId = ''; REMOVE sys.PartitionKey",
        Ok("sys.SessionId = ; sys.PartitionKey removed"),
        "semantics §23.11: an empty id is an id",
    ),
    // Times.
    ("SET sys.TimeToLive = '00:05:00'", Ok("time to live 300000 ms"), "(inferred): as .NET writes it"),
    ("SET sys.TimeToLive = 'PT1M30S'", Ok("time to live 90000 ms"), "(inferred): ISO 8601"),
    ("SET sys.TimeToLive = hour", Ok("time to live 3600000 ms"), "semantics §13.2"),
    ("SET sys.TimeToLive = '00:00:00.0000001'", Ok("time to live 1 ms"), "(inferred): never nothing"),
    (
        "SET sys.TimeToLive = '10675199.02:48:05.4775807'",
        Ok("time to live without limit"),
        "(inferred): TimeSpan.MaxValue",
    ),
    ("REMOVE sys.TimeToLive", Ok("time to live without limit"), "(inferred)"),
    ("SET sys.TimeToLive = NULL", Ok("time to live without limit"), "(inferred)"),
    (
        "SET sys.TimeToLive = hour; SET new = sys.TimeToLive",
        Ok("time to live 3600000 ms; new = TimeSpan(36000000000)"),
        "(inferred): one after the other",
    ),
    (
        "SET sys.TimeToLive = 'PT1S'; SET new = sys.ExpiresAtUtc",
        Ok("time to live 1000 ms; new = Timestamp(1795341601123)"),
        "(inferred): one after the other",
    ),
    (
        "SET sys.TimeToLive = 60",
        Err("sys.TimeToLive takes a time span greater than zero"),
        "(inferred): a number has no unit",
    ),
    ("SET sys.TimeToLive = 'soon'", Err("and this is a string"), "(inferred)"),
    ("SET sys.TimeToLive = '00:00:00'", Err("greater than zero"), "(inferred): .NET refuses it too"),
    ("SET sys.TimeToLive = '-00:00:01'", Err("greater than zero"), "(inferred): .NET refuses it too"),
    (
        "SET sys.ScheduledEnqueueTimeUtc = '2026-11-22T11:00:00+01:00'",
        Ok("scheduled at 1795341600000 ms"),
        "semantics §13.2",
    ),
    ("SET sys.ScheduledEnqueueTimeUtc = at", Ok("scheduled at 1795341600123 ms"), "semantics §13.2"),
    (
        "SET sys.ScheduledEnqueueTimeUtc = later",
        Ok("scheduled at 1795341600123 ms"),
        "(inferred): both are instants",
    ),
    (
        "SET sys.ScheduledEnqueueTimeUtc = sys.ExpiresAtUtc; SET at = sys.ScheduledEnqueueTimeUtc",
        Ok("scheduled at 1795341690123 ms; at = Timestamp(1795341690123)"),
        "(inferred): one after the other",
    ),
    ("REMOVE sys.ScheduledEnqueueTimeUtc", Ok("not scheduled"), "sql-rule-action: REMOVE"),
    ("SET sys.ScheduledEnqueueTimeUtc = '1969-12-31'", Err("an instant from 1970 on"), "(inferred)"),
    ("SET sys.ScheduledEnqueueTimeUtc = 5", Err("and this is an integer"), "(inferred)"),
    ("SET sys.ScheduledEnqueueTimeUtc = span", Err("and this is a time span"), "(inferred)"),
];
