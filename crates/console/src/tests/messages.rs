use peeklock_engine::Settlement;
use serde_json::{Value as Json, json};

use super::*;

fn numbers(page: &Json) -> Vec<&str> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|message| message["sequence_number"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_message_is_shown_as_it_was_sent() {
    let broker = Broker::with_entities().await;
    let properties = json!({
        "text": { "type": "string", "value": "a<b>" },
        "long": { "type": "long", "value": "9007199254740993" },
        "yes": { "type": "boolean", "value": true },
        "at": { "type": "dateTime", "value": "2023-11-14T22:13:20.000Z" },
    });
    let sent = json!({
        "body": { "json": { "a": 1 } },
        "message_id": "m", "correlation_id": "c", "subject": "l", "to": "t", "reply_to": "r",
        "time_to_live_ms": 60_000, "properties": properties,
    });
    let number = broker.send("q", sent).await;
    let page = broker.get("messages?path=q").await.json(200);
    assert_eq!(page["next"], Json::Null);
    let message = &page["messages"][0];
    assert_eq!(message["sequence_number"], number);
    assert_eq!(message["state"], "active");
    assert_eq!(message["enqueued_at"], NOW);
    assert_eq!(message["expires_at"], "2023-11-14T22:14:20.000Z");
    assert_eq!(message["time_to_live_ms"], 60_000);
    assert_eq!(message["content_type"], "application/json");
    assert_eq!(message["properties"], properties);
    assert_eq!(message["body"]["text"], r#"{"a":1}"#);
    assert_eq!(message["body"]["kind"], "data");
    assert_eq!(message["body"]["truncated"], false);
    for (name, text) in
        [("message_id", "m"), ("correlation_id", "c"), ("subject", "l"), ("to", "t"), ("reply_to", "r")]
    {
        assert_eq!(message[name], text, "{name}");
    }
}

#[tokio::test]
async fn messages_are_browsed_in_every_state_in_pages() {
    let broker = Broker::with_entities().await;
    broker.send("q", json!({ "body": { "text": "deferred" } })).await;
    broker.settle("q", Settlement::Defer { modify: Vec::new() }).await;
    for _ in 0..3 {
        broker.send("q", json!({})).await;
    }
    broker.send("q", json!({ "scheduled_for": "2023-11-15T00:00:00Z" })).await;
    for (state, count) in [("any", 5), ("active", 3), ("deferred", 1), ("scheduled", 1)] {
        let page = broker.get(&format!("messages?path=q&state={state}")).await.json(200);
        assert_eq!(numbers(&page).len(), count, "{state}");
        assert_eq!(page["examined"], 5, "{state}");
    }
    let scheduled = broker.get("messages?path=q&state=scheduled").await.json(200);
    assert_eq!(scheduled["messages"][0]["scheduled_for"], "2023-11-15T00:00:00.000Z");
    let first = broker.get("messages?path=q&top=2").await.json(200);
    assert_eq!(numbers(&first), ["1", "2"]);
    let rest =
        broker.get(&format!("messages?path=q&from={}", first["next"].as_str().unwrap())).await.json(200);
    assert_eq!(numbers(&rest).len(), 3);
    broker.get("messages?path=q&state=dead").await.refused(400, "invalid-argument", "any, active");
    broker.get("messages?path=q&from=x").await.refused(400, "invalid-argument", "sequence number");
}

#[tokio::test]
async fn a_condition_in_the_sql_of_rules_selects_messages() {
    let broker = Broker::with_entities().await;
    for color in ["red", "blue", "red"] {
        broker.send("q", json!({ "subject": color, "properties": { "color": color } })).await;
    }
    let page =
        broker.get("messages?path=q&where=color+%3D+%27red%27+AND+sys.Label+LIKE+%27r%25%27").await.json(200);
    assert_eq!(numbers(&page), ["1", "3"]);
    assert_eq!(page["examined"], 3);
    let refused = broker.get("messages?path=q&where=color+%3D").await;
    refused.refused(400, "invalid-argument", "The SQL of the condition can't be read");
}

#[tokio::test]
async fn a_page_of_a_condition_examines_a_bounded_number() {
    let broker = Broker::with_entities().await;
    for _ in 0..2 {
        let many = json!({ "messages": [{}], "repeat": 700 });
        assert_eq!(
            broker.post("messages?path=q", &many).await.json(201)["sequence_numbers"]
                .as_array()
                .unwrap()
                .len(),
            700
        );
    }
    let (mut examined, mut from, mut pages) = (0, String::new(), 0);
    loop {
        let page = broker.get(&format!("messages?path=q&where=x%3D1&from={from}")).await.json(200);
        assert!(page["examined"].as_u64().unwrap() <= 1_000);
        examined += page["examined"].as_u64().unwrap();
        pages += 1;
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(examined, 1_400);
    assert!(pages >= 2);
}

#[tokio::test]
async fn long_bodies_are_cut_between_characters() {
    let broker = Broker::with_entities().await;
    broker.send("q", json!({ "body": { "text": "aä€b" } })).await;
    let body = &broker.get("messages?path=q&body_max=4").await.json(200)["messages"][0]["body"];
    assert_eq!((&body["text"], &body["bytes"], &body["truncated"]), (&json!("aä"), &json!(7), &json!(true)));
    broker.send("q", json!({ "body": { "base64": "/wA=" } })).await;
    let body = &broker.get("messages?path=q&from=2").await.json(200)["messages"][0]["body"];
    assert_eq!((&body["text"], &body["base64"]), (&Json::Null, &json!("/wA=")));
}

#[tokio::test]
async fn a_message_can_be_had_as_it_is_encoded() {
    let broker = Broker::with_entities().await;
    let number = broker.send("q", json!({ "body": { "text": "body" } })).await;
    let raw = broker.get(&format!("messages/raw?path=q&sequence_number={number}")).await;
    assert_eq!(raw.status, 200);
    assert_eq!(raw.headers["content-type"], "application/octet-stream");
    assert!(raw.body.ends_with(b"body"));
    broker.get("messages/raw?path=q&sequence_number=9").await.refused(404, "message-not-found", "9");
}

#[tokio::test]
async fn messages_that_can_not_be_sent_are_refused_with_the_reason() {
    let broker = Broker::with_entities().await;
    for (path, body, text) in [
        ("q", json!({ "messages": [] }), "1 message at least"),
        ("q", json!({ "messages": [{}], "repeat": 1001 }), "1000 at most"),
        ("q", json!({ "messages": [{ "body": { "text": "a", "base64": "" } }] }), "one of 'text'"),
        ("q", json!({ "messages": [{ "body": { "base64": "?" } }] }), "not valid Base64"),
        ("q", json!({ "messages": [{ "scheduled_for": "soon" }] }), "'scheduled_for' must be an instant"),
        (
            "q",
            json!({ "messages": [{ "properties": { "p": { "type": "int", "value": "x" } } }] }),
            "'p' has a value",
        ),
        ("q", json!({ "messages": [{ "body": {}, "colour": "red" }] }), "unknown field `colour`"),
        ("q", json!({ "messages": [{ "time_to_live_ms": 0 }] }), "at least 1"),
        ("news/Subscriptions/all", json!({ "messages": [{}] }), "send to its topic"),
        ("q/$deadletterqueue", json!({ "messages": [{}] }), "dead-letter queue"),
    ] {
        broker.post(&format!("messages?path={path}"), &body).await.refused(400, "invalid-argument", text);
    }
    assert_eq!(broker.get("messages?path=q").await.json(200)["messages"], json!([]));
}

#[tokio::test]
async fn bodies_must_be_json() {
    let broker = Broker::with_entities().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let answer = broker.ask(Method::POST, "messages?path=q", &[("content-type", kind)], "{}").await;
        answer.refused(415, "body-type-unknown", "application/json");
    }
    let large = format!("{{\"path\":\"{}\"}}", "x".repeat(3 << 20));
    let answer = broker.ask(Method::POST, "entities", &[("content-type", "application/json")], large).await;
    answer.refused(413, "body-too-large", "2097152");
}

#[tokio::test]
async fn dead_letters_are_grouped_by_reason_over_all_entities() {
    let broker = Broker::with_entities().await;
    broker.namespace.declare("other", QueueOptions::default()).await.unwrap();
    for (queue, reason) in [("q", "broken"), ("q", "late"), ("q", "broken"), ("other", "broken")] {
        broker.send(queue, json!({})).await;
        broker.dead_letter(queue, reason).await;
        broker.clock.advance(1_000);
    }
    let page = broker.get("dead-letters").await.json(200);
    assert_eq!(page["next"], Json::Null);
    assert_eq!(page["examined"], 4);
    let groups = page["groups"].as_array().unwrap();
    let shown: Vec<_> = groups
        .iter()
        .map(|group| (group["path"].clone(), group["reason"].clone(), group["count"].clone()))
        .collect();
    assert_eq!(
        shown,
        [
            (json!("other"), json!("broken"), json!(1)),
            (json!("q"), json!("broken"), json!(2)),
            (json!("q"), json!("late"), json!(1)),
        ]
    );
    let first = &groups[1];
    assert_eq!((&first["queue"], &first["description"]), (&json!("dead_letter"), &json!("d")));
    assert_eq!((&first["oldest_at"], &first["first_sequence_number"]), (&json!(NOW), &json!("1")));
    let browsed =
        broker.get("messages?path=q/$deadletterqueue&where=DeadLetterReason%3D%27late%27").await.json(200);
    assert_eq!(browsed["messages"][0]["dead_letter"]["reason"], "late");
}

#[tokio::test]
async fn a_page_of_dead_letters_goes_on_where_the_last_one_ended() {
    let broker = Broker::with_entities().await;
    broker.namespace.declare("other", QueueOptions::default()).await.unwrap();
    let many = json!({ "messages": [{ "time_to_live_ms": 1 }], "repeat": 700 });
    for queue in ["q", "other"] {
        let options = json!({ "options": { "DeadLetteringOnMessageExpiration": true } });
        let path = format!("entity?path={queue}");
        assert_eq!(broker.with_body(Method::PATCH, &path, &options).await.status, 200);
        assert_eq!(broker.post(&format!("messages?path={queue}"), &many).await.status, 201);
    }
    broker.clock.advance(10);
    // Messages expire only while receivers exist.
    for queue in ["q", "other"] {
        broker.expire(queue, 700).await;
    }
    let (mut count, mut from) = (0, String::new());
    loop {
        let page = broker.get(&format!("dead-letters?from={from}")).await.json(200);
        assert!(page["examined"].as_u64().unwrap() <= 1_000);
        count += page["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["count"].as_u64().unwrap())
            .sum::<u64>();
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(count, 1_400);
}
