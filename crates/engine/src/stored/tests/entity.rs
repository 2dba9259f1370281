use proptest::prelude::*;

use crate::stored::entity::{EntityRecord, read_entity, write_entity};
use crate::stored::frame::testing::check_tolerance;
use crate::stored::options::{StoredQueue, StoredSubscriptionOptions};
use crate::{
    AuthorizationRule, ClientAffinity, EntityOptions, EntityStatus, EntityTimes, Forwarding,
    ForwardingTarget, Kept, QueueOptions, Rights, Secret, SubscriptionOptions, TargetScheme, Timestamp,
    TopicOptions,
};

const TIMES: EntityTimes = EntityTimes { created_at: Timestamp(3), updated_at: Timestamp(4) };

fn queue() -> EntityRecord {
    let options = QueueOptions {
        default_message_time_to_live_ms: Some(5),
        requires_session: true,
        auto_delete_on_idle_ms: Some(7),
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 6,
        status: EntityStatus::SendDisabled,
        forwarding: Forwarding {
            forward_to: Some("a".into()),
            forward_dead_lettered_messages_to: Some("b".into()),
        },
        authorization_rules: vec![AuthorizationRule {
            name: "r".into(),
            rights: Rights { send: true, ..Rights::default() },
            primary_key: Secret::new("p"),
            secondary_key: Secret::new("s"),
            created_at: Timestamp(1),
            modified_at: Timestamp(2),
        }],
        kept: Kept { user_metadata: Some("u".into()), enable_express: true, ..Kept::default() },
        ..QueueOptions::default()
    };
    EntityRecord { name: "Orders".to_owned(), times: TIMES, options: options.into() }
}

fn topic() -> EntityRecord {
    let options = TopicOptions {
        auto_delete_on_idle_ms: Some(8),
        status: EntityStatus::Disabled,
        kept: Kept { support_ordering: false, ..Kept::default() },
        ..TopicOptions::default()
    };
    EntityRecord { name: "News".to_owned(), times: TIMES, options: options.into() }
}

