//! Which SASL exchanges are accepted, and the identities they prove.

use peeklock_access::{Access, Grant};
use percent_encoding::percent_decode_str;

use crate::wire::loggable;

/// The mechanisms offered, in the order of the service (a trace in smallrye-reactive-messaging 987). Some generic clients
/// choose the first that they can use, and ANONYMOUS can always be used. P, G and J choose ANONYMOUS, N MSSBCBS.
pub const MECHANISMS: [&str; 4] = ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"];

/// The result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Accepted; its rights come from tokens later.
    Anonymous,
    /// Accepted with these rights.
    Known(Grant),
    /// Refused.
    Refused,
}

/// Evaluates an exchange. PLAIN accepts the name of a rule of the namespace and one of its keys (`[authzid] NUL user
/// NUL password`, RFC 4616); EXTERNAL grants what the configuration assigns to the certificate's subject.
pub(super) fn outcome(
    access: &Access,
    plain_enabled: bool,
    certificate: Option<&str>,
    (mechanism, initial_response): (&str, Option<&[u8]>),
) -> Outcome {
    let granted = match mechanism {
        "ANONYMOUS" | "MSSBCBS" => return Outcome::Anonymous,
        "PLAIN" if plain_enabled => initial_response.and_then(plain).and_then(|(user, password)| {
            // Some clients send the user part of a URL percent-encoded.
            let user = percent_decode_str(user).decode_utf8().ok()?;
            access.password(&user, password).ok()
        }),
        "EXTERNAL" => match certificate {
            Some(subject) => access.certificate(subject).ok(),
            None if access.is_required() => None,
            None => return Outcome::Anonymous,
        },
        _ => None,
    };
    if granted.is_none() {
        let user = initial_response.filter(|_| mechanism == "PLAIN").and_then(plain).map(|(user, _)| user);
        let identity = user.or(certificate).map(loggable).map(tracing::field::display);
        tracing::info!(mechanism = %loggable(mechanism), identity, "login refused");
    }
    granted.map_or(Outcome::Refused, Outcome::Known)
}

fn plain(response: &[u8]) -> Option<(&str, &str)> {
    let mut parts = std::str::from_utf8(response).ok()?.split('\0');
    let (_authorization, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    (!user.is_empty() && parts.next().is_none()).then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_and_nothing_like_it() {
        assert_eq!(plain(b"\0user\0password"), Some(("user", "password")));
        assert_eq!(plain(b"someone\0user\0"), Some(("user", "")));
        for broken in [&b""[..], b"user", b"\0user", b"\0\0password", b"a\0b\0c\0d", b"\0\xff\0p"] {
            assert_eq!(plain(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_client_that_chooses_the_first_mechanism_it_can_use_presents_its_password() {
        let usable = |mechanism: &&str| ["ANONYMOUS", "PLAIN"].contains(mechanism);
        assert_eq!(MECHANISMS.into_iter().find(usable), Some("PLAIN"));
    }

    #[test]
    fn without_requirement_every_well_formed_credential_is_accepted() {
        let access = Access::open();
        let outcome = |plain_enabled, exchange| super::outcome(&access, plain_enabled, None, exchange);
        assert_eq!(outcome(true, ("ANONYMOUS", Some(&b"RootManageSharedAccessKey"[..]))), Outcome::Anonymous);
        assert_eq!(outcome(true, ("MSSBCBS", None)), Outcome::Anonymous);
        assert_eq!(outcome(true, ("EXTERNAL", None)), Outcome::Anonymous);
        assert!(matches!(outcome(true, ("PLAIN", Some(&b"\0user\0password"[..]))), Outcome::Known(_)));
        assert_eq!(outcome(false, ("PLAIN", Some(&b"\0user\0password"[..]))), Outcome::Refused);
        assert_eq!(outcome(true, ("PLAIN", None)), Outcome::Refused);
        assert_eq!(outcome(true, ("SCRAM-SHA-256", None)), Outcome::Refused);
    }
}
