//! Checks the rights of a request's sender.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use peeklock_access::{Denied, Grant, Resource};
use peeklock_engine::Right;

use crate::Admin;
use crate::error::Error;

/// Carries the token where a proxy uses `Authorization` for itself.
const SERVICE_BUS_AUTHORIZATION: &str = "servicebusauthorization";

impl Admin {
    /// Verifies the token of a request and checks a right.
    ///
    /// # Errors
    /// 401, with the sub-code of the reason.
    pub fn authorize(&self, headers: &HeaderMap, resource: &Resource, right: Right) -> Result<Grant, Error> {
        let grant = self.verify(headers, resource)?;
        self.require(grant, resource, right)
    }

    /// As [`Self::authorize`], for an operation at this URL below the resource: a signature may be limited to it.
    ///
    /// # Errors
    /// 401, with the sub-code of the reason.
    pub(crate) fn authorize_operation(
        &self,
        headers: &HeaderMap,
        resource: &Resource,
        url: &str,
        right: Right,
    ) -> Result<Grant, Error> {
        let grant = self.verified(headers, resource, Some(url))?;
        self.require(grant, resource, right)
    }

    fn require(&self, grant: Grant, resource: &Resource, right: Right) -> Result<Grant, Error> {
        if grant.permits(resource, right, self.access.now()) {
            return Ok(grant);
        }
        let denied = lacking(right);
        self.access.count(&denied);
        Err(denied.into())
    }

    /// Refuses a request without a token where one is required, before its body is read, which may name the resource.
    ///
    /// # Errors
    /// 401.
    pub fn require_token(&self, headers: &HeaderMap) -> Result<(), Error> {
        if presented(headers)?.is_none() && self.access.is_required() {
            self.access.count(&Denied::Missing);
            return Err(Denied::Missing.into());
        }
        Ok(())
    }

    /// Verifies the token of a request, whatever rights it has on the resource; tokens in the query are ignored,
    /// because URLs end up in logs.
    ///
    /// # Errors
    /// 401, with the sub-code of the reason.
    pub fn verify(&self, headers: &HeaderMap, resource: &Resource) -> Result<Grant, Error> {
        self.verified(headers, resource, None)
    }

    fn verified(&self, headers: &HeaderMap, resource: &Resource, url: Option<&str>) -> Result<Grant, Error> {
        let now = self.access.now();
        let token = match presented(headers)? {
            Some(token) => token,
            None if self.access.is_required() => {
                self.access.count(&Denied::Missing);
                return Err(Denied::Missing.into());
            }
            None => "",
        };
        let grant = match url {
            Some(url) => self.access.token_for_url(token, resource, url, now),
            None => self.access.token(token, resource, now),
        }?;
        if grant.is_valid(resource, now) { Ok(grant) } else { Err(Denied::Role.into()) }
    }
}

fn lacking(right: Right) -> Denied {
    let right = match right {
        Right::Manage => "Manage",
        Right::Send => "Send",
        Right::Listen => "Listen",
    };
    Denied::Right { right }
}

/// The header with the token of a request, if it has one.
#[must_use]
pub fn token_header(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(SERVICE_BUS_AUTHORIZATION).or_else(|| headers.get(AUTHORIZATION))
}

/// The signature, or the token without `Bearer`.
fn presented(headers: &HeaderMap) -> Result<Option<&str>, Denied> {
    let Some(value) = token_header(headers) else { return Ok(None) };
    let value = value
        .to_str()
        .map_err(|_| Denied::Malformed("it contains characters that are not allowed in a token"))?
        .trim();
    Ok(Some(match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value,
    }))
}

/// See [`crate::exercise::authorization_header`].
pub(crate) fn exercise(input: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(input) else { return };
    for name in [SERVICE_BUS_AUTHORIZATION, AUTHORIZATION.as_str()] {
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.clone())]);
        if let Ok(Some(token)) = presented(&headers) {
            peeklock_access::exercise::token(token.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_header_is_survived(
            text in "((?i:bearer|SharedAccessSignature) {0,2})?\\PC{0,40}",
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            exercise(text.as_bytes());
            exercise(&bytes);
        }
    }

    #[test]
    fn the_token_is_found_in_either_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(presented(&headers), Ok(None));
        headers.insert(AUTHORIZATION, "bearer  a.b.c ".parse().unwrap());
        assert_eq!(presented(&headers), Ok(Some("a.b.c")));
        headers.insert(AUTHORIZATION, "SharedAccessSignature sr=x&sig=y".parse().unwrap());
        assert_eq!(presented(&headers), Ok(Some("SharedAccessSignature sr=x&sig=y")));
        headers.insert(SERVICE_BUS_AUTHORIZATION, "Bearer d".parse().unwrap());
        assert_eq!(presented(&headers), Ok(Some("d")));
    }
}
