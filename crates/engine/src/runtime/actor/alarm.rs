//! The one armed timer of an actor.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use crate::Timestamp;
use crate::runtime::Clock;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Wakes the actor at its partition's earliest deadline, or earlier: a deadline that moved away, as that of the oldest
/// lock does all the time, is not worth a new timer.
#[derive(Default)]
pub(super) struct Alarm {
    armed: Option<(Timestamp, Sleep)>,
}

impl Alarm {
    /// Sees to it that the alarm fires at `deadline` at the latest.
    pub(super) fn arm(&mut self, clock: &dyn Clock, deadline: Option<Timestamp>) {
        let Some(deadline) = deadline.filter(|deadline| *deadline != Timestamp::NEVER) else { return };
        if self.armed.as_ref().is_none_or(|(armed, _)| deadline < *armed) {
            self.armed = Some((deadline, clock.sleep_until(deadline)));
        }
    }

    /// Whether it fired; it is disarmed then.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let fired = self.armed.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(context).is_ready());
        if fired {
            self.armed = None;
        }
        fired
    }
}
