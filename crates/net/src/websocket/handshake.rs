//! The server side of RFC 6455's opening handshake, and its AMQP binding.

use http::header::{
    ALLOW, CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tungstenite::handshake::derive_accept_key;

/// The path of Service Bus's WebSockets; clients write it in any case, and the dollar sign as `%24` too.
pub const PATH: &str = "/$servicebus/websocket";
/// The subprotocols: the name in the OASIS binding (.NET, Python, Java), and the one that the JavaScript SDK uses.
const SUBPROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];
/// The only version of the protocol.
const VERSION: &str = "13";
/// A nonce of 16 bytes in base64.
const KEY_BYTES: usize = 24;

/// Why a request is not upgraded to a WebSocket: the status, and a human-readable reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The status of the answer.
    pub status: StatusCode,
    /// The reason.
    pub reason: &'static str,
}

/// Whether a request is for the path of WebSockets.
#[must_use]
pub fn is_asked_for(path: &str) -> bool {
    path.replace("%24", "$").trim_end_matches('/').eq_ignore_ascii_case(PATH)
}

impl Refused {
    /// The headers that the status requires: the protocol to switch to (RFC 9110, §15.5.22) and its version (RFC 6455,
    /// §4.2.2), or the method (RFC 9110, §15.5.6).
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let headers: &[(HeaderName, &str)] = match self.status {
            StatusCode::UPGRADE_REQUIRED => {
                &[(CONNECTION, "Upgrade"), (UPGRADE, "websocket"), (SEC_WEBSOCKET_VERSION, VERSION)]
            }
            StatusCode::METHOD_NOT_ALLOWED => &[(ALLOW, "GET")],
            _ => &[],
        };
        headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }
}

/// Answers a request for a WebSocket: `101`, with the first known subprotocol in the client's order.
///
/// # Errors
/// [`Refused`].
pub fn shake_hands(method: &Method, headers: &HeaderMap) -> Result<Response<()>, Refused> {
    let refuse = |status, reason| Err(Refused { status, reason });
    if method != Method::GET {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "a WebSocket begins with GET");
    }
    if !has_token(headers, &UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
        return refuse(
            StatusCode::UPGRADE_REQUIRED,
            "this is the place of WebSockets: send Upgrade: websocket",
        );
    }
    if !has_token(headers, &SEC_WEBSOCKET_VERSION, VERSION) {
        return refuse(StatusCode::UPGRADE_REQUIRED, "send Sec-WebSocket-Version: 13");
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).filter(|key| key.len() == KEY_BYTES);
    let Some(key) = key else {
        return refuse(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key must be 16 bytes in base64");
    };
    let asked = tokens(headers, &SEC_WEBSOCKET_PROTOCOL);
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

/// The elements of a list header, over all its lines.
fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|found| found.eq_ignore_ascii_case(token))
}

/// For the fuzzer: any headers, one per line, are answered or refused.
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
