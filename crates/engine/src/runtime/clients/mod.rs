//! What clients create by attaching a link: entities that exist as long as their connection (`temporary`), and subscriptions of
//! clients for JMS (`subscribers`). A front end asks for them with a mailbox for the answer, and keeps what it gets in return as
//! long as the client wants them.

mod subscribers;
mod temporary;

pub(super) use self::subscribers::Subscribers;
pub use self::subscribers::{ClientSubscription, SubscriberHold};
pub use self::temporary::{Temporary, TemporaryHold};

use std::future::Future;

use super::{ChangeError, Mailbox, Namespace, Output, Response};
use crate::{DEFAULT_RULE, Filter, Refusal, Rule, Selector, Timestamp};

impl Namespace {
    /// Runs a task on the runtime of the entities, whoever asks for it.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.inner.host.spawner.runtime.spawn(task));
    }
}

/// Answers a request that is not a command to a partition.
fn answer(mailbox: &Mailbox, tag: u64, result: Result<(), Refusal>) {
    mailbox.put(Output::Response { tag, response: Response::Done(result) });
}

/// The rule of a subscription that gets what matches the selector, or every message.
fn rule(selector: Option<Selector>) -> Rule {
    let filter = selector.map_or(Filter::True, |selector| Filter::Selector(Box::new(selector)));
    Rule { name: DEFAULT_RULE.into(), filter, action: None, created_at: Timestamp::default() }
}

/// Why something was not created or deleted, as front ends know it.
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
