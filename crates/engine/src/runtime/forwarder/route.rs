//! How a forwarder finds its target.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;

use crate::runtime::namespace::Inner;
use crate::runtime::{EntityRef, Namespace};
use crate::{Facts, MessageView, ReceiverId};

/// Reads what rules see out of an encoded message, under what actions and receivers changed and the reason of
/// dead-lettering.
pub type ReadFacts = fn(&Bytes, &MessageView) -> Option<Facts>;

/// The namespace as forwarders know it: they don't keep it alive.
#[derive(Clone)]
pub(in crate::runtime) struct Routes {
    namespace: Arc<OnceLock<Weak<Inner>>>,
    read_facts: Option<ReadFacts>,
}

impl Routes {
    /// Routes that lead nowhere until [`Self::open`].
    pub(in crate::runtime) fn new(read_facts: Option<ReadFacts>) -> Self {
        Self { namespace: Arc::default(), read_facts }
    }

    /// From now on targets are found.
    pub(in crate::runtime) fn open(&self, inner: &Arc<Inner>) {
        // Only the start of the namespace calls this, once.
        let _ = self.namespace.set(Arc::downgrade(inner));
    }

    fn namespace(&self) -> Option<Namespace> {
        Some(Namespace { inner: self.namespace.get()?.upgrade()? })
    }

    /// A receiver id never used before; `None` when the namespace is gone.
    pub(super) fn next_receiver_id(&self) -> Option<ReceiverId> {
        Some(self.namespace()?.next_receiver_id())
    }

    /// The entity of this name.
    pub(super) fn find(&self, name: &str) -> Option<EntityRef> {
        self.namespace()?.entity(name)
    }

    /// What rules see of a message.
    pub(super) fn facts(&self, content: &Bytes, view: &MessageView) -> Option<Arc<Facts>> {
        self.read_facts?(content, view).map(Arc::new)
    }
}
