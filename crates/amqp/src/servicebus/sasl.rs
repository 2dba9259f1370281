//! Which SASL exchanges are accepted.

/// The mechanisms offered, in order: what the SDKs choose first (P, G, N: ANONYMOUS; J: ANONYMOUS with a key name as
/// initial response), then PLAIN for generic clients.
pub const MECHANISMS: [&str; 4] = ["ANONYMOUS", "PLAIN", "EXTERNAL", "MSSBCBS"];

/// Whether a client gets in. Rights come from tokens later; PLAIN is taken with any user and password as long as
/// it is well-formed (`[authzid] NUL user NUL password`, RFC 4616), unless the configuration turns it off.
#[must_use]
pub fn accepts(mechanism: &str, initial_response: Option<&[u8]>, plain_enabled: bool) -> bool {
    match mechanism {
        "ANONYMOUS" | "EXTERNAL" | "MSSBCBS" => true,
        "PLAIN" => plain_enabled && initial_response.is_some_and(is_plain),
        _ => false,
    }
}

fn is_plain(response: &[u8]) -> bool {
    let mut parts = response.split(|byte| *byte == 0);
    let (_authorization, user, password) = (parts.next(), parts.next(), parts.next());
    user.is_some_and(|user| !user.is_empty()) && password.is_some() && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_is_offered_and_nothing_else() {
        assert!(accepts("ANONYMOUS", Some(b"RootManageSharedAccessKey"), true));
        assert!(accepts("EXTERNAL", None, true) && accepts("MSSBCBS", None, true));
        assert!(accepts("PLAIN", Some(b"\0user\0password"), true));
        assert!(!accepts("PLAIN", Some(b"\0user\0password"), false));
        for broken in [&b""[..], b"user", b"\0user", b"\0\0password", b"a\0b\0c\0d"] {
            assert!(!accepts("PLAIN", Some(broken), true), "{broken:?}");
        }
        assert!(!accepts("PLAIN", None, true) && !accepts("SCRAM-SHA-256", None, true));
    }
}
