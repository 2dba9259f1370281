//! One timer over the engine's clock, cheap to reset.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use peeklock_engine::Timestamp;
use peeklock_engine::runtime::Clock;

use crate::endpoint::NowMs;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Fires at or before the wanted time: when a deadline moves later, the armed sleep is left to expire first, so that
/// busy connections do not arm one per turn.
pub(super) struct Timer {
    clock: Arc<dyn Clock>,
    armed: Option<(NowMs, Sleep)>,
}

impl Timer {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, armed: None }
    }

    pub(super) fn now(&self) -> NowMs {
        self.clock.now().0
    }

    /// Whether a sleep was armed for a deadline that is earlier than before: [`Self::poll`] has to be called.
    pub(super) fn arm(&mut self, deadline: Option<NowMs>) -> bool {
        let Some(deadline) = deadline else { return false };
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed <= deadline) {
            return false;
        }
        self.armed = Some((deadline, self.clock.sleep_until(Timestamp(deadline))));
        true
    }

    /// Ready when deadlines have to be checked again.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((_, sleep)) = &mut self.armed else { return Poll::Pending };
        let fired = sleep.as_mut().poll(context);
        if fired.is_ready() {
            self.armed = None;
        }
        fired
    }

    /// Resolves after this time.
    pub(super) fn sleep_ms(&self, duration_ms: u64) -> Sleep {
        self.clock.sleep_until(self.clock.now().plus_ms(duration_ms))
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let armed = self.armed.as_ref().map(|(deadline, _)| deadline);
        formatter.debug_struct("Timer").field("armed", &armed).finish_non_exhaustive()
    }
}
