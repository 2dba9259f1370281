//! Temporary queues, topics and subscriptions: they exist as long as the hold of their creator.
//!
//! They are stored like others, because their messages are, and are deleted when their hold is dropped. Those left over
//! when the broker stopped or was killed are deleted at the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{answer, refusal, rule};
use crate::runtime::{ChangeError, Mailbox, Namespace};
use crate::{EntityOptions, Selector, SubscriptionOptions};

/// A temporary entity to be created.
#[derive(Debug, Clone)]
pub enum Temporary {
    /// A queue or topic.
    Entity {
        /// Its name.
        name: String,
        /// Its options.
        options: EntityOptions,
    },
    /// A subscription.
    Subscription {
        /// Its topic.
        topic: String,
        /// Its name.
        name: String,
        /// Its options.
        options: SubscriptionOptions,
        /// Selects its messages; all if `None`.
        selector: Option<Selector>,
    },
}

/// The path of a temporary entity.
#[derive(Debug, Clone)]
enum Path {
    Entity(String),
    Subscription { topic: String, name: String },
}

/// Owns a temporary entity: it is deleted when this is dropped.
pub struct TemporaryHold {
    namespace: Namespace,
    path: Path,
    is_dropped: Arc<AtomicBool>,
}

impl std::fmt::Debug for TemporaryHold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("TemporaryHold").field(&self.path).finish()
    }
}

impl Drop for TemporaryHold {
    fn drop(&mut self) {
        // The creating task checks the flag after the creation, so either that task or the removal below finds the entity.
        self.is_dropped.store(true, Ordering::SeqCst);
        let (namespace, path) = (self.namespace.clone(), self.path.clone());
        self.namespace.spawn(async move { namespace.remove(&path).await });
    }
}

impl Namespace {
    /// Creates a temporary entity; [`super::super::Response::Done`] is sent to the mailbox once it exists durably.
    #[must_use = "what was created is deleted when the hold is dropped"]
    pub fn create_temporary(&self, wanted: Temporary, mailbox: Mailbox, tag: u64) -> TemporaryHold {
        let path = match &wanted {
            Temporary::Entity { name, .. } => Path::Entity(name.clone()),
            Temporary::Subscription { topic, name, .. } => {
                Path::Subscription { topic: topic.clone(), name: name.clone() }
            }
        };
        let is_dropped = Arc::new(AtomicBool::new(false));
        let hold = TemporaryHold {
            namespace: self.clone(),
            path: path.clone(),
            is_dropped: Arc::clone(&is_dropped),
        };
        let namespace = self.clone();
        self.spawn(async move {
            let created = namespace.create_one(wanted).await;
            if created.is_ok() && is_dropped.load(Ordering::SeqCst) {
                namespace.remove(&path).await;
            }
            answer(&mailbox, tag, created.map_err(refusal));
        });
        hold
    }

    async fn create_one(&self, wanted: Temporary) -> Result<(), ChangeError> {
        match wanted {
            Temporary::Entity { name, options } => {
                self.create(&name, options.with_temporary(true)).await.map(drop)
            }
            Temporary::Subscription { topic, name, options, selector } => {
                self.create_subscription(&topic, &name, options, vec![rule(selector)]).await.map(drop)
            }
        }
    }

    /// Deletes a temporary entity, unless it is already deleted.
    async fn remove(&self, path: &Path) {
        let result = match path {
            Path::Entity(name) => self.delete(name).await,
            Path::Subscription { topic, name } => {
                self.delete_subscription(topic, name).await.map(drop).map_err(ChangeError::from)
            }
        };
        match result {
            Ok(()) | Err(ChangeError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(?path, %error, "a temporary entity could not be deleted; the next start deletes it");
            }
        }
    }

    /// Deletes left-over temporary entities and subscriptions: at a start no holds on them exist.
    pub(in crate::runtime) async fn remove_left_over(&self) {
        let mut left = Vec::new();
        for entity in self.inner.directory.all() {
            if entity.options().is_temporary() {
                left.push(Path::Entity(entity.name.clone()));
                continue;
            }
            let names = entity.subscriptions.temporary_names();
            left.extend(
                names.into_iter().map(|name| Path::Subscription { topic: entity.name.clone(), name }),
            );
        }
        if left.is_empty() {
            return;
        }
        tracing::info!(
            count = left.len(),
            "deleting temporary entities and subscriptions of earlier connections"
        );
        // Concurrently, so that the catalogue deletes many in one batch.
        let runtime = &self.inner.host.spawner.runtime;
        let remove = |path: Path| {
            let namespace = self.clone();
            runtime.spawn(async move { namespace.remove(&path).await })
        };
        let tasks: Vec<_> = left.into_iter().map(remove).collect();
        for task in tasks {
            // A panic was logged by the panic hook.
            let _ = task.await;
        }
    }
}
