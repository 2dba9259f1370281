use proptest::prelude::*;

use super::{Broker, entry};
use axum::http::Method;

/// Every property of a queue that a client may set.
const QUEUE: [(&str, &str); 14] = [
    ("LockDuration", "PT30S"),
    ("MaxSizeInMegabytes", "2048"),
    ("RequiresSession", "true"),
    ("DefaultMessageTimeToLive", "P2DT3H"),
    ("DeadLetteringOnMessageExpiration", "true"),
    ("DuplicateDetectionHistoryTimeWindow", "PT5M"),
    ("MaxDeliveryCount", "7"),
    ("EnableBatchedOperations", "false"),
    ("Status", "ReceiveDisabled"),
    ("UserMetadata", " m <&> \"m\" "),
    ("SupportOrdering", "false"),
    ("EnablePartitioning", "true"),
    ("EnableExpress", "true"),
    ("MaxMessageSizeInKilobytes", "2048"),
];
const TOPIC: [(&str, &str); 14] = [
    ("DefaultMessageTimeToLive", "P2DT3H"),
    ("MaxSizeInMegabytes", "2048"),
    ("RequiresDuplicateDetection", "true"),
    ("DuplicateDetectionHistoryTimeWindow", "PT5M"),
    ("EnableBatchedOperations", "false"),
    ("FilteringMessagesBeforePublishing", "true"),
    ("Status", "SendDisabled"),
    ("UserMetadata", "m"),
    ("SupportOrdering", "false"),
    ("AutoDeleteOnIdle", "PT1H"),
    ("EnablePartitioning", "true"),
    ("EnableSubscriptionPartitioning", "true"),
    ("EnableExpress", "false"),
    ("MaxMessageSizeInKilobytes", "2048"),
];
const SUBSCRIPTION: [(&str, &str); 11] = [
    ("LockDuration", "PT30S"),
    ("RequiresSession", "true"),
    ("DefaultMessageTimeToLive", "P2DT3H"),
    ("DeadLetteringOnMessageExpiration", "true"),
    ("DeadLetteringOnFilterEvaluationExceptions", "false"),
    ("MaxDeliveryCount", "7"),
    ("EnableBatchedOperations", "false"),
    ("Status", "Disabled"),
    ("UserMetadata", "m"),
    ("ForwardDeadLetteredMessagesTo", "sb://localhost:5300/other"),
    ("AutoDeleteOnIdle", "PT1H"),
];

fn description(kind: &str, properties: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let properties = properties.into_iter();
    let inner: String = properties
        .map(|(name, text)| format!("<{name}>{}</{name}>", quick_xml::escape::escape(text.as_str())))
        .collect();
    format!("<{kind}Description>{inner}</{kind}Description>")
}

/// The body that a client sends back unchanged.
fn sent_back(body: &str) -> &str {
    body
}

#[tokio::test]
async fn every_property_comes_back_and_can_be_sent_back() {
    let broker = Broker::with_subscription().await;
    assert_eq!(broker.create("/other", "<QueueDescription/>").await.status, 201);
    for (path, kind, properties) in [
        ("/q1", "Queue", QUEUE.as_slice()),
        ("/t1", "Topic", TOPIC.as_slice()),
        ("/t/subscriptions/s1", "Subscription", SUBSCRIPTION.as_slice()),
    ] {
        // In an order other than the service's.
        let written = properties.iter().rev().map(|(name, text)| (*name, (*text).to_owned()));
        let wanted = description(kind, written);
        let created = broker.create(path, &wanted).await;
        assert_eq!(created.status, 201, "{}", created.body);
        // Creation overrides properties that conflict with forwarding, an update does not.
        assert_eq!(broker.update(path, &wanted).await.status, 200);
        let before = broker.get(path).await;
        for (name, text) in properties {
            assert_eq!(before.text_of(name).as_deref(), Some(*text), "{kind} {name}");
        }
        let update = [("if-match", "*")];
        let updated = broker.ask(Method::PUT, path, &update, sent_back(&before.body).to_owned()).await;
        assert_eq!(updated.status, 200, "{}", updated.body);
        assert_eq!(broker.get(path).await.description(), before.description());
    }
}

