//! Entities that clients create by attaching a link: temporary ones, which exist as long as their connection (`temporary`),
//! and subscriptions of clients for JMS (`subscribers`). A front end requests them with a mailbox for the answer, and holds
//! the returned guard as long as the client needs them.

mod subscribers;
mod temporary;

pub(super) use self::subscribers::Subscribers;
pub use self::subscribers::{ClientSubscription, SubscriberHold};
pub use self::temporary::{Temporary, TemporaryHold};

use std::future::Future;

use super::{ChangeError, Mailbox, Namespace, Output, Response};
use crate::{DEFAULT_RULE, Filter, Refusal, Rule, Selector, Timestamp};

impl Namespace {
    /// Spawns a task on the entities' runtime, whichever runtime the caller is on.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.inner.host.spawner.runtime.spawn(task));
    }
}

/// Answers a request that is not a command to a partition.
fn answer(mailbox: &Mailbox, tag: u64, result: Result<(), Refusal>) {
    mailbox.put(Output::Response { tag, response: Response::Done(result) });
}

/// The rule of a subscription that receives the messages that match the selector, or all messages.
fn rule(selector: Option<Selector>) -> Rule {
    let filter = selector.map_or(Filter::True, |selector| Filter::Selector(Box::new(selector)));
    Rule { name: DEFAULT_RULE.into(), filter, action: None, created_at: Timestamp::default() }
}

/// Converts an error to the refusal that front ends report.
fn refusal(error: ChangeError) -> Refusal {
    match error {
        ChangeError::NotFound { .. } => Refusal::EntityDeleted,
        ChangeError::Exists { name } => Refusal::SubscriptionExists(name.into()),
        ChangeError::Invalid { reason } => {
            Refusal::InvalidArgument(format!("{}.", reason.trim_end_matches('.')))
        }
        ChangeError::Refused(refusal) => refusal,
        ChangeError::Store(super::StorageError::Full { .. }) => Refusal::StorageFull,
        ChangeError::Store(_) => Refusal::Unavailable,
    }
}
