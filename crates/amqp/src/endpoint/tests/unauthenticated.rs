//! Limits of an unauthenticated connection, and their end.

use super::super::limits::{
    UNAUTHENTICATED_CONTROL_BYTES_MAX, UNAUTHENTICATED_FRAME_BYTES_MAX, UNAUTHENTICATED_LINKS_MAX,
    UNAUTHENTICATED_NAME_BYTES_MAX, UNAUTHENTICATED_SESSIONS_MAX,
};
use super::pair::{config, sender};
use super::peer::{AMQP, Peer, begin, transfer};
use crate::endpoint::condition;
use crate::wire::performative::{Attach, Open, Performative, Transfer};

fn limited() -> Peer {
    let mut peer = Peer::begun(config());
    peer.server.endpoint.limit_unauthenticated();
    peer
}

fn attach(handle: u32) -> Attach {
    Attach { handle, ..sender(&format!("link-{handle}")) }
}

#[test]
fn links_are_few_until_the_peer_has_authenticated() {
    let mut peer = limited();
    for handle in 0..u32::try_from(UNAUTHENTICATED_LINKS_MAX).unwrap() {
        peer.attach(attach(handle), 1);
    }
    peer.say(Performative::Attach(Box::new(attach(1_000))));
    assert!(peer.attach_event().is_none());
    peer.server.endpoint.authenticated();
    peer.attach(attach(1_001), 1);
}

#[test]
fn sessions_are_few_until_the_peer_has_authenticated() {
    let mut peer = limited();
    for channel in 1..=u16::try_from(UNAUTHENTICATED_SESSIONS_MAX).unwrap() {
        peer.say_with(channel, Performative::Begin(begin()), b"");
    }
    let frames = peer.hear_frames();
    let ended = frames.iter().filter(|frame| matches!(frame, Performative::End(Some(_)))).count();
    assert_eq!(ended, 1, "the last one is one too many");
    assert!(peer.server.endpoint.held_bytes() > UNAUTHENTICATED_SESSIONS_MAX * 1_024);
}

#[test]
fn names_are_short() {
    let mut peer = limited();
    let name = "n".repeat(UNAUTHENTICATED_NAME_BYTES_MAX + 1);
    peer.say(Performative::Attach(Box::new(sender(&name))));
    assert_eq!(&*peer.hear_close().condition, condition::RESOURCE_LIMIT_EXCEEDED);
}

#[test]
fn only_transfers_are_long() {
    let long = "c".repeat(UNAUTHENTICATED_CONTROL_BYTES_MAX as usize);
    let mut peer = limited();
    peer.say(Performative::Close(Some(condition::error(condition::NOT_ALLOWED, &*long))));
    assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR);

    let mut peer = Peer::new(config());
    peer.server.endpoint.limit_unauthenticated();
    peer.bytes(AMQP);
    peer.say(Performative::Open(Open { container_id: long.into(), ..Open::default() }));
    assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR);
}

#[test]
fn a_long_token_comes_in_one_frame_or_in_several_and_no_more_is_held() {
    let token = vec![b't'; 70_000];
    let mut peer = limited();
    peer.attach(attach(0), 10);
    peer.transfer(transfer(0, 0), &token);
    assert_eq!(peer.server.take_messages().len(), 1);
    peer.transfer(Transfer { more: true, ..transfer(0, 1) }, &token);
    assert!(peer.server.endpoint.held_bytes() > token.len());
    peer.transfer(Transfer { more: true, ..transfer(0, 1) }, &token);
    assert!(matches!(peer.hear_frames().last(), Some(Performative::Detach(_))));
    assert!(peer.server.endpoint.held_bytes() < token.len());

    let mut peer = limited();
    let size = (UNAUTHENTICATED_FRAME_BYTES_MAX + 1).to_be_bytes();
    peer.bytes(&[&size[..], &[2, 0, 0, 0]].concat());
    assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR);
}
