use serde_json::json;

use super::*;

#[tokio::test]
async fn receivers_locks_and_sessions_are_listed() {
    let broker = Broker::with_entities().await;
    for _ in 0..3 {
        broker.send("q", json!({})).await;
    }
    let receiver = broker.receive("q", 2).await;
    let receivers = broker.get("receivers?path=q").await.json(200);
    let shown = &receivers["receivers"][0];
    assert_eq!((&shown["mode"], &shown["credit"]), (&json!("peek_lock"), &json!(0)));
    assert_eq!(shown["id"], receiver);
    let first = broker.get("locks?path=q&top=1").await.json(200);
    assert_eq!(first["locks"][0]["sequence_number"], "1");
    assert_eq!(first["locks"][0]["locked_until"], "2023-11-14T22:14:20.000Z");
    let next = first["next"].as_str().unwrap();
    let rest = broker.get(&format!("locks?path=q&from={next}")).await.json(200);
    assert_eq!(
        (&rest["locks"][0]["sequence_number"], &rest["next"]),
        (&json!("2"), &serde_json::Value::Null)
    );
    assert_eq!(broker.get("locks?path=q/$deadletterqueue").await.json(200)["locks"], json!([]));
    for session in ["b", "A", ""] {
        broker.send("s", json!({ "session_id": session })).await;
    }
    let (mut found, mut from) = (Vec::new(), String::new());
    loop {
        let page = broker.get(&format!("sessions?path=s&top=1&from={from}")).await.json(200);
        let rows = page["sessions"].as_array().unwrap();
        found
            .extend(rows.iter().map(|row| (row["id"].as_str().unwrap().to_owned(), row["messages"].clone())));
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => break,
        }
    }
    let expected = ["", "A", "b"].map(|session| (session.to_owned(), json!(1)));
    assert_eq!(found, expected);
    broker.get("locks?path=q&from=x").await.refused(400, "invalid-argument", "'next' of the previous page");
}

#[tokio::test]
async fn the_state_of_a_session_is_shown_while_another_receiver_holds_it() {
    let broker = Broker::with_entities().await;
    for session in ["Red", ""] {
        broker.send("s", json!({ "session_id": session })).await;
    }
    for (id, found) in [("id=red", "Red"), ("", "")] {
        let shown = broker.get(&format!("session-state?path=s&{id}")).await.json(200);
        assert_eq!(shown, json!({ "id": found, "state": null }), "ids are compared without regard to case");
    }
    broker.get("session-state?path=s&id=none").await.refused(404, "entity-not-found", "no such session");
    broker.get("session-state?path=q&id=none").await.refused(404, "entity-not-found", "no such session");
}
