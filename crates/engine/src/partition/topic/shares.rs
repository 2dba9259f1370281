//! Who gets a message: every rule of every subscription is asked once.

use smallvec::{SmallVec, smallvec};

use crate::{QueueId, Subject, Subscription};

/// One copy that a subscription is to get. A subscription may get several: all matching rules without action make one
/// together, and each with an action makes one more.
pub(super) struct Share {
    /// Which subscription.
    pub(super) queue: QueueId,
}

/// What a subscription is to get of a message: no share when none of its rules matches.
pub(super) fn shares(subscription: &Subscription, subject: &Subject<'_>) -> SmallVec<[Share; 1]> {
    if subscription.rules.iter().any(|rule| rule.filter.matches(subject, &mut || 0) == Ok(true)) {
        smallvec![Share { queue: subscription.queue }]
    } else {
        SmallVec::new()
    }
}
