//! Protocol headers, SASL, open, close, time.

use super::super::{Config, Event};
use super::pair::{Chunks, Pair, config, plain_client, receiver, sender};
use super::peer::{AMQP, Peer, SASL, Said, begin, frame, sasl_init};
use crate::endpoint::condition::{self, error};
use crate::wire::performative::{Detach, Open, Performative, SaslFrame};

fn with_sasl() -> Config {
    Config { sasl_optional: false, ..config() }
}

fn open_frame() -> Vec<u8> {
    frame(0, &Performative::Open(Open { container_id: "c".into(), ..Open::default() }), b"")
}

#[test]
fn both_roles_open_with_and_without_sasl() {
    for client in [plain_client(), Config { sasl_mechanisms: vec!["ANONYMOUS".to_owned()], ..config() }] {
        for chunks in [Chunks::Whole, Chunks::Single] {
            let mut pair = Pair::with(client.clone(), config()).chunked(chunks, 1);
            pair.pump();
            for end in [&mut pair.client, &mut pair.server] {
                assert!(
                    matches!(end.take().last(), Some(Event::Opened(open)) if &*open.container_id == "peeklock")
                );
            }
        }
    }
}

#[test]
fn other_protocols_get_ours_and_the_end() {
    let no_sasl = Config { sasl_mechanisms: Vec::new(), ..config() };
    for (config, header, answer) in [
        (with_sasl(), *b"AMQP\x02\x01\x00\x00", 3),
        (with_sasl(), *b"AMQP\x00\x01\x00\x00", 3),
        (with_sasl(), *b"AMQP\x03\x01\x01\x00", 3),
        (with_sasl(), *b"GET / HT", 3),
        (no_sasl.clone(), *b"AMQP\x03\x01\x00\x00", 0),
        (no_sasl, *b"AMQP\x00\x00\x09\x01", 0),
    ] {
        let mut peer = Peer::new(config);
        peer.bytes(&header);
        assert!(matches!(peer.hear()[..], [Said::Header(id)] if id == answer));
        assert_eq!(peer.server.closed_because(), Some(condition::FRAMING_ERROR));
    }
}

