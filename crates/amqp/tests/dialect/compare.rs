//! The engine's messages, counts and activity, compared with the model's; and what must be gone at the end.

use bytes::Bytes;
use peeklock_amqp::wire::message::{Body, Sections};
use peeklock_engine::partition::Activity;
use peeklock_engine::runtime::{PartitionHandle, Response};
use peeklock_engine::{
    Command, ListedRow, Listing, MessageState, QueueId, QueuePath, ReceiveMode, Received, SequenceNumber,
    SubQueue, Timestamp,
};

use super::bus::{Message, Path, Place, Queue};
use super::hearing::split;
use super::world::{ENTITIES, World};

/// A message as engine and model are compared.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    number: u64,
    id: u32,
    place: Place,
    state: MessageState,
    count: u32,
    reason: String,
    /// Of an active message in the main queue.
    expires_ms: Option<u64>,
}

impl World {
    pub(crate) fn find(&self, path: Path) -> Option<(PartitionHandle, QueueId)> {
        match split(path) {
            (topic, Some(name)) => {
                let found = self.broker.namespace.subscription(topic, name)?;
                Some((found.partition, found.queue))
            }
            (name, None) => {
                let found = self.broker.namespace.entity(name)?;
                Some((found.partition, found.queue))
            }
        }
    }

    /// Compares everything.
    pub(crate) async fn compare(&self) {
        for path in ENTITIES {
            let found = self.find(path);
            assert_eq!(found.is_some(), self.bus.exists(path), "{path} exists or not");
            let Some((partition, queue)) = found else { continue };
            if self.bus.check_receives(path).is_err() {
                // Nobody can look at its messages.
                continue;
            }
            let expected = self.bus.source(path).expect("it exists");
            let mut rows = Vec::new();
            for sub_queue in SubQueue::ALL {
                let source = QueuePath { queue, sub_queue };
                rows.extend(peek(&partition, source).await.iter().map(row_of));
            }
            rows.sort_by_key(|row| row.number);
            let wanted: Vec<Row> =
                expected.messages.iter().map(|(number, one)| expected_row(*number, one)).collect();
            assert_eq!(rows, wanted, "the messages of {path}");
        }
        assert_eq!(self.broker.namespace.sums().activity, self.expected_activity());
        self.compare_counts();
    }

    fn compare_counts(&self) {
        let counts = self.broker.namespace.sums().counts;
        let queues: Vec<&Queue> = self.bus.sources().map(|(_, queue)| queue).collect();
        let count = |test: &dyn Fn(&Message) -> bool| {
            let all = queues.iter().flat_map(|queue| queue.messages.values());
            all.filter(|message| test(message)).count() as u64
        };
        assert_eq!(counts.dead_letter, count(&|one| one.place == Place::Dead));
        assert_eq!(counts.scheduled, count(&|one| one.due_ms.is_some()));
        assert_eq!(counts.deferred, count(&|one| one.is_deferred && one.place == Place::Main));
        assert_eq!(counts.active, count(&|one| one.place == Place::Main && one.due_ms.is_none()));
        assert_eq!(counts.transfer_dead_letter, count(&|one| one.place == Place::Transfer));
        assert_eq!(counts.quarantined, 0);
        let roots = ENTITIES.into_iter().filter(|path| !path.contains('/'));
        assert_eq!(counts.size_bytes, roots.map(|path| self.bus.size_bytes(path)).sum::<u64>());
    }

    fn expected_activity(&self) -> Activity {
        let mut sum = Activity::default();
        for (_, queue) in self.bus.sources() {
            let messages = queue.messages.values();
            let is_locked =
                |one: &&Message| one.place == Place::Main && one.lock.is_some() && !one.is_deferred;
            sum.locked += messages.filter(is_locked).count() as u64;
            let open = queue.receivers.values().filter(|one| !one.waits);
            sum.credit += open.map(|one| u64::from(one.credit)).sum::<u64>();
            for session in queue.sessions.values() {
                sum.sessions_locked += u64::from(session.holder.is_some());
                sum.sessions_with_state += u64::from(session.state.is_some());
            }
            sum.sessions_waiting += queue.sessions_waiting();
        }
        sum
    }

