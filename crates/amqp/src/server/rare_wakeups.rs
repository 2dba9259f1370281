//! Futures that are rarely ready are polled when one of them has called its waker, not in every turn of their task.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// The waker of a group of rarely ready futures: it wakes their task, and remembers that they have to be polled.
pub(super) struct RareWakeups {
    shared: Arc<Shared>,
    waker: Waker,
}

struct Shared {
    is_due: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl RareWakeups {
    /// The futures have to be polled once, to receive the waker.
    pub(super) fn new() -> Self {
        let shared = Arc::new(Shared { is_due: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { waker: Waker::from(Arc::clone(&shared)), shared }
    }

    /// Whether the futures have to be polled, see [`Self::take`].
    pub(super) fn is_due(&self) -> bool {
        self.shared.is_due.load(Ordering::Relaxed)
    }

    /// Whether the futures have to be polled now, with [`Self::waker`]. From now on a call of that waker wakes `task`.
    pub(super) fn take(&self, task: &Waker) -> bool {
        // In this order, since a future may call the waker in between.
        self.shared.task.register(task);
        self.is_due() && self.shared.is_due.swap(false, Ordering::Acquire)
    }

    /// Has the futures polled in the next turn: one was ready, or there is a new one.
    pub(super) fn repeat(&self) {
        self.shared.is_due.store(true, Ordering::Relaxed);
    }

    /// The waker for the futures.
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl fmt::Debug for RareWakeups {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RareWakeups").field("is_due", &self.is_due()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn futures_are_due_at_first_and_after_each_call_of_their_waker() {
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        let task = Waker::from(Arc::clone(&woken));
        let wakeups = RareWakeups::new();
        assert!(wakeups.take(&task) && !wakeups.take(&task));
        for calls in 1..3 {
            wakeups.waker().wake();
            assert_eq!(woken.0.load(Ordering::SeqCst), calls);
            assert!(wakeups.is_due() && wakeups.take(&task) && !wakeups.take(&task));
        }
        wakeups.repeat();
        assert!(wakeups.take(&task));
        assert_eq!(woken.0.load(Ordering::SeqCst), 2, "only the waker wakes the task");
    }
}
