//! Raw HTTP, which may be invalid, and tokens for it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

use crate::client::PATIENCE;

/// A shared access signature for the whole namespace, by the emulator's rule.
pub fn token() -> String {
    let (resource, expiry) = ("sb%3A%2F%2Flocalhost%2F", "9999999999");
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"SAS_KEY_VALUE");
    let signature = hmac::sign(&key, format!("{resource}\n{expiry}").as_bytes());
    let signature = BASE64_STANDARD.encode(signature);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn=RootManageSharedAccessKey")
}

/// Sends a request with a token; returns the status and the whole answer.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let (token, length) = (token(), body.len());
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n{headers}\r\n"
    );
    let answer = say(address, &[head.as_bytes(), body].concat()).0;
    (status(&answer).unwrap_or_else(|| panic!("{method} {path:.80}: no answer: {answer:?}")), answer)
}

/// Writes until the peer accepts no more and reads until it disconnects; returns its answer, and the number of bytes
/// written.
pub fn say(address: SocketAddr, bytes: &[u8]) -> (String, usize) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    converse(stream, bytes)
}

fn converse(mut stream: TcpStream, bytes: &[u8]) -> (String, usize) {
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut answer = Vec::new();
        // A connection closed by the peer with bytes under way is reset, possibly after an answer.
        match reader.read_to_end(&mut answer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("not hung up on; it said {:?}", String::from_utf8_lossy(&answer))
            }
            _ => String::from_utf8_lossy(&answer).into_owned(),
        }
    });
    let mut taken = 0;
    for part in bytes.chunks(64 << 10) {
        match stream.write_all(part) {
            Ok(()) => taken += part.len(),
            Err(_) => break,
        }
    }
    (reading.join().unwrap(), taken)
}

/// The status of the first answer.
pub fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()
}
