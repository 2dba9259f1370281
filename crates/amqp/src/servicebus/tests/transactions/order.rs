//! Point 2: frames that follow a discharge on the connection are handled after it.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Refusal, SequenceNumber};
use smallvec::SmallVec;

use super::super::entities::Work;
use super::super::harness::{Harness, message};
use super::acting::in_transaction;
use crate::endpoint::Outgoing;
use crate::servicebus::*;
use crate::wire::performative::DeliveryState;
use crate::wire::transaction::Control;

fn outgoing(payload: bytes::Bytes) -> Outgoing {
    let payload = [payload].into_iter().collect();
    Outgoing { tag: Some([7; 16]), settled: false, message_format: 0, payload }
}

fn contents(commands: Vec<(Option<u64>, Command)>) -> Vec<bytes::Bytes> {
    let sent = commands.into_iter().flat_map(|(_, command)| match command {
        Command::Send { messages } => messages.into_vec(),
        Command::SendEach { messages } => messages,
        _ => Vec::new(),
    });
    sent.map(|message| message.content).collect()
}

/// Begins a commit with a message for the sender's entity; returns its tag.
fn commit_in_progress(harness: &mut Harness, coordinator: LinkId, sender: LinkId) -> u64 {
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "work");
    harness.commit(coordinator, &txn_id).0
}

#[test]
fn point_2_frames_after_a_roll_back_see_it_done() {
    let mut harness = Harness::new();
    let coordinator = harness.coordinator();
    let (link, receiver) = harness.receiver("q");
    let id = harness.received(link, receiver, 3);
    let txn_id = harness.declare(coordinator);
    harness.settled_work(id, &txn_id, DeliveryState::Accepted);
    // In one write: the client does not wait for the answer.
    let discharge = Control::Discharge { txn_id, fail: true };
    harness.client.send(coordinator, outgoing(discharge.encode()));
    harness.client_speaks();
    harness.client.update_incoming(id, DeliveryState::Accepted);
    harness.pump();
    assert!(matches!(harness.command().1, Command::Settle { .. }), "settled as if nothing had been");
    assert!(harness.commits().is_empty());
}

#[test]
fn point_2_frames_after_a_commit_wait_for_it() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    harness.on_a_session_of_its_own();
    let elsewhere = harness.sender("other");
    let txn_id = harness.declare(coordinator);
    harness.sent_work(sender, &txn_id, "in the transaction");
    let (tag, _) = harness.commit(coordinator, &txn_id);
    harness.client.send(sender, outgoing(message("after it"))).unwrap();
    harness.client.send(elsewhere, outgoing(message("independent"))).unwrap();
    assert_eq!(contents(harness.commands()), [message("independent")]);
    harness.client.detach(sender, None);
    harness.pump();
    assert_eq!(harness.commands(), [], "the end of the link comes after its message");
    harness.committed(tag, Ok(()));
    assert_eq!(contents(harness.commands()), [message("after it")]);
}

#[test]
fn point_2_transactions_do_not_wait_for_each_other() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let ids = [harness.declare(coordinator), harness.declare(coordinator)];
    let mut tags = Vec::new();
    for txn_id in &ids {
        harness.sent_work(sender, txn_id, "work");
        tags.push(harness.commit(coordinator, txn_id).0);
    }
    for tag in tags {
        harness.committed(tag, Ok(()));
        assert_eq!(harness.outcome(), Some(DeliveryState::Accepted));
    }
}

/// It waits for no later commit, so a connection that commits continuously can't block it, nor does it block commits.
#[test]
fn plain_work_waits_for_the_commits_before_it_and_no_later_one() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let [first, second] = [harness.declare(coordinator), harness.declare(coordinator)];
    harness.sent_work(sender, &first, "first");
    harness.sent_work(sender, &second, "with the second");
    let (tag, _) = harness.commit(coordinator, &first);
    harness.client.send(sender, outgoing(message("after the first"))).unwrap();
    harness.client_speaks();
    let (later_tag, _) = harness.commit(coordinator, &second);
    harness.client.send(sender, outgoing(message("after the second"))).unwrap();
    assert_eq!(harness.commands(), []);
    harness.committed(tag, Ok(()));
    assert_eq!(contents(harness.commands()), [message("after the first")]);
    harness.committed(later_tag, Ok(()));
    assert_eq!(contents(harness.commands()), [message("after the second")]);
}

/// Operations outside transactions keep their order, whichever commit is done first.
#[test]
fn plain_work_on_one_entity_is_not_overtaken() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let [first, second] = [harness.declare(coordinator), harness.declare(coordinator)];
    harness.sent_work(sender, &first, "work");
    harness.sent_work(sender, &second, "work");
    let (tag, _) = harness.commit(coordinator, &first);
    harness.client.send(sender, outgoing(message("one"))).unwrap();
    harness.client_speaks();
    let (later_tag, _) = harness.commit(coordinator, &second);
    harness.client.send(sender, outgoing(message("two"))).unwrap();
    harness.committed(later_tag, Ok(()));
    assert_eq!(harness.commands(), [], "the other one waits for the first commit");
    harness.committed(tag, Ok(()));
    assert_eq!(contents(harness.commands()), [message("one"), message("two")]);
}

