//! Why something that was presented allows nothing.

use peeklock_engine::Timestamp;

/// An instant as the service writes it here: `2026-11-22 23:15:00Z`.
fn shown(at: Timestamp) -> String {
    let at_s = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_second(at_s).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Why not. The texts are for whoever presented it and tell nothing about keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was presented.
    #[error("MissingToken: The request has no token; send one in the Authorization header.")]
    Missing,
    /// It can't be read.
    #[error("MalformedToken: The token can't be read: {0}.")]
    Malformed(&'static str),
    /// The signature does not match any key of the rule, or there is no such rule: which of both is not told.
    #[error("InvalidSignature: The token has an invalid signature.")]
    Signature,
    /// There is no such key: the issuer's are being fetched, and the same token may be good in a moment.
    #[error(
        "InvalidSignature: The token is signed with a key that is not known; the issuer's keys are being fetched, try \
         again."
    )]
    UnknownKey,
    /// Somebody else issued it.
    #[error("InvalidIssuer: The token was issued by somebody else.")]
    Issuer,
    /// It is for something else.
    #[error("InvalidAudience: The authorization header contains a token for another resource.")]
    Audience,
    /// Its time is over.
    #[error("ExpiredToken: The token is expired. Expiration time: '{}'.", shown(*.0))]
    Expired(Timestamp),
    /// Its time has not begun.
    #[error("TokenNotYetValid: The token is not valid yet.")]
    NotYet,
    /// It is genuine, but none of its roles is given rights on what it was presented for.
    #[error("Unauthorized access: no role of the token has rights on this resource.")]
    Role,
    /// It is genuine but does not allow this.
    #[error("Unauthorized access: '{right}' claim(s) are required to perform this operation.")]
    Right {
        /// What it takes.
        right: &'static str,
    },
}

impl Denied {
    /// Whether it may have been an attempt to guess a key. Audience and times are looked at once the signature has proved right.
    #[must_use]
    pub const fn may_be_guess(&self) -> bool {
        match self {
            Self::Missing | Self::Malformed(_) | Self::Signature | Self::UnknownKey | Self::Issuer => true,
            Self::Audience | Self::Expired(_) | Self::NotYet | Self::Role | Self::Right { .. } => false,
        }
    }

    /// In one word, as metrics have it.
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
