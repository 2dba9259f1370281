//! The task that runs a [`Node`] against a table, and its interface for the rest of the process.

mod membership;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use peeklock_storage::ShardId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::{
    Answer, Elapsed, LeaseTable, News, Node, NodeInfo, NodeName, Settings, Standing, TableError, Tenure,
};

pub use self::membership::{Contact, Ended, Membership};

/// How long the record of a release or departure is awaited while the table does not answer, and the lease has expired by
/// itself.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// A running node: it renews its leases, takes free ones, and reports both. Dropping it stops that; other nodes can
/// take its leases after [`Settings::silent_after`].
pub struct Member {
    commands: mpsc::UnboundedSender<Command>,
    states: Arc<States>,
    elapsed: Elapsed,
    /// See [`Settings::silent_after`].
    silent_after: Duration,
    task: AbortHandle,
}

/// State of the task that is visible from outside.
struct States {
    memberships: BTreeMap<ShardId, watch::Sender<Option<Membership>>>,
    waiting: watch::Sender<Vec<NodeName>>,
    contact: watch::Sender<Contact>,
}

enum Command {
    Release(ShardId, oneshot::Sender<()>),
    StopAccepting,
    Leave(oneshot::Sender<()>),
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Member").field("contact", &self.contact()).finish_non_exhaustive()
    }
}

impl Member {
    /// Starts to request leases, on the current tokio runtime.
    #[must_use]
    pub fn start(table: Arc<dyn LeaseTable>, info: NodeInfo, settings: Settings, elapsed: Elapsed) -> Self {
        let memberships =
            (0..settings.shards).map(|shard| (ShardId(shard), watch::Sender::new(None))).collect();
        let (waiting, contact) = (watch::Sender::new(Vec::new()), watch::Sender::default());
        let states = Arc::new(States { memberships, waiting, contact });
        let (commands, received) = mpsc::unbounded_channel();
        let (patience, silent_after) = (settings.patience(), settings.silent_after);
        let node = Node::new(info.clone(), settings, elapsed.now());
        let task = Task {
            node,
            info,
            table,
            elapsed: elapsed.clone(),
            patience,
            states: Arc::clone(&states),
            leases: BTreeMap::new(),
            releasing: BTreeMap::new(),
            asked_at: Duration::ZERO,
            is_slow: false,
            was_failing: false,
            name_taken: false,
        };
        let task = tokio::spawn(task.run(received)).abort_handle();
        Self { commands, states, elapsed, silent_after, task }
    }

    /// Resolves when the node has the lease of this shard; never for a shard that does not exist.
    pub async fn gained(&self, shard: ShardId) -> Membership {
        if let Some(membership) = self.states.memberships.get(&shard) {
            let mut membership = membership.subscribe();
            if let Ok(found) = membership.wait_for(Option::is_some).await
                && let Some(found) = found.clone()
            {
                return found;
            }
        }
        std::future::pending().await
    }

    /// The other nodes that would accept a shard now.
    #[must_use]
    pub fn waiting(&self) -> Vec<NodeName> {
        self.states.waiting.borrow().clone()
    }

    /// Stops taking leases, and returns the other nodes that would accept one, by a fresh answer of the table; by its
    /// last answer, if there is none within `within`. Leases already held are kept.
    pub async fn stop_accepting_and_list_candidates(&self, within: Duration) -> Vec<NodeName> {
        let mut waiting = self.states.waiting.subscribe();
        self.stop_accepting();
        // An error means no answer in time, or that the task has ended.
        let _ = tokio::time::timeout(within, waiting.changed()).await;
        self.waiting()
    }

    /// The latest contact with the table.
    #[must_use]
    pub fn contact(&self) -> Contact {
        *self.states.contact.borrow()
    }

    /// The node's elapsed time.
    #[must_use]
    pub const fn elapsed(&self) -> &Elapsed {
        &self.elapsed
    }

    /// Releases a shard that is no longer served, so that another node can have it at once; the tenure ends before.
    /// Returns true when the table has recorded it, and false when the lease has expired by itself meanwhile. The node
    /// may take the shard again unless it belongs to another; while another node waits, only after
    /// [`Settings::silent_after`].
    pub async fn release(&self, shard: ShardId) -> bool {
        let (done, released) = oneshot::channel();
        // An error means that the task has ended, and its leases with it.
        self.commands.send(Command::Release(shard, done)).is_err()
            || timeout(self.lease_lasts(), released).await.is_ok()
    }

