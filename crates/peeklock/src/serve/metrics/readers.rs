//! Access to `/metrics`: the metrics name entities and show their activity.
//!
//! A scraper on the same machine needs no token; another one presents the token of `[metrics]`, or a token with the
//! right Manage on the namespace. A request forwarded by a proxy does not count as from the same machine, whatever its
//! address is.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, FORWARDED, HeaderName};
use peeklock_access::{Access, Resource, is_same_secret};
use peeklock_engine::Right;

use crate::config::MetricsConfig;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The access check; see the module; cheap to clone.
#[derive(Clone)]
pub(in crate::serve) struct Readers {
    config: Arc<MetricsConfig>,
    access: Arc<RwLock<Option<Access>>>,
}

impl Readers {
    /// The check for a configuration; until there is an [`Access`], only its token is known.
    pub(in crate::serve) fn new(config: MetricsConfig) -> Self {
        Self { config: Arc::new(config), access: Arc::default() }
    }

    /// Sets the access rules for other tokens, while entities are served.
    pub(in crate::serve) fn set_access(&self, access: Option<Access>) {
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = access;
    }

    /// Whether a request from `peer` may read all metrics.
    pub(in crate::serve) fn admit(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let access = self.access.read().unwrap_or_else(PoisonError::into_inner).clone();
        if access.as_ref().is_some_and(|access| !access.is_required()) {
            return true;
        }
        let Some(presented) = headers.get(AUTHORIZATION) else {
            let is_passed_on = headers.contains_key(FORWARDED) || headers.contains_key(X_FORWARDED_FOR);
            return self.config.open_on_loopback && peer.to_canonical().is_loopback() && !is_passed_on;
        };
        let Some(token) = presented.to_str().ok().map(without_scheme) else { return false };
        if self.config.token.as_ref().is_some_and(|expected| is_same_secret(expected.expose(), token)) {
            return true;
        }
        let grant = |access: Access| {
            let (namespace, now) = (Resource::namespace(), access.now());
            access
                .token(token, &namespace, now)
                .is_ok_and(|grant| grant.permits(&namespace, Right::Manage, now))
        };
        access.is_some_and(grant)
    }
}

fn without_scheme(value: &str) -> &str {
    match value.trim().split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value.trim(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use peeklock_access::{Policy, default_rule};
    use peeklock_engine::runtime::ManualClock;
    use peeklock_engine::{Secret, Timestamp};

    use super::*;

    const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
    const LOCAL: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    struct NoEntities;

    impl peeklock_access::EntityRules for NoEntities {
        fn options(&self, _name: &str) -> Option<Arc<peeklock_engine::EntityOptions>> {
            None
        }
    }

    fn readers(required: bool) -> Readers {
        let token = Some(Secret::new("0123456789abcdef"));
        let readers = Readers::new(MetricsConfig { token, ..MetricsConfig::default() });
        let policy = Policy { required, rules: vec![default_rule()], ..Policy::default() };
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        readers.set_access(Some(Access::new(policy, Arc::new(NoEntities), clock)));
        readers
    }

    #[test]
    fn another_machine_needs_the_token() {
        let readers = readers(true);
        assert!(!readers.admit(REMOTE, &HeaderMap::new()));
        assert!(readers.admit(REMOTE, &with(AUTHORIZATION, "Bearer 0123456789abcdef")));
        for wrong in ["Bearer 0123456789abcdee", "Bearer 0123456789abcde", "Bearer ", "Basic YTpi"] {
            assert!(!readers.admit(REMOTE, &with(AUTHORIZATION, wrong)), "{wrong}");
        }
    }

    #[test]
    fn the_same_machine_needs_nothing_unless_a_proxy_speaks_or_it_is_closed() {
        let readers = readers(true);
        assert!(readers.admit(LOCAL, &HeaderMap::new()));
        assert!(!readers.admit(LOCAL, &with(X_FORWARDED_FOR, "10.0.0.7")));
        assert!(!readers.admit(LOCAL, &with(FORWARDED, "for=10.0.0.7")));
        let closed = Readers::new(MetricsConfig { open_on_loopback: false, ..MetricsConfig::default() });
        assert!(!closed.admit(LOCAL, &HeaderMap::new()));
    }

    #[test]
    fn without_authorization_everything_is_open() {
        assert!(readers(false).admit(REMOTE, &HeaderMap::new()));
    }
}