/// A discharge is handled after earlier operations in its transaction.
#[test]
fn a_discharge_waits_for_requests_of_its_transaction_that_wait() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let management = harness.requester("q/$management");
    harness.commands();
    let [first, second] = [harness.declare(coordinator), harness.declare(coordinator)];
    harness.sent_work(sender, &first, "work");
    let (tag, _) = harness.commit(coordinator, &first);
    super::management::schedule(&mut harness, management, &second);
    assert_eq!(harness.discharge(coordinator, &second, false), None);
    assert!(harness.commands().is_empty() && harness.commits().is_empty());
    harness.committed(tag, Ok(()));
    harness.agree_with(&[70]);
    let commits = harness.commits();
    assert_eq!((commits.len(), commits[0].1.len()), (1, 1), "with the scheduled message");
}

/// A commit is in progress from its discharge on, even if it can't be requested from the engine yet.
#[test]
fn point_2_frames_after_a_discharge_wait_while_its_operations_are_unanswered() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "in the transaction");
    let (unanswered, _) = harness.asked();
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
    harness.client.send(sender, outgoing(message("after it"))).unwrap();
    harness.client_speaks();
    harness.client.detach(sender, None);
    assert_eq!(harness.commands(), []);
    harness.answer(unanswered, Response::Provisional(Ok(SmallVec::new())));
    let (tag, _) = harness.commits().remove(0);
    assert_eq!(harness.commands(), []);
    harness.committed(tag, Ok(()));
    assert_eq!(contents(harness.commands()), [message("after it")]);
}

#[test]
fn frames_after_a_discharge_do_not_wait_for_a_commit_that_does_not_take_place() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "refused");
    let (unanswered, _) = harness.asked();
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
    harness.client.send(sender, outgoing(message("after it"))).unwrap();
    assert_eq!(harness.commands(), []);
    harness.answer(unanswered, Response::Provisional(Err(Refusal::EntityDisabled)));
    assert_eq!(contents(harness.commands()), [message("after it")]);
    harness.events();
    // A commit without operations is done at once.
    let empty = harness.declare(coordinator);
    assert_eq!(harness.discharge(coordinator, &empty, false), Some(DeliveryState::Accepted));
    harness.send(sender, false, 0, message("at once"));
    assert_eq!(contents(harness.commands()), [message("at once")]);
}

/// The answers to their operations may come in another order, for example from different subscriptions.
#[test]
fn commits_on_an_entity_are_requested_in_the_order_of_their_discharges() {
    for is_first_refused in [false, true] {
        let mut harness = Harness::new();
        let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
        harness.on_a_session_of_its_own();
        let elsewhere = harness.sender("other");
        let mut unanswered = Vec::new();
        for (link, text) in [(sender, "first"), (sender, "second"), (elsewhere, "independent")] {
            let txn_id = harness.declare(coordinator);
            harness.send_work(link, &txn_id, text);
            unanswered.push(harness.asked().0);
            assert_eq!(harness.discharge(coordinator, &txn_id, false), None);
        }
        let committed = |harness: &mut Harness, index: usize, answer| {
            harness.answer(unanswered[index], Response::Provisional(answer));
            let works = harness.commits().into_iter().flat_map(|(_, works)| works);
            let sent = works.map(|work| match work {
                Work::Command(command) => (None, command),
                other => panic!("{other:?}"),
            });
            contents(sent.collect())
        };
        let agreed = || Ok(SmallVec::new());
        assert_eq!(committed(&mut harness, 1, agreed()), [""; 0], "after the first");
        assert_eq!(committed(&mut harness, 2, agreed()), [message("independent")]);
        if is_first_refused {
            let refused = Err(Refusal::EntityDisabled);
            assert_eq!(committed(&mut harness, 0, refused), [message("second")]);
        } else {
            let both = [message("first"), message("second")];
            assert_eq!(committed(&mut harness, 0, agreed()), both);
        }
    }
}

/// Messages from a commit are delivered whenever they arrive; only a drain asks for the current state.
#[test]
fn credit_does_not_wait_but_a_drain_does() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let (link, _) = harness.receiver("q");
    let tag = commit_in_progress(&mut harness, coordinator, sender);
    harness.client.set_credit(link, 5, false);
    assert!(matches!(harness.command().1, Command::Credit { drain: false, .. }));
    harness.client.set_credit(link, 5, true);
    assert_eq!(harness.commands(), []);
    harness.committed(tag, Ok(()));
    assert!(matches!(harness.command().1, Command::Credit { drain: true, .. }));
}

