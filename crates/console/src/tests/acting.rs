use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use peeklock_engine::Settlement;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value as Json, json};

use super::*;

/// The most CPU time for which a task had no turn, in microseconds.
static LONGEST_US: AtomicU64 = AtomicU64::new(0);

/// The CPU time of this thread: unlike the time of day, it does not pass while other processes run.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

impl Broker {
    async fn act(&self, path: &str, body: Json) -> Answer {
        self.post(&format!("messages/act?path={path}"), &body).await
    }

    /// Acts on all pages; returns how many messages were processed, and the numbers of those skipped.
    async fn act_on_all(&self, path: &str, mut body: Json) -> (u64, Vec<String>) {
        let (mut done, mut skipped) = (0, Vec::new());
        loop {
            let page = self.act(path, body.clone()).await.json(200);
            assert!(page["examined"].as_u64().unwrap() <= 1_000);
            done += page["done"].as_u64().unwrap();
            let rows = page["skipped"].as_array().unwrap().iter();
            skipped.extend(rows.map(|row| row["sequence_number"].as_str().unwrap().to_owned()));
            if page["next"].is_null() {
                return (done, skipped);
            }
            body["from"] = page["next"].clone();
        }
    }

    /// The texts of the bodies in a queue.
    async fn bodies(&self, path: &str) -> Vec<String> {
        let page = self.get(&format!("messages?path={path}&top=500")).await.json(200);
        let messages = page["messages"].as_array().unwrap().iter();
        messages.map(|message| message["body"]["text"].as_str().unwrap().to_owned()).collect()
    }

    async fn filled(count: usize) -> Self {
        let broker = Self::with_entities().await;
        for number in 0..count {
            let body = json!({ "text": number.to_string() });
            broker.send("q", json!({ "body": body, "properties": { "even": number % 2 == 0 } })).await;
        }
        broker
    }
}

