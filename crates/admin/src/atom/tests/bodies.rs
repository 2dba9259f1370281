//! Requests of the SDKs: captured from azure-servicebus 7.15.0 and @azure/service-bus 7.9.5.

use axum::http::Method;

use super::{Answer, Broker, typed_value};

const PYTHON_QUEUE: &str = include_str!("bodies/python-queue.xml");
const PYTHON_RULE: &str = include_str!("bodies/python-rule.xml");
const JS_RULE: &str = include_str!("bodies/js-rule.xml");
const PYTHON_EMPTY: &str = include_str!("bodies/python-empty.xml");
const PYTHON_TOPIC: &str = include_str!("bodies/python-topic.xml");
const JS_QUEUE: &str = include_str!("bodies/js-queue.xml");
const JS_SUBSCRIPTION: &str = include_str!("bodies/js-subscription.xml");
const JS_EMPTY: &str = include_str!("bodies/js-empty.xml");

async fn put(broker: &Broker, path: &str, body: &'static str) -> Answer {
    broker.ask(Method::PUT, path, &[("content-type", "application/atom+xml")], body).await
}

#[tokio::test]
async fn an_empty_description_is_all_defaults() {
    let broker = Broker::start().await;
    for (path, body) in [("/python", PYTHON_EMPTY), ("/js", JS_EMPTY)] {
        let created = put(&broker, path, body).await;
        assert_eq!(created.status, 201);
        assert_eq!(created.text_of("LockDuration").as_deref(), Some("PT1M"));
        assert_eq!(created.text_of("AutoDeleteOnIdle").as_deref(), Some("P10675199DT2H48M5.4775807S"));
    }
}

#[tokio::test]
async fn queues_of_both_sdks_have_every_property() {
    let broker = Broker::start().await;
    assert_eq!(put(&broker, "/other", PYTHON_EMPTY).await.status, 201);
    for (path, body) in [("/python", PYTHON_QUEUE), ("/js", JS_QUEUE)] {
        let created = put(&broker, path, body).await;
        let description = created.description();
        for (name, text) in [
            ("LockDuration", "PT30S"),
            ("MaxSizeInMegabytes", "2048"),
            ("RequiresSession", "true"),
            ("RequiresDuplicateDetection", "true"),
            // Of forwarding queues, only partitioned ones are created with a time to live of their own.
            ("DefaultMessageTimeToLive", "P2D"),
            ("Status", "ReceiveDisabled"),
            ("ForwardTo", "sb://localhost:5300/other"),
            ("ForwardDeadLetteredMessagesTo", "sb://localhost:5300/other"),
            ("UserMetadata", "m & m"),
            ("MaxMessageSizeInKilobytes", "2048"),
        ] {
            assert_eq!(description.text_of(name), Some(text), "{path} {name}");
        }
        let rules = description.child("AuthorizationRules").unwrap();
        let (rule, rights) = (&rules.children[0], rules.children[0].child("Rights").unwrap());
        assert_eq!(rule.kind.as_deref(), Some("SharedAccessAuthorizationRule"));
        assert_eq!((rule.text_of("KeyName"), rule.text_of("PrimaryKey")), (Some("k"), Some("p")));
        let rights: Vec<&str> = rights.children.iter().map(|right| right.text.as_str()).collect();
        assert_eq!(rights, ["Manage", "Send", "Listen"]);
    }
}

#[tokio::test]
async fn a_topic_has_every_property() {
    let broker = Broker::start().await;
    let topic = put(&broker, "/t", PYTHON_TOPIC).await;
    assert_eq!(topic.text_of("SupportOrdering").as_deref(), Some("false"));
    assert_eq!(topic.text_of("SizeInBytes").as_deref(), Some("0"), "read-only");
    assert_eq!(topic.text_of("SqlFilterCount"), None, "not of the version that is taken for the default");
    let newer = broker.get("/t?enrich=false&api-version=2024-05").await;
    assert_eq!(newer.text_of("SqlFilterCount").as_deref(), Some("0"));
    let older = broker.get("/t?api-version=2017-04").await;
    assert_eq!(older.text_of("MaxMessageSizeInKilobytes"), None);
}