#[tokio::test]
async fn an_update_replaces_everything() {
    let broker = Broker::start().await;
    let full = description("Queue", QUEUE.iter().map(|(name, text)| (*name, (*text).to_owned())));
    assert_eq!(broker.create("/q", &full).await.status, 201);
    let updated = broker.update("/q", "<QueueDescription/>").await;
    for (name, text) in [
        ("LockDuration", Some("PT1M")),
        ("DefaultMessageTimeToLive", Some("P10675199DT2H48M5.4775807S")),
        ("UserMetadata", None),
        ("Status", Some("Active")),
        // Immutable properties, and those unknown to old clients, are unchanged.
        ("RequiresSession", Some("true")),
        ("EnablePartitioning", Some("true")),
        ("MaxMessageSizeInKilobytes", Some("2048")),
    ] {
        assert_eq!(updated.text_of(name).as_deref(), text, "{name}");
    }
}

/// The value that means no limit.
const MAXIMUM: &str = "P10675199DT2H48M5.4775807S";

#[tokio::test]
async fn a_forwarding_entity_has_no_idle_limit_and_shows_its_target() {
    let broker = Broker::start().await;
    assert_eq!(broker.create("/other/one", "<QueueDescription/>").await.status, 201);
    let forwarding = "<QueueDescription><DefaultMessageTimeToLive>PT2H</DefaultMessageTimeToLive><AutoDeleteOnIdle>PT1H</AutoDeleteOnIdle><ForwardTo>sb://elsewhere:1/other/one</ForwardTo></QueueDescription>";
    let dead = forwarding.replace("ForwardTo", "ForwardDeadLetteredMessagesTo");
    let shown = |answer: &super::Answer| {
        ["AutoDeleteOnIdle", "DefaultMessageTimeToLive"].map(|name| answer.text_of(name).unwrap())
    };
    let created = broker.create("/q", forwarding).await;
    assert_eq!(created.text_of("ForwardTo").as_deref(), Some("sb://localhost:5300/other/one"));
    // At creation the service overrides properties that conflict with forwarding; an update is stored unchanged.
    assert_eq!(shown(&created), [MAXIMUM, MAXIMUM]);
    assert_eq!(shown(&broker.update("/q", forwarding).await), ["PT1H", "PT2H"]);
    assert_eq!(shown(&broker.create("/graves", &dead).await), [MAXIMUM, "PT2H"]);
    assert_eq!(shown(&broker.update("/graves", &dead).await), ["PT1H", "PT2H"]);
    assert_eq!(broker.create("/t", "<TopicDescription/>").await.status, 201);
    for (name, description, created) in
        [("s", forwarding, [MAXIMUM, MAXIMUM]), ("d", &dead, [MAXIMUM, "PT2H"])]
    {
        let (path, description) =
            (format!("/t/subscriptions/{name}"), description.replace("Queue", "Subscription"));
        assert_eq!(shown(&broker.create(&path, &description).await), created, "{name}");
        assert_eq!(shown(&broker.update(&path, &description).await), ["PT1H", "PT2H"], "{name}");
    }
    let updated = broker.update("/q", "<QueueDescription><ForwardTo/></QueueDescription>").await;
    assert_eq!(updated.text_of("ForwardTo"), None);
}

#[tokio::test]
async fn a_target_of_forwarding_is_returned_with_its_scheme() {
    let broker = Broker::start().await;
    assert_eq!(broker.create("/other", "<QueueDescription/>").await.status, 201);
    for (given, returned) in [
        ("other", "sb://localhost:5300/other"),
        ("sb://elsewhere/other", "sb://localhost:5300/other"),
        ("https://elsewhere/other", "https://localhost:5300/other"),
    ] {
        let properties = ["ForwardTo", "ForwardDeadLetteredMessagesTo"];
        let elements = properties.map(|name| format!("<{name}>{given}</{name}>")).concat();
        let description = format!("<QueueDescription>{elements}</QueueDescription>");
        broker.create("/q", &description).await;
        let updated = broker.update("/q", &description).await;
        for answer in [updated, broker.get("/q").await] {
            assert_eq!(
                properties.map(|name| answer.text_of(name)),
                [Some(returned.to_owned()), Some(returned.to_owned())]
            );
        }
    }
}

