//! What rights are about: paths of entities.

use std::borrow::Cow;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;

/// Longest address looked at, in bytes: an entity's name has at most 260 characters, the rest is authority and suffixes.
const ADDRESS_BYTES_MAX: usize = 2048;

/// Entities' names are not longer (Service Bus quotas), in bytes of UTF-8.
const NAME_BYTES_MAX: usize = 4 * 260;

/// A path in the namespace as rights see it: lower case, without scheme, host, `$management` and the names of dead-letter
/// queues. Empty for the whole namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resource(Box<str>);

impl Resource {
    /// The whole namespace.
    #[must_use]
    pub fn namespace() -> Self {
        Self::default()
    }

    /// A path that is known to name an entity: `orders`, `news/subscriptions/eu`.
    #[must_use]
    pub fn entity(path: &str) -> Self {
        Self(path.to_lowercase().into_boxed_str())
    }

    /// An address as peers write it: a path or a URL, percent-encoded or not, in any letter case; `None` when it is too
    /// long to be one. Scheme, host, port and query don't matter: clients write the name under which they know the broker.
    ///
    /// What follows a part with `$` (`$management`, a dead-letter queue, `$Resources` of the management API) is left out,
    /// and so are a subscription's rules: rights are on the entity.
    #[must_use]
    pub fn of(address: &str) -> Option<Self> {
        if address.len() > ADDRESS_BYTES_MAX {
            return None;
        }
        let path = without_authority(address);
        let path = path.split(['?', '#']).next().unwrap_or(path);
        let path = percent_decode_str(path).decode_utf8().unwrap_or(Cow::Borrowed(path)).to_lowercase();
        let mut parts: Vec<&str> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .take_while(|part| !part.starts_with('$'))
            .collect();
        let subscriptions = parts.iter().skip(1).position(|part| *part == "subscriptions").map(|at| at + 1);
        if let Some(at) = subscriptions {
            // The list of a topic's subscriptions is the topic's.
            parts.truncate(if parts.len() == at + 1 { at } else { at + 2 });
        }
        Some(Self(parts.join("/").into_boxed_str()))
    }

    /// What a shared access signature is for, as it stands in `sr`, still encoded. Without a scheme, what looks like a host
    /// is one: JS signs `localhost:5300`.
    #[must_use]
    pub(crate) fn of_signed(encoded: &str) -> Option<Self> {
        if encoded.len() > 3 * ADDRESS_BYTES_MAX {
            return None;
        }
        let spaced = encoded.replace('+', " ");
        let address = percent_decode_str(&spaced).decode_utf8().ok()?;
        if address.contains("://") || address.starts_with('/') {
            return Self::of(&address);
        }
        let (first, rest) = address.split_once('/').unwrap_or((&address, ""));
        Self::of(if is_host(first.split(['?', '#']).next().unwrap_or(first)) { rest } else { &address })
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this or below it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let Some(rest) = other.0.strip_prefix(&*self.0) else { return false };
        self.0.is_empty() || rest.is_empty() || rest.starts_with('/')
    }

    /// What is below both.
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        if self.covers(other) { Some(other.clone()) } else { other.covers(self).then(|| self.clone()) }
    }

    /// The path and its parents, each of which may name an entity; the namespace is not among them.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        let whole = Some(&*self.0).filter(|path| !path.is_empty());
        std::iter::successors(whole, |path| path.rsplit_once('/').map(|(parent, _)| parent))
            .filter(|path| path.len() <= NAME_BYTES_MAX)
    }
}

fn without_authority(address: &str) -> &str {
    match address.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.split_once('/').map_or("", |(_, path)| path),
        _ => address,
    }
}

