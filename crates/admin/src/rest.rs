//! The messaging API: messages over HTTP.

use axum::Router;

use crate::Admin;

/// Its paths.
pub(crate) fn router() -> Router<Admin> {
    Router::new()
}
