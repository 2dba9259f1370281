//! How a forwarder finds its target.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;

use crate::runtime::namespace::Inner;
use crate::runtime::{EntityRef, Namespace, PartitionHandle};
use crate::{MessageView, ReceiverId, RuleProperties};

/// Reads what rules see out of an encoded message, under what actions and receivers changed and the reason of
/// dead-lettering.
pub type ReadRuleProperties = fn(&Bytes, &MessageView) -> Option<RuleProperties>;

/// The namespace as forwarders know it: they don't keep it alive.
#[derive(Clone)]
pub(in crate::runtime) struct Routes {
    namespace: Arc<OnceLock<Weak<Inner>>>,
    read_rule_properties: Option<ReadRuleProperties>,
}

impl Routes {
    /// Routes that lead nowhere until [`Self::open`].
    pub(in crate::runtime) fn new(read_rule_properties: Option<ReadRuleProperties>) -> Self {
        Self { namespace: Arc::default(), read_rule_properties }
    }

    /// From now on targets are found.
    pub(in crate::runtime) fn open(&self, inner: &Arc<Inner>) {
        // Only the start of the namespace calls this, once.
        let _ = self.namespace.set(Arc::downgrade(inner));
    }

    fn namespace(&self) -> Option<Namespace> {
        Some(Namespace { inner: self.namespace.get()?.upgrade()? })
    }

    /// An id never used before for a receiver of this partition; `None` when the namespace is gone.
    pub(super) fn next_receiver_id(&self, partition: &PartitionHandle) -> Option<ReceiverId> {
        Some(self.namespace()?.next_receiver_id(partition))
    }

    /// The entity of this name.
    pub(super) fn find(&self, name: &str) -> Option<EntityRef> {
        self.namespace()?.entity(name)
    }

    /// What rules see of a message.
    pub(super) fn rule_properties(&self, content: &Bytes, view: &MessageView) -> Option<Arc<RuleProperties>> {
        self.read_rule_properties?(content, view).map(Arc::new)
    }
}
