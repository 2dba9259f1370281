//! What becomes of a message that can't go on (semantics §14.1, §9).

use crate::{DeadLetter, Refusal};

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RefusalOutcome {
    /// It stays where it is, and so do those behind it, until a later attempt.
    Later,
    /// This target will never take it: it goes to the dead letters, or waits there for another target.
    Never(DeadLetter),
    /// No target will ever take it: it goes to the dead letters, and from there to the transfer dead letters.
    Nowhere(DeadLetter),
    /// The target does not take it now: it goes to the dead letters, or waits there.
    NotNow(DeadLetter),
}

/// A target that can't be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// There is none of this name.
    Missing,
    /// It takes no messages.
    Disabled,
}

impl Unreachable {
    /// What becomes of messages for it.
    pub(super) fn outcome(self, target: &str) -> RefusalOutcome {
        let (reason, text) = match self {
            Self::Missing => ("MessagingEntityNotFoundException", "does not exist"),
            Self::Disabled => ("MessagingEntityDisabledException", "is disabled"),
        };
        RefusalOutcome::NotNow(why(reason, format!("The target '{target}' of forwarding {text}.")))
    }
}

/// A message that was forwarded as often as allowed.
pub(super) fn too_many_hops() -> RefusalOutcome {
    let text = format!("The message was forwarded {} times, which is the limit.", crate::HOPS_MAX);
    RefusalOutcome::Nowhere(why("MaxTransferHopCountExceeded", text))
}

/// What a target's refusal means for the message.
pub(super) fn outcome(refusal: &Refusal, target: &str) -> RefusalOutcome {
    match refusal {
        Refusal::Unavailable
        | Refusal::MemoryShort
        | Refusal::StorageFull
        | Refusal::StateFull
        | Refusal::EntityDamaged(_) => RefusalOutcome::Later,
        Refusal::EntityDeleted => Unreachable::Missing.outcome(target),
        Refusal::EntityDisabled => Unreachable::Disabled.outcome(target),
        Refusal::EntityFull { .. } => {
            RefusalOutcome::NotNow(why("QuotaExceededException", refusal.to_string()))
        }
        Refusal::SessionIdMissing => RefusalOutcome::Never(why(
            "Session ID is null",
            "Session enabled entity doesn't allow a message whose session identifier is null.".to_owned(),
        )),
        Refusal::MessageTooLarge { .. } => {
            RefusalOutcome::Never(why("MessageSizeExceededException", refusal.to_string()))
        }
        Refusal::HeaderTooLarge { .. } => RefusalOutcome::Never(why(
            "HeaderSizeExceeded",
            "The size quota for this stream has been exceeded.".to_owned(),
        )),
        _ => RefusalOutcome::NotNow(why("MessagingException", refusal.to_string())),
    }
}

/// Why a message that was to go by way of another entity is kept there; `None` if it is not to be: another attempt may go well.
pub(in crate::runtime) fn why_undeliverable(refusal: &Refusal) -> Option<DeadLetter> {
    match outcome(refusal, "the destination") {
        RefusalOutcome::Later => None,
        RefusalOutcome::Never(why) | RefusalOutcome::Nowhere(why) | RefusalOutcome::NotNow(why) => Some(why),
    }
}

fn why(reason: &str, description: String) -> DeadLetter {
    DeadLetter { reason: Some(reason.into()), description: Some(description.into()) }
}
