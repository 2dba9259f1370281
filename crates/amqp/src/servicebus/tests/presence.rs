//! A connection in the register, and its close by an administrator.

use std::time::Duration;

use peeklock_connections::{Credential, Direction, Entry, Figures, LinkPage, Look, Purpose};

use super::authorization::{access, put_token};
use super::harness::{Harness, message};
use crate::endpoint::Event;
use crate::servicebus::*;

/// All links.
fn everything() -> Look {
    Look { links: LinkPage { from: 0, top: 100 }, ..Look::default() }
}

/// The connection's figures for a request.
async fn look(harness: &mut Harness, look: &Look) -> Figures {
    let entries = harness.register.after(None, 9);
    let (mut found, ()) =
        tokio::join!(Entry::look_at(&entries, look, Duration::from_secs(60)), async { harness.pump() });
    found.remove(0).expect("an answer")
}

async fn close(harness: &Harness) {
    assert!(harness.register.after(None, 1)[0].close("root").await);
}

fn closed(harness: &mut Harness) -> Option<Error> {
    harness.events().into_iter().find_map(|event| match event {
        Event::Closed { error, .. } => error,
        _ => None,
    })
}

#[tokio::test]
async fn links_are_shown_with_their_entity_credit_and_messages() {
    let mut harness = Harness::with(access(), &Peer::default());
    put_token(&mut harness, "q");
    let sender = harness.sender("q");
    harness.send(sender, false, 0, message("hello"));
    harness.commands();
    let (link, receiver) = harness.receiver("q/$deadletterqueue");
    harness.client.set_credit(link, 5, false);
    harness.commands();
    harness.deliver(receiver, 1);
    harness.deliver(receiver, 2);
    assert_eq!(harness.messages().len(), 2);
    let figures = look(&mut harness, &everything()).await;
    assert_eq!((figures.messages_in, figures.messages_out), (1, 2), "requests to $cbs are none");
    assert_eq!((figures.credit, figures.unsettled, figures.link_count), (3, 2, 4));
    assert_eq!(figures.identities.len(), 1);
    assert_eq!(figures.identities[0].credential, Credential::Rule);
    assert_eq!(&*figures.identities[0].name, "RootManageSharedAccessKey");
    let of = |purpose| figures.links.iter().find(|link| link.purpose == purpose).unwrap();
    let sending = of(Purpose::Send);
    assert_eq!((sending.entity.as_deref(), sending.direction), (Some("q"), Direction::In));
    assert_eq!((sending.unsettled, sending.messages), (1, 1), "the engine has not answered");
    let receiving = of(Purpose::Receive);
    assert_eq!(
        (receiving.entity.as_deref(), receiving.receiver),
        (Some("q/$DeadLetterQueue"), Some(receiver.0))
    );
    assert_eq!((receiving.credit, receiving.unsettled, receiving.messages), (3, 2, 2));
    assert!(figures.links.iter().any(|link| link.purpose == Purpose::Tokens && link.entity.is_none()));

    harness.client.detach(link, None);
    harness.client.detach(sender, None);
    let figures = look(&mut harness, &Look::default()).await;
    assert_eq!((figures.messages_in, figures.messages_out), (1, 2), "of links that are gone as well");
    assert_eq!((figures.credit, figures.link_count, figures.links.len()), (0, 2, 0));
}

#[tokio::test]
async fn a_connection_is_found_by_the_entities_it_is_attached_to() {
    let mut harness = Harness::new();
    harness.sender("q");
    for (needle, matches) in [("q", true), ("nothing like it", false)] {
        let asked = Look { needle: needle.into(), ..Look::default() };
        assert_eq!(look(&mut harness, &asked).await.matches, matches, "{needle}");
    }
}

#[tokio::test]
async fn a_closed_connection_hears_that_it_was_forced_and_leaves_the_register() {
    let mut harness = Harness::new();
    harness.sender("q");
    close(&harness).await;
    harness.server_turn();
    harness.server_turn();
    let error = closed(&mut harness).expect("a reason");
    assert_eq!(&*error.condition, "amqp:connection:forced");
    assert_eq!(error.description.as_deref(), Some("an administrator closed the connection"));
    let register = harness.register.clone();
    assert_eq!(register.count(), 1, "as long as its task has it");
    drop(harness);
    assert_eq!(register.count(), 0);
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_closed_all_the_same() {
    let mut harness = Harness::with_window(1);
    let (link, receiver) = harness.receiver("q");
    harness.client.set_credit(link, 100, false);
    harness.client_speaks();
    harness.deliver(receiver, 1);
    harness.deliver(receiver, 2);
    harness.turn_unread(0);
    close(&harness).await;
    harness.turn_unread(4_999);
    assert!(look_unread(&harness).is_closing);
    harness.turn_unread(5_000);
    assert!(harness.server.is_closed());
}

/// The connection's figures while its client reads nothing.
fn look_unread(harness: &Harness) -> Figures {
    harness.broker.figures(&Look::default(), &harness.server)
}

#[test]
fn properties_of_the_peer_are_truncated_and_kept_verbatim() {
    let harness = Harness::new();
    let about = harness.register.after(None, 1).remove(0).about;
    assert_eq!((&*about.container_id, about.host.as_deref()), ("peeklock", Some("localhost")));
    assert_eq!((about.product.as_deref(), about.is_encrypted), (None, false));
}
