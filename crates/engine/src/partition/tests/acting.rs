//! `ActOnMessages`: an administrator's actions on messages by number.

use super::rig::{Rig, abandon, defer, message, options, path, with_ttl};
use crate::{Command, DeadLetter, MessageAction, MessageState, Refusal, Reply, SequenceNumber, SubQueue};

impl Rig {
    fn act(&mut self, sub_queue: SubQueue, numbers: &[u64], action: MessageAction) -> Result<(), Refusal> {
        let numbers = numbers.iter().copied().map(SequenceNumber).collect();
        match self.ask(Command::ActOnMessages { source: path(sub_queue), numbers, action }) {
            Reply::Done(done) => done,
            other => panic!("{other:?}"),
        }
    }

    fn shown(&mut self, sub_queue: SubQueue) -> Vec<(u64, MessageState)> {
        self.peek(sub_queue).iter().map(|view| (view.sequence_number.0, view.state)).collect()
    }
}

fn asked() -> MessageAction {
    let why = DeadLetter { reason: Some("asked".into()), description: Some("by hand".into()) };
    MessageAction::DeadLetter(why.into())
}

/// Three messages; the first failed once and was deferred then.
fn rig() -> Rig {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b"), message("c")]).unwrap();
    for settlement in [abandon(), defer()] {
        let (view, token) = rig.take_one().unwrap();
        assert_eq!(view.sequence_number, SequenceNumber(1));
        rig.settle(token, settlement).unwrap();
    }
    rig
}

#[test]
fn an_available_or_deferred_message_is_deleted_for_good() {
    let mut rig = rig();
    rig.act(SubQueue::Main, &[3, 1], MessageAction::Delete).unwrap();
    assert_eq!(rig.shown(SubQueue::Main), [(2, MessageState::Active)]);
    assert_eq!(rig.partition.counts().size_bytes, 1);
    rig.restart();
    assert_eq!(rig.shown(SubQueue::Main), [(2, MessageState::Active)]);
    assert_eq!(rig.partition.counts().size_bytes, 1);
}

#[test]
fn a_deferred_message_becomes_available_under_its_own_number() {
    let mut rig = rig();
    rig.act(SubQueue::Main, &[1], MessageAction::Undefer).unwrap();
    rig.restart();
    let all = [1, 2, 3].map(|number| (number, MessageState::Active));
    assert_eq!(rig.shown(SubQueue::Main), all);
    let (view, _) = rig.take_one().unwrap();
    assert_eq!(
        (view.sequence_number, view.delivery_count),
        (SequenceNumber(1), 2),
        "it keeps its place and its count"
    );
    let again = rig.act(SubQueue::Main, &[2], MessageAction::Undefer);
    assert_eq!(again, Err(Refusal::MessageNotFound(2)), "it is not deferred");
}

#[test]
fn a_message_is_dead_lettered_with_the_reason_that_is_given() {
    let mut rig = rig();
    rig.act(SubQueue::Main, &[1, 3], asked()).unwrap();
    rig.restart();
    let dead = rig.peek(SubQueue::DeadLetter);
    let reasons: Vec<_> =
        dead.iter().map(|view| view.dead_letter.as_ref().unwrap().reason.as_deref()).collect();
    assert_eq!(reasons, [Some("asked"); 2]);
    assert_eq!(rig.act(SubQueue::DeadLetter, &[1], asked()), Err(Refusal::MessageNotFound(1)));
    rig.act(SubQueue::DeadLetter, &[1], MessageAction::Delete).unwrap();
    assert_eq!(rig.shown(SubQueue::DeadLetter), [(3, MessageState::Active)]);
}

#[test]
fn a_locked_message_stays_and_so_do_the_others() {
    let mut rig = rig();
    rig.take_one().unwrap();
    for action in [MessageAction::Delete, asked()] {
        assert!(matches!(rig.act(SubQueue::Main, &[1, 2], action), Err(Refusal::NotAllowed(_))));
    }
    assert_eq!(rig.act(SubQueue::Main, &[3, 9], MessageAction::Delete), Err(Refusal::MessageNotFound(9)));
    assert!(matches!(
        rig.act(SubQueue::Main, &[3, 3], MessageAction::Delete),
        Err(Refusal::InvalidArgument(_))
    ));
    assert!(matches!(rig.act(SubQueue::Main, &[], MessageAction::Delete), Err(Refusal::InvalidArgument(_))));
    assert_eq!(rig.shown(SubQueue::Main).len(), 3);
}

#[test]
fn a_scheduled_message_can_be_deleted_and_not_dead_lettered() {
    let mut rig = Rig::new(options());
    let number =
        rig.send(crate::NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(10)), ..message("a") });
    assert_eq!(rig.act(SubQueue::Main, &[number], asked()), Err(Refusal::MessageNotFound(number)));
    rig.act(SubQueue::Main, &[number], MessageAction::Delete).unwrap();
    rig.restart();
    assert_eq!(rig.shown(SubQueue::Main), []);
    assert_eq!(rig.partition.next_deadline(), None);
}

/// Deferred messages don't expire; one made available again expires as soon as a receiver has credit.
#[test]
fn a_message_whose_life_was_over_while_it_was_deferred_expires() {
    let mut rig = Rig::new(options());
    rig.send(with_ttl("a", 10));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    rig.advance(20);
    rig.act(SubQueue::Main, &[1], MessageAction::Undefer).unwrap();
    assert!(rig.take_one().is_none());
    assert_eq!(rig.shown(SubQueue::Main), []);
}
