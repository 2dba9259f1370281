//! Receiver links that browse.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, MessageState, MessageView, Received, Refusal, SequenceNumber};

use super::harness::{Harness, SESSION_FILTER, message, view};
use crate::endpoint::{Event, LinkId};
use crate::wire::performative::Attach;

fn browser(harness: &mut Harness, address: &str) -> Attach {
    let mut attach = harness.receiver_attach(address);
    attach.source.as_mut().unwrap().distribution_mode = Some("copy".into());
    attach
}

/// A browser that the broker has accepted; it watches its entity.
fn attached(harness: &mut Harness) -> LinkId {
    let attach = browser(harness, "q");
    let link = harness.attach(attach);
    assert!(matches!(harness.command(), (_, Command::Watch { sends: false, .. })));
    assert!(harness.refusal().is_none());
    link
}

fn page(harness: &mut Harness) -> (Option<u64>, u64, u32) {
    match harness.command() {
        (tag, Command::Peek { from, count_max, session: None, .. }) => (tag, from.0, count_max),
        (_, command) => panic!("{command:?}"),
    }
}

fn shown(number: u64, state: MessageState) -> Received {
    let view = MessageView { state, sequence_number: SequenceNumber(number), ..view(number) };
    Received { view, content: message("x"), lock: None }
}

fn active(numbers: std::ops::RangeInclusive<u64>) -> Response {
    Response::Received(Ok(numbers.map(|number| shown(number, MessageState::Active)).collect()))
}

/// The number of messages received, all of them settled.
fn came(harness: &mut Harness) -> usize {
    let is_message = |event: Event| match event {
        Event::Message { settled, .. } => {
            assert!(settled);
            true
        }
        _ => false,
    };
    harness.events().into_iter().filter_map(|event| is_message(event).then_some(())).count()
}

#[test]
fn a_browser_sees_page_after_page_as_far_as_its_credit_goes() {
    let mut harness = Harness::new();
    let link = attached(&mut harness);
    harness.client.set_credit(link, 300, false);
    let (tag, from, count) = page(&mut harness);
    assert_eq!((from, count), (0, 256));
    harness.answer(tag, active(1..=2));
    assert_eq!(came(&mut harness), 2);
    let (tag, from, count) = page(&mut harness);
    assert_eq!((from, count), (3, 256));
    harness.answer(tag, active(5..=260));
    assert_eq!(came(&mut harness), 256);
    let (tag, from, count) = page(&mut harness);
    assert_eq!((from, count), (261, 42));
    harness.answer(tag, active(261..=302));
    assert_eq!(came(&mut harness), 42);
    assert!(harness.commands().is_empty(), "its credit is used up");
}

#[test]
fn a_drain_ends_at_the_end_of_the_queue() {
    let mut harness = Harness::new();
    let link = attached(&mut harness);
    harness.client.set_credit(link, 10, true);
    let (tag, ..) = page(&mut harness);
    harness.answer(tag, Response::Received(Ok(Vec::new())));
    assert!(harness.events().iter().any(|event| matches!(event, Event::Drained { .. })));
    // Later messages are returned to the next request.
    harness.client.set_credit(link, 1, false);
    let (tag, from, _) = page(&mut harness);
    assert_eq!(from, 0);
    harness.answer(tag, active(1..=1));
    assert_eq!(came(&mut harness), 1);
}

#[test]
fn only_active_messages_are_shown() {
    let mut harness = Harness::new();
    let link = attached(&mut harness);
    harness.client.set_credit(link, 10, false);
    let (tag, ..) = page(&mut harness);
    let aside = vec![shown(1, MessageState::Deferred), shown(2, MessageState::Scheduled)];
    harness.answer(tag, Response::Received(Ok(aside)));
    assert_eq!(came(&mut harness), 0);
    assert_eq!(page(&mut harness).1, 3, "the next page follows by itself");
}

#[test]
fn a_browser_of_a_deleted_entity_is_detached() {
    let mut harness = Harness::new();
    let link = attached(&mut harness);
    harness.client.set_credit(link, 10, false);
    let (tag, ..) = page(&mut harness);
    harness.answer(tag, Response::Received(Err(Refusal::EntityDeleted)));
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:not-found");
}

#[test]
fn a_browser_can_t_ask_for_a_session() {
    let mut harness = Harness::new();
    let mut attach = browser(&mut harness, "sessions");
    attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), "s".into())];
    harness.attach(attach);
    assert_eq!(&*harness.refusal().unwrap().condition, "amqp:not-implemented");
}