#[tokio::test]
async fn keys_that_are_not_given_are_made_and_kept() {
    let rule = |keys: &str| {
        format!(
            "<QueueDescription><AuthorizationRules><AuthorizationRule i:type=\"SharedAccessAuthorizationRule\"><Rights><AccessRights>Send</AccessRights></Rights><KeyName>k</KeyName>{keys}</AuthorizationRule></AuthorizationRules></QueueDescription>"
        )
    };
    let keys = |answer: &super::Answer| {
        let description = answer.description();
        let rule = &description.child("AuthorizationRules").unwrap().children[0];
        let text = |name: &str| rule.text_of(name).unwrap().to_owned();
        assert_eq!(
            (rule.text_of("CreatedTime"), rule.text_of("ModifiedTime")),
            (None, None),
            "as the service"
        );
        (text("PrimaryKey"), text("SecondaryKey"))
    };
    let broker = Broker::start().await;
    let created = keys(&broker.create("/q", &rule("<PrimaryKey>p</PrimaryKey>")).await);
    assert_eq!(created.0, "p");
    assert!(created.1.len() >= 44 && created.1 != created.0);
    assert_eq!(keys(&broker.update("/q", &rule("")).await), created);
    let changed = keys(&broker.update("/q", &rule("<SecondaryKey>s</SecondaryKey>")).await);
    assert_eq!((changed.0.as_str(), changed.1.as_str()), ("p", "s"));
    let none = broker.update("/q", "<QueueDescription/>").await.description();
    assert!(none.child("AuthorizationRules").unwrap().children.is_empty());
}

#[tokio::test]
async fn a_value_above_the_maximum_is_the_maximum() {
    let broker = Broker::start().await;
    let one = "<QueueDescription><DefaultMessageTimeToLive>P10675199DT2H48M5.477539S</DefaultMessageTimeToLive></QueueDescription>";
    let created = broker.create("/q", one).await;
    assert_eq!(created.text_of("DefaultMessageTimeToLive").as_deref(), Some("P10675199DT2H48M5.4775807S"));
}

fn text() -> impl Strategy<Value = String> {
    "[ -~üß\\n\\t]{0,40}"
}

/// Half of the changeable properties, each with a value in its range.
fn properties() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let duration = |range: std::ops::Range<u64>| range.prop_map(crate::atom::duration::text);
    let truth = || any::<bool>().prop_map(|truth| truth.to_string());
    let statuses =
        prop_oneof![Just("Active"), Just("Disabled"), Just("SendDisabled"), Just("ReceiveDisabled")];
    (
        (
            duration(5_000..300_000),
            duration(1_000..u64::from(u32::MAX)),
            duration(300_000..1 << 40),
            duration(20_000..604_800_000),
        ),
        (1..i32::MAX, 1_u32..100_000, 1_u32..1_024),
        (truth(), truth(), truth(), truth()),
        (statuses, text()),
    )
        .prop_map(
            |(
                (lock, live, idle, window),
                (count, size, message),
                (dead, batched, order, partitions),
                (status, words),
            )| {
                vec![
                    ("LockDuration", lock),
                    ("DefaultMessageTimeToLive", live),
                    ("AutoDeleteOnIdle", idle),
                    ("DuplicateDetectionHistoryTimeWindow", window),
                    ("MaxDeliveryCount", count.to_string()),
                    ("MaxSizeInMegabytes", size.to_string()),
                    ("MaxMessageSizeInKilobytes", message.to_string()),
                    ("DeadLetteringOnMessageExpiration", dead),
                    ("EnableBatchedOperations", batched),
                    ("SupportOrdering", order),
                    ("EnablePartitioning", partitions),
                    ("Status", status.to_owned()),
                    ("UserMetadata", words),
                ]
            },
        )
        .prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_between_get_and_update(properties in properties()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let broker = Broker::start().await;
            let created = broker.create("/q", &description("Queue", properties.clone())).await;
            let got = broker.get("/q").await;
            prop_assert_eq!(created.description(), got.description());
            for (name, text) in properties {
                let text = Some(text).filter(|text| !text.is_empty());
                prop_assert_eq!(got.text_of(name), text, "{}", name);
            }
            let update = [("if-match", "*")];
            let updated = broker.ask(Method::PUT, "/q", &update, got.body.clone()).await;
            prop_assert_eq!(updated.description(), got.description());
            Ok(())
        })?;
    }
}

#[test]
fn the_harness_completes_entries_with_the_namespace() {
    assert!(entry("<QueueDescription/>").contains("QueueDescription xmlns="));
}
