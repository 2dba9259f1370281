//! Commands of a transaction: prepared ones can be carried out, refused ones change nothing.

use smallvec::smallvec;

use super::rig::{QUEUE, Rig, message, options, path};
use super::rig_sessions::{of, with_sessions};
use crate::partition::{Outputs, persist};
use crate::{
    Command, DeadLetter, Effect, LockToken, MessageAction, NewMessage, QueueOptions, ReceiverId, Refusal,
    Reply, SequenceNumber, SettleFailure, Settlement, SubQueue, Timestamp,
};

const LIMIT_BYTES: u64 = 10;

fn send(content: &'static str) -> Command {
    Command::Send { messages: smallvec![message(content)] }
}

fn complete(token: LockToken) -> Command {
    Command::Settle { queue: QUEUE, tokens: smallvec![token], settlement: Settlement::Complete }
}

fn set_state(receiver: ReceiverId, bytes: usize) -> Command {
    Command::SetSessionState { receiver, state: Some(vec![7; bytes].into()) }
}

fn keep(content: &'static str) -> Command {
    Command::KeepUndelivered { messages: smallvec![message(content)], why: DeadLetter::default().into() }
}

fn small() -> QueueOptions {
    QueueOptions { max_size_bytes: LIMIT_BYTES, ..options() }
}

impl Rig {
    /// Carries out commands as a whole, or returns the refusal: then nothing has changed.
    fn unit(&mut self, commands: &[Command]) -> Result<Vec<Effect>, (usize, Refusal)> {
        let mut outputs = Outputs::default();
        let before = (self.partition.counts(), self.partition.next_deadline());
        let named = commands.iter().enumerate();
        let prepared = self.partition.prepare(self.now, &mut self.random, named, &mut outputs);
        assert!(outputs.events.is_empty() && outputs.effects.is_empty(), "preparing changes nothing");
        assert_eq!((self.partition.counts(), self.partition.next_deadline()), before);
        prepared?;
        for command in commands {
            let (random, mut left) = (&mut self.random, usize::MAX);
            let done = self.partition.carry_out(self.now, random, command.clone(), &mut left, &mut outputs);
            assert_eq!(done, Ok(()), "{command:?} was prepared");
        }
        assert_eq!(outputs.effects, [], "no receiver is served before the end");
        let mut batch = peeklock_storage::Batch::new();
        persist(super::rig::ID, &outputs.events, &mut batch);
        self.store.write(batch);
        Ok(self.handle(None, Command::Tick))
    }

    fn locked(&mut self, content: &'static str) -> LockToken {
        self.send(message(content));
        self.take_one().unwrap().1
    }
}

fn full(step: usize) -> Result<Vec<Effect>, (usize, Refusal)> {
    Err((step, Refusal::EntityFull { limit_bytes: LIMIT_BYTES }))
}

#[test]
fn messages_of_a_unit_have_to_fit_together() {
    let mut rig = Rig::new(small());
    assert_eq!(rig.unit(&[send("123456"), send("12345")]), full(1));
    assert_eq!(rig.unit(&[send("123456"), send("1234")]), Ok(Vec::new()));
    assert_eq!(rig.counts(), (2, 0, 0));
}

#[test]
fn removals_of_a_unit_make_no_room_for_its_additions() {
    let mut rig = Rig::new(small());
    let token = rig.locked("1234567890");
    assert_eq!(rig.unit(&[complete(token), send("1")]), full(1));
    assert_eq!(rig.unit(&[complete(token)]), Ok(Vec::new()));
    assert_eq!(rig.unit(&[send("1")]), Ok(Vec::new()));
}

#[test]
fn states_of_sessions_and_messages_of_a_unit_have_to_fit_together() {
    let mut rig = Rig::new(QueueOptions { max_size_bytes: LIMIT_BYTES, ..with_sessions() });
    let in_session = |content| Command::Send { messages: smallvec![of("s", content)] };
    let (holder, _) = rig.try_open(SubQueue::Main, Some("s")).unwrap();
    let (other, _) = rig.try_open(SubQueue::Main, Some("t")).unwrap();
    assert_eq!(rig.unit(&[in_session("123456"), set_state(holder, 5)]), full(1));
    assert_eq!(rig.unit(&[set_state(holder, 5), in_session("123456")]), full(1));
    assert_eq!(rig.unit(&[set_state(holder, 6), set_state(other, 5)]), full(1));
    // The second state replaces the first.
    let twice = [set_state(holder, 6), set_state(holder, 8), in_session("12")];
    assert_eq!(rig.unit(&twice), Ok(Vec::new()));
    assert_eq!(rig.partition.counts().size_bytes, LIMIT_BYTES);
    assert_eq!(rig.unit(&[set_state(holder, 3), set_state(holder, 8)]), full(1), "it makes no room");
    assert_eq!(rig.unit(&[set_state(holder, 3)]), Ok(Vec::new()));
}

/// They are kept even in a full entity, but nothing is prepared that would not fit beside them.
#[test]
fn messages_kept_undelivered_take_room_from_the_rest_of_the_unit() {
    let mut rig = Rig::new(small());
    assert_eq!(rig.unit(&[keep("123456"), send("12345")]), full(1));
    assert_eq!(rig.unit(&[send("12345"), keep("1234567890")]), Ok(Vec::new()));
    assert_eq!(rig.partition.counts().transfer_dead_letter, 1);
}

