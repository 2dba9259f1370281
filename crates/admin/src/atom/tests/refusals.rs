use axum::http::Method;

use super::{Broker, entry};
use crate::Limits;

#[tokio::test]
async fn a_property_out_of_range_is_named_with_its_range() {
    let broker = Broker::start().await;
    for (property, value, text) in [
        ("LockDuration", "PT1S", "'LockDuration' must be from PT5S to PT5M."),
        ("LockDuration", "PT6M", "'LockDuration'"),
        ("LockDuration", "1 minute", "'LockDuration' must be a duration"),
        ("DefaultMessageTimeToLive", "PT0.5S", "'DefaultMessageTimeToLive' must be at least PT1S."),
        ("AutoDeleteOnIdle", "PT4M", "'AutoDeleteOnIdle' must be at least PT5M."),
        ("DuplicateDetectionHistoryTimeWindow", "PT19S", "from PT20S to P7D."),
        ("DuplicateDetectionHistoryTimeWindow", "P8D", "from PT20S to P7D."),
        ("MaxDeliveryCount", "0", "'MaxDeliveryCount' must be a whole number from 1 to 2147483647."),
        ("MaxDeliveryCount", "-1", "'MaxDeliveryCount'"),
        ("MaxSizeInMegabytes", "0", "'MaxSizeInMegabytes'"),
        ("MaxMessageSizeInKilobytes", "102401", "from 1 to 102400."),
        ("RequiresSession", "maybe", "'RequiresSession' must be true or false."),
        ("Status", "Gone", "'Status' must be Active, Disabled, SendDisabled or ReceiveDisabled."),
        ("UserMetadata", &"x".repeat(1025), "'UserMetadata' has at most 1024 characters."),
    ] {
        let description = format!("<QueueDescription><{property}>{value}</{property}></QueueDescription>");
        broker.create("/q", &description).await.refused(400, text);
        broker.get("/q").await.is_missing();
    }
}

#[tokio::test]
async fn limits_of_the_configuration_hold() {
    let limits = Limits {
        auto_delete_on_idle_min_ms: 100,
        message_time_to_live_max_ms: Some(3_600_000),
        message_size_max_bytes: 2 << 20,
        ..Limits::default()
    };
    let broker = Broker::with_limits(limits).await;
    let one = |property: &str, value: &str| {
        format!("<QueueDescription><{property}>{value}</{property}></QueueDescription>")
    };
    broker.create("/q", &one("DefaultMessageTimeToLive", "PT2H")).await.refused(400, "from PT1S to PT1H.");
    broker.create("/q", &one("MaxMessageSizeInKilobytes", "4096")).await.refused(400, "at most 2048");
    let created = broker.create("/q", &one("AutoDeleteOnIdle", "PT0.1S")).await;
    assert_eq!(created.text_of("AutoDeleteOnIdle").as_deref(), Some("PT0.1S"));
    assert_eq!(created.text_of("DefaultMessageTimeToLive").as_deref(), Some("PT1H"));
}

#[tokio::test]
async fn immutable_properties_do_not_change() {
    let broker = Broker::start().await;
    assert_eq!(broker.create("/q", "<QueueDescription/>").await.status, 201);
    assert_eq!(broker.create("/t", "<TopicDescription/>").await.status, 201);
    assert_eq!(broker.create("/t/subscriptions/s", "<SubscriptionDescription/>").await.status, 201);
    for (path, kind, property) in [
        ("/q", "Queue", "RequiresSession"),
        ("/q", "Queue", "RequiresDuplicateDetection"),
        ("/t", "Topic", "RequiresDuplicateDetection"),
        ("/t/subscriptions/s", "Subscription", "RequiresSession"),
    ] {
        let description = format!("<{kind}Description><{property}>true</{property}></{kind}Description>");
        let text = format!("The value for the {property} property of an existing {kind} cannot be changed.");
        broker.update(path, &description).await.refused(400, &text);
    }
    let partitioned = "<TopicDescription><EnablePartitioning>true</EnablePartitioning></TopicDescription>";
    broker.update("/t", partitioned).await.refused(400, "Partitioning cannot be changed for Topic. ");
    broker.update("/q", "<TopicDescription/>").await.refused(400, "is a queue");
    broker.create("/q", "<TopicDescription/>").await.refused(409, "already exists");
    broker.create("/Q", "<QueueDescription/>").await.refused(409, "already exists");
}

#[tokio::test]
async fn express_and_duplicate_detection_exclude_each_other() {
    let both =
        "<EnableExpress>true</EnableExpress><RequiresDuplicateDetection>true</RequiresDuplicateDetection>";
    let broker = Broker::start().await;
    for kind in ["Queue", "Topic"] {
        let description = format!("<{kind}Description>{both}</{kind}Description>");
        let text = "SubCode=40000. Both DelayedPersistence property and RequiresDuplicateDetection property cannot be enabled together.";
        broker.create("/e", &description).await.refused(400, text);
    }
}

