//! What rights are about: paths of entities.

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_itself_and_what_is_below() {
        let resource = Resource::entity;
        assert!(resource("News").covers(&resource("news/Subscriptions/eu")));
        assert!(resource("news").covers(&resource("NEWS")));
        assert!(!resource("new").covers(&resource("news")));
        assert!(!resource("news/subscriptions/eu").covers(&resource("news")));
        assert!(Resource::namespace().covers(&resource("news")));
    }
}