#[test]
fn a_lock_is_settled_once_in_a_unit() {
    let mut rig = Rig::new(options());
    let token = rig.locked("a");
    let twice = [complete(token), complete(token)];
    assert_eq!(rig.unit(&twice), Err((1, Refusal::MessageLockLost)));
    assert_eq!(rig.unit(&twice[..1]), Ok(Vec::new()));
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn a_lock_that_is_over_settles_nothing_in_a_unit() {
    let mut rig = Rig::new(options());
    let token = rig.locked("a");
    rig.now = rig.now.plus_ms(super::rig::LOCK_MS);
    assert_eq!(rig.unit(&[send("b"), complete(token)]), Err((1, Refusal::MessageLockLost)));
    assert_eq!(rig.counts(), (1, 0, 0));
}

/// The client is told which of its deliveries it can still settle.
#[test]
fn a_provisional_settlement_names_each_lock_that_is_over() {
    let mut rig = Rig::new(options());
    let tokens = ["a", "b", "c", "d"].map(|content| rig.locked(content));
    rig.handle(None, complete(tokens[1]));
    rig.handle(None, complete(tokens[2]));
    let settle = |tokens: &[LockToken]| {
        let tokens = tokens.iter().copied().collect();
        let settle = Command::Settle { queue: QUEUE, tokens, settlement: Settlement::Complete };
        Command::Provisional(Box::new(settle))
    };
    let lost = |index| SettleFailure { index, refusal: Refusal::MessageLockLost };
    assert_eq!(rig.ask(settle(&tokens)), Reply::Settled(vec![lost(1), lost(2)]));
    let twice = [tokens[0], tokens[3], tokens[0]];
    assert_eq!(rig.ask(settle(&twice)), Reply::Settled(vec![lost(2)]));
    assert_eq!(rig.ask(settle(&twice[..2])), Reply::Provisional(Ok(smallvec![])));
    assert_eq!(rig.counts(), (2, 0, 0));
}

fn scheduled(rig: &Rig, number: Option<u64>) -> NewMessage {
    NewMessage {
        scheduled_enqueue_time: Some(Timestamp(rig.now.0 + 1_000)),
        reserved_number: number.map(SequenceNumber),
        ..message("a")
    }
}

#[test]
fn a_scheduled_message_is_cancelled_once_in_a_unit() {
    let mut rig = Rig::new(options());
    let number = rig.send(scheduled(&rig, None));
    let cancel = || Command::CancelScheduled { numbers: vec![SequenceNumber(number)] };
    assert_eq!(rig.unit(&[cancel(), cancel()]), Err((1, Refusal::ScheduledNotFound(number))));
    assert_eq!(rig.counts(), (0, 0, 1));
    assert_eq!(rig.unit(&[cancel()]), Ok(Vec::new()));
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn a_reserved_number_is_taken_once_in_a_unit() {
    let mut rig = Rig::new(options());
    let provisional =
        Command::Provisional(Box::new(Command::Send { messages: smallvec![scheduled(&rig, None)] }));
    rig.ask(provisional);
    let one = |rig: &Rig| Command::Send { messages: smallvec![scheduled(rig, Some(1))] };
    let (first, second) = (one(&rig), one(&rig));
    assert_eq!(rig.unit(&[first.clone(), second]), Err((1, Refusal::Unavailable)));
    assert_eq!(rig.unit(&[first]), Ok(Vec::new()));
    assert_eq!(rig.counts(), (0, 0, 1));
}

#[test]
fn a_message_is_deleted_once_in_a_unit() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b"), message("c")]).unwrap();
    let act = |number| Command::ActOnMessages {
        source: path(SubQueue::Main),
        numbers: vec![SequenceNumber(number)],
        action: MessageAction::Delete,
    };
    assert_eq!(rig.unit(&[act(1), act(1)]), Err((1, Refusal::MessageNotFound(1))));
    assert_eq!(rig.unit(&[act(1), send("d"), act(3)]), Ok(Vec::new()));
    assert_eq!(rig.counts(), (2, 0, 0));
    let (_, token) = rig.take_one().unwrap();
    assert!(matches!(rig.unit(&[act(2), complete(token)]), Err((0, Refusal::NotAllowed(_)))));
}

/// The answer to a duplicate is the number of the original, by which it can be cancelled.
#[test]
fn a_duplicate_of_a_message_that_a_unit_scheduled_has_its_number() {
    let options = QueueOptions { requires_duplicate_detection: true, ..options() };
    let mut rig = Rig::new(options);
    let key = crate::MessageKey::of("id");
    let at = rig.now.plus_ms(60_000);
    let scheduled = NewMessage { scheduled_enqueue_time: Some(at), message_key: Some(key), ..message("a") };
    let provisional =
        Command::Provisional(Box::new(Command::Send { messages: smallvec![scheduled.clone()] }));
    let crate::Reply::Provisional(Ok(numbers)) = rig.ask(provisional) else { panic!() };
    rig.send(message("between"));
    let reserved = NewMessage { reserved_number: Some(numbers[0]), ..scheduled.clone() };
    rig.unit(&[Command::Send { messages: smallvec![reserved] }]).unwrap();
    assert_eq!(rig.send(scheduled.clone()), numbers[0].0);
    rig.restart();
    assert_eq!(rig.send(scheduled), numbers[0].0, "after a restart");
    rig.ask(Command::CancelScheduled { numbers: numbers.to_vec() });
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn a_holder_that_listens_sets_the_state_although_the_timer_of_its_session_is_late() {
    let mut rig = Rig::new(with_sessions());
    let (receiver, other) = (rig.accept("a"), rig.accept("b"));
    rig.credit(receiver, 1, false);
    rig.now = rig.now.plus_ms(super::rig::LOCK_MS);
    assert_eq!(rig.unit(&[set_state(other, 1)]), Err((0, Refusal::SessionLockLost)));
    assert!(rig.unit(&[set_state(receiver, 1)]).is_ok());
    assert_eq!(rig.state(receiver), Ok(Some(vec![7].into())));
}
