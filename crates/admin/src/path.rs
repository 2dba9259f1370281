//! The path of a request: segments, and the entity that they name.

use peeklock_access::Resource;
use percent_encoding::percent_decode_str;

/// Longest path looked at, in bytes: two names of 260 characters, every one of them escaped, and what is between.
const PATH_BYTES_MAX: usize = 8192;

/// The segments of a path, each decoded by itself: `a%2Fb` is one segment, `a/b`. Read from the right, because the names
/// of entities may hold slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segments(Vec<String>);

impl Segments {
    /// Splits a path as it stands in the request line; slashes at its ends do not count. `None` if it is too long, or
    /// no UTF-8 once it is decoded, or has an empty segment.
    pub(crate) fn read(path: &str) -> Option<Self> {
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Some(Self(Vec::new()));
        }
        let decode = |segment| percent_decode_str(segment).decode_utf8().ok().map(String::from);
        let segments: Vec<String> = path.split('/').map(decode).collect::<Option<_>>()?;
        (!segments.iter().any(String::is_empty)).then_some(Self(segments))
    }

    /// Takes the last segment off.
    pub(crate) fn pop(&mut self) -> Option<String> {
        self.0.pop()
    }

    /// Takes the last segment off if it is this word, without regard to case.
    pub(crate) fn pop_word(&mut self, word: &str) -> bool {
        let found = self.0.last().is_some_and(|last| last.eq_ignore_ascii_case(word));
        if found {
            self.0.pop();
        }
        found
    }

    /// Takes `{word}/{name}` off the right end, if a segment is left before: the name.
    pub(crate) fn pop_named(&mut self, word: &str) -> Option<String> {
        match self.0.as_slice() {
            [_, .., keyword, _] if keyword.eq_ignore_ascii_case(word) => {
                let name = self.0.pop();
                self.0.pop();
                name
            }
            _ => None,
        }
    }

    /// What is left, as the name of a queue or topic; `None` if nothing is, or a segment starts with `$`.
    pub(crate) fn into_name(self) -> Option<String> {
        let is_name = !self.0.is_empty() && !self.0.iter().any(|segment| segment.starts_with('$'));
        is_name.then(|| self.0.join("/"))
    }

    /// What is left, as a queue, topic or subscription.
    pub(crate) fn into_entity(mut self) -> Option<EntityPath> {
        let subscription = self.pop_named("subscriptions");
        Some(EntityPath { name: self.into_name()?, subscription })
    }
}

/// A queue, topic or subscription as a path names it; names match case-insensitively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityPath {
    /// Of the queue or topic; may hold slashes.
    pub(crate) name: String,
    /// Of the subscription, if it is one.
    pub(crate) subscription: Option<String>,
}

impl EntityPath {
    /// What rights are asked about.
    pub(crate) fn resource(&self) -> Resource {
        match &self.subscription {
            Some(subscription) => Resource::subscription(&self.name, subscription),
            None => Resource::entity(&self.name),
        }
    }
}

impl std::fmt::Display for EntityPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subscription {
            Some(subscription) => write!(formatter, "{}/Subscriptions/{subscription}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(path: &str) -> Option<(String, Option<String>)> {
        Segments::read(path)?.into_entity().map(|entity| (entity.name, entity.subscription))
    }

    #[test]
    fn names_may_hold_slashes_escaped_or_not() {
        for path in ["/a/b", "/a%2Fb", "/a%2fb/", "//a/b"] {
            assert_eq!(entity(path), Some(("a/b".into(), None)), "{path}");
        }
        assert_eq!(entity("/a%20b"), Some(("a b".into(), None)));
    }

    #[test]
    fn subscriptions_are_found_from_the_right() {
        let expected = Some(("a/b".to_owned(), Some("s".to_owned())));
        for path in ["/a/b/subscriptions/s", "/a/b/Subscriptions/s/", "/a%2Fb/SUBSCRIPTIONS/s"] {
            assert_eq!(entity(path), expected, "{path}");
        }
        assert_eq!(entity("/subscriptions/s"), Some(("subscriptions/s".into(), None)));
    }

    #[test]
    fn what_names_nothing_is_none() {
        for path in ["/", "", "/a//b", "/%ff", "/$cbs", "/a/$x/b", &"x".repeat(PATH_BYTES_MAX + 1)] {
            assert_eq!(entity(path), None, "{path}");
        }
    }
}
