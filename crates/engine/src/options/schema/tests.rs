//! Properties of every row.

use super::*;

#[test]
fn the_two_names_of_an_option_are_one_name_in_two_styles() {
    for option in OPTIONS {
        let words = option.name.split('_').map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_uppercase() + rest
        });
        assert_eq!(option.service_name, words.collect::<String>());
        assert_eq!(EntityOption::named(option.name).unwrap().service_name, option.service_name);
        assert_eq!(EntityOption::of_service(option.service_name).unwrap().name, option.name);
    }
}

#[test]
fn every_default_is_in_its_range() {
    fn check<O: OptionSet>() {
        let default = O::default();
        for option in OPTIONS {
            let (value, range) = match &option.kind {
                OptionKind::Count(at, range) => (at.get(&default).copied().map(u64::from), range),
                OptionKind::Duration(at, range) => (at.get(&default).copied(), range),
                OptionKind::Size(at, unit, range) => {
                    (at.get(&default).map(|bytes| bytes / unit.bytes()), range)
                }
                _ => continue,
            };
            assert!(value.is_none_or(|value| range.contains(&value)), "{} of a {}", option.name, O::NOUN);
        }
    }
    check::<QueueOptions>();
    check::<TopicOptions>();
    check::<SubscriptionOptions>();
}

/// A field without a row would be an option that can't be set: the test names every field and counts the rows.
#[test]
fn every_field_has_a_row() {
    fn rows<O: OptionSet>() -> usize {
        OPTIONS.iter().filter(|option| option.is_of::<O>()).count()
    }
    let QueueOptions {
        lock_duration_ms: _,
        max_delivery_count: _,
        default_message_time_to_live_ms: _,
        dead_lettering_on_message_expiration: _,
        requires_session: _,
        auto_delete_on_idle_ms: _,
        max_message_size_bytes: _,
        max_size_bytes: _,
        requires_duplicate_detection: _,
        duplicate_detection_history_time_window_ms: _,
        status: _,
        forwarding: _,
        authorization_rules: _,
        // Set by the broker, not by administration.
        is_temporary: _,
        kept: _,
    } = QueueOptions::default();
    // Twelve of its own, two of forwarding, and the fields of `Kept` that apply to queues.
    assert_eq!(rows::<QueueOptions>(), 12 + 2 + 5);
    // Eight of its own, and all of `Kept`.
    assert_eq!(rows::<TopicOptions>(), 8 + 7);
    // Eight of its own, two of forwarding, and the fields of `Kept` that apply to subscriptions.
    assert_eq!(rows::<SubscriptionOptions>(), 8 + 2 + 2);
}

#[test]
fn each_row_reads_and_writes_the_same_field() {
    fn check<O: OptionSet>() {
        for option in OPTIONS.iter().filter(|option| option.is_of::<O>()) {
            let (default, mut changed) = (O::default(), O::default());
            match &option.kind {
                OptionKind::Boolean(at) => *at.get_mut(&mut changed).unwrap() ^= true,
                OptionKind::Count(at, _) => *at.get_mut(&mut changed).unwrap() += 1,
                OptionKind::Duration(at, _) | OptionKind::Size(at, ..) => {
                    *at.get_mut(&mut changed).unwrap() += 1;
                }
                OptionKind::TimeToLive(at, _) | OptionKind::IdleTime(at) => {
                    *at.get_mut(&mut changed).unwrap() = Some(7);
                }
                OptionKind::Text(at, _) => *at.get_mut(&mut changed).unwrap() = Some("x".into()),
                OptionKind::Target(at) => *at.get_mut(&mut changed).unwrap() = Some("x".into()),
                OptionKind::Status(at) => *at.get_mut(&mut changed).unwrap() = EntityStatus::Disabled,
                OptionKind::AuthorizationRules(_) => continue,
            }
            let differing = OPTIONS.iter().filter(|other| !other.is_equal(&default, &changed));
            assert_eq!(differing.map(|other| other.name).collect::<Vec<_>>(), [option.name]);
        }
    }
    check::<QueueOptions>();
    check::<TopicOptions>();
    check::<SubscriptionOptions>();
}
