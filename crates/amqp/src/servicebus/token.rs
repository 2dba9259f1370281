//! The two shapes of tokens: shared access signatures and JSON web tokens. Only the shape is read here; the
//! signature is the business of whoever verifies.

use std::borrow::Cow;

use super::errors::Fault;

/// Longest token looked at, in bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 * 1024;

const SAS_PREFIX: &str = "SharedAccessSignature ";

/// A token of known shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// `SharedAccessSignature sr=…&sig=…&se=…&skn=…`, fields in any order.
    SharedAccessSignature(SharedAccessSignature),
    /// Three base64url parts joined by dots.
    JsonWeb,
}

/// The fields of a shared access signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedAccessSignature {
    /// The resource, still encoded as it stands in the token: that is what was signed.
    pub(crate) resource_encoded: String,
    /// The signature: decoded from the URL encoding, still base64.
    pub(crate) signature: String,
    /// End of validity, in seconds since the Unix epoch.
    pub(crate) expires_at_s: u64,
    /// The rule whose key signed.
    pub(crate) key_name: String,
}

impl Token {
    /// Decides by the text alone: Python 7.15 announces `jwt` and sends a shared access signature.
    ///
    /// # Errors
    /// [`Fault::MalformedToken`].
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Fault::MalformedToken("it is too long"));
        }
        match text.split_at_checked(SAS_PREFIX.len()) {
            Some((prefix, fields)) if prefix.eq_ignore_ascii_case(SAS_PREFIX) => {
                parse_fields(fields).map(Self::SharedAccessSignature)
            }
            _ => parse_json_web(text),
        }
    }
}

fn parse_fields(fields: &str) -> Result<SharedAccessSignature, Fault> {
    let (mut resource, mut signature, mut expiry, mut key_name) = (None, None, None, None);
    for field in fields.trim().split('&') {
        let Some((name, value)) = field.split_once('=') else {
            return Err(Fault::MalformedToken("a field of the shared access signature has no value"));
        };
        match name {
            "sr" => resource = Some(value),
            "sig" => signature = Some(value),
            "se" => expiry = Some(value),
            "skn" => key_name = Some(value),
            _ => {}
        }
    }
    let (Some(resource), Some(signature), Some(expiry), Some(key_name)) =
        (resource, signature, expiry, key_name)
    else {
        return Err(Fault::MalformedToken("a shared access signature needs the fields sr, sig, se and skn"));
    };
    if resource.is_empty() || signature.is_empty() {
        return Err(Fault::MalformedToken("the resource or the signature is empty"));
    }
    let expires_at_s =
        expiry.parse().map_err(|_| Fault::MalformedToken("se must be a number of seconds since 1970"))?;
    Ok(SharedAccessSignature {
        resource_encoded: resource.to_owned(),
        signature: url_decoded(signature)?,
        expires_at_s,
        key_name: url_decoded(key_name)?,
    })
}

/// Decodes `%xx` and leaves `+` alone: base64 contains it, and senders that mean a space in `sr` never decode here.
fn url_decoded(text: &str) -> Result<String, Fault> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    super::address::percent_decoded(text)
        .ok_or(Fault::MalformedToken("a field of the shared access signature is badly percent-encoded"))
}

fn parse_json_web(text: &str) -> Result<Token, Fault> {
    let text: Cow<'_, str> =
        text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")).unwrap_or(text).into();
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
    };
    let parts: Vec<&str> = text.split('.').collect();
    match parts.as_slice() {
        [header, claims, signature] if is_part(header) && is_part(claims) && is_part(signature) => {
            Ok(Token::JsonWeb)
        }
        _ => Err(Fault::MalformedToken("it is neither a shared access signature nor a JSON web token")),
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
        assert_eq!(token.expires_at_s, 1_700_000_000);
        assert_eq!(token.key_name, "Root Key");
    }

    #[test]
    fn accepts_the_shape_of_json_web_tokens() {
        assert_eq!(Token::parse("eyJh.eyJz.c2ln-_").unwrap(), Token::JsonWeb);
        assert_eq!(Token::parse("Bearer eyJh.eyJz.c2ln").unwrap(), Token::JsonWeb);
    }

    #[test]
    fn names_what_is_wrong() {
        for text in [
            "",
            "hello",
            "a..b",
            "SharedAccessSignature ",
            "SharedAccessSignature sr=x&sig=y&se=1",
            "SharedAccessSignature sr=x&sig=y&se=soon&skn=k",
            "SharedAccessSignature sr=&sig=y&se=1&skn=k",
            "SharedAccessSignature sr=x&sig=%zz&se=1&skn=k",
        ] {
            assert!(matches!(Token::parse(text), Err(Fault::MalformedToken(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(SharedAccessSignature )?\\PC{0,40}") {
            let _ = Token::parse(&text);
        }
    }
}
