//! `NamespaceInfo`.

use super::Session;
use super::entity;
use super::feed::{self, Entry};
use super::instant;
use super::xml::Document;

/// Tells about the namespace. Its limits are those of the Premium tier or wider, so that is what it calls itself; its times
/// are those of the start of the broker.
pub(super) fn get(session: &Session<'_>) -> Document {
    let name = feed::namespace_name(session);
    let since = session.admin.started_at;
    let entry = Entry { target: &session.call.target, title: name, times: feed::unchanged_since(since) };
    let mut document = Document::new();
    feed::entry(&mut document, session, &entry, |document| {
        entity::description(document, "NamespaceInfo", |document| {
            document.text("CreatedTime", &instant::text(since));
            document.text("MessagingSKU", "Premium");
            document.text("MessagingUnits", "1");
            document.text("ModifiedTime", &instant::text(since));
            document.text("Name", name);
            document.text("NamespaceType", "Messaging");
        });
    });
    document
}