    /// Ends everything that clients have, and checks that nothing of it is left.
    pub(crate) async fn end(mut self) {
        for number in 0..self.peers.len() {
            for link in self.peers[number].links_where(|_| true) {
                self.close_in_model(number, link);
            }
        }
        self.bus.take_notes();
        self.peers.clear();
        self.draining.clear();
        self.rest().await;
        assert_eq!(self.broker.register.count(), 0, "connections are left");
        self.pass(400_000).await;
        let activity = self.broker.namespace.sums().activity;
        assert_eq!(Activity { sessions_with_state: 0, sessions_waiting: 0, ..activity }, Activity::default());
        for path in ENTITIES {
            let Some((partition, queue)) = self.find(path) else { continue };
            for sub_queue in SubQueue::ALL {
                let source = QueuePath { queue, sub_queue };
                for listing in [Listing::Receivers(None), Listing::Locks(None), Listing::SessionLocks(None)] {
                    let command = Command::List { source, listing: listing.clone(), top: 10 };
                    let Some(Response::Listed(Ok(listed))) = partition.ask(command).await else { continue };
                    let left = listed.rows.iter().filter(|row| !is_forwarder(row)).count();
                    assert_eq!(left, 0, "{path} has {listing:?}: {:?}", listed.rows);
                }
            }
        }
        self.broker.namespace.shutdown().await;
    }
}

/// Whether it belongs to a forwarder, which stays, as do its locks on dead letters that wait.
fn is_forwarder(row: &ListedRow) -> bool {
    match row {
        ListedRow::Receiver { mode, .. } => *mode == ReceiveMode::Forward,
        ListedRow::Lock { until, .. } => *until == Timestamp::NEVER,
        _ => false,
    }
}

async fn peek(partition: &PartitionHandle, source: QueuePath) -> Vec<Received> {
    let command = Command::Peek {
        from: SequenceNumber(0),
        count_max: 10_000,
        bytes_max: usize::MAX,
        source,
        session: None,
    };
    match partition.ask(command).await {
        Some(Response::Received(Ok(messages))) => messages,
        other => panic!("{other:?}"),
    }
}

fn row_of(received: &Received) -> Row {
    let view = &received.view;
    let reason = view.dead_letter.as_ref().and_then(|why| why.reason.as_deref());
    let is_dead = view.sub_queue != SubQueue::Main;
    Row {
        number: view.sequence_number.0,
        id: id_of(&received.content),
        place: match view.sub_queue {
            SubQueue::Main => Place::Main,
            SubQueue::DeadLetter => Place::Dead,
            SubQueue::TransferDeadLetter => Place::Transfer,
        },
        state: view.state,
        count: view.delivery_count,
        reason: reason.unwrap_or_default().to_owned(),
        expires_ms: (!is_dead && view.state != MessageState::Scheduled).then_some(view.expires_at.0),
    }
}

fn expected_row(number: u64, message: &Message) -> Row {
    let state = match (message.due_ms, message.is_deferred) {
        (Some(_), _) => MessageState::Scheduled,
        (None, true) => MessageState::Deferred,
        (None, false) => MessageState::Active,
    };
    let lives = message.place == Place::Main && state != MessageState::Scheduled;
    Row {
        number,
        id: message.draft.id,
        place: message.place,
        state,
        count: message.count,
        reason: message.reason.unwrap_or_default().to_owned(),
        expires_ms: lives.then_some(message.expires_ms),
    }
}

fn id_of(content: &Bytes) -> u32 {
    let sections = Sections::split(content).expect("a message");
    let Body::Data(data) = sections.decode_body().expect("a body") else { panic!("no data") };
    u32::from_be_bytes(*data.first_chunk().expect("an id"))
}
