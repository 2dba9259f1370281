//! Reports to the listener that the peer of a connection has authenticated.

use std::fmt;
use std::sync::Arc;

use axum::http::Extensions;

/// Called as soon as a token has proved good for what a request asks, long before there may be an answer; an extension of
/// the request. Without it nobody is told.
#[derive(Clone)]
pub struct Admission(Arc<dyn Fn() + Send + Sync>);

impl Admission {
    /// Calls this, more than once if there are more requests.
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