#[test]
fn mechanisms_are_offered_and_the_choice_is_asked_about() {
    let mut peer = Peer::new(with_sasl());
    peer.bytes(SASL);
    let said = peer.hear();
    let [Said::Header(3), Said::Sasl(SaslFrame::Mechanisms(offered))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(offered.len(), 4);
    peer.bytes(&sasl_init("PLAIN"));
    assert!(
        matches!(&peer.server.take()[..], [Event::Authenticate { mechanism, .. }] if mechanism == "PLAIN")
    );
    assert!(matches!(peer.hear()[..], [Said::Sasl(SaslFrame::Outcome { code: 0, .. })]));
}

#[test]
fn a_refused_or_unknown_mechanism_ends_in_an_outcome() {
    let mut peer = Peer::new(with_sasl());
    peer.bytes(SASL);
    peer.bytes(&sasl_init("GSSAPI"));
    assert!(matches!(peer.hear()[..], [.., Said::Sasl(SaslFrame::Outcome { code: 1, .. })]));
    assert_eq!(peer.server.closed_because(), Some(condition::UNAUTHORIZED_ACCESS));

    let mut endpoint = crate::endpoint::Connection::server(with_sasl(), 0);
    let mut input = bytes::BytesMut::from(&[SASL, &sasl_init("PLAIN")].concat()[..]);
    endpoint.handle_input(&mut input, 0);
    endpoint.sasl_outcome(false);
    let events: Vec<_> = std::iter::from_fn(|| endpoint.poll_event()).collect();
    assert!(matches!(events[..], [Event::Authenticate { .. }, Event::Closed { by_peer: false, .. }]));
}

#[test]
fn a_client_hears_of_a_refusal() {
    let client = Config { sasl_mechanisms: vec!["GSSAPI".to_owned()], ..config() };
    let mut pair = Pair::with(client, config());
    pair.pump();
    assert_eq!(pair.client.closed_because(), Some(condition::UNAUTHORIZED_ACCESS));
}

/// Python 7.15 sends everything up to the first attach without waiting for an answer.
#[test]
fn a_pipelined_opening_is_read_in_order() {
    let all = [
        SASL.to_vec(),
        sasl_init("ANONYMOUS"),
        AMQP.to_vec(),
        open_frame(),
        frame(1, &Performative::Begin(begin()), b""),
        frame(1, &Performative::Attach(Box::new(sender("cbs"))), b""),
    ]
    .concat();
    for single in [false, true] {
        let mut peer = Peer::new(with_sasl());
        if single {
            all.iter().for_each(|&byte| peer.bytes(&[byte]));
        } else {
            peer.bytes(&all);
        }
        let (link, attach) = peer.attach_event().unwrap();
        peer.server.endpoint.accept_attach(link, attach, 10);
        let said = peer.hear();
        assert!(
            matches!(
                said[..],
                [
                    Said::Header(3),
                    Said::Sasl(SaslFrame::Mechanisms(_)),
                    Said::Sasl(SaslFrame::Outcome { code: 0, .. }),
                    Said::Header(0),
                    Said::Frame(Performative::Open(_)),
                    Said::Frame(Performative::Begin(_)),
                    Said::Frame(Performative::Attach(_)),
                    Said::Frame(Performative::Flow(_)),
                ]
            ),
            "{said:?}"
        );
    }
}

#[test]
fn nothing_is_read_past_an_open_question() {
    let mut endpoint = crate::endpoint::Connection::server(with_sasl(), 0);
    let mut input = bytes::BytesMut::from(&[SASL, &sasl_init("PLAIN"), AMQP, &open_frame()].concat()[..]);
    endpoint.handle_input(&mut input, 0);
    assert!(!endpoint.accepts_input() && !endpoint.has_input_work(&input));
    assert_eq!(input.len(), AMQP.len() + open_frame().len());
    endpoint.sasl_outcome(true);
    assert!(endpoint.has_input_work(&input));
    endpoint.handle_input(&mut input, 0);
    assert!(input.is_empty());
}

#[test]
fn the_open_announces_our_limits() {
    for (idle_time_out_ms, announced) in
        [(None, None), (Some(120_000), Some(60_000)), (Some(2_000), Some(5_000))]
    {
        let mut peer = Peer::new(Config { idle_time_out_ms, ..config() });
        peer.bytes(AMQP);
        peer.bytes(&open_frame());
        let frames = peer.hear_frames();
        let [Performative::Open(open)] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!(open.idle_time_out_ms, announced);
        assert_eq!(open.max_frame_size, Some(262_144));
        assert_eq!(open.channel_max, Some(8_191));
    }
}

/// uamqp, the library of earlier SDKs for Python, fails to encode frames larger than those it accepts.
#[test]
fn no_larger_frames_are_announced_than_the_peer_accepts() {
    for (peers, announced) in
        [(None, 262_144), (Some(u32::MAX), 262_144), (Some(65_536), 65_536), (Some(1), 512)]
    {
        let mut peer = Peer::new(config());
        peer.bytes(AMQP);
        peer.say(Performative::Open(Open { max_frame_size: peers, ..Open::default() }));
        let frames = peer.hear_frames();
        let [Performative::Open(open)] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!(open.max_frame_size, Some(announced), "{peers:?}");
    }
}

#[test]
fn heartbeats_leave_at_half_the_peers_time_out() {
    let mut peer = Peer::new(config());
    peer.bytes(AMQP);
    let open = Open { idle_time_out_ms: Some(60_000), ..Open::default() };
    peer.say(Performative::Open(open));
    peer.hear();
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(30_000));
    peer.now = 29_999;
    peer.server.endpoint.handle_timeout(peer.now);
    assert!(peer.hear().is_empty());
    peer.now = 30_000;
    peer.server.endpoint.handle_timeout(peer.now);
    assert!(matches!(peer.hear()[..], [Said::Heartbeat]));
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(60_000));
    // Any output counts.
    peer.now = 50_000;
    peer.say(Performative::Begin(begin()));
    peer.hear();
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(80_000));
}

#[test]
fn while_output_waits_no_heartbeat_is_due() {
    let mut peer = Peer::new(config());
    peer.bytes(AMQP);
    peer.say(Performative::Open(Open { idle_time_out_ms: Some(60_000), ..Open::default() }));
    peer.hear();
    for now in [30_000, 60_000] {
        peer.now = now;
        peer.server.endpoint.handle_timeout(peer.now);
        assert_eq!(peer.server.endpoint.poll_deadline(), None, "the heartbeat waits for the socket");
    }
    assert!(matches!(peer.hear()[..], [Said::Heartbeat]));
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(90_000));
}

#[test]
fn an_idle_time_out_that_heartbeats_can_not_keep_is_refused() {
    for (idle_time_out_ms, is_refused) in [(1, true), (499, true), (500, false), (0, false)] {
        let mut peer = Peer::new(config());
        peer.bytes(AMQP);
        peer.say(Performative::Open(Open { idle_time_out_ms: Some(idle_time_out_ms), ..Open::default() }));
        let refusal = is_refused.then_some(condition::NOT_ALLOWED);
        assert_eq!(peer.server.closed_because(), refusal, "{idle_time_out_ms} ms");
        let frames = peer.hear_frames();
        assert!(matches!(frames.first(), Some(Performative::Open(_))), "our open comes first: {frames:?}");
    }
}

