//! The two forms of tokens: shared access signatures and JSON web tokens.

use percent_encoding::percent_decode_str;

use crate::Denied;

/// Longest token accepted, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 * 1024;

const SAS_PREFIX: &str = "SharedAccessSignature ";
const BEARER_PREFIX: &str = "Bearer ";

/// A token of known form, not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// `SharedAccessSignature sr=…&sig=…&se=…&skn=…`, fields in any order.
    SharedAccessSignature(SharedAccessSignature<'t>),
    /// Three base64url parts joined by dots.
    JsonWeb(&'t str),
}

/// The fields of a shared access signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedAccessSignature<'t> {
    /// The resource in the encoded form of the token, which is the form that was signed.
    pub(crate) resource_encoded: &'t str,
    /// The signature: percent-decoded, still base64.
    pub(crate) signature: String,
    /// The expiry in the form of the token, which was signed as well.
    pub(crate) expiry: &'t str,
    /// The expiry in seconds since the Unix epoch.
    pub(crate) expires_at_s: u64,
    /// The name of the rule.
    pub(crate) rule: String,
}

impl<'t> Token<'t> {
    /// Determines the form from the text alone: Python 7.15 announces `jwt` and sends a shared access signature.
    ///
    /// # Errors
    /// [`Denied::Malformed`].
    pub(crate) fn parse(text: &'t str) -> Result<Self, Denied> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Denied::Malformed("it is too long"));
        }
        let text = text.trim();
        if let Some(fields) = strip_prefix(text, SAS_PREFIX) {
            return parse_fields(fields).map(Self::SharedAccessSignature);
        }
        parse_json_web(strip_prefix(text, BEARER_PREFIX).unwrap_or(text).trim_start())
    }
}

fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn parse_fields(fields: &str) -> Result<SharedAccessSignature<'_>, Denied> {
    let (mut resource, mut signature, mut expiry, mut rule) = (None, None, None, None);
    for field in fields.trim().split('&') {
        let Some((name, value)) = field.split_once('=') else {
            return Err(Denied::Malformed("a field of the shared access signature has no value"));
        };
        let known = match name {
            "sr" => &mut resource,
            "sig" => &mut signature,
            "se" => &mut expiry,
            "skn" => &mut rule,
            _ => continue,
        };
        // With two fields of the same name, one could be signed and the other evaluated.
        if known.replace(value).is_some() {
            return Err(Denied::Malformed("a field of the shared access signature occurs twice"));
        }
    }
    let (Some(resource_encoded), Some(signature), Some(expiry), Some(rule)) =
        (resource, signature, expiry, rule)
    else {
        return Err(Denied::Malformed("a shared access signature needs the fields sr, sig, se and skn"));
    };
    if resource_encoded.is_empty() || signature.is_empty() || rule.is_empty() {
        return Err(Denied::Malformed("the resource, the signature or the name of the rule is empty"));
    }
    let expires_at_s =
        expiry.parse().map_err(|_| Denied::Malformed("se must be a number of seconds since 1970"))?;
    Ok(SharedAccessSignature {
        resource_encoded,
        signature: url_decoded(signature)?,
        expiry,
        expires_at_s,
        rule: url_decoded(rule)?,
    })
}

/// Decodes `%xx` but keeps `+`: base64 contains it, and names of rules contain no spaces.
fn url_decoded(text: &str) -> Result<String, Denied> {
    let broken = Denied::Malformed("a field of the shared access signature is badly percent-encoded");
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| broken)?;
    Ok(decoded.into_owned())
}

fn parse_json_web(text: &str) -> Result<Token<'_>, Denied> {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
    };
    let mut parts = text.split('.');
    match [parts.next(), parts.next(), parts.next(), parts.next()] {
        [Some(header), Some(claims), Some(signature), None]
            if is_part(header) && is_part(claims) && is_part(signature) =>
        {
            Ok(Token::JsonWeb(text))
        }
        _ => Err(Denied::Malformed("it is neither a shared access signature nor a JSON web token")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_fields_in_any_order() {
        let text = "SharedAccessSignature se=1700000000&skn=Root%20Key&sig=a%2Bb%3D&sr=sb%3A%2F%2Fh%2Fmy+q";
        let Token::SharedAccessSignature(token) = Token::parse(text).unwrap() else { panic!("a signature") };
        assert_eq!(token.resource_encoded, "sb%3A%2F%2Fh%2Fmy+q");
        assert_eq!(token.signature, "a+b=");
        assert_eq!((token.expiry, token.expires_at_s), ("1700000000", 1_700_000_000));
        assert_eq!(token.rule, "Root Key");
    }

    #[test]
    fn accepts_the_shape_of_json_web_tokens() {
        for text in ["eyJh.eyJz.c2ln-_", "Bearer eyJh.eyJz.c2ln-_", "bearer  eyJh.eyJz.c2ln-_ "] {
            assert_eq!(Token::parse(text).unwrap(), Token::JsonWeb("eyJh.eyJz.c2ln-_"));
        }
    }

    #[test]
    fn names_the_mistake() {
        for text in [
            "",
            "hello",
            "a..b",
            "a.b.c.d",
            "SharedAccessSignature ",
            "SharedAccessSignature sr=x&sig=y&se=1",
            "SharedAccessSignature sr=x&sig=y&se=soon&skn=k",
            "SharedAccessSignature sr=x&sig=y&se=-1&skn=k",
            "SharedAccessSignature sr=&sig=y&se=1&skn=k",
            "SharedAccessSignature sr=x&sig=%ff&se=1&skn=k",
            "SharedAccessSignature sr=x&sr=y&sig=y&se=1&skn=k",
            &"x".repeat(1_000_000),
        ] {
            assert!(matches!(Token::parse(text), Err(Denied::Malformed(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(SharedAccessSignature )?\\PC{0,40}") {
            let _ = Token::parse(&text);
        }
    }
}
