use super::harness::{Harness, message, request};
use crate::endpoint::Event;
use crate::servicebus::*;
use crate::wire::Value;
use crate::wire::performative::Error;

const MINUTE_MS: u64 = 60_000;

/// Service Bus's limits.
fn limited() -> Harness {
    let limits = IdleLimits { link_ms: Some(10 * MINUTE_MS), no_link_ms: Some(5 * MINUTE_MS) };
    Harness::with_idle_limits(limits)
}

/// Lets time pass in steps of the checks.
fn pass(harness: &mut Harness, duration_ms: u64) {
    for _ in 0..duration_ms / 10_000 {
        harness.advance(10_000);
    }
}

/// The links that the broker has detached, in order, with the errors.
fn detached(harness: &mut Harness) -> Vec<(LinkId, Error)> {
    let events = harness.events().into_iter();
    let ended = events.filter_map(|event| match event {
        Event::Detached { link, closed: true, error } => Some((link, error?)),
        _ => None,
    });
    ended.collect()
}

fn closed(harness: &mut Harness) -> Option<Error> {
    harness.events().into_iter().find_map(|event| match event {
        Event::Closed { error, by_peer: true } => error,
        _ => None,
    })
}

#[test]
fn links_that_are_not_used_are_detached_in_the_services_words() {
    let mut harness = limited();
    let sender = harness.sender("q");
    let (receiver, _) = harness.receiver("q");
    // Credit that was granted earlier is no use.
    harness.client.set_credit(receiver, 10, false);
    harness.commands();
    pass(&mut harness, 10 * MINUTE_MS - 10_000);
    assert_eq!(detached(&mut harness), []);
    pass(&mut harness, 20_000);
    let mut ended = detached(&mut harness);
    ended.sort_by_key(|(link, _)| *link);
    let [(first, of_sender), (second, of_receiver)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((*first, *second), (sender, receiver));
    for (error, words) in [
        (
            of_sender,
            "The link 'link 1' is force detached. Code: publisher(link0). Details: AmqpMessagePublisher.IdleTimerExpired: Idle timeout: 00:10:00. TrackingId:",
        ),
        (
            of_receiver,
            "The link 'link 2' is force detached. Code: consumer(link1). Details: AmqpMessageConsumer.IdleTimerExpired: Idle timeout: 00:10:00. TrackingId:",
        ),
    ] {
        assert_eq!(&*error.condition, "amqp:link:detach-forced");
        let description = error.description.as_deref().unwrap();
        assert!(description.starts_with(words), "{description}");
    }
    let told = harness.commands();
    assert!(told.iter().any(|(_, command)| matches!(command, Command::CloseReceiver { .. })), "{told:?}");
}

#[test]
fn each_operation_is_a_use_of_its_link() {
    let mut harness = limited();
    let sender = harness.sender("q");
    let (receiver, id) = harness.receiver("q");
    let (other, _) = harness.receiver("q");
    let requests = harness.requester("q/$management");
    for number in 1..=5 {
        pass(&mut harness, 8 * MINUTE_MS);
        harness.send(sender, true, 0, message("x"));
        match number % 2 {
            0 => harness.deliver(id, number),
            _ => harness.client.set_credit(receiver, 10 + u32::try_from(number).unwrap(), false),
        }
        // A request names the receiver that it is about.
        let about =
            [("operation", "unknown".into()), ("associated-link-name", Value::String("link 3".into()))];
        harness.send(requests, true, 0, request(Value::ULong(number), &about, &Value::Null));
        assert_eq!(detached(&mut harness), [], "{number}");
    }
    harness.commands();
    pass(&mut harness, 11 * MINUTE_MS);
    let ended: Vec<LinkId> = detached(&mut harness).into_iter().map(|(link, _)| link).collect();
    assert!([sender, receiver, other, requests].iter().all(|link| ended.contains(link)), "{ended:?}");
}

#[test]
fn a_connection_without_links_is_closed_after_five_minutes() {
    let mut harness = limited();
    harness.requester("$cbs");
    let sender = harness.sender("q");
    pass(&mut harness, 4 * MINUTE_MS);
    harness.client.detach(sender, None);
    pass(&mut harness, 4 * MINUTE_MS);
    assert_eq!(closed(&mut harness), None);
    pass(&mut harness, 2 * MINUTE_MS);
    let error = closed(&mut harness).expect("closed");
    assert_eq!(&*error.condition, "amqp:connection:forced");
    let words = "The connection was closed by container 'peeklock' because it did not have any active links in the past 300000 milliseconds. TrackingId:";
    assert!(error.description.as_deref().unwrap().starts_with(words), "{error:?}");
}

#[test]
fn a_connection_that_never_has_a_link_is_closed_after_a_minute() {
    let mut harness = limited();
    harness.requester("$cbs");
    pass(&mut harness, MINUTE_MS - 20_000);
    assert_eq!(closed(&mut harness), None);
    pass(&mut harness, 40_000);
    let error = closed(&mut harness).expect("closed");
    assert!(error.description.as_deref().unwrap().contains("in the past 60000 milliseconds"), "{error:?}");
}

#[test]
fn a_receiver_that_waits_for_a_session_is_a_link() {
    let mut harness = limited();
    let mut attach = harness.receiver_attach("sessions");
    attach.source.as_mut().unwrap().filter = vec![(super::harness::SESSION_FILTER.into(), Value::Null)];
    harness.attach(attach);
    pass(&mut harness, 9 * MINUTE_MS);
    assert_eq!(closed(&mut harness), None);
}

#[test]
fn without_limits_nothing_ends() {
    let mut harness = Harness::new();
    harness.receiver("q");
    let sender = harness.sender("q");
    harness.client.detach(sender, None);
    pass(&mut harness, 60 * MINUTE_MS);
    assert_eq!((detached(&mut harness), closed(&mut harness)), (Vec::new(), None));
}
