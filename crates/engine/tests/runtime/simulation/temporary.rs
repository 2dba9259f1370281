//! A queue that is deleted when idle or on request, and declared again under the same name.

use peeklock_engine::runtime::{ChangeError, StartError};
use peeklock_engine::{QueueId, QueueOptions, Timestamp};
use tokio::task::JoinHandle;

use super::steps::Place;
use super::storage::is_for_a_while;
use super::world::World;

pub(super) const TEMPORARY: &str = "replies";

const IDLE_MS: u64 = 60_000;

/// The queue to be deleted, if it existed, and the outcome.
type Deletion = (Option<QueueId>, Result<(), ChangeError>);

#[derive(Debug, Default)]
pub(super) struct Temporary {
    declaring: Option<JoinHandle<Result<(), StartError>>>,
    /// The deletion in progress.
    deleting: Option<JoinHandle<Deletion>>,
    /// Whether it may have been deleted on request.
    asked: bool,
    /// Deleted queues.
    gone: Vec<QueueId>,
    /// All queues that ever had the name.
    known: Vec<QueueId>,
    /// The current queue of that name, and its last use if that is certain.
    present: Option<(QueueId, Option<Timestamp>)>,
}

impl Temporary {
    pub(super) fn knows(&self, queue: QueueId) -> bool {
        self.known.contains(&queue)
    }

    /// A queue responded to a request submitted at `at`, so it was used then or later.
    pub(super) fn used(&mut self, queue: QueueId, at: Timestamp) {
        if let Some((_, used)) = self.present.as_mut().filter(|(present, _)| *present == queue) {
            *used = Some(at);
        }
    }

    /// Earlier uses may have been lost.
    pub(super) fn restarted(&mut self) {
        self.declaring = None;
        self.deleting = None;
        if let Some((_, used)) = &mut self.present {
            *used = None;
        }
    }
}

impl World {
    /// Declares it; the declaration is finished when it is durable.
    pub(super) fn declare_temporary(&mut self) {
        if self.temporary.declaring.is_none() {
            let namespace = self.broker.namespace.clone();
            let options = QueueOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..QueueOptions::default() };
            let declare = async move { namespace.declare(TEMPORARY, options).await };
            self.temporary.declaring = Some(tokio::spawn(declare));
        }
    }

    /// Deletes it; the deletion is finished when it is durable.
    pub(super) fn delete_temporary(&mut self) {
        if self.temporary.deleting.is_none() {
            let namespace = self.broker.namespace.clone();
            let delete = async move {
                let found = namespace.describe(TEMPORARY).map(|found| found.queue);
                (found, namespace.delete(TEMPORARY).await)
            };
            self.temporary.asked = true;
            self.temporary.deleting = Some(tokio::spawn(delete));
        }
    }

    async fn observe_deletion(&mut self) {
        let Some(deleting) = self.temporary.deleting.take_if(|deleting| deleting.is_finished()) else {
            return;
        };
        match deleting.await.expect("deleting does not panic") {
            (found, Ok(())) => self.temporary.gone.extend(found),
            (_, Err(ChangeError::NotFound { .. })) => {}
            (_, Err(ChangeError::Store(error))) if self.was_full && is_for_a_while(&error) => {}
            (_, Err(_)) if self.in_doubt || self.reads_fail => {}
            (_, other) => panic!("{other:?}"),
        }
    }

    pub(super) async fn observe_temporary(&mut self) {
        self.observe_deletion().await;
        if let Some(declaring) = self.temporary.declaring.take_if(|declaring| declaring.is_finished()) {
            let declared = declaring.await.expect("declaring does not panic");
            let full = matches!(&declared, Err(StartError::Storage(error)) if is_for_a_while(error));
            assert!(declared.is_ok() || (full && self.was_full) || self.in_doubt, "{declared:?}");
        }
        let now = self.now();
        let found = self.find(Place::Temporary).map(|address| address.queue);
        let Temporary { present, known, asked, gone, .. } = &mut self.temporary;
        assert!(found.is_none_or(|found| !gone.contains(&found)), "{found:?} was deleted and is back");
        if let Some((gone, used)) = present.filter(|(queue, _)| Some(*queue) != found) {
            let idle = used.is_none_or(|used| used.plus_ms(IDLE_MS) <= now);
            assert!(idle || *asked, "{gone:?} was deleted at {now:?}, used at {used:?}");
            *present = None;
            *asked = false;
        }
        if let (Some(queue), None) = (found, *present) {
            *present = Some((queue, None));
            if !known.contains(&queue) {
                known.push(queue);
            }
        }
    }
}
