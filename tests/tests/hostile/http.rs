//! Malicious HTTP requests.

use peeklock_tests::bystander::Bystander;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::http::{ask, say, status, token};

/// Runs `trouble` while a well-behaved client works; afterwards HTTP must still be answered.
fn beside_a_bystander(trouble: impl FnOnce(&Daemon)) {
    let mut daemon = Daemon::with_queues(&["bystander", "victim"]);
    let bystander = Bystander::start(daemon.amqp(), "bystander");
    trouble(&daemon);
    let (status, answer) = ask(daemon.http(), "GET", "/victim", "", b"");
    assert_eq!(status, 200, "{answer}");
    bystander.dismiss();
    daemon.assert_sound();
}

#[test]
fn requests_that_mean_two_things_are_refused_or_mean_one() {
    beside_a_bystander(|daemon| {
        let get = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        for (name, request) in [
            (
                "two lengths",
                format!(
                    "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: {}\r\n\r\n{get}",
                    get.len()
                ),
            ),
            (
                "a list of lengths",
                format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0, {}\r\n\r\n{get}", get.len()),
            ),
            ("a signed length", format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n{get}")),
            (
                "an unknown encoding",
                format!("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{get}"),
            ),
            (
                "an encoding that is not the last",
                format!(
                    "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{get}"
                ),
            ),
            (
                "a space before the colon",
                format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length : 0\r\n\r\n{get}"),
            ),
            (
                "a folded header",
                format!("POST /x HTTP/1.1\r\nHost: a\r\nX: y\r\n Content-Length: 5\r\n\r\n{get}"),
            ),
            ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_owned()),
            (
                "a proxy's method",
                "CONNECT localhost:5672 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
            ),
            ("a NUL", "GET /\0health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned()),
            ("many headers", format!("GET /health HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(10_000))),
            ("a long header", format!("GET /health HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(1 << 20))),
            ("a long path", format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "b".repeat(100 << 10))),
            ("no end of it", format!("GET /health{}", "b".repeat(1 << 20))),
        ] {
            let answer = say(daemon.http(), request.as_bytes()).0;
            assert!(!answer.contains(" 200 OK"), "{name}: {answer:.200}");
        }
        // The encoding takes precedence over the length. A parser that uses the length would find another request,
        // which has no right either.
        let request = format!(
            "POST /victim/messages HTTP/1.1\r\nHost: a\r\nAuthorization: {}\r\nContent-Length: 3\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nDELETE /victim HTTP/1.1\r\nHost: a\r\n\r\n",
            token()
        );
        let answer = say(daemon.http(), request.as_bytes()).0;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        // The broker answers for any host in an absolute address.
        let answer = say(
            daemon.http(),
            b"GET http://elsewhere/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .0;
        assert_eq!(status(&answer), Some(200));
    });
}

#[test]
fn a_hundred_megabytes_are_refused_unread() {
    const TAKEN_BYTES_MAX: usize = 24 << 20;
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let body = vec![b' '; 100 << 20];
        let token = token();
        for (method, path, headers) in [
            ("PUT", "/new", String::new()),
            ("PUT", "/new", format!("Authorization: {token}\r\n")),
            ("POST", "/victim/messages", String::new()),
            ("POST", "/victim/messages", format!("Authorization: {token}\r\n")),
            (
                "POST",
                "/victim/messages",
                format!(
                    "Authorization: {token}\r\nContent-Type: application/vnd.microsoft.servicebus.json\r\n"
                ),
            ),
        ] {
            for length in [format!("Content-Length: {}", body.len()), "Transfer-Encoding: chunked".to_owned()]
            {
                let mut request =
                    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}{length}\r\n\r\n").into_bytes();
                if length.starts_with('T') {
                    request.extend(format!("{:x}\r\n", body.len()).bytes());
                }
                request.extend(&body);
                let (answer, taken) = say(daemon.http(), &request);
                assert!(taken < TAKEN_BYTES_MAX, "{method} {path} {length}: took {taken} bytes");
                // If bytes are under way, the reset may overtake the answer.
                let status = status(&answer).unwrap_or(413);
                assert!([401, 403, 413].contains(&status), "{method} {path} {length}: {answer:.300}");
            }
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 64 << 20, "memory grew by {growth} bytes");
    });
}

#[test]
fn bombs_of_xml_are_refused() {
    beside_a_bystander(|daemon| {
        let entities: String =
            (1..30).map(|n| format!("<!ENTITY a{n} \"&a{0};&a{0};&a{0};\">", n - 1)).collect();
        let attributes: String = (0..60_000).map(|n| format!(" a{n}=\"\"")).collect();
        let namespaces: String = (0..40_000).map(|n| format!(" xmlns:a{n}=\"u\"")).collect();
        for (name, body) in [
            ("entities", format!("<!DOCTYPE e [<!ENTITY a0 \"x\">{entities}]><entry>&a29;</entry>")),
            (
                "an outer entity",
                "<!DOCTYPE e [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><entry>&a;</entry>".to_owned(),
            ),
            ("an undeclared entity", "<entry>&a;</entry>".to_owned()),
            ("depth", "<a>".repeat(300_000)),
            ("elements", format!("<entry>{}</entry>", "<a/>".repeat(200_000))),
            ("attributes", format!("<entry{attributes}/>")),
            ("namespaces", format!("<entry{namespaces}/>")),
            ("bytes", "\u{feff}\0\u{1}".repeat(100_000)),
        ] {
            let (status, answer) = ask(daemon.http(), "PUT", "/new", "", body.as_bytes());
            assert_eq!(status, 400, "{name}: {answer:.300}");
            assert!(!answer.contains("root:"), "{name}: {answer:.300}");
        }
    });
}

#[test]
fn bombs_of_json_are_refused() {
    const BATCH: &str = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";
    beside_a_bystander(|daemon| {
        let before = daemon.resident_bytes();
        let deep = format!("[{{\"Body\":\"\",\"UserProperties\":{}", "{\"a\":".repeat(50_000));
        for (name, headers, body) in [
            ("depth", BATCH, "[".repeat(500_000)),
            ("depth inside", BATCH, deep),
            ("many messages", BATCH, format!("[{}{{}}]", "{\"Body\":\"\"},".repeat(100_000))),
            ("a number", BATCH, format!("[{{\"Body\":{}}}]", "9".repeat(300_000))),
            ("properties", &format!("BrokerProperties: {}\r\n", "[".repeat(50_000)), String::new()),
            ("a life", "BrokerProperties: {\"TimeToLive\":-1e999}\r\n", String::new()),
            ("many headers", &"x: 1\r\n".repeat(200), String::new()),
        ] {
            let (status, answer) = ask(daemon.http(), "POST", "/victim/messages", headers, body.as_bytes());
            assert!((400..=431).contains(&status), "{name}: {answer:.300}");
        }
        let growth = daemon.resident_bytes().saturating_sub(before);
        assert!(growth < 64 << 20, "memory grew by {growth} bytes");
    });
}

#[test]
fn odd_names_lead_nowhere() {
    beside_a_bystander(|daemon| {
        let entry = "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><QueueDescription \
             xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\"/></content></entry>";
        let overlong = format!("/{}", "n".repeat(261));
        let files = || {
            let directory = daemon.data_directory();
            let mut files: Vec<_> = std::fs::read_dir(directory.parent().unwrap())
                .unwrap()
                .map(|file| file.unwrap().path())
                .collect();
            files.sort();
            files
        };
        let before = files();
        for path in [
            "/..",
            "/../..",
            "/%2e%2e",
            "/%2e%2e%2fetc%2fpasswd",
            "/a%2F..%2F..%2Fb",
            "/%00",
            "/a%00b",
            "/%ff",
            "/$cbs",
            "/%24cbs",
            "/victim/$management",
            "/victim%2F%24management",
            "/victim/$deadletterqueue",
            "/a%0d%0aX: y",
            "/$servicebus/websocket/x",
            "//",
            "/a//b",
            "/%20",
            "/a%5C..%5Cb",
            &overlong,
            "/health/%2e%2e/victim/$x",
        ] {
            for (method, body) in [("PUT", entry), ("GET", ""), ("DELETE", "")] {
                let (status, answer) = ask(daemon.http(), method, path, "", body.as_bytes());
                println!("{method} {path:.60} {status}");
                assert!(status < 500, "{method} {path}: {answer}");
                assert!(method != "PUT" || matches!(status, 400 | 405), "{method} {path}: {answer}");
            }
            let (status, answer) = ask(daemon.http(), "POST", &format!("{path}/messages"), "", b"x");
            assert!((400..500).contains(&status), "POST {path}: {answer}");
        }
        assert_eq!(files(), before);
    });
}
