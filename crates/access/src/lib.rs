//! Authorization: shared access rules, signatures and tokens, independent of the protocol.
//!
//! A front end passes a peer's credential (a token for a [`Resource`], a rule's name and key, a certificate) and gets a
//! [`Grant`] or the reason for a refusal. It keeps the grants, checks them before each operation, and validates them
//! again when [`Access::changes`] reports a changed rule.

mod denied;
pub mod exercise;
mod failures;
mod grant;
mod issuer;
mod jwt;
mod keys;
mod metrics;
mod node;
mod policy;
mod resource;
mod rules;
mod scope;
#[cfg(test)]
mod tests;
mod token;
mod used;

use std::sync::{Arc, PoisonError, RwLock};

use peeklock_engine::runtime::{Clock, Namespace};
use peeklock_engine::{AuthorizationRule, EntityOptions, Rights, Timestamp};
use tokio::sync::watch;

pub use denied::Denied;
pub use failures::{Attempts, Failures};
pub use grant::{Grant, Permission, ShownCredential};
pub use jwt::{JsonWebPolicy, KeySet, KeySetError, RoleRule};
pub use keys::is_same_secret;
pub use metrics::AccessMetrics;
pub use node::{AddressError, EntityNode, ResolvedNode, forwarding_target};
pub use policy::{CertificateRule, DEFAULT_KEY, DEFAULT_RULE_NAME, Policy, default_rule};
pub use resource::Resource;
pub use scope::Scope;

use grant::Basis;
use issuer::IssuerKeys;
use keys::{PlainKey, Signed};
use token::{SharedAccessSignature, Token};
use used::UsedRules;

/// Gives access to the rules of entities.
pub trait EntityRules: Send + Sync + 'static {
    /// The options of a queue or topic; names are case-insensitive.
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>>;
}

impl EntityRules for Namespace {
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>> {
        Self::options(self, name)
    }
}

/// Authorization of one broker; cheap to clone.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    policy: RwLock<Arc<Policy>>,
    entities: Option<Arc<dyn EntityRules>>,
    clock: Arc<dyn Clock>,
    used: UsedRules,
    issuer: IssuerKeys,
    changes: watch::Sender<u64>,
    metrics: AccessMetrics,
}

impl Access {
    /// Authorization by a policy and the rules of entities. Tokens expire by `clock`, which must be the broker's and
    /// not the clock moved in users' tests: token issuers don't know of such jumps, and a jump of an hour would end
    /// every connection.
    #[must_use]
    pub fn new(policy: Policy, entities: Arc<dyn EntityRules>, clock: Arc<dyn Clock>) -> Self {
        Self::with(policy, Some(entities), clock)
    }

    /// Allows everything to all clients: for a broker that only its owner can reach.
    #[must_use]
    pub fn open() -> Self {
        let policy = Policy { required: false, ..Policy::default() };
        Self::with(policy, None, Arc::new(peeklock_engine::runtime::SystemClock::default()))
    }

    fn with(policy: Policy, entities: Option<Arc<dyn EntityRules>>, clock: Arc<dyn Clock>) -> Self {
        let policy = RwLock::new(Arc::new(policy));
        let used = UsedRules::default();
        let (issuer, changes) = (IssuerKeys::default(), watch::Sender::new(0));
        let metrics = AccessMetrics::default();
        Self(Arc::new(Inner { policy, entities, clock, used, issuer, changes, metrics }))
    }

    /// Replaces the policy; grants based on removed rules become invalid.
    pub fn replace(&self, policy: Policy) {
        *self.0.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        self.notify();
    }

    /// Must be called when entities were created, changed or deleted. Holders of grants are notified only if a rule on
    /// which a grant is based has changed: entities are often created and deleted while there are ten thousand idle
    /// connections.
    pub fn entities_changed(&self) {
        if self.0.used.forget_changed(self.entities()) {
            self.notify();
        }
    }

    fn notify(&self) {
        self.0.changes.send_modify(|change| *change = change.wrapping_add(1));
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.0.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The time used for the expiry of tokens.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Whether credentials are required at all.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.policy().required
    }

