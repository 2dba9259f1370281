use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use peeklock_engine::{AuthorizationRule, Rights, Secret};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;
use serde_json::json;

use super::*;

fn rule(name: &str, rights: Rights) -> AuthorizationRule {
    AuthorizationRule {
        name: name.into(),
        rights,
        primary_key: Secret::new("key"),
        secondary_key: Secret::new("other"),
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    }
}

fn signature(rule: &str, key: &str) -> String {
    let resource = utf8_percent_encode("http://localhost/", NON_ALPHANUMERIC).to_string();
    let expiry = 1_700_003_600;
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let signed = hmac::sign(&key, format!("{resource}\n{expiry}").as_bytes());
    let signed = STANDARD.encode(signed.as_ref());
    let signed = utf8_percent_encode(&signed, NON_ALPHANUMERIC);
    format!("SharedAccessSignature sr={resource}&sig={signed}&se={expiry}&skn={rule}")
}

async fn broker() -> Broker {
    let none = Rights { listen: false, send: false, manage: false };
    let rules = vec![
        rule("all", Rights::ALL),
        rule("listen", Rights { listen: true, ..none }),
        rule("send", Rights { send: true, ..none }),
    ];
    let broker = Broker::with(Some(Policy { required: true, rules, ..Policy::default() })).await;
    let own = QueueOptions { authorization_rules: vec![rule("own", Rights::ALL)], ..QueueOptions::default() };
    broker.namespace.declare("q", own).await.unwrap();
    broker.namespace.declare("news", TopicOptions::default()).await.unwrap();
    broker
}

#[tokio::test]
async fn every_route_demands_the_right_for_it() {
    let broker = broker().await;
    let message = json!({ "messages": [{}] }).to_string();
    let requests = [
        (Method::GET, "overview", "", "all"),
        (Method::GET, "entities", "", "all"),
        (Method::GET, "entity?path=q", "", "all own"),
        (Method::GET, "messages?path=q", "", "all own listen"),
        (Method::GET, "messages/raw?path=q&sequence_number=1", "", "all own listen"),
        (Method::POST, "messages?path=q", message.as_str(), "all own send"),
        (Method::GET, "dead-letters", "", "all"),
        (Method::GET, "session-state?path=q&id=none", "", "all own"),
        (Method::GET, "connections", "", "all"),
        (Method::GET, "connection?id=1-1", "", "all"),
        (Method::DELETE, "connection?id=1-1", "", "all"),
        (Method::POST, "rules/test", r#"{"topic":"news","message":{}}"#, "all"),
        (Method::POST, "entities", r#"{"path":"q","kind":"queue"}"#, "all own"),
        (Method::PATCH, "entity?path=q", r#"{"options":{}}"#, "all own"),
        (Method::PUT, "rule?path=news/Subscriptions/none&name=r", "{}", "all"),
        (Method::DELETE, "rule?path=news/Subscriptions/none&name=r", "", "all"),
        (Method::DELETE, "entity?path=q", "", "all own"),
    ];
    // The request that deletes comes last.
    for principal in ["nobody", "wrong", "listen", "send", "own"] {
        for (method, path, body, allowed) in &requests {
            let key = if principal == "wrong" { "wrong" } else { "key" };
            let name = if principal == "wrong" { "all" } else { principal };
            let token = signature(name, key);
            let mut headers = vec![("content-type", "application/json")];
            if principal != "nobody" {
                headers.push(("authorization", token.as_str()));
            }
            let answer = broker.ask(method.clone(), path, &headers, (*body).to_owned()).await;
            let is_allowed = allowed.split(' ').any(|known| known == principal);
            assert_eq!(answer.status != 401, is_allowed, "{principal} {method} {path}: {}", answer.status);
        }
    }
}

#[tokio::test]
async fn the_session_shows_the_rights_of_a_token() {
    let broker = broker().await;
    let listen = signature("listen", "key");
    let session = broker.ask(Method::GET, "session", &[("authorization", &listen)], "").await.json(200);
    assert_eq!((&session["principal"], &session["rights"]), (&json!("listen"), &json!(["Listen"])));
    assert_eq!(session["authorization_required"], true);
    let own = signature("own", "key");
    let refused = broker.ask(Method::GET, "session", &[("authorization", &own)], "").await;
    refused.refused(401, "token-signature", "");
    let session = broker.ask(Method::GET, "session?path=q", &[("authorization", &own)], "").await.json(200);
    assert_eq!(session["rights"], json!(["Manage", "Send", "Listen"]));
    broker.get("session").await.refused(401, "token-missing", "");
    // Existence must not be revealed by a different error.
    let hidden = broker.ask(Method::GET, "entity?path=none", &[("authorization", &listen)], "").await;
    hidden.refused(401, "right-missing", "");
}

#[tokio::test]
async fn a_token_in_the_query_or_a_cookie_is_none() {
    let broker = broker().await;
    let token = signature("all", "key");
    let query = utf8_percent_encode(&token, NON_ALPHANUMERIC);
    assert_eq!(broker.get(&format!("overview?authorization={query}")).await.status, 401);
    let cookie = format!("authorization={token}");
    assert_eq!(broker.ask(Method::GET, "overview", &[("cookie", cookie.as_str())], "").await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_token_expires_while_its_body_arrives_is_refused() {
    let broker = broker().await;
    let token = signature("all", "key");
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    let late = |json: Json| {
        Body::new(Full::from(json.to_string()).with_trailers(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            None
        }))
    };
    let send = |path: &'static str, body| broker.ask(Method::POST, path, &headers, late(body));
    let message = json!({ "messages": [{}] });
    send("messages?path=q", message.clone()).await.json(201);
    let waiting = async {
        let all = json!({ "action": "delete", "all": true });
        tokio::join!(
            broker.ask(Method::PATCH, "entity?path=q", &headers, late(json!({ "options": {} }))),
            send("messages?path=q", message),
            send("messages/act?path=q", all),
        )
    };
    let expire = async { broker.clock.advance(3_600_000) };
    let ((change, sent, deleted), ()) = tokio::join!(biased; waiting, expire);
    for answer in [change, sent, deleted] {
        answer.refused(401, "token-expired", "ExpiredToken");
    }
}
