use bytes::Bytes;

use super::rig::{Rig, message, options, with_ttl};
use crate::{NewMessage, QueueOptions, Refusal, Reply, SequenceNumber, SubQueue, Timestamp};

#[test]
fn numbers_start_at_1_and_have_no_gaps() {
    let mut rig = Rig::new(options());
    assert_eq!(rig.send(message("a")), 1);
    assert_eq!(rig.try_send(vec![message("b"), message("c")]), Ok(vec![2, 3]));
    assert_eq!(rig.send(message("d")), 4);
    assert_eq!(rig.counts(), (4, 0, 0));
}

#[test]
fn numbers_go_on_after_a_restart_of_an_emptied_queue() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, crate::Settlement::Complete).unwrap();
    rig.restart();
    assert_eq!(rig.counts(), (0, 0, 0));
    assert_eq!(rig.send(message("b")), 2);
}

#[test]
fn a_batch_with_one_message_too_large_stores_nothing() {
    let mut rig = Rig::new(QueueOptions { max_message_size_bytes: 3, ..options() });
    assert_eq!(
        rig.try_send(vec![message("abc"), message("abcd")]),
        Err(Refusal::MessageTooLarge { size_bytes: 4, limit_bytes: 3 })
    );
    assert_eq!(rig.partition.counts(), super::super::Counts::default());
    assert_eq!(rig.send(message("abc")), 1);
}

#[test]
fn a_full_entity_refuses_until_there_is_room() {
    let mut rig = Rig::new(QueueOptions { max_size_bytes: 5, ..options() });
    rig.try_send(vec![message("abc"), message("de")]).unwrap();
    assert_eq!(rig.try_send(vec![message("f")]), Err(Refusal::EntityFull { limit_bytes: 5 }));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, crate::Settlement::Complete).unwrap();
    assert_eq!(rig.try_send(vec![message("fg"), message("hi")]), Err(Refusal::EntityFull { limit_bytes: 5 }));
    assert_eq!(rig.try_send(vec![message("fgh")]), Ok(vec![3]));
    assert_eq!(rig.partition.counts().size_bytes, 5);
}

#[test]
fn messages_that_are_sent_each_on_its_own_are_refused_singly() {
    let options = QueueOptions { max_message_size_bytes: 3, max_size_bytes: 5, ..options() };
    let mut rig = Rig::new(options);
    let messages = ["abc", "abcd", "def", "de"].map(message).into();
    let effects = rig.handle(Some(crate::RequestId(1)), crate::Command::SendEach { messages });
    let reply = Reply::SentEach(vec![
        Ok(SequenceNumber(1)),
        Err(Refusal::MessageTooLarge { size_bytes: 4, limit_bytes: 3 }),
        Err(Refusal::EntityFull { limit_bytes: 5 }),
        Ok(SequenceNumber(2)),
    ]);
    assert_eq!(effects, [crate::Effect::Reply { request: crate::RequestId(1), reply }]);
    assert_eq!(rig.counts(), (2, 0, 0));
}

#[test]
fn an_empty_batch_is_refused() {
    let mut rig = Rig::new(options());
    assert!(matches!(rig.try_send(vec![]), Err(Refusal::InvalidArgument(_))));
}

#[test]
fn a_send_without_a_waiting_caller_has_no_reply() {
    let mut rig = Rig::new(options());
    let messages = smallvec::smallvec![message("a")];
    assert_eq!(rig.handle(None, crate::Command::Send { messages }), vec![]);
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn s2_expiry_is_enqueued_time_plus_time_to_live() {
    let mut rig = Rig::new(options());
    rig.send(with_ttl("a", 500));
    let view = &rig.peek(SubQueue::Main)[0];
    assert_eq!((view.enqueued_at, view.expires_at), (rig.now, rig.now.plus_ms(500)));
    assert_eq!(view.time_to_live_ms, Some(500));
}

#[test]
fn s12_s13_s14_the_default_applies_and_caps() {
    let cases = [
        (None, None, None),
        (Some(7), None, Some(7)),
        (None, Some(9), Some(9)),
        (Some(7), Some(9), Some(7)),
        (Some(11), Some(9), Some(9)),
        (Some(u64::MAX), None, None),
        (Some(u64::MAX), Some(9), Some(9)),
    ];
    for (asked, default, effective) in cases {
        let mut rig = Rig::new(QueueOptions { default_message_time_to_live_ms: default, ..options() });
        rig.send(NewMessage { time_to_live_ms: asked, ..message("a") });
        let view = &rig.peek(SubQueue::Main)[0];
        assert_eq!(view.time_to_live_ms, effective, "asked {asked:?}, default {default:?}");
        let expires_at = effective.map_or(Timestamp::NEVER, |ms| rig.now.plus_ms(ms));
        assert_eq!(view.expires_at, expires_at);
    }
}

#[test]
fn s11_a_changed_default_applies_to_later_messages_only() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    rig.change_options(QueueOptions { default_message_time_to_live_ms: Some(1000), ..options() });
    rig.send(message("b"));
    let times: Vec<_> = rig.peek(SubQueue::Main).iter().map(|view| view.time_to_live_ms).collect();
    assert_eq!(times, [None, Some(1000)]);
}

#[test]
fn content_is_stored_as_it_came() {
    let mut rig = Rig::new(options());
    rig.send(message("as it came"));
    let bodies = rig.store.entries(peeklock_storage::Space::Body);
    assert_eq!(bodies.len(), 1);
    assert_eq!((bodies[0].number, &bodies[0].value), (1, &Bytes::from_static(b"as it came")));
}

#[test]
fn a_session_id_is_kept_but_means_nothing_here() {
    let mut rig = Rig::new(options());
    rig.send(NewMessage { session_id: Some("".into()), ..message("a") });
    rig.restart();
    let (_, record) = rig.partition.state.entity.messages.get(SubQueue::Main).first_available().unwrap();
    assert_eq!(record.extra().unwrap().session_id.as_deref(), Some(""));
    assert!(rig.take_one().is_some());
}
