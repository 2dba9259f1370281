//! Every port serves every protocol, plain and over TLS; unauthenticated connections are evicted.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustix::process::Signal;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::broker::{Broker, Home, get, http, open_connection, wait_for, write};

/// The first bytes of an AMQP peer, and the expected answer.
const SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";
const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const UPGRADE: &[u8] = b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n";

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn tls(address: &str, authority: &Path) -> std::io::Result<Tls> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = config.with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(address)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

fn authority(broker: &Broker) -> &Path {
    Path::new(broker.ready()["ca_file"].as_str().unwrap())
}

fn speak_amqp(stream: &mut (impl Read + Write)) {
    stream.write_all(&SASL).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, SASL);
}

fn speak_http(stream: &mut (impl Read + Write)) {
    stream.write_all(REQUEST).unwrap();
    let mut answer = String::new();
    // A missing TLS close_notify is no failure once the answer has arrived.
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

fn speak_amqp_over_websocket(stream: &mut (impl Read + Write)) {
    stream.write_all(UPGRADE).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(
        head.starts_with("http/1.1 101 ") && head.contains("sec-websocket-protocol: amqpwsb10\r\n"),
        "{head}"
    );
    // A binary frame of eight bytes, masked by zeros.
    stream.write_all(&[&[0x82, 0x88, 0, 0, 0, 0][..], &SASL].concat()).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 0x82);
    let mut payload = vec![0; usize::from(answer[1])];
    stream.read_exact(&mut payload).unwrap();
    assert!(payload.starts_with(&SASL));
}

#[test]
fn every_port_answers_every_protocol() {
    let home = Home::new();
    let broker = home.start(&["--also-listen", "127.0.0.1:0"]);
    let addresses = broker.ready()["addresses"].as_array().unwrap();
    assert_eq!(addresses.len(), 3);
    for address in addresses.iter().map(|address| address.as_str().unwrap()) {
        speak_amqp(&mut TcpStream::connect(address).unwrap());
        speak_http(&mut TcpStream::connect(address).unwrap());
        speak_amqp_over_websocket(&mut TcpStream::connect(address).unwrap());
        speak_amqp(&mut tls(address, authority(&broker)).unwrap());
        speak_http(&mut tls(address, authority(&broker)).unwrap());
        speak_amqp_over_websocket(&mut tls(address, authority(&broker)).unwrap());
    }
}

#[test]
fn one_address_may_serve_both() {
    let home = Home::new();
    // A port that has just been free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = crate::broker::peeklock();
    command.current_dir(home.path(".")).args(["--amqp", &port, "--http", &port]);
    let broker = home.started(command);
    assert_eq!(broker.address("amqp"), broker.address("http"));
    speak_amqp(&mut TcpStream::connect(&port).unwrap());
    speak_http(&mut TcpStream::connect(&port).unwrap());
}

#[test]
fn the_ca_outlives_the_broker() {
    let home = Home::new();
    let first = home.start(&[]);
    let file = authority(&first).to_owned();
    let before = std::fs::read(&file).unwrap();
    first.signal(Signal::TERM);
    first.finish();
    let second = home.start(&[]);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    speak_amqp(&mut tls(&second.address("amqp"), &file).unwrap());
}

#[test]
fn who_does_not_speak_tls_is_sent_away_where_it_is_required() {
    let home = Home::new();
    write(&home.path("p.toml"), "[tls]\nrequired = true\n");
    let broker = home.start(&["--config", "p.toml"]);
    let mut plain = TcpStream::connect(broker.address("amqp")).unwrap();
    plain.write_all(&SASL).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert_eq!(answer, b"AMQP\x02\x01\x00\x00", "AMQP's word for: TLS first");
    assert_eq!(get(&broker.address("http"), "/health").0, 403);
    speak_amqp(&mut tls(&broker.address("amqp"), authority(&broker)).unwrap());
}

