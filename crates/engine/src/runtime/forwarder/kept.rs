//! Dead letters that their target refuses as it is. They stay locked in their queue until the target is another one.

use std::future::pending;
use std::sync::Arc;

use super::Routes;
use crate::EntityOptions;

/// The target that refused them.
pub(super) struct RefusedBy {
    name: Box<str>,
    /// Another entity of that name, and this one after a change, have others.
    options: Arc<EntityOptions>,
}

impl RefusedBy {
    pub(super) fn new(name: &str, options: &Arc<EntityOptions>) -> Self {
        Self { name: name.into(), options: Arc::clone(options) }
    }

    /// Resolves when the target is replaced or deleted, or its options change.
    pub(super) async fn changed(this: Option<&Self>, routes: &Routes) {
        let (Some(Self { name, options }), Some(mut changes)) = (this, routes.changes()) else {
            return pending().await;
        };
        while routes.options(name).is_some_and(|present| Arc::ptr_eq(&present, options)) {
            if changes.changed().await.is_err() {
                // The namespace is gone, and with it the source.
                return pending().await;
            }
        }
    }
}
