//! `NamespaceInfo`.

use peeklock_engine::Tier;

use super::Session;
use super::entity;
use super::feed::{self, Entry};
use super::instant;
use super::xml::Document;

/// Describes the namespace: its name and tier are from the configuration, its times are the start of the broker.
pub(super) fn get(session: &Session<'_>) -> Document {
    let name = feed::namespace_name(session);
    let since = session.admin.started_at;
    let entry = Entry { target: &session.call.target, title: name, times: feed::unchanged_since(since) };
    let mut document = Document::new();
    feed::entry(&mut document, session, &entry, |document| {
        entity::description(document, "NamespaceInfo", |document| {
            document.text("CreatedTime", &instant::text(since));
            let tier = session.admin.entity_limits.tier;
            document.text("MessagingSKU", tier.name());
            // The SDKs expect it for this tier only.
            if tier == Tier::Premium {
                document.text("MessagingUnits", "1");
            }
            document.text("ModifiedTime", &instant::text(since));
            document.text("Name", name);
            document.text("NamespaceType", "Messaging");
        });
    });
    document
}
