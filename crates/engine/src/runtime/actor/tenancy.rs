//! What an actor knows of the right to hand out anything.
//!
//! While it is away an actor takes neither requests nor timers and lets nothing go; what became durable meanwhile leaves when
//! the right returns. Nobody is told: to clients it is a pause.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::runtime::Tenure;
use crate::runtime::host::FailureScope;

/// See the module. Without a port the right is always there.
#[derive(Default)]
pub(super) struct Tenancy {
    port: Option<Arc<dyn Tenure>>,
    /// As of the last look.
    is_away: bool,
    /// True when the shard is lost first: one that was told to stop hears of that here only.
    waiting: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

/// What an actor may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Everything.
    Given,
    /// Everything again: what was held back may leave.
    Returned,
    /// Nothing; the actor is woken when that changes.
    Denied,
    /// Nothing ever again: the shard is lost.
    Lost,
}

impl Tenancy {
    pub(super) fn new(port: Option<Arc<dyn Tenure>>) -> Self {
        Self { port, ..Self::default() }
    }

    /// Whether anything may leave at this moment. Asked again after each await.
    pub(super) fn look(&mut self) -> bool {
        let Some(port) = &self.port else { return true };
        let holds = port.holds();
        // That it was away is forgotten only where what was held back is let go.
        self.is_away |= !holds;
        holds
    }

    /// Whether something was held back since the last time that [`Self::poll`] found the right there.
    pub(super) const fn is_away(&self) -> bool {
        self.is_away
    }

    /// Whether messages may be delivered.
    pub(super) fn delivers(&self) -> bool {
        self.port.as_ref().is_none_or(|port| port.delivers())
    }

    /// What was held back is let go now.
    pub(super) const fn forget(&mut self) {
        self.is_away = false;
    }

    /// What the actor may do now.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, scope: &FailureScope) -> Leave {
        let Some(port) = &self.port else { return Leave::Given };
        loop {
            if port.holds() {
                self.waiting = None;
                return if std::mem::take(&mut self.is_away) { Leave::Returned } else { Leave::Given };
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
            let Poll::Ready(is_lost) = waiting.as_mut().poll(context) else { return Leave::Denied };
            self.waiting = None;
            if is_lost {
                return Leave::Lost;
            }
            // It may be away again.
        }
    }
}
