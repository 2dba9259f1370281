//! Attaches that wait for a session: their memory is bounded.

use peeklock_engine::runtime::Response;

use super::harness::{Harness, SESSION_FILTER};
use crate::endpoint::Event;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::Attach;

/// Number of attaches with 60 000 bytes of properties that may wait.
const LARGE_MAX: usize = (4 << 20) / (60_000 - 1_024);

/// A receiver of the next available session attaches, with a property of this size; returns the request to the engine.
fn wait_for_session(harness: &mut Harness, property_bytes: usize) -> Option<u64> {
    let properties = vec![("x".into(), Value::String("p".repeat(property_bytes).into()))];
    let mut attach = Attach { properties, ..harness.receiver_attach("sessions") };
    attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), Value::Null)];
    harness.attach(attach);
    match harness.commands().pop() {
        Some((tag, Command::OpenReceiver { .. })) => tag,
        None => None,
        other => panic!("{other:?}"),
    }
}

fn conditions(harness: &mut Harness) -> Vec<String> {
    let events = harness.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::Detached { error: Some(error), .. } => Some(error.condition.into()),
            _ => None,
        })
        .collect()
}

#[test]
fn large_attaches_that_wait_for_a_session_are_bounded_and_usual_ones_are_not() {
    let mut harness = Harness::new();
    let tags: Vec<u64> =
        (0..).map_while(|_| wait_for_session(&mut harness, 60_000)).take(2 * LARGE_MAX).collect();
    assert!((LARGE_MAX - 1..=LARGE_MAX).contains(&tags.len()), "{}", tags.len());
    assert_eq!(conditions(&mut harness), ["com.microsoft:server-busy"]);
    for _ in 0..100 {
        assert!(wait_for_session(&mut harness, 100).is_some());
    }
    assert_eq!(conditions(&mut harness), [""; 0]);
    harness.answer(Some(tags[0]), Response::Opened(Err(Refusal::NoSessionAvailable)));
    assert_eq!(conditions(&mut harness), ["com.microsoft:timeout"]);
    assert!(wait_for_session(&mut harness, 60_000).is_some(), "there is room again");
    assert!(wait_for_session(&mut harness, 60_000).is_none());
}

#[test]
fn a_detached_link_gives_its_room_back_when_the_engine_answers() {
    let mut harness = Harness::new();
    let mut attach = harness.receiver_attach("sessions");
    attach.properties = vec![("x".into(), Value::String("p".repeat(60_000).into()))];
    attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), Value::Null)];
    let link = harness.attach(attach);
    let (tag, _) = harness.command();
    assert!(harness.broker.kept_excess_bytes > 0);
    harness.client.detach(link, None);
    harness.commands();
    harness.answer(tag, Response::Opened(Err(Refusal::ReceiverNotFound)));
    assert_eq!(harness.broker.kept_excess_bytes, 0);
}
