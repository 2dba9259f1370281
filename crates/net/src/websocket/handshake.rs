//! The server's half of RFC 6455's opening handshake, and the binding of AMQP to it.

use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tungstenite::handshake::derive_accept_key;

/// Where Service Bus has its WebSockets; clients write it in any case, and the dollar sign as `%24` too.
pub const PATH: &str = "/$servicebus/websocket";
/// What is spoken inside: the name of the OASIS binding (.NET, Python, Java), and the one that the JavaScript SDK uses.
const SUBPROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];
/// The one version of the protocol.
const VERSION: &str = "13";
/// A nonce of 16 bytes in base64.
const KEY_BYTES: usize = 24;

/// Why a request does not become a WebSocket: the status to answer with, and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What to answer with.
    pub status: StatusCode,
    /// Why.
    pub reason: &'static str,
}

/// Whether a request is for the place of WebSockets.
#[must_use]
pub fn is_asked_for(path: &str) -> bool {
    path.replace("%24", "$").trim_end_matches('/').eq_ignore_ascii_case(PATH)
}

/// Answers a request for a WebSocket: `101`, with the subprotocol that the client named first of those we know.
///
/// # Errors
/// [`Refused`].
pub fn shake_hands(method: &Method, headers: &HeaderMap) -> Result<Response<()>, Refused> {
    let refuse = |status, reason| Err(Refused { status, reason });
    if method != Method::GET {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET");
    }
    if !has_word(headers, &UPGRADE, "websocket") || !has_word(headers, &CONNECTION, "upgrade") {
        return refuse(
            StatusCode::UPGRADE_REQUIRED,
            "this is the place of WebSockets: send Upgrade: websocket",
        );
    }
    if !has_word(headers, &SEC_WEBSOCKET_VERSION, VERSION) {
        return refuse(StatusCode::UPGRADE_REQUIRED, "send Sec-WebSocket-Version: 13");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).filter(|key| key.len() == KEY_BYTES);
    let Some(key) = key else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key must be 16 bytes in base64");
    };
    let asked = words(headers, &SEC_WEBSOCKET_PROTOCOL);
    let known =
        asked.filter_map(|asked| SUBPROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(asked)));
    let Some(subprotocol) = known.into_iter().next() else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Protocol must name AMQPWSB10 or amqp");
    };
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
    if let Ok(accept) = HeaderValue::try_from(derive_accept_key(key)) {
        answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}

/// The words of a header that is a list, however many lines it takes.
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    words(headers, name).any(|found| found.eq_ignore_ascii_case(word))
}

/// For the fuzzer: any headers, one to a line, are answered or refused.
#[doc(hidden)]
pub fn exercise_handshake(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
        let value = parts.next().and_then(|value| HeaderValue::from_bytes(value).ok());
        if let (Some(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    if let Ok(response) = shake_hands(&Method::GET, &headers) {
        assert!(response.headers().contains_key(SEC_WEBSOCKET_ACCEPT));
    }
    let _ = is_asked_for(&String::from_utf8_lossy(bytes));
}
