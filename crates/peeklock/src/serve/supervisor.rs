//! Notifications for a service manager as in sd_notify(3): ready, reloading, stopping, and watchdog pings. Without
//! `NOTIFY_SOCKET` nothing is sent.
//!
//! Sending blocks while the service manager's socket is full. So a thread of its own sends, in order.

use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use std::{env, thread};

use peeklock_storage::{Batch, Lease};
use sd_notify::NotifyState;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// How long the sending of a notification is awaited: at the end of the process it might not be sent otherwise.
const SENT_WITHIN: Duration = Duration::from_millis(100);

/// A text to be sent, and what is called then.
type Notification = (String, Box<dyn FnOnce() + Send>);

/// The queue of the thread that sends; `None` if there is nobody to send to, or no thread.
static NOTIFIER: OnceLock<Option<mpsc::Sender<Notification>>> = OnceLock::new();

/// Pings per watchdog interval: one or two late pings must not end the process.
const SIGNS_OF_LIFE: u32 = 3;

/// Sets the status for `systemctl status`: the store is being opened.
pub(super) fn starting() {
    notify(&[NotifyState::Status("Starting: opening the store")]);
}

/// Reports that connections are accepted.
pub(super) fn ready(queues: usize, topics: usize) {
    let status = format!("Ready; queues: {queues}, topics: {topics}");
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that a node of a cluster has started and stands by.
pub(super) fn standby() {
    notify(&[NotifyState::Ready, NotifyState::Status("Standby: another node serves")]);
}

/// Reports that the configuration is being read again after SIGHUP.
pub(super) fn reloading() {
    let mut states = vec![NotifyState::Reloading, NotifyState::Status("Reloading the configuration")];
    // Later versions of systemd use this time to match the end of a reload with its begin.
    states.extend(NotifyState::monotonic_usec_now().ok());
    notify(&states);
}

/// Reports the end of a reload. A refused one left the previous configuration in force.
pub(super) fn reloaded(outcome: &Result<usize, String>, is_serving: bool) {
    notify(&[NotifyState::Ready, NotifyState::Status(&reload_status(outcome, is_serving))]);
}

/// The status after a reload; a node that stands by is not ready for clients.
fn reload_status(outcome: &Result<usize, String>, is_serving: bool) -> String {
    let state = if is_serving { "Ready" } else { "Not serving" };
    match outcome {
        Ok(changes) => format!("{state}; reloaded, changes: {changes}"),
        // A status has only one line.
        Err(error) => format!("{state}; reload refused: {}", error.lines().next().unwrap_or_default()),
    }
}

/// Reports that the process is ending and accepts no new connections.
pub(super) fn stopping(reason: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(&format!("Stopping: {reason}"))]);
}

/// Sends watchdog pings until the task is aborted, if the service manager expects them (`WATCHDOG_USEC`). With a lease,
/// only while its store answers.
pub(super) fn keep_alive(lease: Option<Lease>) -> Option<JoinHandle<()>> {
    let patience = sd_notify::watchdog_enabled()?;
    let sign = || async {
        let (sent, done) = oneshot::channel();
        send(&[NotifyState::Watchdog], || {
            let _ = sent.send(());
        });
        let _ = done.await;
    };
    Some(tokio::spawn(async move { signs_of_life(lease.as_ref(), patience / SIGNS_OF_LIFE, sign).await }))
}

/// Sends a ping each time the store answers: its log thread handles batches in order, so an empty batch is answered,
/// without a write, once everything before it is on disk. That this task runs shows that the runtime's threads do.
async fn signs_of_life<F: Future<Output = ()>>(lease: Option<&Lease>, pause: Duration, sign: impl Fn() -> F) {
    // An interval must not be zero.
    let mut ticks = interval(pause.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answers = match lease {
            // A lost store ends the process separately.
            Some(lease) => lease.submit(Batch::new()).await.is_ok(),
            None => true,
        };
        if answers {
            sign().await;
        }
    }
}

/// Sends a notification. If the service manager does not read, it is sent later.
fn notify(states: &[NotifyState<'_>]) {
    let (sent, done) = mpsc::channel();
    send(states, move || {
        let _ = sent.send(());
    });
    // Without a thread, `sent` is dropped at once.
    let _ = done.recv_timeout(SENT_WITHIN);
}

fn send(states: &[NotifyState<'_>], sent: impl FnOnce() + Send + 'static) {
    if let Some(notifier) = NOTIFIER.get_or_init(start_notifier) {
        let text = states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        // An error means that the thread has ended.
        let _ = notifier.send((text, Box::new(sent)));
    }
}

fn start_notifier() -> Option<mpsc::Sender<Notification>> {
    env::var_os(NOTIFY_SOCKET)?;
    let (notifier, notifications) = mpsc::channel::<Notification>();
    let run = move || {
        for (text, sent) in notifications {
            if let Err(error) = sd_notify::notify(&[NotifyState::Custom(&text)]) {
                tracing::warn!(%error, "the service manager can't be notified (NOTIFY_SOCKET)");
            }
            sent();
        }
    };
    match thread::Builder::new().name("notify".to_owned()).spawn(run) {
        Ok(_) => Some(notifier),
        Err(error) => {
            tracing::warn!(%error, "the service manager can't be notified (NOTIFY_SOCKET)");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use peeklock_storage::{Error, MemoryStore, ShardId, Store};

    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    #[test]
    fn a_reload_of_a_node_that_stands_by_does_not_make_it_ready() {
        assert_eq!(reload_status(&Ok(2), true), "Ready; reloaded, changes: 2");
        assert_eq!(reload_status(&Ok(0), false), "Not serving; reloaded, changes: 0");
        let refused = Err("p.toml:1:1: a\nsecond line".to_owned());
        assert_eq!(reload_status(&refused, false), "Not serving; reload refused: p.toml:1:1: a");
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_stop_while_the_store_does_not_answer() {
        let store = MemoryStore::new();
        let lease = store.acquire(ShardId(0)).await.unwrap();
        let signs = AtomicUsize::new(0);
        let given = || signs.load(Ordering::Relaxed);
        let during = async |pauses: u32| {
            let sign = || async {
                signs.fetch_add(1, Ordering::Relaxed);
            };
            let _ = tokio::time::timeout(PAUSE * pauses, signs_of_life(Some(&lease), PAUSE, sign)).await;
        };
        during(3).await;
        assert!(given() >= 3, "{}", given());
        let before = given();
        store.hold();
        during(10).await;
        assert_eq!(given(), before, "the store holds back every answer");
        store.release_all();
        during(1).await;
        assert!(given() > before);
        let before = given();
        store.lose(Error::InDoubt { reason: "test".to_owned() });
        during(10).await;
        assert_eq!(given(), before, "the store is lost");
    }
}
