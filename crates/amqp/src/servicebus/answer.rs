//! Answers to a peer's attach: the requested fields, as far as the broker honours them on the link (AMQP 1.0, parts
//! 2.7.3 and 3.5.3).

use super::entities::Kind;
use crate::wire::performative::{Attach, ReceiverSettleMode, SenderSettleMode, Target, Terminus};
use crate::wire::{Str, Value};

/// Link property: the largest batch a sender may send, a long of bytes. Clients limit their batches by it where
/// messages may be larger (azure-sdk-for-net 57941).
const MAX_BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";
/// Maximum size of a batch in bytes, whatever the limit for a message.
pub(super) const BATCH_BYTES_MAX: u64 = 1024 * 1024;

/// Link property that identifies an SDK's receiver.
const RECEIVER_NAME: &str = "com.microsoft:receiver-name";
/// The max-message-size that Python's receivers send, although they accept any size.
const PYTHON_BYTES_MAX: u64 = 1024 * 1024;

/// The only expiry policy that is honoured: no state outlives its link.
const LINK_DETACH: &str = "link-detach";

/// Descriptors of the outcomes that a receiver may choose.
const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];
/// Descriptor of the outcome assumed when a receiver settles a delivery without one.
const RELEASED: u64 = 0x26;

/// Capabilities of a coordinator, of those in the specification (part 4.5.8).
const COORDINATOR_CAPABILITIES: [&str; 3] =
    ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];

/// Turns the peer's attach into ours: termini, settle modes and name unchanged, since P learns its session from the
/// address and N adopts the modes it reads.
fn echo(attach: Attach) -> Attach {
    let mut source = attach.source.unwrap_or_default();
    // No filter of the peer is in effect, except that of a session, written when one is accepted.
    source.filter.clear();
    Attach {
        source: Some(source),
        target: Some(attach.target.unwrap_or_else(|| Target::Node(Terminus::default()))),
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        ..attach
    }
}

/// The answer on a link on which we receive; `node` is the kind of its entity, if it has one.
pub(super) fn to_sender(attach: Attach, node: Option<Kind>) -> Attach {
    let mut reply = echo(attach);
    // A delivery is settled together with its outcome, so P's request for a second step is not honoured.
    reply.rcv_settle_mode = ReceiverSettleMode::First;
    match &mut reply.target {
        Some(Target::Node(target)) => keep_honoured_fields(target, node),
        Some(Target::Coordinator(capabilities)) => {
            capabilities.retain(|capability| COORDINATOR_CAPABILITIES.contains(&&**capability));
        }
        None => {}
    }
    reply
}

/// The answer on a link on which we send messages of an entity.
pub(super) fn to_receiver(attach: Attach, node: Kind) -> Attach {
    let mut reply = echo(attach);
    if let Some(source) = &mut reply.source {
        keep_honoured_fields(source, Some(node));
        if !source.outcomes.is_empty() {
            source.outcomes.retain(|outcome| OUTCOMES.contains(&&**outcome));
        }
        if source.default_outcome != Value::Null {
            source.default_outcome = Value::described(Value::ULong(RELEASED), Value::List(Vec::new()));
        }
    }
    reply
}

/// The answer on a link that carries responses: they are sent settled, since P never settles one.
pub(super) fn to_reader_of_responses(attach: Attach) -> Attach {
    let mut reply = echo(attach);
    reply.snd_settle_mode = SenderSettleMode::Settled;
    if let Some(source) = &mut reply.source {
        keep_honoured_fields(source, None);
        source.outcomes.clear();
        source.default_outcome = Value::Null;
    }
    reply
}

/// Removes requested properties of our terminus that are not in effect. Nothing is added.
fn keep_honoured_fields(terminus: &mut Terminus, node: Option<Kind>) {
    terminus.durable = 0;
    terminus.timeout_s = 0;
    if terminus.expiry_policy.is_some() {
        terminus.expiry_policy = Some(LINK_DETACH.into());
    }
    // The capabilities by which JMS distinguishes queues from topics.
    let capability = match node {
        Some(Kind::Queue) => Some("queue"),
        Some(Kind::Topic) => Some("topic"),
        Some(Kind::Subscription) | None => None,
    };
    terminus.capabilities.retain(|asked: &Str| Some(&**asked) == capability);
}

/// Capabilities with which JMS clients mark a temporary node, of those requested.
pub(super) fn temporary_capabilities(is_temporary: bool, target: Option<&Target>) -> Vec<Str> {
    match target {
        Some(Target::Node(target)) if is_temporary => {
            target.capabilities.iter().filter(|asked| asked.starts_with("temporary-")).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Announces the maximum batch size to a sender.
pub(super) fn limit_batches(reply: &mut Attach, message_bytes_max: u64) {
    let bytes = i64::try_from(message_bytes_max.min(BATCH_BYTES_MAX)).unwrap_or(i64::MAX);
    reply.properties.retain(|(key, _)| &**key != MAX_BATCH_SIZE);
    reply.properties.push((MAX_BATCH_SIZE.into(), Value::Long(bytes)));
}

/// The largest message that a receiver accepts, in bytes; `None` for any.
pub(super) fn message_bytes_max(attach: &Attach) -> Option<u64> {
    let is_sdk = attach.properties.iter().any(|(key, _)| &**key == RECEIVER_NAME);
    attach.max_message_size.filter(|&bytes| bytes > 0 && !(is_sdk && bytes == PYTHON_BYTES_MAX))
}

#[cfg(test)]
mod tests;