    /// The time after which the node's leases have certainly expired by themselves; a short time if they have already.
    /// A table that is slow needs a part of it: the record of a release or departure waits for the commit of a pending
    /// renewal, and then for its own.
    fn lease_lasts(&self) -> Duration {
        let is_recent = |at| self.elapsed.now().saturating_sub(at) < self.silent_after;
        if self.contact().answered_at.is_some_and(is_recent) { self.silent_after } else { RELEASE_WITHIN }
    }

    /// Stops taking leases; those already held are kept.
    pub fn stop_accepting(&self) {
        // Without a task, no lease is taken anyway.
        let _ = self.commands.send(Command::StopAccepting);
    }

    /// Releases everything and removes the node from the table. Returns true when the table has recorded it, and false when
    /// the leases have expired by themselves meanwhile.
    pub async fn leave(&self) -> bool {
        let (done, left) = oneshot::channel();
        // An error means that the task has ended.
        self.commands.send(Command::Leave(done)).is_err() || timeout(self.lease_lasts(), left).await.is_ok()
    }
}

/// Channels that inform the holder of a [`Membership`].
struct LeaseSenders {
    until: watch::Sender<Duration>,
    ended: watch::Sender<Option<Ended>>,
}

/// State of the task; see the module.
struct Task {
    node: Node,
    info: NodeInfo,
    table: Arc<dyn LeaseTable>,
    elapsed: Elapsed,
    /// See [`Settings::patience`].
    patience: Duration,
    states: Arc<States>,
    leases: BTreeMap<ShardId, LeaseSenders>,
    releasing: BTreeMap<ShardId, Vec<oneshot::Sender<()>>>,
    /// When the pending or last request was sent.
    asked_at: Duration,
    /// Whether the table needed longer than the patience when it last answered.
    is_slow: bool,
    was_failing: bool,
    name_taken: bool,
}

/// A pending question to the table.
type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

