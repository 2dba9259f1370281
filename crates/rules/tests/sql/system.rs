//! System properties.

use super::Answer::{F, T, U};
use super::Row;

pub(crate) const ROWS: &[Row] = &[
    ("sys.ContentType = 'application/json'", T, "semantics §13.2"),
    ("sys.CorrelationId = 'order-1'", T, "semantics §13.2"),
    ("sys.CorrelationId LIKE 'order-%'", T, "semantics §13.2"),
    ("sys.DeadLetterSource = 'orders'", T, "semantics §13.2"),
    ("sys.DeliveryCount = 0", T, "semantics §3: 0 before the first delivery"),
    ("sys.EnqueuedSequenceNumber = 7", T, "semantics §3"),
    ("sys.EnqueuedTimeUtc = '2026-11-22T10:00:00.123Z'", T, "semantics §3"),
    ("sys.EnqueuedTimeUtc = at", T, "semantics §3"),
    ("sys.EnqueuedTimeUtc < '2026-11-22T10:00:00.124Z'", T, "semantics §3"),
    ("sys.ExpiresAtUtc = '2026-11-22T10:01:30.123Z'", T, "semantics §3: enqueued + time to live"),
    ("sys.ExpiresAtUtc > sys.EnqueuedTimeUtc", T, "semantics §3"),
    ("sys.ForcePersistence", F, "(inferred): not set over AMQP"),
    ("sys.ForcePersistence = FALSE", T, "(inferred): not set over AMQP"),
    ("sys.Label = 'the bus stops'", T, "semantics §13.2"),
    ("sys.Subject = 'the bus stops'", T, "semantics §13.2: alias (inferred)"),
    ("sys.label = sys.LABEL", T, "sql-filter: property names are case-insensitive"),
    ("SYS.Label = 'the bus stops'", T, "(inferred): scopes in any case"),
    ("sys.[Label] = 'the bus stops'", T, "semantics §13.1: quoted behind a scope"),
    ("sys.LockedUntilUtc > at", U, "(inferred): nothing is locked yet"),
    ("sys.LockToken = id", U, "(inferred): nothing is locked yet"),
    ("sys.MessageId = 'message-1'", T, "semantics §13.2"),
    ("sys.MessageId <> 'message-1'", F, "semantics §13.2"),
    ("sys.PartitionKey = 'session-1'", T, "semantics §13.2"),
    ("sys.ReplyTo = 'answers'", T, "semantics §13.2"),
    ("sys.ReplyToSessionId = 'a'", U, "semantics §13.3: not set"),
    ("sys.ScheduledEnqueueTimeUtc = '2026-11-22T10:00:00Z'", T, "semantics §3"),
    ("sys.SequenceNumber = 42", T, "semantics §3"),
    ("sys.SequenceNumber % 2 = 0", T, "semantics §13.4"),
    ("sys.SessionId = 'session-1'", T, "semantics §13.2"),
    ("sys.SessionId = sys.PartitionKey", T, "semantics §3"),
    ("sys.Size = 1024", T, "semantics §13.2"),
    ("sys.Size > 1000 AND sys.Size < 2 * 1024", T, "semantics §13.2"),
    ("sys.State = 0", T, "semantics §3: 0 is active"),
    ("sys.TimeToLive = '00:01:30'", T, "semantics §13.4: literal parsed (inferred)"),
    ("sys.TimeToLive = span", T, "semantics §13.2: a System.TimeSpan"),
    ("sys.TimeToLive < hour", T, "semantics §13.2: a System.TimeSpan"),
    ("sys.TimeToLive > 60", U, "semantics §13.4: a number has no unit"),
    ("sys.To = 'Store5'", T, "semantics §13.2"),
    ("sys.To NOT IN ('Store1', 'Store5') OR StoreId NOT IN ('Store1')", U, "sql-filter: the page's example"),
    ("sys.ViaPartitionKey = 'via'", T, "semantics §13.2"),
    (
        "sys.Label LIKE '%bus%' OR user.tag IN ('queue', 'topic', 'subscription')",
        T,
        "sql-filter: the page's example",
    ),
    ("sys.MessageId + sys.To = 'message-1Store5'", T, "semantics §13.4: C# +"),
    ("sys.SequenceNumber = '42'", U, "semantics §13.4: decision"),
];

#[test]
fn system_properties_of_the_broker() {
    super::check(ROWS);
}