/// The stored form must not change by accident.
#[test]
fn records_are_pinned() {
    let expected: [(EntityRecord, &[u8]); 2] = [
        (
            queue(),
            b"\x10Y\n\x06Orders\x10\x03\x18\x04\"K\x08\
        \xe0\xd4\x03\x10\n\x18\x05 \x00(\x010\x078\x80\x80@@\x80\x80\x80\x80\xc0\x02H\x01P\x06X\x02b\
        \x01aj\x01br\x0f\n\x01r\x18\x01*\x01p2\x01s8\x01@\x02z\x01u\x80\x01\x01\x88\x01\x00\x90\x01\
        \x01\x98\x01\x01\xa0\x01\x00\xa8\x01\x00",
        ),
        (
            topic(),
            b"\x10-\n\x04News\x10\x03\x18\x04*!\
        \x10\x08\x18\x80\x80@ \x80\x80\x80\x80\xc0\x02(\x000\xc0\xcf$8\x01P\x01X\x00`\x00h\x00p\x00x\
        \x00",
        ),
    ];
    for (entity, expected) in expected {
        let record = write_entity(&entity);
        assert_eq!(record.escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(read_entity(&record), Ok(entity));
        check_tolerance(&record, read_entity);
    }
}

#[test]
fn records_by_position_stay_readable() {
    let stored = b"\x02\x06Orders\x03\x04\x00\xe0\xd4\x03\x0a\x01\x05\x00\x01\x01\x07\x80\x80\x40\
        \x80\x80\x80\x80\xc0\x02\
        \x01\x06\x02\x01\x01a\x01\x01b\x01\x01r\x00\x01\x00\x01p\x01s\x01\x02\x01\x01u\x01\x00\x01\x01\x00\x00";
    assert_eq!(read_entity(stored), Ok(queue()));
    let stored = b"\x02\x04News\x03\x04\x01\x00\x01\x08\x80\x80\x40\x80\x80\x80\x80\xc0\x02\
        \x00\xc0\xcf\x24\x01\x00\x00\x01\x00\x00\x00\x00\x00";
    assert_eq!(read_entity(stored), Ok(topic()));
    for end in 0..stored.len() {
        assert!(read_entity(&stored[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn an_option_that_is_missing_has_its_default() {
    let record = b"\x10\x05\x0a\x01a\x22\x00";
    let expected = EntityRecord {
        name: "a".to_owned(),
        times: EntityTimes::default(),
        options: QueueOptions::default().into(),
    };
    assert_eq!(read_entity(record), Ok(expected));
}

#[test]
fn a_record_that_this_version_does_not_understand_is_refused_with_the_reason() {
    for (record, reason) in [
        (&b"\x10\x02\x22\x00"[..], "it has no name"),
        (b"\x10\x03\x0a\x01a", "it has no options of a kind of entity that this version knows"),
        (b"\x10\x07\x0a\x01a\x22\x02\x58\x09", "status: the status 9 is unknown"),
        (b"\x10\x07\x0a\x01a\x22\x02\x72\x00", "authorization_rules: it has no name"),
        (b"\x10\x03\x0a\x01\xff", "UTF-8"),
    ] {
        let error = read_entity(record).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn keys_of_access_rules_do_not_show_in_logs() {
    let options = StoredQueue::from(match &queue().options {
        EntityOptions::Queue(options) => options,
        EntityOptions::Topic(_) => panic!("a queue"),
    });
    let shown = format!("{options:?}");
    assert!(shown.contains("\"r\"") && !shown.contains("\"p\"") && !shown.contains("\"s\""), "{shown}");
}

fn statuses() -> impl Strategy<Value = EntityStatus> {
    prop::sample::select(vec![
        EntityStatus::Active,
        EntityStatus::Disabled,
        EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled,
    ])
}

fn texts() -> impl Strategy<Value = Option<Box<str>>> {
    prop::option::of("\\PC{0,9}".prop_map(Into::into))
}

fn access_rules() -> impl Strategy<Value = Vec<AuthorizationRule>> {
    let rule = ("[a-z]{0,3}", any::<[bool; 3]>(), "[a-z]{0,3}", any::<[u64; 2]>());
    let rule = rule.prop_map(|(text, [listen, send, manage], key, [created, modified])| AuthorizationRule {
        name: text.into(),
        rights: Rights { listen, send, manage },
        primary_key: Secret::new(key.clone()),
        secondary_key: Secret::new(key + "2"),
        created_at: Timestamp(created),
        modified_at: Timestamp(modified),
    });
    prop::collection::vec(rule, 0..3)
}

fn kept() -> impl Strategy<Value = Kept> {
    (texts(), any::<[bool; 6]>()).prop_map(|(user_metadata, flags)| {
        let [batched, partitioning, express, ordering, filtering, subscriptions] = flags;
        Kept {
            user_metadata,
            enable_batched_operations: batched,
            enable_partitioning: partitioning,
            enable_express: express,
            support_ordering: ordering,
            filtering_messages_before_publishing: filtering,
            enable_subscription_partitioning: subscriptions,
        }
    })
}

fn targets() -> impl Strategy<Value = Forwarding> {
    (target(), target()).prop_map(|(forward_to, forward_dead_lettered_messages_to)| Forwarding {
        forward_to,
        forward_dead_lettered_messages_to,
    })
}

/// Also names that could be taken for URLs.
fn target() -> impl Strategy<Value = Option<ForwardingTarget>> {
    let name =
        (prop_oneof![Just(""), Just("sb://"), Just("https://"), Just("http://"), Just("x://")], texts());
    let scheme = prop_oneof![Just(TargetScheme::Sb), Just(TargetScheme::Https), Just(TargetScheme::Http)];
    (name, scheme).prop_map(|((start, text), scheme)| {
        text.map(|text: Box<str>| ForwardingTarget::new(format!("{start}{text}"), scheme))
    })
}

prop_compose! {
    fn clients()(texts in any::<[String; 2]>(), flags in any::<[bool; 3]>()) -> ClientAffinity {
        let [client_id, selector] = texts.map(Into::into);
        let [is_durable, is_shared, selects] = flags;
        ClientAffinity { client_id, is_durable, is_shared, selector: selects.then_some(selector) }
    }
}

// The strategies name every option, so a new option does not compile without a test of its storage.
prop_compose! {
    fn queues()(
        numbers in any::<[u64; 4]>(),
        limits in any::<[Option<u64>; 2]>(),
        flags in any::<[bool; 4]>(),
        max_delivery_count in any::<u32>(),
        status in statuses(),
        forwarding in targets(),
        authorization_rules in access_rules(),
        kept in kept(),
    ) -> QueueOptions {
        QueueOptions {
            lock_duration_ms: numbers[0],
            max_delivery_count,
            default_message_time_to_live_ms: limits[0],
            dead_lettering_on_message_expiration: flags[0],
            requires_session: flags[1],
            auto_delete_on_idle_ms: limits[1],
            max_message_size_bytes: numbers[1],
            max_size_bytes: numbers[2],
            requires_duplicate_detection: flags[2],
            duplicate_detection_history_time_window_ms: numbers[3],
            status,
            forwarding,
            authorization_rules,
            is_temporary: flags[3],
            kept,
        }
    }
}

prop_compose! {
    fn topics()(
        numbers in any::<[u64; 3]>(),
        limits in any::<[Option<u64>; 2]>(),
        requires_duplicate_detection in any::<bool>(),
        is_temporary in any::<bool>(),
        status in statuses(),
        authorization_rules in access_rules(),
        kept in kept(),
    ) -> TopicOptions {
        TopicOptions {
            default_message_time_to_live_ms: limits[0],
            auto_delete_on_idle_ms: limits[1],
            max_message_size_bytes: numbers[0],
            max_size_bytes: numbers[1],
            requires_duplicate_detection,
            duplicate_detection_history_time_window_ms: numbers[2],
            status,
            authorization_rules,
            is_temporary,
            kept,
        }
    }
}

prop_compose! {
    fn subscriptions()(
        lock_duration_ms in any::<u64>(),
        max_delivery_count in any::<u32>(),
        limits in any::<[Option<u64>; 2]>(),
        flags in any::<[bool; 3]>(),
        status in statuses(),
        forwarding in targets(),
        client in prop::option::of(clients()),
        kept in kept(),
    ) -> SubscriptionOptions {
        SubscriptionOptions {
            lock_duration_ms,
            max_delivery_count,
            default_message_time_to_live_ms: limits[0],
            dead_lettering_on_message_expiration: flags[0],
            dead_lettering_on_filter_evaluation_exceptions: flags[1],
            requires_session: flags[2],
            auto_delete_on_idle_ms: limits[1],
            status,
            forwarding,
            client: client.map(Box::new),
            kept,
        }
    }
}

proptest! {
    #[test]
    fn written_values_are_read_back(
        name in "\\PC{0,20}",
        options in prop_oneof![queues().prop_map(EntityOptions::from), topics().prop_map(EntityOptions::from)],
        times in any::<[u64; 2]>(),
    ) {
        let times = EntityTimes { created_at: Timestamp(times[0]), updated_at: Timestamp(times[1]) };
        let entity = EntityRecord { name, times, options };
        prop_assert_eq!(read_entity(&write_entity(&entity)), Ok(entity));
    }

    #[test]
    fn options_of_subscriptions_are_read_back(options in subscriptions()) {
        let stored = StoredSubscriptionOptions::from(&options);
        prop_assert_eq!(SubscriptionOptions::try_from(stored), Ok(options));
    }

    #[test]
    fn arbitrary_bytes_never_panic(fields in prop::collection::vec(any::<u8>(), 0..60), first in 0..=0x10_u8) {
        let _ = read_entity(&[&[first], &fields[..]].concat());
        let framed = [&[0x10, fields.len() as u8], &fields[..]].concat();
        let _ = read_entity(&framed);
    }
}
