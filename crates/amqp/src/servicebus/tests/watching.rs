use peeklock_engine::Refusal;
use peeklock_engine::runtime::Response;

use super::harness::{Harness, QUEUE, SUBSCRIPTION, message};
use crate::endpoint::Event;
use crate::servicebus::*;

/// Attaches a link and returns the id under which it watches.
fn watched(harness: &mut Harness, role_of_sender: bool, address: &str) -> (LinkId, ReceiverId, QueueId) {
    let attach =
        if role_of_sender { harness.sender_attach(address) } else { harness.receiver_attach(address) };
    let link = harness.attach(attach);
    match harness.command() {
        (None, Command::Watch { watcher, queue, .. }) => (link, watcher, queue),
        other => panic!("{other:?}"),
    }
}

fn detached(harness: &mut Harness) -> Vec<(LinkId, String, String)> {
    let events = harness.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::Detached { link, closed: true, error: Some(error) } => {
                Some((link, error.condition.into(), error.description.unwrap().into()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn senders_and_both_links_of_a_management_node_watch_their_entity() {
    let mut harness = Harness::new();
    assert_eq!(watched(&mut harness, true, "q").2, QUEUE);
    assert_eq!(watched(&mut harness, true, "q/$management").2, QUEUE);
    assert_eq!(watched(&mut harness, false, "t/Subscriptions/s/$management").2, SUBSCRIPTION);
}

#[test]
fn a_deleted_entity_detaches_them_as_not_found() {
    let mut harness = Harness::new();
    for (sends, address) in [(true, "q"), (true, "q/$management"), (false, "q/$management")] {
        let (link, watcher, _) = watched(&mut harness, sends, address);
        harness.events();
        harness.output(Output::ReceiverClosed { receiver: watcher, refusal: Refusal::EntityDeleted });
        let detached = detached(&mut harness);
        let [(gone, condition, text)] = &detached[..] else { panic!("{detached:?}") };
        assert_eq!((*gone, condition.as_str()), (link, "amqp:not-found"));
        assert!(
            text.starts_with(&format!("The messaging entity 'sb://localhost/{address}' could not be found"))
        );
        assert_eq!(harness.commands(), [], "the engine knows");
    }
    assert!(harness.broker.links.is_empty() && harness.broker.response_links.is_empty());
}

#[test]
fn so_are_receivers_of_a_deleted_entity() {
    let mut harness = Harness::new();
    let (link, receiver) = harness.receiver("q");
    harness.output(Output::ReceiverClosed { receiver, refusal: Refusal::EntityDeleted });
    let detached = detached(&mut harness);
    let [(gone, condition, text)] = &detached[..] else { panic!("{detached:?}") };
    assert_eq!((*gone, condition.as_str()), (link, "amqp:not-found"));
    assert!(text.starts_with("The messaging entity 'sb://localhost/q' could not be found"));
}

#[test]
fn a_detached_link_watches_no_longer() {
    let mut harness = Harness::new();
    let (link, watcher, _) = watched(&mut harness, true, "q");
    let (_, other, _) = watched(&mut harness, false, "q/$management");
    harness.client.detach(link, None);
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver: watcher }));
    harness.output(Output::ReceiverClosed { receiver: watcher, refusal: Refusal::EntityDeleted });
    assert_eq!(detached(&mut harness), [], "crossed");
    harness.client.close(None);
    assert_eq!(harness.command(), (None, Command::CloseReceiver { receiver: other }));
}

#[test]
fn a_pending_send_to_a_deleted_entity_affects_no_other_entity() {
    let mut harness = Harness::new();
    let (link, watcher, _) = watched(&mut harness, true, "q");
    harness.send(link, false, 0, message("x"));
    let (tag, _) = harness.command();
    harness.output(Output::ReceiverClosed { receiver: watcher, refusal: Refusal::EntityDeleted });
    harness.answer(tag, Response::Sent(Err(Refusal::EntityDeleted)));
    assert_eq!(detached(&mut harness).len(), 1);
    assert!(harness.broker.pending.is_empty());
}

/// The texts are those of Service Bus (azure-sdk-for-net 10535, 12935, 22454).
#[test]
fn a_disabled_entity_is_named_with_what_is_disabled() {
    let texts = [
        (true, "q", "Messaging entity 'peeklock:Queue:q' is currently disabled for Send operations. "),
        (true, "t", "Messaging entity 'peeklock:Topic:t' is currently disabled for Send operations. "),
        (false, "q/$management", "Messaging entity 'sb://localhost/q/$management' is currently disabled. "),
    ];
    for (sends, address, expected) in texts {
        let mut harness = Harness::new();
        let (_, watcher, _) = watched(&mut harness, sends, address);
        harness.events();
        harness.output(Output::ReceiverClosed { receiver: watcher, refusal: Refusal::EntityDisabled });
        let detached = detached(&mut harness);
        let [(_, condition, text)] = &detached[..] else { panic!("{detached:?}") };
        assert_eq!(condition, "com.microsoft:entity-disabled");
        assert!(text.starts_with(expected), "{text}");
    }
}