impl Task {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut asked: Pending<Result<Standing, TableError>> = None;
        // Whether the pending request is lost.
        let mut checked: Pending<bool> = None;
        let mut changed = self.table.changed();
        loop {
            let due = self.node.due().saturating_sub(self.elapsed.now());
            tokio::select! {
                biased;
                answer = answered(&mut asked) => {
                    (asked, checked) = (None, None);
                    self.take_in(answer);
                }
                is_lost = answered(&mut checked) => {
                    checked = None;
                    self.give_up();
                    if is_lost {
                        self.note_failure(&TableError { reason: "no answer in time".to_owned() });
                        asked = Some(self.ask());
                    } else {
                        self.wait();
                    }
                }
                command = commands.recv() => match command {
                    Some(Command::Leave(done)) => {
                        // A request that is no longer polled may hold a resource that the table needs for its answer.
                        drop(asked);
                        return self.leave(done).await;
                    }
                    Some(command) => self.obey(command),
                    None => return,
                },
                () = tokio::time::sleep(due), if checked.is_none() => {
                    self.give_up();
                    match asked {
                        Some(_) => checked = Some(self.check()),
                        None => asked = Some(self.ask()),
                    }
                }
                () = &mut changed => {
                    changed = self.table.changed();
                    self.node.hint(self.elapsed.now());
                }
            }
        }
    }

    fn ask(&mut self) -> Answer<Standing> {
        self.asked_at = self.elapsed.now();
        self.table.renew(self.node.ask(self.asked_at))
    }

    fn wait(&mut self) {
        if !std::mem::replace(&mut self.is_slow, true) {
            let patience = self.patience;
            tracing::warn!(
                ?patience,
                "the table of leases is slow; deliveries pause while a lease is expired"
            );
        }
        self.node.wait(self.elapsed.now());
    }

    /// Whether the pending request is lost, as far as that can be found out in time for another attempt.
    fn check(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let executing = tokio::time::timeout(self.patience / 2, self.table.is_executing());
        Box::pin(async move { !executing.await.unwrap_or(false) })
    }

    fn give_up(&mut self) {
        for news in self.node.give_up(self.elapsed.now()) {
            self.tell(news);
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.elapsed.now();
        match command {
            Command::Release(shard, done) => {
                self.end(shard, &Ended::Lost);
                self.node.release(shard, now);
                if self.node.has(shard) {
                    self.releasing.entry(shard).or_default().push(done);
                } else {
                    let _ = done.send(());
                }
            }
            Command::StopAccepting => self.node.stop_accepting(now),
            // Handled at the end of the loop.
            Command::Leave(done) => drop(done),
        }
    }

    /// Tries once: without success, other nodes can take the leases after a while.
    async fn leave(mut self, done: oneshot::Sender<()>) {
        let shards: Vec<ShardId> = self.leases.keys().copied().collect();
        for shard in shards {
            self.end(shard, &Ended::Lost);
        }
        if let Err(error) = self.table.leave(self.info.clone()).await {
            tracing::warn!(%error, "the node could not be removed from the table of leases");
        }
        let _ = done.send(());
    }

    fn take_in(&mut self, answer: Result<Standing, TableError>) {
        let now = self.elapsed.now();
        match &answer {
            Ok(_) => {
                if std::mem::take(&mut self.was_failing) {
                    tracing::info!("the table of leases answers again");
                }
                self.is_slow &= now.saturating_sub(self.asked_at) >= self.patience;
                self.states.contact.send_modify(|contact| contact.answered_at = Some(now));
            }
            Err(error) => self.note_failure(error),
        }
        for news in self.node.answered(now, answer) {
            self.tell(news);
        }
        let waiting: Vec<NodeName> = self.node.waiting(now).cloned().collect();
        self.states.waiting.send_replace(waiting);
    }

    fn note_failure(&mut self, error: &TableError) {
        self.states.contact.send_modify(|contact| contact.failures += 1);
        if !std::mem::replace(&mut self.was_failing, true) {
            tracing::warn!(%error, "leases can't be renewed; deliveries stop when they expire");
        }
    }

    fn tell(&mut self, news: News) {
        match news {
            News::Gained(shard, until) => self.begin(shard, until),
            News::Renewed(shard, until) => {
                if let Some(senders) = self.leases.get(&shard) {
                    senders.until.send_replace(until);
                }
            }
            News::Lost(shard) => {
                tracing::warn!(shard = shard.0, "the lease of the shard is lost");
                self.end(shard, &Ended::Lost);
                self.answer_releases(shard);
            }
            News::HandOver(shard, to) => {
                tracing::info!(shard = shard.0, %to, "the shard moves to another node");
                if let Some(senders) = self.leases.get(&shard) {
                    senders.ended.send_replace(Some(Ended::HandOver(to)));
                }
            }
            News::Released(shard) => self.answer_releases(shard),
            News::NameTaken(session) => {
                if !std::mem::replace(&mut self.name_taken, true) {
                    tracing::error!(node = %self.info.name, session = session.0, "another process uses the name of this node; give each node a name of its own ([cluster] node)");
                }
            }
        }
    }

    fn answer_releases(&mut self, shard: ShardId) {
        for done in self.releasing.remove(&shard).unwrap_or_default() {
            let _ = done.send(());
        }
    }

    fn begin(&mut self, shard: ShardId, until: Duration) {
        let senders = LeaseSenders { until: watch::Sender::new(until), ended: watch::Sender::new(None) };
        let tenure = Tenure::new(self.elapsed.clone(), senders.until.subscribe());
        let membership = Membership { shard, tenure, ended: senders.ended.subscribe() };
        self.leases.insert(shard, senders);
        if let Some(shown) = self.states.memberships.get(&shard) {
            shown.send_replace(Some(membership));
        }
    }

    fn end(&mut self, shard: ShardId, how: &Ended) {
        if let Some(shown) = self.states.memberships.get(&shard) {
            shown.send_replace(None);
        }
        if let Some(senders) = self.leases.remove(&shard) {
            senders.until.send_replace(Duration::ZERO);
            senders.ended.send_replace(Some(how.clone()));
        }
    }
}

/// The answer to the pending question; never resolves without one.
async fn answered<T>(pending: &mut Pending<T>) -> T {
    match pending {
        Some(pending) => pending.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
