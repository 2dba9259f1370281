use peeklock_connections::{
    About, Credential, Direction, Figures, Identity, LinkFigures, Presence, Purpose, Request, Transport,
};
use serde_json::json;
use tokio::task::JoinHandle;

use super::*;

fn about(container_id: &str) -> About {
    About {
        address: Some(([192, 0, 2, 1], 5671).into()),
        transport: Transport::WebSocket,
        is_encrypted: true,
        opened_at_ms: 1_700_000_000_000,
        container_id: container_id.into(),
        product: Some("<script>alert(1)</script>".into()),
        ..About::default()
    }
}

fn link(number: u32) -> LinkFigures {
    LinkFigures {
        number,
        name: "l".into(),
        purpose: Purpose::Receive,
        direction: Direction::Out,
        entity: Some("Orders".into()),
        receiver: Some(u64::MAX),
        credit: 5,
        unsettled: 2,
        messages: 9,
    }
}

/// Answers as a connection with three links until it is closed; returns who closed it.
fn play(mut presence: Presence) -> JoinHandle<String> {
    tokio::spawn(async move {
        loop {
            std::future::poll_fn(|context| presence.poll_request(context)).await;
            match presence.next_request().unwrap() {
                Request::Look(look, answer) => {
                    let mut figures =
                        Figures { matches: look.needle.is_empty(), messages_out: 27, ..Figures::default() };
                    let identity = Identity { credential: Credential::Rule, name: "shop".into() };
                    figures.identify(identity, &look);
                    let links = vec![link(0), link(1), link(2)];
                    links.iter().for_each(|link| figures.add(link, &look));
                    figures.show(links, look.links);
                    let _ = answer.send(figures);
                }
                Request::Close { by } => return by.into(),
            }
        }
    })
}

#[tokio::test]
async fn connections_are_listed_in_pages_with_their_properties() {
    let broker = Broker::start().await;
    for name in ["a", "b", "c"] {
        play(broker.register.enter(about(name)));
    }
    let page = broker.get("connections?top=2").await.json(200);
    let row = &page["connections"][0];
    let expected = json!({
        "id": "1-1",
        "address": "192.0.2.1:5671",
        "transport": "websocket",
        "tls": true,
        "certificate": null,
        "opened_at": NOW,
        "container_id": "a",
        "host": null,
        "product": "<script>alert(1)</script>",
        "version": null,
        "platform": null,
        "framework": null,
        "user_agent": null,
        "figures": {
            "identities": [{ "credential": "rule", "name": "shop" }],
            "links": 3,
            "messages_in": 0,
            "messages_out": 27,
            "credit": 15,
            "unsettled": 6,
            "is_closing": false,
        },
    });
    assert_eq!(*row, expected);
    assert_eq!((&page["next"], &page["count"]), (&json!("1-2"), &json!(3)));
    let rest = broker.get("connections?top=2&from=1-2").await.json(200);
    assert_eq!(rest["connections"][0]["container_id"], "c");
    assert_eq!((rest["connections"].as_array().unwrap().len(), &rest["next"]), (1, &Json::Null));
}

#[tokio::test]
async fn connections_are_found_by_client_identity_and_entity() {
    let broker = Broker::start().await;
    play(broker.register.enter(about("Checkout")));
    let found = async |search: &str| {
        let page = broker.get(&format!("connections?search={search}")).await.json(200);
        page["connections"].as_array().unwrap().len()
    };
    for search in ["CHECK", "192.0.2", "SHOP", "orders", "%3Cscript", "18446744073709551615"] {
        assert_eq!(found(search).await, 1, "{search}");
    }
    assert_eq!(found("nobody").await, 0);
}

#[tokio::test]
async fn the_links_of_a_connection_are_shown_in_pages() {
    let broker = Broker::start().await;
    play(broker.register.enter(about("a")));
    let first = broker.get("connection?id=1-1&top=2").await.json(200);
    assert_eq!((&first["container_id"], &first["next"]), (&json!("a"), &json!("2")));
    let expected = json!({
        "number": 0,
        "name": "l",
        "purpose": "receive",
        "direction": "out",
        "entity": "Orders",
        "receiver": "18446744073709551615",
        "credit": 5,
        "unsettled": 2,
        "messages": 9,
    });
    assert_eq!(first["links"][0], expected);
    let rest = broker.get("connection?id=1-1&from=2").await.json(200);
    assert_eq!((&rest["links"][0]["number"], &rest["next"]), (&json!(2), &Json::Null));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_once() {
    let broker = Broker::start().await;
    let closed = play(broker.register.enter(about("a")));
    assert_eq!(broker.ask(Method::DELETE, "connection?id=1-1", &[], "").await.status, 204);
    assert_eq!(closed.await.unwrap(), "anybody");
    let again = broker.ask(Method::DELETE, "connection?id=1-1", &[], "").await;
    again.refused(404, "entity-not-found", "it has ended");
    broker.get("connection?id=1-1").await.refused(404, "entity-not-found", "it has ended");
    broker.get("connection?id=x").await.refused(400, "invalid-argument", "not the id of a connection");
    broker.get("connection").await.refused(400, "invalid-argument", "'id' is missing");
    broker.get("connections?from=x").await.refused(400, "invalid-argument", "not the id of a connection");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_answer_is_shown_without_figures() {
    let broker = Broker::start().await;
    let _silent = broker.register.enter(about("a"));
    let page = broker.get("connections").await.json(200);
    assert_eq!(
        (&page["connections"][0]["id"], &page["connections"][0]["figures"]),
        (&json!("1-1"), &Json::Null)
    );
    let one = broker.get("connection?id=1-1").await.json(200);
    assert_eq!((&one["figures"], &one["links"]), (&Json::Null, &json!([])));
    let closing = broker.ask(Method::DELETE, "connection?id=1-1", &[], "").await.json(202);
    assert_eq!(closing, json!({ "id": "1-1", "is_closing": true }));
}
