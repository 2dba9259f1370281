//! The metric families of entities, in the order of the page.

use peeklock_metrics::{Family, Unit};

pub(crate) const ENTITIES: Family =
    Family::gauge("peeklock_entities", Unit::None, "Queues, topics and subscriptions.");
pub(crate) const MESSAGES: Family = Family::gauge(
    "peeklock_messages",
    Unit::None,
    "Messages by state; active ones can be received now or after a short delay.",
);
pub(crate) const SIZE: Family = Family::gauge(
    "peeklock_entity_size_bytes",
    Unit::Bytes,
    "Bytes of all message bodies of a queue or topic.",
);
pub(crate) const SIZE_LIMIT: Family = Family::gauge(
    "peeklock_entity_size_limit_bytes",
    Unit::Bytes,
    "Bytes beyond which a queue or topic refuses messages.",
);
pub(crate) const OLDEST: Family = Family::gauge(
    "peeklock_oldest_message_age_seconds",
    Unit::Seconds,
    "Time since the first available message was enqueued, 0 if there is none.",
);
pub(crate) const RECEIVERS: Family =
    Family::gauge("peeklock_receivers", Unit::None, "Open receivers, forwarding included.");
pub(crate) const SENDERS: Family = Family::gauge("peeklock_senders", Unit::None, "Open senders over AMQP.");
pub(crate) const CREDIT: Family = Family::gauge(
    "peeklock_credit",
    Unit::None,
    "Messages requested by receivers and not delivered yet, without forwarding.",
);
pub(crate) const SESSIONS: Family = Family::gauge(
    "peeklock_sessions",
    Unit::None,
    "Sessions with an available message that wait for a receiver, and sessions locked by one.",
);
pub(crate) const SESSION_STATES: Family =
    Family::gauge("peeklock_session_states", Unit::None, "Sessions with a stored state.");
pub(crate) const RECEIVED: Family = Family::counter(
    "peeklock_messages_received",
    Unit::None,
    "Messages accepted from senders; for a subscription, the copies that it received.",
);
pub(crate) const DELIVERED: Family = Family::counter(
    "peeklock_messages_delivered",
    Unit::None,
    "Messages delivered to receivers, each delivery counted.",
);
pub(crate) const SETTLED: Family =
    Family::counter("peeklock_messages_settled", Unit::None, "Messages settled by receivers, by outcome.");
pub(crate) const DEAD_LETTERED: Family =
    Family::counter("peeklock_messages_dead_lettered", Unit::None, "Messages dead-lettered, by reason.");
pub(crate) const EXPIRED: Family = Family::counter(
    "peeklock_messages_expired",
    Unit::None,
    "Messages whose time-to-live expired, deleted or dead-lettered.",
);
pub(crate) const FORWARDED: Family = Family::counter(
    "peeklock_messages_forwarded",
    Unit::None,
    "Messages moved to another entity by forwarding.",
);
pub(crate) const DUPLICATES: Family = Family::counter(
    "peeklock_duplicates_dropped",
    Unit::None,
    "Messages sent again and dropped by duplicate detection.",
);
pub(crate) const LOCKS_EXPIRED: Family =
    Family::counter("peeklock_locks_expired", Unit::None, "Message locks that expired.");
pub(crate) const LOCK_RENEWALS: Family =
    Family::counter("peeklock_lock_renewals", Unit::None, "Locks renewed, of messages and of sessions.");
pub(crate) const BYTES: Family = Family::counter(
    "peeklock_messages_bytes",
    Unit::Bytes,
    "Bytes of messages accepted (in) and delivered (out).",
);
pub(crate) const ACCEPT: Family = Family::histogram(
    "peeklock_accept_duration_seconds",
    "Time from an entity's decision to store a message until it is durable and acknowledged.",
);
pub(crate) const WAIT: Family = Family::histogram(
    "peeklock_wait_duration_seconds",
    "Time from enqueueing to the first delivery of a message.",
);
pub(crate) const HOLD: Family = Family::histogram(
    "peeklock_hold_duration_seconds",
    "Time from delivery until the message is settled or its lock ends.",
);
