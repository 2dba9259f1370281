//! Restrictions on requests from web pages, of any site and under any host name of the broker.

use std::net::SocketAddr;

use peeklock_tests::daemon::Daemon;
use peeklock_tests::http::{say, status, token};

use super::framing::beside_a_bystander;

/// Sends a request like a browser; returns the status and the whole answer.
fn browse(to: SocketAddr, request: &str, headers: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{request} HTTP/1.1\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = say(to, request.as_bytes()).0;
    (status(&answer).unwrap_or_else(|| panic!("{request}: no answer: {answer:?}")), answer)
}

fn web_socket(to: SocketAddr, headers: &str) -> u16 {
    let request = format!(
        "GET /$servicebus/websocket HTTP/1.1\r\n{headers}Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
    );
    // A close follows at once, so that the broker disconnects after any answer.
    let close = [0x88, 0x80, 0, 0, 0, 0];
    status(&say(to, &[request.as_bytes(), &close].concat()).0).unwrap()
}

fn with_token(host: &str, origin: &str) -> String {
    let origin = if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
    format!("Host: {host}\r\n{origin}Authorization: {}\r\n", token())
}

#[test]
fn a_foreign_origin_gets_no_web_socket_and_sends_and_changes_nothing() {
    beside_a_bystander(|daemon| {
        let to = daemon.http();
        for origin in
            ["https://evil.example", "http://localhost:8080", "null", "http://127.0.0.1:1", "garbage"]
        {
            assert_eq!(web_socket(to, &format!("Host: {to}\r\nOrigin: {origin}\r\n")), 403, "{origin}");
            let headers = with_token(&to.to_string(), origin);
            for request in
                ["GET /victim", "POST /victim/messages", "DELETE /victim", "GET /$Resources/Queues"]
            {
                let (status, answer) = browse(to, request, &headers, "");
                assert_eq!(status, 403, "{request} of {origin}: {answer}");
                assert!(answer.contains("allowed_origins"), "{answer}");
            }
        }
        // A page from the broker's own address, and clients that are not pages.
        assert_eq!(web_socket(to, &format!("Host: {to}\r\nOrigin: http://{to}\r\n")), 101);
        assert_eq!(web_socket(to, &format!("Host: {to}\r\n")), 101);
        assert_eq!(browse(to, "GET /victim", &with_token(&to.to_string(), ""), "").0, 200);
    });
}

#[test]
fn a_rebound_name_reaches_nothing_with_the_default_key() {
    beside_a_bystander(|daemon| {
        let to = daemon.http();
        for host in [
            "evil.example",
            "evil.example:5300",
            "localhost.evil.example",
            "a@b.example",
            "127.0.0.1.example",
        ] {
            assert_eq!(web_socket(to, &format!("Host: {host}\r\nOrigin: http://{host}\r\n")), 421, "{host}");
            for request in ["GET /victim", "DELETE /victim", "GET /health", "POST /victim/messages"] {
                let (status, answer) = browse(to, request, &with_token(host, ""), "");
                assert_eq!(status, 421, "{request} of {host}: {answer}");
                assert!(answer.contains("allowed_hosts"), "{answer}");
            }
        }
        let absolute = browse(to, "GET http://evil.example/victim", &with_token("localhost", ""), "");
        assert_eq!(absolute.0, 421, "the target's host counts");
        let known = [
            "localhost",
            "LocalHost:5300",
            "app.localhost",
            "127.0.0.1:1",
            "[::1]:5300",
            "192.0.2.7",
            "peeklock",
            "peeklock:5300",
            "peeklock.default.svc.cluster.local",
            "host.docker.internal",
            "mine.servicebus.windows.net",
        ];
        for host in known {
            assert_eq!(browse(to, "GET /victim", &with_token(host, ""), "").0, 200, "{host}");
        }
    });
}

#[test]
fn without_authorization_a_simple_post_of_a_page_sends_nothing() {
    let mut daemon = Daemon::with_config("[authorization]\nrequired = false\n[[queues]]\nname = \"victim\"");
    let (to, plain) = (daemon.http(), "Content-Type: text/plain\r\n");
    let host = format!("Host: {to}\r\n");
    for (headers, expected) in [
        (format!("{host}Origin: https://evil.example\r\n{plain}"), 403),
        (format!("Host: evil.example\r\nOrigin: http://evil.example\r\n{plain}"), 421),
        (format!("{host}{plain}"), 201),
    ] {
        assert_eq!(browse(to, "POST /victim/messages", &headers, "x").0, expected, "{headers}");
    }
    let (_, answer) = browse(to, "GET /victim", &host, "");
    assert!(
        answer.contains("<ActiveMessageCount>1<") || answer.contains("ActiveMessageCount>1<"),
        "{answer}"
    );
    daemon.assert_sound();
}

