//! Queues and topics. The catalogue creates and changes them; a deletion starts in the partition, so that attached clients
//! are notified and nothing is accepted any more before the stored state is deleted.

use super::{EntityDescription, EntityKind, carry_out, not_found};
use crate::names::name_key;
use crate::runtime::catalogue::CatalogueRequest;
use crate::runtime::{ChangeError, Namespace};
use crate::{Command, EntityOptions, Intent};

impl Namespace {
    /// Creates a queue or topic, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn create(
        &self,
        name: &str,
        options: impl Into<EntityOptions>,
    ) -> Result<EntityDescription, ChangeError> {
        self.change(Intent::Create, name, options.into()).await
    }

    /// Replaces all options of a queue or topic, durably.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing changed then.
    pub async fn update(
        &self,
        name: &str,
        options: impl Into<EntityOptions>,
    ) -> Result<EntityDescription, ChangeError> {
        self.change(Intent::Update, name, options.into()).await
    }

    async fn change(
        &self,
        intent: Intent,
        name: &str,
        options: EntityOptions,
    ) -> Result<EntityDescription, ChangeError> {
        self.declare_as(intent, vec![(name.to_owned(), options)]).await?;
        self.describe(name).ok_or_else(|| not_found(name))
    }

    /// Deletes a queue, or a topic with its subscriptions, and everything in it, durably. Attached links are closed.
    ///
    /// # Errors
    /// [`ChangeError`]. If the store refuses, the entity is nevertheless gone until a restart; repeating the call, or the
    /// next change of any entity, deletes it again.
    pub async fn delete(&self, name: &str) -> Result<(), ChangeError> {
        let key = name_key(name);
        let Some(entity) = self.inner.directory.get(&key) else {
            // Either left over from a deletion that the store refused, or it does not exist.
            return Ok(self
                .inner
                .host
                .ask_catalogue(CatalogueRequest::Erase { id: None, key })
                .await
                .map(|_| ())?);
        };
        let ended = carry_out(&entity.handle(), Command::EndEntity).await;
        // The catalogue is notified of the end before it receives this request.
        self.inner.host.ask_catalogue(CatalogueRequest::Erase { id: Some(entity.id), key }).await?;
        match ended {
            // The refusal may also stem from another refused batch.
            Err(refusal) if self.inner.directory.by_id(entity.id).is_some() => {
                Err(ChangeError::refused(name, refusal))
            }
            Err(crate::Refusal::EntityDeleted) => Err(not_found(name)),
            _ => Ok(()),
        }
    }

    /// A queue or topic; names match case-insensitively.
    #[must_use]
    pub fn describe(&self, name: &str) -> Option<EntityDescription> {
        Some(self.inner.directory.get(&name_key(name))?.describe())
    }

    /// Queues or topics in the order of their names, without regard to case: `top` of them after the first `skip`.
    #[must_use]
    pub fn describe_all(&self, kind: EntityKind, skip: usize, top: usize) -> Vec<EntityDescription> {
        self.inner.directory.page(kind, skip, top).iter().map(|entity| entity.describe()).collect()
    }
}
