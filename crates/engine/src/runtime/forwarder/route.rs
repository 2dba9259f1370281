//! Finds the target of a forwarder.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use tokio::sync::watch;

use crate::runtime::namespace::Inner;
use crate::runtime::{EntityRef, Namespace, PartitionHandle};
use crate::{EntityOptions, MessageView, ReceiverId, RuleProperties};

/// Reads the properties that rules evaluate out of an encoded message, with the changes made by actions and receivers and
/// the dead-letter reason applied.
pub type ReadRuleProperties = fn(&Bytes, &MessageView) -> Option<RuleProperties>;

/// The forwarders' access to the namespace; does not keep it alive.
#[derive(Clone)]
pub(in crate::runtime) struct Routes {
    namespace: Arc<OnceLock<Weak<Inner>>>,
    read_rule_properties: Option<ReadRuleProperties>,
}

impl Routes {
    /// Routes that find nothing until [`Self::open`].
    pub(in crate::runtime) fn new(read_rule_properties: Option<ReadRuleProperties>) -> Self {
        Self { namespace: Arc::default(), read_rule_properties }
    }

    /// Sets the namespace in which targets are found.
    pub(in crate::runtime) fn open(&self, inner: &Arc<Inner>) {
        // Only the start of the namespace calls this, once.
        let _ = self.namespace.set(Arc::downgrade(inner));
    }

    fn namespace(&self) -> Option<Namespace> {
        Some(Namespace { inner: self.namespace.get()?.upgrade()? })
    }

    /// A new id for a receiver of this partition; `None` when the namespace is gone.
    pub(super) fn next_receiver_id(&self, partition: &PartitionHandle) -> Option<ReceiverId> {
        Some(self.namespace()?.next_receiver_id(partition))
    }

    /// The entity of this name.
    pub(super) fn find(&self, name: &str) -> Option<EntityRef> {
        self.namespace()?.entity(name)
    }

    /// The options of the entity of this name, which need not run for that.
    pub(super) fn options(&self, name: &str) -> Option<Arc<EntityOptions>> {
        self.namespace()?.options(name)
    }

    /// A counter that changes whenever an entity is created or deleted, or its options change.
    pub(super) fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.namespace()?.changes())
    }

    /// The properties of a message that rules evaluate.
    pub(super) fn rule_properties(&self, content: &Bytes, view: &MessageView) -> Option<Arc<RuleProperties>> {
        self.read_rule_properties?(content, view).map(Arc::new)
    }
}
