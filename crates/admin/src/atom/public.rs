//! The answer for the namespace itself: a feed without entries. Service Bus answers requests for a missing queue or
//! topic with it, too (recorded by azure-sdk-for-net with api-versions 2017-04 and 2021-05); Go recognizes it by its
//! title.

use uuid::Uuid;

use super::xml::{ATOM, Document};
use super::{Session, instant};

/// Writes the feed.
pub(super) fn feed(session: &Session<'_>) -> Document {
    let mut document = Document::new();
    document.element("feed", &[("xmlns", ATOM)], |document| {
        document.attributed_text("title", &[("type", "text")], "Publicly Listed Services");
        let subtitle = "This is the list of publicly-listed services currently available.";
        document.attributed_text("subtitle", &[("type", "text")], subtitle);
        document.text("id", &format!("uuid:{};id=1", Uuid::new_v4()));
        document.text("updated", &instant::seconds_text(session.entity_now()));
        document.text("generator", "Service Bus 1.1");
    });
    document
}
