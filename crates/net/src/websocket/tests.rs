//! Handshakes, and frames in every fragmentation.

use bytes::BytesMut;
use http::header::HeaderName;
use http::{HeaderMap, Method, StatusCode};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tungstenite::protocol::Role;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};

use super::*;

fn ask(headers: &[(&str, &str)]) -> Result<HeaderMap, Refused> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    shake_hands(&Method::GET, &map).map(|response| response.into_parts().0.headers)
}

/// The example of RFC 6455, §1.3.
const GOOD: [(&str, &str); 5] = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "WebSocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Protocol", "AMQPWSB10"),
];

#[test]
fn a_handshake_is_answered_with_the_subprotocol_that_was_asked_for() {
    for (asked, answered) in [("AMQPWSB10", "AMQPWSB10"), ("amqp", "amqp"), ("mqtt, AMQP", "amqp")] {
        let mut headers = GOOD;
        headers[4].1 = asked;
        let answer = ask(&headers).unwrap();
        assert_eq!(answer["sec-websocket-protocol"], answered);
        assert_eq!(answer["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}

#[test]
fn a_handshake_that_lacks_something_is_refused() {
    for (missing, (name, _)) in GOOD.iter().enumerate() {
        let headers: Vec<_> =
            GOOD.iter().enumerate().filter(|(n, _)| *n != missing).map(|(_, h)| *h).collect();
        let refused = ask(&headers).expect_err(name);
        assert!([StatusCode::BAD_REQUEST, StatusCode::UPGRADE_REQUIRED].contains(&refused.status));
    }
}

#[test]
fn a_client_without_the_protocol_or_with_another_version_learns_which_to_send() {
    let wanted = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
    for (place, value) in [(0, "keep-alive"), (1, "h2c"), (2, "8")] {
        let mut headers = GOOD;
        headers[place].1 = value;
        let refused = ask(&headers).unwrap_err();
        assert_eq!(refused.status, StatusCode::UPGRADE_REQUIRED, "{value}");
        let answered = refused.headers();
        assert!(wanted.iter().all(|(name, value)| answered[*name] == *value), "{answered:?}");
    }
    let mut without_key = GOOD;
    without_key[3].1 = "short";
    assert!(ask(&without_key).unwrap_err().headers().is_empty());
    let posted = shake_hands(&Method::POST, &HeaderMap::new()).unwrap_err();
    assert_eq!(
        (posted.status, &posted.headers()["allow"]),
        (StatusCode::METHOD_NOT_ALLOWED, &"GET".parse().unwrap())
    );
}

#[test]
fn the_path_matches_in_any_case_and_with_an_escaped_dollar_sign() {
    for path in ["/$servicebus/websocket", "/$ServiceBus/WebSocket/", "/%24servicebus/websocket"] {
        assert!(is_asked_for(path), "{path}");
    }
    for path in ["/", "/$servicebus", "/servicebus/websocket", "/x/$servicebus/websocket"] {
        assert!(!is_asked_for(path), "{path}");
    }
}

fn frame(opcode: OpCode, is_final: bool, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { is_final, rsv1: false, rsv2: false, rsv3: false, opcode, mask: Some(mask) };
    let mut bytes = Vec::new();
    header.format(payload.len() as u64, &mut bytes).unwrap();
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// Fragmented messages; each fragment with whether a ping follows it.
fn messages() -> impl Strategy<Value = Vec<Vec<(Vec<u8>, bool)>>> {
    let fragment = (proptest::collection::vec(any::<u8>(), 0..300), any::<bool>());
    proptest::collection::vec(proptest::collection::vec(fragment, 1..5), 0..6)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_bytes_are_the_same_however_they_are_framed_and_read(
        messages in messages(), mask: [u8; 4], width in 1_usize..200, read in 1_usize..600, together in 0_usize..50,
    ) {
        let (mut sent, mut expected, mut pings) = (Vec::new(), Vec::new(), 0);
        for message in &messages {
            for (place, (payload, ping)) in message.iter().enumerate() {
                let kind = if place == 0 { Data::Binary } else { Data::Continue };
                sent.extend(frame(OpCode::Data(kind), place + 1 == message.len(), mask, payload));
                expected.extend_from_slice(payload);
                if *ping {
                    sent.extend(frame(OpCode::Control(Control::Ping), true, mask, b"are you there?"));
                    pings += 1;
                }
            }
        }
        sent.extend(frame(OpCode::Control(Control::Close), true, mask, &[0x03, 0xe8, b'!']));
        let (received, answers) = runtime().block_on(async {
            let (near, far) = duplex(width);
            let (mut from_server, mut to_server) = tokio::io::split(near);
            let together = together.min(sent.len());
            let (first, rest) = sent.split_at(together);
            let mut socket = WebSocket::new(far, BytesMut::from(first));
            let peer = async move {
                to_server.write_all(rest).await.unwrap();
                let mut answers = Vec::new();
                from_server.read_to_end(&mut answers).await.unwrap();
                answers
            };
            let server = async move {
                let mut received = Vec::new();
                loop {
                    let mut part = BytesMut::with_capacity(read);
                    if socket.read_buf(&mut part).await.unwrap() == 0 {
                        break;
                    }
                    received.extend_from_slice(&part);
                }
                socket.shutdown().await.unwrap();
                received
            };
            tokio::join!(server, peer)
        });
        prop_assert_eq!(received, expected);
        prop_assert!(answers.ends_with(&[0x88, 2, 0x03, 0xe8]), "the code of the close comes back");
        let pongs = answers.windows(14).filter(|word| *word == b"are you there?").count();
        prop_assert!(pongs <= pings && (pings == 0) == (pongs == 0), "{} pongs for {} pings", pongs, pings);
    }

    #[test]
    fn written_bytes_arrive_in_frames(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..2_000), 1..40), width in 50_usize..5_000,
    ) {
        let expected: Vec<u8> = parts.concat();
        let received = runtime().block_on(async move {
            let (mut near, far) = duplex(width);
            let server = async move {
                let mut socket = WebSocket::new(far, BytesMut::new());
                for part in parts {
                    socket.write_all(&part).await.unwrap();
                }
                socket.shutdown().await.unwrap();
            };
            let client = async move {
                let mut bytes = Vec::new();
                near.read_to_end(&mut bytes).await.unwrap();
                bytes
            };
            let ((), bytes) = tokio::join!(server, client);
            let mut client = tungstenite::WebSocket::from_raw_socket(Memory(bytes.into()), Role::Client, None);
            let mut received = Vec::new();
            loop {
                match client.read().unwrap() {
                    tungstenite::Message::Binary(payload) => received.extend_from_slice(&payload),
                    tungstenite::Message::Close(frame) => {
                        assert_eq!(u16::from(frame.unwrap().code), 1000);
                        return received;
                    }
                    other => panic!("{other}"),
                }
            }
        });
        prop_assert_eq!(received, expected);
    }

    #[test]
    fn any_bytes_are_taken_apart_without_surprise(bytes: Vec<u8>, split in 0_usize..64) {
        exercise(&bytes, split);
    }
}

/// An in-memory source for a client that may write anything.
struct Memory(std::collections::VecDeque<u8>);

impl std::io::Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl std::io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn long_output_is_split_into_frames_of_bounded_length() {
    let (mut near, far) = duplex(1 << 20);
    let mut socket = WebSocket::new(far, BytesMut::new());
    assert_eq!(socket.write(&[7; 100_000]).await.unwrap(), 65_536);
    let mut header = [0; 10];
    near.read_exact(&mut header).await.unwrap();
    assert_eq!(header, [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[tokio::test]
async fn protocol_violations_end_the_stream_with_a_close() {
    let mask = [1, 2, 3, 4];
    let long_ping = frame(OpCode::Control(Control::Ping), true, mask, &[0; 126]);
    let text = frame(OpCode::Data(Data::Text), true, mask, b"text");
    let continued = frame(OpCode::Data(Data::Continue), true, mask, b"?");
    let mut interleaved = frame(OpCode::Data(Data::Binary), false, mask, b"");
    interleaved.extend(frame(OpCode::Data(Data::Binary), true, mask, b"?"));
    let mut unmasked = Vec::new();
    Frame::message(b"?".to_vec(), OpCode::Data(Data::Binary), true).format(&mut unmasked).unwrap();
    let compressed = vec![0xc2, 0x81, 1, 2, 3, 4, 5];
    // Half a code, codes that no frame may have (RFC 6455, §7.4), a reason that is not UTF-8.
    let closes = [&[3][..], &[0, 0], &[3, 0xed], &[3, 0xee], &[3, 0xf7], &[0x13, 0x88], &[3, 0xe8, 0xff]];
    let closes = closes.map(|content| frame(OpCode::Control(Control::Close), true, mask, content));
    let frames = [long_ping, text, continued, interleaved, unmasked, compressed, b"\xf3AMQP".to_vec()];
    for wrong in frames.into_iter().chain(closes) {
        let (mut near, far) = duplex(1 << 12);
        let mut socket = WebSocket::new(far, BytesMut::new());
        near.write_all(&wrong).await.unwrap();
        let error = socket.read(&mut [0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{wrong:?}");
        let mut answer = [0; 4];
        near.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [0x88, 2, 0x03, 0xea]);
        assert_eq!(socket.read(&mut [0; 64]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn pings_of_a_peer_that_takes_no_answers_do_not_pile_up() {
    const PINGS: usize = 5_000;
    const BUFFER_BYTES: usize = 1024;
    let (mut near, far) = duplex(BUFFER_BYTES);
    let reader = tokio::spawn(async move {
        let mut socket = WebSocket::new(far, BytesMut::new());
        let read = socket.read(&mut [0]).await.unwrap();
        (read, socket)
    });
    let ping = frame(OpCode::Control(Control::Ping), true, [1, 2, 3, 4], &[7; 125]);
    for _ in 0..PINGS {
        near.write_all(&ping).await.unwrap();
    }
    // A byte of payload ends the read: every ping has been handled by then.
    near.write_all(&frame(OpCode::Data(Data::Binary), true, [0; 4], b"x")).await.unwrap();
    let (read, mut socket) = reader.await.unwrap();
    assert_eq!(read, 1);
    let writer = tokio::spawn(async move {
        socket.flush().await.unwrap();
        drop(socket);
    });
    let mut answers = Vec::new();
    near.read_to_end(&mut answers).await.unwrap();
    writer.await.unwrap();
    assert!(answers.len() <= BUFFER_BYTES + 2 * 127, "{} bytes of answers were kept", answers.len());
}