#[test]
fn credit_that_replaces_a_waiting_drain_waits_with_it() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let (link, _) = harness.receiver("q");
    let tag = commit_in_progress(&mut harness, coordinator, sender);
    harness.client.set_credit(link, 5, true);
    harness.client_speaks();
    harness.client.set_credit(link, 7, false);
    assert_eq!(harness.commands(), []);
    harness.committed(tag, Ok(()));
    let credits = harness.commands().into_iter().filter_map(|(_, command)| match command {
        Command::Credit { limit, drain, .. } => Some((limit.messages, drain)),
        _ => None,
    });
    assert_eq!(credits.collect::<Vec<_>>(), [(5, true), (7, false)]);
}

/// The client gets one answer, to the latter.
#[test]
fn a_drain_is_not_answered_while_another_waits_for_a_commit() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 0, true);
    let drain = |(_, command)| match command {
        Command::Credit { limit, drain, .. } => Some((limit.messages, drain)),
        _ => None,
    };
    assert_eq!(harness.commands().into_iter().find_map(drain), Some((0, true)));
    let tag = commit_in_progress(&mut harness, coordinator, sender);
    harness.client.set_credit(link, 1, true);
    harness.pump();
    harness.events();
    harness.output(Output::Drained { receiver });
    assert!(harness.events().is_empty(), "the credit stays for the messages of the commit");
    harness.committed(tag, Ok(()));
    assert_eq!(harness.commands().into_iter().find_map(drain), Some((1, true)));
    harness.deliver(receiver, 3);
    harness.output(Output::Drained { receiver });
    let events = harness.events();
    assert!(
        matches!(events[..], [Event::Disposition { .. }, Event::Message { .. }, Event::Drained { .. }]),
        "{events:?}"
    );
}

/// The coordinator comes first on the new session, too, so its transactions may span entities.
#[test]
fn a_coordinator_is_attached_after_the_end_of_the_former_session_on_its_channel() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let tag = commit_in_progress(&mut harness, coordinator, sender);
    harness.client.send(sender, outgoing(message("waits"))).unwrap();
    harness.client_speaks();
    harness.client.end(harness.session, None);
    harness.pump();
    harness.on_a_session_of_its_own();
    harness.attach(super::acting::coordinator_attach("again"));
    harness.committed(tag, Ok(()));
    harness.commands();
    harness.receiver("q");
    let attach = harness.receiver_attach("other");
    harness.attach(attach);
    assert!(harness.refusal().is_some(), "a transaction across entities has one that receives");
}

#[test]
fn links_are_attached_after_the_commit_and_receive_then() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let tag = commit_in_progress(&mut harness, coordinator, sender);
    let attach = harness.receiver_attach("q");
    harness.attach(attach);
    assert_eq!(harness.commands(), []);
    harness.committed(tag, Ok(()));
    assert!(matches!(harness.command().1, Command::OpenReceiver { .. }));
}

#[test]
fn waiting_requests_count_and_continue_when_the_connection_ends() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    commit_in_progress(&mut harness, coordinator, sender);
    let settled = Outgoing { settled: true, ..outgoing(message("after it")) };
    harness.client.send(sender, settled).unwrap();
    harness.pump();
    assert_eq!(harness.broker.unanswered().messages, 1);
    harness.server.handle_end_of_input();
    assert_eq!(contents(harness.commands()), [message("after it")]);
}

/// An answer that comes after the rollback finds no transaction.
#[test]
fn an_answer_for_a_transaction_that_is_gone_refuses_the_work() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "slow");
    let (tag, _) = harness.asked();
    harness.client.detach(coordinator, None);
    harness.pump();
    let numbers: SmallVec<[SequenceNumber; 1]> = SmallVec::new();
    harness.answer(tag, Response::Provisional(Ok(numbers)));
    let outcome = harness.outcome().unwrap();
    assert_ne!(outcome, in_transaction(&txn_id, Some(DeliveryState::Accepted)));
    assert_eq!(super::acting::condition(&outcome), "amqp:transaction:unknown-id");
}

#[test]
fn a_commit_that_was_requested_before_the_end_of_its_coordinator_link_is_carried_out() {
    let mut harness = Harness::new();
    let (coordinator, sender) = (harness.coordinator(), harness.sender("q"));
    let txn_id = harness.declare(coordinator);
    harness.send_work(sender, &txn_id, "slow");
    let (tag, _) = harness.asked();
    assert_eq!(harness.discharge(coordinator, &txn_id, false), None, "not before its work is answered");
    harness.client.detach(coordinator, None);
    harness.pump();
    harness.answer(tag, Response::Provisional(Ok(SmallVec::new())));
    assert_eq!(harness.outcome(), Some(in_transaction(&txn_id, Some(DeliveryState::Accepted))));
    assert_eq!(harness.commits().len(), 1);
}
