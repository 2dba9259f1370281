//! The actor's view of its right to send output (tenure).
//!
//! While the right is away, the actor accepts neither requests nor timers and sends nothing; output that became durable
//! meanwhile is sent when the right returns. Clients are not notified: to them it is a pause.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::runtime::Tenure;
use crate::runtime::host::FailureScope;

/// See the module. Without a port, the right always holds.
#[derive(Default)]
pub(super) struct Tenancy {
    port: Option<Arc<dyn Tenure>>,
    /// Whether the right was away at the last check, or output is still held back.
    is_away: bool,
    /// Resolves to true if the shard is lost before the right returns; this is the only way the actor learns of the loss then.
    waiting: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

/// What the actor may do at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    /// All output is allowed.
    Granted,
    /// The same again after a pause: output that was held back may be sent.
    Restored,
    /// Nothing; the actor is woken when that changes.
    Withheld,
    /// Nothing any more: the shard is lost.
    Lost,
}

impl Tenancy {
    pub(super) fn new(port: Option<Arc<dyn Tenure>>) -> Self {
        Self { port, ..Self::default() }
    }

    /// Checks whether output may be sent now. To be repeated after each await.
    pub(super) fn check(&mut self) -> bool {
        let Some(port) = &self.port else { return true };
        let holds = port.holds();
        // The flag is reset only where held-back output is released.
        self.is_away |= !holds;
        holds
    }

    /// Whether output was held back since [`Self::poll`] last found the right.
    pub(super) const fn is_away(&self) -> bool {
        self.is_away
    }

    /// Whether messages may be delivered.
    pub(super) fn delivers(&self) -> bool {
        self.port.as_ref().is_none_or(|port| port.delivers())
    }

    /// Resets the flag, because held-back output is released now.
    pub(super) const fn output_released(&mut self) {
        self.is_away = false;
    }

    /// Returns the actor's present permissions.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, scope: &FailureScope) -> Permission {
        let Some(port) = &self.port else { return Permission::Granted };
        loop {
            if port.holds() {
                self.waiting = None;
                return if std::mem::take(&mut self.is_away) {
                    Permission::Restored
                } else {
                    Permission::Granted
                };
            }
            self.is_away = true;
            let waiting = self.waiting.get_or_insert_with(|| {
                let (returns, scope) = (port.returns(), scope.clone());
                Box::pin(async move {
                    tokio::select! {
                        _ = scope.watch() => true,
                        () = returns => false,
                    }
                })
            });
            let Poll::Ready(is_lost) = waiting.as_mut().poll(context) else { return Permission::Withheld };
            self.waiting = None;
            if is_lost {
                return Permission::Lost;
            }
            // The right may be away again.
        }
    }
}
