//! `DeleteMessages` on subscriptions: a body is deleted with the last message that refers to it.

use peeklock_storage::Space;

use super::super::rig::{defer, message};
use super::rig::{Rig, TOPIC, options, rule, with_sessions};
use crate::{
    Command, Filter, NewMessage, QueueId, QueuePath, Refusal, Reply, Rule, SqlAction, SubQueue, Timestamp,
};

impl Rig {
    fn try_purge(&mut self, queue: QueueId, sub_queue: SubQueue) -> Result<u32, Refusal> {
        let (source, enqueued_until) = (QueuePath { queue, sub_queue }, Timestamp::NEVER);
        match self.ask(Command::DeleteMessages { source, count_max: 1000, enqueued_until, receiver: None }) {
            Reply::Deleted(deleted) => deleted,
            other => panic!("{other:?}"),
        }
    }

    fn purge(&mut self, queue: QueueId) -> u32 {
        self.try_purge(queue, SubQueue::Main).unwrap()
    }
}

#[test]
fn bodies_go_with_the_last_subscription_that_has_them() {
    let mut rig = Rig::plain();
    let [first, second] = ["first", "second"].map(|name| rig.subscribe(name));
    for _ in 0..40 {
        rig.send(message("x"));
    }
    let (_, token) = rig.take_one(second).unwrap();
    rig.settle(second, token, defer()).unwrap();
    assert_eq!(rig.purge(first), 40);
    assert_eq!(rig.bodies(), 40);
    assert_eq!(rig.purge(second), 39);
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (1, 1), "that of the deferred message");
    rig.restart();
    assert_eq!((rig.counts(first), rig.counts(second)), ((0, 0), (1, 0)));
    rig.send(message("y"));
    assert_eq!(rig.complete_one(first).sequence_number.0, 41, "no number is given out twice");
}

#[test]
fn copies_of_one_message_in_one_subscription_take_its_body_along() {
    let mut rig = Rig::plain();
    let action = |text| Some(SqlAction::new(text, Vec::new()).unwrap());
    let rules = vec![
        rule("plain", Filter::True),
        Rule { action: action("SET a = 1"), ..rule("one", Filter::True) },
        Rule { action: action("SET a = 2"), ..rule("two", Filter::True) },
    ];
    let queue = rig.try_subscribe("s", options(), rules).unwrap();
    rig.send(message("x"));
    assert_eq!(rig.counts(queue), (3, 0));
    assert_eq!(rig.purge(queue), 3);
    assert_eq!((rig.bodies(), rig.partition.counts().size_bytes), (0, 0));
}

#[test]
fn unlocked_sessions_of_a_subscription_are_emptied() {
    let mut rig = Rig::plain();
    let queue = rig.try_subscribe("s", with_sessions(), Vec::new()).unwrap();
    for session in ["a", "b"] {
        rig.send(NewMessage { session_id: Some(session.into()), ..message("x") });
    }
    rig.send(message("without a session"));
    assert_eq!(rig.counts(queue), (2, 1));
    assert_eq!(rig.purge(queue), 2);
    assert_eq!(rig.try_purge(queue, SubQueue::DeadLetter), Ok(1));
    assert!(rig.store.entries(TOPIC, Space::Body).is_empty());
}

#[test]
fn a_topic_itself_is_refused() {
    let mut rig = Rig::plain();
    rig.subscribe("s");
    assert!(matches!(rig.try_purge(TOPIC, SubQueue::Main), Err(Refusal::NotAllowed(_))));
    assert_eq!(rig.try_purge(QueueId(99), SubQueue::Main), Err(Refusal::EntityDeleted));
}
