//! Requests that visit more entries than one call may.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::rig::{QUEUE, message, options, path};
use super::rig_sessions::{of, with_sessions};
use crate::partition::unfinished::VISITS_PER_CALL_MAX;
use crate::partition::{Outputs, Partition};
use crate::{
    Command, DeadLetter, Effect, LockToken, MessageAction, QueueOptions, ReceiveMode, Refusal, Reply,
    RequestId, SequenceNumber, Settlement, SubQueue, Timestamp,
};

const ENTRIES: usize = 2 * VISITS_PER_CALL_MAX + 100;
const NOW: Timestamp = Timestamp(1_000);

/// A partition without the checks of a rig, which take too long for so many entries.
struct Large {
    partition: Partition,
    random: StdRng,
    outputs: Outputs,
}

impl Large {
    fn new(options: QueueOptions, command: Command) -> Self {
        let partition = Partition::new(QUEUE, options);
        let mut large = Self { partition, random: StdRng::seed_from_u64(1), outputs: Outputs::default() };
        large.handle(command);
        large
    }

    fn with_many_sessions() -> Self {
        let messages = (0..ENTRIES).map(|number| of(&format!("s{number:05}"), "x")).collect();
        Self::new(with_sessions(), Command::Send { messages })
    }

    fn handle(&mut self, command: Command) {
        self.outputs = Outputs::default();
        self.partition.handle(NOW, &mut self.random, Some(RequestId(1)), command, &mut self.outputs);
    }

    /// Continues an unfinished request; false if there is none.
    fn resume(&mut self) -> bool {
        assert!(self.outputs.visits <= VISITS_PER_CALL_MAX, "{}", self.outputs.visits);
        self.outputs.visits = 0;
        let unfinished = self.outputs.unfinished.pop();
        let resume = |unfinished| {
            self.partition.resume(NOW, &mut self.random, unfinished, &mut self.outputs);
        };
        unfinished.map(resume).is_some()
    }

    fn reply(&self) -> &Reply {
        match &self.outputs.effects[..] {
            [Effect::Reply { request: RequestId(1), reply }] => reply,
            other => panic!("{other:?}"),
        }
    }

    /// The answer, and the number of calls after the first.
    fn ask(&mut self, command: Command) -> (&Reply, usize) {
        self.handle(command);
        let mut calls = 0;
        while self.resume() {
            calls += 1;
        }
        (self.reply(), calls)
    }
}

fn list(updated_since: Option<Timestamp>, skip: usize) -> Command {
    let skip = u32::try_from(skip).unwrap();
    Command::ListSessions { queue: QUEUE, updated_since, skip, top: 10 }
}

#[test]
fn a_page_behind_many_sessions_is_listed_in_several_calls() {
    let mut large = Large::with_many_sessions();
    for (skip, expected_calls) in [(0, 0), (ENTRIES - 50, 2), (VISITS_PER_CALL_MAX - 5, 1), (ENTRIES, 2)] {
        let (reply, calls) = large.ask(list(None, skip));
        let Reply::Sessions(Ok(ids)) = reply else { panic!("{reply:?}") };
        let expected: Vec<_> = (skip..ENTRIES).take(10).map(|number| format!("s{number:05}")).collect();
        assert!(ids.iter().map(|id| &**id).eq(expected.iter().map(String::as_str)), "{skip}: {ids:?}");
        assert_eq!(calls, expected_calls, "{skip}");
    }
}

#[test]
fn sessions_without_a_state_are_visited_in_several_calls() {
    let mut large = Large::with_many_sessions();
    assert_eq!(large.ask(list(Some(Timestamp(1)), 0)), (&Reply::Sessions(Ok(Vec::new())), 2));
}

#[test]
fn a_listing_ends_with_its_entity() {
    let mut large = Large::with_many_sessions();
    large.handle(list(None, ENTRIES));
    let unfinished = std::mem::take(&mut large.outputs.unfinished);
    large.handle(Command::EndEntity);
    large.outputs = Outputs { unfinished, ..Outputs::default() };
    assert!(large.resume());
    assert_eq!(large.reply(), &Reply::Sessions(Err(Refusal::EntityDeleted)));
}

fn with_many_undelivered() -> Large {
    let messages = (0..ENTRIES).map(|_| message("x")).collect();
    let why = std::sync::Arc::new(DeadLetter::default());
    Large::new(options(), Command::KeepUndelivered { messages, why })
}

/// Searches a session in a queue without an index of sessions.
fn search(sub_queue: SubQueue) -> Command {
    let (source, session) = (path(sub_queue), Some("wanted".into()));
    Command::Peek { from: SequenceNumber(0), count_max: 10, bytes_max: usize::MAX, source, session }
}

#[test]
fn a_session_in_a_queue_of_undelivered_messages_is_searched_in_several_calls() {
    assert_eq!(
        with_many_undelivered().ask(search(SubQueue::TransferDeadLetter)),
        (&Reply::Received(Ok(Vec::new())), 2)
    );
}

#[test]
fn a_search_that_has_found_something_ends_with_the_call() {
    let messages = std::iter::once(of("wanted", "x")).chain((1..ENTRIES).map(|_| message("x"))).collect();
    let mut large = Large::new(options(), Command::Send { messages });
    let (reply, calls) = large.ask(search(SubQueue::Main));
    let Reply::Received(Ok(page)) = reply else { panic!("{reply:?}") };
    assert_eq!((page.len(), calls), (1, 0));
}

#[test]
fn a_search_ends_with_its_entity() {
    let mut large = with_many_undelivered();
    large.handle(search(SubQueue::TransferDeadLetter));
    let unfinished = std::mem::take(&mut large.outputs.unfinished);
    large.handle(Command::EndEntity);
    large.outputs = Outputs { unfinished, ..Outputs::default() };
    assert!(large.resume());
    assert_eq!(large.reply(), &Reply::Received(Err(Refusal::EntityDeleted)));
}

/// The limit on the entries that a turn visits counts them.
#[test]
fn entries_that_a_request_names_or_returns_are_counted() {
    const NAMED: usize = 100;
    let messages = (0..NAMED).map(|_| message("x")).collect();
    let mut large = Large::new(options(), Command::Send { messages });
    let numbers: Vec<_> = (1..=NAMED as u64).map(SequenceNumber).collect();
    let tokens: Vec<_> = (0..NAMED as u128).map(LockToken).collect();
    let (source, queue, mode) = (path(SubQueue::Main), QUEUE, ReceiveMode::PeekLock);
    let (from, count_max, bytes_max) = (SequenceNumber(0), u32::MAX, usize::MAX);
    let settlement = Settlement::Complete;
    for command in [
        Command::Settle { queue, tokens: tokens.clone().into(), settlement },
        Command::RenewLocks { queue, tokens },
        Command::ReceiveDeferred { numbers: numbers.clone(), source, mode, receiver: None, bytes_max },
        Command::CancelScheduled { numbers: numbers.clone() },
        Command::Peek { from, count_max, bytes_max, source, session: None },
        Command::ActOnMessages { source, numbers, action: MessageAction::Undefer },
        Command::DeleteMessages { source, count_max: 4000, enqueued_until: NOW, receiver: None },
    ] {
        large.handle(command.clone());
        assert!(large.outputs.visits >= NAMED, "{} of {command:?}", large.outputs.visits);
    }
}
