//! Reasons for refusing a credential.

use peeklock_engine::Timestamp;

/// Formats a time as the service does here: `2026-11-22 23:15:00Z`.
fn shown(at: Timestamp) -> String {
    let at_s = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_second(at_s).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The reason for a refusal. The texts are sent to the peer and reveal nothing about keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No token was presented.
    #[error("MissingToken: The request has no token; send one in the Authorization header.")]
    Missing,
    /// The token can't be parsed.
    #[error("MalformedToken: The token can't be read: {0}.")]
    Malformed(&'static str),
    /// The signature does not match any key of the rule, or the rule does not exist; the two cases are not
    /// distinguished.
    #[error("InvalidSignature: The token has an invalid signature.")]
    Signature,
    /// The key is unknown: the issuer's keys are being fetched, and the same token may be valid soon.
    #[error(
        "InvalidSignature: The token is signed with a key that is not known; the issuer's keys are being fetched, try \
         again."
    )]
    UnknownKey,
    /// The token is from another issuer.
    #[error("InvalidIssuer: This broker does not accept tokens of this issuer.")]
    Issuer,
    /// The token is for another resource.
    #[error("InvalidAudience: The authorization header contains a token for another resource.")]
    Audience,
    /// The token has expired.
    #[error("ExpiredToken: The token is expired. Expiration time: '{}'.", shown(*.0))]
    Expired(Timestamp),
    /// The token is not valid yet.
    #[error("TokenNotYetValid: The token is not valid yet.")]
    NotYet,
    /// The token is valid, but none of its roles has rights on the resource.
    #[error("Unauthorized access: no role of the token has rights on this resource.")]
    Role,
    /// The credential is valid but lacks the required right.
    #[error("Unauthorized access: '{right}' claim(s) are required to perform this operation.")]
    Right {
        /// The required right.
        right: &'static str,
    },
}

impl Denied {
    /// Whether the attempt may have been a guess at a key. Audience and times are checked only after the signature, so
    /// those refusals prove knowledge of a key.
    #[must_use]
    pub const fn may_be_guess(&self) -> bool {
        match self {
            Self::Missing | Self::Malformed(_) | Self::Signature | Self::UnknownKey | Self::Issuer => true,
            Self::Audience | Self::Expired(_) | Self::NotYet | Self::Role | Self::Right { .. } => false,
        }
    }

    /// The reason in one word, for metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed(_) => "malformed",
            Self::Signature => "signature",
            Self::UnknownKey => "unknown_key",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Expired(_) => "expired",
            Self::NotYet => "not_yet_valid",
            Self::Role => "role",
            Self::Right { .. } => "right",
        }
    }
}