#[tokio::test]
async fn the_first_rule_comes_with_the_subscription() {
    let broker = Broker::with_subscription().await;
    assert_eq!(put(&broker, "/other", PYTHON_EMPTY).await.status, 201);
    assert_eq!(put(&broker, "/t/Subscriptions/js", JS_SUBSCRIPTION).await.status, 201);
    assert_eq!(broker.get("/t/Subscriptions/js/Rules/").await.titles(), ["d"]);
    assert_eq!(broker.get("/t/Subscriptions/s/Rules/").await.titles(), ["$Default"]);
    let rule = broker.get("/t/subscriptions/s/rules/%24Default").await;
    let start = "<RuleDescription xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><Filter i:type=\"TrueFilter\"><SqlExpression>1=1</SqlExpression>\
         <CompatibilityLevel>20</CompatibilityLevel></Filter><Action i:type=\"EmptyRuleAction\"></Action>";
    assert!(rule.body.contains(start), "{}", rule.body);
}

/// Recordings of azure-sdk-for-python (`control_plane_tests/recordings`), without a version by the client 0.20, and of
/// azure-sdk-for-net with capitals and a version.
#[tokio::test]
async fn urls_in_answers_repeat_the_request() {
    let broker = Broker::with_subscription().await;
    for (requested, answered) in [
        ("/t", "/t"),
        ("/t?api-version=2017-04", "/t?api-version=2017-04"),
        ("/t/subscriptions/s", "/t/subscriptions/s"),
        ("/t/subscriptions/", "/t/subscriptions/s"),
        ("/t/subscriptions/", "/t/subscriptions/"),
        ("/$Resources/Topics/?$skip=0", "/$Resources/Topics/?$skip=0"),
        ("/t/Subscriptions?api-version=2021-05", "/t/Subscriptions/s?api-version=2021-05"),
        ("/t/subscriptions/s/rules/", "/t/subscriptions/s/rules/$Default"),
        ("/t/Subscriptions?api-version=2021-05&enrich=False", "/t/Subscriptions/s?api-version=2021-05"),
        (
            "/t/Subscriptions/s/Rules/$Default?api-version=2021-05&enrich=False",
            "/t/Subscriptions/s/Rules/$Default?api-version=2021-05&amp;enrich=False",
        ),
        ("/t?enrich=false&api-version=2017-04", "/t?enrich=false&amp;api-version=2017-04"),
    ] {
        let answer = broker.get(requested).await;
        let id = format!("<id>https://localhost:5300{answered}</id>");
        assert!(answer.body.contains(&id), "{requested}: {}", answer.body);
    }
}

/// As in recordings of azure-sdk-for-net: BasicRuleCrudOperations (2017-04), BasicSubscriptionCrudOperations (2021-05).
#[tokio::test]
async fn answers_tell_their_kind_and_whether_a_subscription_belongs_to_a_client() {
    let broker = Broker::with_subscription().await;
    for (path, kind) in [
        ("/t", "entry"),
        ("/t/Subscriptions/s", "entry"),
        ("/t/Subscriptions", "feed"),
        ("/$Resources/topics", "feed"),
        ("/none", "feed"),
    ] {
        let answer = broker.get(path).await;
        let expected = format!("application/atom+xml;type={kind};charset=utf-8");
        assert_eq!(answer.headers["content-type"], expected, "{path}");
    }
    for (version, shown) in [("2017-04", None), ("2021-05", Some("false")), ("2024-05", Some("false"))] {
        let found = broker.get(&format!("/t/Subscriptions/s?api-version={version}")).await;
        assert_eq!(found.text_of("IsClientAffine").as_deref(), shown, "{version}");
    }
}

