//! The scope of a permission.
//!
//! Service Bus distinguishes two cases: a shared access **rule** belongs to the namespace or to one entity and never
//! allows anything outside of it. A shared access **signature** narrows its rule to the signed URL and all URLs of
//! which it is a prefix, by whole parts: a signature for `sb://host/queue`, made with a rule of the namespace, is also
//! valid for the entity `queue/new` (inferred: the resource of a signature is a prefix of URLs).

use crate::Resource;

/// The resources of a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A resource and its parts: see [`Resource::contains`].
    Resource(Resource),
    /// All resources in the namespace whose path starts with the parts of this one.
    Prefix(Resource),
}

impl Scope {
    /// The scope of a signature for `signed` by a rule of `level` (an entity, or the namespace): the intersection of
    /// both; `None` if it is empty.
    #[must_use]
    pub(crate) fn of_signature(signed: Resource, level: &Resource) -> Option<Self> {
        if *level == Resource::namespace() {
            return Some(Self::Prefix(signed));
        }
        if signed.is_prefix_of(level) {
            return Some(Self::Resource(level.clone()));
        }
        level.contains(&signed).then_some(Self::Resource(signed))
    }

    /// Whether it includes the resource.
    #[must_use]
    pub fn covers(&self, resource: &Resource) -> bool {
        match self {
            Self::Resource(covered) => covered.contains(resource),
            Self::Prefix(prefix) => prefix.is_prefix_of(resource),
        }
    }

    /// Whether it is completely inside this resource and its parts.
    pub(crate) fn is_within(&self, outer: &Resource) -> bool {
        match self {
            Self::Resource(inner) => outer.contains(inner),
            Self::Prefix(_) => *outer == Resource::namespace(),
        }
    }

    /// The path of its resource.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Resource(resource) | Self::Prefix(resource) => resource.path(),
        }
    }
}

impl From<Resource> for Scope {
    fn from(resource: Resource) -> Self {
        Self::Resource(resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Resource {
        Resource::of(path).unwrap()
    }

    #[test]
    fn a_signature_narrows_its_rule_and_never_widens_it() {
        /// Signed, level, path, covered, not covered.
        type Case = (
            &'static str,
            &'static str,
            Option<&'static str>,
            &'static [&'static str],
            &'static [&'static str],
        );
        let cases: [Case; 9] = [
            ("", "", Some(""), &["", "q", "$resources/queues"], &[]),
            ("q", "", Some("q"), &["q", "q/new", "q/subscriptions/s"], &["", "q2", "$resources/queues"]),
            ("$resources/queues", "", Some("$resources/queues"), &["$resources/queues"], &["", "q"]),
            ("", "q", Some("q"), &["q", "q/subscriptions/s"], &["", "q/new", "q2"]),
            ("q", "q", Some("q"), &["q", "q/subscriptions/s"], &["q/new", "q/new/subscriptions/s"]),
            ("q", "q/new", Some("q/new"), &["q/new"], &["q", "q/new/er"]),
            ("q/subscriptions/s", "q", Some("q/subscriptions/s"), &["q/subscriptions/s"], &["q"]),
            ("q/new", "q", None, &[], &[]),
            ("$resources/queues", "q", None, &[], &[]),
        ];
        for (signed, level, path, covered, others) in cases {
            let scope = Scope::of_signature(of(signed), &of(level));
            assert_eq!(scope.as_ref().map(Scope::path), path, "{signed} by {level}");
            let Some(scope) = scope else { continue };
            assert!(covered.iter().all(|path| scope.covers(&of(path))), "{signed} by {level}");
            assert!(!others.iter().any(|path| scope.covers(&of(path))), "{signed} by {level}");
        }
    }

    #[test]
    fn a_scope_is_within_scopes_that_contain_all_of_it() {
        let queue = Scope::from(of("q"));
        assert!(queue.is_within(&of("q")) && queue.is_within(&of("")) && !queue.is_within(&of("q/new")));
        let prefix = Scope::Prefix(of("q"));
        assert!(prefix.is_within(&of("")) && !prefix.is_within(&of("q")));
    }
}
