//! What becomes of a message that can't go on (semantics §14.1, §9).

use crate::{DeadLetter, Refusal};

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
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
    pub(super) fn fate(self, target: &str) -> Fate {
        let (reason, text) = match self {
            Self::Missing => ("MessagingEntityNotFoundException", "does not exist"),
            Self::Disabled => ("MessagingEntityDisabledException", "is disabled"),
        };
        Fate::NotNow(why(reason, format!("The target '{target}' of forwarding {text}.")))
    }
}

/// A message that was forwarded as often as allowed.
pub(super) fn too_many_hops() -> Fate {
    let text = format!("The message was forwarded {} times, which is the limit.", crate::HOPS_MAX);
    Fate::Nowhere(why("MaxTransferHopCountExceeded", text))
}

/// What a target's refusal means for the message.
pub(super) fn fate(refusal: &Refusal, target: &str) -> Fate {
    match refusal {
        Refusal::Unavailable | Refusal::MemoryShort | Refusal::StorageFull | Refusal::EntityDamaged(_) => {
            Fate::Later
        }
        Refusal::EntityDeleted => Unreachable::Missing.fate(target),
        Refusal::EntityDisabled => Unreachable::Disabled.fate(target),
        Refusal::EntityFull { .. } => Fate::NotNow(why("QuotaExceededException", refusal.to_string())),
        Refusal::SessionIdMissing => Fate::Never(why(
            "Session ID is null",
            "Session enabled entity doesn't allow a message whose session identifier is null.".to_owned(),
        )),
        Refusal::MessageTooLarge { .. } => {
            Fate::Never(why("MessageSizeExceededException", refusal.to_string()))
        }
        Refusal::HeaderTooLarge { .. } => Fate::Never(why(
            "HeaderSizeExceeded",
            "The size quota for this stream has been exceeded.".to_owned(),
        )),
        _ => Fate::NotNow(why("MessagingException", refusal.to_string())),
    }
}

/// Why a message that was to go by way of another entity is kept there; `None` if it is not to be: another attempt may go well.
pub(in crate::runtime) fn why_undeliverable(refusal: &Refusal) -> Option<DeadLetter> {
    match fate(refusal, "the destination") {
        Fate::Later => None,
        Fate::Never(why) | Fate::Nowhere(why) | Fate::NotNow(why) => Some(why),
    }
}

fn why(reason: &str, description: String) -> DeadLetter {
    DeadLetter { reason: Some(reason.into()), description: Some(description.into()) }
}