#[test]
fn a_silent_peer_is_cut_off_and_a_heartbeat_is_a_sign_of_life() {
    let config = Config { idle_time_out_ms: Some(20_000), ..config() };
    let mut peer = Peer::open(config);
    peer.now = 15_000;
    peer.bytes(&[0, 0, 0, 8, 2, 0, 0, 0]);
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(35_000));
    // While the driver does not read, the peer's silence does not count.
    peer.server.endpoint.set_reading(false, peer.now);
    assert_eq!(peer.server.endpoint.poll_deadline(), None);
    peer.now = 100_000;
    peer.server.endpoint.set_reading(true, peer.now);
    peer.server.endpoint.handle_timeout(peer.now);
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(120_000));
    peer.now = 120_000;
    peer.server.endpoint.handle_timeout(peer.now);
    // As the service does it: .NET treats resource-limit-exceeded as a quota.
    assert_eq!(&*peer.hear_close().condition, condition::CONNECTION_FORCED);
    assert_eq!(peer.server.closed_because(), Some(condition::CONNECTION_FORCED));
    assert_eq!(peer.server.endpoint.poll_deadline(), None);
}

#[test]
fn a_peer_that_does_not_open_is_cut_off() {
    for said in [&b""[..], b"AM", SASL, AMQP] {
        let mut peer = Peer::new(config());
        peer.bytes(said);
        assert_eq!(peer.server.endpoint.poll_deadline(), Some(30_000));
        peer.server.endpoint.handle_timeout(30_000);
        assert_eq!(peer.server.closed_because(), Some(condition::CONNECTION_FORCED));
    }
}

#[test]
fn frames_on_the_channel_of_an_ended_session_are_ignored() {
    let (mut peer, _) = Peer::attached(config(), receiver("q"), 0);
    peer.hear();
    peer.say(Performative::End(None));
    peer.say(Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    peer.say(Performative::End(None));
    assert!(matches!(peer.hear_frames()[..], [Performative::End(None)]), "one answer, no complaint");
    peer.say(Performative::Begin(begin()));
    assert!(matches!(peer.hear_frames()[..], [Performative::Begin(_)]), "the channel is free again");
    peer.say(Performative::End(None));
    peer.hear();
    peer.say(Performative::Attach(Box::new(receiver("q"))));
    assert_eq!(&*peer.hear_close().condition, condition::NOT_ALLOWED, "nothing new can begin there");
}

#[test]
fn a_close_of_the_peer_is_answered() {
    let mut pair = Pair::new();
    pair.pump();
    pair.client.endpoint.close(Some(error("test:reason", "why")));
    pair.pump();
    let closed = |events: &[Event], expected: bool| matches!(events.last(), Some(Event::Closed { by_peer, .. }) if *by_peer == expected);
    assert!(closed(&pair.server.take(), true));
    assert!(closed(&pair.client.take(), false));
    assert!(pair.server.endpoint.is_closed() && pair.client.endpoint.is_closed());
}

#[test]
fn our_close_waits_for_the_answer_but_not_forever() {
    let mut peer = Peer::begun(config());
    peer.server.endpoint.close(Some(error(condition::CONNECTION_FORCED, "bye")));
    assert_eq!(&*peer.hear_close().condition, condition::CONNECTION_FORCED);
    // Frames that were sent before the close.
    peer.say_with(3, Performative::Begin(begin()), b"");
    peer.say_with(9, Performative::End(None), b"");
    assert!(peer.hear().is_empty() && !peer.server.endpoint.is_closed());
    assert_eq!(peer.server.endpoint.poll_deadline(), Some(5_000));
    peer.server.endpoint.handle_timeout(5_000);
    assert!(peer.server.endpoint.is_closed());
    assert!(peer.hear().is_empty());

    let mut peer = Peer::open(config());
    peer.server.endpoint.close(None);
    peer.hear();
    peer.say(Performative::Close(None));
    assert!(matches!(peer.server.take()[..], [Event::Closed { error: None, by_peer: false }]));
}

#[test]
fn the_end_of_input_ends_the_connection_once() {
    let mut peer = Peer::begun(config());
    peer.server.endpoint.handle_end_of_input();
    peer.server.endpoint.handle_end_of_input();
    peer.server.feed(b"", 0);
    assert!(matches!(peer.server.take()[..], [Event::Closed { by_peer: true, .. }]));
    assert!(peer.hear().is_empty());
}

#[test]
fn frames_out_of_order_are_not_allowed() {
    let mut early = Peer::new(config());
    early.bytes(AMQP);
    early.say(Performative::Begin(begin()));
    let frames = early.hear_frames();
    assert!(
        matches!(&frames[..], [Performative::Open(_), Performative::Close(Some(error))] if &*error.condition == condition::NOT_ALLOWED)
    );

    let mut twice = Peer::open(config());
    twice.say(Performative::Open(Open::default()));
    assert_eq!(&*twice.hear_close().condition, condition::NOT_ALLOWED);
}
