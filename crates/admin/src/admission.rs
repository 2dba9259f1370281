//! Reports to the listener that the peer of a connection has authenticated.

use std::fmt;
use std::sync::Arc;

use axum::http::Extensions;

/// Callback, called as soon as a token has proved valid for a request, possibly long before the answer; an extension of
/// the request. Optional.
#[derive(Clone)]
pub struct Admission(Arc<dyn Fn() + Send + Sync>);

impl Admission {
    /// Calls `admit`, once for each authorized request.
    pub fn new(admit: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(admit))
    }

    /// Reports that the request was authorized.
    pub fn tell(extensions: &Extensions) {
        if let Some(Self(admit)) = extensions.get() {
            admit();
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Admission").finish_non_exhaustive()
    }
}