/// Narrow on purpose: taking a queue's name for a host would widen what a signature is for to the namespace.
fn is_host(text: &str) -> bool {
    let (name, port) = text.rsplit_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok()) && !name.is_empty();
    has_port
        || text.eq_ignore_ascii_case("localhost")
        || text.parse::<IpAddr>().is_ok()
        || text.to_ascii_lowercase().ends_with(".servicebus.windows.net")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(address: &str) -> String {
        Resource::of(address).unwrap().path().to_owned()
    }

    #[test]
    fn a_resource_covers_itself_and_what_is_below() {
        let resource = Resource::entity;
        assert!(resource("News").covers(&resource("news/Subscriptions/eu")));
        assert!(resource("news").covers(&resource("NEWS")));
        assert!(!resource("new").covers(&resource("news")));
        assert!(!resource("news/subscriptions/eu").covers(&resource("news")));
        assert!(Resource::namespace().covers(&resource("news")));
    }

    #[test]
    fn audiences_of_all_sdks_agree() {
        for audience in [
            "sb://localhost:5672/Q",
            "sb://h/q/$management",
            "amqps://h/q",
            "amqp://h/q/",
            "q",
            "sb://h/%71",
            "/q",
            "q/$Transfer/$DeadLetterQueue/$management",
            "https://localhost:5300/q?api-version=2021-05",
        ] {
            assert_eq!(of(audience), "q", "{audience}");
        }
        for audience in [
            "sb://host/",
            "https://host",
            "",
            "http://h/$Resources/queues?$skip=0",
            "/$namespaceinfo",
            "$cbs",
        ] {
            assert_eq!(of(audience), "", "{audience}");
        }
        assert_eq!(of("sb://h/my%20queue"), "my queue");
        assert_eq!(of("sb://h/News/Subscriptions/EU/$DeadLetterQueue"), "news/subscriptions/eu");
        assert_eq!(of("https://h/news/subscriptions/eu/rules/$Default"), "news/subscriptions/eu");
        assert_eq!(of("https://h/news/subscriptions/eu/rules"), "news/subscriptions/eu");
        assert_eq!(of("https://h/news/Subscriptions"), "news");
        assert_eq!(of("a//b"), "a/b");
        assert_eq!(Resource::of(&"x".repeat(ADDRESS_BYTES_MAX + 1)), None);
    }

    #[test]
    fn signed_resources_are_decoded_and_lose_their_host() {
        let of = |encoded: &str| Resource::of_signed(encoded).unwrap().path().to_owned();
        assert_eq!(of("sb%3A%2F%2Flocalhost%3A5672%2Fmy+queue"), "my queue");
        assert_eq!(of("sb%3a%2f%2fh%2fmy%20queue"), "my queue");
        assert_eq!(of("sb%3a%2f%2fh%2fmy%2520queue"), "my queue");
        for host in [
            "localhost%3A18301",
            "localhost",
            "127.0.0.1",
            "%3A%3A1",
            "ns.servicebus.windows.net%2f",
            "[::1]:80",
        ] {
            assert_eq!(of(host), "", "{host}");
        }
        assert_eq!(of("ns.servicebus.windows.net%2fq"), "q");
        assert_eq!(of("orders.v1"), "orders.v1", "a name is not a host");
        assert_eq!(of("%2Fq"), "q");
    }

    #[test]
    fn ancestors_are_the_path_and_its_parents() {
        let resource = Resource::entity("a/b/c");
        assert_eq!(resource.ancestors().collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
        assert_eq!(Resource::namespace().ancestors().count(), 0);
        assert!(Resource::entity(&"a/".repeat(1000)).ancestors().count() <= NAME_BYTES_MAX);
    }

    #[test]
    fn intersections_are_the_narrower_of_two() {
        let resource = Resource::entity;
        assert_eq!(resource("a").intersection(&resource("a/b")), Some(resource("a/b")));
        assert_eq!(resource("a/b").intersection(&resource("")), Some(resource("a/b")));
        assert_eq!(resource("a").intersection(&resource("b")), None);
    }

    proptest! {
        #[test]
        fn never_panics_and_is_stable(address in "\\PC{0,60}") {
            if let Some(resource) = Resource::of(&address) {
                prop_assert!(!resource.path().starts_with('/') && !resource.path().ends_with('/'));
            }
            let _ = Resource::of_signed(&address);
        }
    }
}
