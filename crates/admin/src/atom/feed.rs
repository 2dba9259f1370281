//! Entries, and feeds of them in pages.

use std::net::Ipv4Addr;

use peeklock_engine::{EntityTimes, Timestamp};

use super::call::Call;
use super::path::Target;
use super::xml::{ATOM, Document};
use super::{Session, instant};

/// The parts of an entry around its content.
pub(super) struct Entry<'a> {
    /// The resource, for its URL.
    pub(super) target: &'a Target,
    /// Its name; Python and .NET read names from here, JS from the URL.
    pub(super) title: &'a str,
    /// When it was created and last changed.
    pub(super) times: EntityTimes,
}

/// A page of the requested entities.
pub(super) struct Page<T> {
    /// The entities.
    pub(super) items: Vec<T>,
    /// Number of entities to skip for the next page; `None` on the last page.
    pub(super) next_skip: Option<usize>,
}

/// Writes an entry whose content is written by `content`. Only queues, topics and the namespace have an author, and the
/// times are whole seconds (recordings of Python and .NET).
pub(super) fn entry(
    document: &mut Document,
    session: &Session<'_>,
    entry: &Entry<'_>,
    content: impl FnOnce(&mut Document),
) {
    let url = entry_url(session, entry.target);
    document.element("entry", &[("xmlns", ATOM)], |document| {
        document.text("id", &url);
        document.attributed_text("title", &[("type", "text")], entry.title);
        document.text("published", &instant::seconds_text(entry.times.created_at));
        document.text("updated", &instant::seconds_text(entry.times.updated_at));
        if !matches!(entry.target, Target::Subscription(..) | Target::Rule(..)) {
            document.element("author", &[], |document| document.text("name", namespace_name(session)));
        }
        document.attributed_text("link", &[("rel", "self"), ("href", &url)], "");
        document.element("content", &[("type", "application/xml")], content);
    });
}

/// A feed of the entities of a page. Its own URL is the requested one, as in the service: the older SDK for Node compares
/// them. It has a second link, to the next page, if and only if there is one: Python counts links, JS searches for
/// `rel="next"`.
pub(super) fn feed<T>(
    session: &Session<'_>,
    title: &str,
    page: &Page<T>,
    write: impl Fn(&mut Document, &T),
) -> Document {
    let Call { target, host, path_and_query, .. } = session.call;
    let this = format!("https://{host}{path_and_query}");
    let mut document = Document::new();
    document.element("feed", &[("xmlns", ATOM)], |document| {
        document.attributed_text("title", &[("type", "text")], title);
        document.text("id", &this);
        document.text("updated", &instant::seconds_text(session.entity_now()));
        document.attributed_text("link", &[("rel", "self"), ("href", &this)], "");
        if let Some(skip) = page.next_skip {
            let next = url(session, target, Some(page_query(skip, session.call.top)));
            document.attributed_text("link", &[("rel", "next"), ("href", &next)], "");
        }
        for item in &page.items {
            write(document, item);
        }
    });
    document
}

/// The media type of a document, with its kind as the service gives it (all recordings).
pub(super) fn media_type(document: &[u8]) -> &'static str {
    match document.starts_with(b"<feed") {
        true => "application/atom+xml;type=feed;charset=utf-8",
        false => "application/atom+xml;type=entry;charset=utf-8",
    }
}

fn page_query(skip: usize, top: usize) -> String {
    format!("$skip={skip}&$top={top}")
}

/// The URL of an entry. If the request names it alone, the URL has the request's query, otherwise only the version
/// (recordings of Python and .NET).
fn entry_url(session: &Session<'_>, target: &Target) -> String {
    let Call { target: requested, host, spelling, path_and_query, .. } = session.call;
    match path_and_query.split_once('?') {
        Some((_, query)) if !query.is_empty() && target == requested => {
            format!("https://{host}{}?{query}", target.url_path(spelling))
        }
        _ => url(session, target, None),
    }
}

/// The URL of a resource as the service writes it: spelled like the request's, with the version that the request names,
/// if any. Older clients read names from it and don't expect a version that they have not sent.
fn url(session: &Session<'_>, target: &Target, page: Option<String>) -> String {
    let Call { host, spelling, named_version, .. } = session.call;
    let version = named_version.as_ref().map(|version| format!("api-version={version}"));
    let query = version.into_iter().chain(page).collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    format!("https://{host}{}{mark}{query}", target.url_path(spelling))
}

/// The name of the namespace: the configured name, otherwise the first part of the host name, as in the service.
pub(super) fn namespace_name<'a>(session: &'a Session<'_>) -> &'a str {
    session.admin.name.as_deref().unwrap_or_else(|| named_by(&session.call.host))
}

/// The namespace in a `Host` header; IP addresses contain none.
fn named_by(host: &str) -> &str {
    let name = host.split(':').next().unwrap_or_default();
    let first = name.split('.').next().unwrap_or_default();
    let is_address = name.starts_with('[') || name.parse::<Ipv4Addr>().is_ok();
    if first.is_empty() || is_address { "peeklock" } else { first }
}

/// Times of an entity that was never changed.
pub(super) const fn unchanged_since(created_at: Timestamp) -> EntityTimes {
    EntityTimes { created_at, updated_at: created_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_named_by_the_host_but_not_by_an_address() {
        for (host, name) in [
            ("localhost:5300", "localhost"),
            ("orders.servicebus.windows.net", "orders"),
            ("broker.example:443", "broker"),
            ("127.0.0.1:5300", "peeklock"),
            ("192.0.2.7", "peeklock"),
            ("[::1]:5300", "peeklock"),
            ("", "peeklock"),
            ("127.example", "127"),
        ] {
            assert_eq!(named_by(host), name, "{host}");
        }
    }
}
