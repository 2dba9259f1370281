//! Detects a peer's protocol by the first bytes it sends.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The head of a TLS record that holds a `ClientHello`: its type, and the major version of SSL 3.0 and all of TLS.
const TLS: &[u8] = &[0x16, 0x03];
/// The head of every AMQP protocol header.
const AMQP: &[u8] = b"AMQP";
/// Longer than any registered HTTP method.
const METHOD_BYTES_MAX: usize = 24;
/// Size of the first read: enough for most `ClientHello`s and request heads.
const FIRST_READ_BYTES: usize = 512;

/// The protocol of a connection, inside TLS if there is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// AMQP, or an unknown protocol: AMQP defines an answer to other protocol headers.
    Amqp,
    /// HTTP/1.1, possibly to be upgraded to a WebSocket.
    Http,
}

/// The result of the detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBytes {
    /// Too few bytes to decide.
    Undecided,
    /// TLS; the protocol inside is detected later.
    Tls,
    /// This protocol without TLS.
    Plain(Protocol),
}

impl FirstBytes {
    /// Examines all bytes received so far. At most 24 bytes are needed for a decision.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if is_start(bytes, TLS) {
            return if bytes.len() < TLS.len() { Self::Undecided } else { Self::Tls };
        }
        if bytes.starts_with(AMQP) {
            return Self::Plain(Protocol::Amqp);
        }
        // The start of `AMQP` could be the start of a method, too.
        let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
        match bytes.get(method) {
            None if method < METHOD_BYTES_MAX => Self::Undecided,
            Some(b' ') if (1..METHOD_BYTES_MAX).contains(&method) => Self::Plain(Protocol::Http),
            _ => Self::Plain(Protocol::Amqp),
        }
    }
}

/// Whether `bytes` begins with `whole` or is a non-empty prefix of it.
fn is_start(bytes: &[u8], whole: &[u8]) -> bool {
    let common = bytes.len().min(whole.len());
    common > 0 && bytes.get(..common) == whole.get(..common)
}

/// Reads until the protocol is decided, leaving the bytes in `bytes`; `None` when the peer closes before.
///
/// # Errors
/// The stream's error.
pub async fn read_first_bytes(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut BytesMut,
) -> io::Result<Option<FirstBytes>> {
    loop {
        match FirstBytes::of(bytes) {
            FirstBytes::Undecided => {}
            decided => return Ok(Some(decided)),
        }
        bytes.reserve(FIRST_READ_BYTES);
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// For the fuzzer: the decision never changes with more bytes, and is made in time.
#[doc(hidden)]
pub fn exercise(bytes: &[u8]) {
    let mut verdict = FirstBytes::Undecided;
    for length in 0..=bytes.len() {
        let next = FirstBytes::of(bytes.get(..length).unwrap_or_default());
        assert!(verdict == FirstBytes::Undecided || verdict == next, "{verdict:?} became {next:?}");
        assert!(next != FirstBytes::Undecided || length < METHOD_BYTES_MAX, "undecided after {length} bytes");
        verdict = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    const AMQP: FirstBytes = FirstBytes::Plain(Protocol::Amqp);
    const HTTP: FirstBytes = FirstBytes::Plain(Protocol::Http);

    const KNOWN: [(&[u8], FirstBytes); 9] = [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", FirstBytes::Tls),
        (b"AMQP\x03\x01\x00\x00", AMQP),
        (b"AMQP\x00\x00\x09\x01", AMQP),
        (b"GET /health HTTP/1.1\r\n\r\n", HTTP),
        (b"DELETE /queue HTTP/1.1\r\n\r\n", HTTP),
        (b"ACL / HTTP/1.1\r\n\r\n", HTTP),
        (b"\x00\x00\x00\x00", AMQP),
        (b"SSH-2.0-OpenSSH_9.2\r\n", AMQP),
        (b"AAAAAAAAAAAAAAAAAAAAAAAAAAAA", AMQP),
    ];

    /// Found by fuzzing: the same bytes were HTTP in one piece and AMQP in two.
    #[test]
    fn a_word_too_long_for_a_method_is_none_however_it_is_split() {
        for letters in [METHOD_BYTES_MAX - 1, METHOD_BYTES_MAX, METHOD_BYTES_MAX + 2] {
            let request = [&vec![b'Z'; letters][..], b" / HTTP/1.1"].concat();
            exercise(&request);
            let expected = if letters < METHOD_BYTES_MAX { HTTP } else { AMQP };
            assert_eq!(FirstBytes::of(&request), expected, "{letters}");
        }
    }

    #[tokio::test]
    async fn protocols_are_distinguished_however_the_first_bytes_are_split() {
        for (bytes, expected) in KNOWN {
            for split in 0..bytes.len() {
                let (mut near, mut far) = duplex(64);
                let (first, rest) = bytes.split_at(split);
                let peer = async move {
                    for part in [first, rest] {
                        near.write_all(part).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                    near
                };
                let mut read = BytesMut::new();
                let (_near, found) = tokio::join!(peer, read_first_bytes(&mut far, &mut read));
                assert_eq!(found.unwrap(), Some(expected), "{bytes:?} split at {split}");
                assert!(bytes.starts_with(&read));
            }
        }
    }

    #[tokio::test]
    async fn one_byte_at_a_time_will_do() {
        for (bytes, expected) in KNOWN {
            let (mut near, mut far) = duplex(1);
            let peer = tokio::spawn(async move { near.write_all(bytes).await });
            assert_eq!(read_first_bytes(&mut far, &mut BytesMut::new()).await.unwrap(), Some(expected));
            peer.abort();
        }
    }

    #[tokio::test]
    async fn who_hangs_up_before_it_shows_speaks_nothing() {
        for bytes in [&b""[..], b"\x16", b"AMQ", b"GET"] {
            let (mut near, mut far) = duplex(64);
            near.write_all(bytes).await.unwrap();
            drop(near);
            assert_eq!(read_first_bytes(&mut far, &mut BytesMut::new()).await.unwrap(), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_change_their_meaning_by_later_bytes(bytes: Vec<u8>, text in "[A-Z -]{0,40}") {
            exercise(&bytes);
            exercise(text.as_bytes());
        }
    }
}