/// As in the same recordings, and in those of azure-sdk-for-python.
#[tokio::test]
async fn entries_have_times_in_whole_seconds_and_an_author_unless_they_are_part_of_a_topic() {
    let broker = Broker::with_subscription().await;
    for (path, author) in [
        ("/t", true),
        ("/$Resources/topics", true),
        ("/$namespaceinfo", true),
        ("/t/Subscriptions/s", false),
        ("/t/Subscriptions", false),
        ("/t/Subscriptions/s/Rules/$Default", false),
        ("/none", false),
    ] {
        let body = broker.get(path).await.body;
        assert_eq!(body.contains("<author><name>localhost</name></author>"), author, "{path}: {body}");
        for name in ["published", "updated"] {
            for text in body.split(&format!("<{name}>")).skip(1) {
                let seconds = &text[..text.find('<').unwrap()];
                assert_eq!(seconds.len(), "2026-11-20T18:00:00Z".len(), "{path} {name}: {seconds}");
            }
        }
    }
}

#[tokio::test]
async fn typed_values_come_back_as_js_reads_them() {
    let broker = Broker::with_subscription().await;
    let path = "/t/subscriptions/s/rules/python";
    assert_eq!(put(&broker, path, PYTHON_RULE).await.status, 201);
    let rule = broker.get(path).await.body;
    for (kind, text) in [
        ("int", "5"),
        ("long", "1099511627776"),
        ("double", "1.5"),
        ("boolean", "true"),
        ("string", "x"),
        ("dateTime", "2026-01-01T00:00:00"),
        ("duration", "PT5S"),
    ] {
        assert!(rule.contains(&typed_value(kind, text)), "{kind}: {rule}");
    }
    let path = "/t/subscriptions/s/rules/js";
    assert_eq!(put(&broker, path, JS_RULE).await.status, 201);
    let rule = broker.get(path).await.body;
    for (kind, text) in
        [("double", "5"), ("double", "1.5"), ("boolean", "true"), ("dateTime", "1970-01-01T00:00:00Z")]
    {
        assert!(rule.contains(&typed_value(kind, text)), "{kind}: {rule}");
    }
    let counted = broker.get("/t?api-version=2024-05").await;
    assert_eq!(counted.text_of("CorrelationFilterCount").as_deref(), Some("2"));
}

#[tokio::test]
async fn pages_say_where_the_next_one_is_and_the_last_does_not() {
    let broker = Broker::start().await;
    for number in 0..5 {
        assert_eq!(put(&broker, &format!("/q{number}"), PYTHON_EMPTY).await.status, 201);
    }
    let page = broker.get("/$Resources/queues?%24skip=0&%24top=2&enrich=false&api-version=2021-05").await;
    assert_eq!(page.titles(), ["q0", "q1"]);
    let next = "<link rel=\"next\" href=\"https://localhost:5300/$Resources/queues?api-version=2021-05&amp;$skip=2&amp;$top=2\">";
    let (own, next) =
        (page.body.find("<link rel=\"self\"").unwrap(), page.body.find(next).expect("a next page"));
    assert!(own < next && next < page.body.find("<entry").unwrap());
    let last = broker.get("/$Resources/queues?$skip=4&$top=2").await;
    assert_eq!(last.titles(), ["q4"]);
    assert!(!last.body.contains("rel=\"next\""));
    for (query, count) in [("$skip=3&$top=2", 2), ("$skip=9", 0), ("", 5), ("$top=1000", 5), ("$top=0", 0)] {
        let page = broker.get(&format!("/$Resources/queues?{query}")).await;
        assert_eq!((page.titles().len(), page.body.contains("rel=\"next\"")), (count, false), "{query}");
    }
    assert!(broker.get("/$resources/topics").await.titles().is_empty());
}

#[tokio::test]
async fn the_namespace_describes_itself() {
    let info = Broker::start().await.get("/$namespaceinfo?api-version=2021-05").await;
    for (name, text) in [("MessagingSKU", "Premium"), ("MessagingUnits", "1"), ("Name", "localhost")] {
        assert_eq!(info.text_of(name).as_deref(), Some(text));
    }
}

#[tokio::test]
async fn the_number_of_a_request_comes_back() {
    let broker = Broker::start().await;
    for path in ["/$namespaceinfo", "/%ff"] {
        let answer = broker.ask(Method::GET, path, &[("x-ms-client-request-id", "7")], "").await;
        assert_eq!(answer.headers["x-ms-client-request-id"], "7");
    }
}
