//! The one armed timer of an actor.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use crate::Timestamp;
use crate::runtime::Clock;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Wakes the actor at its partition's earliest deadline or before. A deadline that moved later (the oldest lock's often
/// does) keeps the timer as armed, because an early wake-up is cheaper than a new timer.
#[derive(Default)]
pub(super) struct Alarm {
    armed: Option<(Timestamp, Sleep)>,
}

impl Alarm {
    /// Makes the alarm fire at `deadline` at the latest.
    pub(super) fn arm(&mut self, clock: &dyn Clock, deadline: Option<Timestamp>) {
        let Some(deadline) = deadline.filter(|deadline| *deadline != Timestamp::NEVER) else { return };
        if self.armed.as_ref().is_none_or(|(armed, _)| deadline < *armed) {
            self.armed = Some((deadline, clock.sleep_until(deadline)));
        }
    }

    /// Returns whether the alarm fired, and disarms it if so.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let fired = self.armed.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(context).is_ready());
        if fired {
            self.armed = None;
        }
        fired
    }
}
