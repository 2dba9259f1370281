//! Who may do what: shared access rules, signatures and tokens, whichever protocol brings them.
//!
//! A front end shows what a peer presents (a token for a [`Resource`], a rule's name and key, a certificate) and gets a
//! [`Grant`] or a reason why not. It keeps the grants, asks them before each operation, and asks again when
//! [`Access::changes`] says that a rule changed.

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
pub use failures::Failures;
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
use keys::{PresentedCredential, Signed};
use token::{SharedAccessSignature, Token};
use used::UsedRules;

/// Where the rules of entities are found.
pub trait EntityRules: Send + Sync + 'static {
    /// The options of a queue or topic; names match case-insensitively.
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>>;
}

impl EntityRules for Namespace {
    fn options(&self, name: &str) -> Option<Arc<EntityOptions>> {
        Self::options(self, name)
    }
}

/// The decisions of one broker; cheap to clone.
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
    /// What a policy and the rules of entities allow. Tokens end by `clock`, which is the broker's and not the one that
    /// tests of users move: whoever issues tokens knows nothing of such jumps, and an hour's jump would end every
    /// connection.
    #[must_use]
    pub fn new(policy: Policy, entities: Arc<dyn EntityRules>, clock: Arc<dyn Clock>) -> Self {
        Self::with(policy, Some(entities), clock)
    }

    /// Lets everybody do everything: for a broker that only its owner can reach.
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

    /// Another policy from now on; grants that rest on what it does not hold any more don't stand.
    pub fn replace(&self, policy: Policy) {
        *self.0.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        self.notify();
    }

    /// Entities were created, changed or deleted. Those who hold grants hear of it only if a rule that grants were made of is
    /// not what it was: entities come and go while ten thousand connections sleep.
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

    /// The time that tokens end by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Whether anything has to be shown at all.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.policy().required
    }

    /// What a shared access signature or JSON web token allows. `resource` is what it is presented for: the audience given
    /// to `$cbs`, or the target of an HTTP request. The words `SharedAccessSignature` and `Bearer` may stand before it.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn token(&self, token: &str, resource: &Resource, now: Timestamp) -> Result<Grant, Denied> {
        self.counted(self.grant_of_token(token, resource, now))
    }

    /// The rule whose key signed a shared access signature, as it says: nothing is verified.
    #[must_use]
    pub fn claimed_rule(token: &str) -> Option<String> {
        match Token::parse(token).ok()? {
            Token::SharedAccessSignature(signature) => Some(signature.rule),
            Token::JsonWeb(_) => None,
        }
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> AccessMetrics {
        self.0.metrics.clone()
    }

    /// Counts what a front end refused by itself: nothing was presented, or the grant lacks a right.
    pub fn count(&self, denied: &Denied) {
        self.0.metrics.count(denied);
    }

    fn counted(&self, outcome: Result<Grant, Denied>) -> Result<Grant, Denied> {
        outcome.inspect_err(|denied| self.0.metrics.count(denied))
    }

    fn grant_of_token(&self, token: &str, resource: &Resource, now: Timestamp) -> Result<Grant, Denied> {
        let policy = self.policy();
        if !policy.required {
            return Ok(Grant::everything(resource.clone()));
        }
        match Token::parse(token)? {
            Token::SharedAccessSignature(signature) => self.signature(&policy, &signature, resource, now),
            Token::JsonWeb(token) => self.json_web(&policy, token, resource, now),
        }
    }

    /// The rule may be the namespace's or that of the entity, or of the topic if it is a subscription. What is allowed is what
    /// both the signature and the rule are for.
    fn signature(
        &self,
        policy: &Policy,
        token: &SharedAccessSignature<'_>,
        resource: &Resource,
        now: Timestamp,
    ) -> Result<Grant, Denied> {
        let proof = Signed::new(token.resource_encoded, token.expiry, &token.signature);
        let found =
            rules::find(policy, self.entities(), &token.rule, resource, &proof).ok_or(Denied::Signature)?;
        let expires_at = Timestamp(token.expires_at_s.saturating_mul(1000));
        if expires_at <= now {
            return Err(Denied::Expired(expires_at));
        }
        let signed = Resource::of_signed(token.resource_encoded).ok_or(Denied::Audience)?;
        let scope = Scope::of_signature(signed, found.level()).filter(|scope| scope.covers(resource));
        let grant = found.grant(scope.ok_or(Denied::Audience)?, Some(expires_at));
        self.0.used.remember(&grant);
        // A change that came in between was not looked for in what was remembered only now.
        if self.stands(&grant) { Ok(grant) } else { Err(Denied::Signature) }
    }

    /// What a rule of the namespace allows to whoever knows its name and one of its keys (SASL PLAIN).
    ///
    /// # Errors
    /// [`Denied`].
    pub fn password(&self, rule: &str, key: &str) -> Result<Grant, Denied> {
        let policy = self.policy();
        let namespace = Resource::namespace();
        if !policy.required {
            return Ok(Grant::everything(namespace));
        }
        let found = rules::find(&policy, None, rule, &namespace, &PresentedCredential::new(key));
        let found = found.ok_or(Denied::Signature).inspect_err(|denied| self.count(denied))?;
        Ok(found.grant(namespace.into(), None))
    }

    /// What a client certificate allows whose subject was verified (SASL EXTERNAL).
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

    /// Whether what a grant rests on is still so: its rule has the same key and the rights. Does not look at the time.
    #[must_use]
    pub fn stands(&self, grant: &Grant) -> bool {
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

    /// Changes whenever a rule does.
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

    /// Whether `these` allow all that `those` do.
    pub(crate) fn include(these: Rights, those: Rights) -> bool {
        [Right::Listen, Right::Send, Right::Manage]
            .into_iter()
            .all(|right| these.allow(right) || !those.allow(right))
    }
}
