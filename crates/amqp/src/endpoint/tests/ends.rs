//! Ends of links that wait until leaving deliveries are sent.

use super::super::{Event, LinkId};
use super::pair::{config, receiver, settled};
use super::peer::{Peer, link_flow};
use crate::endpoint::condition::{self, error};
use crate::wire::performative::{Attach, Detach, Performative};

/// A gated link on handle 0 with a message that is leaving.
fn leaving() -> (Peer, LinkId) {
    let (mut peer, link) = Peer::attached(config(), receiver("same"), 0);
    peer.server.endpoint.gate(link);
    peer.say(Performative::Flow(link_flow(0, 0, 10)));
    peer.server.endpoint.send(link, settled(0, "leaving"));
    assert_eq!(peer.server.endpoint.reserve(link, 10, 1_000), 1);
    peer.server.take();
    (peer, link)
}

fn detach() -> Performative {
    Performative::Detach(Detach { handle: 0, closed: true, error: None })
}

fn names(frames: &[Performative]) -> Vec<&'static str> {
    let name = |frame: &Performative| match frame {
        Performative::Transfer(_) => "transfer",
        Performative::Attach(_) => "attach",
        Performative::Detach(_) => "detach",
        _ => "other",
    };
    frames.iter().map(name).collect()
}

#[test]
fn handle_and_name_of_a_detached_link_are_free_while_its_end_waits() {
    let (mut peer, old) = leaving();
    peer.say(detach());
    peer.say(Performative::Attach(Box::new(Attach { handle: 0, ..receiver("same") })));
    let (new, attach) = peer.attach_event().expect("a new link");
    peer.server.endpoint.accept_attach(new, attach, 0);
    assert_eq!(names(&peer.hear_frames()), ["attach"], "neither an error of the session nor a stolen link");
    peer.server.endpoint.release_reserved(old, 1, &[]);
    assert_eq!(names(&peer.hear_frames()), ["transfer", "detach"]);
    peer.say(Performative::Flow(link_flow(0, 0, 5)));
    let events = peer.server.take();
    assert!(
        matches!(events[..], [Event::Detached { link: ended, .. }, Event::Credit { link: credited, limit: 5, .. }]
        if ended == old && credited == new),
        "{events:?}"
    );
    assert_eq!(peer.server.endpoint.links_and_sessions(), (1, 1));
}

#[test]
fn a_link_that_both_sides_detach_while_its_end_waits_is_forgotten() {
    for is_ours_first in [true, false] {
        let (mut peer, link) = leaving();
        let why = error(condition::NOT_FOUND, "the entity was deleted");
        if is_ours_first {
            peer.server.endpoint.detach(link, Some(why.clone()));
            peer.say(detach());
        } else {
            peer.say(detach());
            peer.server.endpoint.detach(link, Some(why));
        }
        assert!(peer.hear_frames().is_empty());
        peer.server.endpoint.release_reserved(link, 1, &[]);
        assert_eq!(names(&peer.hear_frames()), ["transfer", "detach"]);
        assert!(peer.server.take().is_empty(), "the upper layer has ended the link itself");
        assert!(peer.server.endpoint.leaving(link) == 0 && peer.server.endpoint.session_of(link).is_none());
        // A link that awaited another detach would count as one that is detaching.
        peer.say(Performative::Attach(Box::new(Attach { handle: 0, ..receiver("same") })));
        assert!(peer.attach_event().is_some());
        assert_eq!(peer.server.endpoint.links.total(), 1);
    }
}
