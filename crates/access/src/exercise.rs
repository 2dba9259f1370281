//! Passes arbitrary bytes to all parsers of data from unauthenticated peers; for fuzzing and its tests.

use crate::Resource;
use crate::token::Token;

/// Parses a token of any shape: it is accepted or refused, and parsed fields are parts of the input.
pub fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(Token::SharedAccessSignature(signature)) = Token::parse(text) {
        let _ = Resource::of_signed(signature.resource_encoded);
    }
    let _ = Resource::of(text);
}

/// Verifies `bytes` as a JSON web token, and a token whose three parts are `bytes`, with `bytes` as the key set.
pub fn json_web_token(bytes: &[u8]) {
    crate::jwt::exercise(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_of_any_text_are_survived(
            text in "((SharedAccessSignature|Bearer) )?((sr|sig|se|skn|x)=[%a-f0-9+&=/:]{0,12}&?){0,5}\\PC{0,20}"
        ) {
            super::token(text.as_bytes());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            super::token(&bytes);
            super::json_web_token(&bytes);
        }

        #[test]
        fn json_that_is_nearly_right_is_survived(
            name in "alg|kid|crit|exp|nbf|aud|iss|roles|keys|kty|x",
            value in "-?[0-9]{1,20}|\"[a-zA-Z0-9 /:]{0,10}\"|\\[[0-9,]{0,5}\\]|null|1e999|[\\[{]{1,200}",
            rest in "(,\"(alg|exp|aud|kty)\":(\"EdDSA\"|\"broker\"|1|\"RSA\")){0,3}",
        ) {
            super::json_web_token(format!("{{\"{name}\":{value}{rest}}}").as_bytes());
        }
    }
}