    /// The grant for a shared access signature or JSON web token. `resource` is what it is presented for: the audience
    /// in a request to `$cbs`, or the target of an HTTP request. The prefixes `SharedAccessSignature` and `Bearer` are
    /// optional.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn token(&self, token: &str, resource: &Resource, now: Timestamp) -> Result<Grant, Denied> {
        self.counted(self.grant_of_token(token, resource, None, now))
    }

    /// As [`Self::token`], for an HTTP request to a URL below `resource`. The token may also be a shared access signature
    /// of this URL alone: older clients sign the whole URL of each request, such as `https://host/queue/messages/head`.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn token_for_url(
        &self,
        token: &str,
        resource: &Resource,
        url: &str,
        now: Timestamp,
    ) -> Result<Grant, Denied> {
        self.counted(self.grant_of_token(token, resource, Some(url), now))
    }

    /// The rule named in a shared access signature, without any verification.
    #[must_use]
    pub fn claimed_rule(token: &str) -> Option<String> {
        match Token::parse(token).ok()? {
            Token::SharedAccessSignature(signature) => Some(signature.rule),
            Token::JsonWeb(_) => None,
        }
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> AccessMetrics {
        self.0.metrics.clone()
    }

    /// Counts a refusal by a front end: no credential was presented, or the grant lacks a right.
    pub fn count(&self, denied: &Denied) {
        self.0.metrics.count(denied);
    }

    fn counted(&self, outcome: Result<Grant, Denied>) -> Result<Grant, Denied> {
        outcome.inspect_err(|denied| self.0.metrics.count(denied))
    }

    fn grant_of_token(
        &self,
        token: &str,
        resource: &Resource,
        url: Option<&str>,
        now: Timestamp,
    ) -> Result<Grant, Denied> {
        let policy = self.policy();
        if !policy.required {
            return Ok(Grant::everything(resource.clone()));
        }
        match Token::parse(token)? {
            Token::SharedAccessSignature(signature) => {
                self.signature(&policy, &signature, resource, url, now)
            }
            Token::JsonWeb(token) => self.json_web(&policy, token, resource, now),
        }
    }

    /// Looks up the rule in the namespace and in the entity, or in the topic for a subscription. The grant is limited
    /// to what both the signature and the rule cover.
    fn signature(
        &self,
        policy: &Policy,
        token: &SharedAccessSignature<'_>,
        resource: &Resource,
        url: Option<&str>,
        now: Timestamp,
    ) -> Result<Grant, Denied> {
        let proof = Signed::new(token.resource_encoded, token.expiry, &token.signature);
        let found =
            rules::find(policy, self.entities(), &token.rule, resource, &proof).ok_or(Denied::Signature)?;
        let expires_at = Timestamp(token.expires_at_s.saturating_mul(1000));
        if expires_at <= now {
            return Err(Denied::Expired(expires_at));
        }
        let covers =
            |signed| Scope::of_signature(signed, found.level()).filter(|scope| scope.covers(resource));
        let is_url_signed = url.is_some_and(|url| resource::is_signed(token.resource_encoded, url));
        let scope = Resource::of_signed(token.resource_encoded)
            .and_then(covers)
            .or_else(|| covers(resource.clone()).filter(|_| is_url_signed));
        let grant = found.grant(scope.ok_or(Denied::Audience)?, Some(expires_at));
        self.0.used.remember(&grant);
        // A change during the verification did not see the rule, which was remembered only now.
        if self.is_still_valid(&grant) { Ok(grant) } else { Err(Denied::Signature) }
    }

    /// The grant for a namespace rule's name and one of its keys (SASL PLAIN).
    ///
    /// # Errors
    /// [`Denied`].
    pub fn password(&self, rule: &str, key: &str) -> Result<Grant, Denied> {
        let policy = self.policy();
        let namespace = Resource::namespace();
        if !policy.required {
            return Ok(Grant::everything(namespace));
        }
        let found = rules::find(&policy, None, rule, &namespace, &PlainKey::new(key));
        let found = found.ok_or(Denied::Signature).inspect_err(|denied| self.count(denied))?;
        Ok(found.grant(namespace.into(), None))
    }

    /// The grant for a client certificate with a verified subject (SASL EXTERNAL).
    ///
    /// # Errors
    /// [`Denied`].
    pub fn certificate(&self, subject: &str) -> Result<Grant, Denied> {
        let policy = self.policy();
        if !policy.required {
            return Ok(Grant::everything(Resource::namespace()));
        }
        let rule = policy.certificates.iter().find(|rule| &*rule.subject == subject);
        let rule = rule.ok_or(Denied::Signature).inspect_err(|denied| self.count(denied))?;
        let basis = Basis::Certificate { subject: subject.into() };
        let permissions = Box::new([Permission { scope: rule.scope.clone().into(), rights: rule.rights }]);
        Ok(Grant { permissions, expires_at: None, principal: subject.into(), basis })
    }

    /// Whether the basis of a grant still exists: its rule has the same key and the rights. Does not check the expiry.
    #[must_use]
    pub fn is_still_valid(&self, grant: &Grant) -> bool {
        let policy = self.policy();
        let holds =
            |rights: Rights| grant.permissions.iter().all(|given| rights::include(rights, given.rights));
        !policy.required
            || match &grant.basis {
                Basis::Open => false,
                Basis::Rule { level, name, key } => {
                    let has_key =
                        |rule: &AuthorizationRule| rule.primary_key == *key || rule.secondary_key == *key;
                    rules::named(&policy, self.entities(), level, name, |rule| {
                        has_key(rule) && holds(rule.rights)
                    })
                }
                Basis::Certificate { subject } => policy.certificates.iter().any(|rule| {
                    let covers = |given: &Permission| given.scope.is_within(&rule.scope);
                    rule.subject == *subject && grant.permissions.iter().all(covers) && holds(rule.rights)
                }),
                Basis::JsonWeb(basis) => policy.json_web.as_ref().is_some_and(|policy| {
                    policy.gives(basis, &grant.permissions) && self.keys(policy).contains(&basis.key)
                }),
            }
    }

    /// Checks a grant again after a wait: its basis must still exist, and its time must not be over.
    ///
    /// # Errors
    /// [`Denied::Signature`] or [`Denied::Expired`].
    pub fn confirm(&self, grant: &Grant) -> Result<(), Denied> {
        if !self.is_still_valid(grant) {
            return Err(Denied::Signature);
        }
        let now = self.now();
        match grant.expires_at {
            Some(expires_at) if grant.is_expired(now) => Err(Denied::Expired(expires_at)),
            _ => Ok(()),
        }
    }

    /// A counter that changes whenever grants may have become invalid.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn entities(&self) -> Option<&dyn EntityRules> {
        self.0.entities.as_deref()
    }
}

mod rights {
    use peeklock_engine::{Right, Rights};

    /// Whether `these` include all of `those`.
    pub(crate) fn include(these: Rights, those: Rights) -> bool {
        [Right::Listen, Right::Send, Right::Manage]
            .into_iter()
            .all(|right| these.allow(right) || !those.allow(right))
    }
}
