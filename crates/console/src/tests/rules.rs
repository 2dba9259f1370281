use serde_json::json;

use super::*;

#[tokio::test]
async fn a_message_is_tried_on_all_rules_of_a_topic() {
    let broker = Broker::with_entities().await;
    let rule = json!({ "filter": { "kind": "sql", "expression": "color = 'red'" }, "action": "SET seen = 5; REMOVE size; SET sys.Label = 'new'" });
    let path = "rule?path=news/Subscriptions/all&name=red";
    assert_eq!(broker.with_body(Method::PUT, path, &rule).await.status, 201);
    let test = json!({ "topic": "news", "message": { "properties": { "color": "red", "size": 1 } } });
    let tried = broker.post("rules/test", &test).await.json(200);
    let results = tried["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!((&results[0]["rule"], &results[0]["matches"]), (&json!("$Default"), &json!(true)));
    let red = &results[1];
    assert_eq!((&red["subscription"], &red["matches"]), (&json!("news/Subscriptions/all"), &json!(true)));
    assert_eq!(red["changed"]["subject"], "new");
    assert_eq!(red["changed"]["properties"]["seen"]["value"], "5");
    assert_eq!(red["changed"]["properties"]["size"], serde_json::Value::Null);
    let other = json!({ "topic": "news", "message": { "properties": { "color": "blue" } } });
    assert_eq!(broker.post("rules/test", &other).await.json(200)["results"][1]["matches"], false);
    assert_eq!(broker.get("messages?path=news/Subscriptions/all").await.json(200)["messages"], json!([]));
}

#[tokio::test]
async fn a_rule_is_tried_before_it_exists() {
    let broker = Broker::with_entities().await;
    let try_it = |expression: &str| {
        let rule = json!({ "filter": { "kind": "sql", "expression": expression } });
        json!({ "topic": "news", "message": { "subject": "a" }, "rule": rule })
    };
    let result = |answer: &Answer| answer.json(200)["results"][0].clone();
    assert_eq!(result(&broker.post("rules/test", &try_it("sys.Label = 'a'")).await)["matches"], true);
    let failed = result(&broker.post("rules/test", &try_it("sys.Label + 1 > 0")).await);
    assert_eq!(failed["matches"], false);
    assert!(failed["error"].is_string(), "{failed}");
    broker.post("rules/test", &try_it("sys.Label =")).await.refused(400, "invalid-argument", "can't be read");
    let on_queue = json!({ "topic": "q", "message": {} });
    broker.post("rules/test", &on_queue).await.refused(400, "invalid-argument", "'q' is not a topic");
}

#[tokio::test]
async fn rules_are_listed_in_pages() {
    let broker = Broker::with_entities().await;
    for name in ["a", "b"] {
        let path = format!("rule?path=news/Subscriptions/all&name={name}");
        assert_eq!(
            broker.with_body(Method::PUT, &path, &json!({ "filter": { "kind": "false" } })).await.status,
            201
        );
    }
    let first = broker.get("rules?path=news/Subscriptions/all&top=2").await.json(200);
    assert_eq!(first["next"], "2");
    let rest = broker.get("rules?path=news/Subscriptions/all&top=2&from=2").await.json(200);
    assert_eq!((&rest["rules"][0]["name"], &rest["next"]), (&json!("b"), &serde_json::Value::Null));
}
