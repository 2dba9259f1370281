use std::time::Duration;

use serde_json::{Value as Json, json};

use super::*;

fn paths(page: &Json) -> Vec<&str> {
    page["entities"].as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_session_names_caller_rights_and_broker() {
    let session = Broker::start().await.get("session").await.json(200);
    assert_eq!(session["namespace"], "test");
    assert_eq!(session["version"], "1.2.3");
    assert_eq!(session["tier"], "Premium");
    assert_eq!(session["rights"], json!(["Manage", "Send", "Listen"]));
    assert_eq!(session["authorization_required"], false);
    assert_eq!(session["time_travel"], false);
    assert_eq!(session["now"], NOW);
}

/// The time of the machine may be corrected backward after the start.
#[tokio::test(start_paused = true)]
async fn the_uptime_is_independent_of_the_clock() {
    let broker = Broker::start().await;
    tokio::time::advance(Duration::from_secs(90)).await;
    let uptime_ms = broker.get("overview").await.json(200)["uptime_ms"].as_u64();
    assert!((90_000..95_000).contains(&uptime_ms.unwrap()), "{uptime_ms:?}");
}

#[tokio::test(start_paused = true)]
async fn the_overview_sums_over_all_entities() {
    let broker = Broker::with_entities().await;
    broker.send("q", json!({ "body": { "text": "a" } })).await;
    broker.send("news", json!({ "body": { "text": "b" } })).await;
    broker.send("q", json!({ "scheduled_for": "2023-11-15T00:00:00Z" })).await;
    let overview = broker.get("overview").await.json(200);
    assert_eq!(overview["entities"], json!({ "queues": 2, "topics": 1, "subscriptions": 1 }));
    assert_eq!(overview["messages"]["active"], 2);
    assert_eq!(overview["messages"]["scheduled"], 1);
    assert_eq!((&overview["messages"]["locked"], &overview["messages"]["deferred"]), (&json!(0), &json!(0)));
    assert_eq!(overview["oldest_message_age_ms"], 0, "by the clock of the broker");
    assert_eq!(overview["totals"]["accepted"], 3, "a message to a topic counts once");
    assert_eq!(overview["storage"]["pressure"], "normal");
    assert!(overview["memory"]["used"].is_object());
    // The sums are cached for at most a second.
    broker.send("q", json!({})).await;
    assert_eq!(broker.get("overview").await.json(200)["messages"]["active"], 2);
    tokio::time::advance(std::time::Duration::from_millis(1001)).await;
    assert_eq!(broker.get("overview").await.json(200)["messages"]["active"], 3);
}

#[tokio::test]
async fn entities_are_listed_as_a_tree_in_pages() {
    let broker = Broker::with_entities().await;
    let expected = ["news", "news/Subscriptions/all", "q", "s"];
    assert_eq!(paths(&broker.get("entities").await.json(200)), expected);
    let (mut found, mut from) = (Vec::new(), String::new());
    loop {
        let page = broker.get(&format!("entities?top=1&from={from}")).await.json(200);
        found.extend(paths(&page).iter().map(|path| (*path).to_owned()));
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn entities_are_found_by_text_and_kind() {
    let broker = Broker::with_entities().await;
    for (query, expected) in [
        ("search=NEWS", &["news", "news/Subscriptions/all"][..]),
        ("search=all", &["news/Subscriptions/all"]),
        ("kind=queue", &["q", "s"]),
        ("kind=topic&search=x", &[]),
    ] {
        let page = broker.get(&format!("entities?{query}")).await.json(200);
        assert_eq!(paths(&page), expected, "{query}");
        assert_eq!(page["next"], Json::Null, "{query}");
    }
    broker.get("entities?kind=table").await.refused(400, "invalid-argument", "queue, topic or subscription");
}

#[tokio::test]
async fn subscriptions_of_one_topic_are_listed_in_pages() {
    let broker = Broker::with_entities().await;
    for path in ["news/Subscriptions/b", "news/Subscriptions/c"] {
        broker.post("entities", &json!({ "path": path, "kind": "subscription" })).await.json(201);
    }
    let first = broker.get("entities?topic=NEWS&top=2").await.json(200);
    assert_eq!(paths(&first), ["news/Subscriptions/all", "news/Subscriptions/b"]);
    let next = first["next"].as_str().unwrap();
    let last = broker.get(&format!("entities?topic=news&top=2&from={next}")).await.json(200);
    assert_eq!(paths(&last), ["news/Subscriptions/c"]);
    assert_eq!(last["next"], Json::Null, "other entities follow in the tree");
    let found = broker.get("entities?topic=news&search=B").await.json(200);
    assert_eq!(paths(&found), ["news/Subscriptions/b"]);
    for path in ["q", "none", "news/Subscriptions/all"] {
        broker.get(&format!("entities?topic={path}")).await.refused(404, "entity-not-found", path);
    }
}

#[tokio::test]
async fn an_entity_has_its_options_by_the_names_of_the_atom_api() {
    let broker = Broker::with_entities().await;
    let queue = broker.get("entity?path=Q").await.json(200);
    assert_eq!(queue["path"], "q");
    assert_eq!(queue["kind"], "queue");
    assert_eq!(queue["options"]["LockDuration"], "PT1M");
    assert_eq!(queue["options"]["ForwardTo"], "");
    assert!(queue["read_only"].as_array().unwrap().contains(&json!("RequiresSession")));
    assert!(queue["options"].get("AuthorizationRules").is_none(), "keys are not shown");
    assert_eq!(queue["created_at"], NOW);
    assert_eq!(queue["totals"]["accepted"], 0);
    let subscription = broker.get("entity?path=news%2FSubscriptions%2Fall").await.json(200);
    assert_eq!(subscription["topic"], "news");
    assert_eq!(subscription["rules"][0]["name"], "$Default");
    assert_eq!(subscription["rules"][0]["filter"], json!({ "kind": "true" }));
    broker.get("entity?path=none").await.refused(404, "entity-not-found", "'none' could not be found");
    broker.get("entity?path=q/$deadletterqueue").await.refused(
        400,
        "invalid-argument",
        "write its path, 'q'",
    );
    broker.get("entity").await.refused(400, "invalid-argument", "'path' is missing");
    broker.get("entity?path=%24management").await.refused(400, "invalid-argument", "path");
}

#[tokio::test]
async fn unknown_routes_and_parameters_are_refused_with_the_known_ones() {
    let broker = Broker::start().await;
    broker.get("nothing").await.refused(404, "entity-not-found", "docs/api.md");
    broker.get("entities?tpo=5").await.refused(
        400,
        "invalid-argument",
        "known here: search, kind, topic, from, top",
    );
    broker.get("entities?top=0").await.refused(400, "invalid-argument", "from 1 to 1000");
    broker.get("entities?top=5&top=6").await.refused(400, "invalid-argument", "twice");
    broker.get("entities?search=%ff").await.refused(400, "invalid-argument", "UTF-8");
    broker.post("overview", &json!({})).await.refused(405, "method-not-allowed", "GET");
}
