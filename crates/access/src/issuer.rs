//! The keys of an OpenID issuer. The fetching task gets the issuer from here, stores the keys and is notified when one
//! is missing.

use std::sync::{Arc, PoisonError, RwLock};

use peeklock_engine::Timestamp;
use tokio::sync::Notify;

use crate::jwt::{self, JsonWebPolicy};
use crate::{Access, Denied, Grant, KeySet, Policy, Resource};

/// The keys fetched last, with their issuer.
#[derive(Default)]
pub(crate) struct IssuerKeys {
    fetched: RwLock<(Box<str>, Arc<KeySet>)>,
    missed: Notify,
}

impl Access {
    /// The issuer whose keys are to be fetched; `None` if there is none. May change when [`Self::changes`] changes.
    #[must_use]
    pub fn issuer(&self) -> Option<Box<str>> {
        self.policy().json_web.as_ref()?.asked().map(Box::from)
    }

    /// Sets the issuer's keys. Grants of tokens signed with a removed key are no longer valid.
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

    /// Waits until a token was signed with an unknown key, or returns at once if that has happened since the last call.
    pub async fn keys_missed(&self) {
        self.0.issuer.missed.notified().await;
    }

    /// The grant for a JSON web token.
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
            // Keys or roles may have changed during the verification.
            Ok(grant) if !self.is_still_valid(&grant) => Err(Denied::Signature),
            verified => verified,
        }
    }

    /// The keys for verifying tokens; an empty set until they have been fetched.
    pub(crate) fn keys(&self, policy: &JsonWebPolicy) -> Arc<KeySet> {
        if let Some(keys) = &policy.keys {
            return Arc::clone(keys);
        }
        let fetched = self.0.issuer.fetched.read().unwrap_or_else(PoisonError::into_inner);
        let (issuer, keys) = &*fetched;
        if policy.asked() == Some(issuer) { Arc::clone(keys) } else { Arc::default() }
    }
}