#[tokio::test]
async fn chosen_messages_are_deleted_and_locked_ones_skipped() {
    let broker = Broker::filled(4).await;
    broker.receive("q", 1).await;
    let page =
        broker.act("q", json!({ "action": "delete", "sequence_numbers": ["1", "3", "9"] })).await.json(200);
    assert_eq!((&page["done"], &page["examined"], &page["next"]), (&json!(1), &json!(3), &Json::Null));
    let skipped = page["skipped"].as_array().unwrap();
    let reason = |number: &str| {
        let row = skipped.iter().find(|row| row["sequence_number"] == number).unwrap();
        row["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(skipped.len(), 2);
    assert!(reason("1").contains("locked"), "{}", reason("1"));
    assert!(reason("9").contains('9'), "{}", reason("9"));
    assert_eq!(broker.bodies("q").await, ["0", "1", "3"]);
}

#[tokio::test]
async fn matching_messages_are_deleted_in_pages() {
    let broker = Broker::filled(7).await;
    let body = json!({ "action": "delete", "where": "even = TRUE", "limit": 2 });
    assert_eq!(broker.act_on_all("q", body).await, (4, Vec::new()));
    assert_eq!(broker.bodies("q").await, ["1", "3", "5"]);
    let purge = json!({ "action": "delete", "before": NOW });
    assert_eq!(broker.act_on_all("q", purge).await.0, 3);
    assert_eq!(broker.bodies("q").await, [""; 0]);
}

#[tokio::test]
async fn dead_letters_are_resubmitted_as_they_were_sent() {
    let broker = Broker::with_entities().await;
    let message = json!({
        "body": { "text": "body" }, "message_id": "m", "subject": "s", "correlation_id": "c",
        "properties": { "p": { "type": "long", "value": "5" } }, "time_to_live_ms": 60_000,
    });
    broker.send("q", message).await;
    broker.dead_letter("q", "broken").await;
    broker.clock.advance(1_000);
    let body = json!({ "action": "resubmit", "where": "DeadLetterReason = 'broken'" });
    assert_eq!(broker.act_on_all("q/$deadletterqueue", body).await, (1, Vec::new()));
    assert_eq!(broker.bodies("q/$deadletterqueue").await, [""; 0]);
    let message = broker.get("messages?path=q").await.json(200)["messages"][0].clone();
    for (name, value) in
        [("message_id", "m"), ("subject", "s"), ("correlation_id", "c"), ("sequence_number", "2")]
    {
        assert_eq!(message[name], value, "{name}");
    }
    assert_eq!(message["properties"], json!({ "p": { "type": "long", "value": "5" } }), "without the reason");
    assert_eq!((&message["delivery_count"], message.get("dead_letter")), (&json!(0), None));
    assert_eq!(message["expires_at"], "2023-11-14T22:14:21.000Z", "its life begins anew");
}

#[tokio::test]
async fn changes_by_receivers_are_kept() {
    let broker = Broker::filled(1).await;
    let value = peeklock_wire::Value::Int(7).to_bytes();
    let modify = vec![peeklock_engine::Property { name: "seen".into(), value }];
    broker.settle("q", Settlement::Abandon { modify }).await;
    let done =
        broker.act("q", json!({ "action": "move", "to": "news", "sequence_numbers": ["1"] })).await.json(200);
    assert_eq!(done["done"], 1);
    let message = broker.get("messages?path=news/Subscriptions/all").await.json(200)["messages"][0].clone();
    assert_eq!(message["properties"]["seen"]["value"], "7");
    assert_eq!(message["body"]["text"], "0");
    assert_eq!(broker.bodies("q").await, [""; 0]);
}

#[tokio::test]
async fn a_message_that_the_target_refuses_stays_where_it_is() {
    let broker = Broker::filled(3).await;
    // The messages have no session id.
    let page = broker.act("q", json!({ "action": "move", "to": "s", "before": NOW })).await.json(200);
    assert_eq!((&page["done"], page["skipped"].as_array().unwrap().len()), (&json!(0), 3));
    assert_eq!(broker.bodies("q").await.len(), 3);
    assert_eq!(broker.bodies("s").await.len(), 0);
}

#[tokio::test]
async fn a_target_that_detects_duplicates_gets_new_ids() {
    let broker = Broker::with_entities().await;
    let unique = QueueOptions { requires_duplicate_detection: true, ..QueueOptions::default() };
    broker.namespace.declare("unique", unique).await.unwrap();
    broker.send("unique", json!({ "message_id": "m", "body": { "text": "a" } })).await;
    broker.dead_letter("unique", "broken").await;
    let path = "unique/$deadletterqueue";
    let keep = json!({ "action": "resubmit", "before": NOW, "keep_id": true });
    broker.act(path, keep).await.refused(400, "invalid-argument", "leave 'keep_id' out");
    assert_eq!(broker.act_on_all(path, json!({ "action": "resubmit", "before": NOW })).await.0, 1);
    let message = broker.get("messages?path=unique").await.json(200)["messages"][0].clone();
    assert_eq!(message["body"]["text"], "a");
    assert_ne!(message["message_id"], "m");
}

#[tokio::test]
async fn deferred_messages_become_available_under_their_own_numbers() {
    let broker = Broker::filled(2).await;
    broker.settle("q", Settlement::Defer { modify: Vec::new() }).await;
    assert_eq!(broker.act_on_all("q", json!({ "action": "undefer", "before": NOW })).await, (1, Vec::new()));
    let messages = broker.get("messages?path=q&state=active").await.json(200)["messages"].clone();
    assert_eq!((&messages[0]["sequence_number"], messages.as_array().unwrap().len()), (&json!("1"), 2));
}

#[tokio::test]
async fn messages_are_dead_lettered_by_hand() {
    let broker = Broker::filled(2).await;
    let body = json!({ "action": "dead_letter", "sequence_numbers": ["2"], "reason": "by hand", "description": "why" });
    assert_eq!(broker.act("q", body).await.json(200)["done"], 1);
    let dead = broker.get("messages?path=q/$deadletterqueue").await.json(200)["messages"][0].clone();
    assert_eq!((&dead["dead_letter"]["reason"], &dead["body"]["text"]), (&json!("by hand"), &json!("1")));
}

#[tokio::test]
async fn actions_that_make_no_sense_are_refused_and_change_nothing() {
    let broker = Broker::filled(2).await;
    for (path, body, text) in [
        ("q", json!({ "action": "delete" }), "No messages are selected"),
        ("q", json!({ "action": "destroy", "before": NOW }), "unknown variant `destroy`"),
        ("q", json!({ "action": "delete", "before": "soon" }), "'before' must be an instant"),
        ("q", json!({ "action": "delete", "where": "x =" }), "can't be read"),
        ("q", json!({ "action": "delete", "before": NOW, "limit": 501 }), "from 1 to 500"),
        ("q", json!({ "action": "delete", "before": NOW, "state": "dead" }), "any, active"),
        ("q", json!({ "action": "delete", "before": NOW, "to": "s" }), "'to' is for"),
        ("q", json!({ "action": "delete", "sequence_numbers": ["1"], "where": "TRUE" }), "can't be combined"),
        ("q", json!({ "action": "delete", "sequence_numbers": [1] }), "invalid type"),
        ("q", json!({ "action": "resubmit", "before": NOW }), "'to' is missing"),
        ("q", json!({ "action": "move", "before": NOW }), "'to' is missing"),
        ("q", json!({ "action": "move", "before": NOW, "to": "q" }), "already"),
        (
            "q",
            json!({ "action": "move", "before": NOW, "to": "news/Subscriptions/all" }),
            "a queue or a topic",
        ),
        ("q/$deadletterqueue", json!({ "action": "dead_letter", "before": NOW }), "already"),
    ] {
        broker.act(path, body).await.refused(400, "invalid-argument", text);
    }
    broker.act("q", json!({ "action": "move", "before": NOW, "to": "none" })).await.refused(
        404,
        "entity-not-found",
        "",
    );
    assert_eq!(broker.bodies("q").await.len(), 2);
}

/// A client chooses the condition, and with it the time that each message takes.
#[tokio::test]
async fn a_slow_condition_lets_other_tasks_run() {
    let broker = Broker::with_entities().await;
    let messages =
        json!({ "messages": [{ "body": { "text": "x" }, "properties": { "n": 1 } }], "repeat": 120 });
    assert_eq!(broker.post("messages?path=q", &messages).await.status, 201);
    let condition = format!("{}n < 0", "n > 0 AND ".repeat(3_000));
    let delete = json!({ "action": "delete", "where": condition });
    let browse = format!(
        "messages?path=q&where={}",
        condition.replace(' ', "%20").replace('>', "%3E").replace('<', "%3C")
    );
    for acts in [true, false] {
        let gaps = tokio::spawn(async {
            let mut last = cpu_time();
            loop {
                tokio::task::yield_now().await;
                let gap = cpu_time().saturating_sub(last).as_micros();
                LONGEST_US.fetch_max(u64::try_from(gap).unwrap(), Ordering::Relaxed);
                last = cpu_time();
            }
        });
        let begun = cpu_time();
        let page = if acts { broker.act("q", delete.clone()).await } else { broker.get(&browse).await };
        let took = cpu_time().saturating_sub(begun);
        page.json(200);
        gaps.abort();
        let longest = Duration::from_micros(LONGEST_US.swap(0, Ordering::Relaxed));
        assert!(longest < took / 2, "nothing else ran for {longest:?} of {took:?}");
    }
}

#[tokio::test]
async fn a_condition_has_a_limited_length() {
    let broker = Broker::filled(1).await;
    let condition = format!("{}even = FALSE", "even = TRUE AND ".repeat(17_000));
    let refused = broker.act("q", json!({ "action": "delete", "where": condition })).await;
    refused.refused(400, "invalid-argument", "272012 bytes long; it may have 262144");
}