#[test]
fn the_clock_is_moved_under_no_foreign_name() {
    let rule = "[[authorization.rules]]\nname = \"own\"\nrights = [\"Listen\"]\nprimary_key = \"a-key-of-ones-own\"\nsecondary_key = \"another-key-of-ones-own\"\n";
    for keys in ["", rule] {
        let mut daemon = Daemon::with_config(&format!("[development]\ntime_travel = true\n{keys}"));
        let to = daemon.http();
        let advance =
            |headers: &str| browse(to, "POST /development/clock", headers, r#"{"advance":"PT1S"}"#).0;
        assert_eq!(advance("Host: evil.example\r\n"), 421);
        assert_eq!(advance("Host: localhost\r\nOrigin: https://evil.example\r\n"), 403);
        assert_eq!(advance("Host: localhost\r\n"), 200);
        daemon.assert_sound();
    }
}

#[test]
fn the_broker_is_healthy_and_moves_its_clock_once_the_ready_file_is_there() {
    let mut daemon = Daemon::stopped("[development]\ntime_travel = true\n");
    for _ in 0..10 {
        daemon.start();
        let local = "Host: localhost\r\n";
        let advance = r#"{"advance":"PT1S"}"#;
        assert_eq!(browse(daemon.http(), "POST /development/clock", local, advance).0, 200);
        assert_eq!(browse(daemon.http(), "GET /health", local, "").0, 200);
        daemon.kill();
    }
}

#[test]
fn keys_of_ones_own_make_every_name_good_unless_names_are_listed() {
    let rule = "[[authorization.rules]]\nname = \"own\"\nrights = [\"Listen\"]\nprimary_key = \"a-key-of-ones-own\"\nsecondary_key = \"another-key-of-ones-own\"\n";
    for (network, expected) in [("", 401), ("[network]\nallowed_hosts = [\"*.example.org\"]\n", 421)] {
        let mut daemon = Daemon::with_config(&format!("{network}{rule}"));
        let status = |host: &str| browse(daemon.http(), "GET /queue", &format!("Host: {host}\r\n"), "").0;
        assert_eq!(status("broker.example"), expected);
        assert_eq!((status("a.example.org"), status("localhost")), (401, 401));
        daemon.assert_sound();
    }
}

#[test]
fn a_listed_origin_has_the_rights_of_its_key() {
    let network = "[network]\nallowed_origins = [\"https://shop.example\", \"http://localhost:8080\"]\n";
    let mut daemon = Daemon::with_config(&format!("{network}[[queues]]\nname = \"victim\""));
    let to = daemon.http();
    for origin in ["https://shop.example", "http://localhost:8080"] {
        assert_eq!(web_socket(to, &format!("Host: {to}\r\nOrigin: {origin}\r\n")), 101);
        let asked = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: authorization,if-match\r\n";
        let headers = format!("Host: {to}\r\nOrigin: {origin}\r\n{asked}");
        let (status, preflight) = browse(to, "OPTIONS /victim", &headers, "");
        assert_eq!(status, 204, "{preflight}");
        let preflight = preflight.to_ascii_lowercase();
        for expected in [
            &format!("access-control-allow-origin: {origin}"),
            "access-control-allow-headers: authorization,if-match",
            "put",
            "vary: origin",
        ] {
            assert!(preflight.contains(expected), "{expected}: {preflight}");
        }
        let (status, answer) = browse(to, "GET /victim", &with_token(&to.to_string(), origin), "");
        assert!(
            answer.to_ascii_lowercase().contains(&format!("access-control-allow-origin: {origin}")),
            "{answer}"
        );
        assert_eq!(status, 200);
    }
    for origin in ["https://shop.example:8443", "http://shop.example", "https://a.shop.example"] {
        assert_eq!(web_socket(to, &format!("Host: {to}\r\nOrigin: {origin}\r\n")), 403, "{origin}");
    }
    daemon.assert_sound();
}
