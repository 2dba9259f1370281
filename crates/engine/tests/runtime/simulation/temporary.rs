//! A queue that is deleted when nobody uses it or somebody asks for it, and declared again under the same name.

use peeklock_engine::runtime::{ChangeError, StartError};
use peeklock_engine::{QueueId, QueueOptions, Timestamp};
use peeklock_storage::Error;
use tokio::task::JoinHandle;

use super::steps::Place;
use super::world::World;

pub(super) const TEMPORARY: &str = "replies";

const IDLE_MS: u64 = 60_000;

/// Which one was deleted, and how that went.
type Deletion = (Option<QueueId>, Result<(), ChangeError>);

#[derive(Debug, Default)]
pub(super) struct Temporary {
    declaring: Option<JoinHandle<Result<(), StartError>>>,
    /// Which one was to be deleted, if any, and how that went.
    deleting: Option<JoinHandle<Deletion>>,
    /// Whether it may be gone because somebody asked for it.
    asked: bool,
    /// Deleted for good.
    gone: Vec<QueueId>,
    /// All that ever had the name.
    known: Vec<QueueId>,
    /// The one that has it, and when it was used last, if that is certain.
    present: Option<(QueueId, Option<Timestamp>)>,
}

impl Temporary {
    pub(super) fn knows(&self, queue: QueueId) -> bool {
        self.known.contains(&queue)
    }

    /// A queue answered to what was submitted then, so it was used then or later.
    pub(super) fn used(&mut self, queue: QueueId, at: Timestamp) {
        if let Some((_, used)) = self.present.as_mut().filter(|(present, _)| *present == queue) {
            *used = Some(at);
        }
    }

    /// Uses may have been forgotten.
    pub(super) fn restarted(&mut self) {
        self.declaring = None;
        self.deleting = None;
        if let Some((_, used)) = &mut self.present {
            *used = None;
        }
    }
}

impl World {
    /// Declares it; that takes until it is durable.
    pub(super) fn declare_temporary(&mut self) {
        if self.temporary.declaring.is_none() {
            let namespace = self.broker.namespace.clone();
            let options = QueueOptions { auto_delete_on_idle_ms: Some(IDLE_MS), ..QueueOptions::default() };
            let declare = async move { namespace.declare(TEMPORARY, options).await };
            self.temporary.declaring = Some(tokio::spawn(declare));
        }
    }

    /// Deletes it; that takes until it is durable.
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
            (_, Err(ChangeError::Store(Error::Full { .. }))) if self.was_full => {}
            (_, Err(_)) if self.in_doubt || self.reads_fail => {}
            (_, other) => panic!("{other:?}"),
        }
    }

    pub(super) async fn observe_temporary(&mut self) {
        self.observe_deletion().await;
        if let Some(declaring) = self.temporary.declaring.take_if(|declaring| declaring.is_finished()) {
            let declared = declaring.await.expect("declaring does not panic");
            let full = matches!(declared, Err(StartError::Storage(Error::Full { .. })));
            assert!(declared.is_ok() || (full && self.was_full) || self.in_doubt, "{declared:?}");
        }
        let now = self.now();
        let found = self.find(Place::Temporary).map(|address| address.queue);
        let was_full = self.was_full;
        let Temporary { present, known, asked, gone, .. } = &mut self.temporary;
        assert!(found.is_none_or(|found| !gone.contains(&found)), "{found:?} was deleted and is back");
        if let Some((gone, used)) = present.filter(|(queue, _)| Some(*queue) != found) {
            let idle = used.is_none_or(|used| used.plus_ms(IDLE_MS) <= now);
            assert!(idle || was_full || *asked, "{gone:?} was deleted at {now:?}, used at {used:?}");
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
