use serde_json::{Value as Json, json};

use super::*;

#[tokio::test]
async fn entities_are_created_changed_and_deleted() {
    let broker = Broker::start().await;
    let queue = json!({ "path": "orders", "kind": "queue", "options": { "LockDuration": "PT30S", "MaxDeliveryCount": 3 } });
    let created = broker.post("entities", &queue).await.json(201);
    assert_eq!(
        (&created["options"]["LockDuration"], &created["options"]["MaxDeliveryCount"]),
        (&json!("PT30S"), &json!("3"))
    );
    broker.post("entities", &queue).await.refused(409, "entity-exists", "orders");
    for (path, kind) in [("news", "topic"), ("news/Subscriptions/all", "subscription")] {
        let body = json!({ "path": path, "kind": kind });
        assert_eq!(broker.post("entities", &body).await.json(201)["kind"], kind);
    }
    let changes = json!({ "options": { "MaxDeliveryCount": "5" } });
    let changed = broker.with_body(Method::PATCH, "entity?path=orders", &changes).await.json(200);
    assert_eq!(changed["options"]["MaxDeliveryCount"], "5");
    assert_eq!(changed["options"]["LockDuration"], "PT30S", "options that are not named are unchanged");
    let path = "entity?path=news/Subscriptions/all";
    let changed =
        broker.with_body(Method::PATCH, path, &json!({ "options": { "ForwardTo": "orders" } })).await;
    assert_eq!(changed.json(200)["forward_to"], "orders");
    let changed = broker.with_body(Method::PATCH, path, &json!({ "options": { "ForwardTo": null } })).await;
    assert_eq!(changed.json(200).get("forward_to"), None);
    for path in [path, "entity?path=news", "entity?path=orders"] {
        assert_eq!(broker.ask(Method::DELETE, path, &[], "").await.status, 204, "{path}");
        broker.ask(Method::DELETE, path, &[], "").await.refused(404, "entity-not-found", "");
    }
    assert_eq!(broker.get("entities").await.json(200)["entities"], json!([]));
}

#[tokio::test]
async fn changes_of_different_options_at_once_are_all_there() {
    let broker = &Broker::with_entities().await;
    for path in ["q", "news/Subscriptions/all"] {
        let path = &format!("entity?path={path}");
        let change = |options: Json| async move {
            let body = json!({ "options": options });
            broker.with_body(Method::PATCH, path, &body).await.json(200)
        };
        tokio::join!(
            change(json!({ "LockDuration": "PT17S" })),
            change(json!({ "MaxDeliveryCount": "7" })),
            change(json!({ "UserMetadata": "m" })),
        );
        let options = &broker.get(path).await.json(200)["options"];
        let found = ["LockDuration", "MaxDeliveryCount", "UserMetadata"].map(|name| &options[name]);
        assert_eq!(found, ["PT17S", "7", "m"], "{path}");
    }
}

#[tokio::test]
async fn options_are_checked_as_by_the_atom_api() {
    let broker = Broker::with_entities().await;
    for (options, text) in [
        (json!({ "LockDuration": "PT10M" }), "LockDuration"),
        (json!({ "LockDuraton": "PT1M" }), "A queue has no option 'LockDuraton'"),
        (json!({ "RequiresSession": true }), "cannot be changed"),
        (json!({ "ForwardTo": "nowhere" }), "does not exist"),
        (json!({ "AuthorizationRules": "x" }), "Authorization rules"),
        (json!({ "MaxDeliveryCount": "" }), "needs a value"),
        (json!({ "MaxDeliveryCount": [1] }), "must be a text"),
        (json!({ "Status": "Asleep" }), "must be Active"),
    ] {
        let body = json!({ "options": options });
        broker.with_body(Method::PATCH, "entity?path=q", &body).await.refused(400, code(text), text);
    }
    for body in [
        json!({ "path": "new", "kind": "table" }),
        json!({ "path": "new", "kind": "subscription" }),
        json!({ "path": "news/Subscriptions/new", "kind": "queue" }),
        json!({ "path": "q/$deadletterqueue", "kind": "queue" }),
        json!({ "path": "$bad", "kind": "queue" }),
        json!({ "path": "new" }),
        json!([]),
    ] {
        broker.post("entities", &body).await.refused(400, "invalid-argument", "");
    }
}

fn code(text: &str) -> &'static str {
    if text == "does not exist" { "forwarding-target-not-found" } else { "invalid-argument" }
}

#[tokio::test]
async fn authorization_rules_stay_when_options_change() {
    let broker = Broker::start().await;
    let rule = peeklock_engine::AuthorizationRule {
        name: "send".into(),
        rights: peeklock_engine::Rights::ALL,
        primary_key: peeklock_engine::Secret::new("first"),
        secondary_key: peeklock_engine::Secret::new("second"),
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    };
    let options = QueueOptions { authorization_rules: vec![rule.clone()], ..QueueOptions::default() };
    broker.namespace.declare("q", options).await.unwrap();
    let body = json!({ "options": { "MaxDeliveryCount": 2 } });
    broker.with_body(Method::PATCH, "entity?path=q", &body).await.json(200);
    let peeklock_engine::EntityOptions::Queue(now) = (*broker.namespace.options("q").unwrap()).clone() else {
        panic!("a queue");
    };
    assert_eq!((now.max_delivery_count, now.authorization_rules), (2, vec![rule]));
}

#[tokio::test]
async fn rules_are_added_replaced_and_removed() {
    let broker = Broker::with_entities().await;
    let path = "rule?path=news/Subscriptions/all&name=red";
    let rule = json!({
        "filter": { "kind": "sql", "expression": "color = @c", "parameters": { "@c": "red" } },
        "action": "SET seen = 1",
    });
    let shown = broker.with_body(Method::PUT, path, &rule).await.json(201);
    let rules = shown["rules"].as_array().unwrap();
    let red = rules.iter().find(|rule| rule["name"] == "red").unwrap();
    assert_eq!(red["filter"]["expression"], "color = @c");
    assert_eq!(red["filter"]["parameters"]["@c"], json!({ "type": "string", "value": "red" }));
    assert_eq!(red["action"]["expression"], "SET seen = 1");
    let rule = json!({ "filter": { "kind": "correlation", "subject": "red", "properties": { "size": 5 } } });
    let shown = broker.with_body(Method::PUT, path, &rule).await.json(200);
    let red = shown["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == "red").unwrap().clone();
    let expected = json!({ "kind": "correlation", "subject": "red", "properties": { "size": { "type": "int", "value": "5" } } });
    assert_eq!((&red["filter"], red.get("action")), (&expected, None::<&Json>));
    for (rule, text) in [
        (json!({ "filter": { "kind": "sql", "expression": "color =" } }), "can't be read"),
        (json!({ "filter": { "kind": "correlation" } }), "at least one field"),
        (json!({ "filter": { "kind": "magic" } }), "sql, correlation, true or false"),
        (json!({ "action": "SET" }), "can't be read"),
        (json!({ "filtr": {} }), "unknown field"),
    ] {
        broker.with_body(Method::PUT, path, &rule).await.refused(400, "invalid-argument", text);
    }
    assert_eq!(broker.ask(Method::DELETE, path, &[], "").await.status, 204);
    broker.ask(Method::DELETE, path, &[], "").await.refused(404, "entity-not-found", "red");
    broker.with_body(Method::PUT, "rule?path=q&name=r", &json!({})).await.refused(
        400,
        "invalid-argument",
        "Only subscriptions",
    );
}
