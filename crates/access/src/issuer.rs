//! The keys of an OpenID issuer. The fetching task learns from here which issuer, stores the keys and is notified when one is missing.

use std::sync::{Arc, PoisonError, RwLock};

use peeklock_engine::Timestamp;
use tokio::sync::Notify;

use crate::jwt::{self, JsonWebPolicy};
use crate::{Access, Denied, Grant, KeySet, Policy, Resource};

/// The keys last fetched, with the issuer they are of.
#[derive(Default)]
pub(crate) struct IssuerKeys {
    fetched: RwLock<(Box<str>, Arc<KeySet>)>,
    missed: Notify,
}

impl Access {
    /// The issuer whose keys are to be fetched; `None` if nobody's are. May be another one when [`Self::changes`] says so.
    #[must_use]
    pub fn issuer(&self) -> Option<Box<str>> {
        self.policy().json_web.as_ref()?.asked().map(Box::from)
    }

    /// The issuer's keys from now on. Tokens signed with keys that are gone allow nothing any more.
    pub fn set_issuer_keys(&self, issuer: &str, keys: KeySet) {
        let fetched = (Box::from(issuer), Arc::new(keys));
        let is_new = {
            let mut current = self.0.issuer.fetched.write().unwrap_or_else(PoisonError::into_inner);
            let is_new = *current != fetched;
            *current = fetched;
            is_new
        };
        if is_new {
            self.notify();
        }
    }

    /// Waits until a token was signed with a key that is not known, or has been since the last call.
    pub async fn keys_missed(&self) {
        self.0.issuer.missed.notified().await;
    }

    /// What a JSON web token allows.
    pub(crate) fn json_web(
        &self,
        policy: &Policy,
        token: &str,
        resource: &Resource,
        now: Timestamp,
    ) -> Result<Grant, Denied> {
        let Some(policy) = &policy.json_web else { return Err(Denied::Signature) };
        let verified = jwt::verify(policy, &self.keys(policy), token, resource, now);
        match verified {
            Err(Denied::UnknownKey) if policy.asked().is_none() => Err(Denied::Signature),
            Err(Denied::UnknownKey) => {
                self.0.issuer.missed.notify_one();
                Err(Denied::UnknownKey)
            }
            // Keys or roles that changed in between were not looked at.
            Ok(grant) if !self.stands(&grant) => Err(Denied::Signature),
            verified => verified,
        }
    }

    /// The keys that tokens are verified with; none as long as they have not been fetched.
    pub(crate) fn keys(&self, policy: &JsonWebPolicy) -> Arc<KeySet> {
        if let Some(keys) = &policy.keys {
            return Arc::clone(keys);
        }
        let fetched = self.0.issuer.fetched.read().unwrap_or_else(PoisonError::into_inner);
        let (issuer, keys) = &*fetched;
        if policy.asked() == Some(issuer) { Arc::clone(keys) } else { Arc::default() }
    }
}