#[tokio::test]
async fn unknown_entities_are_not_found() {
    let broker = Broker::with_subscription().await;
    for path in [
        "/x",
        "/x/subscriptions/s",
        "/x/subscriptions",
        "/x/subscriptions/s/rules",
        "/x/subscriptions/s/rules/x",
        "/$x",
        "/$resources/x",
        "/x/$DeadLetterQueue",
        "/",
    ] {
        for version in ["2017-04", "2021-05", "2024-05"] {
            broker.get(&format!("{path}?api-version={version}")).await.is_missing();
        }
    }
    for path in [
        "/t/subscriptions/x",
        "/t/subscriptions/s/rules/x",
        "/t/subscriptions/x/rules",
        "/t/subscriptions/x/rules/x",
    ] {
        broker.get(path).await.refused(404, "could not be found");
    }
    for path in ["/x", "/t/subscriptions/x", "/x/subscriptions/x", "/t/subscriptions/s/rules/x"] {
        broker.delete(path).await.refused(404, "could not be found");
    }
    broker.update("/x", "<QueueDescription/>").await.refused(404, "could not be found");
    broker
        .update("/t/subscriptions/x", "<SubscriptionDescription/>")
        .await
        .refused(404, "could not be found");
    broker
        .update("/t/subscriptions/s/rules/x", "<RuleDescription/>")
        .await
        .refused(404, "could not be found");
    broker
        .create("/x/subscriptions/s", "<SubscriptionDescription/>")
        .await
        .refused(404, "could not be found");
    broker
        .create("/t/subscriptions/x/rules/r", "<RuleDescription/>")
        .await
        .refused(404, "could not be found");
}

#[tokio::test]
async fn a_dead_letter_queue_has_no_description() {
    let broker = Broker::with_subscription().await;
    assert_eq!(broker.create("/a/b", "<QueueDescription/>").await.status, 201);
    for path in [
        "/t/$DeadLetterQueue",
        "/a/b/$deadletterqueue?enrich=True",
        "/a%2Fb/%24DeadLetterQueue",
        "/a/b/$Transfer/$DeadLetterQueue",
        "/a/b/$management",
        "/t/subscriptions/s/$DeadLetterQueue",
    ] {
        let answer = broker.get(path).await;
        let start = "<Error><Code>400</Code><Detail>The specified HTTP verb (GET) is not valid. TrackingId:";
        assert_eq!(answer.status, 400);
        assert!(answer.body.starts_with(start), "{}", answer.body);
    }
    assert_eq!(broker.delete("/t/$DeadLetterQueue").await.status, 400);
    assert_eq!(broker.create("/t/$DeadLetterQueue", "<QueueDescription/>").await.status, 400);
    assert_eq!(broker.delete("/x/$DeadLetterQueue").await.status, 404);
}

#[tokio::test]
async fn names_that_can_not_be_are_refused() {
    let broker = Broker::with_subscription().await;
    let long = format!("/{}", "x".repeat(261));
    for path in ["/a@b", "/$x", "/a%00", "/a%5Cb", "/subscriptions/x%2F", "/%20a", long.as_str()] {
        let answer = broker.create(path, "<QueueDescription/>").await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
    }
    let long = "x".repeat(51);
    for name in ["$x", "a%252Fb", long.as_str()] {
        let path = format!("/t/subscriptions/{name}");
        broker
            .create(&path, "<SubscriptionDescription/>")
            .await
            .refused(400, "can't be the name of a subscription");
    }
    broker
        .create("/t/subscriptions/a%2Fb", "<SubscriptionDescription/>")
        .await
        .refused(400, "can't be the name of an entity");
    let path = format!("/t/subscriptions/s/rules/{long}");
    broker.create(&path, "<RuleDescription/>").await.refused(400, "can't be the name of a rule");
}

#[tokio::test]
async fn methods_and_conditions_that_make_no_sense_are_refused() {
    let broker = Broker::with_subscription().await;
    for (method, path, allowed) in [
        (Method::PUT, "/$namespaceinfo", "GET"),
        (Method::DELETE, "/$resources/queues", "GET"),
        (Method::PUT, "/t/subscriptions", "GET"),
        (Method::POST, "/t", "GET, PUT, DELETE"),
        (Method::PATCH, "/t/subscriptions/s/rules/r", "GET, PUT, DELETE"),
    ] {
        let answer = broker.ask(method, path, &[], "").await;
        answer.refused(405, "does not support");
        assert_eq!(answer.headers["allow"], allowed);
    }
    let answer = broker.ask(Method::PUT, "/t", &[("if-match", "\"1\"")], entry("<TopicDescription/>")).await;
    answer.refused(412, "If-Match");
    broker.get("/$resources/queues?$skip=x").await.refused(400, "$skip");
    for version in ["1", "2013-06", "2013_07"] {
        broker.get(&format!("/$resources/queues?api-version={version}")).await.refused(400, "api-version");
    }
    // azure-sdk-for-java, ServiceBusRestProxy.
    assert_eq!(broker.get("/$resources/queues?api-version=2013-07").await.status, 200);
}

