//! Encoding of a message depending on how it is sent and on its history.

use super::*;

fn annotations(received: &Received, format: DeliveryFormat, origin: Origin) -> Vec<(Value, Value)> {
    let slices = Encoder::default().encode(received, format, origin).unwrap();
    let sections = Sections::split(&Bytes::from(slices.concat())).unwrap();
    Sections::decode_map(&sections.message_annotations).unwrap()
}

const BROWSED: DeliveryFormat = DeliveryFormat::Browsed { omits_body: false };

/// The end of a footer section with this constructor for its keys; with strings, as in Java (7.17.20).
fn footer(keys_are: u8) -> Vec<u8> {
    [&[0x00, 0x53, 0x78, 0xc1, 11, 4, keys_are][..], b"\x01a\x54\x01", &[keys_are], b"\x01b\x54\x02"].concat()
}

#[test]
fn a_browsed_message_says_that_it_has_no_lock() {
    let message = received(content(&[], &[]), view(), None);
    let locked_until = |format| {
        let annotations = annotations(&message, format, Origin::default());
        lookup(&annotations, "x-opt-locked-until").cloned()
    };
    assert_eq!(locked_until(BROWSED), Some(Value::Timestamp(-62_135_596_800_000)));
    assert_eq!((locked_until(DeliveryFormat::Link), locked_until(DeliveryFormat::Management)), (None, None));
}

#[test]
fn a_message_that_was_scheduled_says_so_when_it_is_delivered() {
    let scheduled =
        |at_ms| content(&[(Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(at_ms))], &[]);
    let state = |content: &Bytes, view: MessageView, format, origin| {
        let annotations = annotations(&received(content.clone(), view, Some(LOCK)), format, origin);
        lookup(&annotations, "x-opt-message-state").cloned()
    };
    let activated = MessageView { body: BodyRef(4), ..view() };
    let (due, queue) = (scheduled(1000), Origin::default());
    assert_eq!(state(&due, activated.clone(), DeliveryFormat::Link, queue), Some(Value::Int(2)));
    assert_eq!(state(&due, activated.clone(), BROWSED, queue), None, "browsed, it has its real state");
    assert_eq!(state(&due, view(), DeliveryFormat::Link, queue), None, "sent with a time in the past");
    assert_eq!(state(&content(&[], &[]), activated.clone(), DeliveryFormat::Link, queue), None);
    let deferred = MessageView { state: MessageState::Deferred, ..activated.clone() };
    assert_eq!(state(&due, deferred, DeliveryFormat::Link, queue), Some(Value::Int(1)));
    let dead = MessageView { sub_queue: SubQueue::DeadLetter, ..activated };
    assert_eq!(state(&due, dead, DeliveryFormat::Link, queue), None);
    let topic = Origin { copies: true, ..Origin::default() };
    assert_eq!(state(&due, view(), DeliveryFormat::Link, topic), Some(Value::Int(2)));
    assert_eq!(state(&scheduled(1001), view(), DeliveryFormat::Link, topic), None);
}

#[test]
fn a_body_can_be_left_out_and_the_footer_stays() {
    let whole = content(&[], &[("a".into(), Value::Int(1))]);
    let with_footer = Bytes::from([&whole[..], &footer(0xa3)].concat());
    for content in [whole, with_footer] {
        let original = Sections::split(&content).unwrap();
        for modified in [None, Some(Arc::new(vec![Property { name: "b".into(), value: vec![0x41].into() }]))]
        {
            let message = received(content.clone(), MessageView { modified, ..view() }, None);
            let sections = encode(&message, DeliveryFormat::Browsed { omits_body: true });
            assert_eq!(sections.body, original.footer);
            assert_eq!(sections.properties, original.properties);
            let all = encode(&message, BROWSED);
            assert_eq!(sections.application_properties, all.application_properties);
            assert_eq!(all.body, original.body);
        }
    }
}

/// Stored by an earlier version; a new message gets symbols when it is stored.
#[test]
fn a_stored_footer_with_strings_as_keys_is_delivered_with_symbols() {
    let body = content(&[], &[]);
    let stored = Bytes::from([&body[..], &footer(0xa1)].concat());
    for dead_letter in [None, Some(Arc::new(DeadLetter { reason: Some("r".into()), description: None }))] {
        let message = received(stored.clone(), MessageView { dead_letter, ..view() }, Some(LOCK));
        assert_eq!(encode(&message, DeliveryFormat::Link).footer, footer(0xa3));
    }
}

#[test]
fn stored_annotations_with_strings_as_keys_are_delivered_with_symbols() {
    let stored = Bytes::from_static(b"\x00\x53\x72\xc1\x06\x02\xa1\x01m\x54\x01\x00\x53\x77\x40");
    let annotations = annotations(&received(stored, view(), None), DeliveryFormat::Link, Origin::default());
    assert_eq!(annotations.first(), Some(&(Value::symbol("m"), Value::Int(1))));
}
