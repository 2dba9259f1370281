//! `GET session`: the caller's identity and rights.

use peeklock_access::Resource;
use peeklock_engine::Right;
use serde_json::json;

use crate::answer::{Outcome, found};
use crate::call::{self, Call};
use crate::{Console, time};

/// Any valid token is enough. With `path`, the rights are those on that entity.
pub(crate) fn get(console: &Console, call: &Call) -> Outcome {
    let resource = match call.text("path") {
        Some(path) => call::node(path)?.resource(),
        None => Resource::namespace(),
    };
    let admin = &console.admin;
    let grant = admin.verify(&call.headers, &resource)?;
    call.admit();
    let now = admin.access.now();
    let all = [(Right::Manage, "Manage"), (Right::Send, "Send"), (Right::Listen, "Listen")];
    let rights = all.into_iter().filter(|(right, _)| grant.permits(&resource, *right, now));
    let rights: Vec<&str> = rights.map(|(_, name)| name).collect();
    found(json!({
        "namespace": admin.name(),
        "version": console.about.version,
        "tier": admin.tier().name(),
        "principal": &*grant.principal,
        "expires_at": grant.expires_at.map(time::json),
        "rights": rights,
        "authorization_required": admin.access.is_required(),
        "time_travel": console.clock.is_some(),
        "now": time::text(admin.namespace.clock().now()),
    }))
}