#[tokio::test]
async fn bodies_that_are_no_descriptions_are_refused() {
    let broker = Broker::start().await;
    let put = async |body: String| broker.ask(Method::PUT, "/q", &[], body).await;
    put(String::new()).await.refused(400, "not usable XML");
    put("<a/>".to_owned()).await.refused(400, "Atom entry");
    put("<entry/>".to_owned()).await.refused(400, "content with one description");
    put(entry("<RuleDescription/>")).await.refused(400, "not by 'RuleDescription'");
    put("x".repeat((1 << 20) + 1)).await.refused(413, "1048576 bytes");
    let bomb = "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><entry>&b;</entry>";
    put(bomb.to_owned()).await.refused(400, "document type");
}

#[tokio::test]
async fn rules_about_access_must_make_sense() {
    let broker = Broker::start().await;
    let rule = |name: &str, rights: &[&str]| {
        let rights: String =
            rights.iter().map(|right| format!("<AccessRights>{right}</AccessRights>")).collect();
        format!("<AuthorizationRule><Rights>{rights}</Rights><KeyName>{name}</KeyName></AuthorizationRule>")
    };
    let with = |rules: &str| {
        format!("<QueueDescription><AuthorizationRules>{rules}</AuthorizationRules></QueueDescription>")
    };
    let thirteen: String = (0..13).map(|n| rule(&format!("r{n}"), &["Send"])).collect();
    for (rules, text) in [
        (rule("", &["Send"]), "KeyName"),
        (rule("r", &[]), "without any right"),
        (rule("r", &["Manage"]), "needs Send and Listen"),
        (rule("r", &["Fly"]), "not Manage, Send or Listen"),
        (rule("r", &["Send"]) + &rule("r", &["Listen"]), "twice"),
        (thirteen, "at most 12"),
    ] {
        broker.create("/q", &with(&rules)).await.refused(400, text);
    }
}

/// azure-service-bus 203.
#[tokio::test]
async fn a_missing_target_of_forwarding_is_named_with_the_sub_code_for_not_found() {
    let broker = Broker::start().await;
    assert_eq!(broker.create("/q", "<QueueDescription/>").await.status, 201);
    assert_eq!(broker.create("/t", "<TopicDescription/>").await.status, 201);
    assert_eq!(broker.create("/t/subscriptions/s", "<SubscriptionDescription/>").await.status, 201);
    for property in ["ForwardTo", "ForwardDeadLetteredMessagesTo"] {
        let described = |kind: &str| {
            format!("<{kind}Description><{property}>sb://here/missing</{property}></{kind}Description>")
        };
        for answer in [
            broker.create("/new", &described("Queue")).await,
            broker.update("/q", &described("Queue")).await,
            broker.create("/t/subscriptions/new", &described("Subscription")).await,
            broker.update("/t/subscriptions/s", &described("Subscription")).await,
        ] {
            assert_eq!(answer.status, 400, "{property}");
            let text = "SubCode=40400. The auto forwarding destination entity does not exist: ";
            assert!(answer.body.contains(text), "{}", answer.body);
            assert!(answer.body.contains(&format!("'{property}' names 'missing'")), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_target_of_forwarding_that_went_does_not_keep_the_rest_from_being_changed() {
    let broker = Broker::start().await;
    assert_eq!(broker.create("/gone", "<QueueDescription/>").await.status, 201);
    assert_eq!(broker.create("/t", "<TopicDescription/>").await.status, 201);
    let described = |kind: &str, count: u32| {
        format!(
            "<{kind}Description><MaxDeliveryCount>{count}</MaxDeliveryCount>\
             <ForwardTo>sb://here/gone</ForwardTo></{kind}Description>"
        )
    };
    let all = [("/q", "Queue"), ("/t/subscriptions/s", "Subscription")];
    for (path, kind) in all {
        assert_eq!(broker.create(path, &described(kind, 3)).await.status, 201);
    }
    assert_eq!(broker.delete("/gone").await.status, 200);
    for (path, kind) in all {
        let updated = broker.update(path, &described(kind, 4)).await;
        assert_eq!(updated.status, 200, "{}", updated.body);
    }
}
