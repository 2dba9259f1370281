//! The access rules, and their updates when entities change.

use std::sync::Arc;

use peeklock_access::Access;
use peeklock_engine::runtime::{Namespace, SystemClock};
use tokio::task::AbortHandle;

use super::openid;
use crate::config::AuthorizationConfig;

/// The tasks that keep an [`Access`] up to date; they end when it is dropped.
pub(super) struct Following([AbortHandle; 2]);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Tokens are checked by the broker's real time, not by the clock that tests can move.
pub(super) fn start(
    namespace: &Namespace,
    config: &AuthorizationConfig,
    clock: SystemClock,
) -> (Access, Following) {
    if !config.required {
        tracing::warn!("AUTHORIZATION IS OFF: every client that reaches the broker may do everything");
    }
    let access = Access::new(config.policy(), Arc::new(namespace.clone()), Arc::new(clock));
    let (told, mut changes) = (access.clone(), namespace.changes());
    let entities = tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            told.entities_changed();
        }
    });
    let keys = tokio::spawn(openid::run(access.clone(), openid::fetch));
    (access, Following([entities.abort_handle(), keys.abort_handle()]))
}