#[test]
fn broken_certificates_are_refused_at_start_with_exit_code_2() {
    let home = Home::new();
    write(&home.path("server.pem"), "nonsense");
    write(&home.path("p.toml"), "[tls]\ncertificate = \"server.pem\"\nkey = \"server.pem\"\n");
    let (code, log) = home.refused(&["--config", "p.toml"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("TLS certificate server.pem: holds no certificate"), "{log}");
}

#[test]
fn changed_certificates_are_taken_and_broken_ones_are_not() {
    let home = Home::new();
    // Two brokers make certificates for a third one.
    for name in ["one", "two"] {
        let mut command = crate::broker::peeklock();
        command.current_dir(home.path(".")).args(["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        let broker = home.started({
            command.arg("--data-dir").arg(home.path(name));
            command
        });
        broker.signal(Signal::TERM);
        broker.finish();
    }
    let take = |name: &str| {
        for file in ["server.key", "server.pem"] {
            std::fs::copy(home.path(name).join("tls").join(file), home.path(file)).unwrap();
        }
    };
    let trusts = |broker: &Broker, name: &str| {
        let authority = home.path(name).join("tls/ca.pem");
        tls(&broker.address("amqp"), &authority).is_ok()
    };
    take("one");
    write(&home.path("p.toml"), "[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n");
    let broker = home.start(&["--config", "p.toml"]);
    assert!(trusts(&broker, "one") && !trusts(&broker, "two"));
    assert!(broker.ready()["ca_file"].is_null());
    take("two");
    wait_for(|| trusts(&broker, "two").then_some(()));
    write(&home.path("server.pem"), "nonsense");
    broker.signal(Signal::HUP);
    broker.signal(Signal::TERM);
    let (_, log) = broker.finish();
    assert!(log.contains("loaded the changed TLS certificates"), "{log}");
}

#[test]
fn unauthenticated_connections_make_room_for_new_ones() {
    let home = Home::new();
    write(&home.path("p.toml"), "[network]\nunauthenticated_max = 8\nunauthenticated_per_address_max = 4\n");
    let broker = home.start(&["--config", "p.toml"]);
    let mut silent: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(broker.address("amqp")).unwrap()).collect();
    for stream in silent.iter_mut().take(16) {
        // The oldest ones are closed, seen as an end or as a reset.
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    speak_http(&mut TcpStream::connect(broker.address("amqp")).unwrap());
    drop(open_connection(&broker.address("http")));
}

/// Answers that need no credentials, such as those of health, don't protect a connection.
#[test]
fn http_connections_without_credentials_make_room_as_well() {
    let home = Home::new();
    write(&home.path("p.toml"), "[network]\nunauthenticated_max = 8\nunauthenticated_per_address_max = 4\n");
    let broker = home.start(&["--config", "p.toml"]);
    let mut kept: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(broker.address("http")).unwrap();
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    for stream in kept.iter_mut().take(16) {
        // What is left of the answer, and then the end or a reset.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    speak_http(&mut TcpStream::connect(broker.address("http")).unwrap());
}

#[test]
fn health_asks_over_tls_where_it_is_required() {
    let home = Home::new();
    write(&home.path("p.toml"), "[tls]\nrequired = true\n");
    let broker = home.start(&["--config", "p.toml"]);
    let address = broker.address("http");
    let healthy = |arguments: &[&str]| {
        let output = crate::broker::run(&[&["health"], arguments].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).contains("Service is healthy."))
    };
    assert_eq!(healthy(&["--http", &address]), (Some(0), true));
    let port = address.rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}/health");
    let ca = authority(&broker).to_str().unwrap();
    assert_eq!(healthy(&[&url]), (Some(0), true));
    assert_eq!(healthy(&[&url, "--ca", ca]), (Some(0), true));
    let other = authority(&broker).with_file_name("server.pem");
    assert_eq!(healthy(&[&url, "--ca", other.to_str().unwrap()]).0, Some(1), "another CA");
}

#[test]
fn who_speaks_tls_and_then_nonsense_is_hung_up_on() {
    let home = Home::new();
    let broker = home.start(&[]);
    // The head of a ClientHello of 512 bytes, with invalid contents.
    let nonsense = [&b"\x16\x03\x01\x02\x00"[..], &[0xa5; 512]].concat();
    let mut stream = TcpStream::connect(broker.address("amqp")).unwrap();
    stream.write_all(&nonsense).unwrap();
    // An alert, possibly; then the end or a reset.
    let _ = stream.read_to_end(&mut Vec::new());
    speak_http(&mut tls(&broker.address("http"), authority(&broker)).unwrap());
}

#[test]
fn other_users_can_not_read_messages_and_keys() {
    use std::os::unix::fs::PermissionsExt;
    fn visit(directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                visit(&entry.path(), found);
            } else if metadata.permissions().mode() & 0o077 != 0 {
                found.push(name);
            }
        }
    }
    let home = Home::new();
    let broker = home.start(&[]);
    assert_eq!(http(&broker.address("http"), "PUT", "/q", "").0, 401);
    let mut readable = Vec::new();
    visit(&home.path("data"), &mut readable);
    readable.sort();
    assert_eq!(
        readable,
        ["ca.pem", "server.pem"],
        "certificates are readable by all, the other files are not"
    );
}
