//! Work that can't be interrupted but takes longer than a task's turn should: the messages of a batch, or of a transaction,
//! are published together, and a topic may have thousands of long filters; a subscription is deleted with all its messages,
//! and the state of an entity is freed with all of them.

use tokio::runtime::{Handle, RuntimeFlavor};

use super::actor::TURN_VISITS_MAX;
use crate::partition::Partition;

/// Carries out work with an estimated number of visits (see [`crate::partition::Outputs`]). Other tasks that wait for this
/// thread are moved to another one first, if there is much to do; in a runtime of one thread they wait.
pub(super) fn carry_out<T>(visits: usize, work: impl FnOnce() -> T) -> T {
    let has_threads =
        || Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if visits > TURN_VISITS_MAX && has_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// Drops the state of a partition.
pub(super) fn free(partition: Partition) {
    carry_out(partition.message_count(), || drop(partition));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_meanwhile() {
        let (other, result) = mpsc::channel();
        let long = tokio::spawn(async move {
            tokio::spawn(async move { other.send(()).unwrap() });
            carry_out(TURN_VISITS_MAX + 1, || result.recv_timeout(Duration::from_secs(60)))
        });
        long.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn in_a_runtime_of_one_thread_the_work_is_done_too() {
        assert_eq!(carry_out(usize::MAX, || 7), 7);
    }
}
