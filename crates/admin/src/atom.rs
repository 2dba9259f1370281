//! The management API: entities as ATOM entries in XML.

use axum::Router;

use crate::Admin;

/// Its paths.
pub(crate) fn router() -> Router<Admin> {
    Router::new()
}
