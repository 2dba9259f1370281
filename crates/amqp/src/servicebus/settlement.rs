//! The meaning of a receiver's outcome, and the answer to it.

use std::sync::Arc;

use bytes::BytesMut;
use peeklock_engine::{DeadLetter, Property, Refusal, Settlement, SubQueue, Timestamp};
use peeklock_message::decimal;

use super::authorization::excerpt;
use super::delivery::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON};
use super::envelope::text;
use super::errors::{Fault, condition};
use super::management::integer;
use crate::wire::Value;
use crate::wire::performative::{DeliveryState, Error};

/// Maximum encoded size of properties changed by one settlement. Headers hold less, which the engine enforces.
pub(crate) const MODIFIED_BYTES_MAX: usize = 1024 * 1024;

/// The annotation of an outcome with the time at which an abandoned message may be delivered again: from AMQP's mapping
/// of JMS, and used by RabbitMQ for the same purpose (rabbitmq-amqp-java-client 428).
pub(crate) const DELIVERY_TIME: &str = "x-opt-delivery-time";

/// How to handle a disposition.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestedSettlement {
    /// Apply the settlement, then answer with `reply`: the outcome's own type, a rejection without its error. P
    /// compares the names; P, J and N treat a rejection with an error as a failure.
    Apply {
        /// The settlement for the engine.
        settlement: Settlement,
        /// The answer to the peer when it is done.
        reply: DeliveryState,
    },
    /// Not a final state: nothing to do yet.
    Wait,
}

/// Reads the state of a disposition.
///
/// # Errors
/// States of transactions (their outcome is read separately) and property changes beyond [`MODIFIED_BYTES_MAX`].
pub(crate) fn read(state: Option<DeliveryState>, settled: bool) -> Result<RequestedSettlement, Fault> {
    let (settlement, reply) = match state {
        Some(DeliveryState::Accepted) => (Settlement::Complete, DeliveryState::Accepted),
        // Settled without an outcome: the peer has forgotten the delivery without a decision about the message.
        None | Some(DeliveryState::Received { .. }) if settled => {
            (Settlement::Release, DeliveryState::Released)
        }
        Some(DeliveryState::Released) => (Settlement::Release, DeliveryState::Released),
        Some(DeliveryState::Rejected(error)) => {
            (dead_letter(error.unwrap_or_default())?, DeliveryState::Rejected(None))
        }
        Some(DeliveryState::Modified { delivery_failed, undeliverable_here, message_annotations }) => {
            let settlement = if undeliverable_here {
                Settlement::Defer { modify: modified(message_annotations)? }
            } else {
                abandon(message_annotations)?
            };
            let message_annotations = Vec::new();
            (settlement, DeliveryState::Modified { delivery_failed, undeliverable_here, message_annotations })
        }
        Some(DeliveryState::Declared { .. } | DeliveryState::Transactional { .. }) => {
            return Err(Fault::Argument("The delivery state is not an outcome of a message.".to_owned()));
        }
        None | Some(DeliveryState::Received { .. }) => return Ok(RequestedSettlement::Wait),
    };
    Ok(RequestedSettlement::Apply { settlement, reply })
}

/// Abandons a message; with [`DELIVERY_TIME`] among the changed properties, it is not delivered again before that time.
///
/// # Errors
/// [`Fault::Argument`] for an invalid time, and see [`modified`].
pub(crate) fn abandon(properties: Vec<(Box<str>, Value)>) -> Result<Settlement, Fault> {
    let (times, properties): (Vec<_>, Vec<_>) =
        properties.into_iter().partition(|(name, _)| &**name == DELIVERY_TIME);
    let modify = modified(properties)?;
    let Some((_, time)) = times.into_iter().next() else { return Ok(Settlement::Abandon { modify }) };
    let at_ms = match time {
        Value::Timestamp(at_ms) => Some(at_ms),
        other => integer(&other),
    };
    let at_ms = at_ms.and_then(|at_ms| u64::try_from(at_ms).ok()).ok_or_else(|| {
        Fault::Argument(format!("'{DELIVERY_TIME}' must be a timestamp, or milliseconds since 1970."))
    })?;
    Ok(Settlement::Postpone { modify, until: Timestamp(at_ms) })
}

/// A rejection moves the message to the dead-letter queue. The SDKs put the reason in the error's info; a generic
/// client puts it in the error itself.
fn dead_letter(error: Error) -> Result<Settlement, Fault> {
    let mut reason = None;
    let mut description = None;
    let mut properties = Vec::new();
    for (key, value) in error.info {
        let stamp = match &*key {
            DEAD_LETTER_REASON => &mut reason,
            DEAD_LETTER_DESCRIPTION => &mut description,
            _ => {
                properties.push((key, value));
                continue;
            }
        };
        match text(&value) {
            Some(text) => *stamp = Some(text.into()),
            // J: null for values not given.
            None if value == Value::Null => {}
            // N: a property that only has the name of a stamp; it stays a property.
            None => properties.push((key, value)),
        }
    }
    if reason.is_none() && !error.condition.is_empty() && &*error.condition != condition::DEAD_LETTER {
        reason = Some(error.condition.into());
    }
    let description = description.or_else(|| error.description.map(Into::into));
    let why = Arc::new(DeadLetter { reason, description });
    Ok(Settlement::DeadLetter { why, modify: modified(properties)? })
}

/// Why a settlement failed. Dead letters have no sessions: the lost lock is a message's, although the engine, which
/// gets only the token, can't distinguish.
pub(crate) fn fault(refusal: Refusal, sub_queue: SubQueue) -> Fault {
    match refusal {
        Refusal::SessionLockLost if sub_queue != SubQueue::Main => Refusal::MessageLockLost.into(),
        refusal => refusal.into(),
    }
}

/// Property changes in the engine's form: names, and values encoded.
///
/// # Errors
/// [`Fault::Argument`] beyond [`MODIFIED_BYTES_MAX`], and for values that no application property may have or clients can't read.
pub(crate) fn modified(
    properties: impl IntoIterator<Item = (Box<str>, Value)>,
) -> Result<Vec<Property>, Fault> {
    let mut bytes = 0;
    let mut modified = Vec::new();
    for (name, value) in properties {
        if !is_simple(&value) {
            return Err(Fault::Argument(format!(
                "The property to modify '{}' is a list, a map or an array.",
                excerpt(&name)
            )));
        }
        let value = decimal::as_service(&value)?.unwrap_or(value);
        let mut encoded = BytesMut::new();
        value.encode(&mut encoded);
        bytes += name.len() + encoded.len();
        if bytes > MODIFIED_BYTES_MAX {
            return Err(Fault::Argument(format!(
                "The properties to modify take more than {MODIFIED_BYTES_MAX} bytes."
            )));
        }
        modified.push(Property { name, value: encoded.freeze() });
    }
    Ok(modified)
}

/// Whether an application property may have the value (AMQP 1.0, part 3.2.5).
fn is_simple(value: &Value) -> bool {
    match value {
        Value::List(_) | Value::Map(_) | Value::Array(_) => false,
        Value::Described(described) => is_simple(&described.value),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
