//! Outcomes of messages that can't be forwarded (semantics §14.1, §9).

use std::fmt;

use crate::partition::reasons::{
    HEADER_SIZE_EXCEEDED, HEADER_SIZE_EXCEEDED_TEXT, SESSION_ID_MISSING, SESSION_ID_MISSING_TEXT,
};
use crate::{DeadLetter, Delivery, HOPS_MAX, Refusal};

const TARGET_MISSING: &str = "MessagingEntityNotFoundException";
const TARGET_DISABLED: &str = "MessagingEntityDisabledException";
const TARGET_FULL: &str = "QuotaExceededException";
const TOO_MANY_HOPS: &str = "MaxTransferHopCountExceeded";
const MESSAGE_TOO_LARGE: &str = "MessageSizeExceededException";
const OTHER: &str = "MessagingException";

/// The reasons with which only forwarding dead-letters messages.
pub(in crate::runtime) const FORWARDING_REASONS: [&str; 6] =
    [TARGET_MISSING, TARGET_DISABLED, TARGET_FULL, TOO_MANY_HOPS, MESSAGE_TOO_LARGE, OTHER];

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RefusalOutcome {
    /// It stays in the source, as do the messages behind it, until a later attempt.
    Later,
    /// This target will never accept it: it is dead-lettered, or stays in the dead-letter queue until the target changes.
    Never(DeadLetter),
    /// No target will accept it: it is dead-lettered, or moved from the dead-letter queue to the transfer dead-letter
    /// queue.
    Nowhere(DeadLetter),
    /// The target does not accept it now: it is dead-lettered, or waits in the dead-letter queue.
    NotNow(DeadLetter),
}

/// A target that can't accept commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// It does not exist.
    Missing,
    /// Its status does not allow sends.
    Disabled,
}

impl Unreachable {
    /// The outcome of messages for the target of forwarding with this name.
    pub(super) fn outcome(self, name: &str) -> RefusalOutcome {
        self.outcome_for(format_args!("The target '{name}' of forwarding"))
    }

    /// The outcome of messages; `target` begins the sentence that says why.
    fn outcome_for(self, target: fmt::Arguments<'_>) -> RefusalOutcome {
        let (reason, text) = match self {
            Self::Missing => (TARGET_MISSING, "does not exist"),
            Self::Disabled => (TARGET_DISABLED, "is disabled"),
        };
        RefusalOutcome::NotNow(why(reason, format!("{target} {text}.")))
    }
}

/// The outcome of a message that reached the hop limit.
fn too_many_hops() -> RefusalOutcome {
    let text = format!("The message was forwarded {} times, which is the limit.", HOPS_MAX);
    RefusalOutcome::Nowhere(why(TOO_MANY_HOPS, text))
}

/// Splits a batch into messages that may be forwarded and those at the hop limit.
pub(super) fn split(batch: Vec<Delivery>) -> (Vec<Delivery>, Vec<(Delivery, RefusalOutcome)>) {
    let (mut going, mut staying) = (Vec::with_capacity(batch.len()), Vec::new());
    for delivery in batch {
        let hops = delivery.message.view.forwarded.as_ref().map_or(0, |forwarded| forwarded.hops);
        if hops >= HOPS_MAX {
            staying.push((delivery, too_many_hops()));
        } else {
            going.push(delivery);
        }
    }
    (going, staying)
}

/// Maps the refusal of the target of forwarding with this name to the outcome of the message.
pub(super) fn outcome(refusal: &Refusal, name: &str) -> RefusalOutcome {
    outcome_for(refusal, format_args!("The target '{name}' of forwarding"))
}

/// Maps a target's refusal to the outcome of the message; `target` begins the sentence that says why.
fn outcome_for(refusal: &Refusal, target: fmt::Arguments<'_>) -> RefusalOutcome {
    match refusal {
        Refusal::Unavailable
        | Refusal::MemoryShort
        | Refusal::StorageFull
        | Refusal::StorageFailing
        | Refusal::StateFull
        | Refusal::EntityDamaged(_) => RefusalOutcome::Later,
        Refusal::EntityDeleted => Unreachable::Missing.outcome_for(target),
        Refusal::EntityDisabled => Unreachable::Disabled.outcome_for(target),
        Refusal::EntityFull { .. } => RefusalOutcome::NotNow(why(TARGET_FULL, refusal.to_string())),
        Refusal::SessionIdMissing => {
            RefusalOutcome::Never(why(SESSION_ID_MISSING, SESSION_ID_MISSING_TEXT.to_owned()))
        }
        Refusal::MessageTooLarge { .. } => RefusalOutcome::Never(why(MESSAGE_TOO_LARGE, refusal.to_string())),
        Refusal::HeaderTooLarge { .. } => {
            RefusalOutcome::Never(why(HEADER_SIZE_EXCEEDED, HEADER_SIZE_EXCEEDED_TEXT.to_owned()))
        }
        _ => RefusalOutcome::NotNow(why(OTHER, refusal.to_string())),
    }
}

/// The dead-letter reason for a message sent via another entity, whose transfer dead-letter queue then keeps it; `None` if
/// the refusal is transient, so that another attempt may succeed.
pub(in crate::runtime) fn why_undeliverable(refusal: &Refusal) -> Option<DeadLetter> {
    match outcome_for(refusal, format_args!("The destination")) {
        RefusalOutcome::Later => None,
        RefusalOutcome::Never(why) | RefusalOutcome::Nowhere(why) | RefusalOutcome::NotNow(why) => Some(why),
    }
}

fn why(reason: &str, description: String) -> DeadLetter {
    DeadLetter { reason: Some(reason.into()), description: Some(description.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_a_target_of_forwarding_and_no_destination_of_a_sender() {
        let text = |outcome| match outcome {
            RefusalOutcome::NotNow(why) => why.description,
            other => panic!("{other:?}"),
        };
        let forwarded = text(outcome(&Refusal::EntityDisabled, "q"));
        assert_eq!(forwarded.as_deref(), Some("The target 'q' of forwarding is disabled."));
        let sent_via = why_undeliverable(&Refusal::EntityDeleted).and_then(|why| why.description);
        assert_eq!(sent_via.as_deref(), Some("The destination does not exist."));
    }
}
